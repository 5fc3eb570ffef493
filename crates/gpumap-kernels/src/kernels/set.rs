//! The kernels of maps with values.

use super::batch::{
    AssignArgs, CountArgs, GetArgs, MixedArgs, RehashArgs, RemoveArgs, StoreArgs, UndoArgs, assign,
    count_absent, get, get_or_insert, mixed, remove, store, undo,
};
#[cfg(not(target_arch = "nvptx64"))]
use super::bulk::{self, BulkKernels};
#[cfg(not(target_arch = "nvptx64"))]
use crate::map_ref::{Named, SlotKind};
use crate::rebuild::{self, RebuildArgs};
use crate::retain::{self, RetainArgs};
use crate::retrieve_all::{self, RetrieveAllArgs};
#[cfg(not(target_arch = "nvptx64"))]
use crate::slot::Format;
use crate::slot::Packed;
#[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
use crate::slot::Split;
#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
use crate::slot::Wide;
use crate::stats::{self, StatsArgs};
use crate::verbs::store::{Keep, Merge};
use gpumap_simt::kernel;
#[cfg(not(target_arch = "nvptx64"))]
use gpumap_simt::kernel::Kernel;
use pastey::paste;

/// The kernels of a map with keys of one size and values of one size, for a host that does not know their types: what
/// pointers in arguments lead to are keys and values of these sizes.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct KernelSet {
    /// Bytes per slot.
    pub slot_bytes: u32,
    /// What the slots are like.
    pub slots: SlotKind,
    /// Stores pairs whose key is absent.
    pub insert: &'static Kernel<StoreArgs<u8, u8>>,
    /// Stores, or updates values.
    pub merge: &'static Kernel<StoreArgs<u8, u8>>,
    /// Stores, or reports values.
    pub get_or_insert: &'static Kernel<StoreArgs<u8, u8>>,
    /// Updates values of present keys.
    pub assign: &'static Kernel<AssignArgs<u8, u8>>,
    /// Looks up.
    pub get: &'static Kernel<GetArgs<u8, u8>>,
    /// Counts absent keys.
    pub count_absent: &'static Kernel<CountArgs<u8, u8>>,
    /// Removes.
    pub remove: &'static Kernel<RemoveArgs<u8, u8>>,
    /// Removes, and reports values; beside no updates.
    pub take: &'static Kernel<RemoveArgs<u8, u8>>,
    /// Does with each key what its operation says.
    pub mixed: &'static Kernel<MixedArgs<u8, u8>>,
    /// Takes back what a batch stored.
    pub undo: &'static Kernel<UndoArgs<u8, u8>>,
    /// What large batches are stored by; maps without it store them as they come.
    pub bulk: Option<&'static BulkKernels>,
    /// Makes the pages of a submap from those of the one that it replaces.
    pub rebuild: &'static Kernel<RebuildArgs>,
    /// Stores the pairs of a submap that is being replaced, or what was left over.
    pub rehash: &'static Kernel<RehashArgs>,
    /// Removes by predicate.
    pub retain: &'static Kernel<RetainArgs>,
    /// Counts.
    pub stats: &'static Kernel<StatsArgs>,
    /// Dumps.
    pub retrieve_all: &'static Kernel<RetrieveAllArgs<u8, u8>>,
}

#[cfg(not(target_arch = "nvptx64"))]
impl KernelSet {
    /// All of its kernels that a map on one device launches: names and signatures.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, u64)> {
        let own = [
            self.insert.entry(),
            self.merge.entry(),
            self.get_or_insert.entry(),
            self.assign.entry(),
            self.get.entry(),
            self.count_absent.entry(),
            self.remove.entry(),
            self.take.entry(),
            self.mixed.entry(),
            self.undo.entry(),
            self.rebuild.entry(),
            self.rehash.entry(),
            self.retain.entry(),
            self.stats.entry(),
            self.retrieve_all.entry(),
        ];
        let bulk = self.bulk.map(BulkKernels::entries).unwrap_or_default();
        own.into_iter().chain(bulk).collect()
    }
}

