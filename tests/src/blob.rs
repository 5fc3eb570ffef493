//! Values of arena maps: of many sizes, each made from a tag that can be read from it again.

use std::any::type_name;
use std::collections::{HashMap, HashSet};

use bytemuck::{Pod, Zeroable};
use gpumap::{CellStats, Key, Layout, Map, Result, Value};
use gpumap_kernels::kernels::Encoding;

use crate::device::{Target, noting, targets};
use crate::key_bits;

/// So many bytes, aligned to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bytes<const N: usize>(pub [u8; N]);
// SAFETY: an array of bytes.
unsafe impl<const N: usize> Zeroable for Bytes<N> {}
// SAFETY: an array of bytes.
unsafe impl<const N: usize> Pod for Bytes<N> {}

/// 64 bytes, aligned to 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(16))]
pub struct Line(pub [u64; 8]);

/// The value with this tag. Every byte depends on it; a value of less than 8 bytes has room for its
/// low ones only.
pub fn blob<V: Pod>(tag: u64) -> V {
    let mut value = V::zeroed();
    for (i, chunk) in bytemuck::bytes_of_mut(&mut value).chunks_mut(8).enumerate() {
        let odd = 0x9e37_79b9_7f4a_7c16u64.wrapping_mul(i as u64) | 1;
        let word = tag.wrapping_mul(odd);
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    value
}

/// The tag of a value.
///
/// # Panics
/// If the value has been put together from several.
pub fn tag<V: Pod>(value: &V) -> u64 {
    let bytes = bytemuck::bytes_of(value);
    let mut word = [0; 8];
    let len = bytes.len().min(8);
    word[..len].copy_from_slice(&bytes[..len]);
    let tag = u64::from_le_bytes(word);
    assert_eq!(bytemuck::bytes_of(&blob::<V>(tag)), bytes, "a torn value");
    tag
}

/// The values with these tags.
pub fn blobs<V: Pod>(tags: impl IntoIterator<Item = u64>) -> Vec<V> {
    tags.into_iter().map(blob).collect()
}

/// Runs a test body on every target, unless another of the same device has the same kernels.
pub fn run<K: Key, V: Pod>(body: fn(&Target)) {
    for target in targets() {
        if size_of::<K>() == 4 && target.encoding() == Some(Encoding::Split) {
            continue;
        }
        let pair = format!("{} -> {}", type_name::<K>(), type_name::<V>());
        noting(&format!("{pair}, {target}"), || body(target));
    }
}

/// Stores pairs by one of the two verbs.
///
/// # Errors
/// Those of the verb.
pub fn store<K: Key, V: Value>(
    map: &Map<K, V>,
    upserts: bool,
    keys: &[K],
    values: &[V],
) -> Result<usize> {
    if upserts {
        map.upsert(keys, values)
    } else {
        map.insert(keys, values)
    }
}

/// All pairs of a map: the bits of keys and the tags of values.
///
/// # Panics
/// If a key is there twice, or a value is torn.
pub fn tags<K: Key, V: Value>(map: &Map<K, V>) -> HashMap<u64, u64> {
    let (keys, values) = map.retrieve_all().expect("a dump");
    let pairs = keys.iter().zip(&values);
    let held: HashMap<u64, u64> = pairs.map(|(&k, v)| (key_bits(k), tag(v))).collect();
    assert_eq!(held.len(), keys.len(), "a key is stored twice");
    held
}

/// The cells of a map.
///
/// # Panics
/// If it has none.
pub fn cells<K: Key, V: Value>(map: &Map<K, V>) -> CellStats {
    let stats = map.stats().expect("figures");
    stats.cells.expect("a map of the layout `Cells`")
}

/// Panics unless each cell is in one place: a slot, free, or retired. Some maps have none.
pub fn assert_cells_add_up<K: Key, V: Value>(map: &Map<K, V>) {
    if Map::<K, V>::LAYOUT != Layout::Cells {
        return;
    }
    let audit = map.audit().expect("an audit");
    let all: HashSet<u32> = audit.all.iter().copied().collect();
    assert_eq!(all.len(), audit.all.len(), "two cells have one id");
    let mut seen = HashSet::new();
    for id in [&audit.stored, &audit.free, &audit.retired]
        .into_iter()
        .flatten()
    {
        assert!(all.contains(id), "{id} is no cell");
        assert!(seen.insert(id), "{id} is in two places");
    }
    let places = [&audit.stored, &audit.free, &audit.retired].map(Vec::len);
    assert_eq!(seen.len(), all.len(), "cells are lost: {places:?}");
    assert_eq!(audit.stored.len(), map.len());
}
