//! The concurrent key-value map for NVIDIA GPUs, in Rust from the kernels up.
//!
//! A [`Map`] lives in the memory of a [`Device`] and takes batches: it inserts and looks up
//! hundreds of millions of pairs at a time, from any number of threads. Keys and answers that stay on
//! the GPU cost what its memory costs: [`retrieve_all_into`](Map::retrieve_all_into) dumps every pair
//! at the speed of a memory copy. Answers in vectors of the host, as of
//! [`retrieve_all`](Map::retrieve_all), also cost the link and new pages, tens of times as much.
//!
//! ```
//! use gpumap::{Device, Map};
//!
//! let device = Device::best()?; // a GPU, or the CPU where there is none
//! let map: Map<u32, u64> = Map::with_capacity(&device, 10_000)?;
//! let squares: Vec<u64> = (0..10_000).map(|i| i * i).collect();
//! map.insert(&(0..10_000).collect::<Vec<u32>>(), &squares)?;
//! assert_eq!(map.get(&[9, 99_999])?, [Some(81), None]);
//!
//! let (keys, values) = map.retrieve_all()?;
//! assert!(keys.iter().zip(values).all(|(&k, v)| v == u64::from(k).pow(2)));
//! # Ok::<(), gpumap::Error>(())
//! ```
//!
//! # Usage
//!
//! - **Keys** are plain data of 4 to 64 bytes, **values** of up to 256, your own types included ([`Key`], [`Value`]). Every bit
//!   pattern is allowed: no key is set aside as a sentinel. The sizes choose how pairs lie in memory ([`Layout`]): keys and
//!   values of 4 and 8 bytes side by side, in one trip to memory. With `()` for values a map is a [set](Map#sets).
//! - If values are in arrays of your own, a [`RowMap`] has a dense row number for each key: plain data, or **strings** of any
//!   length.
//! - **Batches** are slices, vectors or arrays of the host, or [`Buffer`]s of the device
//!   ([`Input`]). From the device to the device nothing is copied or allocated.
//! - **Growth** is automatic ([`MapBuilder`] has the settings). A batch without enough memory is
//!   refused as a whole, with the map as it was.
//! - **Out and back**: [`chunks`](Map::chunks) streams all pairs to the host;
//!   [`save`](Map::save) and [`load`](Map::load) keep a map in a file ([`gpumap::file`](mod@file)).
//!
//! # Consistency
//!
//! Every verb takes `&self`, from any thread. A key is stored at most once, whatever runs at the
//! same time; each operation on a key takes effect at one moment; no reader sees a torn value.
//! [`Map`] has the contract verb by verb.
//!
//! # Performance
//!
//! The fastest way in and out is a [`Buffer`]. A key costs about one random access to memory: one load in a
//! lookup, one compare-and-exchange in a small insert. Large inserts are sorted by hash first and cost less. A map
//! with a lower load factor looks up faster. On the CPU the same verbs run as plain code on all cores.
//!
//! # Devices
//!
//! Everything lives on a [`Device`]. [`Device::best`] takes the first CUDA device that works, or
//! else the [CPU](Device::cpu), with a warning. `GPUMAP_DEVICE=cpu` or `cuda:N` overrides. [`Device::checked`] runs each kernel
//! on an executor that checks it: slowly, and with errors that name source lines.
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
//! [`Map::on`] has the verbs in the order of a stream, without waiting for the device, and a [`Graph`]
//! launches several of them by one call of the driver. Maps of other kinds have both as well:
//! [`OnStream`] says what they queue, and [`Graph`] what is captured.
//!
//! # Primitives
//!
//! [`primitives`] has scans, reductions, filters, histograms, partitions, sorts, unique keys, aggregates by key and
//! joins of plain arrays, with the same inputs and buffers.
//!
//! # Kernels of your own
//!
//! Kernels are written in Rust with [`simt`] and launched on a stream. On the CPU that is all;
//! for CUDA their PTX is added with [`Device::register_ptx`], and launches find them by name. Once it
//! is added, the CPU refuses what a GPU would refuse: PTX that is older than the source.
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
//! A kernel can also work on a map: [`Map::launch_with`] lends it. One that stores an unknown number of
//! pairs and cannot stop to let the map grow is what a [`MultiMap`] is for; it may hold several pairs
//! with one key as well.
//!
//! # Several GPUs
//!
//! A [`ShardedMap`] spreads its pairs over the devices of a group, and a [`ShardedRowMap`] its keys; [`sharded`] has what it takes to make
//! one, in one process or several.
//!
//! # Errors
//!
//! There is one [`Error`], with the figures in its fields. No verb panics for want of a driver or a
//! device. Memory of the device, and memory of the host for arrays in proportion to a batch or an
//! answer, is requested so that its end is [`Error::OutOfMemory`]. Small allocations of a fixed size go
//! through the standard library, which ends the process if even they cannot be had, as in any Rust
//! program.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The chapters of the guide, so that their code is compiled and run.
#[cfg(doctest)]
mod guide {
    macro_rules! chapters {
        ($($name:ident $file:literal)*) => {$(
            #[doc = include_str!(concat!("../../../docs/guide/src/", $file))]
            struct $name;
        )*};
    }
    chapters! {
        GettingStarted "getting-started.md"
        ComingFrom "coming-from.md"
        Map "map.md"
        Multimaps "multimaps.md"
        RowMaps "row-maps.md"
        Groups "groups.md"
        Joins "joins.md"
        SeveralGpus "several-gpus.md"
        Program "program.md"
        FileFormat "file-format.md"
        HowItWorks "how-it-works.md"
        Kernels "kernels.md"
        Ladders "ladders.md"
        Interop "interop.md"
    }
}

