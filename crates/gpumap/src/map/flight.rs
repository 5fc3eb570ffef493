//! Calls in flight on streams of the caller: what they promised, and where their counts arrive.
//!
//! A call on a stream returns before the device is done. Its room stays promised, and its kernel
//! goes on using the table; so whoever needs the table alone, under the exclusive lock, first waits
//! for all flights. A flight is *landed* when its event has happened and its counts are in the
//! books. That is done by whoever needs it first: the one who waits for the call, the next one who
//! finds the map full, or the drop of the map.

use std::mem;
use std::sync::Arc;
use std::task::Waker;

use gpumap_kernels::count::{Counters, MIRRORED, WORDS};

use super::wakers::{Alarm, Wakers};
use crate::buffer::{Buffer, PinnedBuffer};
use crate::device::Device;
use crate::error::{Error, Result, expect_room};
use crate::event::{Event, Timing};
use crate::room::Room;
use crate::stream::Stream;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};

/// What a verb of a flight does to the books when that lands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    /// Its batch of `keys` has this room, of which it uses some.
    Store { keys: usize },
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
        matches!(self, Self::Store { .. } | Self::Remove)
    }
}

/// Tickets that are made together at least: page-locked memory is slow to get.
const TICKETS: usize = 64;

/// The memory of some tickets, held for its drop.
#[derive(Debug)]
struct Booklet {
    _counters: Buffer<u64>,
    _mirror: PinnedBuffer<u64>,
}

/// What a flight brings its counts home with; used again and again.
#[derive(Debug)]
pub(super) struct Ticket {
    /// Those of its first verb, on the device, and where the host finds what they came to: in the
    /// booklet. Those of the others follow.
    counters: Counters,
    verbs: usize,
    event: Event,
    _booklet: Arc<Booklet>,
}

// SAFETY: both addresses lead to memory of the booklet that is this ticket's alone.
unsafe impl Send for Ticket {}
// SAFETY: the memory is read under the lock of the flight that has the ticket.
unsafe impl Sync for Ticket {}

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

/// The books of a map: what flights change when they land.
#[derive(Clone, Copy, Debug)]
pub(super) struct Books<'m> {
    pub room: &'m Room,
    pub slots: &'m AtomicUsize,
    pub poisoned: &'m AtomicBool,
    pub flights: &'m Flights,
}

impl Ticket {
    /// Some new tickets, for so many verbs each.
    fn book(device: &Device, tickets: usize, verbs: usize) -> Result<Vec<Self>> {
        let stream = Stream::new(device)?;
        let mut counters = Buffer::zeroed(&stream, tickets * verbs * WORDS)?;
        let mut mirror = PinnedBuffer::zeroed(device, tickets * verbs * MIRRORED)?;
        let first = Counters {
            words: counters.as_mut_ptr(),
            mirror: mirror.as_mut_ptr(),
        };
        let booklet = Arc::new(Booklet {
            _counters: counters,
            _mirror: mirror,
        });
        let ticket = |i: usize| {
            Ok(Self {
                counters: nth(first, i * verbs),
                verbs,
                event: Event::with_timing(device, Timing::Off)?,
                _booklet: booklet.clone(),
            })
        };
        let tickets = (0..tickets).map(ticket).collect::<Result<_>>()?;
        stream.synchronize()?;
        Ok(tickets)
    }

    /// How many verbs it is for.
    pub fn verbs(&self) -> usize {
        self.verbs
    }

    /// Where a verb of it counts.
    pub fn counters(&self, verb: usize) -> Counters {
        debug_assert!(verb < self.verbs);
        nth(self.counters, verb)
    }

    /// What the counters of a verb came to, once the event has happened.
    fn read(&self, verb: usize) -> [u64; MIRRORED] {
        let mirror = self.counters(verb).mirror;
        // SAFETY: the device wrote there before the event, and does so again only for the next
        // flight of this ticket.
        [0, 1].map(|i| unsafe { mirror.wrapping_add(i).read() })
    }
}

