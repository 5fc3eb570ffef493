//! The kernels of sets.
//!
//! A set has no values to merge or to report. So it takes `insert` for every verb that stores, and
//! `remove` for `take`; and as the slots of both key sizes are the same 8-byte words, those kernels
//! that only look at slots are the same too.

use super::*;
use crate::slot::Keys;

macro_rules! set_kernels {
    ($set:ident: $k:ty;
     $INSERT:ident $insert:ident
     $GET:ident $get:ident
     $COUNT_ABSENT:ident $count_absent:ident
     $REMOVE:ident $remove:ident
     $MIXED:ident $mixed:ident
     $UNDO:ident $undo:ident
     $RETAIN:ident $retain:ident
     $RETRIEVE_ALL:ident $retrieve_all:ident) => {
        kernel! {
            /// Stores keys that are absent.
            pub static $INSERT = fn $insert(args: StoreArgs<$k, ()>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { store::<Keys<$k>, _, _>(&args.view, &args.batch, &args.account, Keep) }
            }
            /// Looks keys up.
            pub static $GET = fn $get(args: GetArgs<$k, ()>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { get::<Keys<$k>>(&args) }
            }
            /// Counts absent keys.
            pub static $COUNT_ABSENT = fn $count_absent(args: CountArgs<$k, ()>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { count_absent::<Keys<$k>>(&args) }
            }
            /// Removes keys.
            pub static $REMOVE = fn $remove(args: RemoveArgs<$k, ()>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { remove::<Keys<$k>, false>(&args) }
            }
            /// Does with each key what its operation says.
            pub static $MIXED = fn $mixed(args: MixedArgs<$k, ()>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { mixed::<Keys<$k>>(&args) }
            }
            /// Takes back what a batch stored.
            pub static $UNDO = fn $undo(args: UndoArgs<$k, ()>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { undo::<Keys<$k>>(&args) }
            }
            /// Removes what a predicate does not hold for.
            pub static $RETAIN = fn $retain(args: RetainArgs<$k, ()>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { retain::retain::<Keys<$k>>(&args) }
            }
            /// Dumps all keys.
            pub static $RETRIEVE_ALL = fn $retrieve_all(args: RetrieveAllArgs<$k, ()>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { retrieve_all::dump::<Keys<$k>>(&args) }
            }
        }
        /// The kernels of sets with keys of this size.
        #[cfg(not(target_arch = "nvptx64"))]
        pub static $set: KernelSet<$k, ()> = KernelSet {
            slot_bytes: <Keys<$k> as Format>::SLOT_BYTES,
            slots: <Keys<$k> as Named>::KIND,
            insert: &$INSERT,
            merge: &$INSERT,
            get_or_insert: &$INSERT,
            get: &$GET,
            count_absent: &$COUNT_ABSENT,
            remove: &$REMOVE,
            take: &$REMOVE,
            mixed: &$MIXED,
            undo: &$UNDO,
            bulk: None,
            rebuild: &REBUILD_KEYS,
            rehash: &REHASH_KEYS,
            retain: &$RETAIN,
            stats: &STATS_KEYS,
            retrieve_all: &$RETRIEVE_ALL,
        };
    };
}

kernel! {
    /// Makes the pages of a submap from those of the one that it replaces.
    pub static REBUILD_KEYS = fn rebuild_keys(args: RebuildArgs) {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { rebuild::rebuild::<Keys<u64>>(&args) }
    }
    /// Stores the keys of a submap that is being replaced, or what was left over.
    pub static REHASH_KEYS = fn rehash_keys(args: RehashArgs) {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { store::<Keys<u64>, _, _>(&args.view, &args.slots, &args.account, Keep) }
    }
    /// Counts tombstones, and keys by probe length.
    pub static STATS_KEYS = fn stats_keys(args: StatsArgs) {
        // SAFETY: the launcher keeps the contract of the arguments.
        unsafe { stats::stats::<Keys<u64>>(&args) }
    }
}

set_kernels! {
    KEYS_4: u32;
    INSERT_4_0 insert_4_0
    GET_4_0 get_4_0
    COUNT_ABSENT_4_0 count_absent_4_0
    REMOVE_4_0 remove_4_0
    MIXED_4_0 mixed_4_0
    UNDO_4_0 undo_4_0
    RETAIN_4_0 retain_4_0
    RETRIEVE_ALL_4_0 retrieve_all_4_0
}

set_kernels! {
    KEYS_8: u64;
    INSERT_8_0 insert_8_0
    GET_8_0 get_8_0
    COUNT_ABSENT_8_0 count_absent_8_0
    REMOVE_8_0 remove_8_0
    MIXED_8_0 mixed_8_0
    UNDO_8_0 undo_8_0
    RETAIN_8_0 retain_8_0
    RETRIEVE_ALL_8_0 retrieve_all_8_0
}
