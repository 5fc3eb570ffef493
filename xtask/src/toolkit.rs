//! The library compiles whatever CUDA toolkit is installed, and needs no function of a driver that
//! is newer than the oldest one that it supports.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::process::{self, run};
use crate::workspace::Workspace;

/// An `nvcc` of a release that no bindings know.
const NVCC: &str = "#!/bin/sh
echo 'nvcc: NVIDIA (R) Cuda compiler driver'
echo 'Copyright (c) 2005-2099 NVIDIA Corporation'
echo 'Built on Fri_Jan__2_00:00:00_PST_2099'
echo 'Cuda compilation tools, release 99.9, V99.9.99'
";

/// The default features; the bindings of CUDA 12.3, the oldest driver that reads the PTX; and these without NCCL.
const FEATURES: [&str; 3] = [
    "",
    "--no-default-features --features nccl,cudarc/cuda-12030",
    "--no-default-features --features cudarc/cuda-12030",
];

/// Checks the library with such an `nvcc` in front of every other, with the bindings that are the
/// default and with the oldest, with NCCL and without.
pub fn check(workspace: &Workspace) -> Result<()> {
    // A folder of its own: cargo does not know that a build script looks along the PATH, so that a
    // result of another PATH would be taken for one of this.
    let target = workspace.target.join("toolkit");
    let programs = target.join("bin");
    install(&programs.join("nvcc")).context("could not write an nvcc to try")?;
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([programs].into_iter().chain(env::split_paths(&path)))?;
    for features in FEATURES {
        let mut command = process::cargo(workspace);
        command
            .env("PATH", &path)
            .env("CARGO_TARGET_DIR", &target)
            .args(["check", "--quiet", "--locked", "--package", "gpumap"])
            .args(features.split_whitespace());
        run(&mut command)?;
    }
    println!(
        "gpumap compiles beside an nvcc 99.9, with the bindings of CUDA 13.4 and of 12.3, with NCCL and without"
    );
    Ok(())
}

/// Writes the `nvcc`, and sees that it runs: one that does not would prove nothing.
fn install(path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, NVCC)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    match process::probe(&mut std::process::Command::new(path)) {
        Some(text) if text.contains("release 99.9") => Ok(()),
        _ => bail!("{} does not run", path.display()),
    }
}
