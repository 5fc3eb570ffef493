//! The kernels of sets.
//!
//! A set has no values to merge, assign or report. So it takes `insert` for every verb that stores, and
//! `remove` for `take`; and as the slots of both key sizes are the same 8-byte words, those kernels
//! that only look at slots are the same too.

use super::batch::{
    AssignArgs, CountArgs, GetArgs, MixedArgs, RehashArgs, RemoveArgs, StoreArgs, UndoArgs, assign,
    count_absent, get, mixed, remove, store, undo,
};
#[cfg(not(target_arch = "nvptx64"))]
use super::bulk::BulkKernels;
use super::bulk::{CountBinsArgs, RemoveBinsArgs, StoreBinsArgs, remove_bins};
use super::reply::{GetBinsArgs, get_bins};
#[cfg(not(target_arch = "nvptx64"))]
use super::set::KernelSet;
use crate::build::bins::KeysOfPairs;
use crate::build::page::{self, BuildArgs};
#[cfg(not(target_arch = "nvptx64"))]
use crate::build::{ToBins, ToPages};
#[cfg(not(target_arch = "nvptx64"))]
use crate::map_ref::Named;
#[cfg(not(target_arch = "nvptx64"))]
use crate::p2p::Sent;
#[cfg(not(target_arch = "nvptx64"))]
use crate::primitives::partition::Partitioned;
use crate::rebuild::{self, RebuildArgs};
use crate::retain::{self, RetainArgs};
use crate::retrieve_all::{self, RetrieveAllArgs};
#[cfg(not(target_arch = "nvptx64"))]
use crate::slot::Format;
use crate::slot::Keys;
use crate::stats::{self, StatsArgs};
use crate::verbs::store::Keep;
use gpumap_simt::kernel;
use pastey::paste;

