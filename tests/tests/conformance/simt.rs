//! Kernels of a test's own, declared right here with `kernel!` and `kernel_args!` and launched on
//! a stream: shared memory over several blocks and rounds, and atomics of all widths, under
//! random schedules too.
//!
//! On the CPU executor only, whatever the target, since such kernels are in no PTX. What each
//! collective, tile, atomic and load does on every device is in `facade.rs`, whose kernels have
//! PTX of their own.

use gpumap::executor::{Config, Executor};
use gpumap::simt::atomic::part::{self, Update};
use gpumap::simt::atomic::{self, AcqRel, Acquire, Relaxed, Release};
use gpumap::simt::kernel::Grid;
use gpumap::simt::shared::dynamic_shared_mem;
use gpumap::simt::{U64x2, kernel, kernel_args, shared_array, thread};
use gpumap::{Buffer, Device, Stream};

/// Streams of executors with several schedules.
fn streams() -> Vec<Stream> {
    [Config::default(), Config::random(1), Config::random(99)]
        .map(|config| Stream::new(&Device::cpu_with(config)).unwrap())
        .to_vec()
}

/// Something that looks random.
fn noise(i: u64) -> u64 {
    let z = (i ^ i >> 30)
        .wrapping_add(0x9e37_79b9)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 5
}

kernel_args! {
    /// Words to work on.
    pub struct WordsArgs {
        /// The input.
        pub input: *const u64,
        /// The output.
        pub output: *mut u64,
        /// How many words of each there are.
        pub n: u64,
    }
}

kernel! {
    /// Reverses the words of each block through static and dynamic shared memory, several times.
    pub static REVERSE = fn reverse(args: WordsArgs) {
        let fixed = shared_array![u64; 256];
        let narrow = shared_array![u8; 256];
        let dynamic = dynamic_shared_mem::<u64>();
        let t = thread::thread_idx_x() as usize;
        let last = thread::block_dim_x() as usize - 1;
        let i = thread::index() as usize;
        // SAFETY: one word per thread; barriers lie between the writes and the others' reads.
        unsafe {
            let mut word = *args.input.add(i);
            for _ in 0..3 {
                *fixed.add(t) = word;
                *narrow.add(t) = word as u8;
                *dynamic.add(t) = !word;
                thread::sync_threads();
                word = *fixed.add(last - t);
                assert_eq!(*dynamic.add(last - t), !word);
                assert_eq!(*narrow.add(last - t), word as u8);
                thread::sync_threads();
            }
            *args.output.add(i) = word;
        }
    }
    /// The sum of each block's words, by a shared counter, in the order of barriers.
    pub static BLOCK_SUMS = fn block_sums(args: WordsArgs) {
        let sum = shared_array![u64; 1];
        let low = shared_array![u32; 1];
        // SAFETY: one thread writes before and after the barriers, all add in between.
        unsafe {
            if thread::thread_idx_x() == 0 {
                (*sum, *low) = (0, 0);
            }
            thread::sync_threads();
            let i = thread::index();
            let word = if i < args.n { *args.input.add(i as usize) } else { 0 };
            atomic::block_fetch_add(sum, word);
            atomic::block_fetch_add(low, word as u32);
            thread::sync_threads();
            if thread::thread_idx_x() == 0 {
                assert_eq!(*low, *sum as u32);
                *args.output.add(thread::block_idx_x() as usize) = *sum;
            }
        }
    }
}

#[test]
fn shared_memory_static_and_dynamic() {
    for stream in streams() {
        for threads in [1u32, 31, 32, 64, 256] {
            let blocks = 5;
            let host: Vec<u64> = (0..u64::from(blocks * threads)).map(noise).collect();
            let input = Buffer::from_slice(&stream, &host).unwrap();
            let mut output = Buffer::<u64>::zeroed(&stream, host.len()).unwrap();
            let args = WordsArgs {
                input: input.as_ptr(),
                output: output.as_mut_ptr(),
                n: host.len() as u64,
            };
            let grid = Grid {
                blocks,
                threads,
                shared_bytes: 8 * threads,
            };
            // SAFETY: both buffers have a word per thread; the grid has the shared memory.
            unsafe { REVERSE.launch(&stream, grid, args) }.unwrap();
            let output = output.to_vec().unwrap();
            for (got, block) in output
                .chunks(threads as usize)
                .zip(host.chunks(threads as usize))
            {
                assert!(got.iter().eq(block.iter().rev()), "{threads} threads");
            }
        }
    }
}

