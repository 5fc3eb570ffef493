//! `cargo xtask package`: every crate that is published is built from its own package, and so is the example that users copy. A small
//! program that uses the library runs, and its size is bounded. What is done before an upload, and all of it but the upload.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::mirror::mirror;
use crate::process;
use crate::workspace::Workspace;

/// A program that uses the library.
const HELLO: &str = "gpumap-hello";

/// Programs, each with the most bytes that it may have, without symbols. The command line had 171 MB with symbols and line tables.
const PROGRAMS: [(&str, u64); 2] = [(HELLO, 4_600_000), ("gpumap", 20_000_000)];

/// What a registry takes for a package at most.
const PACKAGE_BYTES: u64 = 10 << 20;

/// Runs the command.
pub fn check(workspace: &Workspace) -> Result<()> {
    let packages = published(workspace)?;
    let mut command = process::cargo(workspace);
    command
        .args(["package", "--locked", "--quiet"])
        // As they lie in the checkout: what is not committed yet is to be tried too.
        .arg("--allow-dirty")
        // Cargo takes crates of one name and version for the same, also when they have changed since it unpacked them.
        .arg("--no-verify");
    for (name, _) in &packages {
        command.args(["--package", name]);
    }
    process::run(&mut command)?;
    let folder = workspace.target.join("package");
    for (name, version) in &packages {
        let package = folder.join(format!("{name}-{version}"));
        let archive = package.with_added_extension("crate");
        unpack(&archive, &package)?;
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            if !package.join(file).is_file() {
                bail!("the package of {name} has no {file}");
            }
        }
        let bytes = fs::metadata(archive)?.len();
        println!("{name} {version}: {} KB", bytes / 1000);
        if bytes > PACKAGE_BYTES {
            bail!("the package of {name} is too large for a registry");
        }
    }
    compile(workspace, &folder, &packages)?;
    template(workspace, &folder, &packages)?;
    programs(workspace)
}

/// Unpacks a package into the folder beside it that has its name.
fn unpack(archive: &Path, package: &Path) -> Result<()> {
    let unpacked = package.with_added_extension("unpacked");
    if unpacked.is_dir() {
        fs::remove_dir_all(&unpacked)?;
    }
    fs::create_dir_all(&unpacked)?;
    process::run(
        Command::new("tar")
            .arg("-xzf")
            .arg(archive)
            .args(["--strip-components", "1", "-C"])
            .arg(&unpacked),
    )?;
    mirror(&unpacked, package)?;
    Ok(fs::remove_dir_all(&unpacked)?)
}

