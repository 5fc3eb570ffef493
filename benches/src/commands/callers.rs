//! `gpumap-bench callers`: threads that call one map with a few keys each.

use anyhow::Result;
use gpumap_benches::callers::{self, Row};

use super::CallersArgs;
use super::output::Outputs;

/// Runs the command.
pub fn run(args: &CallersArgs) -> Result<()> {
    let outputs = Outputs::new(&args.figures, None, None)?;
    let options = args.options()?;
    let mut shown = outputs.show(&Row::heading());
    let report = callers::run(&options, |row| {
        if shown.is_ok() {
            shown = outputs.show(&row.line());
        }
    })?;
    shown?;
    outputs.show(&format!("\n{}", report.title()))?;
    outputs.write(&report, || Ok(String::new()))
}
