//! Random sequences of all verbs on tiny maps, step by step against a `HashMap`.
//!
//! Each sequence has a seed of its own, which is in the message of a failure. What fits is
//! predicted exactly (see [`Shape`]), so a map may neither refuse too early nor take too much.

use std::collections::HashSet;

use gpumap::{Buffer, Error, Key, Map, Value};
use gpumap_tests::device::noting;
use gpumap_tests::oracle::{self, assert_same, paired};
use gpumap_tests::pairs::{mask, patterns};
use gpumap_tests::{
    Batch, Oracle, Shape, Target, assert_holds, contents, key, key_bits, on_every_format,
    on_every_pair, value, value_bits,
};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

struct Sequence<'t, K: Key, V: Value> {
    on: &'t Target,
    random: SmallRng,
    shape: Shape,
    map: Map<K, V>,
    oracle: Oracle,
    /// The keys that this sequence is about: few, so that they meet again.
    keys: Vec<u64>,
    log: Vec<String>,
}

impl<'t, K: Key, V: Value> Sequence<'t, K, V> {
    fn new(on: &'t Target, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let submaps = *[1, 1, 1, 2, 3, 9].choose(&mut random).unwrap();
        let slots: Vec<usize> = (0..submaps).map(|_| random.random_range(1..40)).collect();
        let page_slabs = 1 << random.random_range(0..5);
        let shape = Shape::new::<K, V>(&slots, page_slabs, random.random());
        let mut builder = shape.builder(on);
        if submaps == 1 && random.random() {
            builder = builder.capacity(random.random_range(0..shape.slots()));
        }
        let map: Map<K, V> = builder.build().unwrap();
        assert_eq!(map.slots(), shape.slots(), "slots of {shape:?}");
        let special = patterns(size_of::<K>());
        let keys = (0..random.random_range(1..2 * shape.slots() + 4))
            .map(|_| match random.random_range(0..3) {
                0 => *special.choose(&mut random).unwrap(),
                1 => random.random_range(0..30),
                _ => random.random::<u64>() & mask(size_of::<K>()),
            })
            .collect();
        let log = vec![format!(
            "{slots:?} slots, pages of {page_slabs}, capacity {}",
            map.capacity()
        )];
        Self {
            on,
            random,
            shape,
            map,
            oracle: Oracle::new(),
            keys,
            log,
        }
    }

    /// Usually a few pairs, sometimes many, some keys more than once.
    fn batch(&mut self) -> Batch<K, V> {
        let n = match self.random.random_range(0..6) {
            0 => 0,
            1 => 1,
            2..=4 => self.random.random_range(1..12),
            _ => self.random.random_range(1..100),
        };
        let special = patterns(size_of::<V>());
        let random = &mut self.random;
        Batch::of((0..n).map(|_| {
            let v = if random.random() {
                random.random()
            } else {
                *special.choose(random).unwrap()
            };
            (*self.keys.choose(random).unwrap(), v)
        }))
    }

    /// Whether the map has room for these beside what it holds.
    fn fits(&self, batch: &Batch<K, V>) -> bool {
        let all: HashSet<u64> = self
            .oracle
            .keys()
            .copied()
            .chain(batch.bits().map(|(k, _)| k))
            .collect();
        self.shape.fits(&all)
    }

    fn store(&mut self, adds: bool) {
        let batch = self.batch();
        self.log.push(format!(
            "{} {:x?}",
            if adds { "add" } else { "insert" },
            batch.bits().collect::<Vec<_>>()
        ));
        // Inputs of the host and of the device in turns.
        let stored = if self.random.random() {
            let keys = Buffer::from_slice(&self.on.stream(), &batch.keys).unwrap();
            let values = Buffer::from_slice(&self.on.stream(), &batch.values).unwrap();
            if adds {
                self.map.add(&keys, &values)
            } else {
                self.map.insert(&keys, &values)
            }
        } else if adds {
            self.map.add(&batch.keys, &batch.values)
        } else {
            self.map.insert(&batch.keys, &batch.values)
        };
        if !self.fits(&batch) {
            match stored {
                Err(Error::Full {
                    len,
                    batch: n,
                    partial: false,
                    ..
                }) => {
                    assert_eq!((len, n), (self.oracle.len(), batch.len()));
                }
                other => panic!("{other:?}, though the batch does not fit"),
            }
            return;
        }
        let stored = stored.expect("the batch fits");
        let new = if adds {
            oracle::add(&mut self.oracle, batch.bits(), size_of::<V>())
        } else {
            oracle::adopt(&mut self.oracle, &self.map, batch.bits())
        };
        assert_eq!(stored, new, "new keys");
    }

