//! `cargo xtask neighbours`: compiles and runs `examples/neighbours`, the examples that share memory with crates which want the
//! headers of a CUDA toolkit. These come as Python packages.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

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

/// Compiles them, and runs them: on a GPU if there is one; those that need it say so where not.
pub fn run(workspace: &Workspace) -> Result<()> {
    check(workspace)?;
    cargo(workspace, "run --quiet --locked --bin candle")?;
    cargo(workspace, "run --quiet --locked --bin cuda_core")
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
            .env("LIBCLANG_PATH", packages.join("clang/native"))
            .env("BINDGEN_EXTRA_CLANG_ARGS", includes()?),
    )
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
