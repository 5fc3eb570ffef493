//! Stacks for lanes, kept for the next lane: the last one freed is used first, while it is in cache.

use std::io;
use std::sync::Mutex;

use corosensei::stack::{DefaultStack, Stack, StackPointer};

use super::job::lock;

/// The smallest stack that runs a kernel at all.
const MIN_STACK_BYTES: usize = 16 * 1024;

/// Memory pages are at least this large, and caches pick a line's set by its place in the page.
const PAGE: usize = 4096;

/// By how much the tops of consecutive stacks differ modulo a page: the few lines that a waiting
/// lane's stack has in use.
const STRIDE: usize = 5 * 64;

/// A stack whose top is not at the same place in its page as that of the next stack. If it were,
/// the lanes of a warp would push each other out of the same few sets of the first cache.
pub(super) struct LaneStack {
    memory: DefaultStack,
    base: StackPointer,
}

impl LaneStack {
    fn new(bytes: usize, number: usize) -> io::Result<Self> {
        let memory = DefaultStack::new(bytes + PAGE)?;
        let base = memory.base().get() - number % PAGE * STRIDE % PAGE;
        let base = StackPointer::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, base })
    }
}

// SAFETY: the same memory with the same guard page; the base is lower by less than the page that
// was added, and by a multiple of 64, so it is in the stack and aligned.
unsafe impl Stack for LaneStack {
    #[inline]
    fn base(&self) -> StackPointer {
        self.base
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.memory.limit()
    }

    #[cfg(windows)]
    fn teb_fields(&self) -> corosensei::stack::StackTebFields {
        self.memory.teb_fields()
    }

    #[cfg(windows)]
    fn update_teb_fields(&mut self, stack_limit: usize, guaranteed_stack_bytes: usize) {
        self.memory
            .update_teb_fields(stack_limit, guaranteed_stack_bytes);
    }
}

/// How many stacks of one size the process keeps for later launches, of all executors together: each is two
/// mappings, of which Linux gives a process 65,530.
pub(super) const KEPT: usize = 8 * 1024;

/// The stacks that no runner has, by their size. A program with an executor for each of many devices, and a test
/// with one for each of thousands of schedules, need no more of them than what runs at the same time.
static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// Idle stacks of one size.
struct Idle {
    bytes: usize,
    /// How many have been made, for their places in a page.
    made: usize,
    stacks: Vec<LaneStack>,
}

/// Gives the idle stacks of one size to `f`.
fn idle<R>(bytes: usize, f: impl FnOnce(&mut Idle) -> R) -> R {
    let mut all = lock(&IDLE);
    let known = all.iter().position(|idle| idle.bytes == bytes);
    let index = known.unwrap_or_else(|| {
        all.push(Idle {
            bytes,
            made: 0,
            stacks: Vec::new(),
        });
        all.len() - 1
    });
    f(&mut all[index])
}

/// The stacks of one runner while it runs a launch.
pub(super) struct StackPool {
    bytes: usize,
    free: Vec<LaneStack>,
}

impl StackPool {
    /// A pool of stacks of `bytes` bytes each (guard page not counted), empty at first.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            bytes: bytes.max(MIN_STACK_BYTES),
            free: Vec::new(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub(super) fn take(&mut self) -> io::Result<LaneStack> {
        if self.free.is_empty() {
            self.reserve(1)?;
        }
        self.free.pop().ok_or(io::ErrorKind::OutOfMemory.into())
    }

    /// Gets stacks so that as many can be [taken](Self::take) without a failure.
    #[cold]
    pub(super) fn reserve(&mut self, stacks: usize) -> io::Result<()> {
        let missing = stacks.saturating_sub(self.free.len());
        let first = idle(self.bytes, |idle| {
            let from = idle.stacks.len().saturating_sub(missing);
            self.free.extend(idle.stacks.drain(from..));
            let first = idle.made;
            idle.made = first.wrapping_add(stacks.saturating_sub(self.free.len()));
            first
        });
        for number in first.. {
            if self.free.len() >= stacks {
                break;
            }
            self.free.push(LaneStack::new(self.bytes, number)?);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn put(&mut self, stack: LaneStack) {
        self.free.push(stack);
    }

    /// Gives the stacks back to the process, which unmaps those that are too many.
    pub(super) fn release(&mut self) {
        idle(self.bytes, |idle| {
            let room = KEPT.saturating_sub(idle.stacks.len());
            let kept = self.free.len().saturating_sub(room);
            idle.stacks.extend(self.free.drain(kept..));
        });
        self.free.clear();
    }
}

impl Drop for StackPool {
    fn drop(&mut self) {
        self.release();
    }
}

/// How many stacks of so many bytes are idle.
#[cfg(test)]
pub(super) fn idle_stacks(bytes: usize) -> usize {
    idle(bytes, |idle| idle.stacks.len())
}
