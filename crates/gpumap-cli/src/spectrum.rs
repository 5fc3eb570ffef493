//! The k-mer spectrum: how many distinct k-mers occur once, twice, ... as text, and its drawing as SVG.

mod svg;

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::kmer::{KmerLength, Strand};
use crate::summary::grouped;

/// The most bars that still look like bars.
const MOST_BARS: u64 = 160;

/// How far the axis goes at least: one bar alone is no histogram.
const FEWEST_COUNTS: u64 = 10;

/// Counts below this, which nearly all are, are tallied in an array.
const SMALL: usize = 1 << 12;

/// Counts that one thread tallies at least, as a tally takes that long to make.
const FEWEST_TALLIED: usize = 1 << 16;

/// Distinct k-mers by how often they occur.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spectrum(BTreeMap<u64, u64>);

/// The part of a spectrum that is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bars {
    /// Counts in one bar; the first begins at count 1.
    width: u64,
    /// Distinct k-mers in each bar.
    heights: Vec<u64>,
    /// Distinct k-mers further right.
    beyond: u64,
}

impl Bars {
    /// The highest count in any bar.
    fn last(&self) -> u64 {
        self.width.saturating_mul(self.heights.len() as u64)
    }
}

/// Counts that a thread has seen.
struct Tally {
    small: Vec<u64>,
    large: BTreeMap<u64, u64>,
}

impl Tally {
    fn new() -> Self {
        Self {
            small: vec![0; SMALL],
            large: BTreeMap::new(),
        }
    }

    fn with(mut self, count: u64) -> Self {
        let place = usize::try_from(count).ok();
        match place.and_then(|place| self.small.get_mut(place)) {
            Some(kmers) => *kmers += 1,
            None => *self.large.entry(count).or_default() += 1,
        }
        self
    }

    fn join(mut self, other: Self) -> Self {
        for (kmers, more) in self.small.iter_mut().zip(other.small) {
            *kmers += more;
        }
        for (count, more) in other.large {
            *self.large.entry(count).or_default() += more;
        }
        self
    }

    /// Each count with the number of k-mers that have it.
    fn into_counts(self) -> impl Iterator<Item = (u64, u64)> {
        let small = (0..).zip(self.small);
        small.filter(|&(_, kmers)| kmers != 0).chain(self.large)
    }
}

impl Spectrum {
    /// Adds distinct k-mers with these counts, by all cores.
    pub fn add(&mut self, counts: impl IndexedParallelIterator<Item = u64>) {
        let tallies = counts
            .with_min_len(FEWEST_TALLIED)
            .fold(Tally::new, Tally::with);
        let all = tallies.reduce_with(Tally::join);
        let all = all.map(Tally::into_counts).into_iter().flatten();
        for (count, kmers) in all {
            *self.0.entry(count).or_default() += kmers;
        }
    }

    /// A line for each count that k-mers have: the count, a space, and how many have it. As `jellyfish histo`
    /// writes it, although that puts all counts above 10,000 in one line by default.
    pub fn to_text(&self) -> String {
        let lines = self.0.iter();
        lines.fold(String::new(), |text, (count, kmers)| {
            text + &format!("{count} {kmers}\n")
        })
    }

    fn distinct(&self) -> u64 {
        self.0.values().sum()
    }

    fn total(&self) -> u128 {
        self.0
            .iter()
            .map(|(&count, &kmers)| u128::from(count) * u128::from(kmers))
            .sum()
    }

