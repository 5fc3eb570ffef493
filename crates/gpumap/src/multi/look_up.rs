//! Looking keys up, and counting their pairs.

use std::ptr;

use gpumap_kernels::chained::kernels::CountArgs;
use gpumap_kernels::source::Batch;
use gpumap_simt::kernel::Grid;

use super::chains::Chains;
use super::{Core, MultiMap, Word, WordKey};
use crate::array::Array;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::Input;
use crate::memory::{host_collect, host_zeroed};
use crate::op::{self, Execute};
use crate::output::{Output, Sink};
use crate::scratch::{ScratchRole, Workspace};

/// # Look up
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Looks keys up: for each its value, or none. Of several pairs with one key, the one that was
    /// stored first is found.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        self.execute(op::get(keys))
    }

    /// Looks keys up into memory of the host or of the device: where `keys[i]` is present, `found[i]` is 1 and
    /// `values[i]` its value; where it is absent, both are 0.
    ///
    /// ```
    /// use gpumap::{Device, MultiMap};
    /// let map = MultiMap::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// let (mut values, mut found) = ([9; 2], [9; 2]);
    /// map.get_into(&[2, 3], &mut values, &mut found)?;
    /// assert_eq!((values, found), ([20, 0], [1, 0]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if an output is shorter than `keys`; else as for [`get`](Self::get).
    pub fn get_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
        found: &mut (impl Output<u8> + ?Sized),
    ) -> Result<()> {
        self.execute(op::get(keys).into(values).found(found))
    }

    /// For each key whether it is present.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn contains(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<bool>> {
        self.execute(op::contains(keys))
    }
}

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
        let keys = Array::from(keys.source());
        let mut counts = host_zeroed::<u64>(keys.len())?;
        self.core.count(keys, Sink::Host(&mut counts))?;
        host_collect(counts.into_iter().map(|pairs| pairs as usize))
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
        self.core.count(keys.source().into(), counts.sink())
    }
}

/// Keys on the device, and how they are shared out among warps.
pub(super) type Asked = (Grid, Batch<u8, u8>);

impl Core {
    /// Counts the pairs of each key, into memory of the caller.
    fn count(&self, keys: Array<'_>, counts: Sink<'_, u64>) -> Result<()> {
        let (mut scratch, len) = (self.scratch.take()?, keys.len());
        let mut target = scratch.host_target(ScratchRole::FirstOutput, counts, len)?;
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let asked = unsafe { self.ask(&mut scratch, keys) }?;
        self.count_each(&*self.shared()?, &mut scratch, &asked, target.as_mut_ptr())?;
        scratch.copy_to_host(target, len)
    }

    /// Stages keys.
    ///
    /// # Safety
    /// As for [`Workspace::stage`].
    pub(super) unsafe fn ask(&self, scratch: &mut Workspace, keys: Array<'_>) -> Result<Asked> {
        // SAFETY: passed on.
        let at = unsafe { scratch.stage(ScratchRole::Keys, keys.bytes()) }?;
        Ok(self.batch(at, ptr::null(), keys.len()))
    }

    /// Counts the pairs of each key, and waits. The caller holds the lock of the chains; there is a place
    /// for each key.
    pub(super) fn count_each(
        &self,
        chains: &Chains,
        scratch: &mut Workspace,
        &(grid, batch): &Asked,
        counts: *mut u64,
    ) -> Result<()> {
        if batch.len == 0 {
            return Ok(());
        }
        let view = chains.view();
        let args = CountArgs {
            view,
            batch,
            counts,
        };
        // SAFETY: the kernel set fits the map's types; keys are staged, and there is a place for each; the
        // caller holds the lock until this has ended.
        unsafe { self.kernels.count.launch(scratch.stream(), grid, args) }?;
        scratch.stream().finish()
    }
}
