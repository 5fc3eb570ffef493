//! [`Sorter`]: pairs in any order to pairs in the order of their keys, by all cores.
//!
//! Pairs are put into buckets by the highest bits of their keys as they come. A bucket is sorted when it is asked for, so the sorted pairs are
//! never all in memory. In a bucket a pair is one number, of the bits of the key that are left and of the count below them: nearly
//! all counts are small enough, and the others are in a list of their own.

use std::ops::RangeInclusive;

use rayon::prelude::*;

use crate::buckets;
use crate::kmer::Code;

/// Pairs that a thread puts into buckets at once.
const RUN: usize = 1 << 17;

/// A bucket of more pairs is sorted by several threads.
const LARGE: usize = 1 << 19;

/// The most bits of a count beside its key: counts of more do not occur in sequences.
const COUNT_BITS: u32 = 48;

/// How a pair is one number.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Bits of a key below those that say its bucket.
    rest: u32,
    /// Bits of the count.
    count: u32,
}

impl Layout {
    fn of<C: Code>(key_bits: u32) -> Self {
        let rest = key_bits - buckets::BITS.min(key_bits);
        let code_bits = 8 * size_of::<C>() as u32;
        Self {
            rest,
            count: (code_bits - rest).min(COUNT_BITS),
        }
    }

    /// The count that stands for one in the list of large counts.
    fn large(self) -> u64 {
        (1 << self.count) - 1
    }

    fn bucket<C: Code>(self, key: C) -> usize {
        (key >> self.rest).number() as usize
    }

    fn rest_of<C: Code>(self, key: C) -> C {
        key & !(!C::zeroed() << self.rest)
    }

    fn pair<C: Code>(self, key: C, count: u64) -> C {
        let count = C::of_number(count.min(self.large()).into());
        self.rest_of(key) << self.count | count
    }

    fn key<C: Code>(self, bucket: usize, pair: C) -> C {
        C::of_number(bucket as u128) << self.rest | pair >> self.count
    }

    fn count<C: Code>(self, pair: C) -> u64 {
        (pair & C::of_number(self.large().into())).number() as u64
    }
}

/// Some pairs, in buckets.
#[derive(Debug)]
struct Run<C> {
    pairs: Vec<C>,
    /// Where each bucket begins, and where the last one ends.
    starts: Vec<u32>,
    large: Vec<(C, u64)>,
}

/// Pairs that are to be sorted.
#[derive(Debug)]
pub struct Sorter<C> {
    layout: Layout,
    buckets: usize,
    bounds: RangeInclusive<u64>,
    runs: Vec<Run<C>>,
}

impl<C: Code> Sorter<C> {
    /// For keys below 2^`key_bits`. Pairs with a value that is not within `bounds` are left out, before equal keys are looked for.
    pub fn new(key_bits: u32, bounds: RangeInclusive<u64>) -> Self {
        Self {
            layout: Layout::of::<C>(key_bits),
            buckets: 1 << buckets::BITS.min(key_bits),
            bounds,
            runs: Vec::new(),
        }
    }

    /// Adds pairs, as many keys as values.
    pub fn extend(&mut self, keys: &[C], values: &[u64]) {
        let parts = keys.par_chunks(RUN).zip(values.par_chunks(RUN));
        let runs = parts.map(|(keys, values)| self.run(keys, values));
        let runs: Vec<Run<C>> = runs.collect();
        self.runs.extend(runs);
    }

