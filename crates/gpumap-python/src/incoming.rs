//! Arrays of the caller: numpy's by their struct, a GPU's by the CUDA array interface, Arrow's by capsules. What is none of these becomes an array of
//! numpy first, by a function of the part in Python.

use std::iter;
use std::ptr;
use std::slice;
use std::sync::OnceLock;

use bytemuck::Pod;
use gpumap::{Buffer, Device, Input, Source, Stream};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use crate::arrow::{self, Numbers};
use crate::dlpack;
use crate::dtype::{Dtype, Item};
use crate::error::exception;
use crate::numpy::{self, Described};

/// A contiguous array of the caller, of one dimension, or of two if its items are rows.
pub struct Incoming {
    at: usize,
    len: usize,
    /// What its items are.
    pub item: Item,
    /// The stream whose work fills it; only of memory of a GPU. 0 is the legacy default stream.
    stream: Option<usize>,
    /// The number of the GPU that it is on, where its library says so.
    ordinal: Option<usize>,
    /// It keeps the memory alive,
    _owner: Py<PyAny>,
    /// and this, if it is of Arrow.
    _memory: Option<arrow_buffer::Buffer>,
}

/// The type that items must have.
#[derive(Clone, Copy)]
pub enum Wanted {
    /// This one.
    Item(Item),
    /// Any of keys: numbers in an array of one dimension, rows in one of two.
    Keys,
    /// Any numbers, in an array of one dimension.
    Numbers,
}

impl Wanted {
    /// Whether numbers of this type do as they are.
    fn takes(self, dtype: Dtype) -> bool {
        match self {
            Self::Item(item) => item.dtype == dtype,
            Self::Keys | Self::Numbers => true,
        }
    }
}

impl Incoming {
    /// Reads what an array says of itself.
    ///
    /// `stream` is used where the interface names none, as PyTorch's does not.
    pub fn of(
        array: &Bound<'_, PyAny>,
        wanted: Wanted,
        what: &str,
        stream: usize,
    ) -> PyResult<Self> {
        if let Some(incoming) = Self::try_of(array, wanted, what, stream)? {
            return Ok(incoming);
        }
        if let Some(numbers) = arrow::numbers(array, what)?
            && wanted.takes(numbers.item.dtype)
        {
            return Self::of_arrow(array, numbers, wanted, what);
        }
        let array = converted(array, wanted)?;
        Self::try_of(&array, wanted, what, stream)?
            .ok_or_else(|| PyTypeError::new_err(format!("{what} are no array")))
    }

    /// The same; nothing if it is no array of numpy or of a GPU.
    fn try_of(
        array: &Bound<'_, PyAny>,
        wanted: Wanted,
        what: &str,
        stream: usize,
    ) -> PyResult<Option<Self>> {
        let handle = handle(stream)?;
        // Each attribute that is not there costs an exception, so numpy's own are not asked for a GPU's.
        if !numpy::is_array(array)? {
            let interface = intern!(array.py(), "__cuda_array_interface__");
            if let Some(interface) = array.getattr_opt(interface)? {
                let (described, named) = on_device(&interface.cast_into()?, what)?;
                let handle = named.map_or(Ok(handle), self::handle)?;
                return Self::checked(array, described, Some(handle), wanted, what).map(Some);
            }
        }
        let described = numpy::described(array)?;
        let checked = |described| Self::checked(array, described, None, wanted, what);
        described.map(checked).transpose()
    }

    fn of_arrow(
        array: &Bound<'_, PyAny>,
        Numbers { bytes, item, len }: Numbers,
        wanted: Wanted,
        what: &str,
    ) -> PyResult<Self> {
        let described = Described {
            at: bytes.as_ptr().expose_provenance(),
            shape: iter::once(len).chain(item.width).collect(),
            typestr: item.dtype.typestr().to_owned(),
            is_contiguous: true,
        };
        Ok(Self {
            _memory: Some(bytes),
            ..Self::checked(array, described, None, wanted, what)?
        })
    }

