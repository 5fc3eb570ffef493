//! `gpumap bench cpu`: maps of the host beside this one on the CPU.

use std::path::PathBuf;

use gpumap_benches::cpu::{self, Report, Row};

use crate::cli::{CpuArgs, Session};
use crate::console::print_line;
use crate::error::{Error, Result};
use crate::output::{Destination, OutputKind, check_paths, commit_all};

/// Runs the command.
pub fn run(args: &CpuArgs, session: &Session) -> Result<()> {
    let of_figures = |path: &PathBuf| Destination::new(path, OutputKind::Figures, None);
    let figures = args.output.as_ref().map(of_figures).transpose()?;
    let outputs: Vec<&Destination> = figures.iter().collect();
    check_paths(&[], &outputs)?;

    // A table on standard output, unless something else goes there.
    let to_stdout = outputs.iter().any(|it| it.path().as_os_str() == "-");
    let show = !session.json && !to_stdout;
    let mut shown = match show {
        true => print_line(Row::heading()),
        false => Ok(()),
    };
    let report = cpu::run(&args.options(), |row| {
        if show && shown.is_ok() {
            shown = print_line(row.line());
        }
    });
    let report = report.map_err(|error| Error::Bench {
        source: error.into(),
    })?;
    shown?;
    if show {
        print_line(format!("\n{}", report.title()))?;
    }
    if session.json && !to_stdout {
        print_line(json(&report).to_string())?;
    }
    let Some(figures) = figures else {
        return Ok(());
    };
    let mut file = figures.stage()?;
    file.write_all(&format!("{:#}\n", json(&report)))?;
    commit_all(vec![file])
}

/// The report as JSON: names are text and figures are finite, so this cannot fail.
fn json(report: &Report) -> serde_json::Value {
    serde_json::to_value(report).unwrap_or_default()
}
