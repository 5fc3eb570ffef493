//! All values of each key. One kernel counts them, and when room has been found, another one collects them.
//!
//! Both run beside other calls. If one of these has removed pairs that were counted, rows would have gaps,
//! and both run once more, alone.

use gpumap_kernels::chained::get_all::GetAllArgs;

use super::all_values::AllValues;
use super::chains::Chains;
use super::look_up::Asked;
use super::{Core, MultiMap, Word, WordKey};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::input::Input;
use crate::output::Output;
use crate::primitives::queue_exclusive_sum;
use crate::scratch::{ScratchRole, Workspace};

/// # Look up all pairs of a key
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// For each key all values that it has, the one that was stored first first. A key that comes twice
    /// in the batch has two rows.
    ///
    /// Beside other calls a row has every pair of its key that is there throughout, once; those that come or
    /// go meanwhile it has or not. Waits for the calls in flight, and holds new ones back, only if one of them
    /// removes pairs of the batch's keys just then.
    ///
    /// ```
    /// use gpumap::{Device, MultiMap};
    /// let map = MultiMap::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
    /// map.append(&[7], &[70])?;
    /// map.append(&[7, 9], &[71, 90])?;
    /// let all = map.get_all(&[7, 8, 9])?;
    /// assert!(all.iter().eq([&[70, 71][..], &[], &[90]]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn get_all(&self, keys: &(impl Input<K> + ?Sized)) -> Result<AllValues<V>> {
        let (core, keys) = (&self.core, Array::from(keys.source()));
        let len = keys.len();
        let mut scratch = core.scratch.take()?;
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let asked = unsafe { core.ask(&mut scratch, keys) }?;
        core.beside_or_alone(|chains| {
            let mut offsets = scratch.output::<u64>(ScratchRole::FirstOutput, len + 1)?;
            let offsets_at = offsets.as_mut_ptr();
            let pairs = core.lay_out(chains, &mut scratch, &asked, offsets_at)?;
            let mut values = scratch.output::<V>(ScratchRole::SecondOutput, pairs)?;
            let values_at = values.as_mut_ptr().cast();
            let whole = core.collect(chains, &mut scratch, &asked, (offsets_at, values_at))?;
            let offsets = scratch.fetch(offsets, len + 1)?;
            let values = scratch.fetch(values, pairs)?;
            Ok((AllValues::new(offsets, values), whole))
        })
    }

    /// For each key all values that it has, into memory of the host or of the device: those of `keys[i]`
    /// are in `values` from `offsets[i]` to `offsets[i + 1]`. Returns how many there are of all keys
    /// together; for the rest see [`get_all`](Self::get_all).
    ///
    /// ```
    /// use gpumap::{Buffer, Device, MultiMap, Stream};
    /// let stream = Stream::new(&Device::cpu())?;
    /// let map = MultiMap::<u32, u32>::with_capacity(stream.device(), 100)?;
    /// map.append(&[7, 7, 9], &[70, 70, 90])?;
    /// let mut offsets = Buffer::zeroed(&stream, 4)?; // one more than keys
    /// let mut values = Buffer::zeroed(&stream, 10)?;
    /// assert_eq!(map.get_all_into(&[9, 8, 7], &mut offsets, &mut values)?, 3);
    /// assert_eq!(offsets.to_vec()?, [0, 1, 1, 3]);
    /// assert_eq!(values.to_vec()?[..3], [90, 70, 70]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`] if `offsets` has not one place more than there are keys, before anything is
    /// written, or if `values` has fewer places than there are values (the error has the number); `offsets`
    /// may have been written to then. Else as for [`get`](Self::get).
    pub fn get_all_into(
        &self,
        keys: &(impl Input<K> + ?Sized),
        offsets: &mut (impl Output<u64> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
    ) -> Result<usize> {
        let (core, keys) = (&self.core, Array::from(keys.source()));
        let len = keys.len();
        let mut scratch = core.scratch.take()?;
        // SAFETY: as above.
        let asked = unsafe { core.ask(&mut scratch, keys) }?;
        core.beside_or_alone(|chains| {
            let mut offsets =
                scratch.host_target(ScratchRole::FirstOutput, offsets.sink(), len + 1)?;
            let offsets_at = offsets.as_mut_ptr();
            let pairs = core.lay_out(chains, &mut scratch, &asked, offsets_at)?;
            let mut values =
                scratch.host_target(ScratchRole::SecondOutput, values.sink(), pairs)?;
            let values_at = values.as_mut_ptr().cast();
            let whole = core.collect(chains, &mut scratch, &asked, (offsets_at, values_at))?;
            scratch.copy_to_host(offsets, len + 1)?;
            scratch.copy_to_host(values, pairs)?;
            Ok((pairs, whole))
        })
    }
}

impl Core {
    /// Does something beside other calls, and if it says that these have spoiled it, once more alone.
    fn beside_or_alone<T>(
        &self,
        mut attempt: impl FnMut(&Chains) -> Result<(T, bool)>,
    ) -> Result<T> {
        loop {
            let (beside, whole) = attempt(&*self.shared()?)?;
            if whole {
                return Ok(beside);
            }
            tracing::debug!("pairs were removed between two looks: looking once more, alone");
            match self.exclusive() {
                Ok(chains) => return attempt(&chains).map(|(alone, _)| alone),
                // Only kernels that were launched before can remove any now, and these end.
                Err(Error::Nested) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Finds where the row of each key begins, and after them where the last one ends, and waits. Returns
    /// the latter. There is one place more than keys.
    fn lay_out(
        &self,
        chains: &Chains,
        scratch: &mut Workspace,
        asked: &Asked,
        offsets: *mut u64,
    ) -> Result<usize> {
        let len = asked.1.len as usize;
        let end = offsets.wrapping_add(len);
        // SAFETY: the place after those of the keys.
        unsafe { scratch.stream().fill(end.cast(), 0, size_of::<u64>()) }?;
        self.count_each(chains, scratch, asked, offsets)?;
        // SAFETY: as many places, of this call; `end` is one of them, and written by the scan.
        let pairs = unsafe {
            queue_exclusive_sum(scratch, offsets, len + 1)?;
            scratch.read(end, 1)
        }?;
        Ok(pairs[0] as usize)
    }

    /// Writes the values of all rows, and waits. Says whether every row is whole: whether all pairs that
    /// were counted, or as many others, were there.
    fn collect(
        &self,
        chains: &Chains,
        scratch: &mut Workspace,
        &(grid, batch): &Asked,
        (offsets, values): (*const u64, *mut u8),
    ) -> Result<bool> {
        if batch.len == 0 {
            return Ok(true);
        }
        let args = GetAllArgs {
            view: chains.view(),
            batch,
            offsets,
            values,
            short: scratch.counting()?,
        };
        // SAFETY: the kernel set fits the map's types; keys are staged, offsets were laid out for them, and
        // there are as many places as these say; the caller holds the lock until the count has been read.
        unsafe { self.kernels.get_all.launch(scratch.stream(), grid, args) }?;
        let [short, _] = scratch.counted()?;
        Ok(short == 0)
    }
}
