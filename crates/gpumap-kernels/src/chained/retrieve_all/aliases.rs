//! The pairs whose words are aliases, or might be: those of few keys, whose chains are followed.
//!
//! For each of the [`RESERVED_WORDS`] aliases these are two chains: the one that belongs to the key for which it stands, and the one
//! of the key whose word it is else, where others have their home as well.

use crate::chained::slab::{LANES, Slab, SlabIndex, is_slot, link_in};
use crate::chained::view::ChainedView;
use crate::count::Counters;
use crate::retrieve_all::packed::Outputs;
use crate::slot::{Bits, Format, RESERVED_WORDS};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::tile::Tile;
use gpumap_simt::{U64x2, mem, thread, warp};

const ALIASES: u32 = RESERVED_WORDS as u32;
/// Those of keys whose words they are, and after them those of keys for which they stand.
const CHAINS: u32 = 2 * ALIASES;
/// Chains that a warp follows side by side.
const SIDE_BY_SIDE: u32 = warp::SIZE / LANES;

/// Dumps them, by the first warp of a block.
///
/// # Safety
/// As for [`dump`](super::dump); all threads of the block call it.
#[inline(always)]
pub(super) unsafe fn dump<F: Format>(
    view: &ChainedView,
    out: &Outputs<F::Key, F::Value>,
    pairs: Counters,
) {
    if thread::thread_idx_x() >= warp::SIZE {
        return;
    }
    let mut first = 0;
    while first < CHAINS {
        // SAFETY: the whole warp is here.
        unsafe { follow::<F>(view, out, pairs, first + warp::lane_id() / LANES) };
        first += SIDE_BY_SIDE;
    }
}

/// Dumps the pairs of one alias in a chain, by a tile each.
///
/// # Safety
/// As for [`dump`]; the whole warp calls it.
#[inline(always)]
unsafe fn follow<F: Format>(
    view: &ChainedView,
    out: &Outputs<F::Key, F::Value>,
    pairs: Counters,
    chain: u32,
) {
    let (tile, lane) = (Tile::<LANES>::converged(), warp::lane_id());
    let is_reserved = chain >= ALIASES;
    let alias = F::Word::from_u64(u64::from(chain - if is_reserved { ALIASES } else { 0 }));
    let mut slab = Slab::NONE;
    let mut key = F::key(alias);
    if chain < CHAINS {
        if is_reserved {
            key = F::reserved_key(alias);
        }
        (_, slab) = view.home::<F>(key);
    }
    let mut slabs_left = view.pool.units();
    loop {
        // SAFETY: slabs of a chain of a live map; the whole warp is at each collective, since it leaves the loop as one.
        unsafe {
            let mut vector = U64x2::new(!0, !0);
            if slab.is_some() {
                vector = slab.load(tile.rank());
            }
            let mut s = 0;
            while s < F::SLOTS {
                let pair = is_slot::<F>(tile.rank(), s) && F::word(vector, s) == alias;
                let lanes = warp::warp_vote_ballot(LaneMask::FULL, pair);
                let mut begin = 0;
                if lane == 0 && !lanes.is_empty() {
                    let count = u64::from(lanes.count());
                    begin = atomic::fetch_add(pairs.words, count, Relaxed);
                }
                let begin = warp::warp_shuffle_idx(LaneMask::FULL, begin, 0, warp::SIZE);
                let at = begin + u64::from(lanes.rank_of(lane));
                if pair && at < out.room {
                    mem::store(out.keys.add(at as usize), key);
                    mem::store(out.values.add(at as usize), F::value(vector, s));
                }
                s += 1;
            }
            let link = SlabIndex::new(tile.shfl(link_in(vector).bits(), LANES - 1));
            slab = Slab::NONE;
            if link.is_some() {
                slab = view.pool.slab(link);
            }
            if !warp::warp_vote_any(LaneMask::FULL, slab.is_some()) || slabs_left == 0 {
                return;
            }
            slabs_left -= 1;
        }
    }
}
