//! `gpumap-bench latency`: how long lookups take while other calls change the map.

use anyhow::Result;
use gpumap_benches::latency::{self, Row};

use super::LatencyArgs;
use super::output::Outputs;

/// Runs the command.
pub fn run(args: &LatencyArgs) -> Result<()> {
    let outputs = Outputs::new(&args.figures, None, None)?;
    let mut shown = outputs.show(&Row::heading());
    let report = latency::run(&args.options(), |row| {
        if shown.is_ok() {
            shown = outputs.show(&row.line());
        }
    })?;
    shown?;
    outputs.show(&format!("\n{}", report.title()))?;
    outputs.write(&report, || Ok(String::new()))
}
