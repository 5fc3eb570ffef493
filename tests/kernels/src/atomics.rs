//! Atomics of 32, 64 and 128 bits, all threads of the grid on the same words.

use gpumap_simt::atomic::part::{self, Update};
use gpumap_simt::atomic::{self, AcqRel, Acquire, Arithmetic, Relaxed, Release};
use gpumap_simt::{U64x2, kernel, kernel_args, shared_array, thread};

kernel_args! {
    /// Arguments of the kernels here.
    pub struct AtomicArgs {
        /// In and out: [`WORDS`] words.
        pub narrow: *mut u32,
        /// In and out: [`WORDS`] words.
        pub wide: *mut u64,
        /// In and out: [`PAIRS`] pairs, and one more per thread.
        pub pairs: *mut U64x2,
        /// Out: one word per thread.
        pub old: *mut u64,
        /// Out, of [`WORDS_32_64`]: `2 * FOUND` words per thread, what its atomics found, those of narrow words first.
        pub found: *mut u64,
    }
}

/// Words of each width.
pub const WORDS: usize = 9;
/// Atomics of a thread on words of one width whose results are kept: add, min, max, and, or, xor, on the words from
/// the first on.
pub const FOUND: usize = 6;
/// Pairs that all threads share.
pub const PAIRS: usize = 3;

/// Every operation on words of one width; `number` makes one of the thread's index. What the first six find goes to `found`: an
/// atomic that acquires and whose result nothing reads is one that the lint refuses.
///
/// # Safety
/// There are [`WORDS`] words, accessed atomically only, and [`FOUND`] at `found`, which are this thread's.
#[inline(always)]
unsafe fn words<T: Arithmetic + PartialEq>(
    p: *mut T,
    number: impl Fn(u64) -> T,
    next: impl Fn(T) -> T,
    wide: impl Fn(T) -> u64,
    found: *mut u64,
) -> T {
    let i = thread::index();
    // SAFETY: in range by the caller's promise. The loop ends: each turn that fails means that
    // another thread has gone on, and there are finitely many.
    unsafe {
        let keep = |at, word| gpumap_simt::mem::store(found.add(at), wide(word));
        keep(0, atomic::fetch_add(p, number(1), Relaxed));
        keep(1, atomic::fetch_min(p.add(1), number(i), Acquire));
        keep(2, atomic::fetch_max(p.add(2), number(i), Release));
        keep(
            3,
            atomic::fetch_and(p.add(3), number(!(1 << (i % 31))), AcqRel),
        );
        keep(
            4,
            atomic::fetch_or(p.add(4), number(1 << (i % 31)), Relaxed),
        );
        keep(5, atomic::fetch_xor(p.add(5), number(i), AcqRel));
        let mut seen = atomic::load(p.add(6), Acquire);
        loop {
            let found = atomic::compare_exchange(p.add(6), seen, next(seen), AcqRel);
            if found == seen {
                break;
            }
            seen = found;
        }
        atomic::store(p.add(7), number(7), Release);
        atomic::fence();
        atomic::exchange(p.add(8), number(i + 1), Relaxed)
    }
}

kernel! {
    /// Words of 32 and 64 bits. `old` gets what the last exchange of the wide word found.
    pub static WORDS_32_64 = fn facade_atomic_words(args: AtomicArgs) {
        // SAFETY: passed on.
        unsafe {
            let i = thread::index() as usize;
            let found = args.found.add(i * 2 * FOUND);
            let next = |n: u32| n.wrapping_add(3);
            words(args.narrow, |n| n as u32, next, u64::from, found);
            let next = |n: u64| n.wrapping_add(3);
            let old = words(args.wide, |n| n, next, |n| n, found.add(FOUND));
            gpumap_simt::mem::store(args.old.add(i), old);
        }
    }
    /// The halves of a pair, and whole pairs of each thread's own. `old` gets 1 in the one
    /// thread that claimed pair 1.
    pub static PAIRS_128 = fn facade_atomic_pairs(args: AtomicArgs) {
        let i = thread::index();
        // SAFETY: in range by the caller's promise.
        unsafe {
            part::update_part(args.pairs, 8, Update::Add, 1u64);
            let claimed = part::compare_exchange_part(args.pairs.add(1), 0, !0, i) == !0;
            gpumap_simt::mem::store(args.old.add(i as usize), u64::from(claimed));
            let own = args.pairs.add(PAIRS + i as usize);
            atomic::store(own, U64x2::new(i, !i), Release);
            let read = atomic::load(own, Acquire);
            atomic::store(own, U64x2::new(read.y, read.x), Relaxed);
        }
    }
    /// Compare-and-exchange of whole pairs, and exchange: `pairs[2]` counts in both halves.
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    pub static CAS_128 = fn facade_atomic_cas_128(args: AtomicArgs) {
        // SAFETY: in range by the caller's promise; the loop ends as in `words`.
        unsafe {
            let p = args.pairs.add(2);
            let mut seen = atomic::load(p, Relaxed);
            loop {
                let next = U64x2::new(seen.x + 1, seen.y + 2);
                let found = atomic::compare_exchange(p, seen, next, AcqRel);
                if found == seen {
                    break;
                }
                seen = found;
            }
            let own = args.pairs.add(PAIRS + thread::index() as usize);
            let before = atomic::exchange(own, U64x2::new(5, 6), AcqRel);
            gpumap_simt::mem::store(args.old.add(thread::index() as usize), before.x ^ before.y);
        }
    }
    /// A counter of the block in shared memory. `old` gets what each thread's add found.
    pub static BLOCK = fn facade_atomic_block(args: AtomicArgs) {
        let counter = shared_array![u32; 1];
        // SAFETY: one thread sets the counter before the barrier; all add to it after it.
        unsafe {
            if thread::thread_idx_x() == 0 {
                *counter = 0;
            }
            thread::sync_threads();
            let old = atomic::block_fetch_add(counter, 1);
            gpumap_simt::mem::store(args.old.add(thread::index() as usize), u64::from(old));
        }
    }
}
