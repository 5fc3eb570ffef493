//! Arrow arrays of the caller by the PyCapsule interface (`__arrow_c_array__`, `__arrow_c_stream__`): those of pyarrow, columns of
//! polars, and of pandas where it keeps them so. Numbers and strings are used where they are; several chunks, and strings in views,
//! are copied one behind the other.
//!
//! An array with nulls is refused. What has another type than those here is for others to convert.

use std::ffi::{CStr, c_void};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array as _, ArrayReader as _, BinaryViewArray, StringViewArray};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use gpumap::strings::{StringBatch, StringColumn, StringInput, Strings};
use pyo3::exceptions::{PyImportError, PyTypeError, PyValueError};
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
pub struct Numbers {
    pub bytes: Buffer,
    pub item: Item,
    pub len: usize,
}

/// The numbers of an array; nothing if it is none of Arrow's, or of another type.
pub fn numbers(array: &Bound<'_, PyAny>, what: &str) -> PyResult<Option<Numbers>> {
    let wanted = |data_type: &DataType| item_of(data_type).is_some();
    let Some(Chunks { data_type, chunks }) = imported(array, what, wanted)? else {
        return Ok(None);
    };
    let Some(item) = item_of(&data_type) else {
        return Ok(None);
    };
    let bytes = match &*chunks {
        [one] => bytes_of(one, item, what)?,
        _ => {
            let mut all = MutableBuffer::new(0);
            for chunk in &chunks {
                all.extend_from_slice(&bytes_of(chunk, item, what)?);
            }
            all.into()
        }
    };
    let len = chunks.iter().map(ArrayData::len).sum();
    Ok(Some(Numbers { bytes, item, len }))
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
            expect_no_nulls(child, what)?;
            (child, child.offset() + chunk.offset() * width)
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
    Copied(Strings),
}

impl Texts {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Column(column) => column.len(),
            Self::Copied(strings) => strings.len(),
        }
    }
}

impl StringInput for Texts {
    fn strings(&self) -> gpumap::Result<StringBatch<'_>> {
        match self {
            Self::Column(column) => Ok(column_of(column).into()),
            Self::Copied(strings) => {
                Ok(StringColumn::new(strings.offsets(), strings.bytes()).into())
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
    let Some(Chunks { data_type, chunks }) = imported(array, "the strings", wanted)? else {
        return Ok(None);
    };
    let is_view = matches!(data_type, Utf8View | BinaryView);
    if let ([one], false) = (&*chunks, is_view) {
        return Ok(Some(Texts::Column(one.clone())));
    }
    let mut strings = Strings::default();
    for chunk in chunks {
        match data_type {
            Utf8View => strings.extend(StringViewArray::from(chunk).iter().flatten()),
            BinaryView => strings.extend(BinaryViewArray::from(chunk).iter().flatten()),
            Utf8 | Binary => extend::<i32>(&mut strings, &chunk),
            _ => extend::<i64>(&mut strings, &chunk),
        }
    }
    Ok(Some(Texts::Copied(strings)))
}

/// Copies the strings of a chunk with offsets.
fn extend<O: arrow_buffer::ArrowNativeType>(strings: &mut Strings, chunk: &ArrayData) {
    let (offsets, bytes) = (chunk.buffer::<O>(0), chunk.buffers()[1].as_slice());
    let ends = offsets.windows(2).take(chunk.len());
    strings.extend(ends.map(|ends| &bytes[ends[0].as_usize()..ends[1].as_usize()]));
}

/// An array, if it is of a type that is wanted, and of Arrow. One whose elements are numpy's is for numpy: pandas would make nulls
/// of its NaN.
fn imported(
    array: &Bound<'_, PyAny>,
    what: &str,
    wanted: impl Fn(&DataType) -> bool,
) -> PyResult<Option<Chunks>> {
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
            return Ok(None);
        }
        let capsules = match method.call0() {
            // pandas, if there is no pyarrow.
            Err(error) if error.is_instance_of::<PyImportError>(py) => return Ok(None),
            capsules => capsules?,
        };
        let chunks = match is_stream {
            true => of_stream(&capsules, wanted),
            false => of_array(&capsules, wanted),
        }?;
        if let Some(Chunks { chunks, .. }) = &chunks {
            for chunk in chunks {
                expect_no_nulls(chunk, what)?;
            }
        }
        return Ok(chunks);
    }
    Ok(None)
}

fn expect_no_nulls(chunk: &ArrayData, what: &str) -> PyResult<()> {
    match chunk.null_count() {
        0 => Ok(()),
        nulls => Err(PyValueError::new_err(format!(
            "{what} have nulls, {nulls} in one chunk: fill or drop them first"
        ))),
    }
}

fn of_array(
    capsules: &Bound<'_, PyAny>,
    wanted: impl Fn(&DataType) -> bool,
) -> PyResult<Option<Chunks>> {
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
        return Ok(None);
    }
    // SAFETY: the protocol: the array is of this schema.
    let chunk = unsafe { from_ffi(array, &schema) }.map_err(refused)?;
    Ok(Some(Chunks {
        data_type,
        chunks: vec![chunk],
    }))
}

fn of_stream(
    capsule: &Bound<'_, PyAny>,
    wanted: impl Fn(&DataType) -> bool,
) -> PyResult<Option<Chunks>> {
    let stream = pointer::<FFI_ArrowArrayStream>(capsule, c"arrow_array_stream")?;
    // SAFETY: a capsule with this name leads to such a struct, of which this takes the contents. The capsule releases nothing then.
    let reader = unsafe { ArrayStreamReader::from_raw(stream) }.map_err(refused)?;
    let data_type = reader.field().data_type().clone();
    if !wanted(&data_type) {
        return Ok(None);
    }
    let chunks = reader.map(|chunk| chunk.map(|chunk| chunk.to_data()));
    let chunks: Result<Vec<_>, _> = chunks.collect();
    Ok(Some(Chunks {
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
