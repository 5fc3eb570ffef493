//! Which batches take which way: what results cannot show.

use crate::input::Input;
use crate::map::command::{Command, Kind};
use crate::map::{Key, Map, Numeric, Pair};
use crate::scratch::{ScratchRole, Workspace};
use crate::testing::{on_each_back_end, on_every_device};
use crate::{Answer, Buffer, Device, Growth, Merge, Operation, Stream};

use std::ptr;

use gpumap_kernels::build::bins::GRAIN;

use super::Grains;
use crate::map::tuning::{RESIDENT_WARPS, Tuning};

const N: usize = 2_000;

fn map<K: Key, V: Numeric>(device: &Device) -> Map<K, V> {
    Map::builder(device)
        .capacity(2 * N)
        .page_slabs(8)
        .growth(Growth::Fixed)
        .hash_seed(3)
        .bulk_from([N, usize::MAX, N])
        .build()
        .unwrap()
}

/// An insert of some keys, as their own values.
fn job(scratch: &mut Workspace, keys: &[u64]) -> Command {
    // SAFETY: the keys outlive the workspace's use of them in each test.
    let staged = unsafe { scratch.stage(ScratchRole::Keys, keys.source()) }.unwrap();
    Command {
        pair: Pair { key: 8, value: 8 },
        kind: Kind::Insert,
        keys: staged.cast(),
        values: staged.cast(),
        value: 0,
        default: 0,
        out_values: ptr::null_mut(),
        out_flags: ptr::null_mut(),
        bins: None,
        len: keys.len(),
    }
}

#[test]
fn large_batches_into_empty_maps_are_built_from() {
    on_every_device(|device| {
        let map = map::<u64, u64>(device);
        let mut scratch = map.inline().scratch.take().unwrap();
        let keys: Vec<u64> = (0..N as u64).collect();
        let whole = job(&mut scratch, &keys);
        let others = [
            Command {
                len: N - 1,
                ..whole
            },
            Command {
                kind: Kind::GetOrInsert,
                ..whole
            },
            Command {
                out_flags: ptr::dangling_mut(),
                ..whole
            },
            Command {
                len: 4 * N,
                ..whole
            },
        ];
        for (i, other) in others.iter().enumerate() {
            assert!(
                map.inline().alone_to_build(other).is_none(),
                "the job at {i}"
            );
        }
        {
            let _reader = map.inline().table.read();
            assert!(
                map.inline().alone_to_build(&whole).is_none(),
                "beside a reader"
            );
        }
        let mut table = map.inline().alone_to_build(&whole).unwrap();
        let stored = map
            .inline()
            .build_from(&mut table, &mut scratch, whole)
            .unwrap();
        assert_eq!(stored, Some(N));
        // Now it is not empty any more.
        let stored = map
            .inline()
            .build_from(&mut table, &mut scratch, whole)
            .unwrap();
        assert_eq!(stored, None);
        drop(table);
        assert!(map.inline().alone_to_build(&whole).is_none());
        assert_eq!(map.len(), N);
        assert_eq!(
            map.get(&keys).unwrap(),
            keys.iter().copied().map(Some).collect::<Vec<_>>()
        );
    });
}

/// What is done to a map, and some keys that it does not hold.
type Deed = fn(&Map<u64, u64>, &[u64]);

