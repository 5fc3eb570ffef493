//! The operations, each beside its ceiling.

use anyhow::{Result, ensure};
use gpumap::{Buffer, Key, Map, Merge, Numeric};
use gpumap_benches::plots::Axis;

use crate::bench::Bench;
use crate::data::{BenchKey, BenchValue, pair_bytes, sizes, slot_bytes};
use crate::inputs::Inputs;
use crate::measure::Time;
use crate::options::KeyKind;
use crate::report::Row;
use crate::verify;

/// One map and what is done with it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Pairs per slot.
    pub load: f64,
    /// Which keys.
    pub keys: KeyKind,
    /// Submaps.
    pub submaps: u32,
}

impl Case {
    /// An empty map.
    pub fn map<K: Key, V: Numeric>(&self, bench: &Bench) -> Result<Map<K, V>> {
        let builder = bench.map(bench.n, self.load);
        Ok(builder.submaps(self.submaps).build()?)
    }

    /// What rows call an operation.
    pub fn name<K, V>(&self, verb: &str) -> String {
        let (sizes, keys) = (sizes::<K, V>(), self.keys.name());
        format!("{sizes} {keys} load {} {verb}", self.load)
    }
}

/// Measures and verifies every operation in one case.
pub fn run<K: BenchKey, V: BenchValue>(bench: &mut Bench, case: Case) -> Result<()> {
    let n = bench.n;
    let mut verbs = Verbs::<K, V> {
        inputs: Inputs::new(bench, |i| case.keys.key(i))?,
        values: bench.buffer((0..n as u64).map(V::dense))?,
        ones: bench.buffer((0..n).map(|_| V::dense(1)))?,
        out: bench.zeroed(n)?,
        found: bench.zeroed(n)?,
        map: case.map(bench)?,
        case,
        bench,
    };
    verbs.insert()?;
    verbs.insert_present()?;
    verbs.get()?;
    verbs.retrieve_all()?;
    verbs.merge()?;
    verbs.update()?;
    verbs.upsert()?;
    verbs.remove()
}

/// A map, and what goes in and comes out.
struct Verbs<'a, 'b, K: BenchKey, V: BenchValue> {
    bench: &'a mut Bench<'b>,
    case: Case,
    map: Map<K, V>,
    inputs: Inputs<K>,
    values: Buffer<V>,
    ones: Buffer<V>,
    out: Buffer<V>,
    found: Buffer<u8>,
}

impl<K: BenchKey, V: BenchValue> Verbs<'_, '_, K, V> {
    fn add(&mut self, verb: &str, took: Time, ceiling: f64) {
        let (sizes, keys) = (sizes::<K, V>(), self.case.keys.name());
        let chart = format!("{sizes}, {keys} keys, by load");
        let row = Row::op(self.case.name::<K, V>(verb), took, self.bench.n, ceiling);
        let row = row.at(&chart, verb, Axis::Load, self.case.load);
        self.bench.report.add(row);
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

    /// Of other values, which must not get in.
    fn insert_present(&mut self) -> Result<()> {
        let insert = || self.map.insert(&self.inputs.asked, &self.ones);
        let (took, new) = self.bench.time(insert)?;
        ensure!(new == 0, "insert of present keys stored {new}");
        self.add("insert, all present", took, self.bench.ceilings.gather);
        Ok(())
    }

    fn get(&mut self) -> Result<()> {
        let gather = self.bench.ceilings.gather;
        let Inputs { asked, absent, .. } = &self.inputs;
        let get = || self.map.get_into(asked, &mut self.out, &mut self.found);
        let (hit, ()) = self.bench.time(get)?;
        verify::values(&self.out.to_vec()?, 0)?;
        verify::found(&self.found.to_vec()?, true)?;

        self.out.fill_bytes(0xee)?;
        let get_or = || self.map.get_or_into(asked, V::dense(0), &mut self.out);
        let (bare, ()) = self.bench.time(get_or)?;
        verify::values(&self.out.to_vec()?, 0)?;

        let get = || self.map.get_into(absent, &mut self.out, &mut self.found);
        let (miss, ()) = self.bench.time(get)?;
        verify::found(&self.found.to_vec()?, false)?;

        self.add("get, hit", hit, gather);
        self.add("get_or, hit", bare, gather);
        self.add("get, miss", miss, gather);
        Ok(())
    }

    fn retrieve_all(&mut self) -> Result<()> {
        let (map, n) = (&self.map, self.bench.n);
        let mut out_keys = self.bench.zeroed::<K>(n)?;
        let dump = || map.retrieve_all_into(&mut out_keys, &mut self.out);
        let (took, pairs) = self.bench.time(dump)?;
        ensure!(pairs == n, "retrieve_all reported {pairs} of {n}");
        let key_of = |i| self.case.keys.key(i);
        verify::dump(&out_keys.to_vec()?, &self.out.to_vec()?, key_of)?;
        let bytes = map.slots() * slot_bytes::<K, V>() + n * pair_bytes::<K, V>();
        let name = self.case.name::<K, V>("retrieve_all");
        let row = self.bench.beside_copy(name, took, map.slots(), bytes);
        self.bench.report.add(row);
        Ok(())
    }

    fn merge(&mut self) -> Result<()> {
        let mut added = 0;
        let (took, new) = self.bench.time(|| {
            added += 1;
            self.map.merge(&self.inputs.asked, &self.ones, Merge::Add)
        })?;
        ensure!(new == 0, "add stored {new}");
        self.verify_values(added)?;
        self.add("merge, all present", took, self.bench.ceilings.add_64);
        Ok(())
    }

    /// Takes back what was merged.
    fn update(&mut self) -> Result<()> {
        let (map, keys, n) = (&self.map, &self.inputs.keys, self.bench.n);
        let assign = || map.update(keys, &self.values);
        let (took, present) = self.bench.time(assign)?;
        ensure!(present == n, "assign met {present} of {n}");
        self.verify_values(0)?;
        self.add("assign, all present", took, self.bench.ceilings.add_64);
        Ok(())
    }

    fn upsert(&mut self) -> Result<()> {
        let (map, keys, n) = (&self.map, &self.inputs.keys, self.bench.n);
        let upsert = || map.upsert(keys, &self.values);
        let (took, new) = self.bench.time_after(|| map.clear(), upsert)?;
        ensure!(new == n && map.len() == n, "upsert stored {new} of {n}");
        self.verify_values(0)?;
        self.add("upsert", took, self.claims());
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        let (map, inputs, n) = (&self.map, &self.inputs, self.bench.n);
        let fill = || {
            map.clear()?;
            map.insert(&inputs.keys, &self.values).map(drop)
        };
        let (took, removed) = self.bench.time_after(fill, || map.remove(&inputs.asked))?;
        ensure!(removed == n && map.is_empty(), "{removed} of {n} removed");
        self.add("remove", took, self.bench.ceilings.cas_64);
        Ok(())
    }

    /// The map has the values that were stored, plus what was added to each.
    fn verify_values(&mut self, added: u64) -> Result<()> {
        let asked = &self.inputs.asked;
        self.map.get_or_into(asked, V::dense(0), &mut self.out)?;
        verify::values(&self.out.to_vec()?, added)
    }
}
