//! [`Books`]: what a map knows of its pairs, and how flights depart and land in it.

use std::sync::Arc;

use gpumap_kernels::count::{Counters, MIRRORED};

use super::{Alarm, Effect, Flight, Flights, State, Ticket};
use crate::error::{Error, Result, expect_room};
use crate::room::Room;
use crate::stream::{Stream, launches_started};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};

/// Tickets that are made together at least: page-locked memory is slow to get.
const TICKETS: usize = 64;

/// The books of a map: what flights change when they land. Answers that are still to come share them with
/// the map, and may outlive it.
#[derive(Debug)]
pub struct Books {
    pub room: Room,
    pub slots: AtomicUsize,
    /// Whether a write failed half-way.
    pub poisoned: AtomicBool,
    /// Calls on streams of the caller.
    pub flights: Flights,
}

impl Books {
    /// A ticket that no call is using. Those of calls whose answers nobody waits for come back
    /// here: so there are not many more than calls in flight.
    fn ticket(&self) -> Result<Ticket> {
        let flights = &self.flights;
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
        let before = launches_started();
        if let Err(error) = launch() {
            if writes && launches_started() != before {
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
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses the wait: the flight goes on, and is not entered. How
    /// it ended otherwise, well or not, its [answer](Flight::take) says.
    pub fn land(&self, flight: &Arc<Flight>) -> Result<()> {
        let (ticket, effects) = match &*flight.state.lock() {
            State::Flying(ticket, effects) => (ticket.clone(), effects.clone()),
            _ => return Ok(()),
        };
        // Without the lock: others may ask meanwhile how far it is.
        let refused = match ticket.event.synchronize() {
            Err(error) if error.is_refusal() => Err(error),
            ended => {
                if self.enter_once(flight, &ticket, &effects, ended) {
                    self.close(|other| !Arc::ptr_eq(other, flight));
                }
                Ok(())
            }
        };
        self.hand_back(ticket);
        refused
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
    /// gone, since its event must not be recorded again before. A flight that goes on keeps its own.
    fn hand_back(&self, ticket: Arc<Ticket>) {
        if let Some(ticket) = Arc::into_inner(ticket) {
            self.flights.idle.lock().push(ticket);
        }
    }

    fn enter(&self, effect: Effect, [count, unplaced]: [u64; MIRRORED]) -> Result<usize> {
        let count = count as usize;
        match effect {
            Effect::Read | Effect::Update => {}
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
    ///
    /// # Errors
    /// As [`land`](Self::land): then some go on.
    pub fn land_all(&self) -> Result<()> {
        if self.flights.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let open = self.flights.open.lock().clone();
        open.iter().try_for_each(|flight| self.land(flight))
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
                Ok(is_done) => is_done.then_some(Ok(())),
                Err(error) if error.is_refusal() => None,
                Err(_) => Some(ticket.event.synchronize()),
            };
            // Unless nothing is known: it is asked again next time.
            if let Some(ended) = ended {
                landed |= self.enter_once(flight, &ticket, &effects, ended);
            }
            self.hand_back(ticket);
        }
        if landed {
            self.close(|flight| flight.is_flying());
        }
    }
}
