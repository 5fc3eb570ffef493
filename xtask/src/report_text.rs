//! The text of a report in `docs/data`: a row a line, so that a new measurement is a small change.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::capture;
use crate::tables;
use crate::workspace::Workspace;

/// Which figures become a report.
#[derive(clap::Args)]
pub struct Options {
    /// What the command of `gpumap-bench` wrote by `--output FILE`, in one run or in several on one machine.
    #[arg(required = true)]
    figures: Vec<PathBuf>,
    /// The day of the measurement, as 2026-11-29 [default: today].
    #[arg(long)]
    date: Option<String>,
    /// What the figures do not say themselves.
    #[arg(long)]
    note: Option<String>,
}

/// Makes a report of figures, by `text_of`, which is told the day and the note too, and writes the tables that are made of reports.
pub fn write(
    workspace: &Workspace,
    options: &Options,
    name: &str,
    text_of: impl FnOnce(&[Value], &str, Option<&str>) -> Result<String>,
) -> Result<()> {
    let read = |path: &PathBuf| -> Result<Value> {
        let name = path.display();
        let figures = fs::read(path).with_context(|| format!("cannot read {name}"))?;
        serde_json::from_slice(&figures).with_context(|| format!("{name} is not a report"))
    };
    let reports = options.figures.iter().map(read);
    let reports = reports.collect::<Result<Vec<_>>>()?;
    let date = match &options.date {
        Some(date) => date.clone(),
        None => String::from_utf8(capture(Command::new("date").arg("+%F"))?.stdout)?,
    };
    let text = text_of(&reports, date.trim(), options.note.as_deref());
    let text = text.with_context(|| format!("not the figures of {name}"))?;
    fs::write(workspace.root.join(tables::DATA).join(name), text)?;
    tables::write(workspace)
}

/// The text of a report: what stands before the rows, and the rows.
pub fn of(head: &[(&str, Value)], rows: &[Value]) -> String {
    let head = head
        .iter()
        .map(|(name, value)| format!(" \"{name}\": {value},\n"));
    let rows: Vec<_> = rows.iter().map(|row| format!("  {row}")).collect();
    let (head, rows) = (head.collect::<String>(), rows.join(",\n"));
    format!("{{\n{head} \"rows\": [\n{rows}\n ]\n}}\n")
}

/// Milliseconds with six digits: more are those of the clock.
pub fn rounded(ms: f64) -> f64 {
    if ms == 0.0 {
        return ms;
    }
    let scale = 10f64.powi((5 - ms.abs().log10().floor() as i32).max(0));
    (ms * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_is_a_line() {
        let rows = [json!({"name": "a"}), json!({"name": "b"})];
        let text = of(&[("title", json!("T")), ("runs", json!(3))], &rows);
        assert_eq!(
            text,
            "{\n \"title\": \"T\",\n \"runs\": 3,\n \"rows\": [\n  {\"name\":\"a\"},\n  {\"name\":\"b\"}\n ]\n}\n"
        );
    }

    #[test]
    fn six_digits_are_left() {
        let rounded_ones = [1234567.8, 1.234_567_89, 0.000_123_456_789, 0.0].map(rounded);
        assert_eq!(rounded_ones, [1234568.0, 1.234_57, 0.000_123_457, 0.0]);
    }
}