#[test]
fn sums_of_blocks() {
    for stream in streams() {
        let host: Vec<u64> = (0..1_000).map(noise).collect();
        let input = Buffer::from_slice(&stream, &host).unwrap();
        let mut output = Buffer::<u64>::zeroed(&stream, 1_000).unwrap();
        let args = WordsArgs {
            input: input.as_ptr(),
            output: output.as_mut_ptr(),
            n: 1_000,
        };
        // SAFETY: one output per block, and words beyond the input are not read.
        unsafe { BLOCK_SUMS.launch(&stream, Grid::covering(1_000, 96), args) }.unwrap();
        for (got, block) in output.to_vec().unwrap().iter().zip(host.chunks(96)) {
            assert_eq!(
                *got,
                block.iter().fold(0u64, |sum, word| sum.wrapping_add(*word))
            );
        }
    }
}

kernel_args! {
    /// Counters that all threads work on.
    pub struct AtomicArgs {
        /// Words of 32 bits.
        pub narrow: *mut u32,
        /// Words of 64 bits.
        pub wide: *mut u64,
        /// Words of 128 bits.
        pub pairs: *mut U64x2,
        /// One word per thread, for what it saw.
        pub seen: *mut u64,
    }
}

kernel! {
    /// Every read-modify-write, by every thread, on the same words.
    pub static COUNT = fn count(args: AtomicArgs) {
        let i = thread::index();
        let AtomicArgs { narrow, wide, pairs, seen } = args;
        // SAFETY: eight words each, atomics only; `seen` has a word per thread.
        unsafe {
            atomic::fetch_add(narrow, 3, Relaxed);
            atomic::fetch_min(narrow.add(1), i as u32 + 5, Relaxed);
            atomic::fetch_max(narrow.add(2), i as u32 + 5, AcqRel);
            atomic::fetch_and(narrow.add(3), !(1 << (i % 32)), Acquire);
            atomic::fetch_or(narrow.add(4), 1 << (i % 32), Release);
            atomic::fetch_xor(narrow.add(5), 1 << (i % 5), Relaxed);
            // A number of its own for each thread.
            *seen.add(i as usize) = atomic::fetch_add(wide, 1, AcqRel);
            atomic::fetch_min(wide.add(1), (i + 5) << 32, Relaxed);
            atomic::fetch_max(wide.add(2), (i + 5) << 32, Relaxed);
            atomic::fetch_and(wide.add(3), !(1 << (i % 64)), Relaxed);
            atomic::fetch_or(wide.add(4), 1 << (i % 64), Relaxed);
            atomic::fetch_xor(wide.add(5), 1 << (i % 5 + 40), Relaxed);
            // Adding in a loop of exchanges, narrow, wide and in both halves of a pair.
            let mut old = atomic::load(narrow.add(6), Acquire);
            loop {
                let was = atomic::compare_exchange(narrow.add(6), old, old + 2, AcqRel);
                if was == old { break }
                old = was;
            }
            let mut old = atomic::load(pairs, Relaxed);
            loop {
                let new = U64x2::new(old.x + 1, old.y.wrapping_sub(1));
                let was = atomic::compare_exchange(pairs, old, new, Relaxed);
                if was == old { break }
                old = was;
            }
            part::update_part(pairs.add(1), 8, Update::Add, u64::MAX / 2);
            // The first to come takes the low word, and the high word stays.
            let won = part::compare_exchange_part(pairs.add(2), 0, u64::MAX, i) == u64::MAX;
            atomic::fetch_add(wide.add(6), u64::from(won), Relaxed);
            // Whole pairs go round: none is lost, none is torn.
            let was = atomic::exchange(pairs.add(3), U64x2::new(i, !i), Relaxed);
            assert_eq!(was.x, !was.y, "a torn pair");
            atomic::fetch_add(wide.add(7), was.x, Relaxed);
            atomic::store(pairs.add(4), U64x2::new(i, !i), Relaxed);
            let now = atomic::load(pairs.add(4), Relaxed);
            assert_eq!(now.x, !now.y, "a torn pair");
            // Parts go round as well, each by itself.
            let was = part::exchange_part(pairs.add(5), 4, i as u32);
            atomic::fetch_add(narrow.add(7), was, Relaxed);
            let was = part::exchange_part(pairs.add(5), 8, i);
            atomic::fetch_add(wide.add(8), was, Relaxed);
        }
    }
}

