//! Lookups of strings on streams.

use gpumap::rows::NO_ROW;
use gpumap::strings::{StringColumn, Strings};
use gpumap::{Buffer, Error, RowMap};
use gpumap_tests::Target;

use super::{Checked, on_every_device, strings};

#[test]
fn lookups_are_queued_wherever_strings_lie() {
    fn body(on: &Target) {
        let n = on.n(500, 100_000) as u64;
        let stream = on.stream();
        let mut both = Checked::new(on);
        let batch = strings((0..n).step_by(2));
        let Checked { map, oracle } = &mut both;
        let queued = map.on(&stream);
        let given = queued.insert(&batch).unwrap().wait().unwrap();
        assert_eq!(given, oracle.insert(&batch).0);
        let asked = strings(0..n);
        let expected = oracle.get(&asked);
        let flat = Strings::from_iter(&asked);
        let narrow: Vec<i32> = flat.offsets().iter().map(|&at| at as i32).collect();
        let bytes = Buffer::from_slice(&stream, flat.bytes()).unwrap();
        let wide = Buffer::from_slice(&on.stream(), flat.offsets()).unwrap();
        for column in [
            StringColumn::new(&wide, &bytes),
            StringColumn::new(&narrow, &bytes),
            StringColumn::new(&wide, flat.bytes()),
            StringColumn::new(flat.offsets(), flat.bytes()),
            // A part of a column of the host.
            StringColumn::new(&narrow[7..], flat.bytes()),
        ] {
            let expected = &expected[expected.len() - column.len()..];
            let mut rows = Buffer::from_slice(&on.stream(), &vec![7; column.len() + 2]).unwrap();
            let told = queued.get(&column).unwrap();
            queued.get_into(&column, &mut rows).unwrap().wait().unwrap();
            assert_eq!(told.wait().unwrap(), expected);
            let expected = expected
                .iter()
                .map(|row| row.unwrap_or(NO_ROW))
                .chain([7; 2]);
            assert!(rows.to_vec().unwrap().into_iter().eq(expected));
        }
        assert_eq!(queued.get(&asked).unwrap().wait().unwrap(), expected);
        assert_eq!(queued.get(&asked[..0]).unwrap().wait().unwrap(), []);
        let short = queued.get_into(&asked, &mut Buffer::zeroed(&stream, 3).unwrap());
        assert!(matches!(short, Err(Error::OutputTooSmall { given: 3, .. })));
        let gone = &batch[..20];
        assert_eq!(
            queued.remove(gone).unwrap().wait().unwrap(),
            oracle.remove(gone)
        );
        assert_eq!(queued.get(gone).unwrap().wait().unwrap(), [None; 20]);
        both.assert_same();
    }
    on_every_device(body);
}

/// Of offsets that are wrong the answer is an error, and the next one is not.
#[test]
fn wrong_offsets_are_an_error_of_the_answer() {
    fn body(on: &Target) {
        let stream = on.stream();
        let bytes = Buffer::from_slice(&stream, &[b'a'; 50]).unwrap();
        let map = RowMap::<str>::new(on.device()).unwrap();
        map.insert(&["aaaa"]).unwrap();
        let queued = map.on(&stream);
        for (offsets, ends) in [
            (vec![0i64, 4, 3, 9], [4, 3]),
            (vec![-1, 4], [usize::MAX, 4]),
            (vec![0, 50, 51], [50, 51]),
            (vec![60, 60], [60, 60]),
        ] {
            let column = Buffer::from_slice(&stream, &offsets).unwrap();
            let mut rows = Buffer::zeroed(&stream, offsets.len()).unwrap();
            for column in [
                StringColumn::new(&column, &bytes),
                StringColumn::new(&offsets, &bytes),
            ] {
                let wrong = [
                    queued.get(&column).unwrap().wait().map(drop),
                    queued.get_into(&column, &mut rows).unwrap().wait(),
                ];
                for wrong in wrong {
                    match wrong {
                        Err(Error::OutOfRange { start, end, len }) => {
                            assert_eq!(([start, end], len), (ends, 50));
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            let column = Buffer::from_slice(&stream, &[3i64, 7, 7]).unwrap();
            let told = queued.get(&StringColumn::new(&column, &bytes)).unwrap();
            assert_eq!(told.wait().unwrap(), [Some(0), None]);
        }
    }
    on_every_device(body);
}
