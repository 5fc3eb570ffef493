//! [`Rank`]: one of a group, and its agreement with the others.

use std::ops::Range;
use std::sync::Arc;

use super::direct::Direct;
use super::error::GroupError;
use super::membership::Membership;
#[cfg(feature = "nccl")]
use super::nccl::Nccl;
use super::rendezvous::Rendezvous;
use super::step::Step;
use super::transport::{Plan, Transport};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// One of a group: a device, and the link to the others.
pub struct Rank {
    device: Device,
    transport: Box<dyn Transport>,
    /// What is exchanged is queued here, beside the work on what is there already.
    link: Stream,
}

impl Rank {
    pub(super) fn new(device: &Device, transport: Box<dyn Transport>) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            transport,
            link: Stream::of_calls(device)?,
        })
    }

    /// Joins a group whose other ranks are in other processes, of this node or of others. Returns when
    /// all have.
    ///
    /// The device is a GPU, unless the group has one rank only.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn join(device: &Device, membership: &Membership) -> Result<Self> {
        if membership.ranks() == 1 {
            let rendezvous = Arc::new(Rendezvous::new(1, membership.timeout()));
            return Self::new(device, Box::new(Direct::alone(rendezvous)));
        }
        #[cfg(feature = "nccl")]
        return Self::new(device, Box::new(Nccl::join(device, membership)?));
        #[cfg(not(feature = "nccl"))]
        return Err(Error::Group(GroupError::NcclDisabled));
    }

    /// Which rank it is, from 0.
    pub fn index(&self) -> usize {
        self.transport.rank()
    }

    /// How many ranks its group has.
    pub fn ranks(&self) -> usize {
        self.transport.ranks()
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The link to the others, for exchanges of your own.
    pub fn transport(&mut self) -> &mut dyn Transport {
        &mut *self.transport
    }

    /// What each rank brings, in the order of the ranks: as many words from each. A collective.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn gather(&mut self, mine: &[u64]) -> Result<Vec<u64>> {
        self.meet(Step::Gather, Ok(()), mine)
    }

    /// Waits for all ranks to come here. A collective.
    ///
    /// # Errors
    /// [`Error::Group`].
    pub fn barrier(&mut self) -> Result<()> {
        self.meet(Step::Barrier, Ok(()), &[]).map(drop)
    }

    /// One's own result, if every rank has one, or an error on every rank if one has an error: its own
    /// there, [`GroupError::Failed`] on the others. So none goes on alone. A collective.
    ///
    /// # Errors
    /// [`Error::Group`], and the error that it was called with.
    pub fn together<R>(&mut self, mine: Result<R>) -> Result<R> {
        self.together_at(Step::Together, mine)
    }

    /// As [`together`](Self::together), at a step of its own. A collective.
    pub(super) fn together_at<R>(&mut self, step: Step, mine: Result<R>) -> Result<R> {
        let mut result = None;
        let mine = mine.map(|mine| result = Some(mine));
        self.meet(step, mine, &[])?;
        // Without one, that was an error.
        result.ok_or(Error::Group(GroupError::OutOfStep))
    }

    /// As [`together`](Self::together), and returns the results of all ranks. A collective.
    ///
    /// # Errors
    /// As for [`together`](Self::together).
    #[doc(alias = "all-gather")]
    pub fn agree<const N: usize>(&mut self, mine: Result<[u64; N]>) -> Result<Vec<[u64; N]>> {
        self.agree_at(Step::Agree, mine)
    }

    /// As [`agree`](Self::agree), at a step of its own. A collective.
    pub(crate) fn agree_at<const N: usize>(
        &mut self,
        step: Step,
        mine: Result<[u64; N]>,
    ) -> Result<Vec<[u64; N]>> {
        let all = self.agree_on(step, mine.map(Vec::from), N)?;
        let of_rank = |rank: usize| std::array::from_fn(|i| all[rank * N + i]);
        Ok((0..self.ranks()).map(of_rank).collect())
    }

    /// The same, with a number of words that is known later. A collective.
    pub(super) fn agree_on(
        &mut self,
        step: Step,
        mine: Result<Vec<u64>>,
        words: usize,
    ) -> Result<Vec<u64>> {
        let (mut contribution, mine) = match mine {
            Ok(contribution) => (contribution, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        contribution.resize(words, 0);
        self.meet(step, mine, &contribution)
    }

    /// Exchanges with all ranks what goes where, from what this one has for each; for itself nothing
    /// is planned. A collective, and an error on every rank if one has an error.
    pub(super) fn plan(&mut self, mine: Result<Vec<Range<usize>>>) -> Result<Plan> {
        let (index, ranks) = (self.index(), self.ranks());
        let (mut sends, mine) = match mine {
            Ok(sends) => (sends, Ok(())),
            Err(error) => (vec![0..0; ranks], Err(error)),
        };
        let contribution: Vec<u64> = sends.iter().map(|range| range.len() as u64).collect();
        let all = self.meet(Step::Plan, mine, &contribution)?;
        sends[index] = 0..0;
        let mut receives = Vec::with_capacity(ranks);
        let mut start = 0;
        for (from, contribution) in all.chunks(ranks).enumerate() {
            let len = if from == index {
                0
            } else {
                contribution[index] as usize
            };
            receives.push(start..start + len);
            start += len;
        }
        Ok(Plan { sends, receives })
    }

    /// The words of all ranks at a step, if all are at the same and none has failed before it:
    /// otherwise an error on every rank, its own on one that has failed. A collective.
    fn meet(&mut self, step: Step, mine: Result<()>, words: &[u64]) -> Result<Vec<u64>> {
        let [code, of] = step.words();
        let mut contribution = Vec::with_capacity(Step::WORDS + words.len());
        contribution.extend([code | u64::from(mine.is_err()), of]);
        contribution.extend(words);
        let all = self.transport.gather(&contribution);
        // The rank's own error says more.
        mine?;
        let all = all?;
        if all.len() != self.ranks() * contribution.len() {
            return Err(Error::Group(GroupError::OutOfStep));
        }
        let mut failed = None;
        let mut of_ranks = Vec::with_capacity(self.ranks() * words.len());
        for (rank, contribution) in all.chunks(contribution.len()).enumerate() {
            let (head, words) = contribution.split_at(Step::WORDS);
            if [head[0] & !1, head[1]] != [code, of] {
                return Err(Error::Group(GroupError::OutOfStep));
            }
            if head[0] != code {
                failed.get_or_insert(rank);
            }
            of_ranks.extend(words);
        }
        match failed {
            Some(rank) => Err(Error::Group(GroupError::Failed { rank })),
            None => Ok(of_ranks),
        }
    }

    /// The stream that exchanges are queued on, and the link.
    pub(crate) fn link(&mut self) -> (&Stream, &mut dyn Transport) {
        (&self.link, &mut *self.transport)
    }

    /// Waits until what is queued on the link has ended.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.transport.wait(&self.link)
    }
}

impl std::fmt::Debug for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rank")
            .field("index", &self.index())
            .field("ranks", &self.ranks())
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}
