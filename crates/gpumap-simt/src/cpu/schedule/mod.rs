//! Which lane runs next: the policies, the set of lanes that can run, and what is written down.
//!
//! | file | idea |
//! |---|---|
//! | `ready` | the lanes that can run |
//! | `policy` | which lane is next, and whether a lane goes on at a preemption point |
//! | `pct` | priorities that change a few times |
//! | `progress` | how far each lane has come |
//! | `replay` | a script followed, also one that does not quite fit |
//! | `script`, `shrink` | the turns of a run as text; the few of them that matter |
//! | `random` | the random numbers |

mod pct;
mod policy;
mod progress;
mod random;
mod ready;
mod replay;
mod script;
mod shrink;

pub use script::{ParseScriptError, Script, Turn};
pub use shrink::Shrunk;

pub(super) use policy::{Policy, Seat};
pub(super) use ready::{Entry, Ready};

/// The order in which the executor runs lanes.
///
/// All but the first run everything on the calling thread, with several blocks of every launch
/// at once; every atomic, fence, collective and spin hint is a point at which another lane may be
/// next, whichever block or launch it is of. The same schedule gives the same interleaving, always.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Schedule {
    /// First in, first out; one block at a time on each worker; a lane keeps running until it waits
    /// for others. The fast one.
    #[default]
    RoundRobin,
    /// All lanes in step: each passes one preemption point, then the next lane does.
    Lockstep,
    /// Each step runs a lane drawn at random, and every preemption point hands over or not by the
    /// toss of a coin.
    Random {
        /// Picks the interleaving.
        seed: u64,
    },
    /// Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi and Nagarakatte, "A
    /// randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010): lanes get
    /// random priorities, the highest that can run does, and at `depth - 1` points, drawn among
    /// `points` of the kind that `changes` says, the lane that runs becomes the last of all. An error that takes `depth` lanes to
    /// come in a certain order is found with a probability of at least
    /// `1 / (lanes * points^(depth - 1))`; long delays of one lane, which a fair draw hardly ever
    /// makes, are what it makes best.
    ///
    /// A lane that yields by a spin hint, or has passed 500 points since it last changed,
    /// becomes the last as well: no run hangs for want of a turn.
    Pct {
        /// Picks the interleaving.
        seed: u64,
        /// How many orderings an error may depend on; 0 counts as 1.
        depth: u32,
        /// Where priorities change.
        changes: Changes,
        /// How many such points the run has, or about so many: [`Trace::points`] or
        /// [`Trace::writes`] of a run before it.
        ///
        /// [`Trace::points`]: super::Trace::points
        /// [`Trace::writes`]: super::Trace::writes
        points: u64,
    },
    /// The turns of a run before it, or some of them.
    Replay(Script),
}

/// Where [`Schedule::Pct`] changes priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Changes {
    /// At any preemption point.
    Anywhere,
    /// Before atomics that may write, and fences. They are few among the loads of a kernel that
    /// searches, and a lane that is late there writes what was right when it read.
    BeforeWrites,
}
