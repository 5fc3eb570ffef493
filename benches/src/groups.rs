//! Aggregates by key: count, sum, least and greatest value of a column of `f32`, of 8-byte keys that repeat evenly, few of
//! them, or by Zipf's law; beside the random accesses that it takes at least, one to a slot and one to accumulators.

use anyhow::{Result, ensure};
use gpumap::Buffer;
use gpumap::primitives::{Count, GroupBy, Grouped, Max, Min, Primitives, Sum};

use crate::bench::Bench;
use crate::data::{Word, strided};
use crate::repeats::zipf;

type Columns = (Vec<u64>, Vec<f64>, Vec<f32>, Vec<f32>);

/// Batches of all kinds.
pub fn run(bench: &mut Bench) -> Result<()> {
    let n = bench.n as u64;
    for percent in [1, 10, 100] {
        let distinct = (n * percent / 100).max(1);
        let name = format!("group by, {percent} % distinct");
        measure(bench, &name, |i| strided(i, n) % distinct)?;
    }
    measure(bench, "group by, 100 groups", |i| strided(i, n) % 100)?;
    measure(bench, "group by, Zipf", |i| zipf(i, n))
}

/// Sums of these are exact in any order.
fn value(i: u64) -> f32 {
    (i * 7_919 % 1_001) as f32 - 500.0
}

fn measure(bench: &mut Bench, name: &str, number: impl Fn(u64) -> u64) -> Result<()> {
    let n = bench.n;
    let keys: Buffer<u64> = bench.buffer((0..n as u64).map(|i| u64::sparse(number(i))))?;
    let values: Buffer<f32> = bench.buffer((0..n as u64).map(value))?;
    let expected = oracle(n, number);
    let groups = expected.keys.len();
    // Keys that find their slots, and accumulators.
    let ceiling = bench.ceilings.cas_64 + bench.ceilings.add_64;

    let mut told = bench.zeroed::<u64>(groups)?;
    let (mut counts, mut sums) = (bench.zeroed(groups)?, bench.zeroed(groups)?);
    let (mut least, mut most) = (bench.zeroed(groups)?, bench.zeroed(groups)?);
    let primitives = Primitives::new(bench.device());
    let (took, found) = bench.time(|| {
        let grouping = primitives.group_by(&keys).count().sum(&values);
        let columns = (
            (&mut counts).into(),
            (&mut sums).into(),
            (&mut least).into(),
            (&mut most).into(),
        );
        let grouping = grouping.min(&values).max(&values);
        grouping.run_into(&mut told, columns)
    })?;
    ensure!(found == groups, "{found} of {groups} groups");
    let columns = (
        counts.to_vec()?,
        sums.to_vec()?,
        least.to_vec()?,
        most.to_vec()?,
    );
    let keys_told = told.to_vec()?;
    let grouped = Grouped {
        keys: keys_told,
        columns,
    };
    ensure!(grouped == expected, "{name}: wrong groups");
    bench.add(format!("{name}: one batch"), took, ceiling);

    type All = (Count, Sum<f32>, Min<f32>, Max<f32>);
    let many = GroupBy::<u64, All>::with_capacity(bench.device(), n)?;
    let batch = || {
        let grouping = many.batch(&keys).count().sum(&values);
        grouping.min(&values).max(&values).run()
    };
    let (took, new) = bench.time_after(|| many.clear(), batch)?;
    ensure!(new == groups, "{new} of {groups} groups are new");
    ensure!(many.finish()? == expected, "{name}: wrong groups");
    bench.add(format!("{name}: a batch of many"), took, ceiling);
    Ok(())
}

/// What the groups come to, on the host.
fn oracle(n: usize, number: impl Fn(u64) -> u64) -> Grouped<u64, Columns> {
    const NONE: u32 = u32::MAX;
    let mut group_of = vec![NONE; n.max(100)];
    let mut grouped = Grouped {
        keys: Vec::new(),
        columns: Columns::default(),
    };
    let (counts, sums, least, most) = &mut grouped.columns;
    for i in 0..n as u64 {
        let (number, value) = (number(i), value(i));
        let group = &mut group_of[number as usize];
        if *group == NONE {
            *group = counts.len() as u32;
            grouped.keys.push(u64::sparse(number));
            counts.push(0);
            sums.push(0.0);
            least.push(value);
            most.push(value);
        }
        let group = *group as usize;
        counts[group] += 1;
        sums[group] += f64::from(value);
        least[group] = least[group].min(value);
        most[group] = most[group].max(value);
    }
    grouped
}
