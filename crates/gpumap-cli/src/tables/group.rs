//! `gpumap group`: aggregates of columns by key, of tables that are read batch by batch.
//!
//! The library groups columns without missing values. So a missing key is zeros, and a column more of the key says which
//! are missing; a missing value is one that does not count, and how many are there is summed beside.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, Float64Array, PrimitiveArray, RecordBatch, RecordBatchOptions, UInt32Array,
    make_array,
};
use arrow_buffer::NullBuffer;
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use gpumap::Device;
use gpumap::arrow as device;

use super::args::{Aggregate, Function, GroupArgs};
use super::file::{TableFile, format_of, is_same_but_unit, shortened};
use super::keys::{KEY_TYPES, KeyColumn, MOST_KEY_BYTES, Stored, zero_filled};
use super::writer::{TableWriter, check};
use crate::cli::Session;
use crate::error::{Error, Result};
use crate::output::{Destination, check_paths, commit_all};
use crate::summary::Summary;

/// Runs the command.
pub fn run(args: &GroupArgs, session: &Session) -> Result<()> {
    let output = Destination::new(&args.tables.output);
    let format = format_of(output.path(), args.tables.output_format)?;
    let inputs: Vec<&Path> = args.inputs.iter().map(AsRef::as_ref).collect();
    for input in &inputs {
        format_of(input, args.tables.format)?;
    }
    check_paths(&inputs, &[&output])?;
    let engine = session.open()?;
    let progress = session.progress();
    let start = Instant::now();

    let mut groups: Option<Groups> = None;
    let mut rows = 0;
    let mut inputs = inputs.into_iter();
    // Those of which the first table needed the types of columns.
    let mut opened = VecDeque::new();
    let open = |input| TableFile::open(args.tables.input(input));
    while let Some(file) = opened
        .pop_front()
        .map(Ok)
        .or_else(|| inputs.next().map(open))
    {
        let mut file = file?;
        let groups = match &mut groups {
            Some(groups) => {
                groups.expect_columns_of(&mut file)?;
                groups
            }
            None => {
                file.expect_typed(&args.tables.types, None)?;
                for column in args.columns() {
                    let place = file.place(column)?;
                    learn(
                        &mut file,
                        place,
                        column,
                        &mut opened,
                        &mut inputs.by_ref().map(open),
                    )?;
                }
                let new = Groups::new(engine.device(), args, &file)?;
                check(&output.path().display().to_string(), format, &new.schema())?;
                groups.insert(new)
            }
        };
        let places: Result<Vec<usize>> = groups.columns.iter().map(|it| file.place(it)).collect();
        rows += file.read(&places?, &progress, |batch| groups.add(batch))?;
    }
    // There is an input at least.
    let Some(mut groups) = groups else {
        return Ok(());
    };
    let result = groups.finish()?;
    let mut staged = output.stage()?;
    let mut writer = TableWriter::new(&mut staged, format, &result.schema())?;
    for start in (0..result.num_rows()).step_by(super::BATCH) {
        writer.write(&result.slice(start, super::BATCH.min(result.num_rows() - start)))?;
    }
    writer.finish()?;
    commit_all(vec![staged])?;
    progress.finish();

    session.report(&Summary {
        job: "group",
        device: engine.name(),
        facts: Vec::new(),
        pairs: rows,
        distinct: result.num_rows() as u64,
        seconds: start.elapsed().as_secs_f64(),
        map_seconds: groups.busy.as_secs_f64(),
        steps: Vec::new(),
        warning: None,
    });
    Ok(())
}

/// Gives a column of which nothing is known the type that it has in a later table, which are opened until one says it.
fn learn(
    file: &mut TableFile,
    place: usize,
    column: &str,
    opened: &mut VecDeque<TableFile>,
    rest: &mut dyn Iterator<Item = Result<TableFile>>,
) -> Result<()> {
    if !file.is_unknown(place) {
        return Ok(());
    }
    let mut at = 0;
    loop {
        if at == opened.len() {
            match rest.next() {
                Some(later) => opened.push_back(later?),
                None => return Ok(()),
            }
        }
        let later = &opened[at];
        let there = later.place(column)?;
        if !later.is_unknown(there) {
            file.adopt(place, later.schema.field(there).data_type());
            return Ok(());
        }
        at += 1;
    }
}

