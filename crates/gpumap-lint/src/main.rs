//! `gpumap-lint`: compiles a crate of kernels to PTX as gpumap's own are, and checks it as they are checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use gpumap_lint::arch::Arch;
use gpumap_lint::build::{build, file_stem};
use gpumap_lint::lint::{self, Subject};
use gpumap_lint::package::Package;
use gpumap_lint::toolchain::Toolchain;

/// Compiles a crate of kernels to PTX, and checks the PTX and what NVIDIA's assemblers make of it. No GPU is needed.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Compile the kernels, for sm_70 and newer and for sm_90 and newer, and write the PTX.
    Ptx(Place),
    /// Check the PTX: what it must not have, what it must have exactly, and what assemblers make of it.
    Lint {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        options: lint::Options,
        /// Where the assemblers are installed; by default `gpumap-lint` in the build folder.
        #[arg(long, value_name = "FOLDER")]
        tools: Option<PathBuf>,
    },
}

/// Where the kernels are.
#[derive(clap::Args)]
struct Place {
    /// The manifest of the crate of kernels, which has its tables beside it.
    #[arg(long, value_name = "PATH", default_value = "Cargo.toml")]
    manifest_path: PathBuf,
    /// The folder of the PTX; by default `ptx` beside the manifest.
    #[arg(long, value_name = "FOLDER")]
    ptx: Option<PathBuf>,
}

/// A crate of kernels.
struct Crate {
    package: Package,
    ptx: PathBuf,
}

fn main() -> ExitCode {
    match run(&Cli::parse().action) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(action: &Action) -> Result<()> {
    match action {
        Action::Ptx(place) => compile(&Crate::find(place)?),
        Action::Lint {
            place,
            options,
            tools,
        } => {
            let kernels = Crate::find(place)?;
            let inside = || kernels.package.target.join("gpumap-lint");
            let tools = tools.clone().unwrap_or_else(inside);
            check(&kernels, &tools, options)
        }
    }
}

fn compile(kernels: &Crate) -> Result<()> {
    let toolchain = Toolchain::find()?;
    println!("compiler: {}", toolchain.identity);
    let package = &kernels.package;
    let source = package.source(&package.target);
    let built = build(
        source,
        &toolchain,
        &package.folder,
        "gpumap-lint ptx",
        &Arch::ALL,
    )?;
    for warning in &built.warnings {
        eprintln!("{warning}\n");
    }
    fs::create_dir_all(&kernels.ptx)?;
    for (arch, text) in &built.files {
        let file = kernels.file(*arch);
        fs::write(&file, text).with_context(|| file.display().to_string())?;
        println!("{}: {} bytes", file.display(), text.len());
    }
    Ok(())
}

fn check(kernels: &Crate, tools: &Path, options: &lint::Options) -> Result<()> {
    let mut texts = Vec::new();
    for arch in Arch::ALL {
        let file = kernels.file(arch);
        if file.is_file() {
            texts.push((
                arch,
                fs::read_to_string(&file).with_context(|| file.display().to_string())?,
            ));
        }
    }
    if texts.is_empty() {
        bail!(
            "{} is not there: `gpumap-lint ptx` makes it, or name its folder with `--ptx`",
            kernels.file(Arch::Sm70).display()
        );
    }
    let subject = Subject {
        name: kernels.package.name.clone(),
        folder: kernels.package.folder.clone(),
        texts,
    };
    lint::lint(tools, &[subject], options)
}

impl Crate {
    fn find(place: &Place) -> Result<Self> {
        let package = Package::find(&place.manifest_path)?;
        let beside = || package.folder.join("ptx");
        let ptx = place.ptx.clone().unwrap_or_else(beside);
        Ok(Self { package, ptx })
    }

    fn file(&self, arch: Arch) -> PathBuf {
        self.ptx.join(file_stem(&self.package.name, arch) + ".ptx")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        let lint = [
            "gpumap-lint",
            "lint",
            "--manifest-path",
            "k/Cargo.toml",
            "--all",
            "--bless",
        ];
        assert!(Cli::try_parse_from(lint).is_ok());
        assert!(Cli::try_parse_from(["gpumap-lint", "ptx", "--ptx", "p"]).is_ok());
        assert!(Cli::try_parse_from(["gpumap-lint"]).is_err());
    }
}
