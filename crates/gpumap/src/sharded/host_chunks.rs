//! [`HostChunks`]: arrays of the host that ranks fill side by side.

use std::mem;
use std::ops::Range;

use parking_lot::Mutex;

/// Consecutive parts of an array, one for each rank to write to.
#[derive(Debug)]
pub(super) struct HostChunks<'a, T>(Vec<Mutex<&'a mut [T]>>);

impl<'a, T> HostChunks<'a, T> {
    /// The parts of these lengths, which are together no longer than the array.
    pub(super) fn new(mut array: &'a mut [T], lens: impl IntoIterator<Item = usize>) -> Self {
        let part = |len| {
            let (part, rest) = mem::take(&mut array).split_at_mut(len);
            array = rest;
            Mutex::new(part)
        };
        Self(lens.into_iter().map(part).collect())
    }

    /// The part of a rank; empty if it was taken before.
    pub(super) fn take(&self, rank: usize) -> &'a mut [T] {
        mem::take(&mut *self.0[rank].lock())
    }
}

/// What a rank takes of a batch of `len` elements: as much as every other, give or take one.
pub(super) fn chunk(len: usize, rank: usize, ranks: usize) -> Range<usize> {
    let start = |rank| (len as u128 * rank as u128 / ranks as u128) as usize;
    start(rank)..start(rank + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_all_of_an_array() {
        for (len, ranks) in [(0, 3), (2, 3), (10, 3), (9, 1), (1 << 20, 7)] {
            let mut array = vec![usize::MAX; len];
            let lens = (0..ranks).map(|rank| chunk(len, rank, ranks).len());
            let chunks = HostChunks::new(&mut array, lens);
            for rank in (0..ranks).rev() {
                let part = chunks.take(rank);
                assert!(part.len().abs_diff(len / ranks) <= 1);
                part.fill(rank);
                assert!(chunks.take(rank).is_empty());
            }
            assert!(array.is_sorted() && array.iter().all(|&rank| rank < ranks));
        }
    }
}
