//! What a working warp does: it loads its share of a tile, packs its pairs, and stores them two turns later.

use super::control::Plan;
use super::packed::{Outputs, Packed};
use super::turns::{RESERVED, Turns, Words};
use super::{PACKED, ROUNDS, RetrieveAllArgs, WARPS};
use crate::primitives::filter::Kept;
use crate::primitives::look_back::LAG;
use crate::slot::{Format, KeyWord};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{U64x2, thread, warp};

/// A thread's vectors of a tile.
#[derive(Clone, Copy)]
struct Share {
    vectors: [U64x2; ROUNDS as usize],
    reserved: bool,
}

impl Share {
    const NOTHING: Self = Self {
        vectors: [U64x2::new(!0, !0); ROUNDS as usize],
        reserved: false,
    };

    /// Begins to load thread `t`'s vectors of the tile in the words of `turn`. Those of a
    /// warp lie together, those of one round side by side; beyond the end all is empty.
    ///
    /// # Safety
    /// The tile is one of a live map.
    #[inline(always)]
    unsafe fn load(words: &Words, turn: u32, t: u32) -> Self {
        let mut share = Self::NOTHING;
        // SAFETY: the words are there; loads stay below the tile's length.
        unsafe {
            let at = words.places.add(turn).load() as *mut U64x2;
            let len = words.lens.add(turn).load();
            share.reserved = len & RESERVED != 0;
            let first = t / warp::SIZE * (warp::SIZE * ROUNDS) + t % warp::SIZE;
            let mut r = 0;
            while r < ROUNDS {
                let i = first + r * warp::SIZE;
                if i < len & !RESERVED {
                    share.vectors[r as usize] = atomic::load(at.wrapping_add(i as usize), Relaxed);
                }
                r += 1;
            }
        }
        share
    }

    /// Which slots hold pairs: bit `8 * r + s` for slot `s` of round `r`.
    #[inline(always)]
    fn pairs<F: Format>(&self) -> Kept {
        let mut kept = 0;
        let mut r = 0;
        while r < ROUNDS {
            let mut s = 0;
            while s < F::SLOTS {
                let word = F::word(self.vectors[r as usize], s);
                kept |= u32::from(word.is_key()) << (8 * r + s);
                s += 1;
            }
            r += 1;
        }
        kept
    }

    /// Packs the warp's pairs, in the order of the table, and returns how many they are.
    ///
    /// # Safety
    /// As for [`Packed::pack`].
    #[inline(always)]
    unsafe fn pack<F: Format>(&self, part: Packed<F>) -> u32 {
        let key = |word| {
            if self.reserved {
                F::reserved_key(word)
            } else {
                F::key(word)
            }
        };
        // SAFETY: the caller's promise.
        unsafe { part.pack(&self.vectors, self.pairs::<F>(), key) }
    }
}

/// What a working warp does.
///
/// # Safety
/// All its lanes call it.
#[inline(always)]
pub unsafe fn work<F: Format>(
    args: &RetrieveAllArgs<F::Key, F::Value>,
    plan: &Plan,
    words: &Words,
    warps: u32,
) {
    let t = thread::thread_idx_x();
    let warp_id = t / warp::SIZE;
    // SAFETY: as for `control`; parts of packed tiles are the warp's own, and stored before another
    // tile is packed there.
    unsafe {
        thread::sync_threads();
        let mut turns = Turns::first(words);
        let mut ahead = Share::NOTHING;
        if turns.tile < plan.tiles {
            ahead = Share::load(words, 0, t);
        }
        thread::sync_threads();
        // Of the tiles of the turns before: the warp's pairs.
        let mut sums = [0; LAG + 1];
        let mut at = 0;
        let out = Outputs {
            keys: args.keys,
            values: args.values,
            room: args.room,
        };
        while turns.go_on(plan.tiles) {
            let coming = turns.coming(words);
            let mut sum = 0;
            if turns.tile < plan.tiles {
                sum = ahead.pack::<F>(Packed::part(at * warps + warp_id));
                if coming < plan.tiles {
                    ahead = Share::load(words, 1 - turns.turn, t);
                }
                if warp::lane_id() == 0 {
                    words.sums.add(turns.turn * WARPS + warp_id).store(sum);
                }
            }
            thread::sync_threads();
            // As many places after `at` as the tile that is stored is turns.
            at = if at == PACKED - 1 { 0 } else { at + 1 };
            if turns.behind[LAG] < plan.tiles {
                let begin = words.begins.add(turns.turn * WARPS + warp_id).load();
                Packed::<F>::part(at * warps + warp_id).store(&out, begin, sums[LAG]);
            }
            let mut b = LAG;
            while b > 0 {
                sums[b] = sums[b - 1];
                b -= 1;
            }
            sums[0] = sum;
            turns.next(coming);
        }
    }
}
