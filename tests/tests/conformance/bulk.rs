//! Large batches, which are sorted by hash, and empty maps that are built: the same results as for
//! batches that are not. The thresholds are lowered, so that small batches take those ways.

use gpumap::{Buffer, Error, Growth, Key, Map, MapBuilder, Merge, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::{self, nth_key, slot_bytes, value_by};
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, contents, key, key_bits, on_every_format, on_every_pair,
    on_formats_with_values, oracle, value_bits,
};

const SEED: u64 = 11;

const NEVER: usize = usize::MAX;
/// Empty maps are built, all other batches go to maps in use page by page, or are sorted.
const ALL: [usize; 3] = [1; 3];

/// Maps of several shapes for `n` pairs: named builders, thresholds not yet set.
fn shapes<K: Key, V: Numeric>(on: &Target, n: usize) -> [(&'static str, MapBuilder<K, V>); 5] {
    let of = || on.builder().capacity(n).hash_seed(SEED);
    [
        ("by default", of()),
        ("pages of two slabs", of().page_slabs(2)),
        ("three submaps", of().submaps(3).page_slabs(8)),
        (
            "nearly full pages",
            of().submaps(2).max_load_factor(0.95).page_slabs(32),
        ),
        (
            "unequal submaps",
            of().submap_slots(&[n / 2, 4 * n, n]).page_slabs(4),
        ),
    ]
}

/// A name, how many distinct keys, and the key bits of pair `i`.
type Case = (&'static str, u64, Box<dyn Fn(u64) -> u64>);

/// Batches of `n` pairs, by the bits of their keys.
fn cases<K: Key>(n: u64) -> [Case; 8] {
    let ones = pairs::mask(size_of::<K>());
    let number = |i: u64| key_bits(nth_key::<K>(i));
    let hash = |bits: u64| pairs::key_hash::<K>(key(bits), SEED);
    // Keys that share their submap, page and bin with one another, whatever the shape.
    let together: Vec<u64> = (0..)
        .map(number)
        .filter(|&bits| hash(bits).submap(64).0 == 7)
        .take(n as usize)
        .collect();
    // Keys that call few slabs home: most of them walk.
    let crowded: Vec<u64> = (0..)
        .map(number)
        .filter(|&bits| hash(bits).slab(7) == 1)
        .take(n as usize)
        .collect();
    [
        ("unique keys", n, Box::new(number)),
        (
            "every key ten times",
            n / 10,
            Box::new(move |i| number(i % (n / 10))),
        ),
        (
            "every key twice, side by side",
            n / 2,
            Box::new(move |i| number(i / 2)),
        ),
        ("one key", 1, Box::new(move |_| number(5))),
        ("the reserved words", 3, Box::new(move |i| ones - i % 3)),
        (
            "reserved words among others",
            n - n.div_ceil(50) + 3,
            Box::new(move |i| {
                if i % 50 == 0 {
                    ones - i / 50 % 3
                } else {
                    number(i)
                }
            }),
        ),
        (
            "keys of one region",
            n,
            Box::new(move |i| together[i as usize]),
        ),
        (
            "keys of few homes",
            n,
            Box::new(move |i| crowded[i as usize]),
        ),
    ]
}

fn batch<K: Key, V: Numeric>(n: u64, key_of: &dyn Fn(u64) -> u64) -> Batch<K, V> {
    Batch::of((0..n).map(|i| {
        let bits = key_of(i);
        (bits, value_bits(value_by::<K, V>(key(bits), i as u8)))
    }))
}

#[test]
fn an_empty_map_is_built() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(300, 1_500) as u64;
        for (i, (name, distinct, key_of)) in cases::<K>(n).into_iter().enumerate() {
            let batch = batch::<K, V>(n, &key_of);
            let every = on.stride(3);
            let shapes = shapes(on, n as usize).into_iter();
            for (shape, builder) in shapes.skip(i % every).step_by(every) {
                noting(&format!("{name}, {shape}"), || {
                    let map: Map<K, V> = builder.bulk_from([1, NEVER, 1]).build().unwrap();
                    let new = map.insert(&batch.keys, &batch.values).unwrap();
                    assert_eq!(new as u64, distinct);
                    let mut held = Oracle::new();
                    oracle::adopt(&mut held, &map, batch.bits());
                    assert_holds(&map, &held);
                    // Every walk still ends where it should.
                    assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), 0);
                    let absent: Vec<K> = (1 << 30..(1 << 30) + 300).map(nth_key).collect();
                    assert!(map.contains(&absent).unwrap().iter().all(|&there| !there));
                    assert_eq!(map.remove(&batch.keys).unwrap(), held.len());
                    assert!(contents(&map).is_empty());
                });
            }
        }
    }
    on_every_format!(body);
}

