//! `cargo xtask tables`: the tables of `docs/performance.md` and of the README, and the list of the reports in `docs/data`, written from
//! these. So a figure stands in one place, with its device, its date and its command.
//!
//! A report is what `gpumap-bench --json` writes, with a `title`, a `date` and perhaps a `note`. Nothing is measured here.

mod lines;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::workspace::Workspace;
use lines::Lines;

/// The reports, and what the tables are made of.
pub const DATA: &str = "docs/data";

/// The page of a group that names none. Tables of a page stand between [`BEGIN`] and [`END`].
const PAGE: &str = "docs/performance.md";

/// The page that is written as a whole.
const LIST: &str = "docs/data/README.md";

const BEGIN: &str = "<!-- tables: written by `cargo xtask tables` from docs/data -->\n";
const END: &str = "<!-- end of tables -->\n";

/// Results of one command.
#[derive(Debug, Deserialize)]
struct Report {
    title: String,
    device: String,
    date: String,
    command: String,
    rows: Vec<Row>,
}

/// A measurement: a time or a rate.
#[derive(Debug, Deserialize)]
struct Row {
    name: String,
    ms: Option<f64>,
    /// Operations that this took.
    n: Option<f64>,
    /// 10^9 operations per second.
    g_per_s: Option<f64>,
    ceiling_ms: Option<f64>,
    /// Ceiling over figure.
    ratio: Option<f64>,
}

impl Row {
    /// Of the ceiling, in per cent.
    fn share(&self) -> Option<f64> {
        let of_times = || Some(self.ceiling_ms? / self.ms?);
        Some(self.ratio.or_else(of_times)? * 100.0)
    }

    fn millions_per_second(&self) -> Option<f64> {
        Some(self.n? / self.ms? / 1e3)
    }
}

/// What the cells of a group are in.
#[derive(Clone, Copy, Debug, Deserialize)]
enum Unit {
    #[serde(rename = "ms")]
    Milliseconds,
    #[serde(rename = "us")]
    Microseconds,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "G/s")]
    Billions,
    #[serde(rename = "M/s")]
    Millions,
}

impl Unit {
    fn of(self, row: &Row) -> Option<String> {
        let value = match self {
            Self::Milliseconds => row.ms?,
            Self::Microseconds => row.ms? * 1e3,
            Self::Seconds => row.ms? / 1e3,
            Self::Billions => row.g_per_s?,
            Self::Millions => row.millions_per_second()?,
        };
        let decimals = match value {
            _ if value >= 100.0 => 0,
            _ if value >= 10.0 => 1,
            _ if value >= 1.0 => 2,
            _ => 3,
        };
        let mut text = format!("{value:.decimals$}");
        // Digits beyond those of the measurement.
        let least = if matches!(self, Self::Milliseconds) && value < 10.0 {
            2
        } else {
            0
        };
        while text.ends_with('0')
            && text
                .find('.')
                .is_some_and(|dot| text.len() > dot + 1 + least)
        {
            text.pop();
        }
        text.truncate(text.trim_end_matches('.').len());
        Some(text)
    }
}

/// `tables.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    group: Vec<Group>,
    #[serde(default)]
    plot: Vec<Plot>,
    #[serde(default)]
    lines: Vec<Lines>,
}

/// A table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// The document that it stands in, from the root.
    #[serde(default = "performance")]
    page: String,
    title: String,
    data: Vec<String>,
    unit: Unit,
    /// What stands for `{column}`, and the heading.
    columns: Vec<[String; 2]>,
    /// What stands for `{series}`, in one cell.
    #[serde(default)]
    series: Vec<String>,
    /// Label, ceiling, name in the report.
    rows: Vec<[String; 3]>,
}

/// A drawing of rates: bars for each of some maps, side by side for each verb.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plot {
    /// The file, from the root.
    file: String,
    title: String,
    data: String,
    /// Names in the report, with {label} and {group}.
    row: String,
    /// What stands for `{label}`, and the text beside the bar.
    labels: Vec<[String; 2]>,
    /// What stands for `{group}`, and the heading of its bars.
    groups: Vec<[String; 2]>,
}

