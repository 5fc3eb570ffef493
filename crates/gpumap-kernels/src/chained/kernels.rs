//! The entry points of chained maps, and the sets of them that the host chooses from: one kernel per
//! verb for one slot format.

use super::answer::{Counts, Report};
use super::flush::{FlushArgs, flush};
use super::get_all::{GetAll, GetAllArgs};
use super::mixed::Mixed;
use super::queue::{Verb, serve_batch};
use super::retrieve_all::{DumpChainsArgs, dump};
use super::stats::{ChainStatsArgs, stats};
use super::verbs::{Count, Delete, Insert, Search, Tally};
use super::view::ChainedView;
use crate::count::Counters;
#[cfg(not(target_arch = "nvptx64"))]
use crate::kernels::Encoding;
#[cfg(not(target_arch = "nvptx64"))]
use crate::map_ref::{Named, SlotKind};
#[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
use crate::slot::Split;
#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
use crate::slot::Wide;
use crate::slot::{Format, Packed};
use crate::source::Batch;
use gpumap_simt::{kernel, kernel_args};

kernel_args! {
    /// Arguments of the kernels that serve a batch: blocks of whole warps, enough for the batch.
    pub struct ChainedArgs<K, V> {
        /// The map.
        pub view: ChainedView,
        /// Keys and values.
        pub batch: Batch<K, V>,
        /// What `mixed` does with each key: an [`Operation`](super::mixed::Operation).
        pub operations: *const u8,
        /// Out: the answers.
        pub report: Report<V>,
        /// What is counted:
        ///
        /// | kernel | first word | second word |
        /// |---|---|---|
        /// | `insert`, `insert_unique` | pairs stored | pairs that found no room |
        /// | `delete` | pairs deleted | |
        /// | `mixed` | pairs stored | pairs deleted; who found no room is in the answers |
        /// | `search` | not touched | |
        pub counters: Counters,
    }
}

kernel_args! {
    /// Arguments of the kernels that count: blocks of whole warps, enough for the batch.
    pub struct CountArgs<K, V> {
        /// The map.
        pub view: ChainedView,
        /// Keys.
        pub batch: Batch<K, V>,
        /// Out: the pairs of each key.
        pub counts: *mut u64,
    }
}

/// # Safety
/// See [`ChainedArgs`].
#[inline(always)]
unsafe fn run<F: Format, V: Verb<F>>(args: &ChainedArgs<F::Key, F::Value>, verb: &mut V) {
    // SAFETY: blocks are whole warps.
    unsafe { serve_batch::<F, _, _>(&args.view, &args.batch, verb) };
}

/// # Safety
/// See [`ChainedArgs`].
#[inline(always)]
unsafe fn insert<F: Format, const UNIQUE: bool>(args: &ChainedArgs<F::Key, F::Value>) {
    let mut verb = Insert::<_, UNIQUE> {
        report: args.report,
        tally: Tally::default(),
    };
    // SAFETY: blocks are whole warps, and all their threads come to the counts.
    unsafe {
        run::<F, _>(args, &mut verb);
        let Tally { stored, full, .. } = verb.tally;
        args.counters.add_both_from_block(stored, full);
    }
}

/// # Safety
/// See [`ChainedArgs`].
#[inline(always)]
unsafe fn search<F: Format>(args: &ChainedArgs<F::Key, F::Value>) {
    let mut verb = Search {
        report: args.report,
    };
    // SAFETY: blocks are whole warps.
    unsafe { run::<F, _>(args, &mut verb) };
}

/// # Safety
/// See [`ChainedArgs`].
#[inline(always)]
unsafe fn delete<F: Format>(args: &ChainedArgs<F::Key, F::Value>) {
    let mut verb = Delete {
        report: args.report,
        tally: Tally::default(),
    };
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        run::<F, _>(args, &mut verb);
        args.counters.add_from_block(verb.tally.deleted);
    }
}

/// # Safety
/// See [`CountArgs`].
#[inline(always)]
unsafe fn count<F: Format>(args: &CountArgs<F::Key, F::Value>) {
    let mut verb = Count {
        report: Counts(args.counts),
        pairs: 0,
    };
    // SAFETY: blocks are whole warps.
    unsafe { serve_batch::<F, _, _>(&args.view, &args.batch, &mut verb) };
}

/// # Safety
/// See [`GetAllArgs`].
#[inline(always)]
unsafe fn get_all<F: Format>(args: &GetAllArgs<F::Key, F::Value>) {
    let mut verb = GetAll::new(args.offsets, args.values);
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.batch, &mut verb);
        args.short.add_from_block(verb.short);
    }
}