/// In a slab, in two slabs of a walk, and both beyond a home that others have filled. Also if one of the pairs, and those
/// that filled the home, are there before.
#[test]
fn a_key_that_comes_twice_is_found_wherever_its_pairs_lie() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = 230;
        let map: Map<K, V> = on
            .builder()
            .capacity(n as usize)
            .max_load_factor(0.9)
            .hash_seed(SEED)
            .page_slabs(64)
            .growth(Growth::Fixed)
            .bulk_from([1, 1, NEVER])
            .build()
            .unwrap();
        for before in [0, 100, 160] {
            let first = Batch::<K, V>::numbered(0..before, 1);
            for twin in (0..80).step_by(on.stride(7)) {
                // Those that came last before are those that left their homes.
                let twin = if before == 0 {
                    twin
                } else {
                    before + 39 - twin
                };
                let number = |i| key_bits(nth_key::<K>(if i == n - 1 { twin } else { i }));
                let second = batch::<K, V>(n - before, &|i| number(before + i));
                map.clear().unwrap();
                map.insert(&first.keys, &first.values).unwrap();
                let new = map.insert(&second.keys, &second.values).unwrap();
                assert_eq!(
                    new as u64,
                    n - before - 1,
                    "{before} before, key {twin} twice"
                );
                let mut held: Oracle = first.bits().collect();
                oracle::adopt(&mut held, &map, second.bits());
                assert_holds(&map, &held);
            }
        }
    }
    on_every_format!(body);
}

/// More keys call a page home than their walks find room for there, though it has a slot for each: all pages but one.
#[test]
fn pairs_that_find_no_room_in_a_page_are_found_elsewhere() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map: Map<K, V> = on
            .builder()
            .submap_slots(&[2_048])
            .max_load_factor(0.95)
            .hash_seed(SEED)
            .page_slabs(64)
            .growth(Growth::Fixed)
            .bulk_from([1, 1, NEVER])
            .build()
            .unwrap();
        let slab = 64 / slot_bytes::<K, V>();
        let pages = 2_048 / (64 * slab);
        let is_of = |page: usize, bits: u64| {
            let (_, rest) = pairs::key_hash::<K>(key(bits), SEED).submap(1);
            (u64::from(rest) * pages as u64) >> 32 == page as u64
        };
        let of = |page| {
            let numbers = (0..).map(|i| key_bits(nth_key::<K>(i)));
            numbers.filter(move |&bits| is_of(page, bits))
        };
        for missing in 0..4 {
            let there = 64 * slab - missing;
            let mut keys: Vec<u64> = (1..pages).flat_map(|page| of(page).take(there)).collect();
            keys.extend(of(0).take(1_900 - keys.len()));
            let batch = batch::<K, V>(1_900, &|i| keys[i as usize]);
            map.clear().unwrap();
            assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), 1_900);
            assert_holds(&map, &batch.bits().collect());
            assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), 0);
            // Few enough to be added page by page: they find that they are there.
            for part in (0..1_900).step_by(40 * 11) {
                let part = part..part + 40;
                let (keys, values) = (&batch.keys[part.clone()], &batch.values[part]);
                assert_eq!(map.insert(keys, values).unwrap(), 0);
            }
        }
    }
    on_every_format!(body);
}

