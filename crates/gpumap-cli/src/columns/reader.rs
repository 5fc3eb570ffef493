//! Columns to rows.

use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, LogicalType, Type as PhysicalType};
use parquet::column::page::PageReader;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use super::packed::{PackedPages, Packing};
use super::pages::{PageFile, PageTooLarge};
use super::{NAMES, is_wide};
use crate::error::{Error, Result};
use crate::kmer::Code;
use crate::values::Values;

/// Rows that are read at a time, of each column.
const BATCH: usize = 1 << 14;

/// Reads the first `N` of the two columns, or those of the given names, and hands them to `take` row by row. The first is
/// of unsigned integers, or of their bytes where no integer of Parquet has as many as `C`, and the second of `values`. No page
/// may have more than `most` bytes.
pub fn read<C: Code, const N: usize>(
    name: &str,
    file: File,
    names: Option<[&str; 2]>,
    values: Values,
    most: u64,
    take: &mut impl FnMut(C, u64) -> Result<()>,
) -> Result<()> {
    let failed = |source| in_file(name)(source);
    let open = |place, kind, group: &RowGroupMetaData| {
        let file = file.try_clone().map_err(|error| failed(error.into()))?;
        Column::open(name, file, most, group, place, kind)
    };
    let keys = match is_wide::<C>() {
        false => Kind::Number(Values::Unsigned),
        true => Kind::Wide(size_of::<C>()),
    };
    let reader = open_file(name, &file)?;
    let places = places::<N>(
        name,
        names,
        reader.metadata().file_metadata().schema_descr(),
    )?;
    let mut first_row = 0;
    for group in reader.metadata().row_groups() {
        let mut columns = Vec::with_capacity(N);
        for (place, kind) in places.into_iter().zip([keys, Kind::Number(values)]) {
            columns.push(guarded(name, || open(place, kind, group))?);
        }
        let mut missing = u64::try_from(group.num_rows()).unwrap_or(0);
        loop {
            let mut rows = None;
            for column in &mut columns {
                let read = guarded(name, || column.read(name, first_row))?;
                if *rows.get_or_insert(read) != read {
                    return Err(failed(damaged()));
                }
            }
            let rows = rows.unwrap_or(0);
            missing = missing
                .checked_sub(rows as u64)
                .ok_or_else(|| failed(damaged()))?;
            if rows == 0 {
                break;
            }
            for row in 0..rows {
                let value = columns[N - 1].numbers[row] as u64;
                take(C::of_number(columns[0].numbers[row]), value)?;
            }
            first_row += rows as u64;
        }
        if missing != 0 {
            return Err(failed(damaged()));
        }
    }
    Ok(())
}

/// Whether the keys of a file are byte arrays of this length, or may be, and not integers.
pub fn has_keys_of(name: &str, file: &File, length: usize) -> Result<bool> {
    let reader = open_file(name, file)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let [keys, _] = places(name, None, schema)?;
    Ok(may_have_bytes(&schema.column(keys), length))
}

fn open_file(name: &str, file: &File) -> Result<SerializedFileReader<File>> {
    guarded(name, || {
        let file = file.try_clone().map_err(ParquetError::from);
        file.and_then(SerializedFileReader::new)
            .map_err(in_file(name))
    })
}

/// Where the wanted columns are.
fn places<const N: usize>(
    name: &str,
    names: Option<[&str; 2]>,
    schema: &SchemaDescriptor,
) -> Result<[usize; N]> {
    let columns = schema.columns();
    if let Some(names) = names {
        let columns: Vec<&str> = columns.iter().map(|column| column.name()).collect();
        return named_places(name, names, &columns);
    }
    let mut by_name = Vec::with_capacity(N);
    for wanted in NAMES.into_iter().take(N) {
        let is_it = |column: &Arc<ColumnDescriptor>| column.name().eq_ignore_ascii_case(wanted);
        by_name.extend(only_place(name, wanted, columns.iter().map(is_it))?);
    }
    if let Ok(places) = by_name.try_into() {
        return Ok(places);
    }
    if columns.len() == N {
        return Ok(std::array::from_fn(|place| place));
    }
    Err(Error::Columns {
        name: name.to_owned(),
        expected: N,
        found: columns.len(),
    })
}

