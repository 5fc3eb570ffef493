//! A [`Map`](crate::Map) on a stream: all that it does is queued, unless it may not fit or has to run alone.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gpumap_kernels::count::Counters;

use super::receiver::{MapMemory, StreamReceiver};
use crate::device::Device;
use crate::error::Result;
use crate::file::Header;
use crate::lock::ReadGuard;
use crate::map::command::{Batch, Command, Outputs, Receiver};
use crate::map::in_flight::MapState;
use crate::map::launch::Notes;
use crate::map::retrieve::HeldTable;
use crate::map::storage::ReadPairs;
use crate::map::table::Table;
use crate::map::{Core, HeldPairs, Layout, Pair, Stats, Storage};
use crate::primitives::Order;
use crate::scratch::{ScratchPool, Workspace};
use crate::stream::LaunchOn;

impl StreamReceiver for Core {
    fn receiver(&self) -> Receiver {
        Receiver::Map(Layout::Inline)
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

    fn run(&self, batch: &Batch<'_>, outputs: Outputs<'_>) -> Result<usize> {
        self.run(batch, outputs)
    }

    fn write_pairs(&self, scratch: &mut Workspace, to: [*mut u8; 2], room: usize) -> Result<usize> {
        self.hold()?.write(scratch, Order::Any, to, room)
    }
}

impl Storage for Core {
    fn capacity(&self) -> usize {
        self.capacity()
    }

    fn slots(&self) -> usize {
        self.slots()
    }

    fn submaps(&self) -> usize {
        self.submaps.load(Ordering::Acquire)
    }

    fn reserve(&self, more: usize) -> Result<()> {
        self.reserve(more)
    }

    fn shrink_to_fit(&self) -> Result<()> {
        self.shrink_to_fit()
    }

    fn clear(&self) -> Result<()> {
        self.clear()
    }

    fn hold(&self) -> Result<Box<dyn HeldPairs + '_>> {
        let table = self.table.read();
        Ok(Box::new(HeldTable { core: self, table }))
    }

    fn drain(&self, read: ReadPairs<'_>) -> Result<()> {
        let mut scratch = self.scratch.take()?;
        let mut table = self.exclusive()?;
        let held = HeldTable {
            core: self,
            table: &*table,
        };
        read(&mut scratch, &held)?;
        self.empty(&mut table)
    }

    fn preload(&self) -> Result<()> {
        self.device.load_kernels(self.kernels.entries())
    }

    fn stats(&self) -> Result<Stats> {
        self.stats()
    }

    fn settings_in(&self, header: Header) -> Header {
        Header {
            // Without what was stored beyond it: a map that is loaded has as many slots.
            capacity: self.capacity() as u64,
            max_load_factor: self.wish.max_load_factor,
            growth: self.growth,
            submaps: self.wish.submaps,
            ..header
        }
    }

    fn expect_others(&self) -> Result<()> {
        self.expect_others()
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
