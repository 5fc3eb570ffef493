//! `gpumap-bench`: what the map does, beside what the device can do, in one process.
//!
//! Every figure is the median of several runs with a fixed seed, on data much larger than the
//! L2 unless asked otherwise, and every result is verified. The ceilings are measured first,
//! with the same clock: from before the call to after the device is done.

mod ceilings;
mod data;
mod measure;
mod ops;
mod pair;
mod primitives;
mod report;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use gpumap::{Device, Stream};

use ceilings::Ceilings;
use ops::Keys;
use pair::PairKind;
use report::Report;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// The verbs of the map.
    Ops,
    /// Scans, reductions and filters.
    Primitives,
}

/// Measures the map against the device's own limits.
#[derive(Debug, Parser)]
#[command(name = "gpumap-bench", version)]
pub struct Options {
    /// What to measure.
    #[arg(long, value_enum, default_value = "ops")]
    suite: Suite,
    /// Pairs in the map, or elements of the arrays. The default is for a GPU; the CPU executor
    /// does about a million a second.
    #[arg(short, long)]
    n: Option<usize>,
    /// Load factors.
    #[arg(short, long, value_delimiter = ',', default_value = "0.5,0.8,0.9")]
    load: Vec<f64>,
    /// Sizes of key and value.
    #[arg(short, long, value_delimiter = ',', default_value = "8+8,4+4")]
    pairs: Vec<PairKind>,
    /// Which keys.
    #[arg(short, long, value_delimiter = ',', default_value = "sparse,dense")]
    keys: Vec<Keys>,
    /// Submaps.
    #[arg(short, long, default_value_t = 1)]
    submaps: u32,
    /// Runs of each measurement; the median counts.
    #[arg(short, long, default_value_t = 5)]
    runs: usize,
    /// Writes the table as JSON.
    #[arg(short, long)]
    json: Option<PathBuf>,
}

impl Options {
    /// Pairs in the map, or elements, on this device.
    fn size_on(&self, device: &Device) -> usize {
        let default = match (device.is_cuda(), self.suite) {
            (false, _) => 100_000,
            (true, Suite::Ops) => 100_000_000,
            (true, Suite::Primitives) => 400_000_000,
        };
        self.n.unwrap_or(default)
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    let device = Device::best()?;
    let stream = Stream::new(&device)?;
    let n = options.size_on(&device);
    let mut report = Report::new(&device, n, options.runs)?;
    report.print_head();
    match options.suite {
        Suite::Ops => ops(&options, &stream, n, &mut report)?,
        Suite::Primitives => primitives::run(&stream, n, options.runs, &mut report)?,
    }
    if let Some(path) = &options.json {
        report.write_json(path)?;
    }
    report.finish()
}

fn ops(options: &Options, stream: &Stream, n: usize, report: &mut Report) -> Result<()> {
    let ceilings = Ceilings::measure(stream, n, options.runs, report)?;
    for &pair in &options.pairs {
        for &keys in &options.keys {
            for &load in &options.load {
                let case = ops::Case {
                    n,
                    load,
                    keys,
                    submaps: options.submaps,
                    runs: options.runs,
                };
                match pair {
                    PairKind::FourFour => ops::run::<u32, u32>(stream, case, &ceilings, report)?,
                    PairKind::FourEight => ops::run::<u32, u64>(stream, case, &ceilings, report)?,
                    PairKind::EightFour => ops::run::<u64, u32>(stream, case, &ceilings, report)?,
                    PairKind::EightEight => ops::run::<u64, u64>(stream, case, &ceilings, report)?,
                }
            }
        }
    }
    Ok(())
}
