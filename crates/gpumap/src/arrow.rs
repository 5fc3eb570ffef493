//! Arrow arrays as keys and values, and aggregates of record batches (feature `arrow`).
//!
//! | from Arrow | to Arrow |
//! |---|---|
//! | [`values`]: the numbers of a primitive array, without a copy | [`array`](array()): a primitive array of a vector, without a copy |
//! | [`rows`]: the items of a fixed-size binary array, without a copy | [`rows_array`]: a fixed-size binary array of keys |
//! | string and binary arrays as they are, for a [`RowMap<str>`](crate::RowMap), without a copy | [`strings_array`], [`binary_array`]: a large one of strings, without a copy |
//! | | [`optional`]: a primitive array of what a lookup returns, absent keys null |
//! | [`GroupBy::batch`]: the columns of a record batch, by name | [`group_by`], [`GroupBy::finish`]: a record batch |
//!
//! Slices and vectors are what all operations take and return, so maps need nothing else:
//!
//! ```
//! use arrow_array::types::{Float32Type, UInt64Type};
//! use arrow_array::{Array, Float32Array, UInt64Array};
//! use gpumap::{Device, Map, arrow};
//!
//! let (ids, prices) = (UInt64Array::from(vec![7, 8, 9]), Float32Array::from(vec![0.5, 1.5, 2.5]));
//! let map = Map::<u64, f32>::new(&Device::best()?)?;
//! map.insert(arrow::values(&ids)?, arrow::values(&prices)?)?;
//!
//! let found = arrow::optional::<Float32Type>(map.get(&[9, 10])?);
//! assert_eq!((found.value(0), found.is_null(1)), (2.5, true));
//! let (keys, values) = map.retrieve_all()?;
//! let (keys, values) = (arrow::array::<UInt64Type>(keys), arrow::array::<Float32Type>(values));
//! assert_eq!((keys.len(), values.len()), (3, 3));
//! # Ok::<(), gpumap::Error>(())
//! ```
//!
//! A column with nulls is refused: a key or a number that is not there has no bits. Fill or filter it before.

use std::fmt;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, ByteArrayType};
use arrow_array::{
    Array as _, ArrayRef, FixedSizeBinaryArray, GenericByteArray, LargeBinaryArray,
    LargeStringArray, OffsetSizeTrait, PrimitiveArray, RecordBatch, make_array,
};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Schema};
use bytemuck::{AnyBitPattern, NoUninit, Pod, cast_slice, try_cast_slice};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::floats::FloatWords;
use crate::input::Input;
use crate::primitives::{self, Chosen, Floats, Function, Grouped, Grouping, Numbers, Primitives};
use crate::strings::{StringBatch, StringColumn, StringInput, Strings};

/// The most bytes of a key.
const MOST_KEY_BYTES: usize = 64;

/// The numbers of a primitive array, where they are.
///
/// # Errors
/// [`Error::Column`] if some are null.
pub fn values<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> Result<&[T::Native]> {
    expect_no_nulls("the array", array)?;
    Ok(array.values())
}

/// The items of a fixed-size binary array, where they are: the keys of a [`RowMap`](crate::RowMap) or of [`Primitives::unique`].
///
/// ```
/// use arrow_array::FixedSizeBinaryArray;
/// use gpumap::{Device, RowMap, arrow};
///
/// let ids = FixedSizeBinaryArray::try_from_iter([[1u8; 16], [2; 16], [1; 16]].into_iter()).unwrap();
/// let map = RowMap::<[u8; 16]>::new(&Device::cpu())?;
/// assert_eq!(map.insert(arrow::rows(&ids)?)?, [0, 1, 0]);
/// assert_eq!(arrow::rows_array(&map.keys()?).len(), 2);
/// # use arrow_array::Array;
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Errors
/// [`Error::Column`] if some are null, or items have another size.
pub fn rows<const N: usize>(array: &FixedSizeBinaryArray) -> Result<&[[u8; N]]> {
    expect_no_nulls("the array", array)?;
    let size = array.value_length();
    if usize::try_from(size) != Ok(N) {
        return Err(refused(
            "the array",
            format!("has items of {size} bytes: {N} are expected"),
        ));
    }
    let first = array.offset() * N;
    let bytes = &array.value_data()[first..first + array.len() * N];
    let (items, _) = bytes.as_chunks();
    Ok(items)
}

/// A primitive array of numbers, which takes over their memory.
pub fn array<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> PrimitiveArray<T> {
    PrimitiveArray::new(values.into(), None)
}

/// A primitive array of answers: null where there is none.
pub fn optional<T: ArrowPrimitiveType>(values: Vec<Option<T::Native>>) -> PrimitiveArray<T> {
    values.into_iter().collect()
}

/// A fixed-size binary array of keys.
pub fn rows_array<K: NoUninit>(keys: &[K]) -> FixedSizeBinaryArray {
    let bytes: &[u8] = cast_slice(keys);
    FixedSizeBinaryArray::new(size_of::<K>() as i32, Buffer::from(bytes), None)
}

