//! The PTX of a crate of kernels as it is checked in: for every architecture, with its launch bounds, under a header
//! that says what made it.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;

use anyhow::{Result, anyhow};

use crate::arch::Arch;
use crate::compile::{self, Compiled, Source};
use crate::lint;
use crate::ptx::{bounds, header};
use crate::toolchain::Toolchain;

/// The table of launch bounds.
const BOUNDS: &str = "launch_bounds.toml";

/// The finished files' text, and what the compiler had to say.
#[derive(Debug)]
pub struct Built {
    /// A text for each architecture.
    pub files: Vec<(Arch, String)>,
    /// Warnings about the kernels.
    pub warnings: BTreeSet<String>,
}

/// Builds the texts of `source`, whose tables are in `folder`, as the command `by`.
pub fn build(
    source: Source<'_>,
    toolchain: &Toolchain,
    folder: &Path,
    by: &str,
    archs: &[Arch],
) -> Result<Built> {
    // Each build is one long compile of `core` and one of everything else: side by side they
    // take half as long.
    let compiled: Vec<(Arch, Compiled)> = thread::scope(|scope| {
        let builds: Vec<_> = archs
            .iter()
            .map(|&arch| {
                let build = move || compile::compile(source, toolchain, arch);
                (arch, scope.spawn(build))
            })
            .collect();
        builds
            .into_iter()
            .map(|(arch, build)| {
                let compiled = build.join().map_err(|_| anyhow!("a build panicked"))??;
                Ok((arch, compiled))
            })
            .collect::<Result<_>>()
    })?;
    let mut built = Built {
        files: Vec::new(),
        warnings: BTreeSet::new(),
    };
    let table = lint::read(&folder.join(BOUNDS), bounds::parse)?;
    // A kernel may be for some architectures only.
    if archs == Arch::ALL {
        bounds::expect_all(&table, compiled.iter().map(|(_, compiled)| &*compiled.text))?;
    }
    for (arch, compiled) in compiled {
        let text = bounds::apply(&compiled.text, &table)?;
        let flags = compile::flags(arch);
        let header = header::write(by, source.package, arch, &toolchain.identity, &flags);
        built.files.push((arch, header + text.trim_end() + "\n"));
        built.warnings.extend(compiled.warnings);
    }
    Ok(built)
}

/// The file name of a package's PTX without its ending: `my-kernels` has `my_sm_70`.
pub fn file_stem(package: &str, arch: Arch) -> String {
    let stem = package.strip_suffix("-kernels").unwrap_or(package);
    format!("{}_{arch}", stem.replace('-', "_"))
}
