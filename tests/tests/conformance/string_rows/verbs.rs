//! The verbs of row maps of strings.

use gpumap::rows::NO_ROW;
use gpumap::strings::{StringColumn, StringColumnMut, Strings};
use gpumap::{Buffer, Device, Error, RowMap};
use gpumap_tests::Target;
use gpumap_tests::device::noting;

use super::super::rows::patterns;
use super::{Oracle, on_every_device, string, strings};

fn map(on: &Target) -> RowMap<str> {
    RowMap::<str>::new(on.device()).unwrap()
}

#[test]
fn rows_follow_first_occurrences() {
    fn body(on: &Target) {
        let n = on.n(700, 300_000) as u64;
        // Into one map in turn, and each into a map of its own.
        let (whole, mut all) = (map(on), Oracle::default());
        for (name, numbers) in patterns(n) {
            let batch = strings(numbers);
            noting(name, || {
                assert_eq!(whole.insert(&batch).unwrap(), all.insert(&batch).0);
                all.assert_same(&whole);
                let (own, mut oracle) = (map(on), Oracle::default());
                for again in [false, true] {
                    let expected = oracle.insert(&batch).0;
                    assert_eq!(own.insert(&batch).unwrap(), expected, "again: {again}");
                }
                oracle.assert_same(&own);
            });
        }
    }
    on_every_device(body);
}

#[test]
fn batches_and_answers_lie_on_the_host_or_on_the_device() {
    fn body(on: &Target) {
        let n = on.n(500, 100_000) as u64;
        let stream = on.stream();
        let (map, mut oracle) = (map(on), Oracle::default());
        for (i, (_, numbers)) in patterns(n).into_iter().enumerate() {
            let batch = strings(numbers);
            let (rows, new) = oracle.insert(&batch);
            let sum: usize = new.iter().map(|&new| usize::from(new)).sum();
            let flat = Strings::from_iter(&batch);
            let narrow: Vec<i32> = flat.offsets().iter().map(|&at| at as i32).collect();
            let bytes = Buffer::from_slice(&stream, flat.bytes()).unwrap();
            let wide = Buffer::from_slice(&stream, flat.offsets()).unwrap();
            let on_device = Buffer::from_slice(&stream, &narrow).unwrap();
            let column = match i % 4 {
                0 => StringColumn::new(&wide, &bytes),
                1 => StringColumn::new(&on_device, &bytes),
                2 => StringColumn::new(&narrow, flat.bytes()),
                _ => StringColumn::new(flat.offsets(), &bytes),
            };
            assert_eq!(column.len(), batch.len());
            let mut told = Buffer::zeroed(&stream, batch.len()).unwrap();
            let mut flags = vec![9; batch.len()];
            let inserted = map.insert_with_outcome_into(&column, &mut told, &mut flags);
            assert_eq!(inserted.unwrap(), sum);
            assert_eq!((told.to_vec().unwrap(), flags), (rows.clone(), new));
            let mut again = vec![7; batch.len()];
            assert_eq!(map.insert_into(&flat, &mut again).unwrap(), 0);
            assert_eq!(again, rows);

            let asked = strings((0..n).map(|i| i * 5 / 3));
            let expected = oracle.get(&asked);
            assert_eq!(map.get(&asked).unwrap(), expected);
            let mut got = Buffer::zeroed(&stream, asked.len() + 3).unwrap();
            map.get_into(&asked, &mut got).unwrap();
            let expected = expected.into_iter().map(|row| row.unwrap_or(NO_ROW));
            assert!(got.to_vec().unwrap().into_iter().eq(expected.chain([0; 3])));
        }
        oracle.assert_same(&map);
    }
    on_every_device(body);
}

