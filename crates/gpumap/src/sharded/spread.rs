//! [`Spread`]: which rank owns which keys of a map, and what its shards meet under.

use bytemuck::Pod;
use gpumap_kernels::rows::{hash, owner_hash};

use super::Rank;
use super::error::GroupError;
use super::exchange::total_at;
use super::owner::Owners;
use super::step::{Call, Step};
use crate::error::{Error, Result};
use crate::map::{Layout, bits, random_seed};

/// What the shards of one map have in common on all ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub owners: Owners,
    /// What the owners follow from.
    pub seed: u64,
    /// What rank 0 drew for this map: that of no other one.
    id: u64,
}

impl Spread {
    /// Has each rank make its part of a new map, which is an error of all ranks if it is one of any. The seed is that of the owners;
    /// without one, rank 0 draws it. `make` also gets a second seed that rank 0 drew. A collective.
    pub fn make<P>(
        rank: &mut Rank,
        step: Step,
        owner_seed: Option<u64>,
        make: impl FnOnce(&Rank, Self, u64) -> Result<P>,
    ) -> Result<P> {
        let drawn = [
            owner_seed.unwrap_or_else(random_seed),
            random_seed(),
            random_seed(),
        ];
        let [seed, second_seed, id] = rank.agree_at(step, Ok(drawn))?[0];
        let owners = Owners::new(rank.ranks(), seed);
        let made = owners.and_then(|owners| make(rank, Self { owners, seed, id }, second_seed));
        rank.together(made)
    }

    /// The rank that owns a key of a map. Row maps have [others](super::keyed::Keyed::owner) for keys of 4 and 8 bytes.
    pub fn owner_of<K: Pod>(&self, key: &K) -> usize {
        match Layout::of::<K, ()>() {
            Layout::Rows => {
                let hash = hash(bytemuck::bytes_of(key), self.seed);
                self.owners.of(owner_hash(hash))
            }
            // The hash of a word is that of its width.
            _ if size_of::<K>() == size_of::<u32>() => self.owners.of(bits(*key) as u32),
            _ => self.owners.of(bits(*key)),
        }
    }

    /// The step of a meeting that begins a call.
    pub fn step(&self, call: Call) -> Step {
        Step::Shard {
            id: self.id,
            call: call.code(),
        }
    }

    /// What this rank brings to a meeting, or an error if that is of another group.
    pub fn of_this_group<T>(&self, rank: &Rank, mine: Result<T>) -> Result<T> {
        mine.and_then(|mine| match self.owners.ranks() == rank.ranks() {
            true => Ok(mine),
            false => Err(Error::Group(GroupError::OutOfStep)),
        })
    }

    /// Has each rank do its part of a call, which is an error of all ranks if it is one of any. A collective.
    pub fn together<T>(
        &self,
        rank: &mut Rank,
        call: Call,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let done = self.of_this_group(rank, Ok(())).and_then(|()| work());
        rank.together_at(self.step(call), done)
    }

    /// The sum of the lengths that ranks have. A collective.
    pub fn len(&self, rank: &mut Rank, mine: usize) -> Result<usize> {
        total_at(rank, self.step(Call::Len), Ok(mine))
    }
}
