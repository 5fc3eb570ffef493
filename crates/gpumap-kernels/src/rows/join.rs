//! Joins: for each key of a batch the places of a table that have its key.
//!
//! The keys of the table are rows of a row map, and its places are sorted by row: those of row `r` lie at `offsets[r]` up to
//! `offsets[r + 1]`. Where all keys of the table differ, a row is its place, and there are neither offsets nor places.
//!
//! Thirty-two keys of the batch are a *strip*. A first kernel counts the pairs of each strip, and a prefix sum says where
//! they begin. The second kernel writes them. Its warps get equal shares of the work, whatever each strip has: a strip costs
//! as much as so many pairs as it has keys, and its pairs. So neither a key with many places nor strips without a pair keep
//! one warp busy while others wait.

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{aggregate, kernel, kernel_args, mem, thread, warp};

use super::slot::NO_ROW;

/// Keys of a strip.
pub const STRIP: u32 = warp::SIZE;

/// What a warp writes, in pairs: strips count as [`STRIP`] pairs each.
pub const SHARE: u64 = 2048;

/// Pairs for each key with places.
pub const INNER: u32 = 0;
/// As well one for each key without, with [`NO_ROW`].
pub const LEFT: u32 = 1;
/// Keys with places, once each.
pub const SEMI: u32 = 2;
/// Keys without.
pub const ANTI: u32 = 3;

kernel_args! {
    /// The two sides of a join.
    pub struct JoinSides {
        /// For each key of the batch its row, or [`NO_ROW`].
        pub rows: *const u32,
        /// How many keys.
        pub n: u64,
        /// For each row where its places begin, and the end; null if row `r` has the place `r` alone.
        pub offsets: *const u32,
        /// The places of all rows, row by row.
        pub places: *const u32,
        /// Which join.
        pub kind: u32,
    }
}

kernel_args! {
    /// Arguments of [`JOIN_PLACE`]: a thread for each place of a table.
    pub struct JoinPlaceArgs {
        /// For each place its row.
        pub rows: *const u32,
        /// For each place how many places of its row were counted before it.
        pub tickets: *const u32,
        /// How many.
        pub n: u64,
        /// For each row where its places begin.
        pub offsets: *const u32,
        /// Out: the places, row by row.
        pub places: *mut u32,
    }
}

kernel_args! {
    /// Arguments of [`JOIN_TICKETS`]: blocks of [`THREADS`](super::THREADS), a thread for each place of a table.
    pub struct JoinTicketsArgs {
        /// For each place its row.
        pub rows: *const u32,
        /// How many.
        pub n: u64,
        /// Added to: for each row how many places it has.
        pub counts: *mut u32,
        /// Out: for each place how many of its row were counted before it.
        pub tickets: *mut u32,
    }
}

kernel_args! {
    /// Arguments of [`JOIN_COUNT`]: blocks of [`THREADS`](super::THREADS), a warp for each strip, and one for the end.
    pub struct JoinCountArgs {
        /// What is joined.
        pub sides: JoinSides,
        /// Out: how many pairs each strip has, and 0 behind them.
        pub counts: *mut u64,
        /// How many strips.
        pub strips: u64,
    }
}

kernel_args! {
    /// Arguments of [`JOIN_WRITE`]: blocks of [`THREADS`](super::THREADS), a warp for each [`SHARE`].
    pub struct JoinWriteArgs {
        /// What is joined.
        pub sides: JoinSides,
        /// For each strip how many pairs come before it, and how many there are.
        pub before: *const u64,
        /// How many strips.
        pub strips: u64,
        /// Out: for each pair the key of the batch.
        pub left: *mut u32,
        /// Out: for each pair the place of the table; may be null.
        pub right: *mut u32,
    }
}

/// The pairs of one key.
#[derive(Clone, Copy)]
struct Matches {
    /// Where its places begin, or [`NO_ROW`].
    begin: u32,
    /// How many pairs it has.
    pairs: u32,
}

impl JoinSides {
    /// # Safety
    /// The arguments are those of a launch.
    #[inline(always)]
    unsafe fn matches(&self, key: u64) -> Matches {
        let mut matches = Matches {
            begin: NO_ROW,
            pairs: 0,
        };
        if key >= self.n {
            return matches;
        }
        // SAFETY: a key, and a row that there is.
        unsafe {
            let row: u32 = mem::load_readonly(self.rows.wrapping_add(key as usize));
            if row != NO_ROW {
                matches = if self.offsets.is_null() {
                    Matches {
                        begin: row,
                        pairs: 1,
                    }
                } else {
                    let at = self.offsets.wrapping_add(row as usize);
                    let begin: u32 = mem::load_readonly(at);
                    let end: u32 = mem::load_readonly(at.wrapping_add(1));
                    Matches {
                        begin,
                        pairs: end - begin,
                    }
                };
            }
        }
        let is_there = matches.begin != NO_ROW;
        if self.kind == LEFT && !is_there || self.kind == SEMI && is_there {
            matches.pairs = 1;
        } else if self.kind == ANTI {
            matches.pairs = u32::from(!is_there);
        }
        matches
    }