/// Where the columns of these names are among others.
pub fn named_places<const N: usize>(
    file: &str,
    names: [&str; 2],
    columns: &[&str],
) -> Result<[usize; N]> {
    let mut places = [0; N];
    for (place, wanted) in places.iter_mut().zip(names) {
        let are_it = columns.iter().map(|column| *column == wanted);
        *place = only_place(file, wanted, are_it)?.ok_or_else(|| Error::NoColumn {
            name: file.to_owned(),
            column: wanted.to_owned(),
            columns: shortened(columns),
        })?;
    }
    Ok(places)
}

/// The place of the only column that is the wanted one, if there is any.
fn only_place(
    file: &str,
    wanted: &str,
    are_it: impl Iterator<Item = bool>,
) -> Result<Option<usize>> {
    let mut places = are_it
        .enumerate()
        .filter_map(|(place, is_it)| is_it.then_some(place));
    match (places.next(), places.next()) {
        (_, Some(_)) => Err(Error::ColumnTwice {
            name: file.to_owned(),
            column: wanted.to_owned(),
        }),
        (place, None) => Ok(place),
    }
}

/// Names of columns, as far as they go on a line.
fn shortened(columns: &[&str]) -> String {
    /// Characters at most.
    const MOST: usize = 80;
    let quoted: Vec<String> = columns.iter().map(|name| format!("`{name}`")).collect();
    let text = quoted.join(", ");
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// What the cells of a column are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number(Values),
    /// Unsigned integers, or byte arrays of this length with the highest byte first.
    Wide(usize),
}

impl Kind {
    /// What integers and floating-point numbers are.
    fn values(self) -> Values {
        match self {
            Self::Number(values) => values,
            Self::Wide(_) => Values::Unsigned,
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Self::Number(Values::Float) => "floating-point numbers",
            Self::Number(Values::Unsigned | Values::Signed) => "integers of 32 or 64 bits",
            Self::Wide(_) => "integers of 32 or 64 bits or byte arrays of a k-mer's length",
        }
    }
}

/// A column of a row group that is being read.
struct Column {
    reader: Numbers,
    name: String,
    values: Values,
    /// Whether its bits are to be taken as they are.
    is_unsigned: bool,
    is_optional: bool,
    numbers: Vec<u128>,
    /// Bytes of a page at most.
    most: u64,
}

enum Numbers {
    Narrow(ColumnReaderImpl<Int32Type>),
    Wide(ColumnReaderImpl<Int64Type>),
    Float(ColumnReaderImpl<FloatType>),
    Double(ColumnReaderImpl<DoubleType>),
    Bytes(ColumnReaderImpl<FixedLenByteArrayType>),
    /// Byte arrays of any lengths, as other programs write those of one length.
    AnyBytes(ColumnReaderImpl<ByteArrayType>),
}

impl Column {
    fn open(
        file: &str,
        bytes: File,
        most: u64,
        group: &RowGroupMetaData,
        place: usize,
        kind: Kind,
    ) -> Result<Self> {
        let descriptor = group.schema_descr().column(place);
        let unsuitable = || Error::ColumnType {
            name: file.to_owned(),
            column: descriptor.name().chars().take(40).collect(),
            expected: kind.expected(),
        };
        if let Some(codec) = unknown_codec(group.column(place).compression()) {
            return Err(Error::Codec {
                name: file.to_owned(),
                column: descriptor.name().chars().take(40).collect(),
                codec,
            });
        }
        let values = kind.values();
        let is_bytes = matches!(kind, Kind::Wide(length) if may_have_bytes(&descriptor, length));
        let is_unsigned = match values {
            _ if is_bytes => Some(true),
            Values::Float => is_flat(&descriptor).then_some(false),
            Values::Unsigned | Values::Signed => signedness(&descriptor),
        };
        let is_unsigned = is_unsigned.ok_or_else(unsuitable)?;
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let pages = page_reader(bytes, group.column(place), rows, most).map_err(in_file(file))?;
        let is_float = values == Values::Float;
        let reader = match get_column_reader(Arc::clone(&descriptor), pages) {
            ColumnReader::Int32ColumnReader(reader) if !is_float => Numbers::Narrow(reader),
            ColumnReader::Int64ColumnReader(reader) if !is_float => Numbers::Wide(reader),
            ColumnReader::FloatColumnReader(reader) if is_float => Numbers::Float(reader),
            ColumnReader::DoubleColumnReader(reader) if is_float => Numbers::Double(reader),
            ColumnReader::FixedLenByteArrayColumnReader(reader) if is_bytes => {
                Numbers::Bytes(reader)
            }
            ColumnReader::ByteArrayColumnReader(reader) if is_bytes => Numbers::AnyBytes(reader),
            _ => return Err(unsuitable()),
        };
        Ok(Self {
            reader,
            name: descriptor.name().chars().take(40).collect(),
            values,
            is_unsigned,
            is_optional: descriptor.max_def_level() > 0,
            numbers: Vec::with_capacity(BATCH),
            most,
        })
    }

