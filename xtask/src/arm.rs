//! Does the library compile for 64-bit Arm, the processor beside the GPU of Grace Hopper? Checked by the compiler that builds the
//! PTX: it has the source of the standard library, so no compiled one has to be installed.

use std::process::Command;

use anyhow::Result;
use gpumap_lint::process::{isolate, run};
use gpumap_lint::toolchain::Toolchain;

use crate::workspace::Workspace;

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Runs the check.
pub fn check(workspace: &Workspace) -> Result<()> {
    let toolchain = Toolchain::find()?;
    println!("{TARGET}, by {}", toolchain.identity);
    let mut cargo = Command::new(&toolchain.cargo);
    run(isolate(&mut cargo)
        .current_dir(&workspace.root)
        .args(["check", "--locked", "--package", "gpumap"])
        .args(["--target", TARGET, "-Zbuild-std=std,panic_abort"])
        .arg("--target-dir")
        .arg(workspace.target.join("arm"))
        .env("RUSTC", &toolchain.rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        // Also of code that only another processor leaves unused.
        .env("RUSTFLAGS", "-D warnings"))
}
