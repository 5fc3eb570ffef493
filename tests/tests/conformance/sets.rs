//! Maps without values: what they have of their own. All else that a set does, the tests of maps
//! do with it too.

use std::collections::HashSet;
use std::fmt::Debug;

use gpumap::file::{FileError, Header};
use gpumap::primitives::{Digit, Element, Predicate, Primitives};
use gpumap::{Buffer, Error, Key, Map, Outcome};
use gpumap_tests::device::run_pair;
use gpumap_tests::pairs::{Edge, Ticket, UserId, nth_key, patterns};
use gpumap_tests::{Target, key, key_bits};

/// Runs `body::<K>(&Target)` for these types of keys, on every target.
macro_rules! on_sets {
    ($body:ident: $($k:ty),*) => {{
        $(run_pair::<$k, ()>($body::<$k>);)*
    }};
}

fn numbered<K: Key>(numbers: std::ops::Range<u64>) -> Vec<K> {
    numbers.map(nth_key).collect()
}

fn bits<K: Key>(keys: &[K]) -> HashSet<u64> {
    keys.iter().map(|&k| key_bits(k)).collect()
}

/// Panics unless the set has exactly these keys, in every way to see them.
fn assert_keys<K: Key>(on: &Target, set: &Map<K, ()>, expected: &HashSet<u64>) {
    let all = set.keys().unwrap();
    assert_eq!(
        all.len(),
        expected.len(),
        "a key comes twice, or is missing"
    );
    assert_eq!(&bits(&all), expected, "keys");
    assert_eq!(set.len(), expected.len());
    let mut out = Buffer::zeroed(&on.stream(), expected.len() + 1).unwrap();
    let n = set.keys_into(&mut out).unwrap();
    assert_eq!(
        &bits(&out.to_vec().unwrap()[..n]),
        expected,
        "into a buffer"
    );
    let mut out = vec![key::<K>(0); expected.len() + 1];
    let n = set.keys_into(&mut out).unwrap();
    assert_eq!(&bits(&out[..n]), expected, "into a vector");
    let mut dumped = HashSet::new();
    for chunk in set.chunks(1) {
        let chunk = chunk.unwrap();
        assert_eq!(chunk.values().len(), chunk.len());
        for &k in chunk.keys() {
            assert!(dumped.insert(key_bits(k)), "twice in chunks");
        }
    }
    assert_eq!(&dumped, expected, "chunks");
    let asked: Vec<K> = expected.iter().map(|&k| key(k)).collect();
    assert!(set.contains(&asked).unwrap().iter().all(|&there| there));
    assert!(set.get(&asked).unwrap().iter().all(|v| *v == Some(())));
}

#[test]
fn large_batches_are_right_whichever_way_they_take() {
    fn body<K: Key>(on: &Target) {
        let n = on.n(6_000, 4_000_000) as u64;
        // Every key twice, far apart, and those whose bits mean a state.
        let mut first = numbered::<K>(0..n / 2);
        first.extend((0..3).map(|i| key::<K>(!i)));
        first.extend(numbered::<K>(0..n / 2));
        let second = numbered::<K>(n / 4..n / 4 + n);
        for lowest in [None, Some([1; 3])] {
            let builder = on.builder::<K, ()>().capacity(2 * n as usize);
            let set = match lowest {
                None => builder,
                Some(pairs) => builder.bulk_from(pairs),
            };
            let set = set.build().unwrap();
            assert_eq!(set.insert_keys(&first).unwrap() as u64, n / 2 + 3);
            let mut held = bits(&first);
            assert_keys(on, &set, &held);
            let new = bits(&second).difference(&held).count();
            assert_eq!(set.insert_keys(&second).unwrap(), new);
            held.extend(bits(&second));
            assert_keys(on, &set, &held);
        }
    }
    on_sets!(body: u32, u64);
}

