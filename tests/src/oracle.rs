//! The oracle: what a map must hold, in a [`HashMap`] of bits.

use std::collections::HashMap;

use gpumap::{Key, Map, Merge, Number, Numeric};
use gpumap_kernels::slot::Bits;

use crate::pairs::{key, key_bits, mask, value_bits};

/// Key bits to value bits.
pub type Oracle = HashMap<u64, u64>;

/// What `retrieve_all` reports, checked for keys that come twice, for columns of different
/// lengths, and against `len`. Nothing else may be running.
pub fn contents<K: Key, V: Numeric>(map: &Map<K, V>) -> Oracle {
    let (keys, values) = map.retrieve_all().expect("retrieve_all");
    let found = paired(&keys, &values);
    assert_eq!(found.len(), map.len(), "len() against retrieve_all()");
    assert_eq!(map.is_empty(), found.is_empty(), "is_empty()");
    found
}

/// Two columns as a set of pairs; a panic if a key comes twice.
pub fn paired<K: Key, V: Numeric>(keys: &[K], values: &[V]) -> Oracle {
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
    if let Some(difference) = difference(found, expected) {
        panic!("{what}: {difference}");
    }
}

/// A pair in which two sets of pairs differ, if they do.
pub fn difference(found: &Oracle, expected: &Oracle) -> Option<String> {
    for (k, v) in expected {
        match found.get(k) {
            Some(have) if have == v => {}
            Some(have) => return Some(format!("key {k:#x} has {have:#x}, not {v:#x}")),
            None => {
                let (there, all) = (found.len(), expected.len());
                return Some(format!("key {k:#x} is missing ({there} of {all} there)"));
            }
        }
    }
    let foreign = found.keys().find(|k| !expected.contains_key(k))?;
    Some(format!("key {foreign:#x} should not be there"))
}

/// Panics unless the map holds exactly these pairs, as seen by `retrieve_all`, `len`, `get` and
/// `contains`.
pub fn assert_holds<K: Key, V: Numeric>(map: &Map<K, V>, expected: &Oracle) {
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
pub fn adopt<K: Key, V: Numeric>(
    oracle: &mut Oracle,
    map: &Map<K, V>,
    pairs: impl IntoIterator<Item = (u64, u64)>,
) -> usize {
    let offers = offers(pairs.into_iter().filter(|(k, _)| !oracle.contains_key(k)));
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

/// All values that some pair has for each key.
pub fn offers(pairs: impl IntoIterator<Item = (u64, u64)>) -> HashMap<u64, Vec<u64>> {
    let mut offers: HashMap<u64, Vec<u64>> = HashMap::new();
    for (k, v) in pairs {
        offers.entry(k).or_default().push(v);
    }
    offers
}

/// What `upsert` of a batch with repeated keys did to a map: each key must have got **one** of the
/// batch's values for it, which the oracle adopts. Returns how many were new.
pub fn adopt_upserted<K: Key, V: Numeric>(
    oracle: &mut Oracle,
    map: &Map<K, V>,
    pairs: impl IntoIterator<Item = (u64, u64)>,
) -> usize {
    let pairs: Vec<(u64, u64)> = pairs.into_iter().collect();
    let before = oracle.len();
    // To the oracle, a replaced pair is one that was taken away and put there anew.
    for (k, _) in &pairs {
        oracle.remove(k);
    }
    adopt(oracle, map, pairs);
    oracle.len() - before
}

/// What `merge(.., Merge::Add)` does to an oracle, with integers of `bytes` bytes as values.
/// Returns how many keys were new.
pub fn add(
    oracle: &mut Oracle,
    pairs: impl IntoIterator<Item = (u64, u64)>,
    bytes: usize,
) -> usize {
    let before = oracle.len();
    for (k, v) in pairs {
        let sum = oracle.entry(k).or_insert(0);
        *sum = sum.wrapping_add(v) & mask(bytes);
    }
    oracle.len() - before
}

/// What `merge` does to an oracle, pair after pair. Returns how many keys were new.
pub fn merge<V: Numeric>(
    oracle: &mut Oracle,
    pairs: impl IntoIterator<Item = (u64, u64)>,
    how: Merge,
) -> usize {
    let before = oracle.len();
    for (k, v) in pairs {
        oracle
            .entry(k)
            .and_modify(|old| *old = merged::<V>(how, *old, v))
            .or_insert(v);
    }
    oracle.len() - before
}

/// What becomes of two values of type `V`, in plain Rust.
pub fn merged<V: Numeric>(how: Merge, old: u64, new: u64) -> u64 {
    macro_rules! of {
        ($unsigned:ty, $signed:ty, $float:ty, $flush:expr) => {{
            let (a, b) = (old as $unsigned, new as $unsigned);
            let (x, y) = (<$float>::from_bits(a), <$float>::from_bits(b));
            let first = match V::NUMBER {
                Number::Unsigned => a <= b,
                Number::Signed => a as $signed <= b as $signed,
                Number::Float => x.total_cmp(&y).is_le(),
            };
            let bits = match how {
                Merge::Add if V::NUMBER == Number::Float => $flush($flush(x) + $flush(y)).to_bits(),
                Merge::Add => a.wrapping_add(b),
                Merge::Min => {
                    if first {
                        a
                    } else {
                        b
                    }
                }
                Merge::Max => {
                    if first {
                        b
                    } else {
                        a
                    }
                }
                Merge::And => a & b,
                Merge::Or => a | b,
                Merge::Xor => a ^ b,
            };
            bits.to_u64()
        }};
    }
    if size_of::<V>() == 4 {
        // Its subnormal numbers count as zeros.
        let flush = |x: f32| {
            if x.is_subnormal() {
                0f32.copysign(x)
            } else {
                x
            }
        };
        of!(u32, i32, f32, flush)
    } else {
        of!(u64, i64, f64, |x: f64| x)
    }
}

/// Whether these bits are a float's that is not a number: which one, devices differ in.
pub fn is_nan<V: Numeric>(bits: u64) -> bool {
    V::NUMBER == Number::Float
        && if size_of::<V>() == 4 {
            f32::from_bits(bits as u32).is_nan()
        } else {
            f64::from_bits(bits).is_nan()
        }
}
