//! Keys made to collide under a known seed: in a map with another seed they are keys like
//! all others, and in the map that they were made for everything ends, soon, and is right.

use std::time::Duration;

use gpumap::executor::Config;
use gpumap::op::{self, Execute};
use gpumap::{
    Device, Error, Growth, Key, Map, MapBuilder, Merge, MultiMap, Numeric, Word, WordKey,
};
use gpumap_kernels::hash::{KeyHash, mix64};
use gpumap_kernels::table::MAX_WALK;
use gpumap_tests::adversary::colliding_keys;
use gpumap_tests::device::run_mixed;
use gpumap_tests::faults::Watchdog;
use gpumap_tests::pairs::{slot_bytes, value_by};
use gpumap_tests::{
    Oracle, Target, assert_holds, contents, key, key_bits, on_pairs, value, value_bits,
};

/// The seed that the keys are made for.
const KNOWN: u64 = 0x5eed;

/// Pairs that the walk of one key has room for.
fn walk_slots<K: Key, V: Numeric>() -> usize {
    MAX_WALK as usize * 64 / slot_bytes::<K, V>()
}

/// Colliding keys with values by writer 1.
fn pairs<K: Key, V: Numeric>(n: usize) -> (Vec<K>, Vec<V>) {
    let keys: Vec<K> = colliding_keys(KNOWN, n).into_iter().map(key).collect();
    let values = keys.iter().map(|&k| value_by(k, 1)).collect();
    (keys, values)
}

#[test]
fn keys_made_against_one_seed_do_not_slow_another_map_down() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = walk_slots::<K, V>() * 3 / 4;
        let (keys, values) = pairs::<K, V>(n);
        let mean = |builder: MapBuilder<K, V>| {
            let map = builder.capacity(10 * n).build().unwrap();
            assert_eq!(map.insert(&keys, &values).unwrap(), n);
            assert!(map.contains(&keys).unwrap().into_iter().all(|there| there));
            map.stats().unwrap().mean_probe_length()
        };
        let known = mean(on.builder().hash_seed(KNOWN));
        assert!(known > 100.0, "they collide in {known} slabs on average");
        for builder in [
            on.builder(),
            on.builder(),
            on.builder().hash_seed(KNOWN + 1),
            on.builder().hash_seed(0),
        ] {
            let other = mean(builder);
            // Of two maps the seed is random. At a load of 0.08 and four slots per slab, less than 1 key in 10,000 leaves
            // its slab; for a mean of 1.1 it would take 1 in 10.
            assert!(other < 1.1, "{other} slabs on average under another seed");
        }
    }
    on_pairs!(body: u64 => u32, u64 => u64, u64 => ());
}

#[test]
fn every_map_has_a_seed_of_its_own() {
    // Of few pairs in many slots each order is another: two of 64! are not the same.
    let order = || {
        let map = Map::<u64, u64>::with_capacity(&Device::cpu(), 1_000).unwrap();
        let keys: Vec<u64> = (0..64).collect();
        map.insert(&keys, &keys).unwrap();
        map.retrieve_all().unwrap().0
    };
    assert_ne!(order(), order());
}

/// Panics unless a map holds some of the pairs, each under its key, and no others.
fn assert_holds_some<K: Key, V: Numeric>(map: &Map<K, V>, offered: &Oracle, keys: &[K]) {
    let held = contents(map);
    assert!(held.iter().all(|(k, v)| offered.get(k) == Some(v)));
    let got = map.get(keys).unwrap();
    for (&k, v) in keys.iter().zip(got) {
        let bits = key_bits(k);
        assert_eq!(
            v.map(value_bits),
            held.get(&bits).copied(),
            "get({bits:#x})"
        );
    }
    let probes = map.stats().unwrap().probe_lengths.len();
    assert!(probes <= MAX_WALK as usize, "{probes} slabs");
}

