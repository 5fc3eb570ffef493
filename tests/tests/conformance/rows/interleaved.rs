//! Small maps on executors with a random schedule: which lane comes first must not show.

use gpumap::bytemuck::Pod;
use gpumap::primitives::Primitives;
use gpumap::{Map, RowMap};
use gpumap_tests::Target;
use gpumap_tests::scheduled::on_random_schedules;

use super::{Oracle, keys};

fn on_schedules(seeds: u64, body: fn(&Target)) {
    on_random_schedules(seeds, |on| {
        if on.encoding() != Some(gpumap_kernels::kernels::Encoding::Split) {
            body(on);
        }
    });
}

/// Numbers of keys for two blocks, each key in several warps, the first of them in the last.
fn meeting(distinct: u64) -> Vec<u64> {
    (0..300).map(|i| (300 - i) % distinct).collect()
}

#[test]
fn owners_are_first_occurrences() {
    fn body<K: Pod>(on: &Target) {
        for distinct in [1, 3, 40, 300] {
            let map = RowMap::<K>::builder(on.device())
                .capacity(300)
                .hash_seed(distinct)
                .build()
                .unwrap();
            let mut oracle = Oracle::default();
            for offset in [0, distinct / 2] {
                let batch = keys::<K>(meeting(distinct).into_iter().map(|i| i + offset));
                let (expected, flags) = oracle.insert(&batch);
                let (mut rows, mut new) = (vec![0; 300], vec![0; 300]);
                let n = map
                    .insert_with_outcome_into(&batch, &mut rows, &mut new)
                    .unwrap();
                assert_eq!((rows, &new), (expected, &flags), "{distinct} keys");
                assert_eq!(n, flags.iter().filter(|&&new| new == 1).count());
            }
            oracle.assert_same(&map);
        }
    }
    on_schedules(25, body::<u32>);
    on_schedules(25, body::<[u32; 3]>);
    on_schedules(25, body::<u128>);
}

/// Of lanes that remove one key, one counts it, and rows of one word of bits are removed by several warps.
#[test]
fn a_key_is_removed_once() {
    fn body<K: Pod>(on: &Target) {
        for distinct in [1, 3, 40, 300] {
            let map = RowMap::<K>::builder(on.device())
                .capacity(400)
                .hash_seed(distinct)
                .build()
                .unwrap();
            let mut oracle = Oracle::default();
            let batch = keys::<K>(0..distinct + 10);
            assert_eq!(map.insert(&batch).unwrap(), oracle.insert(&batch).0);
            for offset in [3, 0] {
                let batch = keys::<K>(meeting(distinct).into_iter().map(|i| i + offset));
                assert_eq!(map.remove(&batch).unwrap(), oracle.remove(&batch));
                oracle.assert_same(&map);
            }
            assert_eq!(map.compact().unwrap(), oracle.compact());
            oracle.assert_same(&map);
        }
    }
    on_schedules(25, body::<u32>);
    on_schedules(25, body::<[u32; 3]>);
    on_schedules(25, body::<u128>);
}

/// Of lanes that remove one key, the one that counts it is told its value.
#[test]
fn a_removed_value_is_told_once() {
    on_schedules(25, |on| {
        for distinct in [1, 3, 40, 300] {
            let map = Map::<u128, u64>::builder(on.device())
                .capacity(400)
                .hash_seed(distinct)
                .build()
                .unwrap();
            let all = keys::<u128>(0..distinct);
            let values: Vec<u64> = (0..distinct).collect();
            map.insert(&all, &values).unwrap();
            let batch = keys::<u128>(meeting(distinct));
            let told = map.take(&batch).unwrap();
            let mut told: Vec<u64> = told.into_iter().flatten().collect();
            told.sort_unstable();
            assert_eq!((told, map.len()), (values, 0), "{distinct} keys");
        }
    });
}

#[test]
fn counts_are_whole() {
    on_schedules(20, |on| {
        let primitives = Primitives::new(on.device());
        for distinct in [1, 3, 40] {
            let unique = primitives
                .unique(&keys::<[u32; 3]>(meeting(distinct)))
                .unwrap();
            let mut counts = vec![0; distinct as usize];
            for &row in &unique.inverse {
                counts[row as usize] += 1;
            }
            assert_eq!(unique.counts, counts);
        }
    });
}
