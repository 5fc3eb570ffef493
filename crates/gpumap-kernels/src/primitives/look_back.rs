//! Decoupled look-back: the prefix of each tile in a single pass over the data.
//!
//! After D. Merrill and M. Garland, *Single-pass parallel prefix scan with decoupled look-back*
//! (NVIDIA technical report NVR-2016-002). Each tile has one status word. Its block publishes the
//! tile's *aggregate* as soon as it knows it, then walks back over the tiles before it, 32 at a
//! time with one per lane, adds up aggregates until it meets a tile whose *inclusive prefix* is
//! there, and publishes its own. So the data is read once, and the serial chain is one word per
//! tile of which 32 links are taken at a time.
//!
//! # Forward progress
//! Blocks take tiles from a counter while they run ([`take_tile`]), so tile `t` is held by a
//! block that runs, and so is every tile before it, or they are done: whatever the order is in
//! which the hardware starts blocks, nobody waits for a block that has not started. A block may
//! hold several tiles, so as to load one while it works on another; it works on them in the order
//! in which it took them, which is ascending. It publishes aggregates without waiting for anyone,
//! also that of the tile after the one for which it looks back next, and waits only for words of
//! tiles before that one. Consider the lowest tile without an inclusive prefix: its block has
//! finished the tiles that it took before, since those are lower, so it looks back for this one
//! next; and then it waits for nobody, for all words before it are final. It publishes after
//! finitely many steps, and the next tile is the lowest.
//!
//! # Latency
//! A tile's look-back may be put off until the block has published the aggregate of its next
//! tile. By then most words that it needs have long been there.
//! A running block is never starved: GPUs from compute capability 7.0 on schedule every resident
//! warp eventually, and the executor gives each waiting lane's turn to others at
//! [`nanosleep`](thread::nanosleep). A walk goes back by 32 tiles a step and ends at tile 0 at
//! the latest.
//!
//! # Memory order
//! State and value are one word, written by one store and read by one load that are single-copy
//! atomic: 64 bits for values of 4 bytes and for counts, 128 bits (all GPUs from sm_70 on) for
//! values of 8. A reader that sees a state therefore has the value that belongs to it, and nothing
//! else is communicated: no reader uses other memory that the publisher wrote. So relaxed
//! accesses at device scope are enough. Words are empty (zero) before the launch, which the
//! order of the stream guarantees, and go empty → aggregate → inclusive prefix, or straight to
//! the prefix in tile 0; each has one writer, so coherence of the single word keeps that order.

use super::combine::Combine;
use super::word::Word;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{U64x2, thread, warp};

/// No tile: after the last one.
pub const NO_TILE: u64 = u64::MAX;

/// How long a warp leaves the memory alone when a word that it needs is still empty.
const PAUSE_NANOS: u32 = 20;

/// How far a tile has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct State(u32);

impl State {
    /// Nothing is known: what memory set to zero says.
    pub const EMPTY: Self = Self(0);
    /// The value is the tile's own aggregate.
    pub const AGGREGATE: Self = Self(1);
    /// The value is the aggregate of all tiles up to and with this one.
    pub const INCLUSIVE: Self = Self(2);
}

/// A layout of status words: state and value in one atomic access.
pub trait Status: Copy {
    /// The value.
    type Value: Word;
    /// The word in memory.
    type Raw: atomic::Word;
    /// Packs.
    fn pack(state: State, value: Self::Value) -> Self::Raw;
    /// The state.
    fn state(raw: Self::Raw) -> State;
    /// The value.
    fn value(raw: Self::Raw) -> Self::Value;
}

/// Values of 4 bytes in words of 64 bits: the state in the high half.
#[derive(Clone, Copy, Debug)]
pub struct Narrow;
/// Values of 8 bytes in words of 128 bits: the state in the second half.
#[derive(Clone, Copy, Debug)]
pub struct Wide;
/// Counts below 2^62 in words of 64 bits: the state in the two highest.
#[derive(Clone, Copy, Debug)]
pub struct Count;

