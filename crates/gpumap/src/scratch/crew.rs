//! [`Crew`]: several threads that take an array of the host to the device, or back, piece by piece.
//!
//! The link of a GPU is several times as fast as one thread copies, and the driver copies to and from
//! plain memory with one. So large arrays are cut into pieces, which threads take in turn: each has a
//! two [`Lane`]s by turns, copies its piece into page-locked memory of one, lets the device take it from
//! there, and then sees to the piece on the other. So something of each thread is always on its way, and
//! what the link does never waits for a copy. What is done to a piece between the way there and the way
//! back runs on the lane's stream: so the link is used both ways at once, and beside the kernels.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{iter, mem, panic, thread};

use parking_lot::Mutex;

use super::lane::{Berth, Lane};
use crate::device::Device;
use crate::error::Result;
use crate::memory::host_vec;

/// What arrays of the host are cut into, and from which size on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Bytes of a batch, in and out, from which it is cut.
    pub from_bytes: usize,
    /// Bytes of a piece at most.
    pub piece_bytes: usize,
    /// Threads at most; each has [`LANES`].
    pub threads: usize,
}

/// Threads beyond these do not make the link any faster.
const MOST_THREADS: usize = 16;

/// How many times as large pieces are of arrays that the device reaches.
const REACHED: usize = 4;

/// Lanes of a thread: one is on its way while it works on the other.
const LANES: usize = 2;

impl Cut {
    /// What pays on a device.
    pub fn of(device: &Device) -> Self {
        if !device.is_cuda() {
            // Arrays of the host are used where they are.
            return Self::NEVER;
        }
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Self {
            from_bytes: 8 << 20,
            piece_bytes: 2 << 20,
            threads: threads.min(MOST_THREADS),
        }
    }

    const NEVER: Self = Self {
        from_bytes: usize::MAX,
        piece_bytes: 0,
        threads: 0,
    };

    /// How many pairs of elements of these types make a piece: a multiple of 32, so that no word of bits
    /// is of two pieces. Of arrays that the device reaches pieces are larger, since they need no room in berths.
    pub fn pairs<K, V>(&self, is_reached: bool) -> usize {
        let most = size_of::<K>().max(size_of::<V>()).max(1);
        let bytes = self.piece_bytes * if is_reached { REACHED } else { 1 };
        (bytes / most / 32).max(1) * 32
    }
}

/// The lanes that nobody uses now, and how many there are in all.
#[derive(Debug)]
pub(crate) struct Lanes {
    device: Device,
    pub cut: Cut,
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

    /// Threads for a batch of so many bytes; none if it is not worth it, or others have all lanes.
    pub fn crew(self: &Arc<Self>, bytes: usize) -> Option<Crew> {
        if bytes < self.cut.from_bytes {
            return None;
        }
        let wanted = bytes.div_ceil(self.cut.piece_bytes.max(1)).min(self.most());
        let mut lanes = mem::take(&mut *self.idle.lock());
        let spare = lanes.split_off(lanes.len().min(wanted));
        self.idle.lock().extend(spare);
        while lanes.len() < wanted {
            match self.another() {
                Some(lane) => lanes.push(lane),
                None => break,
            }
        }
        let crew = Crew {
            of: Arc::clone(self),
            lanes,
        };
        (!crew.lanes.is_empty()).then_some(crew)
    }

    /// How many there are at most.
    fn most(&self) -> usize {
        LANES * self.cut.threads
    }

    /// One more, unless there are enough or the memory for it cannot be had.
    fn another(&self) -> Option<Lane> {
        let one_more = |made: usize| (made < self.most()).then_some(made + 1);
        self.made
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()?;
        match Lane::new(&self.device, self.cut.piece_bytes) {
            Ok(lane) => Some(lane),
            Err(error) => {
                tracing::debug!(%error, "one lane less between host and device");
                self.made.fetch_sub(1, Ordering::Relaxed);
                None
            }
        }
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
}

/// Lets what the threads of one call share be sent to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared<T>(T);

// SAFETY: who makes one says so.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T: Copy> Shared<T> {
    /// # Safety
    /// The threads use what this leads to in parts that do not overlap.
    pub unsafe fn new(shared: T) -> Self {
        Self(shared)
    }

    /// What is shared.
    pub fn get(&self) -> T {
        self.0
    }
}

impl Crew {
    /// How the arrays are to be cut.
    pub fn cut(&self) -> Cut {
        self.of.cut
    }