/// The counters that lie so many places after these.
fn nth(first: Counters, i: usize) -> Counters {
    Counters {
        words: first.words.wrapping_add(i * WORDS),
        mirror: first.mirror.wrapping_add(i * MIRRORED),
    }
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

impl Drop for Flights {
    /// Waits for the device: the table is freed next.
    fn drop(&mut self) {
        for flight in self.open.get_mut() {
            if let State::Flying(ticket, _) = &*flight.state.lock() {
                // An error of the device leaves nothing in flight.
                let _ = ticket.event.synchronize();
            }
        }
    }
}

impl Books<'_> {
    /// A ticket that no call is using. Those of calls whose answers nobody waits for come back
    /// here: so there are not many more than calls in flight.
    fn ticket(&self) -> Result<Ticket> {
        let flights = self.flights;
        if let Some(ticket) = flights.idle.lock().pop() {
            return Ok(ticket);
        }
        self.land_ended();
        let flying = flights.count.load(Ordering::Acquire);
        // Enough for many calls: to look at all that fly takes long if they are many.
        if flights.idle.lock().len() <= flying / 8 {
            let more = TICKETS.max(flying / 2);
            let mut tickets = Ticket::book(&flights.device, more, 1)?;
            flights.idle.lock().append(&mut tickets);
        }
        let ticket = flights.idle.lock().pop();
        // Others have taken all of them meanwhile.
        ticket.map_or_else(|| self.ticket(), Ok)
    }

    /// Queues a call: `launch` gets the counters that its kernel adds to. To be called under the
    /// table's shared lock.
    ///
    /// If `launch` fails, nothing is in flight.
    pub fn depart(
        &self,
        stream: &Stream,
        effect: Effect,
        launch: impl FnOnce(Counters) -> Result<()>,
    ) -> Result<Arc<Flight>> {
        let ticket = Arc::new(self.ticket()?);
        let counters = ticket.counters(0);
        self.depart_with(stream, &ticket, Arc::new([effect]), || launch(counters))
    }

    /// As [`depart`](Self::depart), of all verbs of a ticket, with which nothing is in flight. If
    /// this fails, nobody knows what its counters are, and it must not be used again.
    pub fn depart_with(
        &self,
        stream: &Stream,
        ticket: &Arc<Ticket>,
        effects: Arc<[Effect]>,
        launch: impl FnOnce() -> Result<()>,
    ) -> Result<Arc<Flight>> {
        let writes = effects.iter().any(|effect| effect.writes());
        if let Err(error) = launch() {
            if writes && matches!(error, Error::Kernel(_) | Error::Driver { .. }) {
                // It may have ended anywhere.
                self.poisoned.store(true, Ordering::Release);
                let _ = stream.synchronize();
            }
            return Err(error);
        }
        if let Err(error) = ticket.event.record(stream) {
            // The kernel runs, and nobody will know what it counted.
            if writes {
                self.poisoned.store(true, Ordering::Release);
            }
            let _ = stream.synchronize();
            return Err(error);
        }
        let state = State::Flying(ticket.clone(), effects);
        let flight = Arc::new(Flight {
            state: Mutex::new(state),
            alarm: Alarm::default(),
        });
        let mut open = self.flights.open.lock();
        open.push(flight.clone());
        self.flights.count.store(open.len(), Ordering::Release);
        drop(open);
        Ok(flight)
    }

    /// Waits for a flight, and enters its counts.
    pub fn land(&self, flight: &Arc<Flight>) {
        let (ticket, effects) = match &*flight.state.lock() {
            State::Flying(ticket, effects) => (ticket.clone(), effects.clone()),
            _ => return,
        };
        // Without the lock: others may ask meanwhile how far it is.
        let ended = ticket.event.synchronize();
        if self.enter_once(flight, &ticket, &effects, ended) {
            self.close(|other| !Arc::ptr_eq(other, flight));
        }
        self.hand_back(ticket);
    }

    /// Enters the counts of a flight that has ended, unless somebody was faster; says whether it
    /// has. It is to be [closed](Self::close) then.
    fn enter_once(
        &self,
        flight: &Flight,
        ticket: &Ticket,
        effects: &[Effect],
        ended: Result<()>,
    ) -> bool {
        let mut state = flight.state.lock();
        if !matches!(*state, State::Flying(..)) {
            return false;
        }
        *state = State::Landed(match ended {
            Ok(()) => {
                let enter = |(verb, &effect)| match effect {
                    Effect::Read => Ok(0),
                    _ => self.enter(effect, ticket.read(verb)),
                };
                // All of them, also after one that says that something is wrong.
                let entered: Vec<_> = effects.iter().enumerate().map(enter).collect();
                entered.into_iter().collect()
            }
            Err(error) => {
                if effects.iter().any(|effect| effect.writes()) {
                    self.poisoned.store(true, Ordering::Release);
                }
                Err(error)
            }
        });
        true
    }

    /// Leaves only some flights open: the others are in the books.
    fn close(&self, stays: impl FnMut(&Arc<Flight>) -> bool) {
        let mut open = self.flights.open.lock();
        open.retain(stays);
        self.flights.count.store(open.len(), Ordering::Release);
    }

    /// Lets other calls have a ticket: by the last of those who waited, and of a graph that is
    /// gone, since its event must not be recorded again before.
    fn hand_back(&self, ticket: Arc<Ticket>) {
        if let Some(ticket) = Arc::into_inner(ticket) {
            self.flights.idle.lock().push(ticket);
        }
    }

    fn enter(&self, effect: Effect, [count, unplaced]: [u64; MIRRORED]) -> Result<usize> {
        let count = count as usize;
        match effect {
            Effect::Read => {}
            Effect::Dump { room } => expect_room(count, room)?,
            Effect::Remove => self.room.removed(count),
            Effect::Store { keys } => {
                self.room.settle(keys, count);
                if unplaced != 0 {
                    return Err(Error::Full {
                        len: self.room.len(),
                        slots: self.slots.load(Ordering::Acquire),
                        batch: keys,
                        unplaced: unplaced as usize,
                        partial: true,
                    });
                }
            }
        }
        Ok(count)
    }

    /// Waits for all flights. Under the exclusive lock there are none after this.
    pub fn land_all(&self) {
        if self.flights.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let open = self.flights.open.lock().clone();
        for flight in &open {
            self.land(flight);
        }
    }

    /// Enters the counts of the flights that have ended, and says whether that is all of them.
    pub fn all_landed(&self) -> bool {
        self.land_ended();
        self.flights.count.load(Ordering::Acquire) == 0
    }

    /// Enters the counts of the flights that have ended.
    pub fn land_ended(&self) {
        if self.flights.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let open = self.flights.open.lock().clone();
        let mut landed = false;
        for flight in &open {
            let (ticket, effects) = match &*flight.state.lock() {
                State::Flying(ticket, effects) => (ticket.clone(), effects.clone()),
                _ => continue,
            };
            let ended = match ticket.event.is_done() {
                Ok(false) => continue,
                Ok(true) => Ok(()),
                Err(_) => ticket.event.synchronize(),
            };
            landed |= self.enter_once(flight, &ticket, &effects, ended);
            self.hand_back(ticket);
        }
        if landed {
            self.close(|flight| flight.is_flying());
        }
    }
}

impl Flight {
    /// Whether the device is done with it, well or not.
    pub fn has_ended(&self) -> bool {
        match &*self.state.lock() {
            State::Flying(ticket, _) => !matches!(ticket.event.is_done(), Ok(false)),
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
