//! Row maps over several devices: [`ShardedRowMap`], and the [`RowShard`] of each rank.

mod map;
mod part;
mod persist;
mod place;

use std::fmt;

use bytemuck::Pod;

pub use map::ShardedRowMap;
pub use place::ShardRow;

use super::Rank;
use super::keyed::{Keyed, Ready};
use super::step::{Call, Step};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Input;
use crate::map::{Arrays, Batch, Kind, Operands};
use crate::memory::{host_collect, host_zeroed};
use crate::output::Output;
use crate::rows::{RowMap, RowMapBuilder};

/// One rank's part of a row map that is spread over a group.
///
/// | group | operations |
/// |---|---|
/// | Create | [`new`](Self::new), [`with_capacity`](Self::with_capacity), [`with`](Self::with) |
/// | Insert | [`insert`](Self::insert), [`insert_into`](Self::insert_into), [`insert_with_outcome_into`](Self::insert_with_outcome_into) |
/// | Look up | [`get`](Self::get), [`get_into`](Self::get_into) |
/// | Remove | [`remove`](Self::remove), [`clear`](Self::clear) |
/// | Make rows dense | [`compact`](Self::compact), [`compact_into`](Self::compact_into) |
/// | Save and load | [`save`](Self::save), [`load`](Self::load) |
/// | Parts of the map | [`local`](Self::local), [`owner`](Self::owner) |
/// | Size and memory | [`len`](Self::len), [`is_empty`](Self::is_empty), [`reserve`](Self::reserve), [`trim`](Self::trim) |
///
/// Its verbs are *collectives*: every rank of the group calls them in the same order, each with a batch of its own, which may be
/// empty. Batches and outputs are of the host or of the rank's device. Keys and rows of this rank are in [`local`](Self::local).
///
/// ```
/// use gpumap::sharded::{Ranks, RowShard, devices};
///
/// let ranks = Ranks::new(&devices("cpu,cpu")?)?;
/// ranks.run(|rank| {
///     let shard = RowShard::<u128>::new(rank)?;
///     // Both bring the same three keys.
///     let places = shard.insert(rank, &[7 << 100, 8, 9])?;
///     assert_eq!(shard.len(rank)?, 3);
///     assert_eq!(shard.get(rank, &[8, 10])?, [Some(places[1]), None]);
///     // Rows of each rank count from 0: here is a value for each key that this rank owns.
///     let values = vec![0.0; shard.local().row_bound()];
///     assert_eq!(values.len(), shard.local().len());
///     Ok(())
/// })?;
/// # Ok::<(), gpumap::Error>(())
/// ```
pub struct RowShard<K: Pod> {
    rows: RowMap<K>,
    /// No values come with the keys, and answers are rows.
    keyed: Keyed<K, (), u32>,
}

/// # Create
impl<K: Pod> RowShard<K> {
    /// An empty map over the group. A collective.
    ///
    /// # Errors
    /// As for [`RowMap::new`]; [`Error::Group`].
    pub fn new(rank: &mut Rank) -> Result<Self> {
        Self::with(rank, None, |builder, _| builder)
    }

    /// A map with room for so many rows over the whole group. A collective.
    ///
    /// # Errors
    /// As for [`RowMap::with_capacity`]; [`Error::Group`].
    pub fn with_capacity(rank: &mut Rank, rows: usize) -> Result<Self> {
        Self::with(rank, None, |builder, share| builder.capacity(share(rows)))
    }

    /// A map with settings: `configure` gets the builder of this rank's part, and what makes of a number of rows of the whole group
    /// the room that one rank needs for its share. The seed is that of the owners; without one, rank 0 draws it. A collective.
    ///
    /// # Errors
    /// As for [`RowMapBuilder::build`]; [`Error::Group`].
    pub fn with(
        rank: &mut Rank,
        owner_seed: Option<u64>,
        configure: impl FnOnce(RowMapBuilder<K>, &dyn Fn(usize) -> usize) -> RowMapBuilder<K>,
    ) -> Result<Self> {
        let new = Step::NewRows {
            key: size_of::<K>(),
        };
        let (keyed, rows) = Keyed::new(rank, new, owner_seed, |device, share| {
            configure(RowMap::builder(device), share).build()
        })?;
        Ok(Self { rows, keyed })
    }
}

