//! K-mers in 2 bits a base: packing, and the rolling iterator over a sequence.
//!
//! A base is A = 0, C = 1, G = 2, T = 3, the first base in the highest bits. So numeric order of
//! k-mers of one length is the alphabetical order of their text, and the complement of a base is
//! `3 - base`. Up to 32 bases fit in a `u64`; at 32 all of its bits are used, the 32-mer of only
//! Ts being `u64::MAX`, which is why the map may not reserve any key.
//!
//! Invariant: the bits of a [`Kmer`] above `2 * k` are zero.

use std::fmt;
use std::str::FromStr;

/// The most bases that fit in the 64 bits of a [`Kmer`].
pub const MAX_LENGTH: u8 = 32;

/// How many bases a k-mer has: 1 to [`MAX_LENGTH`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KmerLength(u8);

impl KmerLength {
    /// `None` unless `1 <= bases <= 32`.
    pub const fn new(bases: u8) -> Option<Self> {
        if bases >= 1 && bases <= MAX_LENGTH {
            Some(Self(bases))
        } else {
            None
        }
    }

    /// The number of bases.
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    /// How many different k-mers of this length there are: 4 to the power of k.
    pub const fn kinds(self) -> u128 {
        1 << (2 * self.0 as u32)
    }

    /// The bits that a k-mer of this length uses.
    const fn mask(self) -> u64 {
        u64::MAX >> (64 - 2 * self.0 as u32)
    }
}

impl fmt::Display for KmerLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a text is no [`KmerLength`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a k-mer has 1 to {MAX_LENGTH} bases")]
pub struct BadKmerLength;

impl FromStr for KmerLength {
    type Err = BadKmerLength;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().ok().and_then(Self::new).ok_or(BadKmerLength)
    }
}

/// A packed k-mer; its length is known from the context, as one table holds one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kmer(u64);

impl Kmer {
    /// The k-mer of these bits, as they come back out of a table.
    pub const fn from_code(code: u64) -> Self {
        Self(code)
    }

    /// The key under which a table keeps the k-mer.
    pub const fn code(self) -> u64 {
        self.0
    }

    /// Writes the k-mer as text into `buffer` and returns the part that was written.
    pub fn text(self, length: KmerLength, buffer: &mut [u8; MAX_LENGTH as usize]) -> &str {
        let text = &mut buffer[..length.get()];
        let mut code = self.0;
        for letter in text.iter_mut().rev() {
            *letter = b"ACGT"[(code & 3) as usize];
            code >>= 2;
        }
        std::str::from_utf8(text).expect("A, C, G and T are ASCII")
    }
}

/// Which of the two strands a k-mer is counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strand {
    /// Every k-mer as it is read.
    AsRead,
    /// The alphabetically smaller of a k-mer and its reverse complement.
    Canonical,
}

/// The code of what is no base: it breaks every k-mer that would contain it.
pub const BREAK: u8 = 4;

/// The code of a letter: 0 to 3 for A, C, G and T of either case, else [`BREAK`].
pub const fn code_of(letter: u8) -> u8 {
    CODES[letter as usize]
}

const CODES: [u8; 256] = {
    let mut codes = [BREAK; 256];
    let letters = *b"ACGTacgt";
    let mut i = 0;
    while i < letters.len() {
        codes[letters[i] as usize] = (i % 4) as u8;
        i += 1;
    }
    codes
};

/// The k-mers of one sequence from left to right: one step a base, whatever k is.
///
/// Upper and lower case are the same; any byte but A, C, G and T (so N and the other ambiguity
/// codes) breaks k-mers, as it does in jellyfish. Line ends must have been taken out before.
#[derive(Clone, Debug)]
pub struct Kmers<I> {
    codes: I,
    length: KmerLength,
    strand: Strand,
    forward: u64,
    reverse: u64,
    /// Bases since the last break, no further than k. Bits of bases before a break need no
    /// clearing: k steps shift them out, and no k-mer is given before that.
    filled: u8,
}

impl<I: Iterator<Item = u8>> Kmers<I> {
    /// The k-mers of these codes, see [`code_of`].
    pub fn of_codes(codes: I, length: KmerLength, strand: Strand) -> Self {
        Self {
            codes,
            length,
            strand,
            forward: 0,
            reverse: 0,
            filled: 0,
        }
    }
}

/// The k-mers of a text.
pub fn kmers_of(text: &[u8], length: KmerLength, strand: Strand) -> impl Iterator<Item = Kmer> {
    Kmers::of_codes(text.iter().copied().map(code_of), length, strand)
}

impl<I: Iterator<Item = u8>> Iterator for Kmers<I> {
    type Item = Kmer;

