//! Row maps of plain data and of strings, and the unique keys of arrays, beside a `HashMap` of the keys' bytes.

mod beside;
mod collisions;
mod groups;
mod interleaved;
mod joins;
mod remove;
mod room;
mod strings;
mod unique;
mod verbs;

use std::any::type_name;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::ops::Deref;

use gpumap::bytemuck::{Pod, bytes_of, bytes_of_mut};
use gpumap::rows::{RowInput, RowKey, RowMapBuilder};
use gpumap::strings::Strings;
use gpumap::{Device, RowMap};
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

/// The same for strings too.
macro_rules! on_every_kind {
    ($body:ident) => {
        $crate::rows::on_every_key!($body);
        $crate::rows::on_keys!($body: str, [u8])
    };
}

/// Runs `body::<K>(&Target)` for these keys, on every target.
macro_rules! on_keys {
    ($body:ident: $($k:ty),*) => {
        $($crate::rows::on_every_device::<$k>($body::<$k>);)*
    };
}
use {on_every_key, on_every_kind, on_keys};

/// Runs a body on every target, of which some differ only in the slots of other maps.
pub fn on_every_device<K: ?Sized>(body: fn(&Target)) {
    on_every_target(|on| {
        if on.encoding() != Some(Encoding::Split) {
            noting(type_name::<K>(), || body(on));
        }
    });
}

/// What a batch has: its bytes are those of the key.
pub trait One: Clone {
    fn bytes(&self) -> &[u8];
}

impl<K: Pod> One for K {
    fn bytes(&self) -> &[u8] {
        bytes_of(self)
    }
}

/// A string.
#[derive(Clone, Debug, PartialEq)]
pub struct Text(pub Vec<u8>);

impl One for Text {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// A key of plain data, or a string.
pub trait Key: RowKey<Column: RowInput<Self>> + 'static {
    type One: One;
    type Batch: RowInput<Self> + ?Sized;

    const ARE_STRINGS: bool;

    fn batch(keys: &[Self::One]) -> &Self::Batch;

    /// Key number `i`, which no other one is equal to.
    fn key(i: u64) -> Self::One;

    /// A map with room for so many rows, and for 32 bytes in each string of them.
    fn builder(device: &Device, rows: usize) -> RowMapBuilder<Self>;

    /// The bytes of each key of a dump.
    fn bytes(keys: &Self::Slice) -> Vec<&[u8]>;

    /// Rows and bytes of strings that there is room for.
    fn room(map: &RowMap<Self>) -> (usize, usize);

    /// How many bytes the strings have.
    fn byte_len(map: &RowMap<Self>) -> Option<usize>;
}

impl<K: Pod> Key for K {
    type One = K;
    type Batch = [K];

    const ARE_STRINGS: bool = false;

    fn batch(keys: &[K]) -> &[K] {
        keys
    }

    /// One of its words is not zero. Others differ from it in one word, or two.
    fn key(i: u64) -> K {
        let words = size_of::<K>() as u64 / 4;
        let mut key = K::zeroed();
        let (word, number) = ((i % words) as usize, i / words + 1);
        bytes_of_mut(&mut key)[4 * word..][..4].copy_from_slice(&(number as u32).to_le_bytes());
        key
    }

    fn builder(device: &Device, rows: usize) -> RowMapBuilder<K> {
        RowMap::builder(device).capacity(rows)
    }

    fn bytes(keys: &[K]) -> Vec<&[u8]> {
        keys.iter().map(bytes_of).collect()
    }

    fn room(map: &RowMap<K>) -> (usize, usize) {
        (map.capacity(), 0)
    }

    fn byte_len(_: &RowMap<K>) -> Option<usize> {
        None
    }
}

macro_rules! strings {
    ($($key:ty)*) => {$(
        impl Key for $key {
            type One = Text;
            type Batch = [Text];

            const ARE_STRINGS: bool = true;

            fn batch(keys: &[Text]) -> &[Text] {
                keys
            }

            /// Of 0 to 30 bytes as a rule, some of them of hundreds. Many begin alike.
            fn key(i: u64) -> Text {
                let filled = match i {
                    0 => return Text(Vec::new()),
                    _ if i.is_multiple_of(97) => 300 + i % 50,
                    _ => i * 7 % 23,
                };
                let fill = if i.is_multiple_of(5) { 0 } else { b'x' };
                let mut string = vec![fill; filled as usize];
                string.extend(i.to_string().bytes());
                Text(string)
            }

            fn builder(device: &Device, rows: usize) -> RowMapBuilder<$key> {
                RowMap::builder(device).capacity(rows).bytes(32 * rows)
            }

            fn bytes(keys: &Strings) -> Vec<&[u8]> {
                keys.iter().collect()
            }

            fn room(map: &RowMap<$key>) -> (usize, usize) {
                (map.capacity(), map.byte_capacity())
            }

            fn byte_len(map: &RowMap<$key>) -> Option<usize> {
                Some(map.byte_len().expect("their bytes"))
            }
        }
    )*};
}
strings! { str [u8] }

