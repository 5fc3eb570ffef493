//! What a map does when a write to it fails half-way: its contents are unknown, so it is not used again
//! until it is cleared.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::scratch::Workspace;

/// Refuses to touch a map whose contents are not known.
pub(crate) fn expect_sound(poisoned: &AtomicBool) -> Result<()> {
    if poisoned.load(Ordering::Acquire) {
        return Err(Error::Poisoned);
    }
    Ok(())
}

/// Queues writes to a map and waits for them. If that fails, part of them may have happened.
///
/// To be called, and to return, under the map's lock: the device is done with the map then, also
/// after a failure.
pub(crate) fn or_poison<T>(
    poisoned: &AtomicBool,
    scratch: &mut Workspace,
    work: impl FnOnce(&mut Workspace) -> Result<T>,
) -> Result<T> {
    let outcome = work(scratch);
    if outcome.is_err() {
        poisoned.store(true, Ordering::Release);
        // The first error says more than one of this wait could.
        let _ = scratch.stream().finish();
    }
    outcome
}

/// As [`or_poison`], for writes that kernels make and nothing else: if none of the call's has started, the
/// map is as it was.
pub(crate) fn or_poison_if_launched<T>(
    poisoned: &AtomicBool,
    scratch: &mut Workspace,
    work: impl FnOnce(&mut Workspace) -> Result<T>,
) -> Result<T> {
    let outcome = work(scratch);
    if outcome.is_err() {
        if scratch.has_launched() {
            poisoned.store(true, Ordering::Release);
        }
        // The caller's arrays may be on their way to the device.
        let _ = scratch.stream().finish();
    }
    outcome
}