    fn look_up(&mut self) {
        let keys = self.batch().keys;
        self.log.push(format!(
            "look up {:x?}",
            keys.iter().map(|&k| key_bits(k)).collect::<Vec<_>>()
        ));
        let expected: Vec<_> = keys
            .iter()
            .map(|&k| self.oracle.get(&key_bits(k)).copied())
            .collect();
        let got: Vec<_> = self
            .map
            .get(&keys)
            .unwrap()
            .into_iter()
            .map(|v| v.map(value_bits))
            .collect();
        assert_eq!(got, expected, "get");
        let there: Vec<_> = expected.iter().map(Option::is_some).collect();
        assert_eq!(self.map.contains(&keys).unwrap(), there, "contains");
        let stream = self.on.stream();
        let mut values = Buffer::<V>::zeroed(&stream, keys.len()).unwrap();
        let mut found = Buffer::<u8>::zeroed(&stream, keys.len()).unwrap();
        self.map.get_into(&keys, &mut values, &mut found).unwrap();
        let pairs = values
            .to_vec()
            .unwrap()
            .into_iter()
            .zip(found.to_vec().unwrap());
        let got: Vec<_> = pairs.map(|(v, f)| (value_bits(v), f)).collect();
        let wanted: Vec<_> = expected
            .iter()
            .map(|v| (v.unwrap_or(0), u8::from(v.is_some())))
            .collect();
        assert_eq!(got, wanted, "get_into");
        let default = self.random.random::<u64>() & mask(size_of::<V>());
        self.map
            .get_or_into(&keys, value(default), &mut values)
            .unwrap();
        let got: Vec<_> = values
            .to_vec()
            .unwrap()
            .into_iter()
            .map(value_bits)
            .collect();
        let wanted: Vec<_> = expected.iter().map(|v| v.unwrap_or(default)).collect();
        assert_eq!(got, wanted, "get_or_into");
    }

    fn retrieve(&mut self) {
        self.log.push("retrieve_all".into());
        assert_same(&contents(&self.map), &self.oracle, "retrieve_all");
        let stream = self.on.stream();
        let room = self.oracle.len() + self.random.random_range(0..3);
        let mut keys = Buffer::<K>::zeroed(&stream, room).unwrap();
        let mut values = Buffer::<V>::zeroed(&stream, room).unwrap();
        let n = self.map.retrieve_all_into(&mut keys, &mut values).unwrap();
        let (keys, values) = (keys.to_vec().unwrap(), values.to_vec().unwrap());
        assert_same(
            &paired(&keys[..n], &values[..n]),
            &self.oracle,
            "retrieve_all_into",
        );
    }

    fn mistake(&mut self) {
        self.log.push("a mistake".into());
        let two = [key::<K>(1), key(2)];
        let one = [value::<V>(1)];
        assert!(matches!(
            self.map.insert(&two, &one),
            Err(Error::LengthMismatch { .. })
        ));
        let mut small = Buffer::<V>::zeroed(&self.on.stream(), 1).unwrap();
        let refused = self.map.get_or_into(&two, value(0), &mut small);
        assert!(matches!(
            refused,
            Err(Error::OutputTooSmall {
                needed: 2,
                given: 1
            })
        ));
    }

    fn step(&mut self) {
        match self.random.random_range(0..40) {
            0..18 => self.store(false),
            18..26 => self.store(true),
            26..34 => self.look_up(),
            34..38 => self.retrieve(),
            38 => {
                self.log.push("clear".into());
                self.map.clear().unwrap();
                self.oracle.clear();
            }
            _ => self.mistake(),
        }
        assert_eq!(self.map.len(), self.oracle.len(), "len");
        assert_eq!(self.map.is_empty(), self.oracle.is_empty(), "is_empty");
    }
}

/// Prints what a sequence did, if it fails.
impl<K: Key, V: Value> Drop for Sequence<'_, K, V> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what the sequence did:\n  {}", self.log.join("\n  "));
        }
    }
}

fn run<K: Key, V: Value>(on: &Target, seeds: std::ops::Range<u64>, steps: usize) {
    for seed in seeds {
        noting(&format!("the sequence of seed {seed}"), || {
            let mut sequence = Sequence::<K, V>::new(on, seed);
            for _ in 0..steps {
                sequence.step();
            }
            assert_holds(&sequence.map, &sequence.oracle);
        });
    }
}

#[test]
fn sequences_of_all_verbs() {
    fn body<K: Key, V: Value>(on: &Target) {
        run::<K, V>(on, 0..on.n(150, 300) as u64, 25);
    }
    on_every_format!(body);
}

#[test]
fn sequences_of_every_kind_of_pair() {
    fn body<K: Key, V: Value>(on: &Target) {
        run::<K, V>(on, 10_000..10_000 + on.n(15, 60) as u64, 25);
    }
    on_every_pair!(body);
}

#[test]
fn long_sequences() {
    fn body<K: Key, V: Value>(on: &Target) {
        run::<K, V>(on, 20_000..20_000 + on.n(3, 20) as u64, 400);
    }
    on_every_format!(body);
}
