//! [`Capture`]: a graph of the driver's, and what it was made for.

use std::sync::Arc;

use crate::error::Result;
use crate::map::Core;
use crate::map::flight::{Books, Effect, Flight, Ticket};
use crate::map::step::Step;
use crate::map::table::{Sight, Table};
use crate::stream::{Recorded, Recorder, Stream};

/// Kernels that were recorded with their arguments, and where these came from. It is launched again when
/// the one before has landed: then its counters are zero.
pub(super) struct Capture {
    steps: Vec<Step>,
    effects: Arc<[Effect]>,
    sight: Sight,
    kernels: Recorded,
    ticket: Arc<Ticket>,
    /// Its last launch.
    flight: Option<Arc<Flight>>,
}

impl Capture {
    /// Captures steps on a table, with a ticket for as many verbs at least that no launch is using.
    ///
    /// # Safety
    /// It is launched only while the addresses of the steps lead to as many elements as they say.
    pub unsafe fn of(
        map: &Core,
        table: &Table,
        steps: Vec<Step>,
        ticket: Arc<Ticket>,
    ) -> Result<Self> {
        // Taken first: what a call beside this one changes meanwhile, that marks hold, shows next time.
        let sight = table.sight();
        let recorder = Recorder::new(&map.device)?;
        for (verb, step) in steps.iter().enumerate() {
            // SAFETY: the caller vouches for the addresses whenever this is launched; it is launched on
            // this table only, and the ticket is kept.
            unsafe { map.queue(&recorder, table, step, ticket.counters(verb)) }?;
        }
        Ok(Self {
            effects: steps.iter().map(Step::effect).collect(),
            steps,
            sight,
            kernels: recorder.finish()?,
            ticket,
            flight: None,
        })
    }

    /// What it brings its counts home with, when it is not needed any more.
    pub fn into_ticket(self) -> Arc<Ticket> {
        self.ticket
    }

    /// What it does.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether its kernels would get the same arguments now.
    pub fn is_of(&self, steps: &[Step], table: &Table) -> bool {
        self.steps == steps && self.sight == table.sight()
    }

    /// Waits for its last launch.
    pub fn land(&self, books: &Books) -> Result<()> {
        self.flight
            .as_ref()
            .map_or(Ok(()), |flight| books.land(flight))
    }

    /// Whether its last launch has ended.
    pub fn has_ended(&self) -> bool {
        self.flight.as_ref().is_none_or(|flight| flight.has_ended())
    }

    /// Launches it, under the shared lock of its table. Whoever else looked at its last flight does so
    /// without harm: that has landed.
    ///
    /// # Safety
    /// [`is_of`](Self::is_of) this table, its last launch has landed, and the addresses of its steps lead to as many
    /// elements as they say until the flight has ended.
    pub unsafe fn launch(mut self, map: &Core, stream: &Stream) -> Result<(Self, Arc<Flight>)> {
        let effects = self.effects.clone();
        let flight = map.books.depart_with(stream, &self.ticket, effects, || {
            // SAFETY: the caller's promise.
            unsafe { stream.launch_recorded(&self.kernels) }
        })?;
        self.flight = Some(flight.clone());
        Ok((self, flight))
    }
}