    /// Reads the next numbers, and returns how many.
    fn read(&mut self, file: &str, first_row: u64) -> Result<usize> {
        let cell = |row: usize, problem| Error::Cell {
            name: file.to_owned(),
            row: first_row + row as u64 + 1,
            column: self.name.clone(),
            problem,
        };
        let failed = |error| in_page(file, first_row, self.most, error);
        self.numbers.clear();
        let is_optional = self.is_optional;
        let whole = |number: i64| u128::from(number as u64);
        let (bits, present): (Vec<u128>, _) = match &mut self.reader {
            Numbers::Narrow(reader) => {
                let (values, present) = records(reader, is_optional).map_err(failed)?;
                let widen = |value: i32| match self.is_unsigned {
                    true => whole(i64::from(value as u32)),
                    false => whole(i64::from(value)),
                };
                (values.into_iter().map(widen).collect(), present)
            }
            Numbers::Wide(reader) => {
                let (values, present) = records(reader, is_optional).map_err(failed)?;
                (values.into_iter().map(whole).collect(), present)
            }
            Numbers::Float(reader) => {
                let (values, present) = records(reader, is_optional).map_err(failed)?;
                let bits = |value| u128::from(f64::from(value).to_bits());
                (values.into_iter().map(bits).collect(), present)
            }
            Numbers::Double(reader) => {
                let (values, present) = records(reader, is_optional).map_err(failed)?;
                let bits = |value: f64| u128::from(value.to_bits());
                (values.into_iter().map(bits).collect(), present)
            }
            Numbers::Bytes(reader) => {
                let (arrays, present) = records(reader, is_optional).map_err(failed)?;
                let bits = |array: &FixedLenByteArray| number_of(array.data());
                (arrays.iter().map(bits).collect(), present)
            }
            Numbers::AnyBytes(reader) => {
                let (arrays, present) = records(reader, is_optional).map_err(failed)?;
                let has_all = |array: &ByteArray| array.len() == size_of::<u128>();
                if let Some(row) = arrays.iter().position(|array| !has_all(array)) {
                    return Err(cell(row, "is a byte array of another length than 16"));
                }
                let bits = |array: &ByteArray| number_of(array.data());
                (arrays.iter().map(bits).collect(), present)
            }
        };
        if let Some(row) = present.iter().position(|&level| level == 0) {
            return Err(cell(row, "is missing"));
        }
        for (row, bits) in bits.into_iter().enumerate() {
            // Of byte arrays, which are unsigned, this means nothing.
            let is_negative = (bits as i64) < 0;
            match self.values {
                Values::Unsigned if is_negative && !self.is_unsigned => {
                    return Err(cell(
                        row,
                        "is negative: --values signed takes that as a value",
                    ));
                }
                Values::Signed if is_negative && self.is_unsigned => {
                    return Err(cell(row, "is too large for a signed integer"));
                }
                _ => self.numbers.push(bits),
            }
        }
        Ok(self.numbers.len())
    }
}

/// What a compression that is not read is called.
fn unknown_codec(compression: Compression) -> Option<&'static str> {
    match compression {
        Compression::UNCOMPRESSED
        | Compression::SNAPPY
        | Compression::ZSTD(_)
        | Compression::GZIP(_) => None,
        Compression::LZO => Some("LZO"),
        Compression::BROTLI(_) => Some("Brotli"),
        Compression::LZ4 | Compression::LZ4_RAW => Some("LZ4"),
    }
}

