//! What was measured, as lines and as JSON.

use serde::Serialize;

use super::Options;
use crate::cpu::machine;
use crate::measure::Time;

/// Which row it is.
#[derive(Clone, Debug)]
pub struct Cell {
    map: String,
    pub verb: &'static str,
    pairs: usize,
    pub threads: usize,
    pub keys: usize,
    is_whole: bool,
}

impl Cell {
    pub fn new(map: &str, verb: &'static str, pairs: usize, threads: usize, keys: usize) -> Self {
        Self {
            map: map.to_owned(),
            verb,
            pairs,
            threads,
            keys,
            is_whole: false,
        }
    }

    /// One call with all keys, which as many threads of the device share.
    pub fn whole(map: &str, verb: &'static str, pairs: usize, threads: usize, keys: usize) -> Self {
        Self {
            is_whole: true,
            ..Self::new(map, verb, pairs, threads, keys)
        }
    }
}

/// What the machine does at best, or the map with other calls.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    what: &'static str,
    /// Milliseconds of a call.
    ms: f64,
}

impl Beside {
    /// Whole batches.
    pub fn whole(ms: f64) -> Self {
        let what = "whole batches";
        Self { what, ms }
    }

    /// An empty kernel.
    pub fn driver(ms: f64) -> Self {
        let what = "an empty kernel";
        Self { what, ms }
    }

    /// An empty kernel, and the copies of the call.
    pub fn driver_with_copies(ms: f64) -> Self {
        let what = "an empty kernel and the copies";
        Self { what, ms }
    }
}

/// One cell.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// All that says which row it is, in one line.
    pub name: String,
    /// Which map.
    pub map: String,
    /// What was done.
    pub verb: &'static str,
    /// Pairs that the map has room for.
    pub pairs: usize,
    /// By so many threads.
    pub threads: usize,
    /// Keys of a call.
    pub n: usize,
    /// Whether that is all keys in one call, which the threads of the device share.
    pub is_whole: bool,
    /// The time over the number of calls of all threads, in milliseconds: the median of the runs.
    pub ms: f64,
    /// The quickest run.
    pub ms_least: f64,
    /// The slowest run.
    pub ms_most: f64,
    /// Calls of all threads in a second.
    pub calls_per_s: f64,
    /// What it is beside, if anything.
    pub beside: Option<&'static str>,
    /// What a call takes of that.
    pub ceiling_ms: Option<f64>,
    /// The part of it that was reached.
    pub ratio: Option<f64>,
}

impl Row {
    pub(super) fn new(cell: Cell, took: Time, beside: Option<Beside>) -> Self {
        let Cell {
            map,
            verb,
            pairs,
            threads,
            keys,
            is_whole,
        } = cell;
        let of_threads = match threads {
            1 => "1 thread".to_owned(),
            _ => format!("{threads} threads"),
        };
        let of = match is_whole {
            true => "whole batches".to_owned(),
            false => keys.to_string(),
        };
        Self {
            name: format!("{map}, {pairs} pairs, {of_threads}, {verb} of {of}"),
            map,
            verb,
            pairs,
            threads,
            n: keys,
            is_whole,
            ms: took.median,
            ms_least: took.least,
            ms_most: took.most,
            calls_per_s: 1e3 / took.median,
            beside: beside.map(|it| it.what),
            ceiling_ms: beside.map(|it| it.ms),
            ratio: beside.map(|it| it.ms / took.median),
        }
    }

    /// Million keys in a second.
    pub fn rate(&self) -> f64 {
        self.n as f64 / self.ms / 1e3
    }

    /// As a line of a table.
    pub fn line(&self) -> String {
        let Self {
            map,
            verb,
            pairs,
            threads,
            n,
            calls_per_s,
            ..
        } = self;
        let keys = match self.is_whole {
            true => "whole".to_owned(),
            false => n.to_string(),
        };
        let rate = self.rate();
        let beside = match (self.ratio, self.beside) {
            (Some(ratio), Some(what)) => format!("  {ratio:.2} of {what}"),
            _ => String::new(),
        };
        format!(
            "{pairs:>10} {threads:>7} {keys:>7} {verb:<7} {map:<20} {rate:>9.2} {calls_per_s:>13.0}{beside}"
        )
    }

    /// What stands above the lines.
    pub fn heading() -> String {
        let columns = [
            "pairs", "threads", "keys", "verb", "map", "M keys/s", "calls/s",
        ];
        let [pairs, threads, keys, verb, map, rate, calls] = columns;
        format!("{pairs:>10} {threads:>7} {keys:>7} {verb:<7} {map:<20} {rate:>9} {calls:>13}")
    }
}

/// All rows of one run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The processor, and the GPU if there was one.
    device: String,
    /// The arguments of the program.
    command: String,
    runs: usize,
    /// How long the threads of a cell called, in milliseconds.
    time_ms: u128,
    /// The load factor of this map.
    load: f64,
    rows: Vec<Row>,
}

impl Report {
    pub(super) fn new(options: &Options) -> Self {
        let device = match &options.gpu {
            Some(gpu) => format!("{}; {}", machine(), gpu.name()),
            None => machine(),
        };
        Self {
            device,
            command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
            runs: options.runs,
            time_ms: options.time.as_millis(),
            load: options.load,
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
        let Self {
            device,
            runs,
            time_ms,
            ..
        } = self;
        format!("{device}, median of {runs} runs of {time_ms} ms, results verified")
    }
}
