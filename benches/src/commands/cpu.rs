//! `gpumap-bench cpu`: maps of the host beside this one on the CPU.

use anyhow::Result;
use gpumap_benches::cpu::{self, Row};

use super::CpuArgs;
use super::output::Outputs;

/// Runs the command.
pub fn run(args: &CpuArgs) -> Result<()> {
    let outputs = Outputs::new(&args.figures, None, None)?;
    let mut shown = outputs.show(&Row::heading());
    let report = cpu::run(&args.options(), |row| {
        if shown.is_ok() {
            shown = outputs.show(&row.line());
        }
    })?;
    shown?;
    outputs.show(&format!("\n{}", report.title()))?;
    outputs.write(&report, || Ok(String::new()))
}
