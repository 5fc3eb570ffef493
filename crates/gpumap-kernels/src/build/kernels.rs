//! The kernels that sort bins by page, for each size of key and value.

use super::pages::{PagesArgs, to_pages};
#[cfg(not(target_arch = "nvptx64"))]
use crate::primitives::partition::ScatterKernel;
#[cfg(not(target_arch = "nvptx64"))]
use gpumap_simt::U64x2;
use gpumap_simt::kernel;

/// The way from bins to pages, for keys and values that there is a kernel for.
#[cfg(not(target_arch = "nvptx64"))]
pub trait ToPages<V: Copy + 'static>: Copy + 'static {
    /// The kernel.
    const TO_PAGES: ScatterKernel<PagesArgs<Self, V>>;
}

macro_rules! to_pages_kernels {
    ($($key:ty, $value:ty:
        $kernel:ident = $entry:ident, $threads:literal x $each:literal x $blocks:literal;
    )*) => {$(
        kernel! {
            /// Writes the pairs of bins to the heads of their pages.
            pub static $kernel = fn $entry(args: PagesArgs<$key, $value>) {
                // SAFETY: the launch is as the arguments say.
                unsafe { to_pages::<_, _, $threads, $each>(&args) };
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        impl ToPages<$value> for $key {
            const TO_PAGES: ScatterKernel<PagesArgs<$key, $value>> = ScatterKernel {
                kernel: &$kernel,
                threads: $threads,
                keys_per_thread: $each,
                blocks: $blocks,
                place_bytes: size_of::<U64x2>() as u32,
            };
        }
    )*};
}

// As the unstable kernels of the partition have it, but for the registers that the ways to the
// pages take.
to_pages_kernels! {
    u32, (): TO_PAGES_4_0 = to_pages_4_0, 512 x 20 x 2;
    u32, u32: TO_PAGES_4_4 = to_pages_4_4, 1024 x 18 x 1;
    u32, u64: TO_PAGES_4_8 = to_pages_4_8, 1024 x 15 x 1;
    u64, (): TO_PAGES_8_0 = to_pages_8_0, 512 x 18 x 2;
    u64, u32: TO_PAGES_8_4 = to_pages_8_4, 1024 x 15 x 1;
    u64, u64: TO_PAGES_8_8 = to_pages_8_8, 1024 x 18 x 1;
}
