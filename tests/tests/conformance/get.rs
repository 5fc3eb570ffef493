//! `get`, `get_or`, `get_into`, `get_or_into` and `contains`: five ways to look up the same.

use gpumap::{Buffer, Key, Map, Numeric, PinnedBuffer};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::{self, nth_key};
use gpumap_tests::{
    Batch, Oracle, Shape, Target, key, key_bits, on_every_format, on_every_pair, value, value_bits,
};

/// What the outputs hold before a lookup, and after it where they are longer than the batch.
const CANARY: u8 = 0x5a;

/// An output filled with the canary.
fn canaries<T: bytemuck::Pod>(on: &Target, len: usize) -> Buffer<T> {
    let mut buffer = Buffer::zeroed(&on.stream(), len).unwrap();
    buffer.fill_bytes(CANARY).unwrap();
    buffer
}

fn is_canary<T: bytemuck::Pod>(element: &T) -> bool {
    bytemuck::bytes_of(element)
        .iter()
        .all(|&byte| byte == CANARY)
}

/// Looks the keys up in every way and compares each answer with the oracle's.
fn ask_all_ways<K: Key, V: Numeric>(on: &Target, map: &Map<K, V>, keys: &[K], oracle: &Oracle) {
    const BEYOND: usize = 5;
    let n = keys.len();
    let expected: Vec<Option<u64>> = keys
        .iter()
        .map(|&k| oracle.get(&key_bits(k)).copied())
        .collect();

    let got = map.get(keys).unwrap();
    assert_eq!(got.len(), n);
    let contained = map.contains(keys).unwrap();
    assert_eq!(contained.len(), n);

    let (mut values, mut found) = (
        canaries::<V>(on, n + BEYOND),
        canaries::<u8>(on, n + BEYOND),
    );
    map.get_into(keys, &mut values, &mut found).unwrap();
    let (values, found) = (values.to_vec().unwrap(), found.to_vec().unwrap());

    let default = 0xa5a5_1234_5678_9abc & pairs::mask(size_of::<V>());
    let mut or_values = canaries::<V>(on, n + BEYOND);
    map.get_or_into(keys, value(default), &mut or_values)
        .unwrap();
    let or_values = or_values.to_vec().unwrap();
    let or_new = map.get_or(keys, value(default)).unwrap();
    assert_eq!(or_new.len(), n);

    for i in 0..n {
        let at = || format!("key {:#x} at {i} of {n}", key_bits(keys[i]));
        assert_eq!(got[i].map(value_bits), expected[i], "get, {}", at());
        assert_eq!(contained[i], expected[i].is_some(), "contains, {}", at());
        assert_eq!(
            found[i],
            u8::from(expected[i].is_some()),
            "get_into, {}",
            at()
        );
        assert_eq!(
            value_bits(values[i]),
            expected[i].unwrap_or(0),
            "get_into, {}",
            at()
        );
        for (verb, held) in [("get_or_into", &or_values), ("get_or", &or_new)] {
            let right = expected[i].unwrap_or(default);
            assert_eq!(value_bits(held[i]), right, "{verb}, {}", at());
        }
    }
    assert!(
        values[n..].iter().all(is_canary),
        "get_into wrote beyond its batch of {n}"
    );
    assert!(
        found[n..].iter().all(is_canary),
        "get_into wrote beyond its batch of {n}"
    );
    assert!(
        or_values[n..].iter().all(is_canary),
        "get_or_into wrote beyond its batch of {n}"
    );
}

