//! `cargo xtask links`: every link of the documents leads somewhere, and those of the guide stay in the guide.
//! A document that a comment in the source names by its path is there too.
//!
//! The guide is also read as a book, whose pages are copied to another place: a link from there to a file of the
//! repository is dead. Such a file is named by its path from the root, in backquotes, and that is checked too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use regex::Regex;

use crate::process::capture;
use crate::workspace::Workspace;

/// The pages of the book, from the root.
const BOOK: &str = "docs/guide/src";

/// The page of the book that lists all others.
const SUMMARY: &str = "SUMMARY.md";

/// Folders of the root that a path in backquotes may begin with.
const FOLDERS: &[&str] = &["benches", "crates", "docs", "examples", "tests", "xtask"];

/// How the names of sources end.
const SOURCES: &[&str] = &[".rs", ".toml", ".sh"];

/// Files whose tests name documents that are not there.
const EXCEPT: &[&str] = &["xtask/src/links.rs", "xtask/src/words.rs"];

/// What a document refers to, and what can be referred to in it.
#[derive(Debug, Default)]
struct Page {
    links: Vec<String>,
    /// What stands in backquotes.
    codes: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn of(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    let taken = |anchor: &String| page.anchors.contains(anchor);
                    let numbered = (1..).map(|i| format!("{anchor}-{i}"));
                    let free = std::iter::once(anchor.clone()).chain(numbered);
                    page.anchors.extend(free.into_iter().find(|a| !taken(a)));
                }
                Event::Text(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                Event::Code(code) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&code);
                    }
                    page.codes.push(code.into_string());
                }
                _ => {}
            }
        }
        page
    }
}

/// What a heading is linked by.
fn anchor(heading: &str) -> String {
    let kept = |c: char| match c {
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    };
    heading.to_lowercase().chars().filter_map(kept).collect()
}

/// What is wrong with the links of some documents, by their paths from the root; `exists` looks there.
fn findings(documents: &BTreeMap<PathBuf, String>, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let parsed = documents.iter().map(|(path, text)| (path, Page::of(text)));
    let pages: BTreeMap<_, _> = parsed.collect();
    let mut found = Vec::new();
    let mut listed = BTreeSet::new();
    for (&path, page) in &pages {
        let in_book = path.starts_with(BOOK);
        for link in &page.links {
            let mut report =
                |what: &str| found.push(format!("{}: ({link}) {what}", path.display()));
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => Some(path.clone()),
                _ => beside(path, file),
            };
            let Some(target) = target else {
                report("leads out of the repository");
                continue;
            };
            if in_book && !target.starts_with(BOOK) {
                report(
                    "leads out of the guide, where it is dead in the book: name the file by its path, in backquotes",
                );
            } else if !exists(&target) {
                report("leads to no file");
            } else if let Some(page) = pages.get(&target)
                && !anchor.is_empty()
                && !page.anchors.contains(anchor)
            {
                report("leads to no heading");
            }
            if path.ends_with(SUMMARY) {
                listed.insert(target);
            }
        }
        for code in page.codes.iter().filter(|_| in_book) {
            let of_root = FOLDERS.iter().any(|folder| {
                code.strip_prefix(folder)
                    .is_some_and(|rest| rest.starts_with('/'))
            });
            let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            if of_root && code.chars().all(plain) && !exists(Path::new(code)) {
                found.push(format!("{}: `{code}` is no file", path.display()));
            }
        }
    }
    let of_book = pages
        .keys()
        .filter(|path| path.starts_with(BOOK) && !path.ends_with(SUMMARY));
    for missing in of_book.filter(|path| !listed.contains(**path)) {
        found.push(format!("{}: is not in {SUMMARY}", missing.display()));
    }
    found
}

/// A path relative to a document, from the root; none if it is outside.
fn beside(document: &Path, link: &str) -> Option<PathBuf> {
    let mut path = document.parent()?.to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

/// The documents: those in the root and all below `docs`.
fn documents(root: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut documents = BTreeMap::new();
    let mut folders = vec![(root.to_owned(), false), (root.join("docs"), true)];
    while let Some((folder, deep)) = folders.pop() {
        let entries = fs::read_dir(&folder);
        for entry in entries.with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.extend(deep.then_some((path, true)));
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path);
                let text = text.with_context(|| path.display().to_string())?;
                documents.insert(path.strip_prefix(root)?.to_owned(), text);
            }
        }
    }
    Ok(documents)
}

