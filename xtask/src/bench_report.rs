//! `cargo xtask bench-report`: results of `gpumap-bench` as one page with plots.

use std::path::PathBuf;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// Which results, and where the page goes.
#[derive(clap::Args)]
pub struct Options {
    /// Results, as `gpumap-bench --json` writes them.
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// The page.
    #[arg(short, long, default_value = "bench-report.html")]
    out: PathBuf,
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut program = process::cargo(workspace);
    program.args(["run", "--quiet", "--package", "gpumap-benches", "--"]);
    for results in &options.results {
        program.arg("--results").arg(std::path::absolute(results)?);
    }
    program
        .arg("--html")
        .arg(std::path::absolute(&options.out)?);
    process::run(&mut program)
}
