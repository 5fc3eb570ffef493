//! The ladder of filters.

use anyhow::{Result, ensure};
use gpumap::primitives::{Order, Predicate, Primitives};
use gpumap::{Buffer, PinnedBuffer, Stream};
use gpumap_bench_kernels::compact::{SHARED_BYTES, THREADS};
use gpumap_bench_kernels::filter::*;
use gpumap_simt::kernel::{Grid, Kernel};

use super::KEPT;
use super::digest;
use super::report::Row;
use crate::data::Word;
use crate::measure::Clock;

/// A rung: its name, and how it is run.
#[derive(Debug)]
pub struct FilterRung {
    /// What tables call it.
    pub name: &'static str,
    how: How,
}

#[derive(Debug)]
enum How {
    /// A kernel of the ladder, so many elements a thread.
    Kernel(&'static Kernel<FilterArgs>, u32),
    /// The library's own.
    Library(Order),
}

const fn rung(name: &'static str, kernel: &'static Kernel<FilterArgs>) -> FilterRung {
    let how = How::Kernel(kernel, 1);
    FilterRung { name, how }
}

/// From the naive one up.
pub static FILTER_RUNGS: [FilterRung; 13] = [
    rung("naive: one atomic per element", &FILTER_NAIVE),
    rung("the same, left to the assembler", &FILTER_ASSEMBLED),
    rung("aggregated by the counter's address", &FILTER_AGGREGATED),
    rung("ballot, one atomic per warp", &FILTER_BALLOT),
    rung("counter of the block", &FILTER_BLOCK_COUNTER),
    rung("scan of the block", &FILTER_BLOCK_SCAN),
    rung("tiles of 4 lanes", &FILTER_TILES_4),
    rung("tiles of 8 lanes", &FILTER_TILES_8),
    rung("tiles of 16 lanes", &FILTER_TILES_16),
    rung("tiles of 32 lanes", &FILTER_TILES_32),
    FilterRung {
        name: "several elements a thread",
        how: How::Kernel(&FILTER_ROUNDS, ROUNDS as u32),
    },
    FilterRung {
        name: "gpumap, any order",
        how: How::Library(Order::Any),
    },
    FilterRung {
        name: "gpumap, stable",
        how: How::Library(Order::Stable),
    },
];

impl FilterRung {
    /// Whether what is kept stays in order.
    pub fn is_stable(&self) -> bool {
        matches!(self.how, How::Library(Order::Stable))
    }
}

/// The data of the ladder, on a device whose kernels are [registered](super::register_kernels).
#[derive(Debug)]
pub struct Filter {
    stream: Stream,
    input: Buffer<i32>,
    output: Buffer<i32>,
    counter: Buffer<u64>,
    primitives: Primitives,
}

impl Filter {
    /// Filters of these numbers.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(stream: &Stream, numbers: &[i32]) -> Result<Self> {
        Ok(Self {
            stream: stream.clone(),
            input: Buffer::from_slice(stream, numbers)?,
            output: Buffer::zeroed(stream, numbers.len())?,
            counter: Buffer::zeroed(stream, 1)?,
            primitives: Primitives::new(stream.device()),
        })
    }

    /// Keeps the numbers below `limit`, and says how many there are.
    ///
    /// # Errors
    /// Those of the device.
    pub fn run(&mut self, rung: &FilterRung, limit: i32) -> Result<usize> {
        let (kernel, per_thread) = match rung.how {
            How::Kernel(kernel, per_thread) => (kernel, per_thread),
            How::Library(order) => {
                let below = Predicate::Less(limit);
                let (input, output) = (&self.input, &mut self.output);
                return Ok(self.primitives.filter_into(input, below, order, output)?);
            }
        };
        self.counter.fill_bytes(0)?;
        let n = self.input.len() as u64;
        let args = FilterArgs {
            input: self.input.as_ptr().cast(),
            n,
            limit,
            output: self.output.as_mut_ptr().cast(),
            counter: self.counter.as_mut_ptr(),
        };
        let grid = Grid {
            shared_bytes: SHARED_BYTES,
            ..Grid::covering(n.div_ceil(u64::from(per_thread)), THREADS)
        };
        // SAFETY: the output has room for all, and the counter is zero; all three are of this
        // stream and live until the counter has been read.
        unsafe { kernel.launch(&self.stream, grid, args) }?;
        Ok(self.counter.to_vec()?[0] as usize)
    }

    /// What the last run kept: the first `count` numbers of the output.
    ///
    /// # Errors
    /// Those of the device.
    pub fn output(&self, count: usize) -> Result<Vec<i32>> {
        Ok(self.output.slice(..count)?.to_vec()?)
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
    let numbers: Vec<i32> = (0..n as u64).map(|i| u32::sparse(i) as i32).collect();
    let mut filter = Filter::new(stream, &numbers)?;
    let mut found = PinnedBuffer::<i32>::zeroed(stream.device(), n)?;
    let mixed = |x: i32| u64::sparse(u64::from(x as u32));
    for percent in KEPT {
        let limit = (i64::from(i32::MIN) + (1i64 << 32) * i64::from(percent) / 100) as i32;
        let right = |x: i32| if x < limit { mixed(x) } else { 0 };
        let expected = digest::sum(n, |i| right(numbers[i]));
        let kept = digest::sum(n, |i| u64::from(numbers[i] < limit)) as usize;
        for rung in &FILTER_RUNGS {
            filter.spoil()?;
            let (took, count) = clock.time(|| filter.run(rung, limit))?;
            ensure!(count == kept, "{}: {count} kept, not {kept}", rung.name);
            let found = &mut found[..count];
            filter.output.slice(..count)?.copy_to_slice(found)?;
            let is_right = if rung.is_stable() {
                numbers.iter().filter(|&&x| x < limit).eq(found.iter())
            } else {
                // As many, and of the same sum: those that should not be here count 0.
                digest::sum(count, |i| right(found[i])) == expected
            };
            ensure!(is_right, "{}: not what should be kept", rung.name);
            let case = format!("{percent} % kept");
            let bytes = 4 * (n + kept) as u64;
            add(Row::new("filter", case, rung.name, n, took, bytes));
        }
    }
    Ok(())
}
