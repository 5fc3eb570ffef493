//! The entry points, and the sets of them that the host chooses from.
//!
//! A set has one kernel per verb for one size of key, one size of value and one [`Encoding`].
//! The types of a set's arguments depend on the sizes alone, so that a host that picked the
//! set by the device cannot mix up keys and values.

pub mod ids;
mod keys;

pub use keys::*;

use crate::build::bins::Bins;
use crate::build::page::{self, BuildArgs};
#[cfg(not(target_arch = "nvptx64"))]
use crate::build::{ToPages, pages::PagesArgs};
use crate::count::Counters;
#[cfg(not(target_arch = "nvptx64"))]
use crate::map_ref::{Named, SlotKind};
#[cfg(not(target_arch = "nvptx64"))]
use crate::primitives::partition::{Partitioned, ScatterArgs, ScatterKernel};
use crate::probe::serve_batch;
use crate::rebuild::{self, RebuildArgs};
use crate::retain::{self, RetainArgs};
use crate::retrieve_all::{self, RetrieveAllArgs};
#[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
use crate::slot::Split;
#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
use crate::slot::Wide;
use crate::slot::{Format, Packed};
use crate::source::{Batch, Slots, Source};
use crate::stats::{self, StatsArgs};
use crate::table::MapView;
use crate::verbs::look_up::{Answers, CountAbsent, Get};
use crate::verbs::mixed::{Mixed, Told};
use crate::verbs::remove::{Remove, Undo};
use crate::verbs::store::{Account, Keep, Merge, Present, Read, Store};
use core::ptr;
use gpumap_simt::atomic::part::Update;
use gpumap_simt::{kernel, kernel_args};

/// Threads per block of the batch verbs.
pub const BATCH_THREADS: u32 = 256;

kernel_args! {
    /// Arguments of the kernels that store: blocks of whole warps, enough for the batch.
    pub struct StoreArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys and values.
        pub batch: Batch<K, V>,
        /// What `merge` does to values of present keys.
        pub update: Update,
        /// Out, of `get_or_insert`: one value per key, what the map holds for it.
        pub values: *mut V,
        /// What is served, and what is noted.
        pub account: Account,
    }
}

kernel_args! {
    /// Arguments of the kernels that store a batch in bins: blocks of whole warps, enough for all
    /// places. Bits of the account are numbered as places; there are no outcomes.
    pub struct StoreBinsArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys and values.
        pub bins: Bins<K, V>,
        /// What `merge` does to values of present keys.
        pub update: Update,
        /// What is served, and what is noted.
        pub account: Account,
    }
}

kernel_args! {
    /// Arguments of a `get` kernel: blocks of whole warps, enough for the batch.
    pub struct GetArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys.
        pub batch: Batch<K, V>,
        /// Out: the answers.
        pub answers: Answers<V>,
    }
}

kernel_args! {
    /// Arguments of a `count_absent` kernel: blocks of whole warps, enough for the batch.
    pub struct CountArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys.
        pub batch: Batch<K, V>,
        /// Keys that are absent.
        pub absent: Counters,
    }
}

kernel_args! {
    /// Arguments of the kernels that remove: blocks of whole warps, enough for the batch.
    pub struct RemoveArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys.
        pub batch: Batch<K, V>,
        /// Out: whether each key's pair was removed for it, and of `take` its value.
        pub answers: Answers<V>,
        /// Pairs removed.
        pub removed: Counters,
    }
}

kernel_args! {
    /// Arguments of the kernels that remove a batch in bins: blocks of whole warps, enough for all
    /// places.
    pub struct RemoveBinsArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys.
        pub bins: Bins<K, V>,
        /// Pairs removed.
        pub removed: Counters,
    }
}

kernel_args! {
    /// Arguments of a `mixed` kernel: blocks of whole warps, enough for the batch.
    pub struct MixedArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys and values.
        pub batch: Batch<K, V>,
        /// What is done with each key: [`operation`](crate::verbs::mixed::operation).
        pub operations: *const u8,
        /// Out: the answers.
        pub told: Told<V>,
        /// What is served, and what is noted; no outcomes.
        pub account: Account,
        /// Pairs removed.
        pub removed: Counters,
    }
}

