//! Calls of several threads that take turns, and their results.

use std::sync::Mutex;

use gpumap::Outcome;
use gpumap::executor::{Caller, Executor, Trace};

use crate::history::{Clock, Deed, Event, History};
use crate::pairs::mask;

/// Threads.
const CALLERS: u64 = 3;

/// What a call did to each of its keys, or what was wrong.
pub type Told = Result<Vec<(u64, Deed)>, String>;

/// The keys of a call, of so many in all, as bits. Some are those with special bit patterns.
pub fn keys_of_call<K>(first: u64, seed: u64, batch: u64, keys: u64) -> Vec<u64> {
    let key = |i| match (first + i * (1 + seed % 3)) % keys {
        reserved @ 0..2 => mask(size_of::<K>()) - reserved,
        small => small,
    };
    (0..batch).map(key).collect()
}

/// What a call did that stored keys: `deed` makes it of the place of a key, and whether that was new.
pub fn stored(outcomes: Vec<Outcome>, deed: impl Fn(usize, bool) -> Deed) -> Vec<Deed> {
    let outcomes = outcomes.into_iter().enumerate();
    let deed = |(i, outcome)| deed(i, outcome == Outcome::Inserted);
    outcomes.map(deed).collect()
}

/// Runs so many calls on each of some threads, and notes their results, with the times. Call
/// number `n` is `call(n, begin)`, which begins at that time.
///
/// # Errors
/// That of a call.
pub fn calls_side_by_side(
    executor: &Executor,
    calls: u64,
    trace: &mut Trace,
    call: &(dyn Fn(u64, u64) -> Told + Sync),
) -> Result<History, String> {
    let clock = Clock::default();
    let (history, wrong) = (Mutex::new(History::default()), Mutex::new(None));
    let make = |n: u64| -> Result<(), String> {
        let begin = clock.now();
        let told = call(n, begin).map_err(|error| format!("call {n}: {error}"))?;
        let end = clock.now();
        let mut history = history.lock().expect("no panic");
        for (key, deed) in told {
            history.note(key, Event { deed, begin, end });
        }
        Ok(())
    };
    let caller = |caller: u64| -> Caller<'_> {
        let (make, wrong) = (&make, &wrong);
        Box::new(move || {
            for number in 0..calls {
                if let Err(why) = make(caller * calls + number) {
                    wrong.lock().expect("no panic").get_or_insert(why);
                }
            }
        })
    };
    *trace = executor.run_callers((0..CALLERS).map(caller).collect());
    match wrong.into_inner().expect("no panic") {
        Some(why) => Err(why),
        None => Ok(history.into_inner().expect("no panic")),
    }
}
