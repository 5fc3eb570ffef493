//! Errors: each has the figures that say why, comes before anything is written, and leaves the
//! map and the device as they were.

use std::sync::Mutex;

use gpumap::executor::{Config, FaultKind};
use gpumap::simt::kernel::{Grid, Launcher};
use gpumap::simt::{kernel, kernel_args};
use gpumap::{Buffer, Device, Error, Key, Map, Merge, Numeric, Result, Setting, Stream};
use gpumap_tests::scheduled::{on_limited_steps, overcommitted_map};
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, key, on_every_format, on_every_target, value,
};

/// What outputs hold where nothing was written.
const CANARY: u8 = 0x5a;

fn canaries<T: bytemuck::Pod>(on: &Target, len: usize) -> Buffer<T> {
    let mut buffer = Buffer::zeroed(&on.stream(), len).unwrap();
    buffer.fill_bytes(CANARY).unwrap();
    buffer
}

fn assert_untouched<T: bytemuck::Pod>(buffer: &Buffer<T>, what: &str) {
    let host = buffer.to_vec().unwrap();
    let bytes: &[u8] = bytemuck::cast_slice(&host);
    assert!(
        bytes.iter().all(|&byte| byte == CANARY),
        "{what} was written to"
    );
}

/// A map with some pairs, and what it holds.
fn some_map<K: Key, V: Numeric>(on: &Target) -> (Map<K, V>, Oracle) {
    let map = on.map(100);
    let batch = Batch::<K, V>::numbered(0..60, 1);
    map.insert(&batch.keys, &batch.values).unwrap();
    (map, batch.bits().collect())
}

#[test]
fn as_many_values_as_keys_are_needed() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let (map, held) = some_map::<K, V>(on);
        let batch = Batch::<K, V>::numbered(1_000..1_100, 1);
        let device_keys = Buffer::from_slice(&on.stream(), &batch.keys).unwrap();
        for (k, v) in [(0, 1), (1, 0), (7, 8), (100, 99), (33, 100)] {
            let (keys, values) = (&batch.keys[..k], &batch.values[..v]);
            let results = [
                map.insert(keys, values),
                map.merge(keys, values, Merge::Add),
                map.insert(&device_keys.slice(..k).unwrap(), values),
            ];
            for result in results {
                match result {
                    Err(Error::LengthMismatch { keys, values }) if (keys, values) == (k, v) => {}
                    other => panic!("{k} keys, {v} values: {other:?}"),
                }
            }
        }
        assert_holds(&map, &held);
    }
    on_every_format!(body);
}

#[test]
fn outputs_that_are_too_small_are_not_written_to() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let (map, held) = some_map::<K, V>(on);
        let keys: Vec<K> = Batch::<K, V>::numbered(0..60, 1).keys;
        let too_small = |result: Result<()>, given: usize| match result {
            Err(Error::OutputTooSmall {
                needed: 60,
                given: g,
            }) if g == given => {}
            other => panic!("room for {given}: {other:?}"),
        };
        for (v, f) in [(59, 60), (60, 59), (0, 100), (100, 0), (1, 2)] {
            let (mut values, mut found) = (canaries::<V>(on, v), canaries::<u8>(on, f));
            too_small(map.get_into(&keys, &mut values, &mut found), v.min(f));
            assert_untouched(&values, "values");
            assert_untouched(&found, "found");
            if v < 60 {
                too_small(map.get_or_into(&keys, value(0), &mut values), v);
                assert_untouched(&values, "values");
            }
        }
        assert_holds(&map, &held);
    }
    on_every_format!(body);
}