#[test]
fn dumps_go_to_the_host_and_to_the_device() {
    fn body(on: &Target) {
        let stream = on.stream();
        let (map, mut oracle) = (map(on), Oracle::default());
        for numbers in [0..0, 0..400, 300..900] {
            let batch = strings(numbers);
            map.insert(&batch).unwrap();
            oracle.insert(&batch);
            let gone = strings((0..900).step_by(3).filter(|i| i % 2 == 1));
            assert_eq!(map.remove(&gone).unwrap(), oracle.remove(&gone));
            let (rows, keys) = oracle.present();
            let expected = Strings::from_iter(&keys);
            let (n, len) = (keys.len(), expected.bytes().len());
            // Places at every address, and too many of them.
            for at in 0..9 {
                let mut offsets = Buffer::zeroed(&stream, n + 2).unwrap();
                let mut bytes = Buffer::from_slice(&stream, &vec![7; len + 20]).unwrap();
                let mut told = vec![7; n + 1];
                let mut part = bytes.slice_mut(at..at + len).unwrap();
                let places = &mut StringColumnMut::new(&mut offsets, &mut part);
                assert_eq!(map.retrieve_all_into(places, &mut told).unwrap(), n);
                let offsets = offsets.to_vec().unwrap();
                assert_eq!((&offsets[..=n], offsets[n + 1]), (expected.offsets(), 0));
                let bytes = bytes.to_vec().unwrap();
                assert_eq!(&bytes[at..at + len], expected.bytes());
                let beside = bytes[..at].iter().chain(&bytes[at + len..]);
                assert!(beside.into_iter().all(|&byte| byte == 7));
                assert_eq!((&told[..n], told[n]), (&rows[..], 7));
            }
            let (mut offsets, mut bytes) = (vec![7; n + 1], vec![7; len]);
            let places = &mut StringColumnMut::new(&mut offsets, &mut bytes);
            assert_eq!(map.keys_into(places).unwrap(), n);
            assert_eq!((offsets, bytes), expected.into_parts());
        }
    }
    on_every_device(body);
}

/// Strings are bytes: none of them ends one or is no part of it.
#[test]
fn any_bytes_are_a_string() {
    fn body(on: &Target) {
        let mut batch = vec![b"key".to_vec(), b"ke".to_vec(), b"keys".to_vec()];
        for byte in [0, 1, 0xff] {
            batch.extend((0..40).map(|len| vec![byte; len]));
        }
        // Which differ in one byte, at each place.
        batch.extend((0..33).map(|at| {
            let mut string = vec![b'a'; 33];
            string[at] = b'b';
            string
        }));
        let (map, mut oracle) = (map(on), Oracle::default());
        assert_eq!(map.get(&batch).unwrap(), oracle.get(&batch));
        assert_eq!(
            map.insert(&batch[..70]).unwrap(),
            oracle.insert(&batch[..70]).0
        );
        assert_eq!(map.get(&batch).unwrap(), oracle.get(&batch));
        batch.reverse();
        assert_eq!(map.insert(&batch).unwrap(), oracle.insert(&batch).0);
        oracle.assert_same(&map);
    }
    on_every_device(body);
}

/// The same strings at each address, within bytes of which others are no string's.
#[test]
fn strings_may_lie_anywhere() {
    fn body(on: &Target) {
        let stream = on.stream();
        let batch = strings(0..60);
        let flat = Strings::from_iter(&batch);
        let (map, mut oracle) = (map(on), Oracle::default());
        let expected = oracle.insert(&batch).0;
        for at in 0..17 {
            let mut bytes = vec![b'?'; at];
            bytes.extend(flat.bytes());
            bytes.extend([b'?'; 3]);
            let offsets: Vec<i32> = flat
                .offsets()
                .iter()
                .map(|&end| end as i32 + at as i32)
                .collect();
            let on_device = Buffer::from_slice(&stream, &bytes).unwrap();
            // A part of an array begins anywhere as well.
            let part = on_device.slice(at..).unwrap();
            for column in [
                StringColumn::new(&offsets, &bytes),
                StringColumn::new(&offsets, &on_device),
                StringColumn::new(flat.offsets(), &part),
            ] {
                assert_eq!(map.insert(&column).unwrap(), expected, "from {at} on");
            }
        }
        oracle.assert_same(&map);
    }
    on_every_device(body);
}

#[test]
fn strings_that_are_long() {
    fn body(on: &Target) {
        let n = on.n(100_003, 1_000_003);
        let long = vec![b'a'; n];
        let mut others = vec![long.clone(); 4];
        others[1][0] = b'b';
        others[2][n - 1] = b'b';
        others[3].truncate(n - 1);
        // Beside short ones, in one batch.
        let mut batch = strings(0..50);
        batch.extend(others);
        batch.extend(strings(40..90));
        batch.push(long);
        let (map, mut oracle) = (map(on), Oracle::default());
        assert_eq!(map.insert(&batch).unwrap(), oracle.insert(&batch).0);
        oracle.assert_same(&map);
        assert_eq!(
            map.remove(&batch[51..52]).unwrap(),
            oracle.remove(&batch[51..52])
        );
        assert_eq!(map.compact().unwrap(), oracle.compact());
        oracle.assert_same(&map);
    }
    on_every_device(body);
}