/// What is wrong with the documents that a source names, as `path:line: ..`; `exists` looks from the root.
fn dead_names(path: &str, text: &str, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let document =
        Regex::new(r"(?:^|[^\w./-])(docs/[\w./-]*\.(?:md|svg|txt|json))").expect("an expression");
    let mut found = Vec::new();
    for (i, line) in text.lines().enumerate() {
        for name in document.captures_iter(line).filter_map(|all| all.get(1)) {
            let name = name.as_str();
            if !exists(Path::new(name)) {
                found.push(format!("{path}:{}: {name} is no file", i + 1));
            }
        }
    }
    found
}

/// [`dead_names`] of every source that git tracks.
fn dead_names_of_sources(root: &Path) -> Result<Vec<String>> {
    let mut git = std::process::Command::new("git");
    let tracked = capture(git.current_dir(root).args(["ls-files", "-z"]))?;
    let tracked = String::from_utf8(tracked.stdout)?;
    let is_source =
        |path: &&str| !EXCEPT.contains(path) && SOURCES.iter().any(|end| path.ends_with(end));
    let mut all = Vec::new();
    for path in tracked.split_terminator('\0').filter(is_source) {
        // One that is removed but not yet committed is tracked still.
        if root.join(path).is_file() {
            let text = fs::read_to_string(root.join(path)).with_context(|| path.to_owned())?;
            all.extend(dead_names(path, &text, |name| root.join(name).exists()));
        }
    }
    Ok(all)
}

/// Runs the command.
pub fn check(workspace: &Workspace) -> Result<()> {
    let root = &workspace.root;
    let documents = documents(root)?;
    let mut found = findings(&documents, |path| root.join(path).exists());
    found.extend(dead_names_of_sources(root)?);
    if !found.is_empty() {
        bail!("{} dead links:\n  {}", found.len(), found.join("\n  "));
    }
    println!("{} documents, no dead link", documents.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(documents: &[(&str, &str)]) -> Vec<String> {
        let entry = |&(path, text): &(&str, &str)| (PathBuf::from(path), text.to_owned());
        let documents: BTreeMap<_, _> = documents.iter().map(entry).collect();
        findings(&documents, |path| {
            documents.contains_key(path) || path == Path::new("docs/plots/a.svg")
        })
    }

    #[test]
    fn good_links_are_good() {
        let good = [
            (
                "README.md",
                "[a](docs/b.md#two-words) ![c](docs/plots/a.svg) [d](https://x.y/z)",
            ),
            (
                "docs/b.md",
                "# Two `words`\n# Two words\n[up](../README.md) [here](#two-words-1)",
            ),
            ("docs/guide/src/SUMMARY.md", "- [One](one.md)"),
            (
                "docs/guide/src/one.md",
                "## In it\n[self](one.md#in-it), `docs/b.md`, `docs/no such`, `docs/*`",
            ),
        ];
        assert_eq!(found(&good), [""; 0]);
    }

    #[test]
    fn dead_links_are_found() {
        let bad = [
            (
                "README.md",
                "[a](docs/c.md) | [b](docs/b.md#no) [out](../x.md)",
            ),
            ("docs/b.md", "| a |\n|---|\n| [in a table](plots/b.svg) |"),
            ("docs/guide/src/SUMMARY.md", "- [One](one.md)"),
            ("docs/guide/src/one.md", "[out](../../b.md) `docs/c.md`"),
            ("docs/guide/src/two.md", ""),
        ];
        let found = found(&bad);
        let expected = [
            "README.md: (docs/c.md) leads to no file",
            "README.md: (docs/b.md#no) leads to no heading",
            "README.md: (../x.md) leads out of the repository",
            "docs/b.md: (plots/b.svg) leads to no file",
            "docs/guide/src/one.md: (../../b.md) leads out of the guide",
            "docs/guide/src/one.md: `docs/c.md` is no file",
            "docs/guide/src/two.md: is not in SUMMARY.md",
        ];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}, not {expected}");
        }
    }

    #[test]
    fn dead_names_in_sources_are_found() {
        let text = "//! (`docs/b.md`)\n// see docs/decisions/c.md.\n// https://x.y/docs/d.md\n";
        let found = dead_names("a.rs", text, |path| path == Path::new("docs/b.md"));
        assert_eq!(found, ["a.rs:2: docs/decisions/c.md is no file"]);
    }

    #[test]
    fn the_documents_of_the_project_have_no_dead_link() {
        check(&Workspace::find().unwrap()).unwrap();
    }
}
