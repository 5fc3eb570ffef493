//! Arrays of the caller, and what becomes one: [`Incoming::of`] is the only way in for numbers, and decides for every argument.
//!
//! What has a type of elements must have the map's: arrays of numpy by their struct, of a GPU by the CUDA array interface, of Arrow by
//! capsules, of others by numpy. They are used where they are, or copied in the host's memory, if they are not one element after the
//! other there. What has none, as a list, is taken number by number ([`Numbers`]).

use std::iter;
use std::ptr;
use std::slice;
use std::sync::OnceLock;

use arrow_buffer::Buffer as Memory;
use bytemuck::Pod;
use gpumap::primitives::Floats;
use gpumap::{Buffer, Device, Input, Source, Stream};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::arrow::{self, Column};
use crate::device::primitives;
use crate::dlpack;
use crate::dtype::{Dtype, Element, Item, for_number};
use crate::error::exception;
use crate::number::Numbers;
use crate::numpy::{self, Described};

/// An array of the caller, one element after the other, of one dimension, or of two if its items are rows.
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
    /// and this, if it is of Arrow, or was a list.
    _memory: Option<Memory>,
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
    /// How many numbers an item has, where that is known.
    fn width(self) -> Option<usize> {
        match self {
            Self::Item(item) => item.width,
            Self::Keys | Self::Numbers => None,
        }
    }

    /// What the items of an array of this type and shape are; `found` names its type.
    fn item(
        self,
        dtype: Option<Dtype>,
        found: &str,
        shape: &[usize],
        what: &str,
    ) -> PyResult<Item> {
        match self {
            Self::Item(item) if dtype == Some(item.dtype) => Ok(item),
            Self::Item(item) => Err(PyTypeError::new_err(format!(
                "{what} are of {found}, not of {}: convert them",
                item.dtype.name(),
            ))),
            Self::Keys | Self::Numbers => {
                let number = dtype.filter(|dtype| *dtype != Dtype::Bool);
                let none = || {
                    PyTypeError::new_err(format!(
                        "{what} are of {found}: use u32, i32, f32, u64, i64 or f64"
                    ))
                };
                let has_rows = matches!(self, Self::Keys) && shape.len() == 2;
                Ok(Item {
                    dtype: number.ok_or_else(none)?,
                    width: has_rows.then(|| shape[1]),
                })
            }
        }
    }
}

impl Incoming {
    /// Takes an argument.
    ///
    /// `stream` is used where the interface names none, as PyTorch's does not.
    pub fn of(
        array: &Bound<'_, PyAny>,
        wanted: Wanted,
        what: &str,
        stream: usize,
    ) -> PyResult<Self> {
        let handle = handle(stream)?;
        // Each attribute that is not there costs an exception, so numpy's own are not asked for a GPU's.
        if numpy::is_array(array)? {
            return Self::of_numpy(array, wanted, what);
        }
        if let Some(numbers) = Numbers::of(array, wanted.width(), what)? {
            return Self::of_list(array, &numbers, wanted, what);
        }
        let interface = intern!(array.py(), "__cuda_array_interface__");
        if let Some(interface) = array.getattr_opt(interface)? {
            let (described, named) = on_device(&interface.cast_into()?, what)?;
            let handle = named.map_or(Ok(handle), self::handle)?;
            return Self::of_device(array, described, handle, wanted, what);
        }
        if let Some(column) = arrow::column(array, what)? {
            return Self::of_arrow(array, column, wanted, what);
        }
        match numpy::converted(array, what)? {
            Some(array) => Self::of_numpy(&array, wanted, what),
            None => Err(PyTypeError::new_err(format!(
                "{what} are of type {}: pass an array, a list or a number",
                array.get_type().name()?
            ))),
        }
    }

    /// An array of numpy. One that is not one element after the other, as each second element or a column of a table, or that has
    /// another byte order, is copied.
    fn of_numpy(array: &Bound<'_, PyAny>, wanted: Wanted, what: &str) -> PyResult<Self> {
        let described = numpy::described(array)?;
        if described.is_objects() {
            // They have no type, as those of a list.
            let list = array.call_method0(intern!(array.py(), "tolist"))?;
            let numbers = Numbers::of(&list, wanted.width(), what)?;
            let none = || PyTypeError::new_err(format!("{what} are an object, not numbers"));
            return Self::of_list(array, &numbers.ok_or_else(none)?, wanted, what);
        }
        let dtype = described.dtype();
        let found = match dtype {
            Some(dtype) => dtype.name().to_owned(),
            None => numpy::type_of(array)?,
        };
        let item = wanted.item(dtype, &found, &described.shape, what)?;
        let len = expect_shape(&described.shape, item, what)?;
        if described.is_plain {
            return Ok(Self::of_host(array, described.at, len, item, None));
        }
        let copy = numpy::copied(array, item.dtype)?;
        let at = numpy::described(&copy)?.at;
        Ok(Self::of_host(&copy, at, len, item, None))
    }

    fn of_device(
        array: &Bound<'_, PyAny>,
        described: Described,
        stream: usize,
        wanted: Wanted,
        what: &str,
    ) -> PyResult<Self> {
        let dtype = described.dtype();
        let found = match dtype {
            Some(dtype) => dtype.name(),
            None => &described.typestr,
        };
        let item = wanted.item(dtype, found, &described.shape, what)?;
        let len = expect_shape(&described.shape, item, what)?;
        if !described.is_plain {
            return Err(PyValueError::new_err(format!(
                "{what} are not contiguous on the GPU: pass a copy"
            )));
        }
        if !described.at.is_multiple_of(item.dtype.bytes()) {
            return Err(PyValueError::new_err(format!(
                "{what} are not aligned to their elements: pass a copy"
            )));
        }
        Ok(Self {
            stream: Some(stream),
            ordinal: ordinal(array)?,
            ..Self::of_host(array, described.at, len, item, None)
        })
    }

