//! Marks: what a full slab says by the order of its keys.
//!
//! A search for an absent key goes on past every full slab of its walk, and in a table that is
//! nearly full most are. It could end at the first slab that no key was ever sent past, if the
//! slab said so; but a slab of whole keys and values has no bit to spare, and a word elsewhere is a
//! second trip to memory.
//!
//! So it is said by the order in which the pairs lie in the slab, which means nothing else. Keys are
//! shared out to *classes*. For each class two slots, or two pairs of slots, are compared: in ascending
//! order they say that no key of the class has passed the slab.
//!
//! | slots per slab | classes | compared |
//! |---|---|---|
//! | 4 | 3 | slot 0 with 1, slot 2 with 3, and the lesser of 0 and 1 with that of 2 and 3 |
//! | 8 | 4 | slot 0 with 1, 2 with 3, 4 with 5, 6 with 7 |
//!
//! Only blocks that make [pages](crate::build::page) whole can put pairs in an order, and single
//! inserts know nothing of it. So the marks of a map hold from when its pages are made until the next
//! pair is stored in another way, which the host knows: [`MapView::marks`](crate::table::MapView).
//! Removing a pair takes nothing from them: a tombstone says that anything may have passed.
//!
//! Invariant: where marks hold, and a key lies in its home page, every slab before it in its walk is full
//! and says that keys of its class have passed; if it lies elsewhere, so do all slabs of its walk in its
//! home page. Slabs of other pages say nothing to a walk.

mod counter;

pub use counter::{AtHome, Counted, SlabCounter};

use crate::hash::scale;
use crate::probe::TILE;
use crate::slot::{Format, KeyWord, RESERVED_WORDS};
use gpumap_simt::U64x2;
use gpumap_simt::tile::Tile;

/// All classes, of slabs of any size: a bit for each.
pub const ALL_CLASSES: u32 = 0xf;

/// The order of a key among those of its slab: a word that is less than [`RESERVED_WORDS`] for
/// all that is no key, and else any function of it.
#[inline(always)]
fn order<W: KeyWord>(word: W) -> u32 {
    let word = word.to_u64() ^ W::EMPTY.to_u64();
    (word ^ word >> 32) as u32
}

/// Whether two slots, or what is least in two pairs of them, say that no key has passed.
#[inline(always)]
const fn rises(first: u32, second: u32) -> bool {
    // A state in the second place is less than any key in the first.
    first >= RESERVED_WORDS as u32 && first < second
}

/// The class of a key, as a bit.
#[inline(always)]
pub fn class<F: Format>(word: F::Word) -> u32 {
    // By the multiplicative method, with the golden ratio.
    let spread = order(word).wrapping_mul(0x9e37_79b9);
    1 << if F::SLOTS == 1 {
        scale(spread, 3)
    } else {
        spread >> 30
    }
}

/// The classes of which no key has passed the slab, if it is full: a bit for each.
///
/// | must call | result valid |
/// |---|---|
/// | the lanes that the tile's collectives wait for, each with its vector of the slab | in all of them |
///
/// # Safety
/// As the table says.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn unpassed<F: Format>(tile: Tile<TILE>, vector: U64x2) -> u32 {
    let own = order(F::word(vector, 0));
    // SAFETY: the caller's promise.
    unsafe {
        if F::SLOTS == 1 {
            let other = tile.shfl_xor(own, 1);
            let least = own.min(other);
            let other_least = tile.shfl_xor(least, 2);
            // Lanes 0 and 2 compare two slots, lane 1 two pairs of them; lane 3 has no class.
            let (first, second) = if tile.rank() & 1 == 0 {
                (own, other)
            } else {
                (least, other_least)
            };
            tile.ballot(rises(first, second)).bits()
        } else {
            let second = order(F::word(vector, 1));
            tile.ballot(rises(own, second)).bits()
        }
    }
}

/// Where this lane's vector of a slab goes, and the slots in it, so that the slab says of all but
/// these classes that no key has passed.
///
/// | must call | result valid |
/// |---|---|
/// | the lanes that the tile's collectives wait for, each with its vector of the slab | in each for its own |
///
/// # Safety
/// As the table says.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn arrange<F: Format>(tile: Tile<TILE>, vector: U64x2, passed: u32) -> (u32, U64x2) {
    let own = order(F::word(vector, 0));
    let rank = tile.rank();
    if F::SLOTS == 1 {
        // SAFETY: the caller's promise.
        let (other, least, other_least) = unsafe {
            let other = tile.shfl_xor(own, 1);
            let least = own.min(other);
            (other, least, tile.shfl_xor(least, 2))
        };
        let down = |falls: bool, by: u32| if falls { by } else { 0 };
        let pair = (rank ^ down(falls(rank >> 1, least, other_least), 2) ^ passed) & 2;
        let slot = (rank ^ down(falls(rank & 1, own, other), 1) ^ passed >> pair) & 1;
        (pair | slot, vector)
    } else {
        let second = order(F::word(vector, 1));
        if (own >= second) == (passed >> rank & 1 != 0) {
            (rank, vector)
        } else {
            (rank, U64x2::new(vector.y, vector.x))
        }
    }
}

