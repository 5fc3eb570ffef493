//! [`Rendezvous`]: where the ranks of one process meet.
//!
//! A meeting is over when every rank has come. The last one does the work of the meeting, while the
//! others wait and cannot leave: so their memory may be read and written in it.

use std::any::Any;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{hint, thread};

use parking_lot::{Condvar, Mutex};

use super::error::GroupError;
use crate::error::{Error, Result};

/// What a rank brings; of one type for all ranks that make the same call.
type Contribution = Box<dyn Any + Send>;
/// What comes of it.
type Outcome = Arc<dyn Any + Send + Sync>;
/// What comes of a meeting of ranks at different calls.
struct OutOfStep;

/// Devices that work on parts of the same size are done within less.
const ALERT: Duration = Duration::from_micros(200);

/// Where the ranks of one process meet.
pub(super) struct Rendezvous {
    timeout: Duration,
    /// How long a rank looks for the others before it goes to sleep: for that takes the system longer than
    /// most meetings.
    alert: Duration,
    /// How many meetings there have been, for waits that poll.
    met: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// How many meetings there have been.
    meeting: u64,
    contributions: Vec<Option<Contribution>>,
    outcome: Option<Outcome>,
    /// Ranks whose work is over, in the order in which they left, and whether it went well.
    left: Vec<(usize, bool)>,
    ended: Option<End>,
}

/// Why a group was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The work of this rank panicked.
    Panicked(usize),
    /// This rank said so.
    Aborted(usize),
    /// Some rank did not come in time.
    Silent,
}

