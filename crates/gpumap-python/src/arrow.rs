//! Arrow arrays of the caller by the PyCapsule interface (`__arrow_c_array__`, `__arrow_c_stream__`): those of pyarrow, columns of
//! polars, and of pandas where it keeps them so. Numbers and strings are used where they are; several chunks, and strings in views,
//! are copied one behind the other.
//!
//! An array with nulls is refused, and one of another type than numbers where numbers are wanted; other strings come one by one.

use std::ffi::{CStr, c_void};
use std::fmt;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array as _, ArrayReader as _, BinaryViewArray, StringViewArray};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use gpumap::strings::{StringBatch, StringColumn, StringInput};
use pyo3::exceptions::{PyImportError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::{ffi, intern};

use crate::dtype::{Dtype, Item};
use crate::numpy;

/// The chunks of an array, and their type.
struct Chunks {
    data_type: DataType,
    chunks: Vec<ArrayData>,
}

/// Numbers, or rows of them.
pub enum Column {
    Numbers {
        bytes: Buffer,
        item: Item,
        len: usize,
    },
    /// An array without elements, and without a type of them.
    Empty,
}

/// The numbers of an array; nothing if it is none of Arrow's. One of another type than those of numbers is refused.
pub fn column(array: &Bound<'_, PyAny>, what: &str) -> PyResult<Option<Column>> {
    let wanted =
        |data_type: &DataType| *data_type == DataType::Null || item_of(data_type).is_some();
    let Chunks { data_type, chunks } = match imported(array, what, wanted)? {
        Imported::Chunks(chunks) => chunks,
        Imported::Other(data_type) => {
            return Err(PyTypeError::new_err(format!(
                "{what} are of Arrow's type {data_type}: cast them to u32, i32, f32, u64, i64 or f64"
            )));
        }
        Imported::Nothing => return Ok(None),
    };
    let len = chunks.iter().map(ArrayData::len).sum();
    let Some(item) = item_of(&data_type) else {
        return match len {
            0 => Ok(Some(Column::Empty)),
            _ => Err(PyValueError::new_err(format!("{what} are all null"))),
        };
    };
    let bytes = match &*chunks {
        [one] => bytes_of(one, item, what)?,
        _ => {
            // In words, so that all numbers are aligned.
            let words = (len * item.bytes()).div_ceil(size_of::<u64>());
            let mut all: Vec<u64> = Vec::new();
            all.try_reserve_exact(words).map_err(|_| {
                PyMemoryError::new_err(format!("{what}: no memory for a copy of all chunks"))
            })?;
            all.resize(words, 0);
            let mut room = bytemuck::cast_slice_mut(&mut all);
            for chunk in &chunks {
                let bytes = bytes_of(chunk, item, what)?;
                let (place, rest) = room.split_at_mut(bytes.len());
                place.copy_from_slice(&bytes);
                room = rest;
            }
            Buffer::from_vec(all)
        }
    };
    Ok(Some(Column::Numbers { bytes, item, len }))
}

/// What the items of an array are, if they are numbers or rows of numbers.
fn item_of(data_type: &DataType) -> Option<Item> {
    let dtype = match data_type {
        DataType::UInt32 => Dtype::U32,
        DataType::Int32 => Dtype::I32,
        DataType::Float32 => Dtype::F32,
        DataType::UInt64 => Dtype::U64,
        DataType::Int64 => Dtype::I64,
        DataType::Float64 => Dtype::F64,
        DataType::FixedSizeList(field, width) => {
            let item = item_of(field.data_type()).filter(|item| item.width.is_none())?;
            return Some(Item {
                width: Some(usize::try_from(*width).ok()?),
                ..item
            });
        }
        _ => return None,
    };
    Some(dtype.into())
}

/// The bytes of the items of a chunk.
fn bytes_of(chunk: &ArrayData, item: Item, what: &str) -> PyResult<Buffer> {
    let (numbers, first) = match (item.width, chunk.child_data()) {
        (Some(width), [child]) => {
            // Only those of its rows: a slice has the numbers of the whole array.
            let (first, len) = (chunk.offset() * width, chunk.len() * width);
            if child.len() < first + len {
                return Err(PyValueError::new_err(format!(
                    "{what} have fewer numbers than their rows need: this is no valid Arrow array"
                )));
            }
            if let Some(nulls) = child.nulls() {
                expect_no_nulls(nulls.slice(first, len).null_count(), what)?;
            }
            (child, child.offset() + first)
        }
        _ => (chunk, chunk.offset()),
    };
    let bytes = chunk.len() * item.bytes();
    let buffer = numbers.buffers().first();
    match buffer.filter(|_| bytes != 0) {
        Some(buffer) => Ok(buffer.slice_with_length(first * item.dtype.bytes(), bytes)),
        None => Ok(MutableBuffer::new(0).into()),
    }
}

/// Strings of the caller.
pub enum Texts {
    /// One behind the other already: a chunk of strings or bytes with offsets.
    Column(ArrayData),
    Copied(Copied),
}

/// Strings that were copied one behind the other.
pub struct Copied {
    /// One more than there are strings.
    offsets: Vec<i64>,
    bytes: Vec<u8>,
}

impl Copied {
    /// None yet.
    pub fn new() -> Self {
        Self {
            offsets: vec![0],
            bytes: Vec::new(),
        }
    }

    /// Adds a string, if there is memory for it.
    pub fn push(&mut self, string: &[u8]) -> PyResult<()> {
        let room = self.bytes.try_reserve(string.len());
        room.and_then(|()| self.offsets.try_reserve(1))
            .map_err(|_| {
                let count = self.offsets.len();
                PyMemoryError::new_err(format!("no memory for the copies of {count} strings"))
            })?;
        self.bytes.extend_from_slice(string);
        self.offsets.push(self.bytes.len() as i64);
        Ok(())
    }

    /// Those of an iterator.
    pub fn of<'a>(strings: impl IntoIterator<Item = &'a [u8]>) -> PyResult<Self> {
        let mut copied = Self::new();
        strings.into_iter().try_for_each(|it| copied.push(it))?;
        Ok(copied)
    }
}

