//! Everything that can go wrong in the program: one line each, with the cause.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::format::Format;
use crate::gpk::Damage;
use crate::kind::KmerKind;
use crate::kmer::KmerLength;
use crate::limit::LINE_END;
use crate::malformed::Malformed;
use crate::values::Values;
use crate::words;

/// The result of anything in this program that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the program gives up. The text names what to change; causes follow through `source`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An input could not be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// As given on the command line.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An input ended in an input/output error.
    #[error("cannot read {name}")]
    Read {
        /// The input.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system starts no more threads.
    #[error("cannot start a thread")]
    Thread {
        /// What it said.
        source: io::Error,
    },
    /// A variable of the environment has a value that is none.
    #[error("{name} is `{value}`: set it to {expected}, or unset it")]
    Variable {
        /// Which one.
        name: &'static str,
        /// What it is set to.
        value: String,
        /// What it has to be.
        expected: &'static str,
    },
    /// A sequence that is longer than `--max-record` allows.
    #[error(
        "{name}, record {record}: longer than {most} bytes, with {LINE_END} for each line end: \
         --max-record allows longer records"
    )]
    RecordTooLong {
        /// The input.
        name: String,
        /// Counted from 1.
        record: u64,
        /// Bytes that are allowed.
        most: u64,
    },
    /// A row of text that is longer than `--max-record` allows.
    #[error(
        "{name}, line {line}: the row that begins here has more than {most} bytes: \
         a quote may be left open, or --max-record allows longer rows"
    )]
    RowTooLong {
        /// The input.
        name: String,
        /// Counted from 1.
        line: u64,
        /// Bytes that are allowed.
        most: u64,
    },
    /// A page of Parquet that is larger than `--max-record` allows.
    #[error(
        "{name}, page in or behind row {row}: takes {bytes} bytes, and {most} are allowed: \
         --max-record allows larger pages"
    )]
    PageTooLarge {
        /// The input.
        name: String,
        /// A row in the page or before it, counted from 1.
        row: u64,
        /// Bytes of the page, as it is or as it says that it will be.
        bytes: u64,
        /// Bytes that are allowed.
        most: u64,
    },
    /// An input is not FASTA or FASTQ, or broken.
    #[error("{name} cannot be read as FASTA or FASTQ, plain or packed by gzip or zstd")]
    Sequences {
        /// The input.
        name: String,
        /// Where and why.
        source: Malformed,
    },
    /// An input of sequences is of a format that is known, and not read.
    #[error("{name} {format}, which is not read: {command} FILE | gpumap count-kmers -")]
    Foreign {
        /// The input.
        name: String,
        /// What it is.
        format: &'static str,
        /// What makes text of it.
        command: &'static str,
    },
    /// A file of pairs or keys whose name ends in none of the formats.
    #[error(
        "{}: the name must end in .csv, .tsv, .bin, .gpk, .gpumap, .parquet, .csv.gz or .tsv.gz, \
         or an option say the format",
        path.display()
    )]
    UnknownFormat {
        /// As given on the command line.
        path: PathBuf,
    },
    /// An output whose name ends in nothing that says what it is to be.
    #[error("{}: the name must end in {endings}", path.display())]
    UnknownEnding {
        /// As given on the command line.
        path: PathBuf,
        /// What is known, as a list.
        endings: String,
    },
    /// A name that asks for gzip, for a format that could not be read again then.
    #[error("{}: {format} is not packed by gzip: leave .gz out of the name", path.display())]
    PackedFormat {
        /// As given on the command line.
        path: PathBuf,
        /// The format of the output.
        format: Format,
    },
    /// A format that the output in question cannot take.
    #[error("{}: {format} cannot hold keys that were not found, use .csv or .tsv", path.display())]
    UnsuitableFormat {
        /// As given on the command line.
        path: PathBuf,
        /// The format of its name.
        format: Format,
    },
    /// A format without keys of 16 bytes.
    #[error("{}: {format} has no k-mers of more than 32 bases, use .gpk, .gpumap, .parquet, .csv or .tsv", path.display())]
    NarrowFormat {
        /// As given on the command line.
        path: PathBuf,
        /// The format of the output.
        format: Format,
    },
    /// Bounds of counts between which there is none.
    #[error(
        "no count is {least} or more and {most} or less: lower --min-count, or raise --max-count"
    )]
    Bounds {
        /// `--min-count`.
        least: u64,
        /// `--max-count`.
        most: u64,
    },
    /// A file that cannot be a saved database.
    #[error(
        "{}: a database is a file in .gpk, .gpumap, .bin or .parquet, or --db-format says the format",
        path.display()
    )]
    NotADatabase {
        /// As given on the command line.
        path: PathBuf,
    },
    /// A database of k-mers of another length than requested.
    #[error("{name} has {kind}, and -k asks for {asked}: leave -k out")]
    OtherLength {
        /// The database.
        name: String,
        /// What it has.
        kind: KmerKind,
        /// `-k`.
        asked: KmerLength,
    },
    /// A database whose keys are too short or too long for its k-mers.
    #[error(
        "{name} has keys of {found} bytes: k-mers of up to 32 bases have 8, and longer ones 16, which .bin cannot have"
    )]
    OtherKeys {
        /// The database.
        name: String,
        /// Bytes of a key.
        found: u16,
    },
    /// Databases of different k-mers.
    #[error(
        "{} has {}, and {} has {}: only databases of the same k-mers can be combined",
        names[0], kinds[0], names[1], kinds[1]
    )]
    OtherKmers {
        /// The databases.
        names: [String; 2],
        /// What they have.
        kinds: [KmerKind; 2],
    },
    /// A database that does not say which k-mers it has.
    #[error(
        "the database does not say how long its k-mers are: -k does (and -C, if both strands count as one)"
    )]
    UnknownKmers,
    /// A query that is no k-mer of the database, and no file.
    #[error(
        "`{text}` is neither {length} bases of A, C, G and T, as the database has them, nor a file"
    )]
    NotAKmer {
        /// The query, shortened if it is long.
        text: String,
        /// Bases in a k-mer.
        length: KmerLength,
    },
    /// A key of a database that is none of its k-mers.
    #[error("{name} has the key {key}, which is not one of the {kind}: {problem}")]
    NoSuchKmer {
        /// The database.
        name: String,
        /// The key.
        key: u128,
        /// What it should be.
        kind: KmerKind,
        /// Why it is not.
        problem: &'static str,
    },
    /// A database in `.gpk` that is damaged, or none.
    #[error("{name} {cause}")]
    Database {
        /// The input.
        name: String,
        /// What is wrong with it.
        cause: Damage,
    },
    /// Pairs that are no k-mers, for the format of k-mers.
    #[error(
        "{}: .gpk is for k-mers, which have bases: use .gpumap, .parquet, .bin, .csv or .tsv",
        path.display()
    )]
    OnlyKmers {
        /// As given on the command line.
        path: PathBuf,
    },
    /// A format that cannot be read from a pipe.
    #[error("{name}: {format} is read from its end, so it must be a file")]
    NeedsFile {
        /// The input.
        name: String,
        /// Its format.
        format: Format,
    },
    /// A saved map that is damaged, of other types or none at all.
    #[error("{name} {}", words::of_file(cause))]
    Saved {
        /// The input.
        name: String,
        /// What is wrong with it.
        cause: gpumap::file::FileError,
    },
    /// A saved map whose keys are no unsigned integers.
    #[error(
        "{name} has keys that are {found}: save a map whose keys are unsigned integers, as all keys of gpumap are"
    )]
    NoUnsignedKeys {
        /// The input.
        name: String,
        /// What they are.
        found: &'static str,
    },
    /// A saved map with other values than requested.
    #[error("{name}: each value is a {found}: gpumap load --values says that")]
    OtherValues {
        /// The input.
        name: String,
        /// What it has.
        found: Values,
    },
    /// Values whose sum depends on the order in which they are added.
    #[error(
        "floating-point numbers are not summed, as a device adds in no fixed order: ask for min, max, first or last"
    )]
    FloatSum,
    /// A saved set, where pairs are needed.
    #[error("{name} is a set: it has no values")]
    NoValues {
        /// The input.
        name: String,
    },
    /// A file that is not Parquet, or broken, or compressed in a way that is not known.
    #[error("{name} {}", words::of_parquet(cause))]
    Parquet {
        /// The input.
        name: String,
        /// What the library said.
        cause: parquet::errors::ParquetError,
    },
    /// A Parquet file that is compressed in a way that is not read.
    #[error(
        "{name}: the column `{column}` is compressed by {codec}, which is not read: write it with Snappy, Zstandard or gzip"
    )]
    Codec {
        /// The input.
        name: String,
        /// The column, shortened if its name is long.
        column: String,
        /// How it is compressed.
        codec: &'static str,
    },
    /// A Parquet file in which it is not clear which columns are meant.
    #[error(
        "{name}: {}; it has {found}",
        if *expected == 1 {
            "a column named `key` is needed, or just one column"
        } else {
            "columns named `key` and `value` are needed, or just two columns"
        }
    )]
    Columns {
        /// The input.
        name: String,
        /// Columns wanted.
        expected: usize,
        /// Columns that there are.
        found: usize,
    },
    /// A column that was requested by its name and is not there.
    #[error("{name} has no column `{column}`; it has {}", if columns.is_empty() { "none" } else { columns })]
    NoColumn {
        /// The input.
        name: String,
        /// The name that was requested.
        column: String,
        /// Those that there are, shortened; empty if there is none.
        columns: String,
    },
    /// Two columns of the name that was requested.
    #[error("{name} has two columns `{column}`: give one of them another name")]
    ColumnTwice {
        /// The input.
        name: String,
        /// Their name.
        column: String,
    },
    /// Names of columns for a format that has none.
    #[error("{name}: columns of {format} have no names, leave --key and --value out")]
    NoNames {
        /// The input.
        name: String,
        /// Its format.
        format: Format,
    },
    /// A Parquet column of other numbers than requested, or of none.
    #[error("{name}: the column `{column}` is not of {expected}")]
    ColumnType {
        /// The input.
        name: String,
        /// The column, shortened if its name is long.
        column: String,
        /// What it should have.
        expected: &'static str,
    },
    /// A cell of a Parquet column that is no unsigned integer.
    #[error("{name}, row {row}: `{column}` {problem}")]
    Cell {
        /// The input.
        name: String,
        /// Counted from 1.
        row: u64,
        /// The column, shortened if its name is long.
        column: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A binary file that is no whole number of records.
    #[error(
        "{name} has {bytes} bytes, which is not a multiple of {record}: \
         {columns} little-endian u64 a record"
    )]
    OddLength {
        /// The input.
        name: String,
        /// Its length.
        bytes: u64,
        /// Bytes in a record.
        record: usize,
        /// Numbers in a record.
        columns: usize,
    },
    /// A row with too few or too many fields.
    #[error("{name}, line {line}: {found} fields where {expected} were expected")]
    Fields {
        /// The input.
        name: String,
        /// Counted from 1.
        line: u64,
        /// Fields in the row.
        found: usize,
        /// Fields that every row must have.
        expected: usize,
    },
    /// A field that is no number.
    #[error(
        "{name}, line {line}: {} is not {}",
        if field.is_empty() { "an empty field".to_owned() } else { format!("`{field}`") },
        match expected {
            Values::Unsigned => "an unsigned 64-bit integer",
            Values::Signed => "a signed 64-bit integer",
            Values::Float => "a floating-point number of 64 bits",
        }
    )]
    Number {
        /// The input.
        name: String,
        /// Counted from 1.
        line: u64,
        /// What it should be.
        expected: Values,
        /// The field, shortened if it is long.
        field: String,
    },
    /// One key with two values, and no rule given for that.
    #[error(
        "{name}: key {key} comes with the values {} and {}; \
         --duplicates or --aggregate says what to do with such keys",
        values[0],
        values[1]
    )]
    Conflict {
        /// The input.
        name: String,
        /// The key.
        key: u64,
        /// Two of its values, the smaller first.
        values: [String; 2],
    },
    /// An output could not be made or written.
    #[error("cannot write {}", output_name(path))]
    Write {
        /// As given on the command line.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Two outputs of one run, or an input and an output, are one file; or two inputs are `-`.
    #[error("{} is named twice on the command line", path.display())]
    SameFile {
        /// As given on the command line.
        path: PathBuf,
    },
    /// More distinct keys than `--capacity` allows.
    #[error(
        "the map of {capacity} pairs is full: give a larger --capacity, \
         or none, and the map grows with its input"
    )]
    CapacityTooSmall {
        /// What was requested.
        capacity: usize,
    },
    /// The map or its device failed.
    #[error("{doing}: {}", words::of_library(cause))]
    Map {
        /// What the program was about.
        doing: &'static str,
        /// What the library said.
        cause: gpumap::Error,
    },
    /// The run without arguments found a difference to the plain `HashMap`.
    #[error("the self-check failed: {0}")]
    SelfCheck(Mismatch),
}

