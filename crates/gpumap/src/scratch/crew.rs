//! [`Crew`]: lanes by which arrays of the host go to the device, or back, piece by piece.
//!
//! The link of a GPU is several times as fast as one thread copies, and the driver copies to and from
//! plain memory with one. So large arrays are cut into pieces. One thread, the caller's, sees each through its [`Lane`], where others
//! copy what it is given to and from page-locked memory, in parts, all of them at the piece that came first. So some lanes are
//! always on their way, and what the link does never waits for a copy. What is done to a piece between the way there
//! and the way back runs on the lane's stream: so the link is used both ways at once, and beside the kernels.

use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::Slot;
use super::chore::Hands;
use super::cuts::Cuts;
use super::lane::Lane;
use crate::device::Device;
use crate::error::Result;
use crate::map::Pair;

/// What arrays of the host are cut into, and from which size on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Bytes of a batch, in and out, from which it is cut.
    pub from_bytes: usize,
    /// Bytes of a piece at most.
    pub piece_bytes: usize,
    /// Whether threads of their own copy, and not the caller's.
    pub has_hands: bool,
}

/// Lanes of a crew: some are being copied to or from while others are on their way.
const LANES: usize = 8;

/// Bytes of a piece of smaller batches, at least: so that these are several as well.
const LEAST_PIECE: usize = 256 << 10;

/// What part the first piece of a batch is of the largest ones, unless that is less than the least.
const FIRST_PIECE: usize = 16;

/// How many pieces there are before they become larger.
const PIECES: usize = 2 * LANES;

impl Cut {
    /// What pays on a device.
    pub fn of(device: &Device) -> Self {
        if !device.has_own_memory() {
            // Arrays of the host are used where they are.
            return Self::NEVER;
        }
        if !device.is_cuda() {
            return Self::SMALL;
        }
        Self {
            from_bytes: 512 << 10,
            piece_bytes: 8 << 20,
            has_hands: true,
        }
    }

    /// Several pieces of the batches that tests have, in an order that is the same each time.
    const SMALL: Self = Self {
        from_bytes: 64 << 10,
        piece_bytes: 16 << 10,
        has_hands: false,
    };

    const NEVER: Self = Self {
        from_bytes: usize::MAX,
        piece_bytes: 0,
        has_hands: false,
    };
}

/// The lanes that nobody uses now, and how many there are in all.
#[derive(Debug)]
pub(crate) struct Lanes {
    device: Device,
    cut: Cut,
    idle: Mutex<Vec<Lane>>,
    made: AtomicUsize,
}

impl Lanes {
    pub fn new(device: &Device, cut: Cut) -> Arc<Self> {
        Arc::new(Self {
            device: device.clone(),
            cut,
            idle: Mutex::default(),
            made: AtomicUsize::new(0),
        })
    }

    /// Lanes for a batch of so many bytes; none if it is not worth it, or others have all lanes.
    pub fn crew(self: &Arc<Self>, bytes: usize) -> Option<Crew> {
        if bytes < self.cut.from_bytes {
            return None;
        }
        let piece_bytes = (bytes / PIECES)
            .max(LEAST_PIECE)
            .min(self.cut.piece_bytes)
            .max(1);
        let wanted = bytes.div_ceil(piece_bytes).min(LANES);
        let mut idle = mem::take(&mut *self.idle.lock());
        let spare = idle.split_off(idle.len().min(wanted));
        self.idle.lock().extend(spare);
        let fit =
            |lane: Result<Lane>| self.is_to_be_had(lane.and_then(|lane| lane.fit(piece_bytes)));
        let mut lanes: Vec<_> = idle.into_iter().map(Ok).filter_map(fit).collect();
        while lanes.len() < wanted
            && let Some(lane) = self.another().and_then(fit)
        {
            lanes.push(lane);
        }
        lanes.iter_mut().for_each(|lane| lane.begin());
        let crew = Crew {
            of: Arc::clone(self),
            lanes,
            piece_bytes,
        };
        (!crew.lanes.is_empty()).then_some(crew)
    }

