//! Maps over several devices, beside one map on one device: with as many keys on each (weak scaling),
//! and with as many in all (strong scaling). The ceiling is what would be if nothing had to be exchanged.

use std::sync::Mutex;

use anyhow::{Result, ensure};
use gpumap::primitives::{Digit, Primitives};
use gpumap::sharded::{Rank, Ranks, Shard};
use gpumap::{Buffer, Map, Stream};

use super::time;
use crate::data::{BenchKey, BenchValue, sizes, strided};
use crate::measure::{Clock, Time};
use crate::report::{Report, Row};
use crate::verify;

/// Load factor of all maps.
const LOAD: f64 = 0.8;

/// Times of one map.
struct One {
    insert: Time,
    get: Time,
    retrieve: Time,
}

/// Keys and values of one rank, and what is looked up.
struct Batch<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
    asked: Buffer<K>,
    found: Buffer<u8>,
    out: Buffer<V>,
    out_keys: Buffer<K>,
}

/// Measures and verifies maps with `n` pairs on each rank, and in all.
pub fn run(ranks: &Ranks, n: usize, clock: Clock, report: &mut Report) -> Result<()> {
    of_pair::<u64, u64>(ranks, n, clock, report)?;
    of_pair::<u32, u32>(ranks, n, clock, report)
}