/// What the self-check saw.
#[derive(Debug)]
pub enum Mismatch {
    /// Not as many distinct k-mers as expected.
    Distinct {
        /// In the `HashMap`.
        expected: usize,
        /// In the map.
        found: usize,
    },
    /// A spectrum of reads without two peaks.
    Peaks,
    /// A k-mer, or another key, with another count than expected; `None` is absent.
    Count {
        /// The key.
        key: String,
        /// In the `HashMap`.
        expected: Option<u64>,
        /// In the map.
        found: Option<u64>,
        /// The operation that gave it.
        by: &'static str,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: &Option<u64>| count.map_or("absent".to_owned(), |n| n.to_string());
        match self {
            Self::Distinct { expected, found } => {
                write!(f, "{found} distinct k-mers instead of {expected}")
            }
            Self::Peaks => f.write_str("the spectrum of the reads has no two peaks"),
            Self::Count {
                key,
                expected,
                found,
                by,
            } => write!(
                f,
                "{key} by {by}: {} instead of {}",
                count(found),
                count(expected)
            ),
        }
    }
}

impl Error {
    /// Wraps what the library says.
    pub fn while_doing(doing: &'static str) -> impl FnOnce(gpumap::Error) -> Self {
        move |cause| Self::Map { doing, cause }
    }

