//! Row maps, and the unique keys of arrays, beside a `HashMap` of the keys' bytes.

mod beside;
pub mod collisions;
mod groups;
mod interleaved;
mod joins;
mod remove;
mod room;
mod unique;
mod verbs;

use std::any::type_name;
use std::collections::HashMap;

use gpumap::RowMap;
use gpumap::bytemuck::{Pod, bytes_of, bytes_of_mut};
use gpumap_kernels::kernels::Encoding;
use gpumap_tests::device::noting;
use gpumap_tests::{Target, on_every_target};

/// Runs `body::<K>(&Target)` for a key of every width and alignment, on every target.
macro_rules! on_every_key {
    ($body:ident) => {
        $crate::rows::on_keys!($body:
            u32, [u32; 2], u64, [u32; 3], [u32; 4], u128, [u8; 16], [u64; 3], [u32; 7], [u64; 4], [u8; 40], [u64; 8])
    };
}

/// Runs `body::<K>(&Target)` for these keys, on every target.
macro_rules! on_keys {
    ($body:ident: $($k:ty),*) => {
        $($crate::rows::on_every_device::<$k>($body::<$k>);)*
    };
}
use {on_every_key, on_keys};

/// Runs a body on every target, of which some differ only in the slots of other maps.
pub fn on_every_device<K>(body: fn(&Target)) {
    on_every_target(|on| {
        if on.encoding() != Some(Encoding::Split) {
            noting(type_name::<K>(), || body(on));
        }
    });
}

/// Key number `i`, one of its words not zero. Others differ from it in one word, or two.
pub fn key<K: Pod>(i: u64) -> K {
    let words = size_of::<K>() as u64 / 4;
    let mut key = K::zeroed();
    let (word, number) = ((i % words) as usize, i / words + 1);
    bytes_of_mut(&mut key)[4 * word..][..4].copy_from_slice(&(number as u32).to_le_bytes());
    key
}

/// Keys by their numbers.
pub fn keys<K: Pod>(numbers: impl IntoIterator<Item = u64>) -> Vec<K> {
    numbers.into_iter().map(key).collect()
}

/// What keys come to in one batch after the other.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    pub rows: HashMap<Vec<u8>, u32>,
    /// Of all rows that were given out, though they were removed.
    pub keys: Vec<Vec<u8>>,
}

impl Oracle {
    /// The rows of a batch, and for each key whether it is new.
    pub fn insert<K: Pod>(&mut self, batch: &[K]) -> (Vec<u32>, Vec<u8>) {
        let insert = |key| self.insert_bytes(bytes_of(key));
        batch.iter().map(insert).unzip()
    }

    pub fn insert_bytes(&mut self, key: &[u8]) -> (u32, u8) {
        let next = self.keys.len() as u32;
        let row = *self.rows.entry(key.to_vec()).or_insert(next);
        if row == next {
            self.keys.push(key.to_vec());
        }
        (row, u8::from(row == next))
    }

    pub fn get<K: Pod>(&self, batch: &[K]) -> Vec<Option<u32>> {
        let row = |key| self.rows.get(bytes_of(key)).copied();
        batch.iter().map(row).collect()
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many keys of a batch there were.
    pub fn remove<K: Pod>(&mut self, batch: &[K]) -> usize {
        let removed = |key: &&K| self.rows.remove(bytes_of(*key)).is_some();
        batch.iter().filter(removed).count()
    }

    /// The rows that have a key, and these.
    pub fn present(&self) -> (Vec<u32>, Vec<Vec<u8>>) {
        let rows = (0..).zip(&self.keys);
        let present = rows.filter(|(row, key)| self.rows.get(*key) == Some(row));
        present.map(|(row, key)| (row, key.clone())).unzip()
    }

    /// The rows that keys had before they were dense.
    pub fn compact(&mut self) -> Vec<u32> {
        let (old, keys) = self.present();
        self.rows = keys.iter().cloned().zip(0..).collect();
        self.keys = keys;
        old
    }

    /// Panics unless a map holds this.
    pub fn assert_same<K: Pod>(&self, map: &RowMap<K>) {
        assert_eq!(
            (map.len(), map.is_empty(), map.row_bound()),
            (self.rows.len(), self.rows.is_empty(), self.keys.len())
        );
        assert!(map.capacity() >= map.row_bound());
        let (present, of_rows) = self.present();
        let keys_of_rows = |keys: &[K]| keys.iter().map(bytes_of).eq(&of_rows);
        let all = map.keys().expect("keys");
        assert!(keys_of_rows(&all), "keys in the order of rows");
        let (keys, rows) = map.retrieve_all().expect("keys and rows");
        assert!(keys_of_rows(&keys), "keys beside their rows");
        assert_eq!(rows, present);
        let mut in_chunks = (Vec::new(), Vec::new());
        let take = |chunk: &gpumap::Chunk<K, u32>| {
            assert!((1..=7).contains(&chunk.len()));
            in_chunks.0.extend_from_slice(chunk.keys());
            in_chunks.1.extend_from_slice(chunk.values());
            Ok(())
        };
        map.for_each_chunk(7, take).expect("chunks");
        assert!(keys_of_rows(&in_chunks.0), "keys in chunks");
        assert_eq!(in_chunks.1, present);
        let got = map.get(&all).expect("get");
        assert!(
            got.into_iter().eq(rows.into_iter().map(Some)),
            "the rows of all keys"
        );
    }
}

/// Numbers of keys that repeat in several ways.
pub fn patterns(n: u64) -> Vec<(&'static str, Vec<u64>)> {
    // Of no order, and the same on every run.
    let mixed = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    vec![
        ("none", vec![]),
        ("one", vec![5]),
        ("all different", (0..n).collect()),
        ("all equal", vec![3; n as usize]),
        (
            "forth and back",
            (0..n / 2).chain((0..n / 2).rev()).collect(),
        ),
        ("neighbours equal", (0..n).map(|i| i / 3).collect()),
        ("few", (0..n).map(|i| mixed(i) % 7).collect()),
        ("some", (0..n).map(|i| mixed(i) % (n / 5 + 1)).collect()),
        ("many", (0..n).map(|i| mixed(i) % (3 * n)).collect()),
        (
            "an eighth",
            (0..n).map(|i| mixed(i) % (n / 8 + 1)).collect(),
        ),
        (
            "few, then all different",
            (0..n).map(|i| if i < n / 3 { i % 5 } else { i }).collect(),
        ),
    ]
}