/// Stores more colliding keys than a walk has room for, by every verb; looks them up, removes them.
fn hammer<K: Key, V: Numeric>(on: &Target, growth: Growth, bulk_from: [usize; 3]) {
    let room = walk_slots::<K, V>();
    let n = room + on.n(64, room);
    let (all_keys, all_values) = pairs::<K, V>(n);
    let pair = |(&k, &v)| (key_bits(k), value_bits(v));
    let offered: Oracle = all_keys.iter().zip(&all_values).map(pair).collect();
    // A key takes half a walk, which is long on the executor: there most calls are of few keys.
    let few = on.n(160, n);
    let map = on
        .builder::<K, V>()
        .hash_seed(KNOWN)
        .capacity(4 * room)
        .growth(growth)
        .bulk_from(bulk_from)
        .build()
        .unwrap();
    for round in 0..on.n(1, 3) {
        let (mut keys, mut values) = (all_keys.clone(), all_values.clone());
        for verb in 0..3 {
            let stored = match verb {
                0 => map.insert(&keys, &values),
                1 => map.upsert(&keys, &values),
                _ => map.merge(&keys, &values, Merge::And),
            };
            let refused = matches!(stored, Err(Error::Full { partial: true, .. }));
            assert!(refused, "round {round}, verb {verb}: {stored:?}");
            if verb == 0 {
                // Those that were refused, whichever they are, and some that are in.
                let there = map.contains(&keys).unwrap();
                let mut order: Vec<usize> = (0..n).collect();
                order.sort_by_key(|&i| there[i]);
                order.truncate(few);
                keys = order.iter().map(|&i| keys[i]).collect();
                values = order.iter().map(|&i| values[i]).collect();
            }
            assert_holds_some(&map, &offered, &keys);
            assert_eq!(map.len(), room, "as many as the walk has slots");
            // It does not grow for them again and again.
            let slots = map.slots();
            assert!(slots <= 64 * room, "{slots} slots for {room} pairs");
        }
        let removed = map.remove(&all_keys).unwrap();
        assert_eq!((removed, map.len()), (room, 0));
        // Among tombstones as well.
        let there = map.contains(&keys).unwrap();
        assert!(there.into_iter().all(|there| !there));
        map.shrink_to_fit().unwrap();
        map.reserve(4 * room).unwrap();
    }
    // And other keys have not noticed.
    let others: Vec<K> = (1..500).map(key).collect();
    let theirs: Vec<V> = others.iter().map(|&k| value_by(k, 2)).collect();
    assert_eq!(map.insert(&others, &theirs).unwrap(), others.len());
}

#[test]
fn keys_that_all_hash_to_one_slab_end() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // A kernel that spins hangs a GPU; a slab is read in well under a microsecond.
        let most = Duration::from_secs(on.n(240, 30) as u64);
        let never = [usize::MAX; 3];
        let ways = [
            (Growth::Fixed, never),
            (Growth::By(2.0), never),
            // Pages are made with such a batch, and batches are sorted.
            (Growth::Fixed, [1; 3]),
            (Growth::By(2.0), [1; 3]),
        ];
        for (growth, bulk_from) in ways.into_iter().step_by(on.stride(3)) {
            let _watchdog = Watchdog::after("colliding keys", most);
            hammer::<K, V>(on, growth, bulk_from);
        }
    }
    run_mixed::<u64, u32>(body::<u64, u32>);
    on_pairs!(body: u64 => u64);
}

#[test]
fn colliding_keys_take_no_more_steps_than_their_walks_have() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        if on.device().is_cuda() {
            return; // Steps are counted on the executor.
        }
        let room = walk_slots::<K, V>();
        let (keys, values) = pairs::<K, V>(room + 32);
        // For each slab of the walk of each key, for each lane of its tile: a load, the votes, a claim.
        let step_budget = keys.len() as u64 * u64::from(MAX_WALK) * 4 * 16;
        let device = Device::cpu_with(Config {
            step_budget,
            ..Config::default()
        });
        let on = Target::new(device, on.encoding());
        let builder = on.builder::<K, V>().hash_seed(KNOWN).capacity(4 * room);
        let map = builder.growth(Growth::Fixed).build().unwrap();
        let stored = map.insert(&keys, &values);
        let refused = matches!(stored, Err(Error::Full { partial: true, .. }));
        assert!(refused, "{stored:?}");
        assert_eq!(map.remove(&keys).unwrap(), room);
        assert!(!map.contains(&keys[room..]).unwrap()[0]);
    }
    on_pairs!(body: u64 => u64);
}

