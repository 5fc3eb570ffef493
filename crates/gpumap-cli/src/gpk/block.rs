//! A block of a database: up to [`MOST`] k-mers in their order, as Elias and Fano pack them, and their counts.
//!
//! What a k-mer adds to the first of its block is cut in two: the low bits are written as they are, and the rest, which rises slowly, in
//! unary. A count of 1, which most k-mers of reads have, takes one bit where that is shorter; other counts have as many bits as most
//! of the block need, and the few that need more are a list of exceptions.

use super::bits::{BitWriter, PADDING, bytes_of, mask, number, ones, wide_number};
use crate::kmer::Code;

/// K-mers of a block at most; every block except the last has as many.
pub const MOST: usize = 1 << 12;

/// The bytes that say how the rest is laid out.
const START: usize = 8;

/// Bits of the place of an exception.
const PLACE: u32 = 16;

/// Bytes of a block at most, whatever its k-mers and counts are: nothing longer is read.
pub const MOST_BYTES: usize = START + MOST * (16 + 8 + 2 + 8) + 3 * MOST / 8 + MOST / 8 + 8;

/// Set in the second byte if counts of 1 take one bit.
const HAS_ONES: u8 = 0x80;

/// How the counts of a block are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CountLayout {
    /// Whether there is a bit for each k-mer that says whether its count is another than 1.
    has_ones: bool,
    /// Bits of a count.
    width: u32,
    /// Counts that have more.
    exceptions: usize,
    /// Bits that an exception has more.
    more: u32,
}

/// How many numbers have as many bits.
type Lengths = [u32; 65];

