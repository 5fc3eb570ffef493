//! numpy by its struct of C (`__array_struct__`), which costs a tenth of `__array_interface__`, a dictionary.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::slice;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PySlice};
use pyo3::{ffi, intern};

use crate::dtype::{Dtype, Item};

/// `PyArrayInterface`.
#[repr(C)]
struct Struct {
    two: c_int,
    nd: c_int,
    typekind: c_char,
    itemsize: c_int,
    flags: c_int,
    shape: *const isize,
    strides: *const isize,
    data: *mut c_void,
    descr: *mut ffi::PyObject,
}

const C_CONTIGUOUS: c_int = 0x1;
const ALIGNED: c_int = 0x100;
const NOT_SWAPPED: c_int = 0x200;

/// What an array says of itself.
pub struct Described {
    pub at: usize,
    pub shape: Vec<usize>,
    /// The type of its elements, in this machine's byte order.
    pub typestr: String,
    /// Whether its elements are one after the other, where such elements may be, in that order.
    pub is_plain: bool,
}

impl Described {
    /// The type of its elements, if it is one of numbers here.
    pub fn dtype(&self) -> Option<Dtype> {
        Dtype::with_typestr(&self.typestr)
    }

    /// Whether its elements are objects of Python.
    pub fn is_objects(&self) -> bool {
        self.typestr.contains('O')
    }
}

/// What an array of numpy says in its `__array_struct__`.
pub fn described(array: &Bound<'_, PyAny>) -> PyResult<Described> {
    let capsule = array.getattr(intern!(array.py(), "__array_struct__"))?;
    // SAFETY: it checks that this is a capsule without a name, as the protocol has them.
    let it = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), ptr::null()) }.cast::<Struct>();
    if it.is_null() {
        return Err(PyErr::fetch(array.py()));
    }
    // SAFETY: the protocol; the capsule lives until the end of this function.
    let it = unsafe { &*it };
    let nd = usize::try_from(it.nd).unwrap_or(0);
    if it.two != 2 || nd != 0 && it.shape.is_null() {
        return Err(PyValueError::new_err("__array_struct__ is not numpy's"));
    }
    let shape = match nd {
        0 => &[],
        // SAFETY: the protocol: as many as there are dimensions.
        _ => unsafe { slice::from_raw_parts(it.shape, nd) },
    };
    let order = if it.itemsize == 1 { '|' } else { '<' };
    let plain = C_CONTIGUOUS | ALIGNED | NOT_SWAPPED;
    Ok(Described {
        at: it.data.expose_provenance(),
        shape: shape.iter().map(|&extent| extent.unsigned_abs()).collect(),
        typestr: format!("{order}{}{}", it.typekind as u8 as char, it.itemsize),
        is_plain: it.flags & plain == plain,
    })
}

/// What arrays are made with.
struct Numpy {
    ndarray: Py<PyAny>,
    /// The class of scalars.
    generic: Py<PyAny>,
    dtype: Py<PyAny>,
    empty: Py<PyAny>,
    array: Py<PyAny>,
    dtypes: Vec<Py<PyAny>>,
}

impl Numpy {
    fn of(py: Python<'_>) -> PyResult<&Self> {
        static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();
        NUMPY.get_or_try_init(py, || {
            let numpy = py.import("numpy")?;
            let class = numpy.getattr("dtype")?;
            let dtype = |dtype: Dtype| class.call1((dtype.typestr(),));
            let dtypes = Dtype::ALL.into_iter();
            Ok(Self {
                ndarray: numpy.getattr("ndarray")?.unbind(),
                generic: numpy.getattr("generic")?.unbind(),
                empty: numpy.getattr("empty")?.unbind(),
                array: numpy.getattr("array")?.unbind(),
                dtypes: dtypes
                    .map(|it| dtype(it).map(Bound::unbind))
                    .collect::<PyResult<_>>()?,
                dtype: class.unbind(),
            })
        })
    }
}

/// Whether it is an array of numpy, and of no class that is derived from it.
pub fn is_array(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    let ndarray = &Numpy::of(array.py())?.ndarray;
    Ok(array.get_type().is(ndarray))
}

/// Whether it is a scalar of numpy.
pub fn is_scalar(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    object.is_instance(Numpy::of(object.py())?.generic.bind(object.py()))
}

/// What numpy calls the type of an array's elements.
pub fn type_of(array: &Bound<'_, PyAny>) -> PyResult<String> {
    let dtype = array.getattr(intern!(array.py(), "dtype"))?;
    Ok(dtype.str()?.to_string_lossy().into_owned())
}

/// A copy of an array with its elements one after the other, of the same type in this machine's byte order.
pub fn copied<'py>(array: &Bound<'py, PyAny>, dtype: Dtype) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let numpy = Numpy::of(py)?;
    let arguments = PyDict::new(py);
    arguments.set_item(intern!(py, "dtype"), &numpy.dtypes[dtype as usize])?;
    arguments.set_item(intern!(py, "order"), intern!(py, "C"))?;
    numpy.array.bind(py).call((array,), Some(&arguments))
}

/// An array of another library of the host, as an array of numpy; nothing if it is no array.
pub fn converted<'py>(
    array: &Bound<'py, PyAny>,
    what: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let arrays = array
        .py()
        .import(intern!(array.py(), "gpumap_rs._arrays"))?;
    let converted = arrays.getattr(intern!(array.py(), "as_array"))?;
    let converted = converted.call1((array, what))?;
    Ok(Some(converted).filter(|array| !array.is_none()))
}

/// Raises if an array has masked elements, or a column of pandas missing ones.
pub fn expect_no_nulls(array: &Bound<'_, PyAny>, what: &str) -> PyResult<()> {
    let arrays = array
        .py()
        .import(intern!(array.py(), "gpumap_rs._arrays"))?;
    let expect = arrays.getattr(intern!(array.py(), "expect_no_nulls"))?;
    expect.call1((array, what)).map(drop)
}

/// Whether an array of another library says that its elements are numpy's.
pub fn has_dtype(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    let class = Numpy::of(array.py())?.dtype.bind(array.py());
    let dtype = array.getattr_opt(intern!(array.py(), "dtype"))?;
    dtype.map_or(Ok(false), |dtype| dtype.is_instance(class))
}

/// A new array of so many items that have not been written, and where they are.
pub fn empty(py: Python<'_>, item: Item, len: usize) -> PyResult<(Bound<'_, PyAny>, usize)> {
    let numpy = Numpy::of(py)?;
    let dtype = &numpy.dtypes[item.dtype as usize];
    let empty = numpy.empty.bind(py);
    let array = match item.width {
        None => empty.call1((len, dtype)),
        Some(width) => empty.call1(((len, width), dtype)),
    }?;
    let at = described(&array)?.at;
    Ok((array, at))
}

/// The first `len` items of an array, which share its memory.
pub fn first<'py>(array: &Bound<'py, PyAny>, len: usize) -> PyResult<Bound<'py, PyAny>> {
    array.get_item(PySlice::new(array.py(), 0, len as isize, 1))
}
