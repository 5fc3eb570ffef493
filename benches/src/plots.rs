//! Rates as lines: one chart for each kind of measurement, with the ceilings drawn in, as SVG in one
//! page of HTML.
//!
//! Rows that are points of a line say so ([`Point`]); the results of any number of runs of `gpumap-bench`
//! come together in one page.

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use serde::{Deserialize, Serialize};

use crate::style::{GRID, INK, text};

const SIZE: (u32, u32) = (960, 460);

/// Lines, in the order in which they come.
const COLORS: [RGBColor; 6] = [
    RGBColor(0x2b, 0x6c, 0xb0),
    RGBColor(0xc0, 0x56, 0x21),
    RGBColor(0x2f, 0x85, 0x5a),
    RGBColor(0x80, 0x5a, 0xd5),
    RGBColor(0xb8, 0x32, 0x80),
    RGBColor(0x71, 0x80, 0x96),
];

/// What the axis along the bottom is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Pairs per slot.
    Load,
    /// Pairs in the map.
    Pairs,
    /// How often each key comes.
    Multiplicity,
    /// Keys per call.
    Batch,
    /// Bins of a histogram.
    Bins,
}

impl Axis {
    fn is_logarithmic(self) -> bool {
        self != Self::Load
    }

    fn title(self) -> &'static str {
        match self {
            Self::Load => "pairs per slot",
            Self::Pairs => "pairs in the map (logarithmic)",
            Self::Multiplicity => "how often each key comes (logarithmic)",
            Self::Batch => "keys per call (logarithmic)",
            Self::Bins => "bins (logarithmic)",
        }
    }
}

/// Where a row is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The chart, by its title.
    pub chart: String,
    /// The line, by its name.
    pub line: String,
    /// What `x` is: the same for a whole chart.
    pub axis: Axis,
    /// Where on the axis.
    pub x: f64,
}

/// What plots take of a row of results.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// The median of its runs in milliseconds.
    pub ms: f64,
    /// Operations.
    pub n: usize,
    /// What the device could do it in.
    pub ceiling_ms: Option<f64>,
    /// The part of the ceiling that was reached.
    pub ratio: Option<f64>,
    /// Bytes moved, where that is what counts.
    pub bytes: Option<f64>,
    /// Where it is drawn, if it is.
    #[serde(default)]
    pub point: Option<Point>,
}

impl Row {
    /// In what it counts: bytes or operations, 10^9 a second.
    fn rate(&self, ms: f64) -> f64 {
        self.bytes.unwrap_or(self.n as f64) / ms / 1e6
    }
}

/// The results of one run, as `gpumap-bench --json` writes them.
#[derive(Clone, Debug, Deserialize)]
pub struct Results {
    /// The device.
    pub device: String,
    /// The arguments of the program.
    pub command: String,
    /// All measurements.
    pub rows: Vec<Row>,
}

/// A line of a chart: its points, and the rate of the ceiling at each.
#[derive(Clone, Debug, Default)]
struct Line {
    points: Vec<(f64, f64)>,
    ceiling: Vec<(f64, f64)>,
}

/// One chart.
#[derive(Clone, Debug)]
struct Chart {
    title: String,
    axis: Axis,
    in_bytes: bool,
    lines: Vec<(String, Line)>,
}

