//! What every kind of map does with all of its pairs: gives them out in chunks, saves them, loads them and keeps some of
//! them, against a plain map.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use bytemuck::Pod;
use gpumap::file::{FileError, Header, Writer};
use gpumap::op::{self, Execute};
use gpumap::primitives::{Element, Predicate};
use gpumap::sharded::Ranks;
use gpumap::{
    Chunk, Device, Error, Key, Layout, Map, MultiMap, Numeric, Result, ShardedMap, Value, Word,
    WordKey,
};
use gpumap_tests::blob::{Bytes, blobs, tag};
use gpumap_tests::device::noting;
use gpumap_tests::group::on_every_group;
use gpumap_tests::pairs::{Halves32, Halves64, nth_key, patterns};
use gpumap_tests::{
    Target, key, key_bits, on_blobs_by_row, on_every_blob, on_every_target, on_pairs, value,
    value_bits,
};

/// A map, and where it lives.
trait Contents<K: Key, V: Pod>: Execute<K, V> + Sized {
    type On;
    /// All chunks, of about so many pairs.
    fn chunks_of(&mut self, pairs: usize, take: &mut dyn FnMut(&Chunk<K, V>));
    fn save_at(&self, path: &Path) -> Result<u64>;
    fn saved_bytes(&self) -> Vec<u8>;
    fn load_at(on: &Self::On, path: &Path) -> Result<Self>;
    fn load_bytes(on: &Self::On, bytes: &[u8]) -> Result<Self>;
}

/// For maps that live on `$on`. What comes first gives chunks out, then comes what loads one from bytes.
macro_rules! contents {
    ($each:expr, $load:expr; $map:ident<$k:ident: $key:path, $v:ident: $value:path> on $on:ty) => {
        impl<$k: $key, $v: $value> Contents<$k, $v> for $map<$k, $v> {
            type On = $on;

            fn chunks_of(&mut self, pairs: usize, take: &mut dyn FnMut(&Chunk<$k, $v>)) {
                let each: fn(&mut Self, usize, &mut dyn FnMut(&Chunk<$k, $v>)) = $each;
                each(self, pairs, take);
            }

            fn save_at(&self, path: &Path) -> Result<u64> {
                self.save(path)
            }

            fn saved_bytes(&self) -> Vec<u8> {
                let mut bytes = Vec::new();
                self.save_to(&mut bytes).unwrap();
                bytes
            }

            fn load_at(on: &$on, path: &Path) -> Result<Self> {
                Self::load(on, path)
            }

            fn load_bytes(on: &$on, bytes: &[u8]) -> Result<Self> {
                let load: fn(&$on, &[u8]) -> Result<Self> = $load;
                load(on, bytes)
            }
        }
    };
}

contents!(
    |map, pairs, take| map.for_each_chunk(pairs, |chunk| { take(chunk); Ok(()) }).unwrap(),
    |on, bytes| Self::builder(on).load_from(bytes);
    Map<K: Key, V: Value> on Device
);
contents!(
    |map, pairs, take| map.chunks(pairs).for_each(|chunk| take(&chunk.unwrap())),
    |on, bytes| Self::builder(on).load_from(bytes);
    MultiMap<K: WordKey, V: Word<Bits = K::Bits>> on Device
);
contents!(
    |map, pairs, take| map.for_each_chunk(pairs, |chunk| { take(chunk); Ok(()) }).unwrap(),
    |on, bytes| Self::builder(on).load_from(bytes);
    ShardedMap<K: Key, V: Value> on Ranks
);

/// All that chunks have, in order of the bits.
fn pairs_of<K: Key, V: Pod, M: Contents<K, V>>(
    map: &mut M,
    size: usize,
    bits: fn(&V) -> u64,
) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    map.chunks_of(size, &mut |chunk| {
        assert!(!chunk.is_empty());
        assert_eq!(chunk.len(), chunk.keys().len());
        all.extend(chunk.iter().map(|(k, v)| (key_bits(k), bits(&v))));
    });
    all.sort_unstable();
    all
}