    /// Leaves out the thin tail on the right, a thousandth of the k-mers at most, as a single
    /// repeat of high count would press everything else against the axis.
    fn bars(&self) -> Bars {
        let allowed = self.distinct() / 1000;
        let mut passed = 0;
        let last = self.0.iter().rev().find_map(|(&count, &kmers)| {
            passed += kmers;
            (passed > allowed).then_some(count)
        });
        let last = last.unwrap_or(1).max(FEWEST_COUNTS);
        let width = last.div_ceil(MOST_BARS);
        let mut bars = Bars {
            width,
            heights: vec![0; last.div_ceil(width) as usize],
            beyond: 0,
        };
        for (&count, &kmers) in &self.0 {
            let bar = usize::try_from(count.saturating_sub(1) / width).ok();
            match bar.and_then(|bar| bars.heights.get_mut(bar)) {
                Some(height) => *height += kmers,
                None => bars.beyond += kmers,
            }
        }
        bars
    }

    /// The drawing.
    pub fn to_svg(&self, length: KmerLength, strand: Strand) -> String {
        let bars = self.bars();
        let title = format!("{length}-mer spectrum");
        svg::drawing(&title, &self.subtitle(&bars, strand), &bars)
    }

    fn subtitle(&self, bars: &Bars, strand: Strand) -> String {
        let strands = match strand {
            Strand::AsRead => "as read",
            Strand::Canonical => "both strands as one",
        };
        let mut text = format!(
            "{} distinct, {} in all, {strands}",
            grouped(self.distinct()),
            grouped(u64::try_from(self.total()).unwrap_or(u64::MAX)),
        );
        if bars.beyond > 0 {
            let (beyond, last) = (grouped(bars.beyond), grouped(bars.last()));
            text += &format!("; {beyond} of more than {last} occurrences are not shown");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length() -> KmerLength {
        KmerLength::new(21).unwrap()
    }

    fn spectrum(counts: &[u64]) -> Spectrum {
        let mut spectrum = Spectrum::default();
        spectrum.add(counts.par_iter().copied());
        spectrum
    }

    #[test]
    fn counts_are_tallied_whatever_their_size_and_number() {
        let edge = SMALL as u64;
        let counts = (0..300_000).map(|i: u64| match i % 7 {
            0 => 1,
            1 => edge - 1,
            2 => edge,
            3 => u64::MAX - i % 2,
            _ => i % 100,
        });
        let counts: Vec<u64> = counts.collect();
        let mut expected = BTreeMap::<u64, u64>::new();
        for &count in &counts {
            *expected.entry(count).or_default() += 1;
        }
        let mut in_parts = spectrum(&counts[..1]);
        in_parts.add(counts[1..].par_iter().copied());
        assert_eq!(in_parts, Spectrum(expected));
        assert_eq!(in_parts, spectrum(&counts));
    }

    #[test]
    fn the_text_has_a_line_a_count() {
        assert_eq!(spectrum(&[]).to_text(), "");
        let text = spectrum(&[3, 1, 1, 70_000, 3, 3]).to_text();
        assert_eq!(text, "1 2\n3 3\n70000 1\n");
    }

    #[test]
    fn bars_hold_every_kmer_that_is_not_beyond() {
        for counts in [
            vec![],
            vec![1; 5],
            vec![7],
            (1..2000).chain([1_000_000; 1]).collect(),
            (0..5000)
                .map(|i| 1 + i % 30)
                .chain([u64::MAX, u64::MAX - 1])
                .collect(),
            vec![u64::MAX; 3],
        ] {
            let spectrum = spectrum(&counts);
            let bars = spectrum.bars();
            assert!(bars.heights.len() as u64 <= MOST_BARS);
            let shown: u64 = bars.heights.iter().sum();
            assert_eq!(shown + bars.beyond, counts.len() as u64);
            assert!(bars.beyond <= counts.len() as u64 / 1000);
        }
    }

    #[test]
    fn any_spectrum_can_be_drawn() {
        for counts in [
            vec![],
            vec![1],
            vec![3; 400],
            vec![u64::MAX; 2],
            (1..900).collect(),
        ] {
            let svg = spectrum(&counts).to_svg(length(), Strand::Canonical);
            assert!(svg.starts_with("<svg"), "{svg}");
            assert!(svg.contains("21-mer spectrum") && svg.contains("Distinct k-mers"));
        }
    }
}
