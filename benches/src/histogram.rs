//! Histograms, beside reading the input once.

use anyhow::{Result, ensure};
use gpumap::primitives::Primitives;
use gpumap::{Buffer, Stream};

use crate::ceilings::Ceilings;
use crate::data::Word;
use crate::measure::time;
use crate::report::{Report, Row};

/// Values lie below this: one bin each where there are most bins.
const RANGE: i32 = 1 << 20;

/// How values are spread.
const SPREADS: [&str; 4] = ["uniform", "equal", "half equal", "sorted"];

/// Measures and verifies histograms of `n` values.
pub fn run(
    stream: &Stream,
    n: usize,
    runs: usize,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    let primitives = Primitives::new(stream.device());
    // Reading alone: half of what a copy moves.
    let ceiling = (4 * n) as f64 / ceilings.copy * 1e3;
    for spread in SPREADS {
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
        let values = Buffer::from_slice(stream, &values)?;
        for bins in [16usize, 256, 1_024, 16_384, 65_536, 262_144, 1 << 20] {
            let mut counts = Buffer::zeroed(stream, bins)?;
            let took = time(
                runs,
                || Ok(()),
                || {
                    let outside = primitives.histogram_even_into(&values, 0..RANGE, &mut counts)?;
                    ensure!(
                        outside.below + outside.above == 0,
                        "values got out of range"
                    );
                    Ok(())
                },
            )?;
            let per_bin = RANGE as usize / bins;
            let found = counts.to_vec()?;
            let sums = right
                .chunks(per_bin)
                .map(|counts| counts.iter().sum::<u64>());
            ensure!(
                sums.eq(found.iter().copied()),
                "{spread} {bins}: a wrong count"
            );
            let name = format!("histogram i32 {bins} bins {spread}");
            report.add(Row::op(name, took, n, ceiling).moving((4 * n) as f64));
        }
    }
    other_kinds(stream, &primitives, n, runs, ceilings, report)
}

/// Other types, and edges, at 1,024 bins.
fn other_kinds(
    stream: &Stream,
    primitives: &Primitives,
    n: usize,
    runs: usize,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    const BINS: usize = 1_024;
    let four = (4 * n) as f64 / ceilings.copy * 1e3;
    let floats: Vec<f32> = (0..n as u64)
        .map(|i| u32::sparse(i) as f32 / 4_294_967_296.0)
        .collect();
    let floats = Buffer::from_slice(stream, &floats)?;
    let mut counts = Buffer::zeroed(stream, BINS)?;
    let even = time(
        runs,
        || Ok(()),
        || {
            primitives.histogram_even_into(&floats, 0.0..1.0, &mut counts)?;
            Ok(())
        },
    )?;
    let by_width = counts.to_vec()?;
    let name = format!("histogram f32 {BINS} bins");
    report.add(Row::op(name, even, n, four).moving((4 * n) as f64));
    let edges: Vec<f32> = (0..=BINS).map(|i| i as f32 / BINS as f32).collect();
    let between = time(
        runs,
        || Ok(()),
        || {
            primitives.histogram_edges_into(&floats, &edges, &mut counts)?;
            Ok(())
        },
    )?;
    ensure!(by_width == counts.to_vec()?, "edges and widths disagree");
    let name = format!("histogram f32 {} edges", BINS + 1);
    report.add(Row::op(name, between, n, four).moving((4 * n) as f64));

    // As many bytes in half as many words.
    let half = n / 2;
    let longs: Vec<u64> = (0..half as u64).map(u64::sparse).collect();
    let mut right = vec![0u64; BINS];
    for &v in &longs {
        right[(v >> 54) as usize] += 1;
    }
    right[BINS - 1] -= u64::from(longs.contains(&u64::MAX));
    let longs = Buffer::from_slice(stream, &longs)?;
    let took = time(
        runs,
        || Ok(()),
        || {
            primitives.histogram_even_into(&longs, 0..u64::MAX, &mut counts)?;
            Ok(())
        },
    )?;
    // The range ends one short of a power of two, which moves no edge by a whole value but the
    // first of each bin.
    let found = counts.to_vec()?;
    let off: u64 = found.iter().zip(&right).map(|(a, b)| a.abs_diff(*b)).sum();
    ensure!(off <= 2, "u64: {off} counts off");
    let name = format!("histogram u64 {BINS} bins");
    report.add(Row::op(name, took, half, four).moving((8 * half) as f64));
    Ok(())
}
