//! What can be wrong with a saved map.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::Kind;
use super::kind::TypeName;

/// What was wrong with a file of a saved map.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It could not be read or written.
    #[error("cannot be read or written: {0}; check the path, its permissions and the free space")]
    Io(Arc<io::Error>),
    /// It does not begin as a saved map does.
    #[error("is not a saved map: pass a file that Map::save wrote")]
    NotAMap,
    /// Its format is of another version, most likely a newer one.
    #[error(
        "has format version {found}, and this build reads versions up to {known}: use a newer gpumap"
    )]
    Version {
        /// The version in the file.
        found: u32,
        /// The newest that can be read.
        known: u32,
    },
    /// Its keys and values are in the byte order of another kind of machine.
    #[error("was written on a machine of the other byte order: convert it through text there")]
    ByteOrder,
    /// Its keys are not of the map's size.
    #[error("has keys of {found} bytes, not {expected}: load it into a map of that key type")]
    KeySize {
        /// Bytes of a key in the file.
        found: usize,
        /// Bytes of a key of the map.
        expected: usize,
    },
    /// Its values are not of the map's size.
    #[error("has values of {found} bytes, not {expected}: load it into a map of that value type")]
    ValueSize {
        /// Bytes of a value in the file.
        found: usize,
        /// Bytes of a value of the map.
        expected: usize,
    },
    /// Its keys are of another type than the map's, of the same size.
    #[error("has keys of type {}, not {}: load it into a map of that key type", type_of(.found, .bytes), type_of(.expected, .bytes))]
    KeyType {
        /// What the keys in the file are.
        found: Kind,
        /// What those of the map are.
        expected: Kind,
        /// Bytes of a key.
        bytes: usize,
    },
    /// Its values are of another type than the map's, of the same size.
    #[error("has values of type {}, not {}: load it into a map of that value type", type_of(.found, .bytes), type_of(.expected, .bytes))]
    ValueType {
        /// What the values in the file are.
        found: Kind,
        /// What those of the map are.
        expected: Kind,
        /// Bytes of a value.
        bytes: usize,
    },
    /// Its keys may have several pairs, of which another map than a [`MultiMap`](crate::MultiMap) would keep one.
    #[error("has several pairs with one key: load it into a MultiMap")]
    Multimap,
    /// It is of a [`RowMap`](crate::RowMap), and was to be loaded into another map.
    #[error("has the rows of a RowMap: load it into a RowMap")]
    Rows,
    /// It is not of a [`RowMap`](crate::RowMap), and was to be loaded into one.
    #[error("has the pairs of a map, and not the rows of a RowMap: load it into a map of its kind")]
    NoRows,
    /// It has strings as keys, those of a [`RowMap<str>`](crate::RowMap), and was to be loaded into another map.
    #[error("has strings as keys: load it into a row map of strings")]
    Strings,
    /// Its keys are no strings, and it was to be loaded into a [`RowMap<str>`](crate::RowMap).
    #[error(
        "has keys of one size, and not the strings of a row map: load it into a map of its kind"
    )]
    NoStrings,
    /// Its header says that there were many more rows than keys: [`RowMap::load`](crate::RowMap::load) takes
    /// no memory on its word alone.
    #[error(
        "has rows below {rows}, and load makes {most} at most for its keys: load it with the map's builder(..).capacity({rows}).load(..) or ShardedRowMap::load_with, or call compact before the map is saved"
    )]
    RowBound {
        /// Rows that there were.
        rows: u64,
        /// Rows that are made for the keys of the file.
        most: u64,
    },
    /// It has the rows of another rank, or of a group of another size, than it was to be loaded for. Rows are places in arrays
    /// of the caller, so they are not given out anew.
    #[error(
        "has the rows of rank {rank} of {ranks}, where rank {wanted} of {wanted_ranks} was wanted: load it with a group of {ranks} ranks, which may be parts of the CPU"
    )]
    Group {
        /// The rank in the file.
        rank: u16,
        /// Ranks of its group; 1 for the file of a [`RowMap`](crate::RowMap).
        ranks: u16,
        /// The rank that it was loaded for.
        wanted: usize,
        /// Ranks of that one's group.
        wanted_ranks: usize,
    },
    /// The ranks of a group have parts of several savings, which do not belong together.
    #[error("is of another moment than the files of other ranks: load what one call saved")]
    Moment,
    /// A row is not above the one before it, or not below the number of rows in the header, or has a key that another row
    /// has or that another rank owns, although the checksums are right.
    #[error("has a wrong row {row}: save the map again")]
    Row {
        /// Which one.
        row: u32,
    },
    /// A field of the header has no meaning, although its checksum is right.
    #[error("has no valid {field} in its header: save the map again")]
    Field {
        /// Which one.
        field: &'static str,
    },
    /// The header requests a table that is too large for the pairs of the file, by its capacity or
    /// by its load factor: [`Map::load`](crate::Map::load) does not make it.
    #[error(
        "asks for {slots} slots for {pairs} pairs, and Map::load makes {most} at most: load it with Map::builder(..).load(..), which takes the capacity and the load factor of the builder"
    )]
    Slots {
        /// Slots that the capacity takes at the load factor.
        slots: u64,
        /// Pairs in the file, or as many as a file of its length can have.
        pairs: u64,
        /// Slots that are made for so many.
        most: u64,
    },
    /// A block claims to have more pairs than a block may have.
    #[error(
        "is damaged: block {block} claims {pairs} pairs, and {most} is the most; restore the file, or save the map again"
    )]
    BlockSize {
        /// Which block, from 0.
        block: u64,
        /// Pairs that it claims to have.
        pairs: u32,
        /// Pairs that a block may have.
        most: u32,
    },
    /// A checksum is wrong: the bytes have changed since they were written.
    #[error("is damaged: the checksum of {part} is wrong; restore the file, or save the map again")]
    Checksum {
        /// What it is the checksum of.
        part: FilePart,
    },
    /// The blocks have another number of pairs than the end record says.
    #[error(
        "is damaged: {found} pairs where {expected} were written; restore the file, or save the map again"
    )]
    Pairs {
        /// Pairs in the blocks.
        found: u64,
        /// Pairs in the end record.
        expected: u64,
    },
    /// It ends too early.
    #[error("is cut off after {bytes} bytes: restore the file, or save the map again")]
    Truncated {
        /// Bytes that there are.
        bytes: u64,
    },
    /// There is something after its end.
    #[error("goes on after its end, at byte {at}: cut it off there if the rest is not of a map")]
    TrailingBytes {
        /// Where it should end.
        at: u64,
    },
}

fn type_of(kind: &Kind, bytes: &usize) -> TypeName {
    kind.type_of(*bytes)
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

/// What a checksum is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilePart {
    /// The header.
    Header,
    /// A block, counted from 0.
    Block(u64),
    /// The end record.
    End,
    /// Everything before the end record.
    Whole,
}

impl fmt::Display for FilePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("the header"),
            Self::Block(block) => write!(f, "block {block}"),
            Self::End => f.write_str("the end record"),
            Self::Whole => f.write_str("the whole file"),
        }
    }
}
