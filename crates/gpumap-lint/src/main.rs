//! `gpumap-lint`: compiles a crate of kernels to PTX as gpumap's own are, and checks it as they are checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use gpumap_lint::arch::Arch;
use gpumap_lint::build::{build, file_stem};
use gpumap_lint::compile::Source;
use gpumap_lint::lint::{self, Subject};
use gpumap_lint::process::capture;
use gpumap_lint::toolchain::Toolchain;
use serde_json::Value;

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
    package: String,
    folder: PathBuf,
    ptx: PathBuf,
    /// Of its workspace.
    root: PathBuf,
    target: PathBuf,
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
            let inside = || kernels.target.join("gpumap-lint");
            let tools = tools.clone().unwrap_or_else(inside);
            check(&kernels, &tools, options)
        }
    }
}

fn compile(kernels: &Crate) -> Result<()> {
    let toolchain = Toolchain::find()?;
    println!("compiler: {}", toolchain.identity);
    let source = Source {
        root: &kernels.root,
        target: &kernels.target,
        package: &kernels.package,
    };
    let built = build(source, &toolchain, &kernels.folder, "gpumap-lint ptx")?;
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
        name: kernels.package.clone(),
        folder: kernels.folder.clone(),
        texts,
    };
    lint::lint(tools, &[subject], options)
}

impl Crate {
    /// Asks cargo.
    fn find(place: &Place) -> Result<Self> {
        let manifest = place.manifest_path.canonicalize();
        let manifest = manifest.with_context(|| place.manifest_path.display().to_string())?;
        let output = capture(
            Command::new("cargo")
                .args([
                    "metadata",
                    "--no-deps",
                    "--format-version=1",
                    "--manifest-path",
                ])
                .arg(&manifest),
        )?;
        Self::read(
            &serde_json::from_slice(&output.stdout)?,
            &manifest,
            place.ptx.as_deref(),
        )
    }

    fn read(metadata: &Value, manifest: &Path, ptx: Option<&Path>) -> Result<Self> {
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
            package: text(package, "name")?,
            folder: folder.to_path_buf(),
            ptx: ptx.map_or_else(|| folder.join("ptx"), Path::to_path_buf),
            root: text(metadata, "workspace_root")?.into(),
            target: text(metadata, "target_directory")?.into(),
        })
    }

    fn file(&self, arch: Arch) -> PathBuf {
        self.ptx.join(file_stem(&self.package, arch) + ".ptx")
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
        let manifest = Path::new("/a/kernels/Cargo.toml");
        let kernels = Crate::read(&metadata, manifest, None).unwrap();
        assert_eq!(kernels.package, "my-own-kernels");
        assert_eq!(
            kernels.file(Arch::Sm90),
            Path::new("/a/kernels/ptx/my_own_sm_90.ptx")
        );
        assert_eq!(kernels.root, Path::new("/a"));
        let kernels = Crate::read(&metadata, manifest, Some(Path::new("/p"))).unwrap();
        assert_eq!(kernels.file(Arch::Sm70), Path::new("/p/my_own_sm_70.ptx"));
        assert!(Crate::read(&metadata, Path::new("/b/Cargo.toml"), None).is_err());
    }

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
