//! `cargo xtask bench-callers`: takes the figures that `gpumap-bench callers` wrote, on whichever machine, into `docs/data`, and writes
//! the tables and the plot that are made of them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::process::capture;
use crate::report_text::{self, rounded};
use crate::tables;
use crate::workspace::Workspace;

/// The report that the figures become.
const NAME: &str = "callers.json";

/// Which figures.
#[derive(clap::Args)]
pub struct Options {
    /// What `gpumap-bench callers --output FILE` wrote.
    figures: PathBuf,
    /// The day of the measurement, as 2026-11-29 [default: today].
    #[arg(long)]
    date: Option<String>,
    /// What the figures do not say themselves.
    #[arg(long)]
    note: Option<String>,
}

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let name = options.figures.display();
    let figures = fs::read(&options.figures).with_context(|| format!("cannot read {name}"))?;
    let report: Value =
        serde_json::from_slice(&figures).with_context(|| format!("{name} is not a report"))?;
    let date = match &options.date {
        Some(date) => date.clone(),
        None => String::from_utf8(capture(Command::new("date").arg("+%F"))?.stdout)?,
    };
    let text = text_of(&report, date.trim(), options.note.as_deref());
    let text = text.with_context(|| format!("{name} is not of `gpumap-bench callers`"))?;
    fs::write(workspace.root.join(tables::DATA).join(NAME), text)?;
    tables::write(workspace)
}

/// The file of a report.
fn text_of(report: &Value, date: &str, note: Option<&str>) -> Result<String> {
    let rows = report["rows"].as_array().context("no rows")?;
    ensure!(!rows.is_empty(), "no rows");
    let row_of = |row: &Value| {
        let mut short = json!({
            "name": row["name"].as_str().context("a row without a name")?,
            "ms": rounded(row["ms"].as_f64().context("a row without a time")?),
            "n": row["n"].as_u64().context("a row without keys")?,
        });
        if let Some(ms) = row["ceiling_ms"].as_f64() {
            short["ceiling_ms"] = json!(rounded(ms));
        }
        Ok(short)
    };
    let rows = rows.iter().map(row_of).collect::<Result<Vec<_>>>()?;
    let command = report["command"].as_str().context("no command")?;
    let mut head = vec![
        ("title", json!("Calls with few keys by many threads")),
        ("device", report["device"].clone()),
        ("date", json!(date)),
    ];
    head.extend(note.map(|note| ("note", json!(note))));
    for name in ["runs", "time_ms", "load"] {
        ensure!(!report[name].is_null(), "no {name}");
        head.push((name, report[name].clone()));
    }
    head.push(("command", json!(format!("gpumap-bench {command}"))));
    Ok(report_text::of(&head, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_the_data_of_the_tables() {
        let rows = [
            json!({"name": "gpumap, get of 64", "ms": 0.001_234_567, "n": 64, "ceiling_ms": 0.0005, "ratio": 0.4}),
            json!({"name": "scc, get of 64", "ms": 2.0, "n": 64, "ceiling_ms": null, "ratio": null}),
        ];
        let report = json!({
            "device": "a CPU", "runs": 3, "time_ms": 20, "load": 0.8, "command": "callers -n 9", "rows": rows,
        });
        let text = text_of(&report, "2026-11-29", Some("N")).unwrap();
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            back["rows"],
            json!([
                {"name": "gpumap, get of 64", "ms": 0.001_234_57, "n": 64, "ceiling_ms": 0.0005},
                {"name": "scc, get of 64", "ms": 2.0, "n": 64},
            ])
        );
        assert_eq!(back["command"], "gpumap-bench callers -n 9");
        assert_eq!((&back["note"], &back["load"]), (&json!("N"), &json!(0.8)));
        assert!(text_of(&json!({"rows": rows}), "", None).is_err());
        assert!(text_of(&json!({"rows": []}), "", None).is_err());
    }
}
