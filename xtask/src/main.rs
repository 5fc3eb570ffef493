//! The project's own tool, run as `cargo xtask ...`: builds, checks and lints the PTX that
//! `gpumap` ships, bundles the tests for a GPU machine without Rust, runs what CI runs.

mod api;
mod arm;
mod bench_callers;
mod bench_cpu;
mod bench_kmers;
mod bench_report;
mod bundle;
mod ci;
mod compilers;
mod deny;
mod explore;
mod features;
mod fuzz;
mod layouts;
mod links;
mod lint;
mod mirror;
mod msrv;
mod mutants;
mod neighbours;
mod operations;
mod package;
mod process;
mod ptx_command;
mod python;
mod release;
mod report_text;
mod sanitize;
mod tables;
mod toolkit;
mod words;
mod workspace;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, Subcommand};
use gpumap_lint::{arch, compile, grid, ptx, toolchain, wheel};

/// Builds, checks and bundles gpumap.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    disable_help_subcommand = true
)]
struct Cli {
    /// None shows the everyday commands.
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Compile the kernels to PTX, for every architecture that is shipped.
    Ptx(ptx_command::Options),
    /// Assemble the checked-in PTX with ptxas and check what comes out.
    Lint(lint::Options),
    /// Collect test and benchmark programs for a GPU machine without Rust.
    Bundle(bundle::Options),
    /// Draw results of benchmarks.
    BenchReport(bench_report::Options),
    /// Measure maps on this CPU, and write the figures into the documents.
    BenchCpu(bench_cpu::Options),
    /// Write figures of `gpumap-bench callers` into the documents.
    BenchCallers(report_text::Options),
    /// Write figures of `gpumap-bench kmers` into the documents.
    BenchKmers(report_text::Options),
    /// Run small configurations of the map under many interleavings.
    Explore(explore::Options),
    /// Run product tests under ThreadSanitizer.
    Sanitize(sanitize::Options),
    /// Fuzz the readers of files and command lines.
    Fuzz(fuzz::Options),
    /// Check that every link of the documents leads somewhere.
    Links,
    /// Check that words which the project has given up do not come back.
    Words,
    /// List the public names of the library in docs/public-api.txt.
    Api,
    /// Run the examples that share memory with crates which want the headers of a CUDA toolkit.
    Neighbours(neighbours::Options),
    /// Build each crate that is published from its own package, and a small program on them.
    Package,
    /// Build the wheel of the Python package, install it, check its types and run its tests.
    Python(python::Options),
    /// Build and test everything that a release uploads, and say what it still lacks.
    Release(release::Options),
    /// Write the tables of the documents from the reports in docs/data.
    Tables,
    /// Write the guide's table of operations and of what runs them.
    Operations,
    /// Plant bugs, one at a time, and see that the tests find each.
    Mutants(mutants::Options),
    /// Run every check that CI runs.
    Ci(ci::Options),
    /// Show the everyday commands, all of them, or the options of one.
    Help {
        /// `all`, or the name of a command.
        of: Option<String>,
    },
}

