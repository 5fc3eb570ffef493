//! Pairs that are there: new values for keys of the host, and keys that are removed.

use gpumap_simt::atomic::part::Update;

use super::take_there;
use crate::error::Result;
use crate::input::Source;
use crate::map::assign::Assignment;
use crate::map::remove::{Removal, Tells};
use crate::map::table::Table;
use crate::map::{Key, Map, Value};
use crate::scratch::Slot;

impl<K: Key, V: Value> Map<K, V> {
    /// Gives present keys of the host new values, if they are many. Returns how many were present.
    /// To be called under the table's lock.
    pub(in crate::map) fn assign_in_pieces(
        &self,
        table: &Table,
        update: Update,
        keys: Source<'_, K>,
        values: Source<'_, V>,
    ) -> Result<Option<usize>> {
        let (Source::Host(keys), Source::Host(values)) = (keys, values) else {
            return Ok(None);
        };
        let bytes = size_of_val(keys) + size_of_val(values);
        let Some(mut crew) = self.scratch.crew(bytes) else {
            return Ok(None);
        };
        self.expect_sound()?;
        let mut present = 0;
        let pieces = crew.cuts::<K, V>(keys.len());
        let pieces = pieces.map(|piece| (&keys[piece.clone()], &values[piece]));
        let done = crew.each(
            pieces,
            |lane, &mut (keys, values)| {
                // SAFETY: both are borrowed until chores are done.
                unsafe {
                    lane.load(0, keys);
                    lane.load(size_of_val(keys), values);
                }
            },
            |lane, (keys, values)| {
                let assignment = Assignment {
                    keys: take_there(lane, Slot::Keys, 0, keys)?,
                    values: take_there(lane, Slot::Values, size_of_val(keys), values)?,
                    len: keys.len(),
                    update,
                };
                let counters = lane.counting()?;
                // SAFETY: the pairs are staged; the caller holds the table's lock until this has
                // ended.
                unsafe { self.launch_assignment(table, lane.stream(), assignment, counters) }
            },
            |lane, ()| {
                let [of_piece, _] = lane.counted()?;
                present += of_piece as usize;
                Ok(())
            },
        );
        // Waits for its lanes.
        drop(crew);
        done.inspect_err(|_| self.poison())?;
        Ok(Some(present))
    }

    /// Removes keys of the host, if they are many. Returns how many were present. To be called
    /// under the table's lock.
    pub(in crate::map) fn remove_in_pieces(
        &self,
        table: &Table,
        keys: Source<'_, K>,
    ) -> Result<Option<usize>> {
        let Source::Host(keys) = keys else {
            return Ok(None);
        };
        let Some(mut crew) = self.scratch.crew(size_of_val(keys)) else {
            return Ok(None);
        };
        self.expect_sound()?;
        let mut removed = 0;
        let pieces = crew.cuts::<K, ()>(keys.len()).map(|piece| &keys[piece]);
        let done = crew.each(
            pieces,
            // SAFETY: they are borrowed until chores are done.
            |lane, keys| unsafe { lane.load(0, keys) },
            |lane, keys| {
                let there = take_there(lane, Slot::Keys, 0, keys)?;
                let removal = Removal {
                    keys: there,
                    len: keys.len(),
                    tells: Tells::Count,
                };
                let removed = lane.counting()?;
                // SAFETY: the keys are staged; the caller holds the table's lock until this has
                // ended.
                unsafe { self.launch_removal(table, lane.stream(), removal, removed) }
            },
            |lane, ()| {
                let [gone, _] = lane.counted()?;
                removed += gone as usize;
                Ok(())
            },
        );
        // Waits for its lanes.
        drop(crew);
        done.inspect_err(|_| self.poison())?;
        self.room.removed(removed);
        Ok(Some(removed))
    }
}
