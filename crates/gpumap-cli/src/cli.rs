//! The command line: what can be said, and what every command takes from it.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use gpumap::sharded::parse_devices;
use gpumap::{DeviceChoice, PtxChoice};

use crate::console::tell;
use crate::database::args::{DumpArgs, IntersectArgs, MergeArgs, QueryArgs, SubtractArgs};
use crate::engine::Engine;
use crate::error::{Error, Result, printable};
use crate::format::Format;
use crate::kmer::{KmerLength, Strand};
use crate::pairs::Input;
use crate::progress::Progress;
use crate::summary::Summary;
use crate::table::Room;
use crate::values::Values;

/// A concurrent key-value map on NVIDIA GPUs: count k-mers, load and dump pairs.
///
/// Without a command, counts the 21-mers of reads of the phage lambda genome, which are made from the built-in one, checks
/// the outcome, and measures a map on this machine. Any failure ends with one line on standard error, exit code 2 and no output file.
#[derive(Debug, Parser)]
#[command(name = "gpumap", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// What every command takes.
    #[command(flatten)]
    pub session: Session,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Count the k-mers of FASTA or FASTQ files.
    CountKmers(CountArgs),
    /// Write a saved database as text, or in another format.
    Dump(DumpArgs),
    /// Look k-mers up in a saved database.
    Query(QueryArgs),
    /// Put saved databases together: k-mers that are in any of them, with the sum of their counts.
    Merge(MergeArgs),
    /// Keep the k-mers that are in both of two saved databases, with the smaller of their counts.
    Intersect(IntersectArgs),
    /// Keep the k-mers of a saved database that are not in a second one.
    Subtract(SubtractArgs),
    /// Load pairs of 64-bit keys and values, look keys up, dump everything.
    Load(LoadArgs),
    /// Show the device, its driver and the device code chosen for it.
    Info,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for every command")]
pub struct Session {
    /// What to run on: auto, cpu, checked, cuda or cuda:N [default: GPUMAP_DEVICE, or else auto].
    #[arg(long, global = true, value_parser = device)]
    pub device: Option<DeviceChoice>,

    /// The device code for a CUDA device: auto, sm_70, sm_90 or the path of a PTX file
    /// [default: GPUMAP_PTX, or else auto].
    #[arg(long, global = true)]
    pub ptx: Option<PtxChoice>,

    /// No progress bars and no summary.
    #[arg(long, short, global = true)]
    pub quiet: bool,

    /// The summary, or what info shows, as one JSON object.
    #[arg(long, global = true)]
    pub json: bool,
}

/// How many threads a command may use.
#[derive(Debug, Args)]
pub struct ThreadArgs {
    /// Threads that work at once, all of them together: those that read, parse, count, sort and write [default: GPUMAP_THREADS, or else
    /// as many as the machine runs].
    #[arg(long, short, value_name = "N", value_parser = at_least_one)]
    pub threads: Option<usize>,
}

impl Cli {
    /// How many threads may work at once, if that is said.
    pub fn threads(&self) -> Result<Option<NonZero<usize>>> {
        let args = match &self.command {
            Some(Command::CountKmers(args)) => &args.threads,
            Some(Command::Dump(args)) => &args.read.threads,
            Some(Command::Query(args)) => &args.read.threads,
            Some(Command::Merge(args)) => &args.read.threads,
            Some(Command::Intersect(args)) => &args.pair.read.threads,
            Some(Command::Subtract(args)) => &args.pair.read.threads,
            Some(Command::Load(args)) => &args.threads,
            _ => return Ok(None),
        };
        if let Some(threads) = args.threads {
            return Ok(NonZero::new(threads));
        }
        let variable = std::env::var_os("GPUMAP_THREADS").filter(|value| !value.is_empty());
        let Some(value) = variable else {
            return Ok(None);
        };
        let threads = value.to_str().and_then(|text| at_least_one(text).ok());
        let threads = threads.ok_or_else(|| Error::Variable {
            name: "GPUMAP_THREADS",
            value: value.to_string_lossy().into_owned(),
            expected: "a number of threads, 1 at least",
        })?;
        Ok(NonZero::new(threads))
    }

