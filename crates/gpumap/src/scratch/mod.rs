//! Scratch memory of a map or of the primitives: a pool of [`Workspace`]s that calls borrow, so that a call in the
//! steady state allocates nothing.
//!
//! Each call takes a workspace of its own, with a stream of its own, so calls of several threads
//! run side by side on the device. The pool has as many as were ever in use at once.

#[cfg(test)]
mod tests;

use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use gpumap_kernels::count::{Counters, MIRRORED};
use parking_lot::Mutex;

use crate::buffer::{Buffer, PinnedBuffer};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::input::Source;
use crate::memory::{Memory, bytes_of, host_vec, host_zeroed};
use crate::stream::Stream;

/// How many counters a workspace has.
pub(crate) const COUNTERS: usize = 8;

/// The named pieces of a workspace. Reserving one again may move it and lose its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Keys on their way in.
    Keys,
    /// Values on their way in.
    Values,
    /// The first result.
    FirstOutput,
    /// The second result.
    SecondOutput,
    /// What tiles tell each other.
    Tiles,
    /// Ids of cells.
    Ids,
    /// Ids that a map held.
    Held,
}

const SLOTS: usize = 7;

/// The workspaces of one map that nobody uses now.
#[derive(Debug)]
pub(crate) struct ScratchPool {
    device: Device,
    idle: Mutex<Vec<Workspace>>,
}

