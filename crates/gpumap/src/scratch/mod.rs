//! Scratch memory of a map or of the primitives: a pool of [`Workspace`]s that calls borrow, so that a call in the
//! steady state allocates nothing.
//!
//! Each call takes a workspace of its own, with a stream of its own, so calls of several threads
//! run side by side on the device. The pool has as many as were ever in use at once.

mod batch;
mod chunk_ranges;
mod copy_task;
mod link;
mod mapped;
mod output;
mod pipeline;
mod stage;
#[cfg(test)]
mod tests;

use std::mem;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use bytemuck::Pod;
use gpumap_kernels::count::{Counters, MIRRORED};
use parking_lot::Mutex;

use crate::buffer::{Buffer, PinnedBuffer};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::input::Source;
use crate::memory::{Memory, bytes_of};
use crate::spread::Spread;
use crate::stream::{Stream, launches_started};
pub(crate) use copy_task::{Fill, Places};
pub(crate) use link::Link;
use mapped::Mapped;
pub(crate) use output::{HostOutput, HostTarget, address_of};
pub(crate) use pipeline::{Arrays, Chunking, StagePool, StagingPipeline};
pub(crate) use stage::{Stage, bytes_of_places, places_of};

/// How many counters a workspace has.
pub(crate) const COUNTERS: usize = 8;

/// The role of a scratch buffer of a workspace. Reserving a buffer again may move it and lose its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScratchRole {
    /// Keys on their way in.
    Keys,
    /// Values on their way in.
    Values,
    /// The first result.
    FirstOutput,
    /// The second result.
    SecondOutput,
    /// The third result.
    ThirdOutput,
    /// The fourth result.
    FourthOutput,
    /// What tiles exchange.
    Tiles,
    /// Ids of cells.
    Ids,
    /// Ids that a map held.
    Held,
    /// Columns of a batch, one behind the other.
    Columns,
    /// What a kernel reads of its columns.
    List,
}

const ROLES: usize = 11;

/// The workspaces of one map that no call uses now.
#[derive(Debug)]
pub(crate) struct ScratchPool {
    device: Device,
    stages: Arc<StagePool>,
    /// By the threads that used them last, which find them in their caches.
    idle: Spread<Mutex<Vec<Workspace>>>,
}

impl ScratchPool {
    pub(crate) fn new(device: &Device) -> Self {
        Self::with_stages(device, device.stages())
    }

    /// One that cuts arrays of the host in this way.
    pub(crate) fn with_chunking(device: &Device, chunking: Chunking) -> Self {
        Self::with_stages(device, StagePool::new(device, chunking))
    }

    fn with_stages(device: &Device, stages: Arc<StagePool>) -> Self {
        Self {
            device: device.clone(),
            stages,
            idle: Spread::new(Mutex::default),
        }
    }

    /// Threads for a batch of so many bytes of the host; none if it is not worth it.
    pub(crate) fn pipeline(&self, bytes: usize) -> Option<StagingPipeline> {
        self.stages.pipeline(bytes)
    }

    /// A workspace for one call.
    pub(crate) fn take(&self) -> Result<Scratch<'_>> {
        // Before its page-locked memory is touched, which may not be there in a forked process.
        self.device.expect_own()?;
        let workspace = match self.idle() {
            Some(workspace) => workspace,
            None => Workspace::new(&self.device, Some(self.stages.clone()))?,
        };
        let mut workspace = workspace;
        workspace.begin();
        Ok(Scratch {
            pool: self,
            workspace: Some(workspace),
        })
    }

    /// A workspace that this thread used, or else another.
    fn idle(&self) -> Option<Workspace> {
        let mine = self.idle.mine().lock().pop();
        mine.or_else(|| self.idle.iter().find_map(|idle| idle.try_lock()?.pop()))
    }

    /// Frees what no call uses now.
    pub(crate) fn trim(&self) {
        // Freed after the lock is open again: it waits for the device.
        let idle = self.idle.iter().map(|idle| mem::take(&mut *idle.lock()));
        drop(idle.collect::<Vec<_>>());
        self.stages.trim();
    }
}