    /// Whether a file is among the outputs, which is not there if the run ends early.
    pub fn writes_files(&self) -> bool {
        let is_file = |path: &PathBuf| path.as_os_str() != "-";
        let of_counts = |args: &OutputArgs| {
            let others = args.spectrum.iter().chain(&args.histogram);
            others.chain([&args.output]).any(is_file)
        };
        match &self.command {
            Some(Command::CountKmers(args)) => of_counts(&args.counts),
            Some(Command::Dump(args)) => of_counts(&args.counts),
            Some(Command::Merge(args)) => of_counts(&args.output),
            Some(Command::Intersect(args)) => of_counts(&args.pair.output),
            Some(Command::Subtract(args)) => of_counts(&args.pair.output),
            Some(Command::Load(args)) => args.dump.iter().chain([&args.results]).any(is_file),
            Some(Command::Query(_) | Command::Info) | None => false,
        }
    }
}

impl Session {
    /// Opens the device that was requested; an option counts more than a variable.
    pub fn open(&self) -> Result<Engine> {
        let device = self.device.map_or_else(DeviceChoice::from_env, Ok);
        device
            .and_then(|device| Engine::open(device, &self.ptx()?))
            .map_err(Error::while_doing("cannot use the device"))
    }

    /// Opens devices that work together.
    pub fn open_all(&self, devices: &DeviceList) -> Result<Engine> {
        self.ptx()
            .and_then(|ptx| Engine::open_all(&devices.0, &ptx))
            .map_err(Error::while_doing("cannot use the devices"))
    }

    fn ptx(&self) -> gpumap::Result<PtxChoice> {
        self.ptx.clone().map_or_else(PtxChoice::from_env, Ok)
    }

    /// A progress bar, if one is wanted.
    pub fn progress(&self) -> Progress {
        Progress::new(self.quiet)
    }

    /// Shows the summary on standard error, as standard output may hold the result. Warnings are shown under
    /// `--quiet` too.
    pub fn report(&self, summary: &Summary) {
        if self.quiet || !self.json {
            for warning in &summary.warnings {
                tell(format_args!("warning: {warning}"));
            }
        }
        if !self.quiet && self.json {
            tell(summary.to_json());
        } else if !self.quiet {
            tell(summary);
        }
    }
}

/// What `count-kmers` takes.
#[derive(Debug, Args)]
pub struct CountArgs {
    /// FASTA or FASTQ, plain or packed by gzip, bgzip or zstd; - is standard input. Several files are counted as one.
    #[arg(value_name = "FILE", required = true)]
    pub inputs: Vec<PathBuf>,

    /// Bases in a k-mer, 1 to 64.
    #[arg(short, default_value = "21")]
    pub k: KmerLength,

    /// Count a k-mer and its reverse complement as one, under the alphabetically smaller.
    #[arg(long, short = 'C')]
    pub canonical: bool,

    /// Where the counts go, and which of them.
    #[command(flatten)]
    pub counts: OutputArgs,

    /// Make the map for this many distinct k-mers and let it not grow.
    #[arg(long, value_name = "N")]
    pub capacity: Option<usize>,

    /// Memory for what is counted on the CPU: the rest goes to a file in the folder for temporary files (TMPDIR).
    /// K, M, G and T are powers of 1024 [default: as much as it takes].
    #[arg(long, value_name = "BYTES", value_parser = bytes, conflicts_with_all = ["capacity", "devices"])]
    pub memory: Option<u64>,

    /// Refuse a record that is longer, with 8 bytes for each line end [default: 1G]; K, M, G and T are
    /// powers of 1024. A record of FASTQ is kept in memory, one of FASTA is not.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub max_record: Option<u64>,

    /// Spread the map over these devices: 0,1 or cuda:0,cuda:1 for CUDA devices, cpu,cpu for the
    /// CPU twice.
    #[arg(long, value_name = "LIST", conflicts_with = "device", value_parser = devices)]
    pub devices: Option<DeviceList>,

    /// How many threads.
    #[command(flatten)]
    pub threads: ThreadArgs,
}

impl CountArgs {
    /// Which strand to count on.
    pub fn strand(&self) -> Strand {
        if self.canonical {
            Strand::Canonical
        } else {
            Strand::AsRead
        }
    }

