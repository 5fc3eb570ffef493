//! The counter of a slab whose page is being made.

use core::marker::PhantomData;

use super::class;
use crate::slot::Format;
use crate::table::SLAB_BYTES;
use gpumap_simt::shared_ptr::SharedPtr;

/// Where the classes begin.
const CLASSES: u32 = 28;

/// A word in shared memory that hands out the slots of a slab, and knows the classes of the keys that
/// went past it: how many pairs it was to take in the low bits, the classes in the high ones. Zero at first.
///
/// Any thread of the block may call it, between barriers; the counter is accessed by this alone. There are fewer
/// than 2^28 pairs.
#[derive(Clone, Copy)]
pub struct SlabCounter<F> {
    word: SharedPtr<u32>,
    _format: PhantomData<F>,
}

impl<F: Format> SlabCounter<F> {
    /// The counter in a word.
    #[inline(always)]
    pub fn of(word: SharedPtr<u32>) -> Self {
        Self {
            word,
            _format: PhantomData,
        }
    }

    /// The next slot of the slab; none if there is none, and then the key passes it.
    ///
    /// # Safety
    /// As the type says.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn take_slot(self, key: F::Word) -> Option<u32> {
        // SAFETY: the caller's promise.
        unsafe {
            let counter = self.word.fetch_add(1);
            let slot = counter & ((1 << CLASSES) - 1);
            if slot < SLAB_BYTES / F::SLOT_BYTES {
                return Some(slot);
            }
            let class = class::<F>(key) << CLASSES;
            if counter & class == 0 {
                self.word.set_bits(class);
            }
            None
        }
    }

    /// Notes that a key passes the slab.
    ///
    /// # Safety
    /// As the type says.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn pass(self, key: F::Word) {
        // SAFETY: the caller's promise.
        unsafe { self.word.set_bits(class::<F>(key) << CLASSES) };
    }

    /// The classes that have passed, when a barrier lies behind the last of them.
    ///
    /// # Safety
    /// As the type says.
    #[inline(always)]
    pub unsafe fn passed(self) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.word.load() >> CLASSES }
    }

    /// Sets the classes that have passed, of a slab that hands out no slots, while nobody else uses it.
    ///
    /// # Safety
    /// As the type says.
    #[inline(always)]
    pub unsafe fn set_passed(self, classes: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.word.store(classes << CLASSES) };
    }
}