fn performance() -> String {
    PAGE.to_owned()
}

/// The reports by the names of their files.
type Reports = BTreeMap<String, Report>;

/// Writes the tables.
pub fn write(workspace: &Workspace) -> Result<()> {
    for (path, text) in pages(&workspace.root)? {
        fs::write(workspace.root.join(&path), text).with_context(|| path.clone())?;
        println!("{path}");
    }
    Ok(())
}

/// Fails if the tables are not those of the reports.
pub fn check(workspace: &Workspace) -> Result<()> {
    for (path, text) in pages(&workspace.root)? {
        let old = fs::read_to_string(workspace.root.join(&path)).unwrap_or_default();
        let same = old == text;
        ensure!(
            same,
            "{path} is not what {DATA} says: run `cargo xtask tables`, and commit what it writes"
        );
    }
    println!("the tables are those of {DATA}");
    Ok(())
}

/// The pages with tables, as they should be.
fn pages(root: &Path) -> Result<BTreeMap<String, String>> {
    let folder = root.join(DATA);
    let mut reports = Reports::new();
    for entry in fs::read_dir(&folder).with_context(|| DATA.to_owned())? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        if let (Some(name), Some("json")) = (name, path.extension().and_then(|e| e.to_str())) {
            let read = || anyhow::Ok(serde_json::from_slice(&fs::read(&path)?)?);
            let report = read().with_context(|| path.display().to_string())?;
            reports.insert(name.to_owned(), report);
        }
    }
    let text = fs::read_to_string(folder.join("tables.toml"))?;
    let tables: Tables = toml::from_str(&text).context("tables.toml")?;
    let mut pages = BTreeMap::from([(LIST.to_owned(), list(&reports))]);
    for plot in &tables.plot {
        let report = reports.get(&plot.data);
        let report = report.with_context(|| format!("no {}.json", plot.data))?;
        let drawn = drawing(plot, report).with_context(|| plot.file.clone())?;
        pages.insert(plot.file.clone(), drawn);
    }
    for lines in &tables.lines {
        let drawn = lines::of(lines, |name| reports.get(name))?;
        pages.insert(lines.file.clone(), drawn);
    }
    for Group { page, .. } in &tables.group {
        if !pages.contains_key(page) {
            let text = fs::read_to_string(root.join(page)).with_context(|| page.clone())?;
            let text = with_tables(page, &text, &tables, &reports)?;
            pages.insert(page.clone(), text);
        }
    }
    Ok(pages)
}

/// The text of a page with its tables written anew.
fn with_tables(page: &str, text: &str, tables: &Tables, reports: &Reports) -> Result<String> {
    let (Some((before, rest)), true) = (text.split_once(BEGIN), text.contains(END)) else {
        bail!("{page} has no place for tables");
    };
    let (_, after) = rest.split_once(END).context("the end of the tables")?;
    let mut text = format!("{before}{BEGIN}");
    for group in tables.group.iter().filter(|group| group.page == page) {
        text += &table(group, reports).with_context(|| group.title.clone())?;
    }
    Ok(text + "\n" + END + after)
}

