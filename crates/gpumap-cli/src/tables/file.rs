//! [`TableFile`]: a table in a file, opened; its columns are known, and its rows come in batches.

use std::io::{self, Read};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};

use super::args::ColumnType;
use super::parquet::Columns;
use super::text::Text;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::pairs::{MOST_PAGE, MOST_ROW};
use crate::progress::Progress;
use crate::source::open_input;

/// A file with a table.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// As given on the command line.
    pub path: &'a Path,
    /// Its format, whatever its name.
    pub format: Option<Format>,
    /// What columns of text are.
    pub types: &'a [ColumnType],
    /// Bytes of a row or page at most, instead of [`MOST_ROW`] and [`MOST_PAGE`].
    pub max_record: Option<u64>,
}

/// Whether tables can have a format.
pub fn is_of_tables(format: Format) -> bool {
    matches!(format, Format::Csv | Format::Tsv | Format::Parquet)
}

/// The format of a table.
pub fn format_of(path: &Path, asked: Option<Format>) -> Result<Format> {
    let format = Format::of(path, asked).ok();
    let format = format.filter(|&format| is_of_tables(format));
    format.ok_or_else(|| Error::NotATable {
        path: path.to_owned(),
    })
}

/// A table whose columns are known, and whose rows were not read yet.
pub struct TableFile {
    /// As it is called in messages.
    pub name: String,
    /// Its columns, which have different names.
    pub schema: Schema,
    rows: Rows,
}

enum Rows {
    Text(Text),
    Columns(Columns),
}

impl TableFile {
    /// Opens a file, and reads what its columns are.
    pub fn open(input: Input<'_>) -> Result<Self> {
        let path = input.path;
        let format = format_of(path, input.format)?;
        let is_stdin = path.as_os_str() == "-";
        let name = match is_stdin {
            true => "standard input".to_owned(),
            false => path.display().to_string(),
        };
        let (file, length) = match is_stdin {
            true => (None, None),
            false => {
                let (file, length) = open_input(path)?;
                (Some(file), length)
            }
        };
        let (schema, rows) = match (format, file) {
            (Format::Parquet, Some(file)) if length.is_some() => {
                let most = input.max_record.unwrap_or(MOST_PAGE);
                let (schema, columns) = Columns::open(&name, file, most)?;
                (schema, Rows::Columns(columns))
            }
            (Format::Parquet, _) => return Err(Error::NeedsFile { name, format }),
            (_, file) => {
                let reader: Box<dyn Read + Send> = match file {
                    Some(file) => Box::new(file),
                    None => Box::new(io::stdin()),
                };
                let most = input.max_record.unwrap_or(MOST_ROW);
                let (delimiter, reader) = (format.delimiter(), (reader, length));
                let (schema, text) = Text::open(&name, reader, delimiter, most, input.types)?;
                (schema, Rows::Text(text))
            }
        };
        let mut names: Vec<&str> = schema
            .fields()
            .iter()
            .map(|it| it.name().as_str())
            .collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let column = shortened(twice[0]);
            return Err(Error::ColumnTwice { name, column });
        }
        Ok(Self { name, schema, rows })
    }

    /// Where a column is.
    pub fn place(&self, column: &str) -> Result<usize> {
        place(&self.name, &self.schema, column)
    }

    /// Whether nothing is known of a column but its name: of text, whose first rows have no field in it.
    pub fn is_unknown(&self, place: usize) -> bool {
        match &self.rows {
            Rows::Text(text) => text.is_unknown(place),
            Rows::Columns(_) => false,
        }
    }

    /// Gives a column another type, if nothing is known of it. Timestamps of text can be of any unit.
    pub fn adopt(&mut self, place: usize, data_type: &DataType) {
        let is_unit = matches!(self.rows, Rows::Text(_))
            && is_same_but_unit(self.schema.field(place).data_type(), data_type);
        if is_unit || self.is_unknown(place) {
            let mut fields: Vec<Field> = self
                .schema
                .fields()
                .iter()
                .map(|it| Field::clone(it))
                .collect();
            fields[place].set_data_type(data_type.clone());
            self.schema = Schema::new(fields);
        }
    }

    /// Whether this table, or else the other, has the columns whose types are given.
    pub fn expect_typed(&self, types: &[ColumnType], other: Option<&Self>) -> Result<()> {
        let is_there = |it: &ColumnType| other.is_some_and(|other| other.place(&it.column).is_ok());
        let of_this = types.iter().filter(|&it| !is_there(it));
        of_this
            .map(|it| self.place(&it.column))
            .try_for_each(|it| it.map(drop))
    }

    /// The error of a column whose type does not do.
    pub fn refused(&self, column: &str, problem: &'static str) -> Error {
        let field = self.schema.field_with_name(column);
        let found = field.map_or_else(|_| String::new(), |it| it.data_type().to_string());
        Error::TypeOfColumn {
            name: self.name.clone(),
            column: shortened(column),
            found: shortened(&found),
            problem,
        }
    }

    /// Reads the columns at these places, in their order, and hands them to `take` batch by batch. Returns how many rows
    /// there are.
    pub fn read(
        self,
        places: &[usize],
        progress: &Progress,
        mut take: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<u64> {
        let mut rows = 0;
        let mut take = |batch: &RecordBatch| {
            rows += batch.num_rows() as u64;
            take(batch)
        };
        match self.rows {
            Rows::Text(text) => {
                text.read(&self.name, &self.schema, places, progress, &mut take)?;
            }
            Rows::Columns(columns) => columns.read(&self.name, places, progress, &mut take)?,
        }
        Ok(rows)
    }
}

/// Whether types are timestamps of one time zone.
pub fn is_same_but_unit(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (DataType::Timestamp(_, one), DataType::Timestamp(_, other)) => one == other,
        _ => false,
    }
}

/// Where a column of a table is.
pub fn place(name: &str, schema: &Schema, column: &str) -> Result<usize> {
    schema.index_of(column).map_err(|_| {
        let names: Vec<&str> = schema
            .fields()
            .iter()
            .map(|it| it.name().as_str())
            .collect();
        Error::NoColumn {
            name: name.to_owned(),
            column: column.to_owned(),
            columns: names.join(", ").chars().take(80).collect(),
        }
    })
}

/// A text of an input, as short as a message can have it.
pub fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
