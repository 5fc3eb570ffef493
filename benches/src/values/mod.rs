//! Large values in cells and in a column by row: each verb alone and from four streams at once, and the memory while a store grows.
//!
//! Cells are an [`Map`](gpumap::Map), whose calls run side by side. A column by row is a [`RowMap`](gpumap::RowMap) with
//! an array of values, and calls that change it take turns ([`rows`]). Both copy values by the same kernels.

mod growth;
mod rows;
mod store;

use std::ops::Range;
use std::thread;

use anyhow::{Error, Result, anyhow, ensure};
use gpumap::bytemuck::Pod;
use gpumap::{Buffer, BufferView, Stream, Value};

use crate::arena::copies::Copies;
use crate::bench::Bench;
use crate::data::{Word, strided};
use crate::measure::Time;
use crate::report::Row;
use store::{Kind, Lane, Pairs, Store};

/// Bytes of all values: far beyond any L2, and several times that fits a GPU.
const GPU_BYTES: usize = 3_200_000_000;
const CPU_BYTES: usize = 1 << 20;

/// Bytes of a slot of the map from keys to cells.
const SLOT: usize = 16;

/// How many streams there are at once.
const STREAMS: usize = 4;

/// Keys of a batch that is not the whole.
const GPU_BATCH: usize = 1 << 16;
const CPU_BATCH: usize = 1 << 9;

/// A value that is measured.
pub(crate) trait Large: Word + Value {}
impl<V: Word + Value> Large for V {}

/// Measures and verifies values of 16, 64 and 256 bytes, at most `n` pairs of each.
pub fn run(bench: &mut Bench) -> Result<()> {
    of_size::<[u64; 2]>(bench)?;
    of_size::<[u64; 8]>(bench)?;
    of_size::<[u64; 32]>(bench)
}

fn of_size<V: Large>(bench: &mut Bench) -> Result<()> {
    let (all, batch) = match bench.device().is_cuda() {
        true => (GPU_BYTES, GPU_BATCH),
        false => (CPU_BYTES, CPU_BATCH),
    };
    let n = bench.n.min(all / size_of::<V>());
    let count = n as u64;
    let copies = Copies::measure::<V>(bench, n)?;
    let inputs = Inputs::<V> {
        keys: bench.buffer((0..count).map(u64::sparse))?,
        asked: bench.buffer((0..count).map(|i| u64::sparse(strided(i, count))))?,
        absent: bench.buffer((count..2 * count).map(u64::sparse))?,
        values: bench.buffer((0..count).map(V::dense))?,
        fresh: bench.buffer((0..count).map(|i| V::dense(strided(i, count) + count)))?,
    };
    let ways = [
        Way::new("alone", 1, n),
        Way::new("by small batches", 1, batch.min(n)),
        Way::new("by small batches from 4 streams", STREAMS, batch.min(n)),
    ];
    for kind in Kind::ALL {
        let store = kind.build(bench.device(), n)?;
        for way in ways {
            let mut verbs = Verbs {
                share: n as f64 / bench.n as f64,
                lanes: way.lanes(bench, n)?,
                bench,
                n,
                way,
                kind,
                store: &store,
                inputs: &inputs,
                copies: &copies,
            };
            verbs.insert()?;
            verbs.get()?;
            verbs.get_absent()?;
            verbs.upsert()?;
        }
    }
    drop(inputs);
    Kind::ALL
        .into_iter()
        .try_for_each(|kind| growth::run::<V>(bench, kind, n))
}

/// What goes in, on the device.
struct Inputs<V: Pod> {
    keys: Buffer<u64>,
    /// The same keys in another order.
    asked: Buffer<u64>,
    absent: Buffer<u64>,
    values: Buffer<V>,
    /// Other values, in the order of `asked`.
    fresh: Buffer<V>,
}

/// How a verb is called.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    /// Threads, each with a stream.
    streams: usize,
    /// Keys of a call.
    batch: usize,
}

impl Way {
    const fn new(name: &'static str, streams: usize, batch: usize) -> Self {
        Self {
            name,
            streams,
            batch,
        }
    }

    /// For each stream its part of `n` keys, and room for the answers.
    fn lanes<V: Large>(self, bench: &Bench, n: usize) -> Result<Vec<Lane<V>>> {
        let part = n.div_ceil(self.streams);
        (0..self.streams)
            .map(|i| (i * part).min(n)..((i + 1) * part).min(n))
            .map(|keys| Lane::new(&Stream::new(bench.device())?, keys, self.batch))
            .collect()
    }
}