/// Compiles every package as it was unpacked, on the others and on the versions of the checkout.
fn compile(workspace: &Workspace, folder: &Path, packages: &[(String, String)]) -> Result<()> {
    let members: Vec<_> = packages
        .iter()
        .map(|(name, version)| format!("{name}-{version}"))
        .collect();
    // With the workspace's profile other crates are the same ones, and are not compiled again.
    let own = fs::read_to_string(workspace.root.join("Cargo.toml"))?;
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = {members:?}\n{}{}",
        patches(folder, packages),
        sections(&own, "[profile.dev")
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(workspace.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    process::run(process::cargo(workspace).current_dir(folder).args([
        "check",
        "--workspace",
        "--quiet",
    ]))
}

/// The tables of a manifest whose headers begin so.
fn sections(manifest: &str, header: &str) -> String {
    let mut is_inside = false;
    let lines = manifest.split_inclusive('\n').filter(|line| {
        if line.starts_with('[') {
            is_inside = line.starts_with(header);
        }
        is_inside
    });
    lines.collect()
}

/// A manifest's table that puts the packages where a registry's would be.
fn patches(folder: &Path, packages: &[(String, String)]) -> String {
    let paths = packages.iter().map(|package| path(folder, package));
    format!("[patch.crates-io]\n{}", paths.collect::<String>())
}

/// A line of a manifest that says where a package is.
fn path(folder: &Path, (name, version): &(String, String)) -> String {
    let path = folder.join(format!("{name}-{version}"));
    format!("{name} = {{ path = {path:?} }}\n")
}

/// The names and versions of the crates that are published.
pub fn published(workspace: &Workspace) -> Result<Vec<(String, String)>> {
    let output = process::capture(process::cargo(workspace).args([
        "metadata",
        "--no-deps",
        "--locked",
        "--format-version=1",
    ]))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    // `publish = false` is an empty list of registries.
    let published = packages.iter().filter(|one| one["publish"].is_null());
    published
        .map(|one| {
            let text = |field: &str| one[field].as_str().map(str::to_owned).context("no text");
            Ok((text("name")?, text("version")?))
        })
        .collect()
}

/// The example that users copy, and the paths in its manifests.
const TEMPLATE: &str = "examples/word-pairs";
const TEMPLATE_PATHS: [(&str, &str); 2] = [
    ("Cargo.toml", "\"../../"),
    ("kernels/Cargo.toml", "\"../../../"),
];

/// How it is compiled: what is not ours as for the program of the checkout. The library has nothing to do here for which it would
/// take a minute to optimise it.
const PROFILE: &str = "[profile.release]
strip = true
[profile.release.package.gpumap]
opt-level = 0
[profile.release.package.gpumap-kernels]
opt-level = 0
[profile.release.package.gpumap-simt]
opt-level = 0
";

/// Copies the example elsewhere, runs it on the CPU, compiles its kernels as a user would, and checks them.
fn template(workspace: &Workspace, folder: &Path, packages: &[(String, String)]) -> Result<()> {
    let copy = workspace.target.join("template");
    mirror(&workspace.root.join(TEMPLATE), &copy)?;
    for (manifest, up) in TEMPLATE_PATHS {
        let mut text = fs::read_to_string(copy.join(manifest))?;
        for (name, version) in packages {
            let there = folder.join(format!("{name}-{version}"));
            text = text.replace(&format!("{up}crates/{name}\""), &format!("{there:?}"));
        }
        // What is not published is in the checkout only.
        text = text.replace(up, &format!("\"{}/", workspace.root.display()));
        if manifest == "Cargo.toml" {
            text += &format!("\n[workspace]\n\n{PROFILE}\n{}", patches(folder, packages));
        }
        fs::write(copy.join(manifest), text)?;
    }
    fs::copy(workspace.root.join("Cargo.lock"), copy.join("Cargo.lock"))?;
    let mut run = process::cargo(workspace);
    run.current_dir(&copy).args(["run", "--release", "--quiet"]);
    let output = process::capture(run.env("GPUMAP_DEVICE", "cpu"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !text.contains(" launches\n") {
        bail!("the template printed {text:?}");
    }
    // Of the whole workspace, as the tests have it: of its package alone, some dependencies would be built again.
    let line = "build --quiet --locked --workspace --bin gpumap-lint";
    process::run(process::cargo(workspace).args(line.split(' ')))?;
    let lint = |action: &str| {
        let mut command = Command::new(workspace.target.join("debug/gpumap-lint"));
        // Not that of the workspace, whose kernels of that name go to files of the same name.
        command.env("CARGO_TARGET_DIR", workspace.target.join("template-target"));
        command.arg(action);
        for (name, path) in [("--manifest-path", "kernels/Cargo.toml"), ("--ptx", "ptx")] {
            command.arg(name).arg(copy.join(path));
        }
        command
    };
    process::run(&mut lint("ptx"))?;
    process::run(lint("lint").arg("--tools").arg(&workspace.target))
}

/// Builds a program that uses the library and the command line, runs the first on the CPU, and compares their sizes.
fn programs(workspace: &Workspace) -> Result<()> {
    // Both at once, so that `cargo run --release` finds the second: alone, the dependencies of the first had fewer features.
    let line = "build --release --quiet --locked --package gpumap-cli --package";
    process::run(process::cargo(workspace).args(line.split(' ')).arg(HELLO))?;
    let folder = workspace.target.join("release");
    // The kernels of maps have no code for lanes here, and run on the device that checks kernels all the same.
    for device in ["cpu", "checked"] {
        let hello = folder.join(HELLO);
        let output = process::capture(Command::new(hello).env("GPUMAP_DEVICE", device))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if text.trim() != "[Some(20), None]" {
            bail!("the program printed {text:?} on the device {device}");
        }
    }
    for (program, most) in PROGRAMS {
        let bytes = fs::metadata(folder.join(program))?.len();
        println!("{program}: {} KB", bytes / 1000);
        if bytes > most {
            bail!("the program {program} has more than {most} bytes");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_taken_by_their_headers() {
        let manifest = "[a]\nx = 1\n[profile.dev]\ny = [\n  2,\n]\n[profile.dev.package.\"*\"]\nz = 3\n\
            [profile.release]\nu = 4\n";
        assert_eq!(
            sections(manifest, "[profile.dev"),
            "[profile.dev]\ny = [\n  2,\n]\n[profile.dev.package.\"*\"]\nz = 3\n"
        );
        assert_eq!(sections(manifest, "[profile.test"), "");
    }
}
