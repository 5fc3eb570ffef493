//! [`StagingPipeline`]: takes arrays of the host to the device, or back, chunk by chunk, through stages with pinned buffers.
//!
//! The link of a GPU is several times as fast as one thread copies, and the driver copies to and from
//! plain memory with one. So large arrays are cut into chunks. One thread, the caller's, sees each through its [`Stage`], where others
//! copy what it is given to and from page-locked memory, in parts, all of them at the chunk that came first. So some stages are
//! always on their way, and what the link does never waits for a copy. What is done to a chunk between the way there
//! and the way back runs on the stage's stream: so the link is used both ways at once, and beside the kernels.

use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::ScratchRole;
use super::chunk_ranges::ChunkRanges;
use super::copy_task::CopyPool;
use super::stage::Stage;
use crate::device::Device;
use crate::error::Result;
use crate::map::Pair;

/// What arrays of the host are cut into, and from which size on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunking {
    /// Bytes of a batch, in and out, from which it is cut.
    pub from_bytes: usize,
    /// Bytes of a chunk at most.
    pub chunk_bytes: usize,
    /// Whether threads of their own copy, and not the caller's.
    pub has_copy_pool: bool,
}

/// Stages of a pipeline: some are being copied to or from while others are on their way.
const STAGES: usize = 8;

/// How many there are in all: for two calls at once, since each gets less from the link then.
const MOST: usize = 2 * STAGES;

/// Bytes of a chunk of smaller batches, at least: so that these are several as well.
const LEAST_CHUNK: usize = 256 << 10;

/// What part the first chunk of a batch is of the largest ones, unless that is less than the least.
const FIRST_CHUNK: usize = 16;

/// How many chunks there are before they become larger.
const CHUNKS: usize = 2 * STAGES;

impl Chunking {
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
            chunk_bytes: 8 << 20,
            has_copy_pool: true,
        }
    }

    /// Several chunks of the batches that tests have, in an order that is the same each time.
    const SMALL: Self = Self {
        from_bytes: 64 << 10,
        chunk_bytes: 16 << 10,
        has_copy_pool: false,
    };

    const NEVER: Self = Self {
        from_bytes: usize::MAX,
        chunk_bytes: 0,
        has_copy_pool: false,
    };
}

/// The stages that no call uses now, and how many there are in all.
#[derive(Debug)]
pub(crate) struct StagePool {
    device: Device,
    chunking: Chunking,
    idle: Mutex<Vec<Stage>>,
    made: AtomicUsize,
}

impl StagePool {
    pub fn new(device: &Device, chunking: Chunking) -> Arc<Self> {
        Arc::new(Self {
            device: device.clone(),
            chunking,
            idle: Mutex::default(),
            made: AtomicUsize::new(0),
        })
    }

    /// Stages for a batch of so many bytes; none if it is not worth it, or others have all stages. None either in a forked process, where
    /// the page-locked memory of stages may not be there: what the caller does instead has the error.
    pub fn pipeline(self: &Arc<Self>, bytes: usize) -> Option<StagingPipeline> {
        if bytes < self.chunking.from_bytes || self.device.expect_own().is_err() {
            return None;
        }
        let chunk_bytes = (bytes / CHUNKS)
            .max(LEAST_CHUNK)
            .min(self.chunking.chunk_bytes)
            .max(1);
        let wanted = bytes.div_ceil(chunk_bytes).min(STAGES);
        let mut idle = mem::take(&mut *self.idle.lock());
        let spare = idle.split_off(idle.len().min(wanted));
        self.idle.lock().extend(spare);
        let fit = |stage: Result<Stage>| {
            self.is_to_be_had(stage.and_then(|stage| stage.fit(chunk_bytes)))
        };
        let mut stages: Vec<_> = idle.into_iter().map(Ok).filter_map(fit).collect();
        while stages.len() < wanted
            && let Some(stage) = self.another().and_then(fit)
        {
            stages.push(stage);
        }
        stages.iter_mut().for_each(|stage| stage.begin());
        let pipeline = StagingPipeline {
            of: Arc::clone(self),
            stages,
            chunk_bytes,
        };
        (!pipeline.stages.is_empty()).then_some(pipeline)
    }

    /// One more, unless there are enough.
    fn another(&self) -> Option<Result<Stage>> {
        let one_more = |made: usize| (made < MOST).then_some(made + 1);
        self.made
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()?;
        Some(Stage::new(&self.device))
    }

    /// A stage, or one less if the memory for it cannot be had.
    fn is_to_be_had(&self, stage: Result<Stage>) -> Option<Stage> {
        stage
            .inspect_err(|error| {
                tracing::debug!(%error, "one stage less between host and device");
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

/// Some stages, at least one, for the length of one call.
#[derive(Debug)]
pub(crate) struct StagingPipeline {
    of: Arc<StagePool>,
    stages: Vec<Stage>,
    chunk_bytes: usize,
}

/// Arrays of the host that are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrays {
    /// For the first time.
    New,
    /// Perhaps not: by the caller before.
    Used,
}

/// Where the stage of a chunk is.
enum State<P, Q> {
    /// Nowhere, and has none.
    Idle,
    /// Being copied to.
    Loading(P),
    /// At the device.
    Away(Q),
    /// Being copied from.
    Unloading,
}

/// Stages while there may be copy tasks for them: these are done when it is dropped, also after an error or a panic.
struct ActiveStages<'l> {
    stages: &'l mut [Stage],
    pool: &'static CopyPool,
}

impl Drop for ActiveStages<'_> {
    fn drop(&mut self) {
        for stage in &mut *self.stages {
            stage.tasks.forget();
            while !stage.tasks.are_done() {
                self.pool.wait();
            }
        }
    }
}

impl StagingPipeline {
    /// How many stages.
    #[cfg(test)]
    pub fn stages(&self) -> usize {
        self.stages.len()
    }

