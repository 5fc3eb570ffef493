//! [`Claims`]: a batch whose keys find or claim their slots, get their ranks, and become rows. What row maps and
//! [`unique`](crate::primitives::Primitives::unique) are made of.

use gpumap_kernels::rows::{
    BUCKET_BYTES, ROW_COUNT_BITS, ROW_PUBLISH, ROW_RELEASE, ROW_TELL, RowClaimArgs, RowCommitArgs,
    RowCountBitsArgs, RowReleaseArgs, RowTellArgs, RowView, THREADS,
};
use gpumap_simt::kernel::Grid;
use gpumap_simt::warp;

use super::Keys;
use crate::error::Result;
use crate::primitives::queue_exclusive_sum;
use crate::scratch::{ScratchRole, Workspace};

use std::ops::Range;
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
    /// Added to: for each row how many keys of the batch have it. Wants `rows`.
    pub counts: *mut u32,
}

impl Told {
    pub const NOTHING: Self = Self {
        rows: ptr::null_mut(),
        new: ptr::null_mut(),
        first: ptr::null_mut(),
        counts: ptr::null_mut(),
    };
}

/// With one owner in so many keys or fewer, and slots that are cached, these get their rows first, from which others read them.
const OF_OWNERS: usize = 4;

/// With so many buckets for each new key or fewer, slots get their rows in their own order, not in that of the batch.
const OF_BUCKETS: usize = 2;

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

    /// Reserves scratch memory for the claims of a batch, of which there are none yet.
    pub fn of(scratch: &mut Workspace, keys: Keys) -> Result<Self> {
        let words = Self::words(keys.n);
        Ok(Self {
            keys,
            found: scratch.reserve(ScratchRole::Ids, keys.n)?,
            ranks: scratch.reserve(ScratchRole::Held, words + 1)?,
            owners: scratch.clear_bits(words * warp::SIZE as usize)?,
        })
    }

    /// Queues the first pass of an insert of all keys. Of those that have rows it says in `rows` which; null if that is not
    /// wanted.
    ///
    /// # Safety
    /// As for [`queue_part`](Self::queue_part); the slots have room for all keys.
    pub unsafe fn queue(
        &self,
        scratch: &mut Workspace,
        view: RowView,
        rows: *mut u32,
    ) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.queue_part(scratch, view, rows, 0..self.keys.n, (ptr::null_mut(), 0)) }
    }

    /// Queues the first pass of an insert for keys at these places, of which the first one is a multiple of [`THREADS`]. It adds
    /// to `claimed` how many slots were claimed, and if that gets more than `most`, keys give up: then claims are to be
    /// made again, in other slots. Once it was launched, slots must not be used any more if it fails.
    ///
    /// # Safety
    /// The keys lie there, and room for their rows, until what is queued has ended. The view is of slots, and of keys of their
    /// rows; without `claimed`, of slots that have room for all keys. No other insert and no commit runs.
    pub unsafe fn queue_part(
        &self,
        scratch: &mut Workspace,
        view: RowView,
        rows: *mut u32,
        places: Range<usize>,
        (claimed, most): (*mut u64, usize),
    ) -> Result<()> {
        let args = RowClaimArgs {
            view,
            batch: self.keys.at,
            from: places.start as u64,
            n: places.end as u64,
            found: self.found,
            rows,
            owners: self.owners,
            claimed,
            most: most as u64,
        };
        scratch.dirty_bits();
        // SAFETY: reserved for so many keys; the caller's promise.
        unsafe {
            self.keys
                .kernels()
                .claim
                .launch(scratch.stream(), grid(places.len()), args)
        }
    }

    /// Which keys are owners, a bit for each.
    pub fn owners(&self) -> *const u32 {
        self.owners
    }

    /// Forgets all claims.
    pub fn forget(&mut self, scratch: &mut Workspace) -> Result<()> {
        self.owners = scratch.clear_bits(Self::words(self.keys.n) * warp::SIZE as usize)?;
        Ok(())
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

    /// Queues the second pass, which is needed if there are `new` keys: they get rows from `first_row` on. Slots get them as well if `publish`, or else nothing
    /// may look at them any more.
    ///
    /// # Safety
    /// The owners are ranked, of which there are `new`, and their slots as the first pass left them. The view has room for the
    /// new keys, or its keys are null; what is told has room for all keys. Nothing else runs on the slots.
    pub unsafe fn commit(
        &self,
        scratch: &Workspace,
        view: RowView,
        (first_row, new): (usize, usize),
        publish: bool,
        told: Told,
    ) -> Result<()> {
        // What owns nothing has the row of its slot's owner, which is its rank; or slots get their rows first.
        let buckets = view.buckets as usize;
        let are_cached = (buckets * BUCKET_BYTES) as u64 <= scratch.stream().device().cache_bytes();
        let by_slot = !told.rows.is_null() && new <= self.keys.n / OF_OWNERS && are_cached;
        let publish = publish || by_slot;
        let sweep = publish && buckets <= new.saturating_mul(OF_BUCKETS);
        let args = RowCommitArgs {
            view,
            batch: self.keys.at,
            n: self.keys.n as u64,
            found: self.found,
            owners: self.owners,
            ranks: self.ranks,
            first_row: first_row as u32,
            publish: u32::from(publish && !sweep),
            rows: match by_slot {
                true => ptr::null_mut(),
                false => told.rows,
            },
            new: told.new,
            first: told.first,
        };
        let (slots, found) = match by_slot {
            true => (view.slots.cast_const(), self.found),
            false => (ptr::null(), told.rows),
        };
        let tell = RowTellArgs {
            slots,
            found,
            n: self.keys.n as u64,
            rows: told.rows,
            counts: told.counts,
        };
        let (stream, all) = (scratch.stream(), grid(self.keys.n));
        let kernels = self.keys.kernels_with(view.keys);
        // SAFETY: passed on; slots have their rows, or rows are known, when the last launch begins.
        unsafe {
            if sweep {
                ROW_PUBLISH.launch(stream, grid(buckets), args)?;
            }
            kernels.commit.launch(stream, all, args)?;
            match by_slot || !told.counts.is_null() {
                true => ROW_TELL.launch(stream, all, tell),
                false => Ok(()),
            }
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
