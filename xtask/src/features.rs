//! Does every set of features compile? The other steps build the workspace as a whole, so that what one crate needs and another
//! one turns on is never missed.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::{capture, cargo, run};
use crate::workspace::Workspace;

/// The folder of the crates that are looked at: the library, what it is made of, the program and the Python package.
const FOLDER: &str = "crates/";

/// Checks each crate by itself: without features, with each of them alone, with those of the default, and with all.
pub fn check(workspace: &Workspace) -> Result<()> {
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
        let features = features.into_iter().flat_map(|all| all.keys());
        for arguments in arguments(features.map(String::as_str)) {
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

/// What cargo is told for each set of these features.
fn arguments<'a>(features: impl Iterator<Item = &'a str>) -> Vec<Vec<&'a str>> {
    let none = "--no-default-features";
    let features: Vec<&str> = features.filter(|&feature| feature != "default").collect();
    let mut all = vec![vec![]];
    if !features.is_empty() {
        all.extend([vec![none], vec!["--all-features"]]);
    }
    all.extend(
        features
            .into_iter()
            .map(|feature| vec![none, "--features", feature]),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_checked_alone() {
        assert_eq!(arguments([].into_iter()), [[""; 0]]);
        let none = "--no-default-features";
        assert_eq!(
            arguments(["a", "default", "b"].into_iter()),
            [
                vec![],
                vec![none],
                vec!["--all-features"],
                vec![none, "--features", "a"],
                vec![none, "--features", "b"],
            ]
        );
    }
}
