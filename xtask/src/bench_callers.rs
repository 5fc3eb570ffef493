//! `cargo xtask bench-callers`: takes the figures that `gpumap-bench callers` wrote, on whichever machine, into `docs/data`, and writes
//! the tables and the plot that are made of them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::report_text::{self, Options, rounded};
use crate::workspace::Workspace;

/// The report that the figures become.
const NAME: &str = "callers.json";

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    report_text::write(workspace, options, NAME, text_of)
}

/// The file of some reports, which are of one machine.
fn text_of(reports: &[Value], date: &str, note: Option<&str>) -> Result<String> {
    let first = reports.first().context("no report")?;
    let (mut rows, mut commands) = (Vec::new(), Vec::new());
    for report in reports {
        for name in ["device", "runs", "time_ms", "load"] {
            let is_same = !report[name].is_null() && report[name] == first[name];
            ensure!(
                is_same,
                "no {name}, or another one than in the first report"
            );
        }
        rows.extend(report["rows"].as_array().context("no rows")?);
        let command = report["command"].as_str().context("no command")?;
        commands.push(format!("gpumap-bench {}", without_output(command)));
    }
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
    let rows = rows.into_iter().map(row_of).collect::<Result<Vec<_>>>()?;
    let mut head = vec![
        ("title", json!("Calls with few keys by many threads")),
        ("device", first["device"].clone()),
        ("date", json!(date)),
    ];
    head.extend(note.map(|note| ("note", json!(note))));
    head.extend(["runs", "time_ms", "load"].map(|name| (name, first[name].clone())));
    head.push(("command", json!(commands.join("; "))));
    Ok(report_text::of(&head, &rows))
}

/// Arguments without the file that the figures went to.
fn without_output(command: &str) -> String {
    let mut words = command.split(' ');
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "-o" | "--output" => drop(words.next()),
            _ => kept.push(word),
        }
    }
    kept.join(" ")
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
        let report = |rows: &[Value]| {
            json!({
                "device": "a CPU", "runs": 3, "time_ms": 20, "load": 0.8, "command": "callers -o f.json -n 9", "rows": rows,
            })
        };
        let reports = [report(&rows[..1]), report(&rows[1..])];
        let text = text_of(&reports, "2026-11-29", Some("N")).unwrap();
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            back["rows"],
            json!([
                {"name": "gpumap, get of 64", "ms": 0.001_234_57, "n": 64, "ceiling_ms": 0.0005},
                {"name": "scc, get of 64", "ms": 2.0, "n": 64},
            ])
        );
        let command = "gpumap-bench callers -n 9";
        assert_eq!(back["command"], format!("{command}; {command}"));
        assert_eq!((&back["note"], &back["load"]), (&json!("N"), &json!(0.8)));
        let mut other = report(&rows);
        other["device"] = json!("another CPU");
        for wrong in [
            &[reports[0].clone(), other][..],
            &[json!({"rows": rows})],
            &[report(&[])],
            &[],
        ] {
            assert!(text_of(wrong, "", None).is_err(), "{wrong:?}");
        }
    }
}
