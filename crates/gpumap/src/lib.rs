//! The concurrent key-value map for NVIDIA GPUs, in Rust from the kernels up.
//!
//! # Devices
//!
//! Everything lives on a [`Device`]. [`Device::best`] takes the first CUDA device that works, or
//! else the CPU, which runs the same kernels on a checked executor: slowly, but anywhere, and
//! with errors that name source lines. `GPUMAP_DEVICE=cpu` or `cuda:N` overrides.
//!
//! ```
//! use gpumap::{Buffer, Device, Stream};
//!
//! # // SAFETY: the first thing in this process.
//! # unsafe { std::env::set_var("GPUMAP_DEVICE", "cpu") };
//! let device = Device::best()?;
//! println!("running on {device}");
//!
//! let stream = Stream::new(&device)?;
//! let buffer = Buffer::from_slice(&stream, &[1u64, 2, 3])?;
//! assert_eq!(buffer.to_vec()?, [1, 2, 3]);
//! # Ok::<(), gpumap::Error>(())
//! ```
//!
//! # Streams and order
//!
//! A [`Stream`] is a queue of work; a [`Buffer`] is allocated and freed in the order of one. What
//! is queued on another must be ordered after it with [`Stream::wait_stream`] or an [`Event`].
//!
//! # Kernels of your own
//!
//! Kernels are written in Rust with [`simt`] and launched on a stream. On the CPU that is all;
//! for CUDA their PTX is added with [`Device::register_ptx`], and launches find them by name.
//!
//! ```
//! use gpumap::simt::{kernel, kernel_args, kernel::Grid, thread};
//! use gpumap::{Buffer, Device, Stream};
//!
//! kernel_args! {
//!     /// Arguments of [`DOUBLE`].
//!     pub struct DoubleArgs {
//!         /// The words to double.
//!         pub data: *mut u32,
//!         /// How many there are.
//!         pub n: u64,
//!     }
//! }
//! kernel! {
//!     /// Doubles each of `n` words.
//!     pub static DOUBLE = fn double(args: DoubleArgs) {
//!         let i = thread::index();
//!         if i < args.n {
//!             // SAFETY: `i < n`, and each thread has its own word.
//!             unsafe { *args.data.add(i as usize) *= 2 };
//!         }
//!     }
//! }
//!
//! let stream = Stream::new(&Device::cpu())?;
//! let mut words = Buffer::from_slice(&stream, &[21u32; 100])?;
//! let args = DoubleArgs { data: words.as_mut_ptr(), n: 100 };
//! // SAFETY: `words` is of this stream and lives until it has been read.
//! unsafe { DOUBLE.launch(&stream, Grid::covering(100, 64), args)? };
//! assert_eq!(words.to_vec()?, [42; 100]);
//! # Ok::<(), gpumap::Error>(())
//! ```
//!
//! # Errors
//!
//! Nothing panics for want of a driver, a device or memory: there is one [`Error`], with the
//! figures in its fields.

mod buffer;
mod cuda;
mod device;
mod error;
mod event;
mod input;
mod map;
mod memory;
pub mod raw;
mod scratch;
mod stream;
#[cfg(test)]
mod testing;

pub use buffer::{Buffer, BufferView, BufferViewMut, PinnedBuffer};
pub use device::{Backend, ComputeCapability, Device, DeviceInfo, DriverVersion, PtxChoice};
pub use error::{DriverCode, Error, PtxError, Result, Setting};
pub use event::Event;
pub use input::{Input, Source};
pub use map::{DEFAULT_MAX_LOAD_FACTOR, Key, Map, MapBuilder, Value};
pub use stream::Stream;

/// The crate whose [`Pod`](bytemuck::Pod) keys and values are.
pub use bytemuck;
/// The facade that kernels are written with.
pub use gpumap_simt as simt;
/// The CPU back end: schedules and faults.
pub use gpumap_simt::executor;
