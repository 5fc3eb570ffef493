//! `cargo xtask bundle`: one folder with the release test programs, the benchmark, the soak, the litmus tests, the
//! command line program, which the benchmark starts, and `run.sh`, for a GPU machine that has no Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::grid::Grid;
use crate::process::{cargo, display};
use crate::workspace::Workspace;

const RUN_SCRIPT: &str = include_str!("run.sh");
/// The packages whose tests go into the bundle.
const TESTED: [&str; 4] = ["gpumap", "gpumap-simt", "gpumap-tests", "word-pairs"];
/// Their tests that have nothing to do with a GPU, and read files of the source.
const LEFT_OUT: [&str; 4] = ["advice", "fuzz", "guide", "saved_files"];
/// The packages whose programs go into the bundle.
const PROGRAMS: [&str; 3] = ["gpumap-cli", "gpumap-benches", "gpumap-tests"];
/// A library for PyTorch's process, and the program in Python that loads it.
const BESIDE_TORCH: &str = "beside_torch";
/// A bundle travels to a machine that has the GPU: it must stay small.
const SIZE_LIMIT: u64 = 256 << 20;

/// Where to.
#[derive(clap::Args)]
pub struct Options {
    /// The folder to make, by default `bundle` in the build folder; one that is there is
    /// replaced.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A program that cargo has built.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    package: String,
    target: String,
    is_test: bool,
    path: PathBuf,
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let out = match &options.out {
        Some(out) => out.clone(),
        None => workspace.target.join("bundle"),
    };
    clear(&out)?;
    // First: a bundle that was not finished is one that the next replaces.
    let script = out.join("run.sh");
    fs::write(&script, RUN_SCRIPT)?;
    make_executable(&script)?;

    let mut grid = Grid::new(["program", "KiB"]);
    let mut tests = build(workspace, &["test", "--no-run"], &TESTED)?;
    tests.retain(|program| program.is_test && !LEFT_OUT.contains(&&*program.target));
    for program in &tests {
        let name = format!("tests/{}.{}", program.package, program.target);
        let size = fs::copy(&program.path, out.join(&name))?;
        grid.row([name, (size >> 10).to_string()]);
    }
    let programs = build(workspace, &["build", "--bins"], &PROGRAMS)?;
    for program in programs {
        let name = format!("bin/{}", program.target);
        let size = fs::copy(&program.path, out.join(&name))?;
        grid.row([name, (size >> 10).to_string()]);
    }
    build(
        workspace,
        &["build", "--example", BESIDE_TORCH],
        &["gpumap-tests"],
    )?;
    let library = format!("lib{BESIDE_TORCH}.so");
    let built = workspace.target.join("release/examples").join(&library);
    let size = fs::copy(&built, out.join("bin").join(&library))?;
    grid.row([format!("bin/{library}"), (size >> 10).to_string()]);
    let program = format!("{BESIDE_TORCH}.py");
    let source = workspace.root.join("tests/examples").join(&program);
    fs::copy(source, out.join("bin").join(&program))?;
    let data = workspace.root.join("data");
    if data.is_dir() {
        copy_folder(&data, &out.join("data"))?;
    }
    let size = folder_size(&out)?;
    println!("{grid}");
    println!(
        "{}: {:.1} MiB",
        out.display(),
        size as f64 / f64::from(1 << 20)
    );
    println!("there: ./run.sh tests | sanitize | litmus | soak | torch | bench");
    if tests.is_empty() {
        bail!("no test program was built");
    }
    if size > SIZE_LIMIT {
        bail!("the bundle is larger than {} MiB", SIZE_LIMIT >> 20);
    }
    Ok(())
}

/// Removes an earlier bundle, and nothing that is not one.
fn clear(out: &Path) -> Result<()> {
    if out.join("run.sh").is_file() {
        fs::remove_dir_all(out)?;
    } else if out.is_dir() && fs::read_dir(out)?.next().is_some() {
        bail!("{} is there and is no bundle", out.display());
    }
    for folder in ["bin", "tests"] {
        fs::create_dir_all(out.join(folder))?;
    }
    Ok(())
}

/// Builds these packages in release mode and returns the programs that came of it.
fn build(workspace: &Workspace, arguments: &[&str], packages: &[&str]) -> Result<Vec<Program>> {
    let mut command = cargo(workspace);
    command
        .args(arguments)
        .args(["--release", "--message-format=json-render-diagnostics"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    for package in packages {
        command.args(["--package", package]);
    }
    let output = command.output().context("could not start cargo")?;
    if !output.status.success() {
        bail!("`{}` failed", display(&command));
    }
    let events = String::from_utf8_lossy(&output.stdout);
    Ok(events.lines().filter_map(program).collect())
}

/// The program that one line of `cargo --message-format=json` reports, if it reports one.
fn program(line: &str) -> Option<Program> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event["reason"] != "compiler-artifact" {
        return None;
    }
    // `path+file:///checkout/tests#gpumap-tests@0.1.0`, or without the name where it is the
    // folder's.
    let (source, id) = event["package_id"].as_str()?.split_once('#')?;
    let package = match id.split_once('@') {
        Some((name, _)) => name,
        None => source.rsplit('/').next()?,
    };
    Some(Program {
        package: package.to_owned(),
        target: event["target"]["name"].as_str()?.to_owned(),
        // Examples are tested, too, but show nothing that the tests do not.
        is_test: event["profile"]["test"].as_bool()? && event["target"]["kind"][0] != "example",
        path: event["executable"].as_str()?.into(),
    })
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for item in fs::read_dir(from)? {
        let item = item?;
        let target = to.join(item.file_name());
        if item.file_type()?.is_dir() {
            copy_folder(&item.path(), &target)?;
        } else {
            fs::copy(item.path(), target)?;
        }
    }
    Ok(())
}

fn folder_size(folder: &Path) -> Result<u64> {
    let mut size = 0;
    for item in fs::read_dir(folder)? {
        let item = item?;
        size += if item.file_type()?.is_dir() {
            folder_size(&item.path())?
        } else {
            item.metadata()?.len()
        };
    }
    Ok(size)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    bail!("bundles are made on Linux, for Linux")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_from_cargo() {
        let line = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/tests#gpumap-tests@0.1.0","target":{"kind":["test"],"name":"conformance"},"profile":{"test":true},"executable":"/t/conformance-1"}"#;
        let expected = Program {
            package: "gpumap-tests".into(),
            target: "conformance".into(),
            is_test: true,
            path: "/t/conformance-1".into(),
        };
        let example = line.replace(r#"["test"]"#, r#"["example"]"#);
        assert!(!program(&example).unwrap().is_test);
        assert_eq!(program(line), Some(expected));
        let short = line.replace("w/tests#gpumap-tests@", "w/crates/gpumap#");
        assert_eq!(program(&short).unwrap().package, "gpumap");
        let library = line.replace("\"/t/conformance-1\"", "null");
        assert_eq!(program(&library), None);
        assert_eq!(program("{\"reason\":\"build-finished\"}"), None);
        assert_eq!(program("warning: text"), None);
    }
}
