//! Places for answers: new arrays of numpy, or of a device.

use std::marker::PhantomData;
use std::ptr;
use std::slice;

use bytemuck::Pod;
use gpumap::{Buffer, Output, Sink, Stream};
use pyo3::prelude::*;

use crate::array::Array;
use crate::dtype::Item;
use crate::error::exception;
use crate::incoming::{Incoming, Streams};
use crate::numpy;

/// Places for so many answers, of which the library writes each.
pub struct Places<T: Pod> {
    memory: Memory<T>,
    item: Item,
}

enum Memory<T: Pod> {
    /// An array of numpy.
    Host {
        array: Py<PyAny>,
        at: usize,
        len: usize,
        elements: PhantomData<T>,
    },
    Device(Buffer<T>),
}

impl<T: Pod + Send + Sync> Places<T> {
    /// A place for the answer to each key: where the keys are.
    pub fn beside(
        py: Python<'_>,
        keys: &Incoming,
        streams: &Streams,
        item: impl Into<Item>,
    ) -> PyResult<Self> {
        // In the order of the caller's stream: so memory that the caller gives back is not used again before work that was
        // queued there has ended.
        match keys.stream(streams).map_err(exception)? {
            Some(stream) => Self::on_device(py, &stream, item, keys.len()),
            None => Self::on_host(py, item, keys.len()),
        }
    }

    /// So many places on the host.
    pub fn on_host(py: Python<'_>, item: impl Into<Item>, len: usize) -> PyResult<Self> {
        let item = item.into();
        debug_assert_eq!(item.bytes(), size_of::<T>());
        let (array, at) = numpy::empty(py, item, len)?;
        let memory = Memory::Host {
            array: array.unbind(),
            at,
            len,
            elements: PhantomData,
        };
        Ok(Self { memory, item })
    }

    /// So many places on a device.
    pub fn on_device(
        py: Python<'_>,
        stream: &Stream,
        item: impl Into<Item>,
        len: usize,
    ) -> PyResult<Self> {
        let item = item.into();
        debug_assert_eq!(item.bytes(), size_of::<T>());
        // SAFETY: a place is read by Python after a call that has written to it.
        let buffer = py.detach(|| unsafe { Buffer::uninit(stream, len) });
        let memory = Memory::Device(buffer.map_err(exception)?);
        Ok(Self { memory, item })
    }

    /// So many places on the host or a device.
    pub fn at(
        py: Python<'_>,
        on_device: bool,
        stream: &Stream,
        item: impl Into<Item>,
        len: usize,
    ) -> PyResult<Self> {
        match on_device {
            true => Self::on_device(py, stream, item, len),
            false => Self::on_host(py, item, len),
        }
    }

    /// The places as a buffer, which does not own them. Those of the host are memory of a device that is the CPU.
    pub fn buffer(&mut self, stream: &Stream) -> gpumap::Result<Buffer<T>> {
        let (at, len) = match &mut self.memory {
            Memory::Host { at, len, .. } => (ptr::with_exposed_provenance_mut(*at), *len),
            Memory::Device(buffer) => (buffer.as_mut_ptr(), buffer.len()),
        };
        // SAFETY: so many places, which the caller uses through this buffer only until it is dropped.
        unsafe { Buffer::from_raw_parts(stream, at, len) }
    }

    /// What Python gets of the first `len`, on the host or where they are, without memory for many more.
    pub fn fitted(self, py: Python<'_>, len: usize, to_host: bool) -> PyResult<Py<PyAny>> {
        let Memory::Device(buffer) = &self.memory else {
            return self.answer(py, len);
        };
        if to_host {
            let mut copy = Self::on_host(py, self.item, len)?;
            let copied = py.detach(|| match copy.sink() {
                Sink::Host(places) => buffer.slice(..len)?.copy_to_slice(places),
                Sink::Device(_) => Ok(()),
            });
            copied.map_err(exception)?;
            return copy.answer(py, len);
        }
        if 2 * len > buffer.len() {
            return self.answer(py, len);
        }
        let stream = buffer.stream();
        let mut copy = Self::on_device(py, stream, self.item, len)?;
        let copied = py.detach(|| {
            if let Sink::Device(mut places) = copy.sink() {
                places.copy_from(&buffer.slice(..len)?)?;
            }
            stream.synchronize()
        });
        copied.map_err(exception)?;
        copy.answer(py, len)
    }

    /// What Python gets of the first `len`.
    pub fn answer(self, py: Python<'_>, len: usize) -> PyResult<Py<PyAny>> {
        match self.memory {
            Memory::Host {
                array, len: all, ..
            } if len == all => Ok(array),
            Memory::Host { array, .. } => Ok(numpy::first(array.bind(py), len)?.unbind()),
            Memory::Device(buffer) => Ok(Bound::new(py, Array::new(buffer, self.item, len))?
                .into_any()
                .unbind()),
        }
    }
}

impl<T: Pod> Output<T> for Places<T> {
    fn sink(&mut self) -> Sink<'_, T> {
        match &mut self.memory {
            Memory::Host { at, len, .. } => Sink::Host(match *len {
                0 => &mut [],
                // SAFETY: an array of numpy with so many items, which nothing else has yet.
                len => unsafe {
                    slice::from_raw_parts_mut(ptr::with_exposed_provenance_mut(*at), len)
                },
            }),
            Memory::Device(buffer) => buffer.sink(),
        }
    }
}

/// Places for all that a map has, more of them from call to call until `into` finds enough: threads may insert meanwhile.
/// Returns them, and how many are taken.
pub fn dump<P: Send>(
    py: Python<'_>,
    len: usize,
    places: impl Fn(usize) -> PyResult<P>,
    into: impl Fn(&mut P) -> gpumap::Result<usize> + Sync,
) -> PyResult<(P, usize)> {
    let mut room = len;
    loop {
        let mut places = places(room)?;
        match py.detach(|| into(&mut places)) {
            Ok(len) => return Ok((places, len)),
            Err(gpumap::Error::OutputTooSmall { needed, .. }) if needed > room => {
                room = needed + needed / 8;
            }
            Err(error) => return Err(exception(error)),
        }
    }
}
