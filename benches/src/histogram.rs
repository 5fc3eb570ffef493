//! Histograms, beside reading the input once.

use anyhow::{Result, ensure};
use gpumap::Buffer;
use gpumap::primitives::Primitives;

use crate::bench::Bench;
use crate::data::Word;
use crate::measure::Time;
use crate::report::Row;

/// Values lie below this: one bin each where there are most bins.
const RANGE: i32 = 1 << 20;

/// How values are spread.
const SPREADS: [&str; 4] = ["uniform", "equal", "half equal", "sorted"];

/// Numbers of bins of `i32`.
const BINS: [usize; 7] = [16, 256, 1_024, 16_384, 65_536, 262_144, 1 << 20];

/// Bins of other types.
const OTHER_BINS: usize = 1_024;

/// Measures and verifies histograms of `n` values.
pub fn run(bench: &mut Bench, n: usize) -> Result<()> {
    let mut suite = Suite {
        primitives: Primitives::new(bench.device()),
        n,
        bench,
    };
    for spread in SPREADS {
        suite.spread(spread)?;
    }
    suite.floats()?;
    suite.longs()
}

struct Suite<'a, 'b> {
    bench: &'a mut Bench<'b>,
    primitives: Primitives,
    /// Values of 4 bytes.
    n: usize,
}

impl Suite<'_, '_> {
    /// A row of `n` values of so many bytes in all, beside reading the bytes of all values: half of what a
    /// copy moves.
    fn add(&mut self, name: String, took: Time, n: usize, bytes: usize) {
        let ceiling = self.bench.ceilings.copy_ms(4 * self.n);
        let row = Row::op(name, took, n, ceiling).moving(bytes as f64);
        self.bench.report.add(row);
    }

    /// `i32` that are spread in one way.
    fn spread(&mut self, spread: &str) -> Result<()> {
        let n = self.n;
        let value = |i: u64| match spread {
            "equal" => 77_777,
            "half equal" if u32::sparse(i) & 1 == 0 => 77_777,
            "sorted" => (i as u128 * RANGE as u128 / n as u128) as i32,
            _ => (u32::sparse(i ^ 0x5bd1_e995) >> 12) as i32,
        };
        let values: Vec<i32> = (0..n as u64).map(value).collect();
        let mut right = vec![0u64; RANGE as usize];
        for &v in &values {
            right[v as usize] += 1;
        }
        let values = self.bench.buffer(values)?;
        for bins in BINS {
            let (took, found) = self.even(&values, bins)?;
            let parts = right.chunks(RANGE as usize / bins);
            let sums = parts.map(|counts| counts.iter().sum::<u64>());
            ensure!(sums.eq(found), "{spread} {bins}: a wrong count");
            let name = format!("histogram i32 {bins} bins {spread}");
            self.add(name, took, n, 4 * n);
        }
        Ok(())
    }

    /// Counts values in bins of equal width.
    fn even(&self, values: &Buffer<i32>, bins: usize) -> Result<(Time, Vec<u64>)> {
        let mut counts = self.bench.zeroed(bins)?;
        let (took, ()) = self.bench.time(|| {
            let p = &self.primitives;
            let outside = p.histogram_even_into(values, 0..RANGE, &mut counts)?;
            ensure!(
                outside.below + outside.above == 0,
                "values got out of range"
            );
            Ok(())
        })?;
        Ok((took, counts.to_vec()?))
    }

    /// Bins of equal width, and the same bins by their edges.
    fn floats(&mut self) -> Result<()> {
        let (n, p) = (self.n, &self.primitives);
        let floats = (0..n as u64).map(|i| u32::sparse(i) as f32 / 4_294_967_296.0);
        let floats = self.bench.buffer(floats)?;
        let mut counts = self.bench.zeroed(OTHER_BINS)?;
        let count = || p.histogram_even_into(&floats, 0.0..1.0, &mut counts);
        let (even, _) = self.bench.time(count)?;
        let by_width = counts.to_vec()?;
        let edges: Vec<f32> = (0..=OTHER_BINS)
            .map(|i| i as f32 / OTHER_BINS as f32)
            .collect();
        let count = || p.histogram_edges_into(&floats, &edges, &mut counts);
        let (between, _) = self.bench.time(count)?;
        ensure!(by_width == counts.to_vec()?, "edges and widths disagree");
        let name = format!("histogram f32 {OTHER_BINS} bins");
        self.add(name, even, n, 4 * n);
        let name = format!("histogram f32 {} edges", OTHER_BINS + 1);
        self.add(name, between, n, 4 * n);
        Ok(())
    }

    /// As many bytes in half as many words.
    fn longs(&mut self) -> Result<()> {
        let half = self.n / 2;
        let longs: Vec<u64> = (0..half as u64).map(u64::sparse).collect();
        let mut right = vec![0u64; OTHER_BINS];
        for &v in &longs {
            right[(v >> 54) as usize] += 1;
        }
        right[OTHER_BINS - 1] -= u64::from(longs.contains(&u64::MAX));
        let longs = self.bench.buffer(longs)?;
        let mut counts = self.bench.zeroed(OTHER_BINS)?;
        let p = &self.primitives;
        let count = || p.histogram_even_into(&longs, 0..u64::MAX, &mut counts);
        let (took, _) = self.bench.time(count)?;
        // The range ends one short of a power of two, which moves no edge by a whole value but the
        // first of each bin.
        let found = counts.to_vec()?;
        let off: u64 = found.iter().zip(&right).map(|(a, b)| a.abs_diff(*b)).sum();
        ensure!(off <= 2, "u64: {off} counts off");
        let name = format!("histogram u64 {OTHER_BINS} bins");
        self.add(name, took, half, 8 * half);
        Ok(())
    }
}