/// A workspace that goes back to its pool on drop, after what was queued on it has ended.
#[derive(Debug)]
pub(crate) struct Scratch<'p> {
    pool: &'p ScratchPool,
    // Always there until the drop.
    workspace: Option<Workspace>,
}

impl Deref for Scratch<'_> {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        self.workspace.as_ref().expect("taken only on drop")
    }
}

impl DerefMut for Scratch<'_> {
    fn deref_mut(&mut self) -> &mut Workspace {
        self.workspace.as_mut().expect("taken only on drop")
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        let Some(workspace) = self.workspace.take() else {
            return;
        };
        let mut workspace = workspace;
        workspace.awaited = None;
        // The call may have returned early with an error, while its inputs are still being read.
        // A stream that fails is not used again.
        if !workspace.busy.load(Relaxed) || workspace.wait().is_ok() {
            self.pool.idle.mine().lock().push(workspace);
        }
    }
}

/// Bits that are zero between calls, so that a call that sets none need not clear any.
#[derive(Debug, Default)]
struct Bits {
    memory: Option<Memory>,
    /// Whether all of them are zero.
    clear: bool,
}

/// The stream and the memory of one call.
#[derive(Debug)]
pub(crate) struct Workspace {
    // Dropped before the stream, which they hold anyway.
    buffers: [Option<Memory>; ROLES],
    bits: Bits,
    counters: Buffer<u64>,
    /// Whether they are zero.
    counters_are_zero: bool,
    mirror: PinnedBuffer<u64>,
    /// A list on its way to the device, aligned to vectors; there once it was needed.
    list: Option<PinnedBuffer<u128>>,
    mapped: Mapped,
    /// What takes large arrays of the host to the device and back; none if this is itself a stage's.
    stages: Option<Arc<StagePool>>,
    /// Whether something may have been queued since the last wait.
    busy: AtomicBool,
    /// The stream of a buffer that was waited for in this call: as a rule all its buffers have one.
    awaited: Option<Stream>,
    /// Launches of this thread when the call began, or later while it has changed nothing.
    launches_before: u64,
    stream: Stream,
}

impl Workspace {
    /// What scratch buffers are aligned to.
    pub(crate) const ALIGNMENT: usize = 256;

    /// The most bytes of a list.
    pub(crate) const LIST_BYTES: usize = 1024;

    fn new(device: &Device, stages: Option<Arc<StagePool>>) -> Result<Self> {
        let stream = Stream::of_calls(device)?;
        Ok(Self {
            buffers: [const { None }; ROLES],
            bits: Bits::default(),
            counters: Buffer::zeroed(&stream, COUNTERS)?,
            counters_are_zero: true,
            mirror: PinnedBuffer::zeroed(device, COUNTERS)?,
            list: None,
            mapped: Mapped::default(),
            stages,
            busy: AtomicBool::new(false),
            awaited: None,
            launches_before: launches_started(),
            stream,
        })
    }

    /// Says that no kernel of this call has changed the map yet.
    pub(crate) fn begin(&mut self) {
        self.launches_before = launches_started();
    }

    /// Whether a kernel of this call may have changed the map.
    pub(crate) fn has_launched(&self) -> bool {
        launches_started() != self.launches_before
    }

    /// Frees a scratch buffer and the bits, which nothing that is queued uses any more.
    pub(crate) fn free(&mut self, role: Option<ScratchRole>) {
        if let Some(role) = role {
            self.buffers[role as usize] = None;
        }
        self.bits = Bits::default();
    }

    /// The stream of this call.
    pub(crate) fn stream(&self) -> &Stream {
        self.busy.store(true, Relaxed);
        &self.stream
    }

