//! Parquet: the columns `key` and `value`, unsigned 64-bit integers, without Arrow.
//!
//! Keys of 16 bytes are written as byte arrays of that length, the highest byte first, so that their order is that of the numbers: Parquet has
//! no integers of that size.
//!
//! Read is any file with columns of those names or of others that are given, in any order and beside others, or with
//! as many columns as are wanted and no more, of integers of 32 or 64 bits that are neither missing nor
//! negative, keys of 16 bytes also of such byte arrays, whether or not the file says that
//! all have one length; uncompressed or compressed with Snappy, Zstandard or gzip.

mod packed;
mod pages;
mod reader;
mod writer;

pub use reader::{has_keys_of, named_places, read};
pub use writer::{ColumnWriter, Group};

/// The columns, in the order in which they are written.
const NAMES: [&str; 2] = ["key", "value"];

/// Whether keys are no integers of Parquet.
const fn is_wide<C>() -> bool {
    size_of::<C>() > size_of::<u64>()
}