/// The pages of a column of a row group, of which none may have more than `most` bytes.
fn page_reader(
    file: File,
    column: &ColumnChunkMetaData,
    rows: usize,
    most: u64,
) -> Result<Box<dyn PageReader>, ParquetError> {
    let packing = Packing::of(column.compression());
    let pages = Arc::new(PageFile::new(file, most, packing.is_none()));
    let Some(packing) = packing else {
        let pages = SerializedPageReader::new(pages, column, rows, None)?;
        return Ok(Box::new(pages));
    };
    let packed = column.clone().into_builder();
    let packed = packed.set_compression(Compression::UNCOMPRESSED).build()?;
    let packed = SerializedPageReader::new(pages, &packed, rows, None)?;
    Ok(Box::new(PackedPages::new(Box::new(packed), packing, most)))
}

/// Names the file in an error of the library.
fn in_file(name: &str) -> impl FnOnce(ParquetError) -> Error + '_ {
    move |cause| Error::Parquet {
        name: name.to_owned(),
        cause,
    }
}

/// An error of a page, in or after a row.
fn in_page(name: &str, first_row: u64, most: u64, error: ParquetError) -> Error {
    match &error {
        ParquetError::External(cause) => match cause.downcast_ref::<PageTooLarge>() {
            Some(&PageTooLarge { bytes }) => Error::PageTooLarge {
                name: name.to_owned(),
                row: first_row + 1,
                bytes,
                most,
            },
            None => in_file(name)(error),
        },
        _ => in_file(name)(error),
    }
}

/// Runs what calls the library, which panics at some damaged files: an error like the others.
fn guarded<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    // Without a word: errors are one line. No other thread works now.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(hook);
    outcome.unwrap_or_else(|_| Err(in_file(name)(damaged())))
}

fn damaged() -> ParquetError {
    ParquetError::General("its pages do not fit together".to_owned())
}

/// The next values, and for each row of an optional column whether it has one.
fn records<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    is_optional: bool,
) -> Result<(Vec<T::T>, Vec<i16>), ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    reader.read_records(BATCH, is_optional.then_some(&mut levels), None, &mut values)?;
    Ok((values, levels))
}

/// Whether a column has at most one value a row.
fn is_flat(column: &ColumnDescriptor) -> bool {
    column.max_rep_level() == 0 && column.max_def_level() <= 1
}

/// The number of which these are the bytes, the highest first.
fn number_of(bytes: &[u8]) -> u128 {
    let bytes = bytes.iter();
    bytes.fold(0, |number, &byte| number << 8 | u128::from(byte))
}

/// Whether a column has one byte array a row, and all may be of this length: other programs do not say that they are.
fn may_have_bytes(column: &ColumnDescriptor, length: usize) -> bool {
    // Texts, decimals, UUIDs and the like are no k-mers.
    let is_plain =
        column.logical_type_ref().is_none() && column.converted_type() == ConvertedType::NONE;
    is_plain
        && is_flat(column)
        && match column.physical_type() {
            PhysicalType::FIXED_LEN_BYTE_ARRAY => {
                usize::try_from(column.type_length()) == Ok(length)
            }
            PhysicalType::BYTE_ARRAY => true,
            _ => false,
        }
}