    fn run(&self, keys: &[C], values: &[u64]) -> Run<C> {
        let layout = self.layout;
        let is_within = |&(_, value): &(C, u64)| self.bounds.contains(&value);
        let pairs = || {
            let pairs = keys.iter().copied().zip(values.iter().copied());
            pairs.filter(is_within)
        };
        let mut starts = vec![0; self.buckets + 1];
        for (key, _) in pairs() {
            starts[layout.bucket(key) + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut run = Run {
            pairs: vec![C::zeroed(); sum as usize],
            starts,
            large: Vec::new(),
        };
        for (key, value) in pairs() {
            let place = &mut next[layout.bucket(key)];
            run.pairs[*place as usize] = layout.pair(key, value);
            *place += 1;
            if value >= layout.large() {
                run.large.push((key, value));
            }
        }
        run
    }

    /// All of them in the order of their keys.
    pub fn sorted(mut self) -> Sorted<C> {
        let mut large: Vec<(C, u64)> = Vec::new();
        for run in &mut self.runs {
            large.append(&mut run.large);
        }
        large.par_sort_unstable();
        Sorted {
            sorter: self,
            large,
            bucket: 0,
            keys: Vec::new(),
            values: Vec::new(),
            len: 0,
            saturated: 0,
        }
    }
}

/// Pairs in the order of their keys. The values of equal keys have been added.
#[derive(Debug)]
pub struct Sorted<C> {
    sorter: Sorter<C>,
    /// The pairs with large values, in their order.
    large: Vec<(C, u64)>,
    /// The next bucket.
    bucket: usize,
    /// Those that are sorted now, and behind them what is of no use.
    keys: Vec<C>,
    values: Vec<u64>,
    len: usize,
    saturated: u64,
}

impl<C: Code> Sorted<C> {
    /// The pairs that are sorted now: none before the first [`advance`](Self::advance).
    pub fn pairs(&self) -> (&[C], &[u64]) {
        (&self.keys[..self.len], &self.values[..self.len])
    }

    /// Sorts the next pairs instead of these; says whether there are any.
    pub fn advance(&mut self) -> bool {
        let sizes = self.next_sizes();
        let pairs: usize = sizes.iter().sum();
        if self.keys.len() < pairs {
            self.keys.resize(pairs, C::zeroed());
            self.values.resize(pairs, 0);
        }
        let columns = buckets::columns(&sizes, &mut self.keys, &mut self.values);
        let (sorter, large, first) = (&self.sorter, &self.large, self.bucket);
        let columns = columns.into_par_iter().enumerate();
        let sorted = columns.map_init(Default::default, |memory, (i, (keys, values))| {
            sorter.sort(first + i, large, memory, keys, values)
        });
        let sorted: Vec<(usize, u64)> = sorted.collect();
        self.bucket += sizes.len();
        // Where keys came twice, there are gaps.
        let (mut from, mut to) = (0, 0);
        for (size, (kept, saturated)) in sizes.into_iter().zip(sorted) {
            if from > to {
                self.keys.copy_within(from..from + kept, to);
                self.values.copy_within(from..from + kept, to);
            }
            from += size;
            to += kept;
            self.saturated += saturated;
        }
        self.len = to;
        to > 0
    }

    /// How many pairs were added.
    pub fn pairs_in_all(&self) -> u64 {
        let runs = self.sorter.runs.iter();
        runs.map(|run| run.pairs.len() as u64).sum()
    }

    /// How many sums have been kept as 2^64-1, being larger.
    pub fn saturated(&self) -> u64 {
        self.saturated
    }

    /// How many pairs each of the next buckets has, as many buckets as make a span.
    fn next_sizes(&self) -> Vec<usize> {
        let mut sizes = Vec::new();
        let mut pairs = 0;
        for bucket in self.bucket..self.sorter.buckets {
            let size = self.sorter.parts(bucket).map(<[C]>::len).sum::<usize>();
            if pairs > 0 && pairs + size > buckets::SPAN {
                break;
            }
            pairs += size;
            sizes.push(size);
        }
        sizes
    }
}

impl<C: Code> Sorter<C> {
    /// What the runs have of a bucket.
    fn parts(&self, bucket: usize) -> impl Iterator<Item = &[C]> {
        self.runs.iter().map(move |run| {
            let [start, end] = [run.starts[bucket], run.starts[bucket + 1]];
            &run.pairs[start as usize..end as usize]
        })
    }

    /// Puts a bucket into columns that are as long as it is. Returns how many keys there are, and how many sums were too large. What is in
    /// `memory` is of no use.
    fn sort(
        &self,
        bucket: usize,
        large: &[(C, u64)],
        (pairs, other): &mut (Vec<C>, Vec<C>),
        keys: &mut [C],
        values: &mut [u64],
    ) -> (usize, u64) {
        let layout = self.layout;
        pairs.clear();
        self.parts(bucket)
            .for_each(|part| pairs.extend_from_slice(part));
        match pairs.len() > LARGE {
            true => pairs.par_sort_unstable(),
            false => buckets::sort(pairs, other, layout.rest + layout.count),
        }
        let (mut kept, mut saturated) = (0, 0);
        let mut left = pairs.iter().copied().peekable();
        while let Some(pair) = left.next() {
            let key = layout.key(bucket, pair);
            let (mut sum, mut is_large) = (0, false);
            let mut add = |pair| match layout.count(pair) {
                count if count == layout.large() => is_large = true,
                count => sum += u128::from(count),
            };
            add(pair);
            let is_equal = |&other: &C| other >> layout.count == pair >> layout.count;
            while let Some(pair) = left.next_if(is_equal) {
                add(pair);
            }
            if is_large {
                let start = large.partition_point(|&(other, _)| other < key);
                let equal = large[start..]
                    .iter()
                    .take_while(|&&(other, _)| other == key);
                sum += equal.map(|&(_, value)| u128::from(value)).sum::<u128>();
            }
            let value = u64::try_from(sum).unwrap_or_else(|_| {
                saturated += 1;
                u64::MAX
            });
            (keys[kept], values[kept]) = (key, value);
            kept += 1;
        }
        (kept, saturated)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn all<C: Code>(sorter: Sorter<C>) -> (Vec<(C, u64)>, u64) {
        let mut sorted = sorter.sorted();
        let mut pairs = Vec::new();
        while sorted.advance() {
            let (keys, values) = sorted.pairs();
            pairs.extend(keys.iter().copied().zip(values.iter().copied()));
        }
        (pairs, sorted.saturated())
    }

    /// Against a map of the standard library: keys that come once, twice and often, with values of every size.
    fn sorts<C: Code>(key_bits: u32, pairs: usize) {
        let most = !0 >> (128 - key_bits);
        let random = |i: usize| {
            let number = (i as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            number ^ number >> 64
        };
        let values = [
            1,
            2,
            4094,
            4095,
            4096,
            1 << 30,
            1 << 48,
            (1 << 48) - 1,
            u64::MAX,
        ];
        let pairs: Vec<(C, u64)> = (0..pairs)
            .map(|i| {
                let key = C::of_number(random(i % (pairs / 2 + 1)) & most);
                (key, values[random(i + pairs) as usize % values.len()])
            })
            .collect();
        let mut expected = BTreeMap::<C, u128>::new();
        for &(key, value) in &pairs {
            *expected.entry(key).or_default() += u128::from(value);
        }
        let too_large = |&&sum: &&u128| sum > u64::MAX.into();
        let saturated = expected.values().filter(too_large).count() as u64;
        let expected = expected.into_iter();
        let expected: Vec<(C, u64)> = expected
            .map(|(key, sum)| (key, u64::try_from(sum).unwrap_or(u64::MAX)))
            .collect();
        let mut sorter = Sorter::new(key_bits, 0..=u64::MAX);
        for pairs in pairs.chunks(pairs.len() / 3 + 1) {
            let (keys, values): (Vec<C>, Vec<u64>) = pairs.iter().copied().unzip();
            sorter.extend(&keys, &values);
        }
        assert!(all(sorter) == (expected, saturated), "{key_bits} bits");
    }

    #[test]
    fn pairs_of_any_length_are_sorted_and_equal_ones_added() {
        for bits in [2, 4, 11, 12, 13, 42, 62, 63, 64] {
            sorts::<u64>(bits, 3_000);
        }
        for bits in [2, 12, 42, 64, 66, 110, 127, 128] {
            sorts::<u128>(bits, 3_000);
        }
        sorts::<u64>(42, 3 * RUN);
        sorts::<u64>(42, 0);
    }

    #[test]
    fn a_bucket_may_be_larger_than_a_span() {
        let keys: Vec<u64> = (0..buckets::SPAN as u64 + 5).rev().collect();
        let mut sorter = Sorter::new(64, 2..=3);
        sorter.extend(&keys, &vec![2; keys.len()]);
        sorter.extend(&[7, u64::MAX, 9], &[3, 3, 1]);
        let (pairs, _) = all(sorter);
        assert_eq!(pairs.len(), keys.len() + 1);
        assert_eq!(pairs[7], (7, 5));
        assert_eq!(pairs[9], (9, 2));
        assert_eq!(pairs.last(), Some(&(u64::MAX, 3)));
        assert!(pairs.is_sorted());
    }
}
