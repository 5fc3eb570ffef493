//! How long lookups of a few keys take while other calls change the map, on the CPU: `gpumap-bench latency`.
//!
//! One thread looks keys up, each call by its own clock. Another calls without a pause:
//!
//! | beside | is |
//! |---|---|
//! | nothing | no other call |
//! | upsert | large batches of present keys |
//! | growth | large batches of new keys until the map has twice as many, then they are removed and the map shrinks |
//! | clear | `clear`, then large batches until all pairs are there again |
//! | retain_where | a pass over all pairs, which removes none |
//!
//! The thread of lookups has a processor of its own where there are two or more: the device of the map has one thread less. Answers are
//! verified, each of them. A wait counts as one lookup, however many a service would have got meanwhile: so the longest says more than 99.9 %
//! beside calls that are long and few.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use clap::ValueEnum;
use gpumap::primitives::Predicate;
use gpumap::{Device, Map};
use serde::Serialize;

use crate::cpu::machine;
use crate::data::{Word, strided};

/// What runs beside the lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Beside {
    /// No other call.
    Nothing,
    /// Large batches of present keys.
    Upsert,
    /// Batches that make the map grow, and its shrinking.
    Growth,
    /// `clear`, and batches that fill the map again.
    Clear,
    /// Passes over all pairs.
    RetainWhere,
}

impl Beside {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Upsert => "upsert",
            Self::Growth => "growth",
            Self::Clear => "clear",
            Self::RetainWhere => "retain_where",
        }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pairs, in turn.
    pub sizes: Vec<usize>,
    /// Keys of a lookup.
    pub keys: usize,
    /// Keys of a large batch.
    pub batch: usize,
    /// What runs beside them, in turn.
    pub beside: Vec<Beside>,
    /// How long lookups go on.
    pub time: Duration,
}

/// Lookups beside one kind of call.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// All that says which row it is, in one line.
    pub name: String,
    /// What ran beside them.
    pub beside: &'static str,
    /// Pairs of the map.
    pub pairs: usize,
    /// Keys of a lookup.
    pub n: usize,
    /// Lookups.
    pub calls: usize,
    /// The median, in milliseconds.
    pub ms: f64,
    /// What 99 % did not exceed.
    pub ms_99: f64,
    /// What 99.9 % did not exceed.
    pub ms_999: f64,
    /// The longest.
    pub ms_most: f64,
    /// Calls beside them.
    pub beside_calls: usize,
    /// The longest of those.
    pub beside_ms_most: f64,
}

impl Row {
    /// As a line of a table.
    pub fn line(&self) -> String {
        let us = |ms: f64| ms * 1e3;
        let Self { pairs, beside, .. } = self;
        format!(
            "{pairs:>10} {beside:<13} {:>9} {:>9.2} {:>9.2} {:>10.1} {:>12.1} {:>7} {:>12.1}",
            self.calls,
            us(self.ms),
            us(self.ms_99),
            us(self.ms_999),
            us(self.ms_most),
            self.beside_calls,
            us(self.beside_ms_most)
        )
    }

    /// What stands above the lines.
    pub fn heading() -> String {
        let columns = ["lookups", "median", "99 %", "99.9 %", "longest"];
        let [lookups, median, most, nearly_all, longest] = columns;
        format!(
            "{:>10} {:<13} {lookups:>9} {median:>9} {most:>9} {nearly_all:>10} {longest:>12} {:>7} {:>12}   (microseconds)",
            "pairs", "beside", "calls", "longest"
        )
    }
}

/// All rows of one run.
#[derive(Debug, Serialize)]
pub struct Report {
    device: String,
    command: String,
    rows: Vec<Row>,
}

impl Report {
    /// The rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// What was measured where.
    pub fn title(&self) -> String {
        format!("{}, every answer verified", self.device)
    }
}

