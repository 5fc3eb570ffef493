//! How much scratch memory a batch takes, and what becomes of it when the batch is refused.

use bytemuck::Pod;

use super::{COUNTERS, ScratchPool, Workspace, bits_of, grown};
use crate::array::ArrayMut;
use crate::error::{Error, Result};
use crate::input::Source;
use crate::memory::Memory;
use crate::output::Sink;

impl ScratchPool {
    /// Runs a call that stores a batch, in a workspace of its own. If it is refused for want of memory, all scratch
    /// memory that no other call is using is freed, and the error says how much is available then.
    pub(crate) fn of_batch<T>(&self, call: impl FnOnce(&mut Workspace) -> Result<T>) -> Result<T> {
        let mut scratch = self.take()?;
        call(&mut scratch).map_err(|error| {
            if !matches!(error, Error::OutOfMemory { .. }) {
                return error;
            }
            // Back to the pool, which is emptied.
            drop(scratch);
            self.freed(error.of_batch_with(Workspace::BYTES))
        })
    }

    /// The error of a batch that has freed all that it had taken. Frees what no other call is using as well.
    pub(crate) fn freed(&self, error: Error) -> Error {
        self.trim();
        match self.device.available_bytes() {
            Ok(now) => error.of_batch_beside(now),
            Err(_) => error,
        }
    }
}

impl Workspace {
    /// Bytes of one in which nothing is reserved yet.
    pub(crate) const BYTES: u64 = (COUNTERS * size_of::<u64>()) as u64;

    /// How many bytes of a new workspace an array of a call takes: none if it lies elsewhere.
    pub(crate) fn bytes_at<T>(&self, array: *const T, len: usize) -> u64 {
        let at = |memory: &Memory| memory.ptr().addr() == array.addr();
        match self.buffers.iter().flatten().any(at) {
            true => Self::bytes_of(size_of::<T>().saturating_mul(len)),
            false => 0,
        }
    }

    /// How many bytes of a new workspace keys and values take that are staged.
    pub(crate) fn bytes_of_pairs<K: Pod, V: Pod>(
        &self,
        keys: Source<'_, K>,
        values: Source<'_, V>,
    ) -> u64 {
        let of_keys = match keys {
            Source::Host(keys) => self.bytes_of_output::<K>(keys.len()),
            Source::Device(_) => 0,
        };
        of_keys
            + match values {
                Source::Host(values) => self.bytes_of_output::<V>(values.len()),
                Source::Device(_) => 0,
            }
    }

    /// How many bytes of a new workspace a result for the host takes: none where kernels write to the host's.
    pub(crate) fn bytes_of_output<T>(&self, len: usize) -> u64 {
        match self.stream.device().has_own_memory() && size_of::<T>() * len.min(1) != 0 {
            true => Self::bytes_of(size_of::<T>().saturating_mul(len)),
            false => 0,
        }
    }

    /// How many bytes of a new workspace the first `len` elements of an output of the caller take.
    pub(crate) fn bytes_of_array(&self, output: &ArrayMut<'_>, len: usize) -> u64 {
        match output.is_on_host() {
            true => self.bytes_of_output::<u8>(len * output.element()),
            false => 0,
        }
    }

    /// How many bytes of a new workspace the first `len` elements of a result of the caller take.
    pub(crate) fn bytes_of_sink<T>(&self, sink: &Sink<'_, T>, len: usize) -> u64 {
        match sink {
            Sink::Host(_) => self.bytes_of_output::<T>(len),
            Sink::Device(_) => 0,
        }
    }

    /// How many bytes a scratch buffer of a new workspace has that has room for so many.
    pub(crate) fn bytes_of(bytes: usize) -> u64 {
        grown(bytes) as u64
    }

    /// How many bytes the bits for so many places have, of a new workspace.
    pub(crate) fn bytes_of_bits(len: usize) -> u64 {
        Self::bytes_of(bits_of(len))
    }
}
