//! Drawings of rates over something that doubles or more from point to point: panels side by side, a line for each of some maps, both
//! axes logarithmic.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{COLORS, Report, Row, row};

/// `[[lines]]` of `tables.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    /// The file, from the root.
    pub file: String,
    title: String,
    /// The report.
    pub data: String,
    /// Names in the report, with {panel}, {line} and {x}. Points that the report does not have are not drawn.
    row: String,
    /// What stands for `{panel}`, and the heading.
    panels: Vec<[String; 2]>,
    /// What stands for `{line}`, and the text beside it.
    lines: Vec<[String; 2]>,
    /// What stands for `{x}`.
    x: Vec<u64>,
    /// What `x` is.
    axis: String,
}

/// A panel, without its labels.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 240.0;

/// From one panel to the next.
const STEP: f64 = WIDTH + 70.0;

const LEFT: f64 = 70.0;
const TOP: f64 = 84.0;

/// What a legend takes below.
const LEGEND: f64 = 20.0;

/// The points of a line: where on the axis, and millions per second.
type Points = Vec<(f64, f64)>;

impl Lines {
    /// As SVG.
    pub fn draw(&self, report: &Report) -> Result<String> {
        let panels = self
            .panels
            .iter()
            .map(|[panel, _]| self.points(panel, report));
        let panels = panels.collect::<Result<Vec<_>>>()?;
        let rates = panels.iter().flatten().flatten().map(|&(_, rate)| rate);
        let (least, most) = rates.fold((f64::MAX, 0.0), |(least, most), rate| {
            (rate.min(least), rate.max(most))
        });
        let x = Scale::of(self.x.iter().map(|&x| x as f64), WIDTH)?;
        // Whole powers of ten.
        let powers = (least.log10().floor() as i32, most.log10().ceil() as i32);
        let powers = (powers.0..=powers.1.max(powers.0 + 1)).map(|power| 10f64.powi(power));
        let y = Scale::of(powers.clone(), HEIGHT)?;
        let mut body = String::new();
        for (i, ([_, heading], lines)) in self.panels.iter().zip(&panels).enumerate() {
            let left = LEFT + STEP * i as f64;
            let end = left + WIDTH;
            let foot = TOP + HEIGHT;
            writeln!(
                body,
                r#"<text x="{left:.0}" y="{:.0}" font-weight="bold">{heading}</text>"#,
                TOP - 12.0
            )?;
            for rate in powers.clone() {
                let at = foot - y.at(rate);
                writeln!(
                    body,
                    r##"<path d="M{left:.0} {at:.1}H{end:.0}" stroke="#e2e8f0"/><text x="{:.0}" y="{:.1}" text-anchor="end">{rate}</text>"##,
                    left - 6.0,
                    at + 4.0
                )?;
            }
            for &keys in &self.x {
                let at = left + x.at(keys as f64);
                writeln!(
                    body,
                    r##"<path d="M{at:.1} {foot:.0}v5" stroke="#4a5568"/><text x="{at:.1}" y="{:.0}" text-anchor="middle">{keys}</text>"##,
                    foot + 20.0
                )?;
            }
            writeln!(
                body,
                r##"<path d="M{left:.0} {foot:.0}H{end:.0}" stroke="#4a5568"/><text x="{:.0}" y="{:.0}" text-anchor="middle">{}</text>"##,
                left + WIDTH / 2.0,
                foot + 38.0,
                self.axis
            )?;
            for (points, color) in lines.iter().zip(COLORS.iter().cycle()) {
                let at = |&(keys, rate): &(f64, f64)| (left + x.at(keys), foot - y.at(rate));
                let places: Vec<_> = points.iter().map(at).collect();
                let path = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
                writeln!(
                    body,
                    r#"<polyline points="{}" fill="none" stroke="{color}" stroke-width="2"/>"#,
                    path.collect::<Vec<_>>().join(" ")
                )?;
                for (x, y) in places {
                    writeln!(
                        body,
                        r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{color}"/>"#
                    )?;
                }
            }
        }
        let mut at = TOP + HEIGHT + 64.0;
        for ([_, label], color) in self.lines.iter().zip(COLORS.iter().cycle()) {
            writeln!(
                body,
                r#"<path d="M{LEFT:.0} {:.0}h24" stroke="{color}" stroke-width="2"/><text x="{:.0}" y="{at:.0}">{label}</text>"#,
                at - 4.0,
                LEFT + 32.0
            )?;
            at += LEGEND;
        }
        let width = LEFT + STEP * self.panels.len() as f64;
        let Self { title, .. } = self;
        let Report { device, date, .. } = report;
        Ok(format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{at:.0}" viewBox="0 0 {width:.0} {at:.0}" font-family="sans-serif" font-size="13" fill="#1a202c">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="20" y="24" font-size="15" font-weight="bold">{title}</text>
<text x="20" y="42" fill="#4a5568">millions of keys per second; {device}, {date}</text>
{body}</svg>
"##
        ))
    }

    /// The points of each line of a panel, and one at least of each.
    fn points(&self, panel: &str, report: &Report) -> Result<Vec<Points>> {
        let of_line = |line: &str| {
            let name = self.row.replace("{panel}", panel).replace("{line}", line);
            let point = |&x: &u64| {
                let row = row(&[report], &name.replace("{x}", &x.to_string()))?;
                Some((x as f64, Row::millions_per_second(row)?))
            };
            let points: Points = self.x.iter().filter_map(point).collect();
            ensure!(!points.is_empty(), "no row {name:?}");
            Ok(points)
        };
        self.lines.iter().map(|[line, _]| of_line(line)).collect()
    }
}

