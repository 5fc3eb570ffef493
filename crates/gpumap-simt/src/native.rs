//! Blocks that run natively: on one thread, without lanes that take turns.
//!
//! The checked executor makes a coroutine of each lane. A body that [`kernel!`](crate::kernel!) declares
//! `by block` can do without: where [`block`] says so, the functions that its lanes would do together have
//! an implementation for one thread that does the work of the whole block. A body that is declared `by thread` has no
//! such functions, and is called for one thread of the block after the other. Atomics are the processor's,
//! without a point where another lane may run, and loads see what was written last.
//!
//! | in a native block | is |
//! |---|---|
//! | [`thread::block_idx_x`](crate::thread::block_idx_x), [`grid_dim_x`](crate::thread::grid_dim_x), [`block_dim_x`](crate::thread::block_dim_x) | what they are of the grid that was launched |
//! | [`thread::thread_idx_x`](crate::thread::thread_idx_x) | `by thread`, the thread's; `by block`, 0 |
//! | a barrier, a vote, a shuffle, shared memory, [`warp::lane_id`](crate::warp::lane_id), [`thread::nanosleep`](crate::thread::nanosleep) | a panic: there is no lane |

use core::hint::spin_loop;
use core::ptr::null;
use core::sync::atomic::{AtomicBool, Ordering};
use std::cell::Cell;
use std::panic::resume_unwind;
use std::thread::yield_now;

/// The block that a thread runs natively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its index in the grid.
    pub index: u32,
    /// Threads of a block of the grid, whose work it does.
    pub threads: u32,
    /// Blocks of the grid, at least one.
    pub blocks: u32,
}

/// No block.
const NONE: Block = Block {
    index: 0,
    threads: 0,
    blocks: 0,
};

thread_local! {
    static HERE: Cell<Block> = const { Cell::new(NONE) };
    /// The thread of the block whose part is done; behind the block that of its end, so that a panic can be told whose
    /// it was.
    static THREAD: Cell<u32> = const { Cell::new(0) };
    /// Whether the launch of the block has failed; null where there is no block.
    static CANCELLED: Cell<*const AtomicBool> = const { Cell::new(null()) };
}

/// Turns after which a loop that [waits](Waits) lets another thread run: the one that it waits for may need this
/// processor.
const PATIENCE: u32 = 128;

/// The turns of a loop in a native block that waits for what another thread writes.
#[derive(Debug, Default)]
pub struct Waits(u32);

impl Waits {
    /// Passes a turn. Unwinds if the launch has failed, since the block that would write may have ended early; the launch
    /// ends with the fault that was first.
    #[inline(always)]
    pub fn wait(&mut self) {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(PATIENCE) {
            give_way();
        }
        spin_loop();
    }
}

#[cold]
fn give_way() {
    // SAFETY: of the launch whose block runs here, or null.
    let cancelled = unsafe { CANCELLED.get().as_ref() };
    // Relaxed: nothing else is read by it.
    if cancelled.is_some_and(|it| it.load(Ordering::Relaxed)) {
        // Without the panic hook: it is no panic of its own.
        resume_unwind(Box::new("another block of the launch has failed"));
    }
    yield_now();
}

/// The block that this thread runs natively, if it does.
#[inline(always)]
#[must_use]
pub fn block() -> Option<Block> {
    let block = HERE.get();
    (block.blocks != 0).then_some(block)
}

/// Whether this thread runs a block natively.
#[inline(always)]
pub(crate) fn is_here() -> bool {
    HERE.get().blocks != 0
}

/// The thread of the native block whose part is done, or of the last one where it ended.
#[inline(always)]
pub(crate) fn thread() -> u32 {
    THREAD.get()
}

/// Runs `f` for each thread of the native block that runs here.
pub(crate) fn each_thread(f: impl Fn()) {
    for thread in 0..HERE.get().threads {
        THREAD.set(thread);
        f();
    }
}

/// Runs `f` as a block of a launch, which has failed once `cancelled` says so.
pub(crate) fn enter(block: Block, cancelled: &AtomicBool, f: impl FnOnce()) {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            HERE.set(NONE);
            CANCELLED.set(null());
        }
    }
    let _leave = Leave;
    HERE.set(block);
    CANCELLED.set(cancelled);
    THREAD.set(0);
    f();
}

/// Has the cache line of an address fetched, to be read or written soon. Any address will do.
#[inline(always)]
pub fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, and it does nothing for an address that is not mapped.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(p.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) p, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}

/// Copies elements past the cache, where the processor can: for more of them than it holds. Other threads see them behind
/// [`finish_copies`].
///
/// # Safety
/// As for [`copy_nonoverlapping`](core::ptr::copy_nonoverlapping); a `T` has no padding.
#[inline(always)]
pub unsafe fn copy_past_cache<T: Copy>(from: *const T, to: *mut T, len: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise; every x86-64 has the instructions.
    unsafe {
        use std::arch::x86_64::{_mm_stream_si32, _mm_stream_si64};
        // The instructions take whole words: of less alignment there may be padding, or half a word.
        match (size_of::<T>(), align_of::<T>()) {
            (4, 4) => {
                for i in 0..len {
                    _mm_stream_si32(to.cast::<i32>().add(i), *from.cast::<i32>().add(i));
                }
            }
            (8, 8) => {
                for i in 0..len {
                    _mm_stream_si64(to.cast::<i64>().add(i), *from.cast::<i64>().add(i));
                }
            }
            _ => from.copy_to_nonoverlapping(to, len),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        from.copy_to_nonoverlapping(to, len);
    }
}

/// Puts all [copies](copy_past_cache) of this thread before what it writes next.
#[inline(always)]
pub fn finish_copies() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
