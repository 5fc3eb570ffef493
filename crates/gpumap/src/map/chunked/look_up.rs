//! Keys of the host that are looked up, and answers for it.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;

use super::take_there;
use crate::array::{Array, ArrayMut, HostArray};
use crate::error::Result;
use crate::map::command::{Command, Kind};
use crate::map::launch::Notes;
use crate::map::look_up::Collecting;
use crate::map::table::Table;
use crate::map::{Core, Pair};
use crate::scratch::{ScratchRole, Stage, StagingPipeline, places_of};

/// Which answers of a lookup are wanted.
#[derive(Clone, Copy, Debug)]
pub(in crate::map) struct Wanted {
    pub values: bool,
    pub found: bool,
}

impl Wanted {
    /// The value of each key, and whether it was found.
    pub const BOTH: Self = Self {
        values: true,
        found: true,
    };

    /// Only values.
    pub const VALUES: Self = Self {
        found: false,
        ..Self::BOTH
    };

    /// Only whether keys were found.
    pub const FOUND: Self = Self {
        values: false,
        ..Self::BOTH
    };

    /// Bytes of the answers to so many keys: values, and behind them who was found.
    pub fn bytes(self, pair: Pair, keys: usize) -> [usize; 2] {
        [
            usize::from(self.values) * keys * pair.value,
            usize::from(self.found) * keys,
        ]
    }
}

impl Core {
    /// Threads for a lookup of keys of the host, if they are many.
    fn pipeline_for<'a>(
        &self,
        keys: Array<'a>,
        wanted: Wanted,
    ) -> Option<(HostArray<'a>, StagingPipeline)> {
        let per_key = self.pair.key + wanted.bytes(self.pair, 1).iter().sum::<usize>();
        let pipeline = |keys_at| {
            let pipeline = self.scratch.pipeline(keys.len().saturating_mul(per_key))?;
            Some((keys_at, pipeline))
        };
        keys.on_host().and_then(pipeline)
    }

    /// Queues looking up a chunk that has been loaded; returns where the answers are then, one
    /// array right behind the other. To be called under the table's lock, which is to be held until
    /// the stage has been waited for.
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
        let [values, found] = wanted.bytes(self.pair, len);
        let answers: *mut u8 = stage.reserve(ScratchRole::FirstOutput, values + found)?;
        let unless_none = |is_wanted, at| if is_wanted { at } else { ptr::null_mut() };
        let command = Command {
            keys: staged,
            value: default,
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

    /// Looks up keys of the host, if they are many, and makes something of each answer: `fill`
    /// writes it, from values, `default` where there is none, and from bytes that say which were found. Gives back what it
    /// was to do if it has not.
    ///
    /// # Safety
    /// `fill` is for elements of the places, and such answers.
    pub(in crate::map) unsafe fn collect_in_chunks<'p>(
        &self,
        keys: Array<'_>,
        into: Collecting<'p>,
    ) -> Result<Option<Collecting<'p>>> {
        let len = keys.len();
        let Some((keys, pipeline)) = self.pipeline_for(keys, into.wanted) else {
            return Ok(Some(into));
        };
        let Collecting {
            mut places,
            element,
            wanted,
            default,
            fill,
        } = into;
        let table = self.table.read();
        // Dropped before the lock is opened: after an error kernels of other stages still read the
        // table.
        let mut pipeline = pipeline;
        let chunks = pipeline.chunks(self.pair, len);
        let [value, found] = wanted.bytes(self.pair, 1);
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
        mut outputs: [Option<ArrayMut<'o>>; 2],
        default: u64,
    ) -> Result<Option<[Option<ArrayMut<'o>>; 2]>> {
        let wanted = Wanted {
            values: outputs[0].is_some(),
            found: outputs[1].is_some(),
        };
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
            let [of_values, of_found] = wanted.bytes(self.pair, chunk.len());
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
