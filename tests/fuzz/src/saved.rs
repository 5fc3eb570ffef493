//! Saved maps: checksums that fit, so that what is after them is tried as well.

use std::iter::once;
use std::ops::Range;

/// Bytes of a header; its last four are a checksum.
const HEADER: usize = 64;
/// Bytes that begin a block: how many pairs it has, and a checksum of them.
const BLOCK_START: usize = 8;

/// Makes all checksums of a saved map fit, as far as it looks like one.
pub fn mend_saved_map(bytes: &mut [u8]) {
    if bytes.len() < HEADER {
        return;
    }
    put(bytes, HEADER - 4, once(0..HEADER - 4));
    let key = usize::from(u16::from_le_bytes([bytes[14], bytes[15]]));
    let pair = key.saturating_add(word(bytes, 16) as usize);
    let mut at = HEADER;
    while bytes.len() >= at + BLOCK_START {
        let pairs = word(bytes, at) as usize;
        let end = at + BLOCK_START + pairs.saturating_mul(pair).min(bytes.len());
        if pairs == 0 || end > bytes.len() {
            break;
        }
        put(bytes, at + 4, once(at + BLOCK_START..end));
        at = end;
    }
    // The end record: no pairs, a checksum of everything, how many pairs there were, a checksum.
    if bytes.len() >= at + BLOCK_START + 12 && word(bytes, at) == 0 {
        put(bytes, at + 4, once(0..at));
        put(bytes, at + 16, once(at..at + 16));
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Puts the checksum of some parts in its place.
pub(crate) fn put(bytes: &mut [u8], at: usize, of: impl IntoIterator<Item = Range<usize>>) {
    let mut crc = crc32fast::Hasher::new();
    of.into_iter().for_each(|part| crc.update(&bytes[part]));
    bytes[at..at + 4].copy_from_slice(&crc.finalize().to_le_bytes());
}
