//! Rows to columns.

use std::io;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::NAMES;
use crate::output::Out;

/// Rows of a row group: what is kept in memory until it is written.
const GROUP: usize = 1 << 20;

/// Writes pairs as two columns, a row group at a time.
pub struct ColumnWriter<'a> {
    file: SerializedFileWriter<&'a mut Out>,
    waiting: [Vec<i64>; 2],
}

impl<'a> ColumnWriter<'a> {
    /// Begins the file.
    pub fn new(writer: &'a mut Out) -> io::Result<Self> {
        let unsigned = |name| {
            let column = Type::primitive_type_builder(name, PhysicalType::INT64)
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(Some(LogicalType::integer(64, false)));
            column.build().map(Arc::new)
        };
        let new = || {
            let columns = vec![unsigned(NAMES[0])?, unsigned(NAMES[1])?];
            let schema = Type::group_type_builder("pairs")
                .with_fields(columns)
                .build()?;
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                // Keys are unique, so a dictionary of them is only in the way.
                .set_column_dictionary_enabled(NAMES[0].into(), false)
                .set_created_by(concat!("gpumap ", env!("CARGO_PKG_VERSION")).to_owned())
                .build();
            SerializedFileWriter::new(writer, Arc::new(schema), Arc::new(properties))
        };
        Ok(Self {
            file: new().map_err(io_error)?,
            waiting: [Vec::new(), Vec::new()],
        })
    }

    /// Adds one row.
    pub fn write(&mut self, key: u64, value: u64) -> io::Result<()> {
        // The same bits: the column says that they are unsigned.
        self.waiting[0].push(key as i64);
        self.waiting[1].push(value as i64);
        if self.waiting[0].len() == GROUP {
            self.write_group().map_err(io_error)?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for numbers in &mut self.waiting {
            if let Some(mut column) = group.next_column()? {
                column
                    .typed::<Int64Type>()
                    .write_batch(numbers, None, None)?;
                column.close()?;
            }
            numbers.clear();
        }
        group.close().map(drop)
    }

    /// Writes what is left, and the end of the file.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.waiting[0].is_empty() {
            self.write_group().map_err(io_error)?;
        }
        self.file.close().map(drop).map_err(io_error)
    }
}

/// The system's own error where there is one: its kind tells a closed pipe from a full disk.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    }
}
