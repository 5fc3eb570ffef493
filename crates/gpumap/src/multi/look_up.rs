//! Looking keys up.

use super::run::Job;
use super::{MultiMap, Word, WordKey};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::{Input, Source};
use crate::map::Arrays;
use crate::op::{self, Execute};
use crate::output::Output;
use crate::scratch::{ScratchRole, address_of};

use gpumap_kernels::chained::answer::Outcome;

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

    /// Looks keys up, and waits. The outputs are at least as long as the keys.
    pub(super) fn look_up(&self, keys: Source<'_, K>, outputs: Arrays<'_>) -> Result<()> {
        let len = keys.len();
        let mut scratch = self.scratch.take()?;
        let mut targets = scratch.host_targets(outputs, len)?;
        let [values, found] = targets.each_mut().map(address_of);
        if len == 0 {
            return Ok(());
        }
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let staged = unsafe { scratch.stage(ScratchRole::Keys, keys) }?;
        let job = Job {
            // The codes of the two outcomes are 0 and 1.
            outcomes: found,
            found: values.cast(),
            ..Job::of_keys(staged, len)
        };
        self.look(&*self.shared()?, &mut scratch, self.kernels.get, job)?;
        scratch.copy_all_to_host(targets.into_iter().flatten())
    }
}

const _: () = assert!(Outcome::Absent as u8 == 0 && Outcome::Present as u8 == 1);
