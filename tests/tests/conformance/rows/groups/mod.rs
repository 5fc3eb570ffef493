//! Aggregates of columns by key, beside a fold over the host's memory.

mod room;
mod streamed;
mod verbs;

use std::fmt::Debug;

use gpumap::bytemuck::{Pod, bytes_of};
use gpumap::primitives::{Count, Element, Grouped, Max, Mean, Min, Sum};

use super::Oracle;

/// A number that is made of an integer, and folded on the host.
pub(super) trait Number: Element + Debug {
    /// What sums are told in.
    type Sum: Pod + Debug + PartialEq;
    /// Number `i` of a column: of both signs if there are two, and extreme ones among them.
    fn numbered(i: u64) -> Self;
    /// The sum of one more.
    fn plus(sum: Self::Sum, number: Self) -> Self::Sum;
    /// The sum of none.
    fn nothing() -> Self::Sum;
    /// As `f64`.
    fn to_f64(self) -> f64;
    /// Whether it comes before another.
    fn is_below(&self, other: &Self) -> bool;
}

macro_rules! integers {
    ($($t:ty: $sum:ty;)*) => {$(
        impl Number for $t {
            type Sum = $sum;
            fn numbered(i: u64) -> Self {
                // Some near both ends, and small ones whose means are exact.
                match i % 11 {
                    0 => <$t>::MAX - (i % 7) as $t,
                    1 => <$t>::MIN + (i % 5) as $t,
                    _ => (i % 1_000) as $t,
                }
            }
            fn plus(sum: $sum, number: Self) -> $sum {
                sum.wrapping_add(<$sum>::from(number))
            }
            fn nothing() -> $sum {
                0
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn is_below(&self, other: &Self) -> bool {
                self < other
            }
        }
    )*};
}
integers! {
    u32: u64;
    i32: i64;
    u64: u64;
    i64: i64;
}

macro_rules! floats {
    ($($t:ty;)*) => {$(
        impl Number for $t {
            type Sum = f64;
            fn numbered(i: u64) -> Self {
                // Sums of so many quarters are exact in any order.
                ((i % 2_001) as $t - 1_000.0) / 4.0
            }
            fn plus(sum: f64, number: Self) -> f64 {
                sum + f64::from(number)
            }
            fn nothing() -> f64 {
                -0.0
            }
            fn to_f64(self) -> f64 {
                self.into()
            }
            fn is_below(&self, other: &Self) -> bool {
                self.total_cmp(other).is_lt()
            }
        }
    )*};
}
floats! { f32; f64; }

/// A column of `n` numbers.
pub(super) fn column<N: Number>(n: usize, salt: u64) -> Vec<N> {
    let number = |i: u64| N::numbered((i + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33);
    (0..n as u64).map(number).collect()
}

/// Count, sum, least, greatest and mean of a column for each group.
pub(super) type All<N> = (Count, Sum<N>, Min<N>, Max<N>, Mean<N>);

/// The answers to [`All`].
type Told<S, N> = (Vec<u64>, Vec<S>, Vec<N>, Vec<N>, Vec<f64>);

/// What groups of a batch come to: as for each of them the keys' bytes, and what is asked.
pub(super) struct Expected<N: Number> {
    pub keys: Vec<Vec<u8>>,
    pub counts: Vec<u64>,
    pub sums: Vec<N::Sum>,
    pub least: Vec<N>,
    pub most: Vec<N>,
    pub totals: Vec<f64>,
    /// Of absolute values.
    sizes: Vec<f64>,
    oracle: Oracle,
}

impl<N: Number> Default for Expected<N> {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            counts: Vec::new(),
            sums: Vec::new(),
            least: Vec::new(),
            most: Vec::new(),
            totals: Vec::new(),
            sizes: Vec::new(),
            oracle: Oracle::default(),
        }
    }
}

impl<N: Number> Expected<N> {
    pub fn of<K: Pod>(keys: &[K], column: &[N]) -> Self {
        let mut all = Self::default();
        all.add(keys, column);
        all
    }

    /// Adds a batch. Returns how many groups are new.
    pub fn add<K: Pod>(&mut self, keys: &[K], column: &[N]) -> usize {
        let before = self.keys.len();
        let (rows, _) = self.oracle.insert(keys);
        self.keys.clone_from(&self.oracle.keys);
        for (row, &number) in rows.into_iter().zip(column) {
            let row = row as usize;
            if row == self.counts.len() {
                self.counts.push(0);
                self.sums.push(N::nothing());
                self.least.push(number);
                self.most.push(number);
                self.totals.push(0.0);
                self.sizes.push(0.0);
            }
            self.counts[row] += 1;
            self.sums[row] = N::plus(self.sums[row], number);
            self.totals[row] += number.to_f64();
            self.sizes[row] += number.to_f64().abs();
            if number.is_below(&self.least[row]) {
                self.least[row] = number;
            }
            if self.most[row].is_below(&number) {
                self.most[row] = number;
            }
        }
        self.keys.len() - before
    }

    /// Panics unless these are the groups.
    pub fn assert_same<K: Pod, S: Pod>(&self, grouped: &Grouped<K, Told<S, N>>) {
        let same = grouped
            .keys
            .iter()
            .map(bytes_of)
            .eq(self.keys.iter().map(|key| &key[..]));
        assert!(same, "keys in the order of first occurrences");
        let (counts, sums, least, most, means) = &grouped.columns;
        assert_eq!(counts, &self.counts);
        assert!(bytes(sums) == bytes(&self.sums), "not {:?}", self.sums);
        assert!(
            bytes(least) == bytes(&self.least),
            "{least:?}, not {:?}",
            self.least
        );
        assert!(
            bytes(most) == bytes(&self.most),
            "{most:?}, not {:?}",
            self.most
        );
        for (row, (mean, total)) in means.iter().zip(&self.totals).enumerate() {
            let count = self.counts[row] as f64;
            // Of extreme integers the order of additions shows.
            let most = 1e-12 * (self.sizes[row] / count);
            let exact = total / count;
            assert!((mean - exact).abs() <= most, "{mean}, not {exact}");
        }
        assert_eq!(means.len(), self.totals.len());
    }
}

fn bytes<T: Pod>(all: &[T]) -> Vec<u8> {
    all.iter().flat_map(|one| bytes_of(one).to_vec()).collect()
}
