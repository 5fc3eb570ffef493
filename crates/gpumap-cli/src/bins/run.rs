//! [`Run`]: what has been counted of a bin, packed. Most memory of a job on the CPU is that of runs.
//!
//! Rests are in their order, so each is written as what it has more than the one before, in as few bytes as that takes, and its count
//! behind it, in one byte or in eight, if it is not small. Before all of these there is a byte for each, which says how many bytes it has, and a small
//! count: what says where the next one begins must not wait for this one.

use std::mem::{replace, swap};

use crate::buckets::{self, Digits};

/// What follows the bits of a k-mer that say its bin.
pub trait Rest: Digits {
    /// Bytes of one.
    const SIZE: usize = size_of::<Self>();
    fn of_number(number: u128) -> Self;
    fn number(self) -> u128;
    /// What it has more than one before it.
    fn above(self, before: Self) -> Self;
    /// The one that has so much more.
    fn and(self, more: Self) -> Self;
    /// In how many bytes it is written.
    fn bytes(self) -> usize;
    /// Puts it, and zeros up to [`SIZE`](Self::SIZE), at the beginning of bytes.
    fn put(self, to: &mut [u8]);
    /// Takes one of so many bytes from the beginning of bytes, which are [`SIZE`](Self::SIZE) or more.
    fn take(from: &[u8], bytes: usize) -> Self;
}

macro_rules! rests {
    ($($t:ty),*) => {$(
        impl Rest for $t {
            #[inline(always)]
            fn of_number(number: u128) -> Self {
                number as Self
            }

            #[inline(always)]
            fn number(self) -> u128 {
                self.into()
            }

            #[inline(always)]
            fn above(self, before: Self) -> Self {
                self.wrapping_sub(before)
            }

            #[inline(always)]
            fn and(self, more: Self) -> Self {
                self.wrapping_add(more)
            }

            #[inline(always)]
            fn bytes(self) -> usize {
                (Self::BITS - self.leading_zeros()).div_ceil(8) as usize
            }

            #[inline(always)]
            fn put(self, to: &mut [u8]) {
                to[..Self::SIZE].copy_from_slice(&self.to_le_bytes());
            }

            #[inline(always)]
            fn take(from: &[u8], bytes: usize) -> Self {
                let mut word = [0; Self::SIZE];
                word.copy_from_slice(&from[..Self::SIZE]);
                let unused = Self::BITS - 8 * bytes as u32;
                Self::from_le_bytes(word) & Self::MAX.checked_shr(unused).unwrap_or(0)
            }
        }
    )*};
}
rests!(u32, u64, u128);

/// The low bits of the byte that describes a pair, which say the count or how it is written.
const COUNT_BITS: u32 = 3;
/// Of each of their values: the count, if it is not written; the bytes of a count that is; and the bits of it.
const SMALL: [u64; 8] = [1, 2, 3, 4, 5, 6, 0, 0];
const WRITTEN: [usize; 8] = [0, 0, 0, 0, 0, 0, 1, 8];
const MASK: [u64; 8] = [0, 0, 0, 0, 0, 0, 0xff, u64::MAX];

/// Bytes of a pair at most, beside the one that describes it: whatever it has, as many are written and read.
const fn most_bytes<R: Rest>() -> usize {
    R::SIZE + size_of::<u64>()
}

/// Different rests in their order, and how often each was there.
pub struct Run {
    /// The pairs, and as many bytes more as are read with the last one.
    bytes: Vec<u8>,
    len: usize,
}

impl Run {
    /// A run that was [`packed`](Self::packed) so.
    pub fn of_packed(bytes: Vec<u8>, len: usize) -> Self {
        Self { bytes, len }
    }

    /// The bytes that it consists of.
    pub fn packed(&self) -> &[u8] {
        &self.bytes
    }