#[test]
fn marks_hold_until_a_pair_is_stored_in_another_way() {
    fn apply(map: &Map<u64, u64>, keys: &[u64], operation: Operation) -> usize {
        let answers = map.apply(&[operation; N], keys, keys).unwrap();
        answers
            .iter()
            .filter(|&&answer| answer == Answer::Stored)
            .count()
    }
    const KEEP: [(&str, Deed); 7] = [
        ("get", |map, keys| {
            assert_eq!(map.get(keys).unwrap(), [None; N]);
        }),
        ("remove", |map, keys| {
            assert_eq!(map.remove(keys).unwrap(), 0);
        }),
        ("a mix that stores nothing", |map, keys| {
            assert_eq!(apply(map, keys, Operation::Get), 0);
        }),
        ("fill", |map, keys| {
            assert_eq!(map.insert(keys, keys).unwrap(), N);
        }),
        ("merge", |map, keys| {
            assert_eq!(map.upsert(keys, keys).unwrap(), N);
        }),
        ("grow", |map, _| map.reserve(8 * N).unwrap()),
        ("nothing", |map, _| {
            assert_eq!(map.insert(&[], &[]).unwrap(), 0);
        }),
    ];
    const END: [(&str, Deed); 5] = [
        ("insert", |map, keys| {
            map.insert(&keys[..1], &keys[..1]).unwrap();
        }),
        ("upsert", |map, keys| {
            assert_eq!(map.upsert(&keys[1..], &keys[1..]).unwrap(), N - 1);
        }),
        ("a mix", |map, keys| {
            assert_eq!(apply(map, keys, Operation::Upsert), N);
        }),
        ("on a stream", |map, keys| {
            let stream = Stream::new(map.device()).unwrap();
            let keys = Buffer::from_slice(&stream, keys).unwrap();
            let pending = map.on(&stream).insert(&keys, &keys).unwrap();
            pending.wait().unwrap();
        }),
        ("lend", |map, _| {
            let stream = Stream::new(map.device()).unwrap();
            let tally = map.launch_with(&stream, 1, |_| Ok(())).unwrap();
            assert_eq!(tally.inserted, 0);
        }),
    ];
    on_each_back_end(|device| {
        let keys: Vec<u64> = (0..2 * N as u64).collect();
        let (first, second) = keys.split_at(N);
        let is_marked = |map: &Map<u64, u64>| map.inline().table.read().is_marked();
        let built = |name| {
            let map: Map<u64, u64> = Map::builder(device)
                .capacity(4 * N)
                .page_slabs(8)
                .bulk_from([N, N, usize::MAX])
                .build()
                .unwrap();
            assert!(!is_marked(&map), "{name}: its pages have not been made");
            map.insert(first, first).unwrap();
            assert!(is_marked(&map), "{name}");
            map
        };
        for (name, deed) in KEEP {
            let map = built(name);
            deed(&map, second);
            assert!(is_marked(&map), "{name}");
        }
        for (name, deed) in END {
            let map = built(name);
            deed(&map, second);
            assert!(!is_marked(&map), "{name}");
            // Not by a batch that is added to what is not marked.
            map.insert(&keys, &keys).unwrap();
            assert!(!is_marked(&map), "{name}");
            let all: Vec<_> = keys.iter().copied().map(Some).collect();
            assert_eq!(map.get(&keys).unwrap(), all);
            map.clear().unwrap();
            map.insert(first, first).unwrap();
            assert!(is_marked(&map), "{name}");
        }
    });
}

#[test]
fn emptied_maps_are_built_without_their_tombstones() {
    on_every_device(|device| {
        let map = map::<u64, u64>(device);
        let first: Vec<u64> = (0..N as u64).collect();
        assert_eq!(map.insert(&first, &first).unwrap(), N);
        assert_eq!(map.remove(&first).unwrap(), N);
        assert_eq!(map.stats().unwrap().tombstones, N);
        let second: Vec<u64> = (5 << 32..(5 << 32) + N as u64).collect();
        assert_eq!(map.insert(&second, &second).unwrap(), N);
        assert_eq!(map.stats().unwrap().tombstones, 0);
        assert_eq!(map.inline().state.occupancy.used(), N);
    });
}

#[test]
fn batches_are_sorted_unless_a_bin_runs_over() {
    on_every_device(|device| {
        let map = map::<u64, u64>(device);
        let mut scratch = map.inline().scratch.take().unwrap();
        let table = map.inline().table.read();
        let keys: Vec<u64> = (0..N as u64).collect();
        let whole = job(&mut scratch, &keys);
        let sorted = map.inline().sorted(&mut scratch, &whole, true).unwrap();
        assert!(sorted.is_some());
        let answered = Command {
            out_values: ptr::dangling_mut(),
            ..whole
        };
        assert!(
            map.inline()
                .sorted(&mut scratch, &answered, true)
                .unwrap()
                .is_none()
        );

        let equal = vec![7; N];
        let equal = job(&mut scratch, &equal);
        assert!(
            map.inline()
                .sorted(&mut scratch, &equal, true)
                .unwrap()
                .is_none()
        );
        drop(table);
        let mut table = map.inline().alone_to_build(&equal).unwrap();
        let stored = map
            .inline()
            .build_from(&mut table, &mut scratch, equal)
            .unwrap();
        assert_eq!(stored, None);
    });
}

