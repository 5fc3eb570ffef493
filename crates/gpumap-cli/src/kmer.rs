//! K-mers in 2 bits a base: packing, and the rolling iterator over a sequence.
//!
//! A base is A = 0, C = 1, G = 2, T = 3, the first base in the highest bits. So numeric order of
//! k-mers of one length is the alphabetical order of their text, and the complement of a base is
//! `3 - base`. Up to 32 bases fit in a `u64` and up to 64 in a `u128`, the two types of [`Code`]; at 32 and 64
//! all bits are used, the k-mer of only Ts being `MAX`, which is why the map may not reserve any key.
//!
//! Invariant: the bits of a code above `2 * k` are zero.

use std::fmt;
use std::hash::Hash;
use std::ops::{BitAnd, BitOr, Not, Shl, Shr};
use std::str::FromStr;

use gpumap::simt::kernel::Kernel;
use gpumap_kmer_kernels::{KmersArgs, MAKE_KMERS, MAKE_WIDE_KMERS};

use crate::buckets::Digits;
use crate::device_pairs::{DevicePairs, Sort};

/// The most bases of a k-mer.
pub const MAX_LENGTH: u8 = u128::BASES;

/// The bits of a packed k-mer: the key under which a table keeps it.
pub trait Code:
    Digits
    + fmt::Debug
    + Hash
    + From<u8>
    + itoa::Integer
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + Not<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    /// The most bases that fit.
    const BASES: u8 = 4 * size_of::<Self>() as u8;

    /// What sorts pairs by such keys on a device.
    const SORT_ON_DEVICE: Sort<Self>;

    /// Its bytes.
    type Bytes: AsRef<[u8]>;

    /// The bytes, the highest first.
    fn to_be_bytes(self) -> Self::Bytes;

    /// The bytes, the lowest first.
    fn to_le_bytes(self) -> Self::Bytes;

    /// The low bits of a number.
    fn of_number(number: u128) -> Self;

    /// The number that it is.
    fn number(self) -> u128;

    /// The same with the order of its bits reversed.
    fn reverse_bits(self) -> Self;

    /// The kernel that makes such k-mers.
    fn kernel() -> &'static Kernel<KmersArgs>;
}

impl Code for u64 {
    const SORT_ON_DEVICE: Sort<Self> = DevicePairs::<u64>::sort;

    type Bytes = [u8; 8];

    fn to_be_bytes(self) -> [u8; 8] {
        self.to_be_bytes()
    }

    fn to_le_bytes(self) -> [u8; 8] {
        self.to_le_bytes()
    }

    fn of_number(number: u128) -> Self {
        number as Self
    }

    fn number(self) -> u128 {
        self.into()
    }

    fn reverse_bits(self) -> Self {
        self.reverse_bits()
    }

    fn kernel() -> &'static Kernel<KmersArgs> {
        &MAKE_KMERS
    }
}

impl Code for u128 {
    const SORT_ON_DEVICE: Sort<Self> = DevicePairs::<u128>::sort;

    type Bytes = [u8; 16];

    fn to_be_bytes(self) -> [u8; 16] {
        self.to_be_bytes()
    }

    fn to_le_bytes(self) -> [u8; 16] {
        self.to_le_bytes()
    }

    fn of_number(number: u128) -> Self {
        number
    }

    fn number(self) -> u128 {
        self
    }

    fn reverse_bits(self) -> Self {
        self.reverse_bits()
    }

    fn kernel() -> &'static Kernel<KmersArgs> {
        &MAKE_WIDE_KMERS
    }
}

/// How many bases a k-mer has: 1 to [`MAX_LENGTH`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KmerLength(u8);

impl KmerLength {
    /// `None` unless `1 <= bases <= 64`.
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

    /// How many different k-mers of this length there are, 4 to the power of k, or as many as a number can be.
    pub const fn kinds(self) -> u128 {
        match 1_u128.checked_shl(2 * self.0 as u32) {
            Some(kinds) => kinds,
            None => u128::MAX,
        }
    }

