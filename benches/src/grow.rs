//! Growing maps: batches with growth inside the timer, and churn at constant size.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Instant;

use anyhow::{Result, ensure};
use gpumap::{Buffer, DEFAULT_MAX_LOAD_FACTOR, Map};

use crate::bench::Bench;
use crate::data::{Word, slot_bytes, strided};
use crate::measure::Time;
use crate::report::Row;
use crate::verify;

/// Batches per case: of a hundredth of the pairs each.
const BATCHES: usize = 100;

/// Rounds of churn, each of which replaces a hundredth of the pairs.
const ROUNDS: usize = 1000;

/// Measures and verifies maps of `n` pairs of 8 + 8 bytes that begin at half of that.
pub fn run(bench: &mut Bench) -> Result<()> {
    let n = bench.n as u64;
    let mut suite = Suite {
        keys: bench.buffer((0..2 * n).map(u64::sparse))?,
        values: bench.buffer(0..2 * n)?,
        asked: bench.buffer((0..n).map(|i| u64::sparse(strided(i, n))))?,
        out: bench.zeroed(bench.n)?,
        batch: bench.n.div_ceil(BATCHES),
        claims: bench.ceilings.cas(slot_bytes::<u64, u64>()),
        bench,
    };
    suite.queued()?;
    let grown = suite.waited_for()?;
    suite.get(&grown, "the grown map")?;
    let slots = grown.slots();
    drop(grown);
    // As many slots, made at once.
    let full = suite.map((slots as f64 * DEFAULT_MAX_LOAD_FACTOR) as usize)?;
    suite.fill(&full, suite.bench.n)?;
    suite.get(&full, "a map made at full size")?;
    drop(full);
    suite.doublings()?;
    suite.churn()
}

struct Suite<'a, 'b> {
    bench: &'a mut Bench<'b>,
    /// Twice as many pairs as a map gets.
    keys: Buffer<u64>,
    values: Buffer<u64>,
    /// The keys of those that it gets, in another order.
    asked: Buffer<u64>,
    out: Buffer<u64>,
    /// Pairs of a batch.
    batch: usize,
    /// The ceiling of inserts.
    claims: f64,
}

impl Suite<'_, '_> {
    fn map(&self, capacity: usize) -> Result<Map<u64, u64>> {
        let builder = self.bench.map(capacity, DEFAULT_MAX_LOAD_FACTOR);
        Ok(builder.build()?)
    }

    /// Another map: the one before goes first, so that there is memory for one only.
    fn renew(&self, map: &RefCell<Map<u64, u64>>, capacity: usize) -> Result<()> {
        map.replace(self.map(1)?);
        map.replace(self.map(capacity)?);
        Ok(())
    }

    /// Stores the first pairs.
    fn fill(&self, map: &Map<u64, u64>, pairs: usize) -> Result<()> {
        map.insert(&self.keys.slice(..pairs)?, &self.values.slice(..pairs)?)?;
        Ok(())
    }

    fn batches(&self) -> impl Iterator<Item = Range<usize>> {
        let (n, batch) = (self.bench.n, self.batch);
        (0..n)
            .step_by(batch)
            .map(move |start| start..(start + batch).min(n))
    }

    /// Batches on a stream, into maps that have room for them and into one that grows.
    fn queued(&mut self) -> Result<()> {
        let (n, batch) = (self.bench.n, self.batch);
        let map = RefCell::new(self.map(1)?);
        let queue = || {
            let map = map.borrow();
            let on = map.on(self.bench.stream);
            let mut new = Vec::with_capacity(BATCHES);
            for part in self.batches() {
                new.push(on.insert(&self.keys.slice(part.clone())?, &self.values.slice(part)?)?);
            }
            for new in new {
                ensure!(new.wait()? <= batch, "too many new keys");
            }
            Ok(())
        };
        let time = |capacity| self.bench.time_after(|| self.renew(&map, capacity), queue);
        let (exact, ()) = time(n)?;
        let (ample, ()) = time(n + n / 4)?;
        let (grown, ()) = time(n / 2)?;
        let len = map.borrow().len();
        ensure!(len == n, "{len} of {n} pairs");
        let into = format!("8+8 insert by {batch} into a map made at full size");
        let grow = format!("8+8 grow from {} by {batch}", n / 2);
        for (name, took) in [
            (format!("{into}, on a stream"), exact),
            (format!("{into} and a quarter, on a stream"), ample),
            (format!("{grow}, on a stream"), grown),
        ] {
            self.bench.add(name, took, self.claims);
        }
        Ok(())
    }

