//! Every operation on arrays of one kind of memory.

use anyhow::{Result, ensure};
use gpumap::Map;

use super::{Arrays, Batch};
use crate::bench::Bench;
use crate::data::{BenchKey, BenchValue, pair_bytes};
use crate::measure::Time;
use crate::verify;

/// Measures and verifies the operations on a map of its own.
pub fn run<K: BenchKey, V: BenchValue>(
    bench: &mut Bench,
    batch: &Batch<'_, K, V>,
    arrays: Arrays<'_, K, V>,
) -> Result<()> {
    let map = batch.map(bench)?;
    let mut verbs = Verbs {
        bench,
        batch,
        map,
        arrays,
    };
    verbs.store()?;
    verbs.look_up()?;
    verbs.retrieve_all()?;
    verbs.new_vectors()?;
    verbs.remove()
}

struct Verbs<'a, 'b, K: BenchKey, V: BenchValue> {
    bench: &'a mut Bench<'b>,
    batch: &'a Batch<'a, K, V>,
    map: Map<K, V>,
    arrays: Arrays<'a, K, V>,
}

impl<K: BenchKey, V: BenchValue> Verbs<'_, '_, K, V> {
    /// A row of an operation that takes so many bytes of each pair to the device, and so many back.
    fn add(&mut self, verb: &str, took: Time, there: usize, back: usize) {
        let verb = format!("{} {verb}", self.arrays.kind);
        let row = self.batch.row(&verb, took, there, back);
        self.bench.report.add(row);
    }

    fn store(&mut self) -> Result<()> {
        let (map, n) = (&self.map, self.arrays.keys.len());
        let (keys, values) = (self.arrays.keys, self.arrays.values);
        let all_new = |new: usize| {
            ensure!(new == n && map.len() == n, "{new} of {n} were new");
            Ok(())
        };
        let empty = || map.clear();
        let insert = || all_new(map.insert(keys, values)?);
        let (insert, ()) = self.bench.time_after(empty, insert)?;
        let upsert = || all_new(map.upsert(keys, values)?);
        let (upsert, ()) = self.bench.time_after(empty, upsert)?;
        self.add("insert", insert, pair_bytes::<K, V>(), 0);
        self.add("upsert", upsert, pair_bytes::<K, V>(), 0);
        Ok(())
    }

    fn look_up(&mut self) -> Result<()> {
        let (key, value) = (size_of::<K>(), size_of::<V>());
        let (map, to) = (&self.map, &mut self.arrays);
        let get = || map.get_into(to.asked, to.out, to.found);
        let (get, ()) = self.bench.time(get)?;
        verify::values(to.out, 0)?;
        verify::found(to.found, true)?;
        to.out.fill(V::dense(0));
        let get_or = || map.get_or_into(to.asked, V::dense(1), to.out);
        let (get_or, ()) = self.bench.time(get_or)?;
        verify::values(to.out, 0)?;
        to.found.fill(0);
        let contains = || map.contains_into(to.asked, to.found);
        let (contains, ()) = self.bench.time(contains)?;
        verify::found(to.found, true)?;
        self.add("get_into", get, key, value + 1);
        self.add("get_or_into", get_or, key, value);
        self.add("contains_into", contains, key, 1);
        Ok(())
    }

    fn retrieve_all(&mut self) -> Result<()> {
        let (to, n) = (&mut self.arrays, self.batch.keys.len());
        let dump = || self.map.retrieve_all_into(to.out_keys, to.out);
        let (took, pairs) = self.bench.time(dump)?;
        ensure!(pairs == n, "retrieve_all told of {pairs} of {n}");
        self.add("retrieve_all_into", took, 0, pair_bytes::<K, V>());
        Ok(())
    }

    /// Results in new vectors, whose pages the system has to find.
    fn new_vectors(&mut self) -> Result<()> {
        let (map, n) = (&self.map, self.arrays.keys.len());
        let mut got = Vec::new();
        let (get, ()) = self.bench.time(|| {
            // The memory of the run before goes first, so that there is room for one result only.
            got = Vec::new();
            got = map.get(self.arrays.asked)?;
            anyhow::Ok(())
        })?;
        ensure!(got.iter().all(Option::is_some), "a key is missing");
        drop(got);
        let mut values = Vec::new();
        let (get_or, ()) = self.bench.time(|| {
            values = Vec::new();
            values = map.get_or(self.arrays.asked, V::dense(1))?;
            anyhow::Ok(())
        })?;
        verify::values(&values, 0)?;
        drop(values);
        let (dump, ()) = self.bench.time(|| {
            let (keys, values) = map.retrieve_all()?;
            ensure!((keys.len(), values.len()) == (n, n), "pairs are missing");
            Ok(())
        })?;
        self.add("get, new vector", get, size_of::<K>(), size_of::<V>() + 1);
        self.add("get_or, new vector", get_or, size_of::<K>(), size_of::<V>());
        self.add("retrieve_all, new vectors", dump, 0, pair_bytes::<K, V>());
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        let (map, arrays) = (&self.map, &self.arrays);
        let n = arrays.keys.len();
        let full = || {
            map.clear()?;
            map.insert(arrays.keys, arrays.values).map(drop)
        };
        let (took, ()) = self.bench.time_after(full, || {
            let removed = map.remove(arrays.asked)?;
            ensure!(removed == n && map.is_empty(), "{removed} of {n} removed");
            Ok(())
        })?;
        self.add("remove", took, size_of::<K>(), 0);
        Ok(())
    }
}
