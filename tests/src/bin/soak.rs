//! `gpumap-soak`: all verbs from many streams, for minutes or hours, checked as it goes.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use gpumap::Device;
use gpumap_tests::Target;
use gpumap_tests::faults::Watchdog;
use gpumap_tests::soak::beside::{self, Beside};
use gpumap_tests::soak::{self, Report};

/// Calls all verbs of one map from many threads and streams, while it grows, shrinks and is compacted,
/// and checks every answer. `GPUMAP_DEVICE` chooses the device.
#[derive(Parser)]
#[command(name = "gpumap-soak")]
struct Options {
    /// How long.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Threads, each with a stream and keys of its own.
    #[arg(long, default_value_t = 8)]
    streams: usize,
    /// What decides which verbs are called with what.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Bytes of keys and values.
    #[arg(long, value_enum, default_value_t = Pairs::Eight)]
    pairs: Pairs,
    /// Keys of each thread, rounded up to a power of two; by default 4,096 on the CPU and a million on
    /// a GPU.
    #[arg(long)]
    keys: Option<u64>,
    /// Pairs of a batch at most; by default a quarter of the keys.
    #[arg(long)]
    batch: Option<usize>,
    /// Beside it a thread captures CUDA graphs, as other libraries do.
    #[arg(long)]
    captures: bool,
    /// Beside it so many threads make and drop groups of ranks with maps over them.
    #[arg(long, default_value_t = 0)]
    groups: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Pairs {
    #[value(name = "8+8")]
    Eight,
    #[value(name = "4+4")]
    Four,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let device = match Device::best() {
        Ok(device) => device,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let on = Target::new(device, None);
    let keys = options.keys.unwrap_or(on.n(4_096, 1 << 20) as u64);
    // All of them, and the shared ones, must fit 32 bits.
    let keys = keys.clamp(2, 1 << 24).next_power_of_two();
    let settings = soak::Options {
        time: Duration::from_secs_f64(options.minutes.clamp(0.0, 1e6) * 60.0),
        streams: options.streams.clamp(1, 128),
        seed: options.seed,
        keys,
        batch: options.batch.unwrap_or(keys as usize / 4).max(1),
    };
    println!("{on}: {settings:?}");
    let _watchdog = Watchdog::after("gpumap-soak", settings.time + Duration::from_secs(300));
    let beside = Beside {
        captures: options.captures,
        groups: options.groups.min(64),
    };
    let (report, count): (Report, _) = beside::during(&on, beside, || match options.pairs {
        Pairs::Eight => soak::run::<u64, u64>(&on, &settings, |_| ()),
        Pairs::Four => soak::run::<u32, u32>(&on, &settings, |_| ()),
    });
    println!("beside it: {count:?}");
    println!("{report}");
    match report.difference {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    }
}
