//! [`PeerExchange`]: large batches that a kernel writes straight into the memory of the ranks that own their keys.
//!
//! Where all ranks have each other's memory mapped, a batch needs no buffers to be exchanged: the
//! kernel that partitions it writes each key to its owner's receive buffer, and that which looks keys up
//! writes each answer to the requesting rank ([`gpumap_kernels::p2p`]). What comes is sorted by the
//! region of the table that it belongs to, so that lookups find their slabs in the L2, and pages are
//! made from it as it is.
//!
//! | step | |
//! |---|---|
//! | [`negotiate`](Shard::negotiate) | all ranks exchange what they have and what they have room for, and make the same decision |
//! | [`send`](Shard::send) | each partitions its batch into the receive buffers; then all exchange how many keys went where |
//! | [`fetch`](Shard::fetch) | of inserts that make pages: each has partitioned into its own memory, its *send buffer*, and copies what is for it from those of the others |
//! | work | each works on what came; pages are made while the rest is on its way |
//! | collect | of lookups: when all have answered, each puts the answers in the order of its batch |
//!
//! Everything else goes through the all-to-all exchange over the [`Transport`](super::Transport):
//! small batches, batches of which few ranks have most, maps that might have to grow, ranks in
//! several processes; and batches of which some bin runs over, for which all ranks have to see that
//! before any rank uses what was sent.
//!
//! Invariant: between two meetings of the ranks, a place of a receive buffer is written by one rank, or
//! read by its own; and a place of a send buffer is written by its own rank, or read by one.

mod agreement;
mod answer;
mod fetch;
mod send;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::Rank;
use super::error::GroupError;
use super::reused::Reused;
use super::step::Call;
use super::transport::Window;
use super::words::Words;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::map::{Key, Pair, Value};
use crate::stream::Stream;
use agreement::{Agreement, Capabilities};
use send::Session;

/// Batches that go through the all-to-all exchange after one whose keys did not fit their bins: the next ones are
/// likely to be of the same kind.
const PAUSE: u32 = 15;

/// Those after one for which there was no memory: to request it takes longer than to do without.
const LONG_PAUSE: u32 = 1_000;

/// The receive buffers of a shard's group, as this rank reaches them.
#[derive(Debug, Default)]
pub(super) struct PeerExchange {
    window: Option<Window>,
    /// Batches that still go through the all-to-all exchange.
    pause: u32,
    /// Where the answer of each key will be.
    places: Reused<u32>,
    /// What is fetched from other ranks is in the order of this stream.
    link: Option<Stream>,
}

impl PeerExchange {
    /// Words of this rank's receive buffer.
    fn words(&self, rank: &Rank) -> usize {
        let window = self.window.as_ref();
        let mine = window.and_then(|window| window.parts.get(rank.index()));
        mine.map_or(0, |mine| mine.len())
    }

    /// The stream that bins are fetched on, of the device of another one.
    fn link(&mut self, other: &Stream) -> Result<Stream> {
        let link = match self.link.take() {
            Some(link) => link,
            None => Stream::of_calls(other.device())?,
        };
        Ok(self.link.insert(link).clone())
    }

    /// Frees the memory, of the receive buffer when no rank has it mapped any more.
    pub(super) fn trim(&mut self) {
        self.window = None;
        self.places = Reused::default();
    }
}

impl<K: Key, V: Value> Words<K, V> {
    /// Whether and how a batch is sent straight to the owners of its keys, of which this rank has
    /// `mine`, or an error. Those that are stored may all need room; those that are absent get `default`. A collective: all make
    /// the same decision; and all get an error if some make another call, or one on another shard.
    pub(super) fn negotiate(
        &mut self,
        rank: &mut Rank,
        call: Call,
        mine: Result<usize>,
        default: u64,
    ) -> Result<Option<Session>> {
        let stores = call.stores();
        let mine = self.spread.of_this_group(rank, mine);
        let waits = self.p2p.pause > 0;
        self.p2p.pause = self.p2p.pause.saturating_sub(1);
        let maps = rank.transport().has_windows();
        let send_kernels = mine
            .as_ref()
            .ok()
            .and_then(|&len| self.map.inline().send_kernels(len));
        let can = self.alike && maps && !waits && send_kernels.is_some();
        let room = match stores {
            Some(_) => self.map.inline().room_left() as u64,
            None => u64::MAX,
        };
        let words = self.p2p.words(rank) as u64;
        let own = mine.map(|len| {
            let makes = stores.is_some_and(|verb| self.map.inline().would_make_pages(verb, len));
            let (len, can, makes) = (len as u64, u64::from(can), u64::from(makes));
            [len, can, room, words, makes, default]
        });
        let all = rank.agree_at(self.spread.step(call), own)?;
        let capability = |&[keys, can, room, words, makes, default]: &[u64; 6]| Capabilities {
            keys,
            can: can != 0,
            room,
            words,
            makes: makes != 0,
            default,
        };
        let capabilities: Vec<Capabilities> = all.iter().map(capability).collect();
        let agreement = Agreement::of(&capabilities, rank.index(), |keys| {
            self.spread.owners.share(keys)
        });
        // Where this rank cannot send, there is no agreement either.
        let (Some(agreement), Some(send_kernels)) = (agreement, send_kernels) else {
            return Ok(None);
        };
        let words = agreement.words(size_of::<K>() + size_of::<V>());
        let enough = capabilities
            .iter()
            .all(|capability| capability.words >= words as u64);
        let window = match self.p2p.window.clone().filter(|_| enough) {
            Some(window) => Some(window),
            None => self.map_receive_buffers(rank, words)?,
        };
        Ok(window.map(|window| Session {
            pair: Pair::of::<K, V>(),
            agreement,
            send_kernels,
            boxes: window.addresses(),
            _window: window,
        }))
    }

    /// Makes receive buffers of so many words and maps those of all; none if that cannot be done. A
    /// collective.
    fn map_receive_buffers(&mut self, rank: &mut Rank, words: usize) -> Result<Option<Window>> {
        self.p2p.trim();
        // This shard's old ones are gone when all have come here.
        rank.barrier()?;
        let (mine, there) = match self.receive_buffer(words) {
            Ok(mine) => {
                let there = u64::from(mine.is_some());
                (mine, Ok([there]))
            }
            Err(error) => (None, Err(error)),
        };
        let there = rank.agree(there)?;
        let (Some(mine), false) = (mine, there.contains(&[0])) else {
            self.p2p.pause = LONG_PAUSE;
            return Ok(None);
        };
        let window = rank.transport().window(Arc::new(mine))?;
        if window.lens().any(|len| len < words) {
            // A rank has come for another window.
            return Err(Error::Group(GroupError::OutOfStep));
        }
        self.p2p.window = Some(window.clone());
        Ok(Some(window))
    }

    /// Memory for a receive buffer of so many words, that others may write to; none if there is not as
    /// much.
    fn receive_buffer(&self, words: usize) -> Result<Option<Buffer<u64>>> {
        for len in [words + words / 16, words] {
            match Buffer::unwritten(&self.stream, len) {
                Ok(mut receive_buffer) => {
                    if self.map.inline().zeroes_bins() {
                        receive_buffer.fill_bytes(0)?;
                    }
                    self.stream.synchronize()?;
                    return Ok(Some(receive_buffer));
                }
                // The room to spare is not worth it.
                Err(Error::OutOfMemory { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}
