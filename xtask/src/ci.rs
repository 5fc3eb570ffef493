//! `cargo xtask ci`: every check in a row, each timed. All of them run even when one fails, so
//! that one look at the end shows everything there is to fix.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::grid::Grid;
use crate::process;
use crate::workspace::Workspace;
use crate::{explore, lint, msrv, ptx_command, toolkit};

/// What to leave out.
#[derive(clap::Args)]
pub struct Options {
    /// Leave the tests to whoever calls this: `.ci/run` runs the README's own test command.
    #[arg(long)]
    skip_tests: bool,
    /// Only these steps.
    #[arg(long = "step", value_name = "STEP", value_parser = names())]
    steps: Vec<String>,
}

type Step = (&'static str, fn(&Workspace) -> Result<()>);

/// Cheap steps first. The kernels' PTX is checked before it is linted: a stale file that
/// passes says nothing.
const STEPS: &[Step] = &[
    ("fmt", |w| cargo(w, "fmt --all --check")),
    ("clippy", |w| {
        cargo(
            w,
            "clippy --workspace --all-targets --locked --keep-going -- \
             -D warnings -D clippy::incompatible_msrv",
        )
    }),
    ("doc", doc),
    ("msrv", msrv::check),
    ("toolkit", toolkit::check),
    ("ptx --check", ptx_command::check_shipped),
    ("lint", lint::check_shipped),
    ("explore", explore::fixed),
];

const TESTS: Step = ("test", |w| cargo(w, "test --workspace"));

fn names() -> Vec<&'static str> {
    let steps = STEPS.iter().chain([&TESTS]);
    steps.map(|&(name, _)| name).collect()
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let tests = (!options.skip_tests).then_some(TESTS);
    let mut grid = Grid::new(["step", "result", "seconds"]);
    let mut failed = Vec::new();
    let wanted = |name| options.steps.is_empty() || options.steps.iter().any(|step| step == name);
    let steps = STEPS.iter().copied().chain(tests);
    for (name, step) in steps.filter(|&(name, _)| wanted(name)) {
        println!("\n=== {name}");
        let start = Instant::now();
        let result = step(workspace);
        let time = seconds(start.elapsed());
        let word = match result {
            Ok(()) => "ok",
            Err(error) => {
                eprintln!("error: {error:#}");
                failed.push(name);
                "FAILED"
            }
        };
        println!("=== {name}: {word} in {time} s");
        grid.row([name, word, &time]);
    }
    println!("\n{grid}");
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

fn cargo(workspace: &Workspace, line: &str) -> Result<()> {
    process::run(process::cargo(workspace).args(line.split(' ')))
}

fn doc(workspace: &Workspace) -> Result<()> {
    process::run(
        process::cargo(workspace)
            .args(["doc", "--workspace", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}
