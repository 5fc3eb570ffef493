//! [`Grains`]: how much room bins have.

use gpumap_kernels::build::bins::{GRAIN, PART};
use gpumap_kernels::count::MOST_BLOCKS;

use crate::map::launch::BLOCK_WARPS;

/// Of so many grains a part is little.
const MANY: u32 = 16 * PART / GRAIN;

/// How much room each of some bins has, in units of [`GRAIN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grains(u32);

impl Grains {
    /// If `bins` of them share `len` pairs with uniform hashes: the mean, a sixty-fourth, and eight
    /// standard deviations; in whole parts, if that is little more. Several pairs with each key widen the
    /// spread. None if there would be too many.
    pub(super) fn of(len: usize, bins: usize) -> Option<Self> {
        let mean = len as f64 / bins as f64;
        let most = mean + mean / 64.0 + 8.0 * mean.sqrt();
        let grains = ((most / f64::from(GRAIN)).ceil() as u32).max(1);
        // Each may be a warp of a grid.
        let all = u64::from(grains) * bins as u64;
        (all < MOST_BLOCKS * BLOCK_WARPS).then(|| match grains {
            MANY.. => Self(grains).in_parts(),
            _ => Self(grains),
        })
    }

    /// The same for a batch that is sent: in whole parts.
    pub(crate) fn of_sent(len: usize, bins: usize) -> Option<Self> {
        Self::of(len, bins).map(Self::in_parts)
    }

    fn in_parts(self) -> Self {
        Self(self.0.next_multiple_of(PART / GRAIN))
    }

    /// As kernels take them.
    pub(crate) fn get(self) -> u32 {
        self.0
    }

    /// Places of a bin.
    pub(crate) fn capacity(self) -> u64 {
        u64::from(self.0) * u64::from(GRAIN)
    }

    /// Places of so many bins.
    pub(super) fn places(self, bins: usize) -> usize {
        bins * self.capacity() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_have_room_for_all_and_little_more() {
        for len in [1, 100, 10_000, 100_000_000, 10_000_000_000] {
            for bins in [1, 2, 256, 512] {
                let room = Grains::of(len, bins).unwrap().places(bins);
                assert!(room >= len);
                if len > 1_000_000 {
                    assert!(room < len + len / 16, "{room} for {len}");
                }
            }
        }
        for len in [1 << 45, usize::MAX] {
            assert_eq!(Grains::of(len, 256), None);
            assert_eq!(Grains::of(len, 1), None);
        }
    }
}
