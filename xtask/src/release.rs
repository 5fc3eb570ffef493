//! `cargo xtask release --dry-run`: everything that a release needs, except the upload.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{package, process, python};

/// Which part.
#[derive(clap::Args)]
pub struct Options {
    /// Upload nothing: the only way that there is, since the uploads are made by hand.
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    if !options.dry_run {
        bail!(
            "only `--dry-run` is there: CONTRIBUTING.md, Versions and releases, has the steps that upload"
        );
    }
    let version = version(&package::published(workspace)?)?;
    let mut missing = Vec::new();
    let changelog = fs::read_to_string(workspace.root.join("CHANGELOG.md"))?;
    missing.extend(changelog_lacks(&changelog, &version));
    missing.extend(manifest_lacks(workspace)?);
    missing.extend(tree_lacks(workspace)?);
    package::check(workspace)?;
    python::run(workspace, &python::Options::release())?;
    println!("\n{version}: packages and wheel are built and tested, nothing is uploaded");
    if !missing.is_empty() {
        bail!("before an upload: {}", missing.join("; "));
    }
    Ok(())
}

/// The version that all published crates have.
pub fn version(published: &[(String, String)]) -> Result<String> {
    let (first, version) = published.first().context("no crate is published")?;
    for (name, other) in published {
        if other != version {
            bail!("{first} has version {version}, {name} {other}: all have the same");
        }
    }
    Ok(version.clone())
}

/// What the changelog lacks of a section of this version.
fn changelog_lacks(changelog: &str, version: &str) -> Option<String> {
    let (_, section) = match changelog.split_once(&format!("\n## [{version}] - ")) {
        Some(parts) => parts,
        None => {
            return Some(format!(
                "CHANGELOG.md has no section [{version}] with a date"
            ));
        }
    };
    let section = section.split("\n## ").next().unwrap_or_default();
    let has_entries = section.lines().any(|line| line.starts_with("- "));
    (!has_entries).then(|| format!("CHANGELOG.md says nothing of {version}"))
}

/// What the manifest lacks of the fields that a registry shows.
fn manifest_lacks(workspace: &Workspace) -> Result<Option<String>> {
    let manifest = fs::read_to_string(workspace.root.join("Cargo.toml"))?;
    let manifest: toml::Table = manifest.parse()?;
    let there = manifest["workspace"]["package"].get("repository");
    Ok(there
        .is_none()
        .then(|| "Cargo.toml has no `repository` in [workspace.package]".to_owned()))
}

/// What is in the checkout but not in a commit.
fn tree_lacks(workspace: &Workspace) -> Result<Option<String>> {
    let status = process::capture(
        std::process::Command::new("git")
            .args(["status", "--porcelain"])
            .current_dir(&workspace.root),
    )?;
    Ok((!status.stdout.is_empty())
        .then(|| "the checkout has changes that no commit has".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_has_a_date_and_entries() {
        let unreleased = "# Changelog\n\n## [Unreleased]\n\n- one\n";
        assert!(
            changelog_lacks(unreleased, "0.1.0")
                .unwrap()
                .contains("no section")
        );
        let empty = "# Changelog\n\n## [0.2.0] - 2027-01-01\n\n## [0.1.0] - 2026-12-01\n\n- one\n";
        assert!(changelog_lacks(empty, "0.2.0").unwrap().contains("nothing"));
        assert_eq!(changelog_lacks(empty, "0.1.0"), None);
    }

    #[test]
    fn crates_of_two_versions_are_refused() {
        let named = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        let same = [named("a", "1.0.0"), named("b", "1.0.0")];
        assert_eq!(version(&same).unwrap(), "1.0.0");
        let error = version(&[named("a", "1.0.0"), named("b", "1.0.1")]).unwrap_err();
        assert!(error.to_string().contains("b 1.0.1"));
    }
}
