//! The device fails: every call of every verb, one at a time, once or for good. See
//! [`gpumap_tests::faults`].

mod arena;
mod files;
mod large;
mod lost;
mod making;
mod multi;
mod reading;
mod rows;
mod streams;
mod string_rows;
mod wide;
mod writing;

use gpumap::{Growth, Key, Map, MapBuilder, Numeric, Result, Value};
use gpumap_tests::{Batch, Target};

/// Pairs that maps hold before.
const HELD: u64 = 40;

/// The same places on every run: so the same calls fail.
fn builder<K: Key, V: Value>(on: &Target) -> MapBuilder<K, V> {
    on.builder().hash_seed(1)
}

/// A map that holds [`HELD`] pairs by writer 1, of which some came and went.
fn filled<K: Key, V: Numeric>(builder: MapBuilder<K, V>) -> Result<Map<K, V>> {
    let map = builder.build()?;
    let pairs = Batch::<K, V>::numbered(0..HELD + 5, 1);
    map.insert(&pairs.keys, &pairs.values)?;
    map.remove(&pairs.keys[HELD as usize..])?;
    Ok(map)
}

/// As [`filled`], with room for some hundred more.
fn roomy<K: Key, V: Numeric>(on: &Target) -> Result<Map<K, V>> {
    filled(builder(on).capacity(400))
}

/// As [`filled`], in submaps that are replaced one at a time when it grows.
fn full<K: Key, V: Numeric>(on: &Target) -> Result<Map<K, V>> {
    filled(builder(on).submaps(3).page_slabs(4))
}

/// As [`filled`], in one submap that is replaced as a whole.
fn small<K: Key, V: Numeric>(on: &Target) -> Result<Map<K, V>> {
    filled(builder(on).page_slabs(4))
}

/// As [`filled`], with slots for a hundred pairs and no more.
fn fixed<K: Key, V: Numeric>(on: &Target) -> Result<Map<K, V>> {
    filled(builder(on).growth(Growth::Fixed).submap_slots(&[100]))
}

/// Some pairs that are there and some that are not, by writer 2.
fn batch<K: Key, V: Numeric>(new: u64) -> Batch<K, V> {
    Batch::numbered(HELD - 10..HELD + new, 2)
}
