//! Several launches at once, from one thread and from callers that take turns.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, RwLock};

use gpumap_simt::executor::{
    Caller, Changes, Config, Executor, FaultKind, Launch, Schedule, Trace, take_turns,
};
use gpumap_simt::kernel::Grid;
use gpumap_simt::{atomic, thread};

fn explored(seed: u64) -> [Executor; 3] {
    let (depth, points) = (3, 100);
    [
        Schedule::Random { seed },
        Schedule::Pct {
            seed,
            depth,
            changes: Changes::BeforeWrites,
            points,
        },
        Schedule::Lockstep,
    ]
    .map(|schedule| {
        Executor::new(Config {
            schedule,
            ..Config::default()
        })
    })
}

/// A word that is used by atomics only.
struct Word(u32);

impl Word {
    fn lane(&mut self) -> impl Fn() -> *mut u32 + Sync + Copy + use<> {
        let shared = &raw mut self.0 as usize;
        move || shared as *mut u32
    }
}

/// Adds one by a load and a store.
fn add_racily(word: *mut u32) {
    // SAFETY: the words of these tests outlive their launches.
    unsafe {
        let seen = atomic::load(word, atomic::Relaxed);
        atomic::store(word, seen + 1, atomic::Relaxed);
    }
}

#[test]
fn launches_meet() {
    let mut lost = HashSet::new();
    for seed in 0..50 {
        for (i, executor) in explored(seed).iter().enumerate() {
            let mut word = Word(0);
            let at = word.lane();
            let body = || add_racily(at());
            // More blocks than are resident at once, of different sizes.
            let launches = [(1, 1), (12, 3), (0, 5), (2, 40)].map(|(blocks, threads)| Launch {
                kernel: "adds",
                grid: Grid::new(blocks, threads),
                body: &body,
            });
            // SAFETY: see `add_racily`.
            let (outcome, trace) = unsafe { executor.run_together(&launches) };
            outcome.unwrap();
            assert_eq!(trace.points, 2 * (1 + 36 + 80));
            if word.0 != 117 {
                lost.insert(i);
            }
        }
    }
    assert_eq!(lost.len(), 3, "each schedule loses updates: {lost:?}");
}

#[test]
fn launches_wait_for_each_other_under_round_robin_too() {
    let executor = Executor::new(Config::default());
    let arrived = AtomicU32::new(0);
    let body = || {
        arrived.fetch_add(1, Ordering::Relaxed);
        while arrived.load(Ordering::Relaxed) < 3 {
            thread::nanosleep(100);
        }
    };
    let grid = Grid::new(1, 1);
    let launch = Launch {
        kernel: "meets",
        grid,
        body: &body,
    };
    // SAFETY: they share an atomic only.
    unsafe { executor.run_together(&[launch; 3]) }.0.unwrap();
}

#[test]
fn a_fault_ends_its_own_launch_only() {
    for seed in 0..20 {
        for executor in explored(seed) {
            let mut word = Word(0);
            let at = word.lane();
            let adds = || {
                // SAFETY: see `add_racily`.
                unsafe { atomic::fetch_add(at(), 1, atomic::Relaxed) };
            };
            let fails = || {
                adds();
                assert!(thread::index() != 3, "as planned");
                // SAFETY: every thread comes here, or would.
                unsafe { thread::sync_threads() };
            };
            let grid = Grid::new(3, 4);
            let launches: [Launch<'_>; 3] = [
                ("a", &adds as &(dyn Fn() + Sync)),
                ("b", &fails),
                ("c", &adds),
            ]
            .map(|(kernel, body)| Launch { kernel, grid, body });
            // SAFETY: see `add_racily`.
            let fault = unsafe { executor.run_together(&launches) }.0.unwrap_err();
            assert_eq!((fault.kernel, fault.block), ("b", 0));
            assert!(matches!(fault.kind, FaultKind::Panic { .. }));
            assert!((24..=36).contains(&word.0), "{}", word.0);
        }
    }
}

