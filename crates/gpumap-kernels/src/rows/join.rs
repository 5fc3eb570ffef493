//! Joins: for each key of the probe side the places of the build side that have it.
//!
//! The keys of the build side are rows of a row map, and its places are sorted by row: those of row `r` lie at `offsets[r]` up
//! to `offsets[r + 1]`. Where all of its keys differ, a row is its place, and there are neither offsets nor places.
//!
//! Thirty-two keys of the probe side are a *strip*. A first kernel counts the pairs of each strip, and a prefix sum says where
//! they begin. The second kernel writes them. Its warps get equal shares of the work, whatever each strip has: a strip costs
//! as much as so many pairs as it has keys, and its pairs. So neither a key with many places nor strips without a pair keep
//! one warp busy while others wait.

#[cfg(not(target_arch = "nvptx64"))]
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{aggregate, kernel, kernel_args, mem, thread, warp};

use super::slot::NO_ROW;
#[cfg(not(target_arch = "nvptx64"))]
use super::upkeep::in_block;

/// Keys of a strip.
pub const STRIP: u32 = warp::SIZE;

/// What a warp writes, in pairs: strips count as [`STRIP`] pairs each.
pub const SHARE: u64 = 2048;

kernel_args! {
    /// The probe side of a join.
    pub struct JoinProbe {
        /// For each key its row, or [`NO_ROW`]. When its pairs are counted, where the places of the row begin, if `pairs` is
        /// not null.
        pub found: *mut u32,
        /// For each key how many pairs it has, when they are counted; null if a row has the one place that is its number.
        pub pairs: *mut u32,
        /// How many keys.
        pub n: u64,
        /// How many pairs a key has whose row has one place: 0 or 1.
        pub matched: u32,
        /// How many pairs a key has that has no row: 0 or 1.
        pub unmatched: u32,
    }
}

kernel_args! {
    /// Arguments of [`JOIN_TICKETS`]: blocks of [`THREADS`](super::THREADS), a thread for each place of the build side.
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
    /// Arguments of [`JOIN_PLACE`]: blocks of [`THREADS`](super::THREADS), a thread for each place of the build side.
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
    /// Arguments of [`JOIN_COUNT`]: blocks of [`THREADS`](super::THREADS), a warp for each strip, and one for the end.
    pub struct JoinCountArgs {
        /// What is joined.
        pub probe: JoinProbe,
        /// For each row where its places begin, and the end; used if there are `pairs`.
        pub offsets: *const u32,
        /// Out: how many pairs each strip has, and 0 behind them.
        pub counts: *mut u64,
        /// How many strips.
        pub strips: u64,
    }
}

kernel_args! {
    /// Arguments of [`JOIN_WRITE`]: blocks of [`THREADS`](super::THREADS), a warp for each [`SHARE`].
    pub struct JoinWriteArgs {
        /// What is joined, its pairs counted.
        pub probe: JoinProbe,
        /// The places of all rows, row by row; used if there are `pairs`.
        pub places: *const u32,
        /// For each strip how many pairs come before it, and how many there are.
        pub before: *const u64,
        /// How many strips.
        pub strips: u64,
        /// Out: for each pair the key of the probe side.
        pub left: *mut u32,
        /// Out: for each pair the place of the build side; may be null.
        pub right: *mut u32,
    }
}

impl JoinProbe {
    /// The pairs of a key whose row, or what stands for it, is there or not, if a row has one place.
    #[inline(always)]
    fn pairs_by(&self, found: u32) -> u32 {
        if found == NO_ROW {
            self.unmatched
        } else {
            self.matched
        }
    }

    /// Where the places of a key begin, or [`NO_ROW`], and how many pairs it has; none beyond the last key.
    ///
    /// # Safety
    /// The arguments are those of [`JOIN_WRITE`].
    #[inline(always)]
    unsafe fn counted(&self, key: u64) -> (u32, u32) {
        if key >= self.n {
            return (NO_ROW, 0);
        }
        // SAFETY: a key.
        unsafe {
            let begin: u32 = mem::load_readonly(self.found.wrapping_add(key as usize));
            let pairs = if self.pairs.is_null() {
                self.pairs_by(begin)
            } else {
                mem::load_readonly(self.pairs.wrapping_add(key as usize))
            };
            (begin, pairs)
        }
    }
}

impl JoinCountArgs {
    /// Counts the pairs of the key whose row is `row`.
    ///
    /// # Safety
    /// The arguments are those of a launch, and the key is there, and the calling thread's.
    #[inline(always)]
    unsafe fn count(&self, key: u64, row: u32) -> u32 {
        let probe = &self.probe;
        let mut pairs = probe.pairs_by(row);
        if !probe.pairs.is_null() {
            // SAFETY: a row and the next one or the end; a key.
            unsafe {
                if row != NO_ROW {
                    let at = self.offsets.wrapping_add(row as usize);
                    let begin: u32 = mem::load_readonly(at);
                    pairs = mem::load_readonly(at.wrapping_add(1)) - begin;
                    mem::store(probe.found.wrapping_add(key as usize), begin);
                }
                mem::store(probe.pairs.wrapping_add(key as usize), pairs);
            }
        }
        pairs
    }

    /// The row of a key.
    ///
    /// # Safety
    /// As for [`count`](Self::count), which was not called for it.
    #[inline(always)]
    unsafe fn row(&self, key: u64) -> u32 {
        // SAFETY: a key; the thread that loads it is the one that overwrites it.
        unsafe { mem::load(self.probe.found.wrapping_add(key as usize)) }
    }

