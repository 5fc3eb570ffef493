//! The operations of arena maps, 8-byte keys and values of 16, 64 and 256 bytes, each beside its ceiling.
//!
//! A ceiling here is the sum of two: what the slots cost at best, and what the cells do ([`copies`]).

pub mod copies;

use anyhow::{Result, ensure};
use gpumap::{Buffer, Map, Value};

use crate::bench::Bench;
use crate::data::{Word, strided};
use crate::measure::Time;
use crate::report::Row;
use crate::verify;
use copies::Copies;

/// Bytes of all values: far beyond any L2, and several times that fits a GPU.
const GPU_BYTES: usize = 3_200_000_000;
const CPU_BYTES: usize = 16 << 20;

/// Bytes of a slot.
const SLOT: usize = 16;
const LOAD: f64 = 0.8;

/// Measures values of each size, at most `n` pairs of each.
pub fn run(bench: &mut Bench) -> Result<()> {
    of_size::<[u64; 2]>(bench)?;
    of_size::<[u64; 8]>(bench)?;
    of_size::<[u64; 32]>(bench)
}

fn of_size<V: Value + Word>(bench: &mut Bench) -> Result<()> {
    let all = if bench.device().is_cuda() {
        GPU_BYTES
    } else {
        CPU_BYTES
    };
    let n = bench.n.min(all / size_of::<V>());
    let count = n as u64;
    let mut verbs = Verbs::<V> {
        copies: Copies::measure::<V>(bench, n)?,
        share: n as f64 / bench.n as f64,
        keys: bench.buffer((0..count).map(u64::sparse))?,
        asked: bench.buffer((0..count).map(|i| u64::sparse(strided(i, count))))?,
        values: bench.buffer((0..count).map(V::dense))?,
        out: bench.zeroed(n)?,
        found: bench.zeroed(n)?,
        map: Map::builder(bench.device())
            .capacity(n)
            .max_load_factor(LOAD)
            .hash_seed(1)
            .build()?,
        n,
        bench,
    };
    verbs.insert()?;
    verbs.get()?;
    verbs.upsert()?;
    verbs.retrieve_all()
}

/// A map, and what goes in and comes out.
struct Verbs<'a, 'b, V: Value> {
    bench: &'a mut Bench<'b>,
    n: usize,
    copies: Copies,
    /// Of the accesses whose cost is known, which are more than `n`.
    share: f64,
    map: Map<u64, V>,
    keys: Buffer<u64>,
    asked: Buffer<u64>,
    values: Buffer<V>,
    out: Buffer<V>,
    found: Buffer<u8>,
}

impl<V: Value + Word> Verbs<'_, '_, V> {
    fn add(&mut self, verb: &str, took: Time, ceiling: f64) {
        let bytes = size_of::<V>();
        let name = format!("8+{bytes} arena load {LOAD} {verb}");
        self.bench.report.add(Row::op(name, took, self.n, ceiling));
    }

    fn insert(&mut self) -> Result<()> {
        let (map, n) = (&self.map, self.n);
        let insert = || map.insert(&self.keys, &self.values);
        let (took, new) = self.bench.time_after(|| map.clear(), insert)?;
        ensure!(new == n && map.len() == n, "insert stored {new} of {n}");
        // Cells of an empty arena are taken in order.
        let cells = self.bench.ceilings.copy_ms(2 * n * size_of::<V>());
        let slots = self.bench.ceilings.cas(SLOT) * self.share;
        self.add("insert", took, slots + cells);
        Ok(())
    }

    fn get(&mut self) -> Result<()> {
        let (asked, out, found) = (&self.asked, &mut self.out, &mut self.found);
        let (took, ()) = self.bench.time(|| self.map.get_into(asked, out, found))?;
        self.verify_found()?;
        let slots = self.bench.ceilings.gather * self.share;
        self.add("get, hit", took, slots + self.copies.gather);
        Ok(())
    }

    fn upsert(&mut self) -> Result<()> {
        let n = self.n as u64;
        // In an order of their own, so that from the second round on cells are taken at random.
        let shuffled = self.bench.buffer((0..n).map(|i| V::dense(strided(i, n))))?;
        let upsert = || self.map.upsert(&self.asked, &shuffled);
        let (took, new) = self.bench.time(upsert)?;
        ensure!(new == 0 && self.map.len() == self.n, "upsert stored {new}");
        let (asked, out, found) = (&self.asked, &mut self.out, &mut self.found);
        self.map.get_into(asked, out, found)?;
        self.verify_found()?;
        let slots = self.bench.ceilings.add_64 * self.share;
        self.add("upsert, all present", took, slots + self.copies.scatter);
        Ok(())
    }

    fn retrieve_all(&mut self) -> Result<()> {
        let n = self.n;
        let mut out_keys = self.bench.zeroed::<u64>(n)?;
        let dump = || self.map.retrieve_all_into(&mut out_keys, &mut self.out);
        let (took, pairs) = self.bench.time(dump)?;
        ensure!(pairs == n, "retrieve_all reported {pairs} of {n}");
        verify::dump(&out_keys.to_vec()?, &self.out.to_vec()?, u64::sparse)?;
        let bytes = self.map.stats()?.slots * SLOT + n * size_of::<u64>();
        let slots = self.bench.ceilings.copy_ms(bytes);
        self.add("retrieve_all", took, slots + self.copies.gather);
        Ok(())
    }

    /// Every key of the lookup was found, with its value.
    fn verify_found(&self) -> Result<()> {
        verify::found(&self.found.to_vec()?, true)?;
        verify::values(&self.out.to_vec()?, 0)
    }
}