/// Key number `i`, of plain data.
pub fn key<K: Pod>(i: u64) -> K {
    K::key(i)
}

/// Keys by their numbers.
pub fn keys<K: Key + ?Sized>(numbers: impl IntoIterator<Item = u64>) -> Vec<K::One> {
    numbers.into_iter().map(K::key).collect()
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
    pub fn insert(&mut self, batch: &[impl One]) -> (Vec<u32>, Vec<u8>) {
        let insert = |key: &[u8]| {
            let next = self.keys.len() as u32;
            let row = *self.rows.entry(key.to_vec()).or_insert(next);
            if row == next {
                self.keys.push(key.to_vec());
            }
            (row, u8::from(row == next))
        };
        batch.iter().map(One::bytes).map(insert).unzip()
    }

    pub fn get(&self, batch: &[impl One]) -> Vec<Option<u32>> {
        let row = |key: &[u8]| self.rows.get(key).copied();
        batch.iter().map(One::bytes).map(row).collect()
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many keys of a batch there were.
    pub fn remove(&mut self, batch: &[impl One]) -> usize {
        let removed = |key: &&[u8]| self.rows.remove(*key).is_some();
        batch.iter().map(One::bytes).filter(removed).count()
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
    pub fn assert_same<K: Key + ?Sized>(&self, map: &RowMap<K>) {
        assert_eq!(
            (map.len(), map.is_empty(), map.row_bound()),
            (self.rows.len(), self.rows.is_empty(), self.keys.len())
        );
        let room = K::room(map);
        assert!(room.0 == map.capacity() && room.0 >= map.row_bound());
        let (present, of_rows) = self.present();
        let assert_keys = |keys: &K::Slice, what| assert!(K::bytes(keys) == of_rows, "{what}");
        let all = map.keys().expect("keys");
        assert_keys(all.borrow(), "keys in the order of rows");
        if let Some(bytes) = K::byte_len(map) {
            assert_eq!(bytes, of_rows.concat().len());
            assert!(room.1 >= bytes);
        }
        let (keys, rows) = map.retrieve_all().expect("keys and rows");
        assert_keys(keys.borrow(), "keys beside their rows");
        assert_eq!(rows, present);
        let mut in_chunks = (Vec::new(), Vec::new());
        let take = |chunk: &gpumap::Chunk<K, u32>| {
            assert!((1..=7).contains(&chunk.len()));
            let keys = K::bytes(chunk.keys()).into_iter().map(<[u8]>::to_vec);
            in_chunks.0.extend(keys);
            in_chunks.1.extend_from_slice(chunk.values());
            Ok(())
        };
        map.for_each_chunk(7, take).expect("chunks");
        assert!(in_chunks.0 == of_rows, "keys in chunks");
        assert_eq!(in_chunks.1, present);
        let got = map.get(&all).expect("get");
        assert!(
            got.into_iter().eq(rows.into_iter().map(Some)),
            "the rows of all keys"
        );
    }
}

/// A map, and what it has to hold.
pub struct Checked<K: Key + ?Sized> {
    pub map: RowMap<K>,
    pub oracle: Oracle,
}

impl<K: Key + ?Sized> From<RowMap<K>> for Checked<K> {
    /// A map without keys.
    fn from(map: RowMap<K>) -> Self {
        let oracle = Oracle::default();
        Self { map, oracle }
    }
}

/// Panics where the two disagree.
impl<K: Key + ?Sized> Checked<K> {
    pub fn new(on: &Target) -> Self {
        RowMap::new(on.device()).unwrap().into()
    }

    #[track_caller]
    pub fn insert(&mut self, batch: &[K::One]) {
        let rows = self.map.insert(K::batch(batch)).unwrap();
        assert_eq!(rows, self.oracle.insert(batch).0);
    }

    #[track_caller]
    pub fn get(&self, batch: &[K::One]) {
        let rows = self.map.get(K::batch(batch)).unwrap();
        assert_eq!(rows, self.oracle.get(batch));
    }

    #[track_caller]
    pub fn remove(&mut self, batch: &[K::One]) {
        let removed = self.map.remove(K::batch(batch)).unwrap();
        assert_eq!(removed, self.oracle.remove(batch));
    }

    #[track_caller]
    pub fn compact(&mut self) {
        assert_eq!(self.map.compact().unwrap(), self.oracle.compact());
    }

    #[track_caller]
    pub fn assert_same(&self) {
        self.oracle.assert_same(&self.map);
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
