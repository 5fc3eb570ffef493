//! Dates and timestamps of text, without loss: the parser of arrow cuts off what a type has no place for, so their columns
//! are read as text, and a field that has more than the type is refused.

use std::iter;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray, new_null_array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::file::shortened;
use crate::error::{Error, Result};

/// Whether the parser of text reads columns of a type without loss.
fn is_parsed(data_type: &DataType) -> bool {
    use DataType::{Boolean, Float32, Float64, Utf8};
    data_type.is_integer() || matches!(data_type, Boolean | Float32 | Float64 | Utf8)
}

/// The columns as the parser reads them: text, where it would lose something.
pub fn as_parsed(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| {
        let data_type = match is_parsed(field.data_type()) {
            true => field.data_type().clone(),
            false => DataType::Utf8,
        };
        Field::new(field.name(), data_type, true)
    });
    Schema::new(fields.collect::<Vec<Field>>())
}

/// Rows that were read so, with the types of `schema`. The first of them is in this line.
pub fn converted(
    name: &str,
    batch: &RecordBatch,
    schema: &SchemaRef,
    line: u64,
) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| {
        if column.data_type() == field.data_type() {
            return Ok(Arc::clone(column));
        }
        let texts = column.as_string();
        column_of(texts, field.data_type()).map_err(|row| Error::Field {
            name: name.to_owned(),
            line: line + row as u64,
            field: shortened(texts.value(row)),
            column: shortened(field.name()),
            expected: field.data_type().to_string(),
        })
    });
    let columns: Result<Vec<ArrayRef>> = columns.collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns?, &options)
        .map_err(Error::arrow("put rows together"))
}

/// Texts as a column of a type, or the first row whose text is not one of its values.
fn column_of(texts: &StringArray, data_type: &DataType) -> Result<ArrayRef, usize> {
    let there = texts.iter().enumerate();
    let mut there = there.filter_map(|(row, text)| Some((row, text?)));
    let Some(first) = there.next() else {
        return Ok(new_null_array(data_type, texts.len()));
    };
    let mut all = iter::once(first).chain(there);
    if let Some((row, _)) = all.find(|(_, text)| !is_exact(text, data_type)) {
        return Err(row);
    }
    let column = cast(texts, data_type).map_err(|_| first.0)?;
    match column.null_count() == texts.null_count() {
        true => Ok(column),
        false => {
            let lost = (0..texts.len()).find(|&row| texts.is_valid(row) && column.is_null(row));
            Err(lost.unwrap_or(first.0))
        }
    }
}

/// Whether a type has room for all that a text says. Types that text cannot be have no such text.
fn is_exact(text: &str, data_type: &DataType) -> bool {
    match data_type {
        DataType::Date32 => {
            let text = text.trim();
            // Only a year with a sign can be longer.
            text.len() <= "1970-01-01".len() || text.starts_with(['+', '-'])
        }
        DataType::Timestamp(unit, _) => {
            let most = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            // Most have no room for more digits.
            if text.len() <= "1970-01-01 00:00:00.".len() + most {
                return true;
            }
            let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
            fraction.bytes().take_while(u8::is_ascii_digit).count() <= most
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_type_has_no_place_for_is_refused() {
        let date = DataType::Date32;
        let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let binary = DataType::Binary;
        for (data_type, text, is_one) in [
            (&date, "2024-02-29", true),
            (&date, " 2024-02-29", true),
            (&date, "+12024-02-29", true),
            (&date, "2024-02-30", false),
            (&date, "2024-02-29 10:00:00", false),
            (&date, "2024-02-29T00:00:00", false),
            (&nanoseconds, "2024-02-29", true),
            (&nanoseconds, "2024-02-29 10:00:00.123456789", true),
            (&nanoseconds, "2024-02-29 10:00:00.123456789+02:00", true),
            (&nanoseconds, "2024-02-29 10:00:00.1234567891", false),
            (&nanoseconds, "9999-12-31 00:00:00", false),
            (&nanoseconds, "noon", false),
            (&seconds, "2024-02-29 10:00:00", true),
            (&seconds, "2024-02-29 10:00:00.5", false),
            (&binary, "x", false),
        ] {
            let texts = StringArray::from(vec![None, Some(text)]);
            let found = column_of(&texts, data_type);
            assert_eq!(found.is_ok(), is_one, "{text} as {data_type}");
            match found {
                Ok(column) => assert_eq!((column.null_count(), column.data_type()), (1, data_type)),
                Err(row) => assert_eq!(row, 1),
            }
        }
        let missing = column_of(&StringArray::new_null(3), &binary).unwrap();
        assert_eq!((missing.null_count(), missing.data_type()), (3, &binary));
    }
}