/// The most aggregates that the library computes in one pass.
const MOST_AGGREGATES: usize = 12;

/// The name of the column that says which keys of a row are missing, a bit for each.
const MISSING: &str = "missing";

/// The groups of all rows so far.
struct Groups {
    /// The columns that are read, those of keys first.
    columns: Vec<String>,
    /// Their types.
    types: Vec<DataType>,
    keys: Vec<KeyColumn>,
    /// What the library computes.
    prepared: Vec<Prepared>,
    /// What was asked, as made of that.
    asked: Vec<(String, Recipe)>,
    /// The same groups, with some of the aggregates each.
    passes: Vec<device::GroupBy>,
    busy: Duration,
}

/// An aggregate of the library, of a column as it is prepared for it.
#[derive(Clone, Debug, PartialEq)]
struct Prepared {
    aggregate: Function,
    /// Of which column; none of [`Function::Count`].
    column: Option<(usize, As)>,
}

/// How a column is prepared, for missing values not to count.
#[derive(Clone, Debug, PartialEq)]
enum As {
    /// As numbers of this type, with something that does not count instead of missing values.
    Numbers(DataType, Fill),
    /// 1 for each value that is there, and 0 for those that are missing.
    Present,
}

/// What stands for a missing value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fill {
    Zero,
    Greatest,
    Least,
}

/// How a column of the result is made of aggregates of the library, which it has at these places.
enum Recipe {
    /// One as it is.
    Is(usize),
    /// A value of the column, of this type; missing where the second is 0.
    Value(usize, DataType, usize),
    /// The first divided by the second; missing where that is 0.
    Quotient(usize, usize),
}

impl Groups {
    /// No groups yet, of the columns of a table.
    fn new(device: &Device, args: &GroupArgs, file: &TableFile) -> Result<Self> {
        let mut groups = Self {
            columns: Vec::new(),
            types: Vec::new(),
            keys: Vec::new(),
            prepared: Vec::new(),
            asked: Vec::new(),
            passes: Vec::new(),
            busy: Duration::ZERO,
        };
        for column in &args.by {
            if groups.columns.contains(column) {
                return Err(Error::ColumnTwice {
                    name: "--by".to_owned(),
                    column: shortened(column),
                });
            }
            let data_type = file.schema.field(file.place(column)?).data_type().clone();
            let stored = Stored::of(&data_type).ok_or_else(|| file.refused(column, KEY_TYPES));
            groups.keys.push(KeyColumn::restorable(column, stored?));
            groups.columns.push(column.clone());
            groups.types.push(data_type);
        }
        if groups.keys.len() > u32::BITS as usize || groups.key_bytes() > MOST_KEY_BYTES {
            return Err(Error::LongKey {
                bytes: groups.key_bytes(),
                most: MOST_KEY_BYTES,
            });
        }
        for aggregate in &args.aggregates {
            let recipe = groups.recipe(aggregate, file)?;
            groups.asked.push((aggregate.name.clone(), recipe));
        }
        let mut names: Vec<String> = (0..groups.keys.len()).map(key_name).collect();
        names.push(MISSING.to_owned());
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (pass, prepared) in groups.prepared.chunks(MOST_AGGREGATES).enumerate() {
            let aggregates = prepared.iter().enumerate().map(|(at, prepared)| {
                let name = value_name(pass * MOST_AGGREGATES + at);
                match prepared.aggregate {
                    Function::Count => device::Aggregate::count(name),
                    Function::Sum => device::Aggregate::sum(name.clone(), name),
                    Function::Min => device::Aggregate::min(name.clone(), name),
                    Function::Max => device::Aggregate::max(name.clone(), name),
                    Function::Mean => device::Aggregate::mean(name.clone(), name),
                }
            });
            let pass = device::GroupBy::new(device, &names, aggregates.collect());
            groups.passes.push(pass);
        }
        Ok(groups)
    }

