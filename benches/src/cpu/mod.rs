//! Maps of the host beside this one on its native back end: `gpumap-bench cpu`.
//!
//! `u64` to `u64`, keys spread at random by a fixed bijection, hashers of other maps with a fixed seed. Every result is
//! verified. Threads take equal shares of the keys; ours are those of the device, which gets each batch whole.
//!
//! Each run of an insert makes a new map, within the time: some maps touch their memory when they are made and some when pairs
//! come, and a map that is filled again after `clear` may or may not have kept it. Each map is used as its own documents advise: made with
//! room for all pairs, with a guard for a batch where there are guards, and with atomic counters where these are advised for
//! counting.
//!
//! | verb | is |
//! |---|---|
//! | insert | a new map with room for all pairs, and all pairs into it |
//! | get | all keys in another order, each present |
//! | miss | as many absent keys |
//! | merge | adds 1 to each value |
//! | remove | all keys in another order |
//! | insert, get of 64 | the same by calls with 64 keys, which each thread makes for its share |
//! | insert, get of 1 | the same by calls with one key, of a million at most |
//! | retrieve_all | all pairs into arrays |
//!
//! Two ceilings of the machine are measured beside them: `retrieve_all` of a copy of the same bytes, and `get` of a gather, which
//! reads one word for each key from a random cache line of memory as large as the table of this map, in large pages and by
//! prefetches.

mod maps;
mod report;

use std::cell::RefCell;
use std::thread;

use anyhow::{Result, anyhow, ensure};
use gpumap::simt::native::prefetch;
use gpumap::{Device, Map, PinnedBuffer};

pub use report::{Report, Row};

use crate::data::{Word, strided};
use crate::measure::{Clock, Time};
use maps::{Alone, Dash, Locked, Ours, Papaya, Peer, Scc, Sharded};

/// Words of a cache line.
const WORDS_OF_LINE: usize = 8;

/// Slots of this map in one.
const SLOTS_OF_LINE: usize = 4;

/// Keys of a small batch.
const SMALL: usize = 64;

/// Keys of calls with one key each: they take long.
const FEW: usize = 1_000_000;

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
            Ok(Ours::new(map, load))
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
        let few = n.min(FEW);
        for (verb, each, n) in [
            ("insert of 1", 1, few),
            ("insert of 64", SMALL, n),
            ("insert", n, n),
        ] {
            let (took, stored) = self.clock.time_after(forget, || {
                let mut made = made.borrow_mut();
                let map = &*made.insert(make()?);
                Calls { map, threads }.insert(&batch.keys[..n], &batch.values[..n], each)
            })?;
            ensure!(stored == n, "{name}: {stored} of {n} stored");
            self.add(&name, verb, n, threads, took);
        }
        let map = made.take().ok_or_else(|| anyhow!("{name}: no run"))?;
        let calls = Calls { map: &map, threads };

        let (mut out, mut found) = (vec![1u64; n], vec![1u8; n]);
        for (verb, keys, each) in [
            ("get", &*batch.asked, n),
            ("get of 64", &batch.asked, SMALL),
            ("get of 1", &batch.asked[..few], 1),
            ("miss", &batch.absent, n),
        ] {
            let (out, found) = (&mut out[..keys.len()], &mut found[..keys.len()]);
            let (took, ()) = self.clock.time(|| calls.get(keys, out, found, each))?;
            let is_there = u8::from(verb != "miss");
            ensure!(found.iter().all(|&it| it == is_there), "{name}: {verb}");
            if verb != "miss" {
                let right = |(i, &value): (usize, &u64)| value == batch.value_of(i);
                ensure!(out.iter().enumerate().all(right), "{name}: a wrong value");
            }
            self.add(&name, verb, keys.len(), threads, took);
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

/// Calls of a map by so many threads, each for an equal share of the keys; or by one, where the map has threads of its
/// own and gets whole batches.
struct Calls<'a, P> {
    map: &'a P,
    threads: usize,
}

impl<P: Peer> Calls<'_, P> {
    /// Keys of a share.
    fn share(&self, n: usize, each: usize) -> usize {
        match P::TAKES_BATCHES && each == n {
            true => n,
            false => n.div_ceil(self.threads),
        }
    }

    /// Stores a batch, by calls with `each` pairs.
    fn insert(&self, keys: &[u64], values: &[u64], each: usize) -> Result<usize> {
        let share = self.share(keys.len(), each);
        let shares = keys.chunks(share).zip(values.chunks(share));
        on_threads(shares, |(keys, values)| {
            let calls = keys.chunks(each).zip(values.chunks(each));
            calls
                .map(|(keys, values)| self.map.insert(keys, values))
                .sum()
        })
    }

    /// Looks keys up, by calls with `each` of them.
    fn get(&self, keys: &[u64], out: &mut [u64], found: &mut [u8], each: usize) -> Result<()> {
        let share = self.share(keys.len(), each);
        let shares = keys.chunks(share).zip(out.chunks_mut(share));
        on_threads(
            shares.zip(found.chunks_mut(share)),
            |((keys, out), found)| {
                let mut calls = keys.chunks(each).zip(out.chunks_mut(each));
                let mut calls = calls.by_ref().zip(found.chunks_mut(each));
                calls.try_for_each(|((keys, out), found)| self.map.get(keys, out, found))?;
                Ok(0)
            },
        )?;
        Ok(())
    }

    /// Does something with all keys; what it returns, added up.
    fn on_keys(
        &self,
        keys: &[u64],
        call: impl Fn(&[u64]) -> Result<usize> + Sync,
    ) -> Result<usize> {
        let share = self.share(keys.len(), keys.len());
        on_threads(keys.chunks(share), call)
    }
}

/// Does something with each share on a thread of its own, the last on this one; what it returns, added up.
fn on_threads<S: Send>(
    shares: impl Iterator<Item = S>,
    call: impl Fn(S) -> Result<usize> + Sync,
) -> Result<usize> {
    let mut shares: Vec<S> = shares.collect();
    let Some(last) = shares.pop() else {
        return Ok(0);
    };
    thread::scope(|scope| {
        let call = &call;
        let others: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(move || call(share)))
            .collect();
        let mut sum = call(last)?;
        for other in others {
            sum += other.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        Ok(sum)
    })
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
        let (peers, ours) = (5 * 9, 2 * 12);
        assert_eq!(seen, 2 * (2 * (peers + ours) + 9));
        assert_eq!(report.rows().len(), seen);
    }
}
