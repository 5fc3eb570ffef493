//! What else is done with slots and rows.

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{U64x2, kernel, kernel_args, mem, thread, warp};

use super::key::{Hash, Unit};
use super::remove::Removed;
use super::slot::{NO_SLOT, RowSlot};
use super::string::StringRef;
use super::view::{BUCKET_SLOTS, RowView};

kernel_args! {
    /// Arguments of a rebuild: blocks of [`THREADS`](super::THREADS), a thread for each row. Nothing else runs on the map.
    pub struct RowRebuildArgs {
        /// The keys, and slots that are all empty.
        pub view: RowView,
        /// How many rows.
        pub rows: u64,
        /// Those that get no slot.
        pub removed: Removed,
    }
}

kernel_args! {
    /// Arguments of [`ROW_RELEASE`]: a thread for each key of a batch that was [claimed](super::RowClaimArgs) for. No
    /// other insert runs.
    pub struct RowReleaseArgs {
        /// The slots.
        pub slots: *mut u64,
        /// For each key its slot.
        pub found: *const u32,
        /// For each key whether it is an owner.
        pub owners: *const u32,
        /// How many keys.
        pub n: u64,
    }
}

kernel_args! {
    /// Arguments of [`ROW_COUNT_BITS`]: a thread for each count.
    pub struct RowCountBitsArgs {
        /// Words of bits: owners of a batch, or removed rows.
        pub bits: *const u32,
        /// How many.
        pub words: u64,
        /// Out: how many bits of each word are set, and 0 behind them: `words + 1` counts.
        pub counts: *mut u32,
    }
}

kernel_args! {
    /// Arguments of [`ROW_TELL`]: blocks of [`THREADS`](super::THREADS), a thread for each key, whose slot or row is known.
    pub struct RowTellArgs {
        /// The slots, which have rows; null if rows are known.
        pub slots: *const u64,
        /// For each key its slot, or [`NO_SLOT`] if its row has been told; or its row.
        pub found: *const u32,
        /// How many keys.
        pub n: u64,
        /// Out: for each key its row; may be null.
        pub rows: *mut u32,
        /// Added to: for each row how many keys have it; may be null, and is if a row has been told.
        pub counts: *mut u32,
    }
}

/// Puts a row into the first empty slot of its walk. No other row has its key.
///
/// # Safety
/// See [`RowRebuildArgs`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn put(view: &RowView, row: u32, hash: Hash) {
    let slot = RowSlot::row_of(hash.tag(), row);
    let mut bucket = hash.home(view.buckets);
    // The loop ends: there is an empty slot.
    // SAFETY: slots of the map.
    unsafe {
        loop {
            let mut empty = view.bucket(bucket).which(|slot| slot == RowSlot::EMPTY);
            while empty != 0 {
                let at = bucket * BUCKET_SLOTS + empty.trailing_zeros();
                if view.exchange(at, RowSlot::EMPTY, slot) == RowSlot::EMPTY {
                    return;
                }
                empty &= empty - 1;
            }
            bucket = view.next(bucket);
        }
    }
}

/// The body of the kernels that rebuild.
///
/// # Safety
/// See [`RowRebuildArgs`].
#[inline(always)]
unsafe fn rebuild<U: Unit>(args: &RowRebuildArgs) {
    let view = &args.view;
    // SAFETY: rows of the map.
    let hash = |row: u32| unsafe { view.hash(view.key::<U>(row).cast_const()) };
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        let fetch = |row| {
            let hash = hash(row);
            gpumap_simt::native::prefetch(view.slot(hash.home(view.buckets) * BUCKET_SLOTS));
            hash
        };
        return in_block(args.rows, fetch, |row, hash, _| {
            // SAFETY: as above.
            unsafe {
                if !args.removed.has(row) {
                    put(view, row, hash);
                }
            }
        });
    }
    let row = thread::index();
    // SAFETY: as above.
    unsafe {
        if row < args.rows && !args.removed.has(row as u32) {
            put(view, row as u32, hash(row as u32));
        }
    }
}

kernel! {
    /// Makes slots from keys in units of 4 bytes.
    pub static ROW_REBUILD_4 = fn row_rebuild_4(args: RowRebuildArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { rebuild::<u32>(&args) }
    }
    /// Makes slots from keys in units of 8 bytes.
    pub static ROW_REBUILD_8 = fn row_rebuild_8(args: RowRebuildArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { rebuild::<u64>(&args) }
    }
    /// Makes slots from keys in units of 16 bytes.
    pub static ROW_REBUILD_16 = fn row_rebuild_16(args: RowRebuildArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { rebuild::<U64x2>(&args) }
    }
    /// Makes slots from strings.
    pub static ROW_REBUILD_STRING = fn row_rebuild_string(args: RowRebuildArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { rebuild::<StringRef>(&args) }
    }
    /// Takes the claims of a batch back.
    pub static ROW_RELEASE = fn row_release(args: RowReleaseArgs) by thread {
        let i = thread::index();
        if i < args.n {
            // SAFETY: slots and words of the arguments; each claim has one owner.
            unsafe {
                let word = args.owners.wrapping_add(i as usize / warp::SIZE as usize);
                if mem::load_readonly(word) >> (i as u32 % warp::SIZE) & 1 != 0 {
                    let at = mem::load_readonly(args.found.wrapping_add(i as usize)) as usize;
                    atomic::store(args.slots.wrapping_add(at), RowSlot::EMPTY.bits(), Relaxed);
                }
            }
        }
    }
    /// Counts the bits of each word.
    pub static ROW_COUNT_BITS = fn row_count_bits(args: RowCountBitsArgs) by thread {
        let i = thread::index();
        if i <= args.words {
            let mut bits = 0;
            // SAFETY: a word, and a place behind the last one too.
            unsafe {
                if i < args.words {
                    bits = mem::load_readonly(args.bits.wrapping_add(i as usize));
                }
                mem::store(args.counts.wrapping_add(i as usize), bits.count_ones());
            }
        }
    }
    /// Says which row each key has, and counts the keys of each row.
    pub static ROW_TELL = fn row_tell(args: RowTellArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { tell(&args) }
    }
}

