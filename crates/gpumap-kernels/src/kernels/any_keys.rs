//! [`AnyKeys`]: one kernel for keys of 4 and of 8 bytes, where a branch on that costs nothing that counts.

use crate::build::bins::Bins;
use crate::slot::{Bits, Format, KeyWord};
use crate::source::{Batch, Input, Slots, Source};
use gpumap_simt::mem;

/// A source whose keys, and the values beside them, are of as many bytes as the host says. It gives no values, unless it is the
/// slots of a table.
#[derive(Clone, Copy)]
pub struct AnyKeys<S> {
    /// What it is.
    pub of: S,
    /// Bytes of a key, 4 or 8.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
}

impl<S> AnyKeys<S> {
    /// Whether keys are narrower than this type.
    #[inline(always)]
    fn are_narrower<K>(&self) -> bool {
        size_of::<K>() != 4 && self.key_bytes == 4
    }

    /// Key `i` of those that lie `stride` bytes apart.
    ///
    /// # Safety
    /// There is such a key, which is not written while the launch lasts.
    #[inline(always)]
    unsafe fn input<F: Format>(&self, keys: *const F::Key, stride: u32, i: u64) -> Input<F> {
        let at = keys
            .cast::<u8>()
            .wrapping_add((i * u64::from(stride)) as usize);
        // SAFETY: the caller's promise.
        let key = unsafe {
            if self.are_narrower::<F::Key>() {
                F::Key::from_u64(mem::load_streaming(at.cast::<u32>()).to_u64())
            } else {
                mem::load_streaming(at.cast())
            }
        };
        Input {
            key,
            value: F::Value::default(),
            live: true,
        }
    }
}

impl<F: Format> Source<F> for AnyKeys<Batch<F::Key, F::Value>> {
    const HAS_GAPS: bool = false;

    #[inline(always)]
    fn places(&self) -> u64 {
        self.of.len
    }

    #[inline(always)]
    fn per_warp(&self) -> u32 {
        self.of.per_warp
    }

    #[inline(always)]
    fn has_narrow_keys(&self) -> bool {
        self.are_narrower::<F::Key>()
    }

    #[inline(always)]
    unsafe fn load(&self, i: u64, _: bool) -> Input<F> {
        // SAFETY: `i < len`.
        unsafe { self.input(self.of.keys, self.key_bytes, i) }
    }
}

impl<F: Format> Source<F> for AnyKeys<Bins<F::Key, F::Value>> {
    const HAS_GAPS: bool = false;

    #[inline(always)]
    fn places(&self) -> u64 {
        self.of.len()
    }

    #[inline(always)]
    fn per_warp(&self) -> u32 {
        self.of.part
    }

    #[inline(always)]
    unsafe fn part(&self, start: u64) -> u32 {
        // SAFETY: passed on.
        unsafe { self.of.used(start, self.of.part) }
    }

    #[inline(always)]
    fn has_narrow_keys(&self) -> bool {
        self.are_narrower::<F::Key>()
    }

    #[inline(always)]
    unsafe fn load(&self, i: u64, _: bool) -> Input<F> {
        // Keys lie beside their values if both are of one size.
        let (key_bytes, value_bytes) = match (size_of::<F::Key>(), size_of::<F::Value>()) {
            (4, 4) => (4, 4),
            (_, 0) => (self.key_bytes, 0),
            _ => (self.key_bytes, self.value_bytes),
        };
        let pairs = self.of.same == 0 && key_bytes == value_bytes;
        // SAFETY: `i` is a place. What lies in one that is not in use is not looked at.
        unsafe { self.input(self.of.keys, key_bytes << u32::from(pairs), i) }
    }
}

impl<F: Format> Source<F> for AnyKeys<Slots> {
    const HAS_GAPS: bool = true;

    #[inline(always)]
    fn places(&self) -> u64 {
        self.of.len
    }

    #[inline(always)]
    fn per_warp(&self) -> u32 {
        self.of.per_warp
    }

    #[inline(always)]
    fn has_narrow_keys(&self) -> bool {
        self.are_narrower::<F::Key>()
    }

    #[inline(always)]
    unsafe fn load(&self, i: u64, _: bool) -> Input<F> {
        // SAFETY: `i < len`.
        let (word, value) = unsafe { F::read(self.of.slabs, i) };
        Input {
            key: F::key(word),
            value,
            live: word.is_key(),
        }
    }
}
