//! The format byte by byte, and what becomes of every damage to a small file.

use super::*;
use crate::map::{Growth, Number};
use crate::{Device, Error, Key, Map, Value};

/// Made by another program from the description in the guide.
const EXAMPLE: &str = "
    89 67 70 75 6d 61 70 0a 01 00 00 00 01 02 04 00
    08 00 00 00 07 00 00 00 02 00 00 00 00 00 00 00
    64 00 00 00 00 00 00 00 00 00 00 00 00 00 e0 3f
    00 00 00 00 00 00 00 00 00 00 00 00 a3 6b 24 00
    02 00 00 00 b7 0b c0 8f 01 00 00 00 ff ff ff ff
    00 00 00 00 00 00 e0 3f 00 00 00 00 00 00 00 c0
    00 00 00 00 35 7b 1d 25 02 00 00 00 00 00 00 00
    3f 15 21 e5";

fn example() -> Vec<u8> {
    let byte = |text| u8::from_str_radix(text, 16).unwrap();
    EXAMPLE.split_whitespace().map(byte).collect()
}

fn example_header() -> Header {
    let mut header = Header::new::<u32, f64>(2);
    header.capacity = 100;
    header.max_load_factor = 0.5;
    header.growth = Growth::Fixed;
    header.submaps = Some(7);
    header
}

/// All pairs, or the first error.
fn read<K: Key, V: Value>(bytes: &[u8]) -> Result<Vec<(K, V)>, FileError> {
    let mut all = Vec::new();
    let mut read = || {
        let mut reader = Reader::<K, V, _>::new(bytes)?;
        while let Some((keys, values)) = reader.next_block()? {
            all.extend(keys.iter().copied().zip(values.iter().copied()));
        }
        Ok(())
    };
    match read() {
        Ok(()) => Ok(all),
        Err(Error::File { path: None, cause }) => Err(cause),
        Err(error) => panic!("{error}"),
    }
}

/// Three blocks.
fn written() -> Vec<u8> {
    let mut writer = Writer::<u64, u32, _>::new(Vec::new(), &Header::new::<u64, u32>(9)).unwrap();
    writer.write(&[1, 2, 3], &[10, 20, 30]).unwrap();
    writer.write(&[], &[]).unwrap();
    writer.write(&[4], &[40]).unwrap();
    writer.write(&[u64::MAX, 0], &[0, u32::MAX]).unwrap();
    assert_eq!(writer.pairs(), 6);
    writer.finish().unwrap()
}

#[test]
#[cfg(target_endian = "little")]
fn the_bytes_are_those_of_the_guide() {
    let mut writer = Writer::<u32, f64, _>::new(Vec::new(), &example_header()).unwrap();
    writer.write(&[1, !0], &[0.5, -2.0]).unwrap();
    assert_eq!(writer.finish().unwrap(), example());
    assert_eq!(
        read::<u32, f64>(&example()).unwrap(),
        [(1, 0.5), (!0, -2.0)]
    );
    assert_eq!(Header::read(&mut &example()[..]).unwrap(), example_header());
}

