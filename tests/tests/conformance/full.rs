//! A map without room: batches that do not fit are refused whole, and everything ends.

use gpumap::{Error, Growth, Key, Map, Merge, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::{nth_key, value_by};
use gpumap_tests::{
    Batch, Oracle, Shape, Target, assert_holds, contents, key, key_bits, on_every_format,
    on_every_pair, on_pairs, oracle, value_bits,
};

/// Panics unless it is the refusal of this whole batch by this map.
fn assert_refused<K: Key, V: Numeric>(
    result: gpumap::Result<usize>,
    map: &Map<K, V>,
    batch_len: usize,
    held: &Oracle,
) {
    match result {
        Err(Error::Full {
            len,
            slots,
            batch,
            unplaced,
            partial,
            growth: None,
        }) => {
            assert_eq!(
                (len, slots),
                (held.len(), map.slots()),
                "len and slots of the error"
            );
            assert_eq!(batch, batch_len, "batch of the error");
            assert!(!partial, "the map says that it keeps a part");
            assert!((1..=batch_len).contains(&unplaced), "{unplaced} unplaced");
        }
        other => panic!("not refused: {other:?}"),
    }
    assert_holds(map, held);
}

/// Pairs with these numbers, written by 1.
fn numbered<K: Key, V: Numeric>(numbers: std::ops::Range<usize>) -> Batch<K, V> {
    Batch::numbered(numbers.start as u64..numbers.end as u64, 1)
}

#[test]
fn every_slot_can_be_filled_and_no_more() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for slots in [1, 4, 8, 100, on.n(200, 2_048)] {
            // The planned capacity decides whether a batch runs beside others or alone.
            for (batches, planned) in [(1, 0), (3, 0), (1, slots), (3, slots), (3, slots / 2)] {
                let builder = on
                    .builder::<K, V>()
                    .growth(Growth::Fixed)
                    .submap_slots(&[slots]);
                let map = builder.capacity(planned).build().unwrap();
                let slots = map.slots();
                let mut held = Oracle::new();
                for i in 0..batches {
                    let part = numbered::<K, V>(i * slots / batches..(i + 1) * slots / batches);
                    assert_eq!(map.insert(&part.keys, &part.values).unwrap(), part.len());
                    held.extend(part.bits());
                }
                assert_eq!(map.len(), slots);
                assert_eq!(map.load_factor(), 1.0);
                assert_holds(&map, &held);
                for n in [1, 2, 33, on.n(300, 3_000)] {
                    let more = numbered::<K, V>(slots..slots + n);
                    assert_refused(map.insert(&more.keys, &more.values), &map, n, &held);
                }
                // Present keys need no room, however many they are.
                let again = Batch::<K, V>::numbered(0..slots as u64, 2);
                assert_eq!(map.insert(&again.keys, &again.values).unwrap(), 0);
                assert_holds(&map, &held);
                // Absent keys among present ones do.
                let mixed = numbered::<K, V>(0..slots + 1);
                assert_refused(
                    map.insert(&mixed.keys, &mixed.values),
                    &map,
                    slots + 1,
                    &held,
                );
            }
        }
    }
    on_every_format!(body);
}

/// A batch that looks as if all of its keys were present, with the absent one at its end, is merged once or not at all.
#[test]
fn merges_of_present_keys_need_no_room() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let hows = [Merge::Add, Merge::Xor, Merge::Max];
        for how in hows.into_iter().step_by(on.stride(3)) {
            for growth in [Growth::Fixed, Growth::default()] {
                let slots = match growth {
                    // All are filled, as far as a walk goes.
                    Growth::Fixed => 2_000,
                    _ => on.n(2_000, 100_000) / on.stride(2),
                };
                let builder = on.builder::<K, V>().growth(growth);
                let map = builder.submap_slots(&[slots]).build().unwrap();
                let n = match growth {
                    Growth::Fixed => map.slots(),
                    _ => map.capacity(),
                };
                let first = Batch::<K, V>::of((0..n as u64).map(|i| (i, 7)));
                map.insert(&first.keys, &first.values).unwrap();
                let mut held: Oracle = first.bits().collect();

                let present = Batch::<K, V>::of((0..2 * n as u64).map(|i| (i * 7 % n as u64, 3)));
                assert_eq!(oracle::merge::<V>(&mut held, present.bits(), how), 0);
                assert_eq!(map.merge(&present.keys, &present.values, how).unwrap(), 0);
                assert_holds(&map, &held);

                let most = Batch::<K, V>::of((0..=n as u64).map(|i| (i, 5)));
                let merged = map.merge(&most.keys, &most.values, how);
                if growth == Growth::Fixed {
                    assert_refused(merged, &map, n + 1, &held);
                } else {
                    assert_eq!(merged.unwrap(), 1);
                    assert_eq!(oracle::merge::<V>(&mut held, most.bits(), how), 1);
                    assert_holds(&map, &held);
                }
            }
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64, u32 => i64, u64 => i32);
}

