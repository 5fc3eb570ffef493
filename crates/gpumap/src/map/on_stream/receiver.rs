//! [`StreamReceiver`]: what streams and graphs need of a map, whatever its kind.

use std::ptr;
use std::sync::Arc;

use gpumap_kernels::count::Counters;

use crate::array::ArrayMut;
use crate::buffer::BufferViewMut;
use crate::device::Device;
use crate::error::Result;
use crate::map::Pair;
use crate::map::command::{Arrays, Batch, Command, Outputs, Receiver};
use crate::map::in_flight::MapState;
use crate::scratch::{ScratchPool, Workspace};
use crate::stream::LaunchOn;

/// A map, without the types of its keys and values, that works in the order of a stream.
pub(crate) trait StreamReceiver: Sync {
    /// Its kind, which says what it [runs](Batch::check) and what it [queues](Receiver::queues).
    fn receiver(&self) -> Receiver;

    /// The device it lives on.
    fn device(&self) -> &Device;

    /// What its calls in flight change; see there for what they hold back.
    fn state(&self) -> &Arc<MapState>;

    /// Memory for its calls that wait.
    fn scratch(&self) -> &ScratchPool;

    /// How many bytes its keys and values have.
    fn pair(&self) -> Pair;

    /// How many pairs it holds.
    fn len(&self) -> usize;

    /// To be asked first by calls that change it.
    ///
    /// # Errors
    /// [`Error::Nested`](crate::Error::Nested).
    fn expect_no_callback(&self) -> Result<()>;

    /// Its memory, shared with other calls.
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned).
    fn memory(&self) -> Result<Box<dyn MapMemory + '_>>;

    /// Runs an operation, and waits. Returns what it counts.
    fn run(&self, batch: &Batch<'_>, outputs: Outputs<'_>) -> Result<usize>;

    /// Writes up to `room` pairs to keys and values on the device, and waits. Returns how many pairs there are.
    fn write_pairs(&self, scratch: &mut Workspace, to: [*mut u8; 2], room: usize) -> Result<usize>;
}

/// The memory of a map, under the locks by which calls share it. What frees or moves it has these locks alone, and waits for
/// the calls in flight then.
pub(crate) trait MapMemory {
    /// What the arguments of kernels say of it: as long as this is the same, so are they.
    fn sight(&self) -> Vec<u64>;

    /// Notes that pairs are stored by a launch that was recorded before.
    fn note_stores(&self) {}

    /// How many bytes for each key an operation's first kernel hands on to its second: none if it has one kernel.
    fn hands_on(&self, _: &Command) -> usize {
        0
    }

    /// Launches the kernels of an operation that its map [queues](Receiver::queues), or records them.
    ///
    /// # Safety
    /// The addresses lead to as many elements as the command says, on the map's device, `between` to what the
    /// operation [hands on](Self::hands_on), and there is room for what it stores. They and the counters are
    /// valid until what was launched, or will be, has ended, and it is in flight when this memory is no longer held.
    unsafe fn launch(
        &self,
        on: LaunchOn<'_>,
        command: &Command,
        counters: Counters,
        between: *mut u8,
    ) -> Result<()>;
}

/// Where outputs on the device are; null where none is wanted.
pub(crate) fn addresses(outputs: &mut Arrays<'_>) -> [*mut u8; 2] {
    outputs.each_mut().map(|output| {
        let view = output.as_mut().and_then(ArrayMut::on_device);
        view.map_or(ptr::null_mut(), BufferViewMut::as_mut_ptr)
    })
}
