//! [`Claims`]: a batch whose keys find or claim their slots, get their ranks, and become rows. What row maps and
//! [`unique`](crate::primitives::Primitives::unique) are made of.

use gpumap_kernels::rows::{
    ROW_COUNT_BITS, ROW_RELEASE, RowClaimArgs, RowCommitArgs, RowCountBitsArgs, RowReleaseArgs,
    RowView, THREADS,
};
use gpumap_simt::kernel::Grid;
use gpumap_simt::warp;

use super::Keys;
use crate::error::Result;
use crate::primitives::queue_exclusive_sum;
use crate::scratch::{ScratchRole, Workspace};

use std::ptr;

/// Where a commit writes what it knows of a batch; null where that is not wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// For each key its row.
    pub rows: *mut u32,
    /// For each key whether it is the first occurrence of a new one.
    pub new: *mut u8,
    /// For each new row where its key occurs first.
    pub first: *mut u32,
}

impl Told {
    pub const NOTHING: Self = Self {
        rows: ptr::null_mut(),
        new: ptr::null_mut(),
        first: ptr::null_mut(),
    };
}

/// A batch, in scratch memory that nothing else of the call uses: the roles `Ids` and `Held`, the bits, and for a moment
/// `Tiles`.
#[derive(Debug)]
pub(crate) struct Claims {
    keys: Keys,
    found: *mut u32,
    owners: *mut u32,
    ranks: *mut u32,
}

/// One thread for each of `n` elements, of which there are fewer than 2^32.
pub(crate) fn grid(n: usize) -> Grid {
    Grid::covering(n as u64, THREADS)
}

/// Queues counting the bits that are set before each of so many words, and in all of them. Uses the role `Tiles`.
///
/// # Safety
/// There are so many words of bits, and room for a rank more, until what is queued has ended.
pub(super) unsafe fn queue_ranks(
    scratch: &mut Workspace,
    bits: *const u32,
    words: usize,
    ranks: *mut u32,
) -> Result<()> {
    let args = RowCountBitsArgs {
        bits,
        words: words as u64,
        counts: ranks,
    };
    // SAFETY: passed on.
    unsafe {
        ROW_COUNT_BITS.launch(scratch.stream(), grid(words + 1), args)?;
        queue_exclusive_sum(scratch, ranks, words + 1)
    }
}

impl Claims {
    /// Words of owners.
    fn words(n: usize) -> usize {
        n.div_ceil(warp::SIZE as usize)
    }

    /// Bytes of scratch memory of a batch of `n` keys, in a new workspace.
    pub fn bytes(n: usize) -> u64 {
        let of_words = |words: usize| Workspace::bytes_of(words.saturating_mul(size_of::<u32>()));
        // And less than the ranks for the tiles of their sum.
        of_words(n) + Workspace::bytes_of_bits(n) + 2 * of_words(Self::words(n) + 1)
    }

    /// Reserves scratch memory, and queues the first pass of an insert of keys. If that fails and nothing was
    /// [launched](Workspace::has_launched), no slot has changed; else those of the batch must not be used any more.
    ///
    /// # Safety
    /// The keys lie there until what is queued has ended. The view is of slots that have room for all of them, and of keys
    /// of their rows; no other insert and no commit runs.
    pub unsafe fn make(scratch: &mut Workspace, keys: Keys, view: RowView) -> Result<Self> {
        let words = Self::words(keys.n);
        let claims = Self {
            keys,
            found: scratch.reserve(ScratchRole::Ids, keys.n)?,
            ranks: scratch.reserve(ScratchRole::Held, words + 1)?,
            owners: scratch.clear_bits(words * warp::SIZE as usize)?,
        };
        let args = RowClaimArgs {
            view,
            batch: keys.at,
            n: keys.n as u64,
            found: claims.found,
            owners: claims.owners,
        };
        scratch.dirty_bits();
        // SAFETY: reserved for so many keys; the caller's promise.
        unsafe {
            keys.kernels()
                .claim
                .launch(scratch.stream(), grid(keys.n), args)
        }?;
        Ok(claims)
    }

    /// Waits for the first pass, and ranks the owners. Returns how many there are: the new keys.
    pub fn rank(&self, scratch: &mut Workspace) -> Result<usize> {
        let words = Self::words(self.keys.n);
        scratch.reset_counters()?;
        let counter = scratch.counters();
        // SAFETY: reserved for so many words, and a count more; a counter has room for it.
        unsafe {
            queue_ranks(scratch, self.owners, words, self.ranks)?;
            let all = self.ranks.wrapping_add(words).cast();
            scratch
                .stream()
                .copy(counter.cast(), all, size_of::<u32>())?;
        }
        Ok(scratch.read_counters()?[0] as usize)
    }

    /// Queues the second pass: the new keys get rows from `first_row` on, and their slots if `publish`.
    ///
    /// # Safety
    /// The owners are ranked, and their slots as the first pass left them. The view has room for the new keys, or its keys
    /// are null; what is told has room for all keys. Nothing else runs on the slots.
    pub unsafe fn commit(
        &self,
        scratch: &Workspace,
        view: RowView,
        first_row: usize,
        publish: bool,
        told: Told,
    ) -> Result<()> {
        let args = RowCommitArgs {
            view,
            batch: self.keys.at,
            n: self.keys.n as u64,
            found: self.found,
            owners: self.owners,
            ranks: self.ranks,
            first_row: first_row as u32,
            publish: u32::from(publish),
            rows: told.rows,
            new: told.new,
            first: told.first,
        };
        // SAFETY: passed on.
        unsafe {
            self.keys.kernels_with(view.keys).commit.launch(
                scratch.stream(),
                grid(self.keys.n),
                args,
            )
        }
    }

    /// Waits for what was queued, and takes the claims back. If that fails, slots must not be used any more.
    ///
    /// # Safety
    /// The slots are those of the first pass, and nothing but lookups runs on them.
    pub unsafe fn release(&self, scratch: &Workspace, slots: *mut u64) -> Result<()> {
        scratch.wait()?;
        let args = RowReleaseArgs {
            slots,
            found: self.found,
            owners: self.owners,
            n: self.keys.n as u64,
        };
        // SAFETY: passed on.
        unsafe { ROW_RELEASE.launch(scratch.stream(), grid(self.keys.n), args) }?;
        scratch.wait()
    }
}
