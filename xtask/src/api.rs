//! `cargo xtask api`: the public names of the library, a line each, in `docs/public-api.txt`. A change of the public
//! surface is then a change of that file, which a reader of a commit sees.
//!
//! The names come from rustdoc's JSON, which a stable compiler writes under `RUSTC_BOOTSTRAP`; the signatures are those of
//! the source. Hidden items are no part of it.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace::Workspace;
use crate::{package, process, release};

/// Where the listing is.
const FILE: &str = "docs/public-api.txt";

/// Writes the listing.
pub fn write(workspace: &Workspace) -> Result<()> {
    let path = workspace.root.join(FILE);
    let listing = listing(workspace)?;
    println!("{} lines in {FILE}", listing.lines().count());
    fs::write(&path, listing).with_context(|| path.display().to_string())
}

/// Fails if the listing is not that of the source, or lacks what programs may use by the last release.
pub fn check(workspace: &Workspace) -> Result<()> {
    keeps_promises(workspace)?;
    let path = workspace.root.join(FILE);
    let old = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let new = listing(workspace)?;
    let (before, after): (BTreeSet<_>, BTreeSet<_>) =
        (old.lines().collect(), new.lines().collect());
    for line in before.difference(&after) {
        println!("- {line}");
    }
    for line in after.difference(&before) {
        println!("+ {line}");
    }
    match old == new {
        true => Ok(()),
        false => bail!(
            "the public API is not that of {FILE}: run `cargo xtask api`, and commit what it writes"
        ),
    }
}

/// Fails if a name of the last release is gone, or has another signature, though the version says that programs go on to compile.
fn keeps_promises(workspace: &Workspace) -> Result<()> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        let output = process::capture(git.args(arguments).current_dir(&workspace.root))?;
        anyhow::Ok(String::from_utf8(output.stdout)?)
    };
    let tags = git(&["tag", "--list", "v[0-9]*", "--sort=-version:refname"])?;
    let Some(tag) = tags.lines().next() else {
        println!("no release has a tag: its names would have to stay");
        return Ok(());
    };
    let version = release::version(&package::published(workspace)?)?;
    if !is_compatible(&tag[1..], &version) {
        println!("{version} may break programs of {tag}");
        return Ok(());
    }
    let before = git(&["show", &format!("{tag}:{FILE}")])?;
    let now = fs::read_to_string(workspace.root.join(FILE))?;
    let now: BTreeSet<_> = now.lines().collect();
    let gone: Vec<_> = before.lines().filter(|line| !now.contains(line)).collect();
    match gone.is_empty() {
        true => Ok(()),
        false => bail!(
            "{version} is compatible with {tag} by its number, but these are gone:\n{}",
            gone.join("\n")
        ),
    }
}

/// Whether cargo takes one version for the other without a change of a manifest.
fn is_compatible(before: &str, now: &str) -> bool {
    // The first number that is not zero, and those in front of it.
    fn significant(version: &str) -> Vec<&str> {
        let numbers: Vec<_> = version.split('.').collect();
        let first = numbers.iter().position(|&number| number != "0");
        let kept = first.map_or(numbers.len(), |first| first + 1);
        numbers[..kept].to_vec()
    }
    significant(before) == significant(now)
}

fn listing(workspace: &Workspace) -> Result<String> {
    // Of rustdoc alone: cargo would build all dependencies again.
    let wrapper = workspace.target.join("rustdoc-json.sh");
    fs::write(
        &wrapper,
        "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n",
    )?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
    process::run(
        process::cargo(workspace)
            .args([
                "rustdoc",
                "-p",
                "gpumap",
                "--lib",
                "--locked",
                // No name is up to the bindings. The step `features` checks this set, on the same dependencies.
                "--no-default-features",
                "--features",
                "arrow",
            ])
            .args(["--", "-Zunstable-options", "--output-format", "json"])
            .env("RUSTDOC", wrapper),
    )?;
    let path = workspace.target.join("doc/gpumap.json");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let json: Value = serde_json::from_str(&text)?;
    let mut walk = Walk {
        workspace,
        index: &json["index"],
        sources: HashMap::new(),
        lines: BTreeSet::new(),
    };
    walk.item(&json["root"], "", None, 0);
    if walk.lines.len() < 100 {
        bail!(
            "rustdoc's JSON has only {} public names: its format is another one",
            walk.lines.len()
        );
    }
    Ok(walk.lines.into_iter().map(|line| line + "\n").collect())
}

