//! Weak memory: kernels without a needed fence fail, and correct ones pass.

use std::sync::Mutex;

use gpumap_simt::executor::{Config, Executor, Launch, Memory, Schedule};
use gpumap_simt::kernel::Grid;
use gpumap_simt::{U64x2, atomic, mask::LaneMask, mem, thread, warp};

fn executor(seed: u64, memory: Memory) -> Executor {
    Executor::new(Config {
        schedule: Schedule::Random { seed },
        memory,
        step_budget: 1 << 20,
        ..Config::default()
    })
}

/// Some data, and a flag that says it is there.
#[repr(C)]
struct Message {
    data: U64x2,
    flag: u32,
}

/// How a side orders its accesses of data and flag.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Not,
    Fence,
    Atomic,
}

/// Sends a message from one launch to another; returns whether it arrived whole.
fn arrives(seed: u64, memory: Memory, sends: Order, receives: Order) -> bool {
    let sent = U64x2::new(7, 8);
    let mut message = Message {
        data: U64x2::new(1, 2),
        flag: 0,
    };
    let shared = &raw mut message as usize;
    let at = || shared as *mut Message;
    let got = Mutex::new(None);
    // SAFETY: the message outlives the launches. The data are written before the flag is, and read
    // after: in the orders that are tested, or are not.
    let send = || unsafe {
        let message = at();
        mem::store(&raw mut (*message).data, sent);
        let flag = &raw mut (*message).flag;
        match sends {
            Order::Not => atomic::store(flag, 1, atomic::Relaxed),
            Order::Fence => {
                atomic::fence();
                atomic::store(flag, 1, atomic::Relaxed);
            }
            Order::Atomic => atomic::store(flag, 1, atomic::Release),
        }
        // The end of the launch would release the data.
        for _ in 0..9 {
            thread::nanosleep(1);
        }
    };
    // SAFETY: as above.
    let receive = || unsafe {
        let message = at();
        let flag = &raw const (*message).flag;
        let is_set = || match receives {
            Order::Atomic => atomic::load(flag, atomic::Acquire) == 1,
            _ => atomic::load(flag, atomic::Relaxed) == 1,
        };
        while !is_set() {
            thread::nanosleep(1);
        }
        if receives == Order::Fence {
            atomic::fence();
        }
        *got.lock().unwrap() = Some(mem::load(&raw const (*message).data));
    };
    let grid = Grid::new(1, 1);
    let launches: [Launch<'_>; 2] = [&send as &(dyn Fn() + Sync), &receive].map(|body| Launch {
        kernel: "message",
        grid,
        body,
    });
    // SAFETY: as above.
    let (outcome, _) = unsafe { executor(seed, memory).run_together(&launches) };
    outcome.unwrap();
    got.into_inner().unwrap() == Some(sent)
}

#[test]
fn a_message_needs_order_on_both_sides() {
    let sides = [Order::Not, Order::Fence, Order::Atomic];
    for sends in sides {
        for receives in sides {
            let weak = |&seed: &u64| arrives(seed, Memory::Weak { seed }, sends, receives);
            let strong = |&seed: &u64| arrives(seed, Memory::Strong, sends, receives);
            let arrived = (0..100).filter(weak).count();
            if sends == Order::Not || receives == Order::Not {
                assert!(
                    (1..100).contains(&arrived),
                    "{sends:?} {receives:?}: {arrived}"
                );
            } else {
                assert_eq!(arrived, 100, "{sends:?} {receives:?}");
            }
            assert_eq!((0..100).filter(strong).count(), 100);
        }
    }
}

/// Runs a body that uses 64 words, on two blocks of 64 threads.
fn on_words(seed: u64, body: impl Fn(*mut u64) + Sync) {
    let mut words = [0u64; 128];
    let shared = words.as_mut_ptr() as usize;
    let body = || body(shared as *mut u64);
    // SAFETY: the words outlive the launch; the bodies say the rest.
    unsafe { executor(seed, Memory::Weak { seed }).launch("words", Grid::new(2, 64), &body) }
        .unwrap();
}

#[test]
fn a_lane_sees_what_it_wrote_itself() {
    for seed in 0..30 {
        // SAFETY: each thread has its own word.
        on_words(seed, |words| unsafe {
            let own = words.add(thread::index() as usize);
            for value in 1..20 {
                mem::store(own, value);
                assert_eq!(mem::load(own), value);
                assert_eq!(mem::load_streaming(own), value);
            }
        });
    }
}

/// What every thread sees of its right neighbour's word, in its block of 64 or warp of 32, after
/// something that may be a barrier: whether all have seen what was written.
fn neighbours_see(seed: u64, among: u64, barrier: impl Fn() + Sync) -> bool {
    let stale = Mutex::new(0);
    // SAFETY: each word is written by one thread and read by its neighbour.
    on_words(seed, |words| unsafe {
        let i = thread::index();
        let neighbour = i - i % among + (i + 1) % among;
        mem::store(words.add(i as usize), 1);
        barrier();
        let seen = mem::load(words.add(neighbour as usize));
        *stale.lock().unwrap() += u32::from(seen == 0);
    });
    stale.into_inner().unwrap() == 0
}

#[test]
fn barriers_order_what_is_among_their_threads() {
    // SAFETY: every thread reaches these barriers.
    let (block, of_warp) = (
        || unsafe { thread::sync_threads() },
        || unsafe { warp::sync_warp(LaneMask::FULL) },
    );
    let vote = || {
        // SAFETY: all lanes vote.
        unsafe { warp::warp_vote_any(LaneMask::FULL, true) };
    };
    for seed in 0..30 {
        assert!(neighbours_see(seed, 64, block), "block");
        assert!(neighbours_see(seed, 32, of_warp), "warp");
    }
    let stale = |see: &dyn Fn(u64) -> bool| (0..30).any(|seed| !see(seed));
    assert!(stale(&|seed| neighbours_see(seed, 64, of_warp)));
    assert!(stale(&|seed| neighbours_see(seed, 32, vote)));
    assert!(stale(&|seed| neighbours_see(seed, 128, block)));
}

#[test]
fn what_one_thread_acquires_its_block_has_after_a_barrier() {
    for seed in 0..50 {
        // SAFETY: the last word is the flag; the others are written before it is set, and read
        // after.
        on_words(seed, |words| unsafe {
            let (t, flag) = (thread::thread_idx_x() as usize, words.add(127));
            if thread::block_idx_x() == 0 {
                mem::store(words.add(t), 5);
                thread::sync_threads();
                if t == 0 {
                    atomic::store(flag, 1, atomic::Release);
                }
            } else {
                if t == 0 {
                    while atomic::load(flag, atomic::Acquire) == 0 {
                        thread::nanosleep(1);
                    }
                }
                thread::sync_threads();
                assert_eq!(mem::load(words.add(63 - t)), 5);
            }
        });
    }
}

#[test]
fn a_launch_sees_what_the_one_before_it_wrote() {
    for seed in 0..30 {
        let executor = executor(seed, Memory::Weak { seed });
        let mut words = [0u64; 32];
        let shared = words.as_mut_ptr() as usize;
        for round in 0..3 {
            let body = || {
                let own = (shared as *mut u64).wrapping_add(31 - thread::index() as usize);
                // SAFETY: each thread has its own word; the launches are one after the other.
                unsafe {
                    assert_eq!(mem::load(own), round);
                    mem::store(own, round + 1);
                }
            };
            // SAFETY: as above.
            unsafe { executor.launch("rounds", Grid::new(1, 32), &body) }.unwrap();
        }
    }
}