macro_rules! set_kernels {
    ($($suffix:ident: $k:ty;)*) => {$(
        paste! {
            kernel! {
                /// Stores keys that are absent.
                pub static [<INSERT $suffix:upper>] = fn [<insert $suffix>](args: StoreArgs<$k, ()>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { store::<Keys<$k>, _, _>(&args.view, &args.batch, &args.account, Keep) }
                }
                /// Counts keys that are present: they have no values to update.
                pub static [<ASSIGN $suffix:upper>] = fn [<assign $suffix>](args: AssignArgs<$k, ()>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { assign::<Keys<$k>, _>(&args.view, &args.batch, args.update, args.present) }
                }
                /// Looks keys up.
                pub static [<GET $suffix:upper>] = fn [<get $suffix>](args: GetArgs<$k, ()>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { get::<Keys<$k>>(&args) }
                }
                /// Counts absent keys.
                pub static [<COUNT_ABSENT $suffix:upper>] = fn [<count_absent $suffix>](args: CountArgs<$k, ()>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { count_absent::<Keys<$k>, _>(&args.view, &args.batch, args.absent) }
                }
                /// Removes keys.
                pub static [<REMOVE $suffix:upper>] = fn [<remove $suffix>](args: RemoveArgs<$k, ()>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { remove::<Keys<$k>, false>(&args) }
                }
                /// Does with each key what its operation says.
                pub static [<MIXED $suffix:upper>] = fn [<mixed $suffix>](args: MixedArgs<$k, ()>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { mixed::<Keys<$k>>(&args) }
                }
                /// Takes back what a batch stored.
                pub static [<UNDO $suffix:upper>] = fn [<undo $suffix>](args: UndoArgs<$k, ()>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { undo::<Keys<$k>>(&args) }
                }
                /// Stores keys in bins that are absent.
                pub static [<INSERT_BINS $suffix:upper>] = fn [<insert_bins $suffix>](args: StoreBinsArgs<$k, ()>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { store::<Keys<$k>, _, _>(&args.view, &args.bins, &args.account, Keep) }
                }
                /// Counts keys in bins that are absent.
                pub static [<COUNT_ABSENT_BINS $suffix:upper>] = fn [<count_absent_bins $suffix>](args: CountBinsArgs<$k, ()>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { count_absent::<Keys<$k>, _>(&args.view, &KeysOfPairs(&args.bins), args.absent) }
                }
                /// Looks up keys in bins that several ranks have sent.
                pub static [<GET_BINS $suffix:upper>] = fn [<get_bins $suffix>](args: GetBinsArgs<$k, ()>) {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { get_bins::<Keys<$k>>(&args) }
                }
                /// Removes keys in bins.
                pub static [<REMOVE_BINS $suffix:upper>] = fn [<remove_bins $suffix>](args: RemoveBinsArgs<$k, ()>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { remove_bins::<Keys<$k>>(&args) }
                }
                /// Makes the pages of an empty set from the keys at their heads.
                pub static [<BUILD $suffix:upper>] = fn [<build $suffix>](args: BuildArgs<$k, ()>) {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { page::build::<Keys<$k>, false, false>(&args) }
                }
                /// Adds the keys at their heads to the pages of a set in use.
                pub static [<FILL $suffix:upper>] = fn [<fill $suffix>](args: BuildArgs<$k, ()>) {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { page::build::<Keys<$k>, true, false>(&args) }
                }
                /// Makes the pages of a submap from those of the one that it replaces.
                pub static [<REBUILD $suffix:upper>] = fn [<rebuild $suffix>](args: RebuildArgs) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { rebuild::rebuild::<Keys<$k>>(&args) }
                }
                /// Stores the keys of a submap that is being replaced, or what was left over.
                pub static [<REHASH $suffix:upper>] = fn [<rehash $suffix>](args: RehashArgs) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { store::<Keys<$k>, _, _>(&args.view, &args.slots, &args.account, Keep) }
                }
                /// Counts tombstones, and keys by probe length.
                pub static [<STATS $suffix:upper>] = fn [<stats $suffix>](args: StatsArgs) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { stats::stats::<Keys<$k>>(&args) }
                }
                /// Removes what a predicate does not hold for.
                pub static [<RETAIN $suffix:upper>] = fn [<retain $suffix>](args: RetainArgs) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { retain::retain::<Keys<$k>>(&args) }
                }
                /// Dumps all keys.
                pub static [<RETRIEVE_ALL $suffix:upper>] = fn [<retrieve_all $suffix>](args: RetrieveAllArgs<$k, ()>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { retrieve_all::dump::<Keys<$k>>(&args) }
                }
            }
            /// The kernels of sets with keys of this size.
            #[cfg(not(target_arch = "nvptx64"))]
            pub static [<KERNELS $suffix:upper>]: KernelSet = KernelSet {
                slot_bytes: <Keys<$k> as Format>::SLOT_BYTES,
                slots: <Keys<$k> as Named>::KIND,
                insert: erased!([<INSERT $suffix:upper>]),
                merge: erased!([<INSERT $suffix:upper>]),
                get_or_insert: erased!([<INSERT $suffix:upper>]),
                assign: erased!([<ASSIGN $suffix:upper>]),
                get: erased!([<GET $suffix:upper>]),
                count_absent: erased!([<COUNT_ABSENT $suffix:upper>]),
                remove: erased!([<REMOVE $suffix:upper>]),
                take: erased!([<REMOVE $suffix:upper>]),
                mixed: erased!([<MIXED $suffix:upper>]),
                undo: erased!([<UNDO $suffix:upper>]),
                bulk: Some(&BulkKernels {
                    to_bins: erased!(<$k as ToBins<()>>::TO_BINS),
                    combined: None,
                    keys_to_bins: erased!(<$k as Partitioned<()>>::KERNELS.scatter),
                    insert: erased!([<INSERT_BINS $suffix:upper>]),
                    merge: erased!([<INSERT_BINS $suffix:upper>]),
                    count_absent: erased!([<COUNT_ABSENT_BINS $suffix:upper>]),
                    assign: None,
                    get: erased!([<GET_BINS $suffix:upper>]),
                    remove: erased!([<REMOVE_BINS $suffix:upper>]),
                    send: erased!(<$k as Sent<()>>::SEND),
                    sort: erased!(<$k as Sent<()>>::SEND),
                    send_keys: erased!(<$k as Sent<()>>::SEND),
                    to_pages: erased!(<$k as ToPages<()>>::TO_PAGES),
                    build: erased!([<BUILD $suffix:upper>]),
                    fill: erased!([<FILL $suffix:upper>]),
                    merged: None,
                }),
                rebuild: &[<REBUILD $suffix:upper>],
                rehash: &[<REHASH $suffix:upper>],
                retain: &[<RETAIN $suffix:upper>],
                stats: &[<STATS $suffix:upper>],
                retrieve_all: erased!([<RETRIEVE_ALL $suffix:upper>]),
            };
        }
    )*};
}

set_kernels! {
    _4_0: u32;
    _8_0: u64;
}