kernel_args! {
    /// Arguments of an `undo` kernel: blocks of whole warps, enough for the batch. Nothing else
    /// runs on the map.
    pub struct UndoArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// The keys of the batch.
        pub batch: Batch<K, V>,
        /// What the batch left: one byte per key, 1 where its pair was stored.
        pub outcomes: *const u8,
        /// Whether tombstones are left (not 0), or empty slots (0), which takes that no pair has
        /// moved since.
        pub buries: u32,
    }
}

kernel_args! {
    /// Arguments of a `rehash` kernel: blocks of whole warps, enough for the slots. Nothing else
    /// runs on the map.
    pub struct RehashArgs {
        /// The map, with the new submap in its directory.
        pub view: MapView,
        /// The old one.
        pub slots: Slots,
        /// What is noted; no outcomes.
        pub account: Account,
    }
}

/// # Safety
/// See [`StoreArgs`].
#[inline(always)]
unsafe fn store<F: Format, S: Source<F>, P: Present<F>>(
    view: &MapView,
    batch: &S,
    account: &Account,
    present: P,
) {
    let mut verb = Store {
        present,
        account: *account,
        stored: 0,
    };
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        serve_batch::<F, _, _>(view, batch, &mut verb);
        account.counters.add_from_block(verb.stored);
    }
}

/// # Safety
/// See [`StoreArgs`].
#[inline(always)]
unsafe fn get_or_insert<F: Format>(args: &StoreArgs<F::Key, F::Value>) {
    let present = Read {
        values: args.values,
    };
    // SAFETY: the caller's promise.
    unsafe { store::<F, _, _>(&args.view, &args.batch, &args.account, present) };
}

/// # Safety
/// See [`GetArgs`].
#[inline(always)]
unsafe fn get<F: Format>(args: &GetArgs<F::Key, F::Value>) {
    let mut verb = Get(args.answers);
    // SAFETY: blocks are whole warps.
    unsafe { serve_batch::<F, _, _>(&args.view, &args.batch, &mut verb) };
}

/// # Safety
/// See [`CountArgs`].
#[inline(always)]
unsafe fn count_absent<F: Format>(args: &CountArgs<F::Key, F::Value>) {
    let mut verb = CountAbsent { absent: 0 };
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.batch, &mut verb);
        args.absent.add_from_block(verb.absent);
    }
}

/// # Safety
/// See [`RemoveArgs`].
#[inline(always)]
unsafe fn remove<F: Format, const READS: bool>(args: &RemoveArgs<F::Key, F::Value>) {
    let mut verb = Remove::<_, READS> {
        answers: args.answers,
        removed: 0,
    };
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.batch, &mut verb);
        args.removed.add_from_block(verb.removed);
    }
}

/// # Safety
/// See [`RemoveBinsArgs`].
#[inline(always)]
unsafe fn remove_bins<F: Format>(args: &RemoveBinsArgs<F::Key, F::Value>) {
    let mut verb = Remove::<_, false> {
        answers: Answers {
            values: ptr::null_mut(),
            found: ptr::null_mut(),
            default: F::Value::default(),
        },
        removed: 0,
    };
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.bins, &mut verb);
        args.removed.add_from_block(verb.removed);
    }
}

/// # Safety
/// See [`MixedArgs`].
#[inline(always)]
unsafe fn mixed<F: Format>(args: &MixedArgs<F::Key, F::Value>) {
    let mut verb = Mixed::new(args.operations, args.account, args.told);
    // SAFETY: blocks are whole warps, and all their threads come to the counts.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.batch, &mut verb);
        args.removed.add_from_block(verb.removed);
        args.account.counters.add_from_block(verb.stored());
    }
}

/// # Safety
/// See [`UndoArgs`].
#[inline(always)]
unsafe fn undo<F: Format>(args: &UndoArgs<F::Key, F::Value>) {
    let mut verb = Undo {
        outcomes: args.outcomes,
        buries: args.buries != 0,
    };
    // SAFETY: blocks are whole warps.
    unsafe { serve_batch::<F, _, _>(&args.view, &args.batch, &mut verb) };
}

/// How the host's device claims a 16-byte slot.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// By a 128-bit CAS: the PTX of sm_90 and newer, and the CPU.
    Wide,
    /// By the key word: the PTX of sm_70, and the CPU.
    Split,
}

