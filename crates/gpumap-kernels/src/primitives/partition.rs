//! Keys, or keys with values, sorted by one digit: the radix partition.
//!
//! A block takes a tile. It copies the tile's keys to shared memory without passing the registers,
//! ranks the keys of each part, takes the tile's room in every part of the output, permutes their
//! indices, and writes each part's share as one run, so that stores of neighbours go to
//! neighbouring places. Values come in together with the keys, or, where pairs are large and go to two arrays, when
//! all keys are written, to where the keys were: tiles and runs are much longer so, and the block reads
//! and writes by turns, which the memory prefers to both at once (`docs/tried.md`). Pairs that are written
//! [side by side](crate::build::pair) come in together whatever their size.
//!
//! | form | rank in the tile | room in the output | before it |
//! |---|---|---|---|
//! | unstable | a shared atomic per key | a global atomic per tile and part | a count of all digits |
//! | stable | warps count matching lanes, in input order | a matrix, part by tile, of exclusive sums | a count of each tile's digits, a scan of each row |
//!
//! The unstable form can also write parts of fixed capacity, and needs no count then.
//!
//! Where tiles come from and keys go is a `Route`: that of arrays is here, that of the pages of a
//! map in [`build`](crate::build).
//!
//! Every loop runs over the tile, the parts or the tiles of a row once.

mod counting;
mod kernels;
mod route;
mod tile;

pub use counting::*;
pub use kernels::*;
pub use tile::{key_bytes, part_bytes};

use super::binning::DigitOf;
use crate::build::combine::Combine;
use crate::slot::Bits;
use gpumap_simt::layout::Layout;
use gpumap_simt::mask::LaneMask;
use gpumap_simt::mem::Vector;
use gpumap_simt::shared_ptr::{SharedPtr, SharedWord, commit_copies, wait_copies};
use gpumap_simt::{kernel_args, shared_array, thread, warp};
use tile::Room;
pub(crate) use {
    route::{Arrays, Route, Run, Tile},
    tile::stage,
};

/// Threads per block of all kernels but the scatter kernels, and the most parts there can be.
pub const THREADS: u32 = 512;

/// The most parts that a thread of a scatter kernel has.
const MOST_ROWS: usize = 2;

/// What travels with a key: 4 bytes, 8 bytes or nothing.
pub trait Payload: Layout + Copy + Default + Send + Sync + 'static {
    /// How many bytes: 0, 4 or 8.
    const BYTES: u32;
    /// What is copied; never looked at if there is nothing.
    type Word: Bits + SharedWord + Vector;
    /// The same as a word.
    fn word(self) -> Self::Word;
}

impl Payload for u32 {
    const BYTES: u32 = 4;
    type Word = u32;
    #[inline(always)]
    fn word(self) -> u32 {
        self
    }
}
impl Payload for u64 {
    const BYTES: u32 = 8;
    type Word = u64;
    #[inline(always)]
    fn word(self) -> u64 {
        self
    }
}
impl Payload for () {
    const BYTES: u32 = 0;
    type Word = u32;
    #[inline(always)]
    fn word(self) -> u32 {
        0
    }
}

