//! `cargo xtask sanitize`: the product tests on the native CPU back end, compiled with ThreadSanitizer, which the stable
//! toolchain comes with and does not yet offer. The standard library is compiled with it too, or its locks would not be seen:
//! from the component `rust-src` of rustup.

use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// What is run by default: threads that share maps, rows and groups, and maps over several devices. Tests on the executor that
/// checks kernels are left out: it changes stacks, which a sanitizer takes for an error.
const TESTS: &str = "concurrency:: growth_threads:: rows::beside rows::collisions rows::groups arena::threads \
                     sharded::batches wide::";

/// How.
#[derive(clap::Args)]
pub struct Options {
    /// Names of tests, or parts of them; without any, those of threads.
    tests: Vec<String>,
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let version = process::probe(Command::new("rustc").arg("-vV")).context("no rustc")?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not say its host")?;
    let mut cargo = process::cargo(workspace);
    cargo
        .args([
            "test",
            "-Zbuild-std",
            "--locked",
            "--package",
            "gpumap-tests",
        ])
        .args(["--test", "conformance", "--target", host, "--target-dir"])
        .arg(workspace.target.join("sanitize-thread"))
        // With the lines of all but the tests, whose instances would take long: a report is of the library.
        .args(["--config", "profile.dev.debug='line-tables-only'"])
        .args(["--config", "profile.dev.package.'*'.debug=false"])
        .args([
            "--config",
            "profile.dev.package.gpumap-tests.debug=false",
            "--",
        ])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("TSAN_OPTIONS", "halt_on_error=1 second_deadlock_stack=1")
        .env("GPUMAP_TEST_DEVICE", "cpu");
    match &options.tests[..] {
        [] => cargo.args(TESTS.split_whitespace()),
        tests => cargo.args(tests),
    };
    process::run(&mut cargo)
}
