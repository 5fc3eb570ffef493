//! The k-mer spectrum: how many distinct k-mers occur once, twice, ... as text, and its drawing as SVG and in letters.

mod svg;

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::kmer::{KmerLength, Strand};
use crate::summary::grouped;

/// The most bars that still look like bars.
const MOST_BARS: u64 = 160;

/// The same on a terminal.
const MOST_COLUMNS: u64 = 64;

/// Lines of a drawing on a terminal.
const LINES: usize = 10;

/// How far the axis goes at least: one bar alone is no histogram.
const FEWEST_COUNTS: u64 = 10;

/// Counts below this, which nearly all are, are tallied in an array.
const SMALL: usize = 1 << 12;

/// Counts that one thread tallies at least, as a tally takes that long to make.
const FEWEST_TALLIED: usize = 1 << 16;

/// Distinct k-mers by how often they occur.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spectrum(BTreeMap<u64, u64>);

/// Where the spectrum of reads has its peaks: k-mers with an error mostly occur once, and those of the genome about as often as it was
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peaks {
    /// The count between errors and genome that fewest k-mers have.
    pub valley: u64,
    /// The count that most k-mers of the genome have.
    pub genome: u64,
}

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
    fn bars(&self, most: u64) -> Bars {
        let allowed = self.distinct() / 1000;
        let mut passed = 0;
        let last = self.0.iter().rev().find_map(|(&count, &kmers)| {
            passed += kmers;
            (passed > allowed).then_some(count)
        });
        let last = last.unwrap_or(1).max(FEWEST_COUNTS);
        let width = last.div_ceil(most);
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

    /// Its peaks, where it has two.
    pub fn peaks(&self) -> Option<Peaks> {
        let last = *self.0.keys().next_back()?;
        let heights: Vec<u64> = (0..=last.min(SMALL as u64))
            .map(|count| self.0.get(&count).copied().unwrap_or(0))
            .collect();
        let rises = |&count: &usize| heights[count + 1] > heights[count];
        let rise = (1..heights.len().saturating_sub(1)).find(rises)?;
        // Of equal ones the first.
        let genome = (rise + 1..heights.len())
            .rev()
            .max_by_key(|&count| heights[count])?;
        let valley = (1..genome).min_by_key(|&count| heights[count])?;
        Some(Peaks {
            valley: valley as u64,
            genome: genome as u64,
        })
    }

    /// The drawing in letters, over a logarithmic axis.
    pub fn to_terminal(&self) -> String {
        let bars = self.bars(MOST_COLUMNS);
        let highest = bars.heights.iter().copied().max().unwrap_or(0).max(2) as f64;
        // The lowest line is for 1.
        let step = highest.ln() / (LINES - 1) as f64;
        let mut text = String::new();
        for line in (0..LINES).rev() {
            let least = (step * line as f64).exp();
            let label = match line {
                0 | 3 | 6 => grouped(least.round() as u64),
                line if line + 1 == LINES => grouped(highest as u64),
                _ => String::new(),
            };
            // Rounded up, for the highest to reach the last line.
            let is_full = |&height: &u64| height as f64 >= least * (1.0 - 1e-9);
            let full = bars
                .heights
                .iter()
                .map(|height| if is_full(height) { '#' } else { ' ' });
            let full: String = full.collect();
            text += &format!("{label:>11} |{}\n", full.trim_end());
        }
        text += &format!("{:>11} +{}\n", "", "-".repeat(bars.heights.len()));
        // The counts at which some of the bars end, right-aligned to them.
        let mut axis = String::new();
        for bar in std::iter::once(1).chain((10..=bars.heights.len()).step_by(10)) {
            let label = grouped(bars.width * bar as u64);
            let before = (13 + bar).saturating_sub(label.len());
            // Long ones would run into each other.
            if axis.is_empty() || axis.len() < before {
                axis = format!("{axis:<before$}{label}");
            }
        }
        text + &axis
    }

    /// The drawing.
    pub fn to_svg(&self, length: KmerLength, strand: Strand) -> String {
        let bars = self.bars(MOST_BARS);
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
            let bars = spectrum.bars(MOST_BARS);
            assert!(bars.heights.len() as u64 <= MOST_BARS);
            let shown: u64 = bars.heights.iter().sum();
            assert_eq!(shown + bars.beyond, counts.len() as u64);
            assert!(bars.beyond <= counts.len() as u64 / 1000);
        }
    }

    #[test]
    fn peaks_of_errors_and_of_the_genome() {
        let of = |heights: &[u64]| {
            let counts = (1..).zip(heights);
            let counts = counts.flat_map(|(count, &kmers)| vec![count; kmers as usize]);
            spectrum(&counts.collect::<Vec<u64>>()).peaks()
        };
        let peaks = |valley, genome| Some(Peaks { valley, genome });
        assert_eq!(of(&[90, 9, 2, 3, 7, 7, 4, 0, 1]), peaks(3, 5));
        // One that has no errors has none either in front of the genome.
        assert_eq!(of(&[0, 0, 1, 5, 2]), peaks(1, 4));
        for heights in [&[][..], &[5], &[5, 4, 3], &[5, 4, 4]] {
            assert_eq!(of(heights), None, "{heights:?}");
        }
        let far = spectrum(&[1, 1, 3, u64::MAX, u64::MAX - 1]);
        assert_eq!(far.peaks(), peaks(2, 3));
    }

    #[test]
    fn letters_show_what_bars_do() {
        let counts = [vec![1; 1000], vec![2; 10], vec![4; 100], vec![5; 1]].concat();
        let text = spectrum(&counts).to_terminal();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), LINES + 2, "{text}");
        assert_eq!(lines[0], "      1,000 |#");
        // A third of the lines for each power of ten.
        assert_eq!(lines[3], "        100 |#  #");
        assert_eq!(lines[6], "         10 |## #");
        assert_eq!(lines[9], "          1 |## ##");
        assert_eq!(lines[11], format!("{:>14}{:>9}", 1, 10));
        for counts in [vec![], vec![7], (1..900).collect(), vec![u64::MAX; 2]] {
            let text = spectrum(&counts).to_terminal();
            assert!(text.lines().all(|line| line.len() < 80), "{text}");
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
