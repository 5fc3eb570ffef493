//! [`Seats`]: the parts of all ranks of a map that one process drives, and the calls that come to them.

use std::slice;

use bytemuck::Pod;

use super::error::GroupError;
use super::exchange::of_all;
use super::host_chunks::{BatchParts, chunk};
use super::{Rank, Ranks};
use crate::error::Result;
use crate::lock::{Lock, ReadGuard, WriteGuard};
use crate::map::{Batch, Outputs, Receiver};
use crate::op::Op;

/// The part of a rank.
pub trait Seat: Send + Sync {
    /// An error if this thread runs a callback of it, during which the rank could not change it.
    fn expect_no_callback(&self) -> Result<()>;

    /// An error if this thread runs a callback of it during which the rank could not even look at it.
    fn expect_others(&self) -> Result<()>;
}

/// The parts, in the order of the ranks.
#[derive(Debug)]
pub struct Seats<S> {
    ranks: Ranks,
    seats: Vec<S>,
    /// Held by each call; alone by one that changes what the ranks have, or may: it holds all ranks until they agree, so it must
    /// not come to them while a callback keeps one of them as it is.
    calls: Lock<()>,
}

impl<S: Seat> Seats<S> {
    /// Those that the ranks make.
    pub fn new(ranks: &Ranks, make: impl Fn(&mut Rank) -> Result<S> + Sync) -> Result<Self> {
        Ok(Self {
            seats: ranks.run(make)?,
            ranks: ranks.clone(),
            calls: Lock::new(()),
        })
    }

    /// The group.
    pub fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    pub fn iter(&self) -> slice::Iter<'_, S> {
        self.seats.iter()
    }

    /// That of a rank; [`GroupError::NoSuchRank`] if there is none.
    pub fn at(&self, rank: usize) -> Result<&S> {
        let ranks = self.seats.len();
        let seat = self.seats.get(rank);
        Ok(seat.ok_or(GroupError::NoSuchRank { rank, ranks })?)
    }

    /// The rank that has a key, as each of them says.
    pub fn owner(&self, of: impl FnOnce(&S) -> usize) -> usize {
        // A group has one rank at least.
        self.seats.first().map_or(0, of)
    }

    /// A number of each.
    pub fn each(&self, of: impl Fn(&S) -> usize) -> Vec<usize> {
        self.iter().map(of).collect()
    }

    /// Holds the calls alone.
    ///
    /// # Errors
    /// [`GroupError::Nested`] in work of the group, [`Error::Nested`](crate::Error::Nested) in a callback.
    pub(super) fn alone(&self) -> Result<WriteGuard<'_, ()>> {
        let _turn = self.ranks.turn()?;
        self.iter().try_for_each(S::expect_no_callback)?;
        self.calls.write()
    }

    /// Holds the calls beside others that change nothing.
    ///
    /// # Errors
    /// [`GroupError::Nested`] in work of the group.
    pub(super) fn shared(&self) -> Result<ReadGuard<'_, ()>> {
        let _turn = self.ranks.turn()?;
        self.iter().try_for_each(S::expect_others)?;
        Ok(self.calls.read())
    }

    /// The same, for a call that runs callbacks; see [`Lock::read_in_turn`].
    pub(super) fn shared_in_turn(&self) -> Result<ReadGuard<'_, ()>> {
        let _turn = self.ranks.turn()?;
        self.iter().try_for_each(S::expect_others)?;
        Ok(self.calls.read_in_turn())
    }

    /// Runs work on every rank with its part, as a call that may change it.
    pub fn run<R: Send>(&self, work: impl Fn(&mut Rank, &S) -> Result<R> + Sync) -> Result<Vec<R>> {
        let _alone = self.alone()?;
        self.run_held(work)
    }

    /// The same, as a call that changes nothing.
    pub fn look<R: Send>(
        &self,
        work: impl Fn(&mut Rank, &S) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let _shared = self.shared()?;
        self.run_held(work)
    }

    /// The same, for callers that hold the calls.
    pub fn run_held<R: Send>(
        &self,
        work: impl Fn(&mut Rank, &S) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        self.ranks.run(|rank| work(rank, &self.seats[rank.index()]))
    }

    /// Has each rank do its part of a batch, of which it takes a chunk, for callers that hold the calls. Returns the count of all
    /// ranks, which each of them returns.
    pub fn split<K: Sync>(
        &self,
        keys: &[K],
        work: impl Fn(&mut Rank, &S, &[K]) -> Result<usize> + Sync,
    ) -> Result<usize> {
        let counts = self.run_held(|rank, seat| {
            let part = chunk(keys.len(), rank.index(), rank.ranks());
            work(rank, seat, &keys[part])
        })?;
        Ok(of_all(counts))
    }

    /// Has `run` do an operation on the ranks, of which each takes a chunk of the arrays.
    pub(super) fn execute<K: Pod, V, A>(
        &self,
        by: Receiver,
        op: Op<'_, K, V, A>,
        run: impl Fn(&mut Rank, &S, Batch<'_>, Outputs<'_>) -> Result<usize> + Sync,
    ) -> Result<A> {
        op.run(by, |batch, outputs| {
            let changes = batch.kind.changes();
            let parts = BatchParts::of(*batch, outputs, self.ranks.len(), by)?;
            let work = |rank: &mut Rank, seat: &S| match parts.take(rank.index()) {
                Some((batch, outputs)) => run(rank, seat, batch, outputs),
                None => Ok(0),
            };
            let counts = match changes {
                true => self.run(work),
                false => self.look(work),
            }?;
            Ok(of_all(counts))
        })
    }
}
