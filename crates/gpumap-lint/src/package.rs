//! A crate of kernels as cargo knows it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::compile::Source;
use crate::process::capture;

/// A crate of kernels.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder, which has its tables.
    pub folder: PathBuf,
    /// The folder of its workspace.
    pub root: PathBuf,
    /// Where that is built.
    pub target: PathBuf,
}

impl Package {
    /// Asks cargo for the package of a manifest.
    pub fn find(manifest: &Path) -> Result<Self> {
        let shown = manifest.display();
        let manifest = manifest.canonicalize();
        let manifest = manifest.with_context(|| shown.to_string())?;
        let output = capture(
            Command::new("cargo")
                .args(["metadata", "--no-deps", "--format-version=1"])
                .arg("--manifest-path")
                .arg(&manifest),
        )?;
        Self::read(&serde_json::from_slice(&output.stdout)?, &manifest)
    }

    fn read(metadata: &Value, manifest: &Path) -> Result<Self> {
        let text = |value: &Value, field: &str| {
            let text = value[field].as_str().map(str::to_owned);
            text.with_context(|| format!("cargo metadata has no {field}"))
        };
        let packages = metadata["packages"]
            .as_array()
            .context("cargo metadata has no packages")?;
        let mut packages = packages.iter();
        let package =
            packages.find(|one| one["manifest_path"].as_str().map(Path::new) == Some(manifest));
        let package =
            package.with_context(|| format!("{} is of no package", manifest.display()))?;
        let folder = manifest.parent().context("a manifest has a folder")?;
        Ok(Self {
            name: text(package, "name")?,
            folder: folder.to_path_buf(),
            root: text(metadata, "workspace_root")?.into(),
            target: text(metadata, "target_directory")?.into(),
        })
    }

    /// What is compiled, into `target`.
    pub fn source<'a>(&'a self, target: &'a Path) -> Source<'a> {
        Source {
            root: &self.root,
            target,
            package: &self.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_found_by_its_manifest() {
        let metadata = serde_json::json!({
            "packages": [
                { "name": "app", "manifest_path": "/a/Cargo.toml" },
                { "name": "my-own-kernels", "manifest_path": "/a/kernels/Cargo.toml" },
            ],
            "workspace_root": "/a",
            "target_directory": "/t",
        });
        let kernels = Package::read(&metadata, Path::new("/a/kernels/Cargo.toml")).unwrap();
        assert_eq!(kernels.name, "my-own-kernels");
        assert_eq!(kernels.folder, Path::new("/a/kernels"));
        assert_eq!(kernels.root, Path::new("/a"));
        assert!(Package::read(&metadata, Path::new("/b/Cargo.toml")).is_err());
    }
}