    /// One more, unless there are enough.
    fn another(&self) -> Option<Result<Lane>> {
        let one_more = |made: usize| (made < LANES).then_some(made + 1);
        self.made
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()?;
        Some(Lane::new(&self.device))
    }

    /// A lane, or one less if the memory for it cannot be had.
    fn is_to_be_had(&self, lane: Result<Lane>) -> Option<Lane> {
        lane.inspect_err(|error| {
            tracing::debug!(%error, "one lane less between host and device");
            self.made.fetch_sub(1, Ordering::Relaxed);
        })
        .ok()
    }

    /// Frees what no call uses now.
    pub fn trim(&self) {
        let idle = mem::take(&mut *self.idle.lock());
        self.made.fetch_sub(idle.len(), Ordering::Relaxed);
        // Freed after the lock is open again: it waits for the device.
        drop(idle);
    }
}

/// Some lanes, at least one, for the length of one call.
#[derive(Debug)]
pub(crate) struct Crew {
    of: Arc<Lanes>,
    lanes: Vec<Lane>,
    piece_bytes: usize,
}

/// Arrays of the host that are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrays {
    /// For the first time.
    New,
    /// Perhaps not: by the caller before.
    Used,
}

/// Where the lane of a piece is.
enum Stage<P, Q> {
    /// Nowhere, and has none.
    Idle,
    /// Being copied to.
    Loading(P),
    /// At the device.
    Away(Q),
    /// Being copied from.
    Unloading,
}

/// Lanes while there may be chores for them: these are done when it is dropped, also after an error or a panic.
struct AtWork<'l> {
    lanes: &'l mut [Lane],
    hands: &'static Hands,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        for lane in &mut *self.lanes {
            lane.chores.forget();
            while !lane.chores.are_done() {
                self.hands.wait();
            }
        }
    }
}

impl Crew {
    /// How many lanes.
    #[cfg(test)]
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The pieces of a batch of so many pairs.
    pub fn cuts(&self, pair: Pair, pairs: usize) -> Cuts {
        let bytes = pair.key.max(pair.value).max(1);
        let least = (self.piece_bytes / FIRST_PIECE).max(LEAST_PIECE);
        Cuts::new(pairs, least / bytes, self.piece_bytes / bytes)
    }

    /// Room on every lane for each of some pieces of elements of so many bytes: so memory ends before anything is done, or
    /// not at all.
    pub fn reserve(&mut self, slot: Slot, element: usize, cuts: &Cuts) -> Result<()> {
        for lane in &mut self.lanes {
            lane.reserve::<u8>(slot, element * cuts.longest())?;
        }
        Ok(())
    }

