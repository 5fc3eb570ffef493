//! The format byte by byte, and what becomes of every damage to a small file.

use super::*;
use crate::map::{Growth, Number};
use crate::{Device, Error, Key, Map, Value};

/// Made by another program from the description in the guide.
const EXAMPLE: &str = "
    89 67 70 75 6d 61 70 0a 07 00 00 00 01 00 04 00
    08 00 21 33 07 00 00 00 02 00 00 00 00 00 00 00
    64 00 00 00 00 00 00 00 00 00 00 00 00 00 e0 3f
    00 00 00 00 00 00 00 00 00 00 00 00 be da 02 f6
    02 00 00 00 b7 0b c0 8f 01 00 00 00 ff ff ff ff
    00 00 00 00 00 00 e0 3f 00 00 00 00 00 00 00 c0
    00 00 00 00 35 7b 1d 25 02 00 00 00 00 00 00 00
    3f 15 21 e5";

/// The same in version 1, which did not say the kinds.
const EARLIER: &str = "
    89 67 70 75 6d 61 70 0a 01 00 00 00 01 02 04 00
    08 00 00 00 07 00 00 00 02 00 00 00 00 00 00 00
    64 00 00 00 00 00 00 00 00 00 00 00 00 00 e0 3f
    00 00 00 00 00 00 00 00 00 00 00 00 a3 6b 24 00
    02 00 00 00 b7 0b c0 8f 01 00 00 00 ff ff ff ff
    00 00 00 00 00 00 e0 3f 00 00 00 00 00 00 00 c0
    00 00 00 00 35 7b 1d 25 02 00 00 00 00 00 00 00
    3f 15 21 e5";

fn example() -> Vec<u8> {
    bytes_of(EXAMPLE)
}

fn bytes_of(text: &str) -> Vec<u8> {
    let byte = |text| u8::from_str_radix(text, 16).unwrap();
    text.split_whitespace().map(byte).collect()
}

