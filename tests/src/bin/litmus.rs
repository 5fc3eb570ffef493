//! `gpumap-litmus`: what the device makes of the map's protocols, millions of times each.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use gpumap::Device;
use gpumap_tests::Target;
use gpumap_tests::litmus::{self, Options};

/// Runs each protocol of the map at many places at once, and beside it a control with less order; counts every outcome, and
/// says which PTX's memory model allows. Fails on one that it forbids. `GPUMAP_DEVICE` chooses the device.
#[derive(Parser)]
#[command(name = "gpumap-litmus")]
struct Arguments {
    /// How long.
    #[arg(default_value_t = 60.0)]
    seconds: f64,
    /// What decides how threads and places are matched.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Instances of each launch, rounded up to a power of two; by default 256 on the CPU, and 131,072 on a GPU.
    #[arg(long)]
    instances: Option<u32>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let run = || {
        let on = Target::new(Device::best()?, None);
        let instances = arguments.instances.unwrap_or(on.n(256, 1 << 17) as u32);
        let options = Options {
            time: Duration::from_secs_f64(arguments.seconds.clamp(0.0, 1e6)),
            launches: on.n(4, 32) as u32,
            instances: instances.clamp(256, 1 << 20).next_power_of_two(),
            seed: arguments.seed,
        };
        println!("{on}: {options:?}");
        litmus::run(&on, &options)
    };
    match run() {
        Ok(report) => {
            println!("{report}");
            ExitCode::from(u8::from(report.forbidden() != 0))
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
