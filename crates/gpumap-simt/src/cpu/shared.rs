//! Shared memory of a block: one allocation per array, found by the line that declares it, filled
//! with a pattern when a block first touches it so that a read before the first write stands out.

use std::alloc::{Layout, alloc, handle_alloc_error};
use std::ptr::NonNull;

/// What uninitialised shared memory is filled with.
pub(super) const POISON: u8 = 0xa5;

/// The key of the array whose size the launch gives.
pub(super) const DYNAMIC: usize = usize::MAX;

struct Array {
    site: usize,
    layout: Layout,
    data: NonNull<u8>,
    /// Whether the running block has it already.
    live: bool,
}

/// The arrays of one resident block. They stay allocated from block to block of a launch.
#[derive(Default)]
pub(super) struct SharedMemory(Vec<Array>);

impl SharedMemory {
    /// Starts a block: nothing is initialised.
    pub(super) fn begin(&mut self) {
        for array in &mut self.0 {
            array.live = false;
        }
    }

    /// Frees everything: the next launch may be of another kernel.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The array of `layout` that belongs to `site`.
    pub(super) fn array(&mut self, site: usize, layout: Layout) -> *mut u8 {
        let found = self
            .0
            .iter()
            .position(|a| a.site == site && a.layout == layout);
        let array = match found {
            Some(at) => &mut self.0[at],
            None => {
                self.0.push(Array::new(site, layout));
                self.0.last_mut().expect("just pushed")
            }
        };
        if !array.live {
            array.live = true;
            // SAFETY: the allocation has `layout.size()` bytes and only this block uses it, which
            // has not been given it before.
            unsafe { array.data.write_bytes(POISON, layout.size()) };
        }
        array.data.as_ptr()
    }
}

impl Array {
    fn new(site: usize, layout: Layout) -> Self {
        // SAFETY: `array_layout` makes no layout of size 0.
        let data = unsafe { alloc(layout) };
        let data = NonNull::new(data).unwrap_or_else(|| handle_alloc_error(layout));
        Self {
            site,
            layout,
            data,
            live: false,
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed only here.
        unsafe { std::alloc::dealloc(self.data.as_ptr(), self.layout) }
    }
}

/// The layout of an array of `bytes` bytes, never empty and at least 16-aligned.
///
/// # Panics
/// If `align` is not a power of two or the size overflows; inside a launch that is a fault.
#[track_caller]
pub(super) fn array_layout(bytes: usize, align: usize) -> Layout {
    Layout::from_size_align(bytes.max(1), align.max(16))
        .expect("a shared array needs a power of two as alignment and a size that fits")
}
