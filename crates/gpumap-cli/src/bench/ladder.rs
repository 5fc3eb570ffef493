//! `gpumap bench ladder`: every way to filter, dump and scan that led to the library's own,
//! measured on this device.

use std::path::PathBuf;

use gpumap_benches::ladder::{Report, Table, to_svg};

use crate::cli::{LadderArgs, Session};
use crate::console::print_line;
use crate::error::{Error, Result};
use crate::output::{Destination, OutputKind, Staged, check_paths, commit_all};

/// Runs the command.
pub fn run(args: &LadderArgs, session: &Session) -> Result<()> {
    let of_kind = |kind| move |path: &PathBuf| Destination::new(path, kind, None);
    let figures = args.output.as_ref().map(of_kind(OutputKind::Figures));
    let plot = args.plot.as_ref().map(of_kind(OutputKind::Drawing));
    let (figures, plot) = (figures.transpose()?, plot.transpose()?);
    let outputs: Vec<&Destination> = figures.iter().chain(&plot).collect();
    check_paths(&[], &outputs)?;
    let engine = session.open()?;

    // A table on standard output, unless something else goes there.
    let is_stdout = |it: &&Destination| it.path().as_os_str() == "-";
    let to_stdout = outputs.iter().any(is_stdout);
    let show = !session.json && !to_stdout;
    let mut table = Table::default();
    let mut shown = Ok(());
    let report = engine.ladders(&args.options(), |row| {
        if show && shown.is_ok() {
            shown = print_line(table.lines(row));
        }
    })?;
    shown?;
    if show {
        print_line(format!("\n{}", report.title()))?;
    }
    if session.json && !to_stdout {
        print_line(json(&report).to_string())?;
    }

    let mut staged = Vec::new();
    if let Some(figures) = &figures {
        staged.push(stage(figures, &format!("{:#}\n", json(&report)))?);
    }
    if let Some(plot) = &plot {
        let svg = to_svg(&report).map_err(|error| Error::Draw {
            reason: error.to_string(),
        })?;
        staged.push(stage(plot, &svg)?);
    }
    commit_all(staged)
}

/// The report as JSON: names are text and figures are finite, so this cannot fail.
fn json(report: &Report) -> serde_json::Value {
    serde_json::to_value(report).unwrap_or_default()
}

fn stage(to: &Destination, text: &str) -> Result<Staged> {
    let mut file = to.stage()?;
    file.write_all(text)?;
    Ok(file)
}