/// The kernels of a map with keys of type `K` and values of type `V`.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct KernelSet<K: crate::slot::Bits, V: crate::slot::Bits> {
    /// Bytes per slot.
    pub slot_bytes: u32,
    /// What the slots are like.
    pub slots: SlotKind,
    /// Stores pairs whose key is absent.
    pub insert: &'static gpumap_simt::kernel::Kernel<StoreArgs<K, V>>,
    /// Stores, or updates values.
    pub merge: &'static gpumap_simt::kernel::Kernel<StoreArgs<K, V>>,
    /// Stores, or reports values.
    pub get_or_insert: &'static gpumap_simt::kernel::Kernel<StoreArgs<K, V>>,
    /// Looks up.
    pub get: &'static gpumap_simt::kernel::Kernel<GetArgs<K, V>>,
    /// Counts absent keys.
    pub count_absent: &'static gpumap_simt::kernel::Kernel<CountArgs<K, V>>,
    /// Removes.
    pub remove: &'static gpumap_simt::kernel::Kernel<RemoveArgs<K, V>>,
    /// Removes, and reports values; beside no updates.
    pub take: &'static gpumap_simt::kernel::Kernel<RemoveArgs<K, V>>,
    /// Does with each key what its operation says.
    pub mixed: &'static gpumap_simt::kernel::Kernel<MixedArgs<K, V>>,
    /// Takes back what a batch stored.
    pub undo: &'static gpumap_simt::kernel::Kernel<UndoArgs<K, V>>,
    /// What large batches are stored by; maps without it store them as they come.
    pub bulk: Option<BulkKernels<K, V>>,
    /// Makes the pages of a submap from those of the one that it replaces.
    pub rebuild: &'static gpumap_simt::kernel::Kernel<RebuildArgs>,
    /// Stores the pairs of a submap that is being replaced, or what was left over.
    pub rehash: &'static gpumap_simt::kernel::Kernel<RehashArgs>,
    /// Removes by predicate.
    pub retain: &'static gpumap_simt::kernel::Kernel<RetainArgs<K, V>>,
    /// Counts.
    pub stats: &'static gpumap_simt::kernel::Kernel<StatsArgs>,
    /// Dumps.
    pub retrieve_all: &'static gpumap_simt::kernel::Kernel<RetrieveAllArgs<K, V>>,
}

/// The kernels for [large batches](crate::build).
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct BulkKernels<K: crate::slot::Bits, V: crate::slot::Bits> {
    /// Sorts pairs into bins.
    pub to_bins: ScatterKernel<ScatterArgs<K, V>>,
    /// Sorts keys into bins.
    pub keys_to_bins: ScatterKernel<ScatterArgs<K, ()>>,
    /// Stores pairs in bins whose key is absent.
    pub insert: &'static gpumap_simt::kernel::Kernel<StoreBinsArgs<K, V>>,
    /// Stores pairs in bins, or updates values.
    pub merge: &'static gpumap_simt::kernel::Kernel<StoreBinsArgs<K, V>>,
    /// Removes keys in bins.
    pub remove: &'static gpumap_simt::kernel::Kernel<RemoveBinsArgs<K, V>>,
    /// Sorts bins into pages.
    pub to_pages: ScatterKernel<PagesArgs<K, V>>,
    /// Makes the pages of an empty map.
    pub build: &'static gpumap_simt::kernel::Kernel<BuildArgs<K, V>>,
    /// Adds to the pages of a map in use.
    pub fill: &'static gpumap_simt::kernel::Kernel<BuildArgs<K, V>>,
}

