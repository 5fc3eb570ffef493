//! The table, on the terminal and as JSON.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gpumap::Device;
use gpumap_benches::plots::{self, Axis, Point};
use serde::Serialize;

use crate::measure::Time;

/// One measurement.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What was measured.
    name: String,
    /// Median of the runs.
    ms: f64,
    /// The quickest.
    ms_least: f64,
    /// The slowest.
    ms_most: f64,
    /// How many operations, units or slots.
    n: usize,
    /// The ceiling in milliseconds, if this is not one itself.
    ceiling_ms: Option<f64>,
    /// Ceiling over figure: 1 is as good as the device can do.
    ratio: Option<f64>,
    /// Bytes read and written, where that is what counts.
    bytes: Option<f64>,
    /// The most memory that was taken, and the bytes of the pairs that were there then.
    memory: Option<[u64; 2]>,
    /// The least ratio that is aimed at.
    target: Option<f64>,
    /// Where plots have it.
    point: Option<Point>,
}

impl Row {
    /// A ceiling.
    pub fn ceiling(name: impl Into<String>, time: Time, n: usize) -> Self {
        Self {
            name: name.into(),
            ms: time.median,
            ms_least: time.least,
            ms_most: time.most,
            n,
            ceiling_ms: None,
            ratio: None,
            bytes: None,
            memory: None,
            target: None,
            point: None,
        }
    }

    /// An operation beside its ceiling in milliseconds.
    pub fn op(name: impl Into<String>, time: Time, n: usize, ceiling_ms: f64) -> Self {
        Self {
            ceiling_ms: Some(ceiling_ms),
            ratio: Some(ceiling_ms / time.median),
            ..Self::ceiling(name, time, n)
        }
    }

    /// With the bytes it moves.
    #[must_use]
    pub fn moving(mut self, bytes: f64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// With the most memory that was taken when there were pairs of so many bytes.
    #[must_use]
    pub fn holding(mut self, most: u64, pairs: usize) -> Self {
        self.memory = Some([most, pairs as u64]);
        self
    }

    /// With the least ratio that is aimed at.
    #[must_use]
    pub fn aiming_at(mut self, ratio: f64) -> Self {
        self.target = Some(ratio);
        self
    }

    /// As a point of a plot: of this chart and this line, at `x` of what the axis is.
    #[must_use]
    pub fn at(mut self, chart: &str, line: &str, axis: Axis, x: f64) -> Self {
        self.point = Some(Point {
            chart: chart.to_owned(),
            line: line.to_owned(),
            axis,
            x,
        });
        self
    }

    fn print(&self) {
        let rate = match self.bytes {
            // The link of a device, and the CPU.
            Some(bytes) if bytes / self.ms < 5e8 => {
                format!("{:9.3} GB/s", bytes / self.ms / 1e6)
            }
            Some(bytes) => format!("{:9.3} TB/s", bytes / self.ms / 1e9),
            None => format!("{:9.3} G/s ", self.n as f64 / self.ms / 1e6),
        };
        let ceiling = match (self.ceiling_ms, self.ratio) {
            (Some(ms), Some(ratio)) => {
                let missed = self.target.is_some_and(|target| ratio < target);
                let mark = if missed { " below its target" } else { "" };
                format!("{ms:9.3} {:7.1} %{mark}", ratio * 100.0)
            }
            _ => format!("{:>9} {:>9}", "-", "-"),
        };
        let memory = self.memory.map_or_else(String::new, |[most, pairs]| {
            format!(" {:.2} x the pairs", most as f64 / pairs as f64)
        });
        println!("{:<38} {:9.3} {rate} {ceiling}{memory}", self.name, self.ms);
    }
}

/// All measurements of one run of the program.
#[derive(Debug, Serialize)]
pub struct Report {
    device: String,
    compute_capability: Option<String>,
    driver: Option<String>,
    ptx: Option<String>,
    n: usize,
    runs: usize,
    command: String,
    rows: Vec<Row>,
}

impl Report {
    /// An empty report on a device.
    pub fn new(device: &Device, n: usize, runs: usize) -> Result<Self> {
        let info = device.info()?;
        Ok(Self {
            device: info.name,
            compute_capability: info.compute_capability.map(|c| c.to_string()),
            driver: info.driver_version.map(|v| v.to_string()),
            ptx: info.ptx.map(|ptx| format!("{ptx:?}")),
            n,
            runs,
            command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
            rows: Vec::new(),
        })
    }

    /// Says what is measured, and where.
    pub fn print_head(&self) {
        println!(
            "{}, PTX {}, n = {}, median of {} runs, gpumap-bench {}",
            self.device,
            self.ptx.as_deref().unwrap_or("none"),
            self.n,
            self.runs,
            self.command
        );
        println!(
            "{:<38} {:>9} {:>14} {:>9} {:>9}",
            "", "ms", "rate", "ceiling", "of it"
        );
    }

    /// Adds and prints a row.
    pub fn add(&mut self, row: Row) {
        row.print();
        self.record(row);
    }

    /// Adds a row that has been printed in another way.
    pub fn record(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Writes the report as JSON.
    pub fn write_json(&self, path: &Path) -> Result<()> {
        let file = std::fs::File::create(path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(serde_json::to_writer_pretty(file, self)?)
    }

    /// Writes the report as a page with plots.
    pub fn write_html(&self, path: &Path) -> Result<()> {
        // As those that were written before are read.
        let results = serde_json::from_value(serde_json::to_value(self)?)?;
        write(path, &plots::to_html(&[results])?)
    }

    /// Says that every result was verified: reached only if it was.
    pub fn finish(&self) -> Result<()> {
        println!("{} measurements, every result verified", self.rows.len());
        Ok(())
    }
}

/// Writes a page of results that were written as JSON.
pub fn write_page(path: &Path, results: &[PathBuf]) -> Result<()> {
    let read = |from: &PathBuf| -> Result<plots::Results> {
        let name = from.display();
        let text = std::fs::read(from).with_context(|| format!("cannot read {name}"))?;
        serde_json::from_slice(&text).with_context(|| format!("{name} is not a report"))
    };
    let results: Vec<_> = results.iter().map(read).collect::<Result<_>>()?;
    write(path, &plots::to_html(&results)?)
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
