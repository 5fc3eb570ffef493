//! The call of rust-cuda's `cuda_builder`, for a `build.rs`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::arch::Arch;
use crate::build;
use crate::package::Package;
use crate::toolchain::Toolchain;

/// Compiles a crate of kernels to one PTX text, as [`cuda_builder`](https://docs.rs/cuda_builder/0.3.0) does, by rustc's own target. It
/// finds a compiler as `gpumap-lint` does: any rustc with the source of `core`; if there is none, the error says how to get one.
///
/// ```no_run
/// // In a `build.rs`:
/// use gpumap_lint::CudaBuilder;
///
/// fn main() {
///     let built = CudaBuilder::new("kernels").copy_to("ptx/kernels.ptx").build();
///     built.expect("the kernels");
/// }
/// ```
#[derive(Debug)]
pub struct CudaBuilder {
    path: PathBuf,
    copy_to: Option<PathBuf>,
    arch: Arch,
    target: Option<PathBuf>,
}

impl CudaBuilder {
    /// Of the crate of this folder.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_path_buf(),
            copy_to: None,
            arch: Arch::Sm70,
            target: None,
        }
    }

    /// Writes the text there too. A file that has it already is not touched.
    #[must_use]
    pub fn copy_to(mut self, file: impl AsRef<Path>) -> Self {
        self.copy_to = Some(file.as_ref().to_path_buf());
        self
    }

    /// For GPUs from this one on; by default sm_70.
    #[must_use]
    pub fn arch(mut self, arch: Arch) -> Self {
        self.arch = arch;
        self
    }

    /// Where to compile; by default `OUT_DIR`, which a `build.rs` has: cargo holds a lock on its own build folder.
    #[must_use]
    pub fn target(mut self, folder: impl AsRef<Path>) -> Self {
        self.target = Some(folder.as_ref().to_path_buf());
        self
    }

    /// Compiles, and returns where the text lies. Prints for cargo what to watch: the folder of the crate.
    pub fn build(self) -> Result<PathBuf> {
        let package = Package::find(&self.path.join("Cargo.toml"))?;
        let target = match self.target {
            Some(folder) => folder,
            None => env::var_os("OUT_DIR")
                .context("outside of a build.rs say where to compile: CudaBuilder::target")?
                .into(),
        };
        println!("cargo:rerun-if-changed={}", package.folder.display());
        let toolchain = Toolchain::find()?;
        let source = package.source(&target);
        let archs = [self.arch];
        let built = build::build(source, &toolchain, &package.folder, "CudaBuilder", &archs)?;
        for warning in built.warnings.iter().flat_map(|it| it.lines()) {
            println!("cargo:warning={warning}");
        }
        let (_, text) = &built.files[0];
        let stem = build::file_stem(&package.name, self.arch);
        let file = target.join(stem).with_added_extension("ptx");
        for file in self.copy_to.iter().chain([&file]) {
            if fs::read_to_string(file).is_ok_and(|it| it == *text) {
                continue;
            }
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(file, text).with_context(|| file.display().to_string())?;
        }
        Ok(file)
    }
}
