//! Batches and dumps of strings.

use gpumap::rows::NO_ROW;
use gpumap::strings::{StringColumn, StringColumnMut, Strings};
use gpumap::{Buffer, Device, Error};
use gpumap_tests::Target;

use super::{Checked, Text, on_every_device, patterns, strings};

#[test]
fn batches_and_answers_lie_on_the_host_or_on_the_device() {
    fn body(on: &Target) {
        let n = on.n(500, 100_000) as u64;
        let stream = on.stream();
        let mut both = Checked::new(on);
        for (i, (_, numbers)) in patterns(n).into_iter().enumerate() {
            let batch = strings(numbers);
            let (rows, new) = both.oracle.insert(&batch);
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
            let inserted = both
                .map
                .insert_with_outcome_into(&column, &mut told, &mut flags);
            assert_eq!(inserted.unwrap(), sum);
            assert_eq!((told.to_vec().unwrap(), flags), (rows.clone(), new));
            let mut again = vec![7; batch.len()];
            assert_eq!(both.map.insert_into(&flat, &mut again).unwrap(), 0);
            assert_eq!(again, rows);

            let asked = strings((0..n).map(|i| i * 5 / 3));
            let expected = both.oracle.get(&asked);
            assert_eq!(both.map.get(&asked).unwrap(), expected);
            let mut got = Buffer::zeroed(&stream, asked.len() + 3).unwrap();
            both.map.get_into(&asked, &mut got).unwrap();
            let expected = expected.into_iter().map(|row| row.unwrap_or(NO_ROW));
            assert!(got.to_vec().unwrap().into_iter().eq(expected.chain([0; 3])));
        }
        both.assert_same();
    }
    on_every_device(body);
}

#[test]
fn dumps_go_to_the_host_and_to_the_device() {
    fn body(on: &Target) {
        let stream = on.stream();
        let mut both = Checked::new(on);
        for numbers in [0..0, 0..400, 300..900] {
            both.insert(&strings(numbers));
            both.remove(&strings((0..900).step_by(3).filter(|i| i % 2 == 1)));
            let (rows, keys) = both.oracle.present();
            let expected = Strings::from_iter(&keys);
            let (n, len) = (keys.len(), expected.bytes().len());
            // Places at every address, and too many of them.
            for at in 0..9 {
                let mut offsets = Buffer::zeroed(&stream, n + 2).unwrap();
                let mut bytes = Buffer::from_slice(&stream, &vec![7; len + 20]).unwrap();
                let mut told = vec![7; n + 1];
                let mut part = bytes.slice_mut(at..at + len).unwrap();
                let places = &mut StringColumnMut::new(&mut offsets, &mut part);
                assert_eq!(both.map.retrieve_all_into(places, &mut told).unwrap(), n);
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
            assert_eq!(both.map.keys_into(places).unwrap(), n);
            assert_eq!((offsets, bytes), expected.into_parts());
        }
    }
    on_every_device(body);
}

/// Strings are bytes: none of them ends one or is no part of it.
#[test]
fn any_bytes_are_a_string() {
    fn body(on: &Target) {
        let mut batch: Vec<Text> = ["key", "ke", "keys"].map(|key| Text(key.into())).into();
        for byte in [0, 1, 0xff] {
            batch.extend((0..40).map(|len| Text(vec![byte; len])));
        }
        // Which differ in one byte, at each place.
        batch.extend((0..33).map(|at| {
            let mut string = vec![b'a'; 33];
            string[at] = b'b';
            Text(string)
        }));
        let mut both = Checked::new(on);
        both.get(&batch);
        both.insert(&batch[..70]);
        both.get(&batch);
        batch.reverse();
        both.insert(&batch);
        both.assert_same();
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
        let mut both = Checked::new(on);
        let expected = both.oracle.insert(&batch).0;
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
                assert_eq!(both.map.insert(&column).unwrap(), expected, "from {at} on");
            }
        }
        both.assert_same();
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
        batch.extend(others.into_iter().map(Text));
        batch.extend(strings(40..90));
        batch.push(Text(long));
        let mut both = Checked::new(on);
        both.insert(&batch);
        both.assert_same();
        both.remove(&batch[51..52]);
        both.compact();
        both.assert_same();
    }
    on_every_device(body);
}

#[test]
fn places_that_are_too_few_and_strings_of_another_device_are_refused() {
    fn body(on: &Target) {
        let mut both = Checked::new(on);
        both.insert(&strings(0..10));
        let short = |outcome: Result<usize, Error>, expected: usize| match outcome {
            Err(Error::OutputTooSmall { needed, given }) => {
                assert_eq!((needed, given), (expected, expected - 1));
            }
            other => panic!("{other:?}"),
        };
        let len = both.map.byte_len().unwrap();
        let (mut offsets, mut bytes, mut rows) = ([0; 11], vec![0; len], [0; 10]);
        let places = &mut StringColumnMut::new(&mut offsets[1..], &mut bytes);
        short(both.map.keys_into(places), 11);
        let places = &mut StringColumnMut::new(&mut offsets, &mut bytes[1..]);
        short(both.map.keys_into(places), len);
        let places = &mut StringColumnMut::new(&mut offsets, &mut bytes);
        short(both.map.retrieve_all_into(places, &mut rows[1..]), 10);
        assert_eq!((offsets, rows), ([0; 11], [0; 10]));
        assert!(bytes.iter().all(|&byte| byte == 0));

        let elsewhere = Device::cpu().with_memory_budget(1 << 20);
        if elsewhere.info().unwrap().backend != on.device().info().unwrap().backend {
            let stream = gpumap::Stream::new(&elsewhere).unwrap();
            let bytes = Buffer::from_slice(&stream, b"key").unwrap();
            let far = StringColumn::new(&[0i64, 3], &bytes);
            let refused = both.map.insert(&far);
            assert!(
                matches!(refused, Err(Error::WrongDevice { .. })),
                "{refused:?}"
            );
        }
        both.assert_same();
    }
    on_every_device(body);
}
