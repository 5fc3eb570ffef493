//! Long random runs shrink to the few switches that their failure takes.

use gpumap_simt::executor::{Config, Executor, Launch, Schedule, Script, Trace};
use gpumap_simt::kernel::Grid;
use gpumap_simt::{atomic, mask::LaneMask, thread, warp};

/// The one lane of each warp that does something wrong.
const ACTOR: u32 = 13;

/// What an actor does to the word that all share; `pause` passes some preemption points.
type Act<'a> = &'a (dyn Fn(*mut u32, &dyn Fn()) + Sync);

/// Warps side by side, one for each act, of which each lane has much to do by itself and with its
/// warp, before the act and after it. Returns the word.
fn noisy(schedule: Schedule, acts: &[Act<'_>]) -> (u32, Trace) {
    let executor = Executor::new(Config {
        schedule,
        record: true,
        ..Config::default()
    });
    let mut words = [0u32; 33];
    let words_at = &raw mut words as usize;
    let body = |act: Act<'_>| {
        let (lane, shared) = (thread::thread_idx_x(), words_at as *mut u32);
        // SAFETY: the words outlive the launches and are only used by atomics meanwhile; all lanes
        // of the warp vote.
        unsafe {
            let own = shared.add(1 + lane as usize);
            let work = |rounds| {
                for _ in 0..rounds {
                    atomic::fetch_add(own, 1, atomic::Relaxed);
                }
            };
            for round in 0..20 {
                work(1);
                warp::warp_vote_any(LaneMask::FULL, round == lane);
            }
            if lane == ACTOR {
                act(shared, &|| work(10));
            }
            work(20);
        }
    };
    let bodies: Vec<_> = acts.iter().map(|&act| move || body(act)).collect();
    let launches: Vec<Launch<'_>> = bodies
        .iter()
        .map(|body| Launch {
            kernel: "noisy",
            grid: Grid::new(1, 32),
            body,
        })
        .collect();
    // SAFETY: as said in the body.
    let (outcome, trace) = unsafe { executor.run_together(&launches) };
    outcome.unwrap();
    (words[0], trace)
}

/// Finds ten random runs that fail, of which each has to shrink to a run of few turns that fails.
fn expect_few_turns(most: usize, acts: &[Act<'_>], fails: impl Fn(u32) -> bool) {
    let run = |schedule| noisy(schedule, acts);
    let failing = (0..2000)
        .map(|seed| run(Schedule::Random { seed }))
        .filter(|&(word, _)| fails(word))
        .take(10);
    let mut found = 0;
    for (_, trace) in failing {
        let long = trace.script.unwrap();
        let replay = |script: &Script| run(Schedule::Replay(script.clone())).0;
        let shrunk = long.shrink(400, |script| fails(replay(script)));
        let (before, after) = (long.turns().len(), shrunk.script.turns().len());
        assert!(before > 2000, "{before} turns");
        assert!(after <= most, "{after} of {before}: {}", shrunk.script);
        assert!(shrunk.runs < 200, "{} runs", shrunk.runs);
        // As a pasted test has it.
        let pasted: Script = shrunk.script.to_string().parse().unwrap();
        assert!(fails(replay(&pasted)));
        found += 1;
    }
    assert_eq!(found, 10);
}

/// Adds one, by a load and a store.
fn add(word: *mut u32, pause: &dyn Fn()) {
    // SAFETY: the word outlives the launches and is only used by atomics meanwhile.
    unsafe {
        let seen = atomic::load(word, atomic::Relaxed);
        pause();
        atomic::store(word, seen + 1, atomic::Relaxed);
    }
}

#[test]
fn a_lost_update_takes_two_turns() {
    expect_few_turns(2, &[&add, &add, &add], |word| word != 3);
}

#[test]
fn updates_between_reads_take_four_turns() {
    const TORN: u32 = 1000;
    let read_on = |word: *mut u32, pause: &dyn Fn()| {
        // SAFETY: as above.
        unsafe {
            let first = atomic::load(word, atomic::Relaxed);
            pause();
            let second = atomic::load(word, atomic::Relaxed);
            pause();
            let third = atomic::load(word, atomic::Relaxed);
            if first < second && second < third {
                atomic::store(word, TORN, atomic::Relaxed);
            }
        }
    };
    // The reader, one adder, the reader again, and the other adder.
    expect_few_turns(4, &[&read_on, &add, &add], |word| word >= TORN);
}