mod array;
#[cfg(feature = "arrow")]
pub mod arrow;
mod buffer;
mod cuda;
mod device;
mod error;
mod event;
pub mod file;
mod floats;
mod input;
mod lending;
mod lock;
#[cfg(test)]
mod lock_tests;
mod map;
mod memory;
pub mod multi;
mod occupancy;
pub mod op;
mod output;
mod persist;
mod poison;
pub mod primitives;
pub mod raw;
mod readers;
pub mod rows;
mod scratch;
pub mod sharded;
mod spread;
mod stream;
pub mod strings;
mod sync;
#[cfg(test)]
mod testing;
mod wide;

pub use buffer::{Buffer, BufferView, BufferViewMut, PinnedBuffer};
#[cfg(feature = "unstable-testing")]
#[doc(hidden)]
pub use device::faults::{Call, Fault, Faults};
pub use device::{
    Backend, ComputeCapability, Device, DeviceChoice, DeviceInfo, DriverVersion, PtxChoice,
};
pub use error::{DriverCode, Error, ErrorKind, PtxError, Result, Setting};
pub use event::Event;
pub use input::{Input, Source};
pub use lending::Tally;
#[cfg(feature = "unstable-testing")]
#[doc(hidden)]
pub use map::Audit;
pub use map::{
    Answer, Applied, CellStats, Chunk, Chunks, DEFAULT_MAX_LOAD_FACTOR, ForAll, ForEach, Graph,
    Growth, Key, Layout, Map, MapBuilder, Merge, Number, Numeric, OnStream, Operand, Operation,
    Outcome, Pending, Place, Recording, Stats, Value, Values, Word, WordKey,
};
#[doc(hidden)]
pub use memory::allocation_may_fail;
pub use multi::{MultiMap, MultiValue};
pub use output::{Output, Sink};
pub use rows::RowMap;
pub use sharded::{ShardedMap, ShardedRowMap};
pub use stream::Stream;

/// What kernels of your own work on a map with; they lend it by
/// [`Map::launch_with`](crate::Map::launch_with).
pub use gpumap_kernels::map_ref;

/// The crate whose [`Pod`](bytemuck::Pod) keys and values are.
pub use bytemuck;
/// The facade that kernels are written with.
pub use gpumap_simt as simt;
/// The CPU back end: schedules and faults.
pub use gpumap_simt::executor;
