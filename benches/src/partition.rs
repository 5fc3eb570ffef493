//! Partitions into 256 parts, beside a copy of the same bytes.

use anyhow::{Result, ensure};
use gpumap::Buffer;
use gpumap::primitives::{Digit, Primitives};

use crate::bench::Bench;
use crate::data::{BenchKey, BenchValue, pair_bytes, sizes};
use crate::measure::Time;

const DIGIT: Digit = Digit::of_bits(8..16);

/// Measures and verifies partitions of `n` pairs, and of as many keys alone.
pub fn run<K: BenchKey, V: BenchValue>(bench: &mut Bench) -> Result<()> {
    let n = bench.n;
    // Part sizes are binomial: ten standard deviations above the mean.
    let mean = n as f64 / DIGIT.parts() as f64;
    let capacity = (mean + 10.0 * mean.sqrt()).ceil() as usize;
    let room = capacity * DIGIT.parts();
    let mut suite = Suite::<K, V> {
        primitives: Primitives::new(bench.device()),
        keys: bench.buffer((0..n as u64).map(K::sparse))?,
        values: bench.buffer((0..n as u64).map(V::dense))?,
        out_keys: bench.zeroed(room)?,
        out_values: bench.zeroed(room)?,
        bench,
    };
    suite.exact()?;
    suite.by_hash()?;
    suite.stable()?;
    suite.fixed(capacity)?;
    suite.keys_alone()?;
    suite.equal_keys()
}

/// Pairs, and where their parts go.
struct Suite<'a, 'b, K, V> {
    bench: &'a mut Bench<'b>,
    primitives: Primitives,
    keys: Buffer<K>,
    values: Buffer<V>,
    out_keys: Buffer<K>,
    out_values: Buffer<V>,
}

impl<K: BenchKey, V: BenchValue> Suite<'_, '_, K, V> {
    fn add(&mut self, name: &str, took: Time, pair_bytes: usize) {
        let (sizes, parts, n) = (sizes::<K, V>(), DIGIT.parts(), self.bench.n);
        let name = format!("partition {sizes} {parts} parts, {name}");
        let row = self.bench.beside_copy(name, took, n, 2 * n * pair_bytes);
        self.bench.report.add(row);
    }

    /// Partitions the pairs; with where the parts begin, and where the last one ends.
    fn partition(&mut self, digit: Digit) -> Result<(Time, Vec<u64>)> {
        self.bench.time(|| {
            let (out_keys, out_values) = (&mut self.out_keys, &mut self.out_values);
            let p = &self.primitives;
            p.partition_into(&self.keys, &self.values, digit, out_keys, out_values)
        })
    }

    fn exact(&mut self) -> Result<()> {
        let (took, offsets) = self.partition(DIGIT)?;
        self.verify(&offsets, &offsets[1..], false)?;
        self.add("exact", took, pair_bytes::<K, V>());
        Ok(())
    }

    fn by_hash(&mut self) -> Result<()> {
        let (took, _) = self.partition(Digit::of_hash(56..64, 1))?;
        self.add("exact, of the hash", took, pair_bytes::<K, V>());
        Ok(())
    }

    fn stable(&mut self) -> Result<()> {
        let (took, offsets) = self.bench.time(|| {
            let (out_keys, out_values) = (&mut self.out_keys, &mut self.out_values);
            let p = &self.primitives;
            p.stable_partition_into(&self.keys, &self.values, DIGIT, out_keys, out_values)
        })?;
        self.verify(&offsets, &offsets[1..], true)?;
        self.add("stable", took, pair_bytes::<K, V>());
        Ok(())
    }

    /// Every part begins where the ones before it end if they are full.
    fn fixed(&mut self, capacity: usize) -> Result<()> {
        let (took, counts) = self.bench.time(|| {
            let (keys, values) = (&self.keys, &self.values);
            let (out_keys, out_values) = (&mut self.out_keys, &mut self.out_values);
            let p = &self.primitives;
            p.partition_into_capacity(keys, values, DIGIT, capacity, out_keys, out_values)
        })?;
        ensure!(
            counts.iter().all(|&count| count <= capacity as u64),
            "a part ran over"
        );
        let starts: Vec<u64> = (0..).step_by(capacity).take(counts.len()).collect();
        let part_end = |(start, count)| start + count;
        let ends: Vec<u64> = starts.iter().zip(&counts).map(part_end).collect();
        self.verify(&starts, &ends, false)?;
        self.add("fixed capacity", took, pair_bytes::<K, V>());
        Ok(())
    }

    fn keys_alone(&mut self) -> Result<()> {
        let (keys, out_keys) = (&self.keys, &mut self.out_keys);
        let partition = || {
            self.primitives
                .partition_keys_into(keys, DIGIT, &mut *out_keys)
        };
        let (took, _) = self.bench.time(partition)?;
        self.add("exact, keys alone", took, size_of::<K>());
        Ok(())
    }

    /// Comes last: the other keys go.
    fn equal_keys(&mut self) -> Result<()> {
        self.keys = self.bench.buffer(vec![K::sparse(5); self.bench.n])?;
        let (took, _) = self.partition(DIGIT)?;
        self.add("exact, equal keys", took, pair_bytes::<K, V>());
        Ok(())
    }

    /// Every pair once, in its part; in input order if that is requested.
    fn verify(&self, starts: &[u64], ends: &[u64], in_order: bool) -> Result<()> {
        let (keys, values) = (self.out_keys.to_vec()?, self.out_values.to_vec()?);
        let mut seen = vec![false; self.bench.n];
        for (part, (&start, &end)) in starts.iter().zip(ends).enumerate() {
            let mut last = None;
            for at in start as usize..end as usize {
                let i = values[at].number();
                ensure!(
                    i < seen.len() as u64 && K::sparse(i) == keys[at],
                    "pairs are mixed up"
                );
                ensure!(DIGIT.part(keys[at]) == part, "a key in a wrong part");
                ensure!(!in_order || last < Some(i), "pairs are out of order");
                last = Some(i);
                ensure!(
                    !std::mem::replace(&mut seen[i as usize], true),
                    "a pair came twice"
                );
            }
        }
        ensure!(seen.iter().all(|&seen| seen), "a pair is missing");
        Ok(())
    }
}
