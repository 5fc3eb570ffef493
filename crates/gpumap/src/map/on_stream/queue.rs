//! How a call on a stream is queued: the streams of its buffers come before it, the kernels of its receiver are launched, and
//! the streams of its buffers are ordered after that.

use std::sync::Arc;

use super::receiver::{MapMemory, StreamReceiver, addresses};
use super::staged::Staged;
use crate::array::{Array, ArrayMut};
use crate::buffer::{Buffer, BufferViewMut};
use crate::error::{Result, expect_room};
use crate::input::Source;
use crate::map::command::{Arrays, Batch, Command, Kind, Outputs, Wanted};
use crate::map::in_flight::PendingOp;
use crate::map::pending::{Pending, only};
use crate::memory::{Memory, bytes_of_each};
use crate::op::Make;
use crate::output::Output;
use crate::stream::{LaunchOn, Stream};

/// A call that counts.
#[derive(Debug)]
enum Call {
    /// It had to wait, and is over.
    Done(usize),
    Pending(Arc<PendingOp>),
}

/// The calls on a stream of a map, without the types of its pairs.
#[derive(Clone)]
pub(crate) struct Queue<'m> {
    pub receiver: &'m dyn StreamReceiver,
    pub stream: Stream,
}

/// The outputs that are wanted, which are on the device.
fn views<'o, 'a>(
    outputs: &'o mut [Option<ArrayMut<'a>>],
) -> impl Iterator<Item = &'o mut BufferViewMut<'a, u8>> {
    outputs.iter_mut().flatten().filter_map(ArrayMut::on_device)
}

impl<'m> Queue<'m> {
    pub fn new(receiver: &'m dyn StreamReceiver, stream: &Stream) -> Self {
        Self {
            receiver,
            stream: stream.clone(),
        }
    }

