//! `retrieve_all` and `retrieve_all_into`: every pair exactly once, whatever the table's shape.
//! Beside writers `chunks` and `save` too.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use gpumap::{Buffer, Error, Key, Map, Merge, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::oracle::{assert_same, paired};
use gpumap_tests::pairs::{self, mask, nth_key, writer_of};
use gpumap_tests::{
    Batch, Oracle, Shape, Target, assert_holds, contents, key, key_bits, on_every_format,
    on_every_pair, on_formats_with_values, value, value_bits,
};

/// What outputs hold where nothing was written.
const CANARY: u8 = 0x5a;

fn canaries<T: bytemuck::Pod>(on: &Target, len: usize) -> Buffer<T> {
    let mut buffer = Buffer::zeroed(&on.stream(), len).unwrap();
    buffer.fill_bytes(CANARY).unwrap();
    buffer
}

/// The first element that is not a canary, if there is one.
fn written<T: bytemuck::Pod>(elements: &[T]) -> Option<usize> {
    let touched = |e: &T| bytemuck::bytes_of(e).iter().any(|&byte| byte != CANARY);
    elements.iter().position(touched)
}

/// Pairs as bits.
fn bits_of<K: Key, V: Numeric>(pairs: impl Iterator<Item = (K, V)>) -> Vec<(u64, u64)> {
    pairs.map(|(k, v)| (key_bits(k), value_bits(v))).collect()
}

/// The pairs of a map in the order of its table, as bits.
fn bits_in_order<K: Key, V: Numeric>(map: &Map<K, V>) -> Vec<(u64, u64)> {
    let (keys, values) = map.retrieve_all_stable().unwrap();
    bits_of(keys.into_iter().zip(values))
}

/// Retrieves into buffers with some room to spare, in any order and in that of the table, and compares
/// with the oracle.
fn check_into<K: Key, V: Numeric>(on: &Target, map: &Map<K, V>, held: &Oracle, spare: usize) {
    let room = held.len() + spare;
    for ordered in [false, true] {
        let (mut keys, mut values) = (canaries::<K>(on, room), canaries::<V>(on, room + 1));
        let n = if ordered {
            map.retrieve_all_stable_into(&mut keys, &mut values)
        } else {
            map.retrieve_all_into(&mut keys, &mut values)
        };
        let n = n.unwrap();
        assert_eq!(n, held.len());
        let (keys, values) = (keys.to_vec().unwrap(), values.to_vec().unwrap());
        let found = paired(&keys[..n], &values[..n]);
        assert_same(&found, held, "retrieve_all_into");
        assert_eq!(written(&keys[n..]), None, "keys beyond the pairs");
        assert_eq!(written(&values[n..]), None, "values beyond the pairs");
        if ordered {
            let again = bits_in_order(map);
            let first = keys.into_iter().zip(values).take(n);
            assert!(again == bits_of(first), "another order the second time");
        }
    }
}

fn check<K: Key, V: Numeric>(on: &Target, map: &Map<K, V>, held: &Oracle) {
    assert_same(&contents(map), held, "retrieve_all");
    for spare in [0, 1, 100] {
        check_into(on, map, held, spare);
    }
}

#[test]
fn an_empty_map() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for submap_slots in [vec![1], vec![5_000], vec![4, 8, 4]] {
            check(on, &on.map_of::<K, V>(&submap_slots), &Oracle::new());
        }
        let map = on.map::<K, V>(0);
        assert_eq!(map.retrieve_all().unwrap().0.len(), 0);
    }
    on_every_pair!(body);
}

#[test]
fn one_pair_of_every_pattern() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on
            .builder::<K, V>()
            .capacity(100)
            .submaps(2)
            .build()
            .unwrap();
        let values = pairs::patterns(size_of::<V>());
        for (i, k) in pairs::patterns(size_of::<K>()).into_iter().enumerate() {
            let one = Batch::<K, V>::of([(k, values[i % values.len()])]);
            map.insert(&one.keys, &one.values).unwrap();
            check(on, &map, &one.bits().collect());
            map.clear().unwrap();
        }
        // And all of them together, each with a value of its own.
        let keys = pairs::patterns(size_of::<K>());
        let all = keys
            .iter()
            .enumerate()
            .map(|(i, &k)| (k, values[i % values.len()]));
        let all = Batch::<K, V>::of(all);
        map.insert(&all.keys, &all.values).unwrap();
        check(on, &map, &all.bits().collect());
    }
    on_every_pair!(body);
}

