//! What becomes of a batch that is refused: the map gives back the memory that it took for it, and the error says
//! what the whole batch needs.
//!
//! A batch that may make the map grow runs under the table's exclusive lock from before the first growth to the
//! end, so no other call can use the memory that it took. Shrinking again needs memory as well. It is there, unless
//! something else on the device took it meanwhile: the table that the last growth left is at least as large as the
//! one that is made.

use super::Core;
use super::shape::Shape;
use super::table::Table;
use crate::error::{Error, Result};
use crate::scratch::Workspace;

impl Core {
    /// Runs what may make the table grow, alone on the map. If it is refused, the memory that growing took is given
    /// back.
    pub(super) fn or_give_back<T>(
        &self,
        table: &mut Table,
        work: impl FnOnce(&mut Table) -> Result<T>,
    ) -> Result<T> {
        let before = table.shape.clone();
        let done = work(table);
        match done {
            // A part of the batch is in the map, and may need the room.
            Ok(_) | Err(Error::Full { partial: true, .. }) => {}
            Err(_) => self.give_back(table, before),
        }
        done
    }

    /// Makes a table that has grown as it was before, if it can be done: keys that were made to collide may not find
    /// room in another order, and memory may be short.
    ///
    /// To be called under the table's exclusive lock.
    pub(super) fn give_back(&self, table: &mut Table, before: Shape) {
        if table.shape.bytes() <= before.bytes() {
            return;
        }
        let like = before.in_submaps_of(&table.shape);
        if self.rebuild_to(table, before.clone()).is_ok() {
            return;
        }
        // One submap at a time takes less: then there is memory for all of them beside each other.
        if let Some(like) = like
            && self.rebuild_to(table, like).is_ok()
            && table.shape.bytes() > before.bytes()
        {
            let _ = self.rebuild_to(table, before);
        }
    }

    /// Bytes that are needed at most, beyond those that the map has, to store a batch of which `new` keys are absent:
    /// those of a larger table and of the bits of the batch.
    pub(super) fn bytes_to_store(&self, table: &Table, new: usize, batch: usize) -> u64 {
        let bits = Workspace::bytes_of_bits(batch);
        let larger = match new <= self.state.occupancy.left() {
            true => 0,
            false => self
                .shape_with_room_for(table, new)
                .map_or(u64::MAX, |shape| self.needed(table, &shape)),
        };
        larger.saturating_add(bits)
    }

    /// The arrangement in which so many more pairs fit.
    fn shape_with_room_for(&self, table: &Table, more: usize) -> Result<Shape> {
        let pairs = self.state.occupancy.len().saturating_add(more);
        let shape = self.shape_for(pairs.max(self.capacity()))?;
        Ok(shape.aligned_to(&table.shape))
    }

    /// The error of a batch for which there was not even the scratch memory of its arrays, so many `bytes`: what it
    /// needs if all keys are absent.
    pub(super) fn too_large_to_stage(&self, error: Error, batch: usize, bytes: u64) -> Error {
        if !matches!(error, Error::OutOfMemory { .. }) {
            return error;
        }
        let stored = self.bytes_to_store(&self.table.read(), batch, batch);
        error.of_batch_of(stored.saturating_add(bytes))
    }
}

#[cfg(test)]
mod tests;
