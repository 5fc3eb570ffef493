//! The copy of the checkout that the bugs are woven into.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::list::{Mutant, by_file, weave};
use crate::mirror::{put, remove_others};
use crate::process::capture;
use crate::workspace::Workspace;

/// What the copy has beside the checkout: the number that chooses.
const SWITCH: &str = r#"//! Which planted bug is there.

use std::sync::OnceLock;

static NUMBER: OnceLock<u32> = OnceLock::new();

/// Whether it is this one.
#[inline]
pub fn is(number: u32) -> bool {
    let read = || {
        let number = std::env::var("GPUMAP_MUTANT").ok();
        number.map_or(0, |number| number.parse().expect("a number"))
    };
    *NUMBER.get_or_init(read) == number
}
"#;

/// The crate that the switch is in: all others see it.
const SWITCH_CRATE: &str = "crates/gpumap-simt/src";
const SWITCH_LIB: &str = "crates/gpumap-simt/src/lib.rs";

/// What that crate has beside its own items; the path to the switch is the same in all crates.
const SWITCH_ITEMS: &str = "\n#[doc(hidden)]\npub mod mutant;\nextern crate self as gpumap_simt;\n";

/// What the manifest of the workspace has in the copy: what is woven in is not pretty.
const LINTS: [&str; 2] = [
    "[workspace.lints.rust]\n",
    "[workspace.lints.rust]\nwarnings = { level = \"allow\", priority = -1 }\n",
];

/// Copies what git knows of the checkout, with the bugs woven in. Files that are there already with
/// the same text are not written, so that little is built again.
pub fn copy(workspace: &Workspace, mutants: &[Mutant]) -> Result<PathBuf> {
    let copy = workspace.target.join("mutants/checkout");
    let mut changed = weave_all(workspace, mutants)?;
    let read = |file: &str| fs::read_to_string(workspace.root.join(file));
    for (file, change) in [
        (
            SWITCH_LIB,
            &(|text| text + SWITCH_ITEMS) as &dyn Fn(String) -> String,
        ),
        ("Cargo.toml", &|text| text.replace(LINTS[0], LINTS[1])),
    ] {
        let text = match changed.remove(file) {
            Some(text) => text,
            None => read(file)?,
        };
        changed.insert(file, change(text));
    }
    let mut kept = copy_all(workspace, &copy, changed)?;
    let switch = copy.join(SWITCH_CRATE).join("mutant.rs");
    put(&switch, SWITCH.as_bytes())?;
    kept.insert(switch);
    remove_others(&copy, &kept)?;
    Ok(copy)
}

/// Copies the same files, of which these have another text.
pub fn copy_with(
    workspace: &Workspace,
    copy: &Path,
    changed: BTreeMap<&str, String>,
) -> Result<()> {
    let kept = copy_all(workspace, copy, changed)?;
    remove_others(copy, &kept)
}

fn copy_all(
    workspace: &Workspace,
    copy: &Path,
    mut changed: BTreeMap<&str, String>,
) -> Result<BTreeSet<PathBuf>> {
    let listed = capture(
        Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(&workspace.root),
    )?;
    let listed = String::from_utf8(listed.stdout)?;
    let mut kept = BTreeSet::new();
    for file in listed.split_terminator('\0') {
        let from = workspace.root.join(file);
        // What was removed is still listed until it is committed.
        if !from.is_file() {
            continue;
        }
        let bytes = match changed.remove(file) {
            Some(text) => text.into_bytes(),
            None => fs::read(&from).with_context(|| file.to_owned())?,
        };
        put(&copy.join(file), &bytes)?;
        kept.insert(copy.join(file));
    }
    if let Some(file) = changed.keys().next() {
        bail!("{file} is not known to git");
    }
    Ok(kept)
}

/// The files that have bugs, with all of them woven in.
pub fn weave_all<'m>(
    workspace: &Workspace,
    mutants: &'m [Mutant],
) -> Result<BTreeMap<&'m str, String>> {
    let woven = |(file, changes)| {
        let text = fs::read_to_string(workspace.root.join(file));
        let text = text.with_context(|| String::from(file))?;
        Ok((
            file,
            weave(&text, &changes).with_context(|| String::from(file))?,
        ))
    };
    by_file(mutants).into_iter().map(woven).collect()
}

#[cfg(test)]
mod tests {
    use super::super::device::{is_of_device, plant};
    use super::super::list;
    use super::*;

    #[test]
    fn every_bug_has_its_place() {
        let workspace = Workspace::find().unwrap();
        let mutants = list::read(&workspace).unwrap();
        let woven = weave_all(&workspace, &mutants).unwrap();
        assert!(!woven.is_empty());
        for mutant in mutants.iter().filter(|mutant| is_of_device(mutant)) {
            plant(&workspace, mutant).unwrap();
            assert!(
                mutant.tests.iter().all(|[program, _]| program == "lint"),
                "{}",
                mutant.name
            );
        }
        let mut names: Vec<_> = mutants.iter().map(|mutant| &mutant.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), mutants.len(), "two bugs have one name");
    }
}