const fn bits_of(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

/// The layout of the fewest bits for numbers of these lengths, and how many bits these are.
fn shortest(lengths: &Lengths) -> (CountLayout, usize) {
    let numbers: u32 = lengths.iter().sum();
    let longest = lengths.iter().rposition(|&numbers| numbers > 0);
    let longest = longest.unwrap_or(0) as u32;
    let mut longer = numbers;
    let mut best = None;
    for width in 0..=longest {
        longer -= lengths[width as usize];
        let more = if longer > 0 { longest - width } else { 0 };
        let bits = numbers * width + longer * (PLACE + more);
        if best.is_none_or(|(_, fewest)| bits < fewest) {
            let layout = CountLayout {
                has_ones: false,
                width,
                exceptions: longer as usize,
                more,
            };
            best = Some((layout, bits));
        }
    }
    let none = CountLayout {
        has_ones: false,
        width: 0,
        exceptions: 0,
        more: 0,
    };
    let (layout, bits) = best.unwrap_or((none, 0));
    (layout, bits as usize)
}

/// The lengths of all counts less 1, and of the counts above 1 less 2.
fn lengths_of(counts: &[u64]) -> (Lengths, Lengths) {
    /// Lower counts are counted by value, every second one apart: neighbours are often equal, and an addition would wait for the one
    /// before.
    const SMALL: usize = 256;
    let (mut all, mut others): (Lengths, Lengths) = ([0; 65], [0; 65]);
    let mut small = [[0_u32; 2]; SMALL];
    for (i, &count) in counts.iter().enumerate() {
        match small.get_mut(usize::try_from(count.wrapping_sub(1)).unwrap_or(SMALL)) {
            Some(numbers) => numbers[i % 2] += 1,
            None => {
                let above = count.wrapping_sub(1);
                all[bits_of(above) as usize] += 1;
                others[bits_of(above - 1) as usize] += 1;
            }
        }
    }
    for (above, numbers) in (0..).zip(small) {
        let numbers = numbers[0] + numbers[1];
        all[bits_of(above) as usize] += numbers;
        if let Some(above) = above.checked_sub(1) {
            others[bits_of(above) as usize] += numbers;
        }
    }
    (all, others)
}

impl CountLayout {
    /// The shortest for these counts.
    fn of(counts: &[u64]) -> Self {
        let (all, others) = lengths_of(counts);
        let (plain, bits) = shortest(&all);
        let (with_ones, bits_with_ones) = shortest(&others);
        match counts.len() + bits_with_ones < bits {
            true => Self {
                has_ones: true,
                ..with_ones
            },
            false => plain,
        }
    }

    /// The count that was packed.
    fn count(self, packed: u64) -> u64 {
        packed.wrapping_add(1 + u64::from(self.has_ones))
    }
}

/// Appends a block of these k-mers, which rise, 1 to [`MOST`] of them with as many counts.
pub fn pack<C: Code>(keys: &[C], counts: &[u64], out: &mut Vec<u8>) {
    let (first, last) = (keys[0].number(), keys[keys.len() - 1].number());
    let span = last - first;
    let low = (span / keys.len() as u128).checked_ilog2().unwrap_or(0);
    // Fewer than two for each k-mer.
    let zeros = (span >> low) as usize;
    let layout = CountLayout::of(counts);
    out.push(low as u8);
    out.push(layout.width as u8 | if layout.has_ones { HAS_ONES } else { 0 });
    out.push(layout.more as u8);
    out.push(0);
    out.extend_from_slice(&(layout.exceptions as u16).to_le_bytes());
    out.extend_from_slice(&(zeros as u16).to_le_bytes());

    let above = |key: &C| C::of_number(key.number() - first);
    let mut lows = BitWriter::new(out, keys.len() * low as usize);
    match low <= u64::BITS {
        true => {
            let low_bits = mask(low);
            let low_bits = |key| above(key).number() as u64 & low_bits;
            lows.push_all(keys.iter().map(low_bits), low);
        }
        false => {
            let low_bits = u128::MAX >> (u128::BITS - low);
            for key in keys {
                lows.push(above(key).number() & low_bits, low);
            }
        }
    }
    lows.finish();
    let places = keys.iter().enumerate();
    push_ones(
        places.map(|(i, key)| (above(key) >> low).number() as usize + i),
        keys.len() + zeros,
        out,
    );
    if layout.has_ones {
        for counts in counts.chunks(u64::BITS as usize) {
            let others = counts.iter().enumerate();
            let others = others.fold(0, |word, (i, &count)| word | u64::from(count != 1) << i);
            let bytes = bytes_of(counts.len());
            out.extend_from_slice(&others.to_le_bytes()[..bytes]);
        }
    }
    pack_counts(counts, layout, out);
}

/// Appends `bits` bits: ones at these places, which rise, and zeros.
fn push_ones(places: impl Iterator<Item = usize>, bits: usize, out: &mut Vec<u8>) {
    const WIDTH: usize = u64::BITS as usize;
    let start = out.len();
    out.resize(start + bits.div_ceil(WIDTH) * size_of::<u64>(), 0);
    let words = &mut out[start..];
    let (mut at, mut word) = (0, 0_u64);
    let mut put = |at: usize, word: u64| {
        let place = at * size_of::<u64>()..(at + 1) * size_of::<u64>();
        words[place].copy_from_slice(&word.to_le_bytes());
    };
    for place in places {
        if place / WIDTH != at {
            put(at, word);
            (at, word) = (place / WIDTH, 0);
        }
        word |= 1 << (place % WIDTH);
    }
    put(at, word);
    out.truncate(start + bytes_of(bits));
}

/// Appends the counts, without those of 1 if they have a bit each, and the exceptions.
fn pack_counts(counts: &[u64], layout: CountLayout, out: &mut Vec<u8>) {
    let CountLayout {
        width, has_ones, ..
    } = layout;
    let mut bits = BitWriter::new(out, counts.len() * width as usize);
    let low_bits = mask(width);
    let mut exceptions = Vec::with_capacity(layout.exceptions);
    let mut others = 0_u64;
    let numbers = counts.iter().map(|&count| {
        // Without a branch: which counts are 1 is up to the data.
        let is_other = !has_ones || count != 1;
        let number = count.wrapping_sub(1 + u64::from(has_ones)) & mask(64 * u32::from(is_other));
        if number > low_bits {
            exceptions.push((others, number >> width));
        }
        others += u64::from(is_other);
        (number & low_bits, is_other)
    });
    bits.push_some(numbers, width);
    bits.finish();
    if exceptions.is_empty() {
        return;
    }
    let mut places = BitWriter::new(out, exceptions.len() * PLACE as usize);
    for &(place, _) in &exceptions {
        places.push(place.into(), PLACE);
    }
    places.finish();
    let mut bits = BitWriter::new(out, exceptions.len() * layout.more as usize);
    for &(_, more) in &exceptions {
        bits.push(more.into(), layout.more);
    }
    bits.finish();
}

/// What is wrong with a block, as a part of a sentence.
pub type Problem = &'static str;

/// The parts of a block, whose lengths fit.
struct Parts<'a> {
    low: u32,
    zeros: usize,
    layout: CountLayout,
    lows: &'a [u8],
    highs: &'a [u8],
    ones: &'a [u8],
    packed: usize,
    counts: &'a [u8],
    places: &'a [u8],
    more: &'a [u8],
}