impl Rendezvous {
    pub(super) fn new(ranks: usize, timeout: Duration) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            timeout,
            alert: if ranks < cores { ALERT } else { Duration::ZERO },
            met: AtomicU64::new(0),
            state: Mutex::new(State {
                meeting: 0,
                contributions: (0..ranks).map(|_| None).collect(),
                outcome: None,
                left: Vec::new(),
                ended: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// Brings something, and returns what came of the meeting. `finish` is called by one rank, with
    /// what each brought, while all others wait; with none it says that this does not fit together, which is
    /// [`GroupError::OutOfStep`] on all ranks.
    pub(super) fn meet<P: Send + 'static, R: Send + Sync + 'static>(
        &self,
        rank: usize,
        contribution: P,
        finish: impl FnOnce(Vec<P>) -> Option<R>,
    ) -> Result<Arc<R>> {
        let mut state = self.state.lock();
        self.expect_all(&state)?;
        state.contributions[rank] = Some(Box::new(contribution));
        if state.contributions.iter().all(Option::is_some) {
            let contributions = state.contributions.iter_mut().filter_map(Option::take);
            let contributions: Option<Vec<P>> = contributions
                .map(|contribution| {
                    contribution
                        .downcast()
                        .ok()
                        .map(|contribution| *contribution)
                })
                .collect();
            let outcome: Outcome = match contributions.and_then(finish) {
                Some(outcome) => Arc::new(outcome),
                None => Arc::new(OutOfStep),
            };
            state.outcome = Some(outcome);
            state.meeting += 1;
            self.met.store(state.meeting, Ordering::Release);
            self.changed.notify_all();
        } else {
            let meeting = state.meeting;
            if !self.alert.is_zero() {
                drop(state);
                self.look(meeting);
                state = self.state.lock();
            }
            // None if there is no such time: then it is waited for as long as it takes.
            let deadline = Instant::now().checked_add(self.timeout);
            while state.meeting == meeting {
                if let Err(error) = self.expect_all(&state) {
                    state.contributions[rank] = None;
                    return Err(error);
                }
                let late = match deadline {
                    Some(deadline) => self.changed.wait_until(&mut state, deadline).timed_out(),
                    None => {
                        self.changed.wait(&mut state);
                        false
                    }
                };
                if late && state.meeting == meeting {
                    state.ended.get_or_insert(End::Silent);
                    self.changed.notify_all();
                }
            }
        }
        // The next meeting needs this rank, so the outcome is still that of this one.
        let outcome = state.outcome.clone().and_then(|any| any.downcast().ok());
        outcome.ok_or(Error::Group(GroupError::OutOfStep))
    }

    /// Returns when a meeting is over, or the rank has to sleep.
    fn look(&self, meeting: u64) {
        let begin = Instant::now();
        while self.met.load(Ordering::Acquire) == meeting && begin.elapsed() < self.alert {
            hint::spin_loop();
        }
    }

    /// An error if some rank will not come any more.
    fn expect_all(&self, state: &State) -> Result<()> {
        let error = match state.ended {
            Some(End::Panicked(rank)) => GroupError::Panicked { rank },
            Some(End::Aborted(rank)) => GroupError::Failed { rank },
            Some(End::Silent) => GroupError::Silent {
                waited: self.timeout,
            },
            None => match state.left.first() {
                Some(&(rank, true)) => GroupError::Left { rank },
                Some(&(rank, false)) => GroupError::Failed { rank },
                None => return Ok(()),
            },
        };
        Err(Error::Group(error))
    }

    /// Begins: no rank has left, none has come.
    pub(super) fn open(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return Err(Error::Group(GroupError::Ended));
        }
        state.left.clear();
        state.contributions.fill_with(|| None);
        Ok(())
    }

    /// The work of a rank is over, well or not: ranks that wait for it need not any longer.
    pub(super) fn leave(&self, rank: usize, well: bool) {
        self.state.lock().left.push((rank, well));
        self.changed.notify_all();
    }

    /// Gives the group up, unless it was before.
    pub(super) fn end(&self, why: End) {
        self.state.lock().ended.get_or_insert(why);
        self.changed.notify_all();
    }
}

impl std::fmt::Debug for Rendezvous {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Rendezvous")
            .field("meeting", &state.meeting)
            .field("ended", &state.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendezvous(ranks: usize) -> Rendezvous {
        Rendezvous::new(ranks, Duration::from_secs(60))
    }

    #[test]
    fn every_rank_gets_what_came_of_each_meeting() {
        for alert in [Duration::ZERO, ALERT] {
            let rendezvous = Rendezvous {
                alert,
                ..rendezvous(3)
            };
            meet_often(&rendezvous);
        }
    }

    fn meet_often(rendezvous: &Rendezvous) {
        thread::scope(|scope| {
            for rank in 0..3u64 {
                scope.spawn(move || {
                    for round in 0..1000 {
                        let contribution = round * 10 + rank;
                        let all = rendezvous.meet(rank as usize, contribution, Some).unwrap();
                        assert_eq!(*all, [round * 10, round * 10 + 1, round * 10 + 2]);
                    }
                });
            }
        });
    }

    #[test]
    fn nobody_waits_for_who_has_left_panicked_or_is_late() {
        let of_two = |act: &(dyn Fn(&Rendezvous) + Sync), timeout| {
            let rendezvous = Rendezvous::new(2, timeout);
            thread::scope(|scope| {
                let waiting = scope
                    .spawn(|| rendezvous.meet(0, 1, |contributions: Vec<i32>| Some(contributions)));
                act(&rendezvous);
                waiting.join().unwrap().unwrap_err()
            })
        };
        let long = Duration::from_secs(600);
        let left = of_two(&|rendezvous| rendezvous.leave(1, true), long);
        assert!(
            matches!(left, Error::Group(GroupError::Left { rank: 1 })),
            "{left}"
        );
        let failed = of_two(&|rendezvous| rendezvous.leave(1, false), long);
        assert!(
            matches!(failed, Error::Group(GroupError::Failed { rank: 1 })),
            "{failed}"
        );
        let ever = of_two(&|rendezvous| rendezvous.leave(1, true), Duration::MAX);
        assert!(
            matches!(ever, Error::Group(GroupError::Left { rank: 1 })),
            "{ever}"
        );
        let panicked = of_two(&|rendezvous| rendezvous.end(End::Panicked(1)), long);
        assert!(
            matches!(panicked, Error::Group(GroupError::Panicked { rank: 1 })),
            "{panicked}"
        );
        let late = of_two(&|_| (), Duration::from_millis(20));
        assert!(
            matches!(late, Error::Group(GroupError::Silent { .. })),
            "{late}"
        );
    }

    #[test]
    fn different_calls_are_found_out() {
        let out_of_step = |error| matches!(error, Some(Error::Group(GroupError::OutOfStep)));
        let two = rendezvous(2);
        thread::scope(|scope| {
            let one = scope.spawn(|| two.meet(0, 1u8, |_| Some(())).err());
            let other = two
                .meet(1, "one", |contributions| Some(contributions.len()))
                .err();
            assert!(out_of_step(one.join().unwrap()) && out_of_step(other));
        });
        // The same call, with what does not fit together.
        let three = rendezvous(3);
        thread::scope(|scope| {
            let gather =
                |rank: usize| crate::sharded::direct::gather(&three, rank, &[7; 4][..rank]);
            let threads = [0, 1, 2].map(|rank| scope.spawn(move || gather(rank).err()));
            assert!(
                threads
                    .map(|thread| thread.join().unwrap())
                    .into_iter()
                    .all(out_of_step)
            );
        });
    }
}