/// Strings of a string or binary array, where they are: `StringArray`, `LargeStringArray`, `BinaryArray`, `LargeBinaryArray`.
///
/// ```
/// use arrow_array::{Array, StringArray};
/// use gpumap::{Device, RowMap, arrow};
///
/// let words = StringArray::from(vec!["to", "be", "or", "not", "to", "be"]);
/// let map = RowMap::<str>::new(&Device::cpu())?;
/// assert_eq!(map.insert(&words)?, [0, 1, 2, 3, 0, 1]);
/// let distinct = arrow::strings_array(map.keys()?)?;
/// assert_eq!((distinct.len(), distinct.value(3)), (4, "not"));
/// # Ok::<(), gpumap::Error>(())
/// ```
impl<T: ByteArrayType> StringInput for GenericByteArray<T> {
    /// # Errors
    /// [`Error::Column`] if some are null.
    fn strings(&self) -> Result<StringBatch<'_>> {
        expect_no_nulls("the array", self)?;
        let offsets = self.offsets().inner().inner().as_slice();
        let column = StringColumn::of_bytes(offsets, T::Offset::IS_LARGE, self.value_data());
        Ok(column.into())
    }
}

/// A string array of strings, which takes over their memory.
///
/// # Errors
/// [`Error::Column`] if their bytes are not UTF-8.
pub fn strings_array(strings: Strings) -> Result<LargeStringArray> {
    let (offsets, bytes) = strings.into_parts();
    let offsets = OffsetBuffer::new(offsets.into());
    LargeStringArray::try_new(offsets, bytes.into(), None).map_err(|error| {
        let text = format!("are not all text ({error}): use binary_array");
        refused("the strings", text)
    })
}

/// A binary array of strings, which takes over their memory.
pub fn binary_array(strings: Strings) -> LargeBinaryArray {
    let (offsets, bytes) = strings.into_parts();
    LargeBinaryArray::new(OffsetBuffer::new(offsets.into()), bytes.into(), None)
}

/// What is asked of each group: a column of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    name: String,
    function: Function,
    column: String,
}

impl Aggregate {
    fn new(name: impl Into<String>, function: Function, column: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            function,
            column: column.into(),
        }
    }

    /// How many rows a group has, as `UInt64`.
    pub fn count(name: impl Into<String>) -> Self {
        Self::new(name, Function::Count, "")
    }

    /// The sum of a column: `UInt64` or `Int64` of integers, modulo 2^64, `Float64` of floats.
    pub fn sum(name: impl Into<String>, column: impl Into<String>) -> Self {
        Self::new(name, Function::Sum, column)
    }

    /// The least number of a column; NaN only of nothing else.
    pub fn min(name: impl Into<String>, column: impl Into<String>) -> Self {
        Self::new(name, Function::Min, column)
    }

    /// The greatest number of a column; NaN only of nothing else.
    pub fn max(name: impl Into<String>, column: impl Into<String>) -> Self {
        Self::new(name, Function::Max, column)
    }

    /// The mean of a column, as `Float64`; NaN if one of its numbers is.
    pub fn mean(name: impl Into<String>, column: impl Into<String>) -> Self {
        Self::new(name, Function::Mean, column)
    }
}

/// Groups the rows of a record batch by the columns `keys`, and returns a record batch with a row for each group, in the order of
/// first occurrences: the keys, and a column for each aggregate. As [`Primitives::group_by`], which documents the aggregates.
///
/// Keys are columns of fixed width, of 4, 8, 16 bytes and more, together up to 64: integers, floats, dates, times, decimals,
/// fixed-size binary. They are compared by their bits, columns of floats with one zero and one NaN, which are returned as `0.0` and
/// a positive NaN. Aggregates are of columns of integers and floats of 4 and 8 bytes.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow_array::{Float32Array, Int32Array, RecordBatch, UInt64Array};
/// use gpumap::Device;
/// use gpumap::arrow::{Aggregate, group_by};
///
/// let sales = RecordBatch::try_from_iter([
///     ("shop", Arc::new(UInt64Array::from(vec![7, 9, 7])) as _),
///     ("day", Arc::new(Int32Array::from(vec![1, 1, 1])) as _),
///     ("price", Arc::new(Float32Array::from(vec![0.5, 1.0, 2.0])) as _),
/// ])
/// .unwrap();
/// let asked = [Aggregate::count("n"), Aggregate::sum("total", "price")];
/// let groups = group_by(&Device::best()?, &sales, &["shop", "day"], &asked)?;
/// assert_eq!(groups["shop"].as_ref(), &UInt64Array::from(vec![7, 9]));
/// assert_eq!(groups["n"].as_ref(), &UInt64Array::from(vec![2, 1]));
/// assert_eq!(groups["total"].as_ref(), &arrow_array::Float64Array::from(vec![2.5, 1.0]));
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// # Errors
/// [`Error::Column`] for a column that is not there, has nulls, or a type that does not do; [`Error::Aggregates`]; those of
/// [`Grouping::run`].
pub fn group_by(
    device: &Device,
    batch: &RecordBatch,
    keys: &[&str],
    aggregates: &[Aggregate],
) -> Result<RecordBatch> {
    let keys = Keys::of(batch, keys)?;
    let columns = Columns::of(batch, aggregates)?;
    let primitives = Primitives::new(device);
    let grouped = keys.bytes.with(OneBatch {
        primitives: &primitives,
        columns: &columns,
    })?;
    Ok(result(&keys.fields, aggregates, grouped))
}

