//! [`StreamReceiver`]: what a stream needs of a map, whatever its kind.

use std::ptr;
use std::sync::Arc;

use crate::array::ArrayMut;
use crate::buffer::BufferViewMut;
use crate::device::Device;
use crate::error::Result;
use crate::map::command::{Arrays, Batch, Kind, Outputs};
use crate::map::in_flight::{MapState, PendingOp};
use crate::stream::Stream;

/// A map, without the types of its keys and values, that works in the order of a stream.
pub(crate) trait StreamReceiver: Sync {
    /// The device it lives on.
    fn device(&self) -> &Device;

    /// What its calls in flight change; see there for what they hold back.
    fn state(&self) -> &Arc<MapState>;

    /// Whether it queues an operation, unless that may not fit. All others wait for the stream, and are
    /// [run](Self::run) then.
    fn queues(&self, kind: Kind) -> bool;

    /// Queues an operation that it [queues](Self::queues). Its outputs are on the device and have a place for each key,
    /// of which there are some; the stream has waited for the streams of the outputs. Returns none, with nothing queued, if
    /// there may not be room for what it stores.
    fn queue(
        &self,
        stream: &Stream,
        batch: &Batch<'_>,
        outputs: &mut Arrays<'_>,
    ) -> Result<Option<Arc<PendingOp>>>;

    /// Runs an operation, and waits. Returns what it counts.
    fn run(&self, batch: Batch<'_>, outputs: Outputs<'_>) -> Result<usize>;

    /// Writes all pairs to outputs that have room for so many, in the order of the stream, which has waited for theirs.
    fn dump(
        &self,
        stream: &Stream,
        keys: &mut BufferViewMut<'_, u8>,
        values: &mut BufferViewMut<'_, u8>,
        room: usize,
    ) -> Result<Call>;
}

/// A call that counts.
#[derive(Debug)]
pub(crate) enum Call {
    /// It had to wait, and is over.
    Done(usize),
    Pending(Arc<PendingOp>),
}

/// Where outputs on the device are; null where none is wanted.
pub(crate) fn addresses(outputs: &mut Arrays<'_>) -> [*mut u8; 2] {
    outputs.each_mut().map(|output| {
        let view = output.as_mut().and_then(ArrayMut::on_device);
        view.map_or(ptr::null_mut(), BufferViewMut::as_mut_ptr)
    })
}
