//! A [`Map`](crate::Map) on a stream: all that it does is queued, unless it may not fit or has to run alone.

use std::sync::Arc;

use gpumap_kernels::count::Counters;

use super::receiver::{MapMemory, StreamReceiver};
use crate::device::Device;
use crate::error::Result;
use crate::lock::ReadGuard;
use crate::map::command::{Batch, Command, Outputs, Receiver};
use crate::map::in_flight::MapState;
use crate::map::launch::Notes;
use crate::map::table::Table;
use crate::map::{Core, Pair};
use crate::primitives::Order;
use crate::scratch::{ScratchPool, Workspace};
use crate::stream::LaunchOn;

impl StreamReceiver for Core {
    fn receiver(&self) -> Receiver {
        Receiver::Map
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn state(&self) -> &Arc<MapState> {
        &self.state
    }

    fn scratch(&self) -> &ScratchPool {
        &self.scratch
    }

    fn pair(&self) -> Pair {
        self.pair
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn expect_no_callback(&self) -> Result<()> {
        self.expect_no_callback()
    }

    fn memory(&self) -> Result<Box<dyn MapMemory + '_>> {
        Ok(Box::new(TableMemory::of(self)?))
    }

    fn run(&self, batch: Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        self.run(batch, outputs)
    }

    fn write_pairs(
        &self,
        scratch: &mut Workspace,
        [keys, values]: [*mut u8; 2],
        room: usize,
    ) -> Result<usize> {
        self.write_pairs(Order::Any, scratch, (keys, values), room)
    }
}

/// The table of a map.
pub(crate) struct TableMemory<'m> {
    map: &'m Core,
    table: ReadGuard<'m, Table>,
}

impl<'m> TableMemory<'m> {
    pub fn of(map: &'m Core) -> Result<Self> {
        let table = map.table.read();
        map.expect_sound()?;
        Ok(Self { map, table })
    }
}

impl MapMemory for TableMemory<'_> {
    fn sight(&self) -> Vec<u64> {
        self.table.sight()
    }

    fn note_stores(&self) {
        self.table.set_marked(false);
    }

    unsafe fn launch(
        &self,
        on: LaunchOn<'_>,
        command: &Command,
        counters: Counters,
        _: *mut u8,
    ) -> Result<()> {
        // SAFETY: passed on.
        unsafe {
            self.map
                .launch(&self.table, &on, command, Notes::of(counters))
        }
    }
}
