//! The operations of multimaps, each beside its ceiling: sparse keys, in maps whose chains have one slab as
//! a rule, and two.

use anyhow::{Result, ensure};
use gpumap::multi::MultiStats;
use gpumap::{Buffer, MultiMap, Word, WordKey};

use crate::bench::Bench;
use crate::data::{BenchKey, BenchValue, pair_bytes, sizes, slot_bytes};
use crate::inputs::Inputs;
use crate::measure::Time;
use crate::verify;

/// Bytes per slab.
const SLAB_BYTES: usize = 128;

/// Pairs per slot of the base slabs. With 0.7 few chains have a second slab; with 1.4 most have two,
/// about as full.
pub const LOADS: [f64; 2] = [0.7, 1.4];

/// Measures and verifies the operations on a map with so many pairs per slot of its base slabs.
pub fn run<K: BenchKey + WordKey, V: BenchValue + Word<Bits = K::Bits>>(
    bench: &mut Bench,
    load: f64,
) -> Result<()> {
    let n = bench.n;
    let slots = SLAB_BYTES / pair_bytes::<K, V>() - 1;
    let mut verbs = Verbs::<K, V> {
        inputs: Inputs::new(bench, K::sparse)?,
        values: bench.buffer((0..n as u64).map(V::dense))?,
        out: bench.zeroed(n)?,
        map: MultiMap::builder(bench.device())
            .capacity(n)
            .buckets((n as f64 / (slots as f64 * load)).ceil() as usize)
            .hash_seed(1)
            .build()?,
        load,
        bench,
    };
    verbs.insert()?;
    verbs.append()?;
    verbs.get()?;
    verbs.get_all()?;
    let stats = verbs.map.stats()?;
    verbs.retrieve_all(&stats)?;
    verbs.remove()?;
    println!(
        "{} buckets, {} slabs linked, longest chain {}, {:.2} pairs per slot, {} bytes",
        stats.buckets,
        stats.linked_slabs,
        stats.longest_chain,
        stats.load_factor(),
        stats.bytes
    );
    Ok(())
}

/// A map, and what goes in and comes out.
struct Verbs<'a, 'b, K: BenchKey + WordKey, V: BenchValue + Word<Bits = K::Bits>> {
    bench: &'a mut Bench<'b>,
    load: f64,
    map: MultiMap<K, V>,
    inputs: Inputs<K>,
    values: Buffer<V>,
    out: Buffer<V>,
}

impl<K: BenchKey + WordKey, V: BenchValue + Word<Bits = K::Bits>> Verbs<'_, '_, K, V> {
    fn name(&self, verb: &str) -> String {
        format!("chained {} load {} {verb}", sizes::<K, V>(), self.load)
    }

    fn add(&mut self, verb: &str, took: Time, ceiling: f64) {
        self.bench.add(self.name(verb), took, ceiling);
    }

    /// What claims a slot for each pair.
    fn claims(&self) -> f64 {
        self.bench.ceilings.cas(slot_bytes::<K, V>())
    }

    fn insert(&mut self) -> Result<()> {
        let (map, keys, n) = (&self.map, &self.inputs.keys, self.bench.n);
        let insert = || map.insert(keys, &self.values);
        let (took, new) = self.bench.time_after(|| map.clear(), insert)?;
        ensure!(new == n && map.len() == n, "insert stored {new} of {n}");
        self.add("insert", took, self.claims());
        Ok(())
    }

    fn append(&mut self) -> Result<()> {
        let (map, keys, n) = (&self.map, &self.inputs.keys, self.bench.n);
        let append = || map.append(keys, &self.values);
        let (took, ()) = self.bench.time_after(|| map.clear(), append)?;
        ensure!(map.len() == n, "append stored {} of {n}", map.len());
        self.add("append", took, self.claims());
        Ok(())
    }

    fn get(&mut self) -> Result<()> {
        let gather = self.bench.ceilings.gather;
        let Inputs { asked, absent, .. } = &self.inputs;
        let mut found = self.bench.zeroed(self.bench.n)?;
        let get = || self.map.get_into(asked, &mut self.out, &mut found);
        let (hit, ()) = self.bench.time(get)?;
        verify::found(&found.to_vec()?, true)?;
        verify::values(&self.out.to_vec()?, 0)?;

        let get = || self.map.get_into(absent, &mut self.out, &mut found);
        let (miss, ()) = self.bench.time(get)?;
        verify::found(&found.to_vec()?, false)?;

        self.add("get, hit", hit, gather);
        self.add("get, miss", miss, gather);
        Ok(())
    }

    /// All values of each key, of which each has one here: two walks, and a scan of the counts of the
    /// first.
    fn get_all(&mut self) -> Result<()> {
        let (n, gather) = (self.bench.n, self.bench.ceilings.gather);
        let asked = &self.inputs.asked;
        let mut counts = self.bench.zeroed::<u64>(n)?;
        let (count, ()) = self
            .bench
            .time(|| self.map.count_into(asked, &mut counts))?;
        ensure!(
            counts.to_vec()?.iter().all(|&pairs| pairs == 1),
            "a count is wrong"
        );
        drop(counts);
        self.add("count", count, gather);

        let asked = &self.inputs.asked;
        let mut offsets = self.bench.zeroed::<u64>(n + 1)?;
        let get_all = || self.map.get_all_into(asked, &mut offsets, &mut self.out);
        let (took, pairs) = self.bench.time(get_all)?;
        ensure!(pairs == n, "get_all found {pairs} of {n}");
        ensure!(
            offsets.to_vec()?.into_iter().eq(0..=n as u64),
            "an offset is wrong"
        );
        verify::values(&self.out.to_vec()?, 0)?;
        self.add("get_all", took, 2.0 * gather);
        Ok(())
    }

    fn retrieve_all(&mut self, stats: &MultiStats) -> Result<()> {
        let n = self.bench.n;
        let mut out_keys = self.bench.zeroed::<K>(n)?;
        let dump = || self.map.retrieve_all_into(&mut out_keys, &mut self.out);
        let (took, pairs) = self.bench.time(dump)?;
        ensure!(pairs == n, "retrieve_all reported {pairs} of {n}");
        verify::dump(&out_keys.to_vec()?, &self.out.to_vec()?, K::sparse)?;
        let slabs = stats.buckets + stats.linked_slabs;
        let bytes = slabs * SLAB_BYTES + n * pair_bytes::<K, V>();
        let name = self.name("retrieve_all");
        let row = self.bench.beside_copy(name, took, stats.slots, bytes);
        self.bench.report.add(row);
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        let (map, inputs, n) = (&self.map, &self.inputs, self.bench.n);
        let fill = || {
            map.clear()?;
            map.append(&inputs.keys, &self.values)
        };
        let (took, removed) = self.bench.time_after(fill, || map.remove(&inputs.asked))?;
        ensure!(removed == n && map.is_empty(), "{removed} of {n} removed");
        self.add("remove", took, self.bench.ceilings.cas_64);
        Ok(())
    }
}