impl Status for Narrow {
    type Value = u32;
    type Raw = u64;
    #[inline(always)]
    fn pack(state: State, value: u32) -> u64 {
        (state.0 as u64) << 32 | value as u64
    }
    #[inline(always)]
    fn state(raw: u64) -> State {
        State((raw >> 32) as u32)
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
    fn pack(state: State, value: u64) -> U64x2 {
        U64x2::new(value, state.0 as u64)
    }
    #[inline(always)]
    fn state(raw: U64x2) -> State {
        State(raw.y as u32)
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
    fn pack(state: State, value: u64) -> u64 {
        (state.0 as u64) << 62 | value
    }
    #[inline(always)]
    fn state(raw: u64) -> State {
        State((raw >> 62) as u32)
    }
    #[inline(always)]
    fn value(raw: u64) -> u64 {
        raw & (u64::MAX >> 2)
    }
}

/// What precedes the status words of a launch, in memory that is zero at the start: the counter
/// that tiles are taken from.
pub const HEADER_BYTES: usize = 16;

/// The status words of one launch.
#[derive(Clone, Copy, Debug)]
pub struct Tiles<S: Status> {
    states: *mut S::Raw,
}

/// Takes the next tile, for the calling block to work on. Called by **one** thread of the block,
/// which tells the others.
///
/// # Safety
/// `header` leads to [`HEADER_BYTES`] bytes, zero before the launch.
#[inline(always)]
pub unsafe fn take_tile(header: *mut u8) -> u64 {
    // SAFETY: the caller's promise. Relaxed: the number is all that is communicated.
    unsafe { atomic::fetch_add(header.cast::<u64>(), 1, Relaxed) }
}

impl<S: Status> Tiles<S> {
    /// The status words that follow a header.
    ///
    /// # Safety
    /// `header` is 16-byte aligned and leads to [`HEADER_BYTES`] bytes and a status word for each
    /// tile, all zero before the launch, and used by the functions here only.
    #[inline(always)]
    pub unsafe fn behind(header: *mut u8) -> Self {
        Self {
            states: header.wrapping_add(HEADER_BYTES).cast(),
        }
    }

    #[inline(always)]
    fn state(&self, tile: u64) -> *mut S::Raw {
        self.states.wrapping_add(tile as usize)
    }

    /// Publishes `aggregate` as that of `tile`; waits for nobody. `init` is what comes in front of
    /// tile 0, the same for all tiles.
    ///
    /// # Safety
    /// One thread of the block that took `tile` calls it, once.
    #[inline(always)]
    pub unsafe fn publish<C: Combine<Word = S::Value>>(
        &self,
        tile: u64,
        aggregate: S::Value,
        init: S::Value,
    ) {
        let word = if tile == 0 {
            S::pack(State::INCLUSIVE, C::combine(init, aggregate))
        } else {
            S::pack(State::AGGREGATE, aggregate)
        };
        // SAFETY: there is a word for each tile, and this block alone writes this one.
        unsafe { atomic::store(self.state(tile), word, Relaxed) };
    }

    /// Returns what all tiles before `tile` come to, with `init` in front, and publishes the
    /// inclusive prefix of `tile`, whose `aggregate` has been [published](Self::publish).
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | all lanes of one warp of the block that took `tile`, once, with the same arguments | in every lane |
    ///
    /// # Safety
    /// As the table says; blocks look back in the order in which they took their tiles.
    #[inline(always)]
    pub unsafe fn exclusive_prefix<C: Combine<Word = S::Value>, const WIDTH: usize>(
        &self,
        tile: u64,
        aggregate: S::Value,
        init: S::Value,
    ) -> S::Value {
        if tile == 0 {
            return init;
        }
        let lane = warp::lane_id();
        // SAFETY: the whole warp is here, and this block alone writes the tile's word.
        unsafe {
            let prefix = self.walk_back::<C, WIDTH>(tile, lane);
            if lane == 0 {
                let word = S::pack(State::INCLUSIVE, C::combine(prefix, aggregate));
                atomic::store(self.state(tile), word, Relaxed);
            }
            prefix
        }
    }

    /// What the tiles before `tile`, which is not 0, come to.
    ///
    /// # Safety
    /// All lanes of the warp call it.
    #[inline(always)]
    unsafe fn walk_back<C: Combine<Word = S::Value>, const WIDTH: usize>(
        &self,
        tile: u64,
        lane: u32,
    ) -> S::Value {
        let mut end = tile;
        let mut prefix = C::IDENTITY;
        // SAFETY: words of tiles before `tile` are read, and all lanes come to every collective:
        // what the loops depend on was voted on.
        unsafe {
            loop {
                // Behind tile 0 every prefix is there; nobody gets as far as to use it.
                let mut words = [S::pack(State::INCLUSIVE, C::IDENTITY); WIDTH];
                let mut w = 0;
                while w < WIDTH {
                    let distance = w as u64 * warp::SIZE as u64 + lane as u64 + 1;
                    if distance <= end {
                        words[w] = atomic::load(self.state(end - distance), Relaxed);
                    }
                    w += 1;
                }
                // From the nearest tile on: everything up to the first prefix is needed.
                let mut found = false;
                let mut missing = LaneMask::EMPTY;
                let mut value = C::IDENTITY;
                let mut w = 0;
                while w < WIDTH {
                    let state = S::state(words[w]);
                    let empty = warp::warp_vote_ballot(LaneMask::FULL, state == State::EMPTY);
                    let inclusive =
                        warp::warp_vote_ballot(LaneMask::FULL, state == State::INCLUSIVE);
                    // The nearest prefix and all tiles after it; without one, all.
                    let bits = inclusive.bits();
                    let mut needed = LaneMask::new(bits ^ bits.wrapping_sub(1));
                    if found {
                        needed = LaneMask::EMPTY;
                    }
                    missing = missing | (empty & needed);
                    if needed.contains(lane) {
                        value = C::combine(S::value(words[w]), value);
                    }
                    found |= bits != 0;
                    w += 1;
                }
                if !missing.is_empty() {
                    thread::nanosleep(PAUSE_NANOS);
                    continue;
                }
                prefix = C::combine(C::warp_reduce(value), prefix);
                if found {
                    return prefix;
                }
                // All of them were tiles, or a lane would have been behind tile 0.
                end -= WIDTH as u64 * warp::SIZE as u64;
            }
        }
    }
}
