//! A batch in bins, as a source of the verbs.

use super::pair::{self, side_by_side};
use crate::slot::{Bits, Format};
use crate::source::{Input, Source};
use core::ptr;
use gpumap_simt::layout;
use gpumap_simt::mem;

/// Bins have room for a multiple of as many places.
pub const GRAIN: u32 = 128;

/// Consecutive places for each warp at most. The last keys of a part leave most lanes idle; but the places that
/// all warps work on at one time should lie in few regions of the table.
pub const PART: u32 = 512;

/// Keys, or pairs if the verb takes values, in bins by the top bits of their hashes: bin `b` begins
/// at place `b * grains * GRAIN`, and its first `counts[b]` places are in use.
///
/// The bins of a table in use are as many regions of it, in order. Warps that run at the same time
/// work on few of them, which the L2 has room for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Bins<K, V> {
    /// The keys of all bins; or the words of pairs that lie [side by side](super::pair).
    pub keys: *const K,
    /// The values of those that do not; not read by verbs that take none.
    pub values: *const V,
    /// What comes with every key, if that is the same: then keys lie alone. The bits of a `V`.
    pub value: u64,
    /// How many keys each bin has.
    pub counts: *const u64,
    /// How many bins.
    pub bins: u32,
    /// Places of a bin, in units of [`GRAIN`]; at least one.
    pub grains: u32,
    /// Consecutive places for each warp, of which a bin has a multiple: so no warp has two bins. A multiple of
    /// 32, [`PART`] at most.
    pub part: u32,
    /// Whether all keys come with `value`: if not 0.
    pub same: u32,
}
layout!(Bins<K, V> { keys, values, value, counts, bins, grains, part, same });

impl<K, V> Bins<K, V> {
    /// Places of a bin.
    #[inline(always)]
    pub const fn capacity(&self) -> u64 {
        self.grains as u64 * GRAIN as u64
    }

    /// How many of `len` places from `start` on are in use: all of one bin.
    ///
    /// # Safety
    /// The bins are valid, and have these places.
    #[inline(always)]
    pub(crate) unsafe fn used(&self, start: u64, len: u32) -> u32 {
        let grain = (start / u64::from(GRAIN)) as u32;
        // No bin has no grain; the other branch would be a panic.
        let bin = grain.checked_div(self.grains).unwrap_or(0);
        let inside = u64::from(grain - bin * self.grains) * u64::from(GRAIN);
        // SAFETY: `start` is a place, so `bin` is one of the bins.
        let count = unsafe { mem::load_readonly(self.counts.add(bin as usize)) };
        if inside < count {
            (count - inside).min(u64::from(len)) as u32
        } else {
            0
        }
    }

    /// Places of all bins.
    #[inline(always)]
    pub const fn len(&self) -> u64 {
        self.bins as u64 * self.capacity()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<F: Format> Source<F> for Bins<F::Key, F::Value> {
    const HAS_GAPS: bool = false;

    #[inline(always)]
    fn places(&self) -> u64 {
        self.len()
    }

    #[inline(always)]
    fn per_warp(&self) -> u32 {
        self.part
    }

    #[inline(always)]
    unsafe fn part(&self, start: u64) -> u32 {
        // SAFETY: passed on.
        unsafe { self.used(start, self.part) }
    }

    #[inline(always)]
    unsafe fn load(&self, i: u64, with_value: bool) -> Input<F> {
        // SAFETY: `i` is a place. What lies in one that is not in use is not looked at.
        unsafe {
            if with_value && self.same == 0 && const { side_by_side::<F::Key, F::Value>() } {
                let (key, value) = pair::load(self.keys.cast(), i);
                let live = true;
                return Input { key, value, live };
            }
            let values = if self.same == 0 {
                self.values
            } else {
                ptr::null()
            };
            Input::of_arrays(
                self.keys,
                values,
                F::Value::from_u64(self.value),
                i,
                with_value,
            )
        }
    }
}
