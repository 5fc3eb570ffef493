//! Arrays that come in, by the array interfaces of numpy and of CUDA, and arrays that go out, by these and DLPack.

use std::any::Any;
use std::mem;
use std::ptr;
use std::slice;

use gpumap::{Buffer, Device, Input, Output, Sink, Source, Stream};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dtype::{Dtype, Element};

/// Memory of a GPU, in DLPack.
const CUDA: i32 = 2;

/// A one-dimensional array of the caller.
pub struct Incoming {
    at: usize,
    len: usize,
    /// The stream whose work fills it; only of memory of a GPU. 0 is the legacy default stream.
    stream: Option<usize>,
    /// The number of the GPU that they are on, where their library says it.
    ordinal: Option<usize>,
    /// It keeps the memory alive.
    _owner: Py<PyAny>,
}

impl Incoming {
    /// Reads the interface of an array, whose elements must be of this type.
    ///
    /// `stream` is used where the interface names none, as PyTorch's does not.
    pub fn of(array: &Bound<'_, PyAny>, dtype: Dtype, what: &str, stream: usize) -> PyResult<Self> {
        let on_device = array.getattr_opt("__cuda_array_interface__")?;
        let is_on_device = on_device.is_some();
        let interface = match on_device {
            Some(interface) => interface,
            None => array.getattr_opt("__array_interface__")?.ok_or_else(|| {
                PyTypeError::new_err(format!("{what} are no array of numpy or of a GPU"))
            })?,
        };
        let interface = interface.cast_into::<PyDict>()?;
        let field = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
            Ok(interface.get_item(name)?.filter(|value| !value.is_none()))
        };
        let required = |name: &str| {
            field(name)?.ok_or_else(|| PyTypeError::new_err(format!("{what} have no {name}")))
        };
        let typestr: String = required("typestr")?.extract()?;
        if typestr != dtype.typestr() {
            return Err(PyTypeError::new_err(format!(
                "{what} have elements of type {typestr}, and the map has {} ({})",
                dtype.typestr(),
                dtype.name(),
            )));
        }
        let shape: Vec<usize> = required("shape")?.extract()?;
        let &[len] = shape.as_slice() else {
            return Err(PyValueError::new_err(format!(
                "{what} have {} dimensions; pass an array of one",
                shape.len()
            )));
        };
        if let Some(strides) = field("strides")? {
            let strides: Vec<isize> = strides.extract()?;
            if len > 1 && strides != [dtype.bytes() as isize] {
                return Err(PyValueError::new_err(format!(
                    "{what} are not contiguous: pass a copy"
                )));
            }
        }
        if field("mask")?.is_some() {
            return Err(PyValueError::new_err(format!("{what} are masked")));
        }
        let (at, _): (usize, bool) = required("data")?.extract()?;
        if at % dtype.bytes() != 0 {
            return Err(PyValueError::new_err(format!(
                "{what} are not aligned to their elements: pass a copy"
            )));
        }
        let stream = match field("stream")? {
            _ if !is_on_device => None,
            None => Some(stream),
            Some(named) => Some(handle(named.extract()?)?),
        };
        Ok(Self {
            at,
            len,
            stream,
            ordinal: match is_on_device {
                true => dlpack_ordinal(array)?,
                false => None,
            },
            _owner: array.clone().unbind(),
        })
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether they are in the memory of a GPU.
    pub fn is_on_device(&self) -> bool {
        self.stream.is_some()
    }

    /// The elements, as the library takes them.
    pub fn elements<T: Element>(&self, device: &Device) -> gpumap::Result<Elements<'_, T>> {
        // An empty array of a GPU has no address.
        let Some(stream) = self.stream.filter(|_| self.len != 0) else {
            return Ok(Elements::Host(match self.len {
                0 => &[],
                // SAFETY: the interface says so of the memory, which the owner keeps; it is aligned, and `T` takes any bytes.
                // That no other thread writes to it meanwhile is the caller's part, as in numpy.
                len => unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(self.at), len) },
            }));
        };
        // SAFETY: a stream of the caller's library, which lives as long as its arrays are used.
        let stream = unsafe { Stream::from_raw(device, ptr::with_exposed_provenance_mut(stream)) }?;
        let at = ptr::with_exposed_provenance_mut(self.at);
        // SAFETY: the interface says so of the memory, which the owner keeps.
        let buffer = unsafe { Buffer::from_raw_parts(&stream, at, self.len) }?;
        Ok(Elements::Device(buffer))
    }
}

/// The number of the GPU that an array is on. The CUDA array interface does not have it; the libraries that have DLPack too do.
fn dlpack_ordinal(array: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let Some(device) = array.getattr_opt("__dlpack_device__")? else {
        return Ok(None);
    };
    let (kind, ordinal): (i32, usize) = device.call0()?.extract()?;
    Ok((kind == CUDA).then_some(ordinal))
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

/// The elements of an array of the caller.
pub enum Elements<'a, T: Element> {
    Host(&'a [T]),
    /// Memory of the caller, which this does not free.
    Device(Buffer<T>),
}

impl<T: Element> Input<T> for Elements<'_, T> {
    fn source(&self) -> Source<'_, T> {
        match self {
            Self::Host(elements) => Source::Host(elements),
            Self::Device(buffer) => buffer.source(),
        }
    }
}

