//! [`Array`] and [`ArrayMut`]: inputs and outputs without the type of their elements, as the core of a map takes them.

use std::ops::Range;
use std::ptr;

use bytemuck::Pod;

use crate::buffer::BufferViewMut;
use crate::floats::FloatWords;
use crate::input::{Input, Source};
use crate::memory::bytes_of_slice;
use crate::output::Sink;

/// Elements of an [`Input`](crate::Input).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array<'a> {
    bytes: Source<'a, u8>,
    len: usize,
    element: usize,
    floats: FloatWords,
}

impl<'a, T: Pod> From<Source<'a, T>> for Array<'a> {
    #[inline]
    fn from(source: Source<'a, T>) -> Self {
        Self {
            bytes: match source {
                Source::Host(elements) => Source::Host(bytes_of_slice(elements)),
                Source::Device(view) => Source::Device(view.as_bytes()),
            },
            len: source.len(),
            element: size_of::<T>(),
            floats: FloatWords::NONE,
        }
    }
}

impl<'a> Array<'a> {
    /// No element.
    pub const NONE: Self = Self {
        bytes: Source::Host(&[]),
        len: 0,
        element: 1,
        floats: FloatWords::NONE,
    };

    /// Keys with one zero and one NaN in their floats.
    pub fn of_keys<K: Pod>(keys: &'a (impl Input<K> + ?Sized)) -> Self {
        Self::from(keys.source()).and_floats(keys.floats().words())
    }

    /// The same, of which more is a float.
    pub fn and_floats(self, floats: FloatWords) -> Self {
        Self {
            floats: self.floats.and(floats),
            ..self
        }
    }

    /// Which words of an element have one zero and one NaN.
    pub fn floats(&self) -> FloatWords {
        self.floats
    }

    /// Elements of so many bytes.
    pub fn of_bytes(bytes: Source<'a, u8>, element: usize) -> Self {
        Self {
            bytes,
            len: bytes.len() / element,
            element,
            floats: FloatWords::NONE,
        }
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All bytes of the elements.
    pub fn bytes(&self) -> Source<'a, u8> {
        self.bytes
    }

    /// The elements, which are of this type.
    pub fn elements<T: Pod>(&self) -> Source<'a, T> {
        debug_assert_eq!(self.element, size_of::<T>());
        match self.bytes {
            Source::Host(bytes) => {
                assert!(self.len * size_of::<T>() <= bytes.len());
                assert!(bytes.as_ptr().cast::<T>().is_aligned() || bytes.is_empty());
                let start = match bytes.is_empty() {
                    true => ptr::dangling(),
                    false => bytes.as_ptr().cast(),
                };
                // SAFETY: so many bytes, borrowed as long, and a `T` takes any.
                Source::Host(unsafe { &*ptr::slice_from_raw_parts(start, self.len) })
            }
            // SAFETY: made of a view of such elements, or of as many bytes at the same place.
            Source::Device(view) => Source::Device(unsafe { view.cast(self.len) }),
        }
    }

    /// Some elements, if they are in the memory of the host.
    pub fn part(&self, range: Range<usize>) -> Option<Self> {
        Some(Self {
            bytes: Source::Host(self.on_host()?.part(&range)),
            len: range.len(),
            ..*self
        })
    }

    /// The elements, if they are in the memory of the host.
    pub fn on_host(&self) -> Option<HostArray<'a>> {
        match self.bytes {
            Source::Host(bytes) => Some(HostArray {
                bytes,
                element: self.element,
            }),
            Source::Device(_) => None,
        }
    }
}

/// Elements in the memory of the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostArray<'a> {
    bytes: &'a [u8],
    element: usize,
}

impl<'a> HostArray<'a> {
    /// All bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes of some elements.
    pub fn part(&self, range: &Range<usize>) -> &'a [u8] {
        &self.bytes[range.start * self.element..range.end * self.element]
    }
}

/// Places of an [`Output`](crate::Output).
#[derive(Debug)]
pub(crate) struct ArrayMut<'a> {
    bytes: Sink<'a, u8>,
    len: usize,
    element: usize,
}

impl<'a, T: Pod> From<Sink<'a, T>> for ArrayMut<'a> {
    #[inline]
    fn from(sink: Sink<'a, T>) -> Self {
        Self {
            len: sink.len(),
            bytes: match sink {
                Sink::Host([]) => Sink::Host(&mut []),
                Sink::Host(elements) if size_of::<T>() == 0 => {
                    let nowhere = elements.as_mut_ptr().cast::<u8>();
                    // SAFETY: no bytes, at an address that is not null.
                    Sink::Host(unsafe { &mut *ptr::slice_from_raw_parts_mut(nowhere, 0) })
                }
                Sink::Host(elements) => Sink::Host(bytemuck::cast_slice_mut(elements)),
                Sink::Device(view) => Sink::Device(view.into_bytes()),
            },
            element: size_of::<T>(),
        }
    }
}

impl<'a> ArrayMut<'a> {
    /// Places for `len` elements of so many bytes.
    pub fn of_bytes(bytes: Sink<'a, u8>, element: usize, len: usize) -> Self {
        debug_assert!(bytes.len() >= element * len);
        Self {
            bytes,
            len,
            element,
        }
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Takes the first `len` places out, if they are in the memory of the host.
    pub fn split_off(&mut self, len: usize) -> Option<Self> {
        let Sink::Host(bytes) = &mut self.bytes else {
            return None;
        };
        let part = bytes.split_off_mut(..len * self.element)?;
        self.len -= len;
        Some(Self {
            bytes: Sink::Host(part),
            len,
            element: self.element,
        })
    }

    /// The places, if they are in the memory of a device.
    pub fn on_device(&mut self) -> Option<&mut BufferViewMut<'a, u8>> {
        match &mut self.bytes {
            Sink::Device(view) => Some(view),
            Sink::Host(_) => None,
        }
    }

    /// The bytes of the first `len` elements.
    pub fn into_bytes(self) -> Sink<'a, u8> {
        self.bytes
    }

    /// The same for a while.
    pub fn on_host(&mut self) -> Option<&mut [u8]> {
        match &mut self.bytes {
            Sink::Host(bytes) => Some(bytes),
            Sink::Device(_) => None,
        }
    }

    /// Whether the places are in the memory of the host.
    pub fn is_on_host(&self) -> bool {
        matches!(self.bytes, Sink::Host(_))
    }

    /// Bytes of an element.
    pub fn element(&self) -> usize {
        self.element
    }
}
