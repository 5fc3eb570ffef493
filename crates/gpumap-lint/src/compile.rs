//! Compiles a kernel crate to PTX, with rustc's own NVPTX back end.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::arch::Arch;
use crate::process::isolate;
use crate::toolchain::Toolchain;

const TARGET: &str = "nvptx64-nvidia-cuda";
const PROFILE: &str = "ptx";

/// The profile, which the manifest need not have: one PTX module, everything inlined.
const SETTINGS: [&str; 6] = [
    "inherits = 'release'",
    "lto = 'fat'",
    "codegen-units = 1",
    "panic = 'abort'",
    "debug = false",
    // As without it in `release`: what it says is part of the names in the PTX.
    "strip = 'debuginfo'",
];

/// A crate of kernels.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The folder of its workspace.
    pub root: &'a Path,
    /// Where builds go.
    pub target: &'a Path,
    /// Its package.
    pub package: &'a str,
}

/// The result of the assembly of one architecture.
pub struct Compiled {
    /// The back end's output as it is.
    pub text: String,
    /// The compiler's warnings about this workspace's code.
    pub warnings: BTreeSet<String>,
}

/// The code generation flags that decide what comes out; the PTX header records them.
pub fn flags(arch: Arch) -> Vec<String> {
    let mut flags = vec![
        format!("-Ctarget-cpu={arch}"),
        // PTX 8.3 is the first with 128-bit compare-and-swap; drivers from 12.3 on read it.
        "-Ctarget-feature=+ptx83".to_owned(),
        // JumpThreading duplicates barriers and votes into divergent branches
        // (rust-lang/rust#149637): wrong results and hangs, not just slow code.
        "-Zmir-enable-passes=-JumpThreading".to_owned(),
        // Keeps unrolled register arrays out of local memory.
        "-Cllvm-args=-unroll-threshold=4000".to_owned(),
    ];
    if arch >= Arch::Sm90 {
        flags.push("--cfg=gpumap_sm90".to_owned());
    }
    flags
}

/// Compiles `source` for `arch`.
pub fn compile(source: Source<'_>, toolchain: &Toolchain, arch: Arch) -> Result<Compiled> {
    let Source {
        root,
        target,
        package,
    } = source;
    // One folder for each architecture, apart from the normal build: the flags differ, so
    // sharing one would rebuild `core` at every turn.
    let target = target.join("ptx").join(arch.name());
    let mut rustflags = flags(arch);
    // Nothing is linked: the assembly is the result.
    rustflags.push("-Clinker=/bin/true".to_owned());
    for (folder, name) in [(root, "/gpumap"), (&*toolchain.sysroot, "/rust")] {
        rustflags.push(format!("--remap-path-prefix={}={name}", folder.display()));
    }

    let mut command = Command::new(&toolchain.cargo);
    isolate(&mut command)
        .current_dir(root)
        // `-Zbuild-std` is unstable, and so are the kernels' device intrinsics.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", &toolchain.rustc)
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags.join("\u{1f}"))
        .env("CARGO_INCREMENTAL", "0")
        .args(SETTINGS.map(|setting| format!("--config=profile.{PROFILE}.{setting}")))
        .args(["rustc", "--package", package, "--profile", PROFILE])
        .args(["--crate-type", "cdylib", "-Zbuild-std=core"])
        .args(["--target", TARGET, "--message-format=json"])
        .arg("--target-dir")
        .arg(&target)
        .args(["--", "--emit=asm"]);
    let output = command
        .output()
        .with_context(|| format!("could not start {}", toolchain.cargo.display()))?;
    let (errors, warnings) = diagnostics(&String::from_utf8_lossy(&output.stdout));
    if !output.status.success() {
        anyhow::bail!(
            "{package} does not compile for {arch}\n{}\n{}",
            errors.join("\n"),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let assembly = target
        .join(TARGET)
        .join(PROFILE)
        .join("deps")
        .join(format!("{}.s", package.replace('-', "_")));
    Ok(Compiled {
        text: read(&assembly)?,
        warnings,
    })
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("the build made no {}", path.display()))
}

/// The rendered errors and warnings of `cargo --message-format=json`.
fn diagnostics(stdout: &str) -> (Vec<String>, BTreeSet<String>) {
    let (mut errors, mut warnings) = (Vec::new(), BTreeSet::new());
    for line in stdout.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let message = &event["message"];
        let Some(rendered) = message["rendered"].as_str() else {
            continue;
        };
        match message["level"].as_str() {
            Some("warning") if !is_expected(rendered) => {
                warnings.insert(rendered.trim_end().to_owned());
            }
            Some("error") => errors.push(rendered.trim_end().to_owned()),
            _ => {}
        }
    }
    (errors, warnings)
}

/// Warnings that say nothing: the PTX version can only be requested as a target feature that
/// is not stable, and the summary line only counts.
fn is_expected(rendered: &str) -> bool {
    rendered.contains("unstable feature specified for `-Ctarget-feature`")
        || rendered.contains("warnings emitted")
        || rendered.contains("warning emitted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagnostics_are_sorted_out() {
        let stdout = r#"{"reason":"compiler-message","message":{"level":"warning","rendered":"warning: unused\n"}}
{"reason":"compiler-message","message":{"level":"warning","rendered":"warning: unstable feature specified for `-Ctarget-feature`: `ptx83`"}}
{"reason":"compiler-message","message":{"level":"error","rendered":"error: no\n"}}
{"reason":"build-finished","success":false}
not json"#;
        let (errors, warnings) = diagnostics(stdout);
        assert_eq!(errors, ["error: no"]);
        assert_eq!(
            warnings.into_iter().collect::<Vec<_>>(),
            ["warning: unused"]
        );
    }

    #[test]
    fn only_hopper_gets_the_cfg() {
        let has = |arch| flags(arch).iter().any(|flag| flag == "--cfg=gpumap_sm90");
        assert!(has(Arch::Sm90) && !has(Arch::Sm70));
    }
}
