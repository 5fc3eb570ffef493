//! What the commands over tables take.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use arrow_schema::DataType;
use clap::{Args, ValueEnum};

use super::file::{Input, is_of_tables};
use crate::cli::bytes;
use crate::format::Format;

/// How tables are read and written.
#[derive(Debug, Args)]
pub struct TableArgs {
    /// Where the result goes: .parquet, .csv or .tsv; - is standard output as TSV.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,

    /// The format of the inputs, whatever their names: csv, tsv or parquet.
    #[arg(long, value_parser = table_format)]
    pub format: Option<Format>,

    /// The format of the output, whatever its name: csv, tsv or parquet.
    #[arg(long, value_name = "FORMAT", value_parser = table_format)]
    pub output_format: Option<Format>,

    /// What a column of .csv or .tsv is, instead of what its first rows look like: i32, u32, i64, u64, f32,
    /// f64, bool, date or text. Can be given several times.
    #[arg(long = "type", value_name = "COLUMN:TYPE")]
    pub types: Vec<ColumnType>,

    /// Refuse a longer row of text [default: 1M, at most 1G] and a larger page of Parquet [default: 512M]; K, M, G
    /// and T are powers of 1024.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub max_record: Option<u64>,
}

impl TableArgs {
    /// One of the inputs.
    pub fn input<'a>(&'a self, path: &'a Path) -> Input<'a> {
        Input {
            path,
            format: self.format,
            types: &self.types,
            max_record: self.max_record,
        }
    }
}

/// A format that tables have.
fn table_format(text: &str) -> Result<Format, &'static str> {
    let format = Format::from_str(text, false).ok();
    let format = format.filter(|&format| is_of_tables(format));
    format.ok_or("use csv, tsv or parquet")
}

/// What `group` takes.
#[derive(Debug, Args)]
pub struct GroupArgs {
    /// Tables: .csv or .tsv, whose first row has the names of the columns, or .parquet; - is standard input as
    /// TSV. Several are grouped as one.
    #[arg(value_name = "INPUT", required = true)]
    pub inputs: Vec<PathBuf>,

    /// The columns of the key: integers, floating-point numbers of 4 and 8 bytes (compared by their bits), bool,
    /// dates, times, decimals and text. A missing value is a key of its own, as in SQL.
    #[arg(long, value_name = "COLUMNS", required = true, value_delimiter = ',')]
    pub by: Vec<String>,

    /// What is computed for each group: count, which counts rows, or one of count, sum, min, max and mean of a
    /// column, which pass over missing values. Can be given several times. A column of the result is called
    /// count or COLUMN_FUNCTION, or as =NAME says.
    #[arg(
        long = "agg",
        value_name = "FUNCTION[:COLUMN][=NAME]",
        default_value = "count"
    )]
    pub aggregates: Vec<Aggregate>,

    /// How tables are read and written.
    #[command(flatten)]
    pub tables: TableArgs,
}

impl GroupArgs {
    /// The columns of the inputs that are read; some come several times.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let aggregated = self.aggregates.iter().filter_map(|it| it.column.as_ref());
        self.by.iter().chain(aggregated).map(String::as_str)
    }
}

/// What `join` takes.
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// The table that is read batch by batch: .csv or .tsv, whose first row has the names of the columns, or
    /// .parquet; - is standard input as TSV. Its order is that of the result.
    pub left: PathBuf,

    /// The table that is kept in memory, best the smaller one.
    pub right: PathBuf,

    /// The columns whose values have to be equal, as LEFT=RIGHT where their names differ: integers, bool, dates,
    /// times, decimals, text, and floating-point numbers of 4 and 8 bytes by their bits. A missing value equals none.
    #[arg(
        long,
        value_name = "COLUMN[=COLUMN]",
        required = true,
        value_delimiter = ','
    )]
    pub on: Vec<On>,

    /// Which rows the result has.
    #[arg(long, value_enum, default_value_t = How::Inner)]
    pub how: How,

    /// The columns of the result, by the names that they have there [default: all of the left table, then those
    /// of the right one that are not in --on, with _right behind a name that the left one has too].
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub columns: Vec<String>,

    /// How tables are read and written.
    #[command(flatten)]
    pub tables: TableArgs,
}

/// Which rows a join gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum How {
    /// Each pair of rows with equal keys.
    Inner,
    /// The same, and rows of the left table without a partner, with missing values.
    Left,
    /// The rows of the left table that have a partner, each once.
    Semi,
    /// The rows of the left table that have none.
    Anti,
}

