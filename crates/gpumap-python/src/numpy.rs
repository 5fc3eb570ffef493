//! numpy by its struct of C (`__array_struct__`), which costs a tenth of `__array_interface__`, a dictionary.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::slice;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PySlice;
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
const NOT_SWAPPED: c_int = 0x200;

/// What an array of numpy says of itself.
pub struct Described {
    pub at: usize,
    pub shape: Vec<usize>,
    pub typestr: String,
    pub is_contiguous: bool,
}

/// What `__array_struct__` says; nothing if the object has none.
pub fn described(array: &Bound<'_, PyAny>) -> PyResult<Option<Described>> {
    let Some(capsule) = array.getattr_opt(intern!(array.py(), "__array_struct__"))? else {
        return Ok(None);
    };
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
    let order = match it.itemsize {
        1 => '|',
        _ if it.flags & NOT_SWAPPED == 0 => '>',
        _ => '<',
    };
    Ok(Some(Described {
        at: it.data.expose_provenance(),
        shape: shape.iter().map(|&extent| extent.unsigned_abs()).collect(),
        typestr: format!("{order}{}{}", it.typekind as u8 as char, it.itemsize),
        is_contiguous: it.flags & C_CONTIGUOUS != 0,
    }))
}

/// What arrays are made with.
struct Numpy {
    ndarray: Py<PyAny>,
    dtype: Py<PyAny>,
    empty: Py<PyAny>,
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
                empty: numpy.getattr("empty")?.unbind(),
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
    let described = described(&array)?;
    let at = described
        .map(|it| it.at)
        .ok_or_else(|| PyValueError::new_err("numpy.empty has made no array"))?;
    Ok((array, at))
}

/// The first `len` items of an array, which share its memory.
pub fn first<'py>(array: &Bound<'py, PyAny>, len: usize) -> PyResult<Bound<'py, PyAny>> {
    array.get_item(PySlice::new(array.py(), 0, len as isize, 1))
}