    /// Says how many pairs a strip has.
    ///
    /// # Safety
    /// It is a strip of the calling warp, or the end.
    #[inline(always)]
    unsafe fn tell(&self, strip: u64, pairs: u64) {
        // SAFETY: the caller's promise.
        unsafe { mem::store(self.counts.wrapping_add(strip as usize), pairs) };
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
        return in_block(args.n, fetch, |i, counter, _| {
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

/// The body of [`JOIN_PLACE`].
///
/// # Safety
/// See [`JoinPlaceArgs`].
#[inline(always)]
unsafe fn place(args: &JoinPlaceArgs) {
    // SAFETY: a place, its row, and where it lies among the places of all rows.
    let to = |i: u64| unsafe {
        let row: u32 = mem::load_readonly(args.rows.wrapping_add(i as usize));
        let ticket: u32 = mem::load_readonly(args.tickets.wrapping_add(i as usize));
        let first: u32 = mem::load_readonly(args.offsets.wrapping_add(row as usize));
        args.places.wrapping_add((first + ticket) as usize)
    };
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        let fetch = |i: u32| {
            let to = to(i.into());
            gpumap_simt::native::prefetch(to);
            to
        };
        // SAFETY: as above.
        return in_block(args.n, fetch, |i, to, _| unsafe { mem::store(to, i) });
    }
    let i = thread::index();
    if i < args.n {
        // SAFETY: as above.
        unsafe { mem::store(to(i), i as u32) };
    }
}

/// The body of [`JOIN_COUNT`].
///
/// # Safety
/// See [`JoinCountArgs`].
#[inline(always)]
unsafe fn count(args: &JoinCountArgs) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        // SAFETY: passed on.
        return unsafe { count_natively(args) };
    }
    let i = thread::index();
    let strip = i / u64::from(warp::SIZE);
    // SAFETY: the whole warp comes to the sum; a key, and the warp's strip.
    unsafe {
        let mut pairs = 0;
        if i < args.probe.n {
            pairs = args.count(i, args.row(i));
        }
        let all = inclusive_sum(pairs.into());
        if warp::lane_id() == warp::SIZE - 1 && strip <= args.strips {
            args.tell(strip, all);
        }
    }
}

/// What all warps of a block do.
///
/// # Safety
/// See [`JoinCountArgs`].
#[cfg(not(target_arch = "nvptx64"))]
unsafe fn count_natively(args: &JoinCountArgs) {
    let fetch = |i: u32| {
        // SAFETY: a key that is not counted.
        let row = unsafe { args.row(i.into()) };
        if !args.probe.pairs.is_null() {
            gpumap_simt::native::prefetch(args.offsets.wrapping_add(row as usize));
        }
        row
    };
    let mut all = 0;
    in_block(args.probe.n, fetch, |i, row, is_last| {
        // SAFETY: a key, and a strip of the block.
        unsafe {
            all += u64::from(args.count(i.into(), row));
            if is_last || i % STRIP == STRIP - 1 {
                args.tell((i / STRIP).into(), all);
                all = 0;
            }
        }
    });
    let strips = u64::from(thread::block_dim_x() / STRIP);
    if args.strips / strips == u64::from(thread::block_idx_x()) {
        // SAFETY: the end.
        unsafe { args.tell(args.strips, 0) };
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

    /// Writes a pair.
    ///
    /// # Safety
    /// As for [`before`](Self::before); it is pair `nth` of this key, whose places begin there.
    #[inline(always)]
    unsafe fn write(&self, pair: u64, key: u32, (begin, nth): (u32, u32)) {
        // SAFETY: a pair, and a place of its key's row.
        unsafe {
            mem::store(self.left.wrapping_add(pair as usize), key);
            if !self.right.is_null() {
                let mut place = begin;
                if !self.probe.pairs.is_null() && begin != NO_ROW {
                    place = mem::load_readonly(self.places.wrapping_add((begin + nth) as usize));
                }
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
            let (begin, pairs) = args.probe.counted(first + u64::from(lane));
            let up_to = inclusive_sum(pairs.into());
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
                let below = up_to - u64::from(pairs);
                let below = warp::warp_shuffle_idx(LaneMask::FULL, below, of, warp::SIZE);
                let begin = warp::warp_shuffle_idx(LaneMask::FULL, begin, of, warp::SIZE);
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
    // The places that a strip needs first.
    let fetch = |strip: u64| {
        if args.probe.pairs.is_null() || strip >= args.strips {
            return;
        }
        let first = strip * u64::from(STRIP);
        for key in first..(first + u64::from(STRIP)).min(args.probe.n) {
            // SAFETY: a key.
            let (begin, _) = unsafe { args.probe.counted(key) };
            gpumap_simt::native::prefetch(args.places.wrapping_add(begin as usize));
        }
    };
    // SAFETY: strips of the launch, and their keys and pairs.
    unsafe {
        let mut strip = args.strip_at(at);
        fetch(strip);
        while strip < args.strips && args.begin(strip) < end {
            fetch(strip + 1);
            let (from, to) = args.pairs_of(strip, (at, end));
            let before = args.before(strip);
            let (mut below, mut key) = (0, strip * u64::from(STRIP));
            while below < to {
                let (begin, pairs) = args.probe.counted(key);
                let up_to = below + u64::from(pairs);
                for pair in from.max(below)..to.min(up_to) {
                    let nth = (pair - below) as u32;
                    args.write(before + pair, key as u32, (begin, nth));
                }
                below = up_to;
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
    pub static JOIN_PLACE = fn join_place(args: JoinPlaceArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { place(&args) }
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
