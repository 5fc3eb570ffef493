//! Kernels in rust-cuda's form, over [`gpumap_simt`]: the names of `cuda_std` 0.2.2, for rustc's own PTX target and for the CPU.
//!
//! A kernel that was written for rust-cuda keeps its text. Its crate depends on this one instead of `cuda_std`, and begins with
//! `#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]`. `examples/neighbours` compares the signatures with those of the
//! published crate, at compile time.
//!
//! | module | covered |
//! |---|---|
//! | [`kernel`] | functions with plain words, pointers, references and slices as parameters |
//! | [`thread`] | all of it; on the CPU grids have one dimension |
//! | [`warp`] | all of 0.2.2; and of the repository, at 18f8dc31: `activemask`, votes, shuffles and matches of words of 32 and 64 bits |
//! | [`shared`], [`shared_array!`] | all of it; evaluate `shared_array!` once, outside loops |
//! | [`atomic`] | the types, which only work in kernels here, and `atomic::mid` |
//! | [`ptr`] | all of it; on the CPU all memory is global |
//!
//! **Not covered:** `print!`, `println!` and `assert_eq!` of the prelude and `io`; `alloc` and `mem`, so `Vec` and `String` too; `float`,
//! `GpuFloat`, `f16`, `bf16` and `intrinsics` (libdevice); `vek`, of which [`Vec2`] and [`Vec3`] stand for what `thread` returns;
//! `cfg::ComputeCapability` (PTX for sm_90 is compiled with `cfg(gpumap_sm90)`); `misc`; `atomic::intrinsics`; textures;
//! `#[gpu_only]`, `#[externally_visible]` and `#[address_space]`; of the repository `warp_reduce`, `cg`, and shuffles of
//! other widths. An argument that is a struct needs [`gpumap_simt::layout!`].

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch, stdarch_nvptx))]

pub mod atomic;
pub mod ptr;
pub mod shared;
pub mod thread;
pub mod warp;

/// Makes a function the entry point of that name, as `launch!` of `cust` wants it: a slice is its pointer and its length,
/// a reference a pointer.
///
/// For this library it also declares what [`gpumap_simt::kernel!`] declares, on every target: of `fn add` the arguments `AddArgs`, in
/// which a slice `a` is the fields `a` and `a_len`, and the kernel `ADD`, whose entry point is `gpumap_add`.
///
/// ```
/// use cuda_std::{kernel, thread};
/// use gpumap_simt::{executor::Executor, kernel::Grid};
///
/// /// Adds.
/// #[kernel]
/// pub unsafe fn add(a: &[f32], b: &[f32], c: *mut f32) {
///     let i = thread::index_1d() as usize;
///     if let (Some(a), Some(b)) = (a.get(i), b.get(i)) {
///         unsafe { *c.add(i) = a + b };
///     }
/// }
///
/// let (a, b, mut c) = ([1.0; 100], [2.0; 100], [0.0; 100]);
/// let args = AddArgs { a: a.as_ptr(), a_len: 100, b: b.as_ptr(), b_len: 100, c: c.as_mut_ptr() };
/// // SAFETY: the arrays have 100 elements and outlive the launch.
/// unsafe { ADD.run(Executor::global(), Grid::covering(100, 64), args)? };
/// assert_eq!(c, [3.0; 100]);
/// # Ok::<(), gpumap_simt::executor::Fault>(())
/// ```
///
/// A kernel is `unsafe`, returns nothing and has no generic parameters:
///
/// ```compile_fail
/// #[cuda_std::kernel]
/// pub fn safe(n: u32) { let _ = n; }
/// ```
/// ```compile_fail
/// #[cuda_std::kernel]
/// pub unsafe fn answer() -> u32 { 42 }
/// ```
/// ```compile_fail
/// #[cuda_std::kernel]
/// pub unsafe fn generic<T: Copy>(a: *mut T) { let _ = a; }
/// ```
pub use gpumap_cuda_std_macros::kernel;

pub use gpumap_simt::shared_array;
pub use thread::{Vec2, Vec3};

#[doc(hidden)]
pub use gpumap_simt as __simt;

pub mod prelude {
    //! What kernels import at once.
    pub use crate::{kernel, thread};
}

/// What [`kernel`] puts behind the function: arguments, descriptor and entry points.
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel {
    ($vis:vis $name:ident $kernel:ident $args:ident $entry:ident ($($field:ident: $t:ty,)*) ($($call:expr,)*)) => {
        $crate::__simt::kernel_args! {
            #[doc = concat!("Arguments of [`", stringify!($kernel), "`].")]
            #[allow(missing_docs, reason = "they are the function's parameters")]
            $vis struct $args { $(pub $field: $t),* }
        }
        $crate::__simt::kernel! {
            #[doc = concat!("Launches [`", stringify!($name), "`].")]
            $vis static $kernel = fn $entry(args: $args) {
                let $args { $($field),* } = args;
                // SAFETY: the caller of the launch vouches for the arguments.
                unsafe { $name($($call),*) }
            }
        }
        // The same with a parameter for each field. It is listed, and has a signature, as the other.
        #[cfg(target_arch = "nvptx64")]
        const _: () = {
            #[unsafe(export_name = stringify!($name))]
            unsafe extern "ptx-kernel" fn entry($($field: $t),*) {
                // SAFETY: as above.
                unsafe { $name($($call),*) }
            }
            #[unsafe(export_name = concat!("gpumap_layout_", stringify!($name)))]
            static SIGNATURE: [u8; 8] =
                $crate::__simt::layout::signature::<$args>(stringify!($name)).to_le_bytes();
        };
        #[cfg(not(target_arch = "nvptx64"))]
        const _: () = {
            $crate::__simt::__list_kernel!($name, $args);
        };
    };
}
