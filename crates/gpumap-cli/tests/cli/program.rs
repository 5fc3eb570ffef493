//! The program as a whole: without arguments, `info`, summaries, help.

use crate::common::{LAMBDA, Scene, program};
use std::process::Stdio;

#[test]
fn without_arguments_it_does_its_job_and_checks_it() {
    let scene = Scene::new();
    let said = scene.succeed(&[]);
    for text in [
        "phage lambda",
        "reads       9,700",
        "bases       1,455,000",
        "pairs       1,261,000, ",
        "pairs/s",
        "|#",
        "the genome, expected at 23.4",
        "the genome, which has 48,482",
        "insert",
        "HashMap",
        "checked",
    ] {
        assert!(said.contains(text), "{text} is not in\n{said}");
    }
    // Where there is no GPU, what one would do.
    let info = scene.succeed(&["info", "--json"]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(
        said.contains("NVIDIA H200, arrays of the host"),
        info["cuda"] == false,
        "{said}"
    );
    assert_eq!(scene.files(), [""; 0]);
    assert_eq!(scene.succeed(&["--quiet"]), "");
    let json: serde_json::Value = serde_json::from_str(&scene.succeed(&["--json"])).unwrap();
    assert_eq!(json["pairs"], 1_261_000);
    let (valley, peak) = (&json["valley"], json["peak"].as_u64().unwrap());
    assert!(
        (20..27).contains(&peak) && valley.as_u64().unwrap() < peak,
        "{json}"
    );
    for map in ["gpumap", "hash_map"] {
        for step in ["insert", "get", "dump"] {
            let rate = json["pairs_per_second_of"][map][step].as_f64();
            assert!(rate.is_some_and(|rate| rate > 0.0), "{map} {step}: {json}");
        }
    }
}

#[test]
fn info_names_device_driver_and_device_code() {
    let scene = Scene::new();
    for arguments in [&["info"][..], &["info", "--device", "cpu"]] {
        let said = scene.succeed(arguments);
        for name in ["device", "driver", "PTX", "memory"] {
            assert!(said.lines().any(|line| line.starts_with(name)), "{said}");
        }
    }
    let said = scene.succeed(&["info", "--json", "--device", "cpu"]);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(json["cuda"], false);
    assert!(json["ptx"].is_null());
    // An option counts more than a variable.
    let variables = [("GPUMAP_DEVICE", "nothing")];
    let outcome = scene.run_with(&["info", "--device", "cpu"], &variables, b"");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    // An empty variable is none.
    for device in ["", "auto"] {
        let variables = [("GPUMAP_DEVICE", device), ("GPUMAP_PTX", "")];
        let outcome = scene.run_with(&["info"], &variables, b"");
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
}

#[test]
fn a_summary_ends_every_job() {
    let scene = Scene::new()
        .with("lambda.fa.gz", LAMBDA)
        .with("pairs.csv", "1,2\n3,4\n")
        .with("keys.csv", "1\n2\n");
    let count = ["count-kmers", "lambda.fa.gz", "-o", "out.tsv"];
    let outcome = scene.run(&count);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for name in ["device", "pairs", "seconds", "pairs/s"] {
        let is_there = outcome.stderr.lines().any(|line| line.starts_with(name));
        assert!(is_there, "{outcome:?}");
    }
    // Why it ran on the CPU, where that was not requested.
    let info: serde_json::Value =
        serde_json::from_str(&scene.succeed(&["info", "--json"])).unwrap();
    if let Some(reason) = info["no_cuda"].as_str() {
        assert!(outcome.stderr.contains(&format!("no GPU: {reason}")));
    }
    let asked = scene.run(&[&count[..], &["--device", "cpu"]].concat());
    assert!(!asked.stderr.contains("no GPU"), "{asked:?}");
    let outcome = scene.run(&[&count[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&outcome.stderr).unwrap();
    assert_eq!(json["job"], "count-kmers");
    assert_eq!(
        (json["pairs"].as_u64(), json["bases"].as_u64()),
        (Some(48482), Some(48502))
    );

    let load = ["load", "pairs.csv", "--lookup", "keys.csv", "--json"];
    let outcome = scene.run(&load);
    let json: serde_json::Value = serde_json::from_str(&outcome.stderr).unwrap();
    let numbers = ["pairs", "distinct", "looked_up", "found"].map(|name| json[name].as_u64());
    assert_eq!(numbers, [Some(2), Some(2), Some(2), Some(1)]);

    let outcome = scene.run(&[&count[..], &["--quiet"]].concat());
    assert_eq!(outcome.stderr, "");
}

#[test]
fn help_and_version_are_no_failures() {
    let scene = Scene::new();
    let help = scene.succeed(&["--help"]);
    for command in ["count-kmers", "load", "info", "--device", "--ptx"] {
        assert!(help.contains(command), "{help}");
    }
    assert!(
        scene
            .succeed(&["count-kmers", "--help"])
            .contains("--canonical")
    );
    assert!(scene.succeed(&["--version"]).starts_with("gpumap "));
}

#[test]
fn nobody_reading_the_output_is_no_failure() {
    let scene = Scene::new().with("lambda.fa.gz", LAMBDA);
    let mut child = program(&scene.path(""))
        .args(["count-kmers", "lambda.fa.gz", "--quiet"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
