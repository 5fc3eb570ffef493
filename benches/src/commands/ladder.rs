//! `gpumap-bench ladder`: every way to filter, dump and scan that led to the library's own,
//! measured on this device.

use anyhow::Result;
use gpumap_benches::ladder::{self, Table, to_svg};

use super::LadderArgs;
use super::output::Outputs;

/// Runs the command.
pub fn run(args: &LadderArgs) -> Result<()> {
    let outputs = Outputs::new(&args.figures, args.plot.as_deref(), None)?;
    let (device, _) = args.device.open()?;
    let mut table = Table::default();
    let mut shown = Ok(());
    let report = ladder::run(&device, &args.options(), |row| {
        if shown.is_ok() {
            shown = outputs.show(&table.lines(row));
        }
    })?;
    shown?;
    outputs.show(&format!("\n{}", report.title()))?;
    outputs.write(&report, || to_svg(&report))
}