    /// Whether it takes a `u128` to pack such a k-mer.
    pub const fn is_wide(self) -> bool {
        self.0 > u64::BASES
    }

    /// The bits of a code above those that a k-mer of this length uses.
    pub fn unused<C: Code>(self) -> u32 {
        2 * u32::from(C::BASES - self.0)
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

/// A packed k-mer as text.
pub fn text_of<C: Code>(code: C, length: KmerLength) -> String {
    let base = |place| (code >> (2 * place) & C::from(3)).to_le_bytes().as_ref()[0];
    let bases = (0..length.get() as u32).rev().map(base);
    bases
        .map(|base| char::from(b"ACGT"[usize::from(base)]))
        .collect()
}

/// The packed reverse complement of a packed k-mer.
pub fn reverse_complement<C: Code>(code: C, length: KmerLength) -> C {
    // Reversed bit by bit, and the two bits of each base once more.
    let reversed = (!code).reverse_bits();
    let low = C::of_number(u128::MAX / 3);
    let bases = (reversed >> 1 & low) | (reversed & low) << 1;
    bases >> length.unused::<C>()
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
pub struct Kmers<I, C> {
    codes: I,
    length: KmerLength,
    strand: Strand,
    forward: C,
    reverse: C,
    /// Bases since the last break, no further than k. Bits of bases before a break need no
    /// clearing: k steps shift them out, and no k-mer is given before that.
    filled: u8,
}

impl<I: Iterator<Item = u8>, C: Code> Kmers<I, C> {
    /// The k-mers of these codes of bases, see [`code_of`]; they must fit.
    pub fn of_codes(codes: I, length: KmerLength, strand: Strand) -> Self {
        Self {
            codes,
            length,
            strand,
            forward: C::zeroed(),
            reverse: C::zeroed(),
            filled: 0,
        }
    }
}

/// The k-mers of a text.
pub fn kmers_of<C: Code>(
    text: &[u8],
    length: KmerLength,
    strand: Strand,
) -> impl Iterator<Item = C> {
    Kmers::of_codes(text.iter().copied().map(code_of), length, strand)
}

impl<I: Iterator<Item = u8>, C: Code> Iterator for Kmers<I, C> {
    type Item = C;

    fn next(&mut self) -> Option<C> {
        let KmerLength(k) = self.length;
        let top = 2 * (u32::from(k) - 1);
        let used = !C::zeroed() >> self.length.unused::<C>();
        loop {
            let code = self.codes.next()?;
            if code == BREAK {
                self.filled = 0;
                continue;
            }
            self.forward = (self.forward << 2 | C::from(code)) & used;
            self.reverse = self.reverse >> 2 | C::from(3 - code) << top;
            self.filled = (self.filled + 1).min(k);
            if self.filled == k {
                return Some(match self.strand {
                    Strand::AsRead => self.forward,
                    Strand::Canonical => self.forward.min(self.reverse),
                });
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

    fn texts<C: Code>(sequence: &[u8], k: u8, strand: Strand) -> Vec<String> {
        kmers_of(sequence, length(k), strand)
            .map(|code: C| text_of(code, length(k)))
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
    fn lengths_end_at_1_and_64() {
        assert_eq!(KmerLength::new(0), None);
        assert_eq!(KmerLength::new(65), None);
        for text in ["0", "65", "-1", "", "x", "1.5", "257"] {
            assert_eq!(text.parse::<KmerLength>(), Err(BadKmerLength), "{text:?}");
        }
        assert_eq!(length(1).kinds(), 4);
        assert_eq!(length(32).kinds(), 1 << 64);
        assert_eq!(length(63).kinds(), 1 << 126);
        assert_eq!(length(64).kinds(), u128::MAX);
        assert!(!length(32).is_wide() && length(33).is_wide());
    }

    #[test]
    fn reverse_complements_are_those_of_the_text() {
        for k in 1..=MAX_LENGTH {
            for text in ["ACGTTGCA", "TTTTCAGG", "AAAAAAAA"] {
                let text = &text.repeat(8)[..usize::from(k)];
                let pairs = text.bytes().rev().map(|base| match base {
                    b'A' => 'T',
                    b'C' => 'G',
                    b'G' => 'C',
                    _ => 'A',
                });
                let expected: String = pairs.collect();
                let code = kmers_of::<u128>(text.as_bytes(), length(k), Strand::AsRead).next();
                let reverse = reverse_complement(code.unwrap(), length(k));
                assert_eq!(text_of(reverse, length(k)), expected);
                if k <= 32 {
                    let code = code.unwrap() as u64;
                    let reverse = reverse_complement(code, length(k));
                    assert_eq!(text_of(reverse, length(k)), expected);
                }
            }
        }
    }

    #[test]
    fn a_break_costs_every_kmer_that_contains_it() {
        assert_eq!(
            texts::<u64>(b"ACGTNacg", 3, Strand::AsRead),
            ["ACG", "CGT", "ACG"]
        );
        assert_eq!(texts::<u64>(b"ACNGT", 3, Strand::AsRead), [""; 0]);
        assert_eq!(texts::<u64>(b"", 1, Strand::AsRead), [""; 0]);
        assert_eq!(texts::<u64>(b"AC", 3, Strand::AsRead), [""; 0]);
    }

    #[test]
    fn canonical_is_the_smaller_strand() {
        assert_eq!(texts::<u64>(b"TTTA", 4, Strand::Canonical), ["TAAA"]);
        assert_eq!(texts::<u64>(b"ACGT", 4, Strand::Canonical), ["ACGT"]);
        assert_eq!(
            texts::<u64>(b"TGCA", 1, Strand::Canonical),
            ["A", "C", "C", "A"]
        );
    }

    fn uses_every_bit<C: Code>() {
        let sequence = vec![b'T'; usize::from(C::BASES)];
        let first = |strand| kmers_of::<C>(&sequence, length(C::BASES), strand).next();
        assert_eq!(first(Strand::AsRead), Some(!C::zeroed()));
        assert_eq!(first(Strand::Canonical), Some(C::zeroed()));
    }

    #[test]
    fn as_many_bases_as_fit_use_every_bit() {
        uses_every_bit::<u64>();
        uses_every_bit::<u128>();
    }

    fn is_alphabetical<C: Code>(k: u8) {
        let sequence = b"GATTACATTGACCAGTAACGTGATTACATTGACCAGTAACGTCCC";
        let mut codes: Vec<C> = kmers_of(sequence, length(k), Strand::AsRead).collect();
        let mut texts = texts::<C>(sequence, k, Strand::AsRead);
        codes.sort_unstable();
        texts.sort_unstable();
        let sorted: Vec<String> = codes
            .into_iter()
            .map(|code| text_of(code, length(k)))
            .collect();
        assert_eq!(sorted, texts);
    }

    #[test]
    fn numeric_order_is_alphabetical_order() {
        is_alphabetical::<u64>(5);
        is_alphabetical::<u128>(5);
        is_alphabetical::<u128>(37);
    }

    proptest! {
        #[test]
        fn rolling_equals_naive(
            sequence in "[ACGTacgt]{0,80}([NnRx -]?[ACGTacgt]{0,90}){0,6}",
            k in 1..=MAX_LENGTH,
            canonical: bool,
        ) {
            let strand = if canonical { Strand::Canonical } else { Strand::AsRead };
            let expected = naive(sequence.as_bytes(), k, strand);
            if !length(k).is_wide() {
                prop_assert_eq!(&texts::<u64>(sequence.as_bytes(), k, strand), &expected);
            }
            prop_assert_eq!(texts::<u128>(sequence.as_bytes(), k, strand), expected);
        }
    }
}
