//! Filters: the elements that satisfy a predicate, or where they are.

use std::ptr;

use bytemuck::Pod;
use gpumap_kernels::primitives::filter::{FilterArgs, Test, shared_bytes, tile_len};
use gpumap_kernels::primitives::word::Word;
use gpumap_simt::kernel::Kernel;
use gpumap_simt::layout::Layout;

use super::element::sealed::Bits;
use super::element::{BitsOf, Element};
use super::predicate::Predicate;
use super::scan::empty_tiles;
use super::{Primitives, block_workers, blocks, grid_of};
use crate::buffer::BufferViewMut;
#[cfg(doc)]
use crate::error::Error;
use crate::error::{Result, expect_room, expect_same_len};
use crate::input::{Input, Source};
use crate::scratch::{ScratchRole, Workspace};

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
        let call = Call {
            input: input.source(),
            asked: Asked::Test(predicate.test()),
            order,
            kernel: BitsOf::<T>::filter(),
        };
        call.collect(self)
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
    ///
    /// let rest = output.slice_mut(n..)?;
    /// primitives.filter_into(&data, Predicate::Less(0), Order::Stable, rest)?;
    /// assert_eq!(output.to_vec()?, [5, 7, -1]);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`]; those of [`filter`](Self::filter).
    pub fn filter_into<'a, T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        predicate: Predicate<T>,
        order: Order,
        output: impl Into<BufferViewMut<'a, T>>,
    ) -> Result<usize> {
        let call = Call {
            input: input.source(),
            asked: Asked::Test(predicate.test()),
            order,
            kernel: BitsOf::<T>::filter(),
        };
        call.write(self, output.into())
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
        let call = Call {
            input: input.source(),
            asked: Asked::Flags(flags.source()),
            order,
            kernel: BitsOf::<T>::filter_flag(),
        };
        call.collect(self)
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
    pub fn filter_by_flag_into<'a, T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        flags: &(impl Input<u8> + ?Sized),
        order: Order,
        output: impl Into<BufferViewMut<'a, T>>,
    ) -> Result<usize> {
        let call = Call {
            input: input.source(),
            asked: Asked::Flags(flags.source()),
            order,
            kernel: BitsOf::<T>::filter_flag(),
        };
        call.write(self, output.into())
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
        let call = Call {
            input: input.source(),
            asked: Asked::Test(predicate.test()),
            order,
            kernel: BitsOf::<T>::filter_indices(),
        };
        call.collect(self)
    }

    /// The positions of the elements that satisfy `predicate`, into the first elements of
    /// `output`. Returns how many.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`]; those of [`filter`](Self::filter).
    pub fn filter_indices_into<'a, T: Element>(
        &self,
        input: &(impl Input<T> + ?Sized),
        predicate: Predicate<T>,
        order: Order,
        output: impl Into<BufferViewMut<'a, u64>>,
    ) -> Result<usize> {
        let call = Call {
            input: input.source(),
            asked: Asked::Test(predicate.test()),
            order,
            kernel: BitsOf::<T>::filter_indices(),
        };
        call.write(self, output.into())
    }
}

/// What a kernel that reads flags gets instead of a predicate.
fn no_test<T: Element>() -> Test<BitsOf<T>> {
    Test {
        mask: BitsOf::<T>::ZERO,
        fold: BitsOf::<T>::ZERO,
        low: BitsOf::<T>::ZERO,
        span: BitsOf::<T>::ZERO,
        invert: 0,
    }
}

/// What decides about the elements.
enum Asked<'a, T: Element> {
    /// A predicate.
    Test(Test<BitsOf<T>>),
    /// A flag for each element.
    Flags(Source<'a, u8>),
}

/// One call: what is filtered, and the kernel that puts out words `O`.
struct Call<'a, T: Element, O: Layout + Copy + 'static> {
    input: Source<'a, T>,
    asked: Asked<'a, T>,
    order: Order,
    kernel: &'static Kernel<FilterArgs<BitsOf<T>, O>>,
}

impl<T: Element, O: Layout + Copy + 'static> Call<'_, T, O> {
    /// What is kept, as a vector of `P`s, which are `O`s of the kernel.
    fn collect<P: Pod>(self, primitives: &Primitives) -> Result<Vec<P>> {
        self.expect_flags()?;
        let mut scratch = primitives.scratch.take()?;
        let room = self.input.len();
        let mut output = scratch.output_of_some::<P>(ScratchRole::FirstOutput, room)?;
        // SAFETY: the output has room for all.
        let kept = unsafe { self.run(&mut scratch, output.as_mut_ptr(), room) }?;
        scratch.fetch(output, kept)
    }

    /// Writes what is kept to the first elements of `output`, and says how many.
    fn write<P: Pod>(self, primitives: &Primitives, output: BufferViewMut<'_, P>) -> Result<usize> {
        self.expect_flags()?;
        let mut scratch = primitives.scratch.take()?;
        let room = output.len();
        let target = scratch.target(output)?;
        // SAFETY: the output has this room.
        let kept = unsafe { self.run(&mut scratch, target, room) }?;
        expect_room(kept, room)?;
        Ok(kept)
    }

    /// As many flags as elements, if it takes any.
    fn expect_flags(&self) -> Result<()> {
        match self.asked {
            Asked::Flags(flags) => expect_same_len(self.input.len(), flags.len()),
            _ => Ok(()),
        }
    }

    /// Runs the kernel, waits, and returns how many elements are wanted.
    ///
    /// # Safety
    /// `output` leads to room for `room` elements on the workspace's device, and nothing else uses
    /// them.
    unsafe fn run<P: Pod>(
        self,
        scratch: &mut Workspace,
        output: *mut P,
        room: usize,
    ) -> Result<usize> {
        const { assert!(size_of::<P>() == size_of::<O>() && align_of::<P>() == align_of::<O>()) };
        let n = self.input.len();
        if n == 0 {
            return Ok(0);
        }
        // SAFETY: the counters are waited for while the inputs are borrowed.
        let (input, test, flags) = unsafe {
            let input = scratch.stage(ScratchRole::Keys, self.input)?;
            match self.asked {
                Asked::Test(test) => (input, test, ptr::null()),
                Asked::Flags(flags) => (
                    input,
                    no_test::<T>(),
                    scratch.stage(ScratchRole::Values, flags)?,
                ),
            }
        };
        let workers = block_workers(scratch.stream().device(), shared_bytes);
        let tiles = blocks(n, tile_len::<BitsOf<T>>(workers));
        let states = match self.order {
            // The last tile stores the count.
            Order::Stable => empty_tiles(scratch, tiles as usize, size_of::<u64>())?,
            Order::Any => {
                scratch.reset_counters()?;
                // After the count, at a multiple of 16 bytes.
                scratch.counters().wrapping_add(2).cast()
            }
        };
        let args = FilterArgs {
            input: input.cast(),
            n: n as u64,
            tile_count: u64::from(tiles),
            test,
            flags,
            output: output.cast(),
            room: room as u64,
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
        // SAFETY: staged inputs, the caller's room, and scratch for a word per tile.
        unsafe { self.kernel.launch(scratch.stream(), grid, args) }?;
        let [kept, ..] = scratch.read_counters()?;
        Ok(kept as usize)
    }
}