#[test]
fn memory_of_another_device_is_refused() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let (map, held) = some_map::<K, V>(on);
        let other = Target::new(Device::cpu_with(Config::default()), None);
        let batch = Batch::<K, V>::numbered(0..60, 2);
        let (keys, values) = (&batch.keys, &batch.values);
        let foreign_keys = Buffer::from_slice(&other.stream(), keys).unwrap();
        let foreign_values = Buffer::from_slice(&other.stream(), values).unwrap();
        let wrong = |result: Result<()>, what: &str| match result {
            Err(Error::WrongDevice { expected, found }) => {
                assert_eq!(expected, on.device().to_string(), "{what}");
                assert_eq!(found, other.device().to_string(), "{what}");
            }
            other => panic!("{what}: {other:?}"),
        };
        wrong(map.insert(&foreign_keys, values).map(drop), "insert, keys");
        wrong(
            map.insert(keys, &foreign_values).map(drop),
            "insert, values",
        );
        wrong(
            map.merge(&foreign_keys, values, Merge::Add).map(drop),
            "add, keys",
        );
        wrong(
            map.merge(keys, &foreign_values, Merge::Add).map(drop),
            "add, values",
        );
        wrong(map.get(&foreign_keys).map(drop), "get");
        wrong(map.get_or(&foreign_keys, value(1)).map(drop), "get_or");
        wrong(
            map.contains(&foreign_keys.slice(1..).unwrap()).map(drop),
            "contains",
        );

        // An output of the map's device beside one of another must not be written to either.
        let (mut here, mut there) = (canaries::<V>(on, 60), canaries::<V>(&other, 60));
        let (mut found_here, mut found_there) =
            (canaries::<u8>(on, 60), canaries::<u8>(&other, 60));
        wrong(
            map.get_or_into(keys, value(1), &mut there),
            "get_or_into, output",
        );
        wrong(
            map.get_or_into(&foreign_keys, value(1), &mut here),
            "get_or_into, keys",
        );
        wrong(
            map.get_into(keys, &mut there, &mut found_here),
            "get_into, values",
        );
        wrong(
            map.get_into(keys, &mut here, &mut found_there),
            "get_into, found",
        );
        wrong(
            map.get_into(&foreign_keys, &mut here, &mut found_here),
            "get_into, keys",
        );
        let (mut keys_here, mut keys_there) = (canaries::<K>(on, 60), canaries::<K>(&other, 60));
        wrong(
            map.retrieve_all_into(&mut keys_there, &mut here).map(drop),
            "retrieve_all, keys",
        );
        wrong(
            map.retrieve_all_into(&mut keys_here, &mut there).map(drop),
            "retrieve_all, values",
        );
        assert_untouched(&here, "a value output");
        assert_untouched(&there, "a foreign value output");
        assert_untouched(&found_here, "a found output");
        assert_untouched(&found_there, "a foreign found output");
        assert_untouched(&keys_here, "a key output");
        assert_untouched(&keys_there, "a foreign key output");
        assert_holds(&map, &held);
    }
    on_every_format!(body);
}

#[test]
fn settings_out_of_range() {
    on_every_target(|on| {
        let check = |builder: gpumap::MapBuilder<u64, u64>, what: Setting, wrong: f64| match builder
            .capacity(10)
            .build()
        {
            Err(Error::Setting {
                setting,
                value,
                least,
                most,
            }) => {
                assert_eq!(setting, what);
                assert!(value == wrong || value.is_nan() && wrong.is_nan());
                // Inside the range a page size is wrong if it is no power of two.
                let inside = least < wrong && wrong < most;
                assert!(
                    !inside || what == Setting::PageSlabs,
                    "{wrong} is in {least}..{most}"
                );
            }
            other => panic!("{what} = {wrong}: {other:?}"),
        };
        for load in [
            0.0,
            -0.5,
            0.009,
            0.951,
            1.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            -0.0,
        ] {
            check(
                on.builder().max_load_factor(load),
                Setting::MaxLoadFactor,
                load,
            );
        }
        for submaps in [0, 4_097, u32::MAX] {
            check(
                on.builder().submaps(submaps),
                Setting::Submaps,
                submaps.into(),
            );
        }
        check(on.builder().submap_slots(&[]), Setting::Submaps, 0.0);
        for slabs in [0, 3, 511, 1_024, u32::MAX] {
            check(
                on.builder().page_slabs(slabs),
                Setting::PageSlabs,
                slabs.into(),
            );
        }
        // The ends of the ranges are in them.
        for load in [0.01, 0.95] {
            let builder = on.builder::<u64, u64>().capacity(10);
            builder.max_load_factor(load).build().unwrap();
        }
        let map = on.builder::<u32, u32>().submaps(4_096).build().unwrap();
        assert_eq!(map.insert(&[1, 2, !0], &[1, 2, 3]).unwrap(), 3);
    });
}

#[test]
fn a_map_outlives_its_device_handle_and_streams() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let (map, keys) = {
            let device = on.device().clone();
            let stream = Stream::new(&device).unwrap();
            let keys = Buffer::from_slice(&stream, &[key::<K>(1), key(2)]).unwrap();
            let builder = Target::new(device, None).builder::<K, V>();
            (builder.capacity(10).build().unwrap(), keys)
        };
        let held = Batch::<K, V>::of([(1, 10), (2, 20)]);
        assert_eq!(map.insert(&keys, &held.values).unwrap(), 2);
        assert_holds(&map, &held.bits().collect());
    }
    on_every_format!(body);
}