#[test]
fn blocks_read_back() {
    let pairs = [
        (1, 10),
        (2, 20),
        (3, 30),
        (4, 40),
        (u64::MAX, 0),
        (0, u32::MAX),
    ];
    assert_eq!(read::<u64, u32>(&written()).unwrap(), pairs);
    let none = Writer::<u32, u32, _>::new(Vec::new(), &Header::new::<u32, u32>(0)).unwrap();
    assert!(
        read::<u32, u32>(&none.finish().unwrap())
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_large_batch_becomes_blocks() {
    let keys: Vec<u32> = (0..MAX_BLOCK_PAIRS as u32 + 5).collect();
    let mut writer = Writer::<u32, u32, _>::new(Vec::new(), &Header::new::<u32, u32>(1)).unwrap();
    writer.write(&keys, &keys).unwrap();
    let bytes = writer.finish().unwrap();
    let mut reader = Reader::<u32, u32, _>::new(&bytes[..]).unwrap();
    let lens: Vec<usize> = std::iter::from_fn(|| {
        let block = reader.next_block().unwrap();
        block.map(|(keys, values)| {
            assert_eq!(keys, values);
            keys.len()
        })
    })
    .collect();
    assert_eq!(lens, [MAX_BLOCK_PAIRS, 5]);
    assert!(reader.next_block().unwrap().is_none());
}

#[test]
fn every_changed_byte_is_noticed() {
    let good = written();
    for at in 0..good.len() {
        for change in [1, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= change;
            let error = read::<u64, u32>(&bytes).unwrap_err();
            assert!(!matches!(error, FileError::Io(_)), "{at}: {error}");
            if at < 8 {
                assert!(matches!(error, FileError::NotAMap));
            }
        }
    }
}

#[test]
fn no_pair_is_given_out_that_was_not_written() {
    let good = written();
    let pairs = read::<u64, u32>(&good).unwrap();
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let Ok(mut reader) = Reader::<u64, u32, _>::new(&bytes[..]) else {
            continue; // an altered header
        };
        let mut given = Vec::new();
        while let Ok(Some((keys, values))) = reader.next_block() {
            given.extend(keys.iter().copied().zip(values.iter().copied()));
        }
        assert!(pairs.starts_with(&given), "byte {at}: {given:?}");
    }
}

#[test]
fn every_missing_byte_is_noticed() {
    let good = written();
    for len in 0..good.len() {
        match read::<u64, u32>(&good[..len]).unwrap_err() {
            FileError::Truncated { bytes } => assert_eq!(bytes, len as u64),
            error => panic!("{len}: {error}"),
        }
    }
    let longer = [&good[..], &[0]].concat();
    let at = good.len() as u64;
    match read::<u64, u32>(&longer).unwrap_err() {
        FileError::TrailingBytes { at: found } => assert_eq!(found, at),
        error => panic!("{error}"),
    }
}

#[test]
fn blocks_that_are_missing_doubled_or_swapped_are_noticed() {
    let good = written();
    // Where the blocks begin, by their lengths: 3, 1 and 2 pairs of 12 bytes.
    let (a, b, c, end) = (64, 64 + 44, 64 + 64, 64 + 64 + 32);
    let parts = |ranges: &[std::ops::Range<usize>]| -> Vec<u8> {
        let parts: Vec<&[u8]> = ranges.iter().map(|range| &good[range.clone()]).collect();
        parts.concat()
    };
    let all = good.len();
    assert_eq!(parts(&[0..a, a..b, b..c, c..end, end..all]), good);
    for ranges in [
        &[0..a, a..b, c..end, end..all][..],
        &[0..a, a..b, b..c, b..c, c..end, end..all],
        &[0..a, b..c, a..b, c..end, end..all],
        &[0..a, end..all],
    ] {
        let error = read::<u64, u32>(&parts(ranges)).unwrap_err();
        let part = FilePart::Whole;
        assert!(matches!(error, FileError::Checksum { part: found } if found == part));
    }
}

#[test]
fn other_types_and_versions_are_refused() {
    let sizes = |error| match error {
        FileError::KeySize { found, expected } => ("key", found, expected),
        FileError::ValueSize { found, expected } => ("value", found, expected),
        error => panic!("{error}"),
    };
    let good = written();
    assert_eq!(sizes(read::<u32, u32>(&good).unwrap_err()), ("key", 8, 4));
    assert_eq!(sizes(read::<u64, f64>(&good).unwrap_err()), ("value", 4, 8));
    // Their kind is information.
    assert!(read::<i64, f32>(&good).is_ok());
    let header = Header::read(&mut &good[..]).unwrap();
    assert_eq!(header.number, Some(Number::Unsigned));
    let other = Writer::<u64, u64, _>::new(Vec::new(), &header).unwrap_err();
    assert!(matches!(other, Error::File { .. }));

    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        let checksum = crc32fast::hash(&bytes[..60]);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        read::<u64, u32>(&bytes).unwrap_err()
    };
    assert!(matches!(
        with(8, 7),
        FileError::Version { found: 7, known: 6 }
    ));
    // The version says whether there is a label, and whether there are values that are no numbers, rows, or several pairs of a key.
    assert!(matches!(with(8, 2), FileError::Field { field: "label" }));
    for (at, byte) in [(8, 3), (8, 4), (8, 5), (8, 6), (13, 3), (13, 4), (13, 0x80)] {
        let field = "kind of value";
        assert!(matches!(with(at, byte), FileError::Field { field: found } if found == field));
    }
    for kind in [5, 6] {
        assert!(matches!(with(13, kind), FileError::Field { .. }));
    }
    let byte_order = if cfg!(target_endian = "little") { 2 } else { 1 };
    assert!(matches!(with(12, byte_order), FileError::ByteOrder));
    for (at, name) in [(12, "byte order"), (13, "kind of value"), (56, "label")] {
        assert!(matches!(with(at, 77), FileError::Field { field } if field == name));
    }
    assert!(matches!(
        read::<u32, u32>(b"key,value\n"),
        Err(FileError::NotAMap)
    ));
    assert!(matches!(read::<u32, u32>(b"key"), Err(FileError::NotAMap)));
}

