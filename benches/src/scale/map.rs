//! Maps over several devices, beside one map on one device: with as many keys on each (weak scaling),
//! and with as many in all (strong scaling). The ceiling is what would be if nothing had to be exchanged.

use anyhow::{Result, ensure};
use gpumap::primitives::{Digit, Primitives};
use gpumap::sharded::{Rank, Ranks, Shard};
use gpumap::{Buffer, Map, Stream};

use super::time;
use crate::data::{BenchKey, BenchValue, strided};
use crate::measure::{self, Time};
use crate::report::{Report, Row};

/// Load factor of all maps.
const LOAD: f64 = 0.8;

/// Times of one map.
struct One {
    insert: Time,
    get: Time,
    retrieve: Time,
}

/// Keys and values of one rank, and what is asked.
struct Batch<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
    asked: Buffer<K>,
    found: Buffer<u8>,
    out: Buffer<V>,
    out_keys: Buffer<K>,
}

/// Measures and verifies maps with `n` pairs on each rank, and in all.
pub fn run(ranks: &Ranks, n: usize, runs: usize, report: &mut Report) -> Result<()> {
    of_pair::<u64, u64>(ranks, n, runs, report)?;
    of_pair::<u32, u32>(ranks, n, runs, report)
}

fn of_pair<K: BenchKey, V: BenchValue>(
    ranks: &Ranks,
    n: usize,
    runs: usize,
    report: &mut Report,
) -> Result<()> {
    let pair = format!("{}+{}", size_of::<K>(), size_of::<V>());
    let count = ranks.len();
    let one = one::<K, V>(ranks, n, runs)?;
    let row = |verb: &str, took| Row::ceiling(&format!("{pair} one map {verb}"), took, n);
    report.add(row("insert", one.insert));
    report.add(row("get", one.get));
    report.add(row("retrieve_all", one.retrieve));
    for bits in [1, 2, 8] {
        let row = |took| {
            Row::ceiling(
                &format!("{pair} partition by {bits} bits of the hash"),
                took,
                n,
            )
        };
        report.add(row(partition::<K, V>(ranks, n, runs, bits)?));
    }
    for (kind, each) in [("weak", n), ("strong", n / count)] {
        let many = many::<K, V>(ranks, each, runs)?;
        let name = |verb: &str| format!("{pair} {count} ranks {kind} {verb}");
        let share = each as f64 / n as f64;
        let total = each * count;
        let row = |verb, took, one: Time| Row::op(name(verb), took, total, one.median * share);
        report.add(row("insert", many.insert, one.insert));
        report.add(row("get", many.get, one.get));
        report.add(row("retrieve_all", many.retrieve, one.retrieve));
    }
    Ok(())
}

/// The batch of a rank, of `n` pairs each of `ranks`.
fn batch<K: BenchKey, V: BenchValue>(
    stream: &Stream,
    n: usize,
    rank: usize,
    ranks: usize,
) -> gpumap::Result<Batch<K, V>> {
    let total = (n * ranks) as u64;
    let mine = (n * rank) as u64..(n * (rank + 1)) as u64;
    let keys: Vec<K> = mine.clone().map(K::sparse).collect();
    let values: Vec<V> = mine.clone().map(V::dense).collect();
    let asked: Vec<K> = mine.map(|i| K::sparse(strided(i, total))).collect();
    Ok(Batch {
        keys: Buffer::from_slice(stream, &keys)?,
        values: Buffer::from_slice(stream, &values)?,
        asked: Buffer::from_slice(stream, &asked)?,
        found: Buffer::zeroed(stream, n)?,
        out: Buffer::zeroed(stream, n)?,
        // Room for more than its share of the pairs.
        out_keys: Buffer::zeroed(stream, n)?,
    })
}

/// One map on the first device.
fn one<K: BenchKey, V: BenchValue>(ranks: &Ranks, n: usize, runs: usize) -> Result<One> {
    let stream = Stream::new(&ranks.devices()[0])?;
    let mut of = batch::<K, V>(&stream, n, 0, 1)?;
    let map: Map<K, V> = Map::builder(stream.device())
        .capacity(n)
        .max_load_factor(LOAD)
        .hash_seed(1)
        .build()?;
    let insert = measure::time(
        runs,
        || Ok(map.clear()?),
        || Ok(map.insert(&of.keys, &of.values).map(drop)?),
    )?;
    ensure!(map.len() == n, "one map stored {} of {n}", map.len());
    let get = measure::time(
        runs,
        || Ok(()),
        || Ok(map.get_into(&of.asked, &mut of.out, &mut of.found)?),
    )?;
    verify(&of, n, 0, 1)?;
    let retrieve = measure::time(
        runs,
        || Ok(()),
        || {
            Ok(map
                .retrieve_all_into(&mut of.out_keys, &mut of.out)
                .map(drop)?)
        },
    )?;
    Ok(One {
        insert,
        get,
        retrieve,
    })
}