#[test]
fn keys_come_and_go() {
    fn body<K: Key>(on: &Target) {
        let n = on.n(2_000, 1_000_000) as u64;
        let set = on.map::<K, ()>(0);
        let (low, high) = (numbered::<K>(0..n), numbered::<K>(n / 2..n + n / 2));
        assert_eq!(set.insert_keys(&low).unwrap() as u64, n);
        let outcomes = set.insert_keys_with_outcome(&high).unwrap();
        let half = (n - n / 2) as usize;
        assert!(outcomes[..half].iter().all(|o| *o == Outcome::Present));
        assert!(outcomes[half..].iter().all(|o| *o == Outcome::Inserted));
        let mut held: HashSet<u64> = bits(&low).union(&bits(&high)).copied().collect();
        assert_keys(on, &set, &held);
        assert_eq!(set.remove(&low).unwrap() as u64, n);
        let gone = bits(&low);
        held.retain(|k| !gone.contains(k));
        assert_keys(on, &set, &held);
        assert_eq!(bits(&set.drain_keys().unwrap()), held);
        assert_keys(on, &set, &HashSet::new());
        // From the device, and on a stream.
        let stream = on.stream();
        let keys = Buffer::from_slice(&stream, &low).unwrap();
        let pending = set.on(&stream).insert_keys(&keys).unwrap();
        assert_eq!(pending.wait().unwrap() as u64, n);
        assert_eq!(set.insert_keys(&keys).unwrap(), 0);
        let mut found = Buffer::<u8>::zeroed(&stream, high.len()).unwrap();
        set.contains_into(&high, &mut found).unwrap();
        let found = found.to_vec().unwrap();
        assert!(found[..half].iter().all(|&f| f == 1) && found[half..].iter().all(|&f| f == 0));
        assert_keys(on, &set, &bits(&low));
    }
    on_sets!(body: u32, u64, i32, Ticket, Edge);
}

#[test]
fn a_key_takes_eight_bytes() {
    fn body<K: Key>(on: &Target) {
        let n = on.n(50_000, 5_000_000);
        let set = on.map::<K, ()>(n);
        assert_eq!(set.stats().unwrap().table_bytes, 8 * set.slots() as u64);
        // Memory in which it fits, and the smallest map of 8-byte keys does not.
        let on = on.with_memory_budget(12 * n as u64);
        let set = on.map::<K, ()>(n);
        assert!(matches!(
            on.builder::<u64, u32>().capacity(n).build(),
            Err(Error::OutOfMemory { .. })
        ));
        let keys = Buffer::from_slice(&on.stream(), &numbered::<K>(0..100)).unwrap();
        assert_eq!(set.insert_keys(&keys).unwrap(), 100);
    }
    on_sets!(body: u32, u64);
}

#[test]
fn retain_by_every_kind_of_predicate() {
    fn body<K: Key + Element + Debug>(on: &Target) {
        let mut all: Vec<K> = patterns(size_of::<K>()).into_iter().map(key).collect();
        let bounds = all.clone();
        all.extend(numbered::<K>(0..on.n(500, 50_000) as u64));
        let set = on.map::<K, ()>(0);
        for (i, &c) in bounds.iter().enumerate() {
            let (low, high) = (c, bounds[(i * 7 + 3) % bounds.len()]);
            for predicate in [
                Predicate::Always,
                Predicate::Less(c),
                Predicate::GreaterOrEqual(c),
                Predicate::Equal(c),
                Predicate::NotEqual(c),
                Predicate::Between { low, high },
                Predicate::Outside { low, high },
                Predicate::Bits {
                    mask: high,
                    value: c,
                },
            ] {
                set.insert_keys(&all).unwrap();
                let before = set.len();
                let kept = all.iter().copied().filter(|&k| predicate.holds(k));
                let kept: HashSet<u64> = kept.map(key_bits).collect();
                let removed = set.retain_where(predicate).unwrap();
                assert_eq!(removed, before - kept.len(), "{predicate:?}");
                assert_eq!(bits(&set.keys().unwrap()), kept, "{predicate:?}");
            }
        }
    }
    on_sets!(body: u32, u64, i32, i64, UserId);
}

