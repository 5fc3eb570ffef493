//! Random sequences of the verbs of a `ShardedMap` against a `HashMap`, on every group. One that fails is made
//! as short as can be, and printed.

use std::collections::HashSet;

use gpumap::{Key, Merge, Numeric, ShardedMap};
use gpumap_tests::group::Group;
use gpumap_tests::oracle::{self, Oracle, assert_same, paired};
use gpumap_tests::pairs::{mask, patterns};
use gpumap_tests::{Batch, key, key_bits, value, value_bits};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::{map, on_groups};

/// Numbers of keys, and the bits of their values.
type Pairs = Vec<(u16, u64)>;

/// One step.
#[derive(Clone, Debug)]
enum Op {
    Insert(Pairs),
    Upsert(Pairs),
    Merge(Pairs, Merge),
    Assign(Pairs),
    /// `update_with`.
    MergePresent(Pairs, Merge),
    Remove(Pairs),
    /// `get`, `contains`, and both into vectors with so many places to spare.
    LookUp(Pairs, usize),
    /// `retrieve_all`, and into vectors.
    Retrieve(usize),
    /// `get_or_insert`.
    GetOrInsert(Pairs),
    /// `take`.
    Take(Pairs),
    RetainKeys(Pairs),
    Clear,
    Drain,
    Reserve(usize),
    /// `shrink_to_fit`, and `trim`.
    Shrink,
}

fn op() -> impl Strategy<Value = Op> {
    let pairs = || {
        let pair = || (any::<u16>(), any::<u64>());
        prop_oneof![
            2 => vec(pair(), 0..12),
            2 => vec(pair(), 0..200),
        ]
    };
    let how = || {
        prop_oneof![
            Just(Merge::Add),
            Just(Merge::Min),
            Just(Merge::Max),
            Just(Merge::And),
            Just(Merge::Xor),
        ]
    };
    prop_oneof![
        6 => pairs().prop_map(Op::Insert),
        4 => pairs().prop_map(Op::Upsert),
        4 => (pairs(), how()).prop_map(|(pairs, how)| Op::Merge(pairs, how)),
        3 => pairs().prop_map(Op::Assign),
        3 => (pairs(), how()).prop_map(|(pairs, how)| Op::MergePresent(pairs, how)),
        5 => pairs().prop_map(Op::Remove),
        6 => (pairs(), 0..3usize).prop_map(|(keys, spare)| Op::LookUp(keys, spare)),
        2 => (0..3usize).prop_map(Op::Retrieve),
        2 => pairs().prop_map(Op::GetOrInsert),
        2 => pairs().prop_map(Op::Take),
        1 => pairs().prop_map(Op::RetainKeys),
        1 => Just(Op::Shrink),
        1 => Just(Op::Clear),
        1 => Just(Op::Drain),
        1 => (0..300usize).prop_map(Op::Reserve),
    ]
}

/// A map, and what it must hold.
struct Sequence<K: Key, V: Numeric> {
    map: ShardedMap<K, V>,
    oracle: Oracle,
    /// The keys that it is about: few, so that they meet again.
    keys: Vec<u64>,
}

impl<K: Key, V: Numeric> Sequence<K, V> {
    fn new(on: &Group) -> Self {
        let scattered = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask(size_of::<K>());
        let all: HashSet<u64> = patterns(size_of::<K>())
            .into_iter()
            .chain((0..250).map(scattered))
            .collect();
        let mut keys: Vec<u64> = all.into_iter().collect();
        keys.sort_unstable();
        Self {
            map: map(on),
            oracle: Oracle::new(),
            keys,
        }
    }

    fn key(&self, number: u16) -> u64 {
        self.keys[usize::from(number) % self.keys.len()]
    }

    /// Each key once: which of several pairs is taken is the map's choice.
    fn batch(&self, pairs: &Pairs) -> Batch<K, V> {
        let bits = |&(number, v): &(u16, u64)| (self.key(number), v & mask(size_of::<V>()));
        Batch::of(pairs.iter().map(bits).collect::<Oracle>())
    }

