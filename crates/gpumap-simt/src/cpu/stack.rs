//! Stacks for lanes, kept for the next lane: the last one freed is used first, while it is in cache.

use std::cell::RefCell;
use std::io;

use corosensei::stack::{DefaultStack, Stack, StackPointer};

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
        let base = memory.base().get() - number * STRIDE % PAGE;
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

/// Stacks that a thread keeps from runners that are gone. Tests make an executor for each of
/// thousands of schedules, and mapping its stacks would take longer than running it.
const SPARE: usize = 1024;

thread_local! {
    /// By their size.
    static SPARES: RefCell<Vec<(usize, LaneStack)>> = const { RefCell::new(Vec::new()) };
}

/// A spare stack of this size.
fn spare(bytes: usize) -> Option<LaneStack> {
    SPARES.with_borrow_mut(|spares| {
        let (size, _) = spares.last()?;
        let fits = *size == bytes;
        fits.then(|| spares.pop()).flatten().map(|(_, stack)| stack)
    })
}

/// The stacks of one runner.
pub(super) struct StackPool {
    bytes: usize,
    made: usize,
    free: Vec<LaneStack>,
}

impl StackPool {
    /// A pool of stacks of `bytes` bytes each (guard page not counted), empty at first.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            bytes: bytes.max(MIN_STACK_BYTES),
            made: 0,
            free: Vec::new(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub(super) fn take(&mut self) -> io::Result<LaneStack> {
        if let Some(stack) = self.free.pop() {
            return Ok(stack);
        }
        self.make()
    }

    fn make(&mut self) -> io::Result<LaneStack> {
        let stack = match spare(self.bytes) {
            Some(stack) => stack,
            None => LaneStack::new(self.bytes, self.made + 1)?,
        };
        self.made += 1;
        Ok(stack)
    }

    /// Allocates stacks so that as many can be [taken](Self::take) without a failure.
    pub(super) fn reserve(&mut self, stacks: usize) -> io::Result<()> {
        while self.free.len() < stacks {
            let stack = self.make()?;
            self.free.push(stack);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn put(&mut self, stack: LaneStack) {
        self.free.push(stack);
    }

    /// How many stacks there are, and how many of them are free.
    #[cfg(test)]
    pub(super) fn count(&self) -> (usize, usize) {
        (self.made, self.free.len())
    }
}

impl Drop for StackPool {
    fn drop(&mut self) {
        // A thread that ends keeps nothing.
        let _ = SPARES.try_with(|spares| {
            let mut spares = spares.borrow_mut();
            let room = SPARE.saturating_sub(spares.len());
            let kept = self.free.drain(..).take(room);
            spares.extend(kept.map(|stack| (self.bytes, stack)));
        });
    }
}
