//! Does every set of features compile? The other steps build the workspace as a whole, so that what one crate needs and another
//! one turns on is never missed. And is Deflate that of zlib-rs? Any crate can turn on another one for all. And does README say how
//! many crates a first build compiles?

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process::{capture, cargo, run};
use crate::workspace::Workspace;

/// The folder of the crates that are looked at: the library, what it is made of, the program and the Python package.
const FOLDER: &str = "crates/";

/// Checks each crate by itself: without features, with each of them alone, with those of the default, and with all.
pub fn check(workspace: &Workspace) -> Result<()> {
    check_deflate(workspace)?;
    check_numbers(workspace)?;
    let line = ["metadata", "--format-version=1", "--no-deps", "--locked"];
    let output = capture(cargo(workspace).args(line))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let root = workspace.root.join(FOLDER);
    let mut sets = 0;
    for package in packages {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let (Some(name), true) = (
            package["name"].as_str(),
            manifest.starts_with(&*root.to_string_lossy()),
        ) else {
            continue;
        };
        let features = package["features"].as_object();
        let default: Vec<_> = package["features"]["default"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let features = features.into_iter().flat_map(|all| all.keys());
        for arguments in arguments(features.map(String::as_str), &default) {
            println!("{name} {}", arguments.join(" "));
            let mut command = cargo(workspace);
            command.args(["check", "--quiet", "--locked", "--package", name]);
            run(command.args(&arguments))?;
            sets += 1;
        }
    }
    println!("{sets} sets of features compile");
    Ok(())
}

/// Expects that flate2 has zlib-rs and nothing in C.
fn check_deflate(workspace: &Workspace) -> Result<()> {
    let mut tree = cargo(workspace);
    tree.args([
        "tree",
        "--workspace",
        "--all-features",
        "--locked",
        "-e",
        "features",
    ]);
    tree.args(["--prefix", "none", "--invert", "flate2"]);
    let output = capture(&mut tree)?;
    let features = deflate_features(&String::from_utf8_lossy(&output.stdout));
    ensure!(
        is_rust_alone(&features),
        "flate2 must inflate by zlib-rs; its features are {}",
        features.join(", ")
    );
    println!("flate2 has {}", features.join(", "));
    Ok(())
}

/// Expects README to have the numbers of crates that the program and the library are compiled from.
fn check_numbers(workspace: &Workspace) -> Result<()> {
    let readme = fs::read_to_string(workspace.root.join("README.md"))?;
    for (package, before) in [
        ("gpumap-cli", "The first build compiles "),
        ("gpumap", "the library alone is "),
    ] {
        let mut tree = cargo(workspace);
        tree.args(["tree", "--locked", "--package", package]);
        tree.args(["--edges", "normal,build", "--prefix", "none"]);
        let output = capture(&mut tree)?;
        let crates = crates(&String::from_utf8_lossy(&output.stdout));
        let sentence = format!("{before}{crates} crates");
        ensure!(
            readme.contains(&sentence),
            "README.md must have \"{sentence}\": cargo tree lists that many"
        );
    }
    Ok(())
}

/// How many crates `cargo tree` names, each of which it may name several times.
fn crates(tree: &str) -> usize {
    let crates = tree.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.next()?))
    });
    crates.collect::<BTreeSet<_>>().len()
}

/// The features of flate2 that `cargo tree` names.
fn deflate_features(tree: &str) -> Vec<String> {
    let mut features: Vec<String> = tree
        .lines()
        .filter_map(|line| line.strip_prefix("flate2 feature \""))
        .filter_map(|line| Some(line.split_once('"')?.0.to_owned()))
        .collect();
    features.sort();
    features.dedup();
    features
}

/// Whether these features of flate2 mean zlib-rs: where one of another library is on, that one is taken.
fn is_rust_alone(features: &[String]) -> bool {
    let has = |name: &str| features.iter().any(|feature| feature == name);
    let in_c = features.iter().any(|feature| {
        feature.contains("zlib-ng")
            || feature.contains("cloudflare")
            || feature.contains("any_c_zlib")
            || ["zlib", "zlib-default"].contains(&feature.as_str())
    });
    has("zlib-rs") && !in_c
}

/// What cargo is told for each set of these features, of which those are the default.
fn arguments<'a>(features: impl Iterator<Item = &'a str>, default: &[&str]) -> Vec<Vec<&'a str>> {
    let none = "--no-default-features";
    let features: Vec<&str> = features.filter(|&feature| feature != "default").collect();
    let mut all = vec![vec![]];
    if !features.is_empty() {
        all.extend([vec![none], vec!["--all-features"]]);
    }
    all.extend(
        features
            .into_iter()
            // The first set is the same.
            .filter(|&feature| default != [feature])
            .map(|feature| vec![none, "--features", feature]),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zlib_rs_is_told_from_libraries_in_c() {
        let good = "flate2 v1.1.10\nflate2 feature \"zlib-rs\"\n\
            ├ other\nflate2 feature \"any_zlib\" (*)\nflate2 feature \"zlib-rs\" (*)\n";
        assert_eq!(deflate_features(good), ["any_zlib", "zlib-rs"]);
        assert!(is_rust_alone(&deflate_features(good)));
        for bad in [
            "zlib-ng",
            "zlib",
            "zlib-default",
            "cloudflare_zlib",
            "any_c_zlib",
        ] {
            let tree = format!("{good}flate2 feature \"{bad}\"\n");
            assert!(!is_rust_alone(&deflate_features(&tree)), "{bad}");
        }
        assert!(!is_rust_alone(&deflate_features(
            "flate2 feature \"default\""
        )));
    }

    #[test]
    fn each_feature_is_checked_alone() {
        assert_eq!(arguments([].into_iter(), &[]), [[""; 0]]);
        let none = "--no-default-features";
        let mut sets = vec![
            vec![],
            vec![none],
            vec!["--all-features"],
            vec![none, "--features", "a"],
            vec![none, "--features", "b"],
        ];
        let features = || ["a", "default", "b"].into_iter();
        assert_eq!(arguments(features(), &["a", "b"]), sets);
        // The default alone is checked once.
        sets.remove(3);
        assert_eq!(arguments(features(), &["a"]), sets);
    }
}
