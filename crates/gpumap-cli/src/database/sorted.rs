//! [`SortedPairs`]: the pairs of a database in the order of their keys, some at a time. [`combine`] makes one sequence of several.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;

use super::Database;
use crate::counts::key_bits;
use crate::emit::Take;
use crate::error::Result;
use crate::gpk;
use crate::kind::KmerKind;
use crate::kmer::Code;
use crate::progress::Progress;
use crate::sorter::{Sorted, Sorter};

/// Pairs that are read at a time where they are sorted here.
const BATCH: usize = 1 << 21;

/// Blocks that all databases of a command together have in memory.
const BLOCKS: usize = 1 << 10;

/// Blocks that a database has in memory at least.
const FEWEST_BLOCKS: usize = 8;

/// Pairs of a part that a thread combines.
const PART: usize = 1 << 15;

/// The pairs of a database in the order of their keys, each key once.
pub(super) struct SortedPairs<C> {
    source: Source<C>,
    /// Pairs that have been taken of those that are there.
    taken: usize,
    has_ended: bool,
}

enum Source<C> {
    /// A database that is sorted: some of its blocks are in memory.
    Blocks {
        reader: gpk::Reader<C>,
        next: usize,
        at_once: usize,
        keys: Vec<C>,
        counts: Vec<u64>,
    },
    /// One that has been read.
    Memory(Sorted<C>),
}

impl<C: Code> SortedPairs<C> {
    /// Opens a database, which is one of so many. One that is not sorted is read into memory.
    pub(super) fn open(
        database: &Database,
        of: usize,
        kind: Option<KmerKind>,
        progress: &Progress,
    ) -> Result<Self> {
        let source = match database.reader()? {
            Some(reader) => Source::Blocks {
                reader,
                next: 0,
                at_once: (BLOCKS / of).max(FEWEST_BLOCKS),
                keys: Vec::new(),
                counts: Vec::new(),
            },
            None => {
                let mut sorter = Sorter::new(key_bits::<C>(kind), 0..=u64::MAX);
                database.for_each_batch(kind, BATCH, progress, |keys, values| {
                    sorter.extend(keys, values);
                    Ok(())
                })?;
                Source::Memory(sorter.sorted())
            }
        };
        Ok(Self {
            source,
            taken: 0,
            has_ended: false,
        })
    }

    /// How many pairs there are, if no key comes twice.
    pub(super) fn pairs(&self) -> u64 {
        match &self.source {
            Source::Blocks { reader, .. } => reader.totals().kmers,
            Source::Memory(sorted) => sorted.pairs_in_all(),
        }
    }

    /// No count is larger.
    pub(super) fn largest(&self) -> u64 {
        match &self.source {
            Source::Blocks { reader, .. } => reader.totals().largest,
            Source::Memory(_) => u64::MAX,
        }
    }

    /// How many sums of counts of one key are kept as 2^64-1, being larger; known at the end.
    pub(super) fn saturated(&self) -> u64 {
        match &self.source {
            Source::Blocks { .. } => 0,
            Source::Memory(sorted) => sorted.saturated(),
        }
    }

    /// The pairs that are there and have not been taken.
    fn rest(&self) -> (&[C], &[u64]) {
        let (keys, counts) = match &self.source {
            Source::Blocks { keys, counts, .. } => (&keys[..], &counts[..]),
            Source::Memory(sorted) => sorted.pairs(),
        };
        (&keys[self.taken..], &counts[self.taken..])
    }

    /// Sees that there are pairs, unless all have been taken.
    fn fill(&mut self) -> Result<()> {
        if self.has_ended || !self.rest().0.is_empty() {
            return Ok(());
        }
        self.taken = 0;
        let is_there = match &mut self.source {
            Source::Blocks {
                reader,
                next,
                at_once,
                keys,
                counts,
            } => {
                let first = *next;
                *next = reader.blocks().min(first + *at_once);
                reader.read_all(first..*next, keys, counts)?;
                first < *next
            }
            Source::Memory(sorted) => sorted.advance(),
        };
        self.has_ended = !is_there;
        Ok(())
    }

