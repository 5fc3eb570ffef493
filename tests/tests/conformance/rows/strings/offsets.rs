//! Offsets that are wrong are an error before anything is changed.

use gpumap::strings::StringColumn;
use gpumap::{Buffer, Error, RowMap};
use gpumap_tests::Target;

use super::{Checked, on_every_device, strings};

/// The first string that is wrong, by its ends.
fn expect_refused<T: std::fmt::Debug>(outcome: Result<T, Error>, expected: (i64, i64), all: usize) {
    match outcome {
        Err(Error::OutOfRange { start, end, len }) => {
            let ends =
                [expected.0, expected.1].map(|end| usize::try_from(end).unwrap_or(usize::MAX));
            assert_eq!(([start, end], len), (ends, all));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn they_are_refused() {
    fn body(on: &Target) {
        let stream = on.stream();
        let bytes = vec![b'a'; 50];
        let on_device = Buffer::from_slice(&stream, &bytes).unwrap();
        let mut both = Checked::new(on);
        both.insert(&strings(0..20));
        for (offsets, ends) in [
            (vec![0, 4, 3, 9], (4, 3)),
            (vec![-1, 4], (-1, 4)),
            (vec![0, 50, 51], (50, 51)),
            (vec![0, 3, 70, 60, 10], (3, 70)),
            (vec![60, 60], (60, 60)),
            (vec![0, -4, -8, 3], (0, -4)),
            (
                (0..2_000)
                    .map(|i| i / 40 + i64::from(i == 700))
                    .chain([7, 3])
                    .collect(),
                (18, 17),
            ),
        ] {
            let narrow: Vec<i32> = offsets.iter().map(|&at| at as i32).collect();
            let wide = Buffer::from_slice(&stream, &offsets).unwrap();
            for column in [
                StringColumn::new(&offsets, &bytes),
                StringColumn::new(&narrow, &on_device),
                StringColumn::new(&wide, &on_device),
            ] {
                expect_refused(both.map.insert(&column), ends, 50);
                expect_refused(both.map.get(&column), ends, 50);
                expect_refused(both.map.remove(&column), ends, 50);
            }
        }
        both.assert_same();
    }
    on_every_device(body);
}

#[test]
fn without_offsets_there_is_no_string() {
    fn body(on: &Target) {
        let map = RowMap::<str>::new(on.device()).unwrap();
        for offsets in [&[][..], &[0], &[7], &[-3]] {
            let column = StringColumn::new::<i64>(offsets, &[]);
            assert!(column.is_empty());
            assert_eq!(map.insert(&column).unwrap(), []);
            assert_eq!(map.get(&column).unwrap(), []);
            assert_eq!(map.remove(&column).unwrap(), 0);
        }
        assert!(map.is_empty());
        // Of strings without bytes the address does not matter.
        let column = StringColumn::new::<i64>(&[0, 0, 0], &[]);
        assert_eq!(map.insert(&column).unwrap(), [0, 0]);
        assert_eq!(map.keys().unwrap().to_vecs(), [b""]);
    }
    on_every_device(body);
}

#[test]
fn a_part_of_a_long_column_takes_memory_for_that_part() {
    fn body(on: &Target) {
        let on = &on.with_memory_budget(8 << 20);
        let bytes: Vec<u8> = (0..32u32 << 20).map(|i| (i % 251) as u8).collect();
        let map = RowMap::<str>::new(on.device()).unwrap();
        for from in [0i64, 5, 20_000_003, (32 << 20) - 300] {
            let offsets: Vec<i64> = (0..=100).map(|i| from + 3 * i).collect();
            let column = StringColumn::new(&offsets, &bytes);
            let rows = map.insert(&column).unwrap();
            let expected: Vec<&[u8]> = (0..100)
                .map(|i| &bytes[offsets[i] as usize..][..3])
                .collect();
            assert_eq!(map.get(&expected).unwrap(), map.get(&column).unwrap());
            let keys = map.keys().unwrap().to_vecs();
            for (row, string) in rows.into_iter().zip(expected) {
                assert_eq!(keys[row as usize], string);
            }
        }
    }
    on_every_device(body);
}

/// Such strings take no memory of the host, which gives pages when they are read. They are not.
#[test]
fn strings_of_4_gib_are_refused() {
    fn body(on: &Target) {
        if !on.is_native() {
            // A GPU gets a copy.
            return;
        }
        let len = (1usize << 32) + 8;
        let Ok(bytes) = gpumap::bytemuck::try_zeroed_vec::<u8>(len) else {
            return gpumap_test_skips::skip("no address space for a string of 4 GiB");
        };
        let map = RowMap::<str>::new(on.device()).unwrap();
        let refused = map.insert(&StringColumn::new(&[0i64, 1, 1 + (1 << 32)], &bytes));
        match refused {
            Err(Error::CapacityOverflow { elements, .. }) => assert_eq!(elements, 1 << 32),
            other => panic!("{other:?}"),
        }
        assert!(map.is_empty());
    }
    on_every_device(body);
}