/// A store that is measured in one way, and what goes in and comes out.
struct Verbs<'a, 'b, V: Value> {
    bench: &'a mut Bench<'b>,
    n: usize,
    /// Of the accesses whose cost is known, which are more than `n`.
    share: f64,
    way: Way,
    kind: Kind,
    store: &'a Store<V>,
    inputs: &'a Inputs<V>,
    copies: &'a Copies,
    lanes: Vec<Lane<V>>,
}

/// One call of a verb, with the part of the batch that it is of: returns how many keys were new.
type Call<'a, V> = dyn Fn(&Store<V>, &mut Lane<V>, Range<usize>) -> Result<usize> + Sync + 'a;

impl<V: Large> Verbs<'_, '_, V> {
    fn add(&mut self, verb: &str, took: Time, ceiling: f64) {
        let (bytes, kind, way) = (size_of::<V>(), self.kind.name(), self.way.name);
        let name = format!("8+{bytes} {kind} {verb}, {way}");
        self.bench.report.add(Row::op(name, took, self.n, ceiling));
    }

    /// Times a verb, after `prepare`, on all keys. Returns how many were new, of the last run.
    fn time(
        &mut self,
        prepare: impl FnMut() -> Result<()>,
        call: &Call<'_, V>,
    ) -> Result<(Time, usize)> {
        let (store, batch, lanes) = (self.store, self.way.batch, &mut self.lanes);
        let run = || match &mut lanes[..] {
            [lane] => lane.run(store, batch, call),
            lanes => thread::scope(|scope| {
                let threads: Vec<_> = lanes
                    .iter_mut()
                    .map(|lane| scope.spawn(move || lane.run(store, batch, call)))
                    .collect();
                threads.into_iter().try_fold(0, |new, thread| {
                    let of_lane = thread.join().map_err(|_| anyhow!("a thread panicked"))?;
                    Ok::<_, Error>(new + of_lane?)
                })
            }),
        };
        self.bench.time_after(prepare, run)
    }

    fn insert(&mut self) -> Result<()> {
        let (store, inputs, n) = (self.store, self.inputs, self.n);
        let insert = |store: &Store<V>, lane: &mut Lane<V>, part: Range<usize>| {
            store.insert(lane, Pairs::of(&inputs.keys, &inputs.values, part)?)
        };
        let (took, new) = self.time(|| store.clear(), &insert)?;
        ensure!(
            new == n && store.len() == n,
            "insert stored {new} of {n}, {} are there",
            store.len()
        );
        let values = self.bench.ceilings.copy_ms(2 * n * size_of::<V>());
        let slots = self.bench.ceilings.cas(SLOT) * self.share;
        self.add("insert", took, slots + values);
        Ok(())
    }

    fn get(&mut self) -> Result<()> {
        let took = self.look_up(&self.inputs.asked)?;
        self.verify_found(0)?;
        let slots = self.bench.ceilings.gather * self.share;
        self.add("get, hit", took, slots + self.copies.gather);
        Ok(())
    }

    fn get_absent(&mut self) -> Result<()> {
        let took = self.look_up(&self.inputs.absent)?;
        for lane in &self.lanes {
            ensure!(lane.found_none()?, "an absent key was found");
        }
        self.add("get, miss", took, self.bench.ceilings.gather * self.share);
        Ok(())
    }

    fn look_up(&mut self, keys: &Buffer<u64>) -> Result<Time> {
        let get = |store: &Store<V>, lane: &mut Lane<V>, part: Range<usize>| {
            let keys: BufferView<'_, u64> = keys.slice(part.clone())?;
            store.get(lane, &keys, part)?;
            Ok(0)
        };
        Ok(self.time(|| Ok(()), &get)?.0)
    }

    fn upsert(&mut self) -> Result<()> {
        let (inputs, n) = (self.inputs, self.n);
        let upsert = |store: &Store<V>, lane: &mut Lane<V>, part: Range<usize>| {
            store.upsert(lane, Pairs::of(&inputs.asked, &inputs.fresh, part)?)
        };
        let (took, new) = self.time(|| Ok(()), &upsert)?;
        ensure!(
            new == 0 && self.store.len() == n,
            "upsert stored {new} of {n}"
        );
        self.look_up(&inputs.asked)?;
        self.verify_found(n as u64)?;
        let slots = self.bench.ceilings.add_64 * self.share;
        self.add("upsert, all present", took, slots + self.copies.scatter);
        Ok(())
    }

    /// Every key of the last lookup was found, with its value and what was added to that.
    fn verify_found(&self, added: u64) -> Result<()> {
        let expected = |i: usize| V::dense(strided(i as u64, self.n as u64) + added);
        for lane in &self.lanes {
            ensure!(
                lane.found_all(expected)?,
                "a key was lost or has a wrong value"
            );
        }
        Ok(())
    }
}
