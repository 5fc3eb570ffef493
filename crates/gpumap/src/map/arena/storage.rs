//! Cells on a stream, and what maps of all layouts do. Lookups are queued. What stores or removes waits, since cells are given out and
//! taken back by the host.

use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gpumap_kernels::cells::{GATHER, NO_CELL, NUMBER, RETIRE, SCATTER};
use gpumap_kernels::count::Counters;

use super::super::command::{Batch, Command, Outputs, Receiver};
use super::super::in_flight::MapState;
use super::super::on_stream::{MapMemory, StreamReceiver, TableMemory};
use super::super::retrieve::HeldTable;
use super::super::storage::ReadPairs;
use super::super::{CellStats, HeldPairs, Layout, Pair, Stats, Storage};
use super::Core;
use super::memory::Arena;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::file::Header;
use crate::lock::ReadGuard;
use crate::primitives::Order;
use crate::scratch::{ScratchPool, ScratchRole, Workspace};
use crate::stream::LaunchOn;

impl StreamReceiver for Core {
    fn receiver(&self) -> Receiver {
        Receiver::Map(Layout::Cells)
    }

    fn device(&self) -> &Device {
        self.ids.device()
    }

    fn state(&self) -> &Arc<MapState> {
        &self.ids.state
    }

    fn scratch(&self) -> &ScratchPool {
        &self.ids.scratch
    }

    fn pair(&self) -> Pair {
        Pair {
            key: self.ids.pair.key,
            value: self.value,
        }
    }

    fn len(&self) -> usize {
        self.ids.len()
    }

    fn expect_no_callback(&self) -> Result<()> {
        self.arena.expect_no_callback()
    }

    fn memory(&self) -> Result<Box<dyn MapMemory + '_>> {
        Ok(Box::new(ArenaMemory {
            map: self,
            arena: self.arena.read(),
            ids: TableMemory::of(&self.ids)?,
        }))
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
        let cells = self.cells.load(Ordering::Acquire);
        self.ids.capacity().min(cells)
    }

    fn slots(&self) -> usize {
        self.ids.slots()
    }

    fn submaps(&self) -> usize {
        self.ids.submaps()
    }

    fn reserve(&self, more: usize) -> Result<()> {
        self.reserve(more)
    }

    fn shrink_to_fit(&self) -> Result<()> {
        self.shrink_to_fit()
    }

    fn clear(&self) -> Result<()> {
        let mut scratch = self.ids.scratch.take()?;
        self.empty(&mut *self.alone()?, &mut scratch)
    }

    fn hold(&self) -> Result<Box<dyn HeldPairs + '_>> {
        let arena = self.arena.read();
        Ok(Box::new(HeldCells { core: self, arena }))
    }

    fn drain(&self, read: ReadPairs<'_>) -> Result<()> {
        let mut scratch = self.ids.scratch.take()?;
        let mut arena = self.alone()?;
        let held = HeldCells {
            core: self,
            arena: &*arena,
        };
        read(&mut scratch, &held)?;
        self.empty(&mut arena, &mut scratch)
    }

    fn preload(&self) -> Result<()> {
        self.ids.preload()?;
        let of_cells = [
            SCATTER.entry(),
            GATHER.entry(),
            NUMBER.entry(),
            RETIRE.entry(),
        ];
        self.device().load_kernels(of_cells)
    }

    fn stats(&self) -> Result<Stats> {
        match self.alone() {
            Ok(arena) => self.stats_of(&arena),
            // This thread has it alone, for the call that runs the callback.
            Err(Error::Nested) => self.stats_of(&self.arena.read()),
            Err(error) => Err(error),
        }
    }

    fn settings_in(&self, header: Header) -> Header {
        Header {
            capacity: self.capacity().max(self.len()) as u64,
            ..self.ids.settings_in(header)
        }
    }

    fn expect_others(&self) -> Result<()> {
        self.arena.expect_others()
    }
}

impl Core {
    fn stats_of(&self, arena: &Arena) -> Result<Stats> {
        let table = self.ids.stats()?;
        let cells = arena.cells.count();
        let (free, retired) = (arena.ring.free(), arena.ring.retired()?);
        let of_cells = CellStats {
            cells,
            // No call is in flight, so the others are in slots.
            live: cells.saturating_sub(free + retired),
            free,
            retired,
            cell_bytes: arena.cells.stride(),
            arena_bytes: arena.bytes(),
        };
        Ok(Stats {
            layout: Layout::Cells,
            capacity: self.capacity().max(table.len),
            cells: Some(of_cells),
            ..table
        })
    }

    /// Reads so many cells, and waits. They are shared, or held alone.
    pub(super) fn read_cells(
        &self,
        arena: &Arena,
        scratch: &mut Workspace,
        ids: *const u32,
        values: *mut u8,
        len: usize,
    ) -> Result<()> {
        self.order();
        let (stream, nowhere) = (scratch.stream(), ptr::null_mut());
        // SAFETY: the callers' outputs are as long, and their lock lasts until the wait is over.
        unsafe {
            arena
                .cells
                .copying()
                .gather(stream, ids, values, nowhere, len)
        }?;
        stream.finish()
    }
}

/// Cells under their lock.
struct HeldCells<'c, G> {
    core: &'c Core,
    arena: G,
}

impl<G: Deref<Target = Arena>> HeldPairs for HeldCells<'_, G> {
    fn most(&self) -> usize {
        let core = &self.core.ids;
        let table = core.table.read();
        HeldTable { core, table }.most()
    }

    fn write(
        &self,
        scratch: &mut Workspace,
        order: Order,
        [keys, values]: [*mut u8; 2],
        room: usize,
    ) -> Result<usize> {
        let ids: *mut u32 = scratch.reserve(ScratchRole::Ids, room)?;
        let pairs = {
            let core = &self.core.ids;
            let table = core.table.read();
            HeldTable { core, table }.write(scratch, order, [keys, ids.cast()], room)?
        };
        // Those for which there is no room have no cells.
        let read = pairs.min(room);
        self.core
            .read_cells(&self.arena, scratch, ids, values, read)?;
        Ok(pairs)
    }
}
/// Cells, and the table that has their ids.
struct ArenaMemory<'m> {
    map: &'m Core,
    arena: ReadGuard<'m, Arena>,
    ids: TableMemory<'m>,
}

impl MapMemory for ArenaMemory<'_> {
    fn sight(&self) -> Vec<u64> {
        let mut sight = self.ids.sight();
        sight.push(self.arena.cells.sight());
        sight
    }

    /// The ids, unless no cell is looked at.
    fn hands_on(&self, command: &Command) -> usize {
        match command.out_values.is_null() {
            true => 0,
            false => size_of::<u32>(),
        }
    }

    unsafe fn launch(
        &self,
        on: LaunchOn<'_>,
        command: &Command,
        counters: Counters,
        ids: *mut u8,
    ) -> Result<()> {
        if self.hands_on(command) == 0 {
            // SAFETY: passed on.
            return unsafe { self.ids.launch(on, command, counters, ids) };
        }
        let find = Command {
            default: u64::from(NO_CELL),
            out_values: ids,
            out_flags: ptr::null_mut(),
            ..*command
        };
        let Command {
            out_values,
            out_flags,
            len,
            ..
        } = *command;
        // SAFETY: passed on, with a place for each id. The ids are found just before; while this call is in flight no cell that
        // it has found is written or freed.
        unsafe {
            self.ids.launch(on, &find, counters, ptr::null_mut())?;
            self.map.order_on(on)?;
            let cells = self.arena.cells.copying();
            cells.gather(&on, ids.cast(), out_values, out_flags, len)
        }
    }
}
