//! The suites run on the CPU, in small: every result is verified there too.

use std::path::Path;
use std::process::Command;

/// The program with these arguments, in a folder.
fn bench(folder: &Path, arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_gpumap-bench"))
        .args(arguments)
        .env("GPUMAP_DEVICE", "cpu")
        .current_dir(folder)
        .output()
        .expect("the program runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
}

/// Rows of results that were written.
fn rows(file: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read(file).expect("results");
    let mut results: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let rows = results["rows"].as_array_mut().expect("rows");
    std::mem::take(rows)
}

/// Runs some suites, and says how many rows there are with each of some words.
fn run(suites: &str, load: &str, words: &[(&str, usize)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let small = ["-n", "1500", "-r", "1", "--load", load];
    let files = ["--json", "out.json", "--html", "out.html"];
    let arguments = [&["--suite", suites][..], &small, &files].concat();
    bench(folder.path(), &arguments);
    let rows = rows(&folder.path().join("out.json"));
    let with = |word: &str| {
        let names = rows.iter().filter_map(|row| row["name"].as_str());
        names.filter(|name| name.contains(word)).count()
    };
    for &(word, expected) in words {
        assert_eq!(with(word), expected, "rows with {word:?} of {suites}");
    }
    let drawn = rows.iter().any(|row| !row["point"].is_null());
    let page = std::fs::read_to_string(folder.path().join("out.html")).expect("a page");
    assert_eq!(page.contains("<svg"), drawn, "plots of {suites}");

    // The same page from the file.
    bench(
        folder.path(),
        &["--results", "out.json", "--html", "again.html"],
    );
    let again = std::fs::read_to_string(folder.path().join("again.html")).expect("a page");
    assert!(page == again, "another page of the same results");
}

#[test]
fn arrays_of_the_host() {
    run(
        "host",
        "0.5",
        &[("link, ", 5), ("pinned get_into", 2), ("chunks of", 10)],
    );
}

#[test]
fn maps_of_the_host() {
    run(
        "peers",
        "0.5",
        &[("count of 1000, ", 3), ("hashbrown", 3), ("dashmap", 3)],
    );
}

#[test]
fn mixes_and_repeats() {
    run(
        "mixed,repeats",
        "0.5",
        &[(" mix ", 25), ("16 times", 8), ("Zipf", 8)],
    );
}

#[test]
fn rows_of_keys() {
    run(
        "rows,groups,joins,wide",
        "0.5",
        &[
            ("insert", 18),
            ("get, miss", 13),
            ("merge", 12),
            ("unique", 18),
            ("group by", 10),
            ("join", 12),
        ],
    );
}

#[test]
fn rows_of_strings() {
    run(
        "strings",
        "0.5",
        &[("words", 12), ("URLs", 12), ("texts", 12), ("get, miss", 9)],
    );
}

/// In cells, in one array by row and in segments by row: three sizes, in three ways.
#[test]
fn large_values_in_cells_and_by_row() {
    run(
        "values",
        "0.5",
        &[
            (" cells insert", 9),
            (" rows upsert", 9),
            (" rows in segments get, hit", 9),
            ("get, miss", 27),
            ("4 streams", 36),
            ("at its worst moment", 9),
        ],
    );
}

#[test]
fn sorts() {
    run("sort", "0.5", &[("sort", 4), ("greatest", 2)]);
}

#[test]
fn dumps_and_sizes() {
    run(
        "retrieve-all,size",
        "0.5",
        &[("64 submaps", 24), ("ordered", 36), ("get, miss", 14)],
    );
}

#[test]
fn verbs_and_calls_of_few_keys() {
    run(
        "ops,small",
        "0.5,0.95",
        &[("load 0.95 get, hit", 4), ("queued", 8), ("3 verbs", 5)],
    );
}