/// Three callers with three launches each. Returns what is left of 18 racy additions.
fn callers(executor: &Executor) -> (u32, Trace) {
    let mut word = Word(0);
    let at = word.lane();
    let caller = |own: u32| -> Caller<'_> {
        Box::new(move || {
            for launch in 0..3 {
                let body = || add_racily(at());
                let grid = Grid::new(1 + (own + launch) % 3, 1);
                // SAFETY: see `add_racily`.
                unsafe { executor.launch("adds", grid, &body) }.unwrap();
            }
        })
    };
    let trace = executor.run_callers((0..3).map(caller).collect());
    (word.0, trace)
}

#[test]
fn callers_repeat_themselves() {
    let mut digests = HashSet::new();
    let mut lost = 0;
    for seed in 0..40 {
        for executor in explored(seed) {
            let (count, trace) = callers(&executor);
            assert_eq!(trace.points, 36);
            assert_eq!((count, trace.clone()), callers(&executor));
            lost += u32::from(count != 18);
            digests.insert(trace.digest);
        }
    }
    assert!(digests.len() > 60, "{} interleavings", digests.len());
    assert!(lost > 20, "{lost} runs lost an update");
    // With threads of their own, and no order.
    let (count, trace) = callers(&Executor::new(Config::default()));
    assert!((1..=18).contains(&count));
    assert_eq!(trace, Trace::default());
}

#[test]
fn callers_wait_for_locks_by_taking_turns() {
    for seed in 0..20 {
        for executor in explored(seed) {
            let lock = RwLock::new(());
            let mut word = Word(0);
            let at = word.lane();
            let add = |kernel| {
                let body = || add_racily(at());
                // SAFETY: see `add_racily`.
                unsafe { executor.launch(kernel, Grid::new(1, 1), &body) }.unwrap();
            };
            let alone = || {
                for _ in 0..3 {
                    let guard = take_turns(|| lock.try_write().ok()).unwrap();
                    add("alone");
                    drop(guard);
                }
            };
            executor.run_callers(vec![Box::new(alone), Box::new(alone), Box::new(alone)]);
            assert_eq!(word.0, 9, "no caller was alone");
        }
    }
    assert!(take_turns(|| Some(())).is_none(), "not a caller");
}

#[test]
fn callers_that_wait_for_each_other_are_told() {
    let executor = Executor::new(Config::random(1));
    let [a, b] = [(); 2].map(Mutex::new);
    let waits = |first, second| -> Caller<'_> {
        let (first, second): (&Mutex<()>, &Mutex<()>) = (first, second);
        let executor = &executor;
        Box::new(move || {
            let first = take_turns(|| first.try_lock().ok()).unwrap();
            // SAFETY: it does nothing.
            unsafe { executor.launch("between", Grid::new(1, 1), &|| {}) }.unwrap();
            let second = take_turns(|| second.try_lock().ok()).unwrap();
            drop((first, second));
        })
    };
    let run = || executor.run_callers(vec![waits(&a, &b), waits(&b, &a)]);
    let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(
        panic.downcast_ref::<&str>(),
        Some(&"callers wait for each other")
    );
}

#[test]
fn the_panic_of_a_caller_is_passed_on_when_all_have_ended() {
    let executor = Executor::new(Config::random(1));
    let ended = AtomicU32::new(0);
    let launch = || {
        // SAFETY: it does nothing.
        unsafe { executor.launch("nothing", Grid::new(2, 2), &|| {}) }.unwrap();
    };
    let well: Caller<'_> = Box::new(|| {
        launch();
        launch();
        ended.fetch_add(1, Ordering::Relaxed);
    });
    let badly: Caller<'_> = Box::new(|| {
        launch();
        panic!("as planned");
    });
    let run = || executor.run_callers(vec![badly, well]);
    let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"as planned"));
    assert_eq!(ended.into_inner(), 1);
}