    /// Rests in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Writes all of them to columns of their length, each rest as `key_of` makes it.
    #[inline(always)]
    pub fn copy_to<R: Rest, C>(&self, keys: &mut [C], counts: &mut [u64], key_of: impl Fn(R) -> C) {
        let (descriptions, mut pairs) = self.bytes.split_at(self.len);
        let mut rest = R::zeroed();
        let columns = keys.iter_mut().zip(counts);
        for (&description, (key, count)) in descriptions.iter().zip(columns) {
            let description = usize::from(description);
            let (above, code) = (description >> COUNT_BITS, description % SMALL.len());
            let pair = &pairs[..most_bytes::<R>()];
            rest = rest.and(R::take(pair, above));
            let written = u64::take(&pair[above..], size_of::<u64>()) & MASK[code];
            pairs = &pairs[above + WRITTEN[code]..];
            (*key, *count) = (key_of(rest), SMALL[code] + written);
        }
    }
}

/// Bytes of a run that is made.
#[derive(Debug)]
struct Packed {
    descriptions: Vec<u8>,
    pairs: Vec<u8>,
}

/// Writes pairs.
struct Packer<'a, R> {
    out: &'a mut Packed,
    /// Bytes of pairs so far.
    at: usize,
    last: R,
    len: usize,
}

impl<'a, R: Rest> Packer<'a, R> {
    /// For so many at most.
    fn new(out: &'a mut Packed, most: usize) -> Self {
        let grow = |bytes: &mut Vec<u8>, room| bytes.resize(bytes.len().max(room), 0);
        grow(&mut out.descriptions, most);
        grow(&mut out.pairs, (most + 1) * most_bytes::<R>());
        Self {
            out,
            at: 0,
            last: R::zeroed(),
            len: 0,
        }
    }

    #[inline(always)]
    fn push(&mut self, rest: R, count: u64) {
        let above = rest.above(replace(&mut self.last, rest));
        let bytes = above.bytes();
        let code = count.wrapping_sub(1).min(6) as usize + usize::from(count > 0xff);
        self.out.descriptions[self.len] = (bytes << COUNT_BITS | code) as u8;
        let pair = &mut self.out.pairs[self.at..][..most_bytes::<R>()];
        above.put(pair);
        count.put(&mut pair[bytes..]);
        self.at += bytes + WRITTEN[code];
        self.len += 1;
    }

    fn end(self) -> Run {
        let descriptions = &self.out.descriptions[..self.len];
        // What is read with the last pair is zero or what was there.
        let pairs = &self.out.pairs[..self.at + most_bytes::<R>()];
        Run {
            bytes: [descriptions, pairs].concat(),
            len: self.len,
        }
    }
}

/// Pairs as they are.
struct Columns<R> {
    /// Of these so many are pairs.
    len: usize,
    rests: Vec<R>,
    counts: Vec<u64>,
}

impl<R: Rest> Columns<R> {
    const NONE: Self = Self {
        len: 0,
        rests: Vec::new(),
        counts: Vec::new(),
    };

    /// The memory of so many.
    fn room(&mut self, len: usize) -> (&mut [R], &mut [u64]) {
        if self.rests.len() < len {
            self.rests.resize(len, R::zeroed());
            self.counts.resize(len, 0);
        }
        (&mut self.rests[..len], &mut self.counts[..len])
    }

    /// The pairs.
    fn pairs(&self) -> (&[R], &[u64]) {
        (&self.rests[..self.len], &self.counts[..self.len])
    }

    fn unpack(&mut self, run: &Run) {
        let (rests, counts) = self.room(run.len);
        run.copy_to(rests, counts, |rest| rest);
        self.len = run.len;
    }

