//! The file format of saved maps: [`Map::save`](crate::Map::save) and
//! [`Map::load`](crate::Map::load) for programs that want the pairs rather than a map.
//!
//! A [`Writer`] takes pairs from anywhere, a [`Reader`] gives them block by block; neither needs a
//! device. An [`AtomicFile`] is a file to write to that is there whole or not at all.
//!
//! The guide's page *The file format* specifies the bytes: a header of 64 bytes, blocks of up to
//! [`MAX_BLOCK_PAIRS`] pairs (all keys, then all values), and an end record with the number of
//! pairs. Each of the three has a CRC-32, and the end record one of everything before it.
//!
//! ```
//! use gpumap::file::{Header, Reader, Writer};
//!
//! let mut writer = Writer::<u64, f32, _>::new(Vec::new(), &Header::new::<u64, f32>(3))?;
//! writer.write(&[1, 2, 3], &[0.1, 0.2, 0.3])?;
//! let bytes = writer.finish()?;
//!
//! let mut reader = Reader::<u64, f32, _>::new(&bytes[..])?;
//! assert_eq!(reader.header().pairs, 3);
//! while let Some((keys, values)) = reader.next_block()? {
//!     assert_eq!((keys, values), (&[1, 2, 3][..], &[0.1, 0.2, 0.3][..]));
//! }
//! # Ok::<(), gpumap::Error>(())
//! ```

mod atomic;
mod error;
mod header;
mod kind;
mod mapping;
mod reader;
mod strings;
#[cfg(test)]
mod tests;
mod unfinished;
mod writer;

pub use atomic::AtomicFile;
pub use error::{FileError, FilePart};
pub use header::{GroupPart, Header};
pub use kind::Kind;
pub(crate) use kind::Kinds;
pub use reader::Reader;
pub(crate) use strings::{StringReader, StringWriter};
#[cfg(unix)]
pub use unfinished::remove_unfinished;
pub use writer::{Block, Frame, Writer};

/// What every saved map begins with. The first byte is no text, the last one is changed by
/// transfers that change line ends.
pub const MAGIC: [u8; 8] = *b"\x89gpumap\n";

/// The newest version of the format that is read and written.
pub const VERSION: u32 = 7;

/// The version of files without a [label](Header::label). All are read. Only the newest says the [kinds](Kind) of keys and values;
/// of the earlier ones the oldest was written that had what the file needs.
const UNLABELLED: u32 = 1;

/// The version of those with one.
const LABELLED: u32 = 2;

/// The version of those whose values are no numbers, or of which a key may have several pairs.
const OF_BYTES: u32 = 3;

/// The version of those with the rows of keys.
const OF_ROWS: u32 = 4;

/// The version of those with strings as keys.
const OF_STRINGS: u32 = 5;

/// The version of those with the rows of one rank of a group.
const OF_RANKS: u32 = 6;

/// Pairs of a block at most, so that a reader never needs more memory than for as many.
pub const MAX_BLOCK_PAIRS: usize = 1 << 20;

/// The pairs and the checksum of a block come before it.
const BLOCK_START: usize = 8;

/// What follows the word 0 that no block begins with, and that word.
const END: usize = 20;