kernel_args! {
    /// Arguments of a scatter kernel: one block per tile, of the threads that the kernel is for.
    pub struct ScatterArgs<K, V> {
        /// `len` keys.
        pub keys: *const K,
        /// `len` values, or nothing. Null, of the kernels that write pairs side by side, if all keys have the same.
        pub values: *const V,
        /// What comes with every key then: the bits of a `V`.
        pub value: u64,
        /// How many there are.
        pub len: u64,
        /// Keys per tile: a multiple of 64, at most what the kernel's threads rank.
        pub tile: u32,
        /// How many parts, at most the block's threads.
        pub parts: u32,
        /// The part of a key.
        pub digit: DigitOf,
        /// Bit 0: the keys are aligned to 16 bytes; bit 1: the values are.
        pub aligned: u32,
        /// For each part, where its next key goes, less where the part begins if it has a fixed
        /// capacity; unstable kernels move it on.
        pub cursors: *mut u64,
        /// Stable kernels: `matrix[part * tiles + tile]` keys of this part are in tiles before.
        pub matrix: *const u64,
        /// Unstable kernels: if not [`UNBOUNDED`], part `p` is written from `p * capacity` on; runs of
        /// keys that would go beyond its end are counted in `cursors` and not written.
        pub capacity: u64,
        /// What becomes of the values of equal keys, of kernels that combine.
        pub combine: Combine,
        /// Out: the keys.
        pub out_keys: *mut K,
        /// Out: the values, each beside its key.
        pub out_values: *mut V,
    }
}

/// The capacity of parts that begin where the cursors say.
pub const UNBOUNDED: u64 = u64::MAX;

/// Hands out every number of a tile's order, in runs: `put` gets the place of its part, the number, and which key
/// of the tile that is. The lanes of a warp have the words of a line of the output, or of several.
///
/// # Safety
/// The tile has been put in order, the places are there, and a barrier has been passed.
#[inline(always)]
unsafe fn by_lines<K, V, R, const THREADS: u32>(
    route: &R,
    room: &Room<K, V, R, false>,
    len: u32,
    put: impl Fn(R::Place, u32, u32),
) where
    K: SharedWord,
    V: Payload,
    R: Route<K, V>,
{
    let (parts, lane) = (route.parts(), warp::lane_id());
    let mut part = thread::thread_idx_x() / warp::SIZE;
    while part < parts {
        // SAFETY: a place and a start for each part; a run ends where the next one begins.
        unsafe {
            let place = room.places.add(part).load();
            let start = room.starts.add(part).load();
            let end = if part + 1 < parts {
                room.starts.add(part + 1).load()
            } else {
                len
            };
            let ahead = route.ahead(place, start);
            // The number of the run's first key is `ahead`.
            let mut i = lane;
            while i < ahead + (end - start) {
                if i >= ahead {
                    let at = start + (i - ahead);
                    let (_, from) = room.in_order(at, |key| route.part(key));
                    put(place, at, from);
                }
                i += warp::SIZE;
            }
        }
        part += const { THREADS / warp::SIZE };
    }
}

/// The body of the scatter kernels, for tiles of at most `tile` keys. Of equal keys of a tile one is written, if it `COMBINES`;
/// or several, if others were seen at their place first.
///
/// | must call | result |
/// |---|---|
/// | every thread of the block, converged | in the outputs, when the launch has ended |
///
/// # Safety
/// Blocks have `THREADS` threads, of which each has [`Route::ROWS`] parts, and [`key_bytes`] of dynamic
/// shared memory for each key of the tile, [`part_bytes`] for each part; what the route leads to is valid.
#[inline(always)]
pub(crate) unsafe fn scatter<
    K,
    V,
    R,
    const THREADS: u32,
    const EACH: usize,
    const STABLE: bool,
    const COMBINES: bool,
>(
    route: R,
    tile: u32,
) where
    K: SharedWord,
    V: Payload,
    R: Route<K, V>,
{
    // Where keys are combined, they are so in shared memory.
    #[cfg(not(target_arch = "nvptx64"))]
    if !COMBINES && crate::native::is_here() {
        // SAFETY: what the route leads to is valid, as this function demands.
        return unsafe { crate::native::primitives::scatter(route) };
    }
    let sums = shared_array![u32; warp::SIZE as usize];
    let Tile {
        keys,
        values,
        len,
        aligned,
    } = route.tile();
    if len == 0 {
        return; // the same for the whole block
    }
    let mut sort = Sort::<K, V, R, THREADS, EACH, STABLE, COMBINES>::new(route, tile, values, len);
    // SAFETY: every thread of the block calls each phase, one after the other, with the tile and the room that the route and
    // the launch have.
    unsafe {
        sort.begin(keys, aligned);
        if COMBINES {
            sort.combine();
        }
        sort.rank();
        thread::sync_threads();
        sort.share_room(sums);
        thread::sync_threads();
        sort.put_in_order();
        sort.place_runs();
        wait_copies::<0>();
        thread::sync_threads();
        if R::TELLS && !STABLE {
            sort.tell();
        }
        if R::BY_LINES && !STABLE {
            sort.write_by_lines(aligned);
        } else {
            sort.write(aligned);
        }
    }
}

