//! Batches of strings: references made from offsets and bytes, and bytes copied to where references say or offsets do.

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::{kernel, kernel_args, mem, thread, warp};

use super::string::{MOST_STRING_BYTES, STRING_ALIGNMENT, StringRef};
use crate::count::Counters;

/// The bit that says that a string is wrong, beside where it begins.
pub const WRONG: u64 = 1 << 63;

kernel_args! {
    /// Arguments of [`STRING_REFS`]: blocks of [`THREADS`](super::THREADS), a thread for each string.
    pub struct StringRefsArgs {
        /// Where each string begins among the bytes, and behind them where the last one ends: `n + 1` offsets of 32 or 64
        /// bits, signed.
        pub offsets: *const u8,
        /// Where byte 0 of the strings is, or would be if there were all that come before the first one.
        pub bytes: *const u8,
        /// The first byte that there is.
        pub from: u64,
        /// The byte behind the last one.
        pub len: u64,
        /// How many strings.
        pub n: u64,
        /// The seed of the hashes.
        pub seed: u64,
        /// Out: for each string its reference.
        pub refs: *mut StringRef,
        /// The first word gets the number of strings from the first one on whose offsets are wrong: they fall, they are not
        /// within the bytes, or the string is too long. The mirror gets the offsets of that one, [`WRONG`] in the first word;
        /// zeros if none is wrong.
        pub counters: Counters,
        /// Whether offsets have 64 bits.
        pub are_wide: u32,
    }
}

kernel_args! {
    /// Arguments of [`STRING_SIZES`]: a thread for each size.
    pub struct StringSizesArgs {
        /// The strings.
        pub refs: *const StringRef,
        /// How many.
        pub n: u64,
        /// A bit for each string, which says whether it counts; null if all do.
        pub owners: *const u32,
        /// Not 0: sizes are multiples of [`STRING_ALIGNMENT`].
        pub are_padded: u32,
        /// Out: the size of each string, 0 if it does not count, and 0 behind them: `n + 1` sizes.
        pub sizes: *mut u64,
    }
}

kernel_args! {
    /// Arguments of [`STRING_COPY`]: a thread for each string.
    pub struct StringCopyArgs {
        /// The strings.
        pub refs: *mut StringRef,
        /// How many.
        pub n: u64,
        /// A bit for each string, which says whether it is copied; null if all are.
        pub owners: *const u32,
        /// For each string where its copy begins, from `to` on.
        pub offsets: *const u64,
        /// Where the copies go: room for all of them.
        pub to: *mut u8,
        /// Not 0: references are to the copies then, which are padded; `to` and offsets are multiples of
        /// [`STRING_ALIGNMENT`].
        pub moves: u32,
    }
}

/// Whether a string counts.
///
/// # Safety
/// `owners` has a bit for it, or is null.
#[inline(always)]
unsafe fn counts(owners: *const u32, i: u64) -> bool {
    if owners.is_null() {
        return true;
    }
    let word = owners.wrapping_add(i as usize / warp::SIZE as usize);
    // SAFETY: the caller's promise.
    unsafe { mem::load_readonly(word) >> (i as u32 % warp::SIZE) & 1 != 0 }
}

/// An offset as 64 bits: of a negative one more than there are bytes.
///
/// # Safety
/// See [`StringRefsArgs`]; there is such an offset.
#[inline(always)]
unsafe fn offset(args: &StringRefsArgs, i: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        if args.are_wide != 0 {
            mem::load_readonly(args.offsets.cast::<u64>().wrapping_add(i as usize))
        } else {
            let offset: u32 =
                mem::load_readonly(args.offsets.cast::<u32>().wrapping_add(i as usize));
            offset as i32 as i64 as u64
        }
    }
}

/// The body of [`STRING_REFS`].
///
/// # Safety
/// See [`StringRefsArgs`]; every thread of every block comes here.
#[inline(always)]
unsafe fn make_refs(args: &StringRefsArgs) {
    let make = |i: u64| {
        // SAFETY: offsets of the batch, bytes within it, and a place that is this thread's.
        unsafe {
            let (start, end) = (offset(args, i), offset(args, i + 1));
            let mut string = (start, end.wrapping_sub(start));
            let is_within = args.from <= start && start <= end && end <= args.len;
            if !is_within || string.1 > MOST_STRING_BYTES {
                atomic::fetch_max(args.counters.words, args.n - i, Relaxed);
                string = (args.from, 0);
            }
            let bytes = args.bytes.wrapping_add(string.0 as usize);
            StringRef::of(bytes, string.1, args.seed).store(args.refs.wrapping_add(i as usize));
        }
    };
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::is_here() {
        super::upkeep::in_block(args.n, |_| (), |i, (), _| make(i.into()));
        // SAFETY: one thread, which is the block.
        return unsafe { tell_wrong(args) };
    }
    let i = thread::index();
    if i < args.n {
        make(i);
    }
    // SAFETY: every thread of the block comes here.
    unsafe {
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            tell_wrong(args);
        }
    }
}

/// Has the last block hand the offsets of the first wrong string over.
///
/// # Safety
/// See [`StringRefsArgs`]; one thread of every block comes here, after a barrier.
#[inline(always)]
unsafe fn tell_wrong(args: &StringRefsArgs) {
    // SAFETY: the caller's promise; offsets of a string of the batch.
    unsafe {
        if args.counters.is_last_block() {
            let wrong = atomic::load(args.counters.words, Relaxed);
            let mut told = (0, 0);
            if wrong != 0 {
                let i = args.n - wrong;
                // A negative one stays more than there are bytes.
                let shown = |i| offset(args, i).min(WRONG - 1);
                told = (shown(i) | WRONG, shown(i + 1));
            }
            args.counters.hand_over(told.0, told.1);
        }
    }
}

kernel! {
    /// Makes the references of strings, with their hashes. Of wrong offsets the string is empty.
    pub static STRING_REFS = fn string_refs(args: StringRefsArgs) by block {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { make_refs(&args) }
    }
    /// Tells sizes of strings.
    pub static STRING_SIZES = fn string_sizes(args: StringSizesArgs) by thread {
        let i = thread::index();
        if i <= args.n {
            let mut size = 0;
            // SAFETY: a string and its bit, and a place behind the last one too.
            unsafe {
                if i < args.n && counts(args.owners, i) {
                    size = StringRef::load(args.refs.wrapping_add(i as usize)).len;
                    if args.are_padded != 0 {
                        size = size.next_multiple_of(STRING_ALIGNMENT);
                    }
                }
                mem::store(args.sizes.wrapping_add(i as usize), size);
            }
        }
    }
    /// Copies the bytes of strings.
    pub static STRING_COPY = fn string_copy(args: StringCopyArgs) by thread {
        let i = thread::index();
        // SAFETY: a string, its bit, and room that is this thread's.
        unsafe {
            if i < args.n && counts(args.owners, i) {
                let at = args.refs.wrapping_add(i as usize);
                let string = StringRef::load_own(at);
                let offset = mem::load_readonly(args.offsets.wrapping_add(i as usize));
                let to = args.to.wrapping_add(offset as usize);
                if args.moves != 0 {
                    string.copy_padded(to);
                    StringRef { bytes: to, ..string }.store(at);
                } else {
                    string.copy_to(to);
                }
            }
        }
    }
}
