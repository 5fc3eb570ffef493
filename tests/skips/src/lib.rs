//! What tests leave out where there is no GPU, or too few. A program says each reason once, on stderr;
//! each test adds a line to the file that `GPUMAP_TEST_SKIPS` names, from which CI counts them.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{Write, stderr};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Names the file of all that is left out.
pub const VARIABLE: &str = "GPUMAP_TEST_SKIPS";

/// The test that calls this leaves something out, for this reason.
///
/// # Panics
/// If the file cannot be written to: then they would not be counted.
pub fn skip(reason: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(reason.to_owned()) {
        // Past the test harness, which keeps what passing tests print to itself. A closed stderr is no
        // reason to fail.
        let _ = writeln!(stderr(), "left out: {reason}");
    }
    drop(said);
    if let Some(path) = std::env::var_os(VARIABLE) {
        // One write for the line: other processes append to the file too.
        let line = format!("{}\t{test}\t{reason}\n", program());
        let mut file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file
            .as_mut()
            .is_ok_and(|file| file.write_all(line.as_bytes()).is_ok());
        assert!(
            written,
            "{VARIABLE}={} cannot be written to",
            path.display()
        );
    }
}

/// Which device tests are to run on, as `GPUMAP_TEST_DEVICE` says: `cpu`, `checked`, `cuda` or `deferred:N`; empty for all there
/// are.
///
/// # Panics
/// For any other value: the tests would run on other devices than their caller means.
pub fn wished_device() -> String {
    let wish = std::env::var_os("GPUMAP_TEST_DEVICE").unwrap_or_default();
    let is_seed = |seed: &str| seed.parse::<u64>().is_ok();
    match wish.to_str() {
        Some(wish @ ("" | "cpu" | "checked" | "cuda")) => wish.to_owned(),
        Some(wish) if wish.strip_prefix("deferred:").is_some_and(is_seed) => wish.to_owned(),
        _ => panic!(
            "GPUMAP_TEST_DEVICE={} is none of cpu, checked, cuda and deferred:N",
            wish.display()
        ),
    }
}

/// The test program's name.
fn program() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    // Without the hash of the build.
    name.rsplit_once('-')
        .map_or(&*name, |(name, _)| name)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    #[ignore = "run by the next one in a process of its own"]
    fn child() {
        skip("no GPU");
        skip("no GPU");
    }

    #[test]
    #[ignore = "run by the next one in a process of its own"]
    fn wished() {
        println!("wished: {}.", wished_device());
    }

    #[test]
    fn a_device_that_tests_do_not_know_is_refused() {
        let with = |wish: &str| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "tests::wished", "--nocapture"])
                .env("GPUMAP_TEST_DEVICE", wish)
                .output()
                .unwrap()
        };
        for wish in ["", "cpu", "checked", "cuda", "deferred:7"] {
            let said = String::from_utf8(with(wish).stdout).unwrap();
            assert!(said.contains(&format!("wished: {wish}.")), "{said}");
        }
        for wish in ["gpu", "CPU", "cuda:0", "deferred", "deferred:x", " "] {
            assert!(!with(wish).status.success(), "{wish}");
        }
    }

    #[test]
    fn what_is_left_out_is_in_the_file() {
        let name = format!("gpumap-skips-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "tests::child"])
            .env(VARIABLE, &path)
            .output()
            .unwrap();
        let lines = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(&path);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            lines,
            "gpumap_test_skips\ttests::child\tno GPU\n\
             gpumap_test_skips\ttests::child\tno GPU\n"
        );
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.matches("left out: no GPU\n").count(), 1, "{said}");
    }
}