    /// All pairs as columns.
    pub(super) fn into_columns(mut self) -> Result<(Vec<C>, Vec<u64>)> {
        let (mut keys, mut counts) = (Vec::new(), Vec::new());
        loop {
            self.fill()?;
            let rest = self.rest();
            if rest.0.is_empty() {
                return Ok((keys, counts));
            }
            keys.extend_from_slice(rest.0);
            counts.extend_from_slice(rest.1);
            self.taken += rest.0.len();
        }
    }
}

/// The count of a key that is in some of the databases: which these are, in their order, with the counts there. One above 2^64-1 is kept
/// as that.
pub(super) trait Pick: Fn(&[(usize, u64)]) -> Option<u128> + Sync {}

impl<F: Fn(&[(usize, u64)]) -> Option<u128> + Sync> Pick for F {}

/// Hands the keys that are in any of the databases, in their order, to `take` with the counts that `pick` makes, if it makes one. Returns how
/// many there are, and how many counts are kept as 2^64-1, being larger.
///
/// In memory are the pairs that [`SortedPairs`] has there, and as many of the result.
pub(super) fn combine<C: Code>(
    databases: &mut [SortedPairs<C>],
    pick: impl Pick,
    progress: &Progress,
    take: &mut Take<'_, C>,
) -> Result<Combined> {
    let mut combined = Combined::default();
    let (mut keys, mut counts) = (Vec::new(), Vec::new());
    loop {
        for database in &mut *databases {
            database.fill()?;
        }
        // Beyond this key, one of them has pairs that are not there yet.
        let lasts = databases.iter().filter_map(|it| it.rest().0.last());
        let Some(&bound) = lasts.min() else {
            break;
        };
        let ready = databases.iter().map(|database| {
            let (keys, counts) = database.rest();
            let end = keys.partition_point(|&key| key <= bound);
            (&keys[..end], &counts[..end])
        });
        let ready: Vec<Pairs<'_, C>> = ready.collect();
        let taken: Vec<usize> = ready.iter().map(|(keys, _)| keys.len()).collect();
        let parts: Vec<Part<C>> = parts_of(&ready)
            .into_par_iter()
            .map(|part| combine_part(&part, &pick))
            .collect();
        keys.clear();
        counts.clear();
        for part in parts {
            keys.extend_from_slice(&part.keys);
            counts.extend_from_slice(&part.counts);
            combined.saturated += part.saturated;
        }
        combined.kmers += keys.len() as u64;
        progress.advance(taken.iter().sum());
        for (database, taken) in databases.iter_mut().zip(taken) {
            database.taken += taken;
        }
        take(&keys, &counts)?;
    }
    let before: u64 = databases.iter().map(SortedPairs::saturated).sum();
    combined.saturated += before;
    Ok(combined)
}

/// What came of databases that were combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Combined {
    /// Keys with a count.
    pub(super) kmers: u64,
    /// Counts that are kept as 2^64-1, being larger.
    pub(super) saturated: u64,
}

/// Some pairs of a database.
type Pairs<'a, C> = (&'a [C], &'a [u64]);

struct Part<C> {
    keys: Vec<C>,
    counts: Vec<u64>,
    saturated: u64,
}

/// The same pairs in parts, so that no key is in two of them.
fn parts_of<'a, C: Code>(ready: &[Pairs<'a, C>]) -> Vec<Vec<Pairs<'a, C>>> {
    let longest = ready.iter().max_by_key(|(keys, _)| keys.len());
    let longest = longest.map_or(&[][..], |(keys, _)| keys);
    let firsts = longest.iter().step_by(PART).skip(1);
    let mut left = ready.to_vec();
    let mut parts = Vec::new();
    for first in firsts {
        let part = left.iter_mut().map(|(keys, counts)| {
            let end = keys.partition_point(|key| key < first);
            let (part, others);
            ((part, *keys), others) = (keys.split_at(end), counts.split_at(end));
            *counts = others.1;
            (part, others.0)
        });
        parts.push(part.collect());
    }
    parts.push(left);
    parts
}

