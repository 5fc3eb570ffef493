//! [`Words`]: what one rank has of a map of the layout `Inline`, whose keys are sent by bins and over peer memory.

use std::sync::Arc;

use super::Rank;
use super::p2p::PeerExchange;
use super::reused::CallBuffers;
use super::scatter::OwnPart;
use super::spread::Spread;
use super::step::{Call, Step};
use crate::error::Result;
use crate::input::Source;
use crate::map::{Key, Map, Value};
use crate::primitives::Primitives;
use crate::stream::Stream;

/// The part of a map, and what its calls go through.
pub(super) struct Words<K: Key, V: Value> {
    pub(super) map: Arc<Map<K, V>>,
    pub(super) spread: Spread,
    pub(super) primitives: Arc<Primitives>,
    /// What the buffers below are ordered by: never the link, which is busy while they are worked
    /// on.
    pub(super) stream: Stream,
    pub(super) buffers: CallBuffers<K, V>,
    pub(super) p2p: PeerExchange,
    /// Whether the maps of all ranks have the same seed, so that each knows the bins of all.
    pub(super) alike: bool,
}

impl<K: Key, V: Value> Words<K, V> {
    /// The part that `make` makes, which gets the seed of the owners' hashes. A collective.
    pub fn new(
        rank: &mut Rank,
        owner_seed: Option<u64>,
        make: impl FnOnce(&Rank, &dyn Fn(usize) -> usize, u64) -> Result<Map<K, V>>,
    ) -> Result<Self> {
        let new = Step::New {
            key: size_of::<K>(),
            value: size_of::<V>(),
        };
        let mut made = Spread::make(rank, new, owner_seed, |rank, spread, hash_seed| {
            let share = |pairs| spread.owners.share(pairs);
            Ok(Self {
                map: Arc::new(make(rank, &share, hash_seed)?),
                spread,
                primitives: Arc::new(Primitives::new(rank.device())),
                stream: Stream::of_calls(rank.device())?,
                buffers: CallBuffers::default(),
                p2p: PeerExchange::default(),
                alike: false,
            })
        })?;
        let mine = made.map.inline().seed();
        made.alike = rank.gather(&[mine])?.iter().all(|&seed| seed == mine);
        Ok(made)
    }

    /// Keeps the pairs whose key is in the batch of any rank. Returns how many others there were.
    pub fn retain_keys(&mut self, rank: &mut Rank, keys: Source<'_, K>) -> Result<usize> {
        self.spread.together(rank, Call::RetainKeys, || Ok(()))?;
        self.scatter(rank, keys, None, OwnPart::WithAll, |core, keys, _| {
            core.retain_keys(keys.into())
        })
    }

    /// Frees the buffers that calls went through.
    pub fn trim(&mut self) {
        self.buffers = CallBuffers::default();
        self.p2p.trim();
        self.map.trim();
    }
}