/// Declares the kernels of a format, and their set.
macro_rules! kernel_sets {
    ($($(#[$cfg:meta])* $suffix:ident: $format:ty, $k:ty, $v:ty;)*) => {$(
        paste! {
            kernel! {
                /// Stores pairs whose key is absent.
                $(#[$cfg])*
                pub static [<INSERT $suffix:upper>] = fn [<insert $suffix>](args: StoreArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { store::<$format, _, _>(&args.view, &args.batch, &args.account, Keep) }
                }
                /// Updates values; stores pairs whose key is absent.
                $(#[$cfg])*
                pub static [<MERGE $suffix:upper>] = fn [<merge $suffix>](args: StoreArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { store::<$format, _, _>(&args.view, &args.batch, &args.account, Merge(args.update)) }
                }
                /// Reports values; stores pairs whose key is absent.
                $(#[$cfg])*
                pub static [<GET_OR_INSERT $suffix:upper>] = fn [<get_or_insert $suffix>](args: StoreArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { get_or_insert::<$format>(&args) }
                }
                /// Updates values of present keys.
                $(#[$cfg])*
                pub static [<ASSIGN $suffix:upper>] = fn [<assign $suffix>](args: AssignArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { assign::<$format, _>(&args.view, &args.batch, args.update, args.present) }
                }
                /// Looks keys up.
                $(#[$cfg])*
                pub static [<GET $suffix:upper>] = fn [<get $suffix>](args: GetArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { get::<$format>(&args) }
                }
                /// Counts absent keys.
                $(#[$cfg])*
                pub static [<COUNT_ABSENT $suffix:upper>] = fn [<count_absent $suffix>](args: CountArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { count_absent::<$format, _>(&args.view, &args.batch, args.absent) }
                }
                /// Removes pairs.
                $(#[$cfg])*
                pub static [<REMOVE $suffix:upper>] = fn [<remove $suffix>](args: RemoveArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { remove::<$format, false>(&args) }
                }
                /// Removes pairs and reports their values.
                $(#[$cfg])*
                pub static [<TAKE $suffix:upper>] = fn [<take $suffix>](args: RemoveArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { remove::<$format, true>(&args) }
                }
                /// Does with each key what its operation says.
                $(#[$cfg])*
                pub static [<MIXED $suffix:upper>] = fn [<mixed $suffix>](args: MixedArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { mixed::<$format>(&args) }
                }
                /// Takes back what a batch stored.
                $(#[$cfg])*
                pub static [<UNDO $suffix:upper>] = fn [<undo $suffix>](args: UndoArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { undo::<$format>(&args) }
                }
                /// Makes the pages of a submap from those of the one that it replaces.
                $(#[$cfg])*
                pub static [<REBUILD $suffix:upper>] = fn [<rebuild $suffix>](args: RebuildArgs) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { rebuild::rebuild::<$format>(&args) }
                }
                /// Stores the pairs of a submap that is being replaced, or what was left over.
                $(#[$cfg])*
                pub static [<REHASH $suffix:upper>] = fn [<rehash $suffix>](args: RehashArgs) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { store::<$format, _, _>(&args.view, &args.slots, &args.account, Keep) }
                }
                /// Removes what two predicates do not hold for.
                $(#[$cfg])*
                pub static [<RETAIN $suffix:upper>] = fn [<retain $suffix>](args: RetainArgs) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { retain::retain::<$format>(&args) }
                }
                /// Counts tombstones, and pairs by probe length.
                $(#[$cfg])*
                pub static [<STATS $suffix:upper>] = fn [<stats $suffix>](args: StatsArgs) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { stats::stats::<$format>(&args) }
                }
                /// Dumps all pairs.
                $(#[$cfg])*
                pub static [<RETRIEVE_ALL $suffix:upper>] = fn [<retrieve_all $suffix>](args: RetrieveAllArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { retrieve_all::dump::<$format>(&args) }
                }
            }
            /// The kernels of this format.
            #[cfg(not(target_arch = "nvptx64"))]
            pub static [<KERNELS $suffix:upper>]: KernelSet = KernelSet {
                slot_bytes: <$format as Format>::SLOT_BYTES,
                slots: <$format as Named>::KIND,
                insert: erased!([<INSERT $suffix:upper>]),
                merge: erased!([<MERGE $suffix:upper>]),
                get_or_insert: erased!([<GET_OR_INSERT $suffix:upper>]),
                assign: erased!([<ASSIGN $suffix:upper>]),
                get: erased!([<GET $suffix:upper>]),
                count_absent: erased!([<COUNT_ABSENT $suffix:upper>]),
                remove: erased!([<REMOVE $suffix:upper>]),
                take: erased!([<TAKE $suffix:upper>]),
                mixed: erased!([<MIXED $suffix:upper>]),
                undo: erased!([<UNDO $suffix:upper>]),
                bulk: Some(&bulk::[<BULK $suffix:upper>]),
                rebuild: &[<REBUILD $suffix:upper>],
                rehash: &[<REHASH $suffix:upper>],
                retain: &[<RETAIN $suffix:upper>],
                stats: &[<STATS $suffix:upper>],
                retrieve_all: erased!([<RETRIEVE_ALL $suffix:upper>]),
            };
        }
    )*};
}

kernel_sets! {
    _4_4: Packed, u32, u32;
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    _4_8_wide: Wide<u32, u64>, u32, u64;
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    _8_4_wide: Wide<u64, u32>, u64, u32;
    #[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
    _8_8_wide: Wide<u64, u64>, u64, u64;
    #[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
    _4_8_split: Split<u32, u64>, u32, u64;
    #[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
    _8_4_split: Split<u64, u32>, u64, u32;
    #[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
    _8_8_split: Split<u64, u64>, u64, u64;
}
