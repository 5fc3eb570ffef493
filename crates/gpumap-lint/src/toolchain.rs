//! Finds a compiler that can make PTX: any rustc whose sysroot holds the source of `core`,
//! because `nvptx64-nvidia-cuda` has no prebuilt `core`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{isolate, probe};

/// Names the compiler to use, with `GPUMAP_PTX_CARGO`, before any search.
const RUSTC_VARIABLE: &str = "GPUMAP_PTX_RUSTC";
/// Names the cargo that belongs to [`RUSTC_VARIABLE`].
const CARGO_VARIABLE: &str = "GPUMAP_PTX_CARGO";

const HOW_TO_GET_ONE: &str = "no compiler with the source of `core` was found. Either\n  \
    apt-get install --no-install-recommends rustc-web cargo-web rust-web-src   (Debian)\n  \
    rustup component add rust-src                                              (rustup)\n\
    or name one with GPUMAP_PTX_RUSTC and GPUMAP_PTX_CARGO.";

/// A compiler and its cargo.
#[derive(Debug)]
pub struct Toolchain {
    /// The compiler itself, not rustup's proxy.
    pub rustc: PathBuf,
    /// The cargo of the same release.
    pub cargo: PathBuf,
    /// Which compiler this is, as the PTX header records it.
    pub identity: String,
    /// The folder of the compiler.
    pub sysroot: PathBuf,
}

impl Toolchain {
    /// The first of: the environment's, Debian's, one of rustup's.
    pub fn find() -> Result<Self> {
        match (env::var_os(RUSTC_VARIABLE), env::var_os(CARGO_VARIABLE)) {
            (Some(rustc), Some(cargo)) => {
                let (rustc, cargo) = (PathBuf::from(rustc), PathBuf::from(cargo));
                return match Self::with_source(&rustc, &cargo) {
                    Some(toolchain) => Ok(toolchain),
                    None => bail!(
                        "{RUSTC_VARIABLE}={} does not run, or its sysroot has no \
                         lib/rustlib/src/rust/library",
                        rustc.display()
                    ),
                };
            }
            (None, None) => {}
            _ => bail!("set both {RUSTC_VARIABLE} and {CARGO_VARIABLE}, or neither"),
        }
        match Self::debian().or_else(Self::rustup) {
            Some(toolchain) => Ok(toolchain),
            None => bail!(HOW_TO_GET_ONE),
        }
    }

    fn debian() -> Option<Self> {
        let rustc = program_of_package("rustc-web", "rustc")?;
        let cargo = program_of_package("cargo-web", "cargo")?;
        Self::with_source(&rustc, &cargo)
    }

    fn rustup() -> Option<Self> {
        let list = probe(Command::new("rustup").args(["toolchain", "list"]))?;
        list.lines().find_map(|line| {
            let name = line.split_whitespace().next()?;
            let mut command = Command::new("rustup");
            command.args(["run", name, "rustc", "--print", "sysroot"]);
            let sysroot = PathBuf::from(probe(isolate(&mut command))?.trim());
            Self::with_source(&sysroot.join("bin/rustc"), &sysroot.join("bin/cargo"))
        })
    }

    /// The toolchain of these programs, if they run and the source of `core` is there.
    fn with_source(rustc: &Path, cargo: &Path) -> Option<Self> {
        let ask = |argument: &[&str]| probe(isolate(&mut Command::new(rustc)).args(argument));
        let sysroot = PathBuf::from(ask(&["--print", "sysroot"])?.trim());
        let source = sysroot.join("lib/rustlib/src/rust/library/core/Cargo.toml");
        if !source.is_file() || !cargo.is_file() {
            return None;
        }
        Some(Toolchain {
            rustc: rustc.to_path_buf(),
            cargo: cargo.to_path_buf(),
            identity: identity(&ask(&["-vV"])?)?,
            sysroot,
        })
    }
}

/// One line out of `rustc -vV`: the release with its commit and builder, and LLVM's version.
/// The builder matters: a distribution's LLVM is not rustup's.
fn identity(verbose: &str) -> Option<String> {
    let release = verbose.lines().next()?.trim();
    let llvm = verbose
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "))?;
    Some(format!("{release}, LLVM {}", llvm.trim()))
}

fn program_of_package(package: &str, program: &str) -> Option<PathBuf> {
    let files = probe(Command::new("dpkg").args(["-L", package]))?;
    main_program(&files, program)
}

/// The package's real program among its files: a package can also hold a wrapper script of
/// that name under `share`, and its source tree.
fn main_program(files: &str, program: &str) -> Option<PathBuf> {
    let wanted = format!("/bin/{program}");
    files
        .lines()
        .filter(|file| file.ends_with(&wanted) && !file.contains("/share/"))
        .min_by_key(|file| file.len())
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_of_a_distribution_compiler() {
        let verbose = "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)\n\
            binary: rustc\ncommit-hash: ac68faa20\nhost: x86_64-unknown-linux-gnu\n\
            release: 1.96.0\nLLVM version: 22.1.8\n";
        assert_eq!(
            identity(verbose).as_deref(),
            Some("rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball), LLVM 22.1.8")
        );
        assert_eq!(identity("rustc 1.96.0\n"), None);
    }

    #[test]
    fn wrapper_scripts_are_passed_over() {
        let files = "/usr/share/cargo/bin/cargo\n/usr/bin/cargo\n/usr/bin/cargo-x\n";
        assert_eq!(main_program(files, "cargo"), Some("/usr/bin/cargo".into()));
        assert_eq!(main_program(files, "rustc"), None);
    }
}
