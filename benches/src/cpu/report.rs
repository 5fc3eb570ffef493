//! What was measured, as lines and as JSON.

use serde::Serialize;

use crate::measure::Time;

/// One verb of one map.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// All that says which row it is, in one line.
    pub name: String,
    /// Which map, with its load factor if that was chosen.
    pub map: String,
    /// What was done.
    pub verb: &'static str,
    /// With so many pairs.
    pub n: usize,
    /// By so many threads.
    pub threads: usize,
    /// Median of the runs, in milliseconds.
    pub ms: f64,
    /// The quickest.
    pub ms_least: f64,
    /// The slowest.
    pub ms_most: f64,
}

impl Row {
    pub(super) fn new(map: &str, verb: &'static str, n: usize, threads: usize, took: Time) -> Self {
        let of_threads = match threads {
            1 => "1 thread".to_owned(),
            _ => format!("{threads} threads"),
        };
        Self {
            name: format!("{map}, {n} pairs, {of_threads}, {verb}"),
            map: map.to_owned(),
            verb,
            n,
            threads,
            ms: took.median,
            ms_least: took.least,
            ms_most: took.most,
        }
    }

    /// Million pairs in a second.
    pub fn rate(&self) -> f64 {
        self.n as f64 / self.ms / 1e3
    }

    /// As a line of a table.
    pub fn line(&self) -> String {
        let Self {
            map,
            verb,
            n,
            threads,
            ..
        } = self;
        let rate = self.rate();
        format!("{n:>10} {threads:>7} {verb:<13} {map:<20} {rate:>8.1}")
    }

    /// What stands above the lines.
    pub fn heading() -> String {
        let columns = ["pairs", "threads", "verb", "map", "M/s"];
        let [pairs, threads, verb, map, rate] = columns;
        format!("{pairs:>10} {threads:>7} {verb:<13} {map:<20} {rate:>8}")
    }
}

/// All rows of one run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The processor.
    device: String,
    runs: usize,
    rows: Vec<Row>,
}

impl Report {
    pub(super) fn new(runs: usize) -> Self {
        Self {
            device: machine(),
            runs,
            rows: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// The rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// What was measured where.
    pub fn title(&self) -> String {
        let Self { device, runs, .. } = self;
        format!("{device}, median of {runs} runs, every result verified")
    }
}

/// What the processor calls itself, and how many threads it runs at once.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, Into::into);
    format!("{}, {cores} cores", cpu())
}

/// The processor's name, where the system says.
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let (field, name) = line.split_once(':')?;
        (field.trim() == "model name").then(|| name.trim().to_owned())
    });
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}
