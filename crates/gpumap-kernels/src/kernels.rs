//! The entry points, and the sets of them that the host chooses from.
//!
//! A set has one kernel per verb for one size of key, one size of value and one [`Encoding`].
//! The types of a set's arguments depend on the sizes alone, so that a host that picked the
//! set by the device cannot mix up keys and values.
//!
//! | file | idea |
//! |---|---|
//! | `batch` | the verbs over a batch as it comes |
//! | `bulk` | the verbs over a batch in bins, and the kernels that make pages |
//! | `reply` | lookups whose answers go to other devices |
//! | `set`, `keys`, [`ids`] | the kernels of maps with values, of sets, of maps of ids |
//! | [`codes`] | how many operations of a mixed batch may store |
//! | `choose` | from sizes and encoding to a set |
//!
//! Entry points are named after the verb, the bytes of a key and of a value, and the encoding where
//! there are two: `insert_8_8_wide`.

/// A kernel of a set, for hosts that know only the sizes of keys and values.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! erased {
    ($kernel:expr) => {
        // SAFETY: the set says what sizes its keys and values have, and its users keep to them.
        unsafe { $kernel.erased() }
    };
}

mod batch;
mod bulk;
#[cfg(not(target_arch = "nvptx64"))]
mod choose;
pub mod codes;
pub mod ids;
mod keys;
mod reply;
mod set;

pub use batch::{
    AssignArgs, BATCH_THREADS, CountArgs, GetArgs, MixedArgs, RehashArgs, RemoveArgs, StoreArgs,
    UndoArgs,
};
#[cfg(not(target_arch = "nvptx64"))]
pub use bulk::BulkKernels;
pub use bulk::{AssignBinsArgs, CountBinsArgs, RemoveBinsArgs, StoreBinsArgs};
#[cfg(not(target_arch = "nvptx64"))]
pub use choose::{KeyBits, ValueBits, kernels_of};
pub use keys::*;
pub use reply::{GetBinsArgs, reply_bytes};
pub use set::*;

/// How the host's device claims a 16-byte slot.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// By a 128-bit CAS: the PTX of sm_90 and newer, and the CPU.
    Wide,
    /// By the key word: the PTX of sm_70, and the CPU.
    Split,
}
