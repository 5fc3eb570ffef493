//! Pairs on their way from vectors of slots to the outputs, through shared memory: so that these are written line by line.

use crate::chunk;
use crate::primitives::filter::{Kept, counts};
use crate::slot::{Bits, Format};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::shared_ptr::SharedPtr;
use gpumap_simt::{U64x2, mem, warp};

/// Vectors per thread: as many as a word has bytes for their counts.
pub(crate) const ROUNDS: u32 = chunk::VECTORS;

/// Bytes of shared memory that a warp packs into.
pub(crate) const PART_BYTES: u32 = warp::SIZE * ROUNDS * 16;

/// Where pairs go.
#[derive(Clone, Copy)]
pub(crate) struct Outputs<K, V> {
    pub(crate) keys: *mut K,
    /// Each beside its key.
    pub(crate) values: *mut V,
    /// How many of each there is room for.
    pub(crate) room: u64,
}

/// A warp's part of what a block packs.
#[derive(Clone, Copy)]
pub(crate) struct Packed<F: Format> {
    keys: SharedPtr<F::Key>,
    values: SharedPtr<F::Value>,
}

impl<F: Format> Packed<F> {
    /// The most pairs of it.
    pub(crate) const LEN: u32 = warp::SIZE * ROUNDS * F::SLOTS;

    /// Part `i` of the dynamic shared memory, each of [`PART_BYTES`].
    #[inline(always)]
    pub(crate) fn part(i: u32) -> Self {
        let vectors = SharedPtr::<U64x2>::dynamic().add(i * (warp::SIZE * ROUNDS));
        let keys = vectors.cast::<F::Key>();
        Self {
            keys,
            values: keys.add(Self::LEN).cast(),
        }
    }

    /// Packs pairs of a warp's vectors, those of one round before those of the next, and returns how many they are. Which: bit
    /// `8 * r + s` for slot `s` of round `r`.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | all lanes of a warp, converged | in every lane |
    ///
    /// # Safety
    /// As the table says; the part is the warp's own.
    #[inline(always)]
    pub(crate) unsafe fn pack(
        self,
        vectors: &[U64x2; ROUNDS as usize],
        kept: Kept,
        key: impl Fn(F::Word) -> F::Key,
    ) -> u32 {
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
                        let vector = vectors[r as usize];
                        self.keys.add(at).store(key(F::word(vector, s)));
                        self.values.add(at).store(F::value(vector, s));
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

    /// Stores its first `len` pairs, by one warp, as those from number `begin` on.
    ///
    /// # Safety
    /// There are as many; the outputs have the room that they say, and nothing else writes there.
    #[inline(always)]
    pub(crate) unsafe fn store(self, out: &Outputs<F::Key, F::Value>, begin: u64, len: u32) {
        let mut len = len;
        let room = out.room.saturating_sub(begin);
        if u64::from(len) > room {
            len = room as u32;
        }
        // SAFETY: passed on.
        unsafe {
            Self::store_lines(self.keys, out.keys.wrapping_add(begin as usize), len);
            Self::store_lines(self.values, out.values.wrapping_add(begin as usize), len);
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