    /// Batches that are waited for, into a map that grows, which is returned.
    fn waited_for(&mut self) -> Result<Map<u64, u64>> {
        let (n, batch) = (self.bench.n, self.batch);
        let map = RefCell::new(self.map(1)?);
        let grow = || {
            let map = map.borrow();
            for part in self.batches() {
                map.insert(&self.keys.slice(part.clone())?, &self.values.slice(part)?)?;
            }
            anyhow::Ok(())
        };
        let (took, ()) = self.bench.time_after(|| self.renew(&map, n / 2), grow)?;
        let map = map.into_inner();
        ensure!(map.len() == n, "{} of {n} pairs", map.len());
        let name = format!(
            "8+8 grow from {} by {batch}, {} submaps",
            n / 2,
            map.submaps()
        );
        self.bench.add(name, took, self.claims);
        Ok(map)
    }

    fn get(&mut self, map: &Map<u64, u64>, name: &str) -> Result<()> {
        let get = || map.get_or_into(&self.asked, u64::MAX, &mut self.out);
        let (took, ()) = self.bench.time(get)?;
        verify::values(&self.out.to_vec()?, 0)?;
        let (load, submaps) = (map.load_factor(), map.submaps());
        let name = format!("8+8 get of {name}, load {load:.2}, {submaps} submaps");
        self.bench.add(name, took, self.bench.ceilings.gather);
        Ok(())
    }

    /// Reserving room for as many pairs as there are.
    fn doublings(&mut self) -> Result<()> {
        let map = RefCell::new(self.map(1)?);
        for pairs in [self.bench.n / 2, self.bench.n] {
            let fill = || {
                self.renew(&map, pairs)?;
                self.fill(&map.borrow(), pairs)
            };
            let double = || map.borrow().reserve(pairs);
            let (took, ()) = self.bench.time_after(fill, double)?;
            let name = format!("8+8 one doubling of {pairs}");
            self.bench
                .report
                .add(Row::op(name, took, pairs, self.claims));
        }
        Ok(())
    }

    /// Rounds that replace a hundredth of the pairs, at 85 % of the slots.
    fn churn(&mut self) -> Result<()> {
        let n = self.bench.n;
        let slots = (n as f64 / 0.85) as usize;
        let capacity = (slots as f64 * 0.93) as usize;
        let map = self.bench.map(capacity, 0.93).build()?;
        self.fill(&map, n)?;
        let times = (0..ROUNDS)
            .map(|round| self.churn_round(&map, round))
            .collect::<Result<Vec<f64>>>()?;
        for (name, part) in [
            ("first", &times[..ROUNDS / 10]),
            ("last", &times[ROUNDS - ROUNDS / 10..]),
        ] {
            let time = Time::of_runs(part.to_vec());
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            println!(
                "churn at load 0.85, {name} hundred rounds: median {:.3} ms, mean {mean:.3} ms, {} slots",
                time.median,
                map.slots()
            );
            let time = Time {
                median: mean,
                ..time
            };
            let name = format!("8+8 churn round, mean of the {name} {}", part.len());
            let row = Row::op(name, time, 2 * self.batch, self.claims);
            self.bench.report.add(row);
        }
        Ok(())
    }

    /// Milliseconds of one round. The keys lie in a ring of 2 `n`: the oldest hundredth goes, the next
    /// one comes.
    fn churn_round(&self, map: &Map<u64, u64>, round: usize) -> Result<f64> {
        let (keys, batch) = (&self.keys, self.batch);
        let ring = keys.len() / batch;
        let part = |round: usize| {
            let at = round % ring * batch;
            at..(at + batch).min(keys.len())
        };
        let (old, new) = (part(round), part(round + self.bench.n / batch));
        let start = Instant::now();
        let removed = map.remove(&keys.slice(old.clone())?)?;
        let stored = map.insert(&keys.slice(new.clone())?, &self.values.slice(new.clone())?)?;
        let took = start.elapsed().as_secs_f64() * 1e3;
        ensure!(
            (removed, stored) == (old.len(), new.len()),
            "round {round}: {removed} removed, {stored} stored"
        );
        Ok(took)
    }
}
