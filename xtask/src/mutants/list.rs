//! The list of bugs, and how they are woven into a text.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::device::is_of_device;
use crate::workspace::Workspace;

/// Around what is exchanged.
const MARKS: [char; 2] = ['«', '»'];

/// A bug.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// A short name.
    pub name: String,
    /// What is wrong with it.
    pub fault: String,
    /// Where tests that should notice are: the name of a test program and a part of a test's name,
    /// run first, in this order. All others run when none of these fails. What only a GPU runs is noticed by `lint`, and
    /// behind that is the package of kernels whose PTX changes.
    #[serde(default)]
    pub tests: Vec<[String; 2]>,
    /// The changes that make it.
    #[serde(rename = "edit")]
    pub edits: Vec<Edit>,
}

/// A change.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The file, from the root.
    pub file: String,
    /// A piece of it that is there once, with marks around the expression or the statements to exchange.
    pub code: String,
    /// What comes in their place.
    pub becomes: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

/// Reads the list.
pub fn read(workspace: &Workspace) -> Result<Vec<Mutant>> {
    let file = workspace.root.join("xtask/mutants.toml");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let list: List = toml::from_str(&text).with_context(|| file.display().to_string())?;
    Ok(list.mutant)
}

/// The changes of one file, by their numbers.
pub type Changes<'m> = Vec<(usize, &'m Edit)>;

/// What is woven into which file.
pub fn by_file(mutants: &[Mutant]) -> BTreeMap<&str, Changes<'_>> {
    let mut files: BTreeMap<&str, Changes<'_>> = BTreeMap::new();
    let woven = |(_, mutant): &(usize, &Mutant)| !is_of_device(mutant);
    for (i, mutant) in mutants.iter().enumerate().filter(woven) {
        for edit in &mutant.edits {
            files.entry(&edit.file).or_default().push((i + 1, edit));
        }
    }
    files
}

/// The text with all changes woven in.
pub fn weave(text: &str, changes: &Changes<'_>) -> Result<String> {
    // What replaces which text.
    let mut places: BTreeMap<(usize, usize), Vec<(usize, &str)>> = BTreeMap::new();
    for (number, edit) in changes {
        let place = find(text, &edit.code)
            .with_context(|| format!("{}: change number {number}", edit.file))?;
        places
            .entry(place)
            .or_default()
            .push((*number, &edit.becomes));
    }
    let in_python = |(_, edit): &(usize, &Edit)| edit.file.starts_with("crates/gpumap-python/");
    let simt = match changes.first().is_some_and(in_python) {
        // It has no other way to the crate of the switch.
        true => "::gpumap::simt",
        false => "::gpumap_simt",
    };
    let mut woven = String::with_capacity(2 * text.len());
    let mut at = 0;
    for ((begin, end), others) in places {
        if begin < at {
            bail!("changes overlap at {:?}", &text[begin..end]);
        }
        woven += &text[at..begin];
        woven += "{ ";
        for (number, becomes) in others {
            woven += &format!("if {simt}::mutant::is({number}) {{ {becomes} }} else ");
        }
        woven += &format!("{{ {} }} }}", &text[begin..end]);
        at = end;
    }
    woven += &text[at..];
    Ok(woven)
}

/// The text with one change made.
pub fn replace(text: &str, edit: &Edit) -> Result<String> {
    let (begin, end) = find(text, &edit.code)?;
    Ok([&text[..begin], &edit.becomes, &text[end..]].concat())
}

/// Where the marked part of the code is in the text.
fn find(text: &str, code: &str) -> Result<(usize, usize)> {
    let parts: Vec<_> = code.split(MARKS).collect();
    let [before, marked, behind] = parts[..] else {
        bail!("{code:?} has no « and » around what is exchanged");
    };
    let plain = [before, marked, behind].concat();
    let mut found = text.match_indices(&plain).map(|(at, _)| at);
    let (Some(at), None) = (found.next(), found.next()) else {
        bail!("{plain:?} is not there once: has the code changed?");
    };
    let begin = at + before.len();
    Ok((begin, begin + marked.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(code: &str, becomes: &str) -> Edit {
        Edit {
            file: "a.rs".to_owned(),
            code: code.to_owned(),
            becomes: becomes.to_owned(),
        }
    }

    #[test]
    fn changes_are_chosen_by_their_numbers() {
        let (one, two, three) = (
            edit("f(«a + b»)", "a"),
            edit("f(«a + b»)", "b"),
            edit("«g();»", ""),
        );
        let woven = weave("f(a + b); g();", &vec![(3, &three), (1, &one), (2, &two)]).unwrap();
        assert_eq!(
            woven,
            "f({ if ::gpumap_simt::mutant::is(1) { a } else \
             if ::gpumap_simt::mutant::is(2) { b } else { a + b } }); \
             { if ::gpumap_simt::mutant::is(3) {  } else { g(); } }"
        );
    }

    #[test]
    fn a_place_that_is_not_there_once_is_an_error() {
        for text in ["", "f(a); f(a)"] {
            assert!(weave(text, &vec![(1, &edit("f(«a»)", "b"))]).is_err());
        }
        assert!(weave("f(a)", &vec![(1, &edit("f(a)", "b"))]).is_err());
        let (outer, inner) = (edit("«f(a)»", "b"), edit("f(«a»)", "b"));
        assert!(weave("f(a)", &vec![(1, &outer), (2, &inner)]).is_err());
        assert_eq!(replace("g(f(a))", &inner).unwrap(), "g(f(b))");
        assert!(replace("f(a); f(a)", &inner).is_err());
    }
}
