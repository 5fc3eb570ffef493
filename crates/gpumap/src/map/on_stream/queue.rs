//! How a call on a stream is queued: its inputs are staged, its step is put into the air, and the
//! streams of its buffers are ordered after that.

use std::ptr;
use std::sync::Arc;

use crate::array::{Array, ArrayMut};
use crate::buffer::{Buffer, BufferViewMut};
use crate::error::Result;
use crate::input::Source;
use crate::map::Core;
use crate::map::command::{Arrays, Batch, Command, Kind, Outputs, Wanted};
use crate::map::in_flight::PendingOp;
use crate::map::operand::Operands;
use crate::map::pending::{Pending, only};
use crate::memory::Memory;
use crate::op::Make;
use crate::output::Output;
use crate::stream::Stream;

/// An input on the device.
struct Staged {
    elements: *const u8,
    /// Freed in the order of the stream, so after the kernel that reads it.
    _copy: Option<Memory>,
}

/// How many bytes a copy of an input on the device takes: none if it is there.
fn bytes_of_copy(array: Array<'_>) -> usize {
    match array.bytes() {
        Source::Host(bytes) => bytes.len(),
        Source::Device(_) => 0,
    }
}

/// A call that counts.
pub(super) enum Call {
    /// It had to wait, and is over.
    Done(usize),
    Pending(Arc<PendingOp>),
}

/// The calls of an [`OnStream`](super::OnStream), without their types.
#[derive(Clone, Debug)]
pub(super) struct Queue<'m> {
    pub map: &'m Core,
    pub stream: Stream,
}

/// The outputs that are wanted, which are on the device.
fn views<'o, 'a>(
    outputs: &'o mut [Option<ArrayMut<'a>>],
) -> impl Iterator<Item = &'o mut BufferViewMut<'a, u8>> {
    outputs.iter_mut().flatten().filter_map(ArrayMut::on_device)
}