fn of_pair<K: BenchKey, V: BenchValue>(
    ranks: &Ranks,
    n: usize,
    clock: Clock,
    report: &mut Report,
) -> Result<()> {
    let pair = sizes::<K, V>();
    let count = ranks.len();
    let one = one::<K, V>(ranks, n, clock)?;
    let row = |verb: &str, took| Row::ceiling(format!("{pair} one map {verb}"), took, n);
    report.add(row("insert", one.insert));
    report.add(row("get", one.get));
    report.add(row("retrieve_all", one.retrieve));
    for bits in [1, 2, 8] {
        let took = partition::<K, V>(ranks, n, clock, bits)?;
        let name = format!("{pair} partition by {bits} bits of the hash");
        report.add(Row::ceiling(name, took, n));
    }
    for (kind, each) in [("weak", n), ("strong", n / count)] {
        let many = many::<K, V>(ranks, each, clock)?;
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

impl<K: BenchKey, V: BenchValue> Batch<K, V> {
    /// The batch of a rank, of `n` pairs each of `ranks`.
    fn new(stream: &Stream, n: usize, rank: usize, ranks: usize) -> gpumap::Result<Self> {
        let total = (n * ranks) as u64;
        let mine = (n * rank) as u64..(n * (rank + 1)) as u64;
        let keys: Vec<K> = mine.clone().map(K::sparse).collect();
        let values: Vec<V> = mine.clone().map(V::dense).collect();
        let asked: Vec<K> = mine.map(|i| K::sparse(strided(i, total))).collect();
        Ok(Self {
            keys: Buffer::from_slice(stream, &keys)?,
            values: Buffer::from_slice(stream, &values)?,
            asked: Buffer::from_slice(stream, &asked)?,
            found: Buffer::zeroed(stream, n)?,
            out: Buffer::zeroed(stream, n)?,
            // Room for more than its share of the pairs.
            out_keys: Buffer::zeroed(stream, n)?,
        })
    }

    /// Every key was found, with the number of its pair for a value.
    fn verify(&self, rank: usize, ranks: usize) -> Result<()> {
        verify::found(&self.found.to_vec()?, true)?;
        let n = self.out.len();
        let (first, total) = ((n * rank) as u64, (n * ranks) as u64);
        let expected = (first..).map(|i| V::dense(strided(i, total)));
        let right = expected
            .zip(self.out.to_vec()?)
            .all(|(right, v)| v == right);
        ensure!(right, "a wrong value");
        Ok(())
    }
}

/// One map on the first device.
fn one<K: BenchKey, V: BenchValue>(ranks: &Ranks, n: usize, clock: Clock) -> Result<One> {
    let stream = Stream::new(&ranks.devices()[0])?;
    let mut of = Batch::<K, V>::new(&stream, n, 0, 1)?;
    let map: Map<K, V> = Map::builder(stream.device())
        .capacity(n)
        .max_load_factor(LOAD)
        .hash_seed(1)
        .build()?;
    let (insert, _) = clock.time_after(|| map.clear(), || map.insert(&of.keys, &of.values))?;
    ensure!(map.len() == n, "one map stored {} of {n}", map.len());
    let (get, ()) = clock.time(|| map.get_into(&of.asked, &mut of.out, &mut of.found))?;
    of.verify(0, 1)?;
    let (retrieve, _) = clock.time(|| map.retrieve_all_into(&mut of.out_keys, &mut of.out))?;
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
    clock: Clock,
    bits: u32,
) -> Result<Time> {
    let stream = Stream::new(&ranks.devices()[0])?;
    let mut of = Batch::<K, V>::new(&stream, n, 0, 1)?;
    let primitives = Primitives::new(stream.device());
    let digit = Digit::of_hash(64 - bits..64, 2);
    let (took, parts) = clock.time(|| {
        let (keys, values) = (&mut of.out_keys, &mut of.out);
        let offsets = primitives.partition_into(&of.keys, &of.values, digit, keys, values)?;
        let parts = offsets.len() - 1;
        ensure!(offsets[parts] == n as u64, "a partition lost pairs");
        Ok(parts)
    })?;
    ensure!(parts == 1 << bits, "{parts} parts");
    Ok(took)
}

/// A rank's part of the map, its batch, and what the last call counted.
type State<K, V> = (Shard<K, V>, Batch<K, V>, usize);

/// A map over all devices.
fn many<K: BenchKey, V: BenchValue>(ranks: &Ranks, n: usize, clock: Clock) -> Result<One> {
    let total = n * ranks.len();
    let nothing = |_: &mut Rank, _: &mut State<K, V>| Ok(());
    let (insert, states) = insert::<K, V>(ranks, n, clock)?;
    let again = handed_on(states, Ok);
    let (get, states) = time(ranks, clock, again, nothing, |rank, (shard, of, _)| {
        shard.get_into(rank, &of.asked, &mut of.out, &mut of.found)
    })?;
    for (rank, (_, of, _)) in states.iter().enumerate() {
        of.verify(rank, ranks.len())?;
    }
    let again = handed_on(states, |(shard, mut of, _): State<K, V>| {
        // Shares differ by chance.
        let stream = of.out.stream().clone();
        of.out_keys = Buffer::zeroed(&stream, shard.local().len())?;
        of.out = Buffer::zeroed(&stream, shard.local().len())?;
        Ok((shard, of, 0))
    });
    let (retrieve, states) = time(ranks, clock, again, nothing, |_, (shard, of, pairs)| {
        let (keys, values) = (&mut of.out_keys, &mut of.out);
        *pairs = shard.local().retrieve_all_into(keys, values)?;
        Ok(())
    })?;
    let pairs: usize = states.iter().map(|(.., pairs)| pairs).sum();
    ensure!(pairs == total, "retrieve_all reported {pairs} of {total}");
    Ok(One {
        insert,
        get,
        retrieve,
    })
}

/// Inserts into an empty map of `n` pairs on each rank; with what the ranks have then.
fn insert<K: BenchKey, V: BenchValue>(
    ranks: &Ranks,
    n: usize,
    clock: Clock,
) -> Result<(Time, Vec<State<K, V>>)> {
    let (count, total) = (ranks.len(), n * ranks.len());
    let state = |rank: &mut Rank| -> gpumap::Result<State<K, V>> {
        let shard = Shard::with(rank, Some(2), |builder, share| {
            let builder = builder.capacity(share(total));
            builder.max_load_factor(LOAD).hash_seed(1)
        })?;
        let stream = Stream::new(rank.device())?;
        Ok((shard, Batch::new(&stream, n, rank.index(), count)?, 0))
    };
    let clear = |rank: &mut Rank, (shard, ..): &mut State<K, V>| shard.clear(rank);
    let (took, states) = time(ranks, clock, state, clear, |rank, (shard, of, new)| {
        *new = shard.insert(rank, &of.keys, &of.values)?;
        Ok(())
    })?;
    for (shard, _, new) in &states {
        ensure!(*new == total, "{new} of {total} were new");
        ensure!(
            shard.local().len() <= n + n / 2 + 1000,
            "pairs are not spread"
        );
    }
    Ok((took, states))
}

/// Gives every rank the state that it left, and changes it before.
fn handed_on<S: Send>(
    states: Vec<S>,
    change: impl Fn(S) -> gpumap::Result<S> + Sync,
) -> impl Fn(&mut Rank) -> gpumap::Result<S> + Sync {
    let states: Vec<_> = states
        .into_iter()
        .map(|state| Mutex::new(Some(state)))
        .collect();
    move |rank| {
        let state = states[rank.index()].lock().unwrap().take();
        change(state.expect("put there just now"))
    }
}
