//! The entry points, and the sets of them that the host chooses from.
//!
//! | file | idea |
//! |---|---|
//! | `table` | which kernels there are: operation, input, format |
//! | `operations` | the operations on batches: arguments and bodies |
//! | `any_keys` | sources for kernels that work on keys of either size |
//! | `reply` | lookups whose answers go to other devices |
//! | `set` | from the sizes of keys and values and an encoding to the kernels of a map |
//! | [`codes`] | how many operations of a mixed batch may store |
//!
//! A host that knows the types of keys and values by their sizes alone passes addresses of bytes: see
//! [`Kernel::erased`](gpumap_simt::kernel::Kernel::erased).

mod any_keys;
pub mod codes;
mod operations;
mod reply;
#[cfg(not(target_arch = "nvptx64"))]
mod set;
mod table;

pub use operations::{BATCH_THREADS, OperationArgs};
pub use reply::{GetBinsArgs, reply_bytes};
#[cfg(not(target_arch = "nvptx64"))]
pub use set::{BulkKernels, Combined, KernelSet, KeyBits, ValueBits, kernels_of};
pub use table::*;

/// How the host's device claims a 16-byte slot.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// By a 128-bit CAS: the PTX of sm_90 and newer, and the CPU.
    Wide,
    /// By the key word: the PTX of sm_70, and the CPU.
    Split,
}
