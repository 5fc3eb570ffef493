//! What the device can do at best: copy, random gather, random compare-and-exchange.

use anyhow::Result;
use gpumap::{Buffer, Stream};
use gpumap_kernels::ceilings::{ADD_64, CAS_64, CAS_128, COPY_16, CeilingArgs, GATHER_8};
use gpumap_simt::U64x2;
use gpumap_simt::kernel::{Grid, Kernel};

use crate::measure::{Clock, Time};
use crate::report::{Report, Row};

/// Bytes of the table that random accesses go to: far beyond any L2.
const GPU_TABLE_BYTES: usize = 3_200_000_000;
const CPU_TABLE_BYTES: usize = 64 << 20;

/// The measured limits.
#[derive(Clone, Copy, Debug)]
pub struct Ceilings {
    /// Bytes read and written per second by a copy.
    copy: f64,
    /// Milliseconds for `n` random 8-byte loads, results written in order.
    pub gather: f64,
    /// Milliseconds for `n` random 64-bit compare-and-exchanges of empty words.
    pub cas_64: f64,
    /// Milliseconds for `n` random 64-bit atomic adds.
    pub add_64: f64,
    /// Milliseconds for `n` random 128-bit compare-and-exchanges of empty pairs, where the device has them.
    cas_128: Option<f64>,
}

impl Ceilings {
    /// Measures them all.
    pub fn measure(stream: &Stream, n: usize, clock: Clock, report: &mut Report) -> Result<Self> {
        let bytes = if stream.device().is_cuda() {
            GPU_TABLE_BYTES
        } else {
            CPU_TABLE_BYTES
        };
        let units = bytes / 16;
        let mut table = Buffer::<[u64; 2]>::zeroed(stream, units)?;
        let mut other = Buffer::<u64>::zeroed(stream, (units).max(n))?;
        let args = CeilingArgs {
            table: table.as_mut_ptr().cast::<U64x2>(),
            units: units as u64,
            other: other.as_mut_ptr(),
            n: n as u64,
        };
        // Before each run the table is emptied, so that exchanges succeed as an insert's do.
        let mut run = |kernel: &'static Kernel<CeilingArgs>, args: CeilingArgs| -> Result<Time> {
            let grid = Grid::covering(args.n, 256);
            let empty = || {
                table.fill_bytes(0xff)?;
                stream.synchronize()
            };
            let (took, ()) = clock.time_after(empty, || {
                // SAFETY: the buffers outlive the launch, which is waited for.
                unsafe { kernel.launch(stream, grid, args) }?;
                stream.synchronize()
            })?;
            Ok(took)
        };

        // Half the table each way: source and destination do not overlap.
        let half = units / 2;
        let copied = CeilingArgs {
            n: half as u64,
            other: args.table.wrapping_add(units - half).cast(),
            ..args
        };
        let copy = run(&COPY_16, copied)?;
        let moved = 2.0 * 16.0 * half as f64;
        let copy_rate = moved / (copy.median * 1e-3);
        report.add(Row::ceiling("copy, 16 bytes a thread", copy, half).moving(moved));
        let gather = run(&GATHER_8, args)?;
        report.add(Row::ceiling("random gather of 8 bytes", gather, n));
        let cas_64 = run(&CAS_64, args)?;
        report.add(Row::ceiling("random CAS of 64 bits", cas_64, n));
        let add_64 = run(&ADD_64, args)?;
        report.add(Row::ceiling("random add of 64 bits", add_64, n));
        let cas_128 = match run(&CAS_128, args) {
            Ok(time) => {
                report.add(Row::ceiling("random CAS of 128 bits", time, n));
                Some(time.median)
            }
            Err(error) if is_missing(&error) => {
                println!("{:<38} not in this PTX", "random CAS of 128 bits");
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            copy: copy_rate,
            gather: gather.median,
            cas_64: cas_64.median,
            add_64: add_64.median,
            cas_128,
        })
    }

    /// Milliseconds to claim `n` random empty slots of so many bytes: 128-bit exchanges, where there are
    /// any, for those of 16.
    pub fn cas(&self, slot_bytes: usize) -> f64 {
        match (slot_bytes, self.cas_128) {
            (16, Some(cas_128)) => cas_128,
            _ => self.cas_64,
        }
    }

    /// Milliseconds to read and write so many bytes, as a copy does.
    pub fn copy_ms(&self, bytes: usize) -> f64 {
        bytes as f64 / self.copy * 1e3
    }
}

/// Whether a kernel is not in the PTX that was loaded.
fn is_missing(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref();
    matches!(error, Some(gpumap::Error::KernelMissing { .. }))
}
