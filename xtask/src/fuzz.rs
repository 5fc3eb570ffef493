//! `cargo xtask fuzz`: the tests that read damaged and forged input, for as long as there is time.

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Where the tests are.
const TARGETS: &[&[&str]] = &[
    &["gpumap", "--test", "fuzz"],
    &["gpumap-cli", "--bin", "gpumap", "fuzz::"],
];

/// How many these are, more or less.
const TESTS: f64 = 10.0;

/// How long to fuzz.
#[derive(clap::Args)]
pub struct Options {
    /// Minutes, shared out among the targets.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// The first seed, to run something again; as a rule another one each time.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let seconds = (options.minutes.max(0.0) * 60.0 / TESTS).ceil();
    for target in TARGETS {
        let mut command = process::cargo(workspace);
        command.args(["test", "--quiet", "--package"]).args(*target);
        // One at a time, each for as long.
        command.args(["--", "--nocapture", "--test-threads=1"]);
        command.env("GPUMAP_FUZZ_SECONDS", format!("{seconds:.0}"));
        if let Some(seed) = options.seed {
            command.env("GPUMAP_FUZZ_SEED", seed.to_string());
        }
        process::run(&mut command)?;
    }
    Ok(())
}
