//! Panics in kernel bodies: recorded with their line instead of printed, because the `Fault` that
//! they become says it all, and because printing a backtrace takes more stack than a lane has.

use std::any::Any;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;

use super::blocks::note_panic;
use super::fault::PanicSite;
use super::lane::{PanicRecord, try_current};
use crate::native;

/// Puts a panic hook in front of the one that is installed; it acts only inside a lane or a native block and hands
/// every other panic on. Without it (a program may install its own later) a fault keeps the message
/// and loses the line.
pub(super) fn install_hook() {
    static ONCE: Once = Once::new();
    if std::thread::panicking() {
        // The hook cannot be changed now; a later executor will.
        return;
    }
    ONCE.call_once(|| {
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |info| match try_current() {
            None if native::is_here() => {
                let record = record(info);
                if aborts(&record.message) {
                    eprintln!("in thread {} of a native block: {info}", native::thread());
                }
                note_panic(record);
            }
            Some(lane) => {
                let record = record(info);
                if aborts(&record.message) {
                    eprintln!("in {} of a kernel: {info}", lane.reference());
                }
                lane.panic.set(Some(Box::new(record)));
            }
            None => next(info),
        }));
    });
}

fn record(info: &PanicHookInfo<'_>) -> PanicRecord {
    PanicRecord {
        message: message(info.payload()),
        site: info.location().map(|at| PanicSite {
            file: at.file().to_owned(),
            line: at.line(),
            column: at.column(),
        }),
    }
}

/// Whether the panic is one of those after which the process aborts, so that no thread will read the
/// record. (`PanicHookInfo::can_unwind` is not stable.)
fn aborts(message: &str) -> bool {
    const ABORTING: [&str; 5] = [
        "unsafe precondition(s) violated",
        "panic in a ",
        "misaligned pointer dereference",
        "null pointer dereference",
        "trying to construct an enum from an invalid value",
    ];
    cfg!(panic = "abort") || ABORTING.iter().any(|start| message.starts_with(start))
}

/// What a panic said.
pub(super) fn message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|&s| s.to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a payload that is not text".to_owned())
}