    /// Each key two times.
    fn twice(&self, pairs: &Pairs) -> Batch<K, V> {
        let once = self.batch(pairs);
        Batch {
            keys: once.keys.repeat(2),
            values: once.values.repeat(2),
        }
    }

    /// The pairs of a batch whose keys are present.
    fn present(&self, batch: &Batch<K, V>) -> Vec<(u64, u64)> {
        let there = |(k, _): &(u64, u64)| self.oracle.contains_key(k);
        batch.bits().filter(there).collect()
    }

    /// They may come several times.
    fn keys(&self, pairs: &Pairs) -> Vec<K> {
        pairs.iter().map(|&(i, _)| key(self.key(i))).collect()
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Insert(pairs) => {
                let batch = self.batch(pairs);
                let new = self.map.insert(&batch.keys, &batch.values).unwrap();
                assert_eq!(new, oracle::insert(&mut self.oracle, batch.bits()));
            }
            Op::Upsert(pairs) => {
                let batch = self.batch(pairs);
                let new = self.map.upsert(&batch.keys, &batch.values).unwrap();
                let before = self.oracle.len();
                self.oracle.extend(batch.bits());
                assert_eq!(new, self.oracle.len() - before);
            }
            Op::Merge(pairs, how) => {
                let twice = self.twice(pairs);
                let new = self.map.merge(&twice.keys, &twice.values, *how).unwrap();
                let right = oracle::merge::<V>(&mut self.oracle, twice.bits(), *how);
                assert_eq!(new, right);
            }
            Op::Assign(pairs) => {
                let batch = self.batch(pairs);
                let assigned = self.map.update(&batch.keys, &batch.values).unwrap();
                let present = self.present(&batch);
                assert_eq!(assigned, present.len());
                self.oracle.extend(present);
            }
            Op::MergePresent(pairs, how) => {
                let twice = self.twice(pairs);
                let merged = self.map.update_with(&twice.keys, &twice.values, *how);
                let present = self.present(&twice);
                assert_eq!(merged.unwrap(), present.len());
                assert_eq!(oracle::merge::<V>(&mut self.oracle, present, *how), 0);
            }
            Op::Remove(pairs) => {
                let keys = self.keys(pairs);
                let removed = self.map.remove(&keys).unwrap();
                let had = keys.iter().map(|&k| self.oracle.remove(&key_bits(k)));
                let right = had.flatten().count();
                assert_eq!(removed, right);
            }
            Op::LookUp(pairs, spare) => self.look_up(&self.keys(pairs), *spare),
            Op::Retrieve(spare) => self.retrieve(*spare),
            Op::GetOrInsert(pairs) => {
                let batch = self.batch(pairs);
                let held = self.map.get_or_insert(&batch.keys, &batch.values).unwrap();
                oracle::insert(&mut self.oracle, batch.bits());
                let right = batch.keys.iter().map(|&k| self.oracle[&key_bits(k)]);
                assert!(held.into_iter().map(value_bits).eq(right), "get_or_insert");
            }
            Op::Take(pairs) => {
                let keys = self.batch(pairs).keys;
                let taken = self.map.take(&keys).unwrap().into_iter();
                let right = keys.iter().map(|&k| self.oracle.remove(&key_bits(k)));
                assert!(taken.map(|v| v.map(value_bits)).eq(right), "take");
            }
            Op::RetainKeys(pairs) => {
                let keys = self.keys(pairs);
                let before = self.oracle.len();
                let named: HashSet<u64> = keys.iter().map(|&k| key_bits(k)).collect();
                self.oracle.retain(|k, _| named.contains(k));
                let removed = self.map.retain_keys(&keys).unwrap();
                assert_eq!(removed, before - self.oracle.len());
            }
            Op::Shrink => {
                let before = self.map.capacity();
                self.map.shrink_to_fit().unwrap();
                self.map.trim();
                let capacity = self.map.capacity();
                assert!((self.oracle.len()..=before).contains(&capacity));
            }
            Op::Clear => {
                self.map.clear().unwrap();
                self.oracle.clear();
            }
            Op::Drain => {
                let (keys, values) = self.map.drain().unwrap();
                assert_same(&paired(&keys, &values), &self.oracle, "drain");
                self.oracle.clear();
            }
            Op::Reserve(more) => {
                self.map.reserve(*more).unwrap();
                assert!(self.map.capacity() >= self.oracle.len() + more);
            }
        }
        assert_eq!(self.map.len(), self.oracle.len(), "len after {op:?}");
    }

    fn look_up(&self, keys: &[K], spare: usize) {
        let right: Vec<_> = keys
            .iter()
            .map(|&k| self.oracle.get(&key_bits(k)).copied())
            .collect();
        let got = self.map.get(keys).unwrap().into_iter();
        assert!(got.map(|v| v.map(value_bits)).eq(right.iter().copied()));
        let there = self.map.contains(keys).unwrap();
        assert!(there.into_iter().eq(right.iter().map(Option::is_some)));

        let default = value::<V>(!6);
        let or: Vec<u64> = right
            .iter()
            .map(|v| v.unwrap_or(value_bits(default)))
            .collect();
        let got = self.map.get_or(keys, default).unwrap().into_iter();
        assert!(got.map(value_bits).eq(or.iter().copied()), "get_or");

        let n = keys.len();
        let mut values = vec![value::<V>(!5); n];
        self.map.get_or_into(keys, default, &mut values).unwrap();
        assert!(values.into_iter().map(value_bits).eq(or), "get_or_into");
        let (mut values, mut found) = (vec![value::<V>(!5); n + spare], vec![9u8; n + spare]);
        self.map.get_into(keys, &mut values, &mut found).unwrap();
        let bits = values.iter().map(|&v| value_bits(v));
        let beside = vec![value_bits(value::<V>(!5)); spare];
        let expected = right.iter().map(|v| v.unwrap_or(0)).chain(beside);
        assert!(bits.eq(expected), "get_into");
        let is_found: Vec<u8> = right.iter().map(|v| u8::from(v.is_some())).collect();
        assert_eq!(
            (&found[..n], &found[n..]),
            (&is_found[..], &[9; 3][..spare])
        );
        found.fill(7);
        self.map.contains_into(keys, &mut found).unwrap();
        assert_eq!(
            (&found[..n], &found[n..]),
            (&is_found[..], &[7; 3][..spare])
        );
    }

    fn retrieve(&self, spare: usize) {
        let (keys, values) = self.map.retrieve_all().unwrap();
        assert_same(&paired(&keys, &values), &self.oracle, "retrieve_all");
        let room = self.oracle.len() + spare;
        let (mut keys, mut values) = (vec![K::zeroed(); room], vec![V::zeroed(); room]);
        let n = self.map.retrieve_all_into(&mut keys, &mut values).unwrap();
        let found = paired(&keys[..n], &values[..n]);
        assert_same(&found, &self.oracle, "retrieve_all_into");
    }
}

#[test]
fn sequences_of_every_verb() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let config = Config {
            cases: (on.n(4, 40) / on.stride(2)) as u32,
            failure_persistence: None,
            max_shrink_iters: 500,
            ..Config::default()
        };
        // The same sequences on every run.
        let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(config, random);
        let outcome = runner.run(&vec(op(), 1..25), |ops| {
            let mut sequence = Sequence::<K, V>::new(on);
            ops.iter().for_each(|op| sequence.step(op));
            super::assert_holds(&sequence.map, &sequence.oracle);
            Ok::<_, TestCaseError>(())
        });
        if let Err(error) = outcome {
            panic!("a sequence fails: {error}");
        }
    }
    on_groups!(body: u64 => u64, u32 => u32, u32 => i64);
}
