//! Pairs of the host that are stored.
//!
//! A batch is staged as a whole in the end, so that all that may happen after its kernel, such as
//! keys that collide, is as for any other batch. Only batches with room for sure are worked on like
//! this.

use std::ops::Range;
use std::ptr;

use gpumap_kernels::verbs::store::Select;

use super::{load_pairs, part_of};
use crate::array::{Array, HostArray};
use crate::error::Result;
use crate::lock::ReadGuard;
use crate::map::Core;
use crate::map::command::Command;
use crate::map::launch::Notes;
use crate::map::operand::Operands;
use crate::map::store::{Progress, Report};
use crate::map::table::Table;
use crate::occupancy::Reservation;
use crate::scratch::{ScratchRole, StagingPipeline, Workspace};

impl Core {
    /// Stores a batch of the host, if it is large and there is room for it. Returns how many pairs
    /// were stored.
    pub(in crate::map) fn store_in_chunks(
        &self,
        scratch: &mut Workspace,
        keys: Array<'_>,
        values: Operands<'_>,
        command: Command,
    ) -> Result<Option<usize>> {
        let (len, pair) = (keys.len(), self.pair);
        let (Some(keys), Some(each)) = (keys.on_host(), values.each().on_host()) else {
            return Ok(None);
        };
        let bytes = keys.bytes().len() + each.bytes().len();
        let Some(pipeline) = self.scratch.pipeline(bytes) else {
            return Ok(None);
        };
        let table = self.table.read();
        let Some(reservation) = self.state.occupancy.reserve_pairs(len) else {
            return Ok(None);
        };
        self.expect_sound()?;
        let command = Command {
            keys: scratch.reserve::<u8>(ScratchRole::Keys, len * pair.key)?,
            values: match values {
                Operands::Each(_) => {
                    scratch.reserve::<u8>(ScratchRole::Values, len * pair.value)?
                }
                Operands::Same(_) => ptr::null(),
            },
            ..command
        };
        let unplaced = scratch.clear_bits(command.len)?;
        // The stages have streams of their own.
        scratch.stream().finish()?;
        scratch.dirty_bits();
        let report = self.store_chunks(&table, pipeline, command, unplaced, (keys, each))?;
        self.end_chunks(table, reservation, scratch, command, report)
            .map(Some)
    }

    /// Stores chunks on stages. There is a bit for each pair, and a value, or all keys have the same.
    fn store_chunks(
        &self,
        table: &Table,
        pipeline: StagingPipeline,
        command: Command,
        unplaced: *mut u32,
        (keys, values): (HostArray<'_>, HostArray<'_>),
    ) -> Result<Report> {
        let chunks = pipeline.chunks(self.pair, command.len);
        let of_chunk = |chunk: &Range<usize>| (keys.part(chunk), part_of(values, chunk));
        let [stored, refused] = self.run_in_chunks(
            pipeline,
            chunks,
            // SAFETY: both are borrowed until the copy tasks are done.
            |stage, chunk| unsafe { load_pairs(stage, of_chunk(chunk)) },
            |stage, chunk, counters| {
                let (keys, values) = of_chunk(&chunk);
                let part = command.after(chunk.start).first(chunk.len());
                // SAFETY: there is room for all chunks, one after the other, until the stages have been waited for.
                unsafe {
                    stage.upload(0, part.keys.cast_mut(), keys)?;
                    stage.upload(keys.len(), part.values.cast_mut(), values)?;
                }
                let notes = Notes {
                    counters,
                    unplaced: unplaced.wrapping_add(chunk.start / 32),
                    select: Select::All,
                };
                // SAFETY: the pairs are staged and there is a bit for each; the caller holds the
                // table's lock until this has ended.
                unsafe { self.launch(table, stage.stream(), &part, notes) }
            },
        )?;
        Ok(Report {
            stored,
            unplaced: refused,
        })
    }

    /// Enters the counts of the chunks, and places the pairs whose keys collide.
    fn end_chunks(
        &self,
        table: ReadGuard<'_, Table>,
        reservation: Reservation<'_>,
        scratch: &mut Workspace,
        command: Command,
        report: Report,
    ) -> Result<usize> {
        // Under the lock still: the next rebuild of the table takes the state as it is then.
        reservation.commit(report.stored);
        drop(table);
        if report.unplaced == 0 {
            scratch.untouched_bits();
            return Ok(report.stored);
        }
        let (mut table, mut progress) = (self.exclusive()?, Progress::default());
        self.place_colliding(&mut table, scratch, command, report, &mut progress)?;
        Ok(report.stored + progress.stored)
    }
}
