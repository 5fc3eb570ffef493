//! Calls of several threads that take turns, and their results.

use std::sync::Mutex;

use gpumap::executor::{Caller, Executor, Trace};

use crate::history::{Clock, Deed, Event, History};

/// Threads.
const CALLERS: u64 = 3;

/// What a call did to each of its keys, or what was wrong.
pub type Told = Result<Vec<(u64, Deed)>, String>;

/// Runs so many calls on each of some threads, and notes their results, with the times. Call
/// number `n` is `call(n)`.
///
/// # Errors
/// That of a call.
pub fn calls_side_by_side(
    executor: &Executor,
    calls: u64,
    trace: &mut Trace,
    call: &(dyn Fn(u64) -> Told + Sync),
) -> Result<History, String> {
    let clock = Clock::default();
    let (history, wrong) = (Mutex::new(History::default()), Mutex::new(None));
    let make = |n: u64| -> Result<(), String> {
        let begin = clock.now();
        let told = call(n).map_err(|error| format!("call {n}: {error}"))?;
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
