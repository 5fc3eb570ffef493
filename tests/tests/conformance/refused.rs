//! Calls that are refused, for want of memory or of room, leave the map as it was; and those that are not lose
//! nothing, however full it is.

use gpumap::{Error, Growth, Key, Map, MapBuilder, Merge, Numeric, Operation, Result};
use gpumap_tests::device::noting;
use gpumap_tests::memory::{BUDGET, starve};
use gpumap_tests::pairs::{nth_key, slot_bytes};
use gpumap_tests::{
    Batch, Oracle, Shape, Target, assert_holds, contents, on_every_target, on_pairs, value,
    value_bits,
};

/// Has `call` try with more and more memory until it succeeds; in larger steps on the checked executor, since what is allocated is
/// up to the host.
fn until_it_succeeds(on: &Target, mut call: impl FnMut(u64) -> Result<()>) {
    let mut refused = 0;
    for left in (0..4 << 20).step_by(512 * on.stride(8)) {
        match noting(&format!("{left} bytes left"), || call(left)) {
            Ok(()) => {
                assert!(refused > 0, "there was memory from the beginning");
                return;
            }
            Err(Error::OutOfMemory { .. } | Error::Full { partial: false, .. }) => refused += 1,
            Err(error) => panic!("{left} bytes left: {error}"),
        }
    }
    panic!("refused with 4 MiB left");
}

/// Most of the keys are there, or equal to others.
fn much_of_the_same<K: Key, V: Numeric>(held: u64) -> Batch<K, V> {
    let nth = |i: u64| match i % 2 {
        0 => i / 2 % held,
        _ => 1_000_000 + i % (held / 3),
    };
    Batch::of((0..6_000).map(|i| (nth(i), 1)))
}

