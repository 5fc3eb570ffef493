//! `cargo xtask bench-cpu`: measures maps on this CPU, and writes the figures into the documents.
//!
//! To be run where nothing else runs. The figures go to `docs/data/cpu.json`, from which the tables and the plot are made.

use std::fs;
use std::process::Command;
use std::thread::available_parallelism;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::process::{self, capture};
use crate::report_text;
use crate::tables;
use crate::workspace::Workspace;

/// Where the figures go.
const DATA: &str = "docs/data/cpu.json";

/// Pairs, which are in the names of the rows.
const SIZE: &str = "20000000";

/// The load factor of gpumap, which is not.
const LOAD: &str = "0.8";

/// How often each verb runs.
#[derive(clap::Args)]
pub struct Options {
    /// Runs of each verb; the median counts.
    #[arg(long, default_value = "3")]
    repeat: usize,
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let build = [
        "build",
        "--release",
        "--locked",
        "--package",
        "gpumap-benches",
    ];
    process::run(process::cargo(workspace).args(build))?;
    let all = available_parallelism()?.to_string();
    let threads = match &*all {
        "1" => all.clone(),
        _ => format!("1,{all}"),
    };
    let figures = workspace.target.join("bench-cpu.json");
    let repeat = options.repeat.to_string();
    let mut bench = Command::new(workspace.target.join("release/gpumap-bench"));
    bench.args(["cpu", "--size", SIZE, "--load", LOAD]);
    bench.args(["--threads", &threads, "--repeat", &repeat]);
    process::run(bench.arg("--output").arg(&figures))?;
    let report: Value = serde_json::from_slice(&fs::read(&figures)?)?;
    let date = String::from_utf8(capture(Command::new("date").arg("+%F"))?.stdout)?;
    let text = text_of(&report, &all, options.repeat, date.trim())?;
    fs::write(workspace.root.join(DATA), text)?;
    tables::write(workspace)
}

/// The file of a report, a row a line.
fn text_of(report: &Value, all: &str, repeat: usize, date: &str) -> Result<String> {
    let rows = report["rows"].as_array().context("no rows")?;
    let mut lines = Vec::new();
    for row in rows {
        let name = row["name"].as_str().context("a row without a name")?;
        lines.push(json!({
            "name": name_of(name, all),
            "ms": (row["ms"].as_f64().context("a row without a time")? * 1e3).round() / 1e3,
            "n": row["n"],
            "threads": row["threads"],
        }));
    }
    ensure!(!lines.is_empty(), "no rows");
    let device = report["device"].as_str().context("no device")?;
    let note = format!(
        "20 M pairs of `u64` and `u64`, load factor {LOAD} for gpumap, the same foldhash for all others; inserts make a new map \
         within the time. All threads are {all}."
    );
    let threads = match all {
        "1" => all.to_owned(),
        _ => format!("1,{all}"),
    };
    let command = format!(
        "gpumap-bench cpu --size {SIZE} --load {LOAD} --threads {threads} --repeat {repeat}"
    );
    let head = [
        ("title", json!("Maps on a CPU")),
        ("device", json!(device)),
        ("date", json!(date)),
        ("note", json!(note)),
        ("runs", json!(repeat)),
        ("command", json!(command)),
    ];
    Ok(report_text::of(&head, &lines))
}

/// The name of a row in the documents, which know neither the load factor nor how many threads all are.
fn name_of(name: &str, all: &str) -> String {
    let name = name.replace(&format!(", load {LOAD}"), "");
    match all {
        "1" => name.replace(", 1 thread,", ", all threads,"),
        _ => name.replace(&format!(", {all} threads,"), ", all threads,"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_becomes_the_data_of_the_tables() {
        let row = |name: &str| json!({"name": name, "ms": 1.23456, "n": 5, "threads": 16});
        let rows = [
            row("gpumap, load 0.8, 20000000 pairs, 16 threads, insert"),
            row("papaya, 20000000 pairs, 1 thread, get"),
        ];
        let report = json!({"device": "a CPU, 16 cores", "rows": rows});
        let text = text_of(&report, "16", 3, "2026-11-27").unwrap();
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            back["rows"][0]["name"],
            "gpumap, 20000000 pairs, all threads, insert"
        );
        assert_eq!(back["rows"][0]["ms"], 1.235);
        assert_eq!(
            back["rows"][1]["name"],
            "papaya, 20000000 pairs, 1 thread, get"
        );
        assert_eq!(back["device"], "a CPU, 16 cores");
        assert!(
            back["command"]
                .as_str()
                .unwrap()
                .contains("--threads 1,16 --repeat 3")
        );
        assert!(text_of(&json!({"rows": []}), "16", 3, "").is_err());
    }
}
