//! The bars of a spectrum as SVG. Text stays text in the file, so no font is needed on the machine that counts.

use std::fmt::Write;

use super::Bars;
use crate::summary::grouped;

const SIZE: [f64; 2] = [960.0, 540.0];

/// Where the bars are: left, top, right, bottom.
const PLOT: [f64; 4] = [112.0, 72.0, 932.0, 468.0];

/// Where a logarithmic axis begins: below the 1 that the lowest bar shows.
const LOG_FLOOR: f64 = 0.7;

/// The vertical axis.
#[derive(Clone, Copy, Debug)]
enum Axis {
    /// From 0 to this.
    Linear(f64),
    /// From [`LOG_FLOOR`] to this.
    Logarithmic(f64),
}

impl Axis {
    /// Errors of sequencing make the first bar hundreds of times the height of the peak that one looks for; then only a logarithmic
    /// axis shows both.
    fn of(heights: &[u64]) -> Self {
        let drawn = heights.iter().copied().filter(|&height| height > 0);
        let highest = drawn.clone().max().unwrap_or(1);
        match highest / drawn.min().unwrap_or(1) {
            50.. => Self::Logarithmic(highest as f64 * 1.5),
            _ => Self::Linear(highest as f64 * 1.05),
        }
    }

    /// The place of a height.
    fn y(self, height: f64) -> f64 {
        let [_, top, _, bottom] = PLOT;
        let part = match self {
            Self::Linear(end) => height / end,
            Self::Logarithmic(end) => (height / LOG_FLOOR).ln() / (end / LOG_FLOOR).ln(),
        };
        bottom - part * (bottom - top)
    }

    /// Heights that have a line.
    fn lines(self) -> Vec<u64> {
        match self {
            Self::Linear(end) => multiples(end as u64, 8),
            Self::Logarithmic(end) => {
                let powers = std::iter::successors(Some(1_u64), |&power| power.checked_mul(10));
                powers.take_while(|&power| power as f64 <= end).collect()
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Linear(_) => "Distinct k-mers",
            Self::Logarithmic(_) => "Distinct k-mers (logarithmic)",
        }
    }
}

/// Up to `most` round numbers up to `end`, and 0.
fn multiples(end: u64, most: u64) -> Vec<u64> {
    let powers = std::iter::successors(Some(1_u64), |&power| power.checked_mul(10));
    let mut steps = powers.flat_map(|power| [1, 2, 5].map(|digit| power.saturating_mul(digit)));
    let step = steps.find(|&step| end / step <= most).unwrap_or(u64::MAX);
    (0..=end / step).map(|i| i * step).collect()
}

/// The drawing.
pub fn drawing(title: &str, subtitle: &str, bars: &Bars) -> String {
    let ([width, height], [left, _, right, bottom]) = (SIZE, PLOT);
    let axis = Axis::of(&bars.heights);
    let mut svg = format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\" \
         font-family=\"sans-serif\" font-size=\"14\" fill=\"#222\" text-anchor=\"middle\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = writeln!(svg, "{text}");
    };
    let middle = f64::midpoint(left, right);
    for (y, size, text) in [(34, 26, title), (58, 15, subtitle)] {
        line(format_args!(
            "<text x=\"{middle}\" y=\"{y}\" font-size=\"{size}\">{text}</text>"
        ));
    }
    for height in axis.lines() {
        let (y, label) = (axis.y(height as f64), grouped(height));
        line(format_args!(
            "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            left - 8.0,
            y + 5.0,
        ));
    }
    // Each count has its place in the middle of as much as it is of the axis.
    let of_count = (right - left) / bars.last() as f64;
    let x = |count: f64| left + (count - 0.5) * of_count;
    for count in multiples(bars.last(), 11)
        .into_iter()
        .filter(|&count| count > 0)
    {
        let (x, label) = (x(count as f64), grouped(count));
        line(format_args!(
            "<path d=\"M{x:.1} {bottom}v5\" stroke=\"#222\"/><text x=\"{x:.1}\" y=\"{}\">{label}</text>",
            bottom + 22.0,
        ));
    }
    let of_bar = of_count * bars.width as f64;
    for (bar, &height) in bars
        .heights
        .iter()
        .enumerate()
        .filter(|&(_, &height)| height > 0)
    {
        let (x, y) = (left + (bar as f64 + 0.08) * of_bar, axis.y(height as f64));
        line(format_args!(
            "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{:.1}\" fill=\"#2b6cb0\"/>",
            0.84 * of_bar,
            bottom - y,
        ));
    }
    line(format_args!(
        "<path d=\"M{left} {}V{bottom}H{right}\" fill=\"none\" stroke=\"#222\"/>",
        PLOT[1],
    ));
    let of_bars = match bars.width {
        1 => String::new(),
        width => format!(" ({} to a bar)", grouped(width)),
    };
    let [x, y] = [24.0, f64::midpoint(PLOT[1], bottom)];
    line(format_args!(
        "<text x=\"{middle}\" y=\"{}\" font-size=\"17\">Occurrences of a k-mer{of_bars}</text>\n\
         <text transform=\"translate({x} {y}) rotate(-90)\" font-size=\"17\">{}</text>\n</svg>",
        bottom + 52.0,
        axis.name(),
    ));
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers() {
        assert_eq!(multiples(40, 8), [0, 5, 10, 15, 20, 25, 30, 35, 40]);
        assert_eq!(multiples(9, 11).len(), 10);
        assert_eq!(multiples(0, 8), [0]);
        for end in [1, 7, 99, 1234, 1 << 40, u64::MAX] {
            let all = multiples(end, 8);
            assert!((2..=9).contains(&all.len()), "{all:?}");
        }
    }

    #[test]
    fn bars_have_the_heights_of_the_axis() {
        for (heights, lowest) in [(vec![10, 0, 40], 3), (vec![10, 0, 4000], 3)] {
            let axis = Axis::of(&heights);
            let bars = Bars {
                width: 2,
                heights,
                beyond: 0,
            };
            let svg = drawing("title", "subtitle", &bars);
            assert!(
                svg.starts_with("<svg") && svg.ends_with("</svg>\n"),
                "{svg}"
            );
            assert_eq!(svg.matches("#2b6cb0").count(), 2);
            assert!(svg.contains("(2 to a bar)") && svg.contains(">title<"));
            for height in [10, bars.heights[2]] {
                let y = axis.y(height as f64);
                assert!(svg.contains(&format!("y=\"{y:.1}\" width")), "{svg}");
            }
            assert!(axis.lines().len() >= lowest, "{axis:?}");
            assert!(axis.y(10.0) > axis.y(40.0));
        }
        let [_, top, _, bottom] = PLOT;
        assert_eq!(Axis::Linear(8.0).y(0.0), bottom);
        assert_eq!(Axis::Logarithmic(8.0).y(LOG_FLOOR), bottom);
        assert!((Axis::Logarithmic(8.0).y(8.0) - top).abs() < 1e-9);
    }
}
