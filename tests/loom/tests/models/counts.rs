//! How counters come home: the last block hands the counts over, and sees all of them.

use gpumap_kernels::count::{Counters, MIRRORED, WORDS};
use gpumap_loom::{Fault, Units, explore_on};
use gpumap_simt::atomic::{self, Relaxed};
use loom::thread;

/// The counters of a launch, in memory that its blocks share.
struct Home(*mut Aligned);

impl Home {
    fn new() -> (Self, Units) {
        // The counters of pairs are one unit, that of blocks is another.
        let words = Box::into_raw(Box::new(Aligned([0; WORDS + 1])));
        let mut units = Units::default();
        units.blocks = 2;
        units.add(words, 1);
        (Self(words), units)
    }
}

#[repr(align(16))]
struct Aligned([u64; WORDS + 1]);

impl Drop for Home {
    fn drop(&mut self) {
        // SAFETY: it is from a box, and the threads of the model are gone.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Runs a launch of two blocks, each of which counts 1 stored and 10 unplaced pairs.
fn two_blocks(fault: Fault, block: fn(Counters)) {
    launch(fault, [block, block], [2, 20]);
}

/// Runs a launch of these blocks, which have so many stored and unplaced pairs in sum.
fn launch(fault: Fault, [one, another]: [fn(Counters); 2], counts: [u64; MIRRORED]) {
    explore_on(3, fault, Home::new, move |home| {
        let mut mirror = Box::new([!0u64; MIRRORED]);
        let counters = Counters {
            words: home.0.cast(),
            mirror: mirror.as_mut_ptr(),
        };
        let other = thread::spawn(move || another(counters));
        one(counters);
        other.join().unwrap();
        assert_eq!(*mirror, counts, "a block was not counted");
        // SAFETY: the launch has ended.
        let words = unsafe { (*home.0).0 };
        assert_eq!(words[..WORDS], [0; WORDS], "not ready for the next launch");
    });
}

/// A block that adds to the counters by itself, and then says that it is done by `done`.
fn add(counters: Counters, done: fn(Counters)) {
    // SAFETY: words of the launch.
    unsafe {
        atomic::fetch_add(counters.words, 1, Relaxed);
        atomic::fetch_add(counters.unplaced(), 10, Relaxed);
    }
    done(counters);
}

/// A block that reports.
fn report(counters: Counters) {
    // SAFETY: each of two blocks does so once, after all that it counts.
    unsafe {
        counters.count_unplaced(10);
        counters.report(1);
    }
}

/// A block that reports, and all of whose pairs found room.
fn report_stored(counters: Counters) {
    // SAFETY: as above.
    unsafe { counters.report(1) };
}

/// A block that counted by itself is done.
fn is_done(counters: Counters) {
    // SAFETY: as above.
    unsafe { counters.block_is_done() };
}

#[test]
fn the_last_block_sees_all_reports() {
    two_blocks(Fault::None, report);
}

#[test]
fn the_last_block_sees_pairs_without_room_of_another() {
    launch(Fault::None, [report, report_stored], [2, 10]);
}

#[test]
fn blocks_of_which_all_pairs_found_room_need_no_order() {
    launch(Fault::Relaxed, [report_stored, report_stored], [2, 0]);
}

#[test]
#[should_panic(expected = "a block was not counted")]
fn pairs_without_room_that_are_counted_in_no_order_are_found() {
    two_blocks(Fault::Relaxed, report);
}

#[test]
fn the_last_block_sees_all_counts() {
    two_blocks(Fault::None, |counters| add(counters, is_done));
}

#[test]
#[should_panic(expected = "a block was not counted")]
fn a_counter_of_blocks_that_orders_nothing_is_found() {
    two_blocks(Fault::Relaxed, |counters| add(counters, is_done));
}

#[test]
#[should_panic(expected = "a block was not counted")]
fn a_first_block_that_hands_over_is_found() {
    two_blocks(Fault::None, |counters| {
        add(counters, |counters| {
            // SAFETY: as above.
            unsafe {
                if atomic::fetch_add(counters.words.add(2), 1, atomic::AcqRel) == 0 {
                    for i in 0..MIRRORED {
                        let count = atomic::load(counters.words.add(i), Relaxed);
                        counters.mirror.add(i).write(count);
                    }
                }
            }
        });
    });
}
