//! Kernels in rust-cuda's form on every back end: natively on the CPU, on the executor that checks, and as PTX. `examples/neighbours` has
//! `cust` launch the same PTX.

use cuda_std::{kernel, thread, warp};
use gpumap::primitives::{Order, Predicate, Primitives};
use gpumap::{Buffer, Device, Error, PtxChoice, Stream};
use gpumap_cuda_test_kernels::all::{ALL, AllArgs, ROW, Shared};
use gpumap_cuda_test_kernels::{
    BLOCK_SUMS, BlockSumsArgs, FILTER, FILTER_ROUNDS, FilterArgs, SUM_THREADS, VECTOR_ADD,
    VectorAddArgs,
};
use gpumap_simt::kernel::Grid;
use gpumap_tests::on_every_target;

/// Runs it on each back end, with a stream whose device knows the kernels.
fn on_every_back_end(body: impl Fn(&Stream)) {
    body(&Stream::new(&Device::checked()).expect("a stream"));
    on_every_target(|target| {
        let device = target.device();
        if device.is_cuda() {
            let ptx = match device.info().expect("device info").ptx {
                Some(PtxChoice::Sm90) => include_str!("../../ptx/gpumap_cuda_test_sm_90.ptx"),
                _ => include_str!("../../ptx/gpumap_cuda_test_sm_70.ptx"),
            };
            device.register_ptx(ptx).expect("the kernels");
        }
        body(&target.stream());
    });
}

/// Numbers that look random.
fn numbers(n: u64) -> Vec<u64> {
    let number = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    (0..n).map(number).collect()
}

#[test]
fn three_kernels_of_rust_cuda() {
    const N: usize = 5_000;
    let whole = numbers(N as u64);
    let words: Vec<u32> = whole.iter().map(|&it| it as u32).collect();
    let a: Vec<f32> = words.iter().map(|&it| it as f32).collect();
    let b: Vec<f32> = (0..N + 1).map(|i| i as f32).collect();
    on_every_back_end(|stream| {
        let from = |slice: &[f32]| Buffer::from_slice(stream, slice).expect("an input");
        let (of_a, of_b) = (from(&a), from(&b));
        let mut sum = from(&vec![-1.0; N + 1]);
        let args = VectorAddArgs {
            a: of_a.as_ptr(),
            a_len: N,
            b: of_b.as_ptr(),
            b_len: N + 1,
            sum: sum.as_mut_ptr(),
        };
        let grid = Grid::covering(N as u64 + 1, 128);
        // SAFETY: buffers of the lengths that the arguments say, which outlive the launch.
        unsafe { VECTOR_ADD.launch(stream, grid, args) }.expect("vector_add");
        let mut expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        expected.push(-1.0);
        assert_eq!(sum.to_vec().expect("the sums"), expected);

        let of_words = Buffer::from_slice(stream, &words).expect("an input");
        let grid = Grid::covering(N as u64, SUM_THREADS);
        let mut sums = Buffer::<u32>::zeroed(stream, grid.blocks as usize).expect("an output");
        let args = BlockSumsArgs {
            numbers: of_words.as_ptr(),
            numbers_len: N,
            sums: sums.as_mut_ptr(),
        };
        // SAFETY: as above, with a number for each block.
        unsafe { BLOCK_SUMS.launch(stream, grid, args) }.expect("block_sums");
        let blocks = words.chunks(SUM_THREADS as usize);
        let expected: Vec<u32> = blocks
            .map(|block| block.iter().fold(0u32, |sum, &it| sum.wrapping_add(it)))
            .collect();
        assert_eq!(sums.to_vec().expect("the sums"), expected);

        let limit = u64::MAX / 3;
        let primitives = Primitives::new(stream.device());
        let below = Predicate::Less(limit);
        let of_whole = Buffer::from_slice(stream, &whole).expect("an input");
        let tiles = |n: usize, threads| Grid::covering(n.div_ceil(FILTER_ROUNDS) as u64, threads);
        // Tiles for each block: one, at most one, several, of which the last ones may have no numbers, and all.
        for (n, grid) in [
            (N, tiles(N, 128)),
            (N, Grid::new(64, 256)),
            (N, Grid::new(3, 128)),
            (N, Grid::new(1, 32)),
            (1, Grid::new(2, 64)),
            (0, Grid::new(2, 64)),
        ] {
            let mut kept = Buffer::<u64>::zeroed(stream, N).expect("an output");
            let mut count = Buffer::<u64>::zeroed(stream, 1).expect("an output");
            let args = FilterArgs {
                numbers: of_whole.as_ptr(),
                numbers_len: n,
                limit,
                kept: kept.as_mut_ptr(),
                count: count.as_mut_ptr(),
            };
            // SAFETY: as above.
            unsafe { FILTER.launch(stream, grid, args) }.expect("filter");
            let count = count.to_vec().expect("the count")[0] as usize;
            let mut found = kept.to_vec().expect("what was kept");
            assert!(found[count..].iter().all(|&it| it == 0), "{n}, {grid:?}");
            found.truncate(count);
            found.sort_unstable();
            let mut expected = primitives
                .filter(&whole[..n], below, Order::Stable)
                .expect("a filter");
            expected.sort_unstable();
            assert_eq!(found, expected, "{n}, {grid:?}");
        }
    });
}

