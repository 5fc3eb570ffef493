//! What a multimap must hold: for each key its values, in the order in which they came.

use std::collections::HashMap;

use gpumap::multi::{Answer, Operation};
use gpumap::{MultiMap, Numeric, Word, WordKey};

use crate::pairs::{Batch, key, key_bits, value_bits};

/// The bits of each key to those of its values, the first first. No key is without values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model(HashMap<u64, Vec<u64>>);

impl Model {
    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values of a key.
    pub fn values(&self, key: u64) -> &[u64] {
        self.0.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Stores a pair if its key is absent. Returns the value that is there already.
    pub fn insert(&mut self, (key, value): (u64, u64)) -> Option<u64> {
        let first = self.values(key).first().copied();
        if first.is_none() {
            self.append((key, value));
        }
        first
    }

    /// Stores a pair.
    pub fn append(&mut self, (key, value): (u64, u64)) {
        self.0.entry(key).or_default().push(value);
    }

    /// Takes away the first pair with a key.
    pub fn remove(&mut self, key: u64) -> Option<u64> {
        let values = self.0.get_mut(&key)?;
        let first = values.remove(0);
        if values.is_empty() {
            self.0.remove(&key);
        }
        Some(first)
    }

    /// Does one operation; returns its answer.
    pub fn apply(&mut self, operation: Operation, (key, value): (u64, u64)) -> Answer<u64> {
        match operation {
            Operation::Get => match self.values(key) {
                [] => Answer::Absent,
                [first, ..] => Answer::Present(*first),
            },
            Operation::Insert => match self.insert((key, value)) {
                None => Answer::Stored,
                Some(first) => Answer::Present(first),
            },
            Operation::Append => {
                self.append((key, value));
                Answer::Stored
            }
            Operation::Remove => match self.remove(key) {
                None => Answer::Absent,
                Some(first) => Answer::Removed(first),
            },
            Operation::Count => Answer::Count(self.values(key).len()),
        }
    }

    /// The same, with the values of each key in ascending order.
    fn sorted(mut self) -> Self {
        self.0
            .values_mut()
            .for_each(|values| values.sort_unstable());
        self
    }
}

impl Extend<(u64, u64)> for Model {
    fn extend<T: IntoIterator<Item = (u64, u64)>>(&mut self, pairs: T) {
        pairs.into_iter().for_each(|pair| self.append(pair));
    }
}

/// An answer with the bits of its value.
pub fn answer_bits<V: Numeric>(answer: Answer<V>) -> Answer<u64> {
    match answer {
        Answer::Absent => Answer::Absent,
        Answer::Present(value) => Answer::Present(value_bits(value)),
        Answer::Stored => Answer::Stored,
        Answer::Removed(value) => Answer::Removed(value_bits(value)),
        Answer::Count(pairs) => Answer::Count(pairs),
    }
}

/// What `retrieve_all` reports, checked against `len`; the values of a key in no order. Nothing else
/// may be running.
pub fn contents<K: WordKey, V: Word<Bits = K::Bits>>(map: &MultiMap<K, V>) -> Model {
    let (keys, values) = map.retrieve_all().expect("retrieve_all");
    assert_eq!(keys.len(), values.len(), "keys and values retrieved");
    assert_eq!(keys.len(), map.len(), "len() against retrieve_all()");
    assert_eq!(map.is_empty(), keys.is_empty(), "is_empty()");
    let mut found = Model::default();
    found.extend(Batch { keys, values }.bits());
    found
}

/// Panics unless the map holds exactly these pairs, as seen by `retrieve_all`, `len`, `get`, `get_all`,
/// `contains`, `count` and `stats`.
pub fn assert_model<K: WordKey, V: Word<Bits = K::Bits>>(map: &MultiMap<K, V>, model: &Model) {
    let (found, expected) = (contents(map).sorted(), model.clone().sorted());
    for (k, values) in &expected.0 {
        assert_eq!(found.values(*k), values, "retrieve_all: key {k:#x}");
    }
    let foreign = found.0.keys().find(|k| !expected.0.contains_key(k));
    assert_eq!(
        foreign, None,
        "retrieve_all: a key that should not be there"
    );

    let bits: Vec<u64> = model.0.keys().copied().collect();
    let keys: Vec<K> = bits.iter().map(|&bits| key(bits)).collect();
    let got = map.get(&keys).expect("get");
    let counts = map.count(&keys).expect("count");
    let all = map.get_all(&keys).expect("get_all");
    for (((bits, got), count), row) in bits.iter().zip(got).zip(counts).zip(&all) {
        let values = model.values(*bits);
        let row: Vec<u64> = row.iter().map(|&value| value_bits(value)).collect();
        assert_eq!(row, values, "get_all({bits:#x})");
        assert_eq!(got.map(value_bits), Some(values[0]), "get({bits:#x})");
        assert_eq!(count, values.len(), "count({bits:#x})");
    }
    assert!(map.contains(&keys).expect("contains").iter().all(|&is| is));

    let stats = map.stats().expect("stats");
    assert_eq!(stats.len, model.len(), "stats().len");
    assert!(stats.linked_slabs <= stats.pool_slabs);
    assert!(stats.len + stats.tombstones <= stats.slots);
}

/// Panics if a key is there that is not in the map.
pub fn assert_absent<K: WordKey, V: Word<Bits = K::Bits>>(map: &MultiMap<K, V>, keys: &[K]) {
    let got = map.get(keys).expect("get");
    for (&k, value) in keys.iter().zip(got) {
        assert!(value.is_none(), "key {:#x} is there", key_bits(k));
    }
}
