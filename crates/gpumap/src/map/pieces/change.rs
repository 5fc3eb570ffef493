//! Pairs that are there: new values for keys of the host, and keys that are removed.

use std::ptr;

use gpumap_simt::atomic::part::Update;

use super::{load_pairs, part_of, take_there};
use crate::array::Array;
use crate::error::Result;
use crate::map::assign::Assignment;
use crate::map::operand::Operands;
use crate::map::remove::{Removal, Tells};
use crate::map::table::Table;
use crate::map::{Core, Pair};
use crate::scratch::Slot;

impl Core {
    /// Gives present keys of the host new values, if they are many. Returns how many were present.
    /// To be called under the table's lock.
    pub(in crate::map) fn assign_in_pieces(
        &self,
        table: &Table,
        update: Update,
        keys: Array<'_>,
        values: Operands<'_>,
    ) -> Result<Option<usize>> {
        let (len, pair) = (keys.len(), self.pair);
        let (Some(keys), Some(each)) = (keys.on_host(), values.each().on_host()) else {
            return Ok(None);
        };
        let bytes = keys.bytes().len() + each.bytes().len();
        let Some(mut crew) = self.scratch.crew(bytes) else {
            return Ok(None);
        };
        let cuts = crew.cuts(pair, len);
        crew.reserve(Slot::Keys, pair.key, &cuts)?;
        if let Operands::Each(_) = values {
            crew.reserve(Slot::Values, pair.value, &cuts)?;
        }
        self.expect_sound()?;
        let [present, _] = self.change_in_pieces(
            crew,
            cuts.map(|piece| (keys.part(&piece), part_of(each, &piece))),
            // SAFETY: both are borrowed until chores are done.
            |lane, &mut pairs| unsafe { load_pairs(lane, pairs) },
            |lane, (keys, each), present| {
                let assignment = Assignment {
                    keys: take_there(lane, Slot::Keys, 0, keys)?,
                    values: match values {
                        Operands::Each(_) => take_there(lane, Slot::Values, keys.len(), each)?,
                        Operands::Same(_) => ptr::null(),
                    },
                    value: values.same(),
                    len: keys.len() / pair.key,
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
        keys: Array<'_>,
    ) -> Result<Option<usize>> {
        let (len, key) = (keys.len(), self.pair.key);
        let Some(keys) = keys.on_host() else {
            return Ok(None);
        };
        let Some(mut crew) = self.scratch.crew(keys.bytes().len()) else {
            return Ok(None);
        };
        let cuts = crew.cuts(Pair { key, value: 0 }, len);
        crew.reserve(Slot::Keys, key, &cuts)?;
        self.expect_sound()?;
        let [removed, _] = self.change_in_pieces(
            crew,
            cuts.map(|piece| keys.part(&piece)),
            // SAFETY: they are borrowed until chores are done.
            |lane, keys| unsafe { lane.load(0, keys) },
            |lane, keys, removed| {
                let removal = Removal {
                    keys: take_there(lane, Slot::Keys, 0, keys)?,
                    len: keys.len() / key,
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
