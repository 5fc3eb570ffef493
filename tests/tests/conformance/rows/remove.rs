//! Keys that are removed, and rows that are made dense.

use std::collections::HashSet;

use gpumap::bytemuck::{self, Pod};
use gpumap::{Buffer, Error, RowMap};
use gpumap_kernels::hash::mix64;
use gpumap_tests::Target;
use gpumap_tests::device::noting;

use super::{Checked, Key, One, Oracle, keys, on_every_kind, on_keys, patterns};

fn map<K: Pod>(on: &Target) -> RowMap<K> {
    RowMap::new(on.device()).unwrap()
}

/// Batches of all verbs, in any order.
#[test]
fn random_histories() {
    fn body<K: Key + ?Sized>(on: &Target) {
        let universe = on.n(700, 100_000) as u64;
        for seed in 0..3u64 {
            let mut state = seed;
            let mut random = |below: u64| {
                state = mix64(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
                state % below
            };
            let mut both = Checked::<K>::new(on);
            for step in 0..40 {
                let bits = random(universe.ilog2().into());
                let n = random(1 << bits);
                // Of a part of all keys, so that some come again soon.
                let (from, width) = (random(universe), 1 + random(universe));
                let batch = keys::<K>((0..n).map(|_| (from + random(width)) % universe));
                noting(&format!("seed {seed}, step {step}"), || match random(12) {
                    0..4 => both.insert(&batch),
                    4..9 => both.remove(&batch),
                    9 => both.compact(),
                    10 => both.map.reserve(random(universe) as usize).unwrap(),
                    _ => both.get(&batch),
                });
                both.assert_same();
            }
        }
    }
    on_every_kind!(body);
}

#[test]
fn no_other_key_gets_the_row_of_a_removed_one() {
    fn body<K: Key + ?Sized>(on: &Target) {
        let n = on.n(700, 100_000) as u64;
        let map = RowMap::<K>::new(on.device()).unwrap();
        let all = keys::<K>(0..n);
        map.insert(K::batch(&all)).unwrap();
        for (name, numbers) in patterns(n) {
            noting(name, || {
                let batch = keys::<K>(numbers);
                let gone: HashSet<&[u8]> = batch.iter().map(One::bytes).collect();
                let before = map.get(K::batch(&all)).unwrap();
                let removed = map.remove(K::batch(&batch)).unwrap();
                assert_eq!(map.remove(K::batch(&batch)).unwrap(), 0, "again");
                assert_eq!(map.len(), all.len() - removed);
                let bound = map.row_bound() as u32;
                // They come back with new rows, and the others have theirs.
                let after = map.insert(K::batch(&all)).unwrap();
                let mut next = bound;
                for ((key, before), after) in all.iter().zip(before).zip(after) {
                    let was_removed = gone.contains(key.bytes());
                    let expected = if was_removed { next } else { before.unwrap() };
                    assert_eq!(after, expected);
                    next += u32::from(was_removed);
                }
                assert_eq!(map.row_bound() as u32, next);
            });
        }
    }
    on_keys!(body: u32, [u32; 3], str);
}

#[test]
fn removed_keys_come_again() {
    fn body<K: Key + ?Sized>(on: &Target) {
        let n = on.n(300, 20_000) as u64;
        let mut both = Checked::<K>::new(on);
        for round in 0..8 {
            both.insert(&keys::<K>(round * n / 2..round * n / 2 + n));
            let gone = keys::<K>((0..3 * n).step_by(2).map(|i| i + round % 2));
            // Twice in the batch, which counts once.
            both.remove(&[gone.clone(), gone].concat());
            both.assert_same();
            if round % 3 == 2 {
                both.compact();
                both.assert_same();
            }
        }
        let mut old = vec![7; both.map.len()];
        assert_eq!(both.map.compact_into(&mut old).unwrap(), old.len());
        assert_eq!(old, both.oracle.compact());
        both.assert_same();
        let same = both.map.compact().unwrap();
        assert!(same.into_iter().eq(0..old.len() as u32), "dense already");
        both.map.remove(&both.map.keys().unwrap()).unwrap();
        assert_eq!(both.map.compact().unwrap(), []);
        both = both.map.into();
        both.assert_same();
        both.insert(&keys::<K>([3]));
    }
    on_keys!(body: u64, [u32; 3], str);
}

#[test]
fn everything_and_nothing() {
    fn body<K: Key + ?Sized>(on: &Target) {
        let mut both = Checked::<K>::new(on);
        let batch = keys::<K>(0..300);
        // Of a map that has none, with no key, and with no gap.
        both.remove(&batch);
        both.compact();
        assert_eq!(both.map.retrieve_all().unwrap().1, []);
        both.insert(&batch);
        both.remove(&[]);
        both.compact();
        both.assert_same();

        both.remove(&batch);
        both.assert_same();
        both.insert(&batch[7..9]);
        both.assert_same();
        both.remove(&batch);
        both.compact();
        both.assert_same();
        both.insert(&batch);
        both.assert_same();

        both.remove(&batch[..100]);
        both.map.clear().unwrap();
        both = both.map.into();
        both.assert_same();
        both.insert(&batch);
    }
    on_keys!(body: u32, u64, [u32; 3], u128, [u64; 8], str);
}

#[test]
fn answers_go_to_the_host_and_to_the_device() {
    fn body<K: Pod>(on: &Target) {
        let n = on.n(500, 100_000);
        let stream = on.stream();
        let (map, mut oracle) = (map::<K>(on), Oracle::default());
        let batch = keys::<K>(0..n as u64);
        map.insert(&batch).unwrap();
        oracle.insert(&batch);
        let gone: Vec<K> = batch.iter().step_by(3).copied().collect();
        let gone = Buffer::from_slice(&stream, &gone).unwrap();
        assert_eq!(map.remove(&gone).unwrap(), n.div_ceil(3));
        oracle.remove(&gone.to_vec().unwrap());

        let (len, present) = (map.len(), oracle.present().0);
        let mut all = Buffer::<K>::zeroed(&stream, len + 1).unwrap();
        let mut rows = vec![7; len + 2];
        assert_eq!(map.retrieve_all_into(&mut all, &mut rows).unwrap(), len);
        assert_eq!((&rows[..len], &rows[len..]), (&present[..], &[7, 7][..]));
        let got = all.slice(..len).unwrap().to_vec().unwrap();
        let expected = map.keys().unwrap();
        assert!(bytemuck::cast_slice::<K, u8>(&got) == bytemuck::cast_slice::<K, u8>(&expected));
        let (mut all, mut rows) = (
            vec![K::zeroed(); len],
            Buffer::zeroed(&stream, len).unwrap(),
        );
        assert_eq!(map.retrieve_all_into(&mut all, &mut rows).unwrap(), len);
        assert_eq!(rows.to_vec().unwrap(), present);
        assert!(bytemuck::cast_slice::<K, u8>(&all) == bytemuck::cast_slice::<K, u8>(&expected));

        let short = |outcome: Result<usize, Error>| {
            let (needed, given) = (len, len - 1);
            assert!(matches!(
                outcome,
                Err(Error::OutputTooSmall { needed: n, given: g }) if (n, g) == (needed, given)
            ));
        };
        short(map.retrieve_all_into(&mut all, &mut vec![0; len - 1]));
        short(map.retrieve_all_into(&mut all[1..], &mut rows));
        short(map.keys_into(&mut all[1..]));
        short(map.compact_into(&mut vec![0; len - 1]));
        oracle.assert_same(&map);

        let mut old = Buffer::zeroed(&stream, len + 1).unwrap();
        assert_eq!(map.compact_into(&mut old).unwrap(), len);
        let old = old.slice(..len).unwrap().to_vec().unwrap();
        assert_eq!(old, oracle.compact());
        oracle.assert_same(&map);
        let mut same = vec![7; len + 1];
        assert_eq!(map.compact_into(&mut same).unwrap(), len);
        assert!(same.into_iter().eq((0..len as u32).chain([7])));
        oracle.assert_same(&map);
    }
    on_keys!(body: u32, u64, [u32; 3], u128, [u64; 4], [u64; 8]);
}

/// Keys without alignment, at each address there is.
#[test]
fn keys_may_go_anywhere() {
    fn body(on: &Target) {
        let gone = keys::<[u8; 16]>(50..70);
        let mut bytes = vec![0u8; 16 * 180 + 16];
        for at in 0..16 {
            let (map, mut oracle) = (map::<[u8; 16]>(on), Oracle::default());
            let batch = keys::<[u8; 16]>(0..200);
            assert_eq!(map.insert(&batch).unwrap(), oracle.insert(&batch).0);
            let from = &mut bytes[at..][..16 * 20];
            from.copy_from_slice(bytemuck::cast_slice(&gone));
            let from: &[[u8; 16]] = bytemuck::cast_slice(from);
            assert_eq!(map.remove(from).unwrap(), oracle.remove(from));
            oracle.assert_same(&map);

            let (expected, rows) = map.retrieve_all().unwrap();
            for with_rows in [false, true] {
                bytes.fill(7);
                let to: &mut [[u8; 16]] = bytemuck::cast_slice_mut(&mut bytes[at..][..16 * 180]);
                if with_rows {
                    let mut told = [0; 180];
                    assert_eq!(map.retrieve_all_into(to, &mut told).unwrap(), 180);
                    assert_eq!(told[..], rows[..]);
                } else {
                    assert_eq!(map.keys_into(to).unwrap(), 180);
                }
                assert_eq!(to, expected);
                let beside = bytes[..at].iter().chain(&bytes[at + 16 * 180..]);
                assert!(beside.into_iter().all(|&byte| byte == 7));
            }
        }
    }
    super::on_every_device::<[u8; 16]>(body);
}

/// Slots of removed keys are free again when there would be too few: a map whose keys change does not grow for ever.
#[test]
fn slots_are_made_for_the_keys_that_there_are() {
    fn body<K: Pod>(on: &Target) {
        let map = RowMap::<K>::with_capacity(on.device(), 2_000).unwrap();
        let capacity = map.capacity();
        let mut both = Checked::from(map);
        for round in 0..12 {
            let batch = keys::<K>(round * 900..(round + 1) * 900);
            both.insert(&batch);
            both.remove(&batch[..800]);
            if round % 4 == 3 {
                both.remove(&batch);
            }
            both.assert_same();
        }
        both.compact();
        both.assert_same();
        // Keys got more room, slots did not.
        let after = both.map.capacity();
        assert!(
            (capacity..2 * capacity + 50).contains(&after),
            "{capacity} to {after}"
        );
    }
    on_keys!(body: u32, [u32; 3]);
}