/// What a thread knows of its block's tile, from one phase of [`scatter`] to the next.
///
/// Every thread of the block calls the phases in the order in which they stand here. Tile indices stay below `len`, parts below
/// `parts`. All branches around barriers, shuffles and matches are the same for the lanes they need. A shared word is written by
/// one thread, or added to atomically, and read by others only across a barrier; in the stable ranking across a barrier of its
/// warp.
struct Sort<
    K,
    V: Payload,
    R: Route<K, V>,
    const THREADS: u32,
    const EACH: usize,
    const STABLE: bool,
    const COMBINES: bool,
> {
    route: R,
    room: Room<K, V, R, STABLE>,
    /// Keys that a tile has at most.
    tile: u32,
    values: *const V::Word,
    /// Keys of this tile.
    len: u32,
    /// Those of them that are written.
    written: u32,
    parts: u32,
    /// A bit for each of this thread's keys that the tile still has.
    left: u32,
    /// The part of each of this thread's keys, and the rank among the keys of that part: of the tile, or of the warp.
    ranked: [u32; EACH],
    /// Where the keys of this thread's parts go, and how many there are of each.
    to: [u64; MOST_ROWS],
    runs: [u32; MOST_ROWS],
    /// The number in order of the first key of this thread's parts.
    first_start: u32,
}

impl<K, V, R, const THREADS: u32, const EACH: usize, const STABLE: bool, const COMBINES: bool>
    Sort<K, V, R, THREADS, EACH, STABLE, COMBINES>