    fn next(&mut self) -> Option<Kmer> {
        let KmerLength(k) = self.length;
        let top = 2 * (u32::from(k) - 1);
        loop {
            let code = self.codes.next()?;
            if code == BREAK {
                self.filled = 0;
                continue;
            }
            let code = u64::from(code);
            self.forward = (self.forward << 2 | code) & self.length.mask();
            self.reverse = self.reverse >> 2 | (3 - code) << top;
            self.filled = (self.filled + 1).min(k);
            if self.filled == k {
                return Some(Kmer(match self.strand {
                    Strand::AsRead => self.forward,
                    Strand::Canonical => self.forward.min(self.reverse),
                }));
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.codes.size_hint().1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn length(k: u8) -> KmerLength {
        KmerLength::new(k).unwrap()
    }

    fn texts(sequence: &[u8], k: u8, strand: Strand) -> Vec<String> {
        kmers_of(sequence, length(k), strand)
            .map(|kmer| kmer.text(length(k), &mut [0; 32]).to_owned())
            .collect()
    }

    /// The same by the definition: every window of text, complemented letter by letter.
    fn naive(sequence: &[u8], k: u8, strand: Strand) -> Vec<String> {
        let complement = |base| match base {
            b'A' => b'T',
            b'C' => b'G',
            b'G' => b'C',
            _ => b'A',
        };
        sequence
            .to_ascii_uppercase()
            .windows(usize::from(k))
            .filter(|window| window.iter().all(|base| b"ACGT".contains(base)))
            .map(|window| {
                let reverse: Vec<u8> = window.iter().rev().map(|&base| complement(base)).collect();
                let text = match strand {
                    Strand::AsRead => window.to_vec(),
                    Strand::Canonical => reverse.min(window.to_vec()),
                };
                String::from_utf8(text).unwrap()
            })
            .collect()
    }

    #[test]
    fn lengths_end_at_1_and_32() {
        assert_eq!(KmerLength::new(0), None);
        assert_eq!(KmerLength::new(33), None);
        for text in ["0", "33", "-1", "", "x", "1.5", "257"] {
            assert_eq!(text.parse::<KmerLength>(), Err(BadKmerLength), "{text:?}");
        }
        assert_eq!(length(1).kinds(), 4);
        assert_eq!(length(32).kinds(), 1 << 64);
    }

    #[test]
    fn a_break_costs_every_kmer_that_contains_it() {
        assert_eq!(texts(b"ACGTNacg", 3, Strand::AsRead), ["ACG", "CGT", "ACG"]);
        assert_eq!(texts(b"ACNGT", 3, Strand::AsRead), [""; 0]);
        assert_eq!(texts(b"", 1, Strand::AsRead), [""; 0]);
        assert_eq!(texts(b"AC", 3, Strand::AsRead), [""; 0]);
    }

    #[test]
    fn canonical_is_the_smaller_strand() {
        assert_eq!(texts(b"TTTA", 4, Strand::Canonical), ["TAAA"]);
        assert_eq!(texts(b"ACGT", 4, Strand::Canonical), ["ACGT"]);
        assert_eq!(texts(b"TGCA", 1, Strand::Canonical), ["A", "C", "C", "A"]);
    }

    #[test]
    fn thirty_two_bases_use_every_bit() {
        let sequence = [b'T'; 32];
        let kmer = kmers_of(&sequence, length(32), Strand::AsRead).next();
        assert_eq!(kmer.map(Kmer::code), Some(u64::MAX));
        let kmer = kmers_of(&sequence, length(32), Strand::Canonical).next();
        assert_eq!(kmer.map(Kmer::code), Some(0));
    }

    #[test]
    fn numeric_order_is_alphabetical_order() {
        let sequence = b"GATTACATTGACCAGTAACGT";
        let mut codes: Vec<Kmer> = kmers_of(sequence, length(5), Strand::AsRead).collect();
        let mut texts = texts(sequence, 5, Strand::AsRead);
        codes.sort_unstable();
        texts.sort_unstable();
        let sorted: Vec<String> = codes
            .into_iter()
            .map(|kmer| kmer.text(length(5), &mut [0; 32]).to_owned())
            .collect();
        assert_eq!(sorted, texts);
    }

    proptest! {
        #[test]
        fn rolling_equals_naive(
            sequence in "[ACGTacgt]{0,40}([NnRx -]?[ACGTacgt]{0,45}){0,6}",
            k in 1..=MAX_LENGTH,
            canonical: bool,
        ) {
            let strand = if canonical { Strand::Canonical } else { Strand::AsRead };
            prop_assert_eq!(
                texts(sequence.as_bytes(), k, strand),
                naive(sequence.as_bytes(), k, strand)
            );
        }
    }
}