    /// How large the map may become.
    pub fn room(&self) -> Room {
        let kinds = self.k.kinds();
        self.capacity.map_or(Room::Growing { kinds }, Room::Fixed)
    }
}

/// What commands with counts of k-mers as output take.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Where the counts go: lines of k-mer, tab, count to .tsv, .txt or -, which is standard output; with commas to
    /// .csv; packed by gzip with .gz behind it; a sorted and packed database to .gpk; pairs of the packed k-mer and the count to
    /// .bin, .gpumap or .parquet. K-mers of more than 32 bases do not go to .bin.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,

    /// The format of the counts, whatever the name of the output.
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// Put the k-mers in alphabetical order instead of the order in which they come. Those of .gpk, and those from databases, always
    /// are in that order.
    #[arg(long)]
    pub sorted: bool,

    /// Leave out k-mers with a lower count.
    #[arg(long, short = 'L', value_name = "N", visible_alias = "lower-count")]
    pub min_count: Option<u64>,

    /// Leave out k-mers with a higher count.
    #[arg(long, short = 'U', value_name = "N", visible_alias = "upper-count")]
    pub max_count: Option<u64>,

    /// Draw how many distinct k-mers occur once, twice, ... as an SVG file, .svg or .svg.gz.
    #[arg(long, value_name = "FILE.svg")]
    pub spectrum: Option<PathBuf>,

    /// Write how many distinct k-mers occur once, twice, ... as lines of count, space, k-mers, as jellyfish
    /// histo does: .txt, .hist, .histo or .tsv, with or without .gz, or - for standard output. It has all k-mers, whatever
    /// --min-count and --max-count leave out.
    #[arg(long, value_name = "FILE")]
    pub histogram: Option<PathBuf>,
}

/// What `load` takes.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Pairs of unsigned 64-bit integers, or of the values that --values says: .csv or .tsv with or without a header, .bin for
    /// little-endian key, value, ..., .gpumap for a saved map, .gpk, .parquet; - is standard input as TSV.
    /// Several files are read one after the other.
    #[arg(value_name = "PAIRS", required = true)]
    pub pairs: Vec<PathBuf>,

    /// The format of the pairs, whatever their name.
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// Keys to look up: one column of .csv or .tsv, .bin, or the keys of a .gpk, .gpumap or .parquet.
    #[arg(long, value_name = "KEYS")]
    pub lookup: Option<PathBuf>,

    /// Where the keys that were looked up go with their values, in their order: .csv, .tsv or .txt, with or without .gz, or -.
    /// The value of a key that was not found is left empty.
    #[arg(long, value_name = "FILE", default_value = "-", requires = "lookup")]
    pub results: PathBuf,

    /// Where everything in the map goes: .csv, .tsv, .csv.gz, .tsv.gz, .bin, .gpumap, .parquet or -.
    #[arg(long, value_name = "OUT")]
    pub dump: Option<PathBuf>,

    /// The format of the dump, whatever its name.
    #[arg(long, value_enum, requires = "dump")]
    pub dump_format: Option<Format>,

    /// What to do with a key that comes with different values.
    #[arg(long, value_enum, default_value_t = Duplicates::Error)]
    pub duplicates: Duplicates,

    /// What is kept under a key for all values that come with it, instead of --duplicates; count reads keys alone, and
    /// keeps how often they come.
    #[arg(long, value_enum, conflicts_with = "duplicates")]
    pub aggregate: Option<Aggregate>,

    /// The name of the column of keys in .csv, .tsv or .parquet, which may then have other columns too; of text, the
    /// first row has the names.
    #[arg(long, value_name = "COLUMN")]
    pub key: Option<String>,

    /// The name of the column of values, see --key.
    #[arg(long, value_name = "COLUMN")]
    pub value: Option<String>,

    /// What values are; their sums are modulo 2^64, and floating-point numbers are not summed.
    #[arg(long, value_enum, default_value_t = Values::Unsigned)]
    pub values: Values,

    /// Dump in the order of the keys rather than in that of the map.
    #[arg(long)]
    pub sorted: bool,

    /// Make the map for this many distinct keys and let it not grow.
    #[arg(long, value_name = "N")]
    pub capacity: Option<usize>,

    /// Refuse a longer row of text [default: 1M] and a larger page of Parquet [default: 512M]; K, M, G
    /// and T are powers of 1024.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub max_record: Option<u64>,

    /// How many threads.
    #[command(flatten)]
    pub threads: ThreadArgs,
}

