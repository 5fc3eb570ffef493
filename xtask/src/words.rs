//! `cargo xtask words`: words that this project once had for things that the field has a word for do not come back.
//!
//! `xtask/words.toml` lists them, each with the word to use instead and the folders in which it is looked for.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use serde::Deserialize;

use crate::process::capture;
use crate::workspace::Workspace;

/// The list, from the root.
const LIST: &str = "xtask/words.toml";

/// How the names of the files end that are read.
const READ: &[&str] = &[".rs", ".md", ".toml", ".sh"];

/// The list of old words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    word: Vec<Word>,
}

/// An old word.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    /// What it looks like.
    old: String,
    /// What to write instead.
    instead: String,
    /// Beginnings of the paths in which it is looked for; everywhere if there are none.
    #[serde(default, rename = "in")]
    folders: Vec<String>,
    #[serde(default)]
    except: Vec<Exception>,
}

/// Files in which an old word means something else.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    /// The beginning of their paths.
    path: String,
    why: String,
}

/// A word, ready to be looked for.
struct Rule {
    word: Word,
    old: Regex,
}

impl Rule {
    fn is_for(&self, path: &str) -> bool {
        let folders = &self.word.folders;
        let looked_at = folders.is_empty() || folders.iter().any(|folder| path.starts_with(folder));
        let mut exceptions = self.word.except.iter();
        looked_at && !exceptions.any(|exception| path.starts_with(&exception.path))
    }
}

/// Reads the list.
fn rules(list: &str) -> Result<Vec<Rule>> {
    let list: List = toml::from_str(list)?;
    let rule = |word: Word| {
        for exception in &word.except {
            let has_reason = !exception.why.trim().is_empty();
            ensure!(has_reason, "{}: {} has no reason", word.old, exception.path);
        }
        let old = Regex::new(&word.old).with_context(|| format!("{}: no expression", word.old))?;
        Ok(Rule { word, old })
    };
    list.word.into_iter().map(rule).collect()
}

/// Every old word of a file, as `path:line: ..`.
fn findings(rules: &[Rule], path: &str, text: &str) -> Vec<String> {
    let rules: Vec<&Rule> = rules.iter().filter(|rule| rule.is_for(path)).collect();
    let in_line = |(i, line): (usize, &str)| {
        let found = |rule: &&Rule| {
            let old = rule.old.find(line)?.as_str();
            let (line, instead) = (i + 1, &rule.word.instead);
            Some(format!("{path}:{line}: \"{old}\": use {instead}"))
        };
        rules.iter().filter_map(found).collect::<Vec<_>>()
    };
    text.lines().enumerate().flat_map(in_line).collect()
}

/// Runs the check, over the files that git tracks.
pub fn check(workspace: &Workspace) -> Result<()> {
    let root = &workspace.root;
    let list = fs::read_to_string(root.join(LIST)).with_context(|| LIST.to_owned())?;
    let rules = rules(&list).with_context(|| LIST.to_owned())?;
    let mut git = std::process::Command::new("git");
    let tracked = capture(git.current_dir(root).args(["ls-files", "-z"]))?;
    let tracked = String::from_utf8(tracked.stdout)?;
    let is_read = |path: &&str| *path != LIST && READ.iter().any(|end| path.ends_with(end));
    let mut all = Vec::new();
    for path in tracked.split_terminator('\0').filter(is_read) {
        let file = root.join(Path::new(path));
        // One that is removed but not yet committed is tracked still.
        if file.is_file() {
            let text = fs::read_to_string(&file).with_context(|| path.to_owned())?;
            all.extend(findings(&rules, path, &text));
        }
    }
    if !all.is_empty() {
        bail!("{} old words ({LIST}):\n{}", all.len(), all.join("\n"));
    }
    println!("none of {} old words", rules.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [[word]]
        old = '\b[Mm]ailbox\b'
        instead = "receive buffer"
        in = ["src/"]
        except = [{ path = "src/post/", why = "that of an address" }]

        [[word]]
        old = '\bin place of\b'
        instead = "instead of"
    "#;

    #[test]
    fn old_words_are_found_where_they_are_looked_for() {
        let rules = rules(TEXT).unwrap();
        let bad = "A receive buffer.\nThe mailbox, in place of it.\n";
        assert_eq!(
            findings(&rules, "src/lib.rs", bad),
            [
                "src/lib.rs:2: \"mailbox\": use receive buffer",
                "src/lib.rs:2: \"in place of\": use instead of",
            ]
        );
        for elsewhere in ["docs/a.md", "src/post/office.rs"] {
            assert_eq!(findings(&rules, elsewhere, bad).len(), 1, "{elsewhere}");
        }
    }

    #[test]
    fn good_text_has_none() {
        let good = "A receive buffer instead of mailboxes.\n";
        assert!(findings(&rules(TEXT).unwrap(), "src/lib.rs", good).is_empty());
    }

    #[test]
    fn bad_lists_are_refused() {
        let no_reason = TEXT.replace("that of an address", " ");
        let no_expression = TEXT.replace("[Mm]", "[Mm");
        let misspelled = TEXT.replace("instead =", "insted =");
        for bad in [no_reason, no_expression, misspelled] {
            assert!(rules(&bad).is_err(), "{bad}");
        }
    }
}