fn cause<T>(result: Result<T>) -> FileError {
    match result.map(drop) {
        Err(Error::File { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

/// Chunks and files of maps of several sizes, of which parts have been removed.
fn give_and_take<K: Key, V: Pod, M: Contents<K, V>>(
    on: &M::On,
    most: usize,
    make: impl Fn() -> M,
    values: fn(usize) -> Vec<V>,
    bits: fn(&V) -> u64,
) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map");
    for n in [0, 1, 60, most] {
        noting(&format!("{n} pairs"), || {
            let mut map = make();
            let mut keys: Vec<K> = (0..n as u64).map(nth_key).collect();
            if n > 1 {
                let mut special = patterns(size_of::<K>());
                special.retain(|&bits| !keys.iter().any(|&k| key_bits(k) == bits));
                keys.extend(special.into_iter().map(key::<K>));
            }
            let values = values(keys.len());
            map.execute(op::insert(&keys, &values)).unwrap();
            let third: Vec<K> = keys.iter().copied().step_by(3).collect();
            map.execute(op::remove(&third)).unwrap();
            let left = keys.iter().zip(&values).enumerate();
            let mut left: Vec<_> = left
                .filter(|(i, _)| i % 3 != 0)
                .map(|(_, (&k, v))| (key_bits(k), bits(v)))
                .collect();
            left.sort_unstable();
            for size in [1, 1_000, usize::MAX >> 20] {
                assert_eq!(pairs_of(&mut map, size, bits), left, "in chunks of {size}");
            }
            assert_eq!(map.save_at(&path).unwrap() as usize, left.len());
            let mut loaded = M::load_at(on, &path).unwrap();
            assert_eq!(pairs_of(&mut loaded, 1_000, bits), left, "loaded");
            let mut bytes = map.saved_bytes();
            let mut loaded = M::load_bytes(on, &bytes).unwrap();
            assert_eq!(pairs_of(&mut loaded, 1_000, bits), left, "from bytes");
            // What is stored goes on from there.
            loaded.execute(op::insert(&keys, &values)).unwrap();
            let there = loaded.execute(op::contains(&keys)).unwrap();
            assert!(there.into_iter().all(|is| is));

            for cut in [0, 63, 64, bytes.len() - 1] {
                let cut = M::load_bytes(on, &bytes[..cut]);
                assert!(matches!(cause(cut), FileError::Truncated { .. }));
            }
            for at in [0, 9, 13, 60, bytes.len() - 20, bytes.len() - 1] {
                bytes[at] ^= 4;
                fs::write(&path, &bytes).unwrap();
                cause(M::load_bytes(on, &bytes));
                cause(M::load_at(on, &path));
                bytes[at] ^= 4;
            }
            bytes.push(0);
            let longer = M::load_bytes(on, &bytes);
            assert!(matches!(cause(longer), FileError::TrailingBytes { .. }));
        });
    }
}

fn numbers<V: Numeric>(n: usize) -> Vec<V> {
    (0..n as u64).map(|i| value(7 * i + 3)).collect()
}

#[test]
fn of_maps() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(20_000, 300_000);
        let make = || on.map::<K, V>(8);
        give_and_take::<K, V, Map<K, V>>(on.device(), n, make, numbers, |&v| value_bits(v));
    }
    on_pairs!(body: u32 => u64, u64 => u32);
}

#[test]
fn of_maps_by_row() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        assert_eq!(Map::<K, V>::LAYOUT, Layout::Rows);
        let n = on.n(20_000, 300_000);
        let make = || Map::<K, V>::new(on.device()).unwrap();
        give_and_take::<K, V, Map<K, V>>(on.device(), n, make, numbers, |&v| value_bits(v));
    }
    on_every_target(|on| {
        body::<Halves32, u64>(on);
        body::<Halves64, u32>(on);
    });
}

#[test]
fn of_arena_maps() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(3_000, 300_000);
        let make = || on.map::<K, V>(8);
        let values = |n: usize| blobs(0..n as u64);
        give_and_take::<K, V, Map<K, V>>(on.device(), n, make, values, tag);
    }
    on_every_blob!(body);
    on_blobs_by_row!(body);
}

