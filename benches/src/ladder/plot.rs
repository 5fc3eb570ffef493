//! The ladders as a picture: a panel each, a bar for each rung, as SVG.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::report::{Report, Row};
use crate::style::{GRID, INK, text};

const WIDTH: u32 = 960;
const TITLE: u32 = 64;
/// Of a panel, without its bars.
const FRAME: u32 = 84;
const BAR: u32 = 24;
/// Where bars begin.
const NAMES: u32 = 290;
const FILL: RGBColor = RGBColor(0x9c, 0xbd, 0xdd);
const TOP: RGBColor = RGBColor(0x2b, 0x6c, 0xb0);
const FLOOR: RGBColor = RGBColor(0xc0, 0x39, 0x2b);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawingError<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// The rungs of one ladder in one case.
struct Panel<'a> {
    rows: Vec<&'a Row>,
    /// Milliseconds for a copy of the bytes that the best rung must move.
    floor: f64,
}

/// The first case of each ladder.
fn panels(report: &Report) -> Vec<Panel<'_>> {
    let mut panels: Vec<Panel<'_>> = Vec::new();
    let Some(copy) = report.rows.iter().find(|row| row.ladder == "copy") else {
        return panels;
    };
    for row in report.rows.iter().filter(|row| row.ladder != "copy") {
        let same = |panel: &&mut Panel<'_>| panel.rows[0].ladder == row.ladder;
        match panels.iter_mut().find(same) {
            Some(panel) if panel.rows[0].case == row.case => panel.rows.push(row),
            Some(_) => {}
            None => panels.push(Panel {
                rows: vec![row],
                floor: 0.0,
            }),
        }
    }
    for panel in &mut panels {
        let least = panel.rows.iter().map(|row| row.bytes).min().unwrap_or(0);
        panel.floor = least as f64 / copy.bytes_per_ms();
    }
    panels
}

/// Draws the first case of each ladder: milliseconds on a logarithmic axis, a line where a copy of
/// the same bytes would be.
///
/// # Errors
/// What the drawing library has to say.
pub fn to_svg(report: &Report) -> Result<String> {
    let panels = panels(report);
    let heights: Vec<u32> = panels
        .iter()
        .map(|panel| FRAME + BAR * panel.rows.len() as u32)
        .collect();
    let mut svg = String::new();
    let size = (WIDTH, TITLE + heights.iter().sum::<u32>());
    let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    draw(&root, report, &panels, &heights).map_err(|error| anyhow!("cannot draw: {error}"))?;
    drop(root);
    Ok(svg)
}

fn draw<'a>(
    root: &Area<'a>,
    report: &Report,
    panels: &[Panel<'_>],
    heights: &[u32],
) -> Result<(), DrawingError<'a>> {
    root.fill(&WHITE)?;
    root.draw(&Text::new("The ladders", (16, 14), text(24)))?;
    root.draw(&Text::new(report.title(), (16, 42), text(14)))?;
    let mut top = TITLE;
    for (panel, &height) in panels.iter().zip(heights) {
        let area = root.clone().shrink((0, top), (WIDTH, height));
        draw_panel(&area, panel)?;
        top += height;
    }
    root.present()
}

fn draw_panel<'a>(area: &Area<'a>, panel: &Panel<'_>) -> Result<(), DrawingError<'a>> {
    let rows = &panel.rows;
    let count = rows.len() as f64;
    let most = rows.iter().map(|row| row.ms).fold(panel.floor, f64::max);
    let least = rows.iter().map(|row| row.ms).fold(panel.floor, f64::min);
    // Room on the right for the figure beside the longest bar.
    let (left, right) = (least * 0.5, most * 1.9);
    let mut chart = ChartBuilder::on(area)
        .caption(rows[0].heading(), text(17))
        .margin_left(NAMES)
        .margin_right(16)
        .margin_top(6)
        .x_label_area_size(42)
        .build_cartesian_2d((left..right).log_scale(), 0.0..count)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(text(13))
        .x_desc("ms (logarithmic)")
        .x_labels(8)
        .x_label_formatter(&|ms| format!("{ms}"))
        .y_labels(0)
        .draw()?;
    let bars = rows.iter().enumerate().map(|(i, row)| {
        let top = count - i as f64;
        let color = if row.rung.starts_with("gpumap") {
            TOP
        } else {
            FILL
        };
        Rectangle::new([(left, top - 0.12), (row.ms, top - 0.88)], color.filled())
    });
    chart.draw_series(bars)?;
    let floor = [(panel.floor, 0.0), (panel.floor, count)];
    chart.draw_series([PathElement::new(floor, FLOOR.stroke_width(2))])?;
    for (i, row) in rows.iter().enumerate() {
        let middle = count - i as f64 - 0.5;
        let (x, y) = chart.backend_coord(&(row.ms, middle));
        let (base_x, base_y) = area.get_base_pixel();
        let (x, y) = (x - base_x, y - base_y);
        let figure = text(13).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(format!("{:.3}", row.ms), (x + 6, y), figure))?;
        let name = text(14).pos(Pos::new(HPos::Right, VPos::Center));
        area.draw(&Text::new(row.rung, (NAMES as i32 - 8, y), name))?;
    }
    let (x, y) = chart.backend_coord(&(panel.floor, 0.0));
    let (base_x, base_y) = area.get_base_pixel();
    let label = text(12)
        .color(&FLOOR)
        .pos(Pos::new(HPos::Center, VPos::Top));
    let below = (x - base_x, y - base_y + 22);
    area.draw(&Text::new(format!("copy {:.3}", panel.floor), below, label))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::{Ladder, Options, run};
    use clap::ValueEnum;
    use gpumap::Device;

    #[test]
    fn every_rung_of_the_first_cases_has_a_bar() {
        let options = Options {
            size: Some(2_000),
            runs: 1,
            ladders: Ladder::value_variants().to_vec(),
        };
        let report = run(&Device::cpu(), &options, |_| {}).unwrap();
        let svg = to_svg(&report).unwrap();
        for row in &report.rows[1..] {
            // As text of the SVG has them.
            let name = row.rung.replace('\'', "&apos;");
            assert!(
                svg.contains(&name) || svg.contains(row.rung),
                "{}",
                row.rung
            );
        }
        for heading in [
            "filter of 2,000 i32, 50 % kept",
            "1 submap",
            "scan of 2,000 i32",
        ] {
            assert!(svg.contains(heading), "{heading} is not in\n{svg}");
        }
        assert!(!svg.contains("9 submaps"));
    }
}