impl Texts {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Column(column) => column.len(),
            Self::Copied(strings) => strings.offsets.len() - 1,
        }
    }
}

impl StringInput for Texts {
    fn strings(&self) -> gpumap::Result<StringBatch<'_>> {
        match self {
            Self::Column(column) => Ok(column_of(column).into()),
            Self::Copied(strings) => {
                Ok(StringColumn::new(&*strings.offsets, &*strings.bytes).into())
            }
        }
    }
}

/// The strings of a chunk with offsets, where they are.
fn column_of(chunk: &ArrayData) -> StringColumn<'_> {
    // An array without strings may have no offset.
    let ends = match chunk.len() {
        0 => 0,
        len => len + 1,
    };
    let bytes = chunk.buffers()[1].as_slice();
    match chunk.data_type() {
        DataType::Utf8 | DataType::Binary => {
            StringColumn::new(&chunk.buffer::<i32>(0)[..ends], bytes)
        }
        _ => StringColumn::new(&chunk.buffer::<i64>(0)[..ends], bytes),
    }
}

/// The strings of an array; nothing if it is none of Arrow's, or of another type.
pub fn texts(array: &Bound<'_, PyAny>) -> PyResult<Option<Texts>> {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let wanted = |data_type: &DataType| {
        matches!(
            data_type,
            Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView
        )
    };
    let Imported::Chunks(Chunks { data_type, chunks }) = imported(array, "the strings", wanted)?
    else {
        return Ok(None);
    };
    let is_view = matches!(data_type, Utf8View | BinaryView);
    if let ([one], false) = (&*chunks, is_view) {
        return Ok(Some(Texts::Column(one.clone())));
    }
    let mut strings = Copied::new();
    for chunk in chunks {
        match data_type {
            Utf8View | BinaryView => {
                // The array would panic.
                chunk.validate_data().map_err(invalid)?;
                let mut push = |string: &[u8]| strings.push(string);
                match data_type {
                    Utf8View => {
                        let chunk = StringViewArray::from(chunk);
                        let mut texts = chunk.iter().flatten();
                        texts.try_for_each(|text| push(text.as_bytes()))?;
                    }
                    _ => BinaryViewArray::from(chunk)
                        .iter()
                        .flatten()
                        .try_for_each(push)?,
                }
            }
            Utf8 | Binary => extend::<i32>(&mut strings, &chunk)?,
            _ => extend::<i64>(&mut strings, &chunk)?,
        }
    }
    Ok(Some(Texts::Copied(strings)))
}

/// Copies the strings of a chunk with offsets.
fn extend<O: arrow_buffer::ArrowNativeType>(
    strings: &mut Copied,
    chunk: &ArrayData,
) -> PyResult<()> {
    let (offsets, bytes) = (chunk.buffer::<O>(0), chunk.buffers()[1].as_slice());
    let string = |ends: &[O]| bytes.get(ends[0].to_usize()?..ends[1].to_usize()?);
    for (i, ends) in offsets.windows(2).take(chunk.len()).enumerate() {
        let string = string(ends).ok_or_else(|| {
            invalid(format!(
                "string {i} of a chunk has the offsets {:?} and {:?} of {} bytes",
                ends[0],
                ends[1],
                bytes.len()
            ))
        })?;
        strings.push(string)?;
    }
    Ok(())
}

