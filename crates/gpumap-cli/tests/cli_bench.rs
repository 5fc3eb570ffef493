//! `gpumap bench ladder`: a table, figures as JSON, a plot; and what it refuses.

mod common;

use common::Scene;

/// Rungs of the ladders, each in all its cases.
const ROWS: usize = 3 * 13 + 2 * 12 + 11;

#[test]
fn every_rung_is_verified_and_measured() {
    let scene = Scene::new();
    let files = ["-o", "ladder.json", "--plot", "ladder.svg"];
    let few = ["bench", "ladder", "--size", "3000", "--repeat", "2"];
    let said = scene.succeed(&[&few[..], &files].concat());
    for text in [
        "copy of 3,000 i32",
        "filter of 3,000 i32, 5 % kept",
        "retrieve_all of 1,500 slots, half full, 9 submaps",
        "scan of 3,000 i32",
        "Hillis-Steele",
        "gpumap: decoupled look-back",
        "median of 2 runs, every result verified",
    ] {
        assert!(said.contains(text), "{text} is not in\n{said}");
    }
    assert_eq!(scene.files(), ["ladder.json", "ladder.svg"]);
    assert!(scene.read("ladder.svg").starts_with("<svg"));

    let json: serde_json::Value = serde_json::from_str(&scene.read("ladder.json")).unwrap();
    assert_eq!(json["size"], 3000);
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1 + ROWS);
    for row in rows {
        let positive = |name: &str| row[name].as_f64().is_some_and(|it| it > 0.0);
        assert!(
            positive("ms") && positive("bytes") && positive("of_copy"),
            "{row}"
        );
        assert!(said.contains(row["rung"].as_str().unwrap()), "{row}");
    }
}

#[test]
fn one_ladder_as_json() {
    let scene = Scene::new();
    let scan = [
        "bench", "ladder", "-n", "100", "--repeat", "1", "--only", "scan",
    ];
    for more in [&["--json"][..], &["-o", "-"], &["--json", "-o", "-"]] {
        let said = scene.succeed(&[&scan[..], more].concat());
        let json: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(json["rows"].as_array().unwrap().len(), 1 + 11);
    }
    assert_eq!(scene.files(), [""; 0]);
}

#[test]
fn what_cannot_be_measured() {
    let scene = Scene::new();
    for (arguments, cause) in [
        (&["bench"][..], "Usage"),
        (&["bench", "ladder", "--size", "0"], "1 at least"),
        (&["bench", "ladder", "--repeat", "x"], "invalid digit"),
        (&["bench", "ladder", "--only", "sort"], "retrieve-all"),
        (
            &["bench", "ladder", "--plot", "no/folder.svg"],
            "no/folder.svg",
        ),
        (&["bench", "ladder", "-o", "a", "--plot", "a"], "twice"),
    ] {
        let outcome = scene.run(arguments);
        let said = outcome.stdout.clone() + &outcome.stderr;
        assert!(said.contains(cause), "{arguments:?}: {outcome:?}");
        if arguments.len() > 1 {
            assert_eq!(outcome.code, Some(2), "{arguments:?}: {outcome:?}");
            assert!(outcome.stderr.starts_with("error: "), "{outcome:?}");
        }
    }
    assert_eq!(scene.files(), [""; 0]);
}
