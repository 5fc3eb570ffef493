//! How the program ends where it cannot go on: at a signal, in a panic, and without memory ([`crate::allocator`]). No temporary file stays, and but
//! for signals it is one line on standard error and exit code 2, as for any other failure.

use std::any::Any;
use std::panic::{self, PanicHookInfo};
use std::process::ExitCode;

use crate::console::tell;
use crate::error::printable;

/// The exit code of every failure.
pub const FAILURE: u8 = 2;

/// Runs the program.
pub fn guard(work: impl FnOnce() -> ExitCode + panic::UnwindSafe) -> ExitCode {
    #[cfg(unix)]
    signals::install();
    panic::set_hook(Box::new(say));
    panic::catch_unwind(work).unwrap_or(FAILURE.into())
}

/// Says that the program panicked, in one line. `RUST_BACKTRACE` asks for more.
fn say(panic: &PanicHookInfo<'_>) {
    let text = text_of(panic.payload());
    // What `std::thread::spawn` says, which some crates call.
    if let Some(reason) = text.strip_prefix("failed to spawn thread: ") {
        return tell(format_args!(
            "error: cannot start a thread: {}",
            printable(reason)
        ));
    }
    let place = panic.location().map(|place| format!(" at {place}"));
    let place = place.unwrap_or_default();
    tell(format_args!(
        "error: gpumap itself has failed{place}: {}; please report this",
        printable(&text)
    ));
    if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
        tell(std::backtrace::Backtrace::force_capture());
    }
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic").to_owned()
}

#[cfg(unix)]
mod signals {
    use std::mem::MaybeUninit;
    use std::ptr::{null, null_mut};

    use libc::{SA_RESETHAND, SA_RESTART, SIG_IGN, SIGHUP, SIGINT, SIGTERM, SIGXFSZ, c_int};

    /// Takes the signals that users and systems end programs by.
    pub fn install() {
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            // As `nohup` and shells set it for commands in the background.
            if !is_ignored(signal) {
                handle(signal, end, SA_RESETHAND);
            }
        }
        // A write beyond the limit of a file's size then fails as any other. Ignoring the signal would do as well, but programs that
        // this one starts would inherit that.
        handle(SIGXFSZ, pass, SA_RESTART);
    }

    fn is_ignored(signal: c_int) -> bool {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: it is written to, and zeros are one as well.
        let action = unsafe {
            libc::sigaction(signal, null(), action.as_mut_ptr());
            action.assume_init()
        };
        action.sa_sigaction == SIG_IGN
    }

    fn handle(signal: c_int, handler: extern "C" fn(c_int), flags: c_int) {
        // SAFETY: zeros are an action without a mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        // SAFETY: the handlers are async-signal-safe. It fails for no signal of those above.
        unsafe { libc::sigaction(signal, &action, null_mut()) };
    }

    /// Removes what is not finished, and ends by the same signal, as the sender expects.
    extern "C" fn end(signal: c_int) {
        gpumap::file::remove_unfinished();
        // SAFETY: async-signal-safe. `SA_RESETHAND` has put the signal's usual action in place again.
        unsafe { libc::raise(signal) };
    }

    extern "C" fn pass(_: c_int) {}
}
