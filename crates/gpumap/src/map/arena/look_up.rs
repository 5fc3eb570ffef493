//! Looking keys up.

use bytemuck::Pod;
use gpumap_kernels::cells::NO_CELL;

use super::super::Key;
use super::super::command::{Arrays, Command, Kind};
use super::ArenaMap;
use crate::array::Array;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Input;
use crate::op::{self, Execute};
use crate::output::Output;
use crate::scratch::{ScratchRole, address_of};

/// # Look up
impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    /// Looks keys up: for each its value, or none.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        self.execute(op::get(keys))
    }

    /// Looks keys up into memory of the host or of the device: `found[i]` is 1 and `values[i]` the
    /// value of `keys[i]`, or both are 0 where it is absent.
    ///
    /// ```
    /// use gpumap::{ArenaMap, Device};
    /// let map = ArenaMap::<u32, [u32; 5]>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[[10; 5], [20; 5]])?;
    /// let (mut values, mut found) = ([[9; 5]; 2], [9; 2]);
    /// map.get_into(&[2, 3], &mut values, &mut found)?;
    /// assert_eq!((values, found), ([[20; 5], [0; 5]], [1, 0]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if an output is shorter than `keys`; [`Error::WrongDevice`],
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
        found: &mut (impl Output<u8> + ?Sized),
    ) -> Result<()> {
        self.execute(op::get(keys).into(values).found(found))
    }

    /// For each key whether it is present. Does not look at values.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn contains(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<bool>> {
        self.execute(op::contains(keys))
    }

    /// Looks keys up, and waits. The outputs are at least as long as the keys.
    pub(super) fn look_up(&self, keys: Array<'_>, outputs: Arrays<'_>) -> Result<()> {
        let (core, len) = (self.ids.core(), keys.len());
        let mut scratch = core.scratch.take()?;
        let mut targets = scratch.host_targets(outputs, len)?;
        let [values, found] = targets.each_mut().map(address_of);
        let ids: *mut u32 = scratch.reserve(ScratchRole::Ids, len)?;
        {
            // Until the cells have been read.
            let arena = self.arena.read();
            let command = Command {
                default: u64::from(NO_CELL),
                out_values: ids.cast(),
                ..Command::of(Kind::Get, core.pair, len)
            };
            core.look_up(&mut scratch, keys, command)?;
            self.order();
            let stream = scratch.stream();
            // SAFETY: the ids were found just now, and the arena is shared until the wait is over.
            unsafe { arena.cells.gather(stream, ids, values, found, len) }?;
            stream.finish()?;
        }
        scratch.copy_all_to_host(targets.into_iter().flatten())
    }
}
