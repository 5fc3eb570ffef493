//! Databases of k-mers, `.gpk`: k-mers in their order, packed in blocks that are found and checked one by one.
//!
//! The page `kmer-database.md` of the guide specifies the format. Its invariant: the same k-mers with the same counts are the same bytes,
//! whatever wrote them. All numbers of the format are little-endian, and checksums are the CRC-32 of gzip.
//!
//! A reader takes blocks from their places in the file (`pread`) rather than from a mapping, for which a file that becomes shorter
//! meanwhile is a signal and no error.

mod bits;
mod block;
mod reader;
#[cfg(test)]
pub mod tests;
mod writer;

pub use reader::{Reader, key_bytes, kind_of, read};
pub use writer::Writer;

use crate::kind::KmerKind;
use crate::kmer::Strand;

/// How a database begins.
pub const MAGIC: [u8; 8] = *b"\x89gpkmer\n";

/// The version of the format.
const VERSION: u32 = 1;

/// Bytes of the header.
const HEADER: usize = 16;

/// Bytes of the end of a file, behind the index.
const END: usize = 36;

/// Bytes of an entry of the index: a k-mer, and the length and the checksum of its block.
const fn entry_bytes<C>() -> usize {
    size_of::<C>() + 8
}

/// The header of a database of these k-mers.
fn header_of(kind: KmerKind) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    // At most 64 bases.
    bytes[12] = kind.length.get() as u8;
    bytes[13] = u8::from(kind.strand == Strand::Canonical);
    bytes
}

/// What a whole file says about its k-mers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many there are.
    pub kmers: u64,
    /// The largest of their counts.
    pub largest: u64,
    /// The sum of their counts.
    pub sum: u128,
}

impl Totals {
    fn to_bytes(self) -> [u8; END - 4] {
        let mut bytes = [0; END - 4];
        bytes[..8].copy_from_slice(&self.kmers.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.largest.to_le_bytes());
        bytes[16..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }

    fn of_bytes(bytes: &[u8; END - 4]) -> Self {
        Self {
            kmers: u64_at(bytes, 0),
            largest: u64_at(bytes, 8),
            sum: u128::from(u64_at(bytes, 16)) | u128::from(u64_at(bytes, 24)) << u64::BITS,
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << u32::BITS
}

/// Why a file is no database, or not all of one; the name of the file stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It begins with something else.
    #[error("is not a .gpk database: count-kmers writes them to names in .gpk")]
    NotADatabase,
    /// A newer program wrote it.
    #[error(
        "has version {found} of the format .gpk, and {VERSION} is the newest that this program reads: use a newer gpumap"
    )]
    Version {
        /// Its version.
        found: u32,
    },
    /// Its frame is not whole.
    #[error("is damaged or cut off, {problem}: copy it again, or count its k-mers again")]
    Frame {
        /// What is wrong.
        problem: &'static str,
    },
    /// A block is not what was written.
    #[error(
        "is damaged: block {block}, from byte {at} on, {problem}; copy the file again, or count its k-mers again"
    )]
    Block {
        /// Which one, counted from 0.
        block: usize,
        /// Where it begins.
        at: u64,
        /// What is wrong.
        problem: &'static str,
    },
}
