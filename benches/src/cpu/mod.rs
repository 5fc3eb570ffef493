//! Maps of the host beside this one on its native back end: `gpumap-bench cpu`.
//!
//! `u64` to `u64`, keys spread at random by a fixed bijection, hashers of other maps with a fixed seed. Every result is
//! verified. Threads take equal shares of the keys; ours are those of the device, which gets each batch whole.
//!
//! Each run of an insert makes a new map, within the time: some maps touch their memory when they are made and some when pairs
//! come, and a map that is filled again after `clear` may or may not have kept it. Calls with few keys are those of
//! [`callers`](crate::callers).
//!
//! | verb | is |
//! |---|---|
//! | insert | a new map with room for all pairs, and all pairs into it |
//! | get | all keys in another order, each present |
//! | miss | as many absent keys |
//! | merge | adds 1 to each value |
//! | remove | all keys in another order |
//! | retrieve_all | all pairs into arrays |
//!
//! Two ceilings of the machine are measured beside them: `retrieve_all` of a copy of the same bytes, and `get` of a gather, which
//! reads one word for each key from a random cache line of memory as large as the table of this map, in large pages and by
//! prefetches.

mod report;

use std::cell::RefCell;
use std::thread;

use anyhow::{Result, anyhow, ensure};
use gpumap::simt::native::prefetch;
use gpumap::{Device, Map, PinnedBuffer};

pub(crate) use report::machine;
pub use report::{Report, Row};

use crate::data::{Word, strided};
use crate::maps::{Alone, Dash, Locked, Ours, Papaya, Peer, Scc, Sharded, on_threads};
use crate::measure::{Clock, Time};

/// Words of a cache line.
const WORDS_OF_LINE: usize = 8;

/// Slots of this map in one.
const SLOTS_OF_LINE: usize = 4;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pairs, in turn.
    pub sizes: Vec<usize>,
    /// Load factors of this map.
    pub loads: Vec<f64>,
    /// Threads, in turn.
    pub threads: Vec<usize>,
    /// Runs of each measurement; the median counts.
    pub runs: usize,
}

/// Keys, values, and what is asked for.
struct Batch {
    keys: Vec<u64>,
    values: Vec<u64>,
    /// The keys in another order.
    asked: Vec<u64>,
    absent: Vec<u64>,
}

impl Batch {
    fn new(size: usize) -> Self {
        let n = size as u64;
        Self {
            keys: (0..n).map(u64::sparse).collect(),
            values: (0..n).collect(),
            asked: (0..n).map(|i| u64::sparse(strided(i, n))).collect(),
            absent: (n..2 * n).map(u64::sparse).collect(),
        }
    }

    /// The value of key `i` of those that are asked for.
    fn value_of(&self, i: usize) -> u64 {
        strided(i as u64, self.keys.len() as u64)
    }
}

/// Measures and verifies all maps; `on_row` sees each row as it comes.
///
/// # Errors
/// A map that gives a wrong result, or has no memory.
pub fn run(options: &Options, on_row: impl FnMut(&Row)) -> Result<Report> {
    ensure!(!options.sizes.contains(&0), "no pairs: nothing to measure");
    let mut runner = Runner {
        report: Report::new(options.runs),
        on_row,
        clock: Clock::new(options.runs),
    };
    for &size in &options.sizes {
        let batch = Batch::new(size);
        for &threads in &options.threads {
            for &load in &options.loads {
                runner.ours(&batch, threads, load)?;
            }
            if threads == 1 {
                runner.measure(&batch, 1, || Ok(Alone::with_room(size)))?;
            }
            runner.measure(&batch, threads, || Ok(Locked::with_room(size)))?;
            runner.measure(&batch, threads, || Ok(Sharded::with_room(size, threads)))?;
            runner.measure(&batch, threads, || Ok(Dash::with_room(size)))?;
            runner.measure(&batch, threads, || Ok(Papaya::with_room(size)))?;
            runner.measure(&batch, threads, || Ok(Scc::with_room(size)))?;
        }
    }
    Ok(runner.report)
}

/// Where rows go.
struct Runner<R> {
    report: Report,
    on_row: R,
    clock: Clock,
}