impl Queue<'_> {
    /// Queues an operation that has been checked, and makes its answer of what it counts.
    pub(super) fn counted<A: 'static>(
        &self,
        batch: Batch<'_>,
        outputs: Arrays<'_>,
        answer: fn(usize) -> A,
    ) -> Result<Pending<A>> {
        let call = self.submit(batch, outputs)?;
        Ok(self.pending(call, move |counts| Ok(answer(only(counts)))))
    }

    /// The same, and makes its answer of what it returns for each key.
    pub(super) fn answered<A: 'static>(
        &self,
        batch: Batch<'_>,
        wanted: Wanted,
        make: Make<A>,
    ) -> Result<Pending<A>> {
        let (value, len) = (self.map.pair.value, batch.keys.len());
        let [of_values, of_found] = wanted.bytes(value, len);
        let mut values = Buffer::<u8>::unwritten(&self.stream, of_values)?;
        let mut found = Buffer::<u8>::unwritten(&self.stream, of_found)?;
        let arrays = [
            wanted
                .values
                .then(|| ArrayMut::of_bytes(values.sink(), value, len)),
            wanted
                .found
                .then(|| ArrayMut::of_bytes(found.sink(), 1, len)),
        ];
        let call = self.submit(batch, arrays)?;
        Ok(self.pending(call, move |_| {
            let (values, found) = (values.to_vec()?, found.to_vec()?);
            make(len, &mut |collect| {
                collect.fill(&values, &found, len);
                Ok(())
            })
        }))
    }

    /// Queues an operation; what it is done with has been checked. The streams of device arrays wait for it.
    fn submit(&self, batch: Batch<'_>, mut outputs: Arrays<'_>) -> Result<Call> {
        let Batch {
            kind,
            keys,
            values,
            default,
            ..
        } = batch;
        let traits = kind.traits();
        for output in views(&mut outputs) {
            self.stream.wait_stream(output.stream())?;
        }
        if keys.is_empty() {
            return Ok(Call::Done(0));
        }
        let is_for_host = outputs.iter().flatten().any(ArrayMut::is_on_host);
        let table = traits.stores.then(|| self.map.table.read());
        let reservation = match traits.stores {
            _ if traits.is_alone || is_for_host => None,
            true => self.map.reserve_pairs(keys.len()),
            false => None,
        };
        if traits.is_alone || is_for_host || (traits.stores && reservation.is_none()) {
            // It waits for other calls, for the host, or has to grow: so everything before it ends first.
            drop(table);
            self.stream.synchronize()?;
            let count = self.map.run(batch, Outputs::Arrays(outputs))?;
            return Ok(Call::Done(count));
        }
        self.map.expect_sound()?;
        let staged = self.stage(keys);
        let staged = staged.and_then(|keys| match traits.takes_values {
            true => Ok((keys, Some(self.stage_values(values)?))),
            false => Ok((keys, None)),
        });
        let (staged_keys, staged_values) = staged.map_err(|error| match traits.stores {
            true => {
                let bytes = bytes_of_copy(keys) + bytes_of_copy(values.each());
                error.of_batch_of(bytes as u64)
            }
            false => error,
        })?;
        let [out_values, out_flags] = outputs.each_mut().map(|output| {
            let view = output.as_mut().and_then(ArrayMut::on_device);
            view.map_or(ptr::null_mut(), BufferViewMut::as_mut_ptr)
        });
        let command = Command {
            keys: staged_keys.elements,
            values: staged_values
                .as_ref()
                .map_or(ptr::null(), |staged| staged.elements),
            value: values.same(),
            default,
            out_values,
            out_flags,
            ..Command::of(kind, self.map.pair, keys.len())
        };
        if traits.stores && !out_flags.is_null() {
            // SAFETY: a byte for each key, which the stream reaches after what used it before.
            unsafe { self.stream.fill(out_flags, 0, keys.len()) }?;
        }
        let table = table.unwrap_or_else(|| self.map.table.read());
        // SAFETY: keys and values are on the device and outputs are as long.
        let op = unsafe { self.map.submit(&table, &self.stream, &command) }?;
        // The pending call keeps it from now on.
        if let Some(reservation) = reservation {
            reservation.keep_in_flight();
        }
        drop(table);
        self.hold_back(&op, keys)?;
        if traits.takes_values {
            self.hold_back(&op, values.each())?;
        }
        for output in views(&mut outputs) {
            self.let_wait(&op, output.stream())?;
        }
        Ok(Call::Pending(op))
    }

    /// Queues a dump of all pairs, if there is room for them.
    pub(super) fn dump(
        &self,
        mut keys: BufferViewMut<'_, u8>,
        mut values: BufferViewMut<'_, u8>,
        room: usize,
    ) -> Result<Call> {
        self.map.device.expect_same(self.stream.device())?;
        self.stream.wait_stream(keys.stream())?;
        self.stream.wait_stream(values.stream())?;
        let command = Command {
            keys: keys.as_mut_ptr().cast_const(),
            values: values.as_mut_ptr().cast_const(),
            ..Command::of(Kind::Dump, self.map.pair, room)
        };
        // SAFETY: both outputs have as many elements as there is room for.
        let op = unsafe { self.launch(&command) }?;
        self.let_wait(&op, keys.stream())?;
        self.let_wait(&op, values.stream())?;
        Ok(Call::Pending(op))
    }

    /// The answer of a call.
    pub(super) fn pending<A>(
        &self,
        call: Call,
        finish: impl Fn(Vec<usize>) -> Result<A> + Send + Sync + 'static,
    ) -> Pending<A> {
        match call {
            Call::Pending(op) => Pending::of_op(&self.map.state, op, finish),
            Call::Done(count) => Pending::ready(vec![count], finish),
        }
    }

    /// Puts a step into the air that stores nothing.
    ///
    /// # Safety
    /// As for `Map::submit`.
    unsafe fn launch(&self, command: &Command) -> Result<Arc<PendingOp>> {
        let table = self.map.table.read();
        // SAFETY: passed on.
        unsafe { self.map.submit(&table, &self.stream, command) }
    }

    /// An input on the device, when what is queued on the stream from now on reaches it.
    fn stage(&self, array: Array<'_>) -> Result<Staged> {
        self.map.device.expect_same(self.stream.device())?;
        match array.bytes() {
            Source::Device(view) => {
                self.stream.wait_stream(view.stream())?;
                Ok(Staged {
                    elements: view.as_ptr(),
                    _copy: None,
                })
            }
            // The values of a set: nothing to copy, and nothing to wait for.
            Source::Host([]) => Ok(Staged {
                elements: ptr::dangling(),
                _copy: None,
            }),
            Source::Host(bytes) => {
                let copy = Memory::new(&self.stream, bytes.len())?;
                // SAFETY: as many bytes as were just allocated; waited for while the elements are
                // borrowed.
                unsafe { self.stream.upload(copy.ptr(), bytes.as_ptr(), bytes.len()) }?;
                self.stream.synchronize()?;
                Ok(Staged {
                    elements: copy.ptr(),
                    _copy: Some(copy),
                })
            }
        }
    }

    /// Values on the device likewise; null if all keys have the same.
    fn stage_values(&self, values: Operands<'_>) -> Result<Staged> {
        match values {
            Operands::Each(values) => self.stage(values),
            Operands::Same(_) => Ok(Staged {
                elements: ptr::null(),
                _copy: None,
            }),
        }
    }

    /// Lets the stream of a device input wait, so that it is neither freed nor overwritten before
    /// the call has read it.
    fn hold_back(&self, op: &PendingOp, array: Array<'_>) -> Result<()> {
        match array.bytes() {
            Source::Device(view) => self.let_wait(op, view.stream()),
            Source::Host(_) => Ok(()),
        }
    }

    /// The same for the stream of an output.
    pub(super) fn let_wait(&self, op: &PendingOp, stream: &Stream) -> Result<()> {
        if stream.is_same_as(&self.stream) {
            return Ok(());
        }
        let waits = self.map.state.in_flight.let_wait(stream, op);
        if waits.is_err() {
            // The caller must be able to free the buffer.
            let _ = self.stream.synchronize();
        }
        waits
    }
}
