//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use gpumap::Device;

use crate::commands::Command;
use crate::data::BenchKey;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// The map's operations.
    Ops,
    /// Maps of values of 16, 64 and 256 bytes.
    Arena,
    /// Large batches, sorted and as they come: empty maps that are built, and maps in use.
    Build,
    /// Maps that grow, and maps whose pairs come and go.
    Grow,
    /// Batches in which each key says what is done with it.
    Mixed,
    /// Batches in which keys repeat, at the first load factor.
    Repeats,
    /// Dumps at every load factor and number of submaps.
    RetrieveAll,
    /// Row maps and unique keys of 8, 16 and 32 bytes.
    Rows,
    /// Row maps of strings of 8, 60 and 1,000 bytes.
    Strings,
    /// Aggregates by key.
    Groups,
    /// Joins to pairs of row numbers.
    Joins,
    /// Values of 16, 64 and 256 bytes in cells and by row: alone, from four streams, and the memory while they grow.
    Values,
    /// Maps with keys of 16 and 32 bytes.
    Wide,
    /// Maps from the size of a cache to the device's memory.
    Size,
    /// Calls with small batches.
    Small,
    /// Batches from arrays of the host and back, beside what the link can do.
    Host,
    /// Batches from arrays of the host, of a thousand to `n` pairs, beside hash maps of the host.
    Peers,
    /// The operations of multimaps, of 4 + 4 and of 8 + 8 bytes.
    Chained,
    /// Inserts until memory ends.
    Limit,
    /// Histograms of `n` values, by default 400 million.
    Histogram,
    /// Sorts of `n` numbers and pairs.
    Sort,
    /// Partitions of `n` pairs.
    Partition,
    /// Several devices, `n` keys or values on each: the link, maps and histograms over all.
    Scale,
    /// Scans, reductions and filters of `n` elements, by default 400 million.
    Primitives,
    /// The ladders of filter, `retrieve_all` and scan, `n` elements, by default 400 million: what
    /// `gpumap-bench ladder` measures.
    Ladder,
}

/// Measures the map against the device's own limits: suites, or one of the commands.
#[derive(Debug, Parser)]
#[command(name = "gpumap-bench", version, args_conflicts_with_subcommands = true)]
pub struct Options {
    /// What to do instead of running suites.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// What to measure.
    #[arg(long, value_delimiter = ',', default_value = "ops")]
    pub suite: Vec<Suite>,
    /// Pairs in the map. The default is for a GPU; the CPU executor does about a million a
    /// second.
    #[arg(short, long)]
    pub n: Option<usize>,
    /// Load factors.
    #[arg(short, long, value_delimiter = ',', default_value = "0.5,0.8,0.9,0.95")]
    pub load: Vec<f64>,
    /// Sizes of key and value; without a value, a set.
    #[arg(short, long, value_delimiter = ',', default_value = "8+8,4+4,8+0")]
    pub pairs: Vec<PairKind>,
    /// Which keys.
    #[arg(short, long, value_delimiter = ',', default_value = "sparse,dense")]
    pub keys: Vec<KeyKind>,
    /// Submaps.
    #[arg(short, long, default_value_t = 1)]
    pub submaps: u32,
    /// Runs of each measurement; the median counts.
    #[arg(short, long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Writes the table as JSON.
    #[arg(short, long)]
    pub json: Option<PathBuf>,
    /// Writes the table and its plots as one page.
    #[arg(long)]
    pub html: Option<PathBuf>,
    /// Measures nothing: the page is of these results, written as JSON before.
    #[arg(long, value_delimiter = ',', requires = "html")]
    pub results: Vec<PathBuf>,
}

impl Options {
    /// Pairs in the map on this device.
    pub fn pairs_on(&self, device: &Device) -> usize {
        let default = if device.is_cuda() {
            100_000_000
        } else {
            100_000
        };
        self.n.unwrap_or(default)
    }
}

/// Bytes of key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PairKind {
    /// 4-byte keys, 4-byte values.
    #[value(name = "4+4")]
    FourFour,
    /// 4-byte keys, 8-byte values.
    #[value(name = "4+8")]
    FourEight,
    /// 8-byte keys, 4-byte values.
    #[value(name = "8+4")]
    EightFour,
    /// 8-byte keys, 8-byte values.
    #[value(name = "8+8")]
    EightEight,
    /// A set of 4-byte keys.
    #[value(name = "4+0")]
    FourAlone,
    /// A set of 8-byte keys.
    #[value(name = "8+0")]
    EightAlone,
}

/// Which keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyKind {
    /// Spread at random over all bit patterns.
    Sparse,
    /// `0..n`.
    Dense,
}

impl KeyKind {
    /// The `i`-th key.
    pub fn key<K: BenchKey>(self, i: u64) -> K {
        match self {
            Self::Sparse => K::sparse(i),
            Self::Dense => K::dense(i),
        }
    }

    /// What rows call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sparse => "sparse",
            Self::Dense => "dense",
        }
    }
}