/// What a batch is partitioned with before it is sent, on the first device: by so many bits.
fn partition<K: BenchKey, V: BenchValue>(
    ranks: &Ranks,
    n: usize,
    runs: usize,
    bits: u32,
) -> Result<Time> {
    let stream = Stream::new(&ranks.devices()[0])?;
    let mut of = batch::<K, V>(&stream, n, 0, 1)?;
    let primitives = Primitives::new(stream.device());
    let digit = Digit::of_hash(64 - bits..64, 2);
    let mut parts = 0;
    let took = measure::time(
        runs,
        || Ok(()),
        || {
            let (keys, values) = (&mut of.out_keys, &mut of.out);
            let offsets = primitives.partition_into(&of.keys, &of.values, digit, keys, values)?;
            parts = offsets.len() - 1;
            ensure!(offsets[parts] == n as u64, "a partition lost pairs");
            Ok(())
        },
    )?;
    ensure!(parts == 1 << bits, "{parts} parts");
    Ok(took)
}

/// A map over all devices.
fn many<K: BenchKey, V: BenchValue>(ranks: &Ranks, n: usize, runs: usize) -> Result<One> {
    let count = ranks.len();
    type State<K, V> = (Shard<K, V>, Batch<K, V>, usize);
    let state = |rank: &mut Rank| -> gpumap::Result<State<K, V>> {
        let shard = Shard::with(rank, Some(2), |builder, share| {
            let builder = builder.capacity(share(n * count));
            builder.max_load_factor(LOAD).hash_seed(1)
        })?;
        let stream = Stream::new(rank.device())?;
        Ok((shard, batch(&stream, n, rank.index(), count)?, 0))
    };
    let insert_one = |rank: &mut Rank, (shard, of, new): &mut State<K, V>| {
        *new = shard.insert(rank, &of.keys, &of.values)?;
        Ok(())
    };
    let clear = |rank: &mut Rank, (shard, ..): &mut State<K, V>| shard.clear(rank);
    let (insert, states) = time(ranks, runs, state, clear, insert_one)?;
    for (shard, _, new) in &states {
        ensure!(*new == n * count, "{new} of {} were new", n * count);
        ensure!(
            shard.local().len() <= n + n / 2 + 1000,
            "pairs are not spread"
        );
    }
    let states: Vec<_> = states
        .into_iter()
        .map(|s| std::sync::Mutex::new(Some(s)))
        .collect();
    let again = |rank: &mut Rank| -> gpumap::Result<State<K, V>> {
        let state = states[rank.index()].lock().unwrap().take();
        Ok(state.expect("put there just now"))
    };
    let nothing = |_: &mut Rank, _: &mut State<K, V>| Ok(());
    let (get, states) = time(ranks, runs, again, nothing, |rank, (shard, of, _)| {
        shard.get_into(rank, &of.asked, &mut of.out, &mut of.found)
    })?;
    for (rank, (_, of, _)) in states.iter().enumerate() {
        verify(of, n, rank, count)?;
    }
    let states: Vec<_> = states
        .into_iter()
        .map(|s| std::sync::Mutex::new(Some(s)))
        .collect();
    let again = |rank: &mut Rank| -> gpumap::Result<State<K, V>> {
        let state = states[rank.index()].lock().unwrap().take();
        let (shard, mut of, _) = state.expect("put there just now");
        // Shares differ by chance.
        let stream = of.out.stream().clone();
        of.out_keys = Buffer::zeroed(&stream, shard.local().len())?;
        of.out = Buffer::zeroed(&stream, shard.local().len())?;
        Ok((shard, of, 0))
    };
    let (retrieve, states) = time(ranks, runs, again, nothing, |_, (shard, of, pairs)| {
        *pairs = shard
            .local()
            .retrieve_all_into(&mut of.out_keys, &mut of.out)?;
        Ok(())
    })?;
    let pairs: usize = states.iter().map(|(.., pairs)| pairs).sum();
    ensure!(
        pairs == n * count,
        "retrieve_all reported {pairs} of {}",
        n * count
    );
    Ok(One {
        insert,
        get,
        retrieve,
    })
}

/// Every key was found, with the number of its pair for a value.
fn verify<K: BenchKey, V: BenchValue>(
    of: &Batch<K, V>,
    n: usize,
    rank: usize,
    ranks: usize,
) -> Result<()> {
    ensure!(
        of.found.to_vec()?.iter().all(|&found| found == 1),
        "get missed a key"
    );
    let (out, total) = (of.out.to_vec()?, (n * ranks) as u64);
    let first = (n * rank) as u64;
    let right = (first..)
        .zip(&out)
        .all(|(i, &v)| v == V::dense(strided(i, total)));
    ensure!(right, "a wrong value");
    Ok(())
}
