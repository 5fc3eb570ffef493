//! Sequences of all verbs on tiny maps, step by step against a `HashMap`.

mod apply;
mod assign;
mod part;
pub mod plan;

use std::collections::{HashMap, HashSet};

use gpumap::primitives::{Element, Predicate};
use gpumap::{Buffer, Error, Growth, Key, Map, Merge, Number, Numeric, Outcome, Result};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::oracle::{self, assert_same, is_nan, paired};
use crate::pairs::{mask, nth_key, patterns};
use crate::{
    Batch, Oracle, Shape, Target, assert_holds, contents, key, key_bits, value, value_bits,
};
use part::Part;
use plan::{Growing, Op, Pairs, Setup};

/// `retain` with keys and values up to these bits, on a map and its oracle.
type Retain<K, V> = fn(&Map<K, V>, &mut Oracle, u64, u64);

/// Runs `cases` random sequences of up to `steps` verbs. One that fails is made as short as can
/// be, and printed.
///
/// # Panics
/// If one fails.
pub fn run<K: Key, V: Numeric>(
    on: &Target,
    cases: usize,
    steps: usize,
    retain: Option<Retain<K, V>>,
) {
    let config = Config {
        cases: cases as u32,
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..Config::default()
    };
    // The same sequences on every run.
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let outcome = runner.run(&plan::plan(steps), |(setup, ops)| {
        let mut sequence = Sequence::<K, V>::new(on, &setup, retain);
        for op in &ops {
            sequence.step(op);
        }
        assert_holds(&sequence.map, &sequence.oracle);
        Ok::<_, TestCaseError>(())
    });
    if let Err(error) = outcome {
        panic!("a sequence fails: {error}");
    }
}

/// For [`run`], where predicates can be made.
pub fn retain<K: Key + Element, V: Numeric + Element>(
    map: &Map<K, V>,
    oracle: &mut Oracle,
    keys: u64,
    values: u64,
) {
    let keys = Predicate::LessOrEqual(key::<K>(keys));
    let values = Predicate::LessOrEqual(value::<V>(values));
    let before = oracle.len();
    oracle.retain(|&k, v| keys.holds(key(k)) && values.holds(value(*v)));
    assert_eq!(
        map.retain_where(keys, values).unwrap(),
        before - oracle.len()
    );
    assert_same(&contents(map), oracle, "retain");
}

/// For [`run`], of sets.
pub fn retain_in_set<K: Key + Element>(map: &Map<K, ()>, oracle: &mut Oracle, keys: u64, _: u64) {
    let keys = Predicate::LessOrEqual(key::<K>(keys));
    let before = oracle.len();
    oracle.retain(|&k, _| keys.holds(key(k)));
    assert_eq!(map.retain_where(keys).unwrap(), before - oracle.len());
    assert_same(&contents(map), oracle, "retain");
}

struct Sequence<'t, K: Key, V: Numeric> {
    on: &'t Target,
    map: Map<K, V>,
    oracle: Oracle,
    keys: Vec<u64>,
    grows: bool,
    /// Where it is known exactly what fits.
    shape: Option<Shape>,
    only_stores: bool,
    retain: Option<Retain<K, V>>,
}

impl<'t, K: Key, V: Numeric> Sequence<'t, K, V> {
    fn new(on: &'t Target, setup: &Setup, retain: Option<Retain<K, V>>) -> Self {
        let mut shape = None;
        let builder = if let Some(slots) = &setup.slots {
            let exact = Shape::new::<K, V>(slots, setup.page_slabs, setup.seed);
            // The planned capacity decides whether a batch runs beside others or alone.
            let planned = if slots.len() == 1 {
                setup.capacity % exact.slots()
            } else {
                0
            };
            let builder = exact.builder(on).capacity(planned);
            shape = Some(exact);
            builder
        } else {
            let growth = match setup.growing {
                Growing::By(factor) => Growth::By(factor),
                Growing::Fixed => Growth::Fixed,
            };
            on.builder()
                .growth(growth)
                .capacity(setup.capacity)
                .submaps(setup.submaps)
                .page_slabs(setup.page_slabs)
                .hash_seed(setup.seed)
        };
        let map: Map<K, V> = builder.build().unwrap();
        if let Some(shape) = &shape {
            assert_eq!(map.slots(), shape.slots(), "slots of {shape:?}");
        }
        let special = patterns(size_of::<K>());
        let all = special
            .into_iter()
            .enumerate()
            .flat_map(|(i, special)| [special, i as u64, key_bits(nth_key::<K>(i as u64 + 9))])
            .chain((100..).map(|i| key_bits(nth_key::<K>(i))));
        Self {
            on,
            map,
            oracle: Oracle::new(),
            keys: all.take(setup.keys).collect(),
            grows: setup.slots.is_none() && matches!(setup.growing, Growing::By(_)),
            shape,
            only_stores: setup.only_stores,
            retain,
        }
    }

