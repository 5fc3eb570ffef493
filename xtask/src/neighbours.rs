//! `cargo xtask neighbours`: compiles and runs `examples/neighbours`, the examples that share memory with crates which want a
//! CUDA toolkit: its headers, which come as Python packages, and for `cust` a folder of libraries, which is made here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;
use crate::wheel::Wheel;
use crate::workspace::Workspace;

/// The headers that `cuda-core` makes its bindings from, and what reads them.
const HEADERS: Wheel = Wheel {
    packages: &[
        "nvidia-cuda-runtime==13.0.96",
        "nvidia-cuda-crt==13.0.88",
        "nvidia-curand==10.4.5.25",
        "libclang==18.1.1",
    ],
    folder: "cuda-headers",
    program: "nvidia/cu13/include/cuda.h",
};

/// What to do with them.
#[derive(clap::Args)]
pub struct Options {
    /// Compile the programs for a machine with a GPU, and run none.
    #[arg(long)]
    release: bool,
}

/// Compiles them, and runs them: on a GPU if there is one; those that need it say so where not.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    if options.release {
        cargo(workspace, "build --quiet --locked --release --bins")?;
        println!("{}", workspace.target.join("neighbours/release").display());
        return Ok(());
    }
    check(workspace)?;
    cargo(workspace, "run --quiet --locked --bin candle")?;
    cargo(workspace, "run --quiet --locked --bin cuda_core")?;
    cargo(workspace, "run --quiet --locked --bin cuda_std_names")?;
    cargo(workspace, "run --quiet --locked --bin filter")?;
    // Its programs are linked to the driver.
    if Path::new("/proc/driver/nvidia/version").exists() {
        return cargo(workspace, "run --quiet --locked --bin cust");
    }
    println!("the example with cust is compiled only: it does not start without a driver");
    cargo(workspace, "build --quiet --locked --bin cust")
}

/// Compiles them.
pub fn check(workspace: &Workspace) -> Result<()> {
    cargo(workspace, "clippy --quiet --locked -- -D warnings")
}

/// Runs a command of cargo on them.
fn cargo(workspace: &Workspace, line: &str) -> Result<()> {
    let header = HEADERS.install(&workspace.target)?;
    let toolkit = header.ancestors().nth(2).context("nvidia/cu13")?;
    let packages = header.ancestors().nth(4).context("site-packages")?;
    process::run(
        process::cargo(workspace)
            .current_dir(workspace.root.join("examples/neighbours"))
            .args(line.split_whitespace())
            .env("CARGO_TARGET_DIR", workspace.target.join("neighbours"))
            .env("CUDA_TOOLKIT_PATH", toolkit)
            .env("CUDA_LIBRARY_PATH", libraries(workspace)?)
            .env("LIBCLANG_PATH", packages.join("clang/native"))
            .env("BINDGEN_EXTRA_CLANG_ARGS", includes()?),
    )
}

/// The folder that `cust` looks for: in its `lib64` a library for the linker, with the names of all functions of the driver
/// that `cust` has, for machines without a driver. Programs load the driver's own.
fn libraries(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target.join("cuda-libraries");
    let library = folder.join("lib64/libcuda.so");
    if library.is_file() {
        return Ok(folder);
    }
    let packages = process::capture(
        process::cargo(workspace)
            .current_dir(workspace.root.join("examples/neighbours"))
            .args(["metadata", "--locked", "--format-version=1"]),
    )?;
    let packages: Value = serde_json::from_slice(&packages.stdout)?;
    let mut packages = packages["packages"].as_array().into_iter().flatten();
    let bindings = packages.find(|package| package["name"] == "cust_raw");
    let bindings = bindings.and_then(|package| package["manifest_path"].as_str());
    let bindings = Path::new(bindings.context("cust_raw is no dependency")?);
    let bindings = fs::read_to_string(bindings.with_file_name("src").join("cuda.rs"))?;
    let functions = bindings.lines().filter_map(|line| {
        let (name, _) = line.trim().strip_prefix("pub fn ")?.split_once('(')?;
        Some(format!("void {name}(void) {{}}\n"))
    });
    let source = folder.join("driver.c");
    fs::create_dir_all(folder.join("lib64"))?;
    fs::write(&source, functions.collect::<String>())?;
    process::run(
        Command::new("cc")
            .args([
                "-w",
                "-shared",
                "-fno-builtin",
                "-Wl,-soname,libcuda.so.1",
                "-o",
            ])
            .args([&library, &source]),
    )?;
    Ok(folder)
}

/// The C compiler's own headers, which `libclang` alone does not have.
fn includes() -> Result<String> {
    let asked = Command::new("cc")
        .arg("-print-file-name=include")
        .output()
        .context("the headers of a C compiler are needed (Debian: apt-get install gcc)")?;
    let path = String::from_utf8(asked.stdout)?;
    Ok(format!("-I{}", Path::new(path.trim()).display()))
}
