//! What is written is read, and what is damaged is not.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use super::*;
use crate::error::{Error, Result};
use crate::kmer::{Code, KmerLength, reverse_complement};
use crate::output::{Destination, commit_all};

/// K-mers of so many bases.
pub fn kind(k: u8, strand: Strand) -> KmerKind {
    let length = KmerLength::new(k).unwrap();
    KmerKind { length, strand }
}

/// The file of these k-mers, which are handed over `at_once` at a time.
pub fn file_of<C: Code>(kind: KmerKind, pairs: &[(C, u64)], at_once: usize) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gpk");
    let mut staged = Destination::any(&path).stage().unwrap();
    staged
        .write_with(|out| {
            let mut writer = Writer::new(out, kind)?;
            for pairs in pairs.chunks(at_once) {
                let (keys, counts): (Vec<C>, Vec<u64>) = pairs.iter().copied().unzip();
                writer.write(&keys, &counts)?;
            }
            assert_eq!(writer.finish()?, pairs.len() as u64);
            Ok(())
        })
        .unwrap();
    commit_all(vec![staged]).unwrap();
    fs::read(path).unwrap()
}

fn open<C: Code>(path: &Path, bytes: &[u8]) -> Result<Reader<C>> {
    fs::write(path, bytes).unwrap();
    Reader::open("a.gpk", File::open(path).unwrap(), bytes.len() as u64)
}

fn read_all<C: Code>(path: &Path, bytes: &[u8]) -> Result<Vec<(C, u64)>> {
    fs::write(path, bytes).unwrap();
    let mut pairs = Vec::new();
    let file = File::open(path).unwrap();
    read("a.gpk", file, bytes.len() as u64, &mut |key, count| {
        pairs.push((key, count));
        Ok(())
    })?;
    Ok(pairs)
}

fn random(i: u128) -> u128 {
    let number = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    (number ^ number >> 59).wrapping_mul(0xc2b2_ae3d_27d4_eb4f_1656_67b1_9e37_79f9)
}

/// As many different k-mers as that, or as there are, with counts that `count` makes.
pub fn kmers<C: Code>(kind: KmerKind, kmers: usize, count: impl Fn(usize) -> u64) -> Vec<(C, u64)> {
    let mut all = BTreeMap::new();
    for i in 0..8 * kmers {
        let key = C::of_number(random(i as u128)) >> kind.length.unused::<C>();
        let key = match kind.strand {
            Strand::AsRead => key,
            Strand::Canonical => key.min(reverse_complement(key, kind.length)),
        };
        if all.len() < kmers {
            all.insert(key, count(i));
        }
    }
    all.into_iter().collect()
}

/// Counts of 1, small and large ones, and the extremes.
pub fn mixed(i: usize) -> u64 {
    match random(i as u128 + 77) as usize % 1000 {
        0 => u64::MAX,
        1 => 0,
        2 => 1 << 40,
        3..300 => 2 + i as u64 % 60,
        _ => 1,
    }
}

/// What was written is there, and nothing else.
fn there_and_back<C: Code>(kind: KmerKind, pairs: &[(C, u64)]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gpk");
    let bytes = file_of(kind, pairs, usize::MAX);
    // The bytes depend on the content alone.
    if pairs.len() > 1 {
        assert!(file_of(kind, pairs, pairs.len() / 3 + 1) == bytes);
    }
    assert!(read_all(&path, &bytes).unwrap() == pairs, "{kind}");
    let reader = open::<C>(&path, &bytes).unwrap();
    let totals = Totals {
        kmers: pairs.len() as u64,
        largest: pairs.iter().map(|&(_, count)| count).max().unwrap_or(0),
        sum: pairs.iter().map(|&(_, count)| u128::from(count)).sum(),
    };
    assert_eq!(reader.totals(), totals);
    assert_eq!(reader.blocks(), pairs.len().div_ceil(4096));

    // Each of them and its neighbours, in no order.
    let last = !C::zeroed() >> kind.length.unused::<C>();
    let mut wanted = vec![C::zeroed(), last, C::zeroed(), !C::zeroed()];
    for &(key, _) in pairs.iter().rev() {
        let neighbours = [0, 1, u128::MAX].map(|i| C::of_number(key.number().wrapping_add(i)));
        wanted.extend(neighbours);
    }
    let map: BTreeMap<C, u64> = pairs.iter().copied().collect();
    let expected = wanted.iter().map(|key| map.get(key).copied().unwrap_or(0));
    let expected: Vec<u64> = expected.collect();
    assert!(reader.counts_of(&wanted).unwrap() == expected, "{kind}");
    assert_eq!(reader.counts_of(&[]).unwrap(), [0; 0]);
}