    /// Waits for everything queued. Also after an error nothing of it runs any more: see [`Stream::finish`].
    pub(crate) fn wait(&self) -> Result<()> {
        self.stream.finish()?;
        self.busy.store(false, Relaxed);
        Ok(())
    }

    /// What calls came to; if one failed, when nothing that was queued before runs any more, so that a lock or memory may be
    /// given up.
    pub(crate) fn or_wait<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            let _ = self.wait();
        }
        outcome
    }

    /// Lets what is queued from now on come after what was queued on the stream of a buffer.
    fn wait_for(&mut self, other: &Stream) -> Result<()> {
        let is_same = |awaited: &Stream| awaited.is_same_as(other);
        if !self.awaited.as_ref().is_some_and(is_same) {
            self.stream.wait_stream(other)?;
            self.awaited = Some(other.clone());
        }
        Ok(())
    }

    /// Where the counters are on the device.
    pub(crate) fn counters(&mut self) -> *mut u64 {
        self.counters.as_mut_ptr()
    }

    /// Queues setting all counters to zero.
    pub(crate) fn reset_counters(&mut self) -> Result<()> {
        self.counters.fill_bytes(0)
    }

    /// Waits for everything queued, then reads the counters.
    pub(crate) fn read_counters(&mut self) -> Result<[u64; COUNTERS]> {
        self.counters_are_zero = false;
        self.busy.store(true, Relaxed);
        // SAFETY: the mirror is not touched until the wait below is over.
        unsafe {
            self.counters
                .as_view()
                .copy_to_pinned_async(&mut self.mirror)
        }?;
        self.wait()?;
        let mut counters = [0; COUNTERS];
        counters.copy_from_slice(&self.mirror);
        Ok(counters)
    }

    /// The counters, for a kernel that writes its counts to the mirror itself;
    /// [`counted`](Self::counted) has them then.
    pub(crate) fn counting(&mut self) -> Result<Counters> {
        if !self.counters_are_zero {
            self.reset_counters()?;
        }
        // Until the kernel has ended well.
        self.counters_are_zero = false;
        Ok(Counters {
            words: self.counters.as_mut_ptr(),
            mirror: self.mirror.as_mut_ptr(),
        })
    }

    /// Waits for everything queued, and returns what the last kernel that was
    /// [`counting`](Self::counting) counted.
    pub(crate) fn counted(&mut self) -> Result<[u64; MIRRORED]> {
        self.wait()?;
        self.counters_are_zero = true;
        Ok([self.mirror[0], self.mirror[1]])
    }

    /// A word for a kernel to say yes with: zero, until it stores something else there. Its answer is
    /// [there](Self::answer) with what it [counted](Self::counted).
    pub(crate) fn question(&mut self) -> *mut u64 {
        self.mirror[COUNTERS - 1] = 0;
        self.mirror.as_mut_ptr().wrapping_add(COUNTERS - 1)
    }

    /// What the kernel said.
    pub(crate) fn answer(&self) -> bool {
        self.mirror[COUNTERS - 1] != 0
    }

    /// As [`counting`](Self::counting), for a kernel that counts in two places.
    pub(crate) fn counting_two(&mut self) -> Result<(Counters, Counters)> {
        let first = self.counting()?;
        let second = Counters {
            words: first.words.wrapping_add(COUNTERS / 2),
            mirror: first.mirror.wrapping_add(COUNTERS / 2),
        };
        Ok((first, second))
    }

    /// As [`counted`](Self::counted), of both places.
    pub(crate) fn counted_two(&mut self) -> Result<[[u64; MIRRORED]; 2]> {
        let first = self.counted()?;
        let (third, fourth) = (COUNTERS / 2, COUNTERS / 2 + 1);
        Ok([first, [self.mirror[third], self.mirror[fourth]]])
    }

    /// Where the elements of an input can be read on the device by what is queued from now on:
    /// host elements are queued to be copied into a scratch buffer, except on the CPU, where the slice
    /// itself is used; device elements are used where they are.
    ///
    /// # Safety
    /// The elements live, and are not written to, until everything queued has ended: the next
    /// wait on this workspace, or its return to the pool.
    pub(crate) unsafe fn stage<T: Pod>(
        &mut self,
        role: ScratchRole,
        source: Source<'_, T>,
    ) -> Result<*const T> {
        match source {
            Source::Host(elements)
                if self.stream.device().has_own_memory() && size_of_val(elements) != 0 =>
            {
                let staged = self.reserve::<T>(role, elements.len())?;
                // SAFETY: reserved just now with room for them; the caller keeps the source.
                unsafe { self.upload(staged.cast(), bytemuck::cast_slice(elements)) }?;
                Ok(staged)
            }
            Source::Host(elements) => Ok(elements.as_ptr()),
            Source::Device(view) => {
                self.wait_for(view.stream())?;
                Ok(view.as_ptr())
            }
        }
    }

    /// As [`stage`](Self::stage), of several arrays in one scratch buffer. What lies at one place of the host is staged once.
    ///
    /// # Safety
    /// As for [`stage`](Self::stage).
    pub(crate) unsafe fn stage_all(
        &mut self,
        role: ScratchRole,
        sources: &[Source<'_, u8>],
    ) -> Result<Vec<*const u8>> {
        let own = self.stream.device().has_own_memory();
        let is_far = |bytes: &[u8]| own && !bytes.is_empty();
        let mut far: Vec<(&[u8], usize)> = Vec::new();
        let mut end = 0usize;
        for source in sources {
            if let Source::Host(bytes) = source
                && is_far(bytes)
                && !far.iter().any(|(there, _)| ptr::eq(*there, *bytes))
            {
                far.push((bytes, end));
                let next = bytes.len().checked_next_multiple_of(Self::ALIGNMENT);
                end = end.saturating_add(next.unwrap_or(usize::MAX));
            }
        }
        let staged = match end {
            0 => ptr::null_mut(),
            _ => self.reserve::<u8>(role, end)?,
        };
        for (bytes, at) in &far {
            // SAFETY: reserved just now with room for all of them; the caller keeps the sources.
            unsafe { self.upload(staged.wrapping_add(*at), bytes) }?;
        }
        let mut places = Vec::with_capacity(sources.len());
        for source in sources {
            places.push(match source {
                Source::Host(bytes) => {
                    match far.iter().find(|(there, _)| ptr::eq(*there, *bytes)) {
                        Some((_, at)) => staged.wrapping_add(*at).cast_const(),
                        None => bytes.as_ptr(),
                    }
                }
                Source::Device(view) => {
                    self.wait_for(view.stream())?;
                    view.as_ptr()
                }
            });
        }
        Ok(places)
    }

    /// Where kernels that are queued from now on can read a list, of [`LIST_BYTES`](Self::LIST_BYTES) at most. It is copied,
    /// so the caller need not keep it. There is one list for each call.
    pub(crate) fn stage_list<T: Copy>(&mut self, elements: &[T]) -> Result<*const T> {
        let bytes = size_of_val(elements);
        assert!(bytes <= Self::LIST_BYTES && align_of::<T>() <= align_of::<u128>());
        let list = match &mut self.list {
            Some(list) => list,
            none => {
                let len = Self::LIST_BYTES / size_of::<u128>();
                none.insert(PinnedBuffer::zeroed(self.stream.device(), len)?)
            }
        };
        let from: *mut T = list.as_mut_ptr().cast();
        // SAFETY: room for so many, which nothing reads: what earlier calls queued has ended.
        unsafe { from.copy_from_nonoverlapping(elements.as_ptr(), elements.len()) };
        if !self.stream.device().has_own_memory() {
            return Ok(from);
        }
        let to: *mut u8 = self.reserve(ScratchRole::List, Self::LIST_BYTES)?;
        // SAFETY: reserved just now; the workspace keeps the list until its stream has ended.
        unsafe { self.stream().upload(to, from.cast(), bytes) }?;
        Ok(to.cast_const().cast())
    }

    /// Copies bytes to the device, or queues that.
    ///
    /// # Safety
    /// As for [`Stream::upload`].
    unsafe fn upload(&mut self, to: *mut u8, bytes: &[u8]) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.link().upload(to, bytes) }
    }

    /// What copies arrays of the host in the order of this call.
    fn link(&self) -> Link<'_> {
        Link {
            stream: self.stream(),
            stages: self.stages.as_ref(),
        }
    }

    /// Room for `len` elements of unspecified contents in a scratch buffer, aligned to 256 bytes. The scratch buffer
    /// keeps its size when it is large enough, and everything in it is lost when it is not.
    pub(crate) fn reserve<T: Pod>(&mut self, role: ScratchRole, len: usize) -> Result<*mut T> {
        let needed = bytes_of::<T>(len)?;
        let place = &mut self.buffers[role as usize];
        if let Some(memory) = place
            && memory.bytes() >= needed
        {
            return Ok(memory.ptr().cast());
        }
        // Freed first, in the order of the stream, so that both are never held at once.
        *place = None;
        let memory = with_slack(&self.stream, needed)?;
        Ok(place.insert(memory).ptr().cast())
    }

    /// Room for `len` bits, all zero when what is queued from now on reaches them.
    pub(crate) fn clear_bits(&mut self, len: usize) -> Result<*mut u32> {
        let needed = bits_of(len);
        let large_enough = |memory: &&Memory| memory.bytes() >= needed;
        if self.bits.memory.as_ref().filter(large_enough).is_none() {
            self.bits = Bits::default();
            self.bits.memory = Some(with_slack(&self.stream, needed)?);
        }
        if let Some(memory) = &self.bits.memory
            && !self.bits.clear
        {
            // SAFETY: all of the memory, which this workspace owns.
            unsafe { self.stream.fill(memory.ptr(), 0, memory.bytes()) }?;
            self.bits.clear = true;
        }
        Ok(self.bits())
    }

    /// The bits as what was queued before leaves them; null if there are none.
    pub(crate) fn bits(&self) -> *mut u32 {
        let memory = self.bits.memory.as_ref();
        memory.map_or(std::ptr::null_mut(), |memory| memory.ptr().cast())
    }

    /// Says that some of the bits have been set, or may have been: the next call of
    /// [`clear_bits`](Self::clear_bits) clears them.
    pub(crate) fn dirty_bits(&mut self) {
        self.bits.clear = false;
    }

    /// Says that none of the clear bits has been set after all.
    pub(crate) fn untouched_bits(&mut self) {
        self.bits.clear = true;
    }
}

/// Bytes of so many bits, in whole words.
fn bits_of(len: usize) -> usize {
    len.div_ceil(32) * size_of::<u32>()
}

/// Memory of `bytes` bytes, and some to spare if that can be had: it is not worth an error.
fn with_slack(stream: &Stream, bytes: usize) -> Result<Memory> {
    match Memory::new(stream, grown(bytes)) {
        Err(Error::OutOfMemory { .. }) => Memory::new(stream, bytes),
        memory => memory,
    }
}

/// The size of a scratch buffer that has to hold `bytes`: some room to spare, so that batches that grow
/// slowly do not allocate each time.
fn grown(bytes: usize) -> usize {
    const STEP: usize = 2 << 20;
    if bytes <= STEP {
        bytes.max(256).next_power_of_two()
    } else {
        let spare = bytes / 8;
        bytes
            .checked_add(spare)
            .and_then(|sum| sum.checked_next_multiple_of(STEP))
            .unwrap_or(bytes)
    }
}
