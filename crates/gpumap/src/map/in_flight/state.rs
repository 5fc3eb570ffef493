//! [`MapState`]: the host state of a map, and how calls are submitted and retired in it.

use std::sync::Arc;

use gpumap_kernels::count::{Counters, MIRRORED};

use super::{Alarm, Completion, Effect, InFlight, PendingOp, State};
use crate::device::Device;
use crate::error::{Error, Result, expect_room};
use crate::lock::{Lock, WriteGuard};
use crate::occupancy::{Occupancy, Reservation};
use crate::stream::{Stream, launches_started};
use crate::strings::expect_strings;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};

/// Completions that are made together at least: page-locked memory is slow to get.
const COMPLETIONS: usize = 64;

/// The host state of a map: what calls in flight change when they are retired. Answers that are still to come share them with
/// the map, and may outlive it.
///
/// # Invariant
/// A call on a stream returns, and opens the lock of the map's memory, while the device still reads that memory. So
/// 1. a call is [submitted](Self::submit) under the shared lock of all memory that it uses, and is in flight when that opens;
/// 2. **what moves or frees such memory, or writes to it as no call beside others may, has the lock by
///    [`alone`](Self::alone)**, and never by [`Lock::write`];
/// 3. the map drops its state, which waits for the calls in flight, before its memory.
#[derive(Debug)]
pub struct MapState {
    pub occupancy: Occupancy,
    pub slots: AtomicUsize,
    /// Whether a write failed half-way.
    pub poisoned: AtomicBool,
    /// Calls on streams of the caller.
    pub in_flight: InFlight,
}

impl MapState {
    /// That of an empty map of so many slots, with room for so many pairs. A map of which calls in flight only read has an
    /// occupancy that nothing looks at.
    pub fn new(device: &Device, capacity: usize, slots: usize) -> Self {
        Self {
            occupancy: Occupancy::new(capacity),
            slots: AtomicUsize::new(slots),
            poisoned: AtomicBool::new(false),
            in_flight: InFlight::new(device),
        }
    }

