//! Queries that the driver refuses to answer: they are repeated.
//!
//! Errors of the driver are of two kinds. After most, *the context is gone*: no kernel runs any more,
//! and none will. After a [refusal](DriverCode::is_refusal) *nothing is known*: the call did nothing,
//! and what was queued goes on. A wait that was refused must therefore not be taken for the end of
//! the work: memory would be handed back that the device still reads or writes.

use std::thread;
use std::time::{Duration, Instant};

#[cfg(doc)]
use crate::error::DriverCode;
use crate::error::{Error, Result};

/// Between two waits that are refused for long.
const PAUSE: Duration = Duration::from_millis(5);

/// How long a query is repeated. A refusal lasts as long as the graph capture that causes it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Queries the driver, and repeats the query while it refuses to answer because of a graph capture.
/// The library's calls are [exempt](super::relaxed) from refusals because of *other* streams, so one
/// here means that the stream itself is being captured; then it has no end before the capture has.
///
/// Returns a refusal if it lasts for a minute, and at once in a callback of the driver, where no
/// query is allowed. Every caller then leaves what may be in use as it is.
pub(crate) fn until_answered<T>(mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    let mut pause = Duration::from_micros(20);
    let mut since: Option<Instant> = None;
    loop {
        let answer = ask();
        let Err(Error::Driver { call, code }) = &answer else {
            return answer;
        };
        if !code.is_capture() {
            return answer;
        }
        let start = *since.get_or_insert_with(|| {
            tracing::debug!(call, %code, "the driver refuses a wait because of a graph capture");
            Instant::now()
        });
        if start.elapsed() >= PATIENCE {
            tracing::warn!(call, %code, "the driver has refused a wait for a minute");
            return answer;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Repeats a wait for as long as a graph capture keeps the driver from answering: for callers that can leave nothing as it is.
pub(crate) fn until_ended(mut wait: impl FnMut() -> Result<()>) {
    while wait().is_err_and(|error| error.is_of_capture()) {
        thread::sleep(PAUSE);
    }
}
