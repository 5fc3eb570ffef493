//! [`Staged`]: an input of a call on a stream, on the device.

use std::ptr;

use crate::array::Array;
use crate::error::Result;
use crate::input::Source;
use crate::map::command::{Batch, KEY_ALIGN};
use crate::map::operand::Operands;
use crate::memory::Memory;
use crate::stream::Stream;

/// An input on the device, when what is queued on the stream from then on reaches it.
#[derive(Debug)]
pub(crate) struct Staged {
    elements: *const u8,
    /// Freed in the order of the stream, so after the kernel that reads it.
    _copy: Option<Memory>,
}

impl Staged {
    /// The keys and the values of a batch; the latter null if it takes none.
    pub fn batch(stream: &Stream, batch: &Batch<'_>) -> Result<[Self; 2]> {
        let keys = Self::keys(stream, batch.keys)?;
        let values = match batch.kind.traits().takes_values {
            true => Self::values(stream, batch.values)?,
            false => Self::at(ptr::null()),
        };
        Ok([keys, values])
    }

    /// Keys, where kernels can load them.
    fn keys(stream: &Stream, keys: Array<'_>) -> Result<Self> {
        let staged = Self::on(stream, keys)?;
        if staged.elements.addr().is_multiple_of(KEY_ALIGN) {
            return Ok(staged);
        }
        // Of a type like `[u8; 16]`, which may lie anywhere.
        let bytes = keys.bytes().len();
        let copy = Memory::new(stream, bytes)?;
        // SAFETY: as many bytes, which are freed in the order of the stream.
        unsafe { stream.copy(copy.ptr(), staged.elements, bytes) }?;
        Ok(Self::copied(copy))
    }

    /// Has an input of the host copied, which is waited for; one of the device is used where it is.
    fn on(stream: &Stream, array: Array<'_>) -> Result<Self> {
        match array.bytes() {
            Source::Device(view) => {
                stream.wait_stream(view.stream())?;
                Ok(Self::at(view.as_ptr()))
            }
            // The values of a set: nothing to copy, and nothing to wait for.
            Source::Host([]) => Ok(Self::at(ptr::dangling())),
            Source::Host(bytes) => {
                let copy = Memory::new(stream, bytes.len())?;
                // SAFETY: as many bytes as were just allocated; waited for while the elements are
                // borrowed.
                unsafe { stream.upload(copy.ptr(), bytes.as_ptr(), bytes.len()) }?;
                stream.finish()?;
                Ok(Self::copied(copy))
            }
        }
    }

    /// The same of values; null if all keys have the same.
    fn values(stream: &Stream, values: Operands<'_>) -> Result<Self> {
        match values {
            Operands::Each(values) => Self::on(stream, values),
            Operands::Same(_) => Ok(Self::at(ptr::null())),
        }
    }

    /// How many bytes a copy of an input takes: none if it is on the device.
    pub fn bytes_of_copy(array: Array<'_>) -> usize {
        match array.bytes() {
            Source::Host(bytes) => bytes.len(),
            Source::Device(_) => 0,
        }
    }

    /// Where the elements are.
    pub fn elements(&self) -> *const u8 {
        self.elements
    }

    fn copied(copy: Memory) -> Self {
        Self {
            elements: copy.ptr(),
            _copy: Some(copy),
        }
    }

    fn at(elements: *const u8) -> Self {
        Self {
            elements,
            _copy: None,
        }
    }
}
