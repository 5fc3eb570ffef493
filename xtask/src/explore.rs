//! `cargo xtask explore`: the exploration of interleavings, which `gpumap-tests` has a program for.

use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// What CI runs: always the same seeds, all of them, a minute or so on two processors.
const FIXED: &[&str] = &["--seeds", "100", "--minutes", "20", "--all"];

/// How much to explore.
#[derive(clap::Args)]
pub struct Options {
    /// Seeds of each case. The same seeds give the same interleavings, always.
    #[arg(long, default_value_t = 400)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Minutes to run for at most.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Only cases whose name contains this.
    #[arg(long, default_value = "")]
    case: String,
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let Options {
        seeds,
        first,
        minutes,
        case,
    } = options;
    // It takes longer to build, and a fraction of the time to run.
    let arguments = [
        "--seeds",
        &seeds.to_string(),
        "--first",
        &first.to_string(),
        "--minutes",
        &minutes.to_string(),
        "--case",
        case,
    ];
    let line = "run --release --quiet --package gpumap-tests --bin explore --";
    process::run(
        process::cargo(workspace)
            .args(line.split(' '))
            .args(arguments),
    )
}

/// Runs what CI runs.
pub fn fixed(workspace: &Workspace) -> Result<()> {
    // In the profile of the tests and with the features that they have: of one package alone, fewer of its
    // dependencies' are on, and half of the workspace would be built twice.
    let line = "build --quiet --locked --workspace --bin explore";
    process::run(process::cargo(workspace).args(line.split(' ')))?;
    process::run(Command::new(workspace.target.join("debug/explore")).args(FIXED))
}