    /// Whether the reader of our output has gone away (`gpumap ... | head`), which is no failure.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Write { path, source }
            if path.as_os_str() == "-" && source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// An output in a sentence.
fn output_name(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard output".to_owned(),
        _ => path.display().to_string(),
    }
}

/// An error and its causes on one line, whatever line ends the causes contain, and with nothing that a terminal obeys:
/// names of files and parts of inputs are in it.
pub fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Some libraries repeat the cause in their own text.
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    printable(&text)
}

/// A text on one line, with control characters and others that have no shape escaped as in `\u{1b}`.
pub fn printable(text: &str) -> String {
    // What `escape_debug` escapes as well, for it to be read back.
    const MARKS: [char; 3] = ['\'', '"', '\\'];
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut line = String::new();
    for piece in words.join(" ").split_inclusive(MARKS) {
        let plain = piece.trim_end_matches(MARKS);
        line.extend(plain.escape_debug());
        line += &piece[plain.len()..];
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_follow_on_the_same_line() {
        let error = Error::Open {
            path: "a b.fa".into(),
            source: io::Error::other("first\n  second"),
        };
        assert_eq!(one_line(&error), "cannot open a b.fa: first second");
    }

    #[test]
    fn standard_output_is_called_so() {
        let error = |path: &str| Error::Write {
            path: path.into(),
            source: io::Error::other("full"),
        };
        assert_eq!(one_line(&error("-")), "cannot write standard output: full");
        assert_eq!(one_line(&error("./-")), "cannot write ./-: full");
    }

    /// Audit finding 16.
    #[test]
    fn nothing_of_an_input_reaches_the_terminal_as_a_command() {
        let error = Error::Number {
            name: "p\u{1b}]0;pwn\u{7}.csv".to_owned(),
            line: 1,
            expected: Values::Unsigned,
            field: "\u{1b}[31mX\u{9b}1m\u{202e}\0".to_owned(),
        };
        assert_eq!(
            one_line(&error),
            concat!(
                r"p\u{1b}]0;pwn\u{7}.csv, line 1: `\u{1b}[31mX\u{9b}1m\u{202e}\0` ",
                "is not an unsigned 64-bit integer"
            )
        );
        let kept = r#"größe 日本 e\u{301}'s "a\b" `c` 😀"#.replace(r"\u{301}", "\u{301}");
        assert_eq!(printable(&kept), kept);
        assert_eq!(printable(" a\r\n\tb\u{2028}c "), "a b c");
    }
}