impl<R: FnMut(&Row)> Runner<R> {
    fn add(&mut self, name: &str, verb: &'static str, n: usize, threads: usize, took: Time) {
        let row = Row::new(name, verb, n, threads, took);
        (self.on_row)(&row);
        self.report.add(row);
    }

    /// This map, which has more to show.
    fn ours(&mut self, batch: &Batch, threads: usize, load: f64) -> Result<()> {
        let device = Device::cpu_with_threads(u32::try_from(threads)?);
        let n = batch.keys.len();
        let make = || -> Result<Ours> {
            let builder = Map::builder(&device).capacity(n);
            let map = builder.max_load_factor(load).hash_seed(1).build()?;
            Ok(Ours::named(map, format!("gpumap, load {load}")))
        };
        self.measure(batch, threads, make)?;

        self.gather(batch, threads, load)?;

        let ours = make()?;
        ours.insert_all(&batch.keys, &batch.values)?;
        let (mut keys, mut values) = (vec![1u64; n], vec![1u64; n]);
        let dump = || ours.retrieve_all(&mut keys, &mut values);
        let (took, len) = self.clock.time(dump)?;
        ensure!(len == n, "{len} of {n} pairs dumped");
        for (&key, &value) in keys.iter().zip(&values) {
            ensure!(key == u64::sparse(value), "{key} has the value {value}");
        }
        self.add(&ours.name(), "retrieve_all", n, threads, took);
        let (took, ()) = self.clock.time(|| {
            copy(&batch.keys, &mut keys, threads);
            copy(&batch.values, &mut values, threads);
            anyhow::Ok(())
        })?;
        self.add("memcpy", "retrieve_all", n, threads, took);
        Ok(())
    }

    /// What lookups in a table of so many slots take at least.
    fn gather(&mut self, batch: &Batch, threads: usize, load: f64) -> Result<()> {
        let n = batch.keys.len();
        let lines = (n as f64 / load / SLOTS_OF_LINE as f64).ceil() as usize;
        let mut table = PinnedBuffer::<u64>::zeroed(&Device::cpu(), lines * WORDS_OF_LINE)?;
        table.fill(1);
        let mut out = vec![0; n];
        let (took, ()) = self.clock.time(|| {
            let share = n.div_ceil(threads);
            let shares = batch.asked.chunks(share).zip(out.chunks_mut(share));
            on_threads(shares, |(keys, out)| {
                gather(&table, keys, out);
                Ok(0)
            })
            .map(drop)
        })?;
        ensure!(out.iter().all(|&word| word == 1), "a wrong word");
        self.add(&format!("gather, load {load}"), "get", n, threads, took);
        Ok(())
    }

    /// Measures and verifies every verb of a map that `make` makes with room for all pairs.
    fn measure<P: Peer>(
        &mut self,
        batch: &Batch,
        threads: usize,
        make: impl Fn() -> Result<P>,
    ) -> Result<()> {
        let n = batch.keys.len();
        let name = make()?.name();
        // The one before is dropped before the time of the next begins.
        let made = RefCell::new(None);
        let forget = || {
            drop(made.take());
            anyhow::Ok(())
        };
        let (took, stored) = self.clock.time_after(forget, || {
            let mut made = made.borrow_mut();
            let map = &*made.insert(make()?);
            Calls { map, threads }.insert(&batch.keys, &batch.values)
        })?;
        ensure!(stored == n, "{name}: {stored} of {n} stored");
        self.add(&name, "insert", n, threads, took);
        let map = made.take().ok_or_else(|| anyhow!("{name}: no run"))?;
        let calls = Calls { map: &map, threads };

        let (mut out, mut found) = (vec![1u64; n], vec![1u8; n]);
        for (verb, keys) in [("get", &batch.asked), ("miss", &batch.absent)] {
            let (took, ()) = self.clock.time(|| calls.get(keys, &mut out, &mut found))?;
            let is_there = u8::from(verb != "miss");
            ensure!(found.iter().all(|&it| it == is_there), "{name}: {verb}");
            if verb != "miss" {
                let right = |(i, &value): (usize, &u64)| value == batch.value_of(i);
                ensure!(out.iter().enumerate().all(right), "{name}: a wrong value");
            }
            self.add(&name, verb, n, threads, took);
        }

        let mut added = 0;
        let (took, _) = self.clock.time(|| {
            added += 1;
            calls.on_keys(&batch.asked, |keys| map.add_one(keys).map(|()| 0))
        })?;
        map.get(&batch.asked, &mut out, &mut found)?;
        let right = |(i, &value): (usize, &u64)| value == batch.value_of(i) + added;
        ensure!(out.iter().enumerate().all(right), "{name}: a wrong sum");
        self.add(&name, "merge", n, threads, took);
        drop(map);

        let fill = || {
            forget()?;
            let map = make()?;
            map.insert(&batch.keys, &batch.values)?;
            made.replace(Some(map));
            anyhow::Ok(())
        };
        let (took, removed) = self.clock.time_after(fill, || {
            let made = made.borrow();
            let map = made.as_ref().ok_or_else(|| anyhow!("{name}: no map"))?;
            Calls { map, threads }.on_keys(&batch.asked, |keys| map.remove(keys))
        })?;
        ensure!(removed == n, "{name}: {removed} of {n} removed");
        self.add(&name, "remove", n, threads, took);
        Ok(())
    }
}