    fn key_bytes(&self) -> usize {
        self.keys.iter().map(KeyColumn::bytes).sum()
    }

    /// Where an aggregate of the library is.
    fn prepared(&mut self, aggregate: Function, column: Option<(usize, As)>) -> usize {
        let prepared = Prepared { aggregate, column };
        let found = self.prepared.iter().position(|it| *it == prepared);
        found.unwrap_or_else(|| {
            self.prepared.push(prepared);
            self.prepared.len() - 1
        })
    }

    /// How an aggregate is computed.
    fn recipe(&mut self, aggregate: &Aggregate, file: &TableFile) -> Result<Recipe> {
        let Some(name) = &aggregate.column else {
            return Ok(Recipe::Is(self.prepared(Function::Count, None)));
        };
        let data_type = file.schema.field(file.place(name)?).data_type().clone();
        let known = self.columns.iter().position(|it| it == name);
        let column = known.unwrap_or_else(|| {
            self.columns.push(name.clone());
            self.types.push(data_type.clone());
            self.columns.len() - 1
        });
        let present = Some((column, As::Present));
        if aggregate.function == Function::Count {
            return Ok(Recipe::Is(self.prepared(Function::Sum, present)));
        }
        let is_summed = matches!(aggregate.function, Function::Sum | Function::Mean);
        let numbers = numbers_of(&data_type, is_summed).ok_or_else(|| {
            let problem = match is_summed {
                true => "sums and means are of integers, floats and bool",
                false => "min and max are of integers, floats, bool, dates and times",
            };
            file.refused(name, problem)
        })?;
        let of = |numbers, fill| Some((column, As::Numbers(numbers, fill)));
        Ok(match aggregate.function {
            Function::Count | Function::Sum => {
                Recipe::Is(self.prepared(Function::Sum, of(numbers, Fill::Zero)))
            }
            Function::Mean => {
                let sum = self.prepared(Function::Sum, of(DataType::Float64, Fill::Zero));
                Recipe::Quotient(sum, self.prepared(Function::Sum, present))
            }
            Function::Min | Function::Max => {
                let fill = match aggregate.function {
                    Function::Min => Fill::Greatest,
                    _ => Fill::Least,
                };
                let value = self.prepared(aggregate.function, of(numbers, fill));
                let present = self.prepared(Function::Sum, present);
                Recipe::Value(value, data_type, present)
            }
        })
    }

    /// Whether another table has the columns too.
    fn expect_columns_of(&self, file: &mut TableFile) -> Result<()> {
        for (column, data_type) in self.columns.iter().zip(&self.types) {
            let place = file.place(column)?;
            file.adopt(place, data_type);
            let found = file.schema.field(place).data_type();
            if found != data_type && !is_finer(data_type, found) {
                return Err(Error::OtherType {
                    name: file.name.clone(),
                    column: shortened(column),
                    found: shortened(&found.to_string()),
                    expected: shortened(&data_type.to_string()),
                });
            }
        }
        Ok(())
    }

    /// The columns of the result.
    fn schema(&self) -> Schema {
        let keys = self.columns.iter().zip(&self.types).take(self.keys.len());
        let mut fields: Vec<Field> = keys
            .map(|(name, data_type)| Field::new(name, data_type.clone(), true))
            .collect();
        for (name, recipe) in &self.asked {
            let data_type = match recipe {
                Recipe::Is(at) => self.type_of(*at),
                Recipe::Value(_, data_type, _) => data_type.clone(),
                Recipe::Quotient(..) => DataType::Float64,
            };
            fields.push(Field::new(
                name,
                data_type,
                !matches!(recipe, Recipe::Is(_)),
            ));
        }
        Schema::new(fields)
    }

    /// The type of a count or sum.
    fn type_of(&self, prepared: usize) -> DataType {
        match &self.prepared[prepared].column {
            Some((_, As::Numbers(DataType::Int32 | DataType::Int64, _))) => DataType::Int64,
            Some((_, As::Numbers(DataType::Float32 | DataType::Float64, _))) => DataType::Float64,
            _ => DataType::UInt64,
        }
    }

