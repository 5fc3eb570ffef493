//! Dumping all pairs.

use std::ptr;

use bytemuck::Pod;
use gpumap_kernels::slot::RESERVED_WORDS;

use super::super::Key;
use super::super::retrieve::Dump;
use super::ArenaMap;
use super::memory::Arena;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::output::Output;
use crate::primitives::Order;
use crate::scratch::{ScratchRole, Workspace};

/// # Dump
impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    /// Every pair: `values[i]` belongs to `keys[i]`, in no order.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn retrieve_all(&self) -> Result<(Vec<K>, Vec<V>)> {
        let mut scratch = self.ids.core().scratch.take()?;
        let arena = self.arena.read();
        self.retrieve_from(&arena, &mut scratch)
    }

    /// Every pair, under the arena's lock.
    pub(super) fn retrieve_from(
        &self,
        arena: &Arena,
        scratch: &mut Workspace,
    ) -> Result<(Vec<K>, Vec<V>)> {
        let most = self.ids.slots() + RESERVED_WORDS as usize;
        scratch.collect_pairs(self.len(), most, |scratch, outputs, room| {
            self.write_pairs(arena, scratch, outputs, room)
        })
    }

    /// Writes as many pairs as there is room for, under the arena's lock, waits, and returns how many there are.
    pub(super) fn write_pairs(
        &self,
        arena: &Arena,
        scratch: &mut Workspace,
        (keys, values): (*mut K, *mut V),
        room: usize,
    ) -> Result<usize> {
        let ids: *mut u32 = scratch.reserve(ScratchRole::Ids, room)?;
        let pairs = {
            let table = self.ids.core().table.read();
            let dump = Dump::of(&table, Order::Any, keys, ids, room)?;
            self.ids.core().dump(&dump, scratch)?
        };
        // Those for which there is no room have no cells.
        self.read_cells(arena, scratch, ids, values.cast(), pairs.min(room))?;
        Ok(pairs)
    }

    /// Every pair, into memory of the host or of the device: `values[i]` belongs to `keys[i]`, in no order. Returns how
    /// many there are.
    ///
    /// ```
    /// use gpumap::{ArenaMap, Buffer, Device, Stream};
    /// let device = Device::cpu();
    /// let map = ArenaMap::<u32, [u32; 5]>::new(&device)?;
    /// map.insert(&[1, 2], &[[10; 5], [20; 5]])?;
    /// let stream = Stream::new(&device)?;
    /// let mut keys = Buffer::zeroed(&stream, map.len())?;
    /// let mut values = Buffer::zeroed(&stream, map.len())?;
    /// assert_eq!(map.retrieve_all_into(&mut keys, &mut values)?, 2);
    /// let values = values.to_vec()?;
    /// assert!(keys.to_vec()?.iter().zip(values).all(|(&k, v)| v == [10 * k; 5]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if the pairs do not fit: before anything is written, unless other calls
    /// are storing pairs at the same time. [`Error::OutOfMemory`], [`Error::WrongDevice`],
    /// [`Error::Poisoned`], [`Error::Driver`].
    pub fn retrieve_all_into(
        &self,
        keys: &mut (impl Output<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<usize> {
        let mut scratch = self.ids.core().scratch.take()?;
        scratch.copy_pairs_to_host(keys, values, self.len(), |scratch, outputs, room| {
            self.write_pairs(&self.arena.read(), scratch, outputs, room)
        })
    }

    /// Copies the values of ids that were found under the same lock of the arena, and waits.
    pub(super) fn read_cells(
        &self,
        arena: &Arena,
        scratch: &mut Workspace,
        ids: *const u32,
        values: *mut u8,
        len: usize,
    ) -> Result<()> {
        self.order();
        let (stream, nowhere) = (scratch.stream(), ptr::null_mut());
        // SAFETY: the callers' outputs are as long, and their lock lasts until the wait is over.
        unsafe { arena.cells.gather(stream, ids, values, nowhere, len) }?;
        stream.finish()
    }
}