/// A header without kinds, of an earlier version.
fn earlier(header: Header) -> Header {
    Header {
        key_kind: None,
        ..header
    }
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

    let (header, bytes) = (earlier(example_header()), bytes_of(EARLIER));
    let mut writer = Writer::<u32, f64, _>::new(Vec::new(), &header).unwrap();
    writer.write(&[1, !0], &[0.5, -2.0]).unwrap();
    assert_eq!(writer.finish().unwrap(), bytes);
    assert_eq!(Header::read(&mut &bytes[..]).unwrap(), header);
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
    let (found, bytes) = (Kind::of::<u64>(), 8);
    let refused = read::<i64, u32>(&good).unwrap_err();
    let (signed, of_keys) = (Kind::of::<i64>(), "has keys of type u64, not i64");
    assert!(refused.to_string().starts_with(of_keys), "{refused}");
    assert!(
        matches!(refused, FileError::KeyType { found: f, expected: e, bytes: b }
        if (f, e, b) == (found, signed, bytes))
    );
    let refused = read::<u64, f32>(&good).unwrap_err();
    let of_values = "has values of type u32, not f32";
    assert!(refused.to_string().starts_with(of_values), "{refused}");
    assert!(matches!(refused, FileError::ValueType { bytes: 4, .. }));
    let header = Header::read(&mut &good[..]).unwrap();
    let kinds = (header.key_kind, header.value_kind);
    assert_eq!(kinds, (Some(Kind::of::<u64>()), Some(Kind::of::<u32>())));
    let other = Writer::<u64, u64, _>::new(Vec::new(), &header).unwrap_err();
    assert!(matches!(other, Error::File { .. }));

    let changed = |good: &[u8], at: usize, byte: u8| {
        let mut bytes = good.to_vec();
        bytes[at] = byte;
        let checksum = crc32fast::hash(&bytes[..60]);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        read::<u64, u32>(&bytes).unwrap_err()
    };
    let with = |at, byte| changed(&good, at, byte);
    let is_field = |error: FileError, field| matches!(error, FileError::Field { field: found } if found == field);
    assert!(matches!(
        with(8, 8),
        FileError::Version { found: 8, known: 7 }
    ));
    for (at, bytes, field) in [
        (12, &[0, 77][..], "byte order"),
        (13, &[1, 2, 3, 7, 77], "kind of map"),
        // Of no number, and of one that is larger than the key.
        (18, &[0x34, 0x41, 0x51], "kind of key"),
        (19, &[0x24, 0x31, 0x19], "kind of value"),
        (13, &[6], "rank"),
    ] {
        for &byte in bytes {
            assert!(is_field(with(at, byte), field), "{byte:#x} at {at}");
        }
    }
    assert!(matches!(with(13, 5), FileError::Strings));
    assert!(matches!(with(18, 0x32), FileError::KeyType { .. }));
    assert!(matches!(with(19, 0x23), FileError::ValueType { .. }));
    let byte_order = if cfg!(target_endian = "little") { 2 } else { 1 };
    assert!(matches!(with(12, byte_order), FileError::ByteOrder));

    // The version says whether there is a label, and whether there are values that are no numbers, rows, or several pairs of a key.
    let header = earlier(Header::new::<u64, u32>(1));
    let mut writer = Writer::<u64, u32, _>::new(Vec::new(), &header).unwrap();
    writer.write(&[1], &[2]).unwrap();
    let old = writer.finish().unwrap();
    assert_eq!(read::<i64, u32>(&old).unwrap(), [(1, 2)]);
    assert!(matches!(
        read::<u64, i32>(&old),
        Err(FileError::ValueType { .. })
    ));
    let with = |at, byte| changed(&old, at, byte);
    assert!(is_field(with(8, 2), "label") && is_field(with(56, 77), "label"));
    for (at, byte) in [
        (8, 3),
        (8, 4),
        (8, 5),
        (8, 6),
        (13, 3),
        (13, 4),
        (13, 0x80),
        (13, 77),
    ] {
        assert!(
            is_field(with(at, byte), "kind of value"),
            "{byte:#x} at {at}"
        );
    }
    for kind in [5, 6] {
        assert!(matches!(with(13, kind), FileError::Field { .. }));
    }
    assert!(matches!(
        read::<u32, u32>(b"key,value\n"),
        Err(FileError::NotAMap)
    ));
    assert!(matches!(read::<u32, u32>(b"key"), Err(FileError::NotAMap)));
}

#[test]
fn a_file_without_kinds_is_of_the_oldest_version_that_has_what_it_says() {
    let (unsigned, label) = (Some(Kind::of::<u64>()), *b"K\x15\x01\0");
    for (label, values, is_multimap, version) in [
        ([0; 4], unsigned, false, 1),
        ([0, 0, 0, 1], unsigned, false, 2),
        (label, unsigned, false, 2),
        ([0; 4], None, false, 3),
        (label, None, false, 3),
        ([0; 4], unsigned, true, 3),
        (label, Some(Kind::Numbers(Number::Float, 8)), true, 3),
        ([0; 4], None, true, 3),
    ] {
        let mut header = earlier(Header::new::<u32, u64>(2));
        (header.label, header.value_kind, header.is_multimap) = (label, values, is_multimap);
        // Of floating-point numbers this reads the bytes.
        let mut writer = Writer::<u32, [u8; 8], _>::new(Vec::new(), &header).unwrap();
        writer
            .write(&[1, 2], &[3_u64, 4].map(u64::to_ne_bytes))
            .unwrap();
        let bytes = writer.finish().unwrap();
        assert_eq!((bytes[8], &bytes[56..60]), (version, &label[..]));
        let mut reader = Reader::<u32, [u8; 8], _>::new(&bytes[..]).unwrap();
        assert_eq!(reader.header(), &header);
        let block = reader.next_block().unwrap();
        assert_eq!(
            block,
            Some((&[1, 2][..], &[3_u64, 4].map(u64::to_ne_bytes)[..]))
        );
        assert_eq!(reader.next_block().unwrap(), None);
        match Map::<u32, u64>::builder(&Device::cpu()).load_from(&bytes[..]) {
            Err(Error::File { cause, .. }) if is_multimap => {
                let is_float = values.is_some() && values != unsigned;
                assert!(matches!(cause, FileError::Multimap) || is_float, "{cause}");
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