/// # Safety
/// See [`ChainedArgs`].
#[inline(always)]
unsafe fn mixed<F: Format>(args: &ChainedArgs<F::Key, F::Value>) {
    let mut verb = Mixed::new(args.operations, args.report);
    // SAFETY: blocks are whole warps, and all their threads come to the counts.
    unsafe {
        run::<F, _>(args, &mut verb);
        let Tally {
            stored, deleted, ..
        } = verb.tally;
        args.counters.add_both_from_block(stored, deleted);
    }
}

/// # Safety
/// See [`FlushArgs`].
#[inline(always)]
unsafe fn flush_all<F: Format>(args: &FlushArgs) {
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        let freed = flush::<F>(&args.view);
        args.freed.add_from_block(freed);
    }
}

/// The kernels of a chained map with keys of type `K` and values of type `V`.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct ChainedKernels<K: crate::slot::Bits, V: crate::slot::Bits> {
    /// Slots per slab.
    pub slab_slots: u32,
    /// What the slots are like.
    pub slots: SlotKind,
    /// Stores pairs, whatever is there.
    pub insert: &'static gpumap_simt::kernel::Kernel<ChainedArgs<K, V>>,
    /// Stores pairs whose key is absent.
    pub insert_unique: &'static gpumap_simt::kernel::Kernel<ChainedArgs<K, V>>,
    /// Looks up.
    pub search: &'static gpumap_simt::kernel::Kernel<ChainedArgs<K, V>>,
    /// Takes away one pair for each key.
    pub delete: &'static gpumap_simt::kernel::Kernel<ChainedArgs<K, V>>,
    /// Counts the pairs with each key.
    pub count: &'static gpumap_simt::kernel::Kernel<CountArgs<K, V>>,
    /// Collects the values of each key.
    pub get_all: &'static gpumap_simt::kernel::Kernel<GetAllArgs<K, V>>,
    /// Does with each key what its operation says.
    pub mixed: &'static gpumap_simt::kernel::Kernel<ChainedArgs<K, V>>,
    /// Compacts chains.
    pub flush: &'static gpumap_simt::kernel::Kernel<FlushArgs>,
    /// Dumps.
    pub retrieve_all: &'static gpumap_simt::kernel::Kernel<DumpChainsArgs<K, V>>,
    /// Counts what chains hold.
    pub stats: &'static gpumap_simt::kernel::Kernel<ChainStatsArgs>,
}

