//! [`ChunkRanges`]: where the arrays of a batch are cut.

use std::ops::Range;

/// The chunks of a batch, as the ranges of its elements, one after the other. The first ones are small, so that the link
/// soon has something to do, and so are the last ones, so that little is left to do when it has done its part: in between
/// they are large, since each copy costs the link something beside its bytes.
#[derive(Clone, Debug)]
pub(crate) struct ChunkRanges {
    left: Range<usize>,
    /// Elements of the next chunk, unless few are left.
    next: usize,
    /// Elements of the first chunk, and of the last ones at least.
    least: usize,
    /// Elements of a chunk at most.
    most: usize,
}

/// Chunks have a multiple of as many elements, except the last one: so no word of bits is of two chunks.
const ALIGN: usize = u32::BITS as usize;

impl ChunkRanges {
    /// Cuts a batch of `len` into chunks of `least` to `most` elements, about.
    pub fn new(len: usize, least: usize, most: usize) -> Self {
        let aligned = |elements: usize| (elements / ALIGN).max(1) * ALIGN;
        let most = aligned(most);
        let least = aligned(least).min(most);
        Self {
            left: 0..len,
            next: least,
            least,
            most,
        }
    }

    /// Elements of any chunk that is left at most.
    pub fn longest(&self) -> usize {
        self.most.min(self.left.len())
    }
}

impl Iterator for ChunkRanges {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let left = self.left.len();
        if left == 0 {
            return None;
        }
        let half = (left / 2).next_multiple_of(ALIGN).max(self.least);
        let chunk = self.left.start..self.left.start + self.next.min(half).min(left);
        self.next = (2 * self.next).min(self.most);
        self.left.start = chunk.end;
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(chunks: ChunkRanges) -> Vec<usize> {
        chunks.map(|chunk| chunk.len()).collect()
    }

    #[test]
    fn pieces_are_small_at_both_ends() {
        let lens = lengths(ChunkRanges::new(2_000, 64, 512));
        assert_eq!(lens, [64, 128, 256, 512, 512, 288, 128, 64, 48]);
        assert_eq!(lengths(ChunkRanges::new(50, 64, 512)), [50]);
        assert_eq!(lengths(ChunkRanges::new(0, 64, 512)), []);
    }

    #[test]
    fn they_are_all_of_the_batch() {
        for len in (0..3_000).step_by(7) {
            for (least, most) in [(0, 0), (1, 40), (32, 32), (100, 1_000), (5_000, 64)] {
                let mut end = 0;
                let chunks = ChunkRanges::new(len, least, most);
                let longest = chunks.longest();
                for chunk in chunks {
                    assert_eq!((chunk.start, chunk.start % ALIGN), (end, 0));
                    assert!(!chunk.is_empty() && chunk.len() <= most.max(ALIGN));
                    assert!(chunk.len() <= longest);
                    end = chunk.end;
                }
                assert_eq!(end, len);
            }
        }
    }
}
