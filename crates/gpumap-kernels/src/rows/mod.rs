//! Row maps: a dense row number for each key, with keys of any width.
//!
//! | file | idea |
//! |---|---|
//! | `slot` | what a slot holds: a tag of the key, and its row or the place of a batch that claims it |
//! | `key` | keys of 4 to 64 bytes, hashed and compared in units of 4, 8 or 16 bytes |
//! | `view` | buckets of slots, and the walk of a key |
//! | `claim` | first pass of an insert: each key finds or claims its slot |
//! | `commit` | second pass: claims become rows |
//! | `get` | lookups |
//! | `remove` | removals, and rows made dense again |
//! | `string` | references to strings of any length, which are keys as well |
//! | `string_batch` | references from offsets and bytes, and bytes copied |
//! | `values` | values of 4 or 8 bytes by row |
//! | `upkeep` | slots made anew from rows, claims taken back, bits and rows counted |
//! | `aggregate` | sums and other aggregates of columns by row |
//! | `floats` | one zero and one NaN in the floats of keys |
//! | `join` | pairs of places with equal keys |
//! | `row_ref`, `wide_ref` | a map as an argument of a user's kernels, without values and with them |
//! | `shards` | keys and answers of maps over several devices |
//!
//! A slot has 8 bytes: 32 bits of the key's hash and 32 of its row. The key itself lies in an array, at its row, and is
//! compared there. So keys of any width, and of any bit pattern, are stored by an exchange of 8 bytes.
//!
//! # An insert
//! 1. *Claim*. Each key of the batch walks from its home bucket. The first empty slot is exchanged for a claim: the tag, and
//!    the key's place in the batch. A key that meets a claim is compared with the key at that place. If they are equal, the
//!    lower place takes the slot over. So at the end the slot of each new key has the place of its first occurrence, its
//!    *owner*. One bit for each place says which are owners.
//! 2. *Rank*. A prefix sum over the bits gives each owner its number among the owners. The new rows are the next ones, in
//!    the order of first occurrence.
//! 3. *Commit*. Owners write their key to its row, and the row to the slot. All others read the row of their owner.
//!
//! The host runs one insert at a time, and no lookup beside a commit. A removal runs alone.
//!
//! # Invariants
//! - A key lies in the first slot of its walk that was empty when it was claimed. Slots go empty → claim → row → tombstone,
//!   and back to empty only if all claims of the batch do. So two occurrences of a key meet at one slot, and a search ends at
//!   the first empty slot.
//! - The key of a slot never changes, only the place that claims it, which falls.
//! - There is always an empty slot: so every walk ends.

#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
mod aggregate;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
mod claim;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
mod commit;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
mod floats;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
mod get;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
mod join;
mod key;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
mod remove;
mod row_ref;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
mod shards;
mod slot;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
mod string;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
mod string_batch;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
mod upkeep;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
mod values;
mod view;
mod wide_ref;

#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub use aggregate::{
    Accumulators, Aggregate, Number, Operation, RowAggregateArgs, RowClearArgs, RowFinishArgs,
    RowFoldArgs,
};
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub use claim::RowClaimArgs;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub use commit::RowCommitArgs;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub use floats::RowFloatsArgs;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub use get::RowGetArgs;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub use join::{
    JoinCountArgs, JoinPlaceArgs, JoinProbe, JoinTicketsArgs, JoinWriteArgs, SHARE, STRIP,
};
pub use key::{Hash, Unit};
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub use remove::{Removed, RowCompactArgs, RowRemoveArgs};
pub use row_ref::RowRef;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub use shards::{RowOwnerArgs, RowReturnArgs, RowTakeArgs, owner_hash};
pub use slot::{MOST_KEYS, MOST_ROWS, NO_ROW, NO_SLOT, RowSlot};
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub use string::{MOST_STRING_BYTES, STRING_ALIGNMENT, StringRef};
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub use string_batch::{StringCopyArgs, StringRefsArgs, StringSizesArgs, WRONG};
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub use upkeep::{RowCountBitsArgs, RowRebuildArgs, RowReleaseArgs, RowTellArgs};
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub use values::{NEW_ROWS, OTHER_ROWS, RowGatherArgs, RowUpdateArgs};
pub use view::{BUCKET_BYTES, BUCKET_SLOTS, Found, RowView};
pub use wide_ref::{WideRef, WideValue};

