//! What a launch did to a map, counted so that the host's figures stay exact.

use super::MapRef;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::layout;
use gpumap_simt::thread;

/// Counters that blocks share: a power of two. One place for all would be a bottleneck for a kernel
/// that does little but insert. The lanes of a block have one place, so the assembler makes one
/// reduction of what converged lanes add.
pub const STRIPES: u32 = 128;

/// One stripe of counters: one sector of the L2.
///
/// The first two are where [`Account`](crate::verbs::store::Account) has them.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(32))]
pub struct Counts {
    /// Pairs stored.
    pub inserted: u64,
    /// Pairs that found no room.
    pub full: u64,
    /// Pairs removed.
    pub removed: u64,
    /// Not 0 if a verb was compiled for another slot format than the map's.
    pub refused: u64,
}
layout!(Counts {
    inserted,
    full,
    removed,
    refused
});

#[cfg(not(target_arch = "nvptx64"))]
impl Counts {
    /// All stripes together, from their words.
    pub fn sum(words: &[u64]) -> Self {
        let stripes = words.chunks_exact(4);
        stripes.fold(Self::default(), |sum, words| Self {
            inserted: sum.inserted + words[0],
            full: sum.full + words[1],
            removed: sum.removed + words[2],
            refused: sum.refused + words[3],
        })
    }
}

impl<K, V> MapRef<K, V> {
    /// The counters of the calling lane's block.
    #[inline(always)]
    pub(super) fn stripe(&self) -> *mut Counts {
        let stripe = thread::block_idx_x() & (STRIPES - 1);
        self.counts.wrapping_add(stripe as usize)
    }

    /// Counts a pair that was stored.
    ///
    /// # Safety
    /// The map was lent to this launch.
    #[inline(always)]
    pub(super) unsafe fn count_inserted(&self) {
        // SAFETY: the host lends as many stripes as there are; they are accessed atomically only.
        unsafe { atomic::fetch_add(&raw mut (*self.stripe()).inserted, 1, Relaxed) };
    }

    /// Counts a pair that was removed.
    ///
    /// # Safety
    /// The map was lent to this launch.
    #[inline(always)]
    pub(super) unsafe fn count_removed(&self) {
        // SAFETY: as above.
        unsafe { atomic::fetch_add(&raw mut (*self.stripe()).removed, 1, Relaxed) };
    }

    /// Notes that the map's slots are not those that the kernel was compiled for.
    ///
    /// # Safety
    /// The map was lent to this launch.
    #[inline(always)]
    pub(super) unsafe fn refuse(&self) {
        // SAFETY: as above.
        unsafe { atomic::store(&raw mut (*self.stripe()).refused, 1, Relaxed) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_add_up() {
        let words: Vec<u64> = (0..4 * u64::from(STRIPES)).collect();
        let sum = Counts::sum(&words);
        let column = |i: u64| {
            (0..u64::from(STRIPES))
                .map(|stripe| 4 * stripe + i)
                .sum::<u64>()
        };
        assert_eq!(
            [sum.inserted, sum.full, sum.removed, sum.refused],
            [0, 1, 2, 3].map(column)
        );
        assert_eq!(size_of::<Counts>(), 32);
        assert!(STRIPES.is_power_of_two());
    }
}
