//! Looking keys up.

use super::run::Job;
use super::{ChainedMap, Key, Value};
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::input::{Input, Source};
use crate::output::{Output, found_values};
use crate::scratch::{HostOutput, ScratchRole, Workspace};

use gpumap_kernels::chained::answer::Outcome;

/// Whether a key was found.
fn is_present(outcome: u8) -> bool {
    outcome == Outcome::Present as u8
}

/// # Look up
impl<K: Key, V: Value<Bits = K::Bits>> ChainedMap<K, V> {
    /// Looks keys up: for each its value, or none. Of several pairs with one key, the one that was
    /// stored first is found.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn get(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        let keys = keys.source();
        let len = keys.len();
        let mut scratch = self.scratch.take()?;
        let mut values = scratch.output::<V>(ScratchRole::FirstOutput, len)?;
        let mut outcomes: HostOutput<u8> = scratch.output(ScratchRole::SecondOutput, len)?;
        let answers = (outcomes.as_mut_ptr(), values.as_mut_ptr());
        self.look_up(&mut scratch, keys, answers)?;
        let values = scratch.fetch(values, len)?;
        let outcomes = scratch.fetch(outcomes, len)?;
        // The codes of the two outcomes are 0 and 1.
        found_values(values, outcomes)
    }

    /// Looks keys up into memory of the host or of the device: where `keys[i]` is present, `found[i]` is 1 and
    /// `values[i]` its value; where it is absent, both are 0.
    ///
    /// ```
    /// use gpumap::{ChainedMap, Device};
    /// let map = ChainedMap::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
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
        let (keys, values, found) = (keys.source(), values.sink(), found.sink());
        let len = keys.len();
        expect_room(len, values.len().min(found.len()))?;
        let mut scratch = self.scratch.take()?;
        let mut values = scratch.host_target(ScratchRole::FirstOutput, values, len)?;
        let mut found = scratch.host_target(ScratchRole::SecondOutput, found, len)?;
        // The codes of the two outcomes are 0 and 1.
        let answers = (found.as_mut_ptr(), values.as_mut_ptr());
        self.look_up(&mut scratch, keys, answers)?;
        scratch.copy_both_to_host(values, found, len)
    }

    /// For each key whether it is present.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn contains(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<bool>> {
        let keys = keys.source();
        let len = keys.len();
        let mut scratch = self.scratch.take()?;
        let mut outcomes: HostOutput<u8> = scratch.output(ScratchRole::FirstOutput, len)?;
        let answers = (outcomes.as_mut_ptr(), std::ptr::null_mut());
        self.look_up(&mut scratch, keys, answers)?;
        let outcomes = scratch.fetch(outcomes, len)?;
        Ok(outcomes.into_iter().map(is_present).collect())
    }

    /// Looks keys up, and waits. Outputs may be null.
    fn look_up(
        &self,
        scratch: &mut Workspace,
        keys: Source<'_, K>,
        (outcomes, found): (*mut u8, *mut V),
    ) -> Result<()> {
        let len = keys.len();
        if len == 0 {
            return Ok(());
        }
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let staged = unsafe { scratch.stage(ScratchRole::Keys, keys) }?;
        let job = Job {
            outcomes,
            found,
            ..Job::of_keys(staged, len)
        };
        self.look(&*self.shared()?, scratch, self.kernels.get, job)
    }
}
