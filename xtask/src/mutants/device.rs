//! Bugs in code that only a GPU runs: no test on the CPU sees them. Each is planted by itself in a second copy, whose
//! PTX is compiled and counted, as `cargo xtask lint` counts what is checked in.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};

use super::hunt::Outcome;
use super::list::{Mutant, replace};
use super::tree;
use crate::arch::Arch;
use crate::compile;
use crate::lint;
use crate::toolchain::Toolchain;
use crate::workspace::{Workspace, kernel_crates};

/// What the list calls the lint, among the programs that find bugs. What is behind it is not a test's name: it is the
/// package of the kernels that are compiled.
const LINT: &str = "lint";

/// Whether a bug is one of these.
pub fn is_of_device(mutant: &Mutant) -> bool {
    mutant.tests.iter().any(|[program, _]| program == LINT)
}

/// The files that such a bug changes, with the bug in them.
pub fn plant<'m>(workspace: &Workspace, mutant: &'m Mutant) -> Result<BTreeMap<&'m str, String>> {
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for edit in &mutant.edits {
        let (file, _) = edit.place();
        let before = match files.remove(file) {
            Some(text) => text,
            None => {
                fs::read_to_string(workspace.root.join(file)).with_context(|| file.to_owned())?
            }
        };
        let text = replace(&before, edit).with_context(|| edit.at.clone())?;
        files.insert(file, text);
    }
    Ok(files)
}

/// Compiles the PTX for the newest architecture with the bug in it, and compares the counts.
pub fn hunt(workspace: &Workspace, mutant: &Mutant) -> Result<Outcome> {
    let copy = workspace.target.join("mutants/device");
    tree::copy_with(workspace, &copy, plant(workspace, mutant)?)?;
    let copy = Workspace {
        target: workspace.target.join("mutants/device-target"),
        root: copy,
    };
    let packages = mutant.tests.iter().map(|[_, package]| package.clone());
    for kernels in kernel_crates(&packages.collect::<Vec<_>>())? {
        let arch = Arch::Sm90;
        let compiled = compile::compile(copy.source(kernels), &Toolchain::find()?, arch)?;
        if compiled.text.is_empty() {
            bail!("{} has no kernel for {arch}", kernels.package);
        }
        let texts = vec![(arch, compiled.text)];
        let findings = gpumap_lint::lint::findings(&lint::subject(&copy, kernels, texts))?;
        if let Some(first) = findings.first() {
            return Ok(Outcome::Killed {
                by: format!("{LINT}: {first}"),
                schedule: None,
            });
        }
    }
    Ok(Outcome::Survived)
}
