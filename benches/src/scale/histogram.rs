//! Histograms over several devices, replicated and distributed: bins by values.

use anyhow::{Result, ensure};
use gpumap::Buffer;
use gpumap::Stream;
use gpumap::primitives::Primitives;
use gpumap::primitives::distributed::{Form, histogram_even_into};
use gpumap::sharded::{Rank, Ranks};
use gpumap_benches::plots::{Axis, figure};

use super::link::Ceilings;
use super::time;
use crate::data::Word;
use crate::measure::Clock;
use crate::report::{Report, Row};

/// What a rank counts, and into what.
struct Counting {
    primitives: Primitives,
    values: Buffer<u32>,
    counts: Buffer<u64>,
}

impl Counting {
    /// A digest of the counts, which are of all values but the very last at least.
    fn digest(&self, total: u64) -> Result<u64> {
        let counts = self.counts.to_vec()?;
        let counted: u64 = counts.iter().sum();
        ensure!(total - counted <= 1, "{counted} of {total} counted");
        let mix = |digest: u64, &count: &u64| {
            (digest ^ count)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(17)
        };
        Ok(counts.iter().fold(1u64, mix))
    }
}

/// Measures and verifies both forms, with up to `n` values on each rank.
pub fn run(
    ranks: &Ranks,
    n: usize,
    clock: Clock,
    ceilings: &Ceilings,
    report: &mut Report,
) -> Result<()> {
    let most_bins = n.next_power_of_two().clamp(1 << 12, 1 << 26);
    for len in [n / 64, n / 8, n] {
        let steps = [8, 6, 4, 2, 0].map(|log2| most_bins >> log2);
        for bins in [16, 1 << 10].into_iter().chain(steps) {
            let mut sums = Vec::new();
            for form in [Form::Replicated, Form::Distributed] {
                let (row, sum) = one(ranks, len, bins, "uniform", form, clock, ceilings)?;
                report.add(row);
                sums.push(sum);
            }
            ensure!(sums[0] == sums[1], "{bins} bins: the forms disagree");
        }
    }
    // Every other value is the same one.
    for form in [Form::Replicated, Form::Distributed] {
        let (row, _) = one(ranks, n, most_bins, "half equal", form, clock, ceilings)?;
        report.add(row);
    }
    Ok(())
}

/// One form; also returns a digest of the counts, which are the same on all ranks.
fn one(
    ranks: &Ranks,
    len: usize,
    bins: usize,
    spread: &str,
    form: Form,
    clock: Clock,
    ceilings: &Ceilings,
) -> Result<(Row, u64)> {
    let equal = spread == "half equal";
    let state = |rank: &mut Rank| {
        let stream = Stream::new(rank.device())?;
        let first = (rank.index() * len) as u64;
        let value = |i: u64| match equal && i & 1 == 0 {
            true => 77_777,
            false => u32::sparse(first + i),
        };
        let values: Vec<u32> = (0..len as u64).map(value).collect();
        Ok(Counting {
            primitives: Primitives::new(rank.device()),
            values: Buffer::from_slice(&stream, &values)?,
            counts: Buffer::zeroed(&stream, bins)?,
        })
    };
    let body = |rank: &mut Rank, of: &mut Counting| {
        // All values but the very last lie in the range.
        let (range, counts) = (0..u32::MAX, &mut of.counts);
        histogram_even_into(&of.primitives, rank, &of.values, range, counts, form).map(drop)
    };
    let (took, states) = time(ranks, clock, state, |_, _| Ok(()), body)?;
    let total = len * ranks.len();
    let digests = states.iter().map(|of| of.digest(total as u64));
    let digests = digests.collect::<Result<Vec<u64>>>()?;
    ensure!(
        digests.iter().all(|&d| d == digests[0]),
        "ranks have different counts"
    );
    // All but the own part of uniform values are added elsewhere.
    let remote = len as f64 * (ranks.len() - 1) as f64 / ranks.len() as f64;
    let name = format!("histogram {form:?} {len} values {bins} bins {spread}").to_lowercase();
    let line = format!("{form:?}").to_lowercase();
    let chart = format!(
        "Histograms of {} values on each of {} devices",
        figure(len as f64),
        ranks.len()
    );
    let row = match form {
        Form::Distributed => Row::op(name, took, total, remote / ceilings.adds),
        _ => Row::ceiling(name, took, total),
    };
    let row = match equal {
        true => row,
        false => row.at(&chart, &line, Axis::Bins, bins as f64),
    };
    Ok((row, digests[0]))
}
