//! Files of row maps of strings. They are made here by the guide's page on the format as well, so that what is damaged has right
//! checksums.

use std::fs;

use gpumap::file::FileError;
use gpumap::{Device, Error, Map, Result, RowMap};
use gpumap_tests::Target;

use super::super::Oracle;
use super::{Checked, Text, on_every_device, strings};

const HEADER: usize = 64;

/// Puts the right checksum into a header.
fn mend(header: &mut [u8]) {
    let checksum = crc32fast::hash(&header[..HEADER - 4]);
    header[HEADER - 4..HEADER].copy_from_slice(&checksum.to_le_bytes());
}

/// The header of a file of so many strings.
fn header(strings: u64, row_bound: u64) -> Vec<u8> {
    let mut header = b"\x89gpumap\n".to_vec();
    header.extend(5u32.to_le_bytes());
    header.extend([if cfg!(target_endian = "little") { 1 } else { 2 }, 5]);
    header.extend(0u16.to_le_bytes());
    header.extend(4u32.to_le_bytes());
    header.extend(0u32.to_le_bytes());
    header.extend(strings.to_le_bytes());
    header.extend(row_bound.to_le_bytes());
    header.extend(0.8f64.to_le_bytes());
    header.extend(2f64.to_le_bytes());
    header.extend([0; 8]);
    assert_eq!(header.len(), HEADER);
    mend(&mut header);
    header
}

/// A block of strings with these lengths, rows and bytes.
fn block(lens: &[u32], rows: &[u32], bytes: &[u8]) -> Vec<u8> {
    let words = lens.iter().chain(rows);
    let mut columns: Vec<u8> = words.flat_map(|word| word.to_ne_bytes()).collect();
    columns.extend(bytes);
    let mut block = (lens.len() as u32).to_le_bytes().to_vec();
    block.extend(crc32fast::hash(&columns).to_le_bytes());
    block.extend(columns);
    block
}

/// A file of blocks that have so many strings in all.
fn file(mut file: Vec<u8>, blocks: &[Vec<u8>], strings: u64) -> Vec<u8> {
    file.extend(blocks.concat());
    let mut end = [0; 20];
    end[4..8].copy_from_slice(&crc32fast::hash(&file).to_le_bytes());
    end[8..16].copy_from_slice(&strings.to_le_bytes());
    let checksum = crc32fast::hash(&end[..16]);
    end[16..].copy_from_slice(&checksum.to_le_bytes());
    file.extend(end);
    file
}

/// The strings "to", "", "be" and "or" in two blocks.
fn small() -> Vec<u8> {
    let blocks = [
        block(&[2, 0], &[0, 2], b"to"),
        block(&[2, 2], &[5, 6], b"beor"),
    ];
    file(header(4, 9), &blocks, 4)
}

fn cause<T>(outcome: Result<T>) -> FileError {
    match outcome {
        Err(Error::File { cause, .. }) => cause,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was loaded"),
    }
}

/// Panics unless a map holds what an oracle does, and goes on as that does.
fn assert_goes_on(map: RowMap<str>, oracle: Oracle, next: &[Text]) {
    let mut both = Checked { map, oracle };
    both.assert_same();
    both.insert(next);
    both.remove(&strings((0..3_000).step_by(3)));
    both.assert_same();
    both.compact();
    both.assert_same();
}

#[test]
fn strings_come_back_on_every_device() {
    fn body(on: &Target) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("strings");
        let n = on.n(300, 20_000) as u64;
        for (rows, removed) in [
            (0, 0..0),
            (1, 0..0),
            (1, 0..1),
            (n, 0..0),
            (n, 0..n - 1),
            (n, 0..n),
            (n, n / 3..n / 2),
            (96, 40..96),
        ] {
            let mut both = Checked::new(on);
            both.insert(&strings(0..rows));
            both.remove(&strings(removed));
            let Checked { map, oracle } = both;
            assert_eq!(map.save(&path).unwrap(), map.len() as u64);
            let mut bytes = Vec::new();
            assert_eq!(map.save_to(&mut bytes).unwrap(), map.len() as u64);
            assert_eq!(fs::read(&path).unwrap(), bytes);
            oracle.assert_same(&map);
            // Here, on another device, and from there again.
            let next = strings(rows / 2..rows + 40);
            let there = Device::cpu();
            for back in [
                RowMap::<str>::load(on.device(), &path),
                RowMap::<str>::builder(on.device()).load_from(&bytes[..]),
                RowMap::<str>::load(&there, &path),
            ] {
                let mut again = Vec::new();
                let back = back.unwrap();
                assert_eq!(back.row_bound() as u64, rows);
                back.save_to(&mut again).unwrap();
                assert_eq!(again, bytes);
                assert_goes_on(back, oracle.clone(), &next);
            }
            // A builder may have room for more.
            let builder = RowMap::<str>::builder(on.device())
                .capacity(1_000)
                .bytes(99_000);
            let back = builder.load(&path).unwrap();
            assert!(back.capacity() >= 1_000 && back.byte_capacity() >= 99_000);
            assert_goes_on(back, oracle, &next);
        }
    }
    on_every_device(body);
}

