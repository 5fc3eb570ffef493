//! How a call on a stream is queued: its inputs are staged, its step is put into the air, and the
//! streams of its buffers are ordered behind that.

use std::ptr;
use std::sync::Arc;

use gpumap_simt::atomic::part::Update;

use crate::array::{Array, ArrayMut};
use crate::buffer::BufferViewMut;
use crate::error::Result;
use crate::input::Source;
use crate::map::Core;
use crate::map::assign::Assignment;
use crate::map::in_flight::PendingOp;
use crate::map::look_up::{LookUp, Outputs};
use crate::map::operand::Operands;
use crate::map::pending::{Pending, only};
use crate::map::step::Step;
use crate::map::store::{Job, Verb};
use crate::memory::Memory;
use crate::output::Sink;
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

impl Queue<'_> {
    /// Queues a batch that stores, or stores it here and now if it may not fit.
    pub(super) fn store(
        &self,
        verb: Verb,
        keys: Array<'_>,
        values: Operands<'_>,
        held: Option<BufferViewMut<'_, u8>>,
    ) -> Result<Call> {
        if keys.is_empty() {
            return Ok(Call::Done(0));
        }
        let table = self.map.table.read();
        let reservation = self.map.reserve_pairs(keys.len());
        let Some(reservation) = reservation else {
            drop(table);
            self.stream.synchronize()?;
            return Ok(Call::Done(match held {
                Some(held) => {
                    let held = ArrayMut::from(Sink::Device(held));
                    self.map.store_and_tell(keys, values.each(), held)?
                }
                None => self.map.store(verb, keys, values)?,
            }));
        };
        self.map.expect_sound()?;
        let staged = self.stage(keys);
        let staged = staged.and_then(|keys| Ok((keys, self.stage_values(values)?)));
        let (staged_keys, staged_values) = staged.map_err(|error| {
            let bytes = bytes_of_copy(keys) + bytes_of_copy(values.each());
            error.of_batch_of(bytes as u64)
        })?;
        let step = Step::Store(Job {
            verb,
            keys: staged_keys.elements,
            values: staged_values.elements,
            value: values.same(),
            held: held.map_or(ptr::null_mut(), |mut held| held.as_mut_ptr()),
            ..Job::insert(self.map.pair, keys.len())
        });
        // SAFETY: keys and values are on the device and the output is as long.
        let op = unsafe { self.map.submit(&table, &self.stream, &step) }?;
        // The pending call keeps it from now on.
        reservation.keep_in_flight();
        drop(table);
        self.hold_back(&op, keys)?;
        self.hold_back(&op, values.each())?;
        Ok(Call::Pending(op))
    }

    /// Queues new values for present keys.
    pub(super) fn assign_all(
        &self,
        update: Update,
        keys: Array<'_>,
        values: Operands<'_>,
    ) -> Result<Call> {
        if keys.is_empty() {
            return Ok(Call::Done(0));
        }
        let (staged_keys, staged_values) = (self.stage(keys)?, self.stage_values(values)?);
        let step = Step::Assign(Assignment {
            keys: staged_keys.elements,
            values: staged_values.elements,
            value: values.same(),
            len: keys.len(),
            update,
        });
        // SAFETY: keys and values are on the device.
        let op = unsafe { self.submit(&step) }?;
        self.hold_back(&op, keys)?;
        self.hold_back(&op, values.each())?;
        Ok(Call::Pending(op))
    }

    /// Queues a removal that only counts.
    pub(super) fn take_away(&self, keys: Array<'_>) -> Result<Call> {
        if keys.is_empty() {
            return Ok(Call::Done(0));
        }
        let staged = self.stage(keys)?;
        let step = Step::Remove {
            keys: staged.elements,
            len: keys.len(),
        };
        // SAFETY: the keys are on the device.
        let op = unsafe { self.submit(&step) }?;
        self.hold_back(&op, keys)?;
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
        let step = Step::Dump {
            keys: keys.as_mut_ptr(),
            values: values.as_mut_ptr(),
            room,
        };
        // SAFETY: both outputs have as many elements as there is room for.
        let op = unsafe { self.submit(&step) }?;
        self.let_wait(&op, keys.stream())?;
        self.let_wait(&op, values.stream())?;
        Ok(Call::Pending(op))
    }

    /// The answer of a call that counts.
    pub(super) fn counted(&self, call: Call) -> Pending<usize> {
        match call {
            Call::Pending(op) => Pending::of_op(&self.map.state, op, only),
            Call::Done(new) => Pending::ready(vec![new], only),
        }
    }

    /// Stores pairs, and tells what the map holds for each key, for which there is room.
    pub(super) fn store_and_tell(
        &self,
        (keys, values): (Array<'_>, Operands<'_>),
        held: BufferViewMut<'_, u8>,
    ) -> Result<Call> {
        let stream = held.stream();
        self.stream.wait_stream(stream)?;
        let call = self.store(Verb::GetOrInsert, keys, values, Some(held))?;
        if let Call::Pending(op) = &call {
            self.let_wait(op, stream)?;
        }
        Ok(call)
    }

    /// Looks keys up into outputs, if they are wanted, with room for as many answers: values, and bytes that say which keys
    /// were found.
    pub(super) fn look_up(
        &self,
        keys: Array<'_>,
        mut outputs: [Option<BufferViewMut<'_, u8>>; 2],
        default: u64,
    ) -> Result<Pending<()>> {
        for output in outputs.iter().flatten() {
            self.stream.wait_stream(output.stream())?;
        }
        if keys.is_empty() {
            return Ok(Pending::ready(Vec::new(), |_| ()));
        }
        let staged = self.stage(keys)?;
        let [values, found] = outputs.each_mut().map(|output| {
            output
                .as_mut()
                .map_or(ptr::null_mut(), BufferViewMut::as_mut_ptr)
        });
        let step = Step::LookUp(LookUp {
            keys: staged.elements,
            len: keys.len(),
            outputs: Outputs {
                values,
                found,
                default,
            },
        });
        // SAFETY: the keys are on the device and outputs are as long.
        let op = unsafe { self.submit(&step) }?;
        self.hold_back(&op, keys)?;
        for output in outputs.iter().flatten() {
            self.let_wait(&op, output.stream())?;
        }
        Ok(Pending::of_op(&self.map.state, op, |_| ()))
    }

    /// Puts a step into the air that stores nothing.
    ///
    /// # Safety
    /// As for `Map::submit`.
    unsafe fn submit(&self, step: &Step) -> Result<Arc<PendingOp>> {
        let table = self.map.table.read();
        // SAFETY: passed on.
        unsafe { self.map.submit(&table, &self.stream, step) }
    }

    /// An input on the device, when what is queued on the stream from now on comes to it.
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