    /// The place of pair number `i` of a key.
    ///
    /// # Safety
    /// As for [`matches`](Self::matches), from which `begin` is.
    #[inline(always)]
    unsafe fn place(&self, begin: u32, i: u32) -> u32 {
        if begin == NO_ROW || self.offsets.is_null() {
            begin
        } else {
            // SAFETY: a place of the row.
            unsafe { mem::load_readonly(self.places.wrapping_add(begin as usize + i as usize)) }
        }
    }
}

/// The sum of what the lanes below have, and the caller's own.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn inclusive_sum(mine: u64) -> u64 {
    let lane = warp::lane_id();
    let mut sum = mine;
    let mut step = 1;
    while step < warp::SIZE {
        // SAFETY: the whole warp is here.
        let below = unsafe { warp::warp_shuffle_up(LaneMask::FULL, sum, step, warp::SIZE) };
        if lane >= step {
            sum += below;
        }
        step *= 2;
    }
    sum
}

/// The body of [`JOIN_TICKETS`].
///
/// # Safety
/// See [`JoinTicketsArgs`].
#[inline(always)]
unsafe fn tickets(args: &JoinTicketsArgs) {
    // SAFETY: a place, and a row that there is.
    let counter = |i: u64| unsafe {
        let row: u32 = mem::load_readonly(args.rows.wrapping_add(i as usize));
        args.counts.wrapping_add(row as usize)
    };
    let tell = |i: u64, ticket: u32| {
        // SAFETY: a place.
        unsafe { mem::store(args.tickets.wrapping_add(i as usize), ticket) };
    };
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        let fetch = |i: u32| {
            let counter = counter(i.into());
            gpumap_simt::native::prefetch(counter);
            counter
        };
        return super::upkeep::in_block(args.n, fetch, |i, counter, _| {
            // SAFETY: a counter, which is added to only.
            let ticket = unsafe { atomic::fetch_add(counter, 1, Relaxed) };
            tell(i.into(), ticket);
        });
    }
    let i = thread::index();
    // SAFETY: all lanes of the warp come to the vote, and those that have a place to the addition.
    unsafe {
        let there = warp::warp_vote_ballot(LaneMask::FULL, i < args.n);
        if i < args.n {
            tell(i, aggregate::atomic_agg_inc_in(there, counter(i)));
        }
    }
}

/// The body of [`JOIN_COUNT`].
///
/// # Safety
/// See [`JoinCountArgs`].
#[inline(always)]
unsafe fn count(args: &JoinCountArgs) {
    let tell = |strip: u64, pairs: u64| {
        // SAFETY: a strip, or the end.
        unsafe { mem::store(args.counts.wrapping_add(strip as usize), pairs) };
    };
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        let of_block = u64::from(thread::block_dim_x() / warp::SIZE);
        let first = u64::from(thread::block_idx_x()) * of_block;
        for strip in first..(first + of_block).min(args.strips + 1) {
            let keys = strip * u64::from(STRIP)..(strip + 1) * u64::from(STRIP);
            // SAFETY: keys beyond the last one have no pairs.
            let pairs = keys.map(|key| u64::from(unsafe { args.sides.matches(key) }.pairs));
            tell(strip, pairs.sum());
        }
        return;
    }
    let i = thread::index();
    // SAFETY: the whole warp is here; keys beyond the last one have no pairs.
    let all = unsafe { inclusive_sum(u64::from(args.sides.matches(i).pairs)) };
    let strip = i / u64::from(warp::SIZE);
    if warp::lane_id() == warp::SIZE - 1 && strip <= args.strips {
        tell(strip, all);
    }
}

impl JoinWriteArgs {
    /// How many pairs come before a strip.
    ///
    /// # Safety
    /// The arguments are those of a launch; there is such a strip, or it is the end.
    #[inline(always)]
    unsafe fn before(&self, strip: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { mem::load_readonly(self.before.wrapping_add(strip as usize)) }
    }

    /// Where the work of a strip begins: its keys, and then its pairs.
    ///
    /// # Safety
    /// As for [`before`](Self::before).
    #[inline(always)]
    unsafe fn begin(&self, strip: u64) -> u64 {
        // SAFETY: passed on.
        strip * u64::from(STRIP) + unsafe { self.before(strip) }
    }

    /// The strip whose work is at `at`, before the end of all.
    ///
    /// # Safety
    /// As for [`before`](Self::before).
    #[inline(always)]
    unsafe fn strip_at(&self, at: u64) -> u64 {
        // The work of `least` begins at `at` or before, and that of `most` after it.
        let (mut least, mut most) = (0, self.strips);
        while most - least > 1 {
            let middle = (least + most) / 2;
            // SAFETY: a strip.
            if unsafe { self.begin(middle) } <= at {
                least = middle;
            } else {
                most = middle;
            }
        }
        least
    }

    /// Which pairs of a strip a share has that ends at `end` and begins at `at`.
    ///
    /// # Safety
    /// As for [`before`](Self::before).
    #[inline(always)]
    unsafe fn pairs_of(&self, strip: u64, (at, end): (u64, u64)) -> (u64, u64) {
        // SAFETY: a strip, and the next one or the end.
        let (first, next) =
            unsafe { (self.begin(strip) + u64::from(STRIP), self.begin(strip + 1)) };
        (at.max(first) - first, end.min(next).max(first) - first)
    }