#[test]
fn lookups_are_sorted_unless_a_bin_runs_over() {
    on_every_device(|device| {
        let map = map::<u64, u64>(device);
        let keys: Vec<u64> = (0..N as u64).collect();
        map.insert(&keys, &keys).unwrap();
        let asked: Vec<u64> = (N as u64 / 2..).take(N).collect();
        let mut scratch = map.inline().scratch.take().unwrap();
        let staged = job(&mut scratch, &asked).keys;
        let table = map.inline().table.read();
        let mut values = Buffer::<u64>::unwritten(scratch.stream(), N).unwrap();
        let mut found = Buffer::<u8>::unwritten(scratch.stream(), N).unwrap();
        let (out_values, out_flags) = (values.as_mut_ptr().cast(), found.as_mut_ptr());
        let look_up = |scratch: &mut Workspace, keys, len| {
            let look_up = Command {
                keys,
                default: 5,
                out_values,
                out_flags,
                ..Command::of(Kind::Get, map.inline().pair, len)
            };
            map.inline()
                .look_up_sorted(&table, scratch, look_up)
                .unwrap()
        };
        assert!(look_up(&mut scratch, staged, N));
        let held = |i: usize| i < N / 2;
        for (i, value) in values.to_vec().unwrap().into_iter().enumerate() {
            assert_eq!(value, if held(i) { asked[i] } else { 5 }, "at {i}");
        }
        let expected: Vec<u8> = (0..N).map(|i| u8::from(held(i))).collect();
        assert_eq!(found.to_vec().unwrap(), expected);

        assert!(!look_up(&mut scratch, staged, N - 1), "too few");
        let equal = vec![7; N];
        let staged = job(&mut scratch, &equal).keys;
        assert!(!look_up(&mut scratch, staged, N), "too many in a bin");
    });
}

#[test]
fn thresholds_of_the_cpu_are_never_met() {
    let never = Tuning::of(&Device::cpu(), 16);
    assert!(!never.builds(usize::MAX - 1, 0) && !never.sorts(usize::MAX - 1, u64::MAX));
    assert!(!never.sorts(usize::MAX - 1, u64::MAX - 1));
    assert!(!never.sorts_lookups(usize::MAX - 1, u64::MAX - 1));
    let always = Tuning::from([1; 3]);
    assert!(always.builds(1, usize::MAX) && always.sorts(1, 0));
}

#[test]
fn batches_for_tables_that_are_far_larger_are_sorted_if_addresses_are_what_takes_time() {
    let of_table = |bytes, far| {
        let thresholds = Tuning {
            bins: 1_000,
            bins_bytes_per_pair: 256,
            bins_table_bytes: 1 << 16,
            far_table_bytes: far,
            ..Tuning::NEVER
        };
        assert!(!thresholds.sorts_lookups(999, bytes));
        assert_eq!(thresholds.sorts_lookups(1_000, bytes), bytes >= far);
        thresholds.sorts(1_000, bytes)
    };
    // Too small a table, a good one, one with few pairs for its lines, and one beyond reach.
    let far = 1 << 30;
    let tables = [1 << 15, 200_000, 1 << 20, far];
    assert_eq!(
        tables.map(|bytes| of_table(bytes, far)),
        [false, true, false, true]
    );
    assert_eq!(
        tables.map(|bytes| of_table(bytes, 0)),
        [false, true, true, true]
    );
}

#[test]
fn pages_are_made_if_they_fit_a_block() {
    on_every_device(|device| {
        let keys: Vec<u64> = (0..N as u64).collect();
        // A page of 32 KiB and what goes into it, or the latter alone.
        for (kib, fills) in [(48, None), (96, Some(N - 1))] {
            let map: Map<u64, u64> = Map::builder(&device.with_shared_memory(kib << 10))
                .capacity(2 * N)
                .page_slabs(512)
                .bulk_from([N, N, usize::MAX])
                .build()
                .unwrap();
            let mut scratch = map.inline().scratch.take().unwrap();
            let whole = job(&mut scratch, &keys);
            {
                let mut table = map.inline().alone_to_build(&whole).unwrap();
                let built = map
                    .inline()
                    .build_from(&mut table, &mut scratch, whole)
                    .unwrap();
                assert_eq!(built, Some(N), "{kib} KiB");
            }
            map.remove(&keys[1..]).unwrap();
            let mut table = map.inline().alone_to_build(&whole).unwrap();
            let filled = map
                .inline()
                .build_from(&mut table, &mut scratch, whole)
                .unwrap();
            assert_eq!(filled, fills, "{kib} KiB");
        }
    });
}

#[test]
fn parts_are_as_long_as_the_l2_allows() {
    // An L2 of 60 MiB and 132 multiprocessors, about an H200.
    let device = Tuning {
        l2_bytes_per_warp: (60 << 20) / 3 * 2 / (132 * RESIDENT_WARPS),
        ..Tuning::NEVER
    };
    let n = 100_000_000;
    let grains = Grains::of(n, 256).unwrap();
    let part = |table_bytes| device.part(n, table_bytes, grains);
    // Slots of 16 bytes at load 0.5, 0.8, 0.9 and 0.95.
    let tables = [3_200_000_000, 2_000_000_000, 1_777_777_792, 1_684_210_560];
    assert_eq!(tables.map(part), [256, 256, 512, 512]);
    assert_eq!(part(30_000_000_000), GRAIN);
    // Of few keys no bin has whole parts.
    let few = Grains::of(2_000, 256).unwrap();
    assert_eq!(device.part(n, 1_000_000, few), GRAIN);
    assert_eq!(few.capacity() % u64::from(GRAIN), 0);
}

