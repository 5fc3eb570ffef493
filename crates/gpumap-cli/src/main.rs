//! The `gpumap` program: count k-mers, load and dump pairs, on a GPU or on the CPU.
//!
//! Every command is a function over [`cli::Session`]; [`engine`] and [`table`] are where it meets the
//! `gpumap` library. A failure is one `error: ...` line on standard error and exit code 2, and
//! leaves no output behind ([`output`]).

mod bench;
mod cli;
mod columns;
mod count;
mod counts;
mod database;
mod demo;
mod dump;
mod emit;
mod engine;
mod error;
mod fastq;
mod feed;
mod format;
#[cfg(test)]
mod fuzz;
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
mod source;
mod spectrum;
mod summary;
mod table;
mod text;
mod values;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::{Bench, Cli, Command};

/// The exit code of every failure.
const FAILURE: u8 = 2;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return answer(&error),
    };
    let outcome = match &cli.command {
        None => demo::run(&cli.session),
        Some(Command::CountKmers(args)) => count::run(args, &cli.session),
        Some(Command::Dump(args)) => database::dump(args, &cli.session),
        Some(Command::Query(args)) => database::query(args, &cli.session),
        Some(Command::Merge(args)) => database::merge(args, &cli.session),
        Some(Command::Intersect(args)) => database::intersect(args, &cli.session),
        Some(Command::Subtract(args)) => database::subtract(args, &cli.session),
        Some(Command::Load(args)) => load::run(args, &cli.session),
        Some(Command::Info) => info::run(&cli.session),
        Some(Command::Bench(Bench::Ladder(args))) => bench::ladder(args, &cli.session),
        Some(Command::Bench(Bench::Cpu(args))) => bench::cpu(args, &cli.session),
        Some(Command::Bench(Bench::Kmers(args))) => bench::kmers(args, &cli.session),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error::one_line(&error));
            ExitCode::from(FAILURE)
        }
    }
}

/// What clap answers itself: help and version in full, a usage error on one line.
fn answer(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::DisplayVersion => {
            print!("{error}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{}", cli::usage_error(error));
            ExitCode::from(FAILURE)
        }
    }
}