/// Of the pairs that call a full slab home, those leave that have room nearby. Without that the means are 1.24 and
/// 1.43 for slabs of four slots, 1.10 and 1.22 for eight.
#[test]
fn pairs_of_a_built_map_lie_near_their_homes() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let wide = slot_bytes::<K, V>() == 16;
        // Native blocks move no pair that is placed to make room for another one nearer to its home.
        let most = match (on.is_native(), wide) {
            (false, true) => [1.16, 1.24],
            (false, false) => [1.08, 1.14],
            (true, true) => [1.26, 1.47],
            (true, false) => [1.13, 1.26],
        };
        for (load, most) in [0.8, 0.9].into_iter().zip(most) {
            let slots = on.n(16_384, 1 << 21);
            let map: Map<K, V> = on
                .builder()
                .submap_slots(&[slots])
                .max_load_factor(0.95)
                .hash_seed(SEED)
                .page_slabs(256)
                .bulk_from([1, NEVER, NEVER])
                .build()
                .unwrap();
            assert_eq!(map.slots(), slots);
            let n = (slots as f64 * load) as u64;
            let batch = Batch::<K, V>::numbered(0..n, 1);
            // On the device: from the host they would come in chunks.
            let keys = Buffer::from_slice(&on.stream(), &batch.keys).unwrap();
            let values = Buffer::from_slice(&on.stream(), &batch.values).unwrap();
            assert_eq!(map.insert(&keys, &values).unwrap() as u64, n);
            let mean = map.stats().unwrap().mean_probe_length();
            assert!(mean < most, "{mean} slabs at load {load}");
        }
    }
    on_formats_with_values!(body);
}

/// Half of the pairs are there, and gone later.
fn use_map<K: Key, V: Numeric>(map: &Map<K, V>, second: &Batch<K, V>) {
    let n = second.len() as u64;
    let first = Batch::<K, V>::numbered(n / 2..n + n / 2, 1);
    let new = map.insert(&first.keys, &first.values).unwrap();
    assert_eq!(new as u64, n);
    let mut held: Oracle = first.bits().collect();

    let new = map.insert(&second.keys, &second.values).unwrap();
    assert_eq!(new, oracle::adopt(&mut held, map, second.bits()));
    assert_holds(map, &held);

    let removed = map.remove(&first.keys).unwrap();
    let there = |(k, _): &(u64, u64)| held.remove(k).is_some();
    assert_eq!(removed, first.bits().filter(there).count());
    assert_holds(map, &held);

    // Beside tombstones.
    let new = map.insert(&first.keys, &first.values).unwrap();
    assert_eq!(new, oracle::insert(&mut held, first.bits()));
    assert_holds(map, &held);

    let new = map.upsert(&second.keys, &second.values).unwrap();
    let expected = oracle::adopt_upserted(&mut held, map, second.bits());
    assert_eq!(new, expected);
    assert_holds(map, &held);

    // Of the first, some are there.
    let there: Vec<_> = first.bits().filter(|(k, _)| held.contains_key(k)).collect();
    let merged = map.update_with(&first.keys, &first.values, Merge::Max);
    assert_eq!(merged.unwrap(), there.len());
    assert_eq!(oracle::merge::<V>(&mut held, there, Merge::Max), 0);

    let there: Vec<_> = second
        .bits()
        .filter(|(k, _)| held.contains_key(k))
        .collect();
    let assigned = map.update(&second.keys, &second.values).unwrap();
    assert_eq!(assigned, there.len());
    assert_eq!(oracle::adopt_upserted(&mut held, map, there), 0);
    assert_holds(map, &held);
}