    fn of_arrow(
        array: &Bound<'_, PyAny>,
        column: Column,
        wanted: Wanted,
        what: &str,
    ) -> PyResult<Self> {
        let Column::Numbers {
            bytes,
            item: given,
            len,
        } = column
        else {
            // Without elements it has the type that is wanted.
            let item = match wanted {
                Wanted::Item(item) => item,
                Wanted::Keys | Wanted::Numbers => Dtype::I64.into(),
            };
            return Ok(Self::of_host(array, 0, 0, item, None));
        };
        let shape: Vec<usize> = iter::once(len).chain(given.width).collect();
        let item = wanted.item(Some(given.dtype), given.dtype.name(), &shape, what)?;
        expect_shape(&shape, item, what)?;
        let at = bytes.as_ptr().expose_provenance();
        // Numbers of Arrow are aligned to 8 bytes at least, unless another library has made the array.
        if !at.is_multiple_of(item.dtype.bytes()) {
            return Err(PyValueError::new_err(format!(
                "{what} are not aligned to their elements: pass a copy"
            )));
        }
        Ok(Self::of_host(array, at, len, item, Some(bytes)))
    }

    fn of_list(
        list: &Bound<'_, PyAny>,
        numbers: &Numbers,
        wanted: Wanted,
        what: &str,
    ) -> PyResult<Self> {
        let dtype = match wanted {
            Wanted::Item(item) => item.dtype,
            Wanted::Keys | Wanted::Numbers => numbers.dtype(what)?,
        };
        let shape: Vec<usize> = iter::once(numbers.len).chain(numbers.width).collect();
        let item = wanted.item(Some(dtype), dtype.name(), &shape, what)?;
        expect_shape(&shape, item, what)?;
        let memory = for_number!(item.dtype, memory_of::<_>(numbers, item, what))?;
        let at = memory.as_ptr().expose_provenance();
        Ok(Self::of_host(list, at, numbers.len, item, Some(memory)))
    }

    fn of_host(
        owner: &Bound<'_, PyAny>,
        at: usize,
        len: usize,
        item: Item,
        memory: Option<Memory>,
    ) -> Self {
        Self {
            at,
            len,
            item,
            stream: None,
            ordinal: None,
            _owner: owner.clone().unbind(),
            _memory: memory,
        }
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

    /// The items as keys: those of floats with one zero and one NaN, since maps compare bits.
    pub fn keys<T: Pod>(&self, streams: &Streams) -> gpumap::Result<Items<'_, T>> {
        let (items, floats) = (self.items(streams)?, self.item.dtype.floats());
        if floats == Floats::none() {
            return Ok(items);
        }
        match items {
            Items::Device(keys) => {
                let (device, stream) = (keys.device(), keys.stream());
                // SAFETY: all of it is written below, or it is dropped.
                let mut normal = unsafe { Buffer::uninit(stream, keys.len()) }?;
                primitives(device).normalize_floats_into(&floats.of(&keys), &mut normal)?;
                Ok(Items::Device(normal))
            }
            keys => {
                let host = primitives(&Device::cpu());
                host.normalize_floats(&floats.of(&keys)).map(Items::Owned)
            }
        }
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
    let is_plain = match field(intern!(py, "strides"))? {
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
        is_plain,
    };
    Ok((
        described,
        stream.map(|stream| stream.extract()).transpose()?,
    ))
}

/// Whether numbers of so many bytes lie one after the other, the last dimension first.
fn is_contiguous(shape: &[usize], strides: &[isize], bytes: usize) -> bool {
    // An array that has more bytes than there are addresses is none.
    let mut expected = Some(bytes);
    let mut dimensions = shape.iter().zip(strides).rev();
    shape.contains(&0)
        || shape.len() == strides.len()
            && dimensions.all(|(&extent, &stride)| {
                let fits = extent == 1 || usize::try_from(stride).ok() == expected;
                expected = expected.and_then(|bytes| bytes.checked_mul(extent));
                fits && expected.is_some()
            })
}

/// The numbers of a list as elements of this type.
fn memory_of<T: Element + arrow_buffer::ArrowNativeType>(
    numbers: &Numbers,
    item: Item,
    what: &str,
) -> PyResult<Memory> {
    numbers.values::<T>(item, what).map(Memory::from_vec)
}

/// How many items an array of this shape has.
fn expect_shape(shape: &[usize], item: Item, what: &str) -> PyResult<usize> {
    match (item.width, shape) {
        // A single number.
        (None, []) => Ok(1),
        (None, &[len]) => Ok(len),
        (Some(width), &[len, its]) if its == width => Ok(len),
        (None, _) => Err(PyValueError::new_err(format!(
            "{what} have {} dimensions; pass an array of one",
            shape.len()
        ))),
        (Some(width), _) => Err(PyValueError::new_err(format!(
            "{what} have the shape {shape:?}; pass an array of shape (n, {width})"
        ))),
    }
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
    Owned(Vec<T>),
    /// Memory of the caller, which this does not free, or a copy.
    Device(Buffer<T>),
}

impl<T: Pod> Input<T> for Items<'_, T> {
    fn source(&self) -> Source<'_, T> {
        match self {
            Self::Host(items) => Source::Host(items),
            Self::Owned(items) => Source::Host(items),
            Self::Device(buffer) => buffer.source(),
        }
    }
}

const _: () = assert!(size_of::<usize>() == 8);