fn main() -> ExitCode {
    let Some(command) = Cli::parse().command else {
        print!("{}", commands(EVERYDAY));
        println!("\nThe others: cargo xtask help all");
        return ExitCode::SUCCESS;
    };
    match run(&command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not the Debug form: its stack trace would hide what to do.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The heading of the everyday commands in CONTRIBUTING.md, and that of the others.
const EVERYDAY: &str = "## Everyday commands";
const LESS_OFTEN: &str = "### Less often";

/// The table of commands below a heading of CONTRIBUTING.md.
fn commands(heading: &str) -> String {
    let lines = include_str!("../../CONTRIBUTING.md").lines();
    let below = lines.skip_while(|&line| line != heading).skip(1);
    let rows = below.take_while(|line| !line.starts_with('#'));
    let cells = |row: &'static str| {
        row.strip_prefix("| `")?
            .strip_suffix(" |")?
            .split_once("` | ")
    };
    rows.filter_map(cells)
        .map(|(command, rest)| {
            let (what, time) = rest.rsplit_once(" | ").unwrap_or((rest, ""));
            format!("{command}\n    {what} ({time})\n")
        })
        .collect()
}

/// Prints what was asked for.
fn help(of: Option<&str>) -> Result<()> {
    match of {
        None => print!("{}", commands(EVERYDAY)),
        Some("all") => print!("{}{}", commands(EVERYDAY), commands(LESS_OFTEN)),
        Some(name) => {
            let mut all = Cli::command();
            let command = all.find_subcommand_mut(name);
            let command = command.with_context(|| {
                format!("there is no command {name}: `cargo xtask help all` shows them")
            })?;
            println!("{}", command.render_long_help());
        }
    }
    Ok(())
}

#[cfg(test)]
#[test]
fn arguments_are_consistent() {
    Cli::command().debug_assert();
}

#[cfg(test)]
#[test]
fn every_command_is_on_one_of_the_two_pages() {
    let (everyday, others) = (commands(EVERYDAY), commands(LESS_OFTEN));
    assert!(everyday.contains("cargo xtask ci\n    everything"));
    assert!(others.contains("GPUMAP_TEST_SEEDS=100 cargo test") && others.contains(" (12 s)\n"));
    assert!(everyday.matches("\n    ").count() <= 12);
    for command in Cli::command().get_subcommands() {
        let name = format!("cargo xtask {}", command.get_name());
        let found = [&everyday, &others].map(|page| {
            let is_it = |line: &&str| line.split(" --").next() == Some(&name);
            page.lines().filter(is_it).count()
        });
        let is_there = found.iter().sum::<usize>() > 0;
        assert!(is_there || command.get_name() == "help", "{name}");
    }
}

fn run(command: &Command) -> Result<()> {
    let workspace = workspace::Workspace::find()?;
    match command {
        Command::Ptx(options) => ptx_command::run(&workspace, options),
        Command::Lint(options) => lint::run(&workspace, options),
        Command::Bundle(options) => bundle::run(&workspace, options),
        Command::BenchCpu(options) => bench_cpu::run(&workspace, options),
        Command::BenchCallers(options) => bench_callers::run(&workspace, options),
        Command::BenchKmers(options) => bench_kmers::run(&workspace, options),
        Command::BenchReport(options) => bench_report::run(&workspace, options),
        Command::Explore(options) => explore::run(&workspace, options),
        Command::Sanitize(options) => sanitize::run(&workspace, options),
        Command::Fuzz(options) => fuzz::run(&workspace, options),
        Command::Links => links::check(&workspace),
        Command::Words => words::check(&workspace),
        Command::Api => api::write(&workspace),
        Command::Neighbours(options) => neighbours::run(&workspace, options),
        Command::Package => package::check(&workspace),
        Command::Python(options) => python::run(&workspace, options),
        Command::Release(options) => release::run(&workspace, options),
        Command::Tables => tables::write(&workspace),
        Command::Operations => operations::write(&workspace),
        Command::Mutants(options) => mutants::run(&workspace, options),
        Command::Ci(options) => ci::run(&workspace, options),
        Command::Help { of } => help(of.as_deref()),
    }
}

/// A file that no module names is not compiled, and its tests do not run.
#[cfg(test)]
#[test]
fn every_file_of_the_product_tests_is_a_module() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tests/conformance");
    let mut folders = vec![root];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        let head = ["main.rs", "mod.rs"].map(|name| folder.join(name));
        let head = head.iter().find(|file| file.exists()).expect("a module");
        let text = std::fs::read_to_string(head).expect("its text");
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().and_then(|name| name.to_str());
            let name = name.expect("a name").to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if &path == head {
                continue;
            }
            files += 1;
            let named = |line: &str| line.trim_start_matches("pub ") == format!("mod {name};");
            let named = text.lines().any(named);
            assert!(named, "{} does not name {name}", head.display());
        }
    }
    assert!(files > 80, "{files} files");
}
