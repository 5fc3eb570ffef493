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
use crate::scratch::ScratchRole;

impl Core {
    /// Gives present keys of the host new values, if they are many. Returns how many were present.
    /// To be called under the table's lock.
    pub(in crate::map) fn assign_in_chunks(
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
        let Some(mut pipeline) = self.scratch.pipeline(bytes) else {
            return Ok(None);
        };
        let chunks = pipeline.chunks(pair, len);
        pipeline.reserve(ScratchRole::Keys, pair.key, &chunks)?;
        if let Operands::Each(_) = values {
            pipeline.reserve(ScratchRole::Values, pair.value, &chunks)?;
        }
        self.expect_sound()?;
        let [present, _] = self.change_in_chunks(
            pipeline,
            chunks.map(|chunk| (keys.part(&chunk), part_of(each, &chunk))),
            // SAFETY: both are borrowed until the copy tasks are done.
            |stage, &mut pairs| unsafe { load_pairs(stage, pairs) },
            |stage, (keys, each), present| {
                let assignment = Assignment {
                    keys: take_there(stage, ScratchRole::Keys, 0, keys)?,
                    values: match values {
                        Operands::Each(_) => {
                            take_there(stage, ScratchRole::Values, keys.len(), each)?
                        }
                        Operands::Same(_) => ptr::null(),
                    },
                    value: values.same(),
                    len: keys.len() / pair.key,
                    update,
                };
                // SAFETY: the pairs are staged; the caller holds the table's lock until this has
                // ended.
                unsafe { self.launch_assignment(table, stage.stream(), assignment, present) }
            },
        )?;
        Ok(Some(present))
    }

    /// Removes keys of the host, if they are many. Returns how many were present. To be called
    /// under the table's lock.
    pub(in crate::map) fn remove_in_chunks(
        &self,
        table: &Table,
        keys: Array<'_>,
    ) -> Result<Option<usize>> {
        let (len, key) = (keys.len(), self.pair.key);
        let Some(keys) = keys.on_host() else {
            return Ok(None);
        };
        let Some(mut pipeline) = self.scratch.pipeline(keys.bytes().len()) else {
            return Ok(None);
        };
        let chunks = pipeline.chunks(Pair { key, value: 0 }, len);
        pipeline.reserve(ScratchRole::Keys, key, &chunks)?;
        self.expect_sound()?;
        let [removed, _] = self.change_in_chunks(
            pipeline,
            chunks.map(|chunk| keys.part(&chunk)),
            // SAFETY: they are borrowed until the copy tasks are done.
            |stage, keys| unsafe { stage.load(0, keys) },
            |stage, keys, removed| {
                let removal = Removal {
                    keys: take_there(stage, ScratchRole::Keys, 0, keys)?,
                    len: keys.len() / key,
                    tells: Tells::Count,
                };
                // SAFETY: the keys are staged; the caller holds the table's lock until this has
                // ended.
                unsafe { self.launch_removal(table, stage.stream(), removal, removed) }
            },
        )?;
        self.state.occupancy.removed(removed);
        Ok(Some(removed))
    }
}
