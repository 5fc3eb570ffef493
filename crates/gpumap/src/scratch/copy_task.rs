//! [`CopyTask`]: a part of a copy between arrays of the host, for the first thread that is free.
//!
//! The threads that do them are those of the process: so they are there when a batch comes, and several callers have no more of
//! them than one. They do nothing else, and wait for nothing but copy tasks. (In a pool that callers may themselves be
//! threads of, all threads could be waiting for copy tasks that none is left to do.)

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use gpumap_simt::executor::PerProcess;

use crate::device::variable;
use crate::memory::LARGE_PAGE;

/// Places of some elements, and where what goes there comes from: arrays of as many elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub to: *mut u8,
    pub from: [*const u8; 2],
    pub len: usize,
}

/// What is done to places: it writes to all of them, and does not panic.
pub(crate) type Fill = unsafe fn(Places);

/// Some places to be filled, which is done once it is dropped.
#[derive(Debug)]
pub(crate) struct CopyTask {
    fill: Fill,
    places: Places,
    left: Arc<AtomicUsize>,
}

// SAFETY: its places are used by nothing else, and nothing writes to its sources, by the contract of `note`.
unsafe impl Send for CopyTask {}

impl CopyTask {
    /// Does it.
    pub fn run(self) {
        // SAFETY: the promise of the caller of `note`.
        unsafe { (self.fill)(self.places) }
    }
}

impl Drop for CopyTask {
    fn drop(&mut self) {
        self.left.fetch_sub(1, Ordering::Release);
    }
}

/// Copy tasks that have been noted, and how many of all of them are not done.
#[derive(Debug)]
pub(crate) struct CopyTasks {
    /// Bytes that one writes, at most.
    bytes: usize,
    noted: Vec<CopyTask>,
    left: Arc<AtomicUsize>,
}

impl CopyTasks {
    pub fn new() -> Self {
        Self {
            bytes: 0,
            noted: Vec::new(),
            left: Arc::default(),
        }
    }

    /// From now on each writes so many bytes at most.
    pub fn limit(&mut self, bytes: usize) {
        self.bytes = bytes;
    }

    /// Notes that `places` are to be filled, in parts, from two arrays. An element of the places, and of each array, has
    /// so many bytes.
    ///
    /// # Safety
    /// Until that is [done](Self::are_done) or dropped the places are used by nothing else, and nothing writes to the
    /// arrays, which have as many elements. `fill` is for elements of these sizes.
    pub unsafe fn note(&mut self, fill: Fill, places: Places, element: usize, of: [usize; 2]) {
        let Places { to, from, len } = places;
        let step = (self.bytes / element.max(1)).max(1);
        for first in (0..len).step_by(step) {
            let places = Places {
                to: to.wrapping_add(first * element),
                from: [0, 1].map(|i| from[i].wrapping_add(first * of[i])),
                len: step.min(len - first),
            };
            self.left.fetch_add(1, Ordering::Relaxed);
            self.noted.push(CopyTask {
                fill,
                places,
                left: Arc::clone(&self.left),
            });
        }
    }

    /// Notes that bytes are to be copied.
    ///
    /// # Safety
    /// As for [`note`](Self::note).
    pub unsafe fn note_copy(&mut self, to: *mut u8, from: *const u8, bytes: usize) {
        let places = Places {
            to,
            from: [from, ptr::null()],
            len: bytes,
        };
        // SAFETY: the caller's promise.
        unsafe { self.note(copy, places, 1, [1, 0]) }
    }

    /// Notes that large pages are to be there that begin in an unwritten array. Each is touched by one
    /// thread: several that touch it at the same time make it several times.
    ///
    /// # Safety
    /// Until that is [done](Self::are_done) or dropped the array is used by nothing else.
    pub unsafe fn note_touch(&mut self, array: *mut u8, bytes: usize) {
        for first in (array.align_offset(LARGE_PAGE)..bytes).step_by(LARGE_PAGE) {
            let byte = Places {
                to: array.wrapping_add(first),
                from: [ptr::null(); 2],
                len: 1,
            };
            // SAFETY: the caller's promise.
            unsafe { self.note(touch, byte, 1, [0, 0]) };
        }
    }

    /// Lets those be done that have been noted since.
    pub fn give(&mut self, pool: &CopyPool) {
        for task in self.noted.drain(..) {
            // The pool holds a receiver, so sending cannot fail.
            let _ = pool.given.send(task);
        }
    }

    /// Drops those that have been noted since.
    pub fn forget(&mut self) {
        self.noted.clear();
    }

    /// Whether all are done, also those that were given away; what they wrote is there then.
    pub fn are_done(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }
}

/// The threads that run copy tasks.
#[derive(Debug)]
pub(crate) struct CopyPool {
    given: Sender<CopyTask>,
    tasks: Receiver<CopyTask>,
    /// Threads of their own.
    threads: usize,
}

/// How long a thread looks for another copy task before it sleeps: longer than there is none as a rule while a call lasts.
/// Waking a thread costs the submitting thread 3 µs, and a chunk has some thirty copy tasks.
const PATIENCE: Duration = Duration::from_micros(300);

/// Threads beyond these do not make the link any faster, with that of the caller.
const MOST_THREADS: usize = 16;

impl CopyPool {
    /// The copy threads of the process.
    pub fn all() -> &'static Self {
        static ALL: PerProcess<CopyPool> = PerProcess::new();
        ALL.get(|_| {
            let threads = thread::available_parallelism().map_or(1, usize::from);
            // What a program may take in all holds for these as well.
            let allowed = variable("GPUMAP_THREADS").and_then(|value| value.to_str()?.parse().ok());
            let threads = allowed.map_or(threads, |allowed: usize| allowed.clamp(1, threads));
            Self::with_threads(threads.min(MOST_THREADS) - 1)
        })
    }

    /// No threads: only callers that [wait](Self::wait) run tasks, for tests.
    pub fn none() -> &'static Self {
        static NONE: OnceLock<CopyPool> = OnceLock::new();
        NONE.get_or_init(|| Self::with_threads(0))
    }

    fn with_threads(threads: usize) -> Self {
        let (given, tasks) = unbounded::<CopyTask>();
        let start = |_: &usize| {
            let tasks = tasks.clone();
            let thread = thread::Builder::new().name("gpumap-copies".to_owned());
            thread.spawn(move || do_all(&tasks)).is_ok()
        };
        // Without a thread the others do its share.
        let threads = (0..threads).take_while(start).count();
        Self {
            given,
            tasks,
            threads,
        }
    }

    /// Runs one copy task if the pool has no threads, and else yields: for a caller that has nothing else to do.
    pub fn wait(&self) {
        match self.threads {
            0 => self.tasks.try_iter().take(1).for_each(CopyTask::run),
            _ => thread::yield_now(),
        }
    }
}

/// Runs tasks until every sender is gone.
fn do_all(tasks: &Receiver<CopyTask>) {
    while let Ok(task) = tasks.recv() {
        task.run();
        let mut last = Instant::now();
        while last.elapsed() < PATIENCE {
            if let Ok(task) = tasks.try_recv() {
                task.run();
                last = Instant::now();
            } else {
                thread::yield_now();
            }
        }
    }
}

/// [`Fill`] of a byte that anything may be in.
unsafe fn touch(places: Places) {
    // SAFETY: the promise of the caller of `note`.
    unsafe { places.to.write_volatile(0) }
}

/// [`Fill`] of bytes.
unsafe fn copy(places: Places) {
    // SAFETY: the promise of the caller of `note`.
    unsafe { ptr::copy_nonoverlapping(places.from[0], places.to, places.len) }
}
