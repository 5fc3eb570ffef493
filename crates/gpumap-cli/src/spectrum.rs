//! The k-mer spectrum: how many distinct k-mers occur once, twice, ... as text, and its drawing as SVG.
//!
//! Plotters draws it, with its SVG back end alone: text stays text in the file, so no font is
//! needed on the machine that counts.

use std::collections::BTreeMap;

use plotters::coord::Shift;
use plotters::coord::combinators::IntoLogRange;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::kmer::{KmerLength, Strand};
use crate::summary::grouped;

/// Where a logarithmic axis begins: below the 1 that the lowest bar shows.
const LOG_FLOOR: f64 = 0.7;
const SIZE: (u32, u32) = (960, 540);
const FILL: RGBColor = RGBColor(0x2b, 0x6c, 0xb0);
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

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
    pub fn to_svg(&self, length: KmerLength, strand: Strand) -> Result<String> {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        self.draw(area, length, strand)
            .map_err(|error| Error::Draw {
                reason: error.to_string(),
            })?;
        Ok(svg)
    }

    fn draw<'a>(
        &self,
        area: DrawingArea<SVGBackend<'a>, Shift>,
        length: KmerLength,
        strand: Strand,
    ) -> Result<(), DrawingError<SVGBackend<'a>>> {
        let bars = self.bars();
        let drawn = bars.heights.iter().copied().filter(|&height| height > 0);
        let highest = drawn.clone().max().unwrap_or(1);
        let lowest = drawn.min().unwrap_or(1);

        area.fill(&WHITE)?;
        let title = format!("{length}-mer spectrum");
        let area = area.margin(12, 0, 0, 0).titled(&title, text(26))?;
        let area = area.titled(&self.subtitle(&bars, strand), text(15))?;
        // Errors of sequencing make the first bar hundreds of times the height of the peak that
        // one looks for; then only a logarithmic axis shows both.
        if highest / lowest >= 50 {
            let range = (LOG_FLOOR..highest as f64 * 1.5).log_scale();
            plot(
                &area,
                &bars,
                range,
                LOG_FLOOR,
                "Distinct k-mers (logarithmic)",
            )?;
        } else {
            let range = 0.0..highest as f64 * 1.05;
            plot(&area, &bars, range, 0.0, "Distinct k-mers")?;
        }
        area.present()
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

/// Draws axes and bars, over either kind of vertical axis.
fn plot<'a, Y>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    bars: &Bars,
    vertical: Y,
    floor: f64,
    vertical_name: &str,
) -> Result<(), DrawingError<SVGBackend<'a>>>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let name = match bars.width {
        1 => "Occurrences of a k-mer".to_owned(),
        width => format!("Occurrences of a k-mer ({width} to a bar)"),
    };
    let mut chart = ChartBuilder::on(area)
        .margin(16)
        .margin_right(28)
        .x_label_area_size(56)
        .y_label_area_size(96)
        .build_cartesian_2d(0.5..bars.last() as f64 + 0.5, vertical)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(text(14))
        .axis_desc_style(text(17))
        .x_desc(name)
        .y_desc(vertical_name)
        .x_labels(11)
        .y_labels(8)
        .x_label_formatter(&|x| grouped(x.round() as u64))
        .y_label_formatter(&|y| grouped(y.round() as u64))
        .draw()?;

    let width = bars.width as f64;
    let gap = 0.08 * width;
    let drawn = bars
        .heights
        .iter()
        .enumerate()
        .filter(|&(_, &height)| height > 0);
    chart.draw_series(drawn.map(|(bar, &height)| {
        let left = 0.5 + bar as f64 * width;
        let corners = [(left + gap, floor), (left + width - gap, height as f64)];
        Rectangle::new(corners, FILL.filled())
    }))?;
    Ok(())
}

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

type DrawingError<B> = DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>;

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
            let svg = spectrum(&counts)
                .to_svg(length(), Strand::Canonical)
                .unwrap();
            assert!(svg.starts_with("<svg"), "{svg}");
            assert!(svg.contains("21-mer spectrum") && svg.contains("Distinct k-mers"));
        }
    }
}
