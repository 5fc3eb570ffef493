//! How much memory a thread has taken since it began with an input.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;

/// More than this is refused: to touch it would take the machine down rather than the test.
const MOST: usize = 8 << 30;

/// Which input is tried, as text for a process that is about to abort.
const WHICH: usize = 160;

struct Account {
    is_open: Cell<bool>,
    held: Cell<isize>,
    peak: Cell<isize>,
    which: Cell<[u8; WHICH]>,
}

thread_local! {
    // Without a destructor, so that it may be used by an allocator.
    static ACCOUNT: Account = const {
        Account {
            is_open: Cell::new(false),
            held: Cell::new(0),
            peak: Cell::new(0),
            which: Cell::new([0; WHICH]),
        }
    };
}

/// The system's allocator, and an account of it: to be the global one of a test that fuzzes.
#[derive(Clone, Copy, Debug)]
pub struct Watched;

/// Begins the account of this thread.
pub fn begin(name: &str, which: &str) {
    ACCOUNT.with(|account| {
        let mut text = [b' '; WHICH];
        let words = name.bytes().chain(*b", ").chain(which.bytes());
        text.iter_mut().zip(words).for_each(|(to, from)| *to = from);
        account.which.set(text);
        account.held.set(0);
        account.peak.set(0);
        account.is_open.set(true);
    });
}

/// Ends it, and says how much was held at the most.
pub fn end() -> usize {
    ACCOUNT.with(|account| {
        account.is_open.set(false);
        account.peak.get().max(0) as usize
    })
}

/// Enters a change of what is held; says whether that may be.
fn change(bytes: isize) -> bool {
    // A thread that is about to end has no account any more.
    let allowed = ACCOUNT.try_with(|account| {
        if !account.is_open.get() {
            return true;
        }
        let held = account.held.get().saturating_add(bytes);
        account.peak.set(account.peak.get().max(held));
        if held > MOST as isize {
            // A caller that cannot do without it aborts next, and all that was printed is lost.
            let mut out = std::io::stderr();
            let _ = out.write_all(&account.which.get());
            let _ = out.write_all(b": asks for more memory than there is\n");
            return false;
        }
        account.held.set(held);
        true
    });
    allowed.unwrap_or(true)
}

/// The size of a layout, which is never more than this type holds.
fn size(layout: Layout) -> isize {
    layout.size() as isize
}

// SAFETY: the system's allocator does the work; the account allocates nothing.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !change(size(layout)) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !change(size(layout)) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        change(-size(layout));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        if !change(new as isize - size(layout)) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.realloc(p, layout, new) }
    }
}