    /// Writes pair number `i` of a strip.
    ///
    /// # Safety
    /// As for [`before`](Self::before); it is pair `nth` of this key.
    #[inline(always)]
    unsafe fn write(&self, pair: u64, key: u32, (begin, nth): (u32, u32)) {
        // SAFETY: a pair, and a place of its key's row.
        unsafe {
            mem::store(self.left.wrapping_add(pair as usize), key);
            if !self.right.is_null() {
                let place = self.sides.place(begin, nth);
                mem::store(self.right.wrapping_add(pair as usize), place);
            }
        }
    }
}

/// The body of [`JOIN_WRITE`].
///
/// # Safety
/// See [`JoinWriteArgs`].
#[inline(always)]
unsafe fn write(args: &JoinWriteArgs) {
    // SAFETY: the end.
    let all = unsafe { args.begin(args.strips) };
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        let of_block = u64::from(thread::block_dim_x() / warp::SIZE);
        let first = u64::from(thread::block_idx_x()) * of_block;
        let share = (first * SHARE, ((first + of_block) * SHARE).min(all));
        // SAFETY: a share.
        return unsafe { write_natively(args, share) };
    }
    // The same for all lanes of a warp.
    let at = thread::index() / u64::from(warp::SIZE) * SHARE;
    let end = (at + SHARE).min(all);
    if at >= end {
        return;
    }
    let lane = warp::lane_id();
    // SAFETY: all lanes of the warp see the same strips and come to the collectives.
    unsafe {
        let mut strip = args.strip_at(at);
        while strip < args.strips && args.begin(strip) < end {
            let first = strip * u64::from(STRIP);
            let mine = args.sides.matches(first + u64::from(lane));
            let up_to = inclusive_sum(mine.pairs.into());
            let (from, to) = args.pairs_of(strip, (at, end));
            let before = args.before(strip);
            let mut round = from;
            while round < to {
                let pair = round + u64::from(lane);
                // The lane whose key has that pair: the first with more up to it.
                let mut of = 0;
                let mut step = warp::SIZE / 2;
                while step > 0 {
                    let there =
                        warp::warp_shuffle_idx(LaneMask::FULL, up_to, of + step - 1, warp::SIZE);
                    if there <= pair {
                        of += step;
                    }
                    step /= 2;
                }
                let below = up_to - u64::from(mine.pairs);
                let below = warp::warp_shuffle_idx(LaneMask::FULL, below, of, warp::SIZE);
                let begin = warp::warp_shuffle_idx(LaneMask::FULL, mine.begin, of, warp::SIZE);
                if pair < to {
                    let nth = (pair - below) as u32;
                    args.write(before + pair, first as u32 + of, (begin, nth));
                }
                round += u64::from(warp::SIZE);
            }
            strip += 1;
        }
    }
}

/// What all warps of a block do.
///
/// # Safety
/// See [`JoinWriteArgs`].
#[cfg(not(target_arch = "nvptx64"))]
unsafe fn write_natively(args: &JoinWriteArgs, (at, end): (u64, u64)) {
    if at >= end {
        return;
    }
    // SAFETY: strips of the launch, and their keys and pairs.
    unsafe {
        let mut strip = args.strip_at(at);
        while strip < args.strips && args.begin(strip) < end {
            let (from, to) = args.pairs_of(strip, (at, end));
            let before = args.before(strip);
            let (mut below, mut key) = (0, strip * u64::from(STRIP));
            while below < to {
                let matches = args.sides.matches(key);
                let pairs = u64::from(matches.pairs);
                for pair in from.max(below)..to.min(below + pairs) {
                    let nth = (pair - below) as u32;
                    args.write(before + pair, key as u32, (matches.begin, nth));
                }
                below += pairs;
                key += 1;
            }
            strip += 1;
        }
    }
}

kernel! {
    /// Counts the places of each row.
    pub static JOIN_TICKETS = fn join_tickets(args: JoinTicketsArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { tickets(&args) }
    }
    /// Sorts places by row.
    pub static JOIN_PLACE = fn join_place(args: JoinPlaceArgs) by thread {
        let i = thread::index();
        if i < args.n {
            // SAFETY: a place, its row, and where it lies among the places of all rows.
            unsafe {
                let row: u32 = mem::load_readonly(args.rows.wrapping_add(i as usize));
                let ticket: u32 = mem::load_readonly(args.tickets.wrapping_add(i as usize));
                let first: u32 = mem::load_readonly(args.offsets.wrapping_add(row as usize));
                mem::store(args.places.wrapping_add((first + ticket) as usize), i as u32);
            }
        }
    }
    /// Counts the pairs of each strip.
    pub static JOIN_COUNT = fn join_count(args: JoinCountArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { count(&args) }
    }
    /// Writes the pairs.
    pub static JOIN_WRITE = fn join_write(args: JoinWriteArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { write(&args) }
    }
}