    /// Makes these the pairs of two.
    fn merge(&mut self, one: &Self, two: &Self) {
        let (rests, counts) = self.room(one.len + two.len);
        let (one, two) = (one.pairs(), two.pairs());
        let (mut i, mut j, mut len) = (0, 0, 0);
        // Without a branch: which comes first is up to the data.
        while i < one.0.len() && j < two.0.len() {
            let (first, second) = (one.0[i], two.0[j]);
            let (of_one, of_two) = (first <= second, second <= first);
            rests[len] = first.min(second);
            counts[len] = u64::from(of_one) * one.1[i] + u64::from(of_two) * two.1[j];
            i += usize::from(of_one);
            j += usize::from(of_two);
            len += 1;
        }
        for ((more, of_more), from) in [(one, i), (two, j)] {
            let end = len + more.len() - from;
            rests[len..end].copy_from_slice(&more[from..]);
            counts[len..end].copy_from_slice(&of_more[from..]);
            len = end;
        }
        self.len = len;
    }
}

/// Pairs whose memory is kept for others: where k-mers are few of the possible ones, a bin may have a great part of all.
const KEPT: usize = if cfg!(test) { 1 << 12 } else { 1 << 19 };

/// What a thread works in, and the pairs that it works with.
pub struct Memory<R> {
    /// For what is to wait.
    pub spare: Vec<R>,
    /// For [`buckets::sort`].
    other: Vec<R>,
    /// Where groups of equal rests end.
    ends: Vec<u32>,
    /// For what is packed.
    packed: Packed,
    pairs: Columns<R>,
    /// For a run that is added to them.
    more: Columns<R>,
    /// For both.
    all: Columns<R>,
}

impl<R: Rest> Memory<R> {
    /// None yet.
    pub const NONE: Self = Self {
        spare: Vec::new(),
        other: Vec::new(),
        ends: Vec::new(),
        packed: Packed {
            descriptions: Vec::new(),
            pairs: Vec::new(),
        },
        pairs: Columns::NONE,
        more: Columns::NONE,
        all: Columns::NONE,
    };

    /// Pairs that there are.
    pub fn len(&self) -> usize {
        self.pairs.len
    }

    /// Counts rests of `bits` bits, which are taken out. The pairs are these.
    pub fn count(&mut self, rests: &mut Vec<R>, bits: u32) {
        buckets::sort(rests, &mut self.other, bits);
        let ends = &mut self.ends;
        ends.clear();
        ends.resize(rests.len(), 0);
        // Without a branch: where groups end is up to the data.
        let mut groups = 0;
        for at in 0..rests.len() {
            let rest = rests[at];
            rests[groups] = rest;
            ends[groups] = at as u32 + 1;
            groups += usize::from(rests.get(at + 1).is_none_or(|&next| next != rest));
        }
        let (different, counts) = self.pairs.room(groups);
        different.copy_from_slice(&rests[..groups]);
        let mut begin = 0;
        for (count, &end) in counts.iter_mut().zip(&*ends) {
            *count = u64::from(end - replace(&mut begin, end));
        }
        self.pairs.len = groups;
        rests.clear();
    }

    /// The pairs are those of a run.
    pub fn set(&mut self, run: &Run) {
        self.pairs.unpack(run);
    }

    /// Adds those of a run to the pairs.
    pub fn add(&mut self, run: &Run) {
        self.more.unpack(run);
        self.all.merge(&self.pairs, &self.more);
        swap(&mut self.pairs, &mut self.all);
    }

    /// The run of the pairs, which are taken out.
    pub fn pack(&mut self) -> Run {
        let (rests, counts) = self.pairs.pairs();
        let mut packer = Packer::new(&mut self.packed, rests.len());
        for (&rest, &count) in rests.iter().zip(counts) {
            packer.push(rest, count);
        }
        let run = packer.end();
        self.pairs.len = 0;
        let room = |columns: &Columns<R>| columns.rests.len();
        if room(&self.pairs).max(room(&self.all)) > KEPT {
            let Self { spare, other, .. } = replace(self, Self::NONE);
            (self.spare, self.other) = (spare, other);
        }
        run
    }
}