/// Groups of rows that come in record batches: see [`group_by`].
///
/// ```
/// use std::sync::Arc;
///
/// use arrow_array::{RecordBatch, UInt32Array};
/// use gpumap::Device;
/// use gpumap::arrow::{Aggregate, GroupBy};
///
/// let batch = |keys: Vec<u32>| {
///     RecordBatch::try_from_iter([("key", Arc::new(UInt32Array::from(keys)) as _)]).unwrap()
/// };
/// let mut groups = GroupBy::new(&Device::best()?, &["key"], vec![Aggregate::count("n")]);
/// assert_eq!(groups.batch(&batch(vec![3, 4, 3]))?, 2); // new groups
/// assert_eq!(groups.batch(&batch(vec![5, 4]))?, 1);
/// let counts = groups.finish()?;
/// assert_eq!(counts["key"].as_ref(), &UInt32Array::from(vec![3, 4, 5]));
/// # Ok::<(), gpumap::Error>(())
/// ```
pub struct GroupBy {
    device: Device,
    keys: Vec<String>,
    aggregates: Vec<Aggregate>,
    started: Option<Started>,
}

/// What the first batch has decided.
struct Started {
    fields: Vec<Field>,
    groups: Box<dyn Groups>,
}

impl GroupBy {
    /// Groups by these columns. The first batch decides their types.
    pub fn new(device: &Device, keys: &[&str], aggregates: Vec<Aggregate>) -> Self {
        Self {
            device: device.clone(),
            keys: keys.iter().map(|&name| name.to_owned()).collect(),
            aggregates,
            started: None,
        }
    }

    /// Adds the rows of a batch. Returns how many groups are new.
    ///
    /// # Errors
    /// Those of [`group_by`]; [`Error::Column`] for a key of another type than in the first batch, [`Error::OtherAggregates`] for
    /// another column. The groups are as they were. [`Error::Poisoned`].
    pub fn batch(&mut self, batch: &RecordBatch) -> Result<usize> {
        let names: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        let keys = Keys::of(batch, &names)?;
        let columns = Columns::of(batch, &self.aggregates)?;
        if let Some(started) = &self.started {
            for (field, expected) in keys.fields.iter().zip(&started.fields) {
                if field.data_type() != expected.data_type() {
                    let (given, expected) = (field.data_type(), expected.data_type());
                    let text =
                        format!("is of {given}, and in the first batch of {expected}: cast it");
                    return Err(refused(called(field.name()), text));
                }
            }
            return started.groups.add(&keys.bytes, &columns);
        }
        let primitives = Primitives::new(&self.device);
        let groups = keys.bytes.with(FirstBatch {
            primitives: &primitives,
            columns: &columns,
        })?;
        let new = groups.len();
        self.started = Some(Started {
            fields: keys.fields,
            groups,
        });
        Ok(new)
    }

