//! `cargo xtask api`: the public names of the library, a line each, in `docs/public-api.txt`. A change of the public
//! surface is then a change of that file, which a reader of a commit sees.
//!
//! The names come from rustdoc's JSON, which a stable compiler writes under `RUSTC_BOOTSTRAP`; the signatures are those of
//! the source. Hidden items are no part of it.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;
use crate::workspace::Workspace;

/// Where the listing is.
const FILE: &str = "docs/public-api.txt";

/// Writes the listing.
pub fn write(workspace: &Workspace) -> Result<()> {
    let path = workspace.root.join(FILE);
    let listing = listing(workspace)?;
    println!("{} lines in {FILE}", listing.lines().count());
    fs::write(&path, listing).with_context(|| path.display().to_string())
}

/// Fails if the listing is not that of the source.
pub fn check(workspace: &Workspace) -> Result<()> {
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