/// The charts of some results, in the order in which they were measured.
fn charts(results: &[Results]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for row in results.iter().flat_map(|results| &results.rows) {
        let Some(point) = &row.point else { continue };
        let at = charts.iter().position(|chart| chart.title == point.chart);
        let at = at.unwrap_or_else(|| {
            charts.push(Chart {
                title: point.chart.clone(),
                axis: point.axis,
                in_bytes: row.bytes.is_some(),
                lines: Vec::new(),
            });
            charts.len() - 1
        });
        let lines = &mut charts[at].lines;
        let at = lines.iter().position(|(name, _)| *name == point.line);
        let at = at.unwrap_or_else(|| {
            lines.push((point.line.clone(), Line::default()));
            lines.len() - 1
        });
        let line = &mut lines[at].1;
        line.points.push((point.x, row.rate(row.ms)));
        if let Some(ceiling) = row.ceiling_ms {
            line.ceiling.push((point.x, row.rate(ceiling)));
        }
    }
    for (_, line) in charts.iter_mut().flat_map(|chart| &mut chart.lines) {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        line.ceiling.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    charts
}

/// A number as axes have it: whole ones in groups of three digits.
pub fn figure(value: f64) -> String {
    if value.fract() != 0.0 || value.abs() >= 1e15 {
        let text = format!("{value:.3}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = format!("{:.0}", value.abs());
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", String::from_utf8_lossy(&groups.join(&b',')))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawingError<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// Draws one chart.
fn to_svg(chart: &Chart) -> Result<String> {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    let all = chart.lines.iter().flat_map(|(_, line)| &line.points);
    let least = all.clone().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let most = all.map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
    if chart.axis.is_logarithmic() {
        let range = (least * 0.9..most * 1.1).log_scale();
        draw(&root, chart, range)
    } else {
        draw(&root, chart, least - 0.02..most + 0.02)
    }
    .map_err(|error| anyhow!("cannot draw: {error}"))?;
    drop(root);
    Ok(svg)
}

fn draw<'a, X>(
    root: &Area<'a>,
    chart: &Chart,
    range: impl plotters::coord::ranged1d::AsRangedCoord<CoordDescType = X, Value = f64>,
) -> Result<(), DrawingError<'a>>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    root.fill(&WHITE)?;
    let lines = chart.lines.iter().map(|(_, line)| line);
    let rates = lines.flat_map(|line| line.points.iter().chain(&line.ceiling));
    let top = rates.map(|point| point.1).fold(0.0, f64::max) * 1.08;
    let mut plot = ChartBuilder::on(root)
        .caption(&chart.title, text(18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(range, 0.0..top)?;
    plot.configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(text(13))
        .x_label_formatter(&|&x| figure(x))
        .y_label_formatter(&|&y| figure(y))
        .x_desc(chart.axis.title())
        .y_desc(if chart.in_bytes {
            "GB a second"
        } else {
            "10^9 operations a second"
        })
        .draw()?;
    for (i, (name, line)) in chart.lines.iter().enumerate() {
        let color = COLORS[i % COLORS.len()];
        let points = line.points.iter().copied();
        plot.draw_series(LineSeries::new(points.clone(), color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        plot.draw_series(points.map(|at| Circle::new(at, 3, color.filled())))?;
        // The ceiling of a line has its color, in dashes.
        let ceiling = line.ceiling.iter().copied();
        plot.draw_series(DashedLineSeries::new(
            ceiling,
            6,
            5,
            color.mix(0.7).stroke_width(1),
        ))?;
    }
    plot.configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(GRID)
        .label_font(text(13))
        .draw()?;
    root.present()
}

/// One page with all charts, and all figures below them. It needs no other file.
///
/// # Errors
/// If there is no row at all; what the drawing library has to say.
pub fn to_html(results: &[Results]) -> Result<String> {
    let first = results.first().context("no results")?;
    let mut page = String::from(HEAD);
    let escaped = |text: &str| {
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    };
    page += &format!("<h1>gpumap on {}</h1>\n", escaped(&first.device));
    page += "<p>Dashes are what the device can do at best, measured in the same run.</p>\n";
    for chart in charts(results) {
        page += &to_svg(&chart)?;
        page.push('\n');
    }
    for results in results {
        page += &format!(
            "<h2>{}</h2>\n<p><code>gpumap-bench {}</code></p>\n<table>\n",
            escaped(&results.device),
            escaped(&results.command)
        );
        page += "<tr><th></th><th>ms</th><th>rate</th><th>ceiling, ms</th><th>of it</th></tr>\n";
        for row in &results.rows {
            let unit = if row.bytes.is_some() { "GB/s" } else { "G/s" };
            let ceiling = row
                .ceiling_ms
                .map_or(String::new(), |ms| format!("{ms:.3}"));
            let ratio = row
                .ratio
                .map_or(String::new(), |ratio| format!("{:.1} %", ratio * 100.0));
            page += &format!(
                "<tr><td>{}</td><td>{:.3}</td><td>{:.3} {unit}</td><td>{ceiling}</td><td>{ratio}</td></tr>\n",
                escaped(&row.name),
                row.ms,
                row.rate(row.ms)
            );
        }
        page += "</table>\n";
    }
    page += "</html>\n";
    Ok(page)
}

const HEAD: &str = r#"<!doctype html>
<html lang="en"><meta charset="utf-8"><title>gpumap</title>
<style>
body { font: 15px/1.4 sans-serif; color: #222; max-width: 980px; margin: 2em auto; }
td, th { padding: 0.1em 0.8em; text-align: right; font-variant-numeric: tabular-nums; }
td:first-child { text-align: left; }
</style>
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, ms: f64, point: Option<(&str, Axis, f64)>) -> String {
        let point = point.map(|(line, axis, x)| Point {
            chart: "8+8 <by load>".to_owned(),
            line: line.to_owned(),
            axis,
            x,
        });
        let point = serde_json::to_string(&point).unwrap();
        format!(
            r#"{{"name":"{name}","ms":{ms},"ms_least":1,"ms_most":9,"n":1000000,"ceiling_ms":0.5,"ratio":0.5,"bytes":null,"target":null,"point":{point}}}"#
        )
    }

    fn results(rows: &[String]) -> Results {
        let rows = rows.join(",");
        let json = format!(
            r#"{{"device":"a device","command":"--suite ops","n":1000000,"runs":1,"rows":[{rows}]}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn rows_become_lines_of_charts() {
        let first = results(&[
            row("insert", 1.0, Some(("insert", Axis::Load, 0.8))),
            row("get", 2.0, Some(("get", Axis::Load, 0.5))),
            row("beside", 3.0, None),
        ]);
        let second = results(&[row("insert", 4.0, Some(("insert", Axis::Load, 0.5)))]);
        let both = [first, second];
        let charts = charts(&both);
        assert_eq!(charts.len(), 1);
        let lines = &charts[0].lines;
        assert_eq!(lines.len(), 2);
        // In the order of the axis, 10^9 a second.
        assert_eq!(lines[0].1.points, [(0.5, 0.25), (0.8, 1.0)]);
        assert_eq!(lines[0].1.ceiling, [(0.5, 2.0), (0.8, 2.0)]);
        let page = to_html(&both).unwrap();
        assert_eq!(page.matches("<svg").count(), 1);
        assert_eq!(page.matches("<table").count(), 2);
        for text in ["beside", "8+8 &lt;by load", "a device", "50.0 %"] {
            assert!(page.contains(text), "{text} is not in\n{page}");
        }
    }

    /// So a page made of a file is the one that was made with it: the parser is set to be exact.
    #[test]
    fn times_are_read_as_they_were_written() {
        for i in 1..1000 {
            let ms = 0.1 / f64::from(i);
            let read = &results(&[row("get", ms, None)]).rows[0];
            assert_eq!(read.ms.to_bits(), ms.to_bits(), "{ms}");
        }
    }

    #[test]
    fn figures_are_short() {
        let figures = [
            0.0,
            7.0,
            999.0,
            1000.0,
            67_108_864.0,
            -1e6,
            0.5,
            0.05,
            0.3000000004,
        ];
        let texts = [
            "0",
            "7",
            "999",
            "1,000",
            "67,108,864",
            "-1,000,000",
            "0.5",
            "0.05",
            "0.3",
        ];
        assert!(figures.map(figure).iter().eq(&texts));
    }

    #[test]
    fn logarithmic_axes_are_drawn() {
        for axis in [Axis::Pairs, Axis::Multiplicity, Axis::Batch, Axis::Bins] {
            let rows: Vec<_> = [1e5, 1e6, 4e9]
                .iter()
                .map(|&x| row("get", 2.0, Some(("get", axis, x))))
                .collect();
            let page = to_html(&[results(&rows)]).unwrap();
            assert!(page.contains("logarithmic") && page.contains("1,000,000"));
        }
        assert!(to_html(&[]).is_err());
    }
}