/// One table, with its title and what it was measured by.
fn table(group: &Group, reports: &Reports) -> Result<String> {
    let find = |name: &String| reports.get(name).with_context(|| format!("no {name}.json"));
    let reports = group.data.iter().map(find).collect::<Result<Vec<_>>>()?;
    let mut text = format!("\n**{}.**", group.title);
    let mut command = None;
    for report in &reports {
        let same = command == Some(&report.command);
        let by = if same {
            "the same command".to_owned()
        } else {
            format!("`{}`", report.command)
        };
        let separator = if command.is_some() { ";" } else { "" };
        write!(text, "{separator} {}, {}, {by}", report.device, report.date)?;
        command = Some(&report.command);
    }
    text += ".\n\n";
    // What is bound by nothing in particular has no column for it.
    let bounded = group.rows.iter().any(|[_, ceiling, _]| !ceiling.is_empty());
    let mut heads = vec![String::new()];
    heads.extend(bounded.then(|| "ceiling".to_owned()));
    for [_, head] in &group.columns {
        let unit = if head.contains("bytes") && !head.contains("G/s") {
            ", ms"
        } else {
            ""
        };
        heads.push(format!("{head}{unit}"));
        heads.extend(bounded.then(|| "of it, %".to_owned()));
    }
    line(&mut text, &heads);
    line(&mut text, &vec!["---".to_owned(); heads.len()]);
    for [label, ceiling, pattern] in &group.rows {
        let mut cells = vec![label.clone()];
        cells.extend(bounded.then(|| ceiling.clone()));
        let mut is_measured = false;
        for [column, _] in &group.columns {
            let names = names(pattern, column, &group.series);
            let rows: Vec<Option<&Row>> = names.iter().map(|name| row(&reports, name)).collect();
            is_measured |= rows.iter().any(Option::is_some);
            cells.push(cell(&rows, |row| group.unit.of(row)));
            let shares = || cell(&rows, |row| row.share().map(|share| format!("{share:.0}")));
            let has_ceiling = !ceiling.is_empty();
            cells.extend(bounded.then(|| if has_ceiling { shares() } else { String::new() }));
        }
        ensure!(is_measured, "no row {pattern:?}");
        line(&mut text, &cells);
    }
    Ok(text)
}

/// Of what is drawn side by side.
const COLORS: [&str; 6] = [
    "#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b83280", "#718096",
];

/// A plot as SVG: lying bars, whose lengths are millions per second.
fn drawing(plot: &Plot, report: &Report) -> Result<String> {
    const WIDTH: usize = 860;
    const LEFT: usize = 190;
    const BAR: usize = 16;
    const GAP: usize = 26;
    let mut bars = String::new();
    let mut y = 64;
    let rate = |label: &str, group: &str| {
        let name = plot.row.replace("{label}", label).replace("{group}", group);
        let rate = row(&[report], &name).and_then(Row::millions_per_second);
        rate.with_context(|| format!("no row {name:?}"))
    };
    let mut rates = Vec::new();
    for [group, _] in &plot.groups {
        for [label, _] in &plot.labels {
            rates.push(rate(label, group)?);
        }
    }
    let most = rates.iter().copied().fold(0.0, f64::max);
    let mut rates = rates.into_iter();
    for [_, heading] in &plot.groups {
        writeln!(
            bars,
            r##"<text x="{}" y="{y}" text-anchor="end" font-weight="bold">{heading}</text>"##,
            LEFT - 10
        )?;
        for ([_, label], color) in plot.labels.iter().zip(COLORS.iter().cycle()) {
            let rate = rates.next().context("a rate")?;
            y += BAR + 4;
            let (text, width) = (y - 3, (WIDTH - LEFT - 70) as f64 * rate / most);
            writeln!(
                bars,
                r##"<text x="{}" y="{text}" text-anchor="end">{label}</text><rect x="{LEFT}" y="{}" width="{width:.1}" height="{BAR}" fill="{color}"/><text x="{:.1}" y="{text}">{rate:.1}</text>"##,
                LEFT - 10,
                y - BAR,
                LEFT as f64 + width + 6.0
            )?;
        }
        y += GAP;
    }
    let height = y - GAP + 20;
    let Plot { title, .. } = plot;
    let Report { device, date, .. } = report;
    Ok(format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13" fill="#1a202c">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="20" y="24" font-size="15" font-weight="bold">{title}</text>
<text x="20" y="42" fill="#4a5568">millions per second; {device}, {date}</text>
{bars}</svg>
"##
    ))
}

/// The names in a report that a cell is made of.
fn names(pattern: &str, column: &str, series: &[String]) -> Vec<String> {
    let name = pattern.replace("{column}", column);
    match name.contains("{series}") {
        true => series
            .iter()
            .map(|one| name.replace("{series}", one))
            .collect(),
        false => vec![name],
    }
}

