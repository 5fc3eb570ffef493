//! [`Capture`]: a graph of the driver's, and what it was made for.

use std::sync::Arc;

use crate::error::Result;
use crate::map::command::Command;
use crate::map::in_flight::{Completion, Effect, MapState, PendingOp};
use crate::map::on_stream::{MapMemory, Queue};
use crate::memory::{Memory, bytes_of_each};
use crate::stream::{LaunchOn, Recorded, Recorder};

/// Kernels that were recorded with their arguments, and where these came from. It is launched again when
/// the one before is retired: then its counters are zero.
pub(super) struct Capture {
    steps: Vec<Command>,
    effects: Arc<[Effect]>,
    sight: Vec<u64>,
    kernels: Recorded,
    completion: Arc<Completion>,
    /// Its last launch.
    op: Option<Arc<PendingOp>>,
    /// What kernels hand on to those after them. Freed in the order of the stream, so after all launches.
    _between: Memory,
}

impl Capture {
    /// Captures steps on a map's memory, with a completion for as many verbs at least that no launch is using.
    ///
    /// # Safety
    /// It is launched on the stream of the queue, and only while the addresses of the steps lead to as many elements as they
    /// say.
    pub unsafe fn of(
        queue: &Queue<'_>,
        memory: &dyn MapMemory,
        steps: Vec<Command>,
        completion: Arc<Completion>,
    ) -> Result<Self> {
        // Taken first: what a call beside this one changes meanwhile, that marks hold, shows next time.
        let sight = memory.sight();
        // Of one after the other.
        let mut most = 0;
        for step in &steps {
            most = most.max(bytes_of_each(memory.hands_on(step), step.len)?);
        }
        let between = Memory::new(&queue.stream, most)?;
        let recorder = Recorder::new(queue.receiver.device())?;
        let on = LaunchOn::Recorder(&recorder);
        for (verb, step) in steps.iter().enumerate() {
            if !step.is_empty() {
                // SAFETY: the caller vouches for the addresses whenever this is launched; it is launched on
                // this memory only, and the completion is kept.
                unsafe { memory.launch(on, step, completion.counters(verb), between.ptr()) }?;
            }
        }
        Ok(Self {
            effects: steps.iter().map(Command::effect).collect(),
            steps,
            sight,
            kernels: recorder.finish()?,
            completion,
            op: None,
            _between: between,
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
    pub fn is_of(&self, steps: &[Command], memory: &dyn MapMemory) -> bool {
        self.steps == steps && self.sight == memory.sight()
    }

    /// Waits for its last launch.
    pub fn retire(&self, state: &MapState) -> Result<()> {
        self.op.as_ref().map_or(Ok(()), |op| state.retire(op))
    }

    /// Whether its last launch has ended.
    pub fn has_ended(&self) -> bool {
        self.op.as_ref().is_none_or(|op| op.has_ended())
    }

    /// Launches it, while the memory of its map is held. A thread that still looks at its last call does so
    /// without harm: it is retired.
    ///
    /// # Safety
    /// [`is_of`](Self::is_of) that memory, its last launch is retired, and the addresses of its steps lead to as many
    /// elements as they say until the call has ended.
    pub unsafe fn launch(mut self, queue: &Queue<'_>) -> Result<(Self, Arc<PendingOp>)> {
        let (state, stream) = (queue.receiver.state(), &queue.stream);
        let effects = self.effects.clone();
        let op = state.submit_with(stream, &self.completion, effects, || {
            // SAFETY: the caller's promise.
            unsafe { stream.launch_recorded(&self.kernels) }
        })?;
        self.op = Some(op.clone());
        Ok((self, op))
    }
}