#[test]
fn a_chain_of_colliding_keys_is_long_and_right() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let _watchdog = Watchdog::after("a long chain", Duration::from_secs(120));
        let n = 1_500;
        let (keys, values) = pairs::<K, V>(n);
        let longest = |seed: Option<u64>| {
            let builder = on.multi::<K, V>().capacity(4 * n);
            let builder = match seed {
                Some(seed) => builder.hash_seed(seed),
                None => builder,
            };
            let map: MultiMap<K, V> = builder.build().unwrap();
            assert_eq!(map.insert(&keys, &values).unwrap(), n);
            assert_eq!(map.insert(&keys, &values).unwrap(), 0);
            let got = map.get(&keys).unwrap();
            for (got, &v) in got.iter().zip(&values) {
                assert_eq!(got.map(value_bits), Some(value_bits(v)));
            }
            let longest = map.stats().unwrap().longest_chain;
            assert_eq!(map.remove(&keys).unwrap(), n);
            longest
        };
        let known = longest(Some(KNOWN));
        assert!(known >= n / 15, "they are in one chain, of {known} slabs");
        assert!(longest(None) <= 8 && longest(Some(KNOWN + 1)) <= 8);
    }
    on_pairs!(body: u64 => u64);
}

#[test]
fn pairs_in_the_order_of_a_map_with_the_same_seed() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // They come page by page: the first ones all belong to the first pages of the other map.
        let n = on.n(20_000, 1_000_000);
        let keys: Vec<K> = (1..=n as u64).map(key).collect();
        let values: Vec<V> = keys.iter().map(|&k| value_by(k, 1)).collect();
        let map = |pairs| {
            let builder = on.builder::<K, V>().hash_seed(KNOWN);
            builder.capacity(pairs).build().unwrap()
        };
        let first = map(n);
        first.insert(&keys, &values).unwrap();
        let (keys, values) = first.retrieve_all().unwrap();
        let second = map(0);
        let part = n / 16;
        for (keys, values) in keys.chunks(part).zip(values.chunks(part)) {
            assert_eq!(second.insert(keys, values).unwrap(), keys.len());
        }
        assert_eq!(contents(&second), contents(&first));
        assert!(
            second.slots() <= 8 * first.slots(),
            "it grew to {}",
            second.slots()
        );
    }
    on_pairs!(body: u64 => u64);
}

#[test]
fn keys_of_one_region_find_room_down_to_the_last_few() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // When most of them have found room, those that are left are few beside those that have. In a small table a
        // region of a small part of the hash range is less than one page, and two doublings may help none of its keys.
        let n = 40_000 / on.stride(4);
        for parts in [6, 7, 16, 23, 48].into_iter().step_by(on.stride(2)) {
            let in_region = |&i: &u64| KeyHash::new(i, KNOWN).submap(parts).0 == 0;
            let keys: Vec<K> = (1..).filter(in_region).take(n).map(key).collect();
            let values: Vec<V> = keys.iter().map(|&k| value_by(k, 1)).collect();
            let builder = on.builder::<K, V>().hash_seed(KNOWN);
            let map: Map<K, V> = builder.capacity(0).build().unwrap();
            assert_eq!(map.insert(&keys, &values).unwrap(), n, "in 1/{parts}");
            // Twice what it takes if the region is full.
            let most = 4 * parts as usize * n;
            assert!(map.slots() <= most, "it grew to {}", map.slots());
            assert_eq!(map.remove(&keys).unwrap(), n);
        }
    }
    on_pairs!(body: u64 => u64);
}

