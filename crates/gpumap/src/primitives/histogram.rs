//! Histograms over bins of one width, or between edges.

mod plan;
mod sample;

use std::ops::Range;
use std::ptr;

use gpumap_kernels::primitives::binning::{Binning, Edges};
use gpumap_kernels::primitives::histogram::HistogramArgs;
use gpumap_kernels::primitives::spread::Split;
use gpumap_kernels::primitives::sweep::Words;
use gpumap_kernels::slot::Bits;
use gpumap_simt::kernel::Grid;

use super::Primitives;
use crate::buffer::BufferViewMut;
use crate::error::{Error, Result, Setting, expect_room};
use crate::input::{Input, Source};
use crate::scratch::{ScratchRole, Workspace};
use plan::Plan;
use sample::Counting;
pub use sample::Sample;

/// The most bins: the numbers of bins and of the two places outside are 32 bits wide.
const MAX_BINS: usize = u32::MAX as usize - 2;

/// How many values lie in each bin, and how many in none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// One count per bin.
    pub counts: Vec<u64>,
    /// Values below the first bin.
    pub below: u64,
    /// Values above the last bin, NaN included.
    pub above: u64,
}

/// Where a sweep counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In shared memory first.
    Shared,
    /// Through a cache.
    Global,
}

/// How many values lie in no bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outside {
    /// Values below the first bin.
    pub below: u64,
    /// Values above the last bin, NaN included.
    pub above: u64,
}