fn combine_part<C: Code>(pairs: &[Pairs<'_, C>], pick: &impl Pick) -> Part<C> {
    let mut part = Part {
        keys: Vec::new(),
        counts: Vec::new(),
        saturated: 0,
    };
    let mut put = |key, equal: &[(usize, u64)]| {
        let Some(count) = pick(equal) else {
            return;
        };
        part.keys.push(key);
        part.counts.push(u64::try_from(count).unwrap_or(u64::MAX));
        part.saturated += u64::from(count > u64::MAX.into());
    };
    let mut next = vec![0; pairs.len()];
    let first = |(database, (keys, _)): (usize, &Pairs<'_, C>)| {
        let key = *keys.first()?;
        Some(Reverse((key, database)))
    };
    let mut heap: BinaryHeap<_> = pairs.iter().enumerate().filter_map(first).collect();
    let mut equal = Vec::new();
    while let Some(&Reverse((key, _))) = heap.peek() {
        equal.clear();
        // Equal keys come in the order of the databases.
        while let Some(mut top) = heap.peek_mut() {
            let Reverse((other, database)) = *top;
            if other != key {
                break;
            }
            let (keys, counts) = pairs[database];
            let place = &mut next[database];
            equal.push((database, counts[*place]));
            *place += 1;
            match keys.get(*place) {
                Some(&next) => *top = Reverse((next, database)),
                None => drop(std::collections::binary_heap::PeekMut::pop(top)),
            }
        }
        put(key, &equal);
    }
    part
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn of(pairs: &[(u64, u64)]) -> SortedPairs<u64> {
        let mut sorter = Sorter::new(64, 0..=u64::MAX);
        let (keys, counts): (Vec<u64>, Vec<u64>) = pairs.iter().copied().unzip();
        sorter.extend(&keys, &counts);
        SortedPairs {
            source: Source::Memory(sorter.sorted()),
            taken: 0,
            has_ended: false,
        }
    }

    /// What comes of databases, and the pairs.
    fn combined(
        databases: &mut [SortedPairs<u64>],
        pick: impl Pick,
    ) -> (Combined, Vec<(u64, u64)>) {
        let mut found = Vec::new();
        let outcome = combine(databases, pick, &Progress::hidden(), &mut |keys, counts| {
            found.extend(keys.iter().copied().zip(counts.iter().copied()));
            Ok(())
        });
        (outcome.unwrap(), found)
    }

    #[test]
    fn any_number_of_databases_is_combined() {
        let random = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 13;
        for (databases, pairs) in [(0, 5), (1, 3), (3, 0), (2, 200_000), (9, 3_000)] {
            let all: Vec<Vec<(u64, u64)>> = (0..databases)
                .map(|database| {
                    let keys = (0..pairs).map(|i| random(i % (pairs / (1 + database % 3) + 1)));
                    keys.map(|key| (key << 40 | key, 1 + database)).collect()
                })
                .collect();
            let mut expected = BTreeMap::<u64, u64>::new();
            for &(key, count) in all.iter().flatten() {
                *expected.entry(key).or_default() += count;
            }
            let mut sorted: Vec<SortedPairs<u64>> = all.iter().map(|pairs| of(pairs)).collect();
            let sum = |equal: &[(usize, u64)]| {
                Some(equal.iter().map(|&(_, count)| u128::from(count)).sum())
            };
            let (combined, found) = combined(&mut sorted, sum);
            let kmers = expected.len() as u64;
            assert_eq!(
                combined,
                Combined {
                    kmers,
                    saturated: 0
                }
            );
            assert!(found.into_iter().eq(expected), "{databases} databases");
        }
    }

    #[test]
    fn sums_end_at_the_greatest_count() {
        let mut databases = [
            of(&[(1, u64::MAX), (2, 3), (1, 1)]),
            of(&[(2, u64::MAX), (3, 4)]),
        ];
        let pick = |equal: &[(usize, u64)]| match *equal {
            [(0, left), (1, right)] => Some(u128::from(left) + u128::from(right)),
            [(1, _)] => None,
            _ => Some(equal[0].1.into()),
        };
        let (combined, found) = combined(&mut databases, pick);
        assert_eq!(found, [(1, u64::MAX), (2, u64::MAX)]);
        let expected = Combined {
            kmers: 2,
            saturated: 2,
        };
        assert_eq!(combined, expected);
    }
}
