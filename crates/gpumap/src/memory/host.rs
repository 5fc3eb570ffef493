//! Host memory: what the CPU back end has for device memory, and vectors for results. An error,
//! not the end of the process, where there is not enough.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;

use bytemuck::Pod;

use super::{bytes_of, large_pages};
use crate::error::{Error, Result};

/// What every allocation on the CPU is aligned to: a page.
pub(crate) const HOST_ALIGN: usize = 4096;

/// Host allocations from this size on are compared with the memory that is free, because an
/// operating system that overcommits would grant them and end the process later.
const HOST_CHECK_BYTES: usize = 64 << 20;

thread_local! {
    /// Whether the allocation that goes on here takes a refusal.
    static MAY_FAIL: Cell<bool> = const { Cell::new(false) };
}

/// Makes an allocation whose caller takes a refusal.
pub(crate) fn fallible<T>(allocate: impl FnOnce() -> T) -> T {
    MAY_FAIL.set(true);
    let allocated = allocate();
    MAY_FAIL.set(false);
    allocated
}

/// Whether the allocation that goes on in this thread is one that the library asks for in a way that can be refused, which
/// becomes [`Error::OutOfMemory`]: for the global allocator of a program that ends the process where any other is
/// refused.
#[doc(hidden)]
#[must_use]
pub fn allocation_may_fail() -> bool {
    MAY_FAIL.get()
}

/// A piece of host memory that stands for device memory.
#[derive(Debug)]
pub(crate) struct HostBlock {
    base: *mut u8,
    layout: Layout,
    /// Where its pages start.
    pub ptr: *mut u8,
}

// SAFETY: it owns its memory, which any thread may use and free.
unsafe impl Send for HostBlock {}
// SAFETY: as above; a shared block gives only its address away.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.layout.size() - HOST_ALIGN
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        // SAFETY: allocated by `block` with this layout, and freed only here.
        unsafe { dealloc(self.base, self.layout) };
    }
}

/// Zeroed host memory at a page boundary, in [large pages](large_pages) if it is large, and the block it lies in: random
/// accesses to a table miss the TLB once for each page.
pub(crate) fn block(bytes: usize) -> Result<HostBlock> {
    expect_host_memory(bytes)?;
    // Requested with a small alignment and a page to spare: that becomes `calloc`, which gets large blocks from
    // the system untouched, where an aligned request would be zeroed by hand.
    let layout =
        Layout::from_size_align(bytes + HOST_ALIGN, 16).map_err(|_| Error::CapacityOverflow {
            elements: bytes,
            element_bytes: 1,
        })?;
    // SAFETY: the layout's size is not zero.
    let base = fallible(|| unsafe { alloc_zeroed(layout) });
    if base.is_null() {
        return Err(refused(bytes));
    }
    large_pages::ask_for(base, layout.size());
    let offset = base.align_offset(HOST_ALIGN);
    // SAFETY: the offset is less than HOST_ALIGN, and the block has HOST_ALIGN bytes to spare.
    let ptr = unsafe { base.add(offset) };
    Ok(HostBlock { base, layout, ptr })
}

/// A vector with room for `len` elements, in [large pages](large_pages) if it is large, or an error where the host has no memory for it.
pub(crate) fn host_vec<T>(len: usize) -> Result<Vec<T>> {
    let bytes = bytes_of::<T>(len)?;
    expect_host_memory(bytes)?;
    let mut vec = Vec::<T>::new();
    fallible(|| vec.try_reserve_exact(len)).map_err(|_| refused(bytes))?;
    large_pages::ask_for(vec.as_mut_ptr().cast(), bytes);
    Ok(vec)
}

/// A vector of `len` elements of zero bytes, which large ones get from the system as they are.
pub(crate) fn host_zeroed<T: Pod>(len: usize) -> Result<Vec<T>> {
    let bytes = bytes_of::<T>(len)?;
    expect_host_memory(bytes)?;
    let vec = fallible(|| bytemuck::try_zeroed_vec(len));
    let mut vec: Vec<T> = vec.map_err(|()| refused(bytes))?;
    large_pages::ask_for(vec.as_mut_ptr().cast(), bytes);
    Ok(vec)
}

/// A vector of what an iterator gives, or an error where the host has no memory for it. At best the iterator says
/// how many elements there will be.
pub(crate) fn host_collect<T>(elements: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let mut elements = elements.into_iter();
    let known = elements.size_hint().0;
    let mut vec = host_vec(known)?;
    // For so many there is room.
    vec.extend(elements.by_ref().take(known));
    for element in elements {
        host_push(&mut vec, element)?;
    }
    Ok(vec)
}

/// Keeps the elements at some places.
pub(crate) fn retain_at<T>(elements: &mut Vec<T>, is_kept: impl Fn(usize) -> bool) {
    let mut at = 0..;
    elements.retain(|_| at.next().is_some_and(&is_kept));
}

/// Adds an element to a vector, or says that the host has no memory for more.
pub(crate) fn host_push<T>(vec: &mut Vec<T>, element: T) -> Result<()> {
    if vec.len() == vec.capacity() {
        // As `push` does: by as many as there are.
        fallible(|| vec.try_reserve(1)).map_err(|_| refused(2 * size_of_val(&vec[..])))?;
    }
    vec.push(element);
    Ok(())
}

/// An error where the host has less memory free than a large allocation takes.
fn expect_host_memory(bytes: usize) -> Result<()> {
    if bytes >= HOST_CHECK_BYTES
        && let Some(memory) = host_memory()
        && bytes as u64 > memory.available
    {
        return Err(refused(bytes));
    }
    Ok(())
}

/// The error where it has not so many bytes free.
pub(crate) fn refused(bytes: usize) -> Error {
    Error::OutOfMemory {
        needed: bytes as u64,
        available: host_memory().map_or(0, |memory| memory.available),
    }
}

/// The host's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostMemory {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that can be had without pushing others out.
    pub available: u64,
}

/// The host's memory now, where the system says (Linux): what is left of the process' own limit (`ulimit -v`), if that is
/// less.
pub(crate) fn host_memory() -> Option<HostMemory> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name| kilobytes(&text, name);
    let available = field("MemAvailable:")?;
    Some(HostMemory {
        total: field("MemTotal:")?,
        available: left_of_limit().map_or(available, |left| left.min(available)),
    })
}

/// What a file of the system says under a name, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Bytes that the process may take beyond those that it has, if there is a limit.
fn left_of_limit() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let limit = "Max address space";
    let limit = limits.lines().find_map(|line| line.strip_prefix(limit))?;
    let limit: u64 = limit.split_whitespace().next()?.parse().ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(limit.saturating_sub(kilobytes(&status, "VmSize:")?))
}
