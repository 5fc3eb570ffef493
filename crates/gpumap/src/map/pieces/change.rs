//! Pairs that are there: new values for keys of the host, and keys that are removed.

use std::ptr;

use gpumap_simt::atomic::part::Update;

use super::{load_pairs, part_of, take_there};
use crate::error::Result;
use crate::input::Source;
use crate::map::assign::Assignment;
use crate::map::operand::Values;
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
        values: Values<'_, V>,
    ) -> Result<Option<usize>> {
        let (Source::Host(keys), Source::Host(each)) = (keys, values.each()) else {
            return Ok(None);
        };
        let bytes = size_of_val(keys) + size_of_val(each);
        let Some(mut crew) = self.scratch.crew(bytes) else {
            return Ok(None);
        };
        let cuts = crew.cuts::<K, V>(keys.len());
        crew.reserve::<K>(Slot::Keys, &cuts)?;
        if let Values::Each(_) = values {
            crew.reserve::<V>(Slot::Values, &cuts)?;
        }
        self.expect_sound()?;
        let [present, _] = self.change_in_pieces(
            crew,
            cuts.map(|piece| (&keys[piece.clone()], part_of(each, &piece))),
            // SAFETY: both are borrowed until chores are done.
            |lane, &mut pairs| unsafe { load_pairs(lane, pairs) },
            |lane, (keys, each), present| {
                let assignment = Assignment {
                    keys: take_there(lane, Slot::Keys, 0, keys)?,
                    values: match values {
                        Values::Each(_) => take_there(lane, Slot::Values, size_of_val(keys), each)?,
                        Values::Same(_) => ptr::null(),
                    },
                    value: values.same(),
                    len: keys.len(),
                    update,
                };
                // SAFETY: the pairs are staged; the caller holds the table's lock until this has
                // ended.
                unsafe { self.launch_assignment(table, lane.stream(), assignment, present) }
            },
        )?;
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
        let cuts = crew.cuts::<K, ()>(keys.len());
        crew.reserve::<K>(Slot::Keys, &cuts)?;
        self.expect_sound()?;
        let [removed, _] = self.change_in_pieces(
            crew,
            cuts.map(|piece| &keys[piece]),
            // SAFETY: they are borrowed until chores are done.
            |lane, keys| unsafe { lane.load(0, keys) },
            |lane, keys, removed| {
                let removal = Removal {
                    keys: take_there(lane, Slot::Keys, 0, keys)?,
                    len: keys.len(),
                    tells: Tells::Count,
                };
                // SAFETY: the keys are staged; the caller holds the table's lock until this has
                // ended.
                unsafe { self.launch_removal(table, lane.stream(), removal, removed) }
            },
        )?;
        self.books.room.removed(removed);
        Ok(Some(removed))
    }
}
