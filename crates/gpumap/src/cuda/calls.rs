//! The driver calls of a thread, for tests that count them.

use std::cell::RefCell;

thread_local! {
    static CALLS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn note(call: &'static str) {
    CALLS.with_borrow_mut(|calls| calls.push(call));
}

/// The calls since this was last called.
pub(crate) fn take() -> Vec<&'static str> {
    CALLS.take()
}