    /// Adds the rows of a batch.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        // Not a missing value instead of one that the type does not have.
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        let found = batch.columns().iter().zip(&self.types);
        let found = found.map(|(column, data_type)| cast_with_options(column, data_type, &options));
        let found: Result<Vec<ArrayRef>, ArrowError> = found.collect();
        let found = found.map_err(Error::arrow("convert times"))?;
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        let mut missing = vec![0u32; batch.num_rows()];
        for (at, key) in self.keys.iter_mut().enumerate() {
            let stored = key.insert(&found[at])?;
            if stored.null_count() > 0 {
                for (row, missing) in missing.iter_mut().enumerate() {
                    *missing |= u32::from(stored.is_null(row)) << at;
                }
            }
            columns.push((key_name(at), zero_filled(&stored, key.bytes())?));
        }
        columns.push((MISSING.to_owned(), Arc::new(UInt32Array::from(missing))));
        for (at, prepared) in self.prepared.iter().enumerate() {
            if let Some((column, prepare)) = &prepared.column {
                columns.push((value_name(at), prepare.array(&found[*column])?));
            }
        }
        let batch = batch_of(columns, batch.num_rows())?;
        let start = Instant::now();
        for pass in &mut self.passes {
            pass.batch(&batch)
                .map_err(Error::while_doing("cannot group"))?;
        }
        self.busy += start.elapsed();
        Ok(())
    }

    /// The result.
    fn finish(&mut self) -> Result<RecordBatch> {
        // Groups have types from the first batch on.
        let empty = self.columns.iter().zip(&self.types);
        let empty =
            empty.map(|(name, data_type)| (name.clone(), arrow_array::new_empty_array(data_type)));
        self.add(&batch_of(empty.collect(), 0)?)?;

        let start = Instant::now();
        let passes = self.passes.iter().map(device::GroupBy::finish);
        let passes: gpumap::Result<Vec<RecordBatch>> = passes.collect();
        let passes = passes.map_err(Error::while_doing("cannot group"))?;
        self.busy += start.elapsed();
        // All passes have the same groups in the same order.
        let groups = &passes[0];
        let missing = groups[MISSING].as_primitive::<UInt32Type>();
        let mut columns = Vec::new();
        for (at, key) in self.keys.iter().enumerate() {
            let there = missing.values().iter().map(|bits| bits >> at & 1 == 0);
            let stored = with_nulls(&groups[key_name(at).as_str()], there.collect())?;
            columns.push(key.restore(&stored, &self.types[at])?);
        }
        let found = |at: usize| &passes[at / MOST_AGGREGATES][value_name(at).as_str()];
        let counts = |at: usize| found(at).as_primitive::<UInt64Type>().values();
        for (_, recipe) in &self.asked {
            columns.push(match recipe {
                Recipe::Is(at) => Arc::clone(found(*at)),
                Recipe::Value(at, data_type, present) => {
                    let there = counts(*present).iter().map(|&count| count > 0);
                    let values = with_nulls(found(*at), there.collect())?;
                    cast(&values, data_type).map_err(Error::arrow("convert a result"))?
                }
                Recipe::Quotient(sum, present) => {
                    let sums = found(*sum).as_primitive::<Float64Type>().values();
                    let means = sums.iter().zip(counts(*present));
                    let means = means.map(|(sum, &count)| (count > 0).then(|| sum / count as f64));
                    Arc::new(means.collect::<Float64Array>())
                }
            });
        }
        let schema = SchemaRef::new(self.schema());
        RecordBatch::try_new(schema, columns).map_err(Error::arrow("put the result together"))
    }
}