    /// The groups of all batches so far; others may follow. Before the first batch there are no types: an empty record batch without
    /// columns.
    ///
    /// # Errors
    /// Those of [`primitives::GroupBy::finish`].
    pub fn finish(&self) -> Result<RecordBatch> {
        match &self.started {
            Some(started) => {
                let grouped = started.groups.finish()?;
                Ok(result(&started.fields, &self.aggregates, grouped))
            }
            None => Ok(RecordBatch::new_empty(Arc::new(Schema::empty()))),
        }
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.started
            .as_ref()
            .map_or(0, |started| started.groups.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupBy")
            .field("device", &self.device)
            .field("keys", &self.keys)
            .field("aggregates", &self.aggregates)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

fn refused(column: impl Into<String>, problem: impl Into<String>) -> Error {
    Error::Column {
        column: column.into(),
        problem: problem.into(),
    }
}

fn expect_no_nulls(name: &str, array: &dyn arrow_array::Array) -> Result<()> {
    match array.null_count() {
        0 => Ok(()),
        nulls => Err(refused(
            name,
            format!("has {nulls} nulls: fill or filter them before"),
        )),
    }
}

/// What a column is called in messages.
fn called(name: &str) -> String {
    format!("column {name:?}")
}

/// A column of a batch, without nulls.
fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    let Some(column) = batch.column_by_name(name) else {
        let schema = batch.schema();
        let names: Vec<&str> = schema
            .fields()
            .iter()
            .map(|it| it.name().as_str())
            .collect();
        let text = format!("is not there: the batch has {}", names.join(", "));
        return Err(refused(called(name), text));
    };
    expect_no_nulls(&called(name), column)?;
    Ok(column)
}

/// The bytes of a column of fixed width, and how many an item has.
fn bytes_of(name: &str, column: &ArrayRef) -> Result<(Buffer, usize)> {
    let width = match column.data_type() {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        other => other.primitive_width(),
    };
    let Some(width) = width.filter(|width| *width != 0 && width.is_multiple_of(size_of::<u32>()))
    else {
        let text = format!(
            "is of {}: a key has 4 bytes or a multiple of them, so cast it",
            column.data_type()
        );
        return Err(refused(called(name), text));
    };
    let data = column.to_data();
    let bytes = data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
    Ok((bytes, width))
}

/// The key columns of a batch, side by side.
struct Keys {
    fields: Vec<Field>,
    bytes: KeyBytes,
}

struct KeyBytes {
    bytes: Buffer,
    width: usize,
    /// The columns that are declared floats.
    floats: FloatWords,
}

impl Keys {
    fn of(batch: &RecordBatch, names: &[&str]) -> Result<Self> {
        let (mut fields, mut parts) = (Vec::new(), Vec::new());
        let (mut floats, mut at) = (FloatWords::NONE, 0);
        for name in names {
            let column = column(batch, name)?;
            fields.push(Field::new(*name, column.data_type().clone(), false));
            let (bytes, width) = bytes_of(name, column)?;
            if column.data_type().is_floating() {
                floats = floats.with(at, width);
            }
            at += width;
            parts.push((bytes, width));
        }
        let width = at;
        if !(1..=MOST_KEY_BYTES).contains(&width) {
            let text =
                format!("have {width} bytes together: group by columns of up to {MOST_KEY_BYTES}");
            return Err(refused(format!("the key columns {names:?}"), text));
        }
        let bytes = match &parts[..] {
            [(bytes, _)] => bytes.clone(),
            _ => beside(&parts, width, batch.num_rows()),
        };
        Ok(Self {
            fields,
            bytes: KeyBytes {
                bytes,
                width,
                floats,
            },
        })
    }
}

/// Columns side by side: of each row one after the other.
fn beside(parts: &[(Buffer, usize)], width: usize, rows: usize) -> Buffer {
    let mut beside = vec![0u8; rows * width];
    let mut at = 0;
    for (bytes, part) in parts {
        let items = bytes.chunks_exact(*part);
        for (row, item) in beside.chunks_exact_mut(width).zip(items) {
            row[at..at + part].copy_from_slice(item);
        }
        at += part;
    }
    Buffer::from_vec(beside)
}

/// What is done with keys of any width.
trait WithKeys {
    type Done;
    fn call<K: Pod + Send + Sync>(self, keys: &impl Input<K>) -> Result<Self::Done>;
}

impl KeyBytes {
    fn with<W: WithKeys>(&self, with: W) -> Result<W::Done> {
        macro_rules! by_words {
            ($($words:literal)*) => {
                match self.width / size_of::<u32>() {
                    $($words => {
                        let keys = self.as_keys::<[u32; $words]>();
                        with.call(&Floats::of_words(self.floats).of(&*keys))
                    })*
                    _ => unreachable!("up to 64 bytes"),
                }
            };
        }
        by_words!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    }

    /// Where they are, unless they are not aligned.
    fn as_keys<K: NoUninit + AnyBitPattern>(&self) -> std::borrow::Cow<'_, [K]> {
        match try_cast_slice(&self.bytes) {
            Ok(keys) => keys.into(),
            Err(_) => bytemuck::pod_collect_to_vec::<u8, K>(&self.bytes).into(),
        }
    }
}

/// What is aggregated, in the order of the aggregates.
struct Columns<'a>(Vec<(Function, Option<Column<'a>>)>);

