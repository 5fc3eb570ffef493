//! The list of bugs, and how they are woven into a text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::device::is_of_device;
use super::functions::functions;
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
    pub edits: Vec<Edit>,
}

/// A change.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The file, from the root, and behind a colon the function, if it is in one.
    pub at: String,
    /// The expression or the statements to exchange, or with marks around them a piece of the text that is there once in the
    /// functions of this name.
    pub code: String,
    /// What comes in their place.
    pub becomes: String,
}

impl Edit {
    /// The file, and the function in it.
    pub fn place(&self) -> (&str, Option<&str>) {
        match self.at.split_once(": ") {
            Some((file, function)) => (file, Some(function)),
            None => (&self.at, None),
        }
    }
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
            let (file, _) = edit.place();
            files.entry(file).or_default().push((i + 1, edit));
        }
    }
    files
}

/// The text with all changes woven in.
pub fn weave(text: &str, changes: &Changes<'_>) -> Result<String> {
    // What replaces which text.
    let mut places: BTreeMap<(usize, usize), Vec<(usize, &str)>> = BTreeMap::new();
    for (number, edit) in changes {
        let place = find(text, edit).with_context(|| format!("{}, bug {number}", edit.at))?;
        places
            .entry(place)
            .or_default()
            .push((*number, &edit.becomes));
    }
    let in_python = |(_, edit): &(usize, &Edit)| edit.at.starts_with("crates/gpumap-python/");
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
    let (begin, end) = find(text, edit)?;
    Ok([&text[..begin], &edit.becomes, &text[end..]].concat())
}

/// Where the text is that an edit exchanges.
fn find(text: &str, edit: &Edit) -> Result<(usize, usize)> {
    let code = &*edit.code;
    let parts: Vec<_> = code.split(MARKS).collect();
    let (before, marked, behind) = match parts[..] {
        [marked] => ("", marked, ""),
        [before, marked, behind] => (before, marked, behind),
        _ => bail!("{code:?} has other marks than one « and one »"),
    };
    let (_, function) = edit.place();
    let whole = || iter::once(0..text.len()).collect();
    let scopes: Vec<_> = function.map_or_else(whole, |name| functions(text, name));
    if scopes.is_empty() {
        bail!("there is no such function");
    }
    let plain = [before, marked, behind].concat();
    // A function may be in another one of its name.
    let found: BTreeSet<_> = scopes
        .into_iter()
        .flat_map(|scope| {
            let found = text[scope.clone()].match_indices(&plain);
            found
                .map(move |(at, _)| scope.start + at)
                .collect::<Vec<_>>()
        })
        .collect();
    let mut found = found.into_iter();
    let (Some(at), None) = (found.next(), found.next()) else {
        bail!("{plain:?} is not there once: has the code changed?");
    };
    let begin = at + before.len();
    Ok((begin, begin + marked.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(at: &str, code: &str, becomes: &str) -> Edit {
        Edit {
            at: at.to_owned(),
            code: code.to_owned(),
            becomes: becomes.to_owned(),
        }
    }

    #[test]
    fn changes_are_chosen_by_their_numbers() {
        let (one, two, three) = (
            edit("a.rs", "f(«a + b»)", "a"),
            edit("a.rs", "a + b", "b"),
            edit("a.rs", "g();", ""),
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
    fn a_place_is_in_a_function() {
        let text = "fn f() {\n    a\n}\n\nfn g() {\n    a\n}\n";
        let woven = weave(text, &vec![(1, &edit("a.rs: g", "a", "b"))]).unwrap();
        let (f, g) = woven.split_once("fn g").unwrap();
        assert!(!f.contains("mutant") && g.contains("mutant"));
        assert!(weave(text, &vec![(1, &edit("a.rs", "a", "b"))]).is_err());
        assert!(weave(text, &vec![(1, &edit("a.rs: h", "a", "b"))]).is_err());
    }

    #[test]
    fn a_place_that_is_not_there_once_is_an_error() {
        for text in ["", "f(a); f(a)"] {
            assert!(weave(text, &vec![(1, &edit("a.rs", "f(«a»)", "b"))]).is_err());
        }
        assert!(weave("f(a)", &vec![(1, &edit("a.rs", "f(«a)", "b"))]).is_err());
        let (outer, inner) = (edit("a.rs", "f(a)", "b"), edit("a.rs", "f(«a»)", "b"));
        assert!(weave("f(a)", &vec![(1, &outer), (2, &inner)]).is_err());
        assert_eq!(replace("g(f(a))", &inner).unwrap(), "g(f(b))");
        assert!(replace("f(a); f(a)", &inner).is_err());
    }
}
