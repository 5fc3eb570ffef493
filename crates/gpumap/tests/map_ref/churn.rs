//! Keys that come and go within one launch, also those whose cells are used up and used again, and
//! launches beside batches.

use std::thread;

use gpumap::simt::kernel::{Grid, Kernel};
use gpumap::{Buffer, Map};
use gpumap_kernels::slot::Bits;
use gpumap_map_test_kernels::churn::{CHURN_4_4, CHURN_8_8, ChurnArgs, count};
use gpumap_map_test_kernels::script::op;

use crate::support::{
    Form, Loaded, Op, Pair, Target, contents, key_bits, on_every_target, on_interleavings,
};

type Churn<P> = Kernel<ChurnArgs<<P as Pair>::K, <P as Pair>::V>>;

fn churn<P: Pair>(on: &Target, kernel: &'static Churn<P>, keys: &[u64], rounds: u32) {
    let stream = on.stream();
    let map = on.builder::<P::K, P::V>().build().unwrap();
    let keys: Vec<P::K> = keys.iter().map(|&bits| P::K::from_u64(bits)).collect();
    let on_device = Buffer::from_slice(&stream, &keys).unwrap();
    let mut counts = Buffer::<u64>::zeroed(&stream, count::ALL).unwrap();
    let counts_at = counts.as_mut_ptr();
    let most = keys.len() * rounds as usize;
    let tally = map
        .launch_with(&stream, most, |map| {
            let args = ChurnArgs {
                map,
                keys: on_device.as_ptr(),
                len: keys.len() as u64,
                rounds,
                counts: counts_at,
            };
            let grid = Grid::covering(keys.len() as u64, 64);
            // SAFETY: a key per lane, all counters; on the stream that the map is lent for, which
            // has been waited for when the buffers are dropped.
            unsafe { kernel.launch(&stream, grid, args) }
        })
        .unwrap();
    let counts = counts.to_vec().unwrap();
    assert_eq!(counts[count::FOREIGN], 0);
    assert_eq!(counts[count::FULL], 0);
    assert_eq!(tally.inserted as u64, counts[count::INSERTED]);
    assert_eq!(tally.removed as u64, counts[count::REMOVED]);
    assert_eq!(tally.inserted - tally.removed, map.len());
    // The last operation on each key removed it.
    assert!(contents::<P>(&map).is_empty());
    // The map is as good as new.
    let values: Vec<P::V> = keys
        .iter()
        .map(|key| P::V::from_u64(key.to_u64()))
        .collect();
    map.upsert(&keys, &values).unwrap();
    assert!(map.contains(&keys).unwrap().into_iter().all(|there| there));
}

/// Three keys that have cells of their own, and three that have not.
fn few_keys<K>(times: u64) -> Vec<u64> {
    (0..6 * times).map(|i| key_bits::<K>(2 + i % 6)).collect()
}

#[test]
fn removed_keys_come_back_in_the_same_launch() {
    on_every_target(|on| {
        let times = on.n(20, 400) as u64;
        churn::<(u32, u32)>(on, &CHURN_4_4, &few_keys::<u32>(times), 20);
        churn::<(u64, u64)>(on, &CHURN_8_8, &few_keys::<u64>(times), 20);
    });
    on_interleavings(8, |on| {
        churn::<(u32, u32)>(on, &CHURN_4_4, &few_keys::<u32>(6), 8);
        churn::<(u64, u64)>(on, &CHURN_8_8, &few_keys::<u64>(6), 8);
    });
}

/// Launches from one thread, batches from another, both growing the map; each key from both.
fn beside_batches<P: Pair>(on: &Target, rounds: u64, keys: u64) {
    let map = on.builder::<P::K, P::V>().build().unwrap();
    let bits = |round: u64, i: u64| key_bits::<P::K>(round * keys + i);
    let (by_kernel, by_batch) = thread::scope(|scope| {
        let map: &Map<P::K, P::V> = &map;
        let kernels = scope.spawn(move || {
            let stream = on.stream();
            let mut inserted = 0;
            for round in 0..rounds {
                let form = Form::BOTH[(round % 2) as usize];
                let insert = |i| Op {
                    op: op::INSERT,
                    key: bits(round, i),
                    value: 1,
                };
                let ops: Vec<Op> = (0..keys).map(insert).collect();
                let mut script = Loaded::<P>::new(&stream, form, &ops);
                let lent = map.launch_with(&stream, ops.len(), |map| script.launch(map));
                let tally = lent.unwrap();
                assert_eq!(tally.full, 0);
                inserted += tally.inserted;
            }
            inserted
        });
        let batches = scope.spawn(move || {
            let mut inserted = 0;
            for round in 0..rounds {
                let keys: Vec<P::K> = (0..keys).map(|i| P::K::from_u64(bits(round, i))).collect();
                let values = vec![P::V::from_u64(2); keys.len()];
                inserted += map.insert(&keys, &values).unwrap();
            }
            inserted
        });
        (kernels.join().unwrap(), batches.join().unwrap())
    });
    let held = contents::<P>(&map);
    assert_eq!(held.len() as u64, rounds * keys);
    let of = |value| held.values().filter(|held| **held == value).count();
    assert_eq!((of(1), of(2)), (by_kernel, by_batch));
}

#[test]
fn launches_beside_batches_that_grow() {
    on_every_target(|on| {
        let keys = on.n(100, 5_000) as u64;
        beside_batches::<(u32, u32)>(on, 8, keys);
        beside_batches::<(u64, u64)>(on, 8, keys);
    });
}
