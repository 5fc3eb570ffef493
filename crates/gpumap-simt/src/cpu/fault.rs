//! What can go wrong in a launch, with enough in it to find the line: kernel, block, warp, lanes,
//! masks and source locations. On a GPU most of these are undefined behaviour or a hang.

use core::fmt;
use std::io;

pub use super::place::{LaneRef, Operation, PanicSite, Site, Waiting, WarpLanes};

use super::place::Lanes;

/// A launch that failed. The first fault of a launch cancels the rest of it; what its lanes wrote
/// to memory before that stays written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kernel `{kernel}`, block {block}: {kind}")]
#[non_exhaustive]
pub struct Fault {
    /// The name the kernel was launched under.
    pub kernel: &'static str,
    /// The block that faulted (0 if the launch never started).
    pub block: u32,
    /// What happened.
    pub kind: FaultKind,
}

/// What happened in the block that faulted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// The grid cannot be launched.
    #[error("{threads} threads a block asked for, a block has 1 to 1024")]
    InvalidGrid {
        /// Threads per block that the grid requested.
        threads: u32,
    },
    /// A kernel body tried to launch a kernel.
    #[error("launched from inside a kernel")]
    NestedLaunch,
    /// A kernel that runs natively alone needs atomics of 16 bytes, which every x86-64 processor since 2006 has: nothing was run.
    #[error("this processor has no atomics of 16 bytes")]
    NoWideAtomics,
    /// No memory for the stacks of a block's threads: nothing was run.
    #[error("no stacks of {bytes} bytes for {threads} threads: {error}")]
    NoStacks {
        /// Threads per block.
        threads: u32,
        /// The size of each stack.
        bytes: usize,
        /// What the operating system said.
        error: io::ErrorKind,
    },
    /// No stack could be had for a lane, in the middle of a launch. Only under schedules that explore
    /// interleavings; others take all stacks before they run anything.
    #[error("no stack of {bytes} bytes for {lane}: {error}")]
    StackAllocation {
        /// The lane that could not start.
        lane: LaneRef,
        /// The size requested.
        bytes: usize,
        /// What the operating system said.
        error: io::ErrorKind,
    },
    /// A lane called a collective with a mask that leaves the caller out.
    #[error(
        "{lane} calls {operation} with mask {mask:#010x}, which leaves that lane out, at {site}"
    )]
    NotInMask {
        /// The caller.
        lane: LaneRef,
        /// What it called.
        operation: Operation,
        /// The mask it gave.
        mask: u32,
        /// Where.
        site: Site,
    },
    /// A lane waits in a collective for lanes that have exited or never existed.
    #[error(
        "{lane} calls {operation} with mask {mask:#010x} at {site}, but lanes {} of that warp have exited",
        Lanes(*exited)
    )]
    Exited {
        /// The caller that waits.
        lane: LaneRef,
        /// What it called.
        operation: Operation,
        /// The mask it gave.
        mask: u32,
        /// The lanes of the mask that will never come.
        exited: u32,
        /// Where.
        site: Site,
    },
    /// A shuffle reads from a lane that does not take part.
    #[error(
        "{lane} calls {operation} with mask {mask:#010x} and reads lane {source_lane}, which is not in the mask, at {site}"
    )]
    ShuffleSource {
        /// The caller.
        lane: LaneRef,
        /// What it called.
        operation: Operation,
        /// The mask it gave.
        mask: u32,
        /// The lane it would read.
        source_lane: u32,
        /// Where.
        site: Site,
    },
    /// The segment width of a shuffle is not a power of two from 1 to 32.
    #[error("{lane} calls {operation} with width {width}, not a power of two up to 32, at {site}")]
    ShuffleWidth {
        /// The caller.
        lane: LaneRef,
        /// What it called.
        operation: Operation,
        /// The width it gave.
        width: u32,
        /// Where.
        site: Site,
    },
    /// Lanes of one warp wait for each other in different collectives, or in one with different
    /// masks.
    #[error("mismatched collectives: {first}, but {second}")]
    Mismatch {
        /// One side.
        first: Waiting,
        /// The other.
        second: Waiting,
    },
    /// Some threads of the block wait at the block barrier and the others can never get there.
    #[error("barrier divergence: {}", Divergence { waiting, elsewhere, exited })]
    BarrierDivergence {
        /// The threads at the barrier.
        waiting: Vec<Waiting>,
        /// The threads that wait in a warp collective instead.
        elsewhere: Vec<Waiting>,
        /// The threads that have exited.
        exited: Vec<WarpLanes>,
    },
    /// Every lane that is left waits for another in a ring.
    #[error("deadlock: {}", List(waiting))]
    Deadlock {
        /// Which lanes wait, and where.
        waiting: Vec<Waiting>,
    },
    /// The block took more steps than [`Config::step_budget`](crate::executor::Config) allows:
    /// most likely some lanes spin on something that never comes.
    #[error("more than {budget} steps; {lane} was last seen {}", At(*site))]
    StepBudget {
        /// The budget.
        budget: u64,
        /// The lane that took the last step.
        lane: LaneRef,
        /// Where it last called the executor, if it ever did.
        site: Option<Site>,
    },
    /// The kernel body panicked.
    #[error("{lane} panicked{}: {message}", PanickedAt(site))]
    Panic {
        /// The lane that panicked.
        lane: LaneRef,
        /// What it said.
        message: String,
        /// Where, if known.
        site: Option<PanicSite>,
    },
}

struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

struct Divergence<'a> {
    waiting: &'a [Waiting],
    elsewhere: &'a [Waiting],
    exited: &'a [WarpLanes],
}

impl fmt::Display for Divergence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", List(self.waiting))?;
        if !self.elsewhere.is_empty() {
            write!(f, "; but {}", List(self.elsewhere))?;
        }
        if !self.exited.is_empty() {
            write!(f, "; and exited have {}", List(self.exited))?;
        }
        Ok(())
    }
}

struct At(Option<Site>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(site) => write!(f, "at {site}"),
            None => f.write_str("before any call of the executor"),
        }
    }
}

struct PanickedAt<'a>(&'a Option<PanicSite>);

impl fmt::Display for PanickedAt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .as_ref()
            .map_or(Ok(()), |site| write!(f, " at {site}"))
    }
}