    /// The chunks of a batch of so many pairs.
    pub fn chunks(&self, pair: Pair, pairs: usize) -> ChunkRanges {
        let bytes = pair.key.max(pair.value).max(1);
        let least = (self.chunk_bytes / FIRST_CHUNK).max(LEAST_CHUNK);
        ChunkRanges::new(pairs, least / bytes, self.chunk_bytes / bytes)
    }

    /// Room on every stage for each of some chunks of elements of so many bytes: so memory ends before anything is done, or
    /// not at all.
    pub fn reserve(
        &mut self,
        role: ScratchRole,
        element: usize,
        chunks: &ChunkRanges,
    ) -> Result<()> {
        for stage in &mut self.stages {
            stage.reserve::<u8>(role, element * chunks.longest())?;
        }
        Ok(())
    }

    /// Works on parts, several at once, each on a stage. `load` notes what has to be copied there; when that is done, `begin`
    /// queues what is to be done with the part, and says what `end` needs to know, which is called when that has ended:
    /// it waits for the stage, to know whether it has ended well, and notes what has to be copied from there. All three are
    /// called by this thread. The first of them that fails ends it, and then stages may be at work still; the copy tasks are
    /// done in any case.
    pub fn each<P, Q>(
        &mut self,
        parts: impl IntoIterator<Item = P>,
        load: impl Fn(&mut Stage, &mut P),
        begin: impl Fn(&mut Stage, P) -> Result<Q>,
        mut end: impl FnMut(&mut Stage, Q) -> Result<()>,
    ) -> Result<()> {
        let pool = match self.of.chunking.has_copy_pool {
            true => CopyPool::all(),
            false => CopyPool::none(),
        };
        let at_work = ActiveStages {
            stages: &mut self.stages,
            pool,
        };
        let mut parts = parts.into_iter().fuse();
        // The next step of a stage, if it can be taken now.
        let mut step = |stage: &mut Stage, state: State<P, Q>| -> Result<(State<P, Q>, bool)> {
            let after = match state {
                State::Idle => match parts.next() {
                    Some(mut part) => {
                        load(stage, &mut part);
                        stage.tasks.give(pool);
                        State::Loading(part)
                    }
                    None => return Ok((State::Idle, false)),
                },
                State::Loading(part) if stage.tasks.are_done() => State::Away(begin(stage, part)?),
                State::Away(begun) if stage.has_ended() => {
                    end(stage, begun)?;
                    stage.tasks.give(pool);
                    State::Unloading
                }
                State::Unloading if stage.tasks.are_done() => State::Idle,
                waits => return Ok((waits, false)),
            };
            Ok((after, true))
        };
        let mut states: Vec<_> = at_work.stages.iter().map(|_| State::Idle).collect();
        loop {
            let (mut all_idle, mut goes_on) = (true, false);
            for (stage, state) in at_work.stages.iter_mut().zip(&mut states) {
                let (after, has_moved) = step(stage, mem::replace(state, State::Idle))?;
                *state = after;
                goes_on |= has_moved;
                all_idle &= matches!(state, State::Idle);
            }
            match (goes_on, all_idle) {
                (true, _) => {}
                (false, true) => return Ok(()),
                (false, false) => pool.wait(),
            }
        }
    }

    /// Copies an array to the device, and waits.
    ///
    /// # Safety
    /// `to` leads to as many bytes of the device that nothing else uses or is queued to use.
    pub unsafe fn upload(&mut self, to: *mut u8, array: &[u8]) -> Result<()> {
        let chunk = self.chunk_bytes;
        self.each(
            array.chunks(chunk).enumerate(),
            // SAFETY: the array is borrowed until the copy tasks are done.
            |stage, &mut (_, part)| unsafe { stage.load(0, part) },
            |stage, (i, part)| {
                let to = to.wrapping_add(i * chunk);
                // SAFETY: the caller's promise; the array is borrowed until the wait is over.
                unsafe { stage.upload(0, to, part) }
            },
            |stage, ()| stage.wait(),
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
        let chunk = self.chunk_bytes;
        let chunks = arrays.into_iter().flat_map(|(to, from)| {
            let parts = to.chunks_mut(chunk).enumerate();
            parts.map(move |(i, part)| (ptr::from_mut(part), from.wrapping_add(i * chunk)))
        });
        self.each(
            chunks,
            |stage, (part, _)| {
                if host == Arrays::New {
                    // SAFETY: as in `collect`.
                    unsafe { stage.touch(&mut **part) };
                }
            },
            |stage, (part, from)| {
                // SAFETY: the caller's promise, until the wait is over; the part is this chunk's alone.
                unsafe { stage.copy_to_host::<u8, u8>(from, &mut *part, &mut []) }?;
                Ok(part)
            },
            |stage, part| {
                stage.wait()?;
                // SAFETY: the arrays are borrowed until the copy tasks are done.
                unsafe { stage.deliver::<u8, u8>(&mut *part, &mut []) };
                Ok(())
            },
        )
    }
}

impl Drop for StagingPipeline {
    fn drop(&mut self) {
        for stage in self.stages.drain(..) {
            // After an error something may still be on its way to or from its memory.
            if stage.wait().is_ok() {
                self.of.idle.lock().push(stage);
            } else {
                self.of.made.fetch_sub(1, Ordering::Relaxed);
                stage.abandon();
            }
        }
    }
}
