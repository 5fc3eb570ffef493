//! How many pairs keys have.

use std::ptr;

use gpumap_kernels::chained::kernels::CountArgs;
use gpumap_kernels::source::Batch;

use super::chains::Chains;
use super::{MultiMap, Word, WordKey};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Input;
use crate::output::Output;
use crate::scratch::{ScratchRole, Workspace};

/// # Count the pairs of a key
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// For each key how many pairs it has.
    ///
    /// ```
    /// use gpumap::{Device, MultiMap};
    /// let map = MultiMap::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
    /// map.append(&[7; 50], &[1; 50])?;
    /// assert_eq!(map.count(&[7, 8])?, [50, 0]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn count(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<usize>> {
        let keys = keys.source();
        let len = keys.len();
        let mut scratch = self.scratch.take()?;
        let mut counts = scratch.output::<u64>(ScratchRole::FirstOutput, len)?;
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let keys = unsafe { scratch.stage(ScratchRole::Keys, keys) }?;
        let asked = Asked { keys, len };
        self.count_each(&*self.shared()?, &mut scratch, asked, counts.as_mut_ptr())?;
        let counts = scratch.fetch(counts, len)?;
        Ok(counts.into_iter().map(|pairs| pairs as usize).collect())
    }

    /// For each key how many pairs it has, into memory of the host or of the device: `counts[i]` for
    /// `keys[i]`.
    ///
    /// ```
    /// use gpumap::{Device, MultiMap};
    /// let map = MultiMap::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
    /// map.append(&[7, 7, 9], &[1, 2, 3])?;
    /// let mut counts = [0; 3];
    /// map.count_into(&[7, 8, 9], &mut counts)?;
    /// assert_eq!(counts, [2, 0, 1]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if there are fewer places than keys; else as for [`get`](Self::get).
    pub fn count_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        counts: &mut (impl Output<u64> + ?Sized),
    ) -> Result<()> {
        let keys = keys.source();
        let len = keys.len();
        let mut scratch = self.scratch.take()?;
        let mut counts = scratch.host_target(ScratchRole::FirstOutput, counts.sink(), len)?;
        // SAFETY: as above.
        let keys = unsafe { scratch.stage(ScratchRole::Keys, keys) }?;
        let asked = Asked { keys, len };
        self.count_each(&*self.shared()?, &mut scratch, asked, counts.as_mut_ptr())?;
        scratch.copy_to_host(counts, len)
    }

    /// Counts the pairs of each key, and waits. The caller holds the lock of the chains; there is a place
    /// for each key.
    pub(super) fn count_each(
        &self,
        chains: &Chains,
        scratch: &mut Workspace,
        asked: Asked<K>,
        counts: *mut u64,
    ) -> Result<()> {
        if asked.len == 0 {
            return Ok(());
        }
        let (grid, per_warp) = self.share_out(asked.len);
        let args = CountArgs {
            view: chains.view(),
            batch: asked.batch(per_warp),
            counts,
        };
        // SAFETY: the kernel set fits the map's types; keys are staged, and there is a place for each; the
        // caller holds the lock until this has ended.
        unsafe { self.kernels.count.launch(scratch.stream(), grid, args) }?;
        scratch.stream().finish()
    }
}

/// Keys on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<K> {
    pub keys: *const K,
    pub len: usize,
}

impl<K: WordKey> Asked<K> {
    /// As kernels take them.
    pub fn batch(self, per_warp: u32) -> Batch<K::Bits, K::Bits> {
        Batch {
            keys: self.keys.cast(),
            values: ptr::null(),
            value: 0,
            len: self.len as u64,
            per_warp,
        }
    }
}