impl As {
    /// A column without missing values.
    fn array(&self, column: &ArrayRef) -> Result<ArrayRef> {
        let Self::Numbers(numbers, fill) = self else {
            // Columns of the type Null keep no nulls.
            let present = match column.logical_nulls() {
                Some(nulls) => nulls.iter().map(u32::from).collect(),
                None => vec![1; column.len()],
            };
            return Ok(Arc::new(UInt32Array::from(present)));
        };
        let column = cast(column, numbers).map_err(Error::arrow("convert values"))?;
        Ok(match numbers {
            DataType::Int32 => filled::<Int32Type>(&column, fill.of([0, i32::MAX, i32::MIN])),
            DataType::UInt32 => filled::<UInt32Type>(&column, fill.of([0, u32::MAX, 0])),
            DataType::Int64 => filled::<Int64Type>(&column, fill.of([0, i64::MAX, i64::MIN])),
            DataType::UInt64 => filled::<UInt64Type>(&column, fill.of([0, u64::MAX, 0])),
            // The last and the first of `total_cmp`.
            DataType::Float32 => {
                let ends = [u32::MAX >> 1, u32::MAX].map(f32::from_bits);
                filled::<Float32Type>(&column, fill.of([0.0, ends[0], ends[1]]))
            }
            _ => {
                let ends = [u64::MAX >> 1, u64::MAX].map(f64::from_bits);
                filled::<Float64Type>(&column, fill.of([0.0, ends[0], ends[1]]))
            }
        })
    }
}

impl Fill {
    /// Of zero, the greatest and the least value.
    fn of<T: Copy>(self, [zero, greatest, least]: [T; 3]) -> T {
        match self {
            Self::Zero => zero,
            Self::Greatest => greatest,
            Self::Least => least,
        }
    }
}

/// A column with `value` instead of missing ones.
fn filled<T: ArrowPrimitiveType>(column: &ArrayRef, value: T::Native) -> ArrayRef {
    let column = column.as_primitive::<T>();
    if column.null_count() == 0 {
        return Arc::new(PrimitiveArray::<T>::new(column.values().clone(), None));
    }
    let values = column.iter().map(|it| it.unwrap_or(value));
    Arc::new(PrimitiveArray::<T>::from_iter_values(values))
}

/// The numbers that are aggregated for a column of a type, if it has any.
fn numbers_of(data_type: &DataType, is_summed: bool) -> Option<DataType> {
    Some(match data_type {
        DataType::Boolean | DataType::UInt8 | DataType::UInt16 => DataType::UInt32,
        DataType::Int8 | DataType::Int16 => DataType::Int32,
        DataType::Float16 => DataType::Float32,
        DataType::Int32
        | DataType::UInt32
        | DataType::Int64
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64 => data_type.clone(),
        DataType::Date32 | DataType::Time32(_) if !is_summed => DataType::Int32,
        DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) if !is_summed => {
            DataType::Int64
        }
        _ => return None,
    })
}

/// Whether types are timestamps, and the first has all fractions of the second.
fn is_finer(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (DataType::Timestamp(fine, _), DataType::Timestamp(coarse, _)) => {
            is_same_but_unit(one, other) && fine >= coarse
        }
        _ => false,
    }
}

/// The same items, missing where they are not there.
fn with_nulls(array: &ArrayRef, there: Vec<bool>) -> Result<ArrayRef> {
    let data = array.to_data().into_builder();
    let data = data.nulls(Some(NullBuffer::from(there))).build();
    data.map(make_array)
        .map_err(Error::arrow("put the result together"))
}

fn batch_of(columns: Vec<(String, ArrayRef)>, rows: usize) -> Result<RecordBatch> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(name, array.data_type().clone(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(Error::arrow("put rows together"))
}

/// What a column of keys is called on its way to the library.
fn key_name(at: usize) -> String {
    format!("key {at}")
}

/// And a column of values.
fn value_name(at: usize) -> String {
    format!("value {at}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, NullArray};

    #[test]
    fn missing_values_are_not_present() {
        let none: ArrayRef = Arc::new(NullArray::new(3));
        let some: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(2)]));
        let all: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        for (column, expected) in [(none, [0, 0, 0]), (some, [1, 0, 1]), (all, [1, 1, 1])] {
            let present = As::Present.array(&column).unwrap();
            assert_eq!(present.as_primitive::<UInt32Type>().values(), &expected);
        }
    }
}
