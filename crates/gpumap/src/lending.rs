//! Lending a map to kernels of other crates: launching them, waiting, and counting what they did.

use std::sync::atomic::{AtomicBool, Ordering};

use gpumap_kernels::map_ref::{Counts, STRIPES, SlotKind};

use crate::device::PtxChoice;
use crate::error::{Error, Result};
use crate::scratch::{HostOutput, ScratchRole, Workspace};
use crate::stream::Stream;

/// Words of all counters.
const WORDS: usize = STRIPES as usize * size_of::<Counts>() / size_of::<u64>();

/// What kernels did to a map that was [lent](crate::Map::launch_with) to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "pairs that found no room are not in the map"]
pub struct Tally {
    /// Pairs stored.
    pub inserted: usize,
    /// Pairs removed.
    pub removed: usize,
    /// How often a pair found no room.
    pub full: usize,
}

/// What is known when the kernels have ended.
pub(crate) struct Ended {
    pub(crate) tally: Tally,
    /// Whether the kernels could work with the map's slots.
    fits: bool,
    /// What the caller's launch returned.
    launched: Result<()>,
}

/// Waits for what was launched, also if the launch panics, while the map's memory is locked: then `panicked` is called before.
struct Wait<'a, P: Fn()> {
    stream: &'a Stream,
    panicked: P,
}

impl<P: Fn()> Drop for Wait<'_, P> {
    fn drop(&mut self) {
        (self.panicked)();
        // No caller is left to tell.
        let _ = wait(self.stream);
    }
}

/// Launches kernels on a stream, and waits until they have ended. Returns what became of the launch, and of the wait.
///
/// # Errors
/// [`Error::StreamIsCaptured`]: nothing was launched.
pub(crate) fn launch_and_wait(
    stream: &Stream,
    panicked: impl Fn(),
    launch: impl FnOnce() -> Result<()>,
) -> Result<[Result<()>; 2]> {
    stream.expect_not_captured()?;
    let guard = Wait { stream, panicked };
    let launched = launch();
    std::mem::forget(guard);
    Ok([launched, wait(stream)])
}

/// Waits until kernels of the caller have ended, also if the driver refuses the wait. A stream that is captured now, by the launch
/// or beside it, is not waited for: this thread may be the one that has to end the capture.
fn wait(stream: &Stream) -> Result<()> {
    stream.expect_not_captured()?;
    stream.finish()
}

impl Ended {
    /// What the kernels did, or why they could not.
    pub(crate) fn report(self, slots: SlotKind) -> Result<Tally> {
        self.launched?;
        if self.fits {
            return Ok(self.tally);
        }
        Err(Error::WrongSlots {
            needed: match slots {
                SlotKind::Split => PtxChoice::Sm70,
                SlotKind::Packed | SlotKind::Wide | SlotKind::Keys => PtxChoice::Sm90,
            },
        })
    }
}

/// Launches what takes a map whose events are counted in these [`Counts`], waits and sums them up.
/// `poisoned` is set if it is unknown what the kernels did. The caller holds the lock of the map's
/// memory.
pub(crate) fn lend(
    scratch: &mut Workspace,
    stream: &Stream,
    poisoned: &AtomicBool,
    launch: impl FnOnce(*mut Counts) -> Result<()>,
) -> Result<Ended> {
    let mut counts: HostOutput<u64> = scratch.output(ScratchRole::FirstOutput, WORDS)?;
    let counts_at = counts.as_mut_ptr();
    // SAFETY: as many words.
    unsafe {
        scratch
            .stream()
            .fill(counts_at.cast(), 0, WORDS * size_of::<u64>())
    }?;
    stream.wait_stream(scratch.stream())?;

    let set_poisoned = || poisoned.store(true, Ordering::Release);
    let [launched, waited] = launch_and_wait(stream, set_poisoned, || launch(counts_at.cast()))?;
    let poison = |error| {
        set_poisoned();
        error
    };
    // Such a kernel may have ended anywhere.
    if let Err(error @ (Error::Kernel(_) | Error::Driver { .. })) = launched {
        return Err(poison(error));
    }
    waited.map_err(poison)?;
    let counts = scratch.fetch(counts, WORDS).map_err(poison)?;
    let sum = Counts::sum(&counts);
    Ok(Ended {
        tally: Tally {
            inserted: sum.inserted as usize,
            removed: sum.removed as usize,
            full: sum.full as usize,
        },
        fits: sum.refused == 0,
        launched,
    })
}
