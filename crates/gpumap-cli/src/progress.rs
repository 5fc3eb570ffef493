//! Progress bars on standard error; nothing where that is no terminal, or under `--quiet`.

use std::io::Read;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const BYTES: &str =
    "{msg:>9} [{bar:32}] {bytes}/{total_bytes}, {binary_bytes_per_sec}, {eta} to go";
const BYTES_OF_UNKNOWN: &str = "{msg:>9} {spinner} {bytes}, {binary_bytes_per_sec}";
const PAIRS: &str = "{msg:>9} [{bar:32}] {human_pos}/{human_len} pairs, {eta} to go";

/// One bar that serves the stages of a run one after the other.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar, shown on standard error if that is a terminal and `quiet` is not set.
    pub fn new(quiet: bool) -> Self {
        if quiet {
            return Self::hidden();
        }
        Self(ProgressBar::with_draw_target(
            None,
            ProgressDrawTarget::stderr(),
        ))
    }

    /// A bar that is never seen.
    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Begins a stage of reading `length` bytes, or an unknown number of them.
    pub fn start_bytes(&self, length: Option<u64>) {
        self.start(
            "reading",
            length,
            length.map_or(BYTES_OF_UNKNOWN, |_| BYTES),
        );
    }

    /// Begins a stage over `pairs` pairs.
    pub fn start_pairs(&self, stage: &'static str, pairs: usize) {
        self.start(stage, Some(pairs as u64), PAIRS);
    }

    fn start(&self, stage: &'static str, length: Option<u64>, template: &str) {
        let style = ProgressStyle::with_template(template).expect("the templates above are valid");
        // In this order, as all but the first of these draw.
        self.0.set_style(style.progress_chars("=> "));
        self.0.reset();
        match length {
            Some(length) => self.0.set_length(length),
            None => self.0.unset_length(),
        }
        self.0.set_message(stage);
        if !self.0.is_hidden() {
            // The clock keeps moving while a long batch is on the device.
            self.0.enable_steady_tick(Duration::from_millis(200));
        }
    }

    /// How many bytes the stage of reading has, where that is known.
    pub fn length(&self) -> Option<u64> {
        self.0.length()
    }

    /// The part of them that has been read.
    pub fn fraction(&self) -> Option<f64> {
        let length = self.0.length().filter(|&length| length > 0)?;
        Some(self.0.position() as f64 / length as f64)
    }

    /// The bar as threads that read move it.
    pub fn bytes(&self) -> ByteBar {
        ByteBar(self.0.clone())
    }

    /// A reader that moves the bar by what is read through it.
    pub fn reading<R: Read>(&self, reader: R) -> impl Read + use<R> {
        self.bytes().reading(reader)
    }

    /// Moves the bar by so many pairs or rows.
    pub fn advance(&self, pairs: usize) {
        self.0.inc(pairs as u64);
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// A stage of reading, which several threads may move.
#[derive(Clone, Debug)]
pub struct ByteBar(ProgressBar);

impl ByteBar {
    /// Moves the bar by so many bytes.
    pub fn advance(&self, bytes: usize) {
        self.0.inc(bytes as u64);
    }

    /// A reader that moves the bar by what is read through it.
    pub fn reading<R: Read>(&self, reader: R) -> impl Read + use<R> {
        self.0.wrap_read(reader)
    }
}

impl Drop for Progress {
    /// An error message must not end up behind a half-drawn bar.
    fn drop(&mut self) {
        self.finish();
    }
}
