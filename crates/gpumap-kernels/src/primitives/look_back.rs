//! Prefixes across tiles in a single pass: a decoupled look-back without a chain.
//!
//! After D. Merrill and M. Garland, *Single-pass parallel prefix scan with decoupled look-back*
//! (NVIDIA technical report NVR-2016-002): each tile has one status word, in which its block
//! publishes the tile's *aggregate* as soon as it knows it. There, blocks then publish inclusive
//! prefixes for each other to find. Here a block works on many tiles in ascending order and
//! remembers the prefix of its last one; what lies between that one and the next it adds up by itself,
//! 32 tiles with every load. That is about as many words as there are blocks, however far the
//! others are, and no block waits for another one's look-back.
//!
//! # Forward progress
//! Blocks take tiles from a counter while they run ([`take_tile`]), so tile `t` is held by a
//! block that runs, and so is every tile before it, or they are done: whatever the order is in
//! which the hardware starts blocks, no block waits for one that has not started. A block may
//! hold several tiles, so as to load one while it works on another, and looks back for a tile only
//! after the aggregates of it and of all tiles that it took before are published. It waits only
//! for words of tiles before the one that it looks back for. So consider the lowest tile whose
//! aggregate is not published: what its block has to do before are look-backs for lower tiles,
//! and these do not wait, for all words before those are there. It publishes after finitely
//! many steps, and the next tile is the lowest.
//! A running block is never starved: GPUs from compute capability 7.0 on schedule every resident
//! warp eventually, and the executor gives each waiting lane's turn to others at
//! [`nanosleep`](thread::nanosleep).
//!
//! # Latency
//! A look-back right after the publication waits for words that are not there yet, and takes as
//! long as the rest of a scan (`docs/tried.md`). It is therefore put off for a turn ([`LAG`]),
//! by when they have long arrived, and done by a warp that has nothing else to do.
//!
//! # Memory order
//! State and value are one word, written by one store and read by one load that are single-copy
//! atomic: 64 bits for values of 4 bytes and for counts, 128 bits (all GPUs from sm_70 on) for
//! values of 8. A reader that sees a word published therefore has the value that belongs to it, and
//! nothing else is communicated: no reader uses other memory that the publisher wrote. So relaxed
//! accesses at device scope are enough. Words are empty (zero) before the launch, which the
//! order of the stream guarantees, and are written once.

use super::combine::Combine;
use super::word::Word;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{U64x2, thread, warp};

/// No tile: after the last one.
pub const NO_TILE: u32 = u32::MAX;

/// Turns between the publication of a tile's aggregate and its look-back.
pub const LAG: usize = 1;

/// Words that each lane has on their way, for a window of 32 times as many tiles: at 132 blocks of
/// one multiprocessor each one window is enough.
const IN_FLIGHT: usize = 5;

/// How long a warp leaves the memory alone when a word that it needs is still empty.
const PAUSE_NANOS: u32 = 20;

/// A layout of status words: whether it is published, and the value, in one atomic access.
pub trait Status: Copy {
    /// The value.
    type Value: Word;
    /// The word in memory; zero is not published.
    type Raw: atomic::Word;
    /// A published value.
    fn pack(value: Self::Value) -> Self::Raw;
    /// Whether the word is published.
    fn is_published(raw: Self::Raw) -> bool;
    /// The value of a published word.
    fn value(raw: Self::Raw) -> Self::Value;
}

/// Values of 4 bytes in words of 64 bits: the flag in the high half.
#[derive(Clone, Copy, Debug)]
pub struct Narrow;
/// Values of 8 bytes in words of 128 bits: the flag in the second half.
#[derive(Clone, Copy, Debug)]
pub struct Wide;
/// Counts below 2^63 in words of 64 bits: the flag is the highest.
#[derive(Clone, Copy, Debug)]
pub struct Count;

impl Status for Narrow {
    type Value = u32;
    type Raw = u64;
    #[inline(always)]
    fn pack(value: u32) -> u64 {
        1 << 32 | value as u64
    }
    #[inline(always)]
    fn is_published(raw: u64) -> bool {
        (raw >> 32) as u32 != 0
    }
    #[inline(always)]
    fn value(raw: u64) -> u32 {
        raw as u32
    }
}

impl Status for Wide {
    type Value = u64;
    type Raw = U64x2;
    #[inline(always)]
    fn pack(value: u64) -> U64x2 {
        U64x2::new(value, 1)
    }
    #[inline(always)]
    fn is_published(raw: U64x2) -> bool {
        raw.y != 0
    }
    #[inline(always)]
    fn value(raw: U64x2) -> u64 {
        raw.x
    }
}

impl Status for Count {
    type Value = u64;
    type Raw = u64;
    #[inline(always)]
    fn pack(value: u64) -> u64 {
        1 << 63 | value
    }
    #[inline(always)]
    fn is_published(raw: u64) -> bool {
        raw >> 63 != 0
    }
    #[inline(always)]
    fn value(raw: u64) -> u64 {
        raw & (u64::MAX >> 1)
    }
}

/// What precedes the status words of a launch, in memory that is zero at the start: the counter
/// that tiles are taken from.
pub const HEADER_BYTES: usize = 16;