#[test]
fn present_and_absent_keys() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let most = on.n(9_001, 3_000_000);
        let map = on.map::<K, V>(most / 2 + 1);
        // Every second key of the sequence.
        let batch = Batch::<K, V>::numbered((0..most as u64).step_by(2), 1);
        map.insert(&batch.keys, &batch.values).unwrap();
        let oracle = batch.bits().collect();
        for n in [0, 1, 31, 32, 33, 255, 256, 257, 511, 512, 513, most] {
            let keys: Vec<K> = (0..n as u64).map(nth_key).collect();
            ask_all_ways(on, &map, &keys, &oracle);
        }
        // All of them there, none of them there.
        ask_all_ways(on, &map, &batch.keys, &oracle);
        let absent: Vec<K> = (most as u64..most as u64 + 600).map(nth_key).collect();
        ask_all_ways(on, &map, &absent, &oracle);
    }
    on_every_format!(body);
}

/// As in tables that exceed the TLB reach of the device.
#[test]
fn keys_that_are_sorted_before_they_are_looked_up() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let most = on.n(9_001, 3_000_000);
        let map: Map<K, V> = on
            .builder()
            .capacity(most)
            .bulk_from([usize::MAX, usize::MAX, 1])
            .build()
            .unwrap();
        // Every second key of the sequence, and the words that stand for states.
        let ones = pairs::mask(size_of::<K>());
        let mut batch = Batch::<K, V>::numbered((0..most as u64).step_by(2), 1);
        batch.keys[0] = key(ones - 1);
        map.insert(&batch.keys, &batch.values).unwrap();
        let oracle = batch.bits().collect();
        for n in [0, 1, 33, 512, 513, most] {
            let mut keys: Vec<K> = (0..n as u64).map(nth_key).collect();
            for (place, word) in keys.iter_mut().step_by(7).zip(0..4) {
                *place = key(ones - word);
            }
            ask_all_ways(on, &map, &keys, &oracle);
        }
        // One bin runs over: they are looked up as they are.
        ask_all_ways(on, &map, &vec![nth_key(1); most], &oracle);
    }
    on_every_format!(body);
}

#[test]
fn every_kind_of_pair() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map::<K, V>(1_000);
        let batch = Batch::<K, V>::numbered(0..500, 3);
        map.insert(&batch.keys, &batch.values).unwrap();
        let keys: Vec<K> = (0..1_000).map(nth_key).collect();
        ask_all_ways(on, &map, &keys, &batch.bits().collect());
    }
    on_every_pair!(body);
}

#[test]
fn an_empty_map_has_nothing() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let mut keys: Vec<K> = pairs::patterns(size_of::<K>())
            .into_iter()
            .map(key)
            .collect();
        keys.extend((0..300).map(nth_key::<K>));
        for capacity in [0, 1, 1_000] {
            let map = on.map::<K, V>(capacity);
            ask_all_ways(on, &map, &keys, &Oracle::new());
            assert!(map.is_empty());
        }
    }
    on_every_pair!(body);
}

#[test]
fn every_bit_pattern_is_its_own_key() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let keys = pairs::patterns(size_of::<K>());
        let values = pairs::patterns(size_of::<V>());
        let asked: Vec<K> = keys.iter().map(|&bits| key(bits)).collect();
        // Each pattern alone in a map, with each pattern of a value; then all but it.
        let map = on.map::<K, V>(keys.len());
        for (i, &k) in keys.iter().enumerate() {
            let v = values[i % values.len()];
            map.clear().unwrap();
            map.insert(&[key(k)], &[value(v)]).unwrap();
            ask_all_ways(on, &map, &asked, &[(k, v)].into());
            map.clear().unwrap();
            let rest = Batch::<K, V>::of(keys.iter().filter(|&&other| other != k).map(|&k| (k, v)));
            map.insert(&rest.keys, &rest.values).unwrap();
            ask_all_ways(on, &map, &asked, &rest.bits().collect());
        }
    }
    on_every_format!(body);
}

#[test]
fn one_key_asked_for_many_times() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map::<K, V>(100);
        let batch = Batch::<K, V>::numbered(0..50, 1);
        map.insert(&batch.keys, &batch.values).unwrap();
        let oracle = batch.bits().collect();
        let n = on.n(3_000, 1_000_000);
        for k in [nth_key::<K>(0), nth_key(49), nth_key(50), key(!0)] {
            ask_all_ways(on, &map, &vec![k; n], &oracle);
        }
    }
    on_every_format!(body);
}

