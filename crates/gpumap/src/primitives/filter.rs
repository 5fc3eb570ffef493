//! Filters: the elements that satisfy a predicate, or where they are.

use std::ptr;

use gpumap_kernels::primitives::filter::{FilterArgs, Test, shared_bytes, tile_len};
use gpumap_kernels::primitives::word::Word;
use gpumap_simt::kernel::Kernel;

use super::element::Element;
use super::element::sealed::Bits;
use super::predicate::Predicate;
use super::scan::empty_tiles;
use super::{Primitives, block_workers, blocks, grid_of};
use crate::buffer::Buffer;
use crate::error::{Error, Result, expect_room};
use crate::input::Input;
use crate::scratch::{Slot, Workspace};

/// The order of what a filter keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Any, and another one on each run: parts of some thousand elements each keep their order,
    /// but lie in any.
    Any,
    /// That of the input.
    Stable,
}

/// # Filters
///
/// Every element is read once, what is kept is written once. The outputs' length need not be
/// known: an output with room for `input.len()` elements always suffices. If a shorter one turns
/// out to be too short, the kept elements are counted to the end and reported in
/// [`Error::OutputTooSmall`]; as many as there was room for are written then (in stable order the
/// first ones), and nothing beyond.
impl Primitives {
    /// The elements that satisfy `predicate`.
    ///
    /// ```
    /// use gpumap::Device;
    /// use gpumap::primitives::{Order, Predicate, Primitives};
    /// let primitives = Primitives::new(&Device::cpu());
    /// let even = Predicate::Bits { mask: 1u32, value: 0 };
    /// assert_eq!(primitives.filter(&[1, 2, 3, 4], even, Order::Stable)?, [2, 4]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Driver`].
    pub fn filter<T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        predicate: Predicate<T>,
        order: Order,
    ) -> Result<Vec<T>> {
        let input = input.source();
        let n = input.len();
        let mut scratch = self.scratch.take()?;
        let mut output = scratch.output::<T>(Slot::FirstOutput, n)?;
        let call = Call {
            // SAFETY: the counters are waited for while the input is borrowed.
            input: unsafe { scratch.stage(Slot::Keys, input) }?,
            n,
            test: predicate.test(),
            flags: ptr::null(),
            output: output.as_mut_ptr().cast(),
            room: n,
            order,
        };
        // SAFETY: staged, and an output with room for all.
        let kept = unsafe { call.run(&mut scratch, T::Bits::filter()) }?;
        scratch.fetch(output, kept)
    }

    /// The elements that satisfy `predicate`, into the first elements of `output`. Returns how
    /// many.
    ///
    /// ```
    /// use gpumap::primitives::{Order, Predicate, Primitives};
    /// use gpumap::{Buffer, Device, Stream};
    /// let device = Device::cpu();
    /// let mut output = Buffer::zeroed(&Stream::new(&device)?, 3)?;
    /// let primitives = Primitives::new(&device);
    /// let data = [5i64, -1, 7];
    /// let n = primitives.filter_into(&data, Predicate::Greater(0), Order::Stable, &mut output)?;
    /// assert_eq!((n, output.to_vec()?), (2, vec![5, 7, 0]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`]; those of [`filter`](Self::filter).
    pub fn filter_into<T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        predicate: Predicate<T>,
        order: Order,
        output: &mut Buffer<T>,
    ) -> Result<usize> {
        let input = input.source();
        let mut scratch = self.scratch.take()?;
        let room = output.len();
        let call = Call {
            // SAFETY: the counters are waited for while the input is borrowed.
            input: unsafe { scratch.stage(Slot::Keys, input) }?,
            n: input.len(),
            test: predicate.test(),
            flags: ptr::null(),
            output: scratch.target(output)?.cast(),
            room,
            order,
        };
        // SAFETY: staged, and the output has this room.
        let kept = unsafe { call.run(&mut scratch, T::Bits::filter()) }?;
        expect_room(kept, room)?;
        Ok(kept)
    }

    /// The elements whose flag is not 0. There is a flag for each element.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], with the elements as keys and the flags as values; those of
    /// [`filter`](Self::filter).
    pub fn filter_by_flag<T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        flags: &(impl Input<u8> + ?Sized),
        order: Order,
    ) -> Result<Vec<T>> {
        let (input, flags) = (input.source(), flags.source());
        let n = input.len();
        expect_flags(n, flags.len())?;
        let mut scratch = self.scratch.take()?;
        let mut output = scratch.output::<T>(Slot::FirstOutput, n)?;
        let call = Call {
            // SAFETY: the counters are waited for while the inputs are borrowed.
            input: unsafe { scratch.stage(Slot::Keys, input) }?,
            n,
            test: no_test::<T>(),
            // SAFETY: as above.
            flags: unsafe { scratch.stage(Slot::Values, flags) }?,
            output: output.as_mut_ptr().cast(),
            room: n,
            order,
        };
        // SAFETY: staged, and an output with room for all.
        let kept = unsafe { call.run(&mut scratch, T::Bits::filter_flag()) }?;
        scratch.fetch(output, kept)
    }

    /// The elements whose flag is not 0, into the first elements of `output`. Returns how many.
    ///
    /// ```
    /// use gpumap::primitives::{Order, Primitives};
    /// use gpumap::{Buffer, Device, Stream};
    /// let device = Device::cpu();
    /// let mut output = Buffer::zeroed(&Stream::new(&device)?, 3)?;
    /// let primitives = Primitives::new(&device);
    /// let n = primitives.filter_by_flag_into(
    ///     &[1.0, 2.0, 3.0], &[1, 0, 255], Order::Stable, &mut output)?;
    /// assert_eq!((n, output.to_vec()?), (2, vec![1.0, 3.0, 0.0]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`]; those of [`filter_by_flag`](Self::filter_by_flag).
    pub fn filter_by_flag_into<T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        flags: &(impl Input<u8> + ?Sized),
        order: Order,
        output: &mut Buffer<T>,
    ) -> Result<usize> {
        let (input, flags) = (input.source(), flags.source());
        let n = input.len();
        expect_flags(n, flags.len())?;
        let mut scratch = self.scratch.take()?;
        let room = output.len();
        let call = Call {
            // SAFETY: the counters are waited for while the inputs are borrowed.
            input: unsafe { scratch.stage(Slot::Keys, input) }?,
            n,
            test: no_test::<T>(),
            // SAFETY: as above.
            flags: unsafe { scratch.stage(Slot::Values, flags) }?,
            output: scratch.target(output)?.cast(),
            room,
            order,
        };
        // SAFETY: staged, and the output has this room.
        let kept = unsafe { call.run(&mut scratch, T::Bits::filter_flag()) }?;
        expect_room(kept, room)?;
        Ok(kept)
    }

    /// The positions of the elements that satisfy `predicate`, counted from 0.
    ///
    /// ```
    /// use gpumap::Device;
    /// use gpumap::primitives::{Order, Predicate, Primitives};
    /// let primitives = Primitives::new(&Device::cpu());
    /// let at = primitives.filter_indices(&[7, 0, 7], Predicate::Equal(7), Order::Stable)?;
    /// assert_eq!(at, [0, 2]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`filter`](Self::filter).
    pub fn filter_indices<T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        predicate: Predicate<T>,
        order: Order,
    ) -> Result<Vec<u64>> {
        let input = input.source();
        let n = input.len();
        let mut scratch = self.scratch.take()?;
        let mut output = scratch.output::<u64>(Slot::FirstOutput, n)?;
        let call = Call {
            // SAFETY: the counters are waited for while the input is borrowed.
            input: unsafe { scratch.stage(Slot::Keys, input) }?,
            n,
            test: predicate.test(),
            flags: ptr::null(),
            output: output.as_mut_ptr(),
            room: n,
            order,
        };
        // SAFETY: staged, and an output with room for all.
        let kept = unsafe { call.run(&mut scratch, T::Bits::filter_indices()) }?;
        scratch.fetch(output, kept)
    }

    /// The positions of the elements that satisfy `predicate`, into the first elements of
    /// `output`. Returns how many.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`]; those of [`filter`](Self::filter).
    pub fn filter_indices_into<T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        predicate: Predicate<T>,
        order: Order,
        output: &mut Buffer<u64>,
    ) -> Result<usize> {
        let input = input.source();
        let mut scratch = self.scratch.take()?;
        let room = output.len();
        let call = Call {
            // SAFETY: the counters are waited for while the input is borrowed.
            input: unsafe { scratch.stage(Slot::Keys, input) }?,
            n: input.len(),
            test: predicate.test(),
            flags: ptr::null(),
            output: scratch.target(output)?,
            room,
            order,
        };
        // SAFETY: staged, and the output has this room.
        let kept = unsafe { call.run(&mut scratch, T::Bits::filter_indices()) }?;
        expect_room(kept, room)?;
        Ok(kept)
    }
}

