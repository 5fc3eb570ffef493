//! Inputs made of others.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Changes of an input at most.
const CHANGES: u32 = 6;
/// Bytes that a change inserts or takes away at most.
const PIECE: usize = 64;
/// An input is not made longer than that.
const LONGEST: usize = 1 << 16;

/// Numbers that programs stumble over, as far as they fit.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    1 << 60,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// Makes inputs.
pub struct Mutator<'a> {
    samples: Vec<Vec<u8>>,
    words: &'a [&'a [u8]],
}

impl<'a> Mutator<'a> {
    pub fn new(mut samples: Vec<Vec<u8>>, words: &'a [&'a [u8]]) -> Self {
        if samples.is_empty() {
            samples.push(Vec::new());
        }
        Self { samples, words }
    }

    /// The input of a seed: a sample with some changes, or in one case of sixteen noise.
    pub fn input(&self, seed: u64) -> Vec<u8> {
        let mut rng = StdRng::seed_from_u64(seed);
        if rng.random_range(0..16) == 0 {
            let len = rng.random_range(0..256);
            return (0..len).map(|_| rng.random()).collect();
        }
        let mut bytes = self.sample(&mut rng).to_vec();
        for _ in 0..rng.random_range(1..=CHANGES) {
            self.change(&mut bytes, &mut rng);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn sample(&self, rng: &mut StdRng) -> &[u8] {
        &self.samples[rng.random_range(0..self.samples.len())]
    }

    fn change(&self, bytes: &mut Vec<u8>, rng: &mut StdRng) {
        let at = rng.random_range(0..=bytes.len());
        let piece = rng.random_range(0..=PIECE.min(bytes.len() - at));
        match rng.random_range(0..9) {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << rng.random_range(0..8);
                }
            }
            1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = rng.random();
                }
            }
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..at + piece)),
            // Once more what is there.
            4 => {
                let again = bytes[at..at + piece].to_vec();
                let times = rng.random_range(1..8);
                for _ in 0..times {
                    bytes.splice(at..at, again.iter().copied());
                }
            }
            5 => {
                let len = rng.random_range(1..=PIECE);
                let noise: Vec<u8> = (0..len).map(|_| rng.random()).collect();
                bytes.splice(at..at, noise);
            }
            // A number in the place of what is there.
            6 => {
                let number = NUMBERS[rng.random_range(0..NUMBERS.len())].to_le_bytes();
                let width = 1 << rng.random_range(0..4);
                // Numbers begin where their size has them as a rule.
                let at = at / width * width;
                let end = (at + width).min(bytes.len());
                bytes[at.min(end)..end].copy_from_slice(&number[..end - at.min(end)]);
            }
            7 => {
                let other = self.sample(rng);
                let from = rng.random_range(0..=other.len());
                let len = rng.random_range(0..=PIECE.min(other.len() - from));
                bytes.splice(at..at + piece, other[from..from + len].iter().copied());
            }
            _ => {
                if !self.words.is_empty() {
                    let word = self.words[rng.random_range(0..self.words.len())];
                    bytes.splice(at..at, word.iter().copied());
                }
            }
        }
    }
}
