//! [`Text`]: a table in CSV or TSV. The first row has the names of the columns; their types are those that the rows in the
//! first megabyte look like.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_csv::ReaderBuilder;
use arrow_csv::reader::{Decoder, Format};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::concat::concat_batches;

use super::args::ColumnType;
use super::file::shortened;
use super::times::{as_parsed, converted};
use super::{BATCH, BATCH_BYTES};
use crate::error::{Error, Result};
use crate::progress::Progress;

/// Bytes that are looked at for the types of the columns, if they have a row.
const HEAD: u64 = 1 << 20;

/// Bytes that are read at once, if a row may have as many.
const CHUNK: usize = 1 << 18;

/// Fields of a batch at most, as the parser makes room for all of them beforehand.
const MOST_FIELDS: usize = 1 << 20;

/// Bytes of the rows that are parsed at once, at most: the columns of text that arrow makes of them end at 2 GiB. So it is also
/// the longest row.
const MOST_BYTES: u64 = 1 << 30;

/// What some writers put before the first row.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Rows of text that were not read yet.
pub struct Text {
    reader: Box<dyn Read + Send>,
    /// Bytes that there are, if that is known.
    length: Option<u64>,
    delimiter: u8,
    most: u64,
    unknown: Vec<bool>,
}

impl Text {
    /// Reads the first rows, and says which columns there are. No row may have more than `most` bytes.
    pub fn open(
        name: &str,
        reader: (Box<dyn Read + Send>, Option<u64>),
        delimiter: u8,
        most: u64,
        types: &[ColumnType],
    ) -> Result<(Schema, Self)> {
        Self::with_head(HEAD, name, reader, delimiter, most, types)
    }

    /// The same, with the types that the rows in so many bytes look like.
    fn with_head(
        head: u64,
        name: &str,
        (mut reader, length): (Box<dyn Read + Send>, Option<u64>),
        delimiter: u8,
        most: u64,
        types: &[ColumnType],
    ) -> Result<(Schema, Self)> {
        let most = most.min(MOST_BYTES);
        let (head, whole) = read_head(head, name, &mut reader, delimiter, most)?;
        let start = match head.starts_with(BYTE_ORDER_MARK) {
            true => BYTE_ORDER_MARK.len(),
            false => 0,
        };
        // Rows of other lengths are errors of the rows themselves.
        let format = Format::default()
            .with_header(true)
            .with_delimiter(delimiter)
            .with_truncated_rows(true);
        let inferred = format.infer_schema(&head[start..whole], None);
        let (inferred, _) = inferred.map_err(|error| failed(name, &Schema::empty(), error))?;
        let mut fields: Vec<Field> = inferred.fields().iter().map(|it| typed(it)).collect();
        let is_unknown = |it: &Arc<Field>| it.data_type() == &DataType::Null;
        let mut unknown: Vec<bool> = inferred.fields().iter().map(is_unknown).collect();
        let names = Schema::new(fields.clone());
        for ColumnType { column, data_type } in types {
            // Another table may have it.
            if let Ok(at) = names.index_of(column) {
                fields[at] = Field::new(column, data_type.clone(), true);
                unknown[at] = false;
            }
        }
        let mut head = Cursor::new(head);
        head.set_position(start as u64);
        let text = Self {
            reader: Box::new(head.chain(reader)),
            length,
            delimiter,
            most,
            unknown,
        };
        Ok((Schema::new(fields), text))
    }

    /// Whether the first rows have no field in a column, and no type was given for it.
    pub fn is_unknown(&self, column: usize) -> bool {
        self.unknown[column]
    }

