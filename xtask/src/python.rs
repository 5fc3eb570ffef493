//! `cargo xtask python`: builds the wheel of the Python package, installs it into a virtual environment that has nothing
//! else of this project, and runs its tests there. Its types are checked too, and its stubs against the module that was built.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::ci::Unchecked;
use crate::process;
use crate::wheel::Wheel;
use crate::workspace::Workspace;

/// What builds wheels.
const MATURIN: Wheel = Wheel {
    packages: &["maturin==1.16.0"],
    folder: "maturin-venv",
    program: "bin/maturin",
};

/// What the tests need beside the wheel.
const TESTS: Wheel = Wheel {
    packages: &[
        "duckdb==2.0.1",
        "mypy==2.4.1",
        "numpy==2.4.6",
        "pandas==3.1.1",
        "polars==2.1.0",
        "pyarrow==26.0.1",
        "pytest==9.2.0",
    ],
    folder: "python-venv",
    program: "bin/pytest",
};

/// Which build.
#[derive(clap::Args)]
pub struct Options {
    /// Build for use, not for tests: the wheel of a release.
    #[arg(long)]
    release: bool,
}

impl Options {
    /// The wheel of a release.
    pub fn release() -> Self {
        Self { release: true }
    }
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let wheel = build(workspace, if options.release { "release" } else { "dev" })?;
    println!("{}", workspace.relative(&wheel).display());
    test(workspace, &wheel)
}

/// The step of CI.
pub fn check(workspace: &Workspace) -> Result<Unchecked> {
    if !is_there() {
        return Ok(Unchecked::some("the Python package: there is no python3"));
    }
    run(workspace, &Options { release: false })?;
    Ok(Unchecked::nothing())
}

fn build(workspace: &Workspace, profile: &str) -> Result<PathBuf> {
    let maturin = MATURIN.install(workspace)?;
    let folder = workspace.target.join("wheels").join(profile);
    // The only file there is the new one.
    if folder.is_dir() {
        fs::remove_dir_all(&folder)?;
    }
    process::run(
        Command::new(maturin)
            .current_dir(workspace.root.join("crates/gpumap-python"))
            .env("CARGO_TARGET_DIR", &workspace.target)
            .args(["build", "--locked", "--quiet", "--profile", profile])
            // This machine's; a release is built on the oldest system that it is for.
            .args(["--compatibility", "linux", "--out"])
            .arg(&folder),
    )?;
    let mut wheels = fs::read_dir(&folder)?;
    Ok(wheels.next().context("maturin wrote no wheel")??.path())
}

/// The Python that has what the tests need beside the package.
pub fn interpreter(workspace: &Workspace) -> Result<PathBuf> {
    let pytest = TESTS.install(workspace)?;
    Ok(pytest.with_file_name("python"))
}

/// Whether there is a Python to make one of.
pub fn is_there() -> bool {
    process::probe(Command::new("python3").arg("--version")).is_some()
}

fn test(workspace: &Workspace, wheel: &PathBuf) -> Result<()> {
    let python = interpreter(workspace)?;
    process::run(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--no-input", "--no-deps"])
            .args(["--no-index", "--force-reinstall"])
            .arg(wheel),
    )?;
    let folder = workspace.root.join("crates/gpumap-python");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.current_dir(&folder).arg("-m").args(arguments);
        process::run(command.env("PYTHONDONTWRITEBYTECODE", "1"))
    };
    let cache = workspace.target.join("mypy-cache");
    let cache = cache.to_str().context("the build folder is not UTF-8")?;
    run(&["mypy", "--cache-dir", cache])?;
    run(&["mypy.stubtest", "gpumap_rs"])?;
    run(&["pytest", "--quiet", "-p", "no:cacheprovider"])
}
