//! The kernels that sort pairs into bins, and bins by page, for each size of key and value.

use super::pages::{BinToPages, PagesArgs, PairsToPages};
use crate::primitives::partition::{Arrays, ScatterArgs, scatter};
use gpumap_simt::{U64x2, kernel};
#[cfg(not(target_arch = "nvptx64"))]
use {
    super::{pages::ROWS, pair::side_by_side},
    crate::primitives::partition::{Partitioned, ScatterKernel, key_bytes, part_bytes},
    gpumap_simt::layout::Layout,
};

/// The way to bins, for keys and values that there is a kernel for.
#[cfg(not(target_arch = "nvptx64"))]
pub trait ToBins<V: Layout + Copy + 'static>: Layout + Copy + 'static {
    /// The kernel.
    const TO_BINS: ScatterKernel<ScatterArgs<Self, V>>;
    /// The kernel that combines equal keys of a tile, for pairs that lie side by side.
    const COMBINED: Option<ScatterKernel<ScatterArgs<Self, V>>> = None;
}

/// The way from bins to pages, for keys and values that there is a kernel for.
#[cfg(not(target_arch = "nvptx64"))]
pub trait ToPages<V: Layout + Copy + 'static>: Layout + Copy + 'static {
    /// The kernel.
    const TO_PAGES: ScatterKernel<PagesArgs<Self, V>>;
    /// The kernel that combines equal keys of a tile, for pairs that lie side by side.
    const COMBINED: Option<ScatterKernel<PagesArgs<Self, V>>> = None;
}

macro_rules! to_bins_kernels {
    ($($key:ty, $value:ty:
        $kernel:ident = $entry:ident, $combined:ident = $combined_entry:ident,
        $threads:literal x $each:literal x $blocks:literal;
    )*) => {$(
        kernel! {
            /// Writes pairs to bins, [side by side](super::pair).
            pub static $kernel = fn $entry(args: ScatterArgs<$key, $value>) by block {
                let route = Arrays::<_, _, false, true>(&args);
                // SAFETY: the launch is as the arguments say.
                unsafe { scatter::<_, _, _, $threads, $each, false, false>(route, args.tile) };
            }
            /// The same, and [combines](super::combine) equal keys of a tile.
            pub static $combined = fn $combined_entry(args: ScatterArgs<$key, $value>) {
                let route = Arrays::<_, _, false, true>(&args);
                // SAFETY: the launch is as the arguments say.
                unsafe { scatter::<_, _, _, $threads, $each, false, true>(route, args.tile) };
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        impl ToBins<$value> for $key {
            const TO_BINS: ScatterKernel<ScatterArgs<$key, $value>> = ScatterKernel {
                kernel: &$kernel,
                threads: $threads,
                keys_per_thread: $each,
                blocks: $blocks,
                most_parts: $threads,
                key_bytes: key_bytes::<$key, $value>(true, false),
                part_bytes: part_bytes(size_of::<u64>() as u32, $threads, false),
            };
            const COMBINED: Option<ScatterKernel<ScatterArgs<$key, $value>>> = Some(ScatterKernel {
                kernel: &$combined,
                ..<$key as ToBins<$value>>::TO_BINS
            });
        }
    )*};
    // Those of the partition.
    ($($key:ty, $value:ty;)*) => {$(
        #[cfg(not(target_arch = "nvptx64"))]
        impl ToBins<$value> for $key {
            const TO_BINS: ScatterKernel<ScatterArgs<$key, $value>> =
                <$key as Partitioned<$value>>::KERNELS.scatter;
        }
    )*};
}

macro_rules! to_pages_kernels {
    (@route $args:ident) => { BinToPages::of_block(&$args) };
    (@route $args:ident $word:ty) => { PairsToPages::<_, _, $word>::of_block(&$args) };
    ($($key:ty, $value:ty $(as $word:ty, $combined:ident = $combined_entry:ident)?:
        $kernel:ident = $entry:ident, $threads:literal x $each:literal x $blocks:literal;
    )*) => {$(
        kernel! {
            /// Writes the pairs of bins to the heads of their pages.
            pub static $kernel = fn $entry(args: PagesArgs<$key, $value>) by block {
                // SAFETY: the launch is as the arguments say.
                unsafe {
                    let route = to_pages_kernels!(@route args $($word)?);
                    scatter::<_, _, _, $threads, $each, false, false>(route, args.tile);
                }
            }
            $(
            /// The same, and [combines](super::combine) equal keys of a tile.
            pub static $combined = fn $combined_entry(args: PagesArgs<$key, $value>) {
                // SAFETY: the launch is as the arguments say.
                unsafe {
                    let route = to_pages_kernels!(@route args $word);
                    scatter::<_, _, _, $threads, $each, false, true>(route, args.tile);
                }
            }
            )?
        }
        #[cfg(not(target_arch = "nvptx64"))]
        impl ToPages<$value> for $key {
            const TO_PAGES: ScatterKernel<PagesArgs<$key, $value>> = ScatterKernel {
                kernel: &$kernel,
                threads: $threads,
                keys_per_thread: $each,
                blocks: $blocks,
                most_parts: $threads * ROWS as u32,
                key_bytes: key_bytes::<$key, $value>(side_by_side::<$key, $value>(), false),
                part_bytes: part_bytes(size_of::<U64x2>() as u32, $threads, false),
            };
            $(
            const COMBINED: Option<ScatterKernel<PagesArgs<$key, $value>>> = Some(ScatterKernel {
                kernel: &$combined,
                ..<$key as ToPages<$value>>::TO_PAGES
            });
            )?
        }
    )*};
}

// Pairs side by side are written in one go. Then two blocks with half of the shared memory each are
// better: one ranks while the other writes (H200, 2026-11).
to_bins_kernels! {
    u32, u32: TO_BINS_4_4 = to_bins_4_4, TO_BINS_COMBINED_4_4 = to_bins_combined_4_4, 512 x 18 x 2;
    u64, u64: TO_BINS_8_8 = to_bins_8_8, TO_BINS_COMBINED_8_8 = to_bins_combined_8_8, 512 x 11 x 2;
}
to_bins_kernels! {
    u32, ();
    u32, u64;
    u64, ();
    u64, u32;
}
to_pages_kernels! {
    u32, (): TO_PAGES_4_0 = to_pages_4_0, 512 x 20 x 2;
    u32, u32 as u64, TO_PAGES_COMBINED_4_4 = to_pages_combined_4_4: TO_PAGES_4_4 = to_pages_4_4, 512 x 18 x 2;
    u32, u64: TO_PAGES_4_8 = to_pages_4_8, 1024 x 15 x 1;
    u64, (): TO_PAGES_8_0 = to_pages_8_0, 512 x 18 x 2;
    u64, u32: TO_PAGES_8_4 = to_pages_8_4, 1024 x 15 x 1;
    u64, u64 as U64x2, TO_PAGES_COMBINED_8_8 = to_pages_combined_8_8: TO_PAGES_8_8 = to_pages_8_8, 512 x 11 x 2;
}
