//! A [`Map`](crate::Map) on a stream: all that it does is queued, unless it may not fit or has to run alone.

use std::ptr;
use std::sync::Arc;

use super::receiver::{Call, StreamReceiver, addresses};
use super::staged::Staged;
use crate::buffer::BufferViewMut;
use crate::device::Device;
use crate::error::Result;
use crate::map::Core;
use crate::map::command::{Arrays, Batch, Command, Kind, Outputs, Receiver};
use crate::map::in_flight::{MapState, PendingOp};
use crate::stream::Stream;

impl StreamReceiver for Core {
    fn device(&self) -> &Device {
        &self.device
    }

    fn state(&self) -> &Arc<MapState> {
        &self.state
    }

    fn queues(&self, kind: Kind) -> bool {
        Receiver::Map.queues(kind)
    }

    fn queue(
        &self,
        stream: &Stream,
        batch: &Batch<'_>,
        outputs: &mut Arrays<'_>,
    ) -> Result<Option<Arc<PendingOp>>> {
        let Batch {
            kind,
            keys,
            values,
            default,
        } = *batch;
        let traits = kind.traits();
        let table = traits.stores.then(|| self.table.read());
        let reservation = match traits.stores {
            true => match self.reserve_pairs(keys.len()) {
                None => return Ok(None),
                reservation => reservation,
            },
            false => None,
        };
        self.expect_sound()?;
        let staged = Staged::on(stream, keys);
        let staged = staged.and_then(|keys| match traits.takes_values {
            true => Ok((keys, Some(Staged::values(stream, values)?))),
            false => Ok((keys, None)),
        });
        let (staged_keys, staged_values) = staged.map_err(|error| match traits.stores {
            true => {
                let bytes = Staged::bytes_of_copy(keys) + Staged::bytes_of_copy(values.each());
                error.of_batch_of(bytes as u64)
            }
            false => error,
        })?;
        let [out_values, out_flags] = addresses(outputs);
        let command = Command {
            keys: staged_keys.elements(),
            values: staged_values.as_ref().map_or(ptr::null(), Staged::elements),
            value: values.same(),
            default,
            out_values,
            out_flags,
            ..Command::of(kind, self.pair, keys.len())
        };
        if traits.stores && !out_flags.is_null() {
            // SAFETY: a byte for each key, which the stream reaches after what used it before.
            unsafe { stream.fill(out_flags, 0, keys.len()) }?;
        }
        let table = table.unwrap_or_else(|| self.table.read());
        // SAFETY: keys and values are on the device and outputs are as long.
        let op = unsafe { self.submit(&table, stream, &command) }?;
        // The pending call keeps it from now on.
        if let Some(reservation) = reservation {
            reservation.keep_in_flight();
        }
        Ok(Some(op))
    }

    fn run(&self, batch: Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        self.run(batch, outputs)
    }

    fn dump(
        &self,
        stream: &Stream,
        keys: &mut BufferViewMut<'_, u8>,
        values: &mut BufferViewMut<'_, u8>,
        room: usize,
    ) -> Result<Call> {
        let command = Command {
            keys: keys.as_mut_ptr().cast_const(),
            values: values.as_mut_ptr().cast_const(),
            ..Command::of(Kind::Dump, self.pair, room)
        };
        let table = self.table.read();
        // SAFETY: both outputs have as many elements as there is room for.
        unsafe { self.submit(&table, stream, &command) }.map(Call::Pending)
    }
}