#[test]
fn a_map_in_use_takes_sorted_batches() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(250, 1_500) as u64;
        let all = cases::<K>(n).map(|(name, _, key_of)| (name, batch::<K, V>(n, &key_of)));
        let ways = [
            ("page by page", [NEVER, 1, NEVER]),
            ("built, then page by page", [1, 1, NEVER]),
            ("sorted", [NEVER, NEVER, 1]),
        ];
        let shapes = shapes(on, 2 * n as usize);
        let of_shape = |shape| ways.map(move |way| (shape, way));
        let cases = all.iter().flat_map(|case| {
            let ways = shapes.iter().flat_map(of_shape);
            ways.map(move |(shape, way)| (case, shape, way))
        });
        for ((name, second), (shape, builder), (way, from)) in cases.step_by(on.stride(13)) {
            let map: Map<K, V> = builder.clone().bulk_from(from).build().unwrap();
            noting(&format!("{name}, {shape}, {way}"), || use_map(&map, second));
        }
    }
    on_every_format!(body);
}

#[test]
fn every_verb_of_every_pair() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = (on.n(500, 20_000) / on.stride(3)) as u64;
        // The map is empty before each of the first rounds, with tombstones in the later ones.
        let map: Map<K, V> = on
            .builder()
            .capacity(4 * n as usize)
            .bulk_from(ALL)
            .build()
            .unwrap();
        for round in 0..8u8 {
            let first = u64::from(round) * n / 2;
            let batch = Batch::<K, V>::numbered((first..first + n).chain(first..first + n), round);
            let (keys, values) = (&batch.keys, &batch.values);
            let new = match round % 4 {
                0 => map.insert(keys, values).unwrap(),
                1 => map.upsert(keys, values).unwrap(),
                2 => map.merge(keys, values, Merge::Min).unwrap(),
                _ => {
                    let held = map.get_or_insert(keys, values).unwrap();
                    assert!(
                        held.iter()
                            .map(|&v| value_bits(v))
                            .eq(values.iter().map(|&v| value_bits(v)))
                    );
                    map.len()
                }
            };
            assert_eq!(new as u64, n, "round {round}");
            assert_holds(&map, &batch.bits().collect());
            assert_eq!(map.remove(keys).unwrap() as u64, n);
            assert!(map.is_empty());
        }
    }
    on_every_pair!(body);
}

#[test]
fn outcomes_are_those_of_the_batch_as_it_came() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = 400;
        let map: Map<K, V> = on.builder().capacity(n).bulk_from(ALL).build().unwrap();
        let batch = Batch::<K, V>::numbered(0..n as u64, 1);
        let half = n / 2;
        map.insert(&batch.keys[..half], &batch.values[..half])
            .unwrap();
        let outcomes = map.insert_with_outcome(&batch.keys, &batch.values).unwrap();
        let expected = |i| match i < half {
            true => gpumap::Outcome::Present,
            false => gpumap::Outcome::Inserted,
        };
        assert!(outcomes.iter().copied().eq((0..n).map(expected)));
        let removed = map.remove_with_outcome(&batch.keys).unwrap();
        assert!(removed.iter().all(|&removed| removed));
    }
    on_every_format!(body);
}

#[test]
fn maps_grow_for_batches_that_are_sorted() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(1_500, 30_000) as u64;
        for submaps in [1, 4] {
            let map: Map<K, V> = on
                .builder()
                .submaps(submaps)
                .page_slabs(4)
                .bulk_from(ALL)
                .build()
                .unwrap();
            let mut held = Oracle::new();
            for round in 0..3u8 {
                let first = u64::from(round) * n / 2;
                let batch = Batch::<K, V>::numbered(first..first + n, round);
                let new = map.insert(&batch.keys, &batch.values).unwrap();
                assert_eq!(new, oracle::insert(&mut held, batch.bits()));
                assert!(map.capacity() >= map.len());
                assert_holds(&map, &held);
            }
        }
    }
    on_every_format!(body);
}

