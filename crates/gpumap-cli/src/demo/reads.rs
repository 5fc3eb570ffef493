//! Sequences of one length on both strands: reads of a genome as a sequencer gives them, the same for the same seed; or a genome
//! by itself.

use std::io::{self, Write};

use crate::gzip::pack;

/// Bases of a read.
pub const LENGTH: usize = 150;

/// How many times each base of the genome is read, on the average.
const COVERAGE: usize = 30;

/// One base in so many is read wrongly.
pub const ONE_WRONG_IN: u64 = 200;

/// Of all random choices.
const SEED: u64 = 1;

/// Sequences of A, C, G and T.
#[derive(Clone, Debug)]
pub struct Sequences {
    /// Bases of one.
    length: usize,
    /// All of them, one behind the other.
    forward: Vec<u8>,
    /// The complement of that, backwards.
    backward: Vec<u8>,
}

impl Sequences {
    /// One sequence.
    pub fn one(bases: Vec<u8>) -> Self {
        Self::new(bases.len(), bases)
    }

    fn new(length: usize, forward: Vec<u8>) -> Self {
        Self {
            length,
            backward: complement(&forward),
            forward,
        }
    }

    /// Reads of a single sequence, which is longer than they are: from random places of either strand, with substitutions.
    pub fn reads_of(genome: &Self) -> Self {
        let starts = (genome.length - LENGTH + 1) as u64;
        let mut random = Random(SEED);
        let mut bases = Vec::new();
        for _ in 0..genome.length * COVERAGE / LENGTH {
            let strand = match random.below(2) {
                0 => &genome.forward,
                _ => &genome.backward,
            };
            let start = random.below(starts) as usize;
            bases.extend(strand[start..start + LENGTH].iter().map(|&base| {
                if random.below(ONE_WRONG_IN) > 0 {
                    return base;
                }
                let mut others = b"ACGT".iter().filter(|&&other| other != base);
                *others.nth(random.below(3) as usize).unwrap_or(&base)
            }));
        }
        Self::new(LENGTH, bases)
    }

    /// Bases of all of them.
    pub fn bases(&self) -> usize {
        self.forward.len()
    }

    /// All k-mers as text, of either strand that which comes first in the alphabet.
    pub fn canonical(&self, k: usize) -> impl Iterator<Item = &[u8]> {
        let starts = (0..self.bases()).step_by(self.length);
        let places = starts.flat_map(move |start| start..start + self.length + 1 - k);
        places.map(move |at| {
            let end = self.bases() - at;
            let backward = &self.backward[end - k..end];
            backward.min(&self.forward[at..at + k])
        })
    }

    /// A file of FASTQ in blocks of gzip, as sequencers leave them.
    pub fn to_fastq_gz(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let qualities = "I".repeat(self.length);
        for (number, read) in self.forward.chunks(self.length).enumerate() {
            writeln!(text, "@read{number}")?;
            text.extend_from_slice(read);
            write!(text, "\n+\n{qualities}\n")?;
        }
        let mut blocks = pack::pack(&text)?;
        blocks.push(pack::END.to_vec());
        Ok(blocks.concat())
    }
}

fn complement(bases: &[u8]) -> Vec<u8> {
    let complement = |&base: &u8| match base {
        b'A' => b'T',
        b'C' => b'G',
        b'G' => b'C',
        _ => b'A',
    };
    bases.iter().rev().map(complement).collect()
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits: no two of 2^64 calls give the same.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let number = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ number >> 31
    }

    /// The next number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kmers_of_both_strands_are_one() {
        let sequences = Sequences::new(4, b"AACGTTTT".to_vec());
        let kmers: Vec<&[u8]> = sequences.canonical(3).collect();
        assert_eq!(kmers, [b"AAC", b"ACG", b"AAA", b"AAA"]);
        let one = Sequences::one(b"AACGTTTT".to_vec());
        assert_eq!(one.canonical(3).count(), 6);
    }

    #[test]
    fn reads_are_parts_of_the_genome_with_errors() {
        let mut random = Random(7);
        let bases = (0..2000).map(|_| b"ACGT"[random.below(4) as usize]);
        let genome = Sequences::one(bases.collect());
        let reads = Sequences::reads_of(&genome);
        assert_eq!(reads.bases(), 400 * LENGTH);
        let (mut of_strands, mut wrong) = ([0; 2], 0);
        for read in reads.forward.chunks(LENGTH) {
            let nearest = [&genome.forward, &genome.backward].map(|strand| {
                let distances = strand.windows(LENGTH).map(|part| {
                    let pairs = part.iter().zip(read);
                    pairs.filter(|(one, other)| one != other).take(20).count()
                });
                distances.min().unwrap()
            });
            wrong += nearest[0].min(nearest[1]);
            of_strands[usize::from(nearest[1] < nearest[0])] += 1;
        }
        assert!(of_strands[0] > 150 && of_strands[1] > 150, "{of_strands:?}");
        let expected = reads.bases() / ONE_WRONG_IN as usize;
        assert!(wrong.abs_diff(expected) < expected / 5, "{wrong}");
    }
}