#[test]
fn lookups_of_absent_keys_end() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for submap_slots in [vec![1], vec![64], vec![4, 64, 512], vec![100; 9]] {
            let shape = Shape::new::<K, V>(&submap_slots, 8, 5);
            let map = shape.builder::<K, V>(on).build().unwrap();
            let batch = Batch::<K, V>::numbered(shape.filling::<K>(0), 1);
            assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), map.slots());
            assert_absent(&map, 70);
            assert_holds(&map, &batch.bits().collect());
        }
    }
    on_every_format!(body);
}

/// Looks up keys that no test here stores.
fn assert_absent<K: Key, V: Numeric>(map: &Map<K, V>, n: u64) {
    let absent: Vec<K> = (1 << 30..(1 << 30) + n).map(nth_key).collect();
    assert!(map.get(&absent).unwrap().iter().all(Option::is_none));
    assert!(map.contains(&absent).unwrap().iter().all(|&there| !there));
    assert!(map.get(&[key(!0)]).unwrap()[0].is_none());
}

#[test]
fn lookups_in_a_full_table_longer_than_a_walk_end() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // A walk reaches 512 of its slabs.
        let map = Shape::of_slabs::<K, V>(516, 5)
            .builder::<K, V>(on)
            .page_slabs(8)
            .build()
            .unwrap();
        let most = map.slots() * 99 / 100;
        let batch = numbered::<K, V>(0..most);
        assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), most);
        let mut held: Oracle = batch.bits().collect();
        // The last slots by whatever keys reach them; the others are refused.
        for i in most as u64.. {
            if map.len() == map.slots() {
                break;
            }
            let one = Batch::<K, V>::numbered([i], 1);
            if map.insert(&one.keys, &one.values).is_ok() {
                held.extend(one.bits());
            }
        }
        assert_absent(&map, 40);
        assert_holds(&map, &held);
        let more = numbered::<K, V>(1 << 20..(1 << 20) + 40);
        assert_refused(map.insert(&more.keys, &more.values), &map, 40, &held);
    }
    on_every_format!(body);
}

#[test]
fn a_refused_batch_leaves_no_trace() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let slots = on.n(256, 2_048);
        for submap_slots in [vec![slots], vec![slots / 2; 2], vec![4, slots, 16]] {
            for before in [0, slots / 2] {
                for excess in [1, slots, 6 * slots] {
                    let case = format!("{excess} too many for {submap_slots:?} with {before}");
                    noting(&case, || {
                        let builder = on
                            .builder::<K, V>()
                            .growth(Growth::Fixed)
                            .submap_slots(&submap_slots);
                        let map = builder.page_slabs(2).hash_seed(3).build().unwrap();
                        let mut held = Oracle::new();
                        for i in 0..before as u64 {
                            let one = Batch::<K, V>::numbered([i], 1);
                            if map.insert(&one.keys, &one.values).is_ok() {
                                held.extend(one.bits());
                            }
                            // Enough room in no submap is tested too; that is slow one by one.
                            if i == 40 {
                                break;
                            }
                        }
                        let n = map.slots() + excess;
                        // New keys, present ones, repeated ones and the reserved words.
                        let mut batch = numbered::<K, V>(30..30 + n);
                        batch.keys.extend(
                            [!0, !1, !2]
                                .map(key::<K>)
                                .into_iter()
                                .chain([nth_key(31); 2]),
                        );
                        let last = batch.keys[n..].iter().map(|&k| value_by::<K, V>(k, 9));
                        batch.values.extend(last);
                        for _ in 0..3 {
                            let stored = map.insert(&batch.keys, &batch.values);
                            assert_refused(stored, &map, n + 5, &held);
                        }
                        assert!(map.get(&batch.keys).unwrap().iter().zip(&batch.keys).all(
                            |(v, &k)| v.map(value_bits) == held.get(&key_bits(k)).copied()
                        ));
                    });
                }
            }
        }
    }
    on_every_format!(body);
}