#[test]
fn a_write_that_fails_half_way_poisons_the_map_until_it_is_cleared() {
    on_limited_steps(|on| {
        let map = on.map_of::<u64, u64>(&[400]);
        let few = Batch::<u64, u64>::numbered(0..5, 1);
        map.insert(&few.keys, &few.values).unwrap();
        // Far too many keys walk through the whole table, and run out of steps on the way.
        let many = Batch::<u64, u64>::numbered(0..3_000, 2);
        for _ in 0..2 {
            assert!(matches!(
                map.insert(&many.keys, &many.values),
                Err(Error::Kernel(_))
            ));
            let mut buffer = Buffer::<u64>::zeroed(&on.stream(), 3_000).unwrap();
            let mut found = Buffer::<u8>::zeroed(&on.stream(), 3_000).unwrap();
            let refused = [
                map.insert(&few.keys, &few.values).map(drop),
                map.merge(&few.keys, &few.values, Merge::Add).map(drop),
                map.get(&few.keys).map(drop),
                map.contains(&few.keys).map(drop),
                map.get_or_into(&few.keys, 0, &mut buffer),
                map.get_into(&few.keys, &mut buffer, &mut found),
                map.retrieve_all().map(drop),
            ];
            for (i, result) in refused.into_iter().enumerate() {
                assert!(
                    matches!(result, Err(Error::Poisoned)),
                    "call {i}: {result:?}"
                );
            }
            map.clear().unwrap();
            assert_holds(&map, &Oracle::new());
            assert_eq!(map.insert(&few.keys, &few.values).unwrap(), 5);
            assert_holds(&map, &few.bits().collect());
        }
    });
}

#[test]
fn a_write_on_a_stream_that_fails_half_way_poisons_the_map_too() {
    on_limited_steps(|on| {
        let map = overcommitted_map(on);
        let few = Batch::<u64, u64>::numbered(0..5, 1);
        let many = Batch::<u64, u64>::numbered(0..3_000, 2);
        let stream = on.stream();
        let calls = map.on(&stream);
        for _ in 0..3 {
            let failed = calls.insert(&many.keys, &many.values);
            let failed = failed.and_then(|answer| answer.wait());
            assert!(matches!(failed, Err(Error::Kernel(_))), "{failed:?}");
            let refused = [
                map.get(&few.keys).map(drop),
                calls.remove(&few.keys).map(drop),
                calls.upsert(&few.keys, &few.values).map(drop),
            ];
            for (i, result) in refused.into_iter().enumerate() {
                let poisoned = matches!(result, Err(Error::Poisoned));
                assert!(poisoned, "call {i}: {result:?}");
            }
            map.clear().unwrap();
            let new = calls.insert(&few.keys, &few.values).unwrap();
            assert_eq!(new.wait().unwrap(), 5);
            assert_holds(&map, &few.bits().collect());
        }
    });
}

kernel_args! {
    /// Arguments of [`CALL`].
    struct CallArgs {
        /// What is called: a `&(dyn Fn() + Sync)`.
        work: *const u8,
    }
}

kernel! {
    /// Calls the host's own code, as only a kernel on the CPU can.
    static CALL = fn errors_call(args: CallArgs) by block {
        // SAFETY: it lives until the launch has ended.
        unsafe { (*args.work.cast::<&(dyn Fn() + Sync)>())() };
    }
}

/// A batch of one block is run at once, another one on a stream.
#[test]
fn a_change_that_breaks_in_its_kernel_poisons_the_map_whatever_its_size() {
    let stream = Stream::new(&Device::cpu()).unwrap();
    for len in [1, 200, 300] {
        let map = Map::<u64, u64>::with_capacity(&Device::cpu(), 1_000).unwrap();
        let Batch { keys, values, .. } = Batch::<u64, u64>::numbered(0..len, 1);
        map.insert(&keys, &values).unwrap();
        let changes: [(&str, &(dyn Fn() -> Result<()> + Sync)); 4] = [
            ("upsert", &|| map.upsert(&keys, &values).map(drop)),
            ("merge", &|| map.merge(&keys, 1, Merge::Add).map(drop)),
            ("update", &|| map.update(&keys, &values).map(drop)),
            ("remove", &|| map.remove(&keys).map(drop)),
        ];
        for (name, change) in changes {
            let outcomes = Mutex::new(Vec::new());
            // A kernel that is launched by a kernel is refused, with a fault.
            let work: &(dyn Fn() + Sync) = &|| {
                let made = [map.get(&keys).map(drop), change()];
                outcomes.lock().unwrap().extend(made);
            };
            let args = CallArgs {
                work: (&raw const work).cast(),
            };
            // SAFETY: the work is there until the stream has been waited for.
            unsafe { stream.launch(&CALL, Grid::new(1, 1), args) }.unwrap();
            stream.synchronize().unwrap();
            let outcomes = outcomes.into_inner().unwrap();
            assert_eq!(outcomes.len(), 2, "{name} of {len}");
            for outcome in outcomes {
                let is_fault = matches!(&outcome, Err(Error::Kernel(fault)) if fault.kind == FaultKind::NestedLaunch);
                assert!(is_fault, "{name} of {len}: {outcome:?}");
            }
            let found = map.get(&keys);
            assert!(
                matches!(found, Err(Error::Poisoned)),
                "{name} of {len}: {found:?}"
            );
            map.clear().unwrap();
            assert_eq!(map.insert(&keys, &values).unwrap(), keys.len());
        }
    }
}
