//! `cargo xtask ci`: every check in a row, each timed. All of them run even when one fails, so
//! that one look at the end shows everything there is to fix.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::grid::Grid;
use crate::process;
use crate::workspace::Workspace;
use crate::{
    api, deny, explore, features, links, lint, msrv, mutants, neighbours, operations, package,
    ptx_command, python, tables, toolkit, words,
};

/// What to leave out.
#[derive(clap::Args)]
pub struct Options {
    /// Leave out the tests: `.ci/run` runs the README's own test command.
    #[arg(long)]
    skip_tests: bool,
    /// Only these steps.
    #[arg(long = "step", value_name = "STEP", value_parser = names())]
    steps: Vec<String>,
}

/// The file in the build folder that lists what was not looked at.
const UNCHECKED: &str = "ci-unchecked";

/// What a step that has passed could not look at on this machine.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unchecked(Vec<String>);

impl Unchecked {
    /// It looked at everything.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// It did not look at this.
    pub fn some(what: impl Into<String>) -> Self {
        Self(vec![what.into()])
    }
}

type Step = (&'static str, fn(&Workspace) -> Result<Unchecked>);

/// Cheap steps first. The kernels' PTX is checked before it is linted: a stale file that
/// passes says nothing.
const STEPS: &[Step] = &[
    ("fmt", |w| cargo(w, "fmt --all --check")),
    ("links", |w| all(links::check(w))),
    ("words", |w| all(words::check(w))),
    ("tables", |w| all(tables::check(w))),
    ("deny", deny::check),
    ("clippy", |w| {
        cargo(
            w,
            "clippy --workspace --all-targets --locked --keep-going -- \
             -D warnings -D clippy::incompatible_msrv",
        )
    }),
    ("operations", |w| all(operations::check(w))),
    ("doc", doc),
    ("api", |w| all(api::check(w))),
    ("features", |w| all(features::check(w))),
    ("msrv", msrv::check),
    ("toolkit", |w| all(toolkit::check(w))),
    ("neighbours", |w| all(neighbours::check(w))),
    ("package", |w| all(package::check(w))),
    ("python", python::check),
    // Of the library and the program, hostile company is among the tests.
    ("hostile", python::check_hostile),
    ("ptx --check", |w| all(ptx_command::check_shipped(w))),
    ("lint", |w| all(lint::check_shipped(w))),
    ("mutants --check", |w| all(mutants::check(w))),
    ("explore", |w| all(explore::fixed(w))),
];

/// All on the devices that a test takes by itself; and those that run kernels of the library on the CPU once more on the
/// executor that checks them, except those that have executors of their own and are the same on every device.
const TESTS: &[Step] = &[
    ("test", |w| cargo(w, "test --workspace --locked")),
    ("test checked", |w| {
        let line = "test --workspace --test conformance --locked -- \
                    --skip interleav --skip histories --skip explored";
        all(process::run(
            process::cargo(w)
                .args(line.split_whitespace())
                .env("GPUMAP_TEST_DEVICE", "checked"),
        ))
    }),
];

fn names() -> Vec<&'static str> {
    let steps = STEPS.iter().chain(TESTS);
    steps.map(|&(name, _)| name).collect()
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let tests = if options.skip_tests { &[] } else { TESTS };
    let mut grid = Grid::new(["step", "result", "seconds"]);
    let mut failed = Vec::new();
    let mut unchecked = Vec::new();
    let wanted = |name| options.steps.is_empty() || options.steps.iter().any(|step| step == name);
    let steps = STEPS.iter().chain(tests).copied();
    for (name, step) in steps.filter(|&(name, _)| wanted(name)) {
        println!("\n=== {name}");
        let start = Instant::now();
        let result = step(workspace);
        let time = seconds(start.elapsed());
        let word = match result {
            Ok(Unchecked(parts)) if parts.is_empty() => "ok",
            Ok(Unchecked(parts)) => {
                for part in parts {
                    println!("NOT CHECKED: {part}");
                    unchecked.push(format!("{name}: {part}"));
                }
                "ok in part"
            }
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
    // For what runs after this, which has more to say at its end.
    fs::write(workspace.target.join(UNCHECKED), lines(&unchecked))?;
    if !unchecked.is_empty() {
        println!("NOT CHECKED HERE:\n{}", lines(&unchecked));
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn lines(unchecked: &[String]) -> String {
    unchecked.iter().map(|line| format!("  {line}\n")).collect()
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

fn all(result: Result<()>) -> Result<Unchecked> {
    result.map(|()| Unchecked::nothing())
}

fn cargo(workspace: &Workspace, line: &str) -> Result<Unchecked> {
    all(process::run(
        process::cargo(workspace).args(line.split_whitespace()),
    ))
}

fn doc(workspace: &Workspace) -> Result<Unchecked> {
    all(process::run(
        process::cargo(workspace)
            .args(["doc", "--workspace", "--no-deps", "--locked"])
            .args(["--features", "gpumap/arrow"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    ))
}
