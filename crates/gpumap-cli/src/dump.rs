//! Writing what a table holds: rows of a key and a value, in the formats of [`crate::format`].
//!
//! Text has no header, so that `jellyfish dump -c -t` writes the same lines for k-mers and a dump
//! of numbers reads back as it is.

use std::io::{self, Write};

use crate::columns::ColumnWriter;
use crate::format::Format;
use crate::kmer::{Kmer, KmerLength, MAX_LENGTH};
use crate::output::Out;
use crate::progress::Progress;
use crate::saved::SavedWriter;

/// How the keys are written in text; other formats have their bits either way.
#[derive(Clone, Copy, Debug)]
pub enum KeyStyle {
    /// In decimal.
    Number,
    /// As the bases of a k-mer of this length.
    Kmer(KmerLength),
}

/// What a table holds, in the order in which it came out, or sorted by key.
#[derive(Clone, Debug, Default)]
pub struct Pairs(Vec<(u64, u64)>);

impl Pairs {
    /// Joins the two columns of `retrieve_all`.
    pub fn new(keys: Vec<u64>, values: Vec<u64>) -> Self {
        Self(keys.into_iter().zip(values).collect())
    }

    /// Orders by key, which makes outputs of two runs comparable byte by byte.
    pub fn sort(&mut self) {
        // Keys are unique, so nothing is left to chance.
        self.0.sort_unstable();
    }

    /// The pairs.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Writes all pairs.
    pub fn write(
        &self,
        writer: &mut Out,
        format: Format,
        style: KeyStyle,
        progress: &Progress,
    ) -> io::Result<()> {
        progress.start_pairs("writing", self.0.len());
        let mut rows = RowWriter::new(writer, format, self.0.len())?;
        for chunk in self.0.chunks(1 << 14) {
            for &(key, value) in chunk {
                rows.write(key, value, style)?;
            }
            progress.advance(chunk.len());
        }
        rows.finish()
    }
}

/// Writes keys in the given order with the values found for them; none leaves its field empty.
/// Text only.
pub fn write_found(
    writer: &mut Out,
    format: Format,
    keys: &[u64],
    values: &[Option<u64>],
) -> io::Result<()> {
    let mut rows = text_writer(writer, format);
    for row in keys.iter().zip(values) {
        rows.serialize(row).map_err(write_error)?;
    }
    rows.flush()
}

fn text_writer(writer: &mut Out, format: Format) -> csv::Writer<&mut Out> {
    csv::WriterBuilder::new()
        .delimiter(format.delimiter())
        .has_headers(false)
        .from_writer(writer)
}

/// The system's own error where there is one: its kind tells a closed pipe from a full disk.
fn write_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        kind => io::Error::other(format!("{kind:?}")),
    }
}

/// Writes pairs one by one in any format.
pub enum RowWriter<'a> {
    /// Lines.
    Text(Box<csv::Writer<&'a mut Out>>),
    /// Numbers.
    Bin(&'a mut Out),
    /// A saved map.
    Saved(Box<SavedWriter<'a>>),
    /// Parquet.
    Columns(Box<ColumnWriter<'a>>),
}

impl<'a> RowWriter<'a> {
    /// Begins an output of about so many pairs.
    pub fn new(writer: &'a mut Out, format: Format, pairs: usize) -> io::Result<Self> {
        Ok(match format {
            Format::Bin => Self::Bin(writer),
            Format::Csv | Format::Tsv => Self::Text(Box::new(text_writer(writer, format))),
            Format::Gpumap => Self::Saved(Box::new(SavedWriter::new(writer, pairs)?)),
            Format::Parquet => Self::Columns(Box::new(ColumnWriter::new(writer)?)),
        })
    }

    /// Writes one pair.
    pub fn write(&mut self, key: u64, value: u64, style: KeyStyle) -> io::Result<()> {
        match (self, style) {
            (Self::Text(rows), KeyStyle::Number) => {
                rows.serialize((key, value)).map_err(write_error)?;
            }
            (Self::Text(rows), KeyStyle::Kmer(length)) => {
                let mut buffer = [0; MAX_LENGTH as usize];
                let text = Kmer::from_code(key).text(length, &mut buffer);
                rows.serialize((text, value)).map_err(write_error)?;
            }
            (Self::Bin(writer), _) => {
                writer.write_all(&key.to_le_bytes())?;
                writer.write_all(&value.to_le_bytes())?;
            }
            (Self::Saved(writer), _) => writer.write(key, value)?,
            (Self::Columns(writer), _) => writer.write(key, value)?,
        }
        Ok(())
    }

    /// Writes what comes at the end.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Text(mut rows) => rows.flush(),
            Self::Bin(_) => Ok(()),
            Self::Saved(writer) => writer.finish(),
            Self::Columns(writer) => writer.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format, style: KeyStyle) -> Vec<u8> {
        let mut pairs = Pairs::new(vec![3, 1, 0], vec![u64::MAX, 5, 6]);
        pairs.sort();
        let mut bytes = Vec::new();
        pairs
            .write(&mut bytes, format, style, &Progress::hidden())
            .unwrap();
        bytes
    }

    #[test]
    fn rows_in_every_format() {
        let length = KmerLength::new(2).unwrap();
        assert_eq!(
            written(Format::Csv, KeyStyle::Number),
            b"0,6\n1,5\n3,18446744073709551615\n"
        );
        assert_eq!(
            written(Format::Tsv, KeyStyle::Kmer(length)),
            b"AA\t6\nAC\t5\nAT\t18446744073709551615\n"
        );
        let bin: Vec<u8> = [0, 6, 1, 5, 3, u64::MAX]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        assert_eq!(written(Format::Bin, KeyStyle::Kmer(length)), bin);
    }

    #[test]
    fn a_key_that_was_not_found_has_an_empty_field() {
        let mut bytes = Vec::new();
        write_found(&mut bytes, Format::Tsv, &[7, 8], &[None, Some(9)]).unwrap();
        assert_eq!(bytes, b"7\t\n8\t9\n");
    }
}
