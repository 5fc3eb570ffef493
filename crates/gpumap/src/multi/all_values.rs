//! [`AllValues`]: the values of each key of a batch.

use std::iter::FusedIterator;
use std::ops::Index;
use std::slice::Windows;

/// The values of each key of a batch, as [`MultiMap::get_all`](super::MultiMap::get_all) found them: a
/// row for each key, in the order of the batch, with its values in the order in which they were stored. The
/// row of an absent key is empty.
///
/// Rows lie one after the other ("compressed sparse rows"): row `i` is
/// `values()[offsets()[i]..offsets()[i + 1]]`.
///
/// ```
/// # use gpumap::{Device, MultiMap};
/// # let map = MultiMap::<u32, u32>::with_capacity(&Device::cpu(), 100)?;
/// map.append(&[7], &[70])?;
/// map.append(&[7, 9], &[71, 90])?;
/// let keys = [9, 8, 7];
/// let all = map.get_all(&keys)?;
/// assert_eq!(all[2], [70, 71]);
/// assert_eq!((all.offsets(), all.values()), (&[0, 1, 1, 3][..], &[90, 70, 71][..]));
/// for (key, values) in keys.iter().zip(&all) {
///     println!("{key}: {values:?}");
/// }
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllValues<V> {
    /// Invariant: they ascend from 0 to the number of values.
    offsets: Vec<usize>,
    values: Vec<V>,
}

impl<V> AllValues<V> {
    /// Of offsets and values as the type says.
    pub(super) fn new(offsets: Vec<u64>, values: Vec<V>) -> Self {
        let offsets: Vec<usize> = offsets.into_iter().map(|offset| offset as usize).collect();
        debug_assert!(offsets.is_sorted());
        debug_assert_eq!(offsets.last(), Some(&values.len()));
        Self { offsets, values }
    }

    /// How many rows there are: as many as keys in the batch.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of key `i` of the batch; none if there are not as many keys.
    pub fn get(&self, i: usize) -> Option<&[V]> {
        let end = *self.offsets.get(i.checked_add(1)?)?;
        self.values.get(self.offsets[i]..end)
    }

    /// Row by row.
    pub fn iter(&self) -> Rows<'_, V> {
        Rows {
            bounds: self.offsets.windows(2),
            values: &self.values,
        }
    }

    /// Where each row begins, and after them where the last one ends: one more than rows.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// The values of all rows.
    pub fn values(&self) -> &[V] {
        &self.values
    }

    /// Offsets and values.
    pub fn into_parts(self) -> (Vec<usize>, Vec<V>) {
        (self.offsets, self.values)
    }
}

impl<V> Index<usize> for AllValues<V> {
    type Output = [V];

    /// The values of key `i` of the batch. Panics if there are not as many keys, as slices do.
    fn index(&self, i: usize) -> &[V] {
        &self.values[self.offsets[i]..self.offsets[i + 1]]
    }
}

impl<'a, V> IntoIterator for &'a AllValues<V> {
    type Item = &'a [V];
    type IntoIter = Rows<'a, V>;

    fn into_iter(self) -> Rows<'a, V> {
        self.iter()
    }
}

/// The rows of [`AllValues`], one after the other.
#[derive(Clone, Debug)]
pub struct Rows<'a, V> {
    bounds: Windows<'a, usize>,
    values: &'a [V],
}

impl<'a, V> Rows<'a, V> {
    fn row(&self, bounds: &[usize]) -> &'a [V] {
        &self.values[bounds[0]..bounds[1]]
    }
}

impl<'a, V> Iterator for Rows<'a, V> {
    type Item = &'a [V];

    fn next(&mut self) -> Option<&'a [V]> {
        let bounds = self.bounds.next()?;
        Some(self.row(bounds))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.bounds.size_hint()
    }
}

impl<V> DoubleEndedIterator for Rows<'_, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let bounds = self.bounds.next_back()?;
        Some(self.row(bounds))
    }
}

impl<V> ExactSizeIterator for Rows<'_, V> {}
impl<V> FusedIterator for Rows<'_, V> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_what_lies_between_offsets() {
        let all = AllValues::new(vec![0, 2, 2, 3], vec!['a', 'b', 'c']);
        let rows = [&['a', 'b'][..], &[], &['c']];
        assert_eq!((all.len(), all.is_empty()), (3, false));
        assert!(all.iter().eq(rows));
        assert!((&all).into_iter().rev().eq(rows.into_iter().rev()));
        assert_eq!(all.iter().len(), 3);
        for (i, row) in rows.into_iter().enumerate() {
            assert_eq!((&all[i], all.get(i)), (row, Some(row)));
        }
        assert_eq!((all.get(3), all.get(usize::MAX)), (None, None));
        assert_eq!(all.into_parts(), (vec![0, 2, 2, 3], vec!['a', 'b', 'c']));

        let none = AllValues::<u8>::new(vec![0], vec![]);
        assert!(none.is_empty() && none.iter().next().is_none() && none.get(0).is_none());
    }
}
