//! Blocks of bases in 2 bits, with marks where no k-mer may cross: what goes to the device.
//!
//! A block is a sequence of elements, each a base or a break, in groups as [`gpumap_kmer_kernels`] has them. A break
//! stands for a letter that is no base, and for the end of a record. The unused elements of the last group are
//! breaks.

use gpumap::{Device, PinnedBuffer};
use gpumap_kmer_kernels::{GROUP, GROUP_WORDS, HALF};

use crate::kmer::{BREAK, Code, KmerLength, Strand, code_of};

/// A block, in memory that a device copies from at full speed.
#[derive(Debug)]
pub struct Block {
    words: PinnedBuffer<u64>,
    len: usize,
    /// The bases that do not fill a word yet, in the low bits.
    bases: u64,
    /// Their marks, and those of the word before in the same group.
    marks: u64,
}

impl Block {
    /// An empty block with room for `elements` elements and some more.
    pub fn new(device: &Device, elements: usize) -> gpumap::Result<Self> {
        let words = elements.div_ceil(GROUP) * GROUP_WORDS;
        Ok(Self {
            words: PinnedBuffer::zeroed(device, words)?,
            len: 0,
            bases: 0,
            marks: 0,
        })
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many elements more it has room for.
    pub fn room(&self) -> usize {
        self.words.len() / GROUP_WORDS * GROUP - self.len
    }

    /// Takes all elements out.
    pub fn clear(&mut self) {
        (self.len, self.bases, self.marks) = (0, 0, 0);
    }

    /// The words that have been written, all groups whole. To be called after [`seal`](Self::seal).
    pub fn words(&self) -> &PinnedBuffer<u64> {
        &self.words
    }

    /// How many words [`seal`](Self::seal) has written.
    pub fn used_words(&self) -> usize {
        self.len.div_ceil(GROUP) * GROUP_WORDS
    }

    /// Appends a break. There must be room for it.
    pub fn push_break(&mut self) {
        self.push(0, 1, 1);
    }

    /// Appends letters, those that are no bases as breaks. There must be room for them.
    pub fn push_letters(&mut self, letters: &[u8]) {
        let (chunks, rest) = letters.as_chunks::<HALF>();
        for chunk in chunks {
            let (bases, marks) = encode(chunk);
            self.push(bases, marks, HALF);
        }
        if !rest.is_empty() {
            let mut chunk = [b'A'; HALF];
            chunk[..rest.len()].copy_from_slice(rest);
            let (bases, marks) = encode(&chunk);
            let unused = HALF - rest.len();
            self.push(bases >> (2 * unused), marks >> unused, rest.len());
        }
    }

    /// Appends the last `most` elements of another block, or all of them if there are fewer.
    pub fn push_tail_of(&mut self, other: &Self, most: usize) {
        for at in other.len.saturating_sub(most)..other.len {
            let code = other.code(at);
            self.push(u64::from(code & 3), u32::from(code == BREAK), 1);
        }
    }

    /// Writes the last group out. Nothing may be appended after it.
    pub fn seal(&mut self) {
        let used = self.len % GROUP;
        if used == 0 {
            return;
        }
        let group = self.len / GROUP * GROUP_WORDS;
        let in_word = used % HALF;
        if in_word != 0 {
            self.words[group + used / HALF] = self.bases << (2 * (HALF - in_word));
        }
        if used <= HALF {
            self.words[group + 1] = 0;
        }
        let unused = GROUP - used;
        self.words[group + 2] = (self.marks << unused) | ((1 << unused) - 1);
    }

    /// The codes of the elements, [`BREAK`] for a break. To be called after [`seal`](Self::seal).
    #[cfg(test)]
    pub fn codes(&self) -> impl Iterator<Item = u8> {
        (0..self.len).step_by(HALF).flat_map(|at| {
            let (bases, marks) = self.half(at);
            (0..HALF.min(self.len - at)).map(move |i| {
                let behind = HALF - 1 - i;
                match marks >> behind & 1 {
                    0 => (bases >> (2 * behind) & 3) as u8,
                    _ => BREAK,
                }
            })
        })
    }

    /// Hands its k-mers to `each`, from left to right, until that fails. To be called after [`seal`](Self::seal).
    pub fn try_for_each_kmer<C: Code, E>(
        &self,
        length: KmerLength,
        strand: Strand,
        each: impl FnMut(C) -> Result<(), E>,
    ) -> Result<(), E> {
        // A loop of its own for each.
        match strand {
            Strand::AsRead => self.each_kmer::<C, E, false>(length, each),
            Strand::Canonical => self.each_kmer::<C, E, true>(length, each),
        }
    }

    #[inline(always)]
    fn each_kmer<C: Code, E, const IS_CANONICAL: bool>(
        &self,
        length: KmerLength,
        mut each: impl FnMut(C) -> Result<(), E>,
    ) -> Result<(), E> {
        let k = length.get() as u32;
        let top = 2 * (k - 1);
        let used = !C::zeroed() >> length.unused::<C>();
        let (mut forward, mut reverse) = (C::zeroed(), C::zeroed());
        // Bases since the last break, no further than k.
        let mut filled = 0;
        for at in (0..self.len).step_by(HALF) {
            let (mut bases, marks) = self.half(at);
            let mut take = |bases: u64| {
                let code = (bases >> (2 * HALF - 2)) as u8;
                forward = (forward << 2 | C::from(code)) & used;
                if IS_CANONICAL {
                    reverse = reverse >> 2 | C::from(3 - code) << top;
                    forward.min(reverse)
                } else {
                    forward
                }
            };
            if marks == 0 && filled == k {
                for _ in 0..HALF {
                    each(take(bases))?;
                    bases <<= 2;
                }
                continue;
            }
            for element in 0..HALF {
                if marks >> (HALF - 1 - element) & 1 != 0 {
                    filled = 0;
                } else {
                    let kmer = take(bases);
                    filled = (filled + 1).min(k);
                    if filled == k {
                        each(kmer)?;
                    }
                }
                bases <<= 2;
            }
        }
        Ok(())
    }

    /// The bases and the marks of the 32 elements from one on, the first in the highest bits; breaks behind the end.
    fn half(&self, at: usize) -> (u64, u32) {
        let group = at / GROUP * GROUP_WORDS;
        let second = at % GROUP / HALF;
        let marks = (self.words[group + 2] >> (HALF * (1 - second))) as u32;
        (self.words[group + second], marks)
    }

    fn sealed_code(&self, at: usize) -> u8 {
        let (group, in_group) = (at / GROUP * GROUP_WORDS, at % GROUP);
        match self.words[group + 2] >> (GROUP - 1 - in_group) & 1 {
            0 => self.base(at),
            _ => BREAK,
        }
    }

    fn base(&self, at: usize) -> u8 {
        let (group, in_group) = (at / GROUP * GROUP_WORDS, at % GROUP);
        let word = self.words[group + in_group / HALF];
        (word >> (2 * (HALF - 1 - in_group % HALF)) & 3) as u8
    }

    /// The code of an element, whether its word has been written or not.
    fn code(&self, at: usize) -> u8 {
        if at / GROUP < self.len / GROUP {
            return self.sealed_code(at);
        }
        let behind = self.len - 1 - at;
        if self.marks >> behind & 1 != 0 {
            return BREAK;
        }
        if at / HALF < self.len / HALF {
            return self.base(at);
        }
        (self.bases >> (2 * behind) & 3) as u8
    }

    /// Appends up to 32 elements, which are in the low bits.
    fn push(&mut self, bases: u64, marks: u32, count: usize) {
        let in_word = self.len % HALF;
        let whole = (u128::from(self.bases) << (2 * count)) | u128::from(bases);
        let filled = in_word + count;
        if filled < HALF {
            self.bases = whole as u64;
            self.marks = self.marks << count | u64::from(marks);
            self.len += count;
            return;
        }
        let rest = filled - HALF;
        let group = self.len / GROUP * GROUP_WORDS;
        let second = self.len % GROUP / HALF;
        self.words[group + second] = (whole >> (2 * rest)) as u64;
        self.bases = whole as u64 & ((1 << (2 * rest)) - 1);
        self.marks = self.marks << (count - rest) | u64::from(marks >> rest);
        let marks_of_rest = u64::from(marks) & ((1 << rest) - 1);
        if second == 1 {
            self.words[group + 2] = self.marks;
            self.marks = marks_of_rest;
        } else {
            self.marks = self.marks << rest | marks_of_rest;
        }
        self.len += count;
    }
}

/// The codes of 32 letters and their marks, the first in the highest bits. The base of a mark is any.
fn encode(letters: &[u8; HALF]) -> (u64, u32) {
    let (mut bases, mut marks) = (0, 0);
    let (parts, _) = letters.as_chunks::<8>();
    for part in parts {
        let (codes, strange) = encode_8(u64::from_be_bytes(*part));
        bases = bases << 16 | codes;
        marks <<= 8;
        if strange {
            for (i, &letter) in part.iter().enumerate() {
                marks |= u32::from(code_of(letter) == BREAK) << (7 - i);
            }
        }
    }
    (bases, marks)
}

/// The codes of 8 letters, the first in the highest byte, and whether one of them is no base. The codes are made of
/// all letters at once: bits 1 and 2 of `A`, `C`, `G` and `T`, of either case, distinguish them.
fn encode_8(letters: u64) -> (u64, bool) {
    /// A number in each of the bytes.
    const fn bytes(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    // The code of a letter, in the low bits of its byte.
    let codes = (letters >> 1 ^ letters >> 2) & bytes(3);
    // The letters of these codes: A, with bits changed for C, G and T.
    let low = codes & bytes(1);
    let high = codes >> 1 & bytes(1);
    let both = low & high;
    let change = (low << 1) ^ (high << 2 | high << 1) ^ (both << 4 | both);
    let strange = (letters & bytes(!0x20)) ^ bytes(b'A') ^ change;
    let pairs = (codes | codes >> 6) & 0x000f_000f_000f_000f;
    let fours = (pairs | pairs >> 12) & 0x0000_00ff_0000_00ff;
    ((fours | fours >> 24) & 0xffff, strange != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmer::Kmers;
    use proptest::prelude::*;

    fn codes(block: &Block) -> Vec<u8> {
        block.codes().collect()
    }

    #[test]
    fn every_letter_at_every_place() {
        for letter in 0..=u8::MAX {
            for at in 0..HALF {
                let mut letters = *b"ACGTTGCAacgttgcaACGTTGCAacgttgca";
                letters[at] = letter;
                let mut block = Block::new(&Device::cpu(), HALF).unwrap();
                block.push_letters(&letters);
                block.seal();
                let expected: Vec<u8> = letters.iter().map(|&letter| code_of(letter)).collect();
                assert_eq!(codes(&block), expected, "{letter} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(
            parts in prop::collection::vec("[ACGTacgtNn*\r]{0,100}", 0..8),
            keep in 0usize..80,
        ) {
            let device = Device::cpu();
            let mut block = Block::new(&device, 1000).unwrap();
            let mut expected = Vec::new();
            for round in 0..2 {
                block.clear();
                expected.clear();
                for part in &parts[..parts.len().div_ceil(2 - round)] {
                    block.push_letters(part.as_bytes());
                    block.push_break();
                    expected.extend(part.bytes().map(code_of));
                    expected.push(BREAK);
                }
                prop_assert_eq!(block.len(), expected.len());
            }
            let mut next = Block::new(&device, 1000).unwrap();
            next.push_tail_of(&block, keep);
            next.push_letters(b"ACGT");
            next.seal();
            block.seal();
            prop_assert_eq!(codes(&block), &expected[..]);
            let tail = &expected[expected.len().saturating_sub(keep)..];
            prop_assert_eq!(codes(&next), [tail, &[0, 1, 2, 3]].concat());
            for (k, strand) in [(1, Strand::Canonical), (21, Strand::AsRead), (21, Strand::Canonical), (40, Strand::Canonical)] {
                let length = KmerLength::new(k).unwrap();
                let right: Vec<u128> = Kmers::of_codes(block.codes(), length, strand).collect();
                let mut kmers = Vec::new();
                let each = |kmer: u128| {
                    kmers.push(kmer);
                    Ok::<(), ()>(())
                };
                block.try_for_each_kmer(length, strand, each).unwrap();
                prop_assert_eq!(kmers, right, "{}", k);
            }
            // What is beyond the end breaks k-mers.
            let unused = block.used_words() / GROUP_WORDS * GROUP - block.len();
            if unused > 0 {
                let marks = block.words()[block.used_words() - 1];
                prop_assert_eq!(marks & ((1 << unused) - 1), (1 << unused) - 1);
            }
        }
    }
}