    fn batch(&self, pairs: &Pairs) -> Batch<K, V> {
        let key_of = |number: u16| self.keys[usize::from(number) % self.keys.len()];
        let ones = mask(size_of::<V>());
        Batch::of(pairs.iter().map(|&(number, v)| (key_of(number), v & ones)))
    }

    fn keys(&self, numbers: &[u16]) -> Vec<K> {
        let key_of = |&number: &u16| key(self.keys[usize::from(number) % self.keys.len()]);
        numbers.iter().map(key_of).collect()
    }

    /// Whether a batch must be taken, and whether it may be.
    fn fits(&self, batch: &Batch<K, V>) -> (bool, bool) {
        let new = batch.bits().map(|(k, _)| k);
        let all: HashSet<u64> = self.oracle.keys().copied().chain(new).collect();
        if let Some(shape) = &self.shape {
            let fits = shape.fits(&all);
            return (fits, fits);
        }
        let must = self.grows || all.len() <= self.map.capacity() || all.len() == self.oracle.len();
        // A few more may be stored apart.
        (must, self.grows || all.len() <= self.map.slots() + 3)
    }

    /// Whether a batch was taken; a panic if it was refused, or not, without reason.
    fn taken<T>(&self, batch: &Batch<K, V>, stored: Result<T>) -> Option<T> {
        let (must, may) = self.fits(batch);
        match stored {
            Ok(stored) => {
                assert!(may, "stored, though the batch does not fit");
                Some(stored)
            }
            Err(Error::Full {
                len,
                batch: n,
                partial: false,
                ..
            }) => {
                assert!(!must, "refused, though the batch fits");
                assert_eq!((len, n), (self.oracle.len(), batch.len()));
                None
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    /// What outcomes say, checked: the pairs that were stored.
    fn told(&self, batch: &Batch<K, V>, outcomes: &[Outcome]) -> HashMap<u64, u64> {
        assert_eq!(outcomes.len(), batch.len());
        let told = batch.bits().zip(outcomes);
        let stored = told.filter(|(_, outcome)| **outcome == Outcome::Inserted);
        let mut pairs = HashMap::new();
        for ((k, v), _) in stored {
            assert!(!self.oracle.contains_key(&k), "{k:#x} was present");
            assert!(pairs.insert(k, v).is_none(), "{k:#x} is told twice");
        }
        pairs
    }

    fn store(&mut self, op: &Op) {
        match op {
            Op::Insert(pairs, from_device) => {
                let batch = self.batch(pairs);
                let stored = if *from_device {
                    let keys = Buffer::from_slice(&self.on.stream(), &batch.keys).unwrap();
                    let values = Buffer::from_slice(&self.on.stream(), &batch.values).unwrap();
                    self.map.insert(&keys, &values)
                } else {
                    self.map.insert(&batch.keys, &batch.values)
                };
                if let Some(stored) = self.taken(&batch, stored) {
                    let new = oracle::adopt(&mut self.oracle, &self.map, batch.bits());
                    assert_eq!(stored, new, "new keys");
                }
            }
            Op::InsertTold(pairs) => {
                let batch = self.batch(pairs);
                let outcomes = self.map.insert_with_outcome(&batch.keys, &batch.values);
                if let Some(outcomes) = self.taken(&batch, outcomes) {
                    let stored = self.told(&batch, &outcomes);
                    let new = oracle::adopt(&mut self.oracle, &self.map, batch.bits());
                    assert_eq!(stored.len(), new, "new keys");
                    assert!(stored.iter().all(|(k, v)| self.oracle[k] == *v));
                }
            }
            Op::Upsert(pairs) => {
                let batch = self.batch(pairs);
                let stored = self.map.upsert(&batch.keys, &batch.values);
                if let Some(stored) = self.taken(&batch, stored) {
                    let new = oracle::adopt_upserted(&mut self.oracle, &self.map, batch.bits());
                    assert_eq!(stored, new, "new keys");
                }
            }
            Op::UpsertTold(pairs) => {
                let batch = self.batch(pairs);
                let outcomes = self.map.upsert_with_outcome(&batch.keys, &batch.values);
                if let Some(outcomes) = self.taken(&batch, outcomes) {
                    let stored = self.told(&batch, &outcomes);
                    let new = oracle::adopt_upserted(&mut self.oracle, &self.map, batch.bits());
                    assert_eq!(stored.len(), new, "new keys");
                }
            }
            Op::Merge(pairs, how) => self.merge(pairs, *how),
            Op::GetOrInsert(pairs) => {
                let batch = self.batch(pairs);
                let held = self.map.get_or_insert(&batch.keys, &batch.values);
                if let Some(held) = self.taken(&batch, held) {
                    oracle::adopt(&mut self.oracle, &self.map, batch.bits());
                    assert_eq!(held.len(), batch.len());
                    for ((k, _), v) in batch.bits().zip(held) {
                        assert_eq!(value_bits(v), self.oracle[&k], "get_or_insert of {k:#x}");
                    }
                }
            }
            Op::GetOrInsertInto(pairs) => {
                let batch = self.batch(pairs);
                let mut held = Part::new(self.on, batch.len());
                let (keys, values) = (&batch.keys, &batch.values);
                let stored = self.map.get_or_insert_into(keys, values, &mut held.view());
                if let Some(stored) = self.taken(&batch, stored) {
                    let new = oracle::adopt(&mut self.oracle, &self.map, batch.bits());
                    assert_eq!(stored, new, "new keys");
                    for ((k, _), v) in batch.bits().zip(held.to_vec()) {
                        assert_eq!(value_bits(v), self.oracle[&k], "held of {k:#x}");
                    }
                }
            }
            Op::UpsertOnStream(pairs) => {
                let batch = self.batch(pairs);
                let stream = self.on.stream();
                let pending = self.map.on(&stream).upsert(&batch.keys, &batch.values);
                let stored = pending.and_then(|pending| pending.wait());
                if let Some(stored) = self.taken(&batch, stored) {
                    let new = oracle::adopt_upserted(&mut self.oracle, &self.map, batch.bits());
                    assert_eq!(stored, new, "new keys");
                }
            }
            Op::Extend(pairs) => {
                let batch = self.batch(pairs);
                let all = batch.keys.iter().copied().zip(batch.values.iter().copied());
                // What it stores has no key twice, and may be shorter than the batch.
                match self.map.try_extend(all) {
                    Ok(()) => {
                        assert!(self.fits(&batch).1);
                        self.oracle.extend(batch.bits());
                    }
                    Err(Error::Full { partial: false, .. }) => assert!(!self.fits(&batch).0),
                    Err(error) => panic!("{error:?}"),
                }
            }
            _ => unreachable!("it stores nothing"),
        }
    }

    fn merge(&mut self, pairs: &Pairs, how: Merge) {
        let mut batch = self.batch(pairs);
        let float_sum = how == Merge::Add && V::NUMBER == Number::Float;
        if float_sum {
            // The order of additions is not fixed: one for each key.
            batch = Batch::of(batch.bits().collect::<Oracle>());
        }
        let stored = self.map.merge(&batch.keys, &batch.values, how);
        let Some(stored) = self.taken(&batch, stored) else {
            return;
        };
        let new = oracle::merge::<V>(&mut self.oracle, batch.bits(), how);
        assert_eq!(stored, new, "new keys");
        if float_sum {
            // Which NaN a sum is, devices differ in.
            for (&k, v) in batch.keys.iter().zip(self.map.get(&batch.keys).unwrap()) {
                let bits = value_bits(v.expect("it was stored"));
                let expected = self.oracle.get_mut(&key_bits(k)).expect("it was merged");
                if is_nan::<V>(*expected) && is_nan::<V>(bits) {
                    *expected = bits;
                }
            }
        }
    }

    /// Takes keys from the oracle: for each the value that it had.
    fn take(&mut self, keys: &[K]) -> Vec<Option<u64>> {
        let bits = keys.iter().map(|&k| key_bits(k));
        bits.map(|k| self.oracle.remove(&k)).collect()
    }

    fn take_away(&mut self, op: &Op) {
        self.shape = None;
        match op {
            Op::Remove(numbers) => {
                let keys = self.keys(numbers);
                let removed = self.map.remove(&keys).unwrap();
                assert_eq!(removed, self.take(&keys).iter().flatten().count(), "remove");
            }
            Op::RemoveTold(numbers) => {
                let keys = self.keys(numbers);
                let told = self.map.remove_with_outcome(&keys).unwrap();
                self.compare_removed(&keys, told.into_iter().map(|told| told.then_some(None)));
            }
            Op::RemoveValues(numbers) => {
                let keys = self.keys(numbers);
                let told = self.map.take(&keys).unwrap();
                let told = told.into_iter().map(|v| v.map(|v| Some(value_bits(v))));
                self.compare_removed(&keys, told);
            }
            Op::Retain(k, v) => {
                if let Some(retain) = self.retain {
                    retain(&self.map, &mut self.oracle, *k, *v);
                }
            }
            Op::RetainKeys(numbers) => {
                let keys = self.keys(numbers);
                let kept: HashSet<u64> = keys.iter().map(|&k| key_bits(k)).collect();
                let before = self.oracle.len();
                self.oracle.retain(|k, _| kept.contains(k));
                let removed = self.map.retain_keys(&keys).unwrap();
                assert_eq!(removed, before - self.oracle.len(), "retain_keys");
            }
            Op::Drain => {
                let (keys, values) = self.map.drain().unwrap();
                assert_same(&paired(&keys, &values), &self.oracle, "drain");
                self.oracle.clear();
            }
            Op::Reserve(more) => {
                self.map.reserve(*more).unwrap();
                // A fixed map may be fuller than it was planned for.
                let reserved = self.map.capacity() >= self.oracle.len() + more;
                assert!(*more == 0 || reserved, "{more} reserved");
            }
            Op::Shrink => {
                self.map.shrink_to_fit().unwrap();
                assert!(self.map.capacity() >= self.oracle.len());
            }
            _ => unreachable!("it takes nothing away"),
        }
    }

    /// Of several equal keys one has the answer that it was removed, with its value where it says
    /// so.
    fn compare_removed(
        &mut self,
        keys: &[K],
        told: impl ExactSizeIterator<Item = Option<Option<u64>>>,
    ) {
        assert_eq!(told.len(), keys.len());
        let mut present: Oracle = Oracle::new();
        for &k in keys {
            if let Some(v) = self.oracle.remove(&key_bits(k)) {
                present.insert(key_bits(k), v);
            }
        }
        for (&k, told) in keys.iter().zip(told) {
            let Some(v) = told else { continue };
            let had = present.remove(&key_bits(k));
            let had = had.expect("an absent key was removed, or one twice");
            assert!(
                v.is_none_or(|v| v == had),
                "a removed pair had another value"
            );
        }
        assert!(present.is_empty(), "present keys were not removed");
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Clear => {
                self.map.clear().unwrap();
                self.oracle.clear();
            }
            Op::LookUp(numbers, default) => self.look_up(&self.keys(numbers), *default),
            Op::Retrieve(spare) => self.retrieve(*spare),
            Op::Stats => {
                let stats = self.map.stats().unwrap();
                assert_eq!(
                    (stats.len, stats.slots),
                    (self.oracle.len(), self.map.slots())
                );
                // Beside the slots there are those of three slabs.
                assert!(stats.len + stats.tombstones <= stats.slots + 24);
            }
            Op::Mistake => self.mistake(),
            Op::Insert(..) | Op::InsertTold(_) | Op::Upsert(_) | Op::UpsertTold(_) => {
                self.store(op);
            }
            Op::Merge(..) | Op::GetOrInsert(_) | Op::Extend(_) => self.store(op),
            Op::GetOrInsertInto(_) | Op::UpsertOnStream(_) => self.store(op),
            Op::Apply(mix) => self.apply(mix),
            Op::Assign(pairs, queued) => self.update(pairs, *queued),
            Op::MergePresent(pairs, how) => self.update_with(pairs, *how),
            _ if self.only_stores => {}
            _ => self.take_away(op),
        }
        assert_eq!(self.map.len(), self.oracle.len(), "len after {op:?}");
        assert_eq!(self.map.is_empty(), self.oracle.is_empty(), "is_empty");
    }

    fn look_up(&self, keys: &[K], default: u64) {
        let expected: Vec<_> = keys
            .iter()
            .map(|&k| self.oracle.get(&key_bits(k)).copied())
            .collect();
        let got = self.map.get(keys).unwrap().into_iter();
        let got: Vec<_> = got.map(|v| v.map(value_bits)).collect();
        assert_eq!(got, expected, "get");
        let there: Vec<_> = expected.iter().map(Option::is_some).collect();
        assert_eq!(self.map.contains(keys).unwrap(), there, "contains");
        let mut values = Part::<V>::new(self.on, keys.len());
        let mut found = Part::<u8>::new(self.on, keys.len());
        let outputs = (&mut values.view(), &mut found.view());
        self.map.get_into(keys, outputs.0, outputs.1).unwrap();
        let bits = |values: &Part<V>| -> Vec<u64> {
            values.to_vec().into_iter().map(value_bits).collect()
        };
        let wanted: Vec<_> = expected.iter().map(|v| v.unwrap_or(0)).collect();
        assert_eq!(bits(&values), wanted, "get_into");
        let there_or_not: Vec<_> = there.iter().map(|&there| u8::from(there)).collect();
        assert_eq!(found.to_vec(), there_or_not, "get_into");
        found.view().fill_bytes(7).unwrap();
        self.map.contains_into(keys, &mut found.view()).unwrap();
        assert_eq!(found.to_vec(), there_or_not, "contains_into");
        let unless_found = value(default);
        self.map
            .get_or_into(keys, unless_found, &mut values.view())
            .unwrap();
        let default = value_bits(value::<V>(default));
        let wanted: Vec<_> = expected.iter().map(|v| v.unwrap_or(default)).collect();
        assert_eq!(bits(&values), wanted, "get_or_into");
    }

    fn retrieve(&self, spare: usize) {
        assert_same(&contents(&self.map), &self.oracle, "retrieve_all");
        let room = self.oracle.len() + spare;
        let mut keys = Part::<K>::new(self.on, room);
        let mut values = Part::<V>::new(self.on, room);
        let outputs = (&mut keys.view(), &mut values.view());
        let n = self.map.retrieve_all_into(outputs.0, outputs.1).unwrap();
        let (keys, values) = (keys.to_vec(), values.to_vec());
        let found = paired(&keys[..n], &values[..n]);
        assert_same(&found, &self.oracle, "retrieve_all_into");
    }

    fn mistake(&self) {
        let two = [key::<K>(1), key(2)];
        let one = [value::<V>(1)];
        for refused in [
            self.map.insert(&two, &one),
            self.map.upsert(&two, &one),
            self.map.get_or_insert(&two, &one).map(|held| held.len()),
        ] {
            assert!(matches!(refused, Err(Error::LengthMismatch { .. })));
        }
        let mut small = Buffer::<V>::zeroed(&self.on.stream(), 1).unwrap();
        let refused = self.map.get_or_into(&two, value(0), &mut small);
        let (needed, given) = (2, 1);
        let expected = format!("{:?}", Error::OutputTooSmall { needed, given });
        assert_eq!(format!("{:?}", refused.unwrap_err()), expected);
    }
}