/// Merges keys with one value for all, on the host, on the device and on a stream, and compares with what merging a
/// batch of such values does.
fn one_value_is_that_of_every_key<K: Key, V: Numeric + PartialEq + std::fmt::Debug>(
    device: &Device,
    key: impl Fn(u64) -> K,
    value: V,
) {
    let builder = || Map::<K, V>::builder(device).page_slabs(8).hash_seed(3);
    // Some keys come three times, some twice.
    let keys: Vec<K> = (0..5 * N as u64 / 2).map(|i| key(i % N as u64)).collect();
    let values = vec![value; keys.len()];
    let stream = Stream::new(device).unwrap();
    let on_device = Buffer::from_slice(&stream, &keys).unwrap();
    let sorted = [usize::MAX, usize::MAX, N];
    for (case, bulk, capacity, growth, merge) in [
        (
            "as it comes",
            [usize::MAX; 3],
            4 * N,
            Growth::Fixed,
            Merge::Xor,
        ),
        ("in bins", sorted, 4 * N, Growth::Fixed, Merge::Add),
        ("growing", sorted, 1, Growth::By(2.0), Merge::Add),
        // There is no room for sure: keys are inserted first, and the others merged.
        ("in two passes", sorted, 2 * N, Growth::Fixed, Merge::Add),
    ] {
        let of = || {
            builder()
                .growth(growth)
                .capacity(capacity)
                .bulk_from(bulk)
                .build()
                .unwrap()
        };
        let (expected, map) = (of(), of());
        // One round of new keys and three of present ones.
        for round in 0..4 {
            let new = expected.merge(&keys, &values, merge).unwrap();
            let name = format!("{case}, {merge:?}, round {round}");
            let stored = match round {
                0 => map.merge(&keys, value, merge).unwrap(),
                1 => map.merge(&on_device, value, merge).unwrap(),
                2 => {
                    let pending = map.on(&stream).merge(&on_device, value, merge);
                    pending.unwrap().wait().unwrap()
                }
                _ => map
                    .on(&stream)
                    .merge(&keys, value, merge)
                    .unwrap()
                    .wait()
                    .unwrap(),
            };
            assert_eq!(stored, new, "{name}");
            assert_eq!(
                map.get(&keys).unwrap(),
                expected.get(&keys).unwrap(),
                "{name}"
            );
        }
        let absent: Vec<K> = (0..2 * N as u64).map(|i| key(i + N as u64 / 2)).collect();
        for _ in 0..2 {
            let values = vec![value; absent.len()];
            let present = expected.update_with(&absent, &values, merge).unwrap();
            assert_eq!(map.update_with(&absent, value, merge).unwrap(), present);
        }
        let pending = map.on(&stream).update_with(&absent, value, merge);
        assert_eq!(pending.unwrap().wait().unwrap(), N - N / 2);
        let values = vec![value; absent.len()];
        expected.update_with(&absent, &values, merge).unwrap();
        assert_eq!(
            map.get(&absent).unwrap(),
            expected.get(&absent).unwrap(),
            "{case}"
        );
    }
}

#[test]
fn one_value_serves_all_keys_of_a_merge() {
    on_each_back_end(|device| {
        let hash = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        one_value_is_that_of_every_key(device, hash, 3u64);
        one_value_is_that_of_every_key(device, |i| hash(i) >> 32, 1.5f32);
        one_value_is_that_of_every_key(device, |i| (hash(i) >> 32) as u32, -7i32);
        one_value_is_that_of_every_key(device, |i| (hash(i) >> 32) as u32, 1u64 << 40);
    });
}

#[test]
fn one_value_takes_no_place_in_bins() {
    on_every_device(|device| {
        let map = map::<u64, u64>(device);
        let mut scratch = map.inline().scratch.take().unwrap();
        let keys: Vec<u64> = (0..N as u64).collect();
        let pairs = job(&mut scratch, &keys);
        let same = Command {
            values: ptr::null(),
            value: 5,
            ..pairs
        };
        let mut bytes = |job| {
            let sorted = map
                .inline()
                .sorted(&mut scratch, &job, true)
                .unwrap()
                .unwrap();
            sorted.bytes()
        };
        assert_eq!(bytes(same) * 2, bytes(pairs));
    });
}