/// Batches of one block, of which some keys find no room before the table grows: no pair is lost, and none is merged twice.
#[test]
fn keys_of_one_region_find_room_by_small_batches() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // More than the slots of the region and of the pages that walks go on to.
        const PARTS: u32 = 16;
        let n = 2 * walk_slots::<K, V>();
        let in_region = |&i: &u64| KeyHash::new(i, KNOWN).submap(PARTS).0 == 0;
        let keys: Vec<K> = (1..).filter(in_region).take(n).map(key).collect();
        let builder = on.builder::<K, V>().hash_seed(KNOWN).page_slabs(8);
        let map: Map<K, V> = builder.capacity(2 * n).build().unwrap();
        let slots = map.slots();
        let mut expected = Oracle::new();
        let mut from = 0;
        for (i, len) in [1, 8, 9, 32, 200, 256].into_iter().cycle().enumerate() {
            // Some are there already, and are merged once more.
            let old = from.min(i % len.min(7));
            let to = n.min(from + len - old);
            let batch = &keys[from - old..to];
            let (ones, mut is_new) = (vec![value(1); batch.len()], vec![9; batch.len()]);
            let merge = op::merge(batch, &ones, Merge::Add).outcomes(&mut is_new);
            assert_eq!(map.execute(merge).unwrap(), to - from);
            assert!(is_new[..old].iter().all(|&it| it == 0));
            assert!(is_new[old..].iter().all(|&it| it == 1));
            for &k in batch {
                *expected.entry(key_bits(k)).or_default() += 1;
            }
            from = to;
            if from == n {
                break;
            }
        }
        assert!(
            map.slots() > slots,
            "all of them found room in {slots} slots"
        );
        assert_holds(&map, &expected);
    }
    on_pairs!(body: u64 => u32, u64 => u64);
}

/// `n` keys of every region of the hash range whose number a hash chooses, one in `share` of `parts`, region after region.
fn of_scattered_regions(n: usize, parts: u32, share: u64, choice: u64) -> Vec<u64> {
    let mut keys: Vec<(u32, u64)> = (1..=4_000_000)
        .map(|i| (KeyHash::new(i, KNOWN).submap(parts).0, i))
        .filter(|&(part, _)| mix64(u64::from(part) ^ choice << 32).is_multiple_of(share))
        .collect();
    keys.sort_unstable();
    keys.truncate(n);
    assert_eq!(keys.len(), n);
    keys.into_iter().map(|(_, i)| i).collect()
}

#[test]
fn keys_of_scattered_regions_find_room() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        if !on.is_native() && !on.device().is_cuda() {
            return; // The tables are large, and when they grow is decided on the host.
        }
        // A larger table has more slots for each region only once the region is more than a page of it, so some
        // doublings place few of the keys that are left, and more doublings all of them.
        let n = 62_500;
        for (parts, share, choice) in [(64, 8, 1), (150, 32, 3)] {
            let keys = of_scattered_regions(n, parts, share, choice);
            let keys: Vec<K> = keys.into_iter().map(key).collect();
            let values: Vec<V> = keys.iter().map(|&k| value_by(k, 1)).collect();
            let builder = on.builder::<K, V>().hash_seed(KNOWN);
            let map: Map<K, V> = builder.capacity(0).build().unwrap();
            let stored = map.insert(&keys, &values);
            let n_stored =
                stored.unwrap_or_else(|e| panic!("{parts} regions, one in {share}: {e:?}"));
            assert_eq!(n_stored, n);
            assert_eq!(map.remove(&keys).unwrap(), n);
            // Pairs of a refused batch would have needed no more than that.
            assert!(map.slots() <= 256 * n, "it grew to {}", map.slots());
        }
    }
    on_pairs!(body: u64 => u64);
}
