//! What the device can do at best: copy, random gather, random compare-and-exchange.

use anyhow::{Error, Result};
use gpumap::{Buffer, Stream};
use gpumap_bench_kernels::ceilings::{ADD_64, CAS_64, CAS_128, COPY_16, CeilingArgs, GATHER_8};
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
        report.add(Row::ceiling("copy, 16 bytes a thread", copy, half).moving(moved));
        let mut random = |name: &str, kernel| {
            let took = run(kernel, args)?;
            report.add(Row::ceiling(name, took, n));
            anyhow::Ok(took.median)
        };
        Ok(Self {
            copy: moved / (copy.median * 1e-3),
            gather: random("random gather of 8 bytes", &GATHER_8)?,
            cas_64: random("random CAS of 64 bits", &CAS_64)?,
            add_64: random("random add of 64 bits", &ADD_64)?,
            cas_128: if_there(random("random CAS of 128 bits", &CAS_128))?,
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

/// None if the kernel is not in the PTX that was loaded.
fn if_there(ms: Result<f64>) -> Result<Option<f64>> {
    let missing = |error: &Error| {
        let error = error.downcast_ref();
        matches!(error, Some(gpumap::Error::KernelMissing { .. }))
    };
    match ms {
        Err(error) if missing(&error) => {
            println!("{:<38} not in this PTX", "random CAS of 128 bits");
            Ok(None)
        }
        ms => ms.map(Some),
    }
}
