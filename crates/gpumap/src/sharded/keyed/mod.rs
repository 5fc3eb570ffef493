//! [`Keyed`]: what the shards of maps with keys of any width have in common, which are those of row maps and of wide maps.
//!
//! It says which rank owns a key, and brings [batches](exchange) to the owners and answers back. What a rank does with the keys that
//! come to it is its [`Part`].

mod exchange;

use bytemuck::Pod;
use gpumap_kernels::rows::{hash, owner_hash};
use parking_lot::Mutex;

use self::exchange::Buffers;
use super::Rank;
use super::error::GroupError;
use super::spread::Spread;
use super::step::{Call, Step};
use crate::device::Device;
use crate::error::{Error, Result};
pub(super) use crate::map::Ready;
use crate::map::{Arrays, Batch, Value, random_seed};
use crate::primitives::Primitives;
use crate::scratch::ScratchPool;
use crate::stream::Stream;

/// Has each rank do its part of a call, after all ranks are ready for theirs. `work` may return without calling what it gets, if there
/// is nothing to change. An error that one rank has before that is one of all ranks, and none changes anything; one after that is in
/// the result, and the other ranks do not know of it. A collective.
pub(super) fn all_or_none<T>(
    rank: &mut Rank,
    work: impl FnOnce(Ready<'_>) -> Result<T>,
) -> Result<Result<T>> {
    let mut is_agreed = None;
    let done = work(&mut || {
        let agreed = rank.together(Ok(()));
        is_agreed = Some(agreed.is_ok());
        agreed
    });
    match is_agreed {
        Some(true) => Ok(done),
        // All have that error, or one like it.
        Some(false) => done.map(Ok),
        None => rank.together(done).map(Ok),
    }
}

/// A rank's part of a map, for batches that have come to their owners.
pub(super) trait Part<A> {
    /// Scratch memory of calls.
    fn scratch(&self) -> &ScratchPool;

    /// Runs an operation on keys, values and outputs of the device. One that changes the map calls `ready` first, at most once, when
    /// nothing can be refused any more, and changes nothing if that fails. After an error, or if nothing changes, it may not call it.
    /// Returns what the operation counts.
    fn run(&self, batch: &Batch<'_>, outputs: Arrays<'_>, ready: Ready<'_>) -> Result<usize>;

    /// Queues putting answers where they belong.
    ///
    /// # Safety
    /// Places are below the length of the outputs, which are for answers of this part; all of it lives until what is queued has ended.
    unsafe fn put_back(&self, stream: &Stream, answers: Returned<A>) -> Result<()>;
}

/// Answers of one rank to keys of another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Returned<A> {
    /// For each answer the place of its key in the batch.
    pub places: *const u32,
    /// How many answers there are.
    pub n: usize,
    /// The rank that they come from.
    pub rank: u32,
    /// Values and flags; null where they are not wanted.
    pub values: *const A,
    pub flags: *const u8,
    /// What goes to the values where flags are 0, as bits; none if values are as they come.
    pub default: Option<u64>,
    /// Where they go; null where they are not wanted.
    pub out_values: *mut u8,
    pub out_flags: *mut u8,
}

/// The owners of the keys `K` of a map over a group, and what takes batches to them: with values `V`, and with values `A` in the
/// answers.
pub(super) struct Keyed<K, V, A> {
    pub spread: Spread,
    primitives: Primitives,
    /// What the buffers are ordered by.
    stream: Stream,
    buffers: Mutex<Buffers<K, V, A>>,
}

impl<K: Pod, V: Value, A: Pod> Keyed<K, V, A> {
    /// That of a new map, and the part of it that `make` makes for this rank: it is told the room that one rank needs for its share of
    /// some number of pairs. The seed is that of the owners; without one, rank 0 draws it. A collective.
    pub fn new<P>(
        rank: &mut Rank,
        step: Step,
        owner_seed: Option<u64>,
        make: impl FnOnce(&Device, &dyn Fn(usize) -> usize) -> Result<P>,
    ) -> Result<(Self, P)> {
        Spread::make(rank, step, owner_seed, |rank, spread, _| {
            let part = make(rank.device(), &|pairs| spread.owners.share(pairs))?;
            let keyed = Self {
                spread,
                primitives: Primitives::new(rank.device()),
                stream: Stream::of_calls(rank.device())?,
                buffers: Mutex::default(),
            };
            Ok((keyed, part))
        })
    }

    /// The rank that has a key, if any rank has it.
    pub fn owner(&self, key: &K) -> usize {
        let hash = hash(bytemuck::bytes_of(key), self.spread.seed);
        self.spread.owners.of(owner_hash(hash))
    }

    /// A number that rank 0 draws for a call. A collective.
    pub fn draw(&self, rank: &mut Rank, call: Call) -> Result<u64> {
        let mine = self.spread.of_this_group(rank, Ok([random_seed()]));
        let [drawn] = rank.agree_at(self.spread.step(call), mine)?[0];
        Ok(drawn)
    }

    /// Has each rank change its own part, if all are [ready](all_or_none). A collective.
    pub fn change_own<T>(
        &self,
        rank: &mut Rank,
        call: Call,
        change: impl FnOnce(Ready<'_>) -> Result<T>,
    ) -> Result<Result<T>> {
        self.spread.together(rank, call, || Ok(()))?;
        all_or_none(rank, change)
    }

    /// Frees the buffers that calls went through, unless one is using them.
    pub fn trim(&self) {
        // A call holds them while it waits for the other ranks, of which this thread may be one.
        let idle = self.buffers.try_lock();
        drop(idle.map(|mut buffers| std::mem::take(&mut *buffers)));
    }

    /// Lets the other ranks know that this one cannot take part in an operation.
    pub fn refuse<T>(&self, rank: &mut Rank, call: Call, error: Error) -> Result<T> {
        self.agree(rank, call, Err(error))?;
        Err(GroupError::OutOfStep.into())
    }
}
