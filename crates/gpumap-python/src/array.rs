//! Arrays of a device that go out, by the array interfaces and DLPack.

use std::any::Any;
use std::ptr;

use bytemuck::Pod;
use gpumap::{Buffer, Device, Stream};
use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::dlpack::{self, CUDA};
use crate::dtype::{Dtype, Item};
use crate::error::exception;
use crate::incoming::handle;

/// A contiguous array of answers in the memory of a device, of one dimension, or of two if the answers are rows. numpy,
/// PyTorch, CuPy and JAX take it without a copy. The memory is given back when this and all that was made of it are gone, in
/// the order of the stream that the call was given.
#[pyclass(frozen, module = "gpumap_rs")]
pub struct Array {
    at: usize,
    len: usize,
    item: Item,
    device: Device,
    /// The memory, which lives as long as this.
    _owner: Box<dyn Any + Send + Sync>,
}

/// Where arrays of the host without elements are.
static NOTHING: u64 = 0;

impl Array {
    /// The first `len` items of some memory.
    pub fn new<T: Pod + Send + Sync>(buffer: Buffer<T>, item: Item, len: usize) -> Self {
        debug_assert!(len <= buffer.len() && item.bytes() == size_of::<T>());
        Self {
            at: match (len, buffer.device().is_cuda()) {
                // The interface of arrays of a GPU has 0 for it, and numpy's does not know it.
                (0, true) => 0,
                (0, false) => (&raw const NOTHING).expose_provenance(),
                _ => buffer.as_ptr().expose_provenance(),
            },
            len,
            item,
            device: buffer.device().clone(),
            _owner: Box::new(buffer),
        }
    }

    fn shape(&self) -> impl ExactSizeIterator<Item = usize> + use<> {
        let shape: Vec<usize> = [self.len].into_iter().chain(self.item.width).collect();
        shape.into_iter()
    }

    fn interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("shape", PyTuple::new(py, self.shape())?)?;
        interface.set_item("typestr", self.item.dtype.typestr())?;
        interface.set_item("data", (self.at, false))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    /// Another one with the same items.
    fn copied(&self) -> gpumap::Result<Self> {
        let stream = Stream::new(&self.device)?;
        let bytes = self.len * self.item.bytes();
        let from = ptr::with_exposed_provenance_mut::<u8>(self.at);
        // SAFETY: the items, which this keeps, and which were written by an operation that has ended.
        let from = unsafe { Buffer::from_raw_parts(&stream, from, bytes) }?;
        // SAFETY: all of it is written below.
        let mut copy = unsafe { Buffer::<u8>::uninit(&stream, bytes) }?;
        copy.as_view_mut().copy_from(&from.as_view())?;
        stream.synchronize()?;
        let one = Item {
            dtype: Dtype::Bool,
            width: None,
        };
        let copy = Self::new(copy, one, bytes);
        Ok(Self {
            len: self.len,
            item: self.item,
            ..copy
        })
    }

    fn without(attribute: &str) -> PyErr {
        PyAttributeError::new_err(format!("this array has no {attribute}"))
    }
}

#[pymethods]
impl Array {
    fn __len__(&self) -> usize {
        self.len
    }

    fn __repr__(&self) -> String {
        let shape: Vec<usize> = self.shape().collect();
        format!(
            "Array of {} {shape:?}, {}",
            self.item.dtype.name(),
            self.device
        )
    }

    /// The type of the elements, as `"u64"`.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.item.dtype.name()
    }

    /// How many items there are, and how many numbers each has if they are rows.
    #[getter(shape)]
    fn extents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape())
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match self.device.is_cuda() {
            false => self.interface(py),
            true => Err(Self::without("__array_interface__")),
        }
    }

    /// The operation has ended, so there is no stream to wait for.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match self.device.is_cuda() {
            true => self.interface(py),
            false => Err(Self::without("__cuda_array_interface__")),
        }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        match self.device.ordinal() {
            Some(ordinal) => (CUDA, ordinal as i32),
            None => (1, 0),
        }
    }

    /// The elements as a capsule of DLPack, or a copy of them. The operation has ended, so every stream may use them.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<isize>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        if stream == Some(0) && this.device.is_cuda() {
            handle(0)?;
        }
        let device = this.__dlpack_device__();
        if dl_device.is_some_and(|wanted| wanted != device) {
            return Err(PyBufferError::new_err(
                "the array is not copied to another device by DLPack: ask for it where it is",
            ));
        }
        let py = slf.py();
        let is_copied = copy == Some(true);
        let owner = match is_copied {
            true => Bound::new(py, py.detach(|| this.copied()).map_err(exception)?)?,
            false => slf.clone(),
        };
        let tensor = dlpack::Tensor {
            at: owner.get().at,
            len: this.len,
            item: this.item,
            device,
            is_copied,
        };
        dlpack::capsule(owner.into_any().unbind(), py, tensor, max_version)
    }
}
