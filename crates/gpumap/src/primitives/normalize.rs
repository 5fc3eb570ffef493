//! Keys with one zero and one NaN in their floats, for maps, which compare bits.

use bytemuck::Pod;

use super::{Floats, Primitives};
use crate::array::Array;
use crate::buffer::BufferViewMut;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room};
use crate::input::Input;
use crate::rows::{Keys, key_bytes, one_zero_and_nan};
use crate::scratch::{ScratchRole, Workspace};

/// # Floats in keys
impl Primitives {
    /// Keys with `0.0` for zeros of both signs in their [`Floats`], and one NaN for all of them: those that a
    /// [`RowMap`](crate::RowMap), which compares bits, then tells apart as [`group_by`](Self::group_by) does. They have 4 to 64
    /// bytes, a multiple of 4.
    ///
    /// ```
    /// use gpumap::{Device, RowMap, primitives::Primitives};
    ///
    /// let map = RowMap::<[f32; 2]>::new(&Device::cpu())?;
    /// let points = [[0.0, 1.0], [-0.0, 1.0]];
    /// assert_eq!(map.insert(&points)?, [0, 1]); // by their bits
    /// let points = Primitives::new(map.device()).normalize_floats(&points)?;
    /// assert_eq!(map.get(&points)?, [Some(0), Some(0)]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::CapacityOverflow`] for too many keys, [`Error::WrongDevice`], [`Error::Driver`].
    pub fn normalize_floats<K: Pod>(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<K>> {
        let mut scratch = self.scratch.take()?;
        let n = keys.source().len();
        let mut output = scratch.output::<K>(ScratchRole::FirstOutput, n)?;
        let to = output.as_mut_ptr();
        // SAFETY: room for as many.
        unsafe { normalize(&mut scratch, keys, to) }?;
        scratch.fetch(output, n)
    }

    /// The same, into a buffer or a part of one.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`], before anything is written; else as for [`normalize_floats`](Self::normalize_floats).
    pub fn normalize_floats_into<'a, K: Pod>(
        &self,
        keys: &(impl Input<K> + ?Sized),
        output: impl Into<BufferViewMut<'a, K>>,
    ) -> Result<()> {
        let output = output.into();
        expect_room(keys.source().len(), output.len())?;
        let mut scratch = self.scratch.take()?;
        let to = scratch.target(output)?;
        // SAFETY: room for as many.
        unsafe { normalize(&mut scratch, keys, to) }?;
        scratch.wait()
    }
}

/// Queues it.
///
/// # Safety
/// There is room for as many keys, which nothing else uses before the workspace has waited.
unsafe fn normalize<K: Pod>(
    scratch: &mut Workspace,
    keys: &(impl Input<K> + ?Sized),
    to: *mut K,
) -> Result<()> {
    let (source, floats) = (keys.source(), keys.floats());
    let (n, bytes, to) = (source.len(), key_bytes::<K>(), to.cast::<u8>());
    // SAFETY: the workspace waits for its stream before the caller's call returns, and the caller's promise; an output is
    // borrowed alone, so it is no part of the input.
    unsafe {
        let from: *const u8 = scratch.stage(ScratchRole::Keys, source)?.cast();
        if floats != Floats::none() && (from.addr() | to.addr()).is_multiple_of(4) {
            let keys = (n, bytes);
            return one_zero_and_nan(scratch.stream(), (from, to), keys, floats.words());
        }
        // What may lie anywhere goes by way of a scratch buffer.
        let staged = Keys::stage(scratch, Array::of_keys(keys), bytes)?;
        scratch.stream().copy(to, staged.at, n * bytes)
    }
}
