//! The exploration of interleavings as a program: `cargo xtask explore` runs it.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use gpumap_tests::explore::{Case, Limits, Tally, cases, hunt};

/// Runs small configurations of the map under many interleavings of their lanes.
#[derive(Parser)]
#[command(name = "explore")]
struct Options {
    /// Seeds of each case.
    #[arg(long, default_value_t = 400)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Minutes to run for at most.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Fail if the minutes end before every case has had all of its seeds.
    #[arg(long)]
    all: bool,
    /// Threads; by default as many as there are processors.
    #[arg(long)]
    jobs: Option<usize>,
    /// Only cases whose name contains this.
    #[arg(long, default_value = "")]
    case: String,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let mut cases = cases();
    cases.retain(|case| case.name().contains(&options.case));
    if cases.is_empty() {
        eprintln!("error: no case has {:?} in its name", options.case);
        return ExitCode::FAILURE;
    }
    let all = || thread::available_parallelism().map_or(1, Into::into);
    let limits = Limits {
        first: options.first,
        seeds: options.seeds,
        time: Duration::from_secs_f64(options.minutes.max(0.0) * 60.0),
        jobs: options.jobs.unwrap_or_else(all),
        shrinking: 3000,
    };
    // A panic is a failure like any other, and is reported with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let tallies = hunt(&cases, limits);
    print(&cases, &tallies);
    let failed: u64 = tallies.iter().map(|tally| tally.failed).sum();
    println!("{failed} failed, {:.0} s", start.elapsed().as_secs_f64());
    for found in tallies.iter().flat_map(|tally| &tally.found) {
        println!("\n{found}");
    }
    let left_out = limits.left_out(&tallies);
    if options.all && left_out > 0 {
        let claimed = options.seeds * cases.len() as u64;
        eprintln!(
            "error: {left_out} of {claimed} schedules did not run within {} minutes",
            options.minutes
        );
        return ExitCode::FAILURE;
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A line for each case, and one for all.
fn print(cases: &[Case], tallies: &[Tally]) {
    let line = |configuration: &str, format: &str, tally: &Tally| {
        println!(
            "{configuration:27} | {format:22} | {:9} | {:9} | {:7.0} | {:6}",
            tally.runs,
            tally.distinct,
            tally.points as f64 / tally.runs.max(1) as f64,
            tally.failed,
        );
    };
    println!(
        "{:27} | {:22} | {:>9} | {:>9} | {:>7} | {:>6}",
        "configuration", "slots", "schedules", "distinct", "points", "failed"
    );
    let mut all = Tally::default();
    for (case, tally) in cases.iter().zip(tallies) {
        line(case.configuration, case.format, tally);
        all.runs += tally.runs;
        all.distinct += tally.distinct;
        all.points += tally.points;
        all.failed += tally.failed;
    }
    line("all", "", &all);
}