macro_rules! columns {
    ($($name:ident: $array:ident, $data_type:ident;)*) => {
        enum Column<'a> {
            $($name(&'a [<arrow_array::types::$array as ArrowPrimitiveType>::Native]),)*
        }

        impl<'a> Column<'a> {
            fn of(name: &str, column: &'a ArrayRef) -> Result<Self> {
                use arrow_array::cast::AsArray as _;
                match column.data_type() {
                    $(DataType::$data_type => {
                        let array = column.as_primitive::<arrow_array::types::$array>();
                        Ok(Self::$name(array.values()))
                    })*
                    other => Err(refused(
                        called(name),
                        format!("is of {other}: aggregates are of integers and floats of 4 and 8 bytes, so cast it"),
                    )),
                }
            }

            fn ask<'g, T, K: Pod>(
                &'g self,
                function: Function,
                grouping: Grouping<'g, T, K, Chosen>,
            ) -> Grouping<'g, T, K, Chosen> {
                match self {
                    $(Self::$name(column) => grouping.aggregate(function, *column),)*
                }
            }
        }

        /// An array of a column of answers.
        fn answers(numbers: Numbers) -> ArrayRef {
            match numbers {
                $(Numbers::$name(numbers) => Arc::new(array::<arrow_array::types::$array>(numbers)),)*
            }
        }
    };
}
columns! {
    U32: UInt32Type, UInt32;
    I32: Int32Type, Int32;
    F32: Float32Type, Float32;
    U64: UInt64Type, UInt64;
    I64: Int64Type, Int64;
    F64: Float64Type, Float64;
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch, aggregates: &[Aggregate]) -> Result<Self> {
        let of = |aggregate: &Aggregate| match aggregate.function {
            Function::Count => Ok((Function::Count, None)),
            function => {
                let column = column(batch, &aggregate.column)?;
                Ok((function, Some(Column::of(&aggregate.column, column)?)))
            }
        };
        aggregates.iter().map(of).collect::<Result<_>>().map(Self)
    }

    fn ask<'g, T, K: Pod>(
        &'g self,
        grouping: Grouping<'g, T, K, ()>,
    ) -> Grouping<'g, T, K, Chosen> {
        let mut grouping = grouping.chosen();
        for (function, column) in &self.0 {
            grouping = match column {
                Some(column) => column.ask(*function, grouping),
                None => grouping.count(),
            };
        }
        grouping
    }
}

/// Keys of groups as bytes, and their columns.
struct Untyped {
    keys: Vec<u8>,
    groups: usize,
    columns: Vec<Numbers>,
}

impl<K: Pod> From<Grouped<K, Vec<Numbers>>> for Untyped {
    fn from(grouped: Grouped<K, Vec<Numbers>>) -> Self {
        Self {
            keys: cast_slice(&grouped.keys).to_vec(),
            groups: grouped.keys.len(),
            columns: grouped.columns,
        }
    }
}

struct OneBatch<'a> {
    primitives: &'a Primitives,
    columns: &'a Columns<'a>,
}

impl WithKeys for OneBatch<'_> {
    type Done = Untyped;

    fn call<K: Pod + Send + Sync>(self, keys: &impl Input<K>) -> Result<Untyped> {
        let grouped = self.columns.ask(self.primitives.group_by(keys)).run()?;
        Ok(grouped.into())
    }
}

struct FirstBatch<'a> {
    primitives: &'a Primitives,
    columns: &'a Columns<'a>,
}

impl WithKeys for FirstBatch<'_> {
    type Done = Box<dyn Groups>;

    fn call<K: Pod + Send + Sync>(self, keys: &impl Input<K>) -> Result<Box<dyn Groups>> {
        let groups = self.columns.ask(self.primitives.group_by(keys)).start()?;
        Ok(Box::new(groups))
    }
}

/// Groups by keys of any width.
trait Groups: Send + Sync {
    fn add(&self, keys: &KeyBytes, columns: &Columns<'_>) -> Result<usize>;
    fn finish(&self) -> Result<Untyped>;
    fn len(&self) -> usize;
}

impl<K: Pod + Send + Sync> Groups for primitives::GroupBy<K, Chosen> {
    fn add(&self, keys: &KeyBytes, columns: &Columns<'_>) -> Result<usize> {
        let floats = Floats::of_words(keys.floats);
        let keys = keys.as_keys::<K>();
        columns.ask(self.batch(&floats.of(&*keys))).run()
    }

    fn finish(&self) -> Result<Untyped> {
        Self::finish(self).map(Untyped::from)
    }

    fn len(&self) -> usize {
        Self::len(self)
    }
}

/// A record batch of groups.
fn result(keys: &[Field], aggregates: &[Aggregate], grouped: Untyped) -> RecordBatch {
    let Untyped {
        keys: bytes,
        groups,
        columns,
    } = grouped;
    let widths = keys.iter().map(|field| match field.data_type() {
        DataType::FixedSizeBinary(width) => *width as usize,
        other => other.primitive_width().unwrap_or(0),
    });
    let widths: Vec<usize> = widths.collect();
    let width: usize = widths.iter().sum();
    let (mut fields, mut arrays, mut at) = (keys.to_vec(), Vec::new(), 0);
    for (field, part) in keys.iter().zip(widths) {
        let column: Vec<u8> = match keys.len() {
            1 => bytes.clone(),
            _ => {
                let rows = bytes.chunks_exact(width);
                rows.flat_map(|row| &row[at..at + part]).copied().collect()
            }
        };
        at += part;
        let data = ArrayData::builder(field.data_type().clone())
            .len(groups)
            .add_buffer(Buffer::from_vec(column))
            .align_buffers(true)
            .build()
            .expect("as many items as there are groups");
        arrays.push(make_array(data));
    }
    for (aggregate, numbers) in aggregates.iter().zip(columns) {
        let array = answers(numbers);
        fields.push(Field::new(
            &aggregate.name,
            array.data_type().clone(),
            false,
        ));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns of one length")
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt32Type, UInt64Type};
    use arrow_array::{
        BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
        Int32Array, Int64Array, StringArray, UInt8Array, UInt32Array, UInt64Array,
    };

    use super::*;
    use crate::error::ErrorKind;
    use crate::{Map, RowMap};

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter(columns).unwrap()
    }

