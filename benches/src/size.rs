//! Maps from the size of a cache to the device's memory: pairs of 8 + 8 bytes, made on the device.

use anyhow::{Result, ensure};
use gpumap::simt::kernel::Grid;
use gpumap::{Buffer, Map, Stream};
use gpumap_bench_kernels::pairs::{PAIRS, PairsArgs};
use gpumap_benches::ladder::register_kernels;
use gpumap_benches::plots::Axis;

use crate::ceilings::Ceilings;
use crate::measure::{Time, time};
use crate::report::{Report, Row};

/// Pairs per slot.
const LOADS: [f64; 2] = [0.5, 0.8];

/// Batches have so many pairs at most: more would leave no memory for the map.
const MOST_AT_ONCE: usize = 100_000_000;

/// Figures are of calls that take about as long as one of so many keys.
const KEYS_PER_RUN: usize = 20_000_000;

/// Measures maps of 10^5 pairs, or a hundredth of `n` if that is less, up to what memory allows.
pub fn run(
    stream: &Stream,
    n: usize,
    runs: usize,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    register_kernels(stream.device())?;
    let most = if stream.device().is_cuda() {
        usize::MAX
    } else {
        n
    };
    for load in LOADS {
        let mut pairs = 100_000.min(n / 100).max(1);
        // About three to a decade.
        for step in (0..3).cycle() {
            let slots = (pairs as f64 / load) as u64;
            let batch = pairs.min(MOST_AT_ONCE) as u64;
            let needed = 17 * slots + 3 * 17 * batch + (1 << 30);
            let fits = !stream.device().is_cuda() || needed < stream.device().available_bytes()?;
            if pairs > most || !fits {
                break;
            }
            one(stream, pairs, load, runs, ceilings, n, report)?;
            pairs = if step == 1 { pairs / 2 * 5 } else { 2 * pairs };
        }
    }
    Ok(())
}

/// One map.
fn one(
    stream: &Stream,
    pairs: usize,
    load: f64,
    runs: usize,
    ceilings: &Ceilings,
    ceiling_n: usize,
    report: &mut Report,
) -> Result<()> {
    let map: Map<u64, u64> = Map::builder(stream.device())
        .capacity(pairs)
        .max_load_factor(load)
        .hash_seed(1)
        .build()?;
    let len = pairs.min(MOST_AT_ONCE);
    let mut batch = Pairs {
        stream: stream.clone(),
        keys: Buffer::zeroed(stream, len)?,
        values: Buffer::zeroed(stream, len)?,
    };
    let mut found = Buffer::<u64>::zeroed(stream, len)?;
    let chart = format!("8+8, load {load}, by size");
    let mut add = |verb: &str, took: Time, keys: usize, ceiling: f64| {
        let name = format!("8+8 load {load} {pairs} pairs {verb}");
        let row = Row::op(name, took, keys, ceiling / ceiling_n as f64 * keys as f64);
        report.add(row.at(&chart, verb, Axis::Pairs, pairs as f64));
    };

    // All but the last batch come before.
    let mut before = 0;
    while before + 2 * len <= pairs {
        batch.make(before)?;
        map.insert(&batch.keys, &batch.values)?;
        before += len;
    }
    batch.make(before)?;
    if before == 0 {
        let mut new = 0;
        let insert = time(
            runs,
            || Ok(map.clear()?),
            || {
                new = map.insert(&batch.keys, &batch.values)?;
                Ok(())
            },
        )?;
        ensure!(new == len, "insert stored {new} of {len}");
        add(
            "insert",
            insert,
            len,
            ceilings.cas_128.unwrap_or(ceilings.cas_64),
        );
    } else {
        map.insert(&batch.keys, &batch.values)?;
    }
    let calls = (KEYS_PER_RUN / len).clamp(1, 200);
    let mut look_up = |absent: bool, batch: &Pairs| -> Result<Time> {
        let took = time(
            runs,
            || Ok(()),
            || {
                (0..calls)
                    .try_for_each(|_| Ok(map.get_or_into(&batch.keys, u64::MAX, &mut found)?))
            },
        )?;
        let found = found.to_vec()?;
        if absent {
            ensure!(found.iter().all(|&v| v == u64::MAX), "an absent key");
        } else {
            ensure!(found == batch.values.to_vec()?, "a wrong value");
        }
        let of_one = |ms: f64| ms / calls as f64;
        Ok(Time {
            median: of_one(took.median),
            least: of_one(took.least),
            most: of_one(took.most),
        })
    };
    // Pairs that came late lie farther from home, so keys of all batches are asked for.
    batch.make_every(pairs / len, 0)?;
    let hit = look_up(false, &batch)?;
    batch.make(pairs)?;
    let miss = look_up(true, &batch)?;
    add("get, hit", hit, len, ceilings.gather);
    add("get, miss", miss, len, ceilings.gather);
    Ok(())
}

/// A batch on the device.
struct Pairs {
    stream: Stream,
    keys: Buffer<u64>,
    values: Buffer<u64>,
}

impl Pairs {
    /// The pairs from number `first` on: sparse keys, and values that number them.
    fn make(&mut self, first: usize) -> Result<()> {
        self.make_every(1, first)
    }

    /// Likewise every so many of them.
    fn make_every(&mut self, step: usize, first: usize) -> Result<()> {
        let n = self.keys.len() as u64;
        let args = PairsArgs {
            first: first as u64,
            step: step as u64,
            n,
            keys: self.keys.as_mut_ptr(),
            values: self.values.as_mut_ptr(),
        };
        // SAFETY: both buffers have `n` elements; they are of this stream, and so is the wait.
        unsafe { PAIRS.launch(&self.stream, Grid::covering(n, 256), args) }?;
        Ok(self.stream.synchronize()?)
    }
}