#[test]
fn made_of_iterators() {
    fn body<K: Key>(on: &Target) {
        let keys = numbered::<K>(0..on.n(500, 100_000) as u64);
        // Each key twice, and no hint of how many.
        let twice = keys.iter().chain(&keys).copied();
        let mut set = Map::from_keys(on.device(), twice.filter(|_| true)).unwrap();
        assert_keys(on, &set, &bits(&keys));
        let more = numbered::<K>(1 << 20..(1 << 20) + 10);
        set.extend(more.iter().copied());
        // As pairs too, as any map.
        set.extend(more.iter().map(|&k| (k, ())));
        let all: Vec<K> = keys.iter().chain(&more).copied().collect();
        assert_keys(on, &set, &bits(&all));
    }
    on_sets!(body: u32, u64);
}

#[test]
fn saved_and_loaded() {
    fn body<K: Key>(on: &Target) {
        let mut keys: Vec<K> = patterns(size_of::<K>()).into_iter().map(key).collect();
        keys.extend(numbered::<K>(0..on.n(2_000, 2_000_000) as u64));
        let set = Map::from_keys(on.device(), keys.iter().copied()).unwrap();
        let mut file = Vec::new();
        assert_eq!(set.save_to(&mut file).unwrap() as usize, set.len());
        let header = Header::read(&mut &file[..]).unwrap();
        assert_eq!(
            (usize::from(header.key_bytes), header.value_bytes),
            (size_of::<K>(), 0)
        );
        // Beside the keys, the header, the end and eight bytes for each of a few blocks.
        let rest = file.len() - 64 - 20 - set.len() * size_of::<K>();
        assert!(rest.is_multiple_of(8) && (8..400).contains(&rest), "{rest}");
        let loaded = on.builder::<K, ()>().load_from(&file[..]).unwrap();
        assert_keys(on, &loaded, &bits(&keys));
        // It is no map to values.
        let as_map = on.builder::<K, u32>().load_from(&file[..]);
        assert!(matches!(
            as_map,
            Err(Error::File {
                cause: FileError::ValueSize {
                    found: 0,
                    expected: 4
                },
                ..
            })
        ));
        // Every byte is covered by a checksum.
        let at = file.len() / 2;
        file[at] ^= 1;
        assert!(on.builder::<K, ()>().load_from(&file[..]).is_err());
    }
    on_sets!(body: u32, u64);
}

#[test]
fn unique_keys_are_counted() {
    fn body<K: Key>(on: &Target) {
        let n = on.n(3_000, 3_000_000) as u64;
        let mut keys: Vec<K> = (0..n).map(|i| nth_key(i % (n / 3))).collect();
        keys.extend([!0, !1, !2, !0].map(key::<K>));
        let primitives = Primitives::new(on.device());
        let expected = bits(&keys).len();
        assert_eq!(primitives.unique_count(&keys).unwrap(), expected);
        let keys = Buffer::from_slice(&on.stream(), &keys).unwrap();
        assert_eq!(primitives.unique_count(&keys).unwrap(), expected);
    }
    on_sets!(body: u32, u64, Edge);
}

#[test]
fn pairs_without_values_are_partitioned() {
    fn body<K: Key>(on: &Target) {
        let keys = numbered::<K>(0..on.n(3_000, 3_000_000) as u64);
        let nothing = vec![(); keys.len()];
        let primitives = Primitives::new(on.device());
        let stream = on.stream();
        let mut out = Buffer::zeroed(&stream, keys.len()).unwrap();
        let mut values = Buffer::zeroed(&stream, keys.len()).unwrap();
        let digit = Digit::of_bits(3..7);
        let offsets = primitives
            .partition_into(&keys, &nothing, digit, &mut out, &mut values)
            .unwrap();
        assert_eq!(offsets.len(), 17);
        let out = out.to_vec().unwrap();
        for (part, range) in offsets.windows(2).enumerate() {
            for &k in &out[range[0] as usize..range[1] as usize] {
                assert_eq!(key_bits(k) >> 3 & 15, part as u64);
            }
        }
        assert_eq!(bits(&out), bits(&keys));
    }
    on_sets!(body: u32, u64);
}
