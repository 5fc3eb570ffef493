//! Pairs that are there: new values for keys of the host, and keys that are removed.

use std::ptr;

use super::{load_pairs, part_of, take_there};
use crate::array::Array;
use crate::error::Result;
use crate::map::command::Command;
use crate::map::launch::Notes;
use crate::map::operand::Operands;
use crate::map::table::Table;
use crate::map::{Core, Pair};
use crate::scratch::ScratchRole;

impl Core {
    /// Changes or removes pairs of keys of the host, if they are many and there are no answers for
    /// single ones. Returns how many were present. To be called under the table's lock.
    pub(in crate::map) fn change_in_chunks(
        &self,
        table: &Table,
        keys: Array<'_>,
        values: Operands<'_>,
        command: Command,
    ) -> Result<Option<usize>> {
        let (len, traits) = (keys.len(), command.kind.traits());
        let (Some(keys), Some(each)) = (keys.on_host(), values.each().on_host()) else {
            return Ok(None);
        };
        let bytes = keys.bytes().len() + each.bytes().len();
        let pipeline = self.scratch.pipeline(bytes).filter(|_| !command.answers());
        let Some(mut pipeline) = pipeline else {
            return Ok(None);
        };
        let has_values = traits.takes_values && matches!(values, Operands::Each(_));
        let pair = Pair {
            value: match has_values {
                true => self.pair.value,
                false => 0,
            },
            ..self.pair
        };
        let chunks = pipeline.chunks(pair, len);
        pipeline.reserve(ScratchRole::Keys, pair.key, &chunks)?;
        if has_values {
            pipeline.reserve(ScratchRole::Values, pair.value, &chunks)?;
        }
        self.expect_sound()?;
        let [changed, _] = self.run_in_chunks(
            pipeline,
            chunks.map(|chunk| (keys.part(&chunk), part_of(each, &chunk))),
            // SAFETY: both are borrowed until the copy tasks are done.
            |stage, &mut pairs| unsafe { load_pairs(stage, pairs) },
            |stage, (keys, each), counters| {
                let part = Command {
                    keys: take_there(stage, ScratchRole::Keys, 0, keys)?,
                    values: match has_values {
                        true => take_there(stage, ScratchRole::Values, keys.len(), each)?,
                        false => ptr::null(),
                    },
                    len: keys.len() / pair.key,
                    ..command
                };
                // SAFETY: the pairs are staged; the caller holds the table's lock until this has
                // ended.
                unsafe { self.launch(table, stage.stream(), &part, Notes::of(counters)) }
            },
        )?;
        if traits.removes {
            self.state.occupancy.removed(changed);
        }
        Ok(Some(changed))
    }
}
