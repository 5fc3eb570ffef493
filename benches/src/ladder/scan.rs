//! The ladder of scans: the rungs, their data, and the clock. [`ways`] puts kernels together.

mod ways;

use anyhow::{Result, ensure};
use gpumap::primitives::{Op, Primitives};
use gpumap::{Buffer, PinnedBuffer, Stream};
use gpumap_bench_kernels::scan::one_thread::ONE_THREAD;
use gpumap_bench_kernels::scan::parts::*;
use gpumap_bench_kernels::scan::reduce::{REDUCE, REDUCE_VECTORS};
use gpumap_bench_kernels::scan::vectors::{PER_VECTOR, SCAN_VECTORS};
use gpumap_bench_kernels::scan::{ScanArgs, TILE};
use gpumap_simt::kernel::Kernel;

use ways::{Span, words};

use super::report::Row;
use crate::data::Word;
use crate::measure::Clock;

/// A rung: its name, and how it is run.
#[derive(Debug)]
pub struct ScanRung {
    /// What tables call it.
    pub name: &'static str,
    how: How,
}

/// A kernel that scans parts.
type PartKernel = &'static Kernel<ScanArgs>;

#[derive(Clone, Copy, Debug)]
enum How {
    /// Scan parts of a tile; scan their sums by one block; add.
    Fan(PartKernel),
    /// The same, and the sums are scanned as the data is.
    RecursiveFan(PartKernel),
    /// Add up parts of a tile; scan their sums as the data is; scan the parts.
    Reduce(PartKernel),
    /// Add up as many parts as blocks run at once; scan their sums by one block; scan the parts.
    TwoPass {
        reduce: PartKernel,
        scan: PartKernel,
        tile: u32,
    },
    /// The library's own.
    Library,
}

const fn rung(name: &'static str, how: How) -> ScanRung {
    ScanRung { name, how }
}

/// From the naive one up.
pub static SCAN_RUNGS: [ScanRung; 11] = [
    rung("one thread per block", How::Fan(&ONE_THREAD)),
    rung("staged in shared memory", How::Fan(&SCAN_STAGED)),
    rung("one thread per warp, warp sums", How::Fan(&SCAN_WARPS)),
    rung("Hillis-Steele in each warp", How::Fan(&SCAN_HILLIS_STEELE)),
    rung("no branches, no bank conflicts", How::Fan(&SCAN_PADDED)),
    rung("sums scanned recursively", How::RecursiveFan(&SCAN_PADDED)),
    rung("warp shuffles", How::RecursiveFan(&SCAN_SHUFFLES)),
    rung("reduce, then scan", How::Reduce(&SCAN_SHUFFLES)),
    rung(
        "two passes, one part per block",
        How::TwoPass {
            reduce: &REDUCE,
            scan: &SCAN_SHUFFLES,
            tile: TILE,
        },
    ),
    rung(
        "four elements a thread",
        How::TwoPass {
            reduce: &REDUCE_VECTORS,
            scan: &SCAN_VECTORS,
            tile: TILE * PER_VECTOR,
        },
    ),
    rung("gpumap: decoupled look-back", How::Library),
];

/// The data of the ladder, on a device whose kernels are [registered](super::register_kernels).
#[derive(Debug)]
pub struct Scan {
    stream: Stream,
    input: Buffer<u32>,
    output: Buffer<u32>,
    /// Sums of parts, of sums of parts, and so on to a single one.
    sums: Vec<Buffer<u32>>,
    primitives: Primitives,
}

impl Scan {
    /// Scans of these numbers.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(stream: &Stream, numbers: &[u32]) -> Result<Self> {
        let mut sums = Vec::new();
        let mut n = numbers.len();
        while n > 1 {
            n = n.div_ceil(TILE as usize);
            sums.push(Buffer::zeroed(stream, n)?);
        }
        // Two passes have few parts, but at least one.
        sums.push(Buffer::zeroed(stream, 1)?);
        Ok(Self {
            stream: stream.clone(),
            input: Buffer::from_slice(stream, numbers)?,
            output: Buffer::zeroed(stream, numbers.len())?,
            sums,
            primitives: Primitives::new(stream.device()),
        })
    }

    /// Scans, waits, and says how many bytes were read and written.
    ///
    /// # Errors
    /// Those of the device.
    pub fn run(&mut self, rung: &ScanRung) -> Result<u64> {
        let data = Span {
            from: self.input.as_ptr(),
            to: self.output.as_mut_ptr(),
            n: self.input.len(),
        };
        if data.n == 0 {
            return Ok(0);
        }
        let sums: Vec<*mut u32> = self.sums.iter_mut().map(Buffer::as_mut_ptr).collect();
        // SAFETY: input and output have `n` elements, and each level of sums is as long as the one
        // before it has tiles; all of them live until the wait.
        let moved = unsafe {
            match rung.how {
                How::Fan(kernel) => self.fan(kernel, data, &sums, false)?,
                How::RecursiveFan(kernel) => self.fan(kernel, data, &sums, true)?,
                How::Reduce(kernel) => self.reduce(kernel, data, &sums)?,
                How::TwoPass { reduce, scan, tile } => {
                    self.two_pass([reduce, scan], tile as usize, data, sums[0])?
                }
                How::Library => {
                    let (input, output) = (&self.input, &mut self.output);
                    self.primitives
                        .inclusive_scan_into(input, Op::Add, output)?;
                    words(2 * data.n)
                }
            }
        };
        self.stream.synchronize()?;
        Ok(moved)
    }

    /// What the last run left.
    ///
    /// # Errors
    /// Those of the device.
    pub fn output(&self) -> Result<Vec<u32>> {
        Ok(self.output.to_vec()?)
    }

    /// Makes sure that the output is not what a run leaves.
    ///
    /// # Errors
    /// Those of the device.
    pub fn spoil(&mut self) -> Result<()> {
        Ok(self.output.fill_bytes(0xee)?)
    }
}

/// Measures and verifies every rung on `n` numbers.
pub(super) fn measure(
    stream: &Stream,
    n: usize,
    clock: Clock,
    add: &mut dyn FnMut(Row),
) -> Result<()> {
    let numbers: Vec<u32> = (0..n as u64).map(u32::sparse).collect();
    let mut scan = Scan::new(stream, &numbers)?;
    let mut found = PinnedBuffer::<u32>::zeroed(stream.device(), n)?;
    let mut right = numbers;
    let mut sum = 0u32;
    for x in &mut right {
        sum = sum.wrapping_add(*x);
        *x = sum;
    }
    for rung in &SCAN_RUNGS {
        scan.spoil()?;
        let (took, moved) = clock.time(|| scan.run(rung))?;
        scan.output.copy_to_slice(&mut found)?;
        ensure!(found[..] == right[..], "{}: a wrong sum", rung.name);
        add(Row::new("scan", String::new(), rung.name, n, took, moved));
    }
    Ok(())
}
