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

use bytemuck::Pod;

use crate::error::Result;
use crate::scratch::{Lane, Slot};
pub(super) use look_up::Wanted;

/// Queues a copy of part of a batch, which has been loaded at byte `at` of a lane, into the lane's own memory of the
/// device; the lane is waited for while the batch is borrowed.
fn take_there<T: Pod>(lane: &mut Lane, slot: Slot, at: usize, part: &[T]) -> Result<*const T> {
    let to: *mut T = lane.reserve(slot, part.len())?;
    // SAFETY: reserved just now. If there is an error before the wait, the crew waits when it is
    // dropped, which is while the whole batch is borrowed.
    unsafe { lane.upload(at, to, part) }?;
    Ok(to)
}
