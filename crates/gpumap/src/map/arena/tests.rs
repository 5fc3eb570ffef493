//! The gate, with real threads (`tests/loom` has it in every order of events), and cells that are given back.

use super::super::storage::Store;
use super::Core;
use super::gate::{Gate, Kind};
use crate::sync::Mutex;
use crate::testing::{on_each_back_end, on_every_device};
use crate::{Device, Error, Key, Map, Result, Value};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn kinds_never_meet_and_both_get_their_turn() {
    const ROUNDS: usize = 300;
    let gate = Gate::default();
    let inside = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let met = AtomicUsize::new(0);
    thread::scope(|scope| {
        for kind in [Kind::Replaces, Kind::Removes, Kind::Replaces, Kind::Removes] {
            let (gate, inside, met) = (&gate, &inside, &met);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let _pass = gate.enter(kind);
                    inside[kind as usize].fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                    met.fetch_add(
                        inside[1 - kind as usize].load(Ordering::SeqCst),
                        Ordering::SeqCst,
                    );
                    inside[kind as usize].fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(met.into_inner(), 0);
    assert_eq!(gate.calls(), [[0; 2]; 2]);
}

#[test]
fn one_kind_shares_the_gate() {
    let gate = Gate::default();
    let _one = gate.enter(Kind::Replaces);
    let _two = gate.enter(Kind::Replaces);
    assert_eq!(gate.calls(), [[2, 0], [0; 2]]);
}

#[test]
fn who_waits_holds_newcomers_of_the_other_kind_back() {
    let gate = Gate::default();
    let order = Mutex::new(Vec::new());
    let first = gate.enter(Kind::Replaces);
    let begun = Instant::now();
    let wait_until = |waiting: [usize; 2]| {
        while gate.calls()[1] != waiting {
            let calls = gate.calls();
            assert!(begun.elapsed() < Duration::from_secs(60), "{calls:?}");
            thread::sleep(Duration::from_millis(1));
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let _pass = gate.enter(Kind::Removes);
            order.lock().push(Kind::Removes);
        });
        wait_until([0, 1]);
        scope.spawn(|| {
            let _pass = gate.enter(Kind::Replaces);
            order.lock().push(Kind::Replaces);
        });
        wait_until([1, 1]);
        drop(first);
    });
    assert_eq!(*order.lock(), [Kind::Removes, Kind::Replaces]);
}

fn core_of<K: Key, V: Value>(map: &Map<K, V>) -> &Core {
    match &map.held.store {
        Store::Cells(core) => core,
        Store::Inline(_) | Store::Rows(_) => panic!("a map without cells"),
    }
}

/// Other calls may have taken cells that were added for a batch before it is refused.
#[test]
fn cells_that_other_calls_have_taken_stay() {
    on_every_device(|device| {
        let map = Map::<u64, [u32; 5]>::with_capacity(device, 10).unwrap();
        let cells = map.stats().unwrap().cells.unwrap().cells;
        let taken = core_of(&map).take_cells(10 * cells).unwrap();
        let grown = taken.grown.unwrap();
        // As if these were for another call.
        drop(taken);
        core_of(&map).release_cells(grown);
        assert!(map.stats().unwrap().cells.unwrap().cells >= 10 * cells);
        map.clear().unwrap();
        core_of(&map).release_cells(grown);
        assert_eq!(map.stats().unwrap().cells.unwrap().cells, cells);
    });
}

/// What a map of large values is made of.
fn arena_of(map: &Map<u64, [u32; 5]>) -> [usize; 4] {
    let stats = map.stats().unwrap();
    map.trim();
    let cells = [map.len(), map.capacity(), stats.cells.unwrap().cells];
    [cells[0], cells[1], cells[2], stats.slots]
}

/// The end of the keys of a batch that is refused.
const BATCH: usize = 12_000;

#[test]
fn a_refused_batch_of_large_values_leaves_neither_slots_nor_cells_behind() {
    type Store = fn(&Map<u64, [u32; 5]>, &[u64], &[[u32; 5]]) -> Result<()>;
    let verbs: [(&str, Store); 4] = [
        ("insert", |map, keys, values| {
            map.insert(keys, values).map(drop)
        }),
        ("upsert", |map, keys, values| {
            map.upsert(keys, values).map(drop)
        }),
        ("get_or_insert", |map, keys, values| {
            map.get_or_insert(keys, values).map(drop)
        }),
        ("insert_with_outcome", |map, keys, values| {
            map.insert_with_outcome(keys, values).map(drop)
        }),
    ];
    on_each_back_end(|device| {
        let batch = |numbers: std::ops::Range<usize>| {
            let keys: Vec<u64> = numbers.map(|i| i as u64).collect();
            let values = keys.iter().map(|&key| [key as u32; 5]).collect::<Vec<_>>();
            (keys, values)
        };
        let with = |more: u64| {
            let free = device.with_memory_budget(u64::MAX);
            let build = |device: &Device| {
                let builder = Map::builder(device).hash_seed(1);
                let map = builder.capacity(2_000).build().unwrap();
                let (keys, values) = batch(0..map.capacity());
                map.insert(&keys, &values).unwrap();
                map.trim();
                map
            };
            let held = (build(&free), free.allocated_bytes()).1;
            // Of the first batch, which is there no more.
            let scratch = free.peak_allocated_bytes() - held;
            let device = device.with_memory_budget(held + more.max(scratch));
            let map = build(&device);
            (map, device, held)
        };
        for (verb, store) in verbs {
            let mut needs = Vec::new();
            let mut with_cells = 0;
            for more in [36_000, 150_000, 300_000, 450_000, 700_000] {
                let (map, device, held) = with(more);
                let (peak, len) = (device.peak_allocated_bytes(), map.len());
                let (keys, values) = batch(len..BATCH);
                match store(&map, &keys, &values) {
                    Ok(()) => assert_eq!(map.len(), BATCH, "{verb}"),
                    Err(Error::OutOfMemory { needed, available }) => {
                        assert!(needed > available, "{verb}: {needed} of {available}");
                        needs.push(needed);
                        assert_eq!(device.allocated_bytes(), held, "{verb}, {more} bytes");
                        with_cells += usize::from(device.peak_allocated_bytes() > peak + 200_000);
                        let before = arena_of(&with(u64::from(u32::MAX)).0);
                        assert_eq!(arena_of(&map), before, "{verb}");
                        // The cells are where they were. Elsewhere there is no memory to look.
                        if !device.has_own_memory() {
                            let (old, values) = batch(0..len);
                            let found = map.get(&old).unwrap();
                            assert!(found.into_iter().eq(values.into_iter().map(Some)), "{verb}");
                        }
                        let audit = map.audit().unwrap();
                        assert_eq!(audit.stored.len(), len);
                        assert_eq!(
                            audit.free.len() + audit.retired.len() + len,
                            audit.all.len()
                        );
                    }
                    other => panic!("{verb}: {other:?}"),
                }
            }
            assert!(needs.len() >= 2 && with_cells > 0, "{verb}: {needs:?}");
            needs.dedup();
            assert_eq!(needs.len(), 1, "{verb}: {needs:?}");
            let (map, ..) = with(needs[0]);
            let (keys, values) = batch(map.len()..BATCH);
            store(&map, &keys, &values).unwrap();
        }
    });
}

#[test]
fn a_reservation_of_cells_that_is_refused_takes_no_slots() {
    on_every_device(|device| {
        let device = device.with_memory_budget(1 << 20);
        let map = Map::<u64, [u32; 60]>::with_capacity(&device, 500).unwrap();
        let (held, slots) = (device.allocated_bytes(), map.slots());
        map.trim();
        let refused = map.reserve(5_000);
        let Err(Error::OutOfMemory { needed, available }) = refused else {
            panic!("{refused:?}");
        };
        assert!(needed > available && needed > 4_000 * 240);
        map.trim();
        assert_eq!(map.slots(), slots);
        map.trim();
        assert_eq!(device.allocated_bytes(), held);
    });
}
