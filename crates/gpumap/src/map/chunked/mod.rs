//! Large batches of the host: worked on chunk by chunk, while other chunks are on their way.
//!
//! Each stage of a [`StagingPipeline`](crate::scratch::StagingPipeline) takes a chunk to the device, runs the verb on it, and brings its answers
//! back, beside the others: so the time is that of the link, both ways at once, and the kernels
//! cost nothing.
//!
//! | module | verbs |
//! |---|---|
//! | [`store`] | those that store pairs |
//! | [`change`] | those that update present pairs, or remove them, and only count |
//! | [`look_up`] | lookups |

mod change;
mod look_up;
mod store;

use std::ops::Range;

use gpumap_kernels::count::{Counters, MIRRORED};

use super::Core;
use crate::array::HostArray;
use crate::error::Result;
use crate::scratch::{ScratchRole, Stage, StagingPipeline};
use crate::stream::launches_started;

impl Core {
    /// Launches a verb that changes the map on each chunk, and adds up what its kernels count. Waits for the stages also
    /// after an error: the map's contents are unknown then, so memory has to be there before.
    fn run_in_chunks<P>(
        &self,
        mut pipeline: StagingPipeline,
        chunks: impl IntoIterator<Item = P>,
        load: impl Fn(&mut Stage, &mut P),
        launch: impl Fn(&mut Stage, P, Counters) -> Result<()>,
    ) -> Result<[usize; MIRRORED]> {
        let mut counts = [0; MIRRORED];
        let before = launches_started();
        let done = pipeline.each(
            chunks,
            load,
            |stage, chunk| {
                let counters = stage.counting()?;
                launch(stage, chunk, counters)
            },
            |stage, ()| {
                for (count, of_chunk) in counts.iter_mut().zip(stage.counted()?) {
                    *count += of_chunk as usize;
                }
                Ok(())
            },
        );
        // Waits for its stages.
        drop(pipeline);
        if done.is_err() && launches_started() != before {
            self.poison();
        }
        done?;
        Ok(counts)
    }
}

/// The bytes of the values of a chunk, if there is one for each key: else none.
fn part_of<'a>(values: HostArray<'a>, chunk: &Range<usize>) -> &'a [u8] {
    match values.bytes() {
        [] => &[],
        _ => values.part(chunk),
    }
}

/// Notes that the keys and values of a chunk are to be copied to a stage, one right after the other.
///
/// # Safety
/// Until the copy tasks are done, nothing frees or writes to them.
unsafe fn load_pairs(stage: &mut Stage, (keys, values): (&[u8], &[u8])) {
    // SAFETY: passed on.
    unsafe {
        stage.load(0, keys);
        stage.load(keys.len(), values);
    }
}

/// Queues a copy of part of a batch, which has been loaded at byte `at` of a stage, into the stage's own memory of the
/// device; the stage is waited for while the batch is borrowed.
fn take_there(stage: &mut Stage, role: ScratchRole, at: usize, part: &[u8]) -> Result<*const u8> {
    let to: *mut u8 = stage.reserve(role, part.len())?;
    // SAFETY: reserved just now. If there is an error before the wait, the pipeline waits when it is
    // dropped, which is while the whole batch is borrowed.
    unsafe { stage.upload(at, to, part) }?;
    Ok(to)
}