fn invalid(error: impl fmt::Display) -> PyErr {
    PyValueError::new_err(format!("the strings are no valid Arrow array: {error}"))
}

/// What an argument is.
enum Imported {
    Chunks(Chunks),
    /// An array of Arrow, of a type that is not wanted.
    Other(DataType),
    /// None of Arrow.
    Nothing,
}

/// An array, if it is of a type that is wanted, and of Arrow. One whose elements are numpy's is for numpy: pandas would make nulls
/// of its NaN.
fn imported(
    array: &Bound<'_, PyAny>,
    what: &str,
    wanted: impl Fn(&DataType) -> bool,
) -> PyResult<Imported> {
    let py = array.py();
    let methods = [
        intern!(py, "__arrow_c_array__"),
        intern!(py, "__arrow_c_stream__"),
    ];
    for (method, is_stream) in methods.into_iter().zip([false, true]) {
        let Some(method) = array.getattr_opt(method)? else {
            continue;
        };
        if numpy::has_dtype(array)? {
            return Ok(Imported::Nothing);
        }
        let capsules = match method.call0() {
            // pandas, if there is no pyarrow.
            Err(error) if error.is_instance_of::<PyImportError>(py) => {
                return Ok(Imported::Nothing);
            }
            capsules => capsules?,
        };
        let imported = match is_stream {
            true => of_stream(&capsules, wanted),
            false => of_array(&capsules, wanted),
        }?;
        if let Imported::Chunks(Chunks { chunks, .. }) = &imported {
            for chunk in chunks {
                expect_no_nulls(chunk.null_count(), what)?;
            }
        }
        return Ok(imported);
    }
    Ok(Imported::Nothing)
}

fn expect_no_nulls(nulls: usize, what: &str) -> PyResult<()> {
    match nulls {
        0 => Ok(()),
        nulls => Err(PyValueError::new_err(format!(
            "{what} have nulls, {nulls} in one chunk: fill or drop them first"
        ))),
    }
}

fn of_array(capsules: &Bound<'_, PyAny>, wanted: impl Fn(&DataType) -> bool) -> PyResult<Imported> {
    let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = capsules.extract()?;
    let schema = pointer::<FFI_ArrowSchema>(&schema, c"arrow_schema")?;
    let array = pointer::<FFI_ArrowArray>(&array, c"arrow_array")?;
    // SAFETY: a capsule of this name leads to a schema, which the interface lays out as seven words and the function that
    // releases it.
    let release = unsafe { schema.cast::<[usize; 8]>().read() }[7];
    // SAFETY: a capsule of this name leads to an array.
    if release == 0 || unsafe { &*array }.is_released() {
        return Err(PyTypeError::new_err(
            "the contents of these Arrow capsules were taken before: ask the array for new ones",
        ));
    }
    // SAFETY: capsules with these names lead to such structs, of which this takes the contents. The capsules release nothing then.
    let (schema, array) = unsafe {
        let schema = FFI_ArrowSchema::from_raw(schema);
        (schema, FFI_ArrowArray::from_raw(array))
    };
    let data_type = DataType::try_from(&schema).map_err(refused)?;
    if !wanted(&data_type) {
        return Ok(Imported::Other(data_type));
    }
    // SAFETY: the protocol: the array is of this schema.
    let chunk = unsafe { from_ffi(array, &schema) }.map_err(refused)?;
    Ok(Imported::Chunks(Chunks {
        data_type,
        chunks: vec![chunk],
    }))
}

fn of_stream(capsule: &Bound<'_, PyAny>, wanted: impl Fn(&DataType) -> bool) -> PyResult<Imported> {
    let stream = pointer::<FFI_ArrowArrayStream>(capsule, c"arrow_array_stream")?;
    // SAFETY: a capsule with this name leads to such a struct, of which this takes the contents. The capsule releases nothing then.
    let reader = unsafe { ArrayStreamReader::from_raw(stream) }.map_err(refused)?;
    let data_type = reader.field().data_type().clone();
    if !wanted(&data_type) {
        return Ok(Imported::Other(data_type));
    }
    let chunks = reader.map(|chunk| chunk.map(|chunk| chunk.to_data()));
    let chunks: Result<Vec<_>, _> = chunks.collect();
    Ok(Imported::Chunks(Chunks {
        data_type,
        chunks: chunks.map_err(refused)?,
    }))
}

fn refused(error: ArrowError) -> PyErr {
    PyTypeError::new_err(format!("an Arrow array cannot be imported: {error}"))
}

/// Where a capsule of this name leads to.
fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut T> {
    // SAFETY: it checks that this is a capsule of that name.
    let at: *mut c_void = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) };
    match at.is_null() {
        true => Err(PyErr::fetch(capsule.py())),
        false => Ok(at.cast()),
    }
}
