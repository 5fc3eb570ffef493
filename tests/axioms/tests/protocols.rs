//! The protocols: no forbidden outcome; each ordering is needed; what they quote stands in the code; the page has their table.

use std::fs;
use std::path::{Path, PathBuf};

use gpumap_axioms::{Outcomes, Program, Reading, outcomes, protocols};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn shown(program: &Program, outcomes: &Outcomes) -> String {
    let lines: Vec<_> = outcomes
        .all
        .iter()
        .map(|outcome| program.show(outcome))
        .collect();
    lines.join("\n")
}

#[test]
fn promises_hold() {
    for protocol in protocols::all() {
        let (program, forbidden) = protocol.parsed();
        let all = outcomes(&program, Reading::Whole);
        assert!(!all.all.is_empty(), "{}: nothing happens", protocol.name);
        assert!(
            !all.reach(&forbidden),
            "{}:\n{}",
            protocol.name,
            shown(&program, &all)
        );
    }
}

#[test]
fn what_they_rest_on_is_said() {
    let mut wrong = Vec::new();
    for protocol in protocols::all() {
        let (program, forbidden) = protocol.parsed();
        let halves = !outcomes(&program, Reading::Halves).reach(&forbidden);
        let mixed = outcomes(&program, Reading::Strict).mixed_size_race;
        if (halves, mixed) != (protocol.holds_in_halves, protocol.has_mixed_sizes) {
            wrong.push(format!(
                "{}: holds in halves: {halves}, mixed sizes: {mixed}",
                protocol.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn one_size_needs_no_trust() {
    // Where sizes are not mixed, the letter of the model gives the same promises.
    for protocol in protocols::all().filter(|protocol| !protocol.has_mixed_sizes) {
        let (program, forbidden) = protocol.parsed();
        let all = outcomes(&program, Reading::Strict);
        assert!(
            !all.reach(&forbidden),
            "{}:\n{}",
            protocol.name,
            shown(&program, &all)
        );
    }
}

#[test]
fn each_ordering_is_needed_or_listed() {
    let mut wrong = Vec::new();
    for protocol in protocols::all() {
        assert!(
            protocol.weakened.iter().any(|w| w.is_needed),
            "{}",
            protocol.name
        );
        for weakened in protocol.weakened {
            let (program, forbidden) = protocol.weakened(weakened);
            let is_reached = outcomes(&program, Reading::Whole).reach(&forbidden);
            if is_reached != weakened.is_needed {
                wrong.push(format!(
                    "{}, without {}: {is_reached}",
                    protocol.name, weakened.what
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_they_quote_stands_in_the_code() {
    for protocol in protocols::all() {
        for &(file, function, quote) in protocol.source {
            let text = fs::read_to_string(root().join(file))
                .unwrap_or_else(|error| panic!("{file}: {error}"));
            // In the function, which is the last that begins before.
            let is_there = text.match_indices(quote).any(|(at, _)| {
                let (_, after) = text[..at].rsplit_once(" fn ").unwrap_or_default();
                after
                    .strip_prefix(function)
                    .is_some_and(|a| a.starts_with(['(', '<']))
            });
            assert!(
                is_there,
                "the protocol \"{}\" of tests/axioms models `{function}` in {file}, where this no longer stands:\n\
                 {quote}\nChange the program of the model as the code has changed, then the quote.",
                protocol.name
            );
        }
    }
}

/// Files of device code.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // Of the native back end, which is no PTX.
            if path.file_name().unwrap() != "native" {
                sources(&path, files);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn every_order_in_device_code_has_a_model() {
    let mut files = Vec::new();
    for folder in ["crates/gpumap-kernels/src", "crates/gpumap-cli/kernels/src"] {
        sources(&root().join(folder), &mut files);
    }
    let quotes: Vec<_> = protocols::all()
        .flat_map(|protocol| protocol.source)
        .collect();
    let mut orders = 0;
    for file in files {
        for line in fs::read_to_string(&file).unwrap().lines().map(str::trim) {
            let is_order = [", Acquire)", ", Release)", ", AcqRel)", "atomic::fence()"]
                .iter()
                .any(|o| line.contains(o));
            if !is_order || line.starts_with("//") {
                continue;
            }
            orders += 1;
            let is_quoted =
                |(of, _, quote): &&&protocols::Source| file.ends_with(of) && line.contains(quote);
            assert!(
                quotes.iter().any(|quote| is_quoted(&quote)),
                "{}: no protocol of tests/axioms has this order, which is needed or is not:\n{line}",
                file.display()
            );
        }
    }
    assert!(
        orders >= 4,
        "only {orders} orders are found: the test looks for something else than what stands there"
    );
}

#[test]
fn the_page_has_the_table() {
    let path = root().join("docs/decisions/memory-axioms.md");
    let page = fs::read_to_string(&path).unwrap();
    for table in [protocols::table(), protocols::not_needed_list()] {
        assert!(
            page.contains(&table),
            "{} has another table than this:\n\n{table}",
            path.display()
        );
    }
}
