//! Row maps and unique keys, of 8, 16 and 32 bytes, with 1, 10 and 100 % of the keys different: each beside the random
//! accesses that it takes at least.

use anyhow::{Result, ensure};
use gpumap::bytemuck::Pod;
use gpumap::primitives::{Primitives, UniqueOutputs};
use gpumap::rows::NO_ROW;
use gpumap::{Buffer, RowMap};

use crate::bench::Bench;
use crate::data::{Word, strided};
use crate::measure::Time;

/// Keys of all widths.
pub fn run(bench: &mut Bench) -> Result<()> {
    for percent in [1, 10, 100] {
        run_keys::<[u64; 1]>(bench, percent)?;
        run_keys::<[u64; 2]>(bench, percent)?;
        run_keys::<[u64; 4]>(bench, percent)?;
    }
    Ok(())
}

fn run_keys<K: Word + Pod>(bench: &mut Bench, percent: usize) -> Result<()> {
    let n = bench.n as u64;
    let distinct = (n * percent as u64 / 100).max(1);
    let number = |i: u64| strided(i, n) % distinct;
    let mut rows = Rows::<K> {
        distinct,
        percent,
        primitives: Primitives::new(bench.device()),
        map: RowMap::builder(bench.device())
            .capacity(bench.n)
            .hash_seed(1)
            .build()?,
        keys: bench.buffer((0..n).map(|i| K::sparse(number(i))))?,
        absent: bench.buffer((n..2 * n).map(K::sparse))?,
        told: bench.zeroed(bench.n)?,
        bench,
    };
    rows.insert()?;
    rows.get()?;
    rows.unique()
}

/// A map, and what goes in and comes out.
struct Rows<'a, 'b, K: Pod> {
    bench: &'a mut Bench<'b>,
    distinct: u64,
    percent: usize,
    primitives: Primitives,
    map: RowMap<K>,
    keys: Buffer<K>,
    absent: Buffer<K>,
    told: Buffer<u32>,
}

impl<K: Word + Pod> Rows<'_, '_, K> {
    /// The number of the key at place `i`.
    fn number(&self, i: u64) -> u64 {
        strided(i, self.bench.n as u64) % self.distinct
    }

    fn add(&mut self, what: &str, took: Time, ceiling: f64) {
        let name = format!(
            "{} bytes, {} % distinct, {what}",
            size_of::<K>(),
            self.percent
        );
        self.bench.add(name, took, ceiling);
    }

    /// Panics unless the rows that were told are those of the keys.
    fn verify(&self, keys: &[K]) -> Result<()> {
        let rows = self.told.to_vec()?;
        ensure!(keys.len() as u64 == self.distinct, "{} keys", keys.len());
        let mut next = 0;
        for (i, &row) in (0..).zip(&rows) {
            ensure!(
                row <= next,
                "rows are not in the order of first occurrences"
            );
            next += u32::from(row == next);
            ensure!(
                keys[row as usize] == K::sparse(self.number(i)),
                "a wrong row"
            );
        }
        Ok(())
    }

    fn insert(&mut self) -> Result<()> {
        let (map, keys, told) = (&self.map, &self.keys, &mut self.told);
        let insert = || map.insert_into(keys, told);
        let (took, new) = self.bench.time_after(|| map.clear(), insert)?;
        ensure!(new as u64 == self.distinct, "{new} new keys");
        self.verify(&self.map.keys()?)?;
        self.add("insert", took, self.bench.ceilings.cas_64);
        let (map, keys, told) = (&self.map, &self.keys, &mut self.told);
        let (took, new) = self.bench.time(|| map.insert_into(keys, told))?;
        ensure!(new == 0, "{new} new keys");
        self.verify(&self.map.keys()?)?;
        // A slot and a key.
        self.add(
            "insert, all present",
            took,
            2.0 * self.bench.ceilings.gather,
        );
        Ok(())
    }

    fn get(&mut self) -> Result<()> {
        let (map, told) = (&self.map, &mut self.told);
        let (took, ()) = self.bench.time(|| map.get_into(&self.keys, told))?;
        self.verify(&self.map.keys()?)?;
        self.add("get, hit", took, 2.0 * self.bench.ceilings.gather);
        let (map, told) = (&self.map, &mut self.told);
        let (took, ()) = self.bench.time(|| map.get_into(&self.absent, told))?;
        let all_absent = self.told.to_vec()?.into_iter().all(|row| row == NO_ROW);
        ensure!(all_absent, "an absent key has a row");
        self.add("get, miss", took, self.bench.ceilings.gather);
        Ok(())
    }

    fn unique(&mut self) -> Result<()> {
        let (n, distinct) = (self.bench.n, self.distinct as usize);
        let mut keys = self.bench.zeroed::<K>(n)?;
        let mut counts = self.bench.zeroed::<u32>(n)?;
        let (p, told) = (&self.primitives, &mut self.told);
        let unique = || {
            let outputs = UniqueOutputs::new().keys(&mut keys).counts(&mut counts);
            p.unique_into(&self.keys, outputs.inverse(&mut *told))
        };
        let (took, found) = self.bench.time(unique)?;
        ensure!(found == distinct, "{found} of {distinct} keys");
        self.verify(&keys.slice(..found)?.to_vec()?)?;
        let counts = counts.slice(..found)?.to_vec()?;
        let sum: u64 = counts.iter().copied().map(u64::from).sum();
        let (least, most) = (n / distinct, n.div_ceil(distinct));
        let right = |&count: &u32| (least..=most).contains(&(count as usize));
        ensure!(sum == n as u64 && counts.iter().all(right), "wrong counts");
        self.add(
            "unique with inverse and counts",
            took,
            self.bench.ceilings.cas_64,
        );
        let p = &self.primitives;
        let unique = || p.unique_into(&self.keys, UniqueOutputs::new().keys(&mut keys));
        let (took, found) = self.bench.time(unique)?;
        ensure!(found == distinct, "{found} of {distinct} keys");
        self.add("unique", took, self.bench.ceilings.cas_64);
        Ok(())
    }
}