fn expect_flags(elements: usize, flags: usize) -> Result<()> {
    if elements != flags {
        return Err(Error::LengthMismatch {
            keys: elements,
            values: flags,
        });
    }
    Ok(())
}

/// What a kernel that asks flags gets instead of a predicate.
fn no_test<T: Element>() -> Test<T::Bits> {
    Test {
        mask: T::Bits::ZERO,
        fold: T::Bits::ZERO,
        low: T::Bits::ZERO,
        span: T::Bits::ZERO,
        invert: 0,
    }
}

/// One call, its inputs on the device.
struct Call<T: Element, O> {
    input: *const T,
    n: usize,
    test: Test<T::Bits>,
    flags: *const u8,
    output: *mut O,
    room: usize,
    order: Order,
}

impl<T: Element, O: Copy + 'static> Call<T, O> {
    /// Runs the kernel, waits, and returns how many elements are wanted.
    ///
    /// # Safety
    /// The pointers lead to `n` elements, if the kernel asks for them as many flags, and room for
    /// `room` outputs, on the workspace's device, that do not overlap.
    unsafe fn run(
        &self,
        scratch: &mut Workspace,
        kernel: &'static Kernel<FilterArgs<T::Bits, O>>,
    ) -> Result<usize> {
        if self.n == 0 {
            return Ok(0);
        }
        let workers = block_workers(scratch.stream().device(), shared_bytes);
        let tiles = blocks(self.n, tile_len::<T::Bits>(workers));
        let states = match self.order {
            // The last tile stores the count.
            Order::Stable => empty_tiles(scratch, tiles, size_of::<u64>())?,
            Order::Any => {
                scratch.reset_counters()?;
                // Behind the count, at a multiple of 16 bytes.
                scratch.counters().wrapping_add(2).cast()
            }
        };
        let args = FilterArgs {
            input: self.input.cast(),
            n: self.n as u64,
            tile_count: u64::from(tiles),
            test: self.test,
            flags: self.flags,
            output: self.output,
            room: self.room as u64,
            counter: scratch.counters(),
            tiles: states,
            stable: u32::from(self.order == Order::Stable),
        };
        let grid = grid_of(
            scratch.stream().device(),
            tiles,
            workers,
            shared_bytes(workers),
        );
        // SAFETY: the caller's contract, and scratch for a word per tile.
        unsafe { kernel.launch(scratch.stream(), grid, args) }?;
        let [kept, ..] = scratch.read_counters()?;
        Ok(kept as usize)
    }
}
