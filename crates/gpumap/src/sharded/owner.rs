//! [`Owners`]: which rank has a key.
//!
//! A batch is partitioned by bits of the hash of its keys under a seed of the group's own, so that they
//! say nothing about the submap, page or slab that the owner's map puts a key in. Ranks have
//! consecutive parts: what goes to one lies together.

use gpumap_kernels::p2p::OwnerOf;
use gpumap_kernels::slot::Bits;

use crate::primitives::{Digit, MAX_PARTS};

use super::error::GroupError;
use crate::error::{Error, Result};

/// Parts for each rank where the number of ranks is no power of two: a rank has at most one in so
/// many more than another.
const PARTS_PER_RANK: usize = 64;

/// Which rank has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owners {
    digit: Digit,
    ranks: usize,
}

impl Owners {
    /// Among so many ranks.
    pub(super) fn new(ranks: usize, seed: u64) -> Result<Self> {
        if ranks > MAX_PARTS {
            return Err(Error::Group(GroupError::TooMany {
                ranks,
                most: MAX_PARTS,
            }));
        }
        let parts = if ranks.is_power_of_two() {
            ranks.max(2)
        } else {
            (ranks * PARTS_PER_RANK).next_power_of_two().min(MAX_PARTS)
        };
        let digit = Digit::of_hash(64 - parts.ilog2()..64, seed);
        Ok(Self { digit, ranks })
    }

    /// How many ranks there are.
    pub(super) fn ranks(&self) -> usize {
        self.ranks
    }

    /// What a batch is partitioned by.
    pub(super) fn digit(&self) -> Digit {
        self.digit
    }

    /// As kernels take it.
    pub(super) fn kernel(&self) -> OwnerOf {
        OwnerOf {
            digit: self.digit.kernel(),
            ranks: self.ranks as u32,
            log2: self.digit.parts().ilog2(),
        }
    }

    /// The rank that has a key.
    pub(super) fn of<K: Bits>(&self, key: K) -> usize {
        self.kernel().rank(key) as usize
    }

    /// The first part of a rank; for the rank after the last, the number of parts.
    fn first_part(&self, rank: usize) -> usize {
        (rank * self.digit.parts()).div_ceil(self.ranks)
    }

    /// Where the keys of each rank lie, from where those of each part begin.
    pub(super) fn ranges(&self, offsets: &[u64]) -> Vec<std::ops::Range<usize>> {
        let start = |rank| offsets[self.first_part(rank)] as usize;
        (0..self.ranks)
            .map(|rank| start(rank)..start(rank + 1))
            .collect()
    }

    /// Room for one rank's share of so many pairs: six standard deviations more than it has on
    /// average.
    pub(super) fn share(&self, pairs: usize) -> usize {
        let parts = self.digit.parts();
        let of_one = parts.div_ceil(self.ranks) as f64 / parts as f64;
        let mean = pairs as f64 * of_one;
        if self.ranks == 1 {
            return pairs;
        }
        ((mean + 6.0 * mean.sqrt()).ceil() as usize).min(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_owners_agree_and_shares_are_enough() {
        for ranks in [1, 2, 3, 4, 5, 8, 100, 512] {
            let owners = Owners::new(ranks, 7).unwrap();
            let parts = owners.digit().parts();
            let mut counts = vec![0u64; parts];
            let mut by_rank = vec![0usize; ranks];
            const KEYS: usize = 100_000;
            for key in 0..KEYS as u64 {
                counts[owners.digit().part(key)] += 1;
                by_rank[owners.of(key)] += 1;
            }
            let mut offsets = vec![0; parts + 1];
            for (part, count) in counts.iter().enumerate() {
                offsets[part + 1] = offsets[part] + count;
            }
            let ranges = owners.ranges(&offsets);
            assert!(ranges.iter().map(|range| range.len()).eq(by_rank.clone()));
            let most = by_rank.iter().max().copied();
            assert!(most <= Some(owners.share(KEYS)), "{ranks}: {most:?}");
            assert!(by_rank.iter().all(|&keys| keys > 0));
        }
        assert!(matches!(
            Owners::new(513, 7),
            Err(Error::Group(GroupError::TooMany {
                ranks: 513,
                most: 512
            }))
        ));
    }
}
