//! Whole maps on executors with a random schedule: the host's side of every verb, and batches
//! of several blocks, under many interleavings. For the device code alone see
//! `interleavings.rs`. On the CPU whatever the target, as is a lent map beside batches of threads.

use std::sync::Barrier;

use gpumap::map_ref::MapRef;
use gpumap::simt::kernel::Grid;
use gpumap::simt::{kernel, kernel_args, thread};
use gpumap::{Device, Error, Growth, Key, Map, Merge, Numeric, Stream};
use gpumap_tests::pairs::{key_hash, nth_key, slot_bytes};
use gpumap_tests::{Batch, Oracle, Target, assert_holds, contents, on_random_schedules, oracle};

#[test]
fn duplicates_across_blocks() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for slots in [4, 8] {
            let map = on
                .builder::<K, V>()
                .submap_slots(&[slots])
                .capacity(1_000)
                .build()
                .unwrap();
            let distinct = map.slots() as u64;
            // Two blocks; every key in each of them.
            let batch = Batch::<K, V>::numbered((0..300).map(|i| i % distinct), 1);
            assert_eq!(
                map.insert(&batch.keys, &batch.values).unwrap() as u64,
                distinct
            );
            let mut held = Oracle::new();
            oracle::adopt(&mut held, &map, batch.bits());
            assert_holds(&map, &held);
            oracle::add(&mut held, batch.bits(), size_of::<V>());
            assert_eq!(
                map.merge(&batch.keys, &batch.values, Merge::Add).unwrap(),
                0
            );
            assert_holds(&map, &held);
        }
    }
    on_random_schedules!(30, body);
}

#[test]
fn maps_that_are_built_and_batches_in_bins() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for page_slabs in [2, 4] {
            let map = on
                .builder()
                .submap_slots(&[20, 50])
                .page_slabs(page_slabs)
                .capacity(1_000)
                .bulk_from([1; 3])
                .build()
                .unwrap();
            // Pages get each key several times, and more distinct ones than their home slabs hold.
            let batch = Batch::<K, V>::numbered((0..180).map(|i| i % 45), 1);
            assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), 45);
            let mut held = Oracle::new();
            oracle::adopt(&mut held, &map, batch.bits());
            assert_holds(&map, &held);
            let next = Batch::<K, V>::numbered((0..120).map(|i| 40 + i % 15), 2);
            assert_eq!(map.insert(&next.keys, &next.values).unwrap(), 10);
            oracle::adopt(&mut held, &map, next.bits());
            assert_holds(&map, &held);
            assert_eq!(map.remove(&batch.keys).unwrap(), 45);
            assert_eq!(map.len(), 10);
        }
    }
    on_random_schedules!(8, body: u32 => u32, u64 => u64, u64 => ());
}

/// Two homes with twice as many pairs as slots, in a page where few slabs have room: the pairs that
/// have no slot agree on which pair makes way for which of them.
#[test]
fn pages_with_crowded_homes() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        const SLABS: u32 = 16;
        let slots = 64 / slot_bytes::<K, V>();
        let map: Map<K, V> = on
            .builder()
            .submap_slots(&[SLABS as usize * slots])
            .page_slabs(SLABS)
            .max_load_factor(0.95)
            .hash_seed(1)
            .bulk_from([1, usize::MAX, usize::MAX])
            .build()
            .unwrap();
        let calls = |slab: u32| match slab {
            3 | 9 => 2 * slots,
            0 | 6 | 7 | 12 | 14 => slots / 4,
            _ => slots,
        };
        let home = |&i: &u64| key_hash::<K>(nth_key(i), 1).slab(SLABS - 1);
        let of = |slab: u32| (0..).filter(move |i| home(i) == slab).take(calls(slab));
        let batch = Batch::<K, V>::numbered((0..SLABS).flat_map(of), 1);
        let n = batch.len();
        assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), n);
        assert_holds(&map, &batch.bits().collect());
    }
    on_random_schedules!(20, body);
}

#[test]
fn a_refused_batch_of_several_blocks() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = on.map_of::<K, V>(&[8]);
        let slots = map.slots() as u64;
        let first = Batch::<K, V>::numbered(0..slots / 2, 1);
        map.insert(&first.keys, &first.values).unwrap();
        let held: Oracle = first.bits().collect();
        let batch = Batch::<K, V>::numbered((0..300).map(|i| i % (slots + 1)), 2);
        for stored in [
            map.insert(&batch.keys, &batch.values),
            map.merge(&batch.keys, &batch.values, Merge::Add),
        ] {
            assert!(
                matches!(stored, Err(Error::Full { partial: false, .. })),
                "{stored:?}"
            );
        }
        assert_holds(&map, &held);
    }
    on_random_schedules!(30, body);
}

#[test]
fn sums_across_blocks() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for distinct in [1, 2, 5] {
            let map = on.map::<K, V>(300);
            let batch = Batch::<K, V>::numbered((0..300).map(|i| i % distinct), 1);
            let mut held = Oracle::new();
            oracle::add(&mut held, batch.bits(), size_of::<V>());
            assert_eq!(
                map.merge(&batch.keys, &batch.values, Merge::Add).unwrap() as u64,
                distinct
            );
            assert_eq!(contents(&map), held);
            let absent = map.get(&[nth_key::<K>(distinct)]).unwrap();
            assert!(absent[0].is_none());
        }
    }
    on_random_schedules!(20, body);
}

kernel_args! {
    /// Arguments of [`FILL`].
    struct FillArgs {
        map: MapRef<u64, u64>,
        n: u64,
    }
}
kernel! {
    /// Stores as many of `n` keys as there is room for.
    static FILL = fn fill(args: FillArgs) {
        let i = thread::index();
        if i < args.n {
            // SAFETY: the map was lent to this launch.
            let _ = unsafe { args.map.insert(1 << 40 | i, i) };
        }
    }
}

#[test]
fn an_unbounded_launch_takes_no_room_from_batches_in_flight() {
    // Of lanes both, and of lanes beside a batch that is stored natively in the same table.
    for device in [Device::checked(), Device::cpu()] {
        unbounded_beside_batches(&device);
    }
}

fn unbounded_beside_batches(device: &Device) {
    const SLOTS: usize = 256;
    let stream = Stream::new(device).unwrap();
    let map = Map::<u64, u64>::builder(device)
        .growth(Growth::Fixed)
        .submap_slots(&[SLOTS])
        .build()
        .unwrap();
    let batch: Vec<u64> = (0..map.capacity() as u64).collect();
    for _ in 0..200 {
        map.clear().unwrap();
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                let launched = map.launch_unbounded(&stream, |map| {
                    let grid = Grid::covering(2 * SLOTS as u64, 64);
                    let n = 2 * SLOTS as u64;
                    // SAFETY: on the stream that the map was lent for, and no other pointers.
                    unsafe { FILL.launch(&stream, grid, FillArgs { map, n }) }
                });
                assert!(launched.unwrap().full > 0, "not filled up");
            });
            start.wait();
            match map.insert(&batch, &batch) {
                Ok(new) => assert_eq!(new, batch.len()),
                Err(Error::Full { partial, .. }) => assert!(!partial, "room that was promised"),
                Err(other) => panic!("{other}"),
            }
        });
        assert_eq!(map.len(), SLOTS);
    }
}
