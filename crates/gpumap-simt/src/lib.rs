//! One facade for GPU kernels written in Rust.
//!
//! Kernel source is plain Rust over the modules of this crate. Compiled for
//! `nvptx64-nvidia-cuda` every function here is an intrinsic or one PTX instruction; compiled
//! for anything else the same source runs on a **checked executor**: a coroutine per lane,
//! where a mismatched collective, a divergent barrier or a hang is an error that names kernel,
//! block, lanes and source lines instead of undefined behaviour.
//!
//! | module | what it has | which lanes may call it |
//! |---|---|---|
//! | [`thread`] | indices of thread, block and grid; block barrier; spin hint | any lane; the barrier: every thread of the block |
//! | [`warp`] | votes, shuffles, matches over a lane mask | every lane named by the mask |
//! | [`tile`] | the same for power-of-two parts of a warp | every lane of the tile |
//! | [`shared`] | memory of one block, static and dynamic | every thread of the block |
//! | [`shared_ptr`] | the same by 32-bit addresses: atomics, asynchronous copies | any lane |
//! | [`atomic`] | device-scope atomics of 32, 64 and 128 bits with typed orderings | any lane |
//! | [`aggregate`] | one atomic for all lanes that count in one counter | any lane |
//! | [`mem`] | vector loads and stores with cache hints | any lane |
//! | [`native`] | blocks that a CPU runs as one call, without lanes | device functions |
//! | [`mod@kernel`] | [`kernel!`], [`kernel_args!`], typed launches | the host |
//! | [`mod@layout`] | layouts of arguments as numbers, which PTX and host compare | the host |
//!
//! Names follow `cuda_std`, so a kernel written against it reads the same here.
//!
//! ```
//! use gpumap_simt::{executor::Executor, kernel, kernel::Grid, kernel_args, thread};
//!
//! kernel_args! {
//!     /// Arguments of [`INCREMENT`].
//!     pub struct IncrementArgs {
//!         /// The words to add one to.
//!         pub data: *mut u32,
//!         /// How many there are.
//!         pub n: u64,
//!     }
//! }
//! kernel! {
//!     /// Adds one to each of `n` words.
//!     pub static INCREMENT = fn increment(args: IncrementArgs) {
//!         let i = thread::index();
//!         if i < args.n {
//!             // SAFETY: `i < n`, and each thread has its own word.
//!             unsafe { *args.data.add(i as usize) += 1 };
//!         }
//!     }
//! }
//!
//! let mut data = vec![41u32; 1000];
//! let args = IncrementArgs { data: data.as_mut_ptr(), n: data.len() as u64 };
//! // SAFETY: `data` outlives the launch, which is synchronous.
//! unsafe { INCREMENT.run(Executor::global(), Grid::covering(1000, 128), args)? };
//! assert!(data.iter().all(|&x| x == 42));
//! # Ok::<(), gpumap_simt::executor::Fault>(())
//! ```
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        abi_unadjusted,
        asm_experimental_arch,
        link_llvm_intrinsics,
        stdarch_nvptx
    )
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]

#[cfg(target_endian = "big")]
compile_error!("slots are laid out for little-endian machines");

pub mod aggregate;
pub mod atomic;
pub mod kernel;
pub mod layout;
pub mod mask;
pub mod mem;
#[cfg(not(target_arch = "nvptx64"))]
pub mod native;
pub mod shared;
pub mod shared_ptr;
pub mod thread;
pub mod tile;
pub mod warp;
mod words;

#[cfg(not(target_arch = "nvptx64"))]
mod cpu;
#[cfg(target_arch = "nvptx64")]
mod gpu;

#[cfg(not(target_arch = "nvptx64"))]
use cpu as imp;
#[cfg(target_arch = "nvptx64")]
use gpu as imp;

#[cfg(not(target_arch = "nvptx64"))]
pub mod executor {
    //! The CPU back end: runs kernels lane by lane, and checks every collective.
    pub use crate::cpu::{
        Caller, Changes, Config, Executor, Fault, FaultKind, LaneRef, Launch, Memory, Model,
        Operation, PanicSite, ParseScriptError, Schedule, Script, Shrunk, Site, Trace, Turn,
        Waiting, WarpLanes, take_turns, with_model,
    };
    #[doc(hidden)]
    pub use crate::cpu::{PerProcess, forks};
}

#[doc(hidden)]
#[cfg(gpumap_list)]
pub use linkme as __linkme;

pub use words::{U32x4, U64x2};
