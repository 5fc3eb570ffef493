//! Every kind of fault, what it holds and what it says, under both schedules; and that the executor
//! is as good as new afterwards.

use std::panic::{Location, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use gpumap_simt::executor::{Config, Executor, Fault, FaultKind, LaneRef, Operation, WarpLanes};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{atomic, thread, warp};

use crate::{executors, launch};

/// Runs a faulty body on all executors; hands each fault to `check`.
pub fn faults(blocks: u32, threads: u32, body: impl Fn() + Sync, check: impl Fn(&Fault)) {
    for executor in executors() {
        for _ in 0..3 {
            let fault = launch(&executor, blocks, threads, &body).unwrap_err();
            assert_eq!(fault.kernel, "test");
            assert!(fault.block < blocks);
            let text = fault.to_string();
            assert!(
                text.starts_with(&format!("kernel `test`, block {}: ", fault.block)),
                "{text}"
            );
            check(&fault);
            let ran = AtomicU32::new(0);
            launch(&executor, 3, 50, || {
                // SAFETY: every thread comes here.
                unsafe { thread::sync_threads() };
                ran.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
            assert_eq!(ran.into_inner(), 150);
        }
    }
}

fn contains(fault: &Fault, parts: &[&str]) {
    let text = fault.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

/// A ballot that may break the rules.
pub fn ballot(mask: u32) {
    // SAFETY: wrong on purpose; the executor checks.
    unsafe { warp::warp_vote_ballot(LaneMask::new(mask), true) };
}

#[test]
fn a_lane_outside_its_own_mask() {
    let body = || {
        if thread::thread_idx_x() == 37 {
            ballot(!(1 << 5));
        }
    };
    faults(1, 64, body, |fault| {
        let FaultKind::NotInMask {
            lane,
            operation,
            mask,
            site,
        } = fault.kind
        else {
            panic!("{fault}")
        };
        assert_eq!((lane.warp(), lane.lane()), (1, 5));
        assert_eq!(
            (operation, mask, site.file()),
            (Operation::Ballot, !(1 << 5), file!())
        );
        contains(fault, &["warp 1 lane 5", "ballot", "0xffffffdf", file!()]);
    });
}

#[test]
fn a_lane_of_the_mask_has_exited() {
    let body = || {
        if warp::lane_id() != 9 {
            ballot(u32::MAX);
        }
    };
    faults(2, 32, body, |fault| {
        let FaultKind::Exited { exited, .. } = fault.kind else {
            panic!("{fault}")
        };
        assert_eq!(exited, 1 << 9);
        contains(fault, &["lanes 9 of that warp have exited", file!()]);
    });
    // The lanes that a partial warp lacks never come either.
    faults(
        1,
        40,
        || ballot(u32::MAX),
        |fault| {
            let FaultKind::Exited { exited, .. } = fault.kind else {
                panic!("{fault}")
            };
            assert_eq!(exited, !0xff);
            contains(fault, &["warp 1", "lanes 8-31"]);
        },
    );
}

#[test]
fn a_shuffle_from_outside_the_mask() {
    let body = || {
        if warp::lane_id() < 4 {
            // SAFETY: wrong on purpose; the executor checks.
            unsafe { warp::warp_shuffle_down(LaneMask::new(0xf), 1u32, 1, 32) };
        }
        // SAFETY: every thread comes here, or would.
        unsafe { thread::sync_threads() };
    };
    faults(1, 32, body, |fault| {
        let FaultKind::ShuffleSource {
            lane, source_lane, ..
        } = fault.kind
        else {
            panic!("{fault}")
        };
        assert_eq!((lane, source_lane), (LaneRef { thread: 3 }, 4));
        contains(
            fault,
            &["shuffle_down (32 bit)", "reads lane 4", "not in the mask"],
        );
    });
}

#[test]
fn a_shuffle_of_no_width() {
    for width in [0, 3, 64] {
        // SAFETY: wrong on purpose; the executor checks.
        let body = || unsafe {
            warp::warp_shuffle_idx(LaneMask::FULL, 1u64, 0, width);
        };
        faults(1, 32, body, |fault| {
            assert!(matches!(fault.kind, FaultKind::ShuffleWidth { width: w, .. } if w == width));
            contains(fault, &[&format!("width {width},")]);
        });
    }
}

#[test]
fn different_operations() {
    let body = || {
        if warp::lane_id() < 16 {
            ballot(u32::MAX);
        } else {
            // SAFETY: wrong on purpose; the executor checks.
            unsafe { warp::sync_warp(LaneMask::FULL) };
        }
    };
    faults(2, 64, body, |fault| {
        let FaultKind::Mismatch { first, second } = fault.kind else {
            panic!("{fault}")
        };
        assert_eq!(
            (first.operation, first.lanes.lanes),
            (Operation::Ballot, 0xffff)
        );
        assert_eq!(
            (second.operation, second.lanes.lanes),
            (Operation::SyncWarp, 0xffff_0000)
        );
        assert_ne!(first.site.line(), second.site.line());
        let lines = [first.site, second.site].map(|site| format!("{}:{}:", file!(), site.line()));
        contains(
            fault,
            &["lanes 0-15 wait at ballot", "lanes 16-31 wait at sync_warp"],
        );
        contains(fault, &[&lines[0], &lines[1]]);
    });
}

#[test]
fn different_masks() {
    let body = || ballot(if warp::lane_id() < 8 { u32::MAX } else { !1 });
    faults(1, 32, body, |fault| {
        let FaultKind::Mismatch { first, second } = fault.kind else {
            panic!("{fault}")
        };
        assert_eq!([first.mask, second.mask], [u32::MAX, !1]);
        contains(fault, &["0xffffffff", "0xfffffffe"]);
    });
}

#[test]
fn a_ring_of_waiters() {
    let body = || ballot([0b011, 0b110, 0b101][warp::lane_id() as usize]);
    faults(1, 3, body, |fault| {
        let FaultKind::Deadlock { waiting } = &fault.kind else {
            panic!("{fault}")
        };
        assert_eq!(waiting.len(), 3);
        contains(
            fault,
            &["deadlock", "lanes 2 wait at ballot with mask 0x00000005"],
        );
    });
}

#[test]
fn a_barrier_that_some_threads_never_reach() {
    let body = || {
        if thread::thread_idx_x() < 40 {
            // SAFETY: wrong on purpose; the executor checks.
            unsafe { thread::sync_threads() };
        }
    };
    faults(2, 64, body, |fault| {
        let FaultKind::BarrierDivergence {
            waiting,
            elsewhere,
            exited,
        } = &fault.kind
        else {
            panic!("{fault}")
        };
        assert_eq!(
            waiting.iter().map(|w| w.lanes.lanes).collect::<Vec<_>>(),
            [u32::MAX, 0xff]
        );
        assert!(elsewhere.is_empty());
        assert_eq!(
            exited,
            &[WarpLanes {
                warp: 1,
                lanes: !0xff
            }]
        );
        contains(
            fault,
            &[
                "barrier divergence",
                "warp 0 lanes 0-31 wait at sync_threads",
                "warp 1 lanes 8-31",
            ],
        );
    });
}

#[test]
fn a_barrier_against_a_collective() {
    let body = || {
        if warp::lane_id() < 16 {
            // SAFETY: wrong on purpose; the executor checks.
            unsafe { thread::sync_threads() };
        } else {
            ballot(u32::MAX);
        }
    };
    faults(1, 32, body, |fault| {
        let FaultKind::BarrierDivergence { elsewhere, .. } = &fault.kind else {
            panic!("{fault}")
        };
        assert_eq!(elsewhere[0].operation, Operation::Ballot);
        contains(
            fault,
            &[
                "lanes 0-15 wait at sync_threads",
                "but warp 0 lanes 16-31 wait at ballot",
            ],
        );
    });
}

#[test]
fn a_panic() {
    let line = AtomicU32::new(0);
    let body = || {
        if thread::index() == 100 {
            line.store(Location::caller().line() + 1, Ordering::Relaxed);
            panic!("slot {} is full", thread::index());
        }
        if thread::block_idx_x() == 1 {
            // SAFETY: every thread comes here, or would.
            unsafe { thread::sync_threads() };
        }
    };
    faults(2, 64, body, |fault| {
        let FaultKind::Panic {
            lane,
            message,
            site,
        } = &fault.kind
        else {
            panic!("{fault}")
        };
        assert_eq!(
            (fault.block, lane.thread, message.as_str()),
            (1, 36, "slot 100 is full")
        );
        assert_eq!(site.as_ref().unwrap().file, file!());
        contains(
            fault,
            &["block 1: warp 1 lane 4 panicked at ", "slot 100 is full"],
        );
    });
}

#[test]
fn a_panic_without_words() {
    let body = || std::panic::panic_any(7u8);
    faults(1, 1, body, |fault| {
        assert!(matches!(fault.kind, FaultKind::Panic { .. }));
    });
}

#[test]
fn an_index_out_of_bounds_and_an_overflow() {
    let table = [1u32; 4];
    let body = || {
        let i = std::hint::black_box(thread::thread_idx_x() as usize);
        std::hint::black_box(table[i]);
    };
    faults(1, 5, body, |fault| {
        contains(fault, &["index out of bounds", "lane 4"]);
    });
}

#[test]
fn a_lane_that_spins_for_ever() {
    for schedule in [Config::default().schedule, Config::random(3).schedule] {
        let config = Config {
            step_budget: 20_000,
            schedule,
            ..Config::default()
        };
        let executor = Executor::new(config);
        let mut flag = 0u32;
        let flag = &raw mut flag as usize;
        // Once with a spin hint, once on the atomic alone.
        for hint in [true, false] {
            let fault = launch(&executor, 2, 40, || {
                // SAFETY: the word outlives the launch.
                while unsafe { atomic::load(flag as *const u32, atomic::Relaxed) } == 0 {
                    if hint {
                        thread::nanosleep(20);
                    }
                }
            })
            .unwrap_err();
            assert!(matches!(
                fault.kind,
                FaultKind::StepBudget {
                    budget: 20_000,
                    site: Some(_),
                    ..
                }
            ));
            contains(&fault, &["more than 20000 steps", "last seen at", file!()]);
        }
        launch(&executor, 1, 1, || {}).unwrap();
    }
}

#[test]
fn grids_that_cannot_be() {
    for executor in executors() {
        for threads in [0, 1025, u32::MAX] {
            let fault = launch(&executor, 1, threads, || {}).unwrap_err();
            assert_eq!(fault.kind, FaultKind::InvalidGrid { threads });
        }
    }
}

#[test]
fn a_launch_inside_a_kernel() {
    for executor in executors() {
        launch(&executor, 1, 2, || {
            let fault = launch(Executor::global(), 1, 1, || {}).unwrap_err();
            assert_eq!(fault.kind, FaultKind::NestedLaunch);
        })
        .unwrap();
    }
}

#[test]
fn outside_a_launch() {
    let error = catch_unwind(thread::thread_idx_x).unwrap_err();
    let message = error.downcast_ref::<&str>().unwrap();
    assert!(message.contains("outside a kernel launch"));
}
