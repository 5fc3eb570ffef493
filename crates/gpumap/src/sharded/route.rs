//! [`Routed`]: where the parts of a batch go. The all-to-all exchange of every verb begins with it.

use std::ops::Range;

use super::Rank;
use super::owner::Owners;
use super::transport::Plan;
use crate::error::Result;
use crate::primitives::Digit;

/// A batch that lies by owner, and what all ranks have said of theirs.
#[derive(Debug)]
pub(super) struct Routed {
    /// What goes to the others, and what comes from them.
    pub(super) plan: Plan,
    /// Where this rank's own part of its batch lies, which goes nowhere.
    pub(super) own: Range<usize>,
    /// How many keys come.
    pub(super) incoming: usize,
}

impl Routed {
    /// Exchanges with all ranks what goes where. `partition` sorts the batch of this one by a
    /// digit, and returns where each part begins. A collective, and an error on every rank if
    /// one has an error.
    pub(super) fn new(
        rank: &mut Rank,
        owners: &Owners,
        partition: impl FnOnce(Digit) -> Result<Vec<u64>>,
    ) -> Result<Self> {
        let parted = partition(owners.digit()).map(|offsets| owners.ranges(&offsets));
        let own = parted
            .as_ref()
            .map_or(0..0, |ranges| ranges[rank.index()].clone());
        let plan = rank.plan(parted)?;
        Ok(Self {
            incoming: plan.incoming(),
            plan,
            own,
        })
    }
}
