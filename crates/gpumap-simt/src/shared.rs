//! Memory shared by the threads of one block.
//!
//! Both forms give every thread of the block the same pointer. The memory is uninitialised (the
//! executor poisons it), and what one thread writes another sees after
//! [`sync_threads`](crate::thread::sync_threads).

use crate::imp;

/// The launch's dynamic shared memory ([`Grid::shared_bytes`](crate::kernel::Grid)), 16-byte
/// aligned.
#[inline(always)]
pub fn dynamic_shared_mem<T>() -> *mut T {
    imp::dynamic_shared().cast()
}

/// `shared_array![T; N]`: a `*mut T` to `N` elements of the block's static shared memory,
/// 16-byte aligned.
///
/// Evaluate it **once** in a kernel, outside loops, and keep the pointer: each copy that the
/// compiler makes of the expression is an array of its own.
///
/// ```
/// use gpumap_simt::{executor::Executor, kernel, kernel::Grid, kernel_args, shared_array, thread};
/// kernel_args! {
///     /// Arguments of [`REVERSE`].
///     pub struct ReverseArgs {
///         /// 64 words.
///         pub data: *mut u32,
///     }
/// }
/// kernel! {
///     /// Reverses 64 words through shared memory.
///     pub static REVERSE = fn reverse(args: ReverseArgs) {
///         let stage = shared_array![u32; 64];
///         let t = thread::thread_idx_x() as usize;
///         // SAFETY: one block of 64 threads; each has its own word on both sides of the barrier.
///         unsafe {
///             *stage.add(t) = *args.data.add(t);
///             thread::sync_threads();
///             *args.data.add(t) = *stage.add(63 - t);
///         }
///     }
/// }
/// let mut data: Vec<u32> = (0..64).collect();
/// let args = ReverseArgs { data: data.as_mut_ptr() };
/// // SAFETY: `data` has the 64 words, and the launch is synchronous.
/// unsafe { REVERSE.run(Executor::global(), Grid::new(1, 64), args)? };
/// assert!(data.iter().rev().copied().eq(0..64));
/// # Ok::<(), gpumap_simt::executor::Fault>(())
/// ```
#[macro_export]
macro_rules! shared_array {
    ($t:ty; $n:expr) => {{
        static SITE: u8 = 0;
        $crate::shared::static_array::<$t, { ::core::mem::size_of::<$t>() * ($n) }>(&SITE)
    }};
}

/// What [`shared_array!`](crate::shared_array) expands to: `BYTES` of static shared memory that
/// belong to `site`.
#[doc(hidden)]
#[inline(always)]
pub fn static_array<T, const BYTES: usize>(site: &'static u8) -> *mut T {
    const { assert!(core::mem::align_of::<T>() <= 16) };
    #[cfg(target_arch = "nvptx64")]
    let memory = {
        let _ = site;
        imp::shared_array::<BYTES>()
    };
    #[cfg(not(target_arch = "nvptx64"))]
    let memory = imp::shared_array(site, BYTES, 16);
    memory.cast()
}
