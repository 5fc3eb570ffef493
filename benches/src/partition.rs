//! Partitions into 256 parts, beside a copy of the same bytes.

use anyhow::{Result, ensure};
use gpumap::primitives::{Digit, Primitives};
use gpumap::{Buffer, Stream};

use crate::ceilings::Ceilings;
use crate::data::{BenchKey, BenchValue};
use crate::measure::{Time, time};
use crate::report::{Report, Row};

const DIGIT: Digit = Digit::of_bits(8..16);

/// Measures and verifies partitions of `n` pairs, and of as many keys alone.
pub fn run<K: BenchKey, V: BenchValue>(
    stream: &Stream,
    n: usize,
    runs: usize,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    let p = Primitives::new(stream.device());
    let parts = DIGIT.parts();
    // Part sizes are binomial: ten standard deviations above the mean.
    let mean = n as f64 / parts as f64;
    let capacity = (mean + 10.0 * mean.sqrt()).ceil() as usize;
    let room = capacity * parts;
    let keys: Vec<K> = (0..n as u64).map(K::sparse).collect();
    let values: Vec<V> = (0..n as u64).map(V::dense).collect();
    let keys = Buffer::from_slice(stream, &keys)?;
    let values = Buffer::from_slice(stream, &values)?;
    let mut out_keys = Buffer::<K>::zeroed(stream, room)?;
    let mut out_values = Buffer::<V>::zeroed(stream, room)?;
    let pair = format!("{}+{}", size_of::<K>(), size_of::<V>());
    let bytes = 2 * n * (size_of::<K>() + size_of::<V>());
    let mut add = |name: &str, took: Time, bytes: usize| {
        let ceiling = bytes as f64 / ceilings.copy * 1e3;
        let name = format!("partition {pair} {parts} parts, {name}");
        report.add(Row::op(name, took, n, ceiling).moving(bytes as f64));
    };

    let mut offsets = Vec::new();
    let exact = time(
        runs,
        || Ok(()),
        || {
            offsets = p.partition_into(&keys, &values, DIGIT, &mut out_keys, &mut out_values)?;
            Ok(())
        },
    )?;
    let ends = offsets[1..].to_vec();
    verify(n, &offsets, &ends, &out_keys, &out_values, false)?;
    add("exact", exact, bytes);

    let hashed = Digit::of_hash(56..64, 1);
    let by_hash = time(
        runs,
        || Ok(()),
        || {
            p.partition_into(&keys, &values, hashed, &mut out_keys, &mut out_values)?;
            Ok(())
        },
    )?;
    add("exact, of the hash", by_hash, bytes);

    let stable = time(
        runs,
        || Ok(()),
        || {
            offsets =
                p.stable_partition_into(&keys, &values, DIGIT, &mut out_keys, &mut out_values)?;
            Ok(())
        },
    )?;
    let ends = offsets[1..].to_vec();
    verify(n, &offsets, &ends, &out_keys, &out_values, true)?;
    add("stable", stable, bytes);

    let mut counts = Vec::new();
    let fixed = time(
        runs,
        || Ok(()),
        || {
            counts = p.partition_into_capacity(
                &keys,
                &values,
                DIGIT,
                capacity,
                &mut out_keys,
                &mut out_values,
            )?;
            Ok(())
        },
    )?;
    let starts: Vec<u64> = (0..parts).map(|part| (part * capacity) as u64).collect();
    let ends: Vec<u64> = starts
        .iter()
        .zip(&counts)
        .map(|(start, count)| start + count)
        .collect();
    ensure!(
        counts.iter().all(|&c| c <= capacity as u64),
        "a part ran over"
    );
    verify(n, &starts, &ends, &out_keys, &out_values, false)?;
    add("fixed capacity", fixed, bytes);

    let alone = time(
        runs,
        || Ok(()),
        || {
            p.partition_keys_into(&keys, DIGIT, &mut out_keys)?;
            Ok(())
        },
    )?;
    add("exact, keys alone", alone, 2 * n * size_of::<K>());

    let equal = Buffer::from_slice(stream, &vec![K::sparse(5); n])?;
    let skewed = time(
        runs,
        || Ok(()),
        || {
            p.partition_into(&equal, &values, DIGIT, &mut out_keys, &mut out_values)?;
            Ok(())
        },
    )?;
    add("exact, equal keys", skewed, bytes);
    Ok(())
}

/// Every pair once, in its part; in input order if that is asked for.
fn verify<K: BenchKey, V: BenchValue>(
    n: usize,
    starts: &[u64],
    ends: &[u64],
    keys: &Buffer<K>,
    values: &Buffer<V>,
    in_order: bool,
) -> Result<()> {
    let (keys, values) = (keys.to_vec()?, values.to_vec()?);
    let mut seen = vec![false; n];
    for (part, (&start, &end)) in starts.iter().zip(ends).enumerate() {
        let mut last = None;
        for at in start as usize..end as usize {
            let i = values[at].number();
            ensure!(
                i < n as u64 && K::sparse(i) == keys[at],
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
