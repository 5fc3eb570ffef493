//! How many slabs a map gets, and how they are arranged: arithmetic only.

use gpumap_kernels::table::{MAX_PAGE_SLABS, SLAB_BYTES};

use crate::error::{Error, Result};

/// What the user of a builder requested.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wish {
    /// Pairs that must fit.
    pub capacity: usize,
    /// Pairs per slot at most, when they are that many.
    pub max_load_factor: f64,
    /// Submaps, each with an equal share of the hash range; none for as many as suit the size.
    pub submaps: Option<u32>,
    /// Slots of each submap, instead of the three above: for tests of unequal submaps.
    pub submap_slots: Option<Vec<usize>>,
    /// Slabs per page at most, a power of two.
    pub page_slabs: u32,
}

/// The arrangement of a map's slabs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    /// Slabs per page: `1 << page_log2`.
    pub page_log2: u32,
    /// Pages of each submap.
    pub pages: Vec<u32>,
    /// Slots per slab.
    pub slab_slots: u32,
    /// Pairs that fit whatever their keys, for all that chance can do.
    pub capacity: usize,
}

impl Shape {
    /// The smallest arrangement that grants the wish.
    pub fn new(wish: &Wish, slot_bytes: u32) -> Result<Self> {
        let slab_slots = SLAB_BYTES / slot_bytes;
        let overflow = || Error::CapacityOverflow {
            elements: wish.capacity,
            element_bytes: slot_bytes as usize,
        };
        let slots: Vec<u64> = match &wish.submap_slots {
            Some(slots) => slots.iter().map(|&slots| slots as u64).collect(),
            None => {
                let submaps = wish
                    .submaps
                    .unwrap_or_else(|| fitting_submaps(wish, slot_bytes));
                let slots = share_of_slots(wish, submaps).ok_or_else(overflow)?;
                vec![slots; submaps as usize]
            }
        };
        let slabs = slots
            .iter()
            .map(|slots| slots.div_ceil(u64::from(slab_slots)).max(1));
        // One page size for all: no page may be larger than the smallest submap.
        let smallest = slabs.clone().min().unwrap_or(1);
        let page = smallest
            .checked_next_power_of_two()
            .map_or(wish.page_slabs, |slabs| {
                slabs.min(u64::from(wish.page_slabs)) as u32
            })
            .min(MAX_PAGE_SLABS);
        let pages = slabs
            .map(|slabs| u32::try_from(slabs.div_ceil(u64::from(page))))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| overflow())?;
        let mut shape = Self {
            page_log2: page.trailing_zeros(),
            pages,
            slab_slots,
            capacity: wish.capacity,
        };
        if shape.bytes() > isize::MAX as u64 {
            return Err(overflow());
        }
        if let [_] = shape.pages[..] {
            // Rounding up gave some more, and there is no other submap to be out of balance with.
            let fit = (shape.slots() as f64 * wish.max_load_factor) as usize;
            shape.capacity = fit.max(wish.capacity.min(shape.slots()));
        }
        Ok(shape)
    }

    /// Slabs of submap `i`.
    pub fn slabs(&self, i: usize) -> usize {
        (self.pages[i] as usize) << self.page_log2
    }

    /// Bytes of the largest submap.
    pub fn largest_submap_bytes(&self) -> u64 {
        let pages = self.pages.iter().copied().max().unwrap_or(0);
        (u64::from(pages) << self.page_log2) * u64::from(SLAB_BYTES)
    }

    /// Bytes of submap `i`.
    fn submap_bytes(&self, i: usize) -> u64 {
        self.slabs(i) as u64 * u64::from(SLAB_BYTES)
    }

    /// Bytes beyond those of a table, at most, while each of its submaps, one after the other, is replaced by its like of
    /// this shape, which [matches](Self::matches) its own: those before it have been replaced, and it is there twice.
    pub fn bytes_to_replace(&self, old: &Self) -> u64 {
        let (mut most, mut more) = (0, 0);
        for submap in 0..self.pages.len() {
            let new = self.submap_bytes(submap) as i64;
            most = most.max(more + new);
            more += new - old.submap_bytes(submap) as i64;
        }
        most.unsigned_abs()
    }

    /// Whether each submap of one can be replaced by its like of the other, alone.
    pub fn matches(&self, other: &Self) -> bool {
        self.page_log2 == other.page_log2 && self.pages.len() == other.pages.len()
    }

    /// The same with a whole multiple of the pages of an old shape that it grows from, where next to
    /// nothing is missing: the pairs of a new page then come from one old page.
    pub fn aligned_to(mut self, old: &Self) -> Self {
        if self.matches(old) {
            for (new, &old) in self.pages.iter_mut().zip(&old.pages) {
                let multiple = old.saturating_mul(new.div_ceil(old));
                if multiple - *new <= *new / 1024 {
                    *new = multiple;
                }
            }
        }
        self
    }

    /// A shape with as much room in submaps that can replace those of another shape one by one, if there is one.
    pub fn in_submaps_of(&self, other: &Self) -> Option<Self> {
        if self.matches(other) {
            return None;
        }
        let share = self.slots().div_ceil(other.pages.len());
        // As for any shape of several submaps: none is full while the map as a whole is not.
        let share = share + 8 * share.isqrt() + 8;
        let page_slots = (other.slab_slots as usize) << other.page_log2;
        let pages = u32::try_from(share.div_ceil(page_slots)).ok()?;
        let like = Self {
            pages: vec![pages; other.pages.len()],
            ..other.clone()
        };
        (like.bytes() < other.bytes()).then_some(Self {
            capacity: self.capacity,
            ..like
        })
    }

    /// Slots of all submaps.
    pub fn slots(&self) -> usize {
        let pages: usize = self.pages.iter().map(|&pages| pages as usize).sum();
        (pages << self.page_log2) * self.slab_slots as usize
    }

    /// Bytes of all submaps.
    pub fn bytes(&self) -> u64 {
        let pages: u64 = self.pages.iter().map(|&pages| u64::from(pages)).sum();
        (pages << self.page_log2) * u64::from(SLAB_BYTES)
    }
}