#[test]
fn stores_that_memory_ends_for_change_nothing() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        type Call<K, V> = fn(&Map<K, V>, &Batch<K, V>) -> Result<()>;
        let verbs: [(&str, Call<K, V>); 3] = [
            ("merge", |map, batch| {
                map.merge(&batch.keys, &batch.values, Merge::Add).map(drop)
            }),
            ("upsert", |map, batch| {
                map.upsert(&batch.keys, &batch.values).map(drop)
            }),
            ("get_or_insert", |map, batch| {
                map.get_or_insert(&batch.keys, &batch.values).map(drop)
            }),
        ];
        for (verb, call) in verbs {
            until_it_succeeds(on, |left| {
                let on = &on.with_memory_budget(BUDGET);
                let map: Map<K, V> = on.builder().capacity(3_000).hash_seed(3).build().unwrap();
                let held = map.capacity() as u64 - 900;
                let first = Batch::<K, V>::of((0..held).map(|i| (i, 7)));
                map.insert(&first.keys, &first.values).unwrap();
                map.trim();
                let taken = starve(on, left);
                let outcome = call(&map, &much_of_the_same(held));
                drop(taken);
                if outcome.is_err() {
                    assert_eq!(contents(&map), first.bits().collect(), "{verb}");
                }
                outcome
            });
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn a_map_that_has_no_memory_to_grow_says_so() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // More capacity than its submaps have slots, so that pairs which it has room for find none.
        let shape = Shape::new::<K, V>(&[8, 64, 8], 1, 3);
        let batch = Batch::<K, V>::of((0..300).map(|i| (i, 7)));
        // With memory for the batch, and none for more slots.
        for left in (0..1 << 20).step_by(512) {
            let on = &on.with_memory_budget(BUDGET);
            let builder = shape.builder::<K, V>(on).capacity(1_000);
            let map = builder.growth(Growth::By(2.0)).build().unwrap();
            let taken = starve(on, left);
            let error = map.insert(&batch.keys, &batch.values).unwrap_err();
            drop(taken);
            if !matches!(error, Error::OutOfMemory { .. }) {
                let Error::Full {
                    growth: Some(cause),
                    partial: true,
                    ..
                } = &error
                else {
                    panic!("{left} bytes left: {error:?}");
                };
                assert!(matches!(**cause, Error::OutOfMemory { .. }), "{cause:?}");
                let text = error.to_string();
                assert!(text.contains("it could not grow: "), "{text}");
                assert!(!text.contains("or let it grow"), "{text}");
                map.insert(&batch.keys, &batch.values).unwrap();
                return assert_holds(&map, &batch.bits().collect());
            }
        }
        panic!("memory ended for the batch itself");
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn cells_of_an_arena_are_in_one_place_after_memory_ended() {
    on_every_target(|on| {
        until_it_succeeds(on, |left| {
            let on = &on.with_memory_budget(BUDGET);
            let builder = Map::<u32, [u32; 5]>::builder(on.device());
            let map = builder.capacity(3_000).hash_seed(3).build().unwrap();
            let batch = |keys: &mut dyn Iterator<Item = u32>| -> (Vec<u32>, Vec<[u32; 5]>) {
                keys.map(|k| (k, [k; 5])).unzip()
            };
            let held = 2_000;
            let (keys, values) = batch(&mut (0..held));
            map.insert(&keys, &values).unwrap();
            // Cells for all that follows.
            map.reserve(20_000).unwrap();
            let capacity = map.stats().unwrap().capacity;
            let (rest, values) = batch(&mut (10_000_000..).take(capacity - held as usize - 600));
            map.insert(&rest, &values).unwrap();
            map.trim();

            let taken = starve(on, left);
            let much: Batch<u32, ()> = much_of_the_same(held.into());
            let (keys, values) = batch(&mut much.keys.iter().copied());
            let outcome = map.upsert(&keys, &values);
            drop(taken);
            // Cells that are free twice would be handed out twice.
            let (more, values) = batch(&mut (5_000_000..5_000_400));
            map.insert(&more, &values).unwrap();
            let (keys, values) = map.retrieve_all().unwrap();
            assert!(keys.iter().zip(&values).all(|(&k, v)| *v == [k; 5]));
            if outcome.is_err() {
                assert_eq!(keys.len(), held as usize + rest.len() + more.len());
            }
            outcome.map(drop)
        });
    });
}

/// A map that is full to the last slots that pairs find by their own walks.
fn brimful<K: Key, V: Numeric>(on: &Target, seed: u64) -> (Map<K, V>, Batch<K, V>) {
    let builder = on.builder().capacity(3_000).max_load_factor(0.95);
    filled(builder.hash_seed(seed), 0)
}

/// The same of other settings; of several submaps others may take in what one has no room for, so some keys are
/// left out.
fn filled<K: Key, V: Numeric>(
    builder: MapBuilder<K, V>,
    mut left_out: u64,
) -> (Map<K, V>, Batch<K, V>) {
    let map = builder.growth(Growth::Fixed).build().unwrap();
    let (mut held, mut next, mut step) = (Vec::new(), 0, 1024);
    while step > 0 {
        let numbers = next..next + step;
        let batch = Batch::<K, V>::numbered(numbers.clone(), 1);
        match map.insert(&batch.keys, &batch.values) {
            Ok(_) => {
                held.extend(numbers);
                next += step;
            }
            Err(Error::Full { partial: false, .. }) => {
                step /= 2;
                if step == 0 && left_out > 0 {
                    (next, step, left_out) = (next + 1, 1, left_out - 1);
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    (map, Batch::numbered(held, 1))
}

#[test]
fn retaining_keys_of_a_brimful_map_loses_none() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for seed in (0..4).step_by(on.stride(4)) {
            let (map, held) = brimful::<K, V>(on, seed);
            let kept: Vec<K> = held.keys.iter().rev().copied().collect();
            assert_eq!(map.retain_keys(&kept).unwrap(), 0);
            assert_holds(&map, &held.bits().collect());
            let half = &kept[..kept.len() / 2];
            assert_eq!(map.retain_keys(half).unwrap(), kept.len() - half.len());
            let right: Oracle = held.bits().skip(kept.len() - half.len()).collect();
            assert_holds(&map, &right);
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

/// A second table that is larger has as many submaps, and the map knows what it has now.
///
/// Audit finding 0b: whether it has to be larger is up to the order in which a GPU stores the pairs. Of one submap, which
/// is full to its last slots, it is for most seeds; so it is tried until it was.
#[test]
fn second_tables_have_as_many_submaps() {
    const MOST_SEEDS: u64 = 64;
    fn body<K: Key, V: Numeric>(on: &Target) {
        for (submaps, left_out) in [(1, 0), (3, 10)] {
            let mut larger = 0;
            for seed in 0..MOST_SEEDS {
                if seed >= 2 && (larger > 0 || submaps > 1) {
                    break;
                }
                let builder = on.builder().capacity(3_000).max_load_factor(0.95);
                let builder = builder.submaps(submaps).hash_seed(seed);
                let (map, held) = filled::<K, V>(builder, left_out);
                let reserved = Batch::<K, V>::of((0..3).map(|i| (!i, i)));
                map.insert(&reserved.keys, &reserved.values).unwrap();
                let right: Oracle = held.bits().chain(reserved.bits()).collect();
                let (slots, capacity) = (map.slots(), map.capacity());
                let kept = reserved.keys.iter().chain(&held.keys).rev();
                let kept: Vec<K> = kept.copied().collect();
                assert_eq!(map.retain_keys(&kept).unwrap(), 0);
                assert_holds(&map, &right);
                larger += usize::from(map.slots() > slots);
                assert!(map.slots() >= slots && map.submaps() == submaps as usize);
                assert_eq!(map.slots() > slots, map.capacity() > capacity);
                let stats = map.stats().unwrap();
                let slot_bytes = slot_bytes::<K, V>() as u64;
                assert_eq!(stats.table_bytes, map.slots() as u64 * slot_bytes);
                assert_eq!((stats.len, stats.tombstones), (right.len(), 0));
                // What it says that it has room for, it has.
                if let Some(room) = map.capacity().checked_sub(map.len()) {
                    let first = 1 << 20;
                    let more = Batch::<K, V>::numbered(first..first + room as u64, 2);
                    assert_eq!(map.insert(&more.keys, &more.values).unwrap(), room);
                }
                let half = &held.keys[..held.len() / 2];
                map.retain_keys(half).unwrap();
                assert_holds(&map, &held.bits().take(half.len()).collect());
            }
            assert!(
                larger > 0 || submaps > 1,
                "all pairs found room in a table of the same size, with each of {MOST_SEEDS} seeds"
            );
        }
    }
    on_pairs!(body: u64 => u64);
}

#[test]
fn keys_are_retained_without_memory_for_a_second_table() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let on = &on.with_memory_budget(BUDGET);
        let half = Batch::<K, V>::numbered(0..1_500, 1);
        let others: Vec<K> = (1_500..3_000).map(nth_key).collect();
        let absent: Vec<K> = (100_000..101_000).map(nth_key).collect();
        for full in [None, Some(0), Some(1)] {
            let (map, held) = match full {
                Some(seed) => brimful::<K, V>(on, seed),
                None => (on.fixed(3_000), Batch::numbered(0..3_000, 1)),
            };
            map.insert(&held.keys, &held.values).unwrap();
            // With the scratch memory of such a call.
            map.get(&held.keys).unwrap();
            map.retain_keys(&held.keys).unwrap();
            let taken = starve(on, 1_000);
            let reversed: Vec<K> = held.keys.iter().rev().copied().collect();
            let all = map.retain_keys(&reversed);
            match full {
                None => assert_eq!(all.unwrap(), 0),
                // There may be room for all in any order, if it was made larger.
                Some(_) => assert!(
                    matches!(all, Ok(0) | Err(Error::OutOfMemory { .. })),
                    "{all:?}"
                ),
            }
            drop(taken);
            assert_holds(&map, &held.bits().collect());
            let taken = starve(on, 1_000);
            // As many absent keys as leave those of the batch fewer than before.
            let asked = [&half.keys[..], &absent[..1_000]].concat();
            let removed = map.retain_keys(&asked).unwrap();
            drop(taken);
            assert_eq!(removed, held.len() - half.len());
            assert_holds(&map, &half.bits().collect());
            for gone in [&others, &absent] {
                assert!(map.contains(gone).unwrap().iter().all(|&there| !there));
            }
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn pairs_are_removed_and_stored_again_in_one_batch_of_a_full_map() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for fixed in [true, false] {
            let on = &on.with_memory_budget(BUDGET);
            let builder = on.builder::<K, V>().capacity(3_000).max_load_factor(0.95);
            let map = match fixed {
                true => builder.growth(Growth::Fixed).build().unwrap(),
                false => builder.build().unwrap(),
            };
            let n = map.capacity();
            let held = Batch::<K, V>::numbered(0..n as u64, 1);
            map.insert(&held.keys, &held.values).unwrap();
            let operations: Vec<Operation> = [Operation::Remove, Operation::Insert]
                .into_iter()
                .flat_map(|operation| vec![operation; n])
                .collect();
            let keys: Vec<K> = held.keys.iter().chain(&held.keys).copied().collect();
            let values = vec![value::<V>(7); 2 * n];
            // Memory for a second table, not for a larger one.
            let second = map.slots() as u64 * 16 + (64 << 10);
            // The scratch memory of such a call, and no tombstones.
            map.apply(&vec![Operation::Get; 2 * n], &keys, &values)
                .unwrap();
            // Without it nothing is done.
            let taken = starve(on, 8 << 10);
            let refused = map
                .apply(&operations, &keys, &values)
                .map(|answers| answers.len());
            assert!(
                matches!(refused, Err(Error::OutOfMemory { .. })),
                "{refused:?}"
            );
            drop(taken);
            assert_holds(&map, &held.bits().collect());
            let taken = (!on.device().is_cuda()).then(|| starve(on, second));
            let answers = map.apply(&operations, &keys, &values);
            drop(taken);
            answers.unwrap();
            // A key is there unless its removal came last; and whatever is there has a value that it was given.
            let kept = contents(&map);
            assert_eq!(kept.len(), map.len());
            let right: Oracle = held.bits().collect();
            let seven = value_bits(value::<V>(7));
            assert!(kept.iter().all(|(k, &v)| v == seven || right[k] == v));
            assert_holds(&map, &kept);
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}
