//! [`RowView`]: the slots and the keys of a row map, as kernels see them.

#[cfg(target_arch = "nvptx64")]
use gpumap_simt::U64x2;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::layout;

use super::key::{Hash, Unit};
use super::slot::{NO_ROW, RowSlot};

/// Slots of a bucket: a sector of 32 bytes, which is what a GPU loads from memory at least.
pub const BUCKET_SLOTS: u32 = 4;

/// Bytes of a bucket.
pub const BUCKET_BYTES: usize = BUCKET_SLOTS as usize * size_of::<u64>();

/// Slots, and an array of keys in the order of rows.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RowView {
    /// [`BUCKET_SLOTS`] times as many slots as buckets, aligned to buckets.
    pub slots: *mut u64,
    /// The key of row 0, aligned to 16 bytes.
    pub keys: *mut u8,
    /// The seed of the hashes.
    pub seed: u64,
    /// How many buckets, at least one. There is a slot more than rows.
    pub buckets: u32,
    /// Bytes of a key: a multiple of 4, up to 64. Those of a reference if keys are strings.
    pub key_bytes: u32,
}
layout!(RowView {
    slots,
    keys,
    seed,
    buckets,
    key_bytes
});

impl RowView {
    /// Units of a key.
    #[inline(always)]
    pub fn units<U: Unit>(&self) -> u32 {
        self.key_bytes / const { size_of::<U>() as u32 }
    }

    /// Key number `i` of an array.
    #[inline(always)]
    pub fn key_in<U: Unit>(&self, keys: *const u8, i: u32) -> *const U {
        keys.wrapping_add(i as usize * self.key_bytes as usize)
            .cast()
    }

    /// The key of a row.
    #[inline(always)]
    pub fn key<U: Unit>(&self, row: u32) -> *mut U {
        self.key_in::<U>(self.keys, row).cast_mut()
    }

    /// The hash of a key.
    ///
    /// # Safety
    /// A key lies there, which nothing writes during the launch.
    #[inline(always)]
    pub unsafe fn hash<U: Unit>(&self, key: *const U) -> Hash {
        // SAFETY: passed on.
        Hash(unsafe { U::hash(key, self.units::<U>(), self.seed) })
    }

    /// Whether two keys with one tag are equal.
    ///
    /// # Safety
    /// Keys lie there, which nothing writes during the launch.
    #[inline(always)]
    pub unsafe fn are_equal<U: Unit>(&self, a: *const U, b: *const U) -> bool {
        // The tag of 4 bytes is exact.
        // SAFETY: passed on.
        self.key_bytes == 4 || unsafe { U::are_equal(a, b, self.units::<U>()) }
    }

    /// Slot number `i`.
    #[inline(always)]
    pub fn slot(&self, i: u32) -> *mut u64 {
        self.slots.wrapping_add(i as usize)
    }

    /// What a slot holds now.
    ///
    /// # Safety
    /// The slots are live, and written only atomically during the launch; there are more than `i`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn load(&self, i: u32) -> RowSlot {
        // SAFETY: the caller's promise.
        RowSlot::from_bits(unsafe { atomic::load(self.slot(i), Relaxed) })
    }

    /// Exchanges what a slot is known to hold. Returns what it held.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn exchange(&self, i: u32, known: RowSlot, new: RowSlot) -> RowSlot {
        // SAFETY: the caller's promise.
        let held =
            unsafe { atomic::compare_exchange(self.slot(i), known.bits(), new.bits(), Relaxed) };
        RowSlot::from_bits(held)
    }

    /// The slots of a bucket, each at some moment.
    ///
    /// # Safety
    /// As for [`load`](Self::load); there are more buckets than that.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn bucket(&self, bucket: u32) -> Bucket {
        let first = bucket * BUCKET_SLOTS;
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: two vectors of the bucket, which is aligned to them. Slots are exchanged as halves of them, which GPUs
        // do in the slice of the L2 that owns the sector (docs/concurrency.md).
        unsafe {
            let vector = self.slot(first).cast::<U64x2>();
            let low = atomic::load(vector, Relaxed);
            let high = atomic::load(vector.wrapping_add(1), Relaxed);
            Bucket([low.x, low.y, high.x, high.y])
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let word = |i| {
                if crate::native::is_here() {
                    // SAFETY: a slot of the bucket.
                    unsafe {
                        crate::native::slots::load(self.slots.cast(), 8 * (first + i) as usize)
                    }
                } else {
                    // SAFETY: as above.
                    unsafe { self.load(first + i) }.bits()
                }
            };
            Bucket([word(0), word(1), word(2), word(3)])
        }
    }

    /// Finds the key that has this hash, if `is_key_of` says so of its row.
    ///
    /// # Safety
    /// The view is of a live map, to which nothing is committed during the launch.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn find(&self, hash: Hash, is_key_of: impl Fn(u32) -> bool) -> Found {
        let tag = hash.tag();
        let mut bucket = hash.home(self.buckets);
        // The loop ends: there is an empty slot.
        loop {
            // SAFETY: slots of the map.
            let seen = unsafe { self.bucket(bucket) };
            let mut left = seen.which(|slot| slot.tag() == tag && !slot.has_no_row());
            while left != 0 {
                let nth = left.trailing_zeros();
                let row = seen.slot(nth).number();
                if is_key_of(row) {
                    let at = bucket * BUCKET_SLOTS + nth;
                    return Found { at, row };
                }
                left &= left - 1;
            }
            if seen.which(|slot| slot == RowSlot::EMPTY) != 0 {
                return Found { at: 0, row: NO_ROW };
            }
            bucket = self.next(bucket);
        }
    }

    /// The bucket that comes next in a walk.
    #[inline(always)]
    pub fn next(&self, bucket: u32) -> u32 {
        if bucket + 1 == self.buckets {
            0
        } else {
            bucket + 1
        }
    }

    /// Copies a key to its row.
    ///
    /// # Safety
    /// A key lies there, which nothing writes during the launch; the row is this thread's.
    #[inline(always)]
    pub unsafe fn write_key<U: Unit>(&self, row: u32, key: *const U) {
        // SAFETY: passed on.
        unsafe { U::copy(self.key::<U>(row), key, self.units::<U>()) };
    }
}

/// The slot of a key, and its row. A claim is no row: the insert that made it has not ended.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The slot.
    pub at: u32,
    /// Or [`NO_ROW`]: then there is no slot either.
    pub row: u32,
}

/// What the slots of a bucket held.
#[derive(Clone, Copy, Debug)]
pub struct Bucket([u64; BUCKET_SLOTS as usize]);

impl Bucket {
    /// Slot number `i` of it. No address depends on `i`: so the words stay in registers.
    #[inline(always)]
    pub fn slot(&self, i: u32) -> RowSlot {
        let [a, b, c, d] = self.0;
        let (even, odd) = if i < 2 { (a, b) } else { (c, d) };
        RowSlot::from_bits(if i & 1 == 0 { even } else { odd })
    }

    /// The slots of which something holds, bit `i` for slot `i`.
    #[inline(always)]
    pub fn which(&self, holds: impl Fn(RowSlot) -> bool) -> u32 {
        let [a, b, c, d] = self.0;
        let bit = |bits| u32::from(holds(RowSlot::from_bits(bits)));
        bit(a) | bit(b) << 1 | bit(c) << 2 | bit(d) << 3
    }
}