where
    K: SharedWord,
    V: Payload,
    R: Route<K, V>,
{
    const WARPS: u32 = THREADS / warp::SIZE;
    /// Whether values come when the keys are written.
    const APART: bool = Room::<K, V, R, STABLE>::APART;
    /// From one of a thread's keys to the next, while keys are ranked.
    const STEP: u32 = if STABLE { warp::SIZE } else { THREADS };

    #[inline(always)]
    fn new(route: R, tile: u32, values: *const V::Word, len: u32) -> Self {
        let parts = route.parts();
        Self {
            room: Room::of(tile, parts),
            route,
            tile,
            values,
            len,
            written: len,
            parts,
            left: u32::MAX,
            ranked: [0; EACH],
            to: [0; MOST_ROWS],
            runs: [0; MOST_ROWS],
            first_start: 0,
        }
    }

    /// The first of this thread's keys, while keys are ranked.
    #[inline(always)]
    fn first(&self) -> u32 {
        let t = thread::thread_idx_x();
        if STABLE {
            t / warp::SIZE * (warp::SIZE * EACH as u32) + warp::lane_id()
        } else {
            t
        }
    }

    /// Whether key `i`, number `e` of this thread's, is still there.
    #[inline(always)]
    fn has(&self, e: usize, i: u32) -> bool {
        i < self.len && (!COMBINES || self.left >> e & 1 != 0)
    }

    /// The counters of this thread's keys: of its warp if the order is kept, else of the tile.
    #[inline(always)]
    fn counters(&self) -> SharedPtr<u32> {
        if STABLE {
            let warp_id = thread::thread_idx_x() / warp::SIZE;
            self.room.starts.add(warp_id * self.parts)
        } else {
            self.room.starts
        }
    }

    /// Number `r` of this thread's parts, and whether there is one: a thread has one part, or a row of neighbours if there are
    /// more parts than threads.
    #[inline(always)]
    fn part_in_row(&self, r: usize) -> (u32, bool) {
        let row = if R::ROWS == 1 {
            1
        } else {
            self.parts.div_ceil(THREADS)
        };
        let part = thread::thread_idx_x() * row + r as u32;
        (part, (r as u32) < row && part < self.parts)
    }

    /// Queues the copies of the values.
    #[inline(always)]
    unsafe fn stage_values(&self, aligned: u32) {
        // SAFETY: the room has a place for each value of the tile.
        unsafe {
            if let Some(value) = self.route.common_value() {
                let mut i = thread::thread_idx_x();
                while i < self.len {
                    self.room.values.add(i).store(value);
                    i += THREADS;
                }
                commit_copies();
            } else {
                let (to, from) = (self.room.values, self.values);
                stage(to, from, self.len, aligned & 2 != 0, THREADS);
            }
        }
    }

    /// Brings the keys, and makes the counters ready. Ends with a barrier.
    #[inline(always)]
    unsafe fn begin(&mut self, keys: *const K, aligned: u32) {
        // SAFETY: there is a counter for each part, of each warp if the order is kept; the whole block waits.
        unsafe {
            stage(self.room.keys, keys, self.len, aligned & 1 != 0, THREADS);
            if V::BYTES != 0 && !Self::APART {
                self.stage_values(aligned);
            }
            self.route.begin();
            let counters = if STABLE {
                self.parts * Self::WARPS
            } else {
                self.parts
            };
            let mut i = thread::thread_idx_x();
            while i < counters {
                self.room.starts.add(i).store(0);
                i += THREADS;
            }
            if COMBINES {
                self.room.clear_seen(self.tile, THREADS);
            }
            // The keys are here; the values may be on their way until they are written out.
            if !COMBINES && V::BYTES != 0 && !Self::APART {
                wait_copies::<1>();
            } else {
                wait_copies::<0>();
            }
            thread::sync_threads();
        }
    }

    /// Adds the values of equal keys up at one of them. Ends with a barrier: what was seen lies where the order will be.
    #[inline(always)]
    unsafe fn combine(&mut self) {
        let (route, room) = (&self.route, &self.room);
        let mut e = 0;
        while e < EACH {
            let i = thread::thread_idx_x() + e as u32 * THREADS;
            if i < self.len {
                // SAFETY: `begin` has made the places ready, and no key is written before the next phase.
                unsafe {
                    let there = room.first_like(
                        self.tile,
                        i,
                        |key| route.place_of(key),
                        |a, b| route.same(a, b),
                    );
                    if there != i {
                        route.combine(room.keys, room.values, there, i);
                        self.left &= !(1 << e);
                    }
                }
            }
            e += 1;
        }
        // SAFETY: the whole block calls this phase.
        unsafe { thread::sync_threads() };
    }

    /// Finds the part of each key, and its rank there.
    #[inline(always)]
    unsafe fn rank(&mut self) {
        let (counters, lane) = (self.counters(), warp::lane_id());
        let first = self.first();
        let mut e = 0;
        while e < EACH {
            let i = first + e as u32 * Self::STEP;
            // SAFETY: all lanes of a warp make all rounds. A counter of a warp is stored to by the first of the lanes with its
            // part, between barriers of the warp; one of the tile is added to atomically.
            unsafe {
                if STABLE {
                    // Lanes beyond the end match each other and count nothing.
                    let part = if i < self.len {
                        self.route.part(self.room.keys.add(i).load())
                    } else {
                        u32::MAX
                    };
                    let peers = warp::warp_match_any_32(LaneMask::FULL, part);
                    let mut before = 0;
                    if i < self.len {
                        before = counters.add(part).load();
                        self.ranked[e] = part << 16 | (before + peers.rank_of(lane));
                    }
                    warp::sync_warp(LaneMask::FULL);
                    if i < self.len && peers.rank_of(lane) == 0 {
                        counters.add(part).store(before + peers.count());
                    }
                    warp::sync_warp(LaneMask::FULL);
                } else if self.has(e, i) {
                    let part = self.route.part(self.room.keys.add(i).load());
                    self.ranked[e] = part << 16 | counters.add(part).fetch_add(1);
                }
            }
            e += 1;
        }
    }

    /// Takes room in the output for the keys of each part, and gives the parts their starts in the order of the tile. Has a barrier.
    #[inline(always)]
    unsafe fn share_room(&mut self, sums: *mut u32) {
        // SAFETY: the whole block calls this phase. One thread has the counters of a part; a word of `sums` is written by one warp, and
        // read across a barrier.
        unsafe {
            let (t, lane) = (thread::thread_idx_x(), warp::lane_id());
            let warp_id = t / warp::SIZE;
            let mut mine = 0;
            let mut r = 0;
            while r < R::ROWS {
                let (part, is_one) = self.part_in_row(r);
                if is_one {
                    if STABLE {
                        let mut w = 0;
                        while w < Self::WARPS {
                            let at = self.room.starts.add(w * self.parts + part);
                            let count = at.load();
                            at.store(self.runs[r]);
                            self.runs[r] += count;
                            w += 1;
                        }
                    } else {
                        self.runs[r] = self.room.starts.add(part).load();
                    }
                    self.to[r] = self.route.take(part, self.runs[r]);
                    mine += self.runs[r];
                }
                r += 1;
            }
            let up_to = warp::warp_inclusive_sum(mine);
            if lane == warp::SIZE - 1 {
                *sums.add(warp_id as usize) = up_to;
            }
            thread::sync_threads();
            let of_warps = warp::warp_inclusive_sum(if lane < Self::WARPS {
                *sums.add(lane as usize)
            } else {
                0
            });
            let warps_before = warp::warp_shuffle_idx(
                LaneMask::FULL,
                of_warps,
                warp_id.wrapping_sub(1) & 31,
                warp::SIZE,
            );
            if COMBINES {
                self.written =
                    warp::warp_shuffle_idx(LaneMask::FULL, of_warps, warp::SIZE - 1, warp::SIZE);
            }
            self.first_start = up_to - mine + if warp_id == 0 { 0 } else { warps_before };
            let mut start = self.first_start;
            let mut r = 0;
            while r < R::ROWS {
                let (part, is_one) = self.part_in_row(r);
                if is_one {
                    if STABLE {
                        let mut w = 0;
                        while w < Self::WARPS {
                            let at = self.room.starts.add(w * self.parts + part);
                            at.store(at.load() + start);
                            w += 1;
                        }
                    } else {
                        self.room.starts.add(part).store(start);
                    }
                }
                start += self.runs[r];
                r += 1;
            }
        }
    }

    /// Puts the keys in the order of their parts.
    #[inline(always)]
    unsafe fn put_in_order(&self) {
        let (starts, first) = (self.counters(), self.first());
        let mut e = 0;
        while e < EACH {
            let i = first + e as u32 * Self::STEP;
            if self.has(e, i) {
                let (part, rank) = (self.ranked[e] >> 16, self.ranked[e] & 0xffff);
                // SAFETY: a part's keys have different ranks, below their number.
                unsafe {
                    let at = starts.add(part).load() + rank;
                    self.room.put_in_order(at, part, i);
                }
            }
            e += 1;
        }
    }

    /// Notes where the keys of each part go. The room taken for them is first needed here: its latency is behind the scan.
    #[inline(always)]
    unsafe fn place_runs(&self) {
        let mut start = self.first_start;
        let mut r = 0;
        while r < R::ROWS {
            let (part, is_one) = self.part_in_row(r);
            let (to, len) = (self.to[r], self.runs[r]);
            if is_one {
                let run = Run { to, len, start };
                // SAFETY: one thread has the place of the part.
                unsafe {
                    let at = self.room.places.add(part);
                    at.store(self.route.place(part, run));
                }
            }
            start += len;
            r += 1;
        }
    }

    /// Tells the route where each key goes.
    #[inline(always)]
    unsafe fn tell(&self) {
        let (starts, first) = (self.room.starts, self.first());
        let mut e = 0;
        while e < EACH {
            let i = first + e as u32 * Self::STEP;
            if i < self.written {
                let (part, rank) = (self.ranked[e] >> 16, self.ranked[e] & 0xffff);
                // SAFETY: place and start of the part are there since the last barrier.
                unsafe {
                    let at = starts.add(part).load() + rank;
                    self.route.tell(i, self.room.places.add(part).load(), at);
                }
            }
            e += 1;
        }
    }

    /// Writes number `i` of the order, key `from` of the tile; without its value if that comes later.
    #[inline(always)]
    unsafe fn put(&self, place: R::Place, i: u32, from: u32) {
        // SAFETY: both are below the number of keys, which are staged.
        unsafe {
            let key = self.room.keys.add(from).load();
            let value_from = self.values.wrapping_add(from as usize);
            if V::BYTES != 0 && !Self::APART {
                let value = self.room.values.add(from).load();
                self.route.put_pair(place, i, key, value, value_from);
            } else {
                self.route.put_key(place, i, key, value_from);
            }
        }
    }

    /// Brings the values that come later, to where the keys were.
    #[inline(always)]
    unsafe fn bring_values(&self, aligned: u32) {
        // SAFETY: the whole block calls this, and all keys are written when it has passed the barrier.
        unsafe {
            thread::sync_threads();
            self.stage_values(aligned);
            wait_copies::<0>();
            thread::sync_threads();
        }
    }

    /// Writes everything in lines of the output, which each has one warp.
    #[inline(always)]
    unsafe fn write_by_lines(&self, aligned: u32) {
        // The same room, for the compiler as well.
        let room = Room::<K, V, R, false>::of(self.tile, self.parts);
        let route = &self.route;
        // SAFETY: the tile is in order and the places are there since the last barrier.
        unsafe {
            by_lines::<K, V, R, THREADS>(route, &room, self.written, |place, i, from| {
                self.put(place, i, from);
            });
            if V::BYTES != 0 && Self::APART {
                self.bring_values(aligned);
                by_lines::<K, V, R, THREADS>(route, &room, self.written, |place, i, from| {
                    route.put_value(place, i, self.room.values.add(from).load());
                });
            }
        }
    }

    /// Writes everything, number after number.
    #[inline(always)]
    unsafe fn write(&mut self, aligned: u32) {
        let t = thread::thread_idx_x();
        let mut e = 0;
        while e < EACH {
            let i = e as u32 * THREADS + t;
            if i < self.written {
                // SAFETY: the tile is in order and the places are there since the last barrier.
                unsafe {
                    let (part, from) = self.room.in_order(i, |key| self.route.part(key));
                    // For values that come later.
                    self.ranked[e] = part << 16 | from;
                    self.put(self.room.places.add(part).load(), i, from);
                }
            }
            e += 1;
        }
        if V::BYTES != 0 && Self::APART {
            // SAFETY: all keys are written when the next barrier is passed.
            unsafe { self.bring_values(aligned) };
            let mut e = 0;
            while e < EACH {
                let i = e as u32 * THREADS + t;
                if i < self.written {
                    let (part, from) = (self.ranked[e] >> 16, self.ranked[e] & 0xffff);
                    // SAFETY: the values are staged, a place for each part.
                    unsafe {
                        let place = self.room.places.add(part).load();
                        let value = self.room.values.add(from).load();
                        self.route.put_value(place, i, value);
                    }
                }
                e += 1;
            }
        }
    }
}
