//! The clock.

use std::time::Instant;

use anyhow::{Error, Result};

/// Median, least and most of several runs, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// The median.
    pub median: f64,
    /// The quickest run.
    pub least: f64,
    /// The slowest run.
    pub most: f64,
}

impl Time {
    /// Of runs that took so many milliseconds each: at least one.
    pub fn of_runs(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self {
            median: times[times.len() / 2],
            least: times[0],
            most: times[times.len() - 1],
        }
    }

    /// Of one of the `calls` calls that each run makes.
    #[must_use]
    pub fn per_call(self, calls: usize) -> Self {
        let of_one = |ms: f64| ms / calls as f64;
        Self {
            median: of_one(self.median),
            least: of_one(self.least),
            most: of_one(self.most),
        }
    }
}

/// Times a number of runs, after one that does not count.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    runs: usize,
}

impl Clock {
    /// Of so many runs, and of one at least.
    pub fn new(runs: usize) -> Self {
        Self { runs: runs.max(1) }
    }

    /// How many runs count.
    pub fn runs(self) -> usize {
        self.runs
    }

    /// Times `body`, which returns when the device is done; with what it returned last.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn time<T, E: Into<Error>>(self, body: impl FnMut() -> Result<T, E>) -> Result<(Time, T)> {
        self.time_after(|| anyhow::Ok(()), body)
    }

    /// Likewise; `prepare` goes before each run and is not timed.
    ///
    /// # Errors
    /// Those of `prepare` and of `body`.
    pub fn time_after<T, P: Into<Error>, E: Into<Error>>(
        self,
        mut prepare: impl FnMut() -> Result<(), P>,
        mut body: impl FnMut() -> Result<T, E>,
    ) -> Result<(Time, T)> {
        prepare().map_err(Into::into)?;
        let mut last = body().map_err(Into::into)?;
        let mut times = Vec::with_capacity(self.runs);
        for _ in 0..self.runs {
            prepare().map_err(Into::into)?;
            let start = Instant::now();
            // What the run before returned is dropped here, within the time, as where a caller
            // assigns to the same variable again.
            last = body().map_err(Into::into)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok((Time::of_runs(times), last))
    }
}
