//! A store that grows from nothing by batches: how long it takes, and the most memory that it takes meanwhile.

use std::time::Instant;

use anyhow::{Result, ensure};
use gpumap::{Buffer, Stream};

use super::Large;
use super::store::{Kind, Lane, Pairs};
use crate::bench::Bench;
use crate::data::Word;
use crate::measure::Time;
use crate::report::Row;

/// How many batches there are.
const BATCHES: usize = 100;

/// Batches after which the worst moment counts: before, what a call takes anyway is more than the pairs.
const FIRST: usize = 10;

/// Measures a store of so many pairs.
pub fn run<V: Large>(bench: &mut Bench, kind: Kind, n: usize) -> Result<()> {
    // Counts from nothing.
    let device = bench.device().with_memory_budget(u64::MAX);
    let stream = Stream::new(&device)?;
    let batch = n.div_ceil(BATCHES);
    let mut keys = Buffer::<u64>::zeroed(&stream, batch)?;
    let mut values = Buffer::<V>::zeroed(&stream, batch)?;
    let inputs = device.allocated_bytes();
    let store = kind.build::<V>(&device, 0)?;
    let mut lane = Lane::<V>::new(&stream, 0..batch, batch)?;
    let answers = (batch * (size_of::<V>() + 1)) as u64;
    let peak = || device.peak_allocated_bytes() - inputs - answers;

    let pair = size_of::<u64>() + size_of::<V>();
    let (mut took, mut worst) = (0.0, (0, 0));
    for first in (0..n).step_by(batch) {
        let len = batch.min(n - first);
        let numbers = || first as u64..(first + len) as u64;
        let of_batch: Vec<u64> = numbers().map(u64::sparse).collect();
        keys.slice_mut(..len)?.copy_from_slice(&of_batch)?;
        let of_batch: Vec<V> = numbers().map(V::dense).collect();
        values.slice_mut(..len)?.copy_from_slice(&of_batch)?;
        let start = Instant::now();
        let new = store.insert(&mut lane, Pairs::of(&keys, &values, 0..len)?)?;
        took += start.elapsed().as_secs_f64() * 1e3;
        ensure!(new == len, "insert stored {new} of {len}");
        // After the batch that grew it is what it has, and before the next one grows it.
        let (most, pairs) = worst;
        let held = first + len;
        if first >= FIRST * batch && peak() * pairs as u64 >= most * held as u64 {
            worst = (peak(), held);
        }
    }
    // The last batch is there, as far as a lookup can say.
    let len = n - (n - 1) / batch * batch;
    store.get(&mut lane, &keys.slice(..len)?, 0..len)?;
    let first = (n - len) as u64;
    let held = lane.first_values(len)?;
    let right = (first..).zip(held).all(|(i, value)| value == V::dense(i));
    ensure!(right && store.len() == n, "a pair was lost");

    let name = format!("8+{} {} grow from 0", size_of::<V>(), kind.name());
    let time = Time::of_runs(vec![took]);
    let (most, pairs) = worst;
    for (name, peak, pairs) in [
        (format!("{name}, at its end"), peak(), n),
        (format!("{name}, at its worst moment"), most, pairs),
    ] {
        let row = Row::ceiling(name, time, n).holding(peak, pairs * pair);
        bench.report.add(row);
    }
    Ok(())
}
