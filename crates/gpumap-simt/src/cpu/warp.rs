//! The state of one warp: which of its lanes wait, in what, and with which operands.

use std::cell::Cell;

use super::fault::{Operation, Site};

/// What makes two waiting lanes part of the same collective: the operation and the mask. The call
/// site is not part of it: PTX lets lanes meet from different lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) operation: Operation,
    pub(super) mask: u32,
}

/// One warp of a block.
pub(super) struct Warp {
    /// Lanes that exist and have not exited.
    pub(super) live: Cell<u32>,
    /// Lanes that wait in a collective of the warp. For these, and only these, the arrays below are
    /// up to date (`site` for those at the barrier, too).
    pub(super) parked: Cell<u32>,
    /// Lanes that wait at the block barrier.
    pub(super) at_barrier: Cell<u32>,
    pub(super) call: [Cell<Call>; 32],
    pub(super) site: [Cell<Option<Site>>; 32],
    /// What the lane brings: a predicate or a value.
    pub(super) operand: [Cell<u64>; 32],
    /// The lane that a shuffle reads.
    pub(super) source: [Cell<u32>; 32],
    /// What the lane gets.
    pub(super) result: [Cell<u64>; 32],
}

impl Warp {
    pub(super) fn new() -> Self {
        const IDLE: Call = Call {
            operation: Operation::SyncWarp,
            mask: 0,
        };
        Self {
            live: Cell::new(0),
            parked: Cell::new(0),
            at_barrier: Cell::new(0),
            call: [const { Cell::new(IDLE) }; 32],
            site: [const { Cell::new(None) }; 32],
            operand: [const { Cell::new(0) }; 32],
            source: [const { Cell::new(0) }; 32],
            result: [const { Cell::new(0) }; 32],
        }
    }

    /// Readies the warp for a new block in which it has `lanes` lanes.
    pub(super) fn begin(&self, lanes: u32) {
        self.live.set(if lanes >= 32 {
            u32::MAX
        } else {
            (1 << lanes) - 1
        });
        self.parked.set(0);
        self.at_barrier.set(0);
    }
}

/// The lanes of a mask, lowest first.
#[inline]
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> + Clone {
    let mut rest = mask;
    core::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        Some(lane)
    })
}
