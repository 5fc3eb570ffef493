//! Kernels whose blocks run natively.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread::ThreadId;

use gpumap_simt::atomic::part::{self, Update};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::executor::{Config, Executor, FaultKind, Schedule};
use gpumap_simt::kernel::Grid;
use gpumap_simt::{U64x2, kernel, kernel_args, native, thread};

kernel_args! {
    /// Arguments of the kernels here.
    pub struct Args {
        /// Words to count in.
        pub words: *mut u64,
        /// Which block panics; none if there is no such.
        pub panics: u32,
        /// Where threads sign.
        pub threads: *const (),
    }
}

kernel! {
    /// Adds 1 for each thread of the grid.
    static COUNT = fn count(args: Args) by block {
        assert!(thread::block_idx_x() != args.panics, "as it was told");
        let threads = native::block().map_or(1, |block| {
            // SAFETY: the test keeps it.
            unsafe { &*args.threads.cast::<Mutex<HashSet<ThreadId>>>() }.lock().unwrap().insert(std::thread::current().id());
            assert_eq!((block.index, block.blocks), (thread::block_idx_x(), thread::grid_dim_x()));
            assert_eq!((block.threads, thread::thread_idx_x()), (thread::block_dim_x(), 0));
            std::thread::sleep(std::time::Duration::from_micros(20));
            block.threads
        });
        // SAFETY: a valid word.
        unsafe { atomic::fetch_add(args.words, u64::from(threads), Relaxed) };
    }
    /// Adds the index of each thread of the grid.
    static ADD_INDICES = fn add_indices(args: Args) by thread {
        assert!(thread::block_idx_x() != args.panics, "as it was told");
        // SAFETY: two valid words.
        unsafe {
            atomic::fetch_add(args.words, thread::index(), Relaxed);
            atomic::fetch_add(args.words.add(1), u64::from(native::block().is_some()), Relaxed);
        }
    }
    /// Panics in one thread of the grid.
    static ONE_PANICS = fn one_panics(args: Args) by thread {
        assert!(thread::index() != u64::from(args.panics), "as it was told");
    }
    /// Waits in its last block for what the one before it does not write, but panics.
    static ONE_WAITS = fn one_waits(args: Args) by block {
        let (block, last) = (thread::block_idx_x(), thread::grid_dim_x() - 1);
        let mut waits = native::Waits::default();
        // SAFETY: two valid words.
        unsafe {
            if block == last {
                atomic::store(args.words, 1, Relaxed);
                while atomic::load(args.words.add(1), Relaxed) == 0 {
                    waits.wait();
                }
            } else if block == last - 1 {
                while atomic::load(args.words, Relaxed) == 0 {
                    waits.wait();
                }
                panic!("as it was told");
            }
        }
        // Long enough for the blocks before to call another thread.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    /// Needs its lanes.
    static BARRIER = fn barrier(args: Args) {
        // SAFETY: all threads come here.
        unsafe { thread::sync_threads() };
        // SAFETY: a valid word.
        unsafe { atomic::fetch_add(args.words, 1, Relaxed) };
    }
    /// Says that it does not, but does.
    static LIES = fn lies(_args: Args) by block {
        // SAFETY: none is needed: it panics.
        unsafe { thread::sync_threads() };
    }
    /// Changes parts of words as the executor does.
    static PARTS = fn parts(args: Args) by block {
        if native::block().is_none() && thread::index() != 0 {
            return;
        }
        let pair = args.words.cast::<U64x2>();
        // SAFETY: four valid words.
        unsafe {
            part::update_part(pair, 8, Update::Add, 5u32);
            part::update_part(pair, 0, Update::Replace, 7u64);
            part::update_part(pair, 12, Update::MaxUnsigned, 9u32);
            part::update_part(pair, 12, Update::MinFloat, (-1.5f32).to_bits());
            part::update_part(pair, 12, Update::AddFloat, 0.5f32.to_bits());
            assert_eq!(part::compare_exchange_part(pair, 0, 6u64, 1), 7);
            assert_eq!(part::compare_exchange_part(pair, 0, 7u64, 8), 7);
            assert_eq!(part::exchange_part(pair, 8, 3u32), 5);
            let whole = pair.add(1);
            assert_eq!(atomic::compare_exchange(whole, U64x2::new(0, 0), U64x2::new(1, 2), Relaxed), U64x2::new(0, 0));
            assert_eq!(atomic::load(whole, Relaxed), U64x2::new(1, 2));
            atomic::fence();
        }
    }
}

fn native(workers: usize) -> Executor {
    Executor::new(Config {
        workers,
        native: true,
        ..Config::default()
    })
}

/// Runs a kernel; returns the words, and how many threads have signed.
fn run(
    kernel: &gpumap_simt::kernel::Kernel<Args>,
    executor: &Executor,
    grid: Grid,
    panics: u32,
) -> Result<([u64; 4], usize), gpumap_simt::executor::Fault> {
    #[repr(align(16))]
    struct Words([u64; 4]);
    let mut words = Words([0; 4]);
    let threads = Mutex::<HashSet<ThreadId>>::default();
    let args = Args {
        words: words.0.as_mut_ptr(),
        panics,
        threads: (&raw const threads).cast(),
    };
    // SAFETY: words and threads outlive the launch.
    unsafe { kernel.run(executor, grid, args) }?;
    let signed = threads.lock().unwrap().len();
    Ok((words.0, signed))
}

#[test]
fn a_block_is_one_call() {
    for executor in [native(1), native(3)] {
        let (words, signed) = run(&COUNT, &executor, Grid::new(100, 64), u32::MAX).unwrap();
        assert_eq!(words[0], 6400);
        assert!((1..=executor.config().workers).contains(&signed));
    }
    // One block needs one thread, as do none.
    let executor = native(3);
    assert_eq!(
        run(&COUNT, &executor, Grid::new(1, 64), u32::MAX).unwrap(),
        ([64, 0, 0, 0], 1)
    );
    assert_eq!(
        run(&COUNT, &executor, Grid::new(0, 64), u32::MAX).unwrap(),
        ([0; 4], 0)
    );
}

#[test]
fn lanes_are_there_where_they_are_needed() {
    let native_executor = native(2);
    let grid = Grid::new(3, 64);
    assert_eq!(run(&BARRIER, &native_executor, grid, 0).unwrap().0[0], 192);
    let lockstep = Executor::new(Config {
        schedule: Schedule::Lockstep,
        native: true,
        ..Config::default()
    });
    for executor in [Executor::global(), &lockstep] {
        assert_eq!(
            run(&COUNT, executor, grid, u32::MAX).unwrap(),
            ([192, 0, 0, 0], 0)
        );
    }
}

#[test]
fn threads_of_a_block_run_one_after_the_other() {
    let sum = 300 * 299 / 2;
    let grid = Grid::new(5, 60);
    for (executor, natively) in [
        (native(1), 300),
        (native(3), 300),
        (Executor::new(Config::default()), 0),
    ] {
        let (words, _) = run(&ADD_INDICES, &executor, grid, u32::MAX).unwrap();
        assert_eq!(words[..2], [sum, natively]);
        let fault = run(&ADD_INDICES, &executor, grid, 2).unwrap_err();
        assert_eq!((fault.kernel, fault.block), ("add_indices", 2));
    }
    // What was left of the block that panicked is not taken for a thread of the next.
    let (words, _) = run(&COUNT, &native(1), grid, u32::MAX).unwrap();
    assert_eq!(words[0], 300);
}

#[test]
fn a_panic_is_a_fault_of_the_block() {
    let executor = native(2);
    let fault = run(&COUNT, &executor, Grid::new(50, 32), 20).unwrap_err();
    assert_eq!((fault.kernel, fault.block), ("count", 20));
    match fault.kind {
        FaultKind::Panic { message, site, .. } => {
            assert!(message.contains("as it was told"), "{message}");
            assert!(site.is_some_and(|site| site.file.ends_with("by_block.rs")));
        }
        other => panic!("{other}"),
    }
    let fault = run(&LIES, &executor, Grid::new(1, 32), 0).unwrap_err();
    assert!(
        fault
            .to_string()
            .contains("something else that needs lanes"),
        "{fault}"
    );
    // And it goes on.
    assert_eq!(
        run(&COUNT, &executor, Grid::new(50, 32), u32::MAX)
            .unwrap()
            .0[0],
        1600
    );
}

#[test]
fn a_block_does_not_wait_for_one_that_panicked() {
    let executor = native(2);
    let fault = run(&ONE_WAITS, &executor, Grid::new(4, 32), 0).unwrap_err();
    assert_eq!((fault.kernel, fault.block), ("one_waits", 2));
    assert!(fault.to_string().contains("as it was told"), "{fault}");
}

#[test]
fn a_panic_is_told_whose_it_was() {
    for executor in [native(1), native(3), Executor::new(Config::default())] {
        for (panics, place) in [(137, (2, 17)), (59, (0, 59)), (240, (4, 0))] {
            let fault = run(&ONE_PANICS, &executor, Grid::new(5, 60), panics).unwrap_err();
            let FaultKind::Panic { lane, .. } = fault.kind else {
                panic!("{fault}");
            };
            assert_eq!((fault.block, lane.thread), place);
        }
    }
}

#[test]
fn copies_past_the_cache_are_copies() {
    fn copied<T: Copy + PartialEq + std::fmt::Debug>(all: &[T]) {
        let mut to = vec![all[0]; all.len() + 1];
        // Not where lines begin.
        // SAFETY: so many there, and room for them.
        unsafe { native::copy_past_cache(all.as_ptr(), to[1..].as_mut_ptr(), all.len()) };
        native::finish_copies();
        assert_eq!(to[1..], *all);
    }
    copied(&[1u32, 2, 3, 4, 5]);
    copied(&[!0u64, 2, 3]);
    copied(&[[1u8, 2, 3, 4], [5, 6, 7, 8]]);
    copied(&[[1u16; 4], [2; 4], [3; 4]]);
}

#[test]
fn parts_of_words_are_the_same() {
    let grid = Grid::new(1, 1);
    let checked = run(&PARTS, Executor::global(), grid, 0).unwrap();
    assert_eq!(run(&PARTS, &native(1), grid, 0).unwrap(), checked);
    assert_eq!(checked.0[0], 8);
}