fn comes_back<C: Code>(k: u8) {
    let kind_of = |strand| kind(k, strand);
    for (strand, sizes) in [
        (Strand::AsRead, &[0, 1, 2, 4096, 9_000][..]),
        (Strand::Canonical, &[5, 4097]),
    ] {
        let kind = kind_of(strand);
        for &size in sizes {
            there_and_back(kind, &kmers::<C>(kind, size, mixed));
        }
    }
    let kind = kind_of(Strand::AsRead);
    there_and_back(kind, &kmers::<C>(kind, 5_000, |_| 1));
    there_and_back(kind, &kmers::<C>(kind, 500, |i| u64::MAX - i as u64));
    there_and_back(kind, &kmers::<C>(kind, 500, |_| u64::MAX));
    there_and_back(kind, &kmers::<C>(kind, 500, |i| u64::from(i % 90 != 0)));
    // The ends of all that there is, side by side and far from each other.
    let last = !C::zeroed() >> kind.length.unused::<C>();
    let ends = [(C::zeroed(), 3), (last, u64::MAX)];
    there_and_back(kind, &ends);
    there_and_back(kind, &ends[1..]);
    let before = C::of_number(last.number() - 1);
    there_and_back(kind, &[ends[0], (before, 1), ends[1]]);
}

#[test]
fn kmers_of_every_length_come_back() {
    for k in [1, 2, 4, 21, 31, 32] {
        comes_back::<u64>(k);
    }
    for k in [33, 48, 63, 64] {
        comes_back::<u128>(k);
    }
}

#[test]
fn all_kmers_of_a_length_take_two_bits_each() {
    let kind = kind(8, Strand::AsRead);
    let all: Vec<(u64, u64)> = (0..1 << 16).map(|key| (key, 1)).collect();
    there_and_back(kind, &all);
    let bytes = file_of(kind, &all, usize::MAX).len();
    // A block of 8 bytes and 8,191 bits, and 16 bytes in the index.
    assert_eq!(bytes, 16 + 16 * (8 + 1024 + 16) + 36);
}

/// Elias and Fano take less than two bits more than the logarithm.
#[test]
fn kmers_at_random_take_little_more_than_they_must() {
    fn bits_of_each<C: Code>(k: u8, size: usize, count: impl Fn(usize) -> u64) -> f64 {
        let kind = kind(k, Strand::AsRead);
        let pairs = kmers::<C>(kind, size, count);
        assert_eq!(pairs.len(), size);
        8.0 * file_of(kind, &pairs, usize::MAX).len() as f64 / size as f64
    }
    for (k, size) in [(21, 1 << 18), (21, 300_000), (31, 50_000)] {
        let bits = bits_of_each::<u64>(k, size, |_| 1);
        let least = 2.0 * f64::from(k) - (size as f64).log2();
        assert!(bits < least + 2.06, "{bits} instead of {least}");
        // Those of reads: many errors, and a genome that is covered thirty times.
        let reads = |i| match random(i as u128 + 5) as u64 % 32 {
            0..20 => 1,
            more => 30 + more,
        };
        let with_counts = bits_of_each::<u64>(k, size, reads);
        println!("k = {k}, {size} k-mers: {bits:.2} and {with_counts:.2} bits each");
        assert!(with_counts < bits + 1.0 + 6.0 * 12.0 / 32.0 + 0.1);
    }
    let bits = bits_of_each::<u128>(55, 50_000, |_| 1);
    let least = 110.0 - 50_000_f64.log2();
    assert!(bits < least + 2.1, "{bits} instead of {least}");
}