/// Whether a column has unsigned integers; none if it has anything but one integer a row.
fn signedness(column: &ColumnDescriptor) -> Option<bool> {
    let integers = matches!(
        column.physical_type(),
        PhysicalType::INT32 | PhysicalType::INT64
    );
    if !integers || !is_flat(column) {
        return None;
    }
    if let Some(logical) = column.logical_type_ref() {
        return match logical {
            LogicalType::Integer(integer) => Some(!integer.is_signed),
            _ => None,
        };
    }
    match column.converted_type() {
        ConvertedType::UINT_8
        | ConvertedType::UINT_16
        | ConvertedType::UINT_32
        | ConvertedType::UINT_64 => Some(true),
        ConvertedType::NONE
        | ConvertedType::INT_8
        | ConvertedType::INT_16
        | ConvertedType::INT_32
        | ConvertedType::INT_64 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::columns::{ColumnWriter, Group};

    /// Fault P7: what other programs make of keys of 16 bytes.
    #[test]
    fn byte_arrays_of_no_fixed_length_are_keys_too() {
        use parquet::file::properties::WriterProperties;
        use parquet::file::writer::SerializedFileWriter;
        use parquet::schema::parser::parse_message_type;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let keys: [u128; 4] = [0, 1 << 127 | 3, 7, u128::MAX];
        let write = |column: &str, keys: &[Vec<u8>], has_dictionary| {
            let message = format!("message m {{ {column} key; required int64 value; }}");
            let schema = Arc::new(parse_message_type(&message).unwrap());
            let properties = WriterProperties::builder().set_dictionary_enabled(has_dictionary);
            let properties = Arc::new(properties.build());
            let file = File::create(&path).unwrap();
            let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
            let mut group = writer.next_row_group().unwrap();
            let keys: Vec<ByteArray> = keys.iter().cloned().map(ByteArray::from).collect();
            let levels = column.starts_with("optional").then(|| vec![1; keys.len()]);
            let mut column = group.next_column().unwrap().unwrap();
            let typed = column.typed::<ByteArrayType>();
            typed.write_batch(&keys, levels.as_deref(), None).unwrap();
            column.close().unwrap();
            let mut column = group.next_column().unwrap().unwrap();
            let values: Vec<i64> = (5..).take(keys.len()).collect();
            let typed = column.typed::<Int64Type>();
            typed.write_batch(&values, None, None).unwrap();
            column.close().unwrap();
            group.close().unwrap();
            writer.close().unwrap();
        };
        let read = || {
            let file = File::open(&path).unwrap();
            let is_wide = has_keys_of("a.parquet", &file, 16).unwrap();
            let mut rows = Vec::new();
            let take = &mut |key: u128, value| {
                rows.push((key, value));
                Ok(())
            };
            let name = "a.parquet";
            let read = read::<_, 2>(name, file, None, Values::Unsigned, 1 << 20, take);
            read.map(|()| (is_wide, rows))
        };
        let bytes = keys.map(|key| key.to_be_bytes().to_vec());
        for column in ["required binary", "optional binary"] {
            for has_dictionary in [true, false] {
                write(column, &bytes, has_dictionary);
                let expected = keys.into_iter().zip(5..).collect();
                assert_eq!(read().unwrap(), (true, expected), "{column}");
            }
        }
        let short = [bytes[0].clone(), bytes[1][..15].to_vec()];
        write("required binary", &short, false);
        let error = read().unwrap_err().to_string();
        assert!(error.contains("row 2: `key`"), "{error}");
        assert!(error.contains("another length than 16"), "{error}");
    }

    #[test]
    fn damaged_files_are_errors_or_other_numbers_but_no_panics() {
        damaged_files_of::<u64>();
        damaged_files_of::<u128>();
    }

    fn damaged_files_of<C: Code>() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let mut good = Vec::new();
        let mut writer = ColumnWriter::new::<C>(&mut good, Values::Unsigned).unwrap();
        let keys: Vec<C> = (0..100).map(C::of_number).collect();
        let values: Vec<u64> = (0..100).map(|i| i % 3).collect();
        writer
            .append(Group::of(&keys, &values, Values::Unsigned).unwrap())
            .unwrap();
        writer.finish().unwrap();
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let mut rows = 0;
            read::<_, 2>(
                "a.parquet",
                File::open(&path).unwrap(),
                None,
                Values::Unsigned,
                1 << 20,
                &mut |_: C, _| {
                    rows += 1;
                    Ok(())
                },
            )
            .map(|()| rows)
        };
        assert_eq!(read(&good).unwrap(), 100);
        for len in 0..good.len() {
            assert!(matches!(read(&good[..len]), Err(Error::Parquet { .. })));
        }
        let mut errors = 0;
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= [1, 0x40, 0xff][at % 3];
            match read(&bytes) {
                // Rows are neither lost nor made up.
                Ok(rows) => assert_eq!(rows, 100, "byte {at}"),
                Err(_) => errors += 1,
            }
        }
        assert!(errors > good.len() / 4);
    }
}
