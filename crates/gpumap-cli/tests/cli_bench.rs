//! `gpumap bench ladder`: a table, figures as JSON, a plot; and what it refuses. `gpumap bench kmers`, beside a KMC that
//! says what the test wants.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{LAMBDA, Scene};

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
fn maps_of_the_host_on_small_batches() {
    let scene = Scene::new();
    let few = [
        "-n",
        "300",
        "--threads",
        "1,2",
        "--load",
        "0.8",
        "--repeat",
        "1",
    ];
    let said = scene.succeed(&[&["bench", "cpu"], &few[..], &["-o", "cpu.json"]].concat());
    let maps = [
        "gpumap, load 0.8",
        "hashbrown, sharded",
        "dashmap",
        "papaya",
        "scc",
    ];
    for text in maps
        .iter()
        .chain(&["retrieve_all", "every result verified"])
    {
        assert!(said.contains(text), "{text} is not in\n{said}");
    }
    assert_eq!(scene.files(), ["cpu.json"]);
    let json: serde_json::Value = serde_json::from_str(&scene.read("cpu.json")).unwrap();
    let rows = json["rows"].as_array().unwrap();
    // 7 verbs of 6 maps, a dump beside a copy, and a gather, for either number of threads; and one map of one thread.
    assert_eq!(rows.len(), 2 * (6 * 7 + 3) + 7);
    for row in rows {
        assert!(row["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{row}");
        assert_eq!(row["n"], 300);
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
        (&["bench", "cpu", "--load", "1"], "0.1 to 0.95"),
        (&["bench", "cpu", "--threads", "0"], "1 at least"),
        (
            &["bench", "ladder", "--plot", "no/folder.svg"],
            "no/folder.svg",
        ),
        (&["bench", "ladder", "-o", "-", "--plot", "-"], "twice"),
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

/// Programs in the place of KMC's: one that says how many k-mers there are, and one that writes the counts in a file.
fn with_kmc(scene: Scene, distinct: u64, counts: &str) -> Scene {
    let kmc = format!(
        "#!/bin/sh\necho 'K-Mer Counter (KMC) ver. 0'\n\
         echo '   No. of unique counted k-mers       : {distinct:10}'\n"
    );
    let dump = format!("#!/bin/sh\n/bin/cp {counts} \"$2\"\n");
    let scene = scene.with("kmc", kmc).with("kmc_dump", dump);
    for program in ["kmc", "kmc_dump"] {
        let path = scene.path(program);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    scene
}

const KMERS: [&str; 5] = ["bench", "kmers", "--repeat", "1", "--json"];

#[test]
fn the_whole_job_step_by_step() {
    let scene = Scene::new();
    let made = ["--bases", "20000", "--folder", ".", "-o", "kmers.json"];
    let path = scene.path("").into_os_string().into_string().unwrap();
    let run = |arguments: &[&str]| {
        let outcome = scene.run_with(arguments, &[("PATH", &*path)], b"");
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.stdout
    };
    let said = run(&[&KMERS[..], &made].concat());
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    let written: serde_json::Value = serde_json::from_str(&scene.read("kmers.json")).unwrap();
    assert_eq!(json, written);
    assert!(json["kmc"].is_null(), "{json}");
    // 134 reads of 150 bases.
    assert_eq!(json["bytes"], 134 * 154);
    let runs = json["runs"].as_array().unwrap();
    let formats: Vec<_> = runs.iter().map(|run| &run["format"]).collect();
    assert_eq!(formats, [".gpk", ".tsv"]);
    for run in runs {
        assert_eq!(run["summary"]["pairs"], 134 * 130);
        let steps = run["steps"].as_array().unwrap();
        for wanted in ["read", "parse", "count", "write"] {
            let step = steps.iter().find(|step| step["step"] == wanted);
            let step = step.unwrap_or_else(|| panic!("{wanted} is not in {run}"));
            let positive = |name: &str| step[name].as_f64().is_some_and(|it| it > 0.0);
            assert!(positive("seconds") && positive("bound"), "{step}");
        }
    }
    // The same reads again, as a table.
    let said = run(&[&KMERS[..4], &made[..4]].concat());
    for text in ["134 reads of 150", "write", "bound", "no KMC"] {
        assert!(said.contains(text), "{text} is not in\n{said}");
    }
    assert_eq!(scene.files(), ["kmers.json"]);
}

#[test]
fn the_whole_job_beside_kmc() {
    let scene = Scene::new().with("lambda.fa.gz", LAMBDA);
    let counts = ["count-kmers", "-C", "lambda.fa.gz", "-o", "right.tsv"];
    scene.succeed(&counts);
    let right = scene.read("right.tsv");
    let distinct = right.lines().count() as u64;
    let wrong = right.replacen("\t1\n", "\t2\n", 1);
    let mut scene = scene.with("wrong.tsv", wrong);
    let path = scene.path("").into_os_string().into_string().unwrap();
    for (told, counts, cause) in [
        (distinct, "right.tsv", None),
        (distinct, "wrong.tsv", Some("KMC: its counts differ")),
        (distinct + 1, "right.tsv", Some("distinct k-mers")),
    ] {
        let counts = scene.path(counts).into_os_string().into_string().unwrap();
        scene = with_kmc(scene, told, &counts);
        let arguments = [&KMERS[..], &["lambda.fa.gz", "--compare", "--folder", "."]].concat();
        let outcome = scene.run_with(&arguments, &[("PATH", &*path)], b"");
        match cause {
            None => {
                let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
                assert_eq!(json["kmc"]["distinct"], distinct);
                assert_eq!(json["kmc"]["counts_compared"], true);
            }
            Some(cause) => {
                assert_eq!(outcome.code, Some(2), "{outcome:?}");
                assert!(outcome.stderr.contains(cause), "{outcome:?}");
            }
        }
    }
    let left = ["kmc", "kmc_dump", "lambda.fa.gz", "right.tsv", "wrong.tsv"];
    assert_eq!(scene.files(), left);
}

#[test]
fn whole_jobs_that_cannot_be_measured() {
    let scene = Scene::new().with("not.fa", "no sequence");
    for (arguments, cause) in [
        (&["--bases", "0"][..], "1 at least"),
        (&["--error-rate", "1.5"], "0 to 1"),
        (&["--genome", "9", "x.fa"], "cannot be used with"),
        (&["missing.fa"], "missing.fa"),
        (&["not.fa", "--folder", "."], "count-kmers failed: error: "),
        (&["--folder", "no/such"], "no/such"),
    ] {
        let outcome = scene.run(&[&["bench", "kmers"], arguments].concat());
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {outcome:?}");
        assert!(outcome.stderr.contains(cause), "{arguments:?}: {outcome:?}");
    }
    assert_eq!(scene.files(), ["not.fa"]);
}