impl Primitives {
    /// Counts values in `bins` bins of one width over `range`.
    ///
    /// An integer `v` of the range lies in bin `floor((v - start) * bins / (end - start))`,
    /// exactly, for any number of bins. A float lies in bin
    /// `floor((v - start) * (bins / (end - start)))`, computed in `f64` with each operation
    /// rounded once; the same on every device. Where edges have to be exact, use
    /// [`histogram_edges`](Self::histogram_edges).
    ///
    /// ```
    /// use gpumap::{Device, primitives::Primitives};
    ///
    /// let primitives = Primitives::new(&Device::cpu());
    /// let histogram = primitives.histogram_even(&[0.1f32, 0.7, 0.9, 1.0, f32::NAN], 0.0..1.0, 2)?;
    /// assert_eq!(histogram.counts, [1, 2]);
    /// assert_eq!((histogram.below, histogram.above), (0, 2)); // 1.0 is not in the range
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Setting`] for no bins, or more than `2^32 - 3`; [`Error::EmptyRange`] for a range
    /// without values, or a float range whose width is not finite; [`Error::OutOfMemory`],
    /// [`Error::WrongDevice`], [`Error::Driver`].
    pub fn histogram_even<T: Sample>(
        &self,
        input: &(impl Input<T> + ?Sized),
        range: Range<T>,
        bins: usize,
    ) -> Result<Histogram> {
        let binning = even(&range, bins)?;
        let mut scratch = self.scratch.take()?;
        self.counted(&mut scratch, T::EVEN, binning, input.source(), bins)
    }

    /// As [`histogram_even`](Self::histogram_even), with as many bins as `counts` has elements,
    /// which are overwritten.
    ///
    /// ```
    /// use gpumap::{Buffer, Device, Stream, primitives::Primitives};
    ///
    /// let stream = Stream::new(&Device::cpu())?;
    /// let primitives = Primitives::new(stream.device());
    /// let mut counts = Buffer::zeroed(&stream, 4)?;
    /// let outside = primitives.histogram_even_into(&[1u64, 2, 2, 9], 0..8, &mut counts)?;
    /// assert_eq!(counts.to_vec()?, [1, 2, 0, 0]);
    /// assert_eq!((outside.below, outside.above), (0, 1));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`histogram_even`](Self::histogram_even).
    pub fn histogram_even_into<'a, T: Sample>(
        &self,
        input: &(impl Input<T> + ?Sized),
        range: Range<T>,
        counts: impl Into<BufferViewMut<'a, u64>>,
    ) -> Result<Outside> {
        let counts = counts.into();
        let binning = even(&range, counts.len())?;
        let mut scratch = self.scratch.take()?;
        self.count_into(&mut scratch, T::EVEN, binning, input.source(), counts)
    }

    /// Counts values between edges, which are in ascending order: `v` lies in bin `i` if
    /// `edges[i] <= v < edges[i + 1]`. Bins between equal edges stay empty.
    ///
    /// ```
    /// use gpumap::{Device, primitives::Primitives};
    ///
    /// let primitives = Primitives::new(&Device::cpu());
    /// let histogram = primitives.histogram_edges(&[1i64, 10, 99, 100, 5_000], &[0, 10, 100, 1_000])?;
    /// assert_eq!(histogram.counts, [1, 2, 1]);
    /// assert_eq!((histogram.below, histogram.above), (0, 1));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Setting`] for fewer than two edges; [`Error::UnsortedEdges`];
    /// [`Error::OutOfMemory`], [`Error::WrongDevice`], [`Error::Driver`].
    pub fn histogram_edges<T: Sample>(
        &self,
        input: &(impl Input<T> + ?Sized),
        edges: &[T],
    ) -> Result<Histogram> {
        let bins = check_edges(edges)?;
        let mut scratch = self.scratch.take()?;
        let edges = flipped(edges);
        // SAFETY: the edges live as long as this call, which waits for the stream.
        let binning = unsafe { stage_edges::<T>(&mut scratch, &edges) }?;
        self.counted(&mut scratch, T::EDGES, binning, input.source(), bins)
    }

    /// As [`histogram_edges`](Self::histogram_edges); overwrites the first `edges.len() - 1`
    /// elements of `counts`.
    ///
    /// # Errors
    /// As for [`histogram_edges`](Self::histogram_edges), and [`Error::OutputTooSmall`].
    pub fn histogram_edges_into<'a, T: Sample>(
        &self,
        input: &(impl Input<T> + ?Sized),
        edges: &[T],
        counts: impl Into<BufferViewMut<'a, u64>>,
    ) -> Result<Outside> {
        let (counts, bins) = (counts.into(), check_edges(edges)?);
        expect_room(bins, counts.len())?;
        let mut scratch = self.scratch.take()?;
        let edges = flipped(edges);
        // SAFETY: the edges live as long as this call, which waits for the stream.
        let binning = unsafe { stage_edges::<T>(&mut scratch, &edges) }?;
        let target = scratch.target(counts)?;
        self.count(
            &mut scratch,
            T::EDGES,
            binning,
            input.source(),
            target,
            bins,
        )
    }

    fn counted<T: Sample, B: Binning<T::Word>>(
        &self,
        scratch: &mut Workspace,
        kernels: Counting<B, T::Word>,
        binning: B,
        input: Source<'_, T>,
        bins: usize,
    ) -> Result<Histogram> {
        let mut counts = scratch.output::<u64>(ScratchRole::FirstOutput, bins)?;
        let target = counts.as_mut_ptr();
        let Outside { below, above } =
            self.count(scratch, kernels, binning, input, target, bins)?;
        let counts = scratch.fetch(counts, bins)?;
        Ok(Histogram {
            counts,
            below,
            above,
        })
    }

    fn count_into<T: Sample, B: Binning<T::Word>>(
        &self,
        scratch: &mut Workspace,
        kernels: Counting<B, T::Word>,
        binning: B,
        input: Source<'_, T>,
        counts: BufferViewMut<'_, u64>,
    ) -> Result<Outside> {
        let bins = counts.len();
        let target = scratch.target(counts)?;
        self.count(scratch, kernels, binning, input, target, bins)
    }

    /// Counts into `bins` counters of the device at `counts`.
    fn count<T: Sample, B: Binning<T::Word>>(
        &self,
        scratch: &mut Workspace,
        kernels: Counting<B, T::Word>,
        binning: B,
        input: Source<'_, T>,
        counts: *mut u64,
        bins: usize,
    ) -> Result<Outside> {
        let len = input.len();
        // SAFETY: the workspace waits for its stream before this call returns.
        let at = unsafe { scratch.stage(ScratchRole::Keys, input) }?;
        scratch.reset_counters()?;
        // SAFETY: the caller has `bins` counters there.
        unsafe {
            scratch
                .stream()
                .fill(counts.cast(), 0, bins * size_of::<u64>())
        }?;
        let words = Words {
            at: at.cast::<T::Word>(),
            len: len as u64,
        };
        let outside = scratch.counters();
        // SAFETY: `len` words and `bins + 2` counters, by the above; the binning's pointers are
        // staged in this workspace.
        unsafe {
            self.launch_count(
                scratch,
                kernels,
                binning,
                words,
                counts,
                outside,
                bins as u32,
            )
        }?;
        let [below, above, ..] = scratch.read_counters()?;
        Ok(Outside { below, above })
    }

    /// Queues the kernels that count.
    ///
    /// # Safety
    /// `words`, `bins` counters at `counts` and the two at `outside`, or null if nothing can be
    /// outside, are valid until the workspace's stream is done; so are the binning's pointers.
    #[expect(clippy::too_many_arguments, reason = "what a launch is made of")]
    unsafe fn launch_count<B: Binning<W>, W: Bits>(
        &self,
        scratch: &mut Workspace,
        kernels: Counting<B, W>,
        binning: B,
        words: Words<W>,
        counts: *mut u64,
        outside: *mut u64,
        bins: u32,
    ) -> Result<()> {
        let args = HistogramArgs {
            input: words,
            binning,
            bins,
            first: 0,
            count: 0,
            copies_log2: 0,
            counts,
            outside,
            split: Split::new(0, 1),
            pieces: ptr::null(),
        };
        let launch = |place, grid, args| {
            // SAFETY: the caller's promise; the grid is the plan's.
            unsafe { kernels.of(place).launch(scratch.stream(), grid, args) }
        };
        self.passes(args, launch)
    }

    /// Calls `launch` for each sweep over the input that it takes.
    pub(super) fn passes<B: Binning<W>, W: Bits>(
        &self,
        mut args: HistogramArgs<B, W>,
        mut launch: impl FnMut(Place, Grid, HistogramArgs<B, W>) -> Result<()>,
    ) -> Result<()> {
        if args.input.len == 0 {
            return Ok(());
        }
        // Natively the first block runs alone, and other threads share those that are left.
        let side_by_side = if self.device.is_native() { 8 } else { 1 };
        let plan = Plan::new(
            args.input.len,
            16 / size_of::<W>() as u64,
            u64::from(args.bins) + 2 * u64::from(!args.outside.is_null()),
            self.max_shared_bytes(),
            side_by_side * self.device.multiprocessors(),
        );
        args.count = plan.count;
        args.copies_log2 = plan.copies_log2;
        if plan.passes == 0 {
            return launch(Place::Global, plan.grid, args);
        }
        for pass in 0..plan.passes {
            args.first = pass * plan.count;
            launch(Place::Shared, plan.grid, args)?;
        }
        Ok(())
    }

    /// Queues counting the digits of keys.
    ///
    /// # Safety
    /// As for [`launch_count`](Self::launch_count).
    pub(super) unsafe fn launch_digits<W: Bits>(
        &self,
        scratch: &mut Workspace,
        kernel: sample::CountKernel<gpumap_kernels::primitives::binning::DigitOf, W>,
        digit: gpumap_kernels::primitives::binning::DigitOf,
        words: Words<W>,
        counts: *mut u64,
        parts: u32,
    ) -> Result<()> {
        // Parts are few: the plan always has one pass.
        let kernels = Counting {
            shared: kernel,
            global: kernel,
        };
        // SAFETY: a digit is always one of the parts; otherwise the caller's promise.
        unsafe {
            self.launch_count(
                scratch,
                kernels,
                digit,
                words,
                counts,
                ptr::null_mut(),
                parts,
            )
        }
    }
}

