//! The steps that every verb over a group is made of.

use bytemuck::Pod;

use super::Rank;
use super::step::Step;
use super::transport::{Parcel, Plan};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::input::{Input, Source};

/// What is sent from one buffer and received in another.
pub(super) fn parcel<T: Pod>(send: &Buffer<T>, receive: &mut Buffer<T>) -> Parcel {
    Parcel {
        send: send.as_ptr().cast(),
        receive: receive.as_mut_ptr().cast(),
        bytes: size_of::<T>(),
    }
}

/// Queues an exchange on the link. What is sent and received is ordered by another stream: the link has been made
/// to wait for that, before the ranks last agreed, so that none of them fails alone.
///
/// # Safety
/// As for [`Transport::exchange`](super::Transport::exchange), until what is returned has been waited for or
/// dropped.
pub(super) unsafe fn exchange<'a>(
    rank: &'a mut Rank,
    plan: &Plan,
    parcels: &[Parcel],
) -> Result<UnderWay<'a>> {
    let (link, transport) = rank.link();
    // SAFETY: passed on.
    unsafe { transport.exchange(link, plan, parcels) }?;
    Ok(UnderWay { rank: Some(rank) })
}

/// An exchange that is under way. Also waited for when it is dropped: a panic must not free what it reads and
/// writes.
#[must_use]
pub(super) struct UnderWay<'a> {
    rank: Option<&'a mut Rank>,
}

impl UnderWay<'_> {
    /// Waits for it. An error is this rank's own: the others do not know of it.
    pub(super) fn wait(mut self) -> Result<()> {
        self.rank.take().map_or(Ok(()), Rank::wait)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(rank) = self.rank.take()
            && let Err(error) = rank.wait()
        {
            tracing::debug!(%error, "waiting for an exchange");
        }
    }
}

/// Calls it: so that it may hand out what it borrows.
pub(super) fn attempt<T>(step: impl FnOnce() -> Result<T>) -> Result<T> {
    step()
}

/// The sum over all ranks, at the end of a verb.
pub(super) fn total(rank: &mut Rank, mine: Result<usize>) -> Result<usize> {
    total_at(rank, Step::Total, mine)
}

/// The same, at a step of its own.
pub(super) fn total_at(rank: &mut Rank, step: Step, mine: Result<usize>) -> Result<usize> {
    let all = rank.agree_at(step, mine.map(|mine| [mine as u64]))?;
    Ok(all.iter().map(|&[of_one]| of_one as usize).sum())
}

/// The sum that a verb has returned on every rank.
pub(super) fn of_all(totals: Vec<usize>) -> usize {
    totals.first().copied().unwrap_or(0)
}

/// A source as an input again.
#[derive(Clone, Copy)]
pub(super) struct Given<'a, T>(pub(super) Source<'a, T>);

impl<T: Pod> Input<T> for Given<'_, T> {
    fn source(&self) -> Source<'_, T> {
        self.0
    }
}
