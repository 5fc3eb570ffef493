//! [`Step`]: one verb over a batch that is on the device, as its kernel takes it: what a call on a
//! stream queues, and what a graph records.

use std::ptr;
use std::sync::Arc;

use gpumap_kernels::count::Counters;
use gpumap_kernels::verbs::store::{Account, Select};
use gpumap_simt::kernel::Launcher;

use super::Core;
use super::assign::Assignment;
use super::in_flight::{Effect, PendingOp};
use super::look_up::LookUp;
use super::remove::{Removal, Tells};
use super::retrieve::Dump;
use super::store::{Job, Verb};
use super::table::Table;
use crate::error::{Error, Result};
use crate::occupancy::Reservation;
use crate::primitives::Order;
use crate::stream::Stream;

/// A verb, and where its batch is.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// Without outcomes, and not in bins.
    Store(Job),
    Assign(Assignment),
    Remove {
        keys: *const u8,
        len: usize,
    },
    LookUp(LookUp),
    Dump {
        keys: *mut u8,
        values: *mut u8,
        room: usize,
    },
}

// SAFETY: addresses; who queues a step vouches for what they lead to.
unsafe impl Send for Step {}
// SAFETY: as above.
unsafe impl Sync for Step {}

impl Step {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Store(job) => job.len == 0,
            Self::Assign(assignment) => assignment.len == 0,
            Self::Remove { len, .. } => *len == 0,
            Self::LookUp(look_up) => look_up.len == 0,
            Self::Dump { .. } => false,
        }
    }

    /// How many pairs it stores at most.
    pub fn stores(&self) -> usize {
        match self {
            Self::Store(job) => job.len,
            _ => 0,
        }
    }

    /// What it changes in the map's state.
    pub fn effect(&self) -> Effect {
        match *self {
            _ if self.is_empty() => Effect::Read,
            Self::Store(job) => Effect::Store { keys: job.len },
            Self::Assign(_) => Effect::Update,
            Self::Remove { .. } => Effect::Remove,
            Self::LookUp(_) => Effect::Read,
            Self::Dump { room, .. } => Effect::Dump { room },
        }
    }

    /// What tells its launch from others on the same table: kind and kernel, addresses, length, and
    /// two words more.
    fn identity(&self) -> (u8, [usize; 5], [u64; 2]) {
        match *self {
            Self::Store(job) => {
                let (kernel, update) = match job.verb {
                    Verb::Insert => (0, 0),
                    Verb::Merge(update) => (0, 1 + update as u64),
                    Verb::GetOrInsert => (1, 0),
                    Verb::Exchange(kernel) => (ptr::from_ref(kernel).addr(), 0),
                };
                let [keys, values] = [job.keys.addr(), job.values.addr()];
                let more = [update, job.value];
                (0, [kernel, keys, values, job.held.addr(), job.len], more)
            }
            Self::Assign(assignment) => {
                let [keys, values] = [assignment.keys.addr(), assignment.values.addr()];
                let more = [assignment.update as u64, assignment.value];
                (4, [0, keys, values, 0, assignment.len], more)
            }
            Self::Remove { keys, len } => (1, [0, keys.addr(), 0, 0, len], [0; 2]),
            Self::LookUp(LookUp { keys, len, outputs }) => {
                let more = [outputs.default, 0];
                let [values, found] = [outputs.values.addr(), outputs.found.addr()];
                (2, [0, keys.addr(), values, found, len], more)
            }
            Self::Dump { keys, values, room } => {
                (3, [0, keys.addr(), values.addr(), 0, room], [0; 2])
            }
        }
    }
}

/// Steps are equal if, on the same table, their kernels have the same arguments.
impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Core {
    /// Room for so many pairs beside other calls, if there is.
    pub(super) fn reserve_pairs(&self, pairs: usize) -> Option<Reservation<'_>> {
        self.state.occupancy.reserve_pairs(pairs).or_else(|| {
            // A call that has ended meanwhile may have stored less than it reserved.
            self.state.retire_ended();
            self.state.occupancy.reserve_pairs(pairs)
        })
    }

    /// Puts a step into the air. The caller has made the table its own, or shares it, and has been
    /// a reservation for what the step stores.
    ///
    /// # Safety
    /// As for [`queue`](Self::queue).
    pub(super) unsafe fn submit(
        &self,
        table: &Table,
        stream: &Stream,
        step: &Step,
    ) -> Result<Arc<PendingOp>> {
        self.expect_sound()?;
        self.state.submit(stream, step.effect(), |counters| {
            // SAFETY: passed on. A call that frees or replaces the table first waits for all pending calls.
            unsafe { self.queue(stream, table, step, counters) }
        })
    }

    /// Launches the kernel of a step, or records that; nothing if there is nothing to do.
    ///
    /// # Safety
    /// The addresses lead to as many elements as the step says, on the map's device. They, the
    /// counters and the table are valid until what was launched, or will be, has ended.
    pub(super) unsafe fn queue(
        &self,
        on: &impl Launcher<Error = Error>,
        table: &Table,
        step: &Step,
        counters: Counters,
    ) -> Result<()> {
        if step.is_empty() {
            return Ok(());
        }
        match *step {
            Step::Store(job) => {
                let account = Account {
                    outcomes: ptr::null_mut(),
                    unplaced: ptr::null_mut(),
                    counters,
                    select: Select::All,
                };
                // SAFETY: passed on.
                unsafe { self.launch_store(table, on, job, account) }
            }
            // SAFETY: passed on.
            Step::Assign(assignment) => unsafe {
                self.launch_assignment(table, on, assignment, counters)
            },
            Step::Remove { keys, len } => {
                let tells = Tells::Count;
                let removal = Removal { keys, len, tells };
                // SAFETY: passed on.
                unsafe { self.launch_removal(table, on, removal, counters) }
            }
            // SAFETY: passed on.
            Step::LookUp(look_up) => unsafe { self.launch_look_up(table, on, look_up) },
            Step::Dump { keys, values, room } => {
                let dump = Dump::of(table, Order::Any, keys, values, room)?;
                let kernel = self.kernels.retrieve_all;
                // SAFETY: the kernel set fits the map's types; the rest is the caller's promise.
                unsafe { dump.queue(kernel, on, &self.device, counters, ptr::null_mut()) }
            }
        }
    }
}