/// Maps of fewer bytes have one submap. Growing replaces a map of one submap as a whole, which at
/// this size takes little time and memory.
const SMALL_BYTES: f64 = (64u64 << 20) as f64;

/// Submaps of larger ones: growing needs a sixteenth of the map in memory beside it.
const LARGE_SUBMAPS: u32 = 16;

/// How many submaps suit the size.
fn fitting_submaps(wish: &Wish, slot_bytes: u32) -> u32 {
    let bytes = wish.capacity as f64 / wish.max_load_factor * f64::from(slot_bytes);
    if bytes < SMALL_BYTES {
        1
    } else {
        LARGE_SUBMAPS
    }
}

/// Slots of each of the wished submaps; none if that is beyond all memory.
///
/// A submap's share of the keys is binomial. With several submaps each has room for its mean and
/// eight standard deviations, so that no submap is full while the map as a whole is not.
fn share_of_slots(wish: &Wish, submaps: u32) -> Option<u64> {
    let mean = wish.capacity as f64 / f64::from(submaps);
    let worst = if submaps == 1 {
        mean
    } else {
        mean + 8.0 * mean.sqrt() + 8.0
    };
    let slots = (mean / wish.max_load_factor).max(worst).ceil();
    (slots < (1u64 << 56) as f64).then_some(slots as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(capacity: usize, submaps: u32) -> Wish {
        Wish {
            capacity,
            max_load_factor: 0.8,
            submaps: Some(submaps),
            submap_slots: None,
            page_slabs: MAX_PAGE_SLABS,
        }
    }

    #[test]
    fn no_capacity_is_still_a_map() {
        let shape = Shape::new(&wish(0, 1), 16).unwrap();
        assert_eq!((shape.slots(), shape.page_log2), (4, 0));
    }

    #[test]
    fn capacity_fits_at_the_load_factor() {
        for capacity in [1, 3, 4, 5, 100, 2_048, 1_000_000, 100_000_000] {
            for submaps in [1, 2, 9, 64] {
                let shape = Shape::new(&wish(capacity, submaps), 8).unwrap();
                assert!(shape.capacity >= capacity);
                assert!(shape.slots() as f64 * 0.8 + 1.0 >= capacity as f64);
                assert_eq!(shape.pages.len(), submaps as usize);
            }
        }
    }

    #[test]
    fn large_maps_have_whole_pages_of_32_kib_and_little_waste() {
        let shape = Shape::new(&wish(100_000_000, 1), 16).unwrap();
        assert_eq!(shape.page_log2, 9);
        assert!(shape.slots() - 125_000_000 < 2_048);
    }

    #[test]
    fn shapes_that_double_have_twice_the_pages() {
        let shape = |capacity| Shape::new(&wish(capacity, 16), 16).unwrap();
        let (half, full) = (shape(50_000_000), shape(100_000_000));
        assert_eq!((half.pages[0], full.pages[0]), (1908, 3815));
        assert_eq!(full.clone().aligned_to(&half).pages, [3816; 16]);
        // Not where it would take more than a page in a thousand, nor when it shrinks.
        assert_eq!(shape(90_000_000).aligned_to(&half), shape(90_000_000));
        assert_eq!(half.clone().aligned_to(&full), half);
    }

    #[test]
    fn submaps_are_replaced_one_after_the_other() {
        let shape = |pages: &[u32]| Shape {
            page_log2: 0,
            pages: pages.to_vec(),
            slab_slots: 4,
            capacity: 0,
        };
        for (old, new, slabs) in [
            (&[4][..], &[8][..], 8),
            (&[8], &[4], 4),
            (&[4; 4], &[8; 4], 4 * 4 + 4),
            (&[8; 4], &[4; 4], 4),
            (&[8, 1], &[2, 9], 3),
            (&[1, 8], &[9, 2], 10),
        ] {
            let bytes = shape(new).bytes_to_replace(&shape(old));
            assert_eq!(bytes, slabs * u64::from(SLAB_BYTES), "{old:?} by {new:?}");
        }
    }

    #[test]
    fn beyond_all_memory_is_an_error() {
        for capacity in [usize::MAX, usize::MAX / 16, 1 << 57] {
            let error = Shape::new(&wish(capacity, 1), 16).unwrap_err();
            assert!(matches!(error, Error::CapacityOverflow { .. }));
        }
    }
}
