//! Where a thread is in its block and grid, barriers of the block, and fences.
//!
//! On the CPU grids have one dimension: indices along y and z are 0, sizes 1.

use gpumap_simt::atomic::block_fetch_add;
use gpumap_simt::{shared_array, thread};

/// Two numbers, with the fields of `vek`'s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Vec2<T> {
    /// Along x.
    pub x: T,
    /// Along y.
    pub y: T,
}

/// Three numbers, with the fields of `vek`'s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Vec3<T> {
    /// Along x.
    pub x: T,
    /// Along y.
    pub y: T,
    /// Along z.
    pub z: T,
}

macro_rules! indices {
    ($($(#[$doc:meta])* $all:ident: $x:ident $y:ident $z:ident = $ptx_y:ident $ptx_z:ident or $else:literal;)*) => {$(
        #[doc = concat!("The x of [`", stringify!($all), "`].")]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $x() -> u32 {
            thread::$x()
        }
        #[doc = concat!("The y of [`", stringify!($all), "`].")]
        #[inline(always)]
        pub fn $y() -> u32 {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: reads a special register.
            return unsafe { core::arch::nvptx::$ptx_y() } as u32;
            #[cfg(not(target_arch = "nvptx64"))]
            $else
        }
        #[doc = concat!("The z of [`", stringify!($all), "`].")]
        #[inline(always)]
        pub fn $z() -> u32 {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: as above.
            return unsafe { core::arch::nvptx::$ptx_z() } as u32;
            #[cfg(not(target_arch = "nvptx64"))]
            $else
        }
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $all() -> Vec3<u32> {
            Vec3 { x: $x(), y: $y(), z: $z() }
        }
    )*};
}

indices! {
    /// The thread's index in its block.
    thread_idx: thread_idx_x thread_idx_y thread_idx_z = _thread_idx_y _thread_idx_z or 0;
    /// The block's index in the grid.
    block_idx: block_idx_x block_idx_y block_idx_z = _block_idx_y _block_idx_z or 0;
    /// Threads of a block.
    block_dim: block_dim_x block_dim_y block_dim_z = _block_dim_y _block_dim_z or 1;
    /// Blocks of the grid.
    grid_dim: grid_dim_x grid_dim_y grid_dim_z = _grid_dim_y _grid_dim_z or 1;
}

/// The thread's number in the grid, with all dimensions: another one for each thread, up to 2^32 of them.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn index() -> u32 {
    let (grid, block) = (grid_dim(), block_idx());
    let (size, thread) = (block_dim(), thread_idx());
    let block = block.x + grid.x * (block.y + grid.y * block.z);
    let thread = thread.x + size.x * (thread.y + size.y * thread.z);
    block * (size.x * size.y * size.z) + thread
}

/// The thread's number in a grid of one dimension.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn index_1d() -> u32 {
    thread_idx_x() + block_idx_x() * block_dim_x()
}

/// The thread's place in a grid of two dimensions.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn index_2d() -> Vec2<u32> {
    let Vec3 { x, y, .. } = index_3d();
    Vec2 { x, y }
}

/// The thread's place in a grid of three dimensions.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn index_3d() -> Vec3<u32> {
    Vec3 {
        x: index_1d(),
        y: thread_idx_y() + block_idx_y() * block_dim_y(),
        z: thread_idx_z() + block_idx_z() * block_dim_z(),
    }
}

/// Whether this is the thread with the number 0.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn first() -> bool {
    block_idx() == Vec3::default() && thread_idx() == Vec3::default()
}

/// Lanes per warp: 32.
#[inline(always)]
pub fn warp_size() -> u32 {
    gpumap_simt::warp::SIZE
}

/// The block barrier: returns when every thread of the block has called it, and each then sees what the others wrote before.
///
/// Every thread of the block must call it, none may have ended; the checked executor reports where one did not.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads() {
    // SAFETY: that of the function, which is safe in `cuda_std`.
    unsafe { thread::sync_threads() }
}

/// [`sync_threads`], and for how many threads `predicate` is not 0. It takes three barriers here, and its word of shared
/// memory is of the block's first dimension: every thread of the block must call it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads_count(predicate: u32) -> u32 {
    let count = shared_array![u32; 1];
    // SAFETY: one thread writes before the first barrier, atomics between it and the second, and all read behind that one; the
    // third keeps the word until all have read it.
    unsafe {
        if thread_idx() == Vec3::default() {
            *count = 0;
        }
        sync_threads();
        if predicate != 0 {
            block_fetch_add(count, 1);
        }
        sync_threads();
        let all = *count;
        sync_threads();
        all
    }
}

/// [`sync_threads`], and 1 if `predicate` is not 0 for all threads, else 0; see [`sync_threads_count`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads_and(predicate: u32) -> u32 {
    u32::from(sync_threads_count(u32::from(predicate == 0)) == 0)
}

/// [`sync_threads`], and 1 if `predicate` is not 0 for any thread, else 0; see [`sync_threads_count`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads_or(predicate: u32) -> u32 {
    u32::from(sync_threads_count(predicate) != 0)
}

macro_rules! fences {
    ($($(#[$doc:meta])* $name:ident = $ptx:literal;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name() {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: orders memory accesses.
            unsafe {
                core::arch::asm!($ptx, options(nostack));
            }
            #[cfg(not(target_arch = "nvptx64"))]
            gpumap_simt::atomic::fence();
        }
    )*};
}

fences! {
    /// A sequentially consistent fence among the threads of the grid. No thread waits for another. As [`device_fence`]:
    /// there is no narrower scope that a grid has.
    grid_fence = "fence.sc.gpu;";
    /// A sequentially consistent fence among the threads of the device.
    device_fence = "fence.sc.gpu;";
    /// A sequentially consistent fence among the threads of all devices and of the host.
    system_fence = "fence.sc.sys;";
}

/// A hint in a loop that waits: let other threads go on for about `nanos` nanoseconds.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn nanosleep(nanos: u32) {
    thread::nanosleep(nanos);
}
