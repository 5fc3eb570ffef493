use std::collections::BTreeMap;
use std::thread;

use gpumap::Device;

use super::*;
use crate::kmer::kmers_of;

/// What bins make of texts, each put in by a thread of its own.
fn counted<C: Code>(
    texts: &[Vec<u8>],
    length: KmerLength,
    strand: Strand,
    bins: &Bins<C>,
) -> Vec<(C, u64)> {
    thread::scope(|scope| {
        for text in texts {
            let mut writer = bins.writer();
            scope.spawn(move || {
                // As many blocks as it takes for lines to be full several times.
                for part in text.chunks(1 << 12) {
                    let mut block = Block::new(&Device::cpu(), part.len()).unwrap();
                    block.push_letters(part);
                    block.seal();
                    writer.add(&block, length, strand).unwrap();
                }
                writer.close().unwrap();
            });
        }
    });
    bins.finish().unwrap();
    let mut pairs = Vec::new();
    let mut take = |keys: &[C], counts: &[u64]| {
        pairs.extend(keys.iter().copied().zip(counts.iter().copied()));
        Ok(())
    };
    bins.stream(&mut take).unwrap();
    assert_eq!(bins.len(), pairs.len());
    let all: u64 = pairs.iter().map(|&(_, count)| count).sum();
    assert_eq!(bins.kmers(), all);
    pairs
}

fn expected<C: Code>(texts: &[Vec<u8>], length: KmerLength, strand: Strand) -> Vec<(C, u64)> {
    let mut counts = BTreeMap::<C, u64>::new();
    for part in texts.iter().flat_map(|text| text.chunks(1 << 12)) {
        for kmer in kmers_of(part, length, strand) {
            *counts.entry(kmer).or_default() += 1;
        }
    }
    counts.into_iter().collect()
}

/// Letters at random, of which stretches come again, one letter alone, and some that are no bases.
fn text(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut text = Vec::new();
    while text.len() < 12_000 {
        match draw(8) {
            0 if text.len() > 5000 => {
                let from = draw(text.len() as u64 - 3000) as usize;
                text.extend_from_within(from..from + 3000);
            }
            1 => text.extend([b'G'; 700]),
            2 => text.push(b'N'),
            _ => text.extend((0..500).map(|_| b"ACGT"[draw(4) as usize])),
        }
    }
    text
}

fn counts_as_a_map_does<C: Code>(k: u8) {
    let length = KmerLength::new(k).unwrap();
    let texts: Vec<Vec<u8>> = (1..4).map(text).collect();
    for strand in [Strand::AsRead, Strand::Canonical] {
        let right = expected::<C>(&texts, length, strand);
        // Nothing is counted before the end; often; each line by itself; and with runs in a file, some of them or all.
        for (bin_bits, waiting, runs) in [
            (buckets::BITS, 1 << 30, usize::MAX),
            (4, 1 << 15, usize::MAX),
            (1, 1 << 12, usize::MAX),
            (2, 0, usize::MAX),
            (4, 1 << 15, 1 << 17),
            (2, 1 << 13, 0),
        ] {
            let limits = Limits { waiting, runs };
            let bins = Bins::with(length, bin_bits, limits);
            let pairs = counted(&texts, length, strand, &bins);
            assert!(pairs == right, "{k}, {strand:?}, {bin_bits}, {limits:?}");
        }
    }
}

#[test]
fn bins_count_as_a_map_does() {
    for k in [1, 6, 7, 21, 22, 23, 32] {
        counts_as_a_map_does::<u64>(k);
    }
    for k in [33, 38, 39, 64] {
        counts_as_a_map_does::<u128>(k);
    }
}

#[test]
fn bins_without_a_kmer_are_empty() {
    let length = KmerLength::new(21).unwrap();
    assert_eq!(
        counted::<u64>(
            &[],
            length,
            Strand::Canonical,
            &Bins::new(length, Limits::of(None))
        ),
        []
    );
    let short = [b"ACGTACGTACGTACGTACGT".to_vec(), b"N".repeat(100)];
    let bins = Bins::new(length, Limits::of(Some(1 << 20)));
    assert_eq!(counted::<u64>(&short, length, Strand::AsRead, &bins), []);
}
