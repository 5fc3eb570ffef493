//! The host gets the whole sum of the blocks' counts, whichever of them is last.

use std::ptr;

use gpumap::simt::kernel::Grid;
use gpumap::simt::thread;
use gpumap_kernels::count::{Counters, MIRRORED, WORDS};
use gpumap_tests::interleave::{self, LANES, Out};

/// Blocks of two warps in which each thread counts its number, and every fifth a pair that found
/// no room.
fn count(seed: u64, blocks: u32, words: &mut [u64; WORDS], mirror: Option<&mut [u64; MIRRORED]>) {
    let words = Out::of(words);
    let mirror = mirror.map(|mirror| Out::of(mirror));
    let body = || {
        let counters = Counters {
            words: words.ptr(),
            mirror: mirror.as_ref().map_or(ptr::null_mut(), Out::ptr),
        };
        let number = thread::index() as u32;
        // SAFETY: all threads of all blocks come here, and nothing else accesses the counters.
        unsafe {
            if number.is_multiple_of(5) {
                counters.count_unplaced(1);
            }
            counters.add_from_block(number);
        }
    };
    // SAFETY: what is shared is added to, or written by the block that is last.
    unsafe { interleave::launch(seed, Grid::new(blocks, 2 * LANES), body) };
}

/// The sum of the numbers of all threads, and how many of these are divisible by five.
fn expected(blocks: u32) -> [u64; MIRRORED] {
    let threads = u64::from(blocks * 2 * LANES);
    [threads * (threads - 1) / 2, threads.div_ceil(5)]
}

#[test]
fn the_last_block_hands_over_what_all_counted() {
    let mut words = [0; WORDS];
    for blocks in [1, 2, 7, 16] {
        for seed in 0..40 {
            let mut mirror = [!0; MIRRORED];
            count(seed, blocks, &mut words, Some(&mut mirror));
            assert_eq!(mirror, expected(blocks), "{blocks} blocks, seed {seed}");
            // For the next launch, which is the next round here.
            assert_eq!(words, [0; WORDS], "{blocks} blocks, seed {seed}");
        }
    }
}

#[test]
fn without_a_mirror_the_words_are_only_added_to() {
    let mut words = [0; WORDS];
    let [sum, fifths] = expected(5);
    for round in 1..=3 {
        count(round, 5, &mut words, None);
        assert_eq!(words, [round * sum, round * fifths, 0]);
    }
}
