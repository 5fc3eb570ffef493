//! Large batches of the host: worked on piece by piece, while other pieces are on their way.
//!
//! Each lane of a [`Crew`](crate::scratch::Crew) takes a piece to the device, runs the verb on it, and brings its answers
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
use crate::scratch::{Crew, Lane, Slot};
use crate::stream::launches_started;
pub(super) use look_up::Wanted;

impl Core {
    /// Launches a verb that changes the map on each piece, and adds up what its kernels count. Waits for the lanes also
    /// after an error: then nobody knows what the map holds, so memory has to be there before.
    fn change_in_pieces<P>(
        &self,
        mut crew: Crew,
        pieces: impl IntoIterator<Item = P>,
        load: impl Fn(&mut Lane, &mut P),
        launch: impl Fn(&mut Lane, P, Counters) -> Result<()>,
    ) -> Result<[usize; MIRRORED]> {
        let mut counts = [0; MIRRORED];
        let before = launches_started();
        let done = crew.each(
            pieces,
            load,
            |lane, piece| {
                let counters = lane.counting()?;
                launch(lane, piece, counters)
            },
            |lane, ()| {
                for (count, of_piece) in counts.iter_mut().zip(lane.counted()?) {
                    *count += of_piece as usize;
                }
                Ok(())
            },
        );
        // Waits for its lanes.
        drop(crew);
        if done.is_err() && launches_started() != before {
            self.poison();
        }
        done?;
        Ok(counts)
    }
}

/// The bytes of the values of a piece, if there is one for each key: else none.
fn part_of<'a>(values: HostArray<'a>, piece: &Range<usize>) -> &'a [u8] {
    match values.bytes() {
        [] => &[],
        _ => values.part(piece),
    }
}

/// Notes that the keys and values of a piece are to be copied to a lane, one right behind the other.
///
/// # Safety
/// Until chores are done, nobody frees or writes to them.
unsafe fn load_pairs(lane: &mut Lane, (keys, values): (&[u8], &[u8])) {
    // SAFETY: passed on.
    unsafe {
        lane.load(0, keys);
        lane.load(keys.len(), values);
    }
}

/// Queues a copy of part of a batch, which has been loaded at byte `at` of a lane, into the lane's own memory of the
/// device; the lane is waited for while the batch is borrowed.
fn take_there(lane: &mut Lane, slot: Slot, at: usize, part: &[u8]) -> Result<*const u8> {
    let to: *mut u8 = lane.reserve(slot, part.len())?;
    // SAFETY: reserved just now. If there is an error before the wait, the crew waits when it is
    // dropped, which is while the whole batch is borrowed.
    unsafe { lane.upload(at, to, part) }?;
    Ok(to)
}