    /// Queues an operation that has been checked, and makes its answer of what it counts.
    pub fn counted<A: 'static>(
        &self,
        batch: Batch<'_>,
        outputs: Arrays<'_>,
        answer: fn(usize) -> A,
    ) -> Result<Pending<A>> {
        let call = self.submit(batch, outputs)?;
        Ok(self.pending(call, move |counts| Ok(answer(only(counts)))))
    }

    /// The same, and makes its answer of what it returns for each key. Values have so many bytes.
    pub fn answered<A: 'static>(
        &self,
        batch: Batch<'_>,
        (wanted, value): (Wanted, usize),
        make: Make<A>,
    ) -> Result<Pending<A>> {
        let len = batch.len();
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

    /// Runs what waits for the stream.
    pub fn waited<A: Clone + Send + Sync + 'static>(
        &self,
        run: impl FnOnce() -> Result<A>,
    ) -> Result<Pending<A>> {
        self.receiver.device().expect_same(self.stream.device())?;
        self.stream.expect_not_captured()?;
        self.stream.synchronize()?;
        let answer = run()?;
        Ok(Pending::ready(Vec::new(), move |_| Ok(answer.clone())))
    }

    /// Queues an operation; what it is done with has been checked. The streams of device arrays wait for it.
    fn submit(&self, batch: Batch<'_>, mut outputs: Arrays<'_>) -> Result<Call> {
        if batch.kind.changes() {
            self.receiver.expect_no_callback()?;
        }
        for output in views(&mut outputs) {
            self.stream.wait_stream(output.stream())?;
        }
        self.receiver.device().expect_same(self.stream.device())?;
        // Else what fails before anything is queued would wait for the end of a capture, which this thread may have to end.
        self.stream.expect_not_captured()?;
        if batch.len() == 0 {
            return Ok(Call::Done(0));
        }
        let is_for_host = outputs.iter().flatten().any(ArrayMut::is_on_host);
        let queued = match self.receiver.receiver().queues(batch.kind) && !is_for_host {
            true => {
                let queued = self.queue(&batch, &mut outputs);
                if let Err(error) = &queued {
                    // Outputs may be being filled, and their streams do not wait for it.
                    self.stream.finish_after(error);
                }
                queued?
            }
            false => None,
        };
        let Some(op) = queued else {
            // It waits for other calls, for the host, or has to grow: so everything before it ends first.
            self.stream.synchronize()?;
            let count = self.receiver.run(&batch, Outputs::Arrays(outputs))?;
            return Ok(Call::Done(count));
        };
        self.hold_back(&op, batch.keys)?;
        if batch.kind.traits().takes_values {
            self.hold_back(&op, batch.values.each())?;
        }
        for output in views(&mut outputs) {
            self.let_wait(&op, output.stream())?;
        }
        Ok(Call::Pending(op))
    }

    /// Queues an operation on some keys. Its outputs are on the device and have a place for each key; the stream has waited
    /// for theirs. Returns none, with nothing queued, if there may not be room for what it stores.
    fn queue(&self, batch: &Batch<'_>, outputs: &mut Arrays<'_>) -> Result<Option<Arc<PendingOp>>> {
        let (receiver, stream) = (self.receiver, &self.stream);
        let (memory, reservation, staged) = match batch.kind.traits().stores {
            // There is room in the memory that is held.
            true => {
                let memory = receiver.memory()?;
                let Some(reservation) = receiver.state().reserve_pairs(batch.keys.len()) else {
                    return Ok(None);
                };
                let staged = Staged::batch(stream, batch).map_err(|error| {
                    let arrays = [batch.keys, batch.values.each()];
                    let bytes: usize = arrays.into_iter().map(Staged::bytes_of_copy).sum();
                    error.of_batch_of(bytes as u64)
                })?;
                (memory, Some(reservation), staged)
            }
            false => {
                let staged = Staged::batch(stream, batch)?;
                (receiver.memory()?, None, staged)
            }
        };
        let [keys, values] = staged.each_ref().map(Staged::elements);
        let command = Command {
            keys,
            values,
            ..Command::of_batch(batch, receiver.pair(), addresses(outputs))
        };
        if let Some((at, bytes)) = command.zeroed() {
            // SAFETY: places of an output, which the stream reaches after what used them before.
            unsafe { stream.fill(at, 0, bytes) }?;
        }
        // SAFETY: keys and values are on the device, outputs are as long, and there is room.
        let op = unsafe { self.launch(&*memory, &command) }?;
        // The pending call keeps it from now on.
        if let Some(reservation) = reservation {
            reservation.keep_in_flight();
        }
        Ok(Some(op))
    }

    /// Puts a command into the air.
    ///
    /// # Safety
    /// As for [`MapMemory::launch`].
    unsafe fn launch(&self, memory: &dyn MapMemory, command: &Command) -> Result<Arc<PendingOp>> {
        // Freed in the order of the stream, so after the kernels that use it.
        let bytes = bytes_of_each(memory.hands_on(command), command.len)?;
        let between = Memory::new(&self.stream, bytes)?;
        let (state, on) = (self.receiver.state(), LaunchOn::Stream(&self.stream));
        state.submit(&self.stream, command.effect(), |counters| {
            // SAFETY: passed on, with memory for what is handed on.
            unsafe { memory.launch(on, command, counters, between.ptr()) }
        })
    }

    /// Queues a dump of all pairs, if there is room for them.
    pub fn dump(
        &self,
        mut keys: BufferViewMut<'_, u8>,
        mut values: BufferViewMut<'_, u8>,
        room: usize,
    ) -> Result<Pending<usize>> {
        let receiver = self.receiver;
        receiver.device().expect_same(self.stream.device())?;
        self.stream.expect_not_captured()?;
        self.stream.wait_stream(keys.stream())?;
        self.stream.wait_stream(values.stream())?;
        let to = [keys.as_mut_ptr(), values.as_mut_ptr()];
        let call = match receiver.receiver().queues(Kind::Dump) {
            true => {
                let command = Command::of_dump(receiver.pair(), to, room);
                let memory = receiver.memory()?;
                // SAFETY: both outputs have as many elements as there is room for.
                let op = unsafe { self.launch(&*memory, &command) }?;
                drop(memory);
                self.let_wait(&op, keys.stream())?;
                self.let_wait(&op, values.stream())?;
                Call::Pending(op)
            }
            false => {
                self.stream.synchronize()?;
                let mut scratch = receiver.scratch().take()?;
                expect_room(receiver.len(), room)?;
                let pairs = receiver.write_pairs(&mut scratch, to, room)?;
                expect_room(pairs, room)?;
                Call::Done(pairs)
            }
        };
        Ok(self.pending(call, |counts| Ok(only(counts))))
    }

    /// The answer of a call.
    fn pending<A>(
        &self,
        call: Call,
        finish: impl Fn(Vec<usize>) -> Result<A> + Send + Sync + 'static,
    ) -> Pending<A> {
        match call {
            Call::Pending(op) => Pending::of_op(self.receiver.state(), op, finish),
            Call::Done(count) => Pending::ready(vec![count], finish),
        }
    }

    /// Lets the stream of a device input wait, so that it is neither freed nor overwritten before
    /// the call has read it.
    fn hold_back(&self, op: &Arc<PendingOp>, array: Array<'_>) -> Result<()> {
        match array.bytes() {
            Source::Device(view) => self.let_wait(op, view.stream()),
            Source::Host(_) => Ok(()),
        }
    }

    /// The same for the stream of an output.
    pub fn let_wait(&self, op: &PendingOp, stream: &Stream) -> Result<()> {
        if stream.is_same_as(&self.stream) {
            return Ok(());
        }
        let waits = self.receiver.state().in_flight.let_wait(stream, op);
        if let Err(error) = &waits {
            // The caller must be able to free the buffer.
            self.stream.finish_after(error);
        }
        waits
    }
}