#[test]
fn crowded_tables() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // Every slot taken, so that a lookup walks over page ends, round the submap and off its
        // end.
        let slots = on.n(512, 2_048);
        for page_slabs in [1, 4, 32, 512] {
            for submap_slots in [vec![slots], vec![slots / 4, slots / 2, slots / 4]] {
                let case = format!("submaps of {submap_slots:?} slots, pages of {page_slabs}");
                noting(&case, || {
                    let shape = Shape::new::<K, V>(&submap_slots, page_slabs, 11);
                    let map = shape.builder::<K, V>(on).build().unwrap();
                    let batch = Batch::<K, V>::numbered(shape.filling::<K>(0), 1);
                    assert_eq!(
                        map.insert(&batch.keys, &batch.values).unwrap(),
                        shape.slots()
                    );
                    assert_eq!(map.len(), map.slots());
                    let oracle: Oracle = batch.bits().collect();
                    let mut keys = batch.keys;
                    keys.extend((1 << 30..(1 << 30) + 70).map(nth_key::<K>));
                    assert_eq!(oracle.len() + 70, keys.len());
                    ask_all_ways(on, &map, &keys, &oracle);
                });
            }
        }
    }
    on_every_format!(body);
}

#[test]
fn keys_from_everywhere() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map::<K, V>(300);
        let batch = Batch::<K, V>::numbered(0..300, 1);
        map.insert(&batch.keys, &batch.values).unwrap();
        let keys: Vec<K> = (100..400).map(nth_key).collect();
        let expected: Vec<_> = map
            .get(&keys)
            .unwrap()
            .into_iter()
            .map(|v| v.map(value_bits))
            .collect();
        assert_eq!(expected.iter().flatten().count(), 200);
        let answers = |got: Vec<Option<V>>| {
            got.into_iter()
                .map(|v| v.map(value_bits))
                .collect::<Vec<_>>()
        };

        let device = Buffer::from_slice(&on.stream(), &keys).unwrap();
        let mut pinned = PinnedBuffer::<K>::zeroed(on.device(), keys.len()).unwrap();
        pinned.copy_from_slice(&keys);
        assert_eq!(answers(map.get(&device).unwrap()), expected);
        assert_eq!(answers(map.get(&pinned).unwrap()), expected);
        assert_eq!(
            answers(map.get(&keys.clone().into_boxed_slice()).unwrap()),
            expected
        );
        for range in [0..0, 1..2, 1..300, 77..211] {
            let view = device.slice(range.clone()).unwrap();
            assert_eq!(answers(map.get(&view).unwrap()), expected[range.clone()]);
            let contained = map.contains(&view).unwrap();
            assert!(
                contained
                    .iter()
                    .zip(&expected[range])
                    .all(|(&there, v)| there == v.is_some())
            );
        }
        // The answers of one lookup are the keys of the next: buffers stay on the device.
        let mut values = Buffer::<V>::zeroed(&on.stream(), keys.len()).unwrap();
        map.get_or_into(&device, value(0), &mut values).unwrap();
        let back = on.map::<K, V>(300);
        assert_eq!(back.insert(&device, &values).unwrap(), 300);
        let mut found = Buffer::<u8>::zeroed(&on.stream(), keys.len()).unwrap();
        back.get_into(&device, &mut values, &mut found).unwrap();
        let pairs = values.to_vec().unwrap().into_iter().zip(&expected);
        assert!(
            pairs
                .into_iter()
                .all(|(v, e)| value_bits(v) == e.unwrap_or(0))
        );
        assert!(found.to_vec().unwrap().iter().all(|&f| f == 1));
    }
    on_every_format!(body);
}