/// Places for answers: of the host, or of a GPU.
pub enum Places<T: Element> {
    Host(Vec<T>),
    Device(Buffer<T>),
}

impl<T: Element> Places<T> {
    /// So many, on the device or on the host.
    pub fn new(device: &Device, on_device: bool, len: usize) -> gpumap::Result<Self> {
        Ok(match on_device {
            false => Self::Host(bytemuck::zeroed_vec(len)),
            true => Self::Device(Buffer::zeroed(&Stream::new(device)?, len)?),
        })
    }

    /// What Python gets of the first `len`.
    pub fn into_array(self, dtype: Dtype, len: usize) -> Array {
        let (at, device, owner): (usize, Option<Device>, Box<dyn Any + Send + Sync>) = match self {
            Self::Host(vec) => (vec.as_ptr().expose_provenance(), None, Box::new(vec)),
            Self::Device(buffer) => (
                buffer.as_ptr().expose_provenance(),
                Some(buffer.device().clone()),
                Box::new(buffer),
            ),
        };
        Array {
            at,
            len,
            dtype,
            device,
            _owner: owner,
        }
    }
}

impl<T: Element> Output<T> for Places<T> {
    fn sink(&mut self) -> Sink<'_, T> {
        match self {
            Self::Host(vec) => vec.sink(),
            Self::Device(buffer) => buffer.sink(),
        }
    }
}

/// A one-dimensional array of answers. numpy, PyTorch, CuPy and JAX take it without a copy.
#[pyclass(frozen, module = "gpumap_rs")]
pub struct Array {
    at: usize,
    len: usize,
    dtype: Dtype,
    /// None of memory of the host.
    device: Option<Device>,
    /// The memory, which lives as long as this.
    _owner: Box<dyn Any + Send + Sync>,
}

impl Array {
    fn interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        let at = if self.len == 0 { 0 } else { self.at };
        interface.set_item("shape", PyTuple::new(py, [self.len])?)?;
        interface.set_item("typestr", self.dtype.typestr())?;
        interface.set_item("data", (at, false))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    fn without(attribute: &str) -> PyErr {
        pyo3::exceptions::PyAttributeError::new_err(format!("this array has no {attribute}"))
    }
}

#[pymethods]
impl Array {
    fn __len__(&self) -> usize {
        self.len
    }

    fn __repr__(&self) -> String {
        let place = self
            .device
            .as_ref()
            .map_or("cpu".to_owned(), Device::to_string);
        format!(
            "Array({} elements of {}, {place})",
            self.len,
            self.dtype.name()
        )
    }

    /// The type of the elements.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match self.device {
            None => self.interface(py),
            Some(_) => Err(Self::without("__array_interface__")),
        }
    }

    /// The operation has ended, so there is no stream to wait for.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match self.device.as_ref().filter(|device| device.is_cuda()) {
            Some(_) => self.interface(py),
            None => Err(Self::without("__cuda_array_interface__")),
        }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        match self.device.as_ref().and_then(Device::ordinal) {
            Some(ordinal) => (CUDA, ordinal as i32),
            None => (1, 0),
        }
    }

    /// The elements as a capsule of DLPack. The operation has ended, so every stream may use them.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<isize>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        if stream == Some(0) && this.device.is_some() {
            handle(0)?;
        }
        let device = this.__dlpack_device__();
        if dl_device.is_some_and(|wanted| wanted != device) || copy == Some(true) {
            return Err(pyo3::exceptions::PyBufferError::new_err(
                "the array is not copied for DLPack: ask for it where it is",
            ));
        }
        let tensor = crate::dlpack::Tensor {
            at: this.at,
            len: this.len,
            dtype: this.dtype,
            device,
        };
        crate::dlpack::capsule(
            slf.clone().into_any().unbind(),
            slf.py(),
            tensor,
            max_version,
        )
    }
}

/// Checks that the device can read the arrays of a call: those of the host are copied to it, those of a GPU lie on it.
pub fn together(keys: &Incoming, values: Option<&Incoming>, device: &Device) -> PyResult<()> {
    let arrays = [Some(keys), values];
    for array in arrays
        .into_iter()
        .flatten()
        .filter(|array| array.is_on_device())
    {
        let Some(ordinal) = device.ordinal() else {
            return Err(PyValueError::new_err(
                "the arrays are in the memory of a GPU, and the map is on the CPU",
            ));
        };
        if let Some(other) = array.ordinal.filter(|&other| other != ordinal) {
            return Err(PyValueError::new_err(format!(
                "the arrays are on cuda:{other}, and the map is on cuda:{ordinal}: copy them there"
            )));
        }
    }
    Ok(())
}

const _: () = assert!(mem::size_of::<usize>() == 8);
