//! The codes of Deflate as tables: by the next bits, what they mean and how many bits that takes.
//!
//! An entry of [`Codes`] is a number: its low 6 bits say how many bits the code takes with its extra bits, bits 8 to 11 how
//! many without, and the high half is the letter, or the least length or distance. Codes that are longer than the root of
//! a table go on in a part of it: the entry of the root says with how many bits, and where.

/// The entry is a letter.
pub const LITERAL: u32 = 1 << 12;
/// The code goes on.
pub const SUBTABLE: u32 = 1 << 13;
/// The end of the block.
pub const END: u32 = 1 << 14;
/// No code.
pub const INVALID: u32 = 1 << 15;

/// Bits of the roots.
pub const LETTERS_BITS: usize = 11;
pub const DISTANCES_BITS: usize = 8;
/// Entries of the roots.
pub const LETTERS_ROOT: usize = 1 << LETTERS_BITS;
pub const DISTANCES_ROOT: usize = 1 << DISTANCES_BITS;

/// Bits of a code at most.
const MOST: usize = 15;

/// Entries at most, by zlib's `enough`: for 286 letters with a root of 11 bits, and for 30 distances with one of 8.
const LETTERS: usize = 2342;
const DISTANCES: usize = 402;

/// The codes of a block.
#[derive(Debug)]
pub struct Codes {
    pub letters: Box<[u32; LETTERS]>,
    pub distances: Box<[u32; DISTANCES]>,
}

impl Default for Codes {
    fn default() -> Self {
        Self {
            letters: Box::new([INVALID; LETTERS]),
            distances: Box::new([INVALID; DISTANCES]),
        }
    }
}

impl Codes {
    /// Makes the tables of codes with these lengths, by symbol. Whether there are such codes.
    pub fn make(&mut self, letters: &[u8], distances: &[u8]) -> bool {
        table(letters, letter, LETTERS_BITS, &mut self.letters[..])
            && table(distances, distance, DISTANCES_BITS, &mut self.distances[..])
    }

    /// Makes those of the blocks that do not have any of their own.
    pub fn fix(&mut self) {
        let mut letters = [8; 288];
        letters[144..256].fill(9);
        letters[256..280].fill(7);
        let made = self.make(&letters, &[5; 32]);
        debug_assert!(made, "all codes are used");
    }
}

/// What a symbol means, without the bits of its code: its kind, the least length, and how many extra bits it has.
fn letter(symbol: usize) -> (u32, u32, u32) {
    /// Of the symbols from 257 on.
    const LENGTHS: [u16; 29] = [
        3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115,
        131, 163, 195, 227, 258,
    ];
    const EXTRA: [u8; 29] = [
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
    ];
    match symbol {
        0..256 => (LITERAL, symbol as u32, 0),
        256 => (END, 0, 0),
        257..286 => (0, LENGTHS[symbol - 257].into(), EXTRA[symbol - 257].into()),
        _ => (INVALID, 0, 0),
    }
}

fn distance(symbol: usize) -> (u32, u32, u32) {
    match symbol {
        0..4 => (0, symbol as u32 + 1, 0),
        4..30 => {
            let extra = symbol as u32 / 2 - 1;
            (0, (((symbol as u32 & 1) + 2) << extra) + 1, extra)
        }
        _ => (INVALID, 0, 0),
    }
}

/// How many codes have each length, and the first code of each, if there are such codes: that none begins with another,
/// and that all are used, or one of one bit or none at all.
fn first_codes(lengths: &[u8]) -> Option<([usize; MOST + 1], [usize; MOST + 2])> {
    let mut counts = [0; MOST + 1];
    for &length in lengths {
        counts[usize::from(length)] += 1;
    }
    counts[0] = 0;
    let mut first = [0; MOST + 2];
    for length in 1..=MOST {
        first[length + 1] = (first[length] + counts[length]) << 1;
    }
    let used = first[MOST + 1] >> 1;
    let all: usize = counts.iter().sum();
    let is_small = all == 0 || (all == 1 && counts[1] == 1);
    (used == 1 << MOST || is_small).then_some((counts, first))
}

fn table(
    lengths: &[u8],
    meaning: impl Fn(usize) -> (u32, u32, u32),
    root: usize,
    table: &mut [u32],
) -> bool {
    let Some((counts, mut next)) = first_codes(lengths) else {
        return false;
    };
    let longest = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
    if longest <= 1 {
        table[..1 << root].fill(INVALID | 1);
    }
    // Symbols by their codes: by length, then by symbol.
    let mut sorted = [0_u16; 288];
    let mut place = [0; MOST + 2];
    for length in 1..=MOST {
        place[length + 1] = place[length] + counts[length];
    }
    let all = place[MOST + 1];
    for (symbol, &length) in lengths.iter().enumerate() {
        if length > 0 {
            sorted[place[usize::from(length)]] = symbol as u16;
            place[usize::from(length)] += 1;
        }
    }
    let mut free = 1 << root;
    // The part that codes with this root are in, and its bits.
    let (mut current, mut part, mut part_bits) = (usize::MAX, 0, 0);
    for (index, &symbol) in sorted[..all].iter().enumerate() {
        let length = usize::from(lengths[usize::from(symbol)]);
        let code = next[length];
        next[length] += 1;
        let reversed = code.reverse_bits() >> (usize::BITS as usize - length);
        let (kind, value, extra) = meaning(symbol.into());
        let entry = value << 16 | kind | (length as u32) << 8 | (length as u32 + extra);
        if length <= root {
            for place in (reversed..1 << root).step_by(1 << length) {
                table[place] = entry;
            }
            continue;
        }
        let low = reversed & ((1 << root) - 1);
        if low != current {
            current = low;
            part = free;
            part_bits = length - root;
            // As many bits as it takes until the codes with this root are all there.
            let mut left = 1_usize << part_bits;
            let mut behind = index;
            while part_bits + root < longest {
                let same = sorted[behind..all].iter();
                let same = same
                    .take_while(|&&symbol| {
                        usize::from(lengths[usize::from(symbol)]) == part_bits + root
                    })
                    .count();
                behind += same;
                match left.checked_sub(same) {
                    Some(0) | None => break,
                    Some(rest) => left = rest << 1,
                }
                part_bits += 1;
            }
            free += 1 << part_bits;
            if free > table.len() {
                return false;
            }
            table[low] = (part as u32) << 16 | SUBTABLE | part_bits as u32;
        }
        for place in (reversed >> root..1 << part_bits).step_by(1 << (length - root)) {
            table[part + place] = entry;
        }
    }
    true
}

/// The table of the codes that lengths are written in, of 7 bits at most: in the low 3 bits how many a code takes, above it
/// the symbol. None if there are no such codes.
pub fn lengths_table(lengths: &[u8; 19]) -> Option<[u8; 128]> {
    let (_, mut next) = first_codes(lengths)?;
    let used: usize = lengths
        .iter()
        .filter(|&&length| length > 0)
        .map(|&length| 128 >> length)
        .sum();
    if used != 128 {
        return None;
    }
    let mut table = [0_u8; 128];
    for (symbol, &length) in lengths
        .iter()
        .enumerate()
        .filter(|(_, length)| **length > 0)
    {
        let length = usize::from(length);
        let reversed = next[length].reverse_bits() >> (usize::BITS as usize - length);
        next[length] += 1;
        for place in (reversed..128).step_by(1 << length) {
            table[place] = (symbol as u8) << 3 | length as u8;
        }
    }
    Some(table)
}
