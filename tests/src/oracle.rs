//! The oracle: what a map must hold, in a [`HashMap`] of bits.

use std::collections::HashMap;

use gpumap::{Key, Map, Value};

use crate::pairs::{key, key_bits, value_bits};

/// Key bits to value bits.
pub type Oracle = HashMap<u64, u64>;

/// What `retrieve_all` reports, checked for keys that come twice, for columns of different
/// lengths, and against `len`. Nothing else may be running.
pub fn contents<K: Key, V: Value>(map: &Map<K, V>) -> Oracle {
    let (keys, values) = map.retrieve_all().expect("retrieve_all");
    let found = paired(&keys, &values);
    assert_eq!(found.len(), map.len(), "len() against retrieve_all()");
    assert_eq!(map.is_empty(), found.is_empty(), "is_empty()");
    found
}

/// Two columns as a set of pairs; a panic if a key comes twice.
pub fn paired<K: Key, V: Value>(keys: &[K], values: &[V]) -> Oracle {
    assert_eq!(keys.len(), values.len(), "keys and values retrieved");
    let mut pairs = Oracle::with_capacity(keys.len());
    for (&k, &v) in keys.iter().zip(values) {
        if let Some(other) = pairs.insert(key_bits(k), value_bits(v)) {
            panic!(
                "key {:#x} is there twice, with {:#x} and {other:#x}",
                key_bits(k),
                value_bits(v)
            );
        }
    }
    pairs
}

/// Panics, and names a pair, unless two sets of pairs are the same.
pub fn assert_same(found: &Oracle, expected: &Oracle, what: &str) {
    for (k, v) in expected {
        match found.get(k) {
            Some(have) if have == v => {}
            Some(have) => panic!("{what}: key {k:#x} has {have:#x}, not {v:#x}"),
            None => panic!(
                "{what}: key {k:#x} is missing ({} of {} there)",
                found.len(),
                expected.len()
            ),
        }
    }
    if let Some(k) = found.keys().find(|k| !expected.contains_key(k)) {
        panic!("{what}: key {k:#x} should not be there");
    }
}

/// Panics unless the map holds exactly these pairs, as seen by `retrieve_all`, `len`, `get` and
/// `contains`.
pub fn assert_holds<K: Key, V: Value>(map: &Map<K, V>, expected: &Oracle) {
    assert_same(&contents(map), expected, "retrieve_all");
    let keys: Vec<K> = expected.keys().map(|&bits| key(bits)).collect();
    let got = map.get(&keys).expect("get");
    assert_eq!(got.len(), keys.len());
    for (&k, v) in keys.iter().zip(got) {
        let bits = key_bits(k);
        assert_eq!(v.map(value_bits), Some(expected[&bits]), "get({bits:#x})");
    }
    let contained = map.contains(&keys).expect("contains");
    assert_eq!(contained.len(), keys.len());
    assert!(
        contained.iter().all(|&there| there),
        "contains() of present keys"
    );
}

/// What `insert` does to an oracle: present keys keep their value, of several pairs with one key
/// the first is taken. Returns how many were new.
///
/// Which pair a map takes is its own choice: compare such batches with [`adopt`].
pub fn insert(oracle: &mut Oracle, pairs: impl IntoIterator<Item = (u64, u64)>) -> usize {
    let before = oracle.len();
    for (k, v) in pairs {
        oracle.entry(k).or_insert(v);
    }
    oracle.len() - before
}

/// What `insert` of a batch with repeated keys did to a map: new keys must have got **one** of
/// the batch's values for them, which the oracle adopts. Returns how many were new.
pub fn adopt<K: Key, V: Value>(
    oracle: &mut Oracle,
    map: &Map<K, V>,
    pairs: impl IntoIterator<Item = (u64, u64)>,
) -> usize {
    let mut offers: HashMap<u64, Vec<u64>> = HashMap::new();
    for (k, v) in pairs {
        if !oracle.contains_key(&k) {
            offers.entry(k).or_default().push(v);
        }
    }
    let keys: Vec<u64> = offers.keys().copied().collect();
    let asked: Vec<K> = keys.iter().map(|&bits| key(bits)).collect();
    let got = map.get(&asked).expect("get");
    for (k, v) in keys.iter().zip(got) {
        let Some(v) = v.map(value_bits) else {
            panic!("key {k:#x} was inserted and is not there");
        };
        assert!(
            offers[k].contains(&v),
            "key {k:#x} has the value {v:#x}, which is none of those inserted: {:x?}",
            offers[k]
        );
        oracle.insert(*k, v);
    }
    offers.len()
}

/// What `add` does to an oracle, with values of `bytes` bytes. Returns how many keys were new.
pub fn add(
    oracle: &mut Oracle,
    pairs: impl IntoIterator<Item = (u64, u64)>,
    bytes: usize,
) -> usize {
    let before = oracle.len();
    for (k, v) in pairs {
        let sum = oracle.entry(k).or_insert(0);
        *sum = sum.wrapping_add(v) & crate::pairs::mask(bytes);
    }
    oracle.len() - before
}
