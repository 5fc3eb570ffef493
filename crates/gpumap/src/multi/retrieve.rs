//! Dumping all pairs.

use std::ops::Range;

use gpumap_kernels::chained::retrieve_all::{DumpChainsArgs, SHARED_BYTES, THREADS, blocks};
use gpumap_simt::kernel::Grid;

use super::chains::Chains;
use super::{MultiMap, Word, WordKey};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::output::Output;
use crate::scratch::Workspace;

/// # Dump
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Every pair: `values[i]` belongs to `keys[i]`, in no order.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn retrieve_all(&self) -> Result<(Vec<K>, Vec<V>)> {
        let mut scratch = self.scratch.take()?;
        let chains = self.shared()?;
        let most = self.most_pairs(&chains);
        scratch.collect_pairs(self.len(), most, |scratch, outputs, room| {
            let all = 0..blocks(&chains.view());
            self.dump(&chains, all, scratch, outputs, room)
        })
    }

    /// Every pair, into memory of the host or of the device: `values[i]` belongs to `keys[i]`, in no order. Returns
    /// how many there are.
    ///
    /// ```
    /// use gpumap::{Device, MultiMap};
    /// let map = MultiMap::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
    /// map.append(&[7, 7], &[1, 1])?;
    /// let (mut keys, mut values) = ([0; 3], [0; 3]);
    /// assert_eq!(map.retrieve_all_into(&mut keys, &mut values)?, 2);
    /// assert_eq!((keys, values), ([7, 7, 0], [1, 1, 0]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if the pairs do not fit: before anything is written, unless other
    /// calls are storing pairs at the same time. [`Error::OutOfMemory`], [`Error::WrongDevice`],
    /// [`Error::Poisoned`], [`Error::Driver`].
    pub fn retrieve_all_into(
        &self,
        keys: &mut (impl Output<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<usize> {
        let mut scratch = self.scratch.take()?;
        scratch.copy_pairs_to_host(keys, values, self.len(), |scratch, outputs, room| {
            let chains = self.shared()?;
            let all = 0..blocks(&chains.view());
            self.dump(&chains, all, scratch, outputs, room)
        })
    }

    /// All slots.
    pub(super) fn most_pairs(&self, chains: &Chains) -> usize {
        (chains.bases() as usize + chains.slabs()) * self.slab_slots()
    }

    /// Writes up to `room` pairs of some blocks of the dump, waits, and returns how many there are.
    pub(super) fn dump(
        &self,
        chains: &Chains,
        part: Range<u64>,
        scratch: &mut Workspace,
        (keys, values): (*mut K, *mut V),
        room: usize,
    ) -> Result<usize> {
        let args = DumpChainsArgs {
            view: chains.view(),
            units: chains.units_of_super_blocks(),
            first: part.start,
            keys: keys.cast(),
            values: values.cast(),
            room: room as u64,
            pairs: scratch.counting()?,
        };
        // More than a grid can have are refused.
        let blocks = u32::try_from(part.end - part.start).unwrap_or(u32::MAX);
        let grid = Grid {
            shared_bytes: SHARED_BYTES,
            ..Grid::new(blocks, THREADS)
        };
        // SAFETY: the kernel set fits the map's types, and both outputs have `room` elements; the
        // caller holds the lock of the chains until the count has been read.
        unsafe {
            self.kernels
                .retrieve_all
                .launch(scratch.stream(), grid, args)
        }?;
        let [pairs, _] = scratch.counted()?;
        Ok(pairs as usize)
    }
}
