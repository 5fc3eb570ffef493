//! Where things are: the workspace root, the build folder, the checked-in PTX and its tables.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use brotli::enc::BrotliEncoderParams;
use brotli::{CompressorWriter, Decompressor};
use gpumap_lint::build::file_stem;
use gpumap_lint::compile::Source;

use crate::arch::Arch;

/// A crate of kernels whose PTX is checked in.
#[derive(Clone, Copy, Debug)]
pub struct KernelCrate {
    /// Its package.
    pub package: &'static str,
    /// Its folder, which has its tables of launch bounds and of collectives.
    pub folder: &'static str,
    /// Where its PTX goes.
    pub ptx: &'static str,
    /// How the names of its PTX files end. They are compressed, as text would be most of the size of programs and of the
    /// tree; that of the examples is for reading.
    pub ending: &'static str,
}

/// Of a text.
const TEXT: &str = "ptx";
/// Of a compressed one.
const BROTLI: &str = "ptx.br";

/// Bytes that are decompressed or compressed at a time.
const BUFFER: usize = 1 << 16;

/// Every crate whose PTX is checked in: what the library ships, what the tests of the facade and of
/// lent maps run on a GPU, kernels in rust-cuda's form, the rungs of the benchmark's ladders, the program's, and the example.
pub const KERNEL_CRATES: [KernelCrate; 7] = [
    KernelCrate {
        package: "gpumap-kernels",
        folder: "crates/gpumap-kernels",
        ptx: "crates/gpumap/ptx",
        ending: BROTLI,
    },
    KernelCrate {
        package: "gpumap-test-kernels",
        folder: "tests/kernels",
        ptx: "tests/ptx",
        ending: BROTLI,
    },
    KernelCrate {
        package: "gpumap-bench-kernels",
        folder: "benches/kernels",
        ptx: "benches/ptx",
        ending: BROTLI,
    },
    KernelCrate {
        package: "gpumap-map-test-kernels",
        folder: "tests/map-kernels",
        ptx: "tests/ptx",
        ending: BROTLI,
    },
    KernelCrate {
        package: "gpumap-kmer-kernels",
        folder: "crates/gpumap-cli/kernels",
        ptx: "crates/gpumap-cli/ptx",
        ending: BROTLI,
    },
    KernelCrate {
        package: "word-pairs-kernels",
        folder: "examples/word-pairs/kernels",
        ptx: "examples/word-pairs/ptx",
        ending: TEXT,
    },
    KernelCrate {
        package: "gpumap-cuda-test-kernels",
        folder: "tests/cuda-kernels",
        ptx: "tests/ptx",
        ending: TEXT,
    },
];

/// The crates of kernels with these packages; all of them if none is named.
pub fn kernel_crates(packages: &[String]) -> Result<Vec<KernelCrate>> {
    let named = |package: &String| {
        let found = KERNEL_CRATES
            .iter()
            .find(|kernels| kernels.package == package);
        found
            .copied()
            .with_context(|| format!("{package} is no crate of kernels: see KERNEL_CRATES"))
    };
    if packages.is_empty() {
        return Ok(KERNEL_CRATES.to_vec());
    }
    packages.iter().map(named).collect()
}

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

    /// Where the PTX of a kernel crate is checked in.
    pub fn ptx_file(&self, kernels: KernelCrate, arch: Arch) -> PathBuf {
        self.root
            .join(kernels.ptx)
            .join(ptx_file_name(kernels, arch))
    }

    /// The PTX of a kernel crate that is checked in.
    pub fn read_ptx(&self, kernels: KernelCrate, arch: Arch) -> Result<String> {
        let path = self.ptx_file(kernels, arch);
        let read = || -> io::Result<String> {
            let mut text = String::new();
            match kernels.ending {
                BROTLI => {
                    Decompressor::new(File::open(&path)?, BUFFER).read_to_string(&mut text)?
                }
                _ => File::open(&path)?.read_to_string(&mut text)?,
            };
            Ok(text)
        };
        read().with_context(|| {
            let name = self.relative(&path).display();
            format!("{name} is missing or damaged: run `cargo xtask ptx`")
        })
    }

    /// Writes the PTX of a kernel crate.
    pub fn write_ptx(&self, kernels: KernelCrate, arch: Arch, text: &str) -> Result<()> {
        let path = self.ptx_file(kernels, arch);
        let write = || -> io::Result<()> {
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            match kernels.ending {
                BROTLI => {
                    let params = BrotliEncoderParams {
                        quality: 11,
                        // A window of 16 MB: kernels of other sizes of keys and values are far from each other.
                        lgwin: 24,
                        size_hint: text.len(),
                        ..BrotliEncoderParams::default()
                    };
                    // `into_inner` drops the error of the last block, which memory cannot have.
                    let mut packed = CompressorWriter::with_params(Vec::new(), BUFFER, &params);
                    packed.write_all(text.as_bytes())?;
                    fs::write(&path, packed.into_inner())
                }
                _ => fs::write(&path, text),
            }
        };
        write().with_context(|| format!("could not write {}", path.display()))
    }

    /// A kernel crate, as it is compiled.
    pub fn source(&self, kernels: KernelCrate) -> Source<'_> {
        Source {
            root: &self.root,
            target: &self.target,
            package: kernels.package,
        }
    }

    /// `path` as seen from the root, for messages.
    pub fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}

/// The file name of a package's PTX: the kernel crate's carries the library's name.
fn ptx_file_name(
    KernelCrate {
        package, ending, ..
    }: KernelCrate,
    arch: Arch,
) -> String {
    format!("{}.{ending}", file_stem(package, arch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_found_by_package() {
        let packages = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            let found = kernel_crates(&names).ok()?;
            Some(
                found
                    .iter()
                    .map(|kernels| kernels.package)
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(packages(&[]).unwrap().len(), KERNEL_CRATES.len());
        assert_eq!(packages(&["gpumap-kernels"]).unwrap(), ["gpumap-kernels"]);
        assert_eq!(packages(&["gpumap"]), None);
    }

    #[test]
    fn file_names() {
        let name = |i: usize, arch| ptx_file_name(KERNEL_CRATES[i], arch);
        assert_eq!(name(0, Arch::Sm90), "gpumap_sm_90.ptx.br");
        assert_eq!(name(1, Arch::Sm70), "gpumap_test_sm_70.ptx.br");
        assert_eq!(name(2, Arch::Sm90), "gpumap_bench_sm_90.ptx.br");
        assert_eq!(name(5, Arch::Sm90), "word_pairs_sm_90.ptx");
    }
}
