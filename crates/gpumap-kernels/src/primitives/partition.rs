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
use gpumap_simt::shared_ptr::{SharedWord, commit_copies, wait_copies};
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
    mut route: R,
    tile: u32,
) where
    K: SharedWord,
    V: Payload,
    R: Route<K, V>,
{
    // Where keys are combined, they are so in shared memory.
    #[cfg(not(target_arch = "nvptx64"))]
    if !COMBINES && crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { crate::native::primitives::scatter(route) };
    }
    let warps = const { THREADS / warp::SIZE };
    let (t, lane) = (thread::thread_idx_x(), warp::lane_id());
    let warp_id = t / warp::SIZE;
    let parts = route.parts();
    let sums = shared_array![u32; warp::SIZE as usize];

    let room = Room::<K, V, R, STABLE>::of(tile, parts);
    let Tile {
        keys,
        values,
        len,
        aligned,
    } = route.tile();
    if len == 0 {
        return; // the same for the whole block
    }

    // SAFETY: tile indices stay below `len`, parts below `parts`. All branches around barriers,
    // shuffles and matches are the same for the lanes they need. A shared word is written by one
    // thread, or added to atomically, and read by others only across a barrier; in the stable
    // ranking across a barrier of its warp.
    unsafe {
        stage(room.keys, keys, len, aligned & 1 != 0, THREADS);
        let common_value = route.common_value();
        let stage_values = || {
            if let Some(value) = common_value {
                let mut i = t;
                while i < len {
                    room.values.add(i).store(value);
                    i += THREADS;
                }
                commit_copies();
            } else {
                stage(room.values, values, len, aligned & 2 != 0, THREADS);
            }
        };
        if V::BYTES != 0 && !Room::<K, V, R, STABLE>::APART {
            stage_values();
        }
        route.begin();
        let counters = if STABLE { parts * warps } else { parts };
        let mut i = t;
        while i < counters {
            room.starts.add(i).store(0);
            i += THREADS;
        }
        if COMBINES {
            room.clear_seen(tile, THREADS);
        }
        // The keys are here; the values may be on their way until they are written out.
        if !COMBINES && V::BYTES != 0 && !Room::<K, V, R, STABLE>::APART {
            wait_copies::<1>();
        } else {
            wait_copies::<0>();
        }
        thread::sync_threads();

        // A bit for each of this thread's keys that the tile still has.
        let mut left = u32::MAX;
        if COMBINES {
            let mut e = 0;
            while e < EACH {
                let i = t + e as u32 * THREADS;
                if i < len {
                    let there = room.first_like(
                        tile,
                        i,
                        |key| route.place_of(key),
                        |a, b| route.same(a, b),
                    );
                    if there != i {
                        route.combine(room.keys, room.values, there, i);
                        left &= !(1 << e);
                    }
                }
                e += 1;
            }
            // What was seen lies where the order will be.
            thread::sync_threads();
        }
        let has = |e: usize, i: u32| i < len && (!COMBINES || left >> e & 1 != 0);

        // Each key's part and its rank among the keys of that part: of the tile, or of the warp.
        let mut ranked = [0u32; EACH];
        let of_warp = room.starts.add(warp_id * parts);
        let first = if STABLE {
            warp_id * (warp::SIZE * EACH as u32) + lane
        } else {
            t
        };
        let step = if STABLE { warp::SIZE } else { THREADS };
        let mut e = 0;
        while e < EACH {
            let i = first + e as u32 * step;
            if STABLE {
                // Lanes beyond the end match each other and count nothing.
                let part = if i < len {
                    route.part(room.keys.add(i).load())
                } else {
                    u32::MAX
                };
                let peers = warp::warp_match_any_32(LaneMask::FULL, part);
                let mut before = 0;
                if i < len {
                    before = of_warp.add(part).load();
                    ranked[e] = part << 16 | (before + peers.rank_of(lane));
                }
                warp::sync_warp(LaneMask::FULL);
                if i < len && peers.rank_of(lane) == 0 {
                    of_warp.add(part).store(before + peers.count());
                }
                warp::sync_warp(LaneMask::FULL);
            } else if has(e, i) {
                let part = route.part(room.keys.add(i).load());
                ranked[e] = part << 16 | room.starts.add(part).fetch_add(1);
            }
            e += 1;
        }
        thread::sync_threads();

        // One thread for each part, or for a row of neighbours if there are more parts than threads: how many keys
        // the tile has of them, and where they go.
        let row = if R::ROWS == 1 {
            1
        } else {
            parts.div_ceil(THREADS)
        };
        let part_in_row = |r: usize| {
            let part = t * row + r as u32;
            (part, (r as u32) < row && part < parts)
        };
        let mut to = [0u64; MOST_ROWS];
        let mut runs = [0u32; MOST_ROWS];
        let mut mine = 0;
        let mut r = 0;
        while r < R::ROWS {
            let (part, is_one) = part_in_row(r);
            if is_one {
                if STABLE {
                    let mut w = 0;
                    while w < warps {
                        let at = room.starts.add(w * parts + part);
                        let count = at.load();
                        at.store(runs[r]);
                        runs[r] += count;
                        w += 1;
                    }
                } else {
                    runs[r] = room.starts.add(part).load();
                }
                to[r] = route.take(part, runs[r]);
                mine += runs[r];
            }
            r += 1;
        }
        let up_to = warp::warp_inclusive_sum(mine);
        if lane == warp::SIZE - 1 {
            *sums.add(warp_id as usize) = up_to;
        }
        thread::sync_threads();
        let of_warps = warp::warp_inclusive_sum(if lane < warps {
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
        // How many keys are written.
        let len = if COMBINES {
            warp::warp_shuffle_idx(LaneMask::FULL, of_warps, warp::SIZE - 1, warp::SIZE)
        } else {
            len
        };
        let first_start = up_to - mine + if warp_id == 0 { 0 } else { warps_before };
        let mut start = first_start;
        let mut r = 0;
        while r < R::ROWS {
            let (part, is_one) = part_in_row(r);
            if is_one {
                if STABLE {
                    let mut w = 0;
                    while w < warps {
                        let at = room.starts.add(w * parts + part);
                        at.store(at.load() + start);
                        w += 1;
                    }
                } else {
                    room.starts.add(part).store(start);
                }
            }
            start += runs[r];
            r += 1;
        }
        thread::sync_threads();

        let mut e = 0;
        while e < EACH {
            let i = first + e as u32 * step;
            if has(e, i) {
                let part = ranked[e] >> 16;
                let starts = if STABLE { of_warp } else { room.starts };
                let rank = ranked[e] & 0xffff;
                let at = starts.add(part).load() + rank;
                room.put_in_order(at, part, i);
            }
            e += 1;
        }
        // The room taken above is first needed here: its latency is behind the scan.
        let mut start = first_start;
        let mut r = 0;
        while r < R::ROWS {
            let (part, is_one) = part_in_row(r);
            let len = runs[r];
            if is_one {
                let to = to[r];
                let run = Run { to, len, start };
                room.places.add(part).store(route.place(part, run));
            }
            start += len;
            r += 1;
        }
        wait_copies::<0>();
        thread::sync_threads();

        if R::TELLS && !STABLE {
            let mut e = 0;
            while e < EACH {
                let i = first + e as u32 * step;
                if i < len {
                    let part = ranked[e] >> 16;
                    let at = room.starts.add(part).load() + (ranked[e] & 0xffff);
                    route.tell(i, room.places.add(part).load(), at);
                }
                e += 1;
            }
        }

        if R::BY_LINES && !STABLE {
            // The same room, for the compiler as well.
            let room = Room::<K, V, R, false>::of(tile, parts);
            by_lines::<K, V, R, THREADS>(&route, &room, len, |place, i, from| {
                let key = room.keys.add(from).load();
                let value_from = values.wrapping_add(from as usize);
                if V::BYTES != 0 && !Room::<K, V, R, STABLE>::APART {
                    let value = room.values.add(from).load();
                    route.put_pair(place, i, key, value, value_from);
                } else {
                    route.put_key(place, i, key, value_from);
                }
            });
            if V::BYTES != 0 && Room::<K, V, R, STABLE>::APART {
                thread::sync_threads();
                stage_values();
                wait_copies::<0>();
                thread::sync_threads();
                by_lines::<K, V, R, THREADS>(&route, &room, len, |place, i, from| {
                    route.put_value(place, i, room.values.add(from).load());
                });
            }
            return;
        }

        let mut e = 0;
        while e < EACH {
            let i = e as u32 * THREADS + t;
            if i < len {
                let (part, from) = room.in_order(i, |key| route.part(key));
                // For values that come later.
                ranked[e] = part << 16 | from;
                let place = room.places.add(part).load();
                let key = room.keys.add(from).load();
                let value_from = values.wrapping_add(from as usize);
                if V::BYTES != 0 && !Room::<K, V, R, STABLE>::APART {
                    let value = room.values.add(from).load();
                    route.put_pair(place, i, key, value, value_from);
                } else {
                    route.put_key(place, i, key, value_from);
                }
            }
            e += 1;
        }
        if V::BYTES != 0 && Room::<K, V, R, STABLE>::APART {
            thread::sync_threads();
            stage_values();
            wait_copies::<0>();
            thread::sync_threads();
            let mut e = 0;
            while e < EACH {
                let i = e as u32 * THREADS + t;
                if i < len {
                    let place = room.places.add(ranked[e] >> 16).load();
                    route.put_value(place, i, room.values.add(ranked[e] & 0xffff).load());
                }
                e += 1;
            }
        }
    }
}
