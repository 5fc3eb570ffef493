//! The `gpumap` program: count k-mers, load and dump pairs, on a GPU or on the CPU.
//!
//! Every command is a function over [`cli::Session`]; [`engine`] and [`table`] are where it meets the
//! `gpumap` library. A failure is one `error: ...` line on standard error and exit code 2, and
//! leaves no output behind ([`output`]), whatever ends it ([`ending`]).

// All of it goes through `console`, which does not panic.
#![cfg_attr(
    not(test),
    deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)
)]

// Tests have an allocator that watches.
#[cfg(not(test))]
mod allocator;
mod bins;
mod buckets;
mod cli;
mod columns;
mod console;
mod count;
mod counts;
mod database;
mod demo;
mod device_pairs;
mod dump;
mod emit;
mod ending;
mod engine;
mod error;
mod fastq;
mod feed;
mod format;
#[cfg(test)]
mod fuzz;
mod gpk;
mod gzip;
mod info;
mod kind;
mod kmer;
mod ledger;
mod limit;
mod load;
mod malformed;
mod output;
mod packed;
mod pairs;
mod parse;
mod pieces;
mod pipeline;
mod progress;
mod rows;
mod saved;
mod sorter;
mod source;
mod spectrum;
mod stream;
mod summary;
mod table;
mod text;
mod threads;
mod values;
mod words;
mod workers;
mod zstd;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::{Cli, Command};
use crate::console::{print, tell};
use crate::ending::FAILURE;

#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    ending::guard(run)
}

fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return answer(&error),
    };
    let outcome = cli
        .threads()
        .and_then(threads::start)
        .and_then(|()| work(&cli));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_pipe() && !cli.writes_files() => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn work(cli: &Cli) -> error::Result<()> {
    match &cli.command {
        None => demo::run(&cli.session),
        Some(Command::CountKmers(args)) => count::run(args, &cli.session),
        Some(Command::Dump(args)) => database::dump(args, &cli.session),
        Some(Command::Query(args)) => database::query(args, &cli.session),
        Some(Command::Merge(args)) => database::merge(args, &cli.session),
        Some(Command::Intersect(args)) => database::intersect(args, &cli.session),
        Some(Command::Subtract(args)) => database::subtract(args, &cli.session),
        Some(Command::Load(args)) => load::run(args, &cli.session),
        Some(Command::Info) => info::run(&cli.session),
    }
}

fn fail(error: &error::Error) -> ExitCode {
    tell(format_args!("error: {}", error::one_line(error)));
    FAILURE.into()
}

/// What clap answers itself: help and version in full, a usage error on one line.
fn answer(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::DisplayVersion => match print(error) {
            Err(error) if !error.is_closed_pipe() => fail(&error),
            _ => ExitCode::SUCCESS,
        },
        _ => {
            tell(cli::usage_error(error));
            FAILURE.into()
        }
    }
}
