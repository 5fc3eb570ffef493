//! Databases of k-mers: checksums that fit, so that what is behind them is tried as well.

use super::saved::put;

const HEADER: usize = 16;
/// How many k-mers there are, and more; its last four bytes are a checksum.
const END: usize = 36;
/// K-mers of a block.
const BLOCK: u64 = 4096;

/// Makes all checksums of a database in `.gpk` fit, as far as it looks like one.
pub fn mend_database(bytes: &mut [u8]) {
    let Some(end) = bytes.len().checked_sub(END).filter(|&end| end >= HEADER) else {
        return;
    };
    let key = if bytes[12] > 32 { 16 } else { 8 };
    let mut kmers = [0; 8];
    kmers.copy_from_slice(&bytes[end..end + 8]);
    let blocks = u64::from_le_bytes(kmers).div_ceil(BLOCK);
    let index = usize::try_from(blocks.saturating_mul(key + 8)).unwrap_or(usize::MAX);
    let Some(index) = end.checked_sub(index).filter(|&index| index >= HEADER) else {
        return;
    };
    let mut at = HEADER;
    for entry in (index..end).step_by(key as usize + 8) {
        let length = entry + key as usize;
        let mut word = [0; 4];
        word.copy_from_slice(&bytes[length..length + 4]);
        let next = at.saturating_add(u32::from_le_bytes(word) as usize);
        if next > index {
            break;
        }
        put(bytes, length + 4, std::iter::once(at..next));
        at = next;
    }
    put(bytes, end + END - 4, [0..HEADER, index..end + END - 4]);
}
