//! How a call on a stream is queued: the streams of its buffers come before it, its receiver puts it into the air, and the
//! streams of its buffers are ordered after that.

use std::sync::Arc;

use super::receiver::{Call, StreamReceiver};
use crate::array::{Array, ArrayMut};
use crate::buffer::{Buffer, BufferViewMut};
use crate::error::Result;
use crate::input::Source;
use crate::map::command::{Arrays, Batch, Outputs, Wanted};
use crate::map::in_flight::PendingOp;
use crate::map::pending::{Pending, only};
use crate::op::Make;
use crate::output::Output;
use crate::stream::Stream;

/// The calls on a stream of a map, without the types of its pairs.
#[derive(Clone)]
pub(crate) struct Queue<'m> {
    receiver: &'m dyn StreamReceiver,
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
        let len = batch.keys.len();
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
        for output in views(&mut outputs) {
            self.stream.wait_stream(output.stream())?;
        }
        if batch.keys.is_empty() {
            return Ok(Call::Done(0));
        }
        self.receiver.device().expect_same(self.stream.device())?;
        let is_for_host = outputs.iter().flatten().any(ArrayMut::is_on_host);
        let queued = match self.receiver.queues(batch.kind) && !is_for_host {
            true => {
                let queued = self.receiver.queue(&self.stream, &batch, &mut outputs);
                if queued.is_err() {
                    // Outputs may be being filled, and their streams do not wait for it.
                    let _ = self.stream.synchronize();
                }
                queued?
            }
            false => None,
        };
        let Some(op) = queued else {
            // It waits for other calls, for the host, or has to grow: so everything before it ends first.
            self.stream.synchronize()?;
            let count = self.receiver.run(batch, Outputs::Arrays(outputs))?;
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

    /// Queues a dump of all pairs, if there is room for them.
    pub fn dump(
        &self,
        mut keys: BufferViewMut<'_, u8>,
        mut values: BufferViewMut<'_, u8>,
        room: usize,
    ) -> Result<Pending<usize>> {
        self.receiver.device().expect_same(self.stream.device())?;
        self.stream.wait_stream(keys.stream())?;
        self.stream.wait_stream(values.stream())?;
        let call = self
            .receiver
            .dump(&self.stream, &mut keys, &mut values, room)?;
        if let Call::Pending(op) = &call {
            self.let_wait(op, keys.stream())?;
            self.let_wait(op, values.stream())?;
        }
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
    fn let_wait(&self, op: &PendingOp, stream: &Stream) -> Result<()> {
        if stream.is_same_as(&self.stream) {
            return Ok(());
        }
        let waits = self.receiver.state().in_flight.let_wait(stream, op);
        if waits.is_err() {
            // The caller must be able to free the buffer.
            let _ = self.stream.synchronize();
        }
        waits
    }
}
