//! `cargo xtask bench-kmers`: takes the figures that `gpumap-bench kmers` wrote, on whichever machine, into `docs/data`, and writes the
//! tables that are made of them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::report_text::{self, Options, rounded};
use crate::workspace::Workspace;

/// The report that the figures become.
const NAME: &str = "kmers.json";

/// The outputs, and what the tables call them.
const FORMATS: [(&str, &str); 2] = [(".gpk", ".gpk"), (".tsv", "TSV")];

/// Runs the command.
pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    report_text::write(workspace, options, NAME, text_of)
}

/// The file of some reports, which are of one machine and one KMC.
fn text_of(reports: &[Value], date: &str, note: Option<&str>) -> Result<String> {
    let first = reports.first().context("no report")?;
    let (mut rows, mut inputs) = (Vec::new(), Vec::new());
    for report in reports {
        for name in ["/device", "/kmc/version", "/kmc/threads"] {
            let is_same = report.pointer(name).is_some_and(|it| !it.is_null())
                && report.pointer(name) == first.pointer(name);
            ensure!(
                is_same,
                "no {name}, or another one than in the first report"
            );
        }
        let input = report["input"].as_str().context("no input")?;
        let (_, form) = input.rsplit_once(", ").context("no made reads")?;
        let (form, _) = form.rsplit_once(" of ").context("no size of the reads")?;
        let series = format!("{form}, k = {}", report["k"]);
        if !inputs.contains(&input) {
            inputs.push(input);
        }
        rows.extend(rows_of(report, &series).with_context(|| series.clone())?);
    }
    let kmc = &first["kmc"];
    let device = first["device"].as_str().unwrap_or_default();
    // Without the number of the device and its kernels.
    let device = device.split(" (").next();
    let mut head = vec![
        ("title", json!("Counting k-mers: the whole job")),
        ("device", json!(device)),
        ("date", json!(date)),
    ];
    let note = note.map(str::to_owned).into_iter();
    let note = note.chain([inputs.join("; ")]).collect::<Vec<_>>();
    head.push(("note", json!(note.join(" "))));
    head.push(("kmc", kmc["version"].clone()));
    head.push(("threads", kmc["threads"].clone()));
    head.push(("command", json!("gpumap-bench kmers -k K --reads FORM")));
    Ok(report_text::of(&head, &rows))
}

/// A row for each time of a report.
fn rows_of(report: &Value, series: &str) -> Result<Vec<Value>> {
    let row = |name: &str, seconds: f64| json!({"name": format!("{series}: {name}"), "ms": rounded(1e3 * seconds)});
    let number = |value: &Value, name: &'static str| value[name].as_f64().context(name);
    let mut rows = vec![row("KMC", number(&report["kmc"], "seconds")?)];
    let runs = report["runs"].as_array().context("no runs")?;
    for (format, label) in FORMATS {
        let run = runs.iter().find(|run| run["format"] == format);
        let run = run.with_context(|| format!("no run to {format}"))?;
        let process = number(run, "seconds")?;
        let job = number(&run["summary"], "seconds")?;
        let write = number(&run["summary"]["steps"], "write")?;
        rows.push(row(&format!("{label}, the process"), process));
        rows.push(row(
            &format!("{label}, before and after the work"),
            process - job,
        ));
        rows.push(row(&format!("{label}, counting"), job - write));
        let mut write = row(&format!("{label}, write"), write);
        let steps = run["steps"].as_array().context("no steps")?;
        let bound = steps.iter().find(|step| step["step"] == "write");
        let bound = number(bound.context("no step of writing")?, "bound")?;
        // A file of as many bytes, by one copy.
        write["ceiling_ms"] = json!(rounded(1e3 * bound));
        rows.push(write);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_the_data_of_the_tables() {
        let run = |format: &str, seconds: f64| {
            json!({
                "format": format, "seconds": seconds, "summary": {"seconds": seconds - 0.5, "steps": {"write": 0.25}},
                "steps": [{"step": "write", "bound": 0.125}],
            })
        };
        let report = |k: u32| {
            json!({
                "input": "9 reads of 5 bases from a random genome of 40, 0.5 % errors, FASTQ in one member of gzip of 70 bytes",
                "device": "a GPU (cuda:0)", "k": k, "runs": [run(".gpk", 1.0), run(".tsv", 2.0)],
                "kmc": {"version": "3.2.1", "threads": 4, "seconds": 8.5},
            })
        };
        let text = text_of(&[report(21), report(31)], "2026-11-29", Some("N.")).unwrap();
        let back: Value = serde_json::from_str(&text).unwrap();
        let rows = back["rows"].as_array().unwrap();
        let times = |k: u32| {
            let series = format!("FASTQ in one member of gzip, k = {k}: ");
            let row = rows.iter().filter_map(move |row| {
                let name = row["name"].as_str()?.strip_prefix(&series)?.to_owned();
                Some((name, row["ms"].as_f64()?))
            });
            row.collect::<Vec<_>>()
        };
        let expected = [
            ("KMC", 8500.0),
            (".gpk, the process", 1000.0),
            (".gpk, before and after the work", 500.0),
            (".gpk, counting", 250.0),
            (".gpk, write", 250.0),
            ("TSV, the process", 2000.0),
            ("TSV, before and after the work", 500.0),
            ("TSV, counting", 1250.0),
            ("TSV, write", 250.0),
        ];
        let expected = expected.map(|(name, ms)| (name.to_owned(), ms));
        assert_eq!(
            (times(21), times(31)),
            (expected.to_vec(), expected.to_vec())
        );
        let note = format!("N. {}", report(21)["input"].as_str().unwrap());
        assert_eq!(
            (&back["note"], &back["kmc"]),
            (&json!(note), &json!("3.2.1"))
        );

        let mut other = report(21);
        other["kmc"]["threads"] = json!(5);
        let mut without = report(21);
        without["kmc"] = Value::Null;
        for wrong in [&[report(21), other][..], &[without], &[json!({})], &[]] {
            assert!(text_of(wrong, "", None).is_err(), "{wrong:?}");
        }
    }
}