    /// Hands the columns at these places to `take`, batch by batch, with their types in `schema`.
    pub fn read(
        self,
        name: &str,
        schema: &Schema,
        places: &[usize],
        progress: &Progress,
        take: &mut impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let wanted = schema.project(places);
        let wanted = SchemaRef::new(wanted.map_err(Error::arrow("choose columns"))?);
        let parsed = SchemaRef::new(as_parsed(schema));
        let columns = parsed.fields().len().max(1);
        let chunk = usize::try_from(self.most).map_or(CHUNK, |most| most.min(CHUNK));
        let mut decoder = ReaderBuilder::new(Arc::clone(&parsed))
            .with_header(true)
            .with_delimiter(self.delimiter)
            .with_batch_size(rows_at_once(columns, self.most + chunk as u64))
            .with_projection(places.to_vec())
            .build_decoder();
        progress.start_bytes(self.length);
        let mut rows = Rows {
            name,
            reader: BufReader::with_capacity(chunk, progress.reading(self.reader)),
            schema: parsed,
            most: self.most,
        };
        let mut joined = Joined::new(SchemaRef::clone(&wanted), BATCH, BATCH_BYTES);
        let mut line = 2;
        while let Some(batch) = rows.next(&mut decoder, line)? {
            let batch = converted(name, &batch, &wanted, line)?;
            line += batch.num_rows() as u64;
            if let Some(batch) = joined.add(batch)? {
                take(&batch)?;
            }
        }
        joined.take()?.map_or(Ok(()), |batch| take(&batch))
    }
}

/// Rows that are parsed at once: as many as have [`MOST_BYTES`] if each has `longest`.
fn rows_at_once(columns: usize, longest: u64) -> usize {
    let rows = usize::try_from(MOST_BYTES / longest.max(1)).unwrap_or(usize::MAX);
    rows.min(MOST_FIELDS / columns).clamp(1, BATCH)
}

/// Batches that are put together, as the next steps take as long for a small one.
struct Joined {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    /// Rows of a batch at most.
    most_rows: usize,
    /// Bytes of a batch of more than one part at most.
    most_bytes: usize,
}

impl Joined {
    fn new(schema: SchemaRef, most_rows: usize, most_bytes: usize) -> Self {
        Self {
            schema,
            batches: Vec::new(),
            rows: 0,
            bytes: 0,
            most_rows,
            most_bytes,
        }
    }

    /// Adds a batch; returns those before it, if it does not go with them.
    fn add(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let (rows, bytes) = (batch.num_rows(), batch.get_array_memory_size());
        let is_full = self.rows + rows > self.most_rows || self.bytes + bytes > self.most_bytes;
        let before = match is_full {
            true => self.take()?,
            false => None,
        };
        self.rows += rows;
        self.bytes += bytes;
        self.batches.push(batch);
        Ok(before)
    }

    /// What was added, if there is anything.
    fn take(&mut self) -> Result<Option<RecordBatch>> {
        (self.rows, self.bytes) = (0, 0);
        let mut batches = std::mem::take(&mut self.batches);
        match batches.len() {
            0 | 1 => Ok(batches.pop()),
            _ => concat_batches(&self.schema, &batches)
                .map(Some)
                .map_err(Error::arrow("put rows together")),
        }
    }
}

/// Rows that are being read.
struct Rows<'a, R> {
    name: &'a str,
    reader: R,
    schema: SchemaRef,
    most: u64,
}

impl<R: BufRead> Rows<'_, R> {
    /// The next rows, the first of them in this line.
    fn next(&mut self, decoder: &mut Decoder, line: u64) -> Result<Option<RecordBatch>> {
        let name = self.name;
        let failed = |error| failed(name, &self.schema, error);
        let rows = decoder.capacity();
        // Bytes since a row has ended, or more than there are.
        let mut open = 0;
        loop {
            let missing = decoder.capacity();
            let bytes = self.reader.fill_buf().map_err(read_error(name))?;
            let used = decoder.decode(bytes).map_err(failed)?;
            self.reader.consume(used);
            open = match decoder.capacity() == missing {
                true => open + used as u64,
                false => 0,
            };
            if open > self.most {
                return Err(Error::RowTooLong {
                    name: name.to_owned(),
                    line: line + (rows - missing) as u64,
                    most: self.most,
                });
            }
            if used == 0 || decoder.capacity() == 0 {
                return decoder.flush().map_err(failed);
            }
        }
    }
}

