//! Numbers of a few bits each, one behind the other, the lowest bit first.

/// Bytes that must follow the last number, so that every number can be read as a whole word.
pub const PADDING: usize = 16;

/// The longest number that is written at once: fewer than 8 bits wait before it.
const AT_ONCE: u32 = u64::BITS - 8;

/// Appends numbers to bytes.
pub struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Where the next word goes.
    at: usize,
    /// Bits that do not fill a byte yet, and how many.
    word: u64,
    filled: u32,
}

impl<'a> BitWriter<'a> {
    /// Begins at the end of `out`, for numbers of so many bits together at most.
    pub fn new(out: &'a mut Vec<u8>, bits: usize) -> Self {
        let at = out.len();
        // A word is written whole.
        out.resize(at + bytes_of(bits) + size_of::<u64>(), 0);
        Self {
            out,
            at,
            word: 0,
            filled: 0,
        }
    }

    /// Appends a number below 2^width; the width is 128 at most.
    #[inline(always)]
    pub fn push(&mut self, mut number: u128, mut width: u32) {
        while width > AT_ONCE {
            self.push_at_once(number as u64 & mask(AT_ONCE), AT_ONCE);
            (number, width) = (number >> AT_ONCE, width - AT_ONCE);
        }
        self.push_at_once(number as u64, width);
    }

    /// The same for a width of up to [`AT_ONCE`], without a branch.
    #[inline(always)]
    fn push_at_once(&mut self, number: u64, width: u32) {
        self.word |= number << self.filled;
        self.put_word();
        self.filled += width;
        self.at += (self.filled / 8) as usize;
        self.word >>= self.filled / 8 * 8;
        self.filled %= 8;
    }

    /// Appends numbers below 2^width, several at once where they are short: each write waits for the one before.
    #[inline(always)]
    pub fn push_all(&mut self, numbers: impl ExactSizeIterator<Item = u64>, width: u32) {
        self.push_some(numbers.map(|number| (number, true)), width);
    }

    /// The same without the numbers that are not there, which are 0.
    #[inline(always)]
    pub fn push_some(
        &mut self,
        mut numbers: impl ExactSizeIterator<Item = (u64, bool)>,
        width: u32,
    ) {
        match width {
            1..=7 => self.push_groups::<8>(&mut numbers, width),
            8..=14 => self.push_groups::<4>(&mut numbers, width),
            15..=28 => self.push_groups::<2>(&mut numbers, width),
            _ => {}
        }
        for (number, is_there) in numbers {
            self.push(number.into(), width * u32::from(is_there));
        }
    }

    /// `N` numbers at once, while there are as many.
    #[inline(always)]
    fn push_groups<const N: usize>(
        &mut self,
        numbers: &mut impl ExactSizeIterator<Item = (u64, bool)>,
        width: u32,
    ) {
        while numbers.len() >= N {
            let (mut word, mut filled) = (0, 0);
            for _ in 0..N {
                let (number, is_there) = numbers.next().unwrap_or_default();
                word |= number << filled;
                filled += width * u32::from(is_there);
            }
            self.push_at_once(word, filled);
        }
    }

    /// Fills the last byte with zeros.
    pub fn finish(mut self) {
        self.put_word();
        self.out.truncate(self.at + bytes_of(self.filled as usize));
    }

    #[inline(always)]
    fn put_word(&mut self) {
        let place = self.at..self.at + size_of::<u64>();
        self.out[place].copy_from_slice(&self.word.to_le_bytes());
    }
}

/// The bytes that so many bits take.
pub const fn bytes_of(bits: usize) -> usize {
    bits.div_ceil(8)
}

/// The word of 8 bytes from byte `at` on.
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// The number of `width` bits, 64 at most, from bit `at` on. [`PADDING`] bytes follow it.
pub fn number(bytes: &[u8], at: usize, width: u32) -> u64 {
    let (byte, shift) = (at / 8, (at % 8) as u32);
    let mut number = word(bytes, byte) >> shift;
    if shift + width > u64::BITS {
        number |= u64::from(bytes[byte + 8]) << (u64::BITS - shift);
    }
    number & mask(width)
}

/// The same for a width of up to 128.
pub fn wide_number(bytes: &[u8], at: usize, width: u32) -> u128 {
    let low = number(bytes, at, width.min(u64::BITS));
    let high = match width.checked_sub(u64::BITS) {
        Some(more) => number(bytes, at + u64::BITS as usize, more),
        None => 0,
    };
    u128::from(low) | u128::from(high) << u64::BITS
}

/// A number of so many ones.
pub const fn mask(width: u32) -> u64 {
    match width {
        0 => 0,
        width => u64::MAX >> (u64::BITS - width),
    }
}

/// The places of the ones among the first `bits` bits.
pub fn ones(bytes: &[u8], bits: usize) -> impl Iterator<Item = usize> {
    (0..bits)
        .step_by(u64::BITS as usize)
        .flat_map(move |start| {
            let width = (bits - start).min(u64::BITS as usize) as u32;
            let mut left = word(bytes, start / 8) & mask(width);
            std::iter::from_fn(move || {
                let place = left.trailing_zeros() as usize;
                left &= left.checked_sub(1)?;
                Some(start + place)
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_come_back() {
        for width in 0..=128 {
            let all = u128::MAX.checked_shr(128 - width).unwrap_or(0);
            let numbers: Vec<u128> = (0..70)
                .map(|i: u128| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835) & all)
                .chain([all, 0, all])
                .collect();
            // From any bit on.
            for first in [0, 1, 7, 63] {
                let mut bytes = Vec::new();
                let all_bits = (first + width * numbers.len() as u32) as usize;
                let mut writer = BitWriter::new(&mut bytes, all_bits);
                writer.push(mask(first).into(), first);
                for &number in &numbers {
                    writer.push(number, width);
                }
                writer.finish();
                assert_eq!(bytes.len(), bytes_of(all_bits));
                bytes.resize(bytes.len() + PADDING, 0xff);
                for (i, &expected) in numbers.iter().enumerate() {
                    let at = first as usize + i * width as usize;
                    assert_eq!(wide_number(&bytes, at, width), expected, "{width}");
                    if width <= 64 {
                        assert_eq!(u128::from(number(&bytes, at, width)), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_that_are_left_out_take_no_bits() {
        for width in 0..=64 {
            let numbers = (0..100_u32).map(|i| {
                let number = u64::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask(width);
                match i % 7 {
                    0 | 3 => (0, false),
                    _ => (number, true),
                }
            });
            let (mut one_by_one, mut at_once) = (Vec::new(), Vec::new());
            let mut writer = BitWriter::new(&mut one_by_one, 100 * width as usize);
            let there = numbers.clone().filter(|&(_, is_there)| is_there);
            there.for_each(|(number, _)| writer.push(number.into(), width));
            writer.finish();
            let mut writer = BitWriter::new(&mut at_once, 100 * width as usize);
            writer.push_some(numbers, width);
            writer.finish();
            assert_eq!(one_by_one, at_once, "{width}");
        }
    }

    #[test]
    fn ones_are_found_up_to_the_end() {
        let mut bytes = vec![0xff; 30];
        bytes[3] = 0;
        bytes[20] = 0b1000_0001;
        for bits in [0, 1, 8, 63, 64, 65, 100, 168] {
            let expected = (0..bits).filter(|&bit| bytes[bit / 8] >> (bit % 8) & 1 == 1);
            assert_eq!(
                ones(&bytes, bits).collect::<Vec<_>>(),
                expected.collect::<Vec<_>>()
            );
        }
    }
}
