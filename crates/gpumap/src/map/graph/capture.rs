//! [`Capture`]: a graph of the driver's, and what it was made for.

use std::sync::Arc;

use crate::error::Result;
use crate::map::Core;
use crate::map::command::Command;
use crate::map::in_flight::{Completion, Effect, MapState, PendingOp};
use crate::map::launch::Notes;
use crate::map::table::{Sight, Table};
use crate::stream::{Recorded, Recorder, Stream};

/// Kernels that were recorded with their arguments, and where these came from. It is launched again when
/// the one before is retired: then its counters are zero.
pub(super) struct Capture {
    steps: Vec<Command>,
    effects: Arc<[Effect]>,
    sight: Sight,
    kernels: Recorded,
    completion: Arc<Completion>,
    /// Its last launch.
    op: Option<Arc<PendingOp>>,
}

impl Capture {
    /// Captures steps on a table, with a completion for as many verbs at least that no launch is using.
    ///
    /// # Safety
    /// It is launched only while the addresses of the steps lead to as many elements as they say.
    pub unsafe fn of(
        map: &Core,
        table: &Table,
        steps: Vec<Command>,
        completion: Arc<Completion>,
    ) -> Result<Self> {
        // Taken first: what a call beside this one changes meanwhile, that marks hold, shows next time.
        let sight = table.sight();
        let recorder = Recorder::new(&map.device)?;
        for (verb, step) in steps.iter().enumerate() {
            // SAFETY: the caller vouches for the addresses whenever this is launched; it is launched on
            // this table only, and the completion is kept.
            unsafe { map.launch(table, &recorder, step, Notes::of(completion.counters(verb))) }?;
        }
        Ok(Self {
            effects: steps.iter().map(Command::effect).collect(),
            steps,
            sight,
            kernels: recorder.finish()?,
            completion,
            op: None,
        })
    }

    /// What it brings its counts home with, when it is not needed any more.
    pub fn into_ticket(self) -> Arc<Completion> {
        self.completion
    }

    /// What it does.
    pub fn steps(&self) -> &[Command] {
        &self.steps
    }

    /// Whether its kernels would get the same arguments now.
    pub fn is_of(&self, steps: &[Command], table: &Table) -> bool {
        self.steps == steps && self.sight == table.sight()
    }

    /// Waits for its last launch.
    pub fn retire(&self, state: &MapState) -> Result<()> {
        self.op.as_ref().map_or(Ok(()), |op| state.retire(op))
    }

    /// Whether its last launch has ended.
    pub fn has_ended(&self) -> bool {
        self.op.as_ref().is_none_or(|op| op.has_ended())
    }

    /// Launches it, under the shared lock of its table. A thread that still looks at its last call does so
    /// without harm: it is retired.
    ///
    /// # Safety
    /// [`is_of`](Self::is_of) this table, its last launch is retired, and the addresses of its steps lead to as many
    /// elements as they say until the call has ended.
    pub unsafe fn launch(mut self, map: &Core, stream: &Stream) -> Result<(Self, Arc<PendingOp>)> {
        let effects = self.effects.clone();
        let op = map
            .state
            .submit_with(stream, &self.completion, effects, || {
                // SAFETY: the caller's promise.
                unsafe { stream.launch_recorded(&self.kernels) }
            })?;
        self.op = Some(op.clone());
        Ok((self, op))
    }
}
