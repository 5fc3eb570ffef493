//! [`Seats`]: the parts of all ranks of a map that one process drives, and the calls that come to them.

use std::slice;

use bytemuck::Pod;
use parking_lot::{RwLock, RwLockWriteGuard};

use super::error::GroupError;
use super::exchange::of_all;
use super::host_chunks::{BatchParts, chunk};
use super::{Rank, Ranks};
use crate::error::Result;
use crate::map::{Batch, Outputs, Receiver};
use crate::op::Op;

/// The parts, in the order of the ranks.
#[derive(Debug)]
pub(super) struct Seats<S> {
    ranks: Ranks,
    seats: Vec<S>,
    /// Held by each call; alone by one during which no other may come to the ranks.
    calls: RwLock<()>,
}

impl<S: Send + Sync> Seats<S> {
    /// Those that the ranks make.
    pub fn new(ranks: &Ranks, make: impl Fn(&mut Rank) -> Result<S> + Sync) -> Result<Self> {
        Ok(Self {
            seats: ranks.run(make)?,
            ranks: ranks.clone(),
            calls: RwLock::new(()),
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
    pub fn alone(&self) -> Result<RwLockWriteGuard<'_, ()>> {
        let _turn = self.ranks.turn()?;
        Ok(self.calls.write())
    }

    /// Runs work on every rank with its part, as a call.
    pub fn run<R: Send>(&self, work: impl Fn(&mut Rank, &S) -> Result<R> + Sync) -> Result<Vec<R>> {
        let _shared = {
            let _turn = self.ranks.turn()?;
            self.calls.read()
        };
        self.run_held(work)
    }

    /// The same, for callers that hold the calls.
    pub fn run_held<R: Send>(
        &self,
        work: impl Fn(&mut Rank, &S) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        self.ranks.run(|rank| work(rank, &self.seats[rank.index()]))
    }

    /// Has each rank do its part of a batch, of which it takes a chunk. Returns the count of all ranks, which each of them returns.
    pub fn split<K: Sync>(
        &self,
        keys: &[K],
        work: impl Fn(&mut Rank, &S, &[K]) -> Result<usize> + Sync,
    ) -> Result<usize> {
        let counts = self.run(|rank, seat| {
            let part = chunk(keys.len(), rank.index(), rank.ranks());
            work(rank, seat, &keys[part])
        })?;
        Ok(of_all(counts))
    }

    /// Has `run` do an operation on the ranks, of which each takes a chunk of the arrays.
    pub fn execute<K: Pod, V, A>(
        &self,
        by: Receiver,
        op: Op<'_, K, V, A>,
        run: impl Fn(&mut Rank, &S, Batch<'_>, Outputs<'_>) -> Result<usize> + Sync,
    ) -> Result<A> {
        op.run(by, |batch, outputs| {
            let parts = BatchParts::of(batch, outputs, self.ranks.len(), by)?;
            let counts = self.run(|rank, seat| match parts.take(rank.index()) {
                Some((batch, outputs)) => run(rank, seat, batch, outputs),
                None => Ok(0),
            })?;
            Ok(of_all(counts))
        })
    }
}
