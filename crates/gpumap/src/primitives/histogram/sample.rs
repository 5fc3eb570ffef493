//! [`Sample`]: what histograms count.

use std::ops::Range;

use bytemuck::Pod;
use gpumap_kernels::primitives::binning::{Binning, Edges, EvenFloats, EvenIntegers, Ordered};
use gpumap_kernels::primitives::histogram::{self as kernels, HistogramArgs};
use gpumap_kernels::slot::Bits;
use gpumap_simt::kernel::Kernel;
use gpumap_simt::layout::Layout;

use super::Place;

/// A kernel that counts.
pub(crate) type CountKernel<B, W> = &'static Kernel<HistogramArgs<B, W>>;

/// The kernels for one binning.
#[derive(Debug)]
pub struct Counting<B: Layout + Copy + 'static, W: Layout + Copy + 'static> {
    /// Counts in shared memory.
    pub(super) shared: CountKernel<B, W>,
    /// Counts in global memory.
    pub(super) global: CountKernel<B, W>,
}

impl<B: Layout + Copy + 'static, W: Layout + Copy + 'static> Counting<B, W> {
    /// The one that counts there.
    pub(in crate::primitives) fn of(&self, place: Place) -> CountKernel<B, W> {
        match place {
            Place::Shared => self.shared,
            Place::Global => self.global,
        }
    }
}

/// A value that histograms count: `u32`, `i32`, `u64`, `i64`, `f32`, `f64`.
pub trait Sample: Pod + sealed::Counted {}
impl<T: Pod + sealed::Counted> Sample for T {}

pub(in crate::primitives) mod sealed {
    use super::*;

    /// How values of a type are counted.
    pub trait Counted: PartialOrd + Send + Sync + 'static {
        /// The unsigned integer of this size.
        type Word: Bits;
        /// What edges are compared as.
        type Edge: Ordered<Word = Self::Word>;
        /// Bins of one width.
        type Even: Binning<Self::Word>;
        /// The kernels for bins of one width.
        const EVEN: Counting<Self::Even, Self::Word>;
        /// The kernels for bins between edges.
        const EDGES: Counting<Edges<Self::Edge>, Self::Word>;
        /// See [`Edges::flip`].
        const FLIP: u64;
        /// The value with these bits other than they are.
        #[must_use]
        fn flipped(self) -> Self;
        /// Bins of one width over a range, if it has any values.
        fn even(range: &Range<Self>, bins: u32) -> Option<Self::Even>
        where
            Self: Sized;
        /// About its value, for messages.
        fn to_f64(self) -> f64;
    }
}

macro_rules! integers {
    ($($t:ty: $word:ty, $even:ident $even_global:ident $edges:ident $edges_global:ident;)*) => {$(
        impl sealed::Counted for $t {
            type Word = $word;
            type Edge = $word;
            type Even = EvenIntegers<$word>;
            const EVEN: Counting<Self::Even, $word> =
                Counting { shared: &kernels::$even, global: &kernels::$even_global };
            const EDGES: Counting<Edges<$word>, $word> =
                Counting { shared: &kernels::$edges, global: &kernels::$edges_global };
            // The sign bit, if there is one.
            const FLIP: u64 = <$t>::MIN as $word as u64;

            fn flipped(self) -> Self {
                self ^ <$t>::MIN
            }

            fn even(range: &Range<$t>, bins: u32) -> Option<Self::Even> {
                let span = range.end.wrapping_sub(range.start) as $word;
                let low = range.start as $word;
                (range.start < range.end)
                    .then(|| EvenIntegers::<$word>::new(low, span, <$t>::MAX as $word, bins))
            }

            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

integers! {
    u32: u32, EVEN_INTEGERS_4 EVEN_INTEGERS_4_GLOBAL EDGES_INTEGERS_4 EDGES_INTEGERS_4_GLOBAL;
    i32: u32, EVEN_INTEGERS_4 EVEN_INTEGERS_4_GLOBAL EDGES_INTEGERS_4 EDGES_INTEGERS_4_GLOBAL;
    u64: u64, EVEN_INTEGERS_8 EVEN_INTEGERS_8_GLOBAL EDGES_INTEGERS_8 EDGES_INTEGERS_8_GLOBAL;
    i64: u64, EVEN_INTEGERS_8 EVEN_INTEGERS_8_GLOBAL EDGES_INTEGERS_8 EDGES_INTEGERS_8_GLOBAL;
}

macro_rules! floats {
    ($($t:ty: $word:ty, $even:ident $even_global:ident $edges:ident $edges_global:ident;)*) => {$(
        impl sealed::Counted for $t {
            type Word = $word;
            type Edge = $t;
            type Even = EvenFloats;
            const EVEN: Counting<Self::Even, $word> =
                Counting { shared: &kernels::$even, global: &kernels::$even_global };
            const EDGES: Counting<Edges<$t>, $word> =
                Counting { shared: &kernels::$edges, global: &kernels::$edges_global };
            const FLIP: u64 = 0;

            fn flipped(self) -> Self {
                self
            }

            fn even(range: &Range<$t>, bins: u32) -> Option<Self::Even> {
                let (low, high) = (f64::from(range.start), f64::from(range.end));
                let scale = f64::from(bins) / (high - low);
                // Neither ends that are infinite nor a width that overflows.
                ((high - low).is_finite() && low < high)
                    .then_some(EvenFloats { low, high, scale, bins })
            }

            fn to_f64(self) -> f64 {
                f64::from(self)
            }
        }
    )*};
}

floats! {
    f32: u32, EVEN_F32 EVEN_F32_GLOBAL EDGES_F32 EDGES_F32_GLOBAL;
    f64: u64, EVEN_F64 EVEN_F64_GLOBAL EDGES_F64 EDGES_F64_GLOBAL;
}
