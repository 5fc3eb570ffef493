//! Dumping all pairs, by blocks that take one tile after the other, each its share.

use core::mem::MaybeUninit;
use core::ptr::copy_nonoverlapping;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use gpumap_simt::atomic;
use gpumap_simt::native::{Waits, copy_past_cache, finish_copies};

use super::{share_of_tiles, slots};
use crate::chunk::{CHUNK_SLABS, Chunk, VECTORS_PER_SLAB};
use crate::primitives::look_back::{HEADER_BYTES, take_tile};
use crate::retrieve_all::RetrieveAllArgs;
use crate::slot::{Format, KeyWord};

/// The most slots of a tile.
const SLOTS: usize = (CHUNK_SLABS * VECTORS_PER_SLAB * 2) as usize;

/// Pairs of an output from which on it does not go through the cache.
const LARGE: u64 = 1 << 18;

/// The pairs of a tile, side by side.
struct Packed<F: Format> {
    keys: [MaybeUninit<F::Key>; SLOTS],
    values: [MaybeUninit<F::Value>; SLOTS],
    len: usize,
}

impl<F: Format> Packed<F> {
    /// Packs the pairs of some vectors of a chunk. No branch depends on which slots have one.
    ///
    /// # Safety
    /// They are of a live map of this format.
    #[inline(always)]
    unsafe fn fill(&mut self, chunk: &Chunk) {
        let mut len = 0;
        for i in 0..(chunk.len * F::SLOTS) as usize {
            // SAFETY: below the number of slots.
            let (word, value) = unsafe { slots::read::<F>(chunk.vectors.cast(), i) };
            if chunk.reserved && !word.is_key() {
                // No key has such an alias.
                continue;
            }
            self.keys[len].write(chunk.key::<F>(word));
            self.values[len].write(value);
            len += usize::from(word.is_key());
        }
        self.len = len;
    }

    /// Copies the pairs to the outputs, as those from number `begin` on, as far as there is room.
    ///
    /// # Safety
    /// These places of the outputs are the caller's.
    unsafe fn copy_to(&self, args: &RetrieveAllArgs<F::Key, F::Value>, begin: u64) {
        let len = (self.len as u64).min(args.room.saturating_sub(begin)) as usize;
        // SAFETY: so many have been packed, and fit.
        unsafe {
            let keys: *const F::Key = self.keys.as_ptr().cast();
            let values: *const F::Value = self.values.as_ptr().cast();
            let to_keys = args.keys.wrapping_add(begin as usize);
            let to_values = args.values.wrapping_add(begin as usize);
            if args.room < LARGE {
                copy_nonoverlapping(keys, to_keys, len);
                copy_nonoverlapping(values, to_values, len);
            } else {
                copy_past_cache(keys, to_keys, len);
                copy_past_cache(values, to_values, len);
            }
        }
    }
}

/// # Safety
/// See [`dump`](crate::retrieve_all::dump), of which this is what all threads of the block do.
pub(crate) unsafe fn dump<F: Format>(args: &RetrieveAllArgs<F::Key, F::Value>) {
    let tiles = args.count << args.parts_log2;
    let mut packed = Packed::<F> {
        keys: [const { MaybeUninit::uninit() }; SLOTS],
        values: [const { MaybeUninit::uninit() }; SLOTS],
        len: 0,
    };
    // SAFETY: tiles are taken from a counter for the purpose, and are of a live map; what `begin` hands out
    // is this block's.
    unsafe {
        for _ in 0..share_of_tiles(tiles.into()) {
            let tile = take_tile(args.pairs.unplaced().cast());
            if tile >= tiles {
                break;
            }
            packed.fill(&part(args, tile));
            let len = packed.len as u64;
            let begin = if args.tiles.is_null() {
                atomic::fetch_add(args.pairs.words, len, atomic::Relaxed)
            } else {
                let begin = begin_in_order(args.tiles, tile, len);
                if tile == tiles - 1 {
                    atomic::fetch_add(args.pairs.words, begin + len, atomic::Relaxed);
                }
                begin
            };
            packed.copy_to(args, begin);
        }
        finish_copies();
        args.pairs.block_is_done();
    }
}

/// Part of a chunk: a tile.
///
/// # Safety
/// There is such a tile.
unsafe fn part<K, V>(args: &RetrieveAllArgs<K, V>, tile: u32) -> Chunk {
    let vectors = (CHUNK_SLABS * VECTORS_PER_SLAB) >> args.parts_log2;
    let number = args.chunks.first + u64::from(tile >> args.parts_log2);
    // SAFETY: the caller's promise.
    let chunk = unsafe { args.chunks.at(number) };
    let skipped = (tile & ((1 << args.parts_log2) - 1)) * vectors;
    Chunk {
        vectors: chunk.vectors.wrapping_add(skipped as usize),
        len: chunk.len.saturating_sub(skipped).min(vectors),
        reserved: chunk.reserved,
    }
}

/// Where the pairs of a tile begin after those of all tiles before it, which are at work or done: tiles are
/// taken in order.
///
/// # Safety
/// The header and a status word for each tile, all zero before the launch; each tile once.
unsafe fn begin_in_order(header: *mut u8, tile: u32, len: u64) -> u64 {
    /// Says that a word is there.
    const PUBLISHED: u64 = 1 << 63;
    let states = header.wrapping_add(HEADER_BYTES).cast::<u64>();
    // SAFETY: a word for each tile, accessed so only.
    let state = |tile: u32| unsafe { AtomicU64::from_ptr(states.add(tile as usize)) };
    let mut begin = 0;
    if let Some(before) = tile.checked_sub(1) {
        // The thread that works on it waits only for those before.
        let mut waits = Waits::default();
        loop {
            let end = state(before).load(Acquire);
            if end & PUBLISHED != 0 {
                begin = end & !PUBLISHED;
                break;
            }
            waits.wait();
        }
    }
    debug_assert_eq!(state(tile).load(Relaxed), 0);
    state(tile).store(PUBLISHED | (begin + len), Release);
    begin
}
