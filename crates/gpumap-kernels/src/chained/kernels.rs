//! The entry points of chained maps, and the sets of them that the host chooses from: one kernel per
//! verb for one slot format.

use super::answer::{Counts, Report};
use super::compact::{CompactArgs, compact};
use super::get_all::{GetAll, GetAllArgs};
use super::mixed::Mixed;
use super::queue::{Verb, serve_batch};
use super::retain::{RetainChainsArgs, retain};
use super::retrieve_all::{DumpChainsArgs, dump};
use super::stats::{ChainStatsArgs, stats};
use super::verbs::{Count, Get, Remove, Store, Tally};
use super::view::ChainedView;
use crate::count::Counters;
#[cfg(not(target_arch = "nvptx64"))]
use crate::kernels::Encoding;
#[cfg(not(target_arch = "nvptx64"))]
use crate::map_ref::{Named, SlotKind};
#[cfg(not(target_arch = "nvptx64"))]
use crate::native::MAP_BLOCK;
#[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
use crate::slot::Split;
#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
use crate::slot::Wide;
use crate::slot::{Format, Packed, body_of};
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
        /// | `append`, `insert` | pairs stored | pairs that found no room |
        /// | `remove` | pairs removed | |
        /// | `mixed` | pairs stored | pairs removed; those without room are in the answers |
        /// | `get` | not touched | |
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
unsafe fn store<F: Format, const UNIQUE: bool>(args: &ChainedArgs<F::Key, F::Value>) {
    let mut verb = Store::<_, UNIQUE> {
        report: args.report,
        tally: Tally::default(),
    };
    // SAFETY: blocks are whole warps, and all their threads reach the counts.
    unsafe {
        run::<F, _>(args, &mut verb);
        let Tally { stored, full, .. } = verb.tally;
        args.counters.add_both_from_block(stored, full);
    }
}

/// # Safety
/// See [`ChainedArgs`].
#[inline(always)]
unsafe fn get<F: Format>(args: &ChainedArgs<F::Key, F::Value>) {
    let mut verb = Get {
        report: args.report,
    };
    // SAFETY: blocks are whole warps.
    unsafe { run::<F, _>(args, &mut verb) };
}

/// # Safety
/// See [`ChainedArgs`].
#[inline(always)]
unsafe fn remove<F: Format>(args: &ChainedArgs<F::Key, F::Value>) {
    let mut verb = Remove {
        report: args.report,
        tally: Tally::default(),
    };
    // SAFETY: blocks are whole warps, and all their threads reach the count.
    unsafe {
        run::<F, _>(args, &mut verb);
        args.counters.add_from_block(verb.tally.removed);
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
    // SAFETY: blocks are whole warps, and all their threads reach the count.
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
    // SAFETY: blocks are whole warps, and all their threads reach the counts.
    unsafe {
        run::<F, _>(args, &mut verb);
        let Tally {
            stored, removed, ..
        } = verb.tally;
        args.counters.add_both_from_block(stored, removed);
    }
}

/// # Safety
/// See [`CompactArgs`].
#[inline(always)]
unsafe fn compact_all<F: Format>(args: &CompactArgs) {
    // SAFETY: blocks are whole warps, and all their threads reach the count.
    unsafe {
        let freed = compact::<F>(&args.view);
        args.freed.add_from_block(freed);
    }
}

/// The kernels of a chained map with keys and values of one size, for a host that does not know their types: what pointers in
/// arguments lead to are keys and values of this size.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct ChainedKernels {
    /// Slots per slab.
    pub slab_slots: u32,
    /// What the slots are like.
    pub slots: SlotKind,
    /// Stores pairs, whatever is there.
    pub append: &'static gpumap_simt::kernel::Kernel<ChainedArgs<u8, u8>>,
    /// Stores pairs whose key is absent.
    pub insert: &'static gpumap_simt::kernel::Kernel<ChainedArgs<u8, u8>>,
    /// Looks up.
    pub get: &'static gpumap_simt::kernel::Kernel<ChainedArgs<u8, u8>>,
    /// Takes away one pair for each key.
    pub remove: &'static gpumap_simt::kernel::Kernel<ChainedArgs<u8, u8>>,
    /// Counts the pairs with each key.
    pub count: &'static gpumap_simt::kernel::Kernel<CountArgs<u8, u8>>,
    /// Collects the values of each key.
    pub get_all: &'static gpumap_simt::kernel::Kernel<GetAllArgs<u8, u8>>,
    /// Does with each key what its operation says.
    pub mixed: &'static gpumap_simt::kernel::Kernel<ChainedArgs<u8, u8>>,
    /// Compacts chains.
    pub compact: &'static gpumap_simt::kernel::Kernel<CompactArgs>,
    /// Removes what a predicate does not hold for.
    pub retain: &'static gpumap_simt::kernel::Kernel<RetainChainsArgs>,
    /// Dumps.
    pub retrieve_all: &'static gpumap_simt::kernel::Kernel<DumpChainsArgs<u8, u8>>,
    /// Counts what chains hold.
    pub stats: &'static gpumap_simt::kernel::Kernel<ChainStatsArgs>,
}