struct Walk<'a> {
    workspace: &'a Workspace,
    index: &'a Value,
    /// The files of the source, by their names.
    sources: HashMap<String, Option<String>>,
    lines: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    /// Notes an item and what is in it. Its path begins with that of what it is in.
    fn item(&mut self, id: &Value, within: &str, renamed: Option<&str>, depth: usize) {
        // Re-exports of a module within itself would go on for ever.
        let (Some(item), true) = (self.index.get(id.to_string()), depth < 12) else {
            return;
        };
        let Some((kind, inner)) = item["inner"]
            .as_object()
            .and_then(|inner| inner.iter().next())
        else {
            return;
        };
        if kind == "use" {
            let name = inner["name"].as_str().unwrap_or_default();
            if self.index.get(inner["id"].to_string()).is_none() {
                let source = inner["source"].as_str().unwrap_or_default();
                self.lines
                    .insert(format!("use {within}::{name} = {source}"));
            } else if inner["is_glob"] == true {
                self.items(
                    &self.index[inner["id"].to_string()]["inner"]["module"]["items"],
                    within,
                    depth,
                );
            } else {
                self.item(&inner["id"], within, Some(name), depth + 1);
            }
            return;
        }
        if kind == "impl" {
            // Of implemented traits the name; of inherent ones what is in them.
            match inner["trait"]["path"].as_str() {
                None => self.items(&inner["items"], within, depth),
                Some(path) if inner["is_synthetic"] == false && inner["blanket_impl"].is_null() => {
                    self.lines.insert(format!("impl {path} for {within}"));
                }
                Some(_) => {}
            }
            return;
        }
        let name = renamed.or(item["name"].as_str()).unwrap_or_default();
        let path = match within {
            "" => name.to_owned(),
            _ => format!("{within}::{name}"),
        };
        let signature = match kind.as_str() {
            "function" | "constant" | "assoc_const" | "type_alias" | "struct_field"
            | "assoc_type" => self.signature(&item["span"]),
            _ => None,
        };
        self.lines.insert(match signature {
            Some(signature) => format!("{kind} {path}: {signature}"),
            None => format!("{kind} {path}"),
        });
        let kinds = [
            &inner["items"],
            &inner["impls"],
            &inner["variants"],
            &inner["kind"]["plain"]["fields"],
            &inner["kind"]["struct"]["fields"],
        ];
        for ids in kinds {
            // The implementations of a trait are listed with the types.
            if !(kind == "trait" && std::ptr::eq(ids, &inner["impls"])) {
                self.items(ids, &path, depth);
            }
        }
    }

    fn items(&mut self, ids: &Value, within: &str, depth: usize) {
        for id in ids.as_array().into_iter().flatten() {
            self.item(id, within, None, depth + 1);
        }
    }

    /// The text of an item up to its body, on one line.
    fn signature(&mut self, span: &Value) -> Option<String> {
        let name = span["filename"].as_str()?;
        let root = &self.workspace.root;
        let source = self.sources.entry(name.to_owned());
        let source = source.or_insert_with(|| fs::read_to_string(root.join(name)).ok());
        let (first, last) = (span["begin"][0].as_u64()?, span["end"][0].as_u64()?);
        let count = usize::try_from(last - first + 1).ok()?;
        let lines = source
            .as_ref()?
            .lines()
            .skip(usize::try_from(first).ok()? - 1);
        let text: Vec<_> = lines.take(count).flat_map(str::split_whitespace).collect();
        let text = text.join(" ");
        let end = text.find(" {").unwrap_or(text.len());
        Some(text[..end].trim_end_matches([',', ';']).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compatible_as_cargo_has_it() {
        for (before, now, expected) in [
            ("0.1.0", "0.1.5", true),
            ("0.1.9", "0.2.0", false),
            ("0.0.1", "0.0.2", false),
            ("1.0.0", "1.4.2", true),
            ("1.9.9", "2.0.0", false),
            ("0.9.0", "1.0.0", false),
        ] {
            assert_eq!(is_compatible(before, now), expected, "{before}, {now}");
        }
    }
}
