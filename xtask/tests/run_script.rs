//! `run.sh` of a bundle, with a GPU, a sanitizer and test programs of paper.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A test program: it has one test for the sanitizer, and passes.
const PROGRAM: &str = r#"
[ "$1" = --list ] && { echo 'sanitizer_all: test'; exit; }
echo 'test result: ok. 3 passed; 0 failed; 0 ignored'
"#;

/// One without such tests, which must not run.
const OTHER: &str = r#"
[ "$1" = --list ] && exit
echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored'
exit 101
"#;

/// A driver that knows one GPU.
const NVIDIA_SMI: &str = "echo 'NVIDIA H200, 9.0, 570.0'";

/// A bundle with these programs of paper, and a sanitizer that is this script.
struct Bundle(PathBuf);

impl Bundle {
    fn new(name: &str, sanitizer: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        for part in ["tests", "path"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let script = include_str!("../src/run.sh");
        put(&folder.join("run.sh"), script);
        put(&folder.join("tests/program"), &bash(PROGRAM));
        put(&folder.join("tests/other"), &bash(OTHER));
        put(&folder.join("path/nvidia-smi"), &bash(NVIDIA_SMI));
        put(&folder.join("path/compute-sanitizer"), &bash(sanitizer));
        Self(folder)
    }

    /// Whether `run.sh sanitize` ended well, and what it printed.
    fn sanitize(&self, tools: &[&str]) -> (bool, String) {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.0.join("path").display());
        let output = Command::new(self.0.join("run.sh"))
            .arg("sanitize")
            .args(tools)
            .env("PATH", path)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), text)
    }
}

fn bash(script: &str) -> String {
    format!("#!/usr/bin/env bash\n{script}")
}

fn put(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A sanitizer that runs the program after its options, each of which has a value, and then ends as
/// `end` says for tool `$tool`.
fn sanitizer(end: &str) -> String {
    format!("tool=$2; while [[ $1 = --* ]]; do shift 2; done; \"$@\"\n{end}")
}

#[test]
fn all_tools_run_and_are_added_up() {
    let end = r#"
if [ $tool = racecheck ]; then
    echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)'
else
    echo '========= ERROR SUMMARY: 0 errors'
fi"#;
    let (well, text) = Bundle::new("clean", &sanitizer(end)).sanitize(&[]);
    assert!(well, "{text}");
    for tool in ["memcheck", "racecheck", "initcheck", "synccheck"] {
        assert!(text.contains(&format!("\n#### {tool}\n")), "{text}");
        let total = format!("\n{tool}: 3 passed, 0 failed, 0 reported\n");
        assert!(text.contains(&total), "{text}");
    }
    assert!(text.ends_with("\n12 passed, 0 failed\n"), "{text}");
}

#[test]
fn what_a_tool_reports_is_a_failure_whatever_its_exit_status() {
    let end = r#"
case $tool in
racecheck) echo '========= RACECHECK SUMMARY: 2 hazards displayed (0 errors, 2 warnings)' ;;
initcheck) echo '========= ERROR SUMMARY: 5 errors'; exit 9 ;;
*) echo '========= ERROR SUMMARY: 0 errors' ;;
esac"#;
    let bundle = Bundle::new("reports", &sanitizer(end));
    let (well, text) = bundle.sanitize(&[]);
    assert!(!well, "{text}");
    for line in [
        "memcheck: 3 passed, 0 failed, 0 reported",
        "racecheck: 3 passed, 0 failed, 2 reported",
        "initcheck: 3 passed, 0 failed, 5 reported",
        "synccheck: 3 passed, 0 failed, 0 reported",
        "FAILED: program, racecheck: 2 reported",
        "FAILED: program, initcheck",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    assert!(bundle.sanitize(&["memcheck", "synccheck"]).0);
}

#[test]
fn a_tool_that_says_nothing_is_a_failure() {
    let (well, text) = Bundle::new("silent", &sanitizer("")).sanitize(&["synccheck"]);
    assert!(!well, "{text}");
    let line = "FAILED: program, synccheck: no summary of the sanitizer";
    assert!(text.contains(line), "{text}");
}