#[cfg(not(target_arch = "nvptx64"))]
pub use aggregate::{ROW_AGGREGATE, ROW_CLEAR, ROW_FINISH, ROW_FOLD};
#[cfg(not(target_arch = "nvptx64"))]
pub use claim::{ROW_CLAIM_4, ROW_CLAIM_8, ROW_CLAIM_16, ROW_CLAIM_STRING};
#[cfg(not(target_arch = "nvptx64"))]
pub use commit::{ROW_COMMIT_4, ROW_COMMIT_8, ROW_COMMIT_16, ROW_COMMIT_STRING, ROW_PUBLISH};
#[cfg(not(target_arch = "nvptx64"))]
pub use floats::ROW_FLOATS;
#[cfg(not(target_arch = "nvptx64"))]
pub use get::{ROW_GET_4, ROW_GET_8, ROW_GET_16, ROW_GET_STRING};
#[cfg(not(target_arch = "nvptx64"))]
pub use join::{JOIN_COUNT, JOIN_PLACE, JOIN_TICKETS, JOIN_WRITE};
#[cfg(not(target_arch = "nvptx64"))]
pub use key::hash;
#[cfg(not(target_arch = "nvptx64"))]
pub use remove::{
    ROW_COMPACT_4, ROW_COMPACT_8, ROW_COMPACT_16, ROW_REMOVE_4, ROW_REMOVE_8, ROW_REMOVE_16,
    ROW_REMOVE_STRING,
};
#[cfg(not(target_arch = "nvptx64"))]
pub use shards::{
    ROW_OWNER_4, ROW_OWNER_8, ROW_OWNER_16, ROW_RETURN, ROW_TAKE_4, ROW_TAKE_8, ROW_TAKE_16,
};
#[cfg(not(target_arch = "nvptx64"))]
pub use string::string_hash;
#[cfg(not(target_arch = "nvptx64"))]
pub use string_batch::{STRING_COPY, STRING_REFS, STRING_SIZES};
#[cfg(not(target_arch = "nvptx64"))]
pub use upkeep::{
    ROW_COUNT_BITS, ROW_REBUILD_4, ROW_REBUILD_8, ROW_REBUILD_16, ROW_REBUILD_STRING, ROW_RELEASE,
    ROW_TELL,
};
#[cfg(not(target_arch = "nvptx64"))]
pub use values::{ROW_GATHER_4, ROW_GATHER_8, ROW_UPDATE_4, ROW_UPDATE_8};

#[cfg(not(target_arch = "nvptx64"))]
use gpumap_simt::kernel::Kernel;

/// Threads of a block of each of the kernels: whole warps, so that no word of owners is two blocks'.
pub const THREADS: u32 = 256;

/// The kernels that look at keys, for units of one size or for strings.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct RowKernels {
    /// First pass of an insert.
    pub claim: &'static Kernel<RowClaimArgs>,
    /// Second pass.
    pub commit: &'static Kernel<RowCommitArgs>,
    /// Lookups.
    pub get: &'static Kernel<RowGetArgs>,
    /// Slots from rows.
    pub rebuild: &'static Kernel<RowRebuildArgs>,
    /// Removals.
    pub remove: &'static Kernel<RowRemoveArgs>,
    /// Keys without removed rows between them.
    pub compact: &'static Kernel<RowCompactArgs>,
    /// Which device keys belong to.
    pub owner: &'static Kernel<RowOwnerArgs>,
    /// Keys in another order.
    pub take: &'static Kernel<RowTakeArgs>,
}

#[cfg(not(target_arch = "nvptx64"))]
impl RowKernels {
    /// Those with the largest units that so many bytes can be cut into: the size of a key, or of whatever its address is
    /// a multiple of as well. At least 4, or the kernels would load at odd addresses.
    pub fn for_multiples_of(bytes: usize) -> &'static Self {
        debug_assert!(bytes.is_multiple_of(4), "{bytes} bytes");
        match bytes {
            _ if bytes.is_multiple_of(16) => &OF_16,
            _ if bytes.is_multiple_of(8) => &OF_8,
            _ => &OF_4,
        }
    }

    /// Those of the kernels of a map on one device, as PTX names them.
    pub fn entries(&self) -> [(&'static str, u64); 6] {
        [
            self.claim.entry(),
            self.commit.entry(),
            self.get.entry(),
            self.rebuild.entry(),
            self.remove.entry(),
            self.compact.entry(),
        ]
    }

    /// Those for keys that are [references](StringRef).
    pub fn for_strings() -> &'static Self {
        &OF_STRINGS
    }
}

#[cfg(not(target_arch = "nvptx64"))]
static OF_4: RowKernels = RowKernels {
    claim: &ROW_CLAIM_4,
    commit: &ROW_COMMIT_4,
    get: &ROW_GET_4,
    rebuild: &ROW_REBUILD_4,
    remove: &ROW_REMOVE_4,
    compact: &ROW_COMPACT_4,
    owner: &ROW_OWNER_4,
    take: &ROW_TAKE_4,
};

#[cfg(not(target_arch = "nvptx64"))]
static OF_8: RowKernels = RowKernels {
    claim: &ROW_CLAIM_8,
    commit: &ROW_COMMIT_8,
    get: &ROW_GET_8,
    rebuild: &ROW_REBUILD_8,
    remove: &ROW_REMOVE_8,
    compact: &ROW_COMPACT_8,
    owner: &ROW_OWNER_8,
    take: &ROW_TAKE_8,
};

#[cfg(not(target_arch = "nvptx64"))]
static OF_16: RowKernels = RowKernels {
    claim: &ROW_CLAIM_16,
    commit: &ROW_COMMIT_16,
    get: &ROW_GET_16,
    rebuild: &ROW_REBUILD_16,
    remove: &ROW_REMOVE_16,
    compact: &ROW_COMPACT_16,
    owner: &ROW_OWNER_16,
    take: &ROW_TAKE_16,
};

/// References are copied as they lie.
#[cfg(not(target_arch = "nvptx64"))]
static OF_STRINGS: RowKernels = RowKernels {
    claim: &ROW_CLAIM_STRING,
    commit: &ROW_COMMIT_STRING,
    get: &ROW_GET_STRING,
    rebuild: &ROW_REBUILD_STRING,
    remove: &ROW_REMOVE_STRING,
    compact: &ROW_COMPACT_8,
    // Of references, as they lie: no strings are spread over devices.
    owner: &ROW_OWNER_8,
    take: &ROW_TAKE_8,
};