#[test]
fn atomics_of_every_width() {
    for stream in streams() {
        let grid = Grid::new(6, 50);
        let n = 300u64;
        let mut narrow =
            Buffer::from_slice(&stream, &[7u32, u32::MAX, 0, u32::MAX, 0, 0, 1, 0]).unwrap();
        let mut wide =
            Buffer::from_slice(&stream, &[0, u64::MAX, 0, u64::MAX, 0, 0, 0, 0, 0]).unwrap();
        let words = [0, 0, 9, 8, u64::MAX, 77, 1_000, !1_000, 0, !0, 5, 0];
        let mut pairs =
            Buffer::<[u64; 2]>::from_slice(&stream, bytemuck::cast_slice(&words)).unwrap();
        let mut seen = Buffer::<u64>::zeroed(&stream, n as usize).unwrap();
        let args = AtomicArgs {
            narrow: narrow.as_mut_ptr(),
            wide: wide.as_mut_ptr(),
            // Memory of the executor is page-aligned.
            pairs: pairs.as_mut_ptr().cast(),
            seen: seen.as_mut_ptr(),
        };
        // SAFETY: as many words as the kernel uses.
        unsafe { COUNT.launch(&stream, grid, args) }.unwrap();

        let narrow = narrow.to_vec().unwrap();
        // 60 threads toggle each of five bits: an even number.
        assert_eq!(
            narrow[..7],
            [7 + 3 * 300, 5, 304, 0, u32::MAX, 0, 1 + 2 * 300]
        );
        let wide = wide.to_vec().unwrap();
        assert_eq!(wide[..7], [n, 5 << 32, 304 << 32, 0, u64::MAX, 0, 1]);
        let pairs = pairs.to_vec().unwrap();
        assert_eq!(pairs[0], [n, n.wrapping_neg()]);
        assert_eq!(
            pairs[1],
            [9, (u64::MAX / 2).wrapping_mul(n).wrapping_add(8)]
        );
        assert!(pairs[2][0] < n && pairs[2][1] == 77, "{:?}", pairs[2]);
        // All that was exchanged in came out again, except for the last.
        let sum: u64 = (0..n).sum::<u64>() + 1_000;
        assert_eq!(wide[7] + pairs[3][0], sum);
        assert_eq!(pairs[3][0], !pairs[3][1]);
        assert_eq!(pairs[4][0], !pairs[4][1]);
        let sum: u64 = (0..n).sum();
        assert_eq!(u64::from(narrow[7]) + (pairs[5][0] >> 32), sum);
        assert_eq!(wide[8] + pairs[5][1], sum);
        assert_eq!(pairs[5][0] as u32, 5, "the part beside them");
        let mut seen = seen.to_vec().unwrap();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..n), "two threads got one number");
    }
}

#[test]
fn kernels_know_their_names_and_run_without_a_stream() {
    assert_eq!((REVERSE.name(), COUNT.name()), ("reverse", "count"));
    let input = [1u64, 2, 3];
    let mut output = [0u64; 1];
    let args = WordsArgs {
        input: input.as_ptr(),
        output: output.as_mut_ptr(),
        n: 3,
    };
    // SAFETY: one block, so one output; the arrays outlive the call.
    unsafe { BLOCK_SUMS.run(Executor::global(), Grid::new(1, 32), args) }.unwrap();
    assert_eq!(output, [6]);
    // SAFETY: nothing runs.
    unsafe { BLOCK_SUMS.run(Executor::global(), Grid::new(0, 32), args) }.unwrap();
}