/// Measures all cases; `on_row` sees each row as it comes.
///
/// # Errors
/// A wrong answer; no memory.
pub fn run(options: &Options, on_row: impl FnMut(&Row)) -> Result<Report> {
    let mut on_row = on_row;
    let mut rows = Vec::new();
    for &size in &options.sizes {
        let keys = options.keys;
        ensure!(keys <= size, "{keys} keys of {size} to look up");
        for &beside in &options.beside {
            let row = Case::new(options, size)?.measure(beside)?;
            on_row(&row);
            rows.push(row);
        }
    }
    Ok(Report {
        device: machine(),
        command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
        rows,
    })
}

/// A map, and the keys of calls.
struct Case<'o> {
    options: &'o Options,
    map: Map<u64, u64>,
    pairs: usize,
    /// Those of the map, and as many others. The value of each is its number.
    keys: Vec<u64>,
    values: Vec<u64>,
}

impl<'o> Case<'o> {
    fn new(options: &'o Options, pairs: usize) -> Result<Self> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let device = Device::cpu_with_threads(u32::try_from((processors - 1).max(1))?);
        // With room for a batch in flight, which reserves it for present keys too.
        let map = Map::builder(&device).capacity(pairs + 2 * options.batch);
        let case = Self {
            options,
            map: map.hash_seed(1).build()?,
            pairs,
            keys: (0..2 * pairs as u64).map(u64::sparse).collect(),
            values: (0..2 * pairs as u64).collect(),
        };
        case.map
            .insert(&case.keys[..pairs], &case.values[..pairs])?;
        Ok(case)
    }