impl LoadArgs {
    /// How large the map may become.
    pub fn room(&self) -> Room {
        self.capacity.map_or(Room::ANY, Room::Fixed)
    }

    /// One of the files to read.
    pub fn input<'a>(&self, path: &'a Path, format: Option<Format>) -> Input<'a> {
        Input {
            path,
            format,
            max_record: self.max_record,
            columns: None,
            values: Values::Unsigned,
        }
    }

    /// One of the files of pairs.
    pub fn pairs_input<'a>(&'a self, path: &'a Path) -> Input<'a> {
        let name = |name: &'a Option<String>, usual| name.as_deref().unwrap_or(usual);
        let is_named = self.key.is_some() || self.value.is_some();
        let columns = is_named.then(|| [name(&self.key, "key"), name(&self.value, "value")]);
        Input {
            columns,
            values: self.values,
            ..self.input(path, self.format)
        }
    }
}

/// Devices that work together.
#[derive(Clone, Debug)]
pub struct DeviceList(Vec<DeviceChoice>);

fn devices(text: &str) -> gpumap::Result<DeviceList> {
    parse_devices(text).map(DeviceList)
}

/// The library's error would name a variable, and this is an option.
fn device(text: &str) -> Result<DeviceChoice, &'static str> {
    text.parse()
        .map_err(|_| "unknown device, use auto, cpu, checked, cuda or cuda:N")
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 at least".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

/// A number of bytes, with K, M, G or T for powers of 1024.
pub fn bytes(text: &str) -> Result<u64, &'static str> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, unit)) if !unit.is_ascii_digit() => {
            let power = "KMGT".find(unit.to_ascii_uppercase());
            let power = power.ok_or("use bytes, or a number with K, M, G or T")?;
            (&text[..at], 10 * (power + 1))
        }
        _ => (text, 0),
    };
    // A sign is no digit.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: Option<u64> = digits.parse().ok().filter(|_| is_number);
    let number = number.ok_or("use bytes, or a number with K, M, G or T")?;
    match number.checked_mul(1 << shift) {
        Some(0) => Err("must be 1 at least"),
        Some(bytes) => Ok(bytes),
        None => Err("is more than can be counted"),
    }
}

/// What to do with a key that comes with different values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Duplicates {
    /// Give up.
    Error,
    /// Keep the value that comes first in the file.
    First,
    /// Add the values up, modulo 2^64.
    Sum,
}

/// What is kept under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Aggregate {
    /// The sum of the values, modulo 2^64.
    Sum,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// How often the key comes.
    Count,
    /// The value that comes first.
    First,
    /// The value that comes last.
    Last,
}

/// Clap's own text for a usage error is a paragraph, advice and a usage line: here its first
/// paragraph, on one line.
pub fn usage_error(error: &clap::Error) -> String {
    let text = error.to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    format!("{} (--help shows what can be said)", printable(paragraph))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("1", Some(1)),
            ("1000", Some(1000)),
            ("2k", Some(2 << 10)),
            ("3M", Some(3 << 20)),
            ("1G", Some(1 << 30)),
            ("5T", Some(5 << 40)),
            ("16777215T", Some(16_777_215 << 40)),
            ("16777216T", None),
            ("18446744073709551616", None),
            ("0", None),
            ("0G", None),
            ("", None),
            ("G", None),
            ("1GB", None),
            ("1.5G", None),
            ("+1", None),
            ("-1", None),
            ("1\u{212a}", None),
        ] {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn usage_errors_are_one_line_with_the_cause() {
        let say = |arguments: &[&str]| {
            let error = Cli::try_parse_from(arguments).unwrap_err();
            usage_error(&error)
        };
        let text = say(&["gpumap", "count-kmers", "x.fa", "-k", "65"]);
        assert!(text.starts_with("error: "), "{text}");
        assert!(text.contains("65") && text.contains("1 to 64"), "{text}");
        let text = say(&["gpumap", "count-kmers"]);
        assert!(text.contains("<FILE>") && !text.contains('\n'), "{text}");
    }
}
