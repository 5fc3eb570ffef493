//! [`Room`]: a buffer that is kept from call to call.

use bytemuck::Pod;

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// A buffer that is kept from call to call, and made anew when it is too small.
#[derive(Debug)]
pub(super) struct Room<T> {
    buffer: Option<Buffer<T>>,
}

impl<T> Default for Room<T> {
    fn default() -> Self {
        Self { buffer: None }
    }
}

impl<T: Pod> Room<T> {
    /// A buffer of `len` elements at least; what was in it may be lost.
    pub(super) fn of(&mut self, stream: &Stream, len: usize) -> Result<&mut Buffer<T>> {
        let buffer = match self.buffer.take() {
            Some(buffer) if buffer.len() >= len => buffer,
            small => {
                // Before the next is allocated, so that both are never held at once.
                drop(small);
                let spare = len + len / 8;
                match Buffer::uninit(stream, spare) {
                    // The room to spare is not worth an error.
                    Err(Error::OutOfMemory { .. }) => Buffer::uninit(stream, len)?,
                    other => other?,
                }
            }
        };
        Ok(self.buffer.insert(buffer))
    }
}