/// Declares the kernels of one format, and their set.
macro_rules! kernel_set {
    ($(#[$cfg:meta])* $set:ident: $format:ty, $k:ty, $v:ty;
     $INSERT:ident $insert:ident
     $MERGE:ident $merge:ident
     $GET_OR_INSERT:ident $get_or_insert:ident
     $GET:ident $get:ident
     $COUNT_ABSENT:ident $count_absent:ident
     $REMOVE:ident $remove:ident
     $TAKE:ident $take:ident
     $MIXED:ident $mixed:ident
     $UNDO:ident $undo:ident
     $INSERT_BINS:ident $insert_bins:ident
     $MERGE_BINS:ident $merge_bins:ident
     $REMOVE_BINS:ident $remove_bins:ident
     $BUILD:ident $build:ident
     $FILL:ident $fill:ident
     $REBUILD:ident $rebuild:ident
     $REHASH:ident $rehash:ident
     $RETAIN:ident $retain:ident
     $STATS:ident $stats:ident
     $RETRIEVE_ALL:ident $retrieve_all:ident) => {
        kernel! {
            /// Stores pairs whose key is absent.
            $(#[$cfg])*
            pub static $INSERT = fn $insert(args: StoreArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { store::<$format, _, _>(&args.view, &args.batch, &args.account, Keep) }
            }
            /// Updates values; stores pairs whose key is absent.
            $(#[$cfg])*
            pub static $MERGE = fn $merge(args: StoreArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { store::<$format, _, _>(&args.view, &args.batch, &args.account, Merge(args.update)) }
            }
            /// Reports values; stores pairs whose key is absent.
            $(#[$cfg])*
            pub static $GET_OR_INSERT = fn $get_or_insert(args: StoreArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { get_or_insert::<$format>(&args) }
            }
            /// Looks keys up.
            $(#[$cfg])*
            pub static $GET = fn $get(args: GetArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { get::<$format>(&args) }
            }
            /// Counts absent keys.
            $(#[$cfg])*
            pub static $COUNT_ABSENT = fn $count_absent(args: CountArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { count_absent::<$format>(&args) }
            }
            /// Removes pairs.
            $(#[$cfg])*
            pub static $REMOVE = fn $remove(args: RemoveArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { remove::<$format, false>(&args) }
            }
            /// Removes pairs and reports their values.
            $(#[$cfg])*
            pub static $TAKE = fn $take(args: RemoveArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { remove::<$format, true>(&args) }
            }
            /// Does with each key what its operation says.
            $(#[$cfg])*
            pub static $MIXED = fn $mixed(args: MixedArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { mixed::<$format>(&args) }
            }
            /// Takes back what a batch stored.
            $(#[$cfg])*
            pub static $UNDO = fn $undo(args: UndoArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { undo::<$format>(&args) }
            }
            /// Stores pairs in bins whose key is absent.
            $(#[$cfg])*
            pub static $INSERT_BINS = fn $insert_bins(args: StoreBinsArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { store::<$format, _, _>(&args.view, &args.bins, &args.account, Keep) }
            }
            /// Updates values; stores pairs in bins whose key is absent.
            $(#[$cfg])*
            pub static $MERGE_BINS = fn $merge_bins(args: StoreBinsArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { store::<$format, _, _>(&args.view, &args.bins, &args.account, Merge(args.update)) }
            }
            /// Removes keys in bins.
            $(#[$cfg])*
            pub static $REMOVE_BINS = fn $remove_bins(args: RemoveBinsArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { remove_bins::<$format>(&args) }
            }
            /// Makes the pages of an empty map from the pairs at their heads.
            $(#[$cfg])*
            pub static $BUILD = fn $build(args: BuildArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { page::build::<$format, false, { page::threads(<$format>::SLOT_BYTES) }>(&args) }
            }
            /// Adds the pairs at their heads to the pages of a map in use.
            $(#[$cfg])*
            pub static $FILL = fn $fill(args: BuildArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { page::build::<$format, true, { page::threads(<$format>::SLOT_BYTES) }>(&args) }
            }
            /// Makes the pages of a submap from those of the one that it replaces.
            $(#[$cfg])*
            pub static $REBUILD = fn $rebuild(args: RebuildArgs) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { rebuild::rebuild::<$format>(&args) }
            }
            /// Stores the pairs of a submap that is being replaced, or what was left over.
            $(#[$cfg])*
            pub static $REHASH = fn $rehash(args: RehashArgs) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { store::<$format, _, _>(&args.view, &args.slots, &args.account, Keep) }
            }
            /// Removes what two predicates do not hold for.
            $(#[$cfg])*
            pub static $RETAIN = fn $retain(args: RetainArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { retain::retain::<$format>(&args) }
            }
            /// Counts tombstones, and pairs by probe length.
            $(#[$cfg])*
            pub static $STATS = fn $stats(args: StatsArgs) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { stats::stats::<$format>(&args) }
            }
            /// Dumps all pairs.
            $(#[$cfg])*
            pub static $RETRIEVE_ALL = fn $retrieve_all(args: RetrieveAllArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { retrieve_all::dump::<$format>(&args) }
            }
        }
        /// The kernels of this format.
        #[cfg(not(target_arch = "nvptx64"))]
        pub static $set: KernelSet<$k, $v> = KernelSet {
            slot_bytes: <$format as Format>::SLOT_BYTES,
            slots: <$format as Named>::KIND,
            insert: &$INSERT,
            merge: &$MERGE,
            get_or_insert: &$GET_OR_INSERT,
            get: &$GET,
            count_absent: &$COUNT_ABSENT,
            remove: &$REMOVE,
            take: &$TAKE,
            mixed: &$MIXED,
            undo: &$UNDO,
            bulk: Some(BulkKernels {
                to_bins: <$k as Partitioned<$v>>::KERNELS.scatter,
                keys_to_bins: <$k as Partitioned<()>>::KERNELS.scatter,
                insert: &$INSERT_BINS,
                merge: &$MERGE_BINS,
                remove: &$REMOVE_BINS,
                to_pages: <$k as ToPages<$v>>::TO_PAGES,
                build: &$BUILD,
                fill: &$FILL,
            }),
            rebuild: &$REBUILD,
            rehash: &$REHASH,
            retain: &$RETAIN,
            stats: &$STATS,
            retrieve_all: &$RETRIEVE_ALL,
        };
    };
}

kernel_set! {
    PACKED_4_4: Packed, u32, u32;
    INSERT_4_4 insert_4_4
    MERGE_4_4 merge_4_4
    GET_OR_INSERT_4_4 get_or_insert_4_4
    GET_4_4 get_4_4
    COUNT_ABSENT_4_4 count_absent_4_4
    REMOVE_4_4 remove_4_4
    TAKE_4_4 take_4_4
    MIXED_4_4 mixed_4_4
    UNDO_4_4 undo_4_4
    INSERT_BINS_4_4 insert_bins_4_4
    MERGE_BINS_4_4 merge_bins_4_4
    REMOVE_BINS_4_4 remove_bins_4_4
    BUILD_4_4 build_4_4
    FILL_4_4 fill_4_4
    REBUILD_4_4 rebuild_4_4
    REHASH_4_4 rehash_4_4
    RETAIN_4_4 retain_4_4
    STATS_4_4 stats_4_4
    RETRIEVE_ALL_4_4 retrieve_all_4_4
}

kernel_set! {
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    WIDE_4_8: Wide<u32, u64>, u32, u64;
    INSERT_4_8_WIDE insert_4_8_wide
    MERGE_4_8_WIDE merge_4_8_wide
    GET_OR_INSERT_4_8_WIDE get_or_insert_4_8_wide
    GET_4_8_WIDE get_4_8_wide
    COUNT_ABSENT_4_8_WIDE count_absent_4_8_wide
    REMOVE_4_8_WIDE remove_4_8_wide
    TAKE_4_8_WIDE take_4_8_wide
    MIXED_4_8_WIDE mixed_4_8_wide
    UNDO_4_8_WIDE undo_4_8_wide
    INSERT_BINS_4_8_WIDE insert_bins_4_8_wide
    MERGE_BINS_4_8_WIDE merge_bins_4_8_wide
    REMOVE_BINS_4_8_WIDE remove_bins_4_8_wide
    BUILD_4_8_WIDE build_4_8_wide
    FILL_4_8_WIDE fill_4_8_wide
    REBUILD_4_8_WIDE rebuild_4_8_wide
    REHASH_4_8_WIDE rehash_4_8_wide
    RETAIN_4_8_WIDE retain_4_8_wide
    STATS_4_8_WIDE stats_4_8_wide
    RETRIEVE_ALL_4_8_WIDE retrieve_all_4_8_wide
}

kernel_set! {
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    WIDE_8_4: Wide<u64, u32>, u64, u32;
    INSERT_8_4_WIDE insert_8_4_wide
    MERGE_8_4_WIDE merge_8_4_wide
    GET_OR_INSERT_8_4_WIDE get_or_insert_8_4_wide
    GET_8_4_WIDE get_8_4_wide
    COUNT_ABSENT_8_4_WIDE count_absent_8_4_wide
    REMOVE_8_4_WIDE remove_8_4_wide
    TAKE_8_4_WIDE take_8_4_wide
    MIXED_8_4_WIDE mixed_8_4_wide
    UNDO_8_4_WIDE undo_8_4_wide
    INSERT_BINS_8_4_WIDE insert_bins_8_4_wide
    MERGE_BINS_8_4_WIDE merge_bins_8_4_wide
    REMOVE_BINS_8_4_WIDE remove_bins_8_4_wide
    BUILD_8_4_WIDE build_8_4_wide
    FILL_8_4_WIDE fill_8_4_wide
    REBUILD_8_4_WIDE rebuild_8_4_wide
    REHASH_8_4_WIDE rehash_8_4_wide
    RETAIN_8_4_WIDE retain_8_4_wide
    STATS_8_4_WIDE stats_8_4_wide
    RETRIEVE_ALL_8_4_WIDE retrieve_all_8_4_wide
}

kernel_set! {
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    WIDE_8_8: Wide<u64, u64>, u64, u64;
    INSERT_8_8_WIDE insert_8_8_wide
    MERGE_8_8_WIDE merge_8_8_wide
    GET_OR_INSERT_8_8_WIDE get_or_insert_8_8_wide
    GET_8_8_WIDE get_8_8_wide
    COUNT_ABSENT_8_8_WIDE count_absent_8_8_wide
    REMOVE_8_8_WIDE remove_8_8_wide
    TAKE_8_8_WIDE take_8_8_wide
    MIXED_8_8_WIDE mixed_8_8_wide
    UNDO_8_8_WIDE undo_8_8_wide
    INSERT_BINS_8_8_WIDE insert_bins_8_8_wide
    MERGE_BINS_8_8_WIDE merge_bins_8_8_wide
    REMOVE_BINS_8_8_WIDE remove_bins_8_8_wide
    BUILD_8_8_WIDE build_8_8_wide
    FILL_8_8_WIDE fill_8_8_wide
    REBUILD_8_8_WIDE rebuild_8_8_wide
    REHASH_8_8_WIDE rehash_8_8_wide
    RETAIN_8_8_WIDE retain_8_8_wide
    STATS_8_8_WIDE stats_8_8_wide
    RETRIEVE_ALL_8_8_WIDE retrieve_all_8_8_wide
}

kernel_set! {
    #[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
    SPLIT_4_8: Split<u32, u64>, u32, u64;
    INSERT_4_8_SPLIT insert_4_8_split
    MERGE_4_8_SPLIT merge_4_8_split
    GET_OR_INSERT_4_8_SPLIT get_or_insert_4_8_split
    GET_4_8_SPLIT get_4_8_split
    COUNT_ABSENT_4_8_SPLIT count_absent_4_8_split
    REMOVE_4_8_SPLIT remove_4_8_split
    TAKE_4_8_SPLIT take_4_8_split
    MIXED_4_8_SPLIT mixed_4_8_split
    UNDO_4_8_SPLIT undo_4_8_split
    INSERT_BINS_4_8_SPLIT insert_bins_4_8_split
    MERGE_BINS_4_8_SPLIT merge_bins_4_8_split
    REMOVE_BINS_4_8_SPLIT remove_bins_4_8_split
    BUILD_4_8_SPLIT build_4_8_split
    FILL_4_8_SPLIT fill_4_8_split
    REBUILD_4_8_SPLIT rebuild_4_8_split
    REHASH_4_8_SPLIT rehash_4_8_split
    RETAIN_4_8_SPLIT retain_4_8_split
    STATS_4_8_SPLIT stats_4_8_split
    RETRIEVE_ALL_4_8_SPLIT retrieve_all_4_8_split
}

kernel_set! {
    #[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
    SPLIT_8_4: Split<u64, u32>, u64, u32;
    INSERT_8_4_SPLIT insert_8_4_split
    MERGE_8_4_SPLIT merge_8_4_split
    GET_OR_INSERT_8_4_SPLIT get_or_insert_8_4_split
    GET_8_4_SPLIT get_8_4_split
    COUNT_ABSENT_8_4_SPLIT count_absent_8_4_split
    REMOVE_8_4_SPLIT remove_8_4_split
    TAKE_8_4_SPLIT take_8_4_split
    MIXED_8_4_SPLIT mixed_8_4_split
    UNDO_8_4_SPLIT undo_8_4_split
    INSERT_BINS_8_4_SPLIT insert_bins_8_4_split
    MERGE_BINS_8_4_SPLIT merge_bins_8_4_split
    REMOVE_BINS_8_4_SPLIT remove_bins_8_4_split
    BUILD_8_4_SPLIT build_8_4_split
    FILL_8_4_SPLIT fill_8_4_split
    REBUILD_8_4_SPLIT rebuild_8_4_split
    REHASH_8_4_SPLIT rehash_8_4_split
    RETAIN_8_4_SPLIT retain_8_4_split
    STATS_8_4_SPLIT stats_8_4_split
    RETRIEVE_ALL_8_4_SPLIT retrieve_all_8_4_split
}

kernel_set! {
    #[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
    SPLIT_8_8: Split<u64, u64>, u64, u64;
    INSERT_8_8_SPLIT insert_8_8_split
    MERGE_8_8_SPLIT merge_8_8_split
    GET_OR_INSERT_8_8_SPLIT get_or_insert_8_8_split
    GET_8_8_SPLIT get_8_8_split
    COUNT_ABSENT_8_8_SPLIT count_absent_8_8_split
    REMOVE_8_8_SPLIT remove_8_8_split
    TAKE_8_8_SPLIT take_8_8_split
    MIXED_8_8_SPLIT mixed_8_8_split
    UNDO_8_8_SPLIT undo_8_8_split
    INSERT_BINS_8_8_SPLIT insert_bins_8_8_split
    MERGE_BINS_8_8_SPLIT merge_bins_8_8_split
    REMOVE_BINS_8_8_SPLIT remove_bins_8_8_split
    BUILD_8_8_SPLIT build_8_8_split
    FILL_8_8_SPLIT fill_8_8_split
    REBUILD_8_8_SPLIT rebuild_8_8_split
    REHASH_8_8_SPLIT rehash_8_8_split
    RETAIN_8_8_SPLIT retain_8_8_split
    STATS_8_8_SPLIT stats_8_8_split
    RETRIEVE_ALL_8_8_SPLIT retrieve_all_8_8_split
}

/// The keys' half of choosing a set: implemented by `u32` and `u64`.
#[cfg(not(target_arch = "nvptx64"))]
pub trait KeyBits: ids::IdKeyBits + crate::chained::kernels::ChainedBits {
    /// The kernels for these keys, values of type `V`, and an encoding.
    fn kernels<V: ValueBits>(encoding: Encoding) -> &'static KernelSet<Self, V>;
}

/// The values' half of choosing a set: implemented by `u32` and `u64`, and by `()` for maps that are
/// sets.
#[cfg(not(target_arch = "nvptx64"))]
pub trait ValueBits: crate::slot::Bits {
    /// The kernels for 4-byte keys.
    fn with_u32_keys(encoding: Encoding) -> &'static KernelSet<u32, Self>;
    /// The kernels for 8-byte keys.
    fn with_u64_keys(encoding: Encoding) -> &'static KernelSet<u64, Self>;
}

#[cfg(not(target_arch = "nvptx64"))]
mod choose {
    use super::*;

    impl KeyBits for u32 {
        fn kernels<V: ValueBits>(encoding: Encoding) -> &'static KernelSet<Self, V> {
            V::with_u32_keys(encoding)
        }
    }

    impl KeyBits for u64 {
        fn kernels<V: ValueBits>(encoding: Encoding) -> &'static KernelSet<Self, V> {
            V::with_u64_keys(encoding)
        }
    }

    impl ValueBits for () {
        fn with_u32_keys(_: Encoding) -> &'static KernelSet<u32, Self> {
            &KEYS_4
        }
        fn with_u64_keys(_: Encoding) -> &'static KernelSet<u64, Self> {
            &KEYS_8
        }
    }

    impl ValueBits for u32 {
        fn with_u32_keys(_: Encoding) -> &'static KernelSet<u32, Self> {
            &PACKED_4_4
        }
        fn with_u64_keys(encoding: Encoding) -> &'static KernelSet<u64, Self> {
            match encoding {
                Encoding::Wide => &WIDE_8_4,
                Encoding::Split => &SPLIT_8_4,
            }
        }
    }

    impl ValueBits for u64 {
        fn with_u32_keys(encoding: Encoding) -> &'static KernelSet<u32, Self> {
            match encoding {
                Encoding::Wide => &WIDE_4_8,
                Encoding::Split => &SPLIT_4_8,
            }
        }
        fn with_u64_keys(encoding: Encoding) -> &'static KernelSet<u64, Self> {
            match encoding {
                Encoding::Wide => &WIDE_8_8,
                Encoding::Split => &SPLIT_8_8,
            }
        }
    }
}