#[test]
fn a_map_that_was_cleared_begins_with_row_0() {
    fn body(on: &Target) {
        let map = map(on);
        let batch = strings(0..300);
        map.insert(&batch).unwrap();
        let room = (map.capacity(), map.byte_capacity());
        map.clear().unwrap();
        Oracle::default().assert_same(&map);
        assert_eq!(map.get(&batch).unwrap(), [None; 300]);
        let mut oracle = Oracle::default();
        for batch in [&batch[200..], &batch[..]] {
            assert_eq!(map.insert(batch).unwrap(), oracle.insert(batch).0);
            oracle.assert_same(&map);
        }
        assert_eq!((map.capacity(), map.byte_capacity()), room);
    }
    on_every_device(body);
}

#[test]
fn removed_strings_come_again() {
    fn body(on: &Target) {
        let n = on.n(300, 20_000) as u64;
        let (map, mut oracle) = (map(on), Oracle::default());
        for round in 0..8 {
            let batch = strings(round * n / 2..round * n / 2 + n);
            assert_eq!(map.insert(&batch).unwrap(), oracle.insert(&batch).0);
            let gone = strings((0..3 * n).step_by(2).map(|i| i + round % 2));
            // Twice in the batch, which counts once.
            let gone = [gone.clone(), gone].concat();
            assert_eq!(map.remove(&gone).unwrap(), oracle.remove(&gone));
            oracle.assert_same(&map);
            if round % 3 == 2 {
                assert_eq!(map.compact().unwrap(), oracle.compact());
                oracle.assert_same(&map);
            }
        }
        let mut old = vec![7; map.len()];
        assert_eq!(map.compact_into(&mut old).unwrap(), old.len());
        assert_eq!(old, oracle.compact());
        oracle.assert_same(&map);
        let same = map.compact().unwrap();
        assert!(same.into_iter().eq(0..map.len() as u32), "dense already");
        map.remove(&map.keys().unwrap()).unwrap();
        assert_eq!(map.compact().unwrap(), []);
        Oracle::default().assert_same(&map);
        assert_eq!(map.insert(&[string(3)]).unwrap(), [0]);
    }
    on_every_device(body);
}

#[test]
fn what_is_too_small_or_of_another_device_is_refused() {
    fn body(on: &Target) {
        let map = map(on);
        let batch = strings(0..10);
        let short = |outcome: Result<usize, Error>, expected: usize| match outcome {
            Err(Error::OutputTooSmall { needed, given }) => {
                assert_eq!((needed, given), (expected, expected - 1));
            }
            other => panic!("{other:?}"),
        };
        short(map.insert_into(&batch, &mut [0; 9]), 10);
        short(
            map.insert_with_outcome_into(&batch, &mut [0; 10], &mut [0; 9]),
            10,
        );
        assert!(map.is_empty());
        map.insert(&batch).unwrap();
        short(map.get_into(&batch, &mut [0; 9]).map(|()| 0), 10);
        let len = map.byte_len().unwrap();
        let (mut offsets, mut bytes, mut rows) = ([0; 11], vec![0; len], [0; 10]);
        let places = &mut StringColumnMut::new(&mut offsets[1..], &mut bytes);
        short(map.keys_into(places), 11);
        let places = &mut StringColumnMut::new(&mut offsets, &mut bytes[1..]);
        short(map.keys_into(places), len);
        let places = &mut StringColumnMut::new(&mut offsets, &mut bytes);
        short(map.retrieve_all_into(places, &mut rows[1..]), 10);
        assert_eq!((offsets, rows), ([0; 11], [0; 10]));
        assert!(bytes.iter().all(|&byte| byte == 0));
        map.remove(&batch[..1]).unwrap();
        short(map.compact_into(&mut [0; 8]), 9);

        let elsewhere = Device::cpu().with_memory_budget(1 << 20);
        if elsewhere.info().unwrap().backend != on.device().info().unwrap().backend {
            let stream = gpumap::Stream::new(&elsewhere).unwrap();
            let bytes = Buffer::from_slice(&stream, b"key").unwrap();
            let far = StringColumn::new(&[0i64, 3], &bytes);
            let refused = map.insert(&far);
            assert!(
                matches!(refused, Err(Error::WrongDevice { .. })),
                "{refused:?}"
            );
        }
        assert_eq!((map.len(), map.row_bound()), (9, 10));
    }
    on_every_device(body);
}
