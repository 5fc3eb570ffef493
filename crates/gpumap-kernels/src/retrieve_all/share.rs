//! What a working warp does: it loads its share of a tile, packs its pairs, and stores them two turns later.

use super::control::Plan;
use super::turns::{RESERVED, Turns, Words};
use super::{PACKED, ROUNDS, RetrieveAllArgs, WARPS};
use crate::primitives::filter::{Kept, counts};
use crate::primitives::look_back::LAG;
use crate::slot::{Bits, Format, KeyWord};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{U64x2, mem, thread, warp};

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

    /// Begins to load thread `t`'s vectors of the tile of which the words of `turn` tell. Those of a
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

    /// Packs the warp's pairs in its part of shared memory, in the order of the table, and returns how many
    /// they are.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | all lanes of a warp, converged | in every lane |
    ///
    /// # Safety
    /// As the table says; there is room in the part for a pair in each slot of the warp's vectors.
    #[inline(always)]
    unsafe fn pack<F: Format>(&self, part: Packed<F>) -> u32 {
        let kept = self.pairs::<F>();
        // SAFETY: all lanes are here; each pair has a place of its own.
        unsafe {
            // A round has at most 64 in a warp: a byte holds them.
            let mine = counts(kept);
            let up_to = warp::warp_inclusive_sum(mine);
            let of_rounds =
                warp::warp_shuffle_idx(LaneMask::FULL, up_to, warp::SIZE - 1, warp::SIZE);
            let below = up_to.wrapping_sub(mine);
            let mut before = 0;
            let mut r = 0;
            while r < ROUNDS {
                let mut at = before + (below >> (8 * r) & 0xff);
                let mut s = 0;
                while s < F::SLOTS {
                    if kept >> (8 * r + s) & 1 != 0 {
                        let vector = self.vectors[r as usize];
                        let word = F::word(vector, s);
                        let key = if self.reserved {
                            F::reserved_key(word)
                        } else {
                            F::key(word)
                        };
                        part.keys.add(at).store(key);
                        part.values.add(at).store(F::value(vector, s));
                        at += 1;
                    }
                    s += 1;
                }
                before += of_rounds >> (8 * r) & 0xff;
                r += 1;
            }
            before
        }
    }
}

/// A warp's part of a packed tile.
#[derive(Clone, Copy)]
struct Packed<F: Format> {
    keys: SharedPtr<F::Key>,
    values: SharedPtr<F::Value>,
}

impl<F: Format> Packed<F> {
    /// The most pairs of it.
    const LEN: u32 = warp::SIZE * ROUNDS * F::SLOTS;

    /// Part `i` of packed tiles, counted over all of them.
    #[inline(always)]
    fn part(i: u32) -> Self {
        let vectors = SharedPtr::<U64x2>::dynamic().add(i * (warp::SIZE * ROUNDS));
        let keys = vectors.cast::<F::Key>();
        Self {
            keys,
            values: keys.add(Self::LEN).cast(),
        }
    }

    /// Stores its first `len` pairs, by one warp, as those from number `begin` on.
    ///
    /// # Safety
    /// There are as many; the outputs have the room that they say, and nobody else writes there.
    #[inline(always)]
    unsafe fn store(self, args: &RetrieveAllArgs<F::Key, F::Value>, begin: u64, len: u32) {
        let mut len = len;
        let room = args.room.saturating_sub(begin);
        if u64::from(len) > room {
            len = room as u32;
        }
        // SAFETY: passed on.
        unsafe {
            Self::store_lines(self.keys, args.keys.wrapping_add(begin as usize), len);
            Self::store_lines(self.values, args.values.wrapping_add(begin as usize), len);
        }
    }

    /// Stores `len` words, from the last boundary of a line before the output on: so each instruction
    /// writes whole lines.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    #[inline(always)]
    unsafe fn store_lines<T: Bits>(packed: SharedPtr<T>, to: *mut T, len: u32) {
        if const { size_of::<T>() == 0 } {
            return;
        }
        let skew = (to as usize / size_of::<T>()) as u32 % warp::SIZE;
        // What lies before the output is far beyond the length.
        let mut i = warp::lane_id().wrapping_sub(skew);
        let mut round = 0;
        while round <= ROUNDS * F::SLOTS {
            if i < len {
                // SAFETY: below the length.
                unsafe { mem::store(to.wrapping_add(i as usize), packed.add(i).load()) };
            }
            i = i.wrapping_add(warp::SIZE);
            round += 1;
        }
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
            // As many places behind `at` as the tile that is stored is turns.
            at = if at == PACKED - 1 { 0 } else { at + 1 };
            if turns.behind[LAG] < plan.tiles {
                let begin = words.begins.add(turns.turn * WARPS + warp_id).load();
                Packed::<F>::part(at * warps + warp_id).store(args, begin, sums[LAG]);
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
