//! The clock.

use std::time::Instant;

use anyhow::Result;

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

/// Times `body`, which returns when the device is done, `runs` times after one run that does
/// not count; `prepare` goes before each and is not timed.
pub fn time(
    runs: usize,
    mut prepare: impl FnMut() -> Result<()>,
    mut body: impl FnMut() -> Result<()>,
) -> Result<Time> {
    let mut times = Vec::with_capacity(runs);
    for run in 0..=runs.max(1) {
        prepare()?;
        let start = Instant::now();
        body()?;
        let elapsed = start.elapsed().as_secs_f64() * 1e3;
        if run > 0 {
            times.push(elapsed);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(Time {
        median: times[times.len() / 2],
        least: times[0],
        most: times[times.len() - 1],
    })
}