#[test]
fn any_number_of_pairs() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // Around a tile's 512 slabs and a block's 512 threads, at several loads.
        let most = on.n(5_000, 1_000_000);
        let map = on.map::<K, V>(most);
        let mut held = Oracle::new();
        let mut next = 0;
        for n in [
            1, 2, 31, 33, 63, 255, 257, 511, 513, 2_047, 2_049, 4_097, most,
        ] {
            let batch = Batch::<K, V>::numbered(next as u64..n as u64, 1);
            next = n;
            assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), batch.len());
            held.extend(batch.bits());
            check(on, &map, &held);
        }
    }
    on_every_format!(body);
}

#[test]
fn submaps_of_any_number_and_size() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // Slots per tile of the kernel: sizes around it, and a size that is no multiple.
        let tile = 512 * 64 / pairs::slot_bytes::<K, V>();
        let shapes = [
            (1.0, vec![1]),
            (0.9, vec![tile]),
            (0.9, vec![tile - 4, tile + 4]),
            (0.8, vec![1, 2 * tile + 100]),
            (1.0, vec![100; 9]),
            (1.0, vec![4, 8, 16, 400, 4, 9, 33, 200, 1]),
            (1.0, vec![8; 64]),
            (0.5, (1..=64).map(|i| i * 4).collect()),
        ];
        for (share, slots) in &shapes {
            for page_slabs in [1, 16, 512] {
                let case = format!("submaps of {slots:?} slots, pages of {page_slabs}");
                noting(&case, || {
                    let shape = Shape::new::<K, V>(slots, page_slabs, 3);
                    let map = shape.builder::<K, V>(on).build().unwrap();
                    assert_eq!((map.submaps(), map.slots()), (slots.len(), shape.slots()));
                    let numbers = shape.filling_share::<K>(0, *share);
                    let batch = Batch::<K, V>::numbered(numbers, 1);
                    map.insert(&batch.keys, &batch.values).unwrap();
                    let held = batch.bits().collect();
                    assert_same(&contents(&map), &held, "retrieve_all");
                    check_into(on, &map, &held, 3);
                });
            }
        }
    }
    on_every_format!(body);
}

#[test]
fn every_page_size() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(900, 200_000);
        let batch = Batch::<K, V>::numbered(0..n as u64, 1);
        let held: Oracle = batch.bits().collect();
        for page_log2 in 0..=9 {
            for submaps in [1, 3] {
                let builder = on.builder::<K, V>().capacity(n).submaps(submaps);
                let map = builder.page_slabs(1 << page_log2).build().unwrap();
                assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), n);
                assert_same(
                    &contents(&map),
                    &held,
                    &format!("pages of {}", 1 << page_log2),
                );
            }
        }
    }
    on_every_format!(body);
}

#[test]
fn a_full_table_of_one_submap() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let slots = on.n(6_000, 1_000_000);
        let map = on
            .builder::<K, V>()
            .submap_slots(&[slots])
            .capacity(0)
            .build()
            .unwrap();
        // Walks are bounded, so the last slots of a large table cannot be filled; 0.97 can.
        let n = map.slots() * 97 / 100;
        let batch = Batch::<K, V>::numbered(0..n as u64, 1);
        assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), n);
        check(on, &map, &batch.bits().collect());
    }
    on_every_format!(body);
}

