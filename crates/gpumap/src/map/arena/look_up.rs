//! Looking keys up.

use bytemuck::Pod;
use gpumap_kernels::cells::NO_CELL;

use super::super::Key;
use super::super::command::{Command, Kind};
use super::ArenaMap;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::input::{Input, Source};
use crate::output::{Output, found_values};
use crate::scratch::{ScratchRole, Workspace};

/// # Look up
impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    /// Looks keys up: for each its value, or none.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        let keys = keys.source();
        let len = keys.len();
        let mut scratch = self.ids.core().scratch.take()?;
        let mut values = scratch.output::<V>(ScratchRole::FirstOutput, len)?;
        let mut found = scratch.output::<u8>(ScratchRole::SecondOutput, len)?;
        let (values_at, found_at) = (values.as_mut_ptr(), found.as_mut_ptr());
        self.look_up(&mut scratch, keys, values_at, found_at)?;
        let values = scratch.fetch(values, len)?;
        let found = scratch.fetch(found, len)?;
        found_values(values, found)
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
        let (keys, values, found) = (keys.source(), values.sink(), found.sink());
        let len = keys.len();
        expect_room(len, values.len().min(found.len()))?;
        let mut scratch = self.ids.core().scratch.take()?;
        let mut values = scratch.host_target(ScratchRole::FirstOutput, values, len)?;
        let mut found = scratch.host_target(ScratchRole::SecondOutput, found, len)?;
        let (values_at, found_at) = (values.as_mut_ptr(), found.as_mut_ptr());
        self.look_up(&mut scratch, keys, values_at, found_at)?;
        scratch.copy_both_to_host(values, found, len)
    }

    /// For each key whether it is present. Does not look at values.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn contains(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<bool>> {
        self.ids.contains(keys)
    }

    /// Looks keys up, and waits. The outputs are as long as the keys.
    fn look_up(
        &self,
        scratch: &mut Workspace,
        keys: Source<'_, K>,
        values: *mut V,
        found: *mut u8,
    ) -> Result<()> {
        let len = keys.len();
        let ids: *mut u32 = scratch.reserve(ScratchRole::Ids, len)?;
        // Until the cells have been read.
        let arena = self.arena.read();
        let core = self.ids.core();
        let command = Command {
            value: u64::from(NO_CELL),
            out_values: ids.cast(),
            ..Command::of(Kind::Get, core.pair, len)
        };
        core.look_up(scratch, keys.into(), command)?;
        self.order();
        let stream = scratch.stream();
        // SAFETY: the ids were found just now, and the arena is shared until the wait is over.
        unsafe { arena.cells.gather(stream, ids, values, found, len) }?;
        stream.synchronize()
    }
}