pub(super) fn even<T: Sample>(range: &Range<T>, bins: usize) -> Result<T::Even> {
    Setting::Bins.expect(bins as f64, 1.0..=MAX_BINS as f64)?;
    T::even(range, bins as u32).ok_or(Error::EmptyRange {
        start: range.start.to_f64(),
        end: range.end.to_f64(),
    })
}

/// How many bins lie between the edges.
fn check_edges<T: Sample>(edges: &[T]) -> Result<usize> {
    Setting::Edges.expect(edges.len() as f64, 2.0..=(MAX_BINS + 1) as f64)?;
    // Also false beside a NaN.
    let in_order = |pair: &[T]| pair[0] <= pair[1];
    match edges.windows(2).position(|pair| !in_order(pair)) {
        Some(at) => Err(Error::UnsortedEdges { at: at + 1 }),
        None => Ok(edges.len() - 1),
    }
}

/// Edges as kernels compare them.
fn flipped<T: Sample>(edges: &[T]) -> Vec<T> {
    edges.iter().map(|edge| edge.flipped()).collect()
}

/// # Safety
/// The edges, which are flipped, live until everything queued has ended.
unsafe fn stage_edges<T: Sample>(scratch: &mut Workspace, edges: &[T]) -> Result<Edges<T::Edge>> {
    // SAFETY: the contract of this function.
    let staged = unsafe { scratch.stage(ScratchRole::Values, Source::Host(edges)) }?;
    Ok(Edges {
        edges: staged.cast(),
        len: edges.len() as u32,
        flip: T::FLIP,
    })
}
