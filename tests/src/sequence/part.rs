//! [`Part`]: places for answers in the midst of a buffer, beside which nothing may be written.

use bytemuck::Pod;
use gpumap::{Buffer, BufferViewMut};

use crate::Target;

/// What all bytes of the buffer hold at first.
const CANARY: u8 = 0x5a;

/// Places before the part, and after it.
const BESIDE: usize = 3;

/// A part of a buffer.
pub(super) struct Part<T> {
    buffer: Buffer<T>,
    len: usize,
}

impl<T: Pod> Part<T> {
    /// Of so many places.
    pub(super) fn new(on: &Target, len: usize) -> Self {
        let mut buffer = Buffer::zeroed(&on.stream(), len + 2 * BESIDE).unwrap();
        buffer.fill_bytes(CANARY).unwrap();
        Self { buffer, len }
    }

    /// The output.
    pub(super) fn view(&mut self) -> BufferViewMut<'_, T> {
        self.buffer.slice_mut(BESIDE..BESIDE + self.len).unwrap()
    }

    /// What was written to it.
    ///
    /// # Panics
    /// If something was written beside it.
    pub(super) fn to_vec(&self) -> Vec<T> {
        let mut all = self.buffer.to_vec().unwrap();
        let behind = all.split_off(BESIDE + self.len);
        let part = all.split_off(BESIDE);
        let beside: [&[u8]; 2] = [bytemuck::cast_slice(&all), bytemuck::cast_slice(&behind)];
        let untouched = beside.concat().iter().all(|&byte| byte == CANARY);
        assert!(untouched, "written beside a part of a buffer");
        part
    }
}
