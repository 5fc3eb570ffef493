//! The ladders: filter, `retrieve_all` and scan from the naive kernel up to the library's own,
//! every rung verified and measured on the same data, beside a copy in the same run.
//!
//! The kernels of the rungs are in `gpumap-bench-kernels`, with PTX of their own. [`Filter`],
//! [`RetrieveAll`] and [`Scan`] each hold the data of one ladder and run any rung of it, on any
//! device; [`run`] measures them all.

mod digest;
mod filter;
mod plot;
mod report;
mod retrieve_all;
mod scan;

pub use filter::{FILTER_RUNGS, Filter, FilterRung};
pub use plot::to_svg;
pub use report::{Report, Row, Table, grouped};
pub use retrieve_all::{DUMP_RUNGS, DumpRung, RetrieveAll, Slot};
pub use scan::{SCAN_RUNGS, Scan, ScanRung};

use anyhow::{Result, ensure};
use gpumap::{Buffer, Device, PtxChoice, Stream};
use gpumap_bench_kernels::ceilings::{COPY_16, CeilingArgs};
use gpumap_simt::kernel::Grid;

use crate::measure::{Clock, Time};

/// Which ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Ladder {
    /// Elements of an array that satisfy a predicate.
    Filter,
    /// Live pairs of the slots of a map.
    RetrieveAll,
    /// Inclusive sums.
    Scan,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Elements of 4 bytes for filter and scan; half as many slots of 16 bytes for
    /// `retrieve_all`. None: [`default_size`].
    pub size: Option<usize>,
    /// Runs of each rung; the median counts.
    pub runs: usize,
    /// Which ladders.
    pub ladders: Vec<Ladder>,
}

/// Elements if nothing else is said: 400 million, far beyond any L2, or what the CPU executor
/// does in some seconds.
pub fn default_size(device: &Device) -> usize {
    if device.is_cuda() {
        400_000_000
    } else {
        131_072
    }
}

/// How many elements in a hundred the filter keeps, in turn; the first is what the plot shows.
const KEPT: [u32; 3] = [50, 5, 95];

/// Over how many submaps `retrieve_all` goes, in turn.
const SUBMAPS: [usize; 2] = [1, 9];

/// Makes the kernels of the benchmarks known to a device.
///
/// # Errors
/// What the driver has to say about them.
pub fn register_kernels(device: &Device) -> Result<()> {
    if device.is_cuda() {
        device.register_ptx(match device.info()?.ptx {
            Some(PtxChoice::Sm90) => &include_bytes!("../../ptx/gpumap_bench_sm_90.ptx.br")[..],
            _ => include_bytes!("../../ptx/gpumap_bench_sm_70.ptx.br"),
        })?;
    }
    Ok(())
}

/// Verifies and measures every rung of the ladders that are wanted; `on_row` sees each row as it
/// comes.
///
/// # Errors
/// A rung that gives a wrong result, or whatever the device cannot do.
pub fn run(device: &Device, options: &Options, mut on_row: impl FnMut(&Row)) -> Result<Report> {
    ensure!(
        options.size != Some(0),
        "nothing can be measured on no elements"
    );
    register_kernels(device)?;
    let stream = Stream::new(device)?;
    let n = options.size.unwrap_or_else(|| default_size(device));
    let clock = Clock::new(options.runs);
    let mut report = Report::new(device, n, options.runs)?;

    let copy = copy(&stream, n.div_ceil(4), clock)?;
    let bytes = 2 * 16 * n.div_ceil(4) as u64;
    let mut add = |row: Row| {
        on_row(&row);
        report.add(row);
    };
    let row = Row::copy(n, copy, bytes);
    let rate = row.bytes_per_ms();
    add(row);
    for ladder in &options.ladders {
        match ladder {
            Ladder::Filter => {
                filter::measure(&stream, n, clock, &mut |row| add(row.beside(rate)))?;
            }
            Ladder::RetrieveAll => {
                let slots = (n / 2).max(1);
                retrieve_all::measure(&stream, slots, clock, &mut |row| {
                    add(row.beside(rate));
                })?;
            }
            Ladder::Scan => {
                scan::measure(&stream, n, clock, &mut |row| add(row.beside(rate)))?;
            }
        }
    }
    Ok(report)
}

/// Copies `units` units of 16 bytes.
fn copy(stream: &Stream, units: usize, clock: Clock) -> Result<Time> {
    let mut from = Buffer::<[u64; 2]>::zeroed(stream, units)?;
    let mut to = Buffer::<[u64; 2]>::zeroed(stream, units)?;
    let args = CeilingArgs {
        table: from.as_mut_ptr().cast(),
        units: units as u64,
        other: to.as_mut_ptr().cast(),
        n: units as u64,
    };
    let (took, ()) = clock.time(|| {
        // SAFETY: both sides have as many units, and outlive the launch, which is waited for.
        unsafe { COPY_16.launch(stream, Grid::covering(units as u64, 256), args) }?;
        stream.synchronize()
    })?;
    Ok(took)
}
