//! Reduction to one value.

use gpumap_kernels::primitives::reduce::{ReduceArgs, THREADS, block_len};
use gpumap_kernels::primitives::word::Word;
use gpumap_simt::kernel::Grid;

use super::element::sealed::Kernels;
use super::element::{BitsOf, Element, Op};
use super::{Primitives, blocks};
use crate::error::Result;
use crate::input::Input;
use crate::scratch::ScratchRole;

/// # Reductions
impl Primitives {
    /// `init` and all elements of `input` combined; `init` alone for an empty one.
    ///
    /// The same bits on every run and every device: what is added to what depends on the length
    /// alone. A float sum differs from the exact one by at most *k u* / (1 − *k u*) times the
    /// sum of the absolute values, with the unit roundoff *u* (2⁻²⁴ for `f32`, 2⁻⁵³ for `f64`)
    /// and *k* = 128 + *n* / 2²³.
    ///
    /// ```
    /// use gpumap::Device;
    /// use gpumap::primitives::{Op, Primitives};
    /// let primitives = Primitives::new(&Device::cpu());
    /// assert_eq!(primitives.reduce(&[1.5f32, 2.0, -4.0], Op::Add, 0.0)?, -0.5);
    /// assert_eq!(primitives.reduce(&[1.5f32, 2.0, -4.0], Op::Max, f32::NEG_INFINITY)?, 2.0);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory),
    /// [`Error::WrongDevice`](crate::Error::WrongDevice),
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn reduce<T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        op: Op,
        init: T,
    ) -> Result<T> {
        let input = input.source();
        let n = input.len();
        if n == 0 {
            return Ok(init);
        }
        let mut scratch = self.scratch.take()?;
        let blocks = blocks(n, block_len::<BitsOf<T>>());
        scratch.reset_counters()?;
        let counters = scratch.counters();
        let kernels = T::Scalar::op(op);
        // SAFETY: the counters are read below, after a wait, while the input is borrowed.
        let staged = unsafe { scratch.stage(ScratchRole::Keys, input) }?;
        let args = ReduceArgs {
            input: staged.cast(),
            n: n as u64,
            init: bytemuck::cast(init),
            order: kernels.order,
            partials: scratch.reserve::<BitsOf<T>>(ScratchRole::Tiles, blocks as usize)?,
            tickets: counters,
            result: counters.wrapping_add(1).cast(),
        };
        // SAFETY: the input is staged; there is a partial result per block; the tickets and the
        // result are counters of their own.
        unsafe {
            kernels
                .reduce
                .launch(scratch.stream(), Grid::new(blocks, THREADS), args)
        }?;
        let [_, result, ..] = scratch.read_counters()?;
        Ok(bytemuck::cast(BitsOf::<T>::from_u64(result)))
    }
}
