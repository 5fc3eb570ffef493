//! [`Pending`]: the answer of a call that may still be running.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::in_flight::{MapState, PendingOp};
use crate::error::Result;

/// The answer of a call on a stream: to be waited for, on the host with [`wait`](Self::wait) or as a
/// [`Future`], or to be dropped. A call whose answer was dropped takes effect all the same.
///
/// It borrows nothing, so that a program can keep it beside an `Arc<Map>`. If the map is dropped first, that
/// waits for the call, and the answer is still to be had.
///
/// ```
/// use std::collections::VecDeque;
/// use std::sync::Arc;
///
/// use gpumap::{Device, Map, Pending, Result, Stream};
///
/// struct Counter {
///     map: Arc<Map<u64, u64>>,
///     stream: Stream,
///     answers: VecDeque<Pending<usize>>,
/// }
///
/// impl Counter {
///     fn take(&mut self, keys: &[u64]) -> Result<()> {
///         self.answers.push_back(self.map.on(&self.stream).insert(keys, keys)?);
///         Ok(())
///     }
/// }
///
/// let device = Device::best()?;
/// let (map, stream) = (Arc::new(Map::new(&device)?), Stream::new(&device)?);
/// let mut counter = Counter { map, stream, answers: VecDeque::new() };
/// counter.take(&[1, 2, 3])?;
/// counter.take(&[3, 4])?;
/// let Counter { map, answers, .. } = counter;
/// drop(map);
/// let new: Result<Vec<usize>> = answers.into_iter().map(Pending::wait).collect();
/// assert_eq!(new?, [3, 1]);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// It needs no particular executor. When the device is done, the task's waker is called on a thread of
/// this library: it may call any operation and drop anything, but other tasks wait while it runs.
#[must_use = "the answer says how many keys were new or removed, and whether all went well"]
pub struct Pending<T> {
    counts: Counts,
    finish: Finish<T>,
}

enum Counts {
    /// The device may still be at it.
    Pending(Arc<MapState>, Arc<PendingOp>),
    /// The call has waited itself.
    Ready(Option<Vec<usize>>),
}

/// Makes the answer of what the call has counted.
type Finish<T> = Box<dyn Fn(Vec<usize>) -> Result<T> + Send + Sync>;

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("is_done", &self.is_done())
            .finish_non_exhaustive()
    }
}

/// The count of a call that is one verb.
pub(super) fn only(counts: Vec<usize>) -> usize {
    // None if it was polled after it was ready: its caller has had the answer.
    counts.first().copied().unwrap_or(0)
}

impl<T> Pending<T> {
    pub(super) fn of_op(
        state: &Arc<MapState>,
        op: Arc<PendingOp>,
        finish: impl Fn(Vec<usize>) -> Result<T> + Send + Sync + 'static,
    ) -> Self {
        Self {
            counts: Counts::Pending(state.clone(), op),
            finish: Box::new(finish),
        }
    }

    pub(super) fn ready(
        counts: Vec<usize>,
        finish: impl Fn(Vec<usize>) -> Result<T> + Send + Sync + 'static,
    ) -> Self {
        Self {
            counts: Counts::Ready(Some(counts)),
            finish: Box::new(finish),
        }
    }

    /// Whether the answer is there, so that [`wait`](Self::wait) will not wait.
    pub fn is_done(&self) -> bool {
        match &self.counts {
            Counts::Pending(_, op) => op.has_ended(),
            Counts::Ready(_) => true,
        }
    }

    /// Waits for the device.
    ///
    /// # Errors
    /// What the verb may return; those of the device show up here.
    pub fn wait(mut self) -> Result<T> {
        self.take()
    }

    /// The answer, waiting if need be.
    fn take(&mut self) -> Result<T> {
        let counts = match &mut self.counts {
            Counts::Pending(state, op) => {
                state.retire(op)?;
                op.take()?
            }
            // Polled after it was ready: its caller has had the answer.
            Counts::Ready(counts) => counts.take().unwrap_or_default(),
        };
        (self.finish)(counts)
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Counts::Pending(state, op) = &this.counts
            && !op.has_ended()
        {
            match state.in_flight.wake(op, context.waker().clone()) {
                Ok(()) => {}
                // No way to be woken by the device: the task is polled again at once.
                Err(error) => {
                    tracing::debug!(%error, "polling for the device");
                    context.waker().wake_by_ref();
                }
            }
            return Poll::Pending;
        }
        Poll::Ready(this.take())
    }
}
