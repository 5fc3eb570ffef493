//! The only place that prints, and it never panics; a lint of the crate refuses `println!` and its like.
//!
//! Standard output has results, so a write to it that fails is an error. Standard error has summaries, warnings and
//! errors: where they cannot be written the job goes on, and the exit code says how it ended.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Prints a text on standard output.
pub fn print(text: impl Display) -> Result<()> {
    let mut out = Output;
    let written = write!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|source| Error::Write {
        path: "-".into(),
        source,
    })
}

/// Prints a line on standard output.
pub fn print_line(line: impl Display) -> Result<()> {
    print(format_args!("{line}\n"))
}

/// Prints a line on standard error, if it can be written.
pub fn tell(line: impl Display) {
    // In one write, so that lines of several processes do not mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Standard output. It fails where it was closed when the program started.
#[derive(Debug)]
pub struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if WAS_CLOSED.load(Ordering::Relaxed) {
            return Err(closed());
        }
        io::stdout().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Whether standard output was closed when the program started. Rust's runtime then opens `/dev/null` in its place before
/// `main`, and results would be lost without a word.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The system's own error for it.
fn closed() -> io::Error {
    #[cfg(unix)]
    {
        io::Error::from_raw_os_error(libc::EBADF)
    }
    #[cfg(not(unix))]
    {
        io::ErrorKind::NotConnected.into()
    }
}

/// What the loader calls before Rust's runtime starts.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section takes pointers to such functions, and this one needs nothing of Rust's runtime.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        // SAFETY: it asks for the flags of a descriptor, open or not.
        if unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1 {
            WAS_CLOSED.store(true, Ordering::Relaxed);
        }
    }
    look
};