    /// Works on parts, in any order, and several at once. `begin` queues on a lane what is to be done with a
    /// part, and says what `end` needs to know; that waits for the lane, which is then another part's. The
    /// first of them that fails ends it, and then lanes may be at work still.
    pub fn each<P: Send, Q>(
        &mut self,
        parts: impl Iterator<Item = P> + Send,
        begin: impl Fn(&mut Lane, P) -> Result<Q> + Sync,
        end: impl Fn(&mut Lane, Q) -> Result<()> + Sync,
    ) -> Result<()> {
        let parts = Mutex::new(parts.fuse());
        let failed = AtomicBool::new(false);
        let next = || match failed.load(Ordering::Relaxed) {
            true => None,
            false => parts.lock().next(),
        };
        let run = |mut idle: Vec<&mut Lane>| -> Result<()> {
            // With what `end` needs to know; what began first comes first.
            let mut under_way = VecDeque::<(&mut Lane, Q)>::with_capacity(LANES);
            let mut go = || {
                while let Some(part) = next() {
                    let lane = match idle.pop() {
                        Some(lane) => lane,
                        None => {
                            let Some((lane, begun)) = under_way.pop_front() else {
                                break;
                            };
                            end(&mut *lane, begun)?;
                            lane
                        }
                    };
                    let begun = begin(&mut *lane, part)?;
                    under_way.push_back((lane, begun));
                }
                let mut rest = under_way.drain(..);
                rest.try_for_each(|(lane, begun)| end(lane, begun))
            };
            go().inspect_err(|_| failed.store(true, Ordering::Relaxed))
        };
        let threads = self.of.cut.threads.clamp(1, self.lanes.len());
        let (firsts, seconds) = self.lanes.split_at_mut(threads);
        let mut seconds = seconds.iter_mut();
        let mut hands = firsts
            .iter_mut()
            .map(|first| iter::once(first).chain(seconds.next()).collect());
        let Some(mine) = hands.next() else {
            return Ok(());
        };
        thread::scope(|scope| {
            let run = &run;
            let spawn = |lanes| {
                // Without a thread the others do its share.
                thread::Builder::new()
                    .spawn_scoped(scope, move || run(lanes))
                    .ok()
            };
            let threads: Vec<_> = hands.map_while(spawn).collect();
            let first = run(mine);
            let join = |thread: thread::ScopedJoinHandle<'_, Result<()>>| {
                thread
                    .join()
                    .unwrap_or_else(|why| panic::resume_unwind(why))
            };
            threads.into_iter().map(join).fold(first, Result::and)
        })
    }

    /// A vector of `len` elements, made in parts, as by [`each`](Self::each): `begin` gets the indices of a
    /// part's elements, and `end` the places.
    ///
    /// # Safety
    /// When `end` returns no error, it has written to all places of its part.
    pub unsafe fn collect<T: Send, Q>(
        &mut self,
        len: usize,
        piece: usize,
        begin: impl Fn(&mut Lane, Range<usize>) -> Result<Q> + Sync,
        end: impl Fn(&mut Lane, Q, &mut [MaybeUninit<T>]) -> Result<()> + Sync,
    ) -> Result<Vec<T>> {
        let mut vec = host_vec::<T>(len)?;
        let parts = vec.spare_capacity_mut()[..len].chunks_mut(piece);
        self.each(
            parts.enumerate(),
            |lane, (i, part)| {
                let first = i * piece;
                Ok((begin(lane, first..first + part.len())?, part))
            },
            |lane, (begun, part)| end(lane, begun, part),
        )?;
        // SAFETY: there is room for as many, and all have been written to.
        unsafe { vec.set_len(len) };
        Ok(vec)
    }

    /// Copies an array to the device, and waits.
    ///
    /// # Safety
    /// `to` leads to as many bytes of the device that nothing else uses or is queued to use.
    pub unsafe fn upload(&mut self, to: *mut u8, array: &[u8]) -> Result<()> {
        let piece = self.cut().piece_bytes;
        // SAFETY: each piece has a place of its own.
        let to = unsafe { Shared::new(to) };
        self.each(
            array.chunks(piece).enumerate(),
            |lane, (i, part)| {
                let to = to.get().wrapping_add(i * piece);
                // SAFETY: the caller's promise; the array is borrowed until the wait is over.
                unsafe { lane.upload(Berth::First, to, part) }
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
        arrays: impl IntoIterator<Item = (&'a mut [MaybeUninit<u8>], *const u8)>,
    ) -> Result<()> {
        let piece = self.cut().piece_bytes;
        let pieces = arrays.into_iter().flat_map(|(to, from)| {
            let part = move |(i, part)| {
                // SAFETY: nobody writes there.
                (part, unsafe { Shared::new(from.wrapping_add(i * piece)) })
            };
            to.chunks_mut(piece).enumerate().map(part)
        });
        let begin = |lane: &mut Lane, (part, from): (&'a mut [_], Shared<_>)| {
            // SAFETY: the caller's promise, until the wait is over.
            unsafe { lane.land(Berth::First, from.get(), part) }?;
            Ok(part)
        };
        self.each(
            pieces.collect::<Vec<_>>().into_iter(),
            begin,
            |lane, part| {
                lane.wait()?;
                lane.hand_out(Berth::First, part);
                Ok(())
            },
        )
    }
}

/// Writes elements to as many places.
pub(crate) fn put<T>(places: &mut [MaybeUninit<T>], elements: impl Iterator<Item = T>) {
    for (place, element) in places.iter_mut().zip(elements) {
        place.write(element);
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
