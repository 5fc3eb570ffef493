//! What was measured: rows, as lines of a table and as JSON.

use std::fmt::Write as _;

use anyhow::Result;
use gpumap::Device;
use serde::Serialize;

use crate::measure::Time;

/// One rung in one case.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which ladder; `copy` for the copy.
    pub ladder: &'static str,
    /// What is special about the data; empty if nothing is.
    pub case: String,
    /// Which rung.
    pub rung: &'static str,
    /// Elements, or slots.
    pub n: usize,
    /// Median of the runs, in milliseconds: from before the call until the host has the result.
    pub ms: f64,
    /// The quickest.
    pub ms_least: f64,
    /// The slowest.
    pub ms_most: f64,
    /// Bytes that the rung must read and write.
    pub bytes: u64,
    /// Those bytes by the time, over what the copy did.
    pub of_copy: f64,
}

impl Row {
    pub(super) fn new(
        ladder: &'static str,
        case: String,
        rung: &'static str,
        n: usize,
        time: Time,
        bytes: u64,
    ) -> Self {
        Self {
            ladder,
            case,
            rung,
            n,
            ms: time.median,
            ms_least: time.least,
            ms_most: time.most,
            bytes,
            of_copy: 1.0,
        }
    }

    pub(super) fn copy(n: usize, time: Time, bytes: u64) -> Self {
        Self::new("copy", String::new(), "16 bytes a thread", n, time, bytes)
    }

    /// Compares with what a copy did.
    #[must_use]
    pub(super) fn beside(mut self, copy_bytes_per_ms: f64) -> Self {
        self.of_copy = self.bytes_per_ms() / copy_bytes_per_ms;
        self
    }

    /// Bytes in a millisecond.
    pub fn bytes_per_ms(&self) -> f64 {
        self.bytes as f64 / self.ms
    }

    /// What the rows of one case of one ladder stand under.
    pub fn heading(&self) -> String {
        let n = grouped(self.n as u64);
        let what = match self.ladder {
            "retrieve_all" => format!("retrieve_all of {n} slots, half full"),
            ladder => format!("{ladder} of {n} i32"),
        };
        match self.case.as_str() {
            "" => what,
            case => format!("{what}, {case}"),
        }
    }
}

/// A number with commas between its thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Rows as lines of text, with a heading wherever another ladder or case begins.
#[derive(Debug, Default)]
pub struct Table {
    last: Option<(&'static str, String)>,
}

impl Table {
    /// The row's line, under its heading if that is a new one; without a line end.
    pub fn lines(&mut self, row: &Row) -> String {
        let mut text = String::new();
        let here = (row.ladder, row.case.clone());
        if self.last.as_ref() != Some(&here) {
            if self.last.is_some() {
                text.push('\n');
            }
            let columns = ["ms", "GB moved", "GB/s", "of copy"];
            let [ms, moved, rate, share] = columns;
            let heading = row.heading();
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{heading:<58} {ms:>10} {moved:>9} {rate:>8} {share:>9}"
            );
            self.last = Some(here);
        }
        let (gigabytes, rate) = (row.bytes as f64 / 1e9, row.bytes_per_ms() / 1e6);
        let share = 100.0 * row.of_copy;
        let (rung, ms) = (row.rung, row.ms);
        let _ = write!(
            text,
            "  {rung:<56} {ms:>10.3} {gigabytes:>9.3} {rate:>8.1} {share:>7.1} %"
        );
        text
    }
}

/// All rows of a run, and what they were measured on.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The device's name.
    pub device: String,
    /// Of the device, if it is a GPU.
    pub compute_capability: Option<String>,
    /// Of the CUDA driver.
    pub driver: Option<String>,
    /// Which PTX was loaded.
    pub ptx: Option<String>,
    /// The size that was requested.
    pub size: usize,
    /// Runs of each rung.
    pub runs: usize,
    /// The copy first.
    pub rows: Vec<Row>,
}

impl Report {
    pub(super) fn new(device: &Device, size: usize, runs: usize) -> Result<Self> {
        let info = device.info()?;
        Ok(Self {
            device: info.name,
            compute_capability: info.compute_capability.map(|c| c.to_string()),
            driver: info.driver_version.map(|v| v.to_string()),
            ptx: info.ptx.map(|ptx| ptx.to_string()),
            size,
            runs,
            rows: Vec::new(),
        })
    }

    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// What was measured on, in a line.
    pub fn title(&self) -> String {
        let code = self.ptx.as_deref().unwrap_or("no");
        format!(
            "{}, {code} PTX, median of {} runs, every result verified",
            self.device, self.runs
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ladder: &'static str, case: &str, ms: f64) -> Row {
        let time = Time {
            median: ms,
            least: ms,
            most: ms,
        };
        Row::new(ladder, case.to_owned(), "a rung", 400_000, time, 3_200_000)
    }

    #[test]
    fn a_heading_for_each_case() {
        let mut table = Table::default();
        let first = table.lines(&row("filter", "5 % kept", 1.0));
        assert!(
            first.starts_with("filter of 400,000 i32, 5 % kept"),
            "{first}"
        );
        assert_eq!(first.lines().count(), 2);
        assert_eq!(
            table.lines(&row("filter", "5 % kept", 1.0)).lines().count(),
            1
        );
        let next = table.lines(&row("retrieve_all", "9 submaps", 1.0));
        assert!(next.contains("\nretrieve_all of 400,000 slots, half full, 9 submaps"));
    }

    #[test]
    fn shares_compare_rates() {
        let copy = row("copy", "", 1.0);
        let twice_as_long = row("scan", "", 2.0).beside(copy.bytes_per_ms());
        assert!((twice_as_long.of_copy - 0.5).abs() < 1e-9);
        let line = Table::default().lines(&twice_as_long);
        assert!(
            line.ends_with("  2.000     0.003      1.6    50.0 %"),
            "{line}"
        );
    }
}