/// Reads the first rows, of `least` bytes if there are as many: all bytes that were read, and how many of them are whole rows.
fn read_head(
    least: u64,
    name: &str,
    reader: &mut impl Read,
    delimiter: u8,
    most: u64,
) -> Result<(Vec<u8>, usize)> {
    let mut head = Vec::new();
    loop {
        let missing = least.max(head.len() as u64);
        let read = reader.by_ref().take(missing).read_to_end(&mut head);
        let is_all = (read.map_err(read_error(name))? as u64) < missing;
        if is_all {
            let whole = head.len();
            return Ok((head, whole));
        }
        let (rows, whole) = whole_rows(&head, delimiter);
        if rows > 1 {
            return Ok((head, whole));
        }
        // The row that is not whole begins after those that are.
        if (head.len() - whole) as u64 > most {
            return Err(Error::RowTooLong {
                name: name.to_owned(),
                line: rows + 1,
                most,
            });
        }
    }
}

/// How many rows of a part of a table are whole, and how many bytes they have. The last one may go on behind the part.
fn whole_rows(part: &[u8], delimiter: u8) -> (u64, usize) {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .from_reader(part);
    let mut record = csv::ByteRecord::new();
    let (mut rows, mut end) = (0, 0);
    loop {
        let start = reader.position().byte();
        match reader.read_byte_record(&mut record) {
            Ok(true) => (rows, end) = (rows + 1, start as usize),
            // What is last in the part is not counted.
            Ok(false) | Err(_) => return (rows.max(1) - 1, end),
        }
    }
}

/// A column as it is read.
fn typed(field: &Field) -> Field {
    let data_type = match field.data_type() {
        // Of no row: what comes later can be anything.
        DataType::Null => DataType::Utf8,
        // Later fractions can be finer.
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
        other => other.clone(),
    };
    Field::new(field.name().trim(), data_type, true)
}

fn read_error(name: &str) -> impl Fn(io::Error) -> Error + '_ {
    |source| Error::Read {
        name: name.to_owned(),
        source,
    }
}

/// What the parser says, as an error of this program. It has line and value in its text only.
fn failed(name: &str, schema: &Schema, error: ArrowError) -> Error {
    let (known, text) = match error {
        ArrowError::ParseError(text) => (field_error(name, schema, &text), text),
        ArrowError::CsvError(text) => (length_error(name, &text), text),
        other => (None, other.to_string()),
    };
    known.unwrap_or_else(|| Error::Text {
        name: name.to_owned(),
        problem: text.chars().take(200).collect(),
    })
}

/// The error of a field that is not of the type of its column.
fn field_error(name: &str, schema: &Schema, text: &str) -> Option<Error> {
    let (field, text) = between(text, "parsing value '", "' as type '")?;
    let (column, text) = between(text, "for column ", " at line ")?;
    let column = schema.fields().get(column.parse::<usize>().ok()?)?;
    Some(Error::Field {
        name: name.to_owned(),
        // The parser counts them from 0 here.
        line: leading_number(text)? + 1,
        field: shortened(field),
        column: shortened(column.name()),
        expected: column.data_type().to_string(),
    })
}

/// The error of a row with too few or too many fields.
fn length_error(name: &str, text: &str) -> Option<Error> {
    let (line, text) = between(text, "number of fields for line ", ", expected ")?;
    let (_, found) = text.split_once(" got ")?;
    Some(Error::Fields {
        name: name.to_owned(),
        line: line.parse().ok()?,
        found: leading_number(found)? as usize,
        expected: leading_number(text)? as usize,
    })
}

/// What stands between two parts of a text, and what stands behind the second.
fn between<'a>(text: &'a str, before: &str, behind: &str) -> Option<(&'a str, &'a str)> {
    let (_, text) = text.split_once(before)?;
    text.split_once(behind)
}

