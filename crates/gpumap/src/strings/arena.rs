//! [`Arena`]: the bytes of a map's strings, in chunks that never move.
//!
//! Rows have the addresses of their strings. So what is full is not replaced by something larger, as arrays of keys are, but a
//! chunk comes beside it. Whatever changes an arena holds it alone.

use gpumap_kernels::rows::STRING_ALIGNMENT;

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::scratch::Workspace;
use crate::stream::Stream;

use std::ptr;

/// The fewest bytes of a chunk, if there is memory for them.
const LEAST_BYTES: usize = 4096;

/// Bytes of strings of one batch or of many.
#[derive(Debug)]
struct Chunk {
    memory: Buffer<u8>,
    used: usize,
}

impl Chunk {
    fn free(&self) -> usize {
        self.memory.len() - self.used
    }
}

/// Room that was taken for strings that the map does not have yet.
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// In which chunk.
    chunk: usize,
    /// How much of it was used before; none if the chunk was made for it.
    before: Option<usize>,
}

/// The memory of a map's strings.
#[derive(Debug)]
pub(super) struct Arena {
    stream: Stream,
    chunks: Vec<Chunk>,
    taken: Option<Taken>,
}

impl Arena {
    /// One with room for so many bytes. The memory is of `stream`.
    pub fn new(stream: Stream, bytes: usize) -> Result<Self> {
        let mut arena = Self {
            stream,
            chunks: Vec::new(),
            taken: None,
        };
        if bytes > 0 {
            arena.add(bytes)?;
        }
        Ok(arena)
    }

    /// Bytes of all chunks.
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.memory.len()).sum()
    }

    /// Bytes that strings of `strings` bytes in all take, each of them padded.
    pub fn bytes_for(strings: usize, bytes: usize) -> usize {
        bytes.saturating_add(strings.saturating_mul(STRING_ALIGNMENT as usize - 1))
    }

    /// Adds an empty chunk of so many bytes, which can be used from other streams.
    fn add(&mut self, bytes: usize) -> Result<()> {
        let memory = Buffer::unwritten(&self.stream, bytes)?;
        self.stream.synchronize()?;
        self.chunks.push(Chunk { memory, used: 0 });
        Ok(())
    }

    /// Adds a chunk for `least` bytes, or if there is memory for `wished`.
    fn add_one_of(&mut self, wished: usize, least: usize) -> Result<()> {
        match self.add(wished.max(least)) {
            Err(Error::OutOfMemory { .. }) if wished > least => self.add(least),
            added => added,
        }
    }

    /// The chunk with so much room that there is longest.
    fn with_room(&self, bytes: usize) -> Option<usize> {
        self.chunks.iter().position(|chunk| chunk.free() >= bytes)
    }

    /// Makes room for so many bytes: a chunk as large as all that there are, if there is memory for it. If it fails, the arena
    /// is as it was.
    pub fn reserve(&mut self, bytes: usize) -> Result<()> {
        match self.with_room(bytes) {
            Some(_) => Ok(()),
            None => self.add_one_of(self.bytes().max(LEAST_BYTES), bytes),
        }
    }

    /// The same, with a chunk for no more than that.
    pub fn reserve_least(&mut self, bytes: usize) -> Result<()> {
        match self.with_room(bytes) {
            Some(_) => Ok(()),
            None => self.add(bytes),
        }
    }

    /// Takes room for so many bytes, a multiple of [`STRING_ALIGNMENT`]: to be followed by [`keep`](Self::keep) or
    /// [`undo`](Self::undo). If it fails, the arena is as it was.
    pub fn take(&mut self, bytes: usize) -> Result<*mut u8> {
        if bytes == 0 {
            return Ok(ptr::null_mut());
        }
        let there = self.with_room(bytes);
        self.reserve(bytes)?;
        let chunk = there.unwrap_or(self.chunks.len() - 1);
        Ok(self.take_in(chunk, there.is_some(), bytes))
    }

    /// The same in a chunk of its own, of `wished` bytes if there is memory for them.
    pub fn take_anew(&mut self, bytes: usize, wished: usize) -> Result<*mut u8> {
        self.add_one_of(wished, bytes)?;
        Ok(self.take_in(self.chunks.len() - 1, false, bytes))
    }

    fn take_in(&mut self, at: usize, was_there: bool, bytes: usize) -> *mut u8 {
        let chunk = &mut self.chunks[at];
        self.taken = Some(Taken {
            chunk: at,
            before: was_there.then_some(chunk.used),
        });
        let first = chunk.memory.as_mut_ptr().wrapping_add(chunk.used);
        chunk.used += bytes;
        first
    }

    /// Says that the room that was taken is in use.
    pub fn keep(&mut self) {
        self.taken = None;
    }

    /// Gives the room up that was taken, if some was. What was queued on a workspace may use it, if there is one. If that cannot
    /// be waited for, the room is lost until the arena is cleared or compacted.
    pub fn undo(&mut self, queued: Option<&Workspace>) {
        let Some(taken) = self.taken.take() else {
            return;
        };
        let (mut is_ordered, mut has_ended) = (true, true);
        if let Some(scratch) = queued {
            has_ended = scratch.wait().is_ok();
            // What is freed from now on is freed after that.
            is_ordered = has_ended || self.stream.wait_stream(scratch.stream()).is_ok();
        }
        match taken.before {
            Some(used) if has_ended => self.chunks[taken.chunk].used = used,
            None if is_ordered => self.chunks.truncate(taken.chunk),
            _ => (),
        }
    }

    /// Whether there is one chunk at most, which has no room.
    pub fn is_tight(&self) -> bool {
        self.chunks.len() <= 1 && self.chunks.iter().all(|chunk| chunk.free() == 0)
    }

    /// How many chunks there are.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Frees all chunks but the first ones, which nothing has used.
    pub fn truncate(&mut self, chunks: usize) {
        self.chunks.truncate(chunks);
    }

    /// Frees all chunks but the last one, in which room was [taken anew](Self::take_anew), unless it has no bytes.
    pub fn keep_last(&mut self) {
        self.taken = None;
        let last = self.chunks.len().saturating_sub(1);
        self.chunks.drain(..last);
        self.chunks.retain(|chunk| !chunk.memory.is_empty());
    }

    /// Says that no string is in use any more.
    pub fn clear(&mut self) {
        self.taken = None;
        for chunk in &mut self.chunks {
            chunk.used = 0;
        }
    }
}
