//! Signals while there is a folder to remove: they are noted, and end the command at its next step.

use anyhow::{Result, bail};

/// From now on a signal does not end the program at once, but at the next [`expect_none`]. A second one ends it as usual.
pub fn put_off() {
    #[cfg(unix)]
    unix::put_off();
}

/// An error if there was a signal since they are put off.
pub fn expect_none() -> Result<()> {
    #[cfg(unix)]
    match unix::NOTED.load(std::sync::atomic::Ordering::Relaxed) {
        0 => {}
        signal => bail!("stopped by signal {signal}"),
    }
    Ok(())
}

#[cfg(unix)]
mod unix {
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicI32, Ordering};

    use libc::{SA_RESETHAND, SA_RESTART, SIG_IGN, SIGHUP, SIGINT, SIGTERM, c_int};

    /// A signal, or 0.
    pub static NOTED: AtomicI32 = AtomicI32::new(0);

    pub fn put_off() {
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            // SAFETY: zeros are an action without a mask, and the handler is async-signal-safe.
            unsafe {
                let mut earlier: libc::sigaction = std::mem::zeroed();
                let mut action = earlier;
                action.sa_sigaction = note as *const () as usize;
                action.sa_flags = SA_RESETHAND | SA_RESTART;
                libc::sigaction(signal, &action, &mut earlier);
                // As `nohup` and shells set it for commands in the background.
                if earlier.sa_sigaction == SIG_IGN {
                    libc::sigaction(signal, &earlier, null_mut());
                }
            }
        }
    }

    extern "C" fn note(signal: c_int) {
        NOTED.store(signal, Ordering::Relaxed);
    }
}