/// Slots of a slab at most.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const MOST_SLOTS: usize = 8;

/// As [`unpassed`], from the words of all slots of the slab, by one thread.
#[cfg(not(target_arch = "nvptx64"))]
#[inline(always)]
pub(crate) fn unpassed_by<F: Format>(words: &[F::Word; MOST_SLOTS]) -> u32 {
    let of = |i: usize| order(words[i]);
    let bit = |i: u32, first, second| u32::from(rises(first, second)) << i;
    if F::SLOTS == 1 {
        let [a, b, c, d] = [of(0), of(1), of(2), of(3)];
        bit(0, a, b) | bit(1, a.min(b), c.min(d)) | bit(2, c, d)
    } else {
        bit(0, of(0), of(1)) | bit(1, of(2), of(3)) | bit(2, of(4), of(5)) | bit(3, of(6), of(7))
    }
}

/// The same of a slab that nothing writes.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn unpassed_alone<F: Format>(slab: &[U64x2; 4]) -> u32 {
    let mut words = [F::Word::EMPTY; MOST_SLOTS];
    for (i, word) in words[..4 * F::SLOTS as usize].iter_mut().enumerate() {
        let i = i as u32;
        *word = F::word(slab[(i / F::SLOTS) as usize], i % F::SLOTS);
    }
    unpassed_by::<F>(&words)
}

/// Puts the slots of a slab, which nothing else uses, in the order that says of all but these classes that no key has
/// passed.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn arrange_alone<F: Format>(slab: &mut [U64x2; 4], passed: u32) {
    let is_set = |class: u32| passed >> class & 1 != 0;
    let of = |vector: U64x2, i| order(F::word(vector, i));
    if F::SLOTS == 1 {
        let least = |a, b| of(a, 0).min(of(b, 0));
        if rises(least(slab[0], slab[1]), least(slab[2], slab[3])) == is_set(1) {
            slab.rotate_left(2);
        }
        for at in [0, 2] {
            if rises(of(slab[at], 0), of(slab[at + 1], 0)) == is_set(at as u32) {
                slab.swap(at, at + 1);
            }
        }
    } else {
        for (class, vector) in (0..).zip(slab) {
            if rises(of(*vector, 0), of(*vector, 1)) == is_set(class) {
                *vector = U64x2::new(vector.y, vector.x);
            }
        }
    }
}