/// A logarithmic axis.
struct Scale {
    least: f64,
    /// Of a factor of `e`.
    step: f64,
}

impl Scale {
    /// Of these values, over so much.
    fn of(values: impl Iterator<Item = f64> + Clone, length: f64) -> Result<Self> {
        let least = values.clone().fold(f64::MAX, f64::min);
        let most = values.fold(0.0, f64::max);
        ensure!(0.0 < least && least < most, "an axis without length");
        let step = length / (most / least).ln();
        Ok(Self { least, step })
    }

    fn at(&self, value: f64) -> f64 {
        (value / self.least).ln() * self.step
    }
}

/// The drawing of a report, by its name.
pub fn of<'r>(lines: &Lines, find: impl Fn(&str) -> Option<&'r Report>) -> Result<String> {
    let report = find(&lines.data).with_context(|| format!("no {}.json", lines.data))?;
    lines.draw(report).with_context(|| lines.file.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "file = 'f.svg'\ntitle = 'T'\ndata = 'r'\nrow = '{line}, {panel} of {x}'\n\
        panels = [['get', 'Lookups']]\nlines = [['a', 'first'], ['b', 'second']]\nx = [1, 10, 100]\naxis = 'keys a call'";

    fn report(rows: &str) -> Report {
        let text = format!(
            r#"{{"title": "T", "device": "D", "date": "2026-11-01", "command": "c", "rows": [{rows}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn rates_are_points_of_lines() {
        let lines: Lines = toml::from_str(LINES).unwrap();
        // 1, 10 and 100 millions per second; and 10, with no more points.
        let report = report(
            r#"{"name": "a, get of 1", "n": 1, "ms": 0.001}, {"name": "a, get of 10", "n": 10, "ms": 0.001},
               {"name": "a, get of 100", "n": 100, "ms": 0.001}, {"name": "b, get of 10", "n": 10, "ms": 0.001}"#,
        );
        let svg = of(&lines, |name| (name == "r").then_some(&report)).unwrap();
        assert!(
            svg.contains(r#"points="70.0,324.0 220.0,204.0 370.0,84.0""#),
            "{svg}"
        );
        assert!(svg.contains(r#"points="220.0,204.0""#), "{svg}");
        for text in ["Lookups", "first", "second", "keys a call", "D, 2026-11-01"] {
            assert!(svg.contains(text), "{text} is not in\n{svg}");
        }
        assert!(of(&lines, |_| None).is_err());
    }

    #[test]
    fn a_line_without_points_is_an_error() {
        let lines: Lines = toml::from_str(LINES).unwrap();
        let report = report(r#"{"name": "a, get of 1", "n": 1, "ms": 0.001}"#);
        let error = lines.draw(&report).unwrap_err().to_string();
        assert!(error.contains("b, get of {x}"), "{error}");
    }
}
