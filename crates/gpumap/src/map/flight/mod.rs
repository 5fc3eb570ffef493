//! Calls in flight on streams of the caller: what they promised, and where their counts arrive.
//!
//! A call on a stream returns before the device is done. Its room stays promised, and its kernel
//! goes on using the table; so whoever needs the table alone, under the exclusive lock, first waits
//! for all flights. A flight is *landed* when its event has happened and its counts are in the
//! books. That is done by whoever needs it first: the one who waits for the call, the next one who
//! finds the map full, or the drop of the map.

mod books;
mod ticket;

pub(super) use books::Books;
pub(super) use ticket::Ticket;

use std::mem;
use std::sync::Arc;
use std::task::Waker;

use super::wakers::{Alarm, Wakers};
use crate::device::Device;
use crate::error::Result;
use crate::stream::Stream;
use crate::sync::{AtomicUsize, Mutex};

/// What a verb of a flight does to the books when that lands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    /// Its batch of `keys` has this room, of which it uses some.
    Store { keys: usize },
    /// None; it updates values, and counts keys.
    Update,
    /// It removes pairs.
    Remove,
    /// None; it counts nothing.
    Read,
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
    /// Who waits for it shares the ticket, and not the lock.
    Flying(Arc<Ticket>, Arc<[Effect]>),
    /// The count of each of its verbs, until somebody takes them.
    Landed(Result<Vec<usize>>),
    Taken,
}

/// A call in flight: one verb, or those of a graph.
#[derive(Debug)]
pub(super) struct Flight {
    state: Mutex<State>,
    alarm: Alarm,
}

/// All calls in flight on one map.
#[derive(Debug)]
pub(super) struct Flights {
    device: Device,
    open: Mutex<Vec<Arc<Flight>>>,
    /// How many those are, to be asked without the lock.
    pub(super) count: AtomicUsize,
    /// Tickets that no call is using.
    pub(super) idle: Mutex<Vec<Ticket>>,
    wakers: Wakers,
}

impl Flights {
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
        for flight in &*self.open.lock() {
            if let State::Flying(ticket, _) = &*flight.state.lock() {
                // After an error nothing runs, except after a refusal; a driver that refuses to wait
                // here, in a callback, refuses to free the table as well.
                let _ = ticket.event.synchronize();
            }
        }
    }

    /// Tickets of the caller's own, for so many verbs each.
    pub fn tickets(&self, tickets: usize, verbs: usize) -> Result<Vec<Ticket>> {
        Ticket::book(&self.device, tickets, verbs)
    }

    /// Lets a stream wait for a flight.
    pub fn let_wait(&self, stream: &Stream, flight: &Flight) -> Result<()> {
        match &*flight.state.lock() {
            State::Flying(ticket, _) => stream.wait_event(&ticket.event),
            _ => Ok(()),
        }
    }

    /// Wakes a task when a flight has ended, or soon if it has; one flight wakes who asked last.
    pub fn wake(&self, flight: &Flight, waker: Waker) -> Result<()> {
        let let_wait = |stream: &Stream| self.let_wait(stream, flight);
        self.wakers.wake(&flight.alarm, waker, let_wait)
    }
}

impl Flight {
    /// Whether the device is done with it, well or not. Not if the driver refuses to say.
    pub fn has_ended(&self) -> bool {
        match &*self.state.lock() {
            State::Flying(ticket, _) => ticket.event.has_ended(),
            _ => true,
        }
    }

    /// Whether it has not landed.
    fn is_flying(&self) -> bool {
        matches!(&*self.state.lock(), State::Flying(..))
    }

    /// The counts of its verbs, once, after it has landed.
    pub fn take(&self) -> Result<Vec<usize>> {
        match mem::replace(&mut *self.state.lock(), State::Taken) {
            State::Landed(outcome) => outcome,
            // Taken before: its caller has had the answer.
            _ => Ok(Vec::new()),
        }
    }
}
