//! `gpumap-bench`: what the map does, beside what the device can do, in one process.
//!
//! Every figure is the median of several runs with a fixed seed, on data much larger than the
//! L2 by default, and every result is verified. The ceilings are measured first,
//! with the same clock: from before the call to after the device is done.

mod arena;
mod bench;
mod build;
mod ceilings;
mod chained;
mod commands;
mod dump;
mod groups;
mod grow;
mod histogram;
mod host;
mod inputs;
mod joins;
mod limit;
mod mixed;
mod ops;
mod options;
mod pairs;
mod partition;
mod peers;
mod primitives;
mod repeats;
mod report;
mod rows;
mod scale;
mod set;
mod size;
mod small;
mod sort;
mod strings;
mod values;
mod verify;
mod wide;

use std::io;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use gpumap::{Device, Stream};
use gpumap_benches::{data, ladder, measure};

use bench::Bench;
use ceilings::Ceilings;
use measure::{Clock, Time};
use options::{Options, PairKind, Suite};
use report::{Report, Row};

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.command {
        Some(command) => command.run(),
        None => run_suites(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // As `head` leaves it.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let source = error.downcast_ref::<io::Error>();
    source.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run_suites(options: &Options) -> Result<()> {
    if let (Some(html), false) = (&options.html, options.results.is_empty()) {
        return report::write_page(html, &options.results);
    }
    let device = Device::best()?;
    ladder::register_kernels(&device)?;
    let stream = Stream::new(&device)?;
    let n = options.pairs_on(&device);
    let clock = Clock::new(options.runs as usize);
    let mut report = Report::new(&device, n, options.runs as usize)?;
    report.print_head();

    let ceilings = Ceilings::measure(&stream, n, clock, &mut report)?;
    let mut bench = Bench {
        stream: &stream,
        n,
        clock,
        ceilings,
        report: &mut report,
    };
    for &suite in &options.suite {
        run(suite, options, &mut bench)?;
    }
    if let Some(path) = &options.json {
        report.write_json(path)?;
    }
    if let Some(path) = &options.html {
        report.write_html(path)?;
    }
    report.finish()
}

fn run(suite: Suite, options: &Options, bench: &mut Bench) -> Result<()> {
    // The primitives work on elements, of which there are more than pairs.
    let elements = options.n.unwrap_or(4 * bench.n);
    match suite {
        Suite::Ops => run_ops(options, bench),
        Suite::Arena => arena::run(bench),
        Suite::Build => run_build(options, bench),
        Suite::Grow => grow::run(bench),
        Suite::Chained => chained::LOADS.into_iter().try_for_each(|load| {
            chained::run::<u64, u64>(bench, load)?;
            chained::run::<u32, u32>(bench, load)
        }),
        Suite::Limit => limit::run(bench.device()),
        Suite::Scale => scale::run(bench),
        Suite::Host => host::run(bench),
        Suite::Peers => peers::run(bench),
        Suite::Mixed => {
            mixed::run::<u64, u64>(bench)?;
            mixed::run::<u32, u32>(bench)?;
            mixed::run_multi::<u32, u32>(bench)
        }
        Suite::Repeats => options.load.iter().take(1).try_for_each(|&load| {
            repeats::run::<u64, u64>(bench, load)?;
            repeats::run::<u32, u32>(bench, load)
        }),
        Suite::RetrieveAll => {
            dump::run::<u64, u64>(bench)?;
            dump::run::<u32, u32>(bench)
        }
        Suite::Rows => rows::run(bench),
        Suite::Strings => strings::run(bench),
        Suite::Groups => groups::run(bench),
        Suite::Joins => joins::run(bench),
        Suite::Values => values::run(bench),
        Suite::Wide => wide::run(bench),
        Suite::Size => size::run(bench),
        Suite::Small => small::run(bench),
        Suite::Histogram => {
            println!("arrays of {elements} elements");
            histogram::run(bench, elements)
        }
        Suite::Primitives => {
            println!("arrays of {elements} elements");
            primitives::run(bench, elements)
        }
        Suite::Ladder => run_ladders(options, bench),
        Suite::Sort => {
            sort::run::<u64, u64>(bench)?;
            sort::run::<u32, u32>(bench)
        }
        Suite::Partition => {
            partition::run::<u64, u64>(bench)?;
            partition::run::<u32, u32>(bench)
        }
    }
}

fn run_ops(options: &Options, bench: &mut Bench) -> Result<()> {
    let submaps = options.submaps;
    for &pair in &options.pairs {
        let run = match pair {
            PairKind::FourFour => ops::run::<u32, u32>,
            PairKind::FourEight => ops::run::<u32, u64>,
            PairKind::EightFour => ops::run::<u64, u32>,
            PairKind::EightEight => ops::run::<u64, u64>,
            PairKind::FourAlone => set::run::<u32>,
            PairKind::EightAlone => set::run::<u64>,
        };
        for &keys in &options.keys {
            for &load in &options.load {
                let case = ops::Case {
                    load,
                    keys,
                    submaps,
                };
                run(bench, case)?;
            }
        }
    }
    Ok(())
}

fn run_build(options: &Options, bench: &mut Bench) -> Result<()> {
    for &pair in &options.pairs {
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
        run(bench, &options.load, options.submaps)?;
    }
    Ok(())
}

fn run_ladders(options: &Options, bench: &mut Bench) -> Result<()> {
    let of_ladders = ladder::Options {
        size: options.n,
        runs: options.runs as usize,
        ladders: ladder::Ladder::value_variants().to_vec(),
    };
    let device = bench.device().clone();
    let mut table = ladder::Table::default();
    let mut copy = 0.0;
    ladder::run(&device, &of_ladders, |row| {
        println!("{}", table.lines(row));
        let time = Time {
            median: row.ms,
            least: row.ms_least,
            most: row.ms_most,
        };
        let bytes = row.bytes as f64;
        let name = format!("{} {} {}", row.ladder, row.case, row.rung);
        let row = if row.ladder == "copy" {
            copy = row.bytes_per_ms();
            Row::ceiling(name, time, row.n)
        } else {
            Row::op(name, time, row.n, bytes / copy)
        };
        bench.report.record(row.moving(bytes));
    })?;
    Ok(())
}
