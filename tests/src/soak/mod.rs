//! A soak: all verbs at once, from many threads and streams, for as long as there is time, on a map that
//! grows, shrinks and is compacted meanwhile.
//!
//! Each thread has a range of keys that no other touches, and so knows what every verb must answer, and
//! checks it. All threads add to some shared keys; in the end their sums must be right, and the map must
//! hold what the threads know, nothing less and nothing more. `gpumap-soak` runs it for minutes or hours.

pub mod beside;
mod worker;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gpumap::primitives::Element;
use gpumap::{Key, Map, Numeric};

use crate::oracle::difference;
use crate::{Oracle, Target, key_bits, value_bits};
use worker::{SHARED, Worker, shared_key};

/// How long, and how wide.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long the threads work.
    pub time: Duration,
    /// Threads, each with a stream and a range of keys.
    pub streams: usize,
    /// What decides which verbs they call with what. The order in which they meet is the device's.
    pub seed: u64,
    /// Keys in the range of each thread, a power of two.
    pub keys: u64,
    /// Pairs of a batch at most.
    pub batch: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Calls.
    pub operations: u64,
    /// Keys in the batches of all calls.
    pub pairs: u64,
    /// How often the map was seen to have grown.
    pub growths: usize,
    /// Pairs in the end.
    pub len: usize,
    /// The first thing that was wrong.
    pub difference: Option<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            operations,
            pairs,
            growths,
            len,
            ..
        } = self;
        write!(
            f,
            "{operations} operations of {pairs} pairs, {growths} growths, {len} pairs at the end: "
        )?;
        match &self.difference {
            None => f.write_str("0 differences"),
            Some(difference) => write!(f, "a difference: {difference}"),
        }
    }
}

/// What the threads share.
#[derive(Debug)]
struct Common {
    stop: AtomicBool,
    until: Instant,
    capacity: AtomicUsize,
    growths: AtomicUsize,
}

impl Common {
    /// Whether there is time left, and nothing was wrong yet.
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && Instant::now() < self.until
    }

    /// Takes note of a capacity.
    fn see(&self, capacity: usize) {
        if self.capacity.swap(capacity, Ordering::Relaxed) < capacity {
            self.growths.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Soaks a map of these pairs. `meddle` gets it before the last look at it: for a test that something
/// wrong is noticed.
pub fn run<K: Key + Element, V: Numeric + Element>(
    on: &Target,
    options: &Options,
    meddle: impl FnOnce(&Map<K, V>),
) -> Report {
    assert!(
        options.keys.is_power_of_two(),
        "a power of two keys per thread"
    );
    let mut report = Report::default();
    let map = match on.builder::<K, V>().build() {
        Ok(map) => map,
        Err(error) => {
            report.difference = Some(error.to_string());
            return report;
        }
    };
    let common = Common {
        stop: AtomicBool::new(false),
        until: Instant::now() + options.time,
        capacity: AtomicUsize::new(map.capacity()),
        growths: AtomicUsize::new(0),
    };
    let workers: Vec<Worker<'_, K, V>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..options.streams)
            .map(|number| {
                let (map, common) = (&map, &common);
                scope.spawn(move || Worker::new(map, common, options, number).run())
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|worker| worker.expect("a thread")).collect()
    });
    meddle(&map);
    let mut expected = Oracle::new();
    let mut sums = [0u64; SHARED];
    for worker in workers {
        report.operations += worker.operations;
        report.pairs += worker.pairs;
        report.difference = report.difference.or(worker.difference.clone());
        expected.extend(worker.held());
        for (sum, added) in sums.iter_mut().zip(worker.added) {
            *sum = sum.wrapping_add(added);
        }
    }
    report.growths = common.growths.into_inner();
    report.len = map.len();
    let first = options.keys * options.streams as u64;
    let ones = |sum: u64| sum & crate::pairs::mask(size_of::<V>());
    for (i, &sum) in sums.iter().enumerate().filter(|(_, sum)| **sum != 0) {
        expected.insert(key_bits(shared_key::<K>(first, i)), ones(sum));
    }
    let last = last_look(&map, &expected).err();
    report.difference = report.difference.or(last);
    report
}

/// Compares all that a map holds, as every verb that looks shows it.
fn last_look<K: Key, V: Numeric>(map: &Map<K, V>, expected: &Oracle) -> Result<(), String> {
    let (keys, values) = map.retrieve_all().map_err(|error| error.to_string())?;
    let pairs = keys.iter().zip(&values);
    let found: Oracle = pairs.map(|(&k, &v)| (key_bits(k), value_bits(v))).collect();
    if found.len() != keys.len() {
        return Err(format!("{} keys are there twice", keys.len() - found.len()));
    }
    if let Some(difference) = difference(&found, expected) {
        return Err(format!("at the end, {difference}"));
    }
    if map.len() != found.len() {
        return Err(format!("len() is {} of {}", map.len(), found.len()));
    }
    let got = map.get(&keys).map_err(|error| error.to_string())?;
    let same = |(got, &v): (&Option<V>, &V)| got.map(value_bits) == Some(value_bits(v));
    match got.iter().zip(&values).position(|pair| !same(pair)) {
        None => Ok(()),
        Some(i) => Err(format!("at the end, get of key {:#x}", key_bits(keys[i]))),
    }
}
