//! What is wrong with an input that is not FASTA or FASTQ, and in which line.

/// Why an input cannot be read as FASTA or FASTQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct Malformed {
    /// Counted from 1.
    pub line: u64,
    /// What is wrong there.
    pub problem: Problem,
}

impl Malformed {
    /// The same where so many lines more come before.
    pub fn after(self, lines: u64) -> Self {
        let line = self.line + lines;
        Self { line, ..self }
    }
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The first letter of the input is of another format.
    #[error("FASTA begins with `>` and FASTQ with `@`, not with `{}`", char::from(*.first))]
    UnknownFormat {
        /// The letter.
        first: u8,
    },
    /// A line of a FASTA sequence that is of FASTQ.
    #[error(
        "no line of a FASTA sequence begins with `{}`: if FASTQ follows FASTA in one file, count them as two files",
        char::from(*.first)
    )]
    FastqInFasta {
        /// What it begins with.
        first: u8,
    },
    /// A record of FASTA where one of FASTQ begins.
    #[error(
        "a FASTQ record begins with `@`, not with `>`: if FASTA follows FASTQ in one file, count them as two files"
    )]
    FastaInFastq,
    /// Something else where a record of FASTQ begins.
    #[error(
        "a FASTQ record begins with `@`, not with `{}`: the record before it may have too few or too many qualities",
        char::from(*.first)
    )]
    NoRecord {
        /// What it begins with.
        first: u8,
    },
    /// A line of a FASTQ sequence that is none.
    #[error(
        "a line that begins with `{}` follows a FASTQ sequence, where one with `+` was expected",
        char::from(*.first)
    )]
    NoSeparator {
        /// What it begins with.
        first: u8,
    },
    /// A record of FASTQ with more qualities than letters.
    #[error("the FASTQ record that begins here has {letters} letters and {qualities} qualities")]
    UnequalLengths {
        /// Letters of the sequence.
        letters: u64,
        /// Letters of the lines of qualities.
        qualities: u64,
    },
    /// A record of FASTQ at the end of the input that goes no further than its sequence.
    #[error("the FASTQ record that begins here ends before its line with `+`")]
    CutOffInSequence,
    /// A record of FASTQ at the end of the input with fewer qualities than letters.
    #[error(
        "the FASTQ record that begins here has {letters} letters, and the input ends after {qualities} qualities"
    )]
    CutOffInQualities {
        /// Letters of the sequence.
        letters: u64,
        /// Letters of the lines of qualities.
        qualities: u64,
    },
}
