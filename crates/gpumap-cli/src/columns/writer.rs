//! Rows to columns: threads encode row groups, which are then put one after the other.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::writer::{ColumnCloseResult, ColumnWriterImpl};
use parquet::data_type::{
    ByteArray, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{SchemaDescriptor, Type};

use super::{NAMES, is_wide};
use crate::kmer::Code;
use crate::values::Values;

/// What is the same in all files.
struct Layout {
    schema: SchemaDescriptor,
    properties: WriterPropertiesPtr,
}

impl Layout {
    /// That of keys of this type.
    fn of<C>(values: Values) -> Result<&'static Self, ParquetError> {
        type Made = LazyLock<Result<Layout, ParquetError>>;
        type Layouts = [Made; 3];
        static NARROW: Layouts = [
            LazyLock::new(|| Layout::new::<u64>(Values::Unsigned)),
            LazyLock::new(|| Layout::new::<u64>(Values::Signed)),
            LazyLock::new(|| Layout::new::<u64>(Values::Float)),
        ];
        static WIDE: Layouts = [
            LazyLock::new(|| Layout::new::<u128>(Values::Unsigned)),
            LazyLock::new(|| Layout::new::<u128>(Values::Signed)),
            LazyLock::new(|| Layout::new::<u128>(Values::Float)),
        ];
        let [unsigned, signed, float] = match is_wide::<C>() {
            false => &NARROW,
            true => &WIDE,
        };
        let layout = match values {
            Values::Unsigned => unsigned,
            Values::Signed => signed,
            Values::Float => float,
        };
        let damaged = |error: &ParquetError| ParquetError::General(error.to_string());
        layout.as_ref().map_err(damaged)
    }

    fn new<C>(values: Values) -> Result<Self, ParquetError> {
        let column = |name, values| {
            let (physical, logical) = match values {
                Values::Unsigned => (PhysicalType::INT64, Some(LogicalType::integer(64, false))),
                Values::Signed => (PhysicalType::INT64, Some(LogicalType::integer(64, true))),
                Values::Float => (PhysicalType::DOUBLE, None),
            };
            let column = Type::primitive_type_builder(name, physical)
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(logical);
            column.build().map(Arc::new)
        };
        let keys = match is_wide::<C>() {
            false => column(NAMES[0], Values::Unsigned)?,
            true => {
                let bytes = PhysicalType::FIXED_LEN_BYTE_ARRAY;
                let column = Type::primitive_type_builder(NAMES[0], bytes)
                    .with_length(size_of::<C>() as i32)
                    .with_repetition(Repetition::REQUIRED);
                column.build().map(Arc::new)?
            }
        };
        let columns = vec![keys, column(NAMES[1], values)?];
        let schema = Type::group_type_builder("pairs")
            .with_fields(columns)
            .build()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            // Keys are unique, so a dictionary of them is only in the way.
            .set_column_dictionary_enabled(NAMES[0].into(), false)
            .set_created_by(concat!("gpumap ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        Ok(Self {
            schema: SchemaDescriptor::new(Arc::new(schema)),
            properties: Arc::new(properties),
        })
    }
}

/// Keys with the highest byte first: views of one array.
fn byte_arrays<C: Code>(keys: &[C]) -> Vec<FixedLenByteArray> {
    let mut bytes = Vec::with_capacity(size_of_val(keys));
    for key in keys {
        bytes.extend_from_slice(key.to_be_bytes().as_ref());
    }
    let bytes = Bytes::from(bytes);
    let places = (0..bytes.len()).step_by(size_of::<C>());
    let arrays = places.map(|place| ByteArray::from(bytes.slice(place..place + size_of::<C>())));
    arrays.map(FixedLenByteArray::from).collect()
}

/// A row group as bytes, one of pairs or none.
pub struct Group {
    columns: Vec<(Bytes, ColumnCloseResult)>,
    rows: u64,
}

impl Group {
    /// Encodes pairs, as many keys as values.
    pub fn of<C: Code>(keys: &[C], values: &[u64], kind: Values) -> io::Result<Self> {
        let encode = || {
            let layout = Layout::of::<C>(kind)?;
            // They are the same bits: the column says what they are.
            let integers = Self::column::<Int64Type>;
            let keys = match is_wide::<C>() {
                false => integers(layout, 0, bytemuck::cast_slice(keys))?,
                true => Self::column::<FixedLenByteArrayType>(layout, 0, &byte_arrays(keys))?,
            };
            let values = match kind {
                Values::Unsigned | Values::Signed => {
                    integers(layout, 1, bytemuck::cast_slice(values))?
                }
                Values::Float => {
                    Self::column::<DoubleType>(layout, 1, bytemuck::cast_slice(values))?
                }
            };
            Ok(vec![keys, values])
        };
        Ok(Self {
            columns: encode().map_err(io_error)?,
            rows: keys.len() as u64,
        })
    }

    fn column<T: DataType>(
        layout: &Layout,
        place: usize,
        numbers: &[T::T],
    ) -> Result<(Bytes, ColumnCloseResult), ParquetError> {
        let mut bytes = TrackedWrite::new(Vec::new());
        let pages = Box::new(SerializedPageWriter::new(&mut bytes));
        let (column, properties) = (layout.schema.column(place), Arc::clone(&layout.properties));
        let mut writer = ColumnWriterImpl::<T>::new(column, properties, pages);
        writer.write_batch(numbers, None, None)?;
        let closed = writer.close()?;
        Ok((bytes.into_inner()?.into(), closed))
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

/// Writes pairs as two columns, a row group at a time.
pub struct ColumnWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
}

impl<W: Write + Send> ColumnWriter<W> {
    /// Begins the file, of keys of this type.
    pub fn new<C: Code>(out: W, values: Values) -> io::Result<Self> {
        let new = || {
            let layout = Layout::of::<C>(values)?;
            let schema = layout.schema.root_schema_ptr();
            SerializedFileWriter::new(out, schema, Arc::clone(&layout.properties))
        };
        let file = new().map_err(io_error)?;
        Ok(Self { file })
    }

    /// Adds a row group, if it has rows.
    pub fn append(&mut self, group: Group) -> io::Result<()> {
        if group.rows == 0 {
            return Ok(());
        }
        let append = || {
            let mut writer = self.file.next_row_group()?;
            for (bytes, closed) in group.columns {
                writer.append_column(&bytes, closed)?;
            }
            writer.close().map(drop)
        };
        append().map_err(io_error)
    }

    /// Writes the end of the file.
    pub fn finish(self) -> io::Result<()> {
        self.file.close().map(drop).map_err(io_error)
    }
}

/// The system's own error where there is one: its kind distinguishes a closed pipe from a full
/// disk.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    }
}
