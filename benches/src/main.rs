//! `gpumap-bench`: what the map does, beside what the device can do, in one process.
//!
//! Every figure is the median of several runs with a fixed seed, on data much larger than the
//! L2 unless asked otherwise, and every result is verified. The ceilings are measured first,
//! with the same clock: from before the call to after the device is done.

mod arena;
mod build;
mod ceilings;
mod chained;
mod dump;
mod grow;
mod histogram;
mod host;
mod limit;
mod mixed;
mod ops;
mod pair;
mod partition;
mod primitives;
mod repeats;
mod report;
mod scale;
mod set;
mod size;
mod small;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use gpumap::{Device, Stream};
use gpumap_benches::{data, ladder, measure};

use ceilings::Ceilings;
use ops::Keys;
use pair::PairKind;
use report::{Report, Row};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// The map's verbs.
    Ops,
    /// Maps of values of 16, 64 and 256 bytes.
    Arena,
    /// Large batches, sorted and as they come: empty maps that are built, and maps in use.
    Build,
    /// Maps that grow, and maps whose pairs come and go.
    Grow,
    /// Batches in which each key says what is done with it.
    Mixed,
    /// Batches in which keys repeat, at the first load factor.
    Repeats,
    /// Dumps at every load factor and number of submaps.
    RetrieveAll,
    /// Maps from the size of a cache to the device's memory.
    Size,
    /// Calls with small batches.
    Small,
    /// Batches from arrays of the host and back, beside what the link can do.
    Host,
    /// The verbs of chained maps, of 4 + 4 and of 8 + 8 bytes.
    Chained,
    /// Inserts until memory ends.
    Limit,
    /// Histograms of `n` values, by default 400 million.
    Histogram,
    /// Partitions of `n` pairs.
    Partition,
    /// Several devices, `n` keys or values on each: the link, maps and histograms over all.
    Scale,
    /// Scans, reductions and filters of `n` elements, by default 400 million.
    Primitives,
    /// The ladders of filter, `retrieve_all` and scan, `n` elements, by default 400 million: what
    /// `gpumap bench ladder` measures.
    Ladder,
}

/// Measures the map against the device's own limits.
#[derive(Debug, Parser)]
#[command(name = "gpumap-bench", version)]
pub struct Options {
    /// What to measure.
    #[arg(long, value_delimiter = ',', default_value = "ops")]
    suite: Vec<Suite>,
    /// Pairs in the map. The default is for a GPU; the CPU executor does about a million a
    /// second.
    #[arg(short, long)]
    n: Option<usize>,
    /// Load factors.
    #[arg(short, long, value_delimiter = ',', default_value = "0.5,0.8,0.9,0.95")]
    load: Vec<f64>,
    /// Sizes of key and value; without a value, a set.
    #[arg(short, long, value_delimiter = ',', default_value = "8+8,4+4,8+0")]
    pairs: Vec<PairKind>,
    /// Which keys.
    #[arg(short, long, value_delimiter = ',', default_value = "sparse,dense")]
    keys: Vec<Keys>,
    /// Submaps.
    #[arg(short, long, default_value_t = 1)]
    submaps: u32,
    /// Runs of each measurement; the median counts.
    #[arg(short, long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Writes the table as JSON.
    #[arg(short, long)]
    json: Option<PathBuf>,
    /// Writes the table and its plots as one page.
    #[arg(long)]
    html: Option<PathBuf>,
    /// Measures nothing: the page is of these results, written as JSON before.
    #[arg(long, value_delimiter = ',', requires = "html")]
    results: Vec<PathBuf>,
}

impl Options {
    /// Pairs in the map on this device.
    fn pairs_on(&self, device: &Device) -> usize {
        let default = if device.is_cuda() {
            100_000_000
        } else {
            100_000
        };
        self.n.unwrap_or(default)
    }
}