#[test]
fn long_strings_come_back() {
    fn body(on: &Target) {
        // Together more than is on the host at a time, and one that is more by itself.
        let each = on.n(300_000, 7 << 20);
        let mut batch = strings(0..20);
        batch.extend((0..4u8).map(|i| Text(vec![i; each + usize::from(i)])));
        batch.push(Text(vec![b'z'; on.n(1 << 20, 18 << 20)]));
        batch.extend(strings(50..51));
        let mut both = Checked::new(on);
        both.insert(&batch);
        let mut bytes = Vec::new();
        both.map.save_to(&mut bytes).unwrap();
        let builder = RowMap::<str>::builder(on.device());
        both.map = builder.load_from(&bytes[..]).unwrap();
        both.assert_same();
        both.insert(&batch);
        let mut told = Vec::new();
        both.map
            .for_each_chunk(4, |chunk| {
                let (strings, rows) = (chunk.keys(), chunk.values());
                assert!(strings.len() <= 4 && strings.len() == rows.len());
                assert!(strings.len() == 1 || strings.bytes().len() <= 16 << 20);
                told.extend(
                    strings
                        .to_vecs()
                        .into_iter()
                        .map(Text)
                        .zip(rows.iter().copied()),
                );
                Ok(())
            })
            .unwrap();
        assert!(told.into_iter().eq(batch.into_iter().zip(0..)));
    }
    on_every_device(body);
}

#[test]
fn a_file_that_another_program_made_is_loaded() {
    let device = Device::cpu();
    let map = RowMap::<str>::builder(&device)
        .load_from(&small()[..])
        .unwrap();
    let expected = [b"to", &b""[..], b"be", b"or"];
    let (keys, rows) = map.retrieve_all().unwrap();
    assert!(keys.iter().eq(expected));
    assert_eq!((rows, map.row_bound()), (vec![0, 2, 5, 6], 9));
    // Its blocks become one.
    let mut bytes = Vec::new();
    map.save_to(&mut bytes).unwrap();
    let one = [block(&[2, 0, 2, 2], &[0, 2, 5, 6], b"tobeor")];
    let mut same = file(header(4, 9), &one, 4);
    // It was of version 5, which does not say that rows are `u32`.
    (same[8], same[19]) = (7, 0x21);
    // Load and growth factors are other ones.
    assert_eq!(bytes.len(), same.len());
    assert_eq!((&bytes[..40], &bytes[56..60]), (&same[..40], &same[56..60]));
    assert_eq!(
        bytes[HEADER..same.len() - 20],
        same[HEADER..same.len() - 20]
    );
}

/// A file that is damaged anywhere is an error, and takes no memory.
#[test]
fn every_damage_is_found() {
    let device = Device::cpu().with_memory_budget(32 << 20);
    let load = |bytes: &[u8]| RowMap::<str>::builder(&device).load_from(bytes);
    let good = small();
    assert_eq!(load(&good).unwrap().len(), 4);
    for len in 0..good.len() {
        let refused = cause(load(&good[..len]));
        let is_short = matches!(refused, FileError::Truncated { .. } | FileError::NotAMap);
        assert!(is_short, "{len}: {refused}");
    }
    for at in 0..good.len() {
        for change in [1, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= change;
            let refused = cause(load(&bytes));
            assert!(!matches!(refused, FileError::Io(_)), "{at}: {refused}");
        }
    }
    let longer = [&good[..], &[0]].concat();
    assert!(matches!(
        cause(load(&longer)),
        FileError::TrailingBytes { .. }
    ));
    assert_eq!(device.allocated_bytes(), 0);
}

