//! Removing by predicate.

use gpumap_kernels::chunk::THREADS;
use gpumap_kernels::primitives::filter::Test;
use gpumap_kernels::retain::{RetainArgs, Stay};
use gpumap_simt::kernel::Grid;

use super::command::{Command, Kind};
use super::operand::Operands;
use super::storage::Store;
use super::{Core, Held, Key, Map, Pair, Place, Ready, TableChunks, Value};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Source;
use crate::memory::host_push;
use crate::persist::chunk_pairs;
use crate::primitives::{Element, Predicate};

/// # Remove
impl<K: Key, V: Value> Map<K, V> {
    /// Keeps the pairs for which `keep` says so, and removes all others. Returns how many were removed. All pairs are streamed
    /// to the host, and calls that change the map wait: `keep` must not wait for one of another thread. It may look the map
    /// up; changes are [`Error::Nested`]. [`retain_where`](#method.retain_where) stays on the device.
    ///
    /// ```
    /// use gpumap::{Device, Map};
    /// let map = Map::<u64, [u32; 3]>::new(&Device::cpu())?;
    /// map.insert(&[1, 2, 3], &[[10; 3], [20; 3], [30; 3]])?;
    /// assert_eq!(map.retain(|key, value| key != 3 && value[0] > 10)?, 2);
    /// assert_eq!(map.retrieve_all()?, (vec![2], vec![[20; 3]]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn retain(&self, mut keep: impl FnMut(K, &V) -> bool) -> Result<usize> {
        self.try_retain(|key, value| Ok(keep(key, value)), &mut || Ok(()))
    }

    /// The same, which removes none if `keep` fails, or `ready`, which is called when it is known which ones go.
    pub(crate) fn try_retain(
        &self,
        keep: impl FnMut(K, &V) -> Result<bool>,
        ready: Ready<'_>,
    ) -> Result<usize> {
        match self.held.store() {
            Store::Inline(core) => core.retain(keep, ready),
            Store::Cells(core) => core.retain(keep, ready),
            Store::Rows(core) => core.retain(keep, ready),
        }
    }
}

/// # Remove by predicate
impl<K: Key + Element, V: Value + Element, P: Place> Map<K, V, P> {
    /// Keeps the pairs whose key and value both satisfy a predicate, and removes all others.
    /// Returns how many were removed. Waits for the calls in flight. Types of your own are compared as the number that
    /// [`element_type!`](crate::element_type) says they are.
    ///
    /// ```
    /// use gpumap::primitives::Predicate;
    /// use gpumap::{Device, Map};
    /// let map = Map::<u32, i32>::new(&Device::cpu())?;
    /// map.insert(&[1, 2, 3], &[-10, 20, 30])?;
    /// assert_eq!(map.retain_where(Predicate::LessOrEqual(2), Predicate::Always)?, 1);
    /// assert_eq!(map.retain_where(Predicate::Always, Predicate::Greater(0))?, 1);
    /// assert_eq!(map.retrieve_all()?, (vec![2], vec![20]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned), [`Error::Driver`](crate::Error::Driver).
    pub fn retain_where(&self, keys: Predicate<K>, values: Predicate<V>) -> Result<usize> {
        self.held
            .retain_where(keys.test().raised(), values.test().raised())
    }
}

/// # Remove by predicate
impl<K: Key + Element, P: Place> Map<K, (), P> {
    /// Keeps the keys that satisfy a predicate, and removes all others. Returns how many were
    /// removed. Waits for the calls in flight.
    ///
    /// ```
    /// use gpumap::primitives::Predicate;
    /// use gpumap::{Device, Map};
    /// let set = Map::from_keys(&Device::cpu(), [1u32, 2, 3])?;
    /// assert_eq!(set.retain_where(Predicate::Greater(2))?, 2);
    /// assert_eq!(set.keys()?, [3]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned), [`Error::Driver`](crate::Error::Driver).
    pub fn retain_where(&self, keys: Predicate<K>) -> Result<usize> {
        self.held.retain_where(keys.test().raised(), Test::NONE)
    }
}

/// Two [raised](Test::raised) tests, for pairs of these sizes.
pub(crate) fn stay(keys: Test<u64>, values: Test<u64>, pair: Pair) -> Stay {
    let shift = |bytes: usize| match bytes {
        4 => 32,
        _ => 0,
    };
    Stay {
        keys,
        values,
        key_shift: shift(pair.key),
        value_shift: shift(pair.value),
    }
}

impl Core {
    fn retain<K: Key, V: Value>(
        &self,
        mut keep: impl FnMut(K, &V) -> Result<bool>,
        ready: Ready<'_>,
    ) -> Result<usize> {
        let mut scratch = self.scratch.take()?;
        let table = self.exclusive()?;
        let mut unwanted = Vec::new();
        {
            // This thread looks up, which a callback may.
            let _callback = table.callback();
            for chunk in TableChunks::<K, V>::of(self, chunk_pairs::<K, V>()) {
                let chunk = chunk?;
                for (&key, value) in chunk.keys().iter().zip(chunk.values()) {
                    if !keep(key, value)? {
                        host_push(&mut unwanted, key)?;
                    }
                }
            }
        }
        // What `keep` has looked up by streams.
        self.state.retire_all()?;
        ready()?;
        let remove = Command::of(Kind::Remove, self.pair, unwanted.len());
        let unwanted = Source::Host(&unwanted[..]).into();
        self.change_batch(&table, &mut scratch, unwanted, Operands::NONE, remove)
    }

    /// Removes what one of two [raised](Test::raised) tests does not hold for. Returns how many pairs that were.
    pub(super) fn retain_where(&self, keys: Test<u64>, values: Test<u64>) -> Result<usize> {
        let mut scratch = self.scratch.take()?;
        let table = self.exclusive()?;
        self.expect_sound()?;
        let (chunks, blocks) = table.chunks()?;
        let args = RetainArgs {
            chunks,
            stay: stay(keys, values, self.pair),
            removed: scratch.counting()?,
        };
        let grid = Grid::new(blocks, THREADS);
        let [removed, ..] = self.or_poison_if_launched(&mut scratch, |scratch| {
            // SAFETY: the kernel set fits the map's types; the exclusive lock is held until the
            // counter has been read.
            unsafe { self.kernels.retain.launch(scratch.stream(), grid, args) }?;
            scratch.counted()
        })?;
        self.state.occupancy.removed(removed as usize);
        Ok(removed as usize)
    }
}