    fn checked(
        array: &Bound<'_, PyAny>,
        Described {
            at,
            shape,
            typestr,
            is_contiguous,
        }: Described,
        stream: Option<usize>,
        wanted: Wanted,
        what: &str,
    ) -> PyResult<Self> {
        let item = match wanted {
            Wanted::Item(item) if item.dtype.typestr() == typestr => item,
            Wanted::Item(item) => {
                return Err(PyTypeError::new_err(format!(
                    "{what} have elements of type {typestr}, not {} ({})",
                    item.dtype.typestr(),
                    item.dtype.name(),
                )));
            }
            Wanted::Keys => Item {
                dtype: Dtype::with_typestr(&typestr)
                    .filter(|dtype| dtype.is_integer())
                    .ok_or_else(|| {
                        PyTypeError::new_err(format!(
                            "{typestr} is no type of keys: use u32, i32, u64 or i64"
                        ))
                    })?,
                width: (shape.len() == 2).then(|| shape[1]),
            },
            Wanted::Numbers => {
                let number = Dtype::with_typestr(&typestr);
                let number = number.filter(|dtype| *dtype != Dtype::Bool);
                let none = || {
                    PyTypeError::new_err(format!(
                        "{what} have elements of type {typestr}: use u32, i32, f32, u64, i64 or f64"
                    ))
                };
                number.ok_or_else(none)?.into()
            }
        };
        let len = match (item.width, shape.as_slice()) {
            (None, &[len]) => len,
            (Some(width), &[len, its]) if its == width => len,
            (None, _) => {
                return Err(PyValueError::new_err(format!(
                    "{what} have {} dimensions; pass an array of one",
                    shape.len()
                )));
            }
            (Some(width), _) => {
                return Err(PyValueError::new_err(format!(
                    "{what} have the shape {shape:?}; pass an array of shape (n, {width})"
                )));
            }
        };
        if !is_contiguous {
            return Err(PyValueError::new_err(format!(
                "{what} are not contiguous: pass a copy"
            )));
        }
        if at % item.dtype.bytes() != 0 {
            return Err(PyValueError::new_err(format!(
                "{what} are not aligned to their elements: pass a copy"
            )));
        }
        Ok(Self {
            at,
            len,
            item,
            stream,
            ordinal: match stream {
                Some(_) => ordinal(array)?,
                None => None,
            },
            _owner: array.clone().unbind(),
            _memory: None,
        })
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether they are in the memory of a GPU.
    pub fn is_on_device(&self) -> bool {
        self.stream.is_some()
    }

    /// The GPU whose memory they are in.
    pub fn gpu(&self) -> Option<usize> {
        self.stream.map(|_| self.ordinal.unwrap_or(0))
    }

    /// Checks that a device can read it: what the host has is copied there, what a GPU has must be on it.
    pub fn expect_on(&self, device: &Device) -> PyResult<()> {
        if !self.is_on_device() {
            return Ok(());
        }
        let Some(ordinal) = device.ordinal() else {
            return Err(PyValueError::new_err(
                "the arrays are in the memory of a GPU, and the work is on the CPU",
            ));
        };
        match self.ordinal {
            Some(other) if other != ordinal => Err(PyValueError::new_err(format!(
                "the arrays are on cuda:{other}, and the work is on cuda:{ordinal}: copy them there"
            ))),
            _ => Ok(()),
        }
    }

    /// The stream that the work on it is ordered by; none if it is the host's.
    pub fn stream(&self, streams: &Streams) -> gpumap::Result<Option<Stream>> {
        self.stream.map(|handle| streams.of(handle)).transpose()
    }

    /// The stream that answers are ordered by: that of the work on it, or a new one if it is the host's.
    pub fn stream_of_answers(&self, streams: &Streams) -> PyResult<Stream> {
        let stream = self.stream(streams).transpose();
        let stream = stream.unwrap_or_else(|| Stream::new(&streams.device));
        stream.map_err(exception)
    }

    /// The items, as the library takes them.
    pub fn items<T: Pod>(&self, streams: &Streams) -> gpumap::Result<Items<'_, T>> {
        // An empty array of a GPU has no address.
        let Some(stream) = self.stream(streams)?.filter(|_| self.len != 0) else {
            return Ok(Items::Host(match self.len {
                0 => &[],
                // SAFETY: the interface says so of the memory, which the owner keeps; it is aligned, and `T` takes any bytes.
                // That no other thread writes to it meanwhile is the caller's part, as in numpy.
                len => unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(self.at), len) },
            }));
        };
        let at = ptr::with_exposed_provenance_mut(self.at);
        // SAFETY: the interface says so of the memory, which the owner keeps.
        let buffer = unsafe { Buffer::from_raw_parts(&stream, at, self.len) }?;
        Ok(Items::Device(buffer))
    }
}