#[test]
fn a_batch_of_duplicates_needs_room_for_its_distinct_keys_only() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map_of::<K, V>(&[64]);
        let slots = map.slots() as u64;
        let numbers = (0..50 * slots).map(|i| i % slots);
        let batch = Batch::<K, V>::numbered(numbers, 1);
        assert!(batch.len() > map.capacity());
        assert_eq!(
            map.insert(&batch.keys, &batch.values).unwrap() as u64,
            slots
        );
        let held: Oracle = batch.bits().collect();
        assert_holds(&map, &held);
        // One distinct key too many, repeated.
        let numbers = (0..50 * slots).map(|i| slots - 1 + i % 2);
        let batch = Batch::<K, V>::numbered(numbers, 1);
        assert_refused(
            map.insert(&batch.keys, &batch.values),
            &map,
            batch.len(),
            &held,
        );
    }
    on_every_format!(body);
}

#[test]
fn an_add_that_does_not_fit_changes_nothing() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map_of::<K, V>(&[64]);
        let slots = map.slots();
        let first = numbered::<K, V>(0..slots - 2);
        map.insert(&first.keys, &first.values).unwrap();
        let mut held: Oracle = first.bits().collect();
        // Two would fit, three do not; the present keys' values must not be added to either.
        let mut batch = numbered::<K, V>(0..slots + 1);
        batch.keys.push(key(!0));
        batch.values.push(batch.values[0]);
        for _ in 0..3 {
            assert_refused(
                map.merge(&batch.keys, &batch.values, Merge::Add),
                &map,
                slots + 2,
                &held,
            );
        }
        // Exactly as many as fit.
        let fits = numbered::<K, V>(0..slots);
        let new = oracle::add(&mut held, fits.bits(), size_of::<V>());
        assert_eq!(
            (
                map.merge(&fits.keys, &fits.values, Merge::Add).unwrap(),
                new
            ),
            (2, 2)
        );
        assert_holds(&map, &held);
        // Full, and present keys are still added to.
        oracle::add(&mut held, fits.bits(), size_of::<V>());
        assert_eq!(map.merge(&fits.keys, &fits.values, Merge::Add).unwrap(), 0);
        assert_holds(&map, &held);
    }
    on_every_format!(body);
}

#[test]
fn the_reserved_words_have_room_of_their_own() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map_of::<K, V>(&[8]);
        let mut held = Oracle::new();
        let ones = gpumap_tests::pairs::mask(size_of::<K>());
        let first = Batch::<K, V>::of((0..map.slots() as u64).map(|k| (k, k)));
        assert_eq!(map.insert(&first.keys, &first.values).unwrap(), map.slots());
        held.extend(first.bits());
        // In 16-byte slots a 4-byte key is never one of them: then they need slots like others.
        let apart = size_of::<K>() == gpumap_tests::pairs::word_bytes::<K, V>();
        for i in 0..3 {
            let one = Batch::<K, V>::of([(ones - i, i)]);
            let stored = map.insert(&one.keys, &one.values);
            if apart {
                assert_eq!(stored.unwrap(), 1);
                held.extend(one.bits());
            } else {
                assert_refused(stored, &map, 1, &held);
            }
        }
        assert_holds(&map, &held);
        let more = Batch::<K, V>::of([(ones - 3, 0)]);
        assert_refused(map.insert(&more.keys, &more.values), &map, 1, &held);
    }
    on_every_pair!(body);
}

