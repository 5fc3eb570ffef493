//! Where the keys of a batch come from: arrays, or the slots of another table.

use crate::slot::{Bits, Format};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{layout, mem, warp};

/// One lane's input.
#[derive(Clone, Copy)]
pub struct Input<F: Format> {
    /// The key.
    pub key: F::Key,
    /// The value that comes with it, if there is one.
    pub value: F::Value,
    /// Whether there is a key here at all.
    pub live: bool,
}

impl<F: Format> Input<F> {
    /// Place `i` of an array of keys, and of the values beside them if these are wanted: `value` if `values` is null.
    ///
    /// # Safety
    /// The arrays have that place, and it is not written while the launch lasts.
    #[inline(always)]
    pub(crate) unsafe fn of_arrays(
        keys: *const F::Key,
        values: *const F::Value,
        value: F::Value,
        i: u64,
        with_value: bool,
    ) -> Self {
        let i = i as usize;
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                key: mem::load_streaming(keys.add(i)),
                value: if !with_value {
                    F::Value::default()
                } else if values.is_null() {
                    value
                } else {
                    mem::load_streaming(values.add(i))
                },
                live: true,
            }
        }
    }

    /// The input that lane `src` holds.
    ///
    /// # Safety
    /// All lanes of the warp call it.
    #[inline(always)]
    pub unsafe fn of_lane<S: Source<F>>(self, src: u32, with_value: bool) -> Self {
        // SAFETY: the whole warp is here.
        unsafe {
            Self {
                key: warp::warp_shuffle_idx(LaneMask::FULL, self.key, src, 32),
                value: if with_value {
                    warp::warp_shuffle_idx(LaneMask::FULL, self.value, src, 32)
                } else {
                    self.value
                },
                live: if S::HAS_GAPS {
                    let live = u32::from(self.live);
                    warp::warp_shuffle_idx(LaneMask::FULL, live, src, 32) != 0
                } else {
                    true
                },
            }
        }
    }
}

/// An array of inputs, and how it is shared out among warps.
pub trait Source<F: Format>: Copy {
    /// Whether some places have no key.
    const HAS_GAPS: bool;
    /// How many places there are.
    fn places(&self) -> u64;
    /// Consecutive places for each warp, a multiple of 32.
    fn per_warp(&self) -> u32;
    /// How many places, from `start` on, are the part of the warp whose first place that is.
    ///
    /// # Safety
    /// `start` is a place, and a multiple of `per_warp`; the source is valid.
    #[inline(always)]
    unsafe fn part(&self, start: u64) -> u32 {
        u64::from(self.per_warp()).min(self.places() - start) as u32
    }
    /// Whether keys are of 4 bytes, though the type of the format's keys has 8.
    #[inline(always)]
    fn has_narrow_keys(&self) -> bool {
        false
    }
    /// The input at place `i`.
    ///
    /// # Safety
    /// `i < len`; what is read is not written while the launch lasts.
    unsafe fn load(&self, i: u64, with_value: bool) -> Input<F>;
}

/// A batch of keys and values.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Batch<K, V> {
    /// `len` keys.
    pub keys: *const K,
    /// `len` values; not read by verbs that take none. Null if all keys have the same one.
    pub values: *const V,
    /// What comes with every key then: the bits of a `V`.
    pub value: u64,
    /// How many keys.
    pub len: u64,
    /// Consecutive keys for each warp, a multiple of 32.
    pub per_warp: u32,
}
layout!(Batch<K, V> { keys, values, value, len, per_warp });

impl<F: Format> Source<F> for Batch<F::Key, F::Value> {
    const HAS_GAPS: bool = false;

    #[inline(always)]
    fn places(&self) -> u64 {
        self.len
    }

    #[inline(always)]
    fn per_warp(&self) -> u32 {
        self.per_warp
    }

    #[inline(always)]
    unsafe fn load(&self, i: u64, with_value: bool) -> Input<F> {
        // SAFETY: `i < len`.
        unsafe {
            Input::of_arrays(
                self.keys,
                self.values,
                F::Value::from_u64(self.value),
                i,
                with_value,
            )
        }
    }
}

/// The slots of a submap that is being replaced: its pairs in table order, which is the order of
/// their hashes, except for what overflowed. So they go to their new places in order as well.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Slots {
    /// The first slab.
    pub slabs: *const u8,
    /// How many slots.
    pub len: u64,
    /// Consecutive slots for each warp, a multiple of 32.
    pub per_warp: u32,
}
layout!(Slots {
    slabs,
    len,
    per_warp
});
