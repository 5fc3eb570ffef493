//! The formats of pairs and keys in files; the end of a name says which.
//!
//! - `.csv`, `.tsv`: one row a line, unsigned 64-bit integers, decimal or hexadecimal with `0x`.
//!   The first row is a header, and passed over, if none of its fields begins with a digit or a
//!   sign; a first row that is half numbers is an error rather than a header. Outputs have none.
//!   Behind it, `.gz`: packed by gzip, written by all cores ([`crate::gzip`]); read whatever the name is.
//! - `.bin`: nothing but little-endian `u64`s: key, value, key, value, ... (keys alone: key, key,
//!   ...). A length that is no whole number of records is an error.
//! - `.gpumap`: a saved map of the library ([`crate::saved`]), with numbers of 16 bytes too, the k-mers of more than 32 bases.
//! - `.gpk`: a database of k-mers ([`crate::gpk`]); a file, as it is read from its end. Only k-mers are written to it.
//! - `.parquet`: the columns `key` and `value` ([`crate::columns`]); a file, as it is read from its
//!   end. Numbers of 16 bytes are written to it.

use std::fmt;
use std::path::Path;

use clap::ValueEnum;

use crate::error::{Error, Result};
use crate::gpk;

/// The end of a name that says what the file is, in lower case and with its dot, and whether gzip's `.gz` follows it.
pub fn ending(path: &Path) -> (String, bool) {
    let last = |path: &Path| match path.extension() {
        Some(ending) => format!(".{}", ending.to_string_lossy().to_ascii_lowercase()),
        None => String::new(),
    };
    match last(path).as_str() {
        ".gz" => (last(path.file_stem().unwrap_or_default().as_ref()), true),
        ".svgz" => (".svg".to_owned(), true),
        ending => (ending.to_owned(), false),
    }
}

/// How numbers are laid out in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Fields between commas.
    Csv,
    /// Fields between tabs.
    Tsv,
    /// Little-endian `u64`s.
    Bin,
    /// A saved map of the library.
    Gpumap,
    /// A database of k-mers.
    Gpk,
    /// Parquet.
    Parquet,
}

impl Format {
    /// The format that was requested, or else the one that the end of a name says; `-` is TSV.
    pub fn of(path: &Path, asked: Option<Self>) -> Result<Self> {
        if let Some(format) = asked {
            return Ok(format);
        }
        if path.as_os_str() == "-" {
            return Ok(Self::Tsv);
        }
        Self::by_extension(path).ok_or_else(|| Error::UnknownFormat {
            path: path.to_owned(),
        })
    }

    /// The format that the end of a name says, if it says one. Text may be packed by gzip.
    pub fn by_extension(path: &Path) -> Option<Self> {
        let (ending, is_packed) = ending(path);
        let format = match ending.as_str() {
            ".csv" => Self::Csv,
            ".tsv" => Self::Tsv,
            ".bin" => Self::Bin,
            ".gpumap" => Self::Gpumap,
            ".gpk" => Self::Gpk,
            ".parquet" => Self::Parquet,
            _ => return None,
        };
        (format.is_text() || !is_packed).then_some(format)
    }

    /// The format that the first bytes of a file say, of which there are 8 if it is long enough. None begins like a number or a text.
    pub fn by_first_bytes(first: &[u8]) -> Option<Self> {
        match first {
            _ if first.starts_with(&gpk::MAGIC) => Some(Self::Gpk),
            _ if first.starts_with(b"\x89gpumap\n") => Some(Self::Gpumap),
            _ => None,
        }
    }

    /// Whether it is rows of text, in which a field may be empty.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv)
    }

    /// Whether it takes keys of so many bytes.
    pub fn takes(self, key_bytes: usize) -> bool {
        key_bytes <= size_of::<u64>() || self != Self::Bin
    }

    /// What stands between two fields of a row of text.
    pub fn delimiter(self) -> u8 {
        if self == Self::Csv { b',' } else { b'\t' }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Csv => ".csv",
            Self::Tsv => ".tsv",
            Self::Bin => ".bin",
            Self::Gpumap => ".gpumap",
            Self::Gpk => ".gpk",
            Self::Parquet => ".parquet",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_the_format() {
        for (name, format) in [
            ("-", Format::Tsv),
            ("a.csv", Format::Csv),
            ("a.b/c.TSV", Format::Tsv),
            ("a.csv.bin", Format::Bin),
            ("a.gpumap", Format::Gpumap),
            ("a.gpk", Format::Gpk),
            ("a.Parquet", Format::Parquet),
            ("a.csv.gz", Format::Csv),
            ("a.TSV.GZ", Format::Tsv),
        ] {
            assert_eq!(Format::of(Path::new(name), None).unwrap(), format);
            let asked = Format::of(Path::new(name), Some(Format::Csv));
            assert_eq!(asked.unwrap(), Format::Csv);
        }
        for name in [
            "a",
            "csv",
            ".csv",
            "a.gz",
            "a.bin.gz",
            "a.gpumap.gz",
            "a.gpk.gz",
            "a.csv.gz.gz",
            "a.csv.zst",
        ] {
            assert!(Format::of(Path::new(name), None).is_err(), "{name}");
        }
    }
}