/// # Parts of the map
impl<K: Pod> RowShard<K> {
    /// The keys that this rank has, and their rows. Operations on it concern them alone; keys that are inserted in it directly may be
    /// another rank's, and are then not found.
    pub fn local(&self) -> &RowMap<K> {
        &self.rows
    }

    /// The rank that has a key, if any rank has it.
    pub fn owner(&self, key: K) -> usize {
        self.keyed.owner(&key)
    }
}

/// # Insert
impl<K: Pod> RowShard<K> {
    /// The place of each key of this rank's batch. Keys that are absent get the next rows of their owners, in the order of the ranks
    /// that bring them and of their first occurrences there. A collective.
    ///
    /// # Errors
    /// As for [`RowMap::insert`], of any rank, and [`Error::Group`]. What one rank refuses, all do: then no rank has a new key. After
    /// [`Error::Driver`] some may have stored theirs.
    pub fn insert(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
    ) -> Result<Vec<ShardRow>> {
        let made = host_zeroed(keys.source().len());
        let mut places = self.made(rank, Kind::Insert, made)?;
        self.insert_into(rank, keys, &mut places)?;
        Ok(places)
    }

    /// As [`insert`](Self::insert), into memory of the host or of the rank's device. Returns how many keys were new, of all ranks
    /// together. A collective.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if there are fewer places than keys; else as for [`insert`](Self::insert).
    pub fn insert_into(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        places: &mut (impl Output<ShardRow> + ?Sized),
    ) -> Result<usize> {
        let outputs = [Some(places.sink().into()), None];
        self.run(rank, Kind::Insert, keys, outputs)
    }

    /// As [`insert_into`](Self::insert_into), and says which keys were new: `new[i]` is 1 at the first occurrence of a key that was
    /// absent, in the order of [`insert`](Self::insert), and 0 everywhere else. A collective.
    ///
    /// # Errors
    /// As for [`insert_into`](Self::insert_into).
    pub fn insert_with_outcome_into(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        places: &mut (impl Output<ShardRow> + ?Sized),
        new: &mut (impl Output<u8> + ?Sized),
    ) -> Result<usize> {
        let outputs = [Some(places.sink().into()), Some(new.sink().into())];
        self.run(rank, Kind::Insert, keys, outputs)
    }
}

/// # Look up
impl<K: Pod> RowShard<K> {
    /// The place of each key of this rank's batch, or none. A collective.
    ///
    /// # Errors
    /// As for [`RowMap::get`], of any rank, and [`Error::Group`].
    pub fn get(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
    ) -> Result<Vec<Option<ShardRow>>> {
        let made = host_zeroed(keys.source().len());
        let mut places = self.made(rank, Kind::Get, made)?;
        self.get_into(rank, keys, &mut places)?;
        present(places)
    }

    /// As [`get`](Self::get), into memory of the host or of the rank's device, with [`ShardRow::NONE`] where a key is absent. A
    /// collective.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if there are fewer places than keys; else as for [`get`](Self::get).
    pub fn get_into(
        &self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        places: &mut (impl Output<ShardRow> + ?Sized),
    ) -> Result<()> {
        let outputs = [Some(places.sink().into()), None];
        self.run(rank, Kind::Get, keys, outputs).map(drop)
    }
}

/// # Remove
impl<K: Pod> RowShard<K> {
    /// Removes keys, as [`RowMap::remove`] does. Returns how many were present, of all ranks together. A collective.
    ///
    /// # Errors
    /// As for [`RowMap::remove`], of any rank, and [`Error::Group`]. What one rank refuses, all do: then all keys are there. After
    /// [`Error::Driver`] some ranks may have removed theirs.
    pub fn remove(&self, rank: &mut Rank, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        self.run(rank, Kind::Remove, keys, [None, None])
    }

    /// Removes all keys of all ranks. A collective.
    ///
    /// # Errors
    /// As for [`RowMap::clear`], of any rank, and [`Error::Group`].
    pub fn clear(&self, rank: &mut Rank) -> Result<()> {
        self.keyed
            .spread
            .together(rank, Call::Clear, || self.rows.clear())
    }
}