/// The parts of a block of `len` k-mers. [`PADDING`] bytes follow the block; each part keeps what is behind it.
fn parts<C>(bytes: &[u8], len: usize) -> Result<Parts<'_>, Problem> {
    const CUT: Problem = "is cut off";
    let size = bytes.len() - PADDING;
    let start = bytes[..size].first_chunk::<START>().ok_or(CUT)?;
    let &[low, width, more, reserved, e0, e1, z0, z1] = start;
    let layout = CountLayout {
        has_ones: width & HAS_ONES != 0,
        width: u32::from(width & !HAS_ONES),
        exceptions: u16::from_le_bytes([e0, e1]).into(),
        more: more.into(),
    };
    let (low, zeros) = (u32::from(low), usize::from(u16::from_le_bytes([z0, z1])));
    if reserved != 0 {
        return Err("has a byte set that must be zero");
    }
    if low >= 8 * size_of::<C>() as u32 || zeros >= 2 * len {
        return Err("claims k-mers that are too long");
    }
    if layout.width + layout.more > u64::BITS {
        return Err("claims counts that are too long");
    }
    let mut at = START;
    let mut part = |bits: usize| {
        let part = bytes.get(at..).filter(|_| at <= size);
        at += bytes_of(bits);
        part.ok_or(CUT)
    };
    let lows = part(len * low as usize)?;
    let highs = part(len + zeros)?;
    let (flags, packed) = match layout.has_ones {
        true => {
            let flags = part(len)?;
            if flags.len() < bytes_of(len) + PADDING {
                return Err(CUT);
            }
            (flags, ones(flags, len).count())
        }
        false => (&[][..], len),
    };
    if layout.exceptions > packed {
        return Err("claims more exceptions than counts");
    }
    let counts = part(packed * layout.width as usize)?;
    let places = part(layout.exceptions * PLACE as usize)?;
    let more = part(layout.exceptions * layout.more as usize)?;
    if at != size {
        return Err("has another length than its parts");
    }
    Ok(Parts {
        low,
        zeros,
        layout,
        lows,
        highs,
        ones: flags,
        packed,
        counts,
        places,
        more,
    })
}

/// Unpacks a block, behind which are [`PADDING`] bytes, into as many k-mers and counts as it has. The first k-mer is `first`, and none
/// is above `most`, nor a count above `largest`.
pub fn unpack<C: Code>(
    bytes: &[u8],
    [first, most]: [C; 2],
    largest: u64,
    keys: &mut [C],
    counts: &mut [u64],
) -> Result<(), Problem> {
    let len = keys.len();
    let parts = parts::<C>(bytes, len)?;
    unpack_keys(&parts, first, most, keys)?;
    unpack_counts(&parts, counts)?;
    match counts.iter().all(|&count| count <= largest) {
        true => Ok(()),
        false => Err("has a count above the largest of the file"),
    }
}

fn unpack_keys<C: Code>(
    parts: &Parts<'_>,
    first: C,
    most: C,
    keys: &mut [C],
) -> Result<(), Problem> {
    const ORDER: Problem = "has k-mers out of their order";
    let (low, len) = (parts.low, keys.len());
    let code_bits = 8 * size_of::<C>() as u32;
    if bits_of(parts.zeros as u64) + low > code_bits {
        return Err("claims k-mers that are too long");
    }
    let low_bits = |i: usize| match low <= u64::BITS {
        true => u128::from(number(parts.lows, i * low as usize, low)),
        false => wide_number(parts.lows, i * low as usize, low),
    };
    let mut above = C::zeroed();
    let mut found = 0;
    for place in ones(parts.highs, len + parts.zeros) {
        let (Some(key), Some(high)) = (keys.get_mut(found), place.checked_sub(found)) else {
            return Err("has more k-mers than it may");
        };
        let next = C::of_number(high as u128) << low | C::of_number(low_bits(found));
        match found {
            0 if next != C::zeroed() => return Err("begins with another k-mer"),
            0 => {}
            _ if next <= above => return Err(ORDER),
            _ => above = next,
        }
        // What goes beyond the greatest code is found by the last of them.
        *key = C::of_number(first.number().wrapping_add(above.number()));
        found += 1;
    }
    if found < len {
        return Err("has fewer k-mers than it should");
    }
    match first <= most && above.number() <= most.number() - first.number() {
        true => Ok(()),
        false => Err(ORDER),
    }
}

fn unpack_counts(parts: &Parts<'_>, counts: &mut [u64]) -> Result<(), Problem> {
    let layout = parts.layout;
    let width = layout.width as usize;
    let count = |i: usize| layout.count(number(parts.counts, i * width, layout.width));
    if layout.has_ones {
        counts.fill(1);
        let places = ones(parts.ones, counts.len());
        for (i, place) in places.enumerate() {
            counts[place] = count(i);
        }
    } else {
        for (i, to) in counts.iter_mut().enumerate() {
            *to = count(i);
        }
    }
    if layout.exceptions == 0 {
        return Ok(());
    }
    // Where the counts are that may have exceptions.
    let others: Vec<usize> = match layout.has_ones {
        true => ones(parts.ones, counts.len()).collect(),
        false => (0..parts.packed).collect(),
    };
    let mut next = 0;
    for i in 0..layout.exceptions {
        let place = number(parts.places, i * PLACE as usize, PLACE) as usize;
        let &other = others
            .get(place)
            .filter(|_| place >= next)
            .ok_or("has exceptions out of their order")?;
        next = place + 1;
        let more = number(parts.more, i * layout.more as usize, layout.more);
        let more = more.checked_shl(layout.width).unwrap_or(0);
        let packed = number(parts.counts, place * width, layout.width) | more;
        counts[other] = layout.count(packed);
    }
    Ok(())
}