/// The page of the guide has a file, byte by byte.
#[test]
fn the_guide_shows_what_is_written() {
    let page = include_str!("../../../../docs/guide/src/kmer-database.md");
    let (_, example) = page.split_once("## Example").unwrap();
    let (_, example) = example.split_once("```text\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let bytes = example.split_whitespace();
    let bytes: Vec<u8> = bytes
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    let pairs: [(u64, u64); 5] = [(1, 1), (6, 2), (21, 1), (43, 3), (63, 70_000)];
    assert_eq!(file_of(kind(3, Strand::AsRead), &pairs, 2), bytes);
    let folder = tempfile::tempdir().unwrap();
    let found = read_all::<u64>(&folder.path().join("a.gpk"), &bytes).unwrap();
    assert_eq!(found, pairs);
}

fn no_damage_is_missed<C: Code>(k: u8) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gpk");
    let kind = kind(k, Strand::AsRead);
    let pairs = kmers::<C>(kind, 120, |i| match i % 40 {
        7 => 1 << 33,
        _ => mixed(i),
    });
    let good = file_of(kind, &pairs, usize::MAX);
    let is_refused = |bytes: &[u8], what: &str| match read_all::<C>(&path, bytes) {
        Err(Error::Database { .. }) => {}
        // A k-mer of another length has keys of another length.
        Err(Error::OtherKeys { .. }) => {}
        other => panic!("{what}: {other:?}"),
    };
    for len in 0..good.len() {
        is_refused(&good[..len], &format!("{len} bytes"));
    }
    is_refused(&[&good[..], &[0]].concat(), "a byte more");
    is_refused(&[&good[..], &good].concat(), "twice");
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= [1, 0x40, 0xff][at % 3];
        is_refused(&bytes, &format!("byte {at}"));
    }
}

#[test]
fn a_changed_byte_or_a_missing_one_is_an_error() {
    no_damage_is_missed::<u64>(21);
    no_damage_is_missed::<u128>(40);
}

/// Blocks that change their places have right checksums.
#[test]
fn blocks_in_the_place_of_others_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gpk");
    let kind = kind(21, Strand::AsRead);
    let pairs: Vec<(u64, u64)> = (0..8192).map(|i| (i * 1000, 1 + i / 4096)).collect();
    let bytes = file_of(kind, &pairs, usize::MAX);
    let index = bytes.len() - END - 2 * 16;
    let block = u32_at(&bytes, index + 8) as usize;
    let moved = [
        &bytes[..HEADER],
        &bytes[HEADER + block..index],
        &bytes[HEADER..HEADER + block],
        &bytes[index..],
    ];
    let error = read_all::<u64>(&path, &moved.concat()).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("a.gpk is damaged: block 0, from byte 16 on, has another checksum"));
    assert!(error.contains("count its k-mers again"), "{error}");
}

#[test]
fn a_newer_version_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = file_of::<u64>(kind(5, Strand::AsRead), &[(3, 4)], 1);
    bytes[8] = 2;
    let error = open::<u64>(&folder.path().join("a.gpk"), &bytes).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("version 2") && error.contains("newer gpumap"),
        "{error}"
    );
}

#[test]
fn kmers_that_do_not_rise_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    // In a block, between two, and between two groups of blocks.
    let mut cases = vec![vec![1_u64, 1], vec![2, 1]];
    for at in [1, 4096, 16 * 4096, 17 * 4096] {
        let mut keys: Vec<u64> = (0..70_000).collect();
        keys[at] = keys[at - 1];
        cases.push(keys);
    }
    for keys in &cases {
        for at_once in [1, 2, 5000, 70_000] {
            let mut staged = Destination::any(folder.path().join("a.gpk"))
                .stage()
                .unwrap();
            let written = staged.write_with(|out| {
                let mut writer = Writer::new(out, kind(9, Strand::AsRead))?;
                keys.chunks(at_once)
                    .try_for_each(|keys| writer.write(keys, &vec![1; keys.len()]))?;
                writer.finish().map(drop)
            });
            assert!(matches!(written, Err(Error::Write { .. })), "{at_once}");
        }
    }
}
