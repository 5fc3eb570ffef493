//! Where things are: the workspace root, the build folder, the checked-in PTX and its tables.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::arch::Arch;

/// The crate whose PTX the library ships.
pub const KERNELS: &str = "gpumap-kernels";

/// The folders that every command needs.
pub struct Workspace {
    /// The folder of the workspace's `Cargo.toml`.
    pub root: PathBuf,
    /// Where builds go: `CARGO_TARGET_DIR`, else `target`.
    pub target: PathBuf,
}

impl Workspace {
    /// The workspace that this program was built in.
    pub fn find() -> Result<Self> {
        // The run-time variable first: the checkout may have been moved since the build.
        let manifest = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest
            .parent()
            .context("xtask has no parent folder")?
            .to_path_buf();
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => env::current_dir()?.join(folder),
            None => root.join("target"),
        };
        Ok(Workspace { root, target })
    }

    /// The folder of the PTX that the library ships.
    pub fn shipped_ptx(&self) -> PathBuf {
        self.root.join("crates/gpumap/ptx")
    }

    /// The folder of the kernel crate.
    pub fn kernels(&self) -> PathBuf {
        self.root.join("crates").join(KERNELS)
    }

    /// `path` as seen from the root, for messages.
    pub fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}

/// The file name of a package's PTX: the kernel crate's carries the library's name.
pub fn ptx_file_name(package: &str, arch: Arch) -> String {
    let stem = package.strip_suffix("-kernels").unwrap_or(package);
    format!("{}_{arch}.ptx", stem.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names() {
        assert_eq!(ptx_file_name(KERNELS, Arch::Sm90), "gpumap_sm_90.ptx");
        assert_eq!(ptx_file_name("my-toy", Arch::Sm70), "my_toy_sm_70.ptx");
    }
}
