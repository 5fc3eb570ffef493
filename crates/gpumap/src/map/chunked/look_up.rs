//! Keys of the host that are looked up, and answers for it.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;

use super::take_there;
use crate::array::{Array, ArrayMut, HostArray};
use crate::error::Result;
use crate::map::Core;
use crate::map::command::{Arrays, Collect, Command, Kind, Wanted};
use crate::map::launch::Notes;
use crate::map::table::Table;
use crate::scratch::{ScratchRole, Stage, StagingPipeline, places_of};

impl Core {
    /// Threads for a lookup of keys of the host, if they are many.
    fn pipeline_for<'a>(
        &self,
        keys: Array<'a>,
        wanted: Wanted,
    ) -> Option<(HostArray<'a>, StagingPipeline)> {
        let per_key = self.pair.key + wanted.bytes(self.pair.value, 1).iter().sum::<usize>();
        let pipeline = |keys_at| {
            let pipeline = self.scratch.pipeline(keys.len().saturating_mul(per_key))?;
            Some((keys_at, pipeline))
        };
        keys.on_host().and_then(pipeline)
    }

    /// Queues looking up a chunk that has been loaded; returns where the answers are then, one array right after
    /// the other. To be called under the table's lock, which is to be held until the stage has been waited for.
    fn queue_chunk(
        &self,
        table: &Table,
        stage: &mut Stage,
        keys: &[u8],
        wanted: Wanted,
        default: u64,
    ) -> Result<*const u8> {
        let staged = take_there(stage, ScratchRole::Keys, 0, keys)?;
        let len = keys.len() / self.pair.key;
        let [values, found] = wanted.bytes(self.pair.value, len);
        let answers: *mut u8 = stage.reserve(ScratchRole::FirstOutput, values + found)?;
        let unless_none = |is_wanted, at| if is_wanted { at } else { ptr::null_mut() };
        let command = Command {
            keys: staged,
            default,
            out_values: unless_none(wanted.values, answers),
            out_flags: unless_none(wanted.found, answers.wrapping_add(values)),
            ..Command::of(Kind::Get, self.pair, len)
        };
        self.expect_sound()?;
        // SAFETY: the keys are staged, and there are places for as many answers; the caller holds
        // the table's lock until this has ended.
        unsafe { self.launch(table, stage.stream(), &command, Notes::NONE) }?;
        Ok(answers)
    }

    /// Looks up keys of the host, if they are many, and makes something of each answer, with `default` for the value of
    /// an absent key. Gives back what it was to do if it has not.
    pub(in crate::map) fn collect_in_chunks<'p>(
        &self,
        keys: Array<'_>,
        default: u64,
        into: Collect<'p>,
    ) -> Result<Option<Collect<'p>>> {
        let len = keys.len();
        let Some((keys, pipeline)) = self.pipeline_for(keys, into.wanted) else {
            return Ok(Some(into));
        };
        let Collect {
            mut places,
            element,
            wanted,
            fill,
            ..
        } = into;
        let table = self.table.read();
        // Dropped before the lock is opened: after an error kernels of other stages still read the
        // table.
        let mut pipeline = pipeline;
        let chunks = pipeline.chunks(self.pair, len);
        let [value, found] = wanted.bytes(self.pair.value, 1);
        // By pointers: while the copy tasks touch a part, nothing else may have it.
        let parts = chunks.map(|chunk| {
            let part = take(&mut places, chunk.len() * element);
            (chunk, ptr::from_mut(part))
        });
        pipeline.each(
            parts,
            |stage, (chunk, part)| {
                // SAFETY: the keys are borrowed, and the part is first written to when the copy tasks are done.
                unsafe {
                    stage.touch(&mut **part);
                    stage.load(0, keys.part(chunk));
                }
            },
            |stage, (chunk, part)| {
                let len = chunk.len();
                let from = self.queue_chunk(&table, stage, keys.part(&chunk), wanted, default)?;
                // SAFETY: as many answers, which the kernel before has written.
                unsafe { stage.download(0, from, len * (value + found)) }?;
                Ok((part, len))
            },
            |stage, (part, len)| {
                stage.wait()?;
                // SAFETY: `fill` writes to all places of the part, which nothing else has now; answers stay in the
                // pinned memory until that is done.
                unsafe { stage.fill(fill, (&mut *part, element), [value, found], len) };
                Ok(())
            },
        )?;
        Ok(None)
    }

    /// Looks up keys of the host for places of the host, if they are many. To be called without the
    /// table's lock. Outputs that are there are at least as long as the keys. Gives them back if it has not.
    pub(in crate::map) fn look_up_for_host<'o>(
        &self,
        keys: Array<'_>,
        mut outputs: Arrays<'o>,
        default: u64,
    ) -> Result<Option<Arrays<'o>>> {
        let [values, found] = outputs.each_ref().map(Option::is_some);
        let wanted = Wanted { values, found };
        let len = keys.len();
        let [values, found] = &mut outputs;
        let pipeline = match (host_places(values), host_places(found)) {
            (Some(values), Some(found)) => self
                .pipeline_for(keys, wanted)
                .map(|(keys, pipeline)| (keys, pipeline, values, found)),
            _ => None,
        };
        let Some((keys, pipeline, mut values, mut found)) = pipeline else {
            return Ok(Some(outputs));
        };
        let table = self.table.read();
        // Dropped before the lock is opened: after an error kernels of other stages still read the
        // table.
        let mut pipeline = pipeline;
        let chunks = pipeline.chunks(self.pair, len).map(|chunk: Range<usize>| {
            let [of_values, of_found] = wanted.bytes(self.pair.value, chunk.len());
            let places = [take(&mut values, of_values), take(&mut found, of_found)];
            (chunk, places)
        });
        pipeline.each(
            chunks,
            // SAFETY: the keys are borrowed until the copy tasks are done.
            |stage, (chunk, _)| unsafe { stage.load(0, keys.part(chunk)) },
            |stage, (chunk, [values, found])| {
                // SAFETY: values and bytes are written, and nothing else.
                let (values, found) = unsafe { (places_of(values), places_of(found)) };
                let from = self.queue_chunk(&table, stage, keys.part(&chunk), wanted, default)?;
                // SAFETY: as many answers, which the kernel before has written. The outputs are
                // borrowed until the pipeline has waited for its stages.
                unsafe { stage.copy_to_host(from, values, found) }?;
                Ok((values, found))
            },
            |stage, (values, found): (&mut [MaybeUninit<u8>], &mut [MaybeUninit<u8>])| {
                stage.wait()?;
                // SAFETY: the outputs are borrowed until the copy tasks are done.
                unsafe { stage.deliver(values, found) };
                Ok(())
            },
        )?;
        Ok(None)
    }
}

/// The places of an output on the host, none if there is no output.
fn host_places<'s>(output: &'s mut Option<ArrayMut<'_>>) -> Option<&'s mut [u8]> {
    match output {
        None => Some(&mut []),
        Some(output) => output.on_host(),
    }
}

/// The next places of an output; none if it is not wanted.
fn take<'o, T>(output: &mut &'o mut [T], len: usize) -> &'o mut [T] {
    output.split_off_mut(..len).unwrap_or_default()
}
