//! [`Rooms`]: the buffers of a shard's calls, kept from call to call.

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

/// Buffers of a call.
#[derive(Debug)]
pub(super) struct Rooms<K, V> {
    /// The batch, by owner.
    pub(super) keys: Room<K>,
    pub(super) values: Room<V>,
    /// What others sent.
    pub(super) came_keys: Room<K>,
    pub(super) came_values: Room<V>,
    /// Where each key of the batch was, and 0, 1, 2 and so on up to `numbered`.
    pub(super) places: Room<u32>,
    pub(super) numbers: Room<u32>,
    pub(super) numbered: usize,
    /// Answers to what others sent, to the own part, and from others.
    pub(super) answers: Answers<V>,
    pub(super) own: Answers<V>,
    pub(super) came: Answers<V>,
}

/// Values, and beside each whether there is one.
#[derive(Debug)]
pub(super) struct Answers<V> {
    pub(super) values: Room<V>,
    pub(super) found: Room<u8>,
}

impl<V> Default for Answers<V> {
    fn default() -> Self {
        Self {
            values: Room::default(),
            found: Room::default(),
        }
    }
}

impl<K, V> Default for Rooms<K, V> {
    fn default() -> Self {
        Self {
            keys: Room::default(),
            values: Room::default(),
            came_keys: Room::default(),
            came_values: Room::default(),
            places: Room::default(),
            numbers: Room::default(),
            numbered: 0,
            answers: Answers::default(),
            own: Answers::default(),
            came: Answers::default(),
        }
    }
}
