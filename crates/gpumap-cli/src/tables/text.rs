//! [`Text`]: a table in CSV or TSV. The first row has the names of the columns; their types are those that the rows in the
//! first megabyte look like.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_csv::ReaderBuilder;
use arrow_csv::reader::{Decoder, Format};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::BATCH;
use super::args::ColumnType;
use super::file::shortened;
use crate::error::{Error, Result};
use crate::progress::Progress;

/// Bytes that are looked at for the types of the columns, if they have a row.
const HEAD: u64 = 1 << 20;

/// Bytes that are read at once, if a row may have as many.
const CHUNK: usize = 1 << 18;

/// Fields of a batch at most, as the parser makes room for all of them beforehand.
const MOST_FIELDS: usize = 1 << 20;

/// What some writers put before the first row.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Rows of text that were not read yet.
pub struct Text {
    reader: Box<dyn Read + Send>,
    /// Bytes that there are, if that is known.
    length: Option<u64>,
    schema: SchemaRef,
    delimiter: u8,
    most: u64,
}

impl Text {
    /// Reads the first rows, and says which columns there are. No row may have more than `most` bytes.
    pub fn open(
        name: &str,
        (mut reader, length): (Box<dyn Read + Send>, Option<u64>),
        delimiter: u8,
        most: u64,
        types: &[ColumnType],
    ) -> Result<(Schema, Self)> {
        let (head, whole) = read_head(name, &mut reader, delimiter, most)?;
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
        let names = Schema::new(fields.clone());
        for ColumnType { column, data_type } in types {
            // Another table may have it.
            if let Ok(at) = names.index_of(column) {
                fields[at] = Field::new(column, data_type.clone(), true);
            }
        }
        let schema = Schema::new(fields);
        let mut head = Cursor::new(head);
        head.set_position(start as u64);
        let text = Self {
            reader: Box::new(head.chain(reader)),
            length,
            schema: Arc::new(schema.clone()),
            delimiter,
            most,
        };
        Ok((schema, text))
    }

    /// Hands the columns at these places to `take`, batch by batch.
    pub fn read(
        self,
        name: &str,
        places: &[usize],
        progress: &Progress,
        take: &mut impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let columns = self.schema.fields().len().max(1);
        let mut decoder = ReaderBuilder::new(Arc::clone(&self.schema))
            .with_header(true)
            .with_delimiter(self.delimiter)
            .with_batch_size((MOST_FIELDS / columns).clamp(1, BATCH))
            .with_projection(places.to_vec())
            .build_decoder();
        progress.start_bytes(self.length);
        let chunk = usize::try_from(self.most).map_or(CHUNK, |most| most.min(CHUNK));
        let mut rows = Rows {
            name,
            reader: BufReader::with_capacity(chunk, progress.reading(self.reader)),
            schema: self.schema,
            most: self.most,
        };
        let mut line = 2;
        while let Some(batch) = rows.next(&mut decoder, line)? {
            line += batch.num_rows() as u64;
            take(&batch)?;
        }
        Ok(())
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

/// Reads the first rows: all bytes that were read, and how many of them are whole rows.
fn read_head(
    name: &str,
    reader: &mut impl Read,
    delimiter: u8,
    most: u64,
) -> Result<(Vec<u8>, usize)> {
    let mut head = Vec::new();
    loop {
        let missing = HEAD.max(head.len() as u64);
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
