//! Dumping all pairs.

use std::ops::Range;

use gpumap_kernels::chained::retrieve_all::{DumpChainsArgs, SHARED_BYTES, THREADS};
use gpumap_simt::kernel::Grid;

use super::chains::Chains;
use super::{Core, MultiMap, Word, WordKey};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::map::{HeldPairs, StreamReceiver};
use crate::output::Output;
use crate::primitives::Order;
use crate::scratch::Workspace;

/// # Dump
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Every pair: `values[i]` belongs to `keys[i]`, in no order.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn retrieve_all(&self) -> Result<(Vec<K>, Vec<V>)> {
        let mut scratch = self.core.scratch.take()?;
        let chains = self.core.shared()?;
        let all: &dyn HeldPairs = &Part::all(&self.core, &chains);
        all.collect(self.len(), Order::Any, &mut scratch)
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
        let mut scratch = self.core.scratch.take()?;
        let write = |scratch: &mut Workspace, (keys, values): (*mut K, *mut V), room| {
            let to = [keys.cast(), values.cast()];
            self.core.write_pairs(scratch, to, room)
        };
        scratch.copy_pairs_to_host(keys, values, self.len(), write)
    }
}

/// Blocks of a dump of chains, whose lock is held.
pub(super) struct Part<'c> {
    pub core: &'c Core,
    pub chains: &'c Chains,
    pub blocks: Range<u64>,
}

impl<'c> Part<'c> {
    /// All of them.
    pub fn all(core: &'c Core, chains: &'c Chains) -> Self {
        let blocks = 0..chains.blocks();
        Self {
            core,
            chains,
            blocks,
        }
    }
}

impl HeldPairs for Part<'_> {
    fn most(&self) -> usize {
        (self.chains.bases() as usize + self.chains.slabs()) * self.core.slab_slots()
    }

    fn write(
        &self,
        scratch: &mut Workspace,
        _: Order,
        [keys, values]: [*mut u8; 2],
        room: usize,
    ) -> Result<usize> {
        let args = DumpChainsArgs {
            view: self.chains.view(),
            units: self.chains.units_of_super_blocks(),
            first: self.blocks.start,
            keys,
            values,
            room: room as u64,
            pairs: scratch.counting()?,
        };
        // More than a grid can have are refused.
        let blocks = u32::try_from(self.blocks.end - self.blocks.start).unwrap_or(u32::MAX);
        let grid = Grid {
            shared_bytes: SHARED_BYTES,
            ..Grid::new(blocks, THREADS)
        };
        // SAFETY: the kernel set fits the map's types, and both outputs have `room` elements; the
        // caller holds the lock of the chains until the count has been read.
        unsafe {
            let kernel = self.core.kernels.retrieve_all;
            kernel.launch(scratch.stream(), grid, args)
        }?;
        let [pairs, _] = scratch.counted()?;
        Ok(pairs as usize)
    }
}