#[test]
fn of_multimaps() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let n = on.n(20_000, 300_000);
        for capacity in [0, n] {
            let make = || on.multi::<K, V>().capacity(capacity).build().unwrap();
            give_and_take::<K, V, MultiMap<K, V>>(on.device(), n, make, numbers, |&v| {
                value_bits(v)
            });
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn of_groups() {
    on_every_group(|on| {
        let n = on.n(2_000, 300_000);
        let make = || super::sharded::map::<u64, u32>(on);
        give_and_take::<u64, u32, ShardedMap<u64, u32>>(on.ranks(), n, make, numbers, |&v| {
            v.into()
        });
    });
}

#[test]
fn chunks_of_an_arena_map_have_what_is_there() {
    fn body<K: Key, V: Value>(on: &Target) {
        let n = on.n(12_000, 100_000) as u64;
        let map = on.map::<K, V>(n as usize);
        let keys: Vec<K> = (0..n).map(nth_key).collect();
        map.insert(&keys, &blobs(0..n)).unwrap();
        let mut chunks = map.chunks(1);
        let first = chunks.next().unwrap().unwrap();
        let told: HashSet<u64> = first.keys().iter().map(|&k| key_bits(k)).collect();
        // What comes next has been dumped by now. Half of it goes away, and other keys get its cells.
        let others = keys
            .iter()
            .copied()
            .filter(|&k| !told.contains(&key_bits(k)));
        let (gone, left): (Vec<K>, Vec<K>) = others.partition(|&k| key_bits(k) % 2 == 0);
        map.remove(&gone).unwrap();
        let new: Vec<K> = (n..2 * n).map(nth_key).collect();
        map.insert(&new, &blobs(n..2 * n)).unwrap();
        let number: HashMap<u64, u64> =
            (0..2 * n).map(|i| (key_bits(nth_key::<K>(i)), i)).collect();
        let mut seen = HashSet::new();
        for chunk in chunks {
            for (k, v) in chunk.unwrap().iter() {
                assert!(seen.insert(key_bits(k)), "a key comes twice");
                assert_eq!(tag(&v), number[&key_bits(k)]);
            }
        }
        assert!(gone.iter().all(|&k| !seen.contains(&key_bits(k))));
        assert!(left.iter().all(|&k| seen.contains(&key_bits(k))));
    }
    gpumap_tests::blob::run::<u32, [u64; 2]>(body::<u32, [u64; 2]>);
    gpumap_tests::blob::run::<u64, Bytes<9>>(body::<u64, Bytes<9>>);
}

/// All pairs, in order of the bits.
fn held<K: Key, V: Value>((keys, values): (Vec<K>, Vec<V>)) -> Vec<(u64, u64)> {
    let pairs = keys.into_iter().zip(values);
    let mut pairs: Vec<_> = pairs.map(|(k, v)| (key_bits(k), value_bits(v))).collect();
    pairs.sort_unstable();
    pairs
}

/// Several pairs with each key, those of the special ones in chains of their own.
fn several<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(
    on: &Target,
) -> (MultiMap<K, V>, Vec<(u64, u64)>) {
    let map = on.multi::<K, V>().capacity(100).build().unwrap();
    let n = on.n(700, 50_000) as u64;
    let special = patterns(size_of::<K>()).into_iter().map(key::<K>);
    let mut keys: Vec<K> = special.chain((0..n).map(nth_key)).collect();
    // A long chain, on a GPU longer than a chunk.
    keys.extend(vec![key::<K>(!0); on.n(200, 10_000)]);
    let twice = [&keys[..], &keys[..]].concat();
    let values = numbers::<V>(twice.len());
    map.append(&twice, &values).unwrap();
    (map, held((twice, values)))
}

#[test]
fn several_pairs_of_a_key_come_back() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let (mut map, pairs) = several::<K, V>(on);
        assert_eq!(pairs_of(&mut map, 100, |&v| value_bits(v)), pairs);
        let bytes = map.saved_bytes();
        let mut back = MultiMap::<K, V>::load_bytes(on.device(), &bytes).unwrap();
        assert_eq!(pairs_of(&mut back, 100, |&v| value_bits(v)), pairs);
        // Another kind of map would lose some.
        let one = Map::<K, V>::load_bytes(on.device(), &bytes);
        assert!(matches!(cause(one), FileError::Multimap));
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn a_key_that_comes_twice_in_a_file_has_two_pairs_only_if_a_multimap_was_saved() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let [first, second, absent]: [K; 3] = [0, 1, 2].map(nth_key);
        for (is_multimap, times) in [(false, 1), (true, 2)] {
            let mut header = Header::new::<K, V>(4);
            header.is_multimap = is_multimap;
            let mut writer = Writer::<K, V, _>::new(Vec::new(), &header).unwrap();
            // In one block, and in two.
            writer
                .write(&[first, second, second], &numbers::<V>(3))
                .unwrap();
            writer.write(&[first], &numbers::<V>(1)).unwrap();
            let bytes = writer.finish().unwrap();
            let map = MultiMap::<K, V>::load_bytes(on.device(), &bytes).unwrap();
            let counts = map.count(&[first, second, absent]).unwrap();
            assert_eq!(counts, [times, times, 0], "multimap: {is_multimap}");
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn a_file_of_one_kind_of_map_is_loaded_by_others() {
    /// With keys, or values, of type `R` the map has another layout.
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>, R: Key>(on: &Target) {
        let keys: Vec<K> = (0..500).map(nth_key).collect();
        let values = numbers::<V>(keys.len());
        let map = on.map::<K, V>(8);
        map.insert(&keys, &values).unwrap();
        let bytes = map.saved_bytes();
        let pairs = held((keys, values));
        let multi = MultiMap::<K, V>::load_bytes(on.device(), &bytes).unwrap();
        assert_eq!(held(multi.retrieve_all().unwrap()), pairs);
        let back = Map::<K, V>::load_bytes(on.device(), &multi.saved_bytes());
        assert!(matches!(cause(back), FileError::Multimap));
        let by_row = Map::<R, V>::load_bytes(on.device(), &bytes).unwrap();
        assert_eq!(held(by_row.retrieve_all().unwrap()), pairs);
        let back = Map::<K, V>::load_bytes(on.device(), &by_row.saved_bytes()).unwrap();
        assert_eq!(held(back.retrieve_all().unwrap()), pairs);
        let cells = Map::<K, R>::load_bytes(on.device(), &bytes).unwrap();
        assert_eq!(Map::<K, R>::LAYOUT, Layout::Cells);
        assert_eq!(held(cells.retrieve_all().unwrap()), pairs);
        let back = Map::<K, V>::load_bytes(on.device(), &cells.saved_bytes()).unwrap();
        assert_eq!(held(back.retrieve_all().unwrap()), pairs);
        let wider = Map::<K, Bytes<9>>::load_bytes(on.device(), &bytes);
        assert!(matches!(cause(wider), FileError::ValueSize { .. }));
    }
    on_every_target(|on| {
        body::<u32, u32, Halves32>(on);
        body::<u64, u64, Halves64>(on);
    });
}

#[test]
fn multimaps_keep_what_a_predicate_holds_for() {
    fn body<K: WordKey + Element, V: Numeric + Word<Bits = K::Bits> + Element>(on: &Target) {
        let (map, mut pairs) = several::<K, V>(on);
        let (high, bound) = (nth_key::<K>(3), value::<V>(2_000));
        for (of_keys, of_values) in [
            (Predicate::Always, Predicate::Always),
            (Predicate::Always, Predicate::GreaterOrEqual(bound)),
            (Predicate::NotEqual(high), Predicate::Always),
            (Predicate::NotEqual(key(!0)), Predicate::NotEqual(bound)),
            (Predicate::Less(key(0)), Predicate::Always),
        ] {
            let before = pairs.len();
            pairs.retain(|&(k, v)| of_keys.holds(key(k)) && of_values.holds(value(v)));
            let removed = map.retain_where(of_keys, of_values).unwrap();
            assert_eq!(removed, before - pairs.len());
            assert_eq!(map.len(), pairs.len());
            assert_eq!(held(map.retrieve_all().unwrap()), pairs);
            map.compact().unwrap();
            assert_eq!(held(map.retrieve_all().unwrap()), pairs);
        }
        assert!(pairs.is_empty());
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn arena_maps_keep_what_a_predicate_holds_for() {
    fn body<K: Key, V: Value>(on: &Target) {
        let map = on.map::<K, V>(8);
        let n = on.n(400, 50_000) as u64;
        let keys: Vec<K> = (0..n).map(nth_key).collect();
        map.insert(&keys, &blobs(0..n)).unwrap();
        let first = key_bits(keys[0]);
        for (every, left) in [(1, n), (3, n.div_ceil(3) - 1), (n + 1, 0)] {
            let before = map.len();
            let keep =
                |k: K, v: &V| every == 1 || tag(v).is_multiple_of(every) && key_bits(k) != first;
            assert_eq!(map.retain(keep).unwrap(), before - left as usize);
            assert_eq!(map.len() as u64, left);
            let (_, values) = map.retrieve_all().unwrap();
            assert!(values.iter().all(|v| tag(v).is_multiple_of(every)));
            gpumap_tests::blob::assert_cells_add_up(&map);
        }
        // The cells are used again.
        let cells = map.stats().unwrap().cells.unwrap().cells;
        map.insert(&keys, &blobs(0..n)).unwrap();
        assert_eq!(
            (map.len() as u64, map.stats().unwrap().cells.unwrap().cells),
            (n, cells)
        );
    }
    on_every_blob!(body);
}