    /// Panics unless it is the refusal of a column whose text has these parts.
    fn assert_refused<T: fmt::Debug>(result: Result<T>, parts: &[&str]) {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        for part in parts {
            assert!(error.to_string().contains(part), "{error}: no {part:?}");
        }
    }

    #[test]
    fn slices_of_arrays_are_taken_where_they_lie() {
        let array_of = Int64Array::from_iter_values(0..100);
        let part = array_of.slice(7, 30);
        assert_eq!(values(&part).unwrap().as_ptr(), &array_of.values()[7]);
        let map = Map::<i64, i64>::new(&Device::cpu()).unwrap();
        assert_eq!(
            map.insert(values(&part).unwrap(), values(&part).unwrap())
                .unwrap(),
            30
        );
        let found = optional::<Int64Type>(map.get(&[6, 7, 36, 37]).unwrap());
        assert_eq!(found, Int64Array::from(vec![None, Some(7), Some(36), None]));
        let numbers = vec![1u32, 2, 3];
        let at = numbers.as_ptr();
        assert_eq!(array::<UInt32Type>(numbers).values().as_ptr(), at);

        let items = (0..10u8).map(|i| [i; 12]);
        let all = FixedSizeBinaryArray::try_from_iter(items).unwrap();
        let part = all.slice(3, 4);
        let items = rows::<12>(&part).unwrap();
        assert_eq!(items, [[3; 12], [4; 12], [5; 12], [6; 12]]);
        let map = RowMap::<[u8; 12]>::new(&Device::cpu()).unwrap();
        assert_eq!(map.insert(items).unwrap(), [0, 1, 2, 3]);
        assert_eq!(rows_array(&map.keys().unwrap()), part);

        let holes = Int64Array::from(vec![Some(1), None]);
        assert_refused(values(&holes), &["the array", "1 nulls", "fill or filter"]);
        assert_refused(rows::<8>(&all), &["12 bytes", "8"]);
    }

    #[test]
    fn string_arrays_are_batches() {
        let map = RowMap::<str>::new(&Device::cpu()).unwrap();
        let text: Vec<String> = (0..100)
            .map(|i| "x".repeat(i % 9) + &i.to_string())
            .collect();
        let part = StringArray::from(text.clone()).slice(7, 30);
        let rows: Vec<u32> = (0..30).collect();
        assert_eq!(map.insert(&part).unwrap(), rows);
        // The same strings from each type of array.
        let part = &text[7..37];
        assert_eq!(
            map.insert(&LargeStringArray::from(part.to_vec())).unwrap(),
            rows
        );
        let bytes: Vec<&[u8]> = part.iter().map(String::as_bytes).collect();
        assert_eq!(map.insert(&BinaryArray::from(bytes.clone())).unwrap(), rows);
        assert_eq!(
            map.insert(&LargeBinaryArray::from(bytes.clone()).slice(3, 9))
                .unwrap(),
            rows[3..12]
        );

        let keys = map.keys().unwrap();
        let at = keys.bytes().as_ptr();
        let array = strings_array(keys).unwrap();
        assert_eq!((array.value_data().as_ptr(), array.len()), (at, 30));
        assert!(array.iter().flatten().eq(part));
        assert_eq!(
            binary_array(map.keys().unwrap()),
            LargeBinaryArray::from(bytes)
        );
        map.insert(&[&b"\xff"[..]]).unwrap();
        assert_refused(
            strings_array(map.keys().unwrap()),
            &["the strings", "binary_array"],
        );
        let holes = StringArray::from(vec![Some("a"), None]);
        assert_refused(
            map.insert(&holes),
            &["the array", "1 nulls", "fill or filter"],
        );
        assert_eq!(map.len(), 31);
    }