    fn measure(&self, beside: Beside) -> Result<Row> {
        let ended = AtomicBool::new(false);
        let begun = AtomicBool::new(beside == Beside::Nothing);
        let (times, others) = thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut calls = Calls {
                    begun: &begun,
                    ended: &ended,
                    times: Vec::new(),
                };
                self.change(beside, &mut calls)?;
                anyhow::Ok(calls.times)
            });
            let is_alone = || other.is_finished() && beside != Beside::Nothing;
            // Relaxed: nothing is handed over, here and below.
            let times = self.look_up(beside, || begun.load(Ordering::Relaxed), is_alone);
            ended.store(true, Ordering::Relaxed);
            let others = other.join().map_err(|_| anyhow!("a thread panicked"))??;
            Ok::<_, anyhow::Error>((times?, others))
        })?;
        let (pairs, n) = (self.pairs, self.options.keys);
        let of = |times: &[f64], share: f64| {
            let at = (times.len() as f64 * share) as usize;
            times.get(at.min(times.len().saturating_sub(1))).copied()
        };
        let share = |share| of(&times, share).ok_or_else(|| anyhow!("no lookup within the time"));
        Ok(Row {
            name: format!("{pairs} pairs, get of {n} beside {}", beside.name()),
            beside: beside.name(),
            pairs,
            n,
            calls: times.len(),
            ms: share(0.5)?,
            ms_99: share(0.99)?,
            ms_999: share(0.999)?,
            ms_most: share(1.0)?,
            beside_calls: others.len(),
            beside_ms_most: others.iter().copied().fold(0.0, f64::max),
        })
    }

    /// Looks keys up until the time is over and a call beside it has ended, or there is nothing more beside it; what each call took,
    /// sorted.
    fn look_up(
        &self,
        beside: Beside,
        has_begun: impl Fn() -> bool,
        is_alone: impl Fn() -> bool,
    ) -> Result<Vec<f64>> {
        let (n, pairs) = (self.options.keys, self.pairs as u64);
        let (mut keys, mut numbers) = (vec![0; n], vec![0; n]);
        let (mut out, mut found) = (vec![0; n], vec![0; n]);
        let mut times = Vec::new();
        let start = Instant::now();
        let mut next = 0;
        while (start.elapsed() < self.options.time || !has_begun()) && !is_alone() {
            for (key, number) in keys.iter_mut().zip(&mut numbers) {
                *number = strided(next, pairs);
                *key = self.keys[*number as usize];
                next += 1;
            }
            let before = Instant::now();
            self.map.get_into(&keys, &mut out, &mut found)?;
            times.push(before.elapsed().as_secs_f64() * 1e3);
            for ((&found, &value), &number) in found.iter().zip(&out).zip(&numbers) {
                let is_right = match found {
                    0 => beside == Beside::Clear,
                    _ => value == number,
                };
                ensure!(is_right, "a wrong answer for the key {number}");
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    }

    /// Calls until the lookups have ended.
    fn change(&self, beside: Beside, calls: &mut Calls<'_>) -> Result<()> {
        let map = &self.map;
        while !calls.have_ended() {
            match beside {
                Beside::Nothing => return Ok(()),
                Beside::Upsert => self.batches(0..self.pairs, calls, |keys, values| {
                    map.upsert(keys, values).map(drop)
                })?,
                Beside::Growth => {
                    let new = self.pairs..2 * self.pairs;
                    self.batches(new.clone(), calls, |keys, values| {
                        map.insert(keys, values).map(drop)
                    })?;
                    self.batches(new, calls, |keys, _| map.remove(keys).map(drop))?;
                    calls.time(|| map.shrink_to_fit())?;
                }
                Beside::Clear => {
                    calls.time(|| map.clear())?;
                    self.batches(0..self.pairs, calls, |keys, values| {
                        map.insert(keys, values).map(drop)
                    })?;
                }
                Beside::RetainWhere => {
                    let removed =
                        calls.time(|| map.retain_where(Predicate::Always, Predicate::Always))?;
                    ensure!(removed == 0, "{removed} pairs removed");
                }
            }
        }
        Ok(())
    }

    /// Calls with large batches of some keys, and their values.
    fn batches(
        &self,
        range: Range<usize>,
        calls: &mut Calls<'_>,
        call: impl Fn(&[u64], &[u64]) -> gpumap::Result<()>,
    ) -> Result<()> {
        let (keys, values) = (&self.keys[range.clone()], &self.values[range]);
        let batch = self.options.batch;
        for (keys, values) in keys.chunks(batch).zip(values.chunks(batch)) {
            if calls.have_ended() {
                break;
            }
            calls.time(|| call(keys, values))?;
        }
        Ok(())
    }
}

/// Calls beside the lookups.
struct Calls<'e> {
    begun: &'e AtomicBool,
    ended: &'e AtomicBool,
    times: Vec<f64>,
}

impl Calls<'_> {
    fn have_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn time<T>(&mut self, call: impl FnOnce() -> gpumap::Result<T>) -> Result<T> {
        let start = Instant::now();
        let done = call()?;
        self.times.push(start.elapsed().as_secs_f64() * 1e3);
        self.begun.store(true, Ordering::Relaxed);
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_right_beside_every_call() {
        let options = Options {
            sizes: vec![3_000],
            keys: 64,
            batch: 1_000,
            beside: Beside::value_variants().to_vec(),
            time: Duration::from_millis(30),
        };
        let mut seen = 0;
        let report = run(&options, |_| seen += 1).unwrap();
        assert_eq!((seen, report.rows().len()), (5, 5));
        for row in report.rows() {
            let is_alone = row.beside == "nothing";
            assert_eq!(row.beside_calls == 0, is_alone, "{row:?}");
            assert!(row.calls > 0 && row.ms <= row.ms_99);
            assert!(row.ms_99 <= row.ms_999 && row.ms_999 <= row.ms_most);
        }
    }

    #[test]
    fn more_keys_than_pairs_are_an_error() {
        let options = Options {
            sizes: vec![10],
            keys: 11,
            batch: 1,
            beside: vec![Beside::Nothing],
            time: Duration::from_millis(1),
        };
        let error = run(&options, |_| ()).unwrap_err();
        assert_eq!(error.to_string(), "11 keys of 10 to look up");
    }
}
