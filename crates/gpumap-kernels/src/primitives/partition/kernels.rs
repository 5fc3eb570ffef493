//! The scatter kernels, and for the host the set of kernels for each size of key and payload.

use super::route::Arrays;
use super::{ScatterArgs, scatter};
use gpumap_simt::kernel;
#[cfg(not(target_arch = "nvptx64"))]
use {
    super::{COUNT_TILES_4, COUNT_TILES_8, Payload, TileCountArgs, key_bytes, part_bytes},
    crate::primitives::binning::DigitOf,
    crate::primitives::histogram::{self, HistogramArgs},
    crate::slot::Bits,
    gpumap_simt::kernel::{Kernel, KernelArgs},
    gpumap_simt::layout::Layout,
};

macro_rules! scatter_kernels {
    ($($key:ty, $value:ty:
        $any:ident = $any_entry:ident, $any_threads:literal x $any_each:literal x $any_blocks:literal;
        $stable:ident = $stable_entry:ident, $threads:literal x $each:literal x $blocks:literal;
    )*) => {$(
        kernel! {
            /// Writes keys by part, in any order inside a part.
            pub static $any = fn $any_entry(args: ScatterArgs<$key, $value>) by block {
                // SAFETY: the launch is as the arguments say.
                unsafe {
                    scatter::<_, _, _, $any_threads, $any_each, false, false>(Arrays::<_, _, false, false>(&args), args.tile)
                };
            }
            /// Writes keys by part, in input order inside a part.
            pub static $stable = fn $stable_entry(args: ScatterArgs<$key, $value>) by block {
                // SAFETY: the launch is as the arguments say.
                unsafe {
                    scatter::<_, _, _, $threads, $each, true, false>(Arrays::<_, _, true, false>(&args), args.tile)
                };
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        impl Partitioned<$value> for $key {
            const KERNELS: PartitionKernels<$key, $value> = PartitionKernels {
                digits: <$key as Digits>::DIGITS,
                count_tiles: <$key as Digits>::COUNT_TILES,
                scatter: ScatterKernel {
                    kernel: &$any,
                    threads: $any_threads,
                    keys_per_thread: $any_each,
                    blocks: $any_blocks,
                    most_parts: $any_threads,
                    key_bytes: key_bytes::<$key, $value>(false, false),
                    part_bytes: part_bytes(size_of::<u64>() as u32, $any_threads, false),
                },
                stable: ScatterKernel {
                    kernel: &$stable,
                    threads: $threads,
                    keys_per_thread: $each,
                    blocks: $blocks,
                    most_parts: $threads,
                    key_bytes: key_bytes::<$key, $value>(false, true),
                    part_bytes: part_bytes(size_of::<u64>() as u32, $threads, true),
                },
            };
        }
    )*};
}

// Threads, keys for each, blocks to a multiprocessor. One block with all of its shared memory
// wrote pairs a fifth faster than two of half the size; ranking by match is slower, and wants
// the second block to overlap with (H200, 2026-11).
scatter_kernels! {
    u32, ():
        SCATTER_4 = partition_scatter_4, 512 x 20 x 2;
        STABLE_4 = partition_stable_4, 512 x 20 x 2;
    u32, u32:
        SCATTER_4_4 = partition_scatter_4_4, 1024 x 18 x 1;
        STABLE_4_4 = partition_stable_4_4, 512 x 20 x 2;
    u32, u64:
        SCATTER_4_8 = partition_scatter_4_8, 1024 x 15 x 1;
        STABLE_4_8 = partition_stable_4_8, 512 x 14 x 2;
    u64, ():
        SCATTER_8 = partition_scatter_8, 512 x 18 x 2;
        STABLE_8 = partition_stable_8, 512 x 20 x 2;
    u64, u32:
        SCATTER_8_4 = partition_scatter_8_4, 1024 x 15 x 1;
        STABLE_8_4 = partition_stable_8_4, 512 x 14 x 2;
    u64, u64:
        SCATTER_8_8 = partition_scatter_8_8, 1024 x 18 x 1;
        STABLE_8_8 = partition_stable_8_8, 512 x 18 x 2;
}

/// The kernels that look at keys alone.
#[cfg(not(target_arch = "nvptx64"))]
trait Digits: Layout + Copy + 'static {
    const DIGITS: &'static Kernel<HistogramArgs<DigitOf, Self>>;
    const COUNT_TILES: &'static Kernel<TileCountArgs<Self>>;
}

#[cfg(not(target_arch = "nvptx64"))]
impl Digits for u32 {
    const DIGITS: &'static Kernel<HistogramArgs<DigitOf, Self>> = &histogram::DIGITS_4;
    const COUNT_TILES: &'static Kernel<TileCountArgs<Self>> = &COUNT_TILES_4;
}

#[cfg(not(target_arch = "nvptx64"))]
impl Digits for u64 {
    const DIGITS: &'static Kernel<HistogramArgs<DigitOf, Self>> = &histogram::DIGITS_8;
    const COUNT_TILES: &'static Kernel<TileCountArgs<Self>> = &COUNT_TILES_8;
}

/// A scatter kernel and what it is launched with.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct ScatterKernel<A: KernelArgs> {
    /// The kernel.
    pub kernel: &'static Kernel<A>,
    /// Threads per block.
    pub threads: u32,
    /// Keys that each of them ranks at most.
    pub keys_per_thread: u32,
    /// Blocks that share the shared memory of a multiprocessor.
    pub blocks: u32,
    /// How many parts there can be.
    pub most_parts: u32,
    /// Bytes of dynamic shared memory for each key of a tile,
    pub key_bytes: u32,
    /// and for each part.
    pub part_bytes: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
impl<A: KernelArgs> ScatterKernel<A> {
    /// The same for a host that does not know what the pointers in its arguments lead to.
    ///
    /// # Safety
    /// As for [`Kernel::erased`].
    pub const unsafe fn erased<B: KernelArgs>(&self) -> ScatterKernel<B> {
        ScatterKernel {
            // SAFETY: the caller's promise.
            kernel: unsafe { self.kernel.erased() },
            threads: self.threads,
            keys_per_thread: self.keys_per_thread,
            blocks: self.blocks,
            most_parts: self.most_parts,
            key_bytes: self.key_bytes,
            part_bytes: self.part_bytes,
        }
    }

    /// Bytes of dynamic shared memory for a tile of so many keys.
    pub const fn shared_bytes(&self, tile: u32, parts: u32) -> u32 {
        tile * self.key_bytes + parts * self.part_bytes
    }
}

/// The kernels for one size of key and one payload.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct PartitionKernels<K: Layout + Copy + 'static, V: Layout + Copy + 'static> {
    /// Counts all digits.
    pub digits: &'static Kernel<HistogramArgs<DigitOf, K>>,
    /// Counts each tile's digits.
    pub count_tiles: &'static Kernel<TileCountArgs<K>>,
    /// The unstable form.
    pub scatter: ScatterKernel<ScatterArgs<K, V>>,
    /// The stable form.
    pub stable: ScatterKernel<ScatterArgs<K, V>>,
}

/// Keys and payloads that there are kernels for.
#[cfg(not(target_arch = "nvptx64"))]
pub trait Partitioned<V: Payload>: Bits {
    /// The kernels.
    const KERNELS: PartitionKernels<Self, V>;
}