fn leading_number(text: &str) -> Option<u64> {
    let end = text.find(|next: char| !next.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_cast::display::array_value_to_string;

    /// The fields of all rows, whose types are those that the rows in `head` bytes look like.
    fn fields(head: u64, text: &'static str) -> Result<Vec<Vec<String>>> {
        let reader: (Box<dyn Read + Send>, _) = (Box::new(text.as_bytes()), None);
        let (schema, text) = Text::with_head(head, "a.csv", reader, b',', 1 << 20, &[])?;
        let places: Vec<usize> = (0..schema.fields().len()).collect();
        let mut rows = Vec::new();
        let progress = Progress::hidden();
        text.read("a.csv", &schema, &places, &progress, &mut |batch| {
            rows.extend((0..batch.num_rows()).map(|row| {
                let columns = batch.columns().iter();
                columns
                    .map(|it| array_value_to_string(it, row).unwrap())
                    .collect()
            }));
            Ok(())
        })?;
        Ok(rows)
    }

    #[test]
    fn later_times_lose_nothing() {
        let rows = fields(
            30,
            "t\n2024-01-01 10:00:00\n2024-01-01 10:00:01\n2024-01-01 10:00:01.000000001\n\
             2024-01-01 10:00:02+01:00\n",
        );
        let rows = rows.unwrap().concat();
        assert_eq!(
            rows,
            [
                "2024-01-01T10:00:00",
                "2024-01-01T10:00:01",
                "2024-01-01T10:00:01.000000001",
                "2024-01-01T09:00:02",
            ]
        );
        let late = "n,d\n1,2024-01-01\n2,2024-01-02\n,\n3,2024-01-03 10:00:00\n";
        let error = fields(20, late).unwrap_err().to_string();
        for part in ["line 5", "`2024-01-03 10:00:00`", "`d`", "Date32", "--type"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let late = "n,t\n1,2024-01-01 10:00:00\n2,2024-01-02 10:00:00\n3,noon\n";
        let error = fields(30, late).unwrap_err().to_string();
        for part in ["line 4", "`noon`", "`t`", "Timestamp", "--type"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn long_rows_are_parsed_a_few_at_a_time() {
        assert_eq!(rows_at_once(3, 1 << 10), BATCH);
        assert_eq!(rows_at_once(3, 1 << 20), 1 << 10);
        assert_eq!(rows_at_once(3, MOST_BYTES), 1);
        assert_eq!(rows_at_once(3, u64::MAX), 1);
        assert_eq!(rows_at_once(MOST_FIELDS / 2, 1), 2);
        assert_eq!(rows_at_once(MOST_FIELDS * 2, 1), 1);
    }

    #[test]
    fn small_batches_are_joined() {
        let schema = SchemaRef::new(Schema::new(vec![Field::new("a", DataType::Utf8, true)]));
        let batch = |texts: &[&str]| {
            let texts = arrow_array::StringArray::from(texts.to_vec());
            RecordBatch::try_new(SchemaRef::clone(&schema), vec![Arc::new(texts)]).unwrap()
        };
        let long = "x".repeat(5_000);
        let parts = [
            batch(&["a"]),
            batch(&["b", "c"]),
            batch(&["d", "e"]),
            batch(&[&long]),
            batch(&[&long]),
            batch(&["f"]),
        ];
        let mut joined = Joined::new(SchemaRef::clone(&schema), 4, 4_000);
        let mut found: Vec<RecordBatch> = Vec::new();
        for part in parts.clone() {
            found.extend(joined.add(part).unwrap());
        }
        found.extend(joined.take().unwrap());
        let rows: Vec<usize> = found.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows, [3, 2, 1, 1, 1]);
        let texts = |batches: &[RecordBatch]| -> Vec<String> {
            let columns = batches.iter().map(|it| it.column(0).as_string::<i32>());
            columns
                .flat_map(|it| (0..it.len()).map(|row| it.value(row).to_owned()))
                .collect()
        };
        assert_eq!(texts(&found), texts(&parts));
        assert!(joined.take().unwrap().is_none());
    }

    #[test]
    fn whole_rows_end_before_the_last_one() {
        for (part, rows, end) in [
            ("", 0, 0),
            ("a,b", 0, 0),
            ("a,b\n", 0, 0),
            ("a,b\n1", 1, 4),
            ("a,b\n1,2\n3,\"4\n5", 2, 8),
        ] {
            assert_eq!(whole_rows(part.as_bytes(), b','), (rows, end), "{part:?}");
        }
    }
}