/// Whether the first of two is not less than the second, for the lane of the first (`of_second` 0) and for that of
/// the second (1), which each have their own.
#[inline(always)]
const fn falls(of_second: u32, own: u32, other: u32) -> bool {
    // Complements are in the other order.
    let turned = of_second.wrapping_neg();
    own ^ turned >= other ^ turned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix64;
    use crate::slot::{Packed, Wide};
    use gpumap_simt::executor::Executor;
    use gpumap_simt::kernel::Grid;
    use gpumap_simt::{kernel, kernel_args, mem, thread};

    kernel_args! {
        /// One warp per eight slabs.
        pub struct ArrangeArgs {
            /// Four vectors for each slab.
            pub slabs: *mut U64x2,
            /// The classes to be said of each.
            pub passed: *const u32,
            /// Out: what it says then.
            pub unpassed: *mut u32,
            /// Whether slots are those of pairs of 4 + 4 bytes.
            pub packed: u32,
        }
    }

    kernel! {
        /// Arranges slabs, and reads what they say.
        static ARRANGE = fn arrange_slabs(args: ArrangeArgs) {
            // SAFETY: the arrays are as long as the grid; whole warps.
            unsafe {
                if args.packed == 0 {
                    arrange_one::<Wide<u64, u64>>(&args);
                } else {
                    arrange_one::<Packed>(&args);
                }
            }
        }
    }

    unsafe fn arrange_one<F: Format>(args: &ArrangeArgs) {
        let tile = Tile::<TILE>::converged();
        let i = thread::index() as usize;
        // SAFETY: the caller's promise.
        unsafe {
            let vector = mem::load(args.slabs.add(i));
            let (to, vector) = arrange::<F>(tile, vector, mem::load(args.passed.add(i / 4)));
            let slab = args.slabs.add(i & !3);
            tile.sync();
            mem::store(slab.add(to as usize), vector);
            tile.sync();
            let unpassed = unpassed::<F>(tile, mem::load(args.slabs.add(i)));
            mem::store(args.unpassed.add(i / 4), unpassed);
        }
    }

    /// Arranges slabs of vectors for every set of so many classes; returns the slabs with what each says.
    fn arranged(slabs: &[[U64x2; 4]], packed: bool) -> Vec<([U64x2; 4], u32, u32)> {
        let classes = if packed { 4 } else { 3 };
        let sets = 1 << classes;
        let mut vectors: Vec<[U64x2; 4]> = Vec::new();
        let mut passed = Vec::new();
        for &slab in slabs {
            vectors.extend((0..sets).map(|_| slab));
            passed.extend(0..sets);
        }
        let mut unpassed = vec![0; passed.len()];
        assert_eq!(passed.len() % 8, 0);
        let args = ArrangeArgs {
            slabs: vectors.as_mut_ptr().cast(),
            passed: passed.as_ptr(),
            unpassed: unpassed.as_mut_ptr(),
            packed: u32::from(packed),
        };
        let grid = Grid::new(passed.len() as u32 / 8, 32);
        // SAFETY: arrays as the arguments say.
        unsafe { ARRANGE.run(Executor::global(), grid, args) }.unwrap();
        let all = vectors.into_iter().zip(passed).zip(unpassed);
        all.map(|((slab, passed), unpassed)| (slab, passed, unpassed & (sets - 1)))
            .collect()
    }

    fn words(slab: &[U64x2; 4]) -> Vec<(u64, u64)> {
        let mut words: Vec<_> = slab.iter().map(|v| (v.x, v.y)).collect();
        words.sort_unstable();
        words
    }

    fn halves(slab: &[U64x2; 4]) -> Vec<u64> {
        let mut halves: Vec<_> = slab.iter().flat_map(|v| [v.x, v.y]).collect();
        halves.sort_unstable();
        halves
    }

    #[test]
    fn the_order_says_what_has_passed() {
        let slabs: Vec<[U64x2; 4]> = (0..200)
            .map(|i| [0, 1, 2, 3].map(|k| U64x2::new(mix64(8 * i + k + 1), mix64(8 * i + k + 5))))
            .collect();
        for packed in [false, true] {
            let arranged = arranged(&slabs, packed);
            let sets = arranged.len() / slabs.len();
            for (i, (slab, passed, unpassed)) in arranged.iter().enumerate() {
                assert_eq!(unpassed ^ passed, sets as u32 - 1);
                let before = &slabs[i / sets];
                if packed {
                    assert_eq!(halves(slab), halves(before));
                } else {
                    assert_eq!(words(slab), words(before), "pairs stay whole");
                }
            }
        }
    }

    #[test]
    fn keys_of_one_order_and_states_say_that_anything_may_have_passed() {
        let states = [u64::EMPTY, u64::TOMBSTONE, u64::BUSY];
        let mut slabs: Vec<[U64x2; 4]> = Vec::new();
        for slot in 0..4 {
            for state in states {
                let mut keys = [100, 200, 300, 400].map(|key| U64x2::new(key, 1));
                keys[slot].x = state;
                slabs.push(keys);
            }
        }
        slabs.push([1, 2, 3, 4].map(|high| U64x2::new(high << 32 | (high ^ 5), 0)));
        for (slab, passed, unpassed) in arranged(&slabs, false) {
            assert_eq!(unpassed & passed, 0);
            for (pair, class) in [(0, 1), (2, 4)] {
                if slab[pair..pair + 2].iter().any(|v| states.contains(&v.x)) {
                    assert_eq!(unpassed & (class | 2), 0);
                }
            }
        }

        let mut slabs = Vec::new();
        for state in [u32::EMPTY, u32::TOMBSTONE, u32::BUSY] {
            let pair = |key: u32| u64::from(key) | 7 << 32;
            slabs.push([
                U64x2::new(pair(state), pair(5)),
                U64x2::new(pair(5), pair(state)),
                U64x2::new(pair(state), pair(state)),
                U64x2::new(pair(5), pair(5)),
            ]);
        }
        assert!(
            arranged(&slabs, true)
                .iter()
                .all(|&(.., unpassed)| unpassed == 0)
        );
    }

    #[test]
    fn classes_are_shared_out_evenly() {
        let mut of_three = [0u32; 3];
        let mut of_four = [0u32; 4];
        for i in 0..12_000 {
            of_three[class::<Wide<u64, u64>>(12 * i).trailing_zeros() as usize] += 1;
            of_four[class::<Packed>(12 * i as u32).trailing_zeros() as usize] += 1;
        }
        assert!(of_three.iter().all(|n| (3_700..4_300).contains(n)));
        assert!(of_four.iter().all(|n| (2_700..3_300).contains(n)));
    }
}