/// Batches of a map by so many threads, each for an equal share of the keys; or by one, where the map has threads of its
/// own and gets whole batches.
struct Calls<'a, P> {
    map: &'a P,
    threads: usize,
}

impl<P: Peer> Calls<'_, P> {
    /// Keys of a share.
    fn share(&self, n: usize) -> usize {
        match P::TAKES_BATCHES {
            true => n,
            false => n.div_ceil(self.threads),
        }
    }

    /// Stores a batch.
    fn insert(&self, keys: &[u64], values: &[u64]) -> Result<usize> {
        let share = self.share(keys.len());
        let shares = keys.chunks(share).zip(values.chunks(share));
        on_threads(shares, |(keys, values)| self.map.insert(keys, values))
    }

    /// Looks keys up.
    fn get(&self, keys: &[u64], out: &mut [u64], found: &mut [u8]) -> Result<()> {
        let share = self.share(keys.len());
        let shares = keys.chunks(share).zip(out.chunks_mut(share));
        let shares = shares.zip(found.chunks_mut(share));
        on_threads(shares, |((keys, out), found)| {
            self.map.get(keys, out, found).map(|()| 0)
        })?;
        Ok(())
    }

    /// Does something with all keys; what it returns, added up.
    fn on_keys(
        &self,
        keys: &[u64],
        call: impl Fn(&[u64]) -> Result<usize> + Sync,
    ) -> Result<usize> {
        let share = self.share(keys.len());
        on_threads(keys.chunks(share), call)
    }
}

/// Reads a word of a random line for each key.
fn gather(table: &[u64], keys: &[u64], out: &mut [u64]) {
    /// Keys ahead of the one that is served.
    const AHEAD: usize = 32;
    let lines = (table.len() / WORDS_OF_LINE) as u128;
    let word = |key: u64| {
        let line = (u128::from(key.wrapping_mul(0x9e37_79b9_7f4a_7c15)) * lines) >> 64;
        &table[line as usize * WORDS_OF_LINE]
    };
    for (i, (&key, out)) in keys.iter().zip(out).enumerate() {
        if let Some(&ahead) = keys.get(i + AHEAD) {
            prefetch(word(ahead));
        }
        *out = *word(key);
    }
}

/// Copies an array by shares.
fn copy(from: &[u64], to: &mut [u64], threads: usize) {
    let share = from.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        for (from, to) in from.chunks(share).zip(to.chunks_mut(share)) {
            scope.spawn(move || to.copy_from_slice(from));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_map_gives_right_results() {
        let options = Options {
            sizes: vec![1, 1_000],
            loads: vec![0.5, 0.9],
            threads: vec![1, 2],
            runs: 1,
        };
        let mut seen = 0;
        let report = run(&options, |row| {
            assert!(row.rate() > 0.0);
            seen += 1;
        })
        .unwrap();
        // Verbs of maps; ours at two loads, with a dump, a copy and a gather.
        let (peers, ours) = (5 * 5, 2 * 8);
        assert_eq!(seen, 2 * (2 * (peers + ours) + 5));
        assert_eq!(report.rows().len(), seen);
    }
}
