//! The verbs of row maps.

use gpumap::bytemuck::{self, Pod};
use gpumap::rows::NO_ROW;
use gpumap::{Buffer, Device, Error, RowMap};
use gpumap_tests::Target;
use gpumap_tests::device::noting;

use super::{Checked, Key, Oracle, keys, on_every_key, on_every_kind, on_keys, patterns};

fn map<K: Pod>(on: &Target) -> RowMap<K> {
    RowMap::new(on.device()).unwrap()
}

#[test]
fn rows_follow_first_occurrences() {
    fn body<K: Key + ?Sized>(on: &Target) {
        // Into one map in turn, and each into a map of its own.
        let mut whole = Checked::<K>::new(on);
        for (name, numbers) in patterns(on.n(700, 100_000) as u64) {
            let batch = keys::<K>(numbers);
            noting(name, || {
                whole.insert(&batch);
                whole.assert_same();
                let mut own = Checked::<K>::new(on);
                own.insert(&batch);
                own.insert(&batch);
                own.assert_same();
            });
        }
    }
    on_every_kind!(body);
}

#[test]
fn chunks_have_the_keys_that_there_are() {
    fn body<K: Key + ?Sized>(on: &Target) {
        let n = on.n(500, 30_000) as u64;
        let mut both = Checked::<K>::new(on);
        let none = both.map.for_each_chunk(7, |_| panic!("there is none"));
        none.unwrap();
        both.insert(&keys::<K>(0..n));
        both.remove(&keys::<K>((0..n).filter(|i| i % 7 < 3)));
        let (rows, keys) = both.oracle.present();
        for most in [1, 7, 64, usize::MAX] {
            let mut told: (Vec<u32>, Vec<Vec<u8>>) = Default::default();
            let take = |chunk: &gpumap::Chunk<K, u32>| {
                assert!((1..=most).contains(&chunk.len()));
                told.0.extend(chunk.values());
                let keys = K::bytes(chunk.keys()).into_iter().map(<[u8]>::to_vec);
                told.1.extend(keys);
                Ok(())
            };
            both.map.for_each_chunk(most, take).unwrap();
            assert_eq!((&told.0, &told.1), (&rows, &keys), "{most} at a time");
        }
        // What it is told to do fails: so does it, and calls go on.
        let mut calls = 0;
        let failed = both.map.for_each_chunk(1, |_| {
            calls += 1;
            Err(Error::Poisoned)
        });
        assert!(matches!(failed, Err(Error::Poisoned)) && calls == 1);
        both.assert_same();
    }
    on_keys!(body: u64, [u32; 3], str);
}

#[test]
fn answers_go_to_the_host_and_to_the_device() {
    fn body<K: Pod>(on: &Target) {
        let n = on.n(500, 100_000) as u64;
        let stream = on.stream();
        let (map, mut oracle) = (map::<K>(on), Oracle::default());
        for (_, numbers) in patterns(n) {
            let batch = keys::<K>(numbers);
            let (rows, new) = oracle.insert(&batch);
            let sum: usize = new.iter().map(|&new| usize::from(new)).sum();
            let on_device = Buffer::from_slice(&stream, &batch).unwrap();
            let mut told = (
                Buffer::zeroed(&stream, batch.len()).unwrap(),
                vec![9; batch.len()],
            );
            let inserted = map.insert_with_outcome_into(&on_device, &mut told.0, &mut told.1);
            assert_eq!(inserted.unwrap(), sum);
            assert_eq!((told.0.to_vec().unwrap(), told.1), (rows.clone(), new));
            let mut again = vec![7; batch.len()];
            assert_eq!(map.insert_into(&on_device, &mut again).unwrap(), 0);
            assert_eq!(again, rows);

            let asked = keys::<K>((0..n).map(|i| i * 5 / 3));
            let expected = oracle.get(&asked);
            assert_eq!(map.get(&asked).unwrap(), expected);
            let mut got = Buffer::zeroed(&stream, asked.len() + 3).unwrap();
            map.get_into(&asked, &mut got).unwrap();
            let expected = expected.into_iter().map(|row| row.unwrap_or(NO_ROW));
            assert!(got.to_vec().unwrap().into_iter().eq(expected.chain([0; 3])));
        }
        oracle.assert_same(&map);
        let mut all = Buffer::<K>::zeroed(&stream, map.len() + 1).unwrap();
        assert_eq!(map.keys_into(&mut all).unwrap(), map.len());
        let all = all.slice(..map.len()).unwrap().to_vec().unwrap();
        assert!(bytemuck::cast_slice::<K, u8>(&all) == oracle.keys.concat());
    }
    on_keys!(body: u32, u64, [u32; 3], u128, [u64; 4], [u64; 8]);
}