    /// Works on parts, several at once, each on a lane. `load` notes what has to be copied there; when that is done, `begin`
    /// queues what is to be done with the part, and says what `end` needs to know, which is called when that has ended:
    /// it waits for the lane, to know whether it has ended well, and notes what has to be copied from there. All three are
    /// called by this thread. The first of them that fails ends it, and then lanes may be at work still; chores are
    /// done in any case.
    pub fn each<P, Q>(
        &mut self,
        parts: impl IntoIterator<Item = P>,
        load: impl Fn(&mut Lane, &mut P),
        begin: impl Fn(&mut Lane, P) -> Result<Q>,
        mut end: impl FnMut(&mut Lane, Q) -> Result<()>,
    ) -> Result<()> {
        let hands = match self.of.cut.has_hands {
            true => Hands::all(),
            false => Hands::none(),
        };
        let at_work = AtWork {
            lanes: &mut self.lanes,
            hands,
        };
        let mut parts = parts.into_iter().fuse();
        // The next step of a lane, if it can be taken now.
        let mut step = |lane: &mut Lane, stage: Stage<P, Q>| -> Result<(Stage<P, Q>, bool)> {
            let after = match stage {
                Stage::Idle => match parts.next() {
                    Some(mut part) => {
                        load(lane, &mut part);
                        lane.chores.give(hands);
                        Stage::Loading(part)
                    }
                    None => return Ok((Stage::Idle, false)),
                },
                Stage::Loading(part) if lane.chores.are_done() => Stage::Away(begin(lane, part)?),
                Stage::Away(begun) if lane.has_ended() => {
                    end(lane, begun)?;
                    lane.chores.give(hands);
                    Stage::Unloading
                }
                Stage::Unloading if lane.chores.are_done() => Stage::Idle,
                waits => return Ok((waits, false)),
            };
            Ok((after, true))
        };
        let mut stages: Vec<_> = at_work.lanes.iter().map(|_| Stage::Idle).collect();
        loop {
            let (mut all_idle, mut goes_on) = (true, false);
            for (lane, stage) in at_work.lanes.iter_mut().zip(&mut stages) {
                let (after, has_moved) = step(lane, mem::replace(stage, Stage::Idle))?;
                *stage = after;
                goes_on |= has_moved;
                all_idle &= matches!(stage, Stage::Idle);
            }
            match (goes_on, all_idle) {
                (true, _) => {}
                (false, true) => return Ok(()),
                (false, false) => hands.wait(),
            }
        }
    }

    /// Copies an array to the device, and waits.
    ///
    /// # Safety
    /// `to` leads to as many bytes of the device that nothing else uses or is queued to use.
    pub unsafe fn upload(&mut self, to: *mut u8, array: &[u8]) -> Result<()> {
        let piece = self.piece_bytes;
        self.each(
            array.chunks(piece).enumerate(),
            // SAFETY: the array is borrowed until chores are done.
            |lane, &mut (_, part)| unsafe { lane.load(0, part) },
            |lane, (i, part)| {
                let to = to.wrapping_add(i * piece);
                // SAFETY: the caller's promise; the array is borrowed until the wait is over.
                unsafe { lane.upload(0, to, part) }
            },
            |lane, ()| lane.wait(),
        )
    }

    /// Copies arrays of the device to the host, and waits. If that fails, some of them have been copied.
    ///
    /// # Safety
    /// Each leads to as many bytes of the device as there are places, that nothing writes to or is
    /// queued to write to.
    pub unsafe fn download<'a>(
        &mut self,
        host: Arrays,
        arrays: impl IntoIterator<Item = (&'a mut [MaybeUninit<u8>], *const u8)>,
    ) -> Result<()> {
        let piece = self.piece_bytes;
        let pieces = arrays.into_iter().flat_map(|(to, from)| {
            let parts = to.chunks_mut(piece).enumerate();
            parts.map(move |(i, part)| (ptr::from_mut(part), from.wrapping_add(i * piece)))
        });
        self.each(
            pieces,
            |lane, (part, _)| {
                if host == Arrays::New {
                    // SAFETY: as in `collect`.
                    unsafe { lane.touch(&mut **part) };
                }
            },
            |lane, (part, from)| {
                // SAFETY: the caller's promise, until the wait is over; the part is this piece's alone.
                unsafe { lane.land::<u8, u8>(from, &mut *part, &mut []) }?;
                Ok(part)
            },
            |lane, part| {
                lane.wait()?;
                // SAFETY: the arrays are borrowed until chores are done.
                unsafe { lane.hand_out::<u8, u8>(&mut *part, &mut []) };
                Ok(())
            },
        )
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for lane in self.lanes.drain(..) {
            // After an error something may still be on its way to or from its memory.
            if lane.wait().is_ok() {
                self.of.idle.lock().push(lane);
            } else {
                self.of.made.fetch_sub(1, Ordering::Relaxed);
                lane.abandon();
            }
        }
    }
}