#[test]
fn what_kernels_call() {
    const THREADS: u64 = 64;
    on_every_back_end(|stream| {
        let words = [0f32.to_bits(), 100, 0, 0, 0, 0, 0, 0];
        let mut shared = Buffer::from_slice(stream, &words).expect("shared words");
        let mut rows = Buffer::<u64>::zeroed(stream, THREADS as usize * ROW).expect("rows");
        let args = AllArgs {
            shared: shared.as_mut_ptr().cast::<Shared>(),
            rows: rows.as_mut_ptr(),
            rows_len: rows.len(),
        };
        let grid = Grid {
            shared_bytes: 16,
            ..Grid::new(1, THREADS as u32)
        };
        // SAFETY: `Shared` is eight words, and there is a row for each thread.
        unsafe { ALL.launch(stream, grid, args) }.expect("all");
        let rows = rows.to_vec().expect("the rows");
        for (t, row) in (0..).zip(rows.chunks(ROW)) {
            let lane = t % 32;
            let pair = |value: u64, is_there: bool| value << 1 | u64::from(is_there);
            let of = |lane: u64| t - t % 32 + lane;
            let half = if lane < 16 { 0xffff } else { 0xffff_0000 };
            let first = t - t % 16;
            let segment = lane / 8 * 8;
            let expected = [
                t,
                0,
                t,
                THREADS,
                THREADS / 2,
                1,
                0,
                u64::from(first + 15 < 40),
                u64::from(first <= 40 && 40 <= first + 15),
                0xaaaa_aaaa & half,
                0x1111_1111 << (lane & 3),
                0x5555_5555 << (lane & 1),
                0xffff_ffff,
                7,
                if lane % 8 >= 3 {
                    pair(t - 3, true)
                } else {
                    pair(t, false)
                },
                if lane % 8 < 5 {
                    pair(t + 3, true)
                } else {
                    pair(t, false)
                },
                // A lane of a later segment is not read.
                match lane ^ 12 {
                    from if from < segment + 8 => pair(of(from), true),
                    _ => pair(t, false),
                },
                pair(of(segment + 1), true),
                32f32.to_bits().into(),
                64f32.to_bits().into(),
                !0,
                1,
            ];
            assert_eq!(row, expected, "thread {t}");
        }
        let shared = shared.to_vec().expect("the words");
        let least = (-63i64) as u64;
        let expected = [32f32.to_bits(), 36, 0, 0, least as u32, !0, !0, !0];
        assert_eq!(shared, expected);
    });
}

/// Half of a warp votes as a whole one.
#[kernel]
unsafe fn half_a_warp_votes(lanes: *mut u32) {
    if thread::thread_idx_x() < 16 {
        // SAFETY: there is none.
        let voted = unsafe { warp::warp_vote_ballot(!0, true) };
        // SAFETY: a word for each thread.
        unsafe { *lanes.add(thread::index() as usize) = voted };
    }
}

/// A barrier that half of the block passes by.
#[kernel]
unsafe fn half_a_block_waits(n: u32) {
    if thread::thread_idx_x() < n {
        thread::sync_threads();
    }
}

#[test]
fn lanes_that_do_not_come_are_reported() {
    let stream = Stream::new(&Device::checked()).expect("a stream");
    let mut lanes = Buffer::<u32>::zeroed(&stream, 32).expect("words");
    let args = HalfAWarpVotesArgs {
        lanes: lanes.as_mut_ptr(),
    };
    // SAFETY: what the kernel does wrong is what the executor reports.
    let failed = unsafe { HALF_A_WARP_VOTES.launch(&stream, Grid::new(1, 32), args) };
    let Err(Error::Kernel(fault)) = failed else {
        panic!("{failed:?}");
    };
    let text = fault.to_string();
    assert!(
        text.contains("half_a_warp_votes") && text.contains(file!()),
        "{text}"
    );
    let args = HalfABlockWaitsArgs { n: 32 };
    // SAFETY: as above.
    let failed = unsafe { HALF_A_BLOCK_WAITS.launch(&stream, Grid::new(1, 64), args) };
    assert!(matches!(failed, Err(Error::Kernel(_))), "{failed:?}");
}
