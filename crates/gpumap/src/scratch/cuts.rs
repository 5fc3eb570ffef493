//! [`Cuts`]: where the arrays of a batch are cut.

use std::ops::Range;

/// The pieces of a batch, as the ranges of its elements, one behind the other. The first ones are small, so that the link
/// soon has something to do, and so are the last ones, so that little is left to do when it has done its part: in between
/// they are large, since each copy costs the link something beside its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Cuts {
    left: Range<usize>,
    /// Elements of the next piece, unless few are left.
    next: usize,
    /// Elements of the first piece, and of the last ones at least.
    least: usize,
    /// Elements of a piece at most.
    most: usize,
}

/// Pieces have a multiple of as many elements, but for the last one: so no word of bits is of two pieces.
const GRAIN: usize = u32::BITS as usize;

impl Cuts {
    /// Cuts a batch of `len` into pieces of `least` to `most` elements, about.
    pub fn new(len: usize, least: usize, most: usize) -> Self {
        let grains = |elements: usize| (elements / GRAIN).max(1) * GRAIN;
        let most = grains(most);
        let least = grains(least).min(most);
        Self {
            left: 0..len,
            next: least,
            least,
            most,
        }
    }

    /// Elements of any piece that is left at most.
    pub fn longest(&self) -> usize {
        self.most.min(self.left.len())
    }
}

impl Iterator for Cuts {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let left = self.left.len();
        if left == 0 {
            return None;
        }
        let half = (left / 2).next_multiple_of(GRAIN).max(self.least);
        let piece = self.left.start..self.left.start + self.next.min(half).min(left);
        self.next = (2 * self.next).min(self.most);
        self.left.start = piece.end;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(cuts: Cuts) -> Vec<usize> {
        cuts.map(|piece| piece.len()).collect()
    }

    #[test]
    fn pieces_are_small_at_both_ends() {
        let lens = lengths(Cuts::new(2_000, 64, 512));
        assert_eq!(lens, [64, 128, 256, 512, 512, 288, 128, 64, 48]);
        assert_eq!(lengths(Cuts::new(50, 64, 512)), [50]);
        assert_eq!(lengths(Cuts::new(0, 64, 512)), []);
    }

    #[test]
    fn they_are_all_of_the_batch() {
        for len in (0..3_000).step_by(7) {
            for (least, most) in [(0, 0), (1, 40), (32, 32), (100, 1_000), (5_000, 64)] {
                let mut end = 0;
                let cuts = Cuts::new(len, least, most);
                let longest = cuts.longest();
                for piece in cuts {
                    assert_eq!((piece.start, piece.start % GRAIN), (end, 0));
                    assert!(!piece.is_empty() && piece.len() <= most.max(GRAIN));
                    assert!(piece.len() <= longest);
                    end = piece.end;
                }
                assert_eq!(end, len);
            }
        }
    }
}
