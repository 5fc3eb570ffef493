//! What the control warp does: it takes tiles, and decides where their pairs go.

use super::turns::{RESERVED, Turns, Words};
use super::{RetrieveAllArgs, WARPS};
use crate::chunk::{Chunks, Run};
use crate::primitives::combine::Tally;
use crate::primitives::look_back::{LAG, Tiles, take_tile};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{thread, warp};

/// How a launch divides its chunks into tiles, and its tiles among blocks.
pub struct Plan<'a> {
    pub chunks: &'a Chunks,
    /// The counter that tiles are taken from.
    pub taken: *mut u8,
    /// How many tiles a chunk has, as a power of two.
    pub parts_log2: u32,
    pub vectors: u32,
    pub tiles: u32,
}

impl Plan<'_> {
    /// Takes a tile and writes it for the block to the words of `turn`. `run` is that of the
    /// block's tile before, and becomes this one's: tiles ascend, and most often it is the same.
    ///
    /// # Safety
    /// All lanes of one warp of the block call it, while nothing reads these words.
    #[inline(always)]
    unsafe fn take(&self, words: &Words, turn: u32, run: &mut Run) {
        let first = warp::lane_id() == 0;
        // SAFETY: the caller's promise; a word for the purpose, and the chunk is one of them.
        unsafe {
            let mut number = 0;
            if first {
                number = take_tile(self.taken);
            }
            let number = warp::warp_shuffle_idx(LaneMask::FULL, number, 0, warp::SIZE);
            if number < self.tiles {
                let i = number >> self.parts_log2;
                let chunk = self.chunks.first + u64::from(i);
                if run.is_before(chunk) {
                    *run = self.chunks.run_of(i, run.entry + 1);
                }
                let chunk = run.chunk(chunk);
                let skipped = (number & ((1 << self.parts_log2) - 1)) * self.vectors;
                let len = chunk.len.saturating_sub(skipped).min(self.vectors);
                let reserved = if chunk.reserved { RESERVED } else { 0 };
                let at = chunk.vectors.wrapping_add(skipped as usize);
                if first {
                    words.places.add(turn).store(at as u64);
                    words.lens.add(turn).store(len | reserved);
                }
            }
            if first {
                words.numbers.add(turn).store(number);
            }
        }
    }
}

/// What the control warp does.
///
/// # Safety
/// All its lanes call it.
#[inline(always)]
pub unsafe fn control<K, V>(args: &RetrieveAllArgs<K, V>, plan: &Plan, words: &Words, warps: u32) {
    let lane = warp::lane_id();
    let in_order = !args.tiles.is_null();
    // SAFETY: all lanes reach each collective, since what they branch on is the same for
    // all. Words of shared memory are written between two barriers and read between the next
    // two, while those of the other turn are written.
    unsafe {
        let mut run = plan.chunks.run_of(0, 0);
        plan.take(words, 0, &mut run);
        plan.take(words, 1, &mut run);
        thread::sync_threads();
        let mut turns = Turns::first(words);
        thread::sync_threads();
        let mut states = Tiles::<Tally<u64>>::behind(args.tiles, 0);
        // Of the tiles of the turns before: the pairs of the warps before a lane's, and all pairs.
        let mut before = [0; LAG + 1];
        let mut totals = [0; LAG + 1];
        while turns.go_on(plan.tiles) {
            let coming = turns.coming(words);
            if turns.behind[0] < plan.tiles {
                let mut sum = 0;
                if lane < warps {
                    sum = words.sums.add((1 - turns.turn) * WARPS + lane).load();
                }
                let up_to = warp::warp_inclusive_sum(sum);
                before[0] = up_to - sum;
                totals[0] =
                    warp::warp_shuffle_idx(LaneMask::FULL, up_to, warp::SIZE - 1, warp::SIZE);
                if in_order && lane == 0 {
                    states.publish(turns.behind[0], u64::from(totals[0]));
                }
            }
            // The warps that read these words have their tile on its way into registers.
            plan.take(words, turns.turn, &mut run);
            let out = turns.behind[LAG];
            if out < plan.tiles {
                let total = u64::from(totals[LAG]);
                let mut begin = 0;
                if in_order {
                    begin = states.look_back(out);
                    if lane == 0 && out == plan.tiles - 1 {
                        atomic::fetch_add(args.pairs.words, begin + total, Relaxed);
                    }
                } else {
                    if lane == 0 && total != 0 {
                        begin = atomic::fetch_add(args.pairs.words, total, Relaxed);
                    }
                    begin = warp::warp_shuffle_idx(LaneMask::FULL, begin, 0, warp::SIZE);
                }
                if lane < warps {
                    let place = words.begins.add(turns.turn * WARPS + lane);
                    place.store(begin + u64::from(before[LAG]));
                }
            }
            thread::sync_threads();
            let mut b = LAG;
            while b > 0 {
                before[b] = before[b - 1];
                totals[b] = totals[b - 1];
                b -= 1;
            }
            turns.next(coming);
        }
        if lane == 0 {
            args.pairs.block_is_done();
        }
    }
}
