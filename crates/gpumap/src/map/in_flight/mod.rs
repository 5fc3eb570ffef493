//! Calls in flight on streams of the caller: what they have reserved, and where their counts arrive. Maps of all kinds that
//! have streams use it.
//!
//! A call on a stream returns before the device is done. Its reservation stays, and its kernel
//! goes on using the table; so a call that needs the table alone, under the exclusive lock, first waits
//! for all pending calls: [`MapState`] has the invariant. A call is *retired* when its event has happened and its counts are in the
//! [`MapState`]. The first thread that needs it does that: one that waits for the call, one that
//! finds the map full, or one that drops the map.

mod completion;
mod own;
mod state;

pub(super) use completion::Completion;
pub(crate) use own::OwnState;
pub(crate) use state::MapState;

use std::mem;
use std::sync::Arc;
use std::task::Waker;

use super::command::StringLayout;
use super::wakers::{Alarm, Wakers};
use crate::device::Device;
use crate::error::Result;
use crate::stream::Stream;
use crate::sync::{AtomicUsize, Mutex};

/// What a verb of a pending call changes in the map's state when it is retired.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// Its batch of `keys` has this room, of which it uses some.
    Store { keys: usize },
    /// None; it updates values, and counts keys.
    Update,
    /// It removes pairs.
    Remove,
    /// None; it counts nothing.
    Read,
    /// None; it says whether offsets of strings are wrong.
    ReadStrings(StringLayout),
    /// None; it dumps the pairs, for so many of which there is room.
    Dump { room: usize },
}

impl Effect {
    /// Whether the map is not known any more if it fails half-way.
    fn writes(self) -> bool {
        matches!(self, Self::Store { .. } | Self::Update | Self::Remove)
    }
}

#[derive(Debug)]
enum State {
    /// A waiting thread shares the completion, and not the lock.
    Pending(Arc<Completion>, Arc<[Effect]>),
    /// The count of each of its verbs, until they are taken.
    Retired(Result<Vec<usize>>),
    Taken,
}

/// A call in flight: one verb, or those of a graph.
#[derive(Debug)]
pub(crate) struct PendingOp {
    state: Mutex<State>,
    alarm: Alarm,
}

/// All calls in flight on one map.
#[derive(Debug)]
pub(crate) struct InFlight {
    device: Device,
    open: Mutex<Vec<Arc<PendingOp>>>,
    /// How many those are, readable without the lock.
    pub(super) count: AtomicUsize,
    /// Completions that no call is using.
    pub(super) idle: Mutex<Vec<Completion>>,
    wakers: Wakers,
}

impl InFlight {
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            open: Mutex::default(),
            count: AtomicUsize::new(0),
            idle: Mutex::default(),
            wakers: Wakers::new(device),
        }
    }

    /// Waits for the device: the table is freed next.
    pub fn wait(&self) {
        for op in &*self.open.lock() {
            if let State::Pending(completion, _) = &*op.state.lock() {
                // After an error nothing runs; a driver that refuses to wait here, in a callback, refuses to free the
                // table as well.
                let _ = completion.event.finish();
            }
        }
    }

    /// Completions of the caller's own, for so many verbs each.
    pub fn completions(&self, completions: usize, verbs: usize) -> Result<Vec<Completion>> {
        Completion::allocate(&self.device, completions, verbs)
    }

    /// Lets a stream wait for a pending call.
    pub fn let_wait(&self, stream: &Stream, op: &PendingOp) -> Result<()> {
        match &*op.state.lock() {
            State::Pending(completion, _) => stream.wait_event(&completion.event),
            _ => Ok(()),
        }
    }

    /// Wakes a task when a call has ended, or soon if it has; one call wakes the task of the last
    /// request.
    pub fn wake(&self, op: &PendingOp, waker: Waker) -> Result<()> {
        let let_wait = |stream: &Stream| self.let_wait(stream, op);
        self.wakers.wake(&op.alarm, waker, let_wait)
    }
}

impl PendingOp {
    /// Whether the device is done with it, well or not. Not if the driver refuses to say.
    pub fn has_ended(&self) -> bool {
        match &*self.state.lock() {
            State::Pending(completion, _) => completion.event.has_ended(),
            _ => true,
        }
    }

    /// Whether it is not retired.
    fn is_pending(&self) -> bool {
        matches!(&*self.state.lock(), State::Pending(..))
    }

    /// The counts of its verbs, once, after it is retired.
    pub fn take(&self) -> Result<Vec<usize>> {
        match mem::replace(&mut *self.state.lock(), State::Taken) {
            State::Retired(outcome) => outcome,
            // Taken before: its caller has had the answer.
            _ => Ok(Vec::new()),
        }
    }
}
