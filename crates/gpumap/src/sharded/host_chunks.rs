//! What ranks take of arrays of the host: [`HostChunks`] of one that they fill side by side, and [`BatchParts`].

use std::mem;
use std::ops::Range;

use parking_lot::Mutex;

use crate::error::Result;
use crate::map::{Batch, Operands, Outputs, Receiver};

/// Consecutive parts of an array, one for each rank to write to.
#[derive(Debug)]
pub(super) struct HostChunks<'a, T>(Vec<Mutex<&'a mut [T]>>);

impl<'a, T> HostChunks<'a, T> {
    /// The parts of these lengths, which are together no longer than the array.
    pub(super) fn new(mut array: &'a mut [T], lens: impl IntoIterator<Item = usize>) -> Self {
        let part = |len| {
            let (part, rest) = mem::take(&mut array).split_at_mut(len);
            array = rest;
            Mutex::new(part)
        };
        Self(lens.into_iter().map(part).collect())
    }

    /// The part of a rank; empty if it was taken before.
    pub(super) fn take(&self, rank: usize) -> &'a mut [T] {
        mem::take(&mut *self.0[rank].lock())
    }
}

/// Parts of a batch of the host and of its outputs, one for each rank.
#[derive(Debug)]
pub(super) struct BatchParts<'a>(Vec<Part<'a>>);

/// What one rank takes of a batch and its outputs, until it has.
type Part<'a> = Mutex<Option<(Batch<'a>, Outputs<'a>)>>;

impl<'a> BatchParts<'a> {
    /// Those of a batch that `by` runs. An error if it has arrays of a device.
    pub(super) fn of(
        batch: Batch<'a>,
        mut outputs: Outputs<'a>,
        ranks: usize,
        by: Receiver,
    ) -> Result<Self> {
        let len = batch.keys.len();
        let part = |rank| {
            let range = chunk(len, rank, ranks);
            let keys = batch.keys.part(range.clone())?;
            let values = match batch.values {
                Operands::Each(values) if batch.kind.traits().takes_values => {
                    Operands::Each(values.part(range.clone())?)
                }
                values => values,
            };
            let part = Batch {
                keys,
                values,
                ..batch
            };
            Some(Mutex::new(Some((part, outputs.split_off(range.len())?))))
        };
        let parts: Option<Vec<Part<'a>>> = (0..ranks).map(part).collect();
        parts
            .map(Self)
            .ok_or_else(|| batch.unsupported(" with arrays of a device", by.name()))
    }

    /// That of a rank; none if it was taken before.
    pub(super) fn take(&self, rank: usize) -> Option<(Batch<'a>, Outputs<'a>)> {
        self.0[rank].lock().take()
    }
}

/// What a rank takes of a batch of `len` elements: as much as every other, give or take one.
pub(super) fn chunk(len: usize, rank: usize, ranks: usize) -> Range<usize> {
    let start = |rank| (len as u128 * rank as u128 / ranks as u128) as usize;
    start(rank)..start(rank + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_all_of_an_array() {
        for (len, ranks) in [(0, 3), (2, 3), (10, 3), (9, 1), (1 << 20, 7)] {
            let mut array = vec![usize::MAX; len];
            let lens = (0..ranks).map(|rank| chunk(len, rank, ranks).len());
            let chunks = HostChunks::new(&mut array, lens);
            for rank in (0..ranks).rev() {
                let part = chunks.take(rank);
                assert!(part.len().abs_diff(len / ranks) <= 1);
                part.fill(rank);
                assert!(chunks.take(rank).is_empty());
            }
            assert!(array.is_sorted() && array.iter().all(|&rank| rank < ranks));
        }
    }
}