#[test]
fn a_map_that_was_cleared_begins_with_row_0() {
    fn body<K: Key + ?Sized>(on: &Target) {
        let mut both = Checked::<K>::new(on);
        let batch = keys::<K>(0..300);
        both.insert(&batch);
        let room = K::room(&both.map);
        both.map.clear().unwrap();
        both = both.map.into();
        both.assert_same();
        both.get(&batch);
        for batch in [&batch[200..], &batch[..]] {
            both.insert(batch);
            both.assert_same();
        }
        assert_eq!(K::room(&both.map), room);
        both.map.clear().unwrap();
        both = both.map.into();
        both.insert(&keys::<K>([299, 0]));
        both.assert_same();
    }
    on_keys!(body: u32, u128, str);
}

/// All ones is what empty slots are filled with, and nothing a key cannot be.
#[test]
fn every_bit_pattern_is_a_key() {
    fn body<K: Pod>(on: &Target) {
        let ones: K = bytemuck::pod_read_unaligned(&vec![0xff; size_of::<K>()]);
        let map = map::<K>(on);
        assert_eq!(map.get(&[ones, K::zeroed()]).unwrap(), [None, None]);
        assert_eq!(map.insert(&[ones, K::zeroed(), ones]).unwrap(), [0, 1, 0]);
        assert_eq!(map.get(&[K::zeroed(), ones]).unwrap(), [Some(1), Some(0)]);
    }
    on_every_key!(body);
}

/// Keys without alignment, at each address there is.
#[test]
fn keys_may_lie_anywhere() {
    fn body(on: &Target) {
        let (map, mut oracle) = (map::<[u8; 16]>(on), Oracle::default());
        let bytes: Vec<u8> = (0..16 * 200 + 15).map(|i| (i / 100) as u8).collect();
        for at in 0..16 {
            let batch: &[[u8; 16]] = bytemuck::cast_slice(&bytes[at..][..16 * 200]);
            assert_eq!(map.insert(batch).unwrap(), oracle.insert(batch).0);
        }
        oracle.assert_same(&map);
        // The same at odd places of a buffer.
        let words: Vec<[u32; 4]> = bytemuck::cast_slice(&bytes[..16 * 200]).to_vec();
        let (map, mut oracle) = (self::map::<[u32; 4]>(on), Oracle::default());
        for skipped in 0..4 {
            let flat: Vec<u32> = bytemuck::cast_slice(&words).to_vec();
            let stream = on.stream();
            let mut buffer = Buffer::from_slice(&stream, &flat).unwrap();
            let (start, n) = (buffer.as_mut_ptr().wrapping_add(skipped).cast(), 199);
            // SAFETY: within the buffer, which lives on.
            let part = unsafe { Buffer::<[u32; 4]>::from_raw_parts(&stream, start, n) }.unwrap();
            let expected: &[[u32; 4]] = bytemuck::cast_slice(&flat[skipped..][..4 * n]);
            let mut rows = vec![0; n];
            map.insert_into(&part, &mut rows).unwrap();
            assert_eq!(rows, oracle.insert(expected).0);
        }
        oracle.assert_same(&map);
    }
    super::on_every_device::<[u8; 16]>(body);
}

#[test]
fn what_is_too_small_is_refused() {
    fn body<K: Key + ?Sized>(on: &Target) {
        let mut both = Checked::<K>::new(on);
        let all = keys::<K>(0..10);
        let batch = K::batch(&all);
        let short = |outcome: Result<usize, Error>, expected: usize| match outcome {
            Err(Error::OutputTooSmall { needed, given }) => {
                assert_eq!((needed, given), (expected, expected - 1));
            }
            other => panic!("{other:?}"),
        };
        short(both.map.insert_into(batch, &mut [0; 9]), 10);
        let (rows, new) = (&mut [0; 10], &mut [0; 9]);
        short(both.map.insert_with_outcome_into(batch, rows, new), 10);
        assert!(both.map.is_empty());
        both.insert(&all);
        short(both.map.get_into(batch, &mut [0; 9]).map(|()| 0), 10);
        both.remove(&all[..1]);
        short(both.map.compact_into(&mut [0; 8]), 9);
        both.assert_same();
    }
    on_keys!(body: u64, [u32; 3], str);
}

#[test]
fn keys_of_another_device_are_refused() {
    fn body<K: Pod>(on: &Target) {
        let map = map::<K>(on);
        let batch = keys::<K>(0..10);
        map.insert(&batch).unwrap();
        let short = map.keys_into(&mut vec![K::zeroed(); 9]);
        assert!(matches!(
            short,
            Err(Error::OutputTooSmall {
                needed: 10,
                given: 9
            })
        ));
        let elsewhere = Device::cpu().with_memory_budget(1 << 20);
        if elsewhere.info().unwrap().backend != on.device().info().unwrap().backend {
            let stream = gpumap::Stream::new(&elsewhere).unwrap();
            let far = Buffer::from_slice(&stream, &batch).unwrap();
            assert!(matches!(
                map.insert_into(&far, &mut [0; 10]),
                Err(Error::WrongDevice { .. })
            ));
        }
        assert_eq!(map.len(), 10);
    }
    on_keys!(body: u64, [u32; 3]);
}
