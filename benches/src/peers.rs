//! Maps of the host beside this one, on the same batches of the host: from which size on does the device pay?
//!
//! [`hashbrown`] on one thread, as a program without threads has it, and [`dashmap`] on all of them by rayon; both with their
//! default hashers and with room for all pairs, as the map has. What `gpumap` takes from vectors and gives to vectors goes over
//! the link and back within the time.

use anyhow::{Result, ensure};
use dashmap::DashMap;
use gpumap::{Map, Merge};
use gpumap_benches::plots::Axis;
use hashbrown::HashMap;
use rayon::prelude::*;

use crate::bench::Bench;
use crate::data::{Word, strided};
use crate::measure::Time;
use crate::report::Row;

/// Keys of a batch.
const SIZES: [usize; 6] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// How often each key comes in a batch that is counted.
const TIMES: u64 = 4;

/// Keys that a thread takes at once.
const SHARE: usize = 512;

/// What is done to a batch.
const VERBS: [&str; 3] = ["insert", "get", "count"];

/// The maps.
const MAPS: [&str; 3] = ["gpumap", "hashbrown, one thread", "dashmap, all threads"];

/// Measures and verifies batches of up to `n` keys, 8 + 8 bytes, and says from which size on the map is the fastest.
pub fn run(bench: &mut Bench) -> Result<()> {
    let sizes = SIZES.into_iter().filter(|&size| size <= bench.n);
    let mut first = [None; VERBS.len()];
    for size in sizes {
        let batch = Batch::new(size);
        let took = [
            batch.on_gpumap(bench)?,
            batch.on_hashbrown(bench)?,
            batch.on_dashmap(bench)?,
        ];
        for (verb, name) in VERBS.into_iter().enumerate() {
            for (map, times) in MAPS.into_iter().zip(took) {
                let row = Row::ceiling(format!("{name} of {size}, {map}"), times[verb], size);
                let chart = format!("8+8, {name} from vectors");
                bench
                    .report
                    .add(row.at(&chart, map, Axis::Batch, size as f64));
            }
            let [ours, theirs @ ..] = took.map(|times| times[verb].median);
            if theirs.iter().any(|&theirs| theirs < ours) {
                first[verb] = None;
            } else {
                first[verb].get_or_insert(size);
            }
        }
    }
    for (name, first) in VERBS.into_iter().zip(first) {
        match first {
            Some(size) => println!("{name}: the fastest from {size} keys on"),
            None => println!("{name}: not the fastest at any of these sizes"),
        }
    }
    Ok(())
}

/// An error unless as many keys are there as are different.
fn expect(stored: usize, right: usize) -> Result<()> {
    ensure!(stored == right, "{stored} of {right} keys are there");
    Ok(())
}

fn all_found(found: &[Option<u64>]) -> Result<()> {
    ensure!(found.iter().all(Option::is_some), "a key is missing");
    Ok(())
}

/// Keys and values, and what is looked up.
struct Batch {
    keys: Vec<u64>,
    values: Vec<u64>,
    /// The keys in another order.
    asked: Vec<u64>,
    /// A quarter of the keys, each so many times.
    counted: Vec<u64>,
}

impl Batch {
    fn new(size: usize) -> Self {
        let n = size as u64;
        let distinct = (n / TIMES).max(1);
        Self {
            keys: (0..n).map(u64::sparse).collect(),
            values: (0..n).collect(),
            asked: (0..n).map(|i| u64::sparse(strided(i, n))).collect(),
            counted: (0..n)
                .map(|i| u64::sparse(strided(i, n) % distinct))
                .collect(),
        }
    }

    /// How many of the keys that are counted differ.
    fn distinct(&self) -> usize {
        (self.keys.len() / TIMES as usize).max(1)
    }

    fn on_gpumap(&self, bench: &Bench) -> Result<[Time; 3]> {
        let map: Map<u64, u64> = bench.map(self.keys.len(), 0.8).build()?;
        let (count, ()) = bench.time_after(
            || map.clear(),
            || {
                let new = map.merge(&self.counted, 1, Merge::Add)?;
                expect(new, self.distinct())
            },
        )?;
        let (insert, ()) = bench.time_after(
            || map.clear(),
            || expect(map.insert(&self.keys, &self.values)?, self.keys.len()),
        )?;
        let (get, found) = bench.time(|| map.get(&self.asked))?;
        all_found(&found)?;
        Ok([insert, get, count])
    }

    fn on_hashbrown(&self, bench: &Bench) -> Result<[Time; 3]> {
        let (count, _) = bench.time(|| {
            let mut map = HashMap::<u64, u64>::with_capacity(self.keys.len());
            for &key in &self.counted {
                *map.entry(key).or_insert(0) += 1;
            }
            expect(map.len(), self.distinct()).map(|()| map)
        })?;
        let (insert, map) = bench.time(|| {
            let mut map = HashMap::<u64, u64>::with_capacity(self.keys.len());
            for (&key, &value) in self.keys.iter().zip(&self.values) {
                map.entry(key).or_insert(value);
            }
            expect(map.len(), self.keys.len()).map(|()| map)
        })?;
        let (get, found) = bench.time(|| {
            let found = self.asked.iter().map(|key| map.get(key).copied());
            anyhow::Ok(found.collect::<Vec<_>>())
        })?;
        all_found(&found)?;
        Ok([insert, get, count])
    }

    fn on_dashmap(&self, bench: &Bench) -> Result<[Time; 3]> {
        let (count, _) = bench.time(|| {
            let map = DashMap::<u64, u64>::with_capacity(self.keys.len());
            let keys = self.counted.par_iter().with_min_len(SHARE);
            keys.for_each(|&key| *map.entry(key).or_insert(0) += 1);
            expect(map.len(), self.distinct()).map(|()| map)
        })?;
        let (insert, map) = bench.time(|| {
            let map = DashMap::<u64, u64>::with_capacity(self.keys.len());
            let pairs = self.keys.par_iter().zip(&self.values).with_min_len(SHARE);
            pairs.for_each(|(&key, &value)| drop(map.entry(key).or_insert(value)));
            expect(map.len(), self.keys.len()).map(|()| map)
        })?;
        let (get, found) = bench.time(|| {
            let keys = self.asked.par_iter().with_min_len(SHARE);
            let found = keys.map(|key| map.get(key).map(|it| *it));
            anyhow::Ok(found.collect::<Vec<_>>())
        })?;
        all_found(&found)?;
        Ok([insert, get, count])
    }
}