    #[test]
    fn groups_are_those_of_a_loop() {
        let n = 5_000i64;
        let day = |i: i64| (i * i % 31) as i32;
        let shop = |i: i64| i128::from(i % 7) << 70 | 5;
        let price = |i: i64| (i * 37 % 1_001 - 500) as f64 / 4.0;
        let shops =
            Decimal128Array::from_iter_values((0..n).map(shop)).with_precision_and_scale(38, 0);
        let all = batch(vec![
            (
                "day",
                Arc::new(Date32Array::from_iter_values((0..n).map(day))),
            ),
            ("shop", Arc::new(shops.unwrap())),
            (
                "price",
                Arc::new(Float64Array::from_iter_values((0..n).map(price))),
            ),
            (
                "pieces",
                Arc::new(Int32Array::from_iter_values((0..n).map(|i| i as i32 - 9))),
            ),
        ]);
        let asked = vec![
            Aggregate::count("n"),
            Aggregate::sum("pieces", "pieces"),
            Aggregate::min("low", "price"),
            Aggregate::max("high", "price"),
            Aggregate::mean("mean", "pieces"),
            Aggregate::sum("total", "price"),
        ];
        let mut expected: Vec<(i32, i128, Vec<i64>)> = Vec::new();
        for i in 0..n {
            match expected
                .iter_mut()
                .find(|(d, s, _)| (*d, *s) == (day(i), shop(i)))
            {
                Some((.., rows)) => rows.push(i),
                None => expected.push((day(i), shop(i), vec![i])),
            }
        }
        let assert_right = |groups: &RecordBatch| {
            let names: Vec<String> = groups
                .schema()
                .fields()
                .iter()
                .map(|it| it.name().clone())
                .collect();
            assert_eq!(
                names,
                ["day", "shop", "n", "pieces", "low", "high", "mean", "total"]
            );
            assert_eq!(
                groups.schema().field(1).data_type(),
                &DataType::Decimal128(38, 0)
            );
            let days = Date32Array::from_iter_values(expected.iter().map(|(day, ..)| *day));
            assert_eq!(groups["day"].as_ref(), &days);
            let rows = || expected.iter().map(|(.., rows)| rows);
            let counts = rows().map(|rows| rows.len() as u64);
            assert_eq!(groups["n"].as_ref(), &UInt64Array::from_iter_values(counts));
            let pieces = |rows: &Vec<i64>| rows.iter().map(|i| i - 9).sum::<i64>();
            assert_eq!(
                groups["pieces"].as_ref(),
                &Int64Array::from_iter_values(rows().map(pieces))
            );
            let prices = |rows: &Vec<i64>| rows.iter().map(|&i| price(i)).collect::<Vec<_>>();
            let low = rows().map(|rows| prices(rows).into_iter().fold(f64::MAX, f64::min));
            assert_eq!(groups["low"].as_ref(), &Float64Array::from_iter_values(low));
            let high = rows().map(|rows| prices(rows).into_iter().fold(f64::MIN, f64::max));
            assert_eq!(
                groups["high"].as_ref(),
                &Float64Array::from_iter_values(high)
            );
            let mean = rows().map(|rows| pieces(rows) as f64 / rows.len() as f64);
            assert_eq!(
                groups["mean"].as_ref(),
                &Float64Array::from_iter_values(mean)
            );
            // Quarters are added exactly.
            let total = rows().map(|rows| prices(rows).iter().sum::<f64>());
            assert_eq!(
                groups["total"].as_ref(),
                &Float64Array::from_iter_values(total)
            );
        };
        let device = Device::cpu();
        assert_right(&group_by(&device, &all, &["day", "shop"], &asked).unwrap());
        let mut groups = GroupBy::new(&device, &["day", "shop"], asked.clone());
        assert_eq!(
            (groups.len(), groups.finish().unwrap().num_columns()),
            (0, 0)
        );
        let mut new = 0;
        // Slices of the batch, at places that are not aligned.
        for (first, len) in [(0, 1), (1, 1_233), (1_234, 0), (1_234, 3_766)] {
            new += groups.batch(&all.slice(first, len)).unwrap();
            assert_eq!(groups.len(), new);
        }
        assert_right(&groups.finish().unwrap());

        // What is refused changes nothing.
        let other = batch(vec![
            ("day", Arc::new(Int64Array::from(vec![1]))),
            ("shop", all["shop"].slice(0, 1)),
            ("price", all["price"].slice(0, 1)),
            ("pieces", all["pieces"].slice(0, 1)),
        ]);
        assert_refused(
            groups.batch(&other),
            &["\"day\"", "Int64", "Date32", "cast"],
        );
        let other = batch(vec![
            ("day", all["day"].slice(0, 1)),
            ("shop", all["shop"].slice(0, 1)),
            ("price", all["price"].slice(0, 1)),
            ("pieces", Arc::new(Int64Array::from(vec![1]))),
        ]);
        let error = groups.batch(&other).unwrap_err();
        assert!(matches!(error, Error::OtherAggregates { .. }), "{error}");
        assert_right(&groups.finish().unwrap());
    }