#[test]
fn in_order_what_is_removed_leaves_the_rest_where_it_was() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // Several tiles, of one submap and of many.
        let n = on.n(9_000, 3_000_000) as u64;
        for submaps in [1, 5] {
            let builder = on.builder::<K, V>().capacity(n as usize).submaps(submaps);
            let map = builder.build().unwrap();
            let mut batch = Batch::<K, V>::numbered(0..n, 1);
            for k in pairs::patterns(size_of::<K>()) {
                batch.keys.push(key(k));
                batch.values.push(pairs::value_by(key::<K>(k), 1));
            }
            map.insert(&batch.keys, &batch.values).unwrap();
            let (keys, values) = map.retrieve_all_stable().unwrap();
            assert_same(&paired(&keys, &values), &batch.bits().collect(), "in order");

            let goes = |&i: &usize| i % 3 == 1 || (1_000..5_000).contains(&i);
            let all = 0..keys.len();
            let gone: Vec<K> = all.clone().filter(goes).map(|i| keys[i]).collect();
            assert_eq!(map.remove(&gone).unwrap(), gone.len());
            let left = all.filter(|i| !goes(i)).map(|i| (keys[i], values[i]));
            assert!(bits_in_order(&map) == bits_of(left), "pairs moved");
        }
    }
    on_every_format!(body);
}

#[test]
fn outputs_that_are_too_small_stay_as_they_were() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map::<K, V>(100);
        let batch = Batch::<K, V>::numbered(0..90, 1);
        map.insert(&batch.keys, &batch.values).unwrap();
        for (keys, values) in [(0, 0), (89, 89), (89, 200), (200, 89), (1, 90), (90, 0)] {
            let (mut keys, mut values) = (canaries::<K>(on, keys), canaries::<V>(on, values));
            let given = keys.len().min(values.len());
            match map.retrieve_all_into(&mut keys, &mut values) {
                Err(Error::OutputTooSmall {
                    needed: 90,
                    given: g,
                }) if g == given => {}
                other => panic!("room for {given}: {other:?}"),
            }
            assert_eq!(written(&keys.to_vec().unwrap()), None);
            assert_eq!(written(&values.to_vec().unwrap()), None);
        }
        check_into(on, &map, &batch.bits().collect(), 0);
        assert_holds(&map, &batch.bits().collect());
    }
    on_every_format!(body);
}

#[test]
fn beside_writers_what_was_there_is_reported_once() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        const BATCHES: u64 = 60;
        let (old, new) = (on.n(2_000, 50_000) as u64, on.n(6_000, 600_000) as u64);
        let map = on.map::<K, V>((old + new) as usize);
        let before = Batch::<K, V>::numbered(0..old, 1);
        map.insert(&before.keys, &before.values).unwrap();
        let before: Oracle = before.bits().collect();
        let writing = AtomicBool::new(true);
        // Looked at afterwards: the checks take longer than the writing.
        let mut dumps = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..BATCHES {
                    let range = old + new * i / BATCHES..old + new * (i + 1) / BATCHES;
                    let batch = Batch::<K, V>::numbered(range, 2);
                    assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), batch.len());
                    // Old keys stay as they are.
                    let again = Batch::<K, V>::numbered(0..100, 3);
                    assert_eq!(map.insert(&again.keys, &again.values).unwrap(), 0);
                }
                writing.store(false, Ordering::Release);
            });
            while writing.load(Ordering::Acquire) || dumps.is_empty() {
                let (counted, dump) = (map.len(), map.retrieve_all().unwrap());
                if dumps.len() < 50 {
                    dumps.push((counted, dump));
                }
            }
        });
        let all: HashSet<u64> = (0..old + new).map(|i| key_bits(nth_key::<K>(i))).collect();
        let mut last = old as usize;
        for (counted, (keys, values)) in dumps {
            // `paired` panics if a key comes twice.
            let found = paired(&keys, &values);
            for (k, v) in &before {
                assert_eq!(found.get(k), Some(v), "old key {k:#x}");
            }
            for (&k, &v) in keys.iter().zip(&values) {
                let bits = key_bits(k);
                assert!(all.contains(&bits), "foreign key {bits:#x}");
                let writer = if before.contains_key(&bits) { 1 } else { 2 };
                let expected = value_bits(pairs::value_by::<K, V>(k, writer));
                assert_eq!(value_bits(v), expected, "value of {bits:#x}");
            }
            assert!(keys.len() >= counted.max(last), "pairs got lost");
            last = keys.len();
        }
        assert_eq!(contents(&map).len() as u64, old + new);
    }
    on_every_format!(body);
}