    /// What the lock guards, alone: no call is in flight, and none begins.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses to wait for calls in flight; [`Error::Nested`].
    pub fn alone<'l, T>(&self, lock: &'l Lock<T>) -> Result<WriteGuard<'l, T>> {
        let guard = lock.write()?;
        self.retire_all()?;
        Ok(guard)
    }

    /// Room for so many pairs beside other calls, if there is.
    pub fn reserve_pairs(&self, pairs: usize) -> Option<Reservation<'_>> {
        self.occupancy.reserve_pairs(pairs).or_else(|| {
            // A call that has ended meanwhile may have stored less than it reserved.
            self.retire_ended();
            self.occupancy.reserve_pairs(pairs)
        })
    }

    /// A completion that no call is using. Those of calls that are never waited for come back
    /// here: so there are not many more than calls in flight.
    fn completion(&self) -> Result<Completion> {
        let in_flight = &self.in_flight;
        if let Some(completion) = in_flight.idle.lock().pop() {
            return Ok(completion);
        }
        self.retire_ended();
        let pending = in_flight.count.load(Ordering::Acquire);
        // Enough for many calls: to look at all pending calls takes long if they are many.
        if in_flight.idle.lock().len() <= pending / 8 {
            let more = COMPLETIONS.max(pending / 2);
            let mut completions = Completion::allocate(&in_flight.device, more, 1)?;
            in_flight.idle.lock().append(&mut completions);
        }
        let completion = in_flight.idle.lock().pop();
        // Others have taken all of them meanwhile.
        completion.map_or_else(|| self.completion(), Ok)
    }

    /// Queues a call: `launch` gets the counters that its kernel adds to. To be called under the
    /// table's shared lock.
    ///
    /// If `launch` fails, nothing is in flight: what it has launched has ended, unless the error is of a graph capture, whose end
    /// is not waited for, as this very thread may have to end it.
    pub fn submit(
        &self,
        stream: &Stream,
        effect: Effect,
        launch: impl FnOnce(Counters) -> Result<()>,
    ) -> Result<Arc<PendingOp>> {
        let completion = Arc::new(self.completion()?);
        let counters = completion.counters(0);
        self.submit_with(stream, &completion, Arc::new([effect]), || launch(counters))
    }

    /// As [`submit`](Self::submit), of all verbs of a completion, with which nothing is in flight. If
    /// this fails, its counters are unknown, and it must not be used again.
    pub fn submit_with(
        &self,
        stream: &Stream,
        completion: &Arc<Completion>,
        effects: Arc<[Effect]>,
        launch: impl FnOnce() -> Result<()>,
    ) -> Result<Arc<PendingOp>> {
        let writes = effects.iter().any(|effect| effect.writes());
        let before = launches_started();
        if let Err(error) = launch() {
            if launches_started() != before {
                if writes {
                    // It may have ended anywhere.
                    self.poisoned.store(true, Ordering::Release);
                }
                // Of several kernels, the first may be running.
                stream.finish_after(&error);
            }
            return Err(error);
        }
        if let Err(error) = completion.event.record(stream) {
            // The kernel runs, and what it counts is lost.
            if writes {
                self.poisoned.store(true, Ordering::Release);
            }
            stream.finish_after(&error);
            return Err(error);
        }
        let state = State::Pending(completion.clone(), effects);
        let op = Arc::new(PendingOp {
            state: Mutex::new(state),
            alarm: Alarm::default(),
        });
        let mut open = self.in_flight.open.lock();
        open.push(op.clone());
        self.in_flight.count.store(open.len(), Ordering::Release);
        drop(open);
        Ok(op)
    }

    /// Waits for a call, and enters its counts.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses the wait: the call goes on, and is not entered. How
    /// it ended otherwise, well or not, its [answer](PendingOp::take) says.
    pub fn retire(&self, op: &Arc<PendingOp>) -> Result<()> {
        let (completion, effects) = match &*op.state.lock() {
            State::Pending(completion, effects) => (completion.clone(), effects.clone()),
            _ => return Ok(()),
        };
        // Without the lock: others may query its progress meanwhile.
        let refused = match completion.event.synchronize() {
            Err(error) if error.is_refusal() => Err(error),
            ended => {
                if self.enter_once(op, &completion, &effects, ended) {
                    self.close(|other| !Arc::ptr_eq(other, op));
                }
                Ok(())
            }
        };
        self.recycle(completion);
        refused
    }

    /// Enters the counts of a call that has ended, unless another thread was faster; says whether it
    /// has. It is to be [closed](Self::close) then.
    fn enter_once(
        &self,
        op: &PendingOp,
        completion: &Completion,
        effects: &[Effect],
        ended: Result<()>,
    ) -> bool {
        let mut state = op.state.lock();
        if !matches!(*state, State::Pending(..)) {
            return false;
        }
        *state = State::Retired(match ended {
            Ok(()) => {
                let enter = |(verb, &effect)| match effect {
                    Effect::Read => Ok(0),
                    _ => self.enter(effect, completion.read(verb)),
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

    /// Leaves only some calls open: the others are retired.
    fn close(&self, stays: impl FnMut(&Arc<PendingOp>) -> bool) {
        let mut open = self.in_flight.open.lock();
        open.retain(stays);
        self.in_flight.count.store(open.len(), Ordering::Release);
    }

    /// Lets other calls have a completion: by the last thread that waited, and of a graph that is
    /// gone, since its event must not be recorded again before. A call that goes on keeps its own.
    fn recycle(&self, completion: Arc<Completion>) {
        if let Some(completion) = Arc::into_inner(completion) {
            self.in_flight.idle.lock().push(completion);
        }
    }

    fn enter(&self, effect: Effect, [first, second]: [u64; MIRRORED]) -> Result<usize> {
        let (count, unplaced) = (first as usize, second);
        match effect {
            Effect::Read | Effect::Update => {}
            Effect::ReadStrings(layout) => {
                expect_strings(layout, [first, second])?;
                return Ok(0);
            }
            Effect::Dump { room } => expect_room(count, room)?,
            Effect::Remove => self.occupancy.removed(count),
            Effect::Store { keys } => {
                self.occupancy.release(keys, count);
                if unplaced != 0 {
                    return Err(Error::Full {
                        len: self.occupancy.len(),
                        slots: self.slots.load(Ordering::Acquire),
                        batch: keys,
                        unplaced: unplaced as usize,
                        partial: true,
                        growth: None,
                    });
                }
            }
        }
        Ok(count)
    }

    /// Waits for all pending calls. Under the exclusive lock there are none after this.
    ///
    /// # Errors
    /// As [`retire`](Self::retire): then some go on.
    pub fn retire_all(&self) -> Result<()> {
        if self.in_flight.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let open = self.in_flight.open.lock().clone();
        open.iter().try_for_each(|op| self.retire(op))
    }

    /// Enters the counts of the calls that have ended, and says whether that is all of them.
    pub fn all_retired(&self) -> bool {
        self.retire_ended();
        self.in_flight.count.load(Ordering::Acquire) == 0
    }

    /// Enters the counts of the calls that have ended.
    pub fn retire_ended(&self) {
        if self.in_flight.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let open = self.in_flight.open.lock().clone();
        let mut retired = false;
        for op in &open {
            let (completion, effects) = match &*op.state.lock() {
                State::Pending(completion, effects) => (completion.clone(), effects.clone()),
                _ => continue,
            };
            let ended = match completion.event.is_done() {
                Ok(is_done) => is_done.then_some(Ok(())),
                Err(error) if error.is_refusal() => None,
                Err(_) => Some(completion.event.synchronize()),
            };
            // Unless nothing is known: it is queried again next time.
            if let Some(ended) = ended {
                retired |= self.enter_once(op, &completion, &effects, ended);
            }
            self.recycle(completion);
        }
        if retired {
            self.close(|op| op.is_pending());
        }
    }
}