/// # Make rows dense
impl<K: Pod> RowShard<K> {
    /// Makes the rows of each rank dense, as [`RowMap::compact`] does. Returns the rows that the keys of this rank had. A collective.
    ///
    /// # Errors
    /// As for [`RowMap::compact`], of any rank, and [`Error::Group`]: no rank has other rows than before.
    pub fn compact(&self, rank: &mut Rank) -> Result<Vec<u32>> {
        let compact = |ready: Ready<'_>| self.rows.core().compact(ready);
        self.keyed.change_own(rank, Call::Compact, compact)?
    }

    /// As [`compact`](Self::compact), into memory of the host or of the rank's device. Returns how many rows this rank has. A
    /// collective.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if there are fewer places than keys of this rank; else as for [`compact`](Self::compact).
    pub fn compact_into(
        &self,
        rank: &mut Rank,
        old: &mut (impl Output<u32> + ?Sized),
    ) -> Result<usize> {
        let compact = |ready: Ready<'_>| self.rows.core().compact_into(old.sink(), ready);
        self.keyed.change_own(rank, Call::Compact, compact)?
    }
}

/// # Size and memory
impl<K: Pod> RowShard<K> {
    /// How many keys all ranks have together. A collective.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn len(&self, rank: &mut Rank) -> Result<usize> {
        self.keyed.spread.len(rank, self.rows.len())
    }

    /// Whether no rank has any key. A collective.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn is_empty(&self, rank: &mut Rank) -> Result<bool> {
        self.len(rank).map(|len| len == 0)
    }

    /// Makes room for so many rows more, over the whole group. A collective.
    ///
    /// # Errors
    /// As for [`RowMap::reserve`], of any rank, which leaves the room that other ranks have made, and [`Error::Group`].
    pub fn reserve(&self, rank: &mut Rank, more: usize) -> Result<()> {
        let spread = &self.keyed.spread;
        let share = spread.owners.share(more);
        spread.together(rank, Call::Reserve, || self.rows.reserve(share))
    }

    /// Gives back the memory that the rows of each rank do not need. A collective.
    ///
    /// # Errors
    /// As for [`RowMap::shrink_to_fit`], of any rank, which leaves the others smaller, and [`Error::Group`].
    pub fn shrink_to_fit(&self, rank: &mut Rank) -> Result<()> {
        let spread = &self.keyed.spread;
        spread.together(rank, Call::ShrinkToFit, || self.rows.shrink_to_fit())
    }

    /// Frees the buffers that calls went through, unless one is using them. Later ones allocate them again as they need them.
    pub fn trim(&self) {
        self.keyed.trim();
        self.rows.trim();
    }

    /// Runs an operation on the keys of all ranks: `Insert`, `Get` or `Remove`. Outputs are places and flags of new keys. Returns what
    /// it counts on all ranks. A collective.
    fn run(
        &self,
        rank: &mut Rank,
        kind: Kind,
        keys: &(impl Input<K> + ?Sized),
        outputs: Arrays<'_>,
    ) -> Result<usize> {
        let batch = Batch {
            kind,
            keys: keys.source().into(),
            values: Operands::NONE,
            default: 0,
        };
        self.keyed
            .run(rank, self.rows.core(), &batch, outputs, Ok(()))
    }

    /// What this rank has made for a call, or an error of all.
    fn made<T>(&self, rank: &mut Rank, kind: Kind, made: Result<T>) -> Result<T> {
        match made {
            Ok(made) => Ok(made),
            Err(error) => {
                let told = [kind != Kind::Remove, false];
                self.keyed.refuse(rank, Call::Run { kind, told }, error)
            }
        }
    }
}

/// Places, with none for those of absent keys.
fn present(places: Vec<ShardRow>) -> Result<Vec<Option<ShardRow>>> {
    let there = |place: ShardRow| (!place.is_none()).then_some(place);
    host_collect(places.into_iter().map(there))
}

impl<K: Pod> fmt::Debug for RowShard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowShard")
            .field("rows", &self.rows)
            .field("owners", &self.keyed.spread.owners)
            .finish_non_exhaustive()
    }
}