    #[test]
    fn columns_of_floats_have_one_zero_and_one_nan() {
        let floats = [0.0, -0.0, f64::NAN, -f64::NAN, 1.5, f64::INFINITY];
        let payload = f64::from_bits(f64::NAN.to_bits() | 5);
        let floats: Vec<f64> = floats.into_iter().chain([payload, -0.0]).collect();
        let narrow = |x: &f64| *x as f32;
        let bits = |x: &f64| x.to_bits() as i64;
        let all = batch(vec![
            ("f64", Arc::new(Float64Array::from(floats.clone()))),
            (
                "f32",
                Arc::new(Float32Array::from_iter_values(floats.iter().map(narrow))),
            ),
            (
                "bits",
                Arc::new(Int64Array::from_iter_values(floats.iter().map(bits))),
            ),
            ("one", Arc::new(Int32Array::from(vec![1; 8]))),
        ]);
        let asked = vec![
            Aggregate::count("n"),
            Aggregate::min("low", "f64"),
            Aggregate::max("high", "f32"),
        ];
        let (zero, nan) = (0.0f64.to_bits(), f64::NAN.to_bits());
        let keys = [zero, nan, 1.5f64.to_bits(), f64::INFINITY.to_bits()];
        let assert_right = |groups: &RecordBatch, times: u64| {
            let told = groups["n"].as_primitive::<UInt64Type>().values();
            assert_eq!(told[..], [3, 3, 1, 1].map(|n| n * times));
            if let Some(told) = groups.column_by_name("f64") {
                let told = told.as_primitive::<Float64Type>().values().iter();
                assert!(told.map(|x| x.to_bits()).eq(keys));
            }
            if let Some(told) = groups.column_by_name("f32") {
                let told = told.as_primitive::<Float32Type>().values().iter();
                let keys = keys.map(|bits| (f64::from_bits(bits) as f32).to_bits());
                assert!(told.map(|x| x.to_bits()).eq(keys));
            }
            let low = groups["low"].as_primitive::<Float64Type>().values();
            assert_eq!(low[1].to_bits(), nan, "of nothing else");
            assert_eq!(low[0].to_bits(), (-0.0f64).to_bits());
            assert_eq!(
                groups["high"].as_primitive::<Float32Type>().value(3),
                f32::INFINITY
            );
        };
        let device = Device::cpu();
        for keys in [
            &["f64"][..],
            &["f32"],
            &["one", "f64", "f32"],
            &["f32", "one"],
        ] {
            assert_right(&group_by(&device, &all, keys, &asked).unwrap(), 1);
            let mut groups = GroupBy::new(&device, keys, asked.clone());
            for new in [4, 0] {
                assert_eq!(groups.batch(&all).unwrap(), new);
            }
            // A slice, at a place that is not aligned to a key.
            assert_eq!(groups.batch(&all.slice(1, 7)).unwrap(), 0);
            assert_eq!(groups.batch(&all.slice(0, 1)).unwrap(), 0);
            assert_right(&groups.finish().unwrap(), 3);
        }
        // The same bits, of a column that is none of floats.
        for keys in [&["bits"][..], &["bits", "f64"]] {
            let groups = group_by(&device, &all, keys, &asked).unwrap();
            assert_eq!(groups.num_rows(), 7, "{keys:?}");
        }
    }

    #[test]
    fn columns_that_do_not_do_are_refused() {
        let all = batch(vec![
            ("id", Arc::new(UInt32Array::from(vec![1, 2]))),
            ("text", Arc::new(StringArray::from(vec!["a", "b"]))),
            ("small", Arc::new(UInt8Array::from(vec![1, 2]))),
            ("flag", Arc::new(BooleanArray::from(vec![true, false]))),
            ("holes", Arc::new(UInt32Array::from(vec![Some(1), None]))),
            (
                "wide",
                Arc::new(FixedSizeBinaryArray::try_from_iter([[1u8; 64]; 2].into_iter()).unwrap()),
            ),
        ]);
        let by = |keys: &[&str], aggregate| group_by(&Device::cpu(), &all, keys, &[aggregate]);
        let count = || Aggregate::count("n");
        assert_eq!(by(&["wide"], count()).unwrap().num_rows(), 1);
        for (keys, aggregate, parts) in [
            (
                &["no"][..],
                count(),
                &["\"no\"", "is not there", "id, text"][..],
            ),
            (&["text"], count(), &["\"text\"", "Utf8", "cast"]),
            (&["small"], count(), &["\"small\"", "UInt8"]),
            (&["flag"], count(), &["Boolean"]),
            (&["holes"], count(), &["1 nulls"]),
            (&[], count(), &["0 bytes", "64"]),
            (&["id", "wide"], count(), &["68 bytes", "64"]),
            (
                &["id"],
                Aggregate::sum("s", "no"),
                &["\"no\"", "is not there"],
            ),
            (&["id"], Aggregate::min("s", "text"), &["\"text\"", "Utf8"]),
            (&["id"], Aggregate::max("s", "small"), &["UInt8", "4 and 8"]),
            (&["id"], Aggregate::mean("s", "holes"), &["nulls"]),
        ] {
            assert_refused(by(keys, aggregate), parts);
        }
        let none = group_by(&Device::cpu(), &all, &["id"], &[]).unwrap_err();
        assert!(matches!(none, Error::Aggregates { given: 0, .. }), "{none}");
        let empty = all.slice(0, 0);
        let groups = group_by(&Device::cpu(), &empty, &["id"], &[count()]).unwrap();
        assert_eq!((groups.num_rows(), groups.num_columns()), (0, 2));
    }
}
