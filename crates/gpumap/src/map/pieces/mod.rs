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

use bytemuck::Pod;
use gpumap_kernels::count::{Counters, MIRRORED};

use super::{Key, Map, Value};
use crate::error::Result;
use crate::scratch::{Crew, Lane, Slot};
use crate::stream::launches_started;
pub(super) use look_up::Wanted;

impl<K: Key, V: Value> Map<K, V> {
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

/// The values of a piece, if there is one for each key: else none.
fn part_of<'a, V>(values: &'a [V], piece: &Range<usize>) -> &'a [V] {
    values.get(piece.clone()).unwrap_or(&[])
}

/// Notes that a piece of keys and values is to be copied to a lane, one right behind the other.
///
/// # Safety
/// Until chores are done, nobody frees or writes to them.
unsafe fn load_pairs<K: Pod, V: Pod>(lane: &mut Lane, (keys, values): (&[K], &[V])) {
    // SAFETY: passed on.
    unsafe {
        lane.load(0, keys);
        lane.load(size_of_val(keys), values);
    }
}

/// Queues a copy of part of a batch, which has been loaded at byte `at` of a lane, into the lane's own memory of the
/// device; the lane is waited for while the batch is borrowed.
fn take_there<T: Pod>(lane: &mut Lane, slot: Slot, at: usize, part: &[T]) -> Result<*const T> {
    let to: *mut T = lane.reserve(slot, part.len())?;
    // SAFETY: reserved just now. If there is an error before the wait, the crew waits when it is
    // dropped, which is while the whole batch is borrowed.
    unsafe { lane.upload(at, to, part) }?;
    Ok(to)
}
