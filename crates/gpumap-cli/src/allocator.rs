//! What happens without memory: the program ends with one line and exit code 2.

use std::alloc::{GlobalAlloc, Layout, System};

use crate::ending::FAILURE;

/// The system's allocator, which ends the program where there is no memory: Rust would abort it after four lines, or,
/// with `RUST_BACKTRACE`, wait for ever for memory to print a backtrace.
pub struct Allocator;

// SAFETY: all of it is the system's, which keeps the promises of the trait.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        or_end(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        or_end(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        or_end(unsafe { System.realloc(memory, layout, bytes) })
    }
}

/// Ends the program if there is no memory, and the caller does not take a refusal.
fn or_end(memory: *mut u8) -> *mut u8 {
    if memory.is_null() && !gpumap::allocation_may_fail() {
        end_without_memory();
    }
    memory
}

#[cold]
fn end_without_memory() -> ! {
    const SAID: &[u8] = b"error: out of memory: the system gives the program no more; \
        raise its limit (ulimit -v), or use a machine with more memory\n";
    #[cfg(unix)]
    {
        use std::sync::atomic::{AtomicBool, Ordering};
        static IS_SAID: AtomicBool = AtomicBool::new(false);
        gpumap::file::remove_unfinished();
        // Several threads may be without memory at once: the first says it, and ends the process when it has.
        while IS_SAID.swap(true, Ordering::Relaxed) {
            // SAFETY: it waits for a signal.
            unsafe { libc::pause() };
        }
        // SAFETY: these bytes are there. If it fails, nothing can be said.
        unsafe { libc::write(libc::STDERR_FILENO, SAID.as_ptr().cast(), SAID.len()) };
        // SAFETY: it ends the process without running anything of it, which might want memory.
        unsafe { libc::_exit(FAILURE.into()) };
    }
    #[cfg(not(unix))]
    {
        use std::io::Write;
        let _ = std::io::stderr().write_all(SAID);
        std::process::exit(FAILURE.into());
    }
}