impl How {
    /// Whether rows of the right table are in the result.
    pub fn has_right(self) -> bool {
        matches!(self, Self::Inner | Self::Left)
    }
}

/// Two columns whose values have to be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct On {
    /// Of the left table.
    pub left: String,
    /// Of the right table.
    pub right: String,
}

impl FromStr for On {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (left, right) = text.split_once('=').unwrap_or((text, text));
        if left.is_empty() || right.is_empty() {
            return Err("use COLUMN, or COLUMN=COLUMN");
        }
        Ok(Self {
            left: left.to_owned(),
            right: right.to_owned(),
        })
    }
}

/// A function of the rows of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// How many there are.
    Count,
    /// The sum of their values.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The mean.
    Mean,
}

/// What is computed for each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// The function.
    pub function: Function,
    /// Of which column; none is of rows.
    pub column: Option<String>,
    /// The name of the result.
    pub name: String,
}

impl FromStr for Aggregate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (what, name) = match text.rsplit_once('=') {
            Some((what, name)) => (what, Some(name)),
            None => (text, None),
        };
        let (function, column) = match what.split_once(':') {
            Some((function, column)) => (function, Some(column)),
            None => (what, None),
        };
        let of = match function {
            "count" => Function::Count,
            "sum" => Function::Sum,
            "min" => Function::Min,
            "max" => Function::Max,
            "mean" => Function::Mean,
            _ => return Err("use count, or count, sum, min, max or mean with :COLUMN"),
        };
        if column.is_none_or(str::is_empty) && (of != Function::Count || column.is_some()) {
            return Err("a column is missing, as in sum:COLUMN");
        }
        let usual = || match column {
            Some(column) => format!("{column}_{function}"),
            None => function.to_owned(),
        };
        match name {
            Some("") => Err("a name is missing after ="),
            _ => Ok(Self {
                function: of,
                column: column.map(str::to_owned),
                name: name.map_or_else(usual, str::to_owned),
            }),
        }
    }
}

/// What a column of text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnType {
    /// The column.
    pub column: String,
    /// Its type.
    pub data_type: DataType,
}

impl FromStr for ColumnType {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (column, data_type) = text.rsplit_once(':').ok_or("use COLUMN:TYPE")?;
        let data_type = match data_type {
            "i32" => DataType::Int32,
            "u32" => DataType::UInt32,
            "i64" => DataType::Int64,
            "u64" => DataType::UInt64,
            "f32" => DataType::Float32,
            "f64" => DataType::Float64,
            "bool" => DataType::Boolean,
            "date" => DataType::Date32,
            "text" => DataType::Utf8,
            _ => return Err("a type is i32, u32, i64, u64, f32, f64, bool, date or text"),
        };
        Ok(Self {
            column: column.to_owned(),
            data_type,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregates_have_a_function_a_column_and_a_name() {
        for (text, function, column, name) in [
            ("count", Function::Count, None, "count"),
            ("count=rows", Function::Count, None, "rows"),
            ("count:a", Function::Count, Some("a"), "a_count"),
            (
                "sum:unit:price",
                Function::Sum,
                Some("unit:price"),
                "unit:price_sum",
            ),
            ("mean:a=b", Function::Mean, Some("a"), "b"),
        ] {
            let aggregate: Aggregate = text.parse().unwrap();
            let of = aggregate.column.as_deref();
            assert_eq!((aggregate.function, of), (function, column), "{text}");
            assert_eq!(aggregate.name, name);
        }
        for text in ["", "sum", "sum:", "count:", "median:a", "sum:a=", ":a"] {
            text.parse::<Aggregate>().unwrap_err();
        }
    }

    #[test]
    fn columns_have_types_and_partners() {
        let typed: ColumnType = "a:b:u32".parse().unwrap();
        assert_eq!(
            (typed.column.as_str(), typed.data_type),
            ("a:b", DataType::UInt32)
        );
        for text in ["a", "a:", "a:int"] {
            text.parse::<ColumnType>().unwrap_err();
        }
        let on: On = "id=user".parse().unwrap();
        assert_eq!((on.left.as_str(), on.right.as_str()), ("id", "user"));
        for text in ["", "=", "a=", "=b"] {
            text.parse::<On>().unwrap_err();
        }
    }
}
