//! Is `rust-version` honest? Checked as far as the machine can: by the oldest compiler itself
//! where it runs or is installed, by the dependencies' own word everywhere.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::ci::Unchecked;
use crate::process::{capture, cargo, probe, run};
use crate::workspace::Workspace;

/// Runs the check.
pub fn check(workspace: &Workspace) -> Result<Unchecked> {
    let output = capture(cargo(workspace).args(["metadata", "--format-version=1", "--locked"]))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let promised = promised(&metadata).context("no member of the workspace has a rust-version")?;
    let newer = newer_dependencies(&metadata, &promised);
    if !newer.is_empty() {
        bail!(
            "rust-version is {promised}, but these dependencies need more: {}",
            newer.join(", ")
        );
    }
    println!("rust-version {promised}: no dependency asks for more");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let own = probe(rustc.arg("--version").current_dir(&workspace.root)).unwrap_or_default();
    if is_of(&own, &promised) {
        println!("all other steps are compiled by it: {}", own.trim());
        return Ok(Unchecked::nothing());
    }
    let Some(toolchain) = installed(&promised) else {
        return Ok(Unchecked::some(format!(
            "nothing was compiled by rust-version {promised}, which is not installed here (this is \
             {}). clippy's incompatible_msrv knows since when each item of the standard library \
             exists, but not the language",
            own.trim()
        )));
    };
    println!("checking with {toolchain}");
    let target = workspace.target.join("msrv");
    run(Command::new("rustup")
        .current_dir(&workspace.root)
        .args([
            "run",
            &toolchain,
            "cargo",
            "check",
            "--locked",
            "--workspace",
        ])
        .arg("--target-dir")
        .arg(target)
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTC")
        .env_remove("CARGO"))?;
    Ok(Unchecked::nothing())
}

/// Whether `rustc --version` is a release of that version.
fn is_of(version: &str, promised: &str) -> bool {
    let release = version.split_whitespace().nth(1);
    // A nightly or a beta of that version knows more than the release.
    release.is_some_and(|text| {
        !text.contains('-') && release_of(text)[..2] == release_of(promised)[..2]
    })
}

/// The `rust-version` of the workspace's members; they share one.
fn promised(metadata: &Value) -> Option<String> {
    packages(metadata)
        .find(|package| package["source"].is_null())
        .and_then(|package| package["rust_version"].as_str())
        .map(str::to_owned)
}

/// The dependencies that say they need a newer compiler, with what they need.
fn newer_dependencies(metadata: &Value, promised: &str) -> Vec<String> {
    packages(metadata)
        .filter_map(|package| {
            let needs = package["rust_version"].as_str()?;
            (release_of(needs) > release_of(promised)).then(|| {
                let name = package["name"].as_str().unwrap_or("?");
                format!("{name} ({needs})")
            })
        })
        .collect()
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

/// A release as numbers, so that 1.9 comes before 1.89; missing parts are zero.
fn release_of(text: &str) -> [u32; 3] {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

/// rustup's toolchain of that release, if it is installed.
fn installed(promised: &str) -> Option<String> {
    let list = probe(Command::new("rustup").args(["toolchain", "list"]))?;
    toolchain_of(&list, promised)
}

fn toolchain_of(list: &str, promised: &str) -> Option<String> {
    list.lines()
        .filter_map(|line| line.split_whitespace().next())
        .find(|name| {
            name.strip_prefix(promised)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
        })
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dependencies_that_need_more_are_named() {
        let metadata = json!({"packages": [
            {"name": "gpumap", "source": null, "rust_version": "1.89"},
            {"name": "old", "source": "registry", "rust_version": "1.9"},
            {"name": "same", "source": "registry", "rust_version": "1.89.0"},
            {"name": "silent", "source": "registry", "rust_version": null},
            {"name": "new", "source": "registry", "rust_version": "1.90"},
        ]});
        let promised = promised(&metadata).unwrap();
        assert_eq!(promised, "1.89");
        assert_eq!(newer_dependencies(&metadata, &promised), ["new (1.90)"]);
    }

    #[test]
    fn the_compiler_that_runs_may_be_it() {
        let version = "rustc 1.89.1 (59807616e 2026-04-14)";
        assert!(is_of(version, "1.89") && is_of(version, "1.89.0"));
        assert!(!is_of(version, "1.8") && !is_of("", "1.89"));
        assert!(!is_of(
            "rustc 1.89.0-nightly (59807616e 2026-04-14)",
            "1.89"
        ));
    }

    #[test]
    fn toolchains_are_matched_by_whole_numbers() {
        let list = "stable-x86_64 (default)\n1.8-x86_64\n1.89.0-x86_64-unknown-linux-gnu\n";
        let found = toolchain_of(list, "1.89");
        assert_eq!(found.as_deref(), Some("1.89.0-x86_64-unknown-linux-gnu"));
        assert_eq!(toolchain_of("1.891-x\nstable\n", "1.89"), None);
    }
}
