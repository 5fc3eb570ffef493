//! All values of each key of a batch, in rows: those of key `i` are written to the places from
//! `offsets[i]` to `offsets[i + 1]`, the one that was stored first first. An earlier launch has counted
//! how long rows are.
//!
//! A walk ends where its row does, so nothing is written beside it, also if pairs are stored meanwhile.
//! And a row has room for all pairs that stay: slots in front of such a pair were taken when it was
//! stored, so what is found there was there as well when the row was counted. If pairs have gone since,
//! a row may have places to spare; it is marked as *short*.

use super::queue::{Job, Next, Seen, Verb};
use super::slab::LANES;
#[cfg(not(target_arch = "nvptx64"))]
use super::slab::Slab;
use super::view::ChainedView;
use crate::count::Counters;
use crate::slot::Format;
use crate::source::Batch;
use gpumap_simt::tile::Tile;
use gpumap_simt::{U64x2, kernel_args, mem};

kernel_args! {
    /// Arguments of a `get_all` kernel: blocks of whole warps, enough for the batch.
    pub struct GetAllArgs<K, V> {
        /// The map.
        pub view: ChainedView,
        /// Keys.
        pub batch: Batch<K, V>,
        /// Where each row begins, and after them where the last one ends; they ascend.
        pub offsets: *const u64,
        /// Out: the places of all rows. Those that a short row has to spare are not written.
        pub values: *mut V,
        /// The first word counts the rows that are short.
        pub short: Counters,
    }
}

/// Puts the values of a key into its row.
#[derive(Clone, Copy, Debug)]
pub struct GetAll<V> {
    /// See [`GetAllArgs::offsets`].
    offsets: *const u64,
    /// See [`GetAllArgs::values`].
    values: *mut V,
    /// The place in the row of the lane's key where the walk goes on.
    next: u64,
    /// The places of the row from there on.
    room: u32,
    /// This lane's rows that are short.
    pub short: u32,
}

impl<V: Copy> GetAll<V> {
    /// With these outputs; see [`GetAllArgs`].
    #[inline(always)]
    pub fn new(offsets: *const u64, values: *mut V) -> Self {
        Self {
            offsets,
            values,
            next: 0,
            room: 0,
            short: 0,
        }
    }
}

impl<F: Format> Verb<F> for GetAll<F::Value> {
    const STORES: bool = false;
    const READS: bool = false;

    #[inline(always)]
    unsafe fn begin(&mut self, index: u64) -> bool {
        let begins = self.offsets.wrapping_add(index as usize);
        // SAFETY: one more than keys of the batch, not written during this launch.
        let (begin, end) = unsafe { (mem::load(begins), mem::load(begins.add(1))) };
        (self.next, self.room) = (begin, (end - begin) as u32);
        self.room != 0
    }

    #[inline(always)]
    unsafe fn share(&mut self, tile: Tile<LANES>, front: u32, vector: U64x2, holds: u32) {
        // SAFETY: the whole warp is here.
        let (next, room) = unsafe { (tile.shfl(self.next, front), tile.shfl(self.room, front)) };
        let first = tile.rank() * F::SLOTS;
        let mut place = (holds & ((1 << first) - 1)).count_ones();
        let mut s = 0;
        while s < F::SLOTS {
            if holds >> (first + s) & 1 != 0 {
                if place < room {
                    let to = self.values.wrapping_add((next + u64::from(place)) as usize);
                    // SAFETY: a place of the row, which this slot's lane has alone.
                    unsafe { mem::store(to, F::value(vector, s)) };
                }
                place += 1;
            }
            s += 1;
        }
    }

    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    unsafe fn share_alone(&mut self, slab: Slab, mut holds: u32) {
        let mut place = 0;
        while holds != 0 && place < self.room {
            let to = self
                .values
                .wrapping_add((self.next + u64::from(place)) as usize);
            // SAFETY: a slot of the slab; a place of the row, which is this key's alone.
            unsafe {
                let (_, value) =
                    crate::native::slots::read::<F>(slab.slots(), holds.trailing_zeros() as usize);
                mem::store(to, value);
            }
            place += 1;
            holds &= holds - 1;
        }
    }

    #[inline(always)]
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next {
        let shared = seen.holds.count_ones().min(self.room);
        self.next += u64::from(shared);
        self.room -= shared;
        if self.room == 0 {
            return Next::Done;
        }
        if seen.empty == 0 {
            return Next::Walk;
        }
        // SAFETY: passed on.
        unsafe { Verb::<F>::walked_off(self, job) };
        Next::Done
    }

    #[inline(always)]
    unsafe fn walked_off(&mut self, _: &Job<F>) {
        self.short += 1;
    }
}