impl ScratchPool {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            idle: Mutex::new(Vec::new()),
        }
    }

    /// A workspace for one call.
    pub(crate) fn take(&self) -> Result<Scratch<'_>> {
        let idle = self.idle.lock().pop();
        let workspace = match idle {
            Some(workspace) => workspace,
            None => Workspace::new(&self.device)?,
        };
        Ok(Scratch {
            pool: self,
            workspace: Some(workspace),
        })
    }

    /// Frees what no call uses now.
    pub(crate) fn trim(&self) {
        // Freed after the lock is open again: it waits for the device.
        let idle = std::mem::take(&mut *self.idle.lock());
        drop(idle);
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
        // The call may have returned early with an error, while its inputs are still being read.
        // A stream that fails is not used again.
        if workspace.stream.synchronize().is_ok() {
            self.pool.idle.lock().push(workspace);
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
    slots: [Option<Memory>; SLOTS],
    bits: Bits,
    counters: Buffer<u64>,
    /// Whether they are zero.
    counters_are_zero: bool,
    mirror: PinnedBuffer<u64>,
    stream: Stream,
}

impl Workspace {
    fn new(device: &Device) -> Result<Self> {
        let stream = Stream::new(device)?;
        Ok(Self {
            slots: [const { None }; SLOTS],
            bits: Bits::default(),
            counters: Buffer::zeroed(&stream, COUNTERS)?,
            counters_are_zero: true,
            mirror: PinnedBuffer::zeroed(device, COUNTERS)?,
            stream,
        })
    }

    /// The stream of this call.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
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
        // SAFETY: the mirror is not touched until the wait below is over.
        unsafe {
            self.counters
                .as_view()
                .copy_to_pinned_async(&mut self.mirror)
        }?;
        self.stream.synchronize()?;
        let mut counters = [0; COUNTERS];
        counters.copy_from_slice(&self.mirror);
        Ok(counters)
    }

    /// The counters, for a kernel that hands its counts over itself;
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

    /// Waits for everything queued, and tells what the last kernel that was
    /// [`counting`](Self::counting) came to.
    pub(crate) fn counted(&mut self) -> Result<[u64; MIRRORED]> {
        self.stream.synchronize()?;
        self.counters_are_zero = true;
        Ok([self.mirror[0], self.mirror[1]])
    }

    /// Where the elements of an input can be read on the device by what is queued from now on:
    /// host elements are queued to be copied into a slot, except on the CPU, where the slice
    /// itself is used; device elements are used where they are.
    ///
    /// # Safety
    /// The elements live, and are not written to, until everything queued has ended: the next
    /// wait on this workspace, or its return to the pool.
    pub(crate) unsafe fn stage<T: Pod>(
        &mut self,
        slot: Slot,
        source: Source<'_, T>,
    ) -> Result<*const T> {
        match source {
            Source::Host(elements) if self.stream.device().is_cuda() && size_of::<T>() != 0 => {
                let staged = self.reserve::<T>(slot, elements.len())?;
                // SAFETY: reserved just now with room for them; the caller keeps the source.
                unsafe {
                    self.stream.upload(
                        staged.cast(),
                        elements.as_ptr().cast(),
                        size_of_val(elements),
                    )
                }?;
                Ok(staged)
            }
            Source::Host(elements) => Ok(elements.as_ptr()),
            Source::Device(view) => {
                self.stream.wait_stream(view.stream())?;
                Ok(view.as_ptr())
            }
        }
    }

    /// Where a buffer of the caller can be written to by what is queued from now on.
    pub(crate) fn target<T: Pod>(&self, buffer: &mut Buffer<T>) -> Result<*mut T> {
        self.stream.wait_stream(buffer.stream())?;
        Ok(buffer.as_mut_ptr())
    }

    /// Room for `len` elements of unspecified contents in a slot, aligned to 256 bytes. The slot
    /// keeps its size when it is large enough, and everything in it is lost when it is not.
    pub(crate) fn reserve<T: Pod>(&mut self, slot: Slot, len: usize) -> Result<*mut T> {
        let needed = bytes_of::<T>(len)?;
        let place = &mut self.slots[slot as usize];
        if let Some(memory) = place
            && memory.bytes() >= needed
        {
            return Ok(memory.ptr().cast());
        }
        // Freed first, in the order of the stream, so that both are never held at once.
        *place = None;
        let memory = match Memory::new(&self.stream, grown(needed)) {
            // The room to spare is not worth an error.
            Err(Error::OutOfMemory { .. }) => Memory::new(&self.stream, needed)?,
            other => other?,
        };
        Ok(place.insert(memory).ptr().cast())
    }

    /// Room for `len` bits, all zero when what is queued from now on comes to them.
    pub(crate) fn clear_bits(&mut self, len: usize) -> Result<*mut u32> {
        let needed = len.div_ceil(32) * size_of::<u32>();
        let large_enough = |memory: &&Memory| memory.bytes() >= needed;
        if self.bits.memory.as_ref().filter(large_enough).is_none() {
            self.bits = Bits::default();
            self.bits.memory = Some(Memory::new(&self.stream, grown(needed))?);
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

    /// Says that some of the bits have been set, or may have been: who wants
    /// [clear ones](Self::clear_bits) next has them cleared.
    pub(crate) fn dirty_bits(&mut self) {
        self.bits.clear = false;
    }

    /// Says that none of the clear bits has been set after all.
    pub(crate) fn untouched_bits(&mut self) {
        self.bits.clear = true;
    }

    /// Room for a result of `len` elements that the host wants: a slot, or on the CPU the very
    /// vector that [`fetch`](Self::fetch) returns.
    pub(crate) fn output<T: Pod>(&mut self, slot: Slot, len: usize) -> Result<Output<T>> {
        if self.stream.device().is_cuda() {
            let ptr = self.reserve(slot, len)?;
            let host = None;
            return Ok(Output { ptr, len, host });
        }
        let mut vec = host_zeroed(len)?;
        let ptr = vec.as_mut_ptr();
        let host = Some(vec);
        Ok(Output { ptr, len, host })
    }

    /// Waits for everything queued, and returns the first `len` elements of a result of this
    /// workspace, whose slot was not reserved again since.
    pub(crate) fn fetch<T: Pod>(&mut self, output: Output<T>, len: usize) -> Result<Vec<T>> {
        let len = len.min(output.len);
        if let Some(mut vec) = output.host {
            self.stream.synchronize()?;
            vec.truncate(len);
            return Ok(vec);
        }
        // SAFETY: the slot has at least as many.
        unsafe { self.read(output.ptr, len) }
    }

    /// Waits for everything queued, and returns the first `len` elements of a
    /// [reserved](Self::reserve) slot.
    ///
    /// # Safety
    /// The slot was not reserved again since, and has as many elements, all of them written to.
    pub(crate) unsafe fn read<T: Pod>(&mut self, from: *const T, len: usize) -> Result<Vec<T>> {
        let mut vec = host_vec::<T>(len)?;
        // SAFETY: the vector has room for `len` elements and is not used until the wait; the
        // slot has as many, by the caller.
        unsafe {
            self.stream
                .download(vec.as_mut_ptr().cast(), from.cast(), len * size_of::<T>())
        }?;
        self.stream.synchronize()?;
        // SAFETY: the copy has ended, so `len` elements are written; `T` takes any bytes.
        unsafe { vec.set_len(len) };
        Ok(vec)
    }
}

/// A result that is being made.
#[derive(Debug)]
pub(crate) struct Output<T> {
    ptr: *mut T,
    len: usize,
    host: Option<Vec<T>>,
}

impl<T> Output<T> {
    /// Where kernels write it.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.ptr
    }
}

/// The size of a slot that has to hold `bytes`: some room to spare, so that batches that grow
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
