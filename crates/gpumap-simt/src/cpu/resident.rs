//! A block together with the coroutines of its lanes. A lane gets a stack when it first runs and
//! gives it back when it ends, so a kernel whose lanes never wait uses one stack.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use corosensei::{Coroutine, CoroutineResult};

use super::block::Block;
use super::fault::FaultKind;
use super::lane::{Lane, PanicRecord, enter};
use super::panic::message;
use super::stack::{LaneStack, StackPool};

type LaneCoroutine = Coroutine<(), (), (), LaneStack>;

/// A kernel body.
pub(super) type Body<'a> = &'a (dyn Fn() + Sync);

/// A block in one of the scheduler's slots. Between blocks it holds no coroutine.
pub(super) struct Resident {
    /// In an `Rc` because lanes hold pointers into it: its address must not depend on this struct.
    pub(super) block: Rc<Block>,
    coroutines: Vec<Option<LaneCoroutine>>,
}

impl Resident {
    pub(super) fn new(block: Block, threads: u32) -> Self {
        let coroutines = (0..threads).map(|_| None).collect();
        Self {
            block: Rc::new(block),
            coroutines,
        }
    }

    /// Runs lane `thread` until it waits, hands over or ends.
    ///
    /// # Safety
    /// `body` is the same for all lanes of a block and is fit to run on this grid; the block is
    /// driven to its end or cancelled before `body` goes away.
    #[inline]
    pub(super) unsafe fn resume(&mut self, thread: usize, body: Body<'_>, stacks: &mut StackPool) {
        let block = &*self.block;
        let lane = block.lane(thread);
        let coroutine = match &mut self.coroutines[thread] {
            Some(coroutine) => coroutine,
            empty => match stacks.take() {
                Ok(stack) => {
                    lane.begin(block);
                    // SAFETY: the lane lives in the block, the caller keeps `body`, and both outlive
                    // the coroutine, which ends or is unwound before the block is reused.
                    empty.insert(unsafe { spawn(stack, lane, body) })
                }
                Err(error) => {
                    return block.raise(FaultKind::StackAllocation {
                        lane: lane.reference(),
                        bytes: stacks.bytes(),
                        error: error.kind(),
                    });
                }
            },
        };
        if let CoroutineResult::Return(()) = enter(lane, || coroutine.resume(())) {
            self.retire(thread, stacks);
        }
    }

    /// Books the end of a lane and takes its stack back.
    fn retire(&mut self, thread: usize, stacks: &mut StackPool) {
        let lane = self.block.lane(thread);
        if let Some(coroutine) = self.coroutines[thread].take() {
            stacks.put(coroutine.into_stack());
        }
        match lane.panic.take() {
            Some(record) => self.block.raise(FaultKind::Panic {
                lane: lane.reference(),
                message: record.message,
                site: record.site,
            }),
            None => self.block.exit(lane),
        }
    }

    /// Unwinds the lanes that have not ended.
    #[cold]
    pub(super) fn cancel(&mut self, stacks: &mut StackPool) {
        self.block.cancel();
        for (thread, slot) in self.coroutines.iter_mut().enumerate() {
            if let Some(mut coroutine) = slot.take() {
                let lane = self.block.lane(thread);
                enter(lane, || end(&mut coroutine));
                lane.panic.set(None);
                stacks.put(coroutine.into_stack());
            }
        }
        self.block.live.set(0);
    }

    pub(super) fn idle(&self) -> bool {
        self.block.live.get() == 0
    }
}

/// Unwinds a suspended lane.
fn end(coroutine: &mut LaneCoroutine) {
    if cfg!(panic = "unwind") {
        coroutine.force_unwind();
    } else {
        // SAFETY: without unwinding nothing on the stack could be dropped anyway; it is leaked, and
        // a kernel body keeps nothing on its stack that others point to.
        unsafe { coroutine.force_reset() };
    }
}

/// # Safety
/// `lane` and `body` outlive the coroutine.
unsafe fn spawn(stack: LaneStack, lane: &Lane, body: Body<'_>) -> LaneCoroutine {
    // SAFETY: the caller keeps what the closure borrows.
    unsafe {
        Coroutine::with_stack_unchecked(stack, move |yielder, ()| {
            lane.set_yielder(yielder);
            // Catching here and not at the resume also ends a cancelled lane's unwinding.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
                let record = lane.panic.take().unwrap_or_else(|| {
                    Box::new(PanicRecord {
                        message: message(&*payload),
                        site: None,
                    })
                });
                lane.panic.set(Some(record));
                // A payload may panic when dropped, and this is the root of a stack.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
            }
        })
    }
}