/// Takes the next tile, for the calling block to work on. Called by **one** thread of the block,
/// which passes it to the others. Beyond the last tile there are [`NO_TILE`]s and other high
/// numbers.
///
/// # Safety
/// `header` leads to [`HEADER_BYTES`] bytes, zero before the launch.
#[inline(always)]
pub unsafe fn take_tile(header: *mut u8) -> u32 {
    // SAFETY: the caller's promise. Relaxed: the number is all that is communicated.
    unsafe { atomic::fetch_add(header.cast::<u32>(), 1, Relaxed) }
}

/// The status words of one launch, as a block looks back on them.
#[derive(Clone, Copy, Debug)]
pub struct Tiles<C: Combine> {
    states: *mut <C::Status as Status>::Raw,
    /// What comes in front of `begun`.
    prefix: C::Word,
    /// The last tile that the block has looked back for.
    begun: u32,
}

impl<C: Combine> Tiles<C> {
    /// The status words that follow a header, with `init` in front of the first tile.
    ///
    /// # Safety
    /// `header` is 16-byte aligned and leads to [`HEADER_BYTES`] bytes and a status word for each
    /// tile, all zero before the launch, and used by the functions here only.
    #[inline(always)]
    pub unsafe fn behind(header: *mut u8, init: C::Word) -> Self {
        Self {
            states: header.wrapping_add(HEADER_BYTES).cast(),
            prefix: init,
            begun: 0,
        }
    }

    #[inline(always)]
    fn state(&self, tile: u32) -> *mut <C::Status as Status>::Raw {
        self.states.wrapping_add(tile as usize)
    }

    /// Publishes `aggregate` as that of `tile`; does not wait.
    ///
    /// # Safety
    /// One thread of the block that took `tile` calls it, once.
    #[inline(always)]
    pub unsafe fn publish(&self, tile: u32, aggregate: C::Word) {
        // SAFETY: there is a word for each tile, and this block alone writes this one.
        unsafe { atomic::store(self.state(tile), C::Status::pack(aggregate), Relaxed) };
    }

    /// Returns the sum of all tiles before `tile`; waits until they are
    /// [published](Self::publish).
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | all lanes of one warp of the block that took `tile`, with the same arguments | in every lane |
    ///
    /// # Safety
    /// As the table says, for the block's tiles in ascending order, of which this one and those
    /// before have been published.
    #[inline(always)]
    pub unsafe fn look_back(&mut self, tile: u32) -> C::Word {
        let lane = warp::lane_id();
        let mut all = C::IDENTITY;
        // SAFETY: words of tiles before `tile` are read, and all lanes reach every collective:
        // what the loop depends on is the same for all, or was voted on.
        unsafe {
            while self.begun < tile {
                let mut words = [C::Status::pack(C::IDENTITY); IN_FLIGHT];
                let mut w = 0;
                while w < IN_FLIGHT {
                    let at = self.begun + w as u32 * warp::SIZE + lane;
                    if at < tile {
                        words[w] = atomic::load(self.state(at), Relaxed);
                    }
                    w += 1;
                }
                let mut missing = false;
                let mut sum = all;
                let mut w = 0;
                while w < IN_FLIGHT {
                    missing |= !C::Status::is_published(words[w]);
                    sum = C::combine(sum, C::Status::value(words[w]));
                    w += 1;
                }
                if warp::warp_vote_any(LaneMask::FULL, missing) {
                    thread::nanosleep(PAUSE_NANOS);
                    continue;
                }
                all = sum;
                self.begun += IN_FLIGHT as u32 * warp::SIZE;
            }
            self.begun = tile;
            self.prefix = C::combine(self.prefix, C::warp_reduce(all));
        }
        self.prefix
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::combine::Add;
    use gpumap_simt::executor::Executor;
    use gpumap_simt::kernel::Grid;
    use gpumap_simt::{kernel, kernel_args};

    kernel_args! {
        struct WalkArgs {
            /// The header and `n` words.
            tiles: *mut u8,
            n: u32,
            /// Out: 5 and what comes before tiles 0, 1, 4, 13 and so on.
            prefixes: *mut u32,
        }
    }

    kernel! {
        static WALK = fn walk(args: WalkArgs) {
            // SAFETY: one warp; indices are below `n`.
            unsafe {
                let mut states = Tiles::<Add<u32>>::behind(args.tiles, 5);
                let mut tile = warp::lane_id();
                while tile < args.n {
                    states.publish(tile, tile + 1);
                    tile += warp::SIZE;
                }
                warp::sync_warp(LaneMask::FULL);
                let mut i = 0;
                let mut tile = 0;
                while tile < args.n {
                    *args.prefixes.add(i) = states.look_back(tile);
                    i += 1;
                    tile = tile * 3 + 1;
                }
            }
        }
    }

    #[test]
    fn look_back_over_less_and_more_than_a_window() {
        let n = 2_000;
        let mut words = vec![U64x2::new(0, 0); 1 + n as usize / 2];
        let mut prefixes = vec![0; 8];
        let args = WalkArgs {
            tiles: words.as_mut_ptr().cast(),
            n,
            prefixes: prefixes.as_mut_ptr(),
        };
        // SAFETY: room for the header, the words and the prefixes.
        unsafe { WALK.run(Executor::global(), Grid::new(1, 32), args) }.unwrap();
        let tiles = [0, 1, 4, 13, 40, 121, 364, 1093];
        assert_eq!(prefixes, tiles.map(|tile| 5 + tile * (tile + 1) / 2));
    }
}