/// The body of [`ROW_TELL`]. Lanes of a warp that have one row add to its count together.
///
/// # Safety
/// See [`RowTellArgs`].
#[inline(always)]
unsafe fn tell(args: &RowTellArgs) {
    // SAFETY: a place of the batch, and its slot.
    let at = |i: u64| unsafe { mem::load_readonly(args.found.wrapping_add(i as usize)) };
    let slot = |at: u32| args.slots.wrapping_add(at as usize);
    let row = |i: u64| {
        let found = at(i);
        if args.slots.is_null() || found == NO_SLOT {
            return found;
        }
        // SAFETY: as above.
        let row = RowSlot::from_bits(unsafe { mem::load_readonly(slot(found)) }).number();
        if !args.rows.is_null() {
            // SAFETY: a place of the batch, which is this thread's.
            unsafe { mem::store(args.rows.wrapping_add(i as usize), row) };
        }
        row
    };
    let counter = |row: u32| args.counts.wrapping_add(row as usize);
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        let fetch = |i: u32| {
            let found = at(i.into());
            if !args.slots.is_null() && found != NO_SLOT {
                gpumap_simt::native::prefetch(slot(found));
            }
        };
        return in_block(args.n, fetch, |i, (), _| {
            let row = row(i.into());
            if !args.counts.is_null() {
                // SAFETY: a counter, which is added to only.
                unsafe { atomic::fetch_add(counter(row), 1, Relaxed) };
            }
        });
    }
    let i = thread::index();
    let is_there = i < args.n;
    let row = if is_there { row(i) } else { 0 };
    if args.counts.is_null() {
        return;
    }
    // SAFETY: all lanes of the warp come to the vote, and those that have a key to the addition.
    unsafe {
        let there = warp::warp_vote_ballot(LaneMask::FULL, is_there);
        if is_there {
            let peers = warp::warp_match_any_32(there, row);
            if peers.rank_of(warp::lane_id()) == 0 {
                atomic::fetch_add(counter(row), peers.count(), Relaxed);
            }
        }
    }
}

/// Keys in flight of a native block.
#[cfg(not(target_arch = "nvptx64"))]
const AHEAD: u32 = 16;

/// Serves the keys of a native block one after the other, with what `fetch` has said of each, [`AHEAD`] keys before. `serve`
/// is told which is the last one.
#[cfg(not(target_arch = "nvptx64"))]
pub(super) fn in_block<T: Copy>(n: u64, fetch: impl Fn(u32) -> T, serve: impl FnMut(u32, T, bool)) {
    in_block_from(0, n, fetch, serve);
}

/// The same for keys from a place on, which the first block has.
#[cfg(not(target_arch = "nvptx64"))]
pub(super) fn in_block_from<T: Copy>(
    from: u64,
    n: u64,
    fetch: impl Fn(u32) -> T,
    serve: impl FnMut(u32, T, bool),
) {
    serve_block((from, n), fetch, |_| (), serve);
}

/// The same; half-way `pass` is told what `fetch` has said, of all keys but the first few.
#[cfg(not(target_arch = "nvptx64"))]
pub(super) fn in_block_by_way_of<T: Copy>(
    n: u64,
    fetch: impl Fn(u32) -> T,
    pass: impl Fn(T),
    serve: impl FnMut(u32, T, bool),
) {
    serve_block((0, n), fetch, pass, serve);
}

/// The keys of a block, of those from a place to an end.
#[cfg(not(target_arch = "nvptx64"))]
fn serve_block<T: Copy>(
    (from, n): (u64, u64),
    fetch: impl Fn(u32) -> T,
    pass: impl Fn(T),
    mut serve: impl FnMut(u32, T, bool),
) {
    let threads = u64::from(thread::block_dim_x());
    let first = from + u64::from(thread::block_idx_x()) * threads;
    let end = (first + threads).min(n);
    if first >= end {
        return;
    }
    let (first, end) = (first as u32, end as u32);
    let place_of = |i: u32| ((i - first) % AHEAD) as usize;
    let mut ring: [T; AHEAD as usize] =
        core::array::from_fn(|i| fetch((first + i as u32).min(end - 1)));
    for i in first..end {
        let fetched = ring[place_of(i)];
        if end - i > AHEAD {
            ring[place_of(i)] = fetch(i + AHEAD);
        }
        pass(ring[place_of(i + AHEAD / 2)]);
        serve(i, fetched, i + 1 == end);
    }
}