/// Each byte of the header, with right checksums: an error, or the map that was saved, where the byte is information.
#[test]
fn every_field_of_the_header_is_checked() {
    let device = Device::cpu().with_memory_budget(32 << 20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("strings");
    let blocks = [block(&[2, 0, 3], &[0, 2, 7], b"tobee")];
    let (mut refused, mut loaded) = (Vec::new(), Vec::new());
    for at in 0..HEADER - 4 {
        for byte in [0, 1, 2, 4, 5, 0x7f, 0x85, 0xff] {
            let mut header = header(3, 8);
            if header[at] == byte {
                continue;
            }
            header[at] = byte;
            mend(&mut header);
            let bytes = file(header, &blocks, 3);
            fs::write(&path, &bytes).unwrap();
            for outcome in [
                RowMap::<str>::load(&device, &path),
                RowMap::<str>::builder(&device).load_from(&bytes[..]),
            ] {
                match outcome {
                    Ok(map) => {
                        loaded.push(at);
                        assert_eq!(map.get(&["", "bee"]).unwrap(), [Some(2), Some(7)]);
                    }
                    Err(Error::File { .. }) => refused.push(at),
                    Err(error) => panic!("{at}, {byte}: {error}"),
                }
            }
        }
    }
    // What begins a file, its version, byte order, kind of value, and sizes.
    assert!((0..20).all(|at| refused.contains(&at)));
    assert!((0..13).chain(14..20).all(|at| !loaded.contains(&at)));
    // Submaps, strings when saving began, load and growth factors, and label.
    let information = (20..32).chain(40..60);
    assert!(information.clone().all(|at| loaded.contains(&at)));
    // The row bound: below the rows that there are, or far beyond what the strings justify.
    assert!(
        [32].into_iter()
            .chain(34..40)
            .all(|at| refused.contains(&at))
    );
    assert_eq!(device.allocated_bytes(), 0);
}

#[test]
fn what_checksums_do_not_tell_is_refused() {
    fn body(on: &Target) {
        let load = |bytes: Vec<u8>| RowMap::<str>::builder(on.device()).load_from(&bytes[..]);
        let of = |lens: &[u32], rows: &[u32], bytes: &[u8]| {
            let strings = lens.len() as u64;
            load(file(
                header(strings, 9),
                &[block(lens, rows, bytes)],
                strings,
            ))
        };
        assert_eq!(of(&[1, 2], &[3, 8], b"abb").unwrap().len(), 2);
        // Rows that do not rise, or are not below the bound, and a string with two of them.
        for (rows, wrong) in [([3, 3], 3), ([3, 2], 2), ([3, 9], 9), ([3, !0], !0)] {
            let refused = cause(of(&[1, 2], &rows, b"abb"));
            assert!(
                matches!(refused, FileError::Row { row } if row == wrong),
                "{refused}"
            );
        }
        let refused = cause(of(&[2, 0, 2], &[3, 4, 7], b"abab"));
        assert!(
            matches!(refused, FileError::Row { row: 3 | 7 }),
            "{refused}"
        );
        // Lengths that there are no bytes for, and too few of them.
        for lens in [[2, !0], [!0, !0], [2, 80_000_000]] {
            let refused = cause(of(&lens, &[0, 1], b"abab"));
            assert!(matches!(refused, FileError::Truncated { .. }), "{refused}");
        }
        assert!(matches!(
            cause(of(&[2, 1], &[0, 1], b"abab")),
            FileError::Checksum { .. }
        ));
        // A block of too many, and a number of strings that is not theirs.
        let mut many = block(&[1, 1], &[0, 1], b"ab");
        many[..4].copy_from_slice(&(1u32 << 20 | 1).to_le_bytes());
        let refused = cause(load(file(header(2, 9), &[many], 2)));
        assert!(
            matches!(refused, FileError::BlockSize { block: 0, .. }),
            "{refused}"
        );
        let few = file(header(2, 9), &[block(&[1, 1], &[0, 1], b"ab")], 3);
        assert!(matches!(
            cause(load(few)),
            FileError::Pairs {
                found: 2,
                expected: 3
            }
        ));
    }
    on_every_device(body);
}

#[test]
fn rows_are_not_believed_without_strings() {
    let device = Device::cpu().with_memory_budget(64 << 20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("strings");
    let far = block(&[1, 1], &[0, (1 << 30) - 1], b"ab");
    let far = file(header(2, 1 << 30), &[far], 2);
    fs::write(&path, &far).unwrap();
    for refused in [
        cause(RowMap::<str>::load(&device, &path)),
        cause(RowMap::<str>::builder(&device).load_from(&far[..])),
    ] {
        assert!(matches!(refused, FileError::RowBound { .. }), "{refused}");
    }
    // Of 100,000 rows two are left: the builder says that there may be so many.
    let mut both = Checked::from(RowMap::<str>::new(&device).unwrap());
    let batch = strings(0..100_000);
    both.insert(&batch);
    both.remove(&batch[1..99_999]);
    let Checked { map, oracle } = both;
    map.save(&path).unwrap();
    drop(map);
    let refused = cause(RowMap::<str>::load(&device, &path));
    assert!(matches!(refused, FileError::RowBound { rows: 100_000, .. }));
    let builder = RowMap::<str>::builder(&device).capacity(100_000);
    oracle.assert_same(&builder.load(&path).unwrap());
}

#[test]
fn files_of_other_maps_are_refused() {
    let device = Device::cpu();
    let (mut rows, mut pairs) = (Vec::new(), Vec::new());
    let map = RowMap::<u64>::new(&device).unwrap();
    map.insert(&[7, 8]).unwrap();
    map.save_to(&mut rows).unwrap();
    let map = Map::<u64, u32>::from_pairs(&device, [(1, 0), (2, 1)]).unwrap();
    map.save_to(&mut pairs).unwrap();
    for other in [&rows[..], &pairs] {
        let refused = cause(RowMap::<str>::builder(&device).load_from(other));
        assert!(matches!(refused, FileError::NoStrings), "{refused}");
    }
    let refused = cause(RowMap::<str>::builder(&device).load_from(&b"to\nbe\nor\n"[..]));
    assert!(matches!(refused, FileError::NotAMap));
    let strings = small();
    let refused = cause(RowMap::<u64>::builder(&device).load_from(&strings[..]));
    assert!(matches!(refused, FileError::Strings));
    let refused = cause(Map::<u64, u32>::builder(&device).load_from(&strings[..]));
    assert!(matches!(refused, FileError::Strings));
    let missing = cause(RowMap::<str>::load(&device, "/nowhere/strings"));
    assert!(matches!(missing, FileError::Io(_)));
}