/// Declares the kernels of one format, and their set.
macro_rules! chained_kernels {
    ($(#[$cfg:meta])* $set:ident: $format:ty, $k:ty, $v:ty;
     $APPEND:ident $append:ident
     $INSERT:ident $insert:ident
     $GET:ident $get:ident
     $REMOVE:ident $remove:ident
     $COUNT:ident $count:ident
     $GET_ALL:ident $get_all:ident
     $MIXED:ident $mixed:ident
     $COMPACT:ident $compact:ident
     $RETAIN:ident $retain:ident
     $RETRIEVE_ALL:ident $retrieve_all:ident
     $STATS:ident $stats:ident) => {
        kernel! {
            /// Stores pairs, whatever is there.
            $(#[$cfg])*
            pub static $APPEND = fn $append(args: ChainedArgs<$k, $v>) by MAP_BLOCK {
                body_of!($format, store::<$format, false>(&args))
            }
            /// Stores pairs whose key is absent.
            $(#[$cfg])*
            pub static $INSERT = fn $insert(args: ChainedArgs<$k, $v>) by MAP_BLOCK {
                body_of!($format, store::<$format, true>(&args))
            }
            /// Looks keys up.
            $(#[$cfg])*
            pub static $GET = fn $get(args: ChainedArgs<$k, $v>) by MAP_BLOCK {
                body_of!($format, get::<$format>(&args))
            }
            /// Takes away one pair for each key.
            $(#[$cfg])*
            pub static $REMOVE = fn $remove(args: ChainedArgs<$k, $v>) by MAP_BLOCK {
                body_of!($format, remove::<$format>(&args))
            }
            /// Counts the pairs with each key.
            $(#[$cfg])*
            pub static $COUNT = fn $count(args: CountArgs<$k, $v>) by MAP_BLOCK {
                body_of!($format, count::<$format>(&args))
            }
            /// Collects the values of each key.
            $(#[$cfg])*
            pub static $GET_ALL = fn $get_all(args: GetAllArgs<$k, $v>) by MAP_BLOCK {
                body_of!($format, get_all::<$format>(&args))
            }
            /// Does with each key what its operation says.
            $(#[$cfg])*
            pub static $MIXED = fn $mixed(args: ChainedArgs<$k, $v>) by MAP_BLOCK {
                body_of!($format, mixed::<$format>(&args))
            }
            /// Compacts chains.
            $(#[$cfg])*
            pub static $COMPACT = fn $compact(args: CompactArgs) by MAP_BLOCK {
                body_of!($format, compact_all::<$format>(&args))
            }
            /// Removes the pairs that predicates do not hold for.
            $(#[$cfg])*
            pub static $RETAIN = fn $retain(args: RetainChainsArgs) by MAP_BLOCK {
                body_of!($format, retain::<$format>(&args))
            }
            /// Dumps all pairs.
            $(#[$cfg])*
            pub static $RETRIEVE_ALL = fn $retrieve_all(args: DumpChainsArgs<$k, $v>) by MAP_BLOCK {
                body_of!($format, dump::<$format>(&args))
            }
            /// Counts pairs, tombstones and slabs.
            $(#[$cfg])*
            pub static $STATS = fn $stats(args: ChainStatsArgs) by MAP_BLOCK {
                body_of!($format, stats::<$format>(&args))
            }
        }
        /// The kernels of this format.
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the set says what its keys and values are, and its users keep to that.
        pub static $set: ChainedKernels = unsafe {
            ChainedKernels {
                slab_slots: super::slab::slots::<$format>(),
                slots: <$format as Named>::KIND,
                append: $APPEND.erased(),
                insert: $INSERT.erased(),
                get: $GET.erased(),
                remove: $REMOVE.erased(),
                count: $COUNT.erased(),
                get_all: $GET_ALL.erased(),
                mixed: $MIXED.erased(),
                compact: &$COMPACT,
                retain: &$RETAIN,
                retrieve_all: $RETRIEVE_ALL.erased(),
                stats: &$STATS,
            }
        };
    };
}

chained_kernels! {
    PACKED_4_4: Packed, u32, u32;
    CHAINED_APPEND_4_4 chained_append_4_4
    CHAINED_INSERT_4_4 chained_insert_4_4
    CHAINED_GET_4_4 chained_get_4_4
    CHAINED_REMOVE_4_4 chained_remove_4_4
    CHAINED_COUNT_4_4 chained_count_4_4
    CHAINED_GET_ALL_4_4 chained_get_all_4_4
    CHAINED_MIXED_4_4 chained_mixed_4_4
    CHAINED_COMPACT_4_4 chained_compact_4_4
    CHAINED_RETAIN_4_4 chained_retain_4_4
    CHAINED_RETRIEVE_ALL_4_4 chained_retrieve_all_4_4
    CHAINED_STATS_4_4 chained_stats_4_4
}

chained_kernels! {
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    WIDE_8_8: Wide<u64, u64>, u64, u64;
    CHAINED_APPEND_8_8_WIDE chained_append_8_8_wide
    CHAINED_INSERT_8_8_WIDE chained_insert_8_8_wide
    CHAINED_GET_8_8_WIDE chained_get_8_8_wide
    CHAINED_REMOVE_8_8_WIDE chained_remove_8_8_wide
    CHAINED_COUNT_8_8_WIDE chained_count_8_8_wide
    CHAINED_GET_ALL_8_8_WIDE chained_get_all_8_8_wide
    CHAINED_MIXED_8_8_WIDE chained_mixed_8_8_wide
    CHAINED_COMPACT_8_8_WIDE chained_compact_8_8_wide
    CHAINED_RETAIN_8_8_WIDE chained_retain_8_8_wide
    CHAINED_RETRIEVE_ALL_8_8_WIDE chained_retrieve_all_8_8_wide
    CHAINED_STATS_8_8_WIDE chained_stats_8_8_wide
}

chained_kernels! {
    #[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
    SPLIT_8_8: Split<u64, u64>, u64, u64;
    CHAINED_APPEND_8_8_SPLIT chained_append_8_8_split
    CHAINED_INSERT_8_8_SPLIT chained_insert_8_8_split
    CHAINED_GET_8_8_SPLIT chained_get_8_8_split
    CHAINED_REMOVE_8_8_SPLIT chained_remove_8_8_split
    CHAINED_COUNT_8_8_SPLIT chained_count_8_8_split
    CHAINED_GET_ALL_8_8_SPLIT chained_get_all_8_8_split
    CHAINED_MIXED_8_8_SPLIT chained_mixed_8_8_split
    CHAINED_COMPACT_8_8_SPLIT chained_compact_8_8_split
    CHAINED_RETAIN_8_8_SPLIT chained_retain_8_8_split
    CHAINED_RETRIEVE_ALL_8_8_SPLIT chained_retrieve_all_8_8_split
    CHAINED_STATS_8_8_SPLIT chained_stats_8_8_split
}

/// The kernels for keys and values of so many bytes, 4 or 8, and an encoding.
#[cfg(not(target_arch = "nvptx64"))]
#[must_use]
pub const fn chained_kernels_of(bytes: usize, encoding: Encoding) -> &'static ChainedKernels {
    match (bytes, encoding) {
        (4, _) => &PACKED_4_4,
        (_, Encoding::Wide) => &WIDE_8_8,
        (_, Encoding::Split) => &SPLIT_8_8,
    }
}