#[test]
fn a_map_that_refused_goes_on_working() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.fixed::<K, V>(100);
        let mut held = Oracle::new();
        let mut refused = 0;
        for round in 0..30 {
            let batch = numbered::<K, V>(round * 20..round * 20 + 20);
            match map.insert(&batch.keys, &batch.values) {
                Ok(new) => {
                    assert_eq!(new, 20);
                    held.extend(batch.bits());
                }
                stored => {
                    assert_refused(stored, &map, 20, &held);
                    assert!(held.len() + 20 > map.slots(), "refused with room to spare");
                    refused += 1;
                }
            }
            if round == 20 {
                map.clear().unwrap();
                held.clear();
            }
        }
        assert!(refused > 0 && map.len() >= 100);
        assert_holds(&map, &held);
    }
    on_every_format!(body);
}

#[test]
fn far_too_many_end_soon() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.fixed::<K, V>(on.n(1_000, 100_000));
        let n = on.n(20_000, 20_000_000);
        let batch = numbered::<K, V>(0..n);
        assert_refused(
            map.insert(&batch.keys, &batch.values),
            &map,
            n,
            &Oracle::new(),
        );
        assert_refused(
            map.merge(&batch.keys, &batch.values, Merge::Add),
            &map,
            n,
            &Oracle::new(),
        );
        let fits = numbered::<K, V>(0..map.capacity());
        assert_eq!(map.insert(&fits.keys, &fits.values).unwrap(), fits.len());
        assert_holds(&map, &fits.bits().collect());
    }
    on_every_format!(body);
}

#[test]
fn a_map_that_promised_too_much_says_so() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // More capacity than its submaps have slots: only a test can request that. The batch runs
        // beside others then, and cannot be undone.
        let shape = Shape::new::<K, V>(&[8, 64, 8], 1, 3);
        let map = shape.builder::<K, V>(on).capacity(1_000).build().unwrap();
        let batch = numbered::<K, V>(0..300);
        let Err(Error::Full {
            len,
            unplaced,
            partial: true,
            ..
        }) = map.insert(&batch.keys, &batch.values)
        else {
            panic!("not refused in part");
        };
        assert_eq!((len, len + unplaced), (map.slots(), 300));
        let held = contents(&map);
        let offered: Oracle = batch.bits().collect();
        assert!(held.iter().all(|(k, v)| offered.get(k) == Some(v)));
        assert_holds(&map, &held);
    }
    on_every_format!(body);
}

#[test]
fn a_map_that_promised_too_much_and_may_grow_does_and_loses_nothing() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let shape = Shape::new::<K, V>(&[8, 64, 8], 1, 3);
        let builder = shape.builder::<K, V>(on).capacity(1_000);
        let map = builder.growth(Growth::By(2.0)).build().unwrap();
        let batch = numbered::<K, V>(0..300);
        assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), 300);
        assert!(map.slots() >= 300);
        assert_holds(&map, &batch.bits().collect());
    }
    on_every_format!(body);
}

#[test]
fn a_map_that_promised_too_much_says_so_when_the_answer_is_waited_for() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let shape = Shape::new::<K, V>(&[8, 64, 8], 1, 3);
        let map = shape.builder::<K, V>(on).capacity(1_000).build().unwrap();
        let stream = on.stream();
        let batch = numbered::<K, V>(0..300);
        let answer = map.on(&stream).insert(&batch.keys, &batch.values).unwrap();
        let Err(Error::Full {
            len,
            slots,
            unplaced,
            partial: true,
            ..
        }) = answer.wait()
        else {
            panic!("not refused in part");
        };
        assert_eq!((len, slots), (map.slots(), map.slots()));
        assert_eq!(len + unplaced, 300);
        let held = contents(&map);
        let offered: Oracle = batch.bits().collect();
        assert!(held.iter().all(|(k, v)| offered.get(k) == Some(v)));
        // The same without a wait.
        map.clear().unwrap();
        drop(map.on(&stream).insert(&batch.keys, &batch.values).unwrap());
        stream.synchronize().unwrap();
        assert_eq!(map.len(), map.slots());
        assert_holds(&map, &contents(&map));
    }
    on_every_format!(body);
}