fn main() -> Result<()> {
    // What several GPUs need, and what is read when they first come together.
    if std::env::var_os("NCCL_NVLS_ENABLE").is_none() {
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var("NCCL_NVLS_ENABLE", "0") };
    }
    let options = Options::parse();
    if let (Some(html), false) = (&options.html, options.results.is_empty()) {
        return report::write_page(html, &options.results);
    }
    let device = Device::best()?;
    let stream = Stream::new(&device)?;
    let n = options.pairs_on(&device);
    let mut report = Report::new(&device, n, options.runs as usize)?;
    report.print_head();

    let ceilings = Ceilings::measure(&stream, n, options.runs as usize, &mut report)?;
    let runs = options.runs as usize;
    for &suite in &options.suite {
        match suite {
            Suite::Ops => run_ops(&options, &stream, n, &ceilings, &mut report)?,
            Suite::Arena => arena::run(&stream, n, runs, &ceilings, &mut report)?,
            Suite::Build => run_build(&options, &stream, n, &ceilings, &mut report)?,
            Suite::Grow => grow::run(&stream, n, runs, &ceilings, &mut report)?,
            Suite::Chained => {
                for load in chained::LOADS {
                    chained::run::<u64, u64>(&stream, n, load, runs, &ceilings, &mut report)?;
                    chained::run::<u32, u32>(&stream, n, load, runs, &ceilings, &mut report)?;
                }
            }
            Suite::Limit => limit::run(&device)?,
            Suite::Scale => scale::run(n, runs, &mut report)?,
            Suite::Host => host::run(&stream, n, runs, &mut report)?,
            Suite::Mixed => {
                mixed::run::<u64, u64>(&stream, n, runs, &ceilings, &mut report)?;
                mixed::run::<u32, u32>(&stream, n, runs, &ceilings, &mut report)?;
                mixed::run_chained::<u32, u32>(&stream, n, runs, &ceilings, &mut report)?;
            }
            Suite::Repeats => {
                if let Some(&load) = options.load.first() {
                    repeats::run::<u64, u64>(&stream, n, load, runs, &ceilings, &mut report)?;
                    repeats::run::<u32, u32>(&stream, n, load, runs, &ceilings, &mut report)?;
                }
            }
            Suite::RetrieveAll => {
                dump::run::<u64, u64>(&stream, n, runs, &ceilings, &mut report)?;
                dump::run::<u32, u32>(&stream, n, runs, &ceilings, &mut report)?;
            }
            Suite::Size => size::run(&stream, n, runs, &ceilings, &mut report)?,
            Suite::Small => small::run(&stream, n, runs, &mut report)?,
            Suite::Histogram => {
                let n = options.n.unwrap_or(4 * n);
                println!("arrays of {n} elements");
                histogram::run(&stream, n, runs, &ceilings, &mut report)?;
            }
            Suite::Primitives => {
                let n = options.n.unwrap_or(4 * n);
                println!("arrays of {n} elements");
                primitives::run(&stream, n, runs, &mut report)?;
            }
            Suite::Ladder => run_ladders(&options, &device, &mut report)?,
            Suite::Partition => {
                partition::run::<u64, u64>(&stream, n, runs, &ceilings, &mut report)?;
                partition::run::<u32, u32>(&stream, n, runs, &ceilings, &mut report)?;
            }
        }
    }
    if let Some(path) = &options.json {
        report.write_json(path)?;
    }
    if let Some(path) = &options.html {
        report.write_html(path)?;
    }
    report.finish()
}

fn run_ladders(options: &Options, device: &Device, report: &mut Report) -> Result<()> {
    let of_ladders = ladder::Options {
        size: options.n,
        runs: options.runs as usize,
        ladders: ladder::Ladder::value_variants().to_vec(),
    };
    let mut table = ladder::Table::default();
    let mut copy = 0.0;
    ladder::run(device, &of_ladders, |row| {
        println!("{}", table.lines(row));
        let time = measure::Time {
            median: row.ms,
            least: row.ms_least,
            most: row.ms_most,
        };
        let bytes = row.bytes as f64;
        let name = format!("{} {} {}", row.ladder, row.case, row.rung);
        let row = if row.ladder == "copy" {
            copy = row.bytes_per_ms();
            Row::ceiling(&name, time, row.n)
        } else {
            Row::op(name, time, row.n, bytes / copy)
        };
        report.record(row.moving(bytes));
    })?;
    Ok(())
}

fn run_build(
    options: &Options,
    stream: &Stream,
    n: usize,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    for &pair in &options.pairs {
        let case = build::Case {
            n,
            load: 0.0,
            submaps: options.submaps,
            runs: options.runs as usize,
        };
        let run = match pair {
            PairKind::FourFour => build::run::<u32, u32>,
            PairKind::FourEight => build::run::<u32, u64>,
            PairKind::EightFour => build::run::<u64, u32>,
            PairKind::EightEight => build::run::<u64, u64>,
            PairKind::FourAlone | PairKind::EightAlone => {
                println!("build: the suite `ops` has the inserts of sets");
                continue;
            }
        };
        run(stream, case, &options.load, ceilings, report)?;
    }
    Ok(())
}

fn run_ops(
    options: &Options,
    stream: &Stream,
    n: usize,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    for &pair in &options.pairs {
        for &keys in &options.keys {
            for &load in &options.load {
                let case = ops::Case {
                    n,
                    load,
                    keys,
                    submaps: options.submaps,
                    runs: options.runs as usize,
                };
                let run = match pair {
                    PairKind::FourFour => ops::run::<u32, u32>,
                    PairKind::FourEight => ops::run::<u32, u64>,
                    PairKind::EightFour => ops::run::<u64, u32>,
                    PairKind::EightEight => ops::run::<u64, u64>,
                    PairKind::FourAlone => set::run::<u32>,
                    PairKind::EightAlone => set::run::<u64>,
                };
                run(stream, case, ceilings, report)?;
            }
        }
    }
    Ok(())
}
