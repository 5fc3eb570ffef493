//! What has many numbers sorted by their first bits, in the caches of all cores: [`crate::bins`], which counts k-mers, and
//! [`crate::sorter`], which puts pairs in order.

use std::mem::replace;

use bytemuck::Pod;

/// Bits of a key that say which bucket it is in, where it has as many: buckets of a billion keys fit the second cache of a core.
pub const BITS: u32 = 12;

/// Keys of the buckets that are given out together, if none has more: enough for all cores.
pub const SPAN: usize = 1 << 21;

/// A number that is sorted.
pub trait Digits: Pod + Ord + Send + Sync {
    /// The bits from `shift` on, as many as `mask` has.
    fn digit(self, shift: u32, mask: usize) -> usize;
}

macro_rules! digits {
    ($($t:ty),*) => {$(
        impl Digits for $t {
            #[inline(always)]
            fn digit(self, shift: u32, mask: usize) -> usize {
                (self >> shift) as usize & mask
            }
        }
    )*};
}
digits!(u32, u64, u128);

/// Sorts numbers of `bits` bits: into parts by their first bits, which have few numbers each, and then each part.
/// `other` is memory to work in.
pub fn sort<N: Digits>(numbers: &mut Vec<N>, other: &mut Vec<N>, bits: u32) {
    /// Bits that tell the parts: the counters fit the first cache.
    const MOST: u32 = 11;
    /// Bits of the length of a part.
    const PART: u32 = 3;
    let digit = numbers.len().checked_ilog2().unwrap_or(0);
    let digit = digit.saturating_sub(PART).min(MOST).min(bits);
    if digit < PART {
        numbers.sort_unstable();
        return;
    }
    let (shift, mask) = (bits - digit, (1 << digit) - 1);
    let mut ends = [0_u32; 1 << MOST];
    for number in numbers.iter() {
        ends[number.digit(shift, mask)] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        sum += replace(end, sum);
    }
    other.clear();
    other.resize(numbers.len(), N::zeroed());
    for &number in numbers.iter() {
        let place = &mut ends[number.digit(shift, mask)];
        other[*place as usize] = number;
        *place += 1;
    }
    let mut rest = &mut other[..];
    let mut begin = 0;
    for end in &ends[..1 << digit] {
        let (part, behind) = rest.split_at_mut((end - begin) as usize);
        part.sort_unstable();
        (rest, begin) = (behind, *end);
    }
    std::mem::swap(numbers, other);
}

/// The parts of two columns, as long as `sizes` say.
pub fn columns<'a, K, V>(
    sizes: &[usize],
    mut keys: &'a mut [K],
    mut values: &'a mut [V],
) -> Vec<(&'a mut [K], &'a mut [V])> {
    let part = |&size: &usize| {
        let (first, more_keys) = std::mem::take(&mut keys).split_at_mut(size);
        let (second, more_values) = std::mem::take(&mut values).split_at_mut(size);
        (keys, values) = (more_keys, more_values);
        (first, second)
    };
    sizes.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_sorted_whatever_bits_they_have(
            numbers in prop::collection::vec(any::<u64>(), 0..3000),
            bits in 0u32..=64,
        ) {
            let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
            let numbers: Vec<u64> = numbers.iter().map(|number| number & mask).collect();
            let mut sorted = numbers.clone();
            sort(&mut sorted, &mut Vec::new(), bits);
            let mut right = numbers.clone();
            right.sort_unstable();
            prop_assert_eq!(&sorted, &right);
            let wide = |number: &u64| u128::from(*number) << (64 - bits);
            let mut sorted: Vec<u128> = numbers.iter().map(wide).collect();
            sort(&mut sorted, &mut vec![7], 64);
            prop_assert_eq!(sorted, right.iter().map(wide).collect::<Vec<_>>());
        }
    }

    #[test]
    fn columns_have_the_sizes() {
        let (mut keys, mut values) = ([1, 2, 3, 4], [5, 6, 7, 8]);
        let parts = columns(&[1, 0, 2], &mut keys, &mut values);
        let parts: Vec<(&[i32], &[i32])> = parts.into_iter().map(|(a, b)| (&*a, &*b)).collect();
        assert_eq!(
            parts,
            [(&[1][..], &[5][..]), (&[], &[]), (&[2, 3], &[6, 7])]
        );
    }
}