#[test]
fn a_batch_that_does_not_fit_is_refused_whole() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for submap_slots in [vec![200], vec![100, 60]] {
            let map: Map<K, V> = on
                .builder()
                .growth(Growth::Fixed)
                .submap_slots(&submap_slots)
                .page_slabs(4)
                .bulk_from(ALL)
                .build()
                .unwrap();
            let n = map.slots() as u64 + 1;
            let large = Batch::<K, V>::numbered(0..n, 1);
            let mut held = Oracle::new();
            for _ in 0..2 {
                match map.insert(&large.keys, &large.values) {
                    Err(Error::Full { partial: false, .. }) => {}
                    other => panic!("not refused: {other:?}"),
                }
                assert_holds(&map, &held);
                // Some that fit, and the same once more into a map that is not empty.
                let small = Batch::<K, V>::numbered(0..50, 2);
                let new = map.insert(&small.keys, &small.values).unwrap();
                assert_eq!(new, oracle::insert(&mut held, small.bits()));
                assert_holds(&map, &held);
            }
        }
    }
    on_every_format!(body);
}

#[test]
fn without_memory_to_sort_batches_go_in_as_they_are() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(1_000, 20_000) as u64;
        let pair = size_of::<K>() + size_of::<V>();
        let batch = Batch::<K, V>::numbered(0..n, 1);
        let slots = 2 * n as usize;
        // From what the map and copies of its batch take, rounded up, to what sorting takes as well.
        let least = slots * 16 + 2 * n as usize * pair + (256 << 10);
        for spare in [0, n as usize * pair, 40 * n as usize * pair] {
            let on = on.with_memory_budget((least + spare) as u64);
            let map: Map<K, V> = on
                .builder()
                .submap_slots(&[slots])
                .bulk_from(ALL)
                .build()
                .unwrap();
            let new = map.insert(&batch.keys, &batch.values).unwrap();
            assert_eq!(new as u64, n);
            map.trim();
            assert_eq!(contents(&map), batch.bits().collect());
        }
    }
    on_every_format!(body);
}

#[test]
fn many_pages_are_built() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(3_000, 1_000_000) as u64;
        for copies in [1, 2, 10] {
            let distinct = n / copies;
            let batch = Batch::<K, V>::numbered((0..n).map(|i| i % distinct), 1);
            let map: Map<K, V> = on
                .builder()
                .capacity(n as usize)
                .page_slabs(if on.device().is_cuda() { 512 } else { 2 })
                .submaps(3)
                .bulk_from(ALL)
                .build()
                .unwrap();
            let new = map.insert(&batch.keys, &batch.values).unwrap();
            assert_eq!(new as u64, distinct);
            assert_holds(&map, &batch.bits().collect());
        }
    }
    on_every_format!(body);
}

#[test]
fn many_threads_store_in_one_empty_map() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(1_000, 20_000) as u64;
        let map: Map<K, V> = on
            .builder()
            .capacity(4 * n as usize)
            .bulk_from(ALL)
            .build()
            .unwrap();
        // Each key by two threads.
        let batches: Vec<_> = (0..4)
            .map(|i| Batch::<K, V>::numbered(i * n / 2..i * n / 2 + n, i as u8))
            .collect();
        let new: usize = std::thread::scope(|scope| {
            let insert = |batch| {
                let (map, batch): (_, &Batch<K, V>) = (&map, batch);
                scope.spawn(move || map.insert(&batch.keys, &batch.values).unwrap())
            };
            let threads: Vec<_> = batches.iter().map(insert).collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(new as u64, 5 * n / 2);
        let mut held = Oracle::new();
        oracle::adopt(&mut held, &map, batches.iter().flat_map(Batch::bits));
        assert_holds(&map, &held);
    }
    on_every_format!(body);
}
