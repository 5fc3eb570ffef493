//! What the commands over saved databases take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::{OutputArgs, ThreadArgs};
use crate::format::Format;
use crate::kind::KmerKind;
use crate::kmer::{KmerLength, Strand};

/// How saved databases are read.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// The format of the databases, whatever their names and first bytes: gpk, gpumap, bin or parquet.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub db_format: Option<Format>,

    /// Bases in a k-mer, for databases that do not say it; .gpk and .gpumap say it.
    #[arg(short)]
    pub k: Option<KmerLength>,

    /// With -k: a k-mer and its reverse complement were counted as one, under the smaller. Databases that say it themselves need
    /// no such word.
    #[arg(long, short = 'C')]
    pub canonical: bool,

    /// How many threads.
    #[command(flatten)]
    pub threads: ThreadArgs,
}

impl ReadArgs {
    /// The k-mers of databases that do not say it.
    pub fn kind(&self) -> Option<KmerKind> {
        let strand = match self.canonical {
            true => Strand::Canonical,
            false => Strand::AsRead,
        };
        self.k.map(|length| KmerKind { length, strand })
    }
}

/// What `dump` takes.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// What count-kmers or load wrote: .gpk, .gpumap, .bin or .parquet.
    #[arg(value_name = "DB")]
    pub database: PathBuf,

    /// How the database is read.
    #[command(flatten)]
    pub read: ReadArgs,

    /// Where it goes. Without -k, keys that nothing calls k-mers are written as numbers.
    #[command(flatten)]
    pub counts: OutputArgs,
}

/// What `query` takes.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// What count-kmers wrote: .gpk, .gpumap, .bin or .parquet.
    #[arg(value_name = "DB")]
    pub database: PathBuf,

    /// K-mers, or FASTA or FASTQ files, of which each k-mer is looked up; a text of k bases is a k-mer.
    #[arg(value_name = "SEQ|FILE", required_unless_present = "sequence")]
    pub queries: Vec<String>,

    /// A FASTA or FASTQ file, whatever its name, after the others; - is standard input.
    #[arg(long, short, value_name = "FILE")]
    pub sequence: Vec<PathBuf>,

    /// How the database is read.
    #[command(flatten)]
    pub read: ReadArgs,

    /// Where the lines of k-mer, space, count go, 0 for a k-mer that is not there: .txt, .csv with commas, .tsv with tabs, with or
    /// without .gz, or - for standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// What `merge` takes.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// What count-kmers wrote, all of the same k: .gpk, .gpumap, .bin or .parquet.
    #[arg(value_name = "DB", required = true)]
    pub databases: Vec<PathBuf>,

    /// The count of a k-mer that is in several databases.
    #[arg(long, value_enum, default_value_t = MergeCounts::Sum)]
    pub counts: MergeCounts,

    /// How the databases are read.
    #[command(flatten)]
    pub read: ReadArgs,

    /// Where the counts go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Which count a k-mer of several databases gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MergeCounts {
    /// Their sum.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// That of the first database that has it.
    Left,
    /// That of the last database that has it.
    Right,
}

/// What `intersect` and `subtract` take both.
#[derive(Debug, Args)]
pub struct PairArgs {
    /// What count-kmers wrote: .gpk, .gpumap, .bin or .parquet.
    #[arg(value_name = "DB1")]
    pub left: PathBuf,

    /// Another of the same k.
    #[arg(value_name = "DB2")]
    pub right: PathBuf,

    /// How the databases are read.
    #[command(flatten)]
    pub read: ReadArgs,

    /// Where the counts go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `intersect` takes.
#[derive(Debug, Args)]
pub struct IntersectArgs {
    /// The databases, and where the outcome goes.
    #[command(flatten)]
    pub pair: PairArgs,

    /// The count of a k-mer, which is in both databases.
    #[arg(long, value_enum, default_value_t = IntersectCounts::Min)]
    pub counts: IntersectCounts,
}

/// What `subtract` takes.
#[derive(Debug, Args)]
pub struct SubtractArgs {
    /// The databases, and where the outcome goes.
    #[command(flatten)]
    pub pair: PairArgs,

    /// What is taken from the first database for a k-mer that the second has too.
    #[arg(long, value_enum, default_value_t = SubtractCounts::All)]
    pub counts: SubtractCounts,
}

/// Which count a k-mer of both databases gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IntersectCounts {
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Their sum.
    Sum,
    /// That of the first database less that of the second; a k-mer of which nothing is left is left out.
    Diff,
    /// That of the first database.
    Left,
    /// That of the second database.
    Right,
}

/// What is taken from the first database for a k-mer that the second has too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SubtractCounts {
    /// The whole k-mer.
    All,
    /// The count that the second has; a k-mer of which nothing is left is left out.
    Diff,
}
