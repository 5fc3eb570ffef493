//! The operations of a set, each beside its ceiling: the rows of `8+8`, without the values.

use anyhow::{Result, ensure};
use gpumap::{Buffer, Map};

use crate::bench::Bench;
use crate::data::{BenchKey, slot_bytes};
use crate::inputs::Inputs;
use crate::measure::Time;
use crate::ops::Case;
use crate::verify;

/// Measures and verifies a set of keys in one case.
pub fn run<K: BenchKey>(bench: &mut Bench, case: Case) -> Result<()> {
    let mut verbs = Verbs::<K> {
        inputs: Inputs::new(bench, |i| case.keys.key(i))?,
        found: bench.zeroed(bench.n)?,
        set: case.map(bench)?,
        case,
        bench,
    };
    verbs.insert()?;
    verbs.insert_present()?;
    verbs.contains()?;
    verbs.retrieve_all()?;
    verbs.remove()
}

/// A set, and what goes in and comes out.
struct Verbs<'a, 'b, K: BenchKey> {
    bench: &'a mut Bench<'b>,
    case: Case,
    set: Map<K, ()>,
    inputs: Inputs<K>,
    found: Buffer<u8>,
}

impl<K: BenchKey> Verbs<'_, '_, K> {
    fn add(&mut self, verb: &str, took: Time, ceiling: f64) {
        let name = self.case.name::<K, ()>(verb);
        self.bench.add(name, took, ceiling);
    }

    fn insert(&mut self) -> Result<()> {
        let (set, keys, n) = (&self.set, &self.inputs.keys, self.bench.n);
        let insert = || set.insert_keys(keys);
        let (took, new) = self.bench.time_after(|| set.clear(), insert)?;
        ensure!(new == n && set.len() == n, "insert stored {new} of {n}");
        let claims = self.bench.ceilings.cas(slot_bytes::<K, ()>());
        self.add("insert", took, claims);
        Ok(())
    }

    fn insert_present(&mut self) -> Result<()> {
        let insert = || self.set.insert_keys(&self.inputs.asked);
        let (took, new) = self.bench.time(insert)?;
        ensure!(new == 0, "insert of present keys stored {new}");
        self.add("insert, all present", took, self.bench.ceilings.gather);
        Ok(())
    }

    fn contains(&mut self) -> Result<()> {
        for there in [true, false] {
            let Inputs { asked, absent, .. } = &self.inputs;
            let (verb, keys) = if there {
                ("contains, hit", asked)
            } else {
                ("contains, miss", absent)
            };
            let contains = || self.set.contains_into(keys, &mut self.found);
            let (took, ()) = self.bench.time(contains)?;
            verify::found(&self.found.to_vec()?, there)?;
            self.add(verb, took, self.bench.ceilings.gather);
        }
        Ok(())
    }

    fn retrieve_all(&mut self) -> Result<()> {
        let (set, n) = (&self.set, self.bench.n);
        let mut out = self.bench.zeroed::<K>(n)?;
        let dump = || set.keys_into(&mut out);
        let (took, keys) = self.bench.time(dump)?;
        ensure!(keys == n, "retrieve_all reported {keys} of {n}");
        // As many as there are, all different, and each of them one that was stored.
        let others = Map::<K, ()>::with_capacity(self.bench.device(), n)?;
        ensure!(others.insert_keys(&out)? == n, "a key was dumped twice");
        set.contains_into(&out, &mut self.found)?;
        verify::found(&self.found.to_vec()?, true)?;
        let bytes = set.slots() * slot_bytes::<K, ()>() + n * size_of::<K>();
        let name = self.case.name::<K, ()>("retrieve_all");
        let row = self.bench.beside_copy(name, took, set.slots(), bytes);
        self.bench.report.add(row);
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        let (set, inputs, n) = (&self.set, &self.inputs, self.bench.n);
        let fill = || {
            set.clear()?;
            set.insert_keys(&inputs.keys).map(drop)
        };
        let (took, removed) = self.bench.time_after(fill, || set.remove(&inputs.asked))?;
        ensure!(removed == n && set.is_empty(), "{removed} of {n} removed");
        self.add("remove", took, self.bench.ceilings.cas_64);
        Ok(())
    }
}
