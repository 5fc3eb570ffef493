//! Taking pairs away.

use std::ptr;

use gpumap_kernels::cells::NO_CELL;

use super::super::command::{Arrays, Command, Kind};
use super::super::operand::Operands;
use super::Core;
use super::gate::Kind as Gated;
use super::memory::Arena;
use super::ring::Returned;
use crate::array::Array;
use crate::error::Result;
use crate::scratch::{ScratchRole, Workspace, address_of};

impl Core {
    /// Removes keys, and waits. Returns how many were present. The outputs are at least as long as the keys.
    pub(super) fn take_away(&self, keys: Array<'_>, outputs: Arrays<'_>) -> Result<usize> {
        let (core, len) = (&self.ids, keys.len());
        let mut scratch = core.scratch.take()?;
        let mut targets = scratch.host_targets(outputs, len)?;
        let [values, found] = targets.each_mut().map(address_of);
        let ids: *mut u32 = scratch.reserve(ScratchRole::Ids, len)?;
        let command = Command {
            default: u64::from(NO_CELL),
            out_values: ids.cast(),
            out_flags: found,
            ..Command::of(Kind::TakeIds, core.pair, len)
        };
        let removed = {
            let _pass = self.gate.enter(Gated::Removes);
            let arena = self.arena.read();
            let removed = {
                let table = core.table.read();
                core.change_batch(&table, &mut scratch, keys, Operands::NONE, command)?
            };
            let read = match values.is_null() {
                true => Ok(()),
                false => {
                    self.order();
                    let stream = scratch.stream();
                    // SAFETY: the ids were in slots just now, and the arena is shared until `retire` has waited.
                    unsafe {
                        arena
                            .cells
                            .copying()
                            .gather(stream, ids, values, ptr::null_mut(), len)
                    }
                }
            };
            self.retire(&arena, &mut scratch, ids, len, removed)?;
            read?;
            removed
        };
        scratch.copy_all_to_host(targets.into_iter().flatten())?;
        Ok(removed)
    }

    /// Gives back the ids of pairs that were removed, and waits.
    fn retire(
        &self,
        arena: &Arena,
        scratch: &mut Workspace,
        ids: *const u32,
        len: usize,
        removed: usize,
    ) -> Result<()> {
        self.ids.or_poison(scratch, |scratch| {
            if removed != 0 {
                // SAFETY: as long as the batch. The ids are those of pairs that this call took
                // away.
                unsafe { arena.ring.retire(scratch.stream(), Returned::all(ids, len)) }?;
            }
            scratch.stream().finish()
        })
    }

    /// Empties slots and cells. The caller has the arena alone.
    pub(super) fn empty(&self, arena: &mut Arena, scratch: &mut Workspace) -> Result<()> {
        self.ids.clear()?;
        self.ids.or_poison(scratch, |_| arena.clear())
    }
}