fn row<'r>(reports: &[&'r Report], name: &str) -> Option<&'r Row> {
    reports
        .iter()
        .flat_map(|report| &report.rows)
        .find(|row| row.name == name)
}

/// One figure, or those of a series; a dash for what was not measured, nothing if none was.
fn cell(rows: &[Option<&Row>], figure: impl Fn(&Row) -> Option<String>) -> String {
    let figures: Vec<_> = rows.iter().map(|row| row.and_then(&figure)).collect();
    if figures.iter().all(Option::is_none) {
        return String::new();
    }
    let shown = figures.iter().map(|one| one.as_deref().unwrap_or("-"));
    shown.collect::<Vec<_>>().join(" / ")
}

fn line(text: &mut String, cells: &[String]) {
    *text += &format!("| {} |\n", cells.join(" | "));
}

/// What each report is.
fn list(reports: &Reports) -> String {
    let mut text = "# Measurements\n\nThe reports in this folder, of which all figures in the documents are, listed by \
        `cargo xtask tables`. A report is what\n`gpumap-bench --json FILE` writes, with `title`, `date` and `note` added: a \
        line for each measurement with its time and its\nceiling. Reports that are older than this folder have the digits \
        that were written down then.\n[performance.md](../performance.md) explains what bounds each operation.\n\n"
        .to_owned();
    line(
        &mut text,
        &["report", "", "card", "command"].map(str::to_owned),
    );
    line(&mut text, &["---"; 4].map(str::to_owned));
    for (name, report) in reports {
        let Report {
            title,
            device,
            date,
            command,
            ..
        } = report;
        line(
            &mut text,
            &[
                format!("[`{name}`]({name}.json)"),
                title.clone(),
                format!("{device}, {date}"),
                format!("`{command}`"),
            ],
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports() -> Reports {
        let report = r#"{"title": "T", "device": "D", "date": "2026-11-01", "command": "c", "runs": 3, "rows": [
            {"name": "8+8 load 0.5 get", "ms": 2.5, "ceiling_ms": 2.0, "ms_least": 2.4},
            {"name": "8+8 load 0.8 get", "ms": 12.34, "ratio": 0.5},
            {"name": "4+4 load 0.8 get", "ms": 0.1}]}"#;
        [("r".to_owned(), serde_json::from_str(report).unwrap())].into()
    }

    fn group(row: &str) -> Tables {
        let text = format!(
            "[[group]]\ntitle = 'G'\ndata = ['r']\nunit = 'ms'\ncolumns = [['8+8', '8 + 8 bytes'], ['4+4', '4 + 4 bytes']]\n\
             series = ['0.5', '0.8']\nrows = [['`get`', 'gather', '{row}']]"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn a_table_has_the_figures_of_the_reports() {
        let page = format!("before\n{BEGIN}old\n{END}after\n");
        let tables = group("{column} load {series} get");
        let text = with_tables(PAGE, &page, &tables, &reports()).unwrap();
        assert!(text.starts_with("before\n") && text.ends_with("after\n"));
        assert!(!text.contains("old"));
        assert!(
            text.contains("| `get` | gather | 2.50 / 12.3 | 80 / 50 | - / 0.10 |  |\n"),
            "{text}"
        );
        assert!(text.contains("**G.** D, 2026-11-01, `c`.\n"), "{text}");
        // Writing them again changes nothing.
        assert_eq!(with_tables(PAGE, &text, &tables, &reports()).unwrap(), text);
    }

    #[test]
    fn what_no_report_has_is_an_error() {
        let page = format!("{BEGIN}{END}");
        let missing = with_tables(
            PAGE,
            &page,
            &group("{column} load {series} put"),
            &reports(),
        );
        assert!(format!("{:#}", missing.unwrap_err()).contains("no row"));
        assert!(with_tables(PAGE, "no place", &group("x"), &reports()).is_err());
    }

    #[test]
    fn the_list_has_every_report() {
        let text = list(&reports());
        assert!(
            text.contains("| [`r`](r.json) | T | D, 2026-11-01 | `c` |\n"),
            "{text}"
        );
    }
}