/// Declares the kernels of one format, and their set.
macro_rules! chained_kernels {
    ($(#[$cfg:meta])* $set:ident: $format:ty, $k:ty, $v:ty;
     $INSERT:ident $insert:ident
     $INSERT_UNIQUE:ident $insert_unique:ident
     $SEARCH:ident $search:ident
     $DELETE:ident $delete:ident
     $COUNT:ident $count:ident
     $GET_ALL:ident $get_all:ident
     $MIXED:ident $mixed:ident
     $FLUSH:ident $flush:ident
     $RETRIEVE_ALL:ident $retrieve_all:ident
     $STATS:ident $stats:ident) => {
        kernel! {
            /// Stores pairs, whatever is there.
            $(#[$cfg])*
            pub static $INSERT = fn $insert(args: ChainedArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { insert::<$format, false>(&args) }
            }
            /// Stores pairs whose key is absent.
            $(#[$cfg])*
            pub static $INSERT_UNIQUE = fn $insert_unique(args: ChainedArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { insert::<$format, true>(&args) }
            }
            /// Looks keys up.
            $(#[$cfg])*
            pub static $SEARCH = fn $search(args: ChainedArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { search::<$format>(&args) }
            }
            /// Takes away one pair for each key.
            $(#[$cfg])*
            pub static $DELETE = fn $delete(args: ChainedArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { delete::<$format>(&args) }
            }
            /// Counts the pairs with each key.
            $(#[$cfg])*
            pub static $COUNT = fn $count(args: CountArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { count::<$format>(&args) }
            }
            /// Collects the values of each key.
            $(#[$cfg])*
            pub static $GET_ALL = fn $get_all(args: GetAllArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { get_all::<$format>(&args) }
            }
            /// Does with each key what its operation says.
            $(#[$cfg])*
            pub static $MIXED = fn $mixed(args: ChainedArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { mixed::<$format>(&args) }
            }
            /// Compacts chains.
            $(#[$cfg])*
            pub static $FLUSH = fn $flush(args: FlushArgs) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { flush_all::<$format>(&args) }
            }
            /// Dumps all pairs.
            $(#[$cfg])*
            pub static $RETRIEVE_ALL = fn $retrieve_all(args: DumpChainsArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { dump::<$format>(&args) }
            }
            /// Counts pairs, tombstones and slabs.
            $(#[$cfg])*
            pub static $STATS = fn $stats(args: ChainStatsArgs) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { stats::<$format>(&args) }
            }
        }
        /// The kernels of this format.
        #[cfg(not(target_arch = "nvptx64"))]
        pub static $set: ChainedKernels<$k, $v> = ChainedKernels {
            slab_slots: super::slab::slots::<$format>(),
            slots: <$format as Named>::KIND,
            insert: &$INSERT,
            insert_unique: &$INSERT_UNIQUE,
            search: &$SEARCH,
            delete: &$DELETE,
            count: &$COUNT,
            get_all: &$GET_ALL,
            mixed: &$MIXED,
            flush: &$FLUSH,
            retrieve_all: &$RETRIEVE_ALL,
            stats: &$STATS,
        };
    };
}

chained_kernels! {
    PACKED_4_4: Packed, u32, u32;
    CHAINED_INSERT_4_4 chained_insert_4_4
    CHAINED_INSERT_UNIQUE_4_4 chained_insert_unique_4_4
    CHAINED_SEARCH_4_4 chained_search_4_4
    CHAINED_DELETE_4_4 chained_delete_4_4
    CHAINED_COUNT_4_4 chained_count_4_4
    CHAINED_GET_ALL_4_4 chained_get_all_4_4
    CHAINED_MIXED_4_4 chained_mixed_4_4
    CHAINED_FLUSH_4_4 chained_flush_4_4
    CHAINED_RETRIEVE_ALL_4_4 chained_retrieve_all_4_4
    CHAINED_STATS_4_4 chained_stats_4_4
}

chained_kernels! {
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    WIDE_8_8: Wide<u64, u64>, u64, u64;
    CHAINED_INSERT_8_8_WIDE chained_insert_8_8_wide
    CHAINED_INSERT_UNIQUE_8_8_WIDE chained_insert_unique_8_8_wide
    CHAINED_SEARCH_8_8_WIDE chained_search_8_8_wide
    CHAINED_DELETE_8_8_WIDE chained_delete_8_8_wide
    CHAINED_COUNT_8_8_WIDE chained_count_8_8_wide
    CHAINED_GET_ALL_8_8_WIDE chained_get_all_8_8_wide
    CHAINED_MIXED_8_8_WIDE chained_mixed_8_8_wide
    CHAINED_FLUSH_8_8_WIDE chained_flush_8_8_wide
    CHAINED_RETRIEVE_ALL_8_8_WIDE chained_retrieve_all_8_8_wide
    CHAINED_STATS_8_8_WIDE chained_stats_8_8_wide
}

chained_kernels! {
    #[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
    SPLIT_8_8: Split<u64, u64>, u64, u64;
    CHAINED_INSERT_8_8_SPLIT chained_insert_8_8_split
    CHAINED_INSERT_UNIQUE_8_8_SPLIT chained_insert_unique_8_8_split
    CHAINED_SEARCH_8_8_SPLIT chained_search_8_8_split
    CHAINED_DELETE_8_8_SPLIT chained_delete_8_8_split
    CHAINED_COUNT_8_8_SPLIT chained_count_8_8_split
    CHAINED_GET_ALL_8_8_SPLIT chained_get_all_8_8_split
    CHAINED_MIXED_8_8_SPLIT chained_mixed_8_8_split
    CHAINED_FLUSH_8_8_SPLIT chained_flush_8_8_split
    CHAINED_RETRIEVE_ALL_8_8_SPLIT chained_retrieve_all_8_8_split
    CHAINED_STATS_8_8_SPLIT chained_stats_8_8_split
}

/// The sizes of key and value that chained maps have: implemented by `u32` and `u64`, which stand for
/// pairs of 4 + 4 and of 8 + 8 bytes.
#[cfg(not(target_arch = "nvptx64"))]
pub trait ChainedBits: crate::slot::Bits {
    /// The kernels for keys and values of this size.
    fn chained_kernels(encoding: Encoding) -> &'static ChainedKernels<Self, Self>;
}

#[cfg(not(target_arch = "nvptx64"))]
impl ChainedBits for u32 {
    fn chained_kernels(_: Encoding) -> &'static ChainedKernels<Self, Self> {
        &PACKED_4_4
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl ChainedBits for u64 {
    fn chained_kernels(encoding: Encoding) -> &'static ChainedKernels<Self, Self> {
        match encoding {
            Encoding::Wide => &WIDE_8_8,
            Encoding::Split => &SPLIT_8_8,
        }
    }
}