#[test]
fn a_file_is_of_the_oldest_version_that_has_what_it_says() {
    let (unsigned, label) = (Some(Number::Unsigned), *b"K\x15\x01\0");
    for (label, number, is_multimap, version) in [
        ([0; 4], unsigned, false, 1),
        ([0, 0, 0, 1], unsigned, false, 2),
        (label, unsigned, false, 2),
        ([0; 4], None, false, 3),
        (label, None, false, 3),
        ([0; 4], unsigned, true, 3),
        (label, Some(Number::Float), true, 3),
        ([0; 4], None, true, 3),
    ] {
        let mut header = Header::new::<u32, u64>(2);
        (header.label, header.number, header.is_multimap) = (label, number, is_multimap);
        let mut writer = Writer::<u32, u64, _>::new(Vec::new(), &header).unwrap();
        writer.write(&[1, 2], &[3, 4]).unwrap();
        let bytes = writer.finish().unwrap();
        assert_eq!((bytes[8], &bytes[56..60]), (version, &label[..]));
        let mut reader = Reader::<u32, u64, _>::new(&bytes[..]).unwrap();
        assert_eq!(reader.header(), &header);
        let block = reader.next_block().unwrap();
        assert_eq!(block, Some((&[1, 2][..], &[3, 4][..])));
        assert_eq!(reader.next_block().unwrap(), None);
        match Map::<u32, u64>::builder(&Device::cpu()).load_from(&bytes[..]) {
            Err(Error::File { cause, .. }) if is_multimap => {
                assert!(matches!(cause, FileError::Multimap));
            }
            map => assert_eq!(map.unwrap().get(&[2]).unwrap(), [Some(4)]),
        }
    }
}

#[test]
fn claims_are_not_believed() {
    let mut bytes = written();
    bytes[64..68].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = read::<u64, u32>(&bytes).unwrap_err();
    assert!(matches!(
        error,
        FileError::BlockSize {
            block: 0,
            pairs: u32::MAX,
            ..
        }
    ));
}

/// Audit finding 16.
#[test]
fn a_reader_that_says_it_read_more_than_it_may_is_an_error() {
    struct Boasting<'a>(&'a [u8], usize);
    impl std::io::Read for Boasting<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
            let read = std::io::Read::read(&mut self.0, bytes)?;
            self.1 -= 1;
            Ok(if self.1 == 0 { usize::MAX } else { read })
        }
    }
    // The header is read at once; later reads are for the start of a block, its keys, its values, and so on.
    for read in 1..12 {
        let bytes = written();
        let outcome = Reader::<u64, u32, _>::new(Boasting(&bytes, read)).and_then(|mut reader| {
            while reader.next_block()?.is_some() {}
            Ok(())
        });
        let Err(Error::File { cause, .. }) = outcome else {
            panic!("{read}: {outcome:?}")
        };
        assert!(matches!(cause, FileError::Io(_)), "{read}: {cause}");
    }
}

#[test]
fn a_device_that_is_full_is_an_error() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let written = bytes.len().min(self.0);
            self.0 -= written;
            Ok(written)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for room in 0..written().len() {
        let outcome = Writer::<u64, u32, _>::new(Full(room), &Header::new::<u64, u32>(6)).and_then(
            |mut writer| {
                writer.write(&[1, 2, 3], &[1, 2, 3])?;
                writer.write(&[4], &[4])?;
                writer.write(&[5, 6], &[5, 6])?;
                writer.finish().map(drop)
            },
        );
        let error = outcome.unwrap_err();
        assert!(matches!(
            error,
            Error::File {
                cause: FileError::Io(_),
                ..
            }
        ));
    }
}