/// All pairs in one of the ways there are, as they are reported.
fn dump<K: Key, V: Numeric>(on: &Target, map: &Map<K, V>, way: usize) -> Vec<(K, V)> {
    match way % 4 {
        0 => {
            let (keys, values) = map.retrieve_all().unwrap();
            keys.into_iter().zip(values).collect()
        }
        1 => {
            let (keys, values) = map.retrieve_all_stable().unwrap();
            keys.into_iter().zip(values).collect()
        }
        2 => {
            let parts: Vec<_> = map.chunks(1).map(Result::unwrap).collect();
            parts.iter().flat_map(|part| part.iter()).collect()
        }
        _ => {
            let mut file = Vec::new();
            let saved = map.save_to(&mut file).unwrap();
            let loaded = on.builder::<K, V>().load_from(&file[..]).unwrap();
            assert!(loaded.len() as u64 <= saved, "more than was saved");
            dump(on, &loaded, 0)
        }
    }
}

#[test]
fn beside_updates_removals_and_growth_what_stays_is_reported_once() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(1_500, 20_000) as u64;
        // No half of a value is a multiple of it, so a torn sum is none either.
        let unit = mask(size_of::<V>()) / mask(size_of::<V>() / 2) * 7;
        let stay: Vec<K> = (0..n).map(nth_key).chain([key(!0)]).collect();
        let steps = vec![value::<V>(unit); stay.len()];
        let mut comes = Batch::<K, V>::numbered(n..n + n / 4, 1);
        comes.keys.push(key(!1));
        comes.values.push(pairs::value_by(key::<K>(!1), 1));
        let map = on.map::<K, V>(0);
        map.insert(&stay, &steps).unwrap();
        // Additions to every key that have begun, and that have ended.
        let (begun, ended) = (AtomicU64::new(1), AtomicU64::new(1));
        let dumping = AtomicBool::new(true);
        let writes = || dumping.load(Ordering::Acquire) && begun.load(Ordering::Acquire) < 4_000;
        let (map, stay, comes) = (&map, &stay, &comes);
        // Looked at afterwards: the checks take longer than the writing.
        let mut dumps = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                while writes() {
                    begun.fetch_add(1, Ordering::AcqRel);
                    map.merge(stay, &steps, Merge::Add).unwrap();
                    ended.fetch_add(1, Ordering::AcqRel);
                }
            });
            scope.spawn(|| {
                for i in 0.. {
                    map.insert(&comes.keys, &comes.values).unwrap();
                    map.remove(&comes.keys).unwrap();
                    if i % 8 == 7 {
                        map.shrink_to_fit().unwrap();
                    }
                    if !writes() {
                        break;
                    }
                }
            });
            for way in 0..12 {
                let least = ended.load(Ordering::Acquire);
                let pairs = dump(on, map, way);
                dumps.push((least, pairs, begun.load(Ordering::Acquire)));
            }
            dumping.store(false, Ordering::Release);
        });
        let stays: HashSet<u64> = stay.iter().map(|&k| key_bits(k)).collect();
        let others: HashSet<u64> = comes.keys.iter().map(|&k| key_bits(k)).collect();
        for (way, (least, pairs, most)) in dumps.into_iter().enumerate() {
            let mut seen = HashMap::new();
            for (k, v) in pairs {
                let (bits, v_bits) = (key_bits(k), value_bits(v));
                if others.contains(&bits) {
                    assert_eq!(writer_of(k, v), 1);
                    continue;
                }
                assert!(stays.contains(&bits), "foreign key {bits:#x}");
                assert_eq!(seen.insert(bits, v_bits), None, "key {bits:#x} comes twice");
                assert!(
                    v_bits % unit == 0 && (least..=most).contains(&(v_bits / unit)),
                    "dump {way}: key {bits:#x} has {v_bits:#x}, not {least} to {most} steps"
                );
            }
            assert_eq!(seen.len(), stays.len(), "dump {way} lacks pairs");
        }
        assert_eq!(map.len(), stay.len());
        let sum = begun.into_inner() * unit;
        let expected: Oracle = stays.into_iter().map(|k| (k, sum)).collect();
        assert_holds(map, &expected);
    }
    on_formats_with_values!(body);
}