/// What the CUDA array interface says, and the stream that it names.
fn on_device<'py>(
    interface: &Bound<'py, PyDict>,
    what: &str,
) -> PyResult<(Described, Option<usize>)> {
    let py = interface.py();
    let field = |name: &Bound<'py, PyString>| -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(interface.get_item(name)?.filter(|value| !value.is_none()))
    };
    let required = |name: &Bound<'py, PyString>| {
        field(name)?.ok_or_else(|| PyTypeError::new_err(format!("{what} have no {name}")))
    };
    let typestr: String = required(intern!(py, "typestr"))?.extract()?;
    let shape: Vec<usize> = required(intern!(py, "shape"))?.extract()?;
    let (at, _): (usize, bool) = required(intern!(py, "data"))?.extract()?;
    if field(intern!(py, "mask"))?.is_some() {
        return Err(PyValueError::new_err(format!("{what} are masked")));
    }
    let is_contiguous = match field(intern!(py, "strides"))? {
        None => true,
        Some(strides) => {
            let bytes = Dtype::with_typestr(&typestr).map_or(0, Dtype::bytes);
            is_contiguous(&shape, &strides.extract::<Vec<isize>>()?, bytes)
        }
    };
    let stream = field(intern!(py, "stream"))?;
    let described = Described {
        at,
        shape,
        typestr,
        is_contiguous,
    };
    Ok((
        described,
        stream.map(|stream| stream.extract()).transpose()?,
    ))
}

/// Whether numbers of so many bytes lie one after the other, the last dimension first.
fn is_contiguous(shape: &[usize], strides: &[isize], bytes: usize) -> bool {
    let mut expected = bytes;
    let mut dimensions = shape.iter().zip(strides).rev();
    shape.contains(&0)
        || shape.len() == strides.len()
            && dimensions.all(|(&extent, &stride)| {
                let fits = extent == 1 || usize::try_from(stride) == Ok(expected);
                expected *= extent;
                fits
            })
}

/// A list, a number or an array of another library of the host, as an array of numpy.
fn converted<'py>(elements: &Bound<'py, PyAny>, wanted: Wanted) -> PyResult<Bound<'py, PyAny>> {
    static CONVERT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = elements.py();
    let convert = CONVERT.get_or_try_init(py, || {
        let arrays = py.import("gpumap_rs._arrays")?;
        PyResult::Ok(arrays.getattr("as_array")?.unbind())
    })?;
    let (dtype, width) = match wanted {
        Wanted::Item(item) => (Some(item.dtype.typestr()), item.width),
        Wanted::Keys | Wanted::Numbers => (None, None),
    };
    convert.bind(py).call1((elements, dtype, width))
}

/// The number of the GPU that an array is on. The CUDA array interface does not have it; PyTorch has a method, which is
/// quick, and the libraries that have DLPack another.
fn ordinal(array: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let py = array.py();
    if let Some(method) = array.getattr_opt(intern!(py, "get_device"))?
        && let Ok(ordinal) = method.call0().and_then(|it| it.extract())
    {
        return Ok(Some(ordinal));
    }
    let Some(method) = array.getattr_opt(intern!(py, "__dlpack_device__"))? else {
        return Ok(None);
    };
    let (kind, ordinal): (i32, usize) = method.call0()?.extract()?;
    Ok((kind == dlpack::CUDA).then_some(ordinal))
}

/// A stream's number as the CUDA array interface has it, as a handle of the driver: 1 is the legacy default stream, and 2
/// that of the thread.
pub fn handle(number: usize) -> PyResult<usize> {
    match number {
        0 => Err(PyValueError::new_err(
            "stream 0 is ambiguous: 1 is the legacy default stream, 2 that of the thread",
        )),
        1 => Ok(0),
        other => Ok(other),
    }
}

/// The streams of callers on a device.
pub struct Streams {
    pub device: Device,
    /// The legacy default stream of a GPU, a stream of its own on the CPU.
    default: OnceLock<Stream>,
}

impl Streams {
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            default: OnceLock::new(),
        }
    }

    /// The one with this handle.
    fn of(&self, handle: usize) -> gpumap::Result<Stream> {
        match handle {
            0 => self.default(),
            // SAFETY: a stream of the caller's library, which lives as long as arrays that are ordered by it.
            _ => unsafe {
                Stream::from_raw(&self.device, ptr::with_exposed_provenance_mut(handle))
            },
        }
    }

    /// The one of callers that name none. It is kept: other handles may be those of new streams by the next call.
    pub fn default(&self) -> gpumap::Result<Stream> {
        if let Some(stream) = self.default.get() {
            return Ok(stream.clone());
        }
        let stream = match self.device.is_cuda() {
            // SAFETY: the legacy default stream, which is always there.
            true => unsafe { Stream::from_raw(&self.device, ptr::null_mut()) },
            false => Stream::new(&self.device),
        }?;
        Ok(self.default.get_or_init(|| stream).clone())
    }
}

/// The items of an array of the caller.
pub enum Items<'a, T: Pod> {
    Host(&'a [T]),
    /// Memory of the caller, which this does not free.
    Device(Buffer<T>),
}

impl<T: Pod> Input<T> for Items<'_, T> {
    fn source(&self) -> Source<'_, T> {
        match self {
            Self::Host(items) => Source::Host(items),
            Self::Device(buffer) => buffer.source(),
        }
    }
}

const _: () = assert!(size_of::<usize>() == 8);
