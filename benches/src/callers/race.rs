//! Threads that call for a set time, all at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};

/// Keys between two looks at the clock, which takes about as long as a call with one key.
const KEYS_BETWEEN_LOOKS: usize = 64;

/// What one thread does.
pub trait Caller: Send {
    /// Makes its thread ready, before the time begins.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }
    /// Makes a call. False if there is nothing left to do, and then it has made none.
    fn call(&mut self) -> Result<bool>;
    /// Fails if the map did something else than it should. No thread calls any more.
    fn verify(self) -> Result<()>;
}

/// The part of a thread.
struct Run {
    start: Instant,
    end: Instant,
    calls: usize,
}

/// Lets callers call for so long, each on a thread of its own, with `keys` keys a call. Verifies what they got, and returns the
/// milliseconds from the first start to the last end over the number of all calls.
pub fn race<C: Caller>(callers: Vec<C>, time: Duration, keys: usize) -> Result<f64> {
    let (ready, threads) = (AtomicUsize::new(0), callers.len());
    let (ready, between_looks) = (&ready, (KEYS_BETWEEN_LOOKS / keys).max(1));
    let runs = thread::scope(|scope| {
        let part = |mut caller: C| {
            move || -> Result<(C, Run)> {
                let begun = caller.begin();
                // Relaxed: nothing is handed over.
                ready.fetch_add(1, Ordering::Relaxed);
                while ready.load(Ordering::Relaxed) < threads {
                    thread::yield_now();
                }
                begun?;
                let start = Instant::now();
                let calls = calls(&mut caller, start, time, between_looks)?;
                let end = Instant::now();
                Ok((caller, Run { start, end, calls }))
            }
        };
        let started: Vec<_> = callers
            .into_iter()
            .map(|caller| scope.spawn(part(caller)))
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<(C, Run)>>| {
            thread.join().map_err(|_| anyhow!("a thread panicked"))?
        };
        started.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    let runs = runs.into_iter().map(|(caller, run)| {
        caller.verify()?;
        Ok(run)
    });
    let runs = runs.collect::<Result<Vec<_>>>()?;
    let calls: usize = runs.iter().map(|run| run.calls).sum();
    let (start, end) = (
        runs.iter().map(|run| run.start).min(),
        runs.iter().map(|run| run.end).max(),
    );
    let (Some(start), Some(end), 1..) = (start, end, calls) else {
        return Err(anyhow!("no call within the time"));
    };
    let took = end.duration_since(start).as_secs_f64() * 1e3;
    ensure!(took > 0.0, "the clock stands still");
    Ok(took / calls as f64)
}

/// Calls until the time is over or there is nothing left to do; how often.
fn calls(
    caller: &mut impl Caller,
    start: Instant,
    time: Duration,
    between_looks: usize,
) -> Result<usize> {
    let mut calls = 0;
    loop {
        for _ in 0..between_looks {
            if !caller.call()? {
                return Ok(calls);
            }
            calls += 1;
        }
        if start.elapsed() >= time {
            return Ok(calls);
        }
    }
}
