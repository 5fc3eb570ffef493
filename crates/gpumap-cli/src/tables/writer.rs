//! [`TableWriter`]: record batches to an output, as text with a header or as Parquet.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_csv::WriterBuilder;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use rayon::prelude::*;

use super::file::shortened;
use crate::columns::io_error;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::output::{Out, Staged};

/// Rows that a thread makes into text at once.
const ROWS: usize = 1 << 13;

/// Writes a table.
pub struct TableWriter<'a> {
    target: Target<'a>,
    failed: Box<dyn Fn(io::Error) -> Error>,
    written: u64,
}

enum Target<'a> {
    Text { out: &'a mut Out, delimiter: u8 },
    Columns(Box<ArrowWriter<&'a mut Out>>),
}

impl<'a> TableWriter<'a> {
    /// Begins a table of these columns, which [`check`] has seen.
    pub fn new(staged: &'a mut Staged, format: Format, schema: &SchemaRef) -> Result<Self> {
        let failed = Box::new(staged.failed());
        let out = staged.out();
        let target = match format {
            Format::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_created_by(concat!("gpumap ", env!("CARGO_PKG_VERSION")).to_owned())
                    .build();
                let options = ArrowWriterOptions::new().with_properties(properties);
                let writer =
                    ArrowWriter::try_new_with_options(out, SchemaRef::clone(schema), options);
                Target::Columns(Box::new(writer.map_err(|error| failed(io_error(error)))?))
            }
            _ => {
                let delimiter = format.delimiter();
                let header = text(
                    &RecordBatch::new_empty(SchemaRef::clone(schema)),
                    delimiter,
                    true,
                );
                header
                    .and_then(|header| out.write_all(&header))
                    .map_err(&failed)?;
                Target::Text { out, delimiter }
            }
        };
        Ok(Self {
            target,
            failed,
            written: 0,
        })
    }

    /// Adds rows.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = match &mut self.target {
            Target::Text { out, delimiter } => {
                let rows = batch.num_rows();
                let starts: Vec<usize> = (0..rows).step_by(ROWS).collect();
                let blocks = starts.into_par_iter().map(|start| {
                    let part = batch.slice(start, ROWS.min(rows - start));
                    text(&part, *delimiter, false)
                });
                let blocks: io::Result<Vec<Vec<u8>>> = blocks.collect();
                blocks.and_then(|blocks| out.append(&blocks))
            }
            Target::Columns(writer) => writer.write(batch).map_err(io_error),
        };
        written.map_err(&self.failed)?;
        self.written += batch.num_rows() as u64;
        Ok(())
    }

    /// Writes the end; returns how many rows the table has.
    pub fn finish(self) -> Result<u64> {
        if let Target::Columns(writer) = self.target {
            let closed = writer.close().map_err(io_error);
            closed.map_err(&self.failed)?;
        }
        Ok(self.written)
    }
}

/// Sees whether a format has the types of these columns, and whether their names differ.
pub fn check(name: &str, format: Format, schema: &Schema) -> Result<()> {
    for (at, field) in schema.fields().iter().enumerate() {
        if schema.fields()[..at]
            .iter()
            .any(|it| it.name() == field.name())
        {
            return Err(Error::ColumnTwice {
                name: name.to_owned(),
                column: shortened(field.name()),
            });
        }
        if format.is_text() && field.data_type().is_nested() {
            return Err(Error::TypeOfColumn {
                name: name.to_owned(),
                column: shortened(field.name()),
                found: shortened(&field.data_type().to_string()),
                problem: "text has no such fields: use .parquet, or leave it out",
            });
        }
    }
    Ok(())
}

/// Rows as text.
fn text(batch: &RecordBatch, delimiter: u8, header: bool) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut writer = WriterBuilder::new()
        .with_header(header)
        .with_delimiter(delimiter)
        .build(&mut text);
    let written = writer.write(batch);
    drop(writer);
    match written {
        Ok(()) => Ok(text),
        Err(ArrowError::IoError(_, error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}
