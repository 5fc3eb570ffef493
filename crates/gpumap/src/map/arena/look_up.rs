//! Looking keys up.

use gpumap_kernels::cells::NO_CELL;

use super::super::command::{Arrays, Command, Kind};
use super::Core;
use crate::array::Array;
use crate::error::Result;
use crate::scratch::{ScratchRole, address_of};

impl Core {
    /// Looks keys up, and waits. The outputs are at least as long as the keys.
    pub(super) fn look_up(&self, keys: Array<'_>, outputs: Arrays<'_>) -> Result<()> {
        let (core, len) = (&self.ids, keys.len());
        let mut scratch = core.scratch.take()?;
        let mut targets = scratch.host_targets(outputs, len)?;
        let [values, found] = targets.each_mut().map(address_of);
        let ids: *mut u32 = scratch.reserve(ScratchRole::Ids, len)?;
        {
            // Until the cells have been read.
            let arena = self.arena.read();
            let command = Command {
                default: u64::from(NO_CELL),
                out_values: ids.cast(),
                ..Command::of(Kind::Get, core.pair, len)
            };
            core.look_up(&mut scratch, keys, command)?;
            self.order();
            let stream = scratch.stream();
            // SAFETY: the ids were found just now, and the arena is shared until the wait is over.
            unsafe {
                arena
                    .cells
                    .copying()
                    .gather(stream, ids, values, found, len)
            }?;
            stream.finish()?;
        }
        scratch.copy_all_to_host(targets.into_iter().flatten())
    }
}
