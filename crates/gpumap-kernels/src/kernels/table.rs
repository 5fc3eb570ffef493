//! The table of the kernels that work on a map: operation, input, format.
//!
//! Each list of rows is declared for each format that differs in what its rows look at: `pairs` in the sizes of keys and
//! values, `keys` in the size of keys, `slots` in neither. So a kernel that looks at slots alone, or for which a branch on
//! the size of keys costs nothing that counts, is there once for each way to lay out slots.
//!
//! | rows | named after | for instance |
//! |---|---|---|
//! | `pairs`, `values`, `ids` | the operation, the bytes of a key and of a value, and the encoding where there are two | `insert_8_4_wide` |
//! | `keys` | the operation, the bytes of a key, and the format | `remove_8_wide` |
//! | `slots` | the operation and the format | `count_wide` |

use super::operations::{self as operation, OperationArgs};
use super::reply::{GetBinsArgs, get_bins};
use crate::build::bins::Bins;
use crate::build::page::{self, BuildArgs};
#[cfg(not(target_arch = "nvptx64"))]
use crate::native::MAP_BLOCK;
use crate::rebuild::{self, RebuildArgs};
use crate::retain::{self, RetainArgs};
use crate::retrieve_all::{self, RetrieveAllArgs};
#[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
use crate::slot::Split;
#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
use crate::slot::Wide;
use crate::slot::{Keys, Packed, body_of};
use crate::source::{Batch, Slots};
use crate::stats::{self, StatsArgs};
use gpumap_simt::kernel;
#[cfg(not(target_arch = "nvptx64"))]
use gpumap_simt::kernel::Kernel;
use pastey::paste;

/// What is done with the keys of an input.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Stores pairs whose key is absent.
    Insert,
    /// Stores pairs, or updates values.
    Merge,
    /// Stores pairs, or returns values.
    GetOrInsert,
    /// Stores pairs, or replaces ids and returns the old ones; beside no [`Withdraw`](Self::Withdraw).
    Exchange,
    /// Updates values of present keys.
    Assign,
    /// The same, and returns what they were.
    Touch,
    /// Looks up.
    Get,
    /// Counts absent keys, or present ones.
    Count,
    /// Removes.
    Remove,
    /// Removes, and returns values; beside no updates.
    Take,
    /// Removes, and returns ids; beside no [`Exchange`](Self::Exchange).
    Withdraw,
    /// Does with each key what its code says.
    Mixed,
    /// Takes back what a batch stored.
    Undo,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Operation {
    /// How many there are.
    pub(super) const COUNT: usize = Self::Undo as usize + 1;
}

/// The arguments of an operation, for a host that does not know the types of keys and values.
#[cfg(not(target_arch = "nvptx64"))]
pub type BatchArgs = OperationArgs<Batch<u8, u8>, u8>;

/// Likewise, of a batch in bins.
#[cfg(not(target_arch = "nvptx64"))]
pub type BinsArgs = OperationArgs<Bins<u8, u8>, u8>;

/// A kernel of the table, with what it is for.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub(super) enum Row {
    /// An operation on a batch as it comes.
    Batch(Operation, &'static Kernel<BatchArgs>),
    /// An operation on a batch in bins.
    Bins(Operation, &'static Kernel<BinsArgs>),
    /// Lookups of a batch in bins that several ranks have sent.
    Reply(&'static Kernel<GetBinsArgs<u8, u8>>),
    /// Stores the pairs of a submap that is being replaced, or the remaining pairs.
    Rehash(&'static Kernel<OperationArgs<Slots, u8>>),
    /// Makes the pages of a submap from those of the one that it replaces.
    Rebuild(&'static Kernel<RebuildArgs>),
    /// Makes the pages of an empty map.
    Build(&'static Kernel<BuildArgs<u8, u8>>),
    /// Adds to the pages of a map in use.
    Fill(&'static Kernel<BuildArgs<u8, u8>>),
    /// `Build`, and merges the values of equal keys.
    BuildMerged(&'static Kernel<BuildArgs<u8, u8>>),
    /// `Fill`, likewise.
    FillMerged(&'static Kernel<BuildArgs<u8, u8>>),
    /// Removes by predicate.
    Retain(&'static Kernel<RetainArgs>),
    /// Counts slots.
    Stats(&'static Kernel<StatsArgs>),
    /// Dumps.
    RetrieveAll(&'static Kernel<RetrieveAllArgs<u8, u8>>),
}

/// Declares the kernels of a list of rows for one format, in a module of their own, and lists them there.
macro_rules! declare {
    (
        $(#[$cfg:meta])* $list:ident $suffix:ident: $format:ty, $key:ty, $value:ty;
        $($(#[$doc:meta])* $row:ident $(($operation:ident))? $name:ident: $args:ty = $body:expr;)*
    ) => { paste! {
        /// The kernels of one format.
        $(#[$cfg])*
        #[allow(unused, reason = "not every list looks at each of the three types")]
        pub mod [<$list $suffix>] {
            use super::*;

            type F = $format;
            type K = $key;
            type V = $value;

            kernel! {$(
                $(#[$doc])*
                pub static [<$name:upper $suffix:upper>] = fn [<$name $suffix>](args: $args) by MAP_BLOCK {
                    body_of!(F, $body(&args))
                }
            )*}

            /// What they are for.
            #[cfg(not(target_arch = "nvptx64"))]
            pub(in super::super) const ROWS: &[Row] = &[$(
                // SAFETY: a set of kernels says what sizes its keys and values have, and its users keep to them.
                Row::$row($(Operation::$operation,)? unsafe { [<$name:upper $suffix:upper>].erased() }),
            )*];
        }
    }};
}

/// For each size of keys and each of values.
macro_rules! pairs {
    ($($format:tt)*) => { declare! { $($format)*;
        /// Stores pairs whose key is absent.
        Batch(Insert) insert: OperationArgs<Batch<K, V>, V> = operation::insert::<F, _>;
        /// Stores pairs in bins whose key is absent.
        Bins(Insert) insert_bins: OperationArgs<Bins<K, V>, V> = operation::insert::<F, _>;
        /// Looks keys up.
        Batch(Get) get: OperationArgs<Batch<K, V>, V> = operation::get::<F, _>;
        /// Looks up keys in bins that several ranks have sent.
        Reply get_bins: GetBinsArgs<K, V> = get_bins::<F>;
        /// Updates values of present keys, and returns what they were.
        Batch(Touch) touch: OperationArgs<Batch<K, V>, V> = operation::touch::<F, _>;
        /// Does with each key what its operation says.
        Batch(Mixed) mixed: OperationArgs<Batch<K, V>, V> = operation::mixed::<F, _>;
        /// Makes the pages of an empty map from the pairs at their heads.
        Build build: BuildArgs<K, V> = page::build::<F, false, false>;
        /// Adds the pairs at their heads to the pages of a map in use.
        Fill fill: BuildArgs<K, V> = page::build::<F, true, false>;
        /// Dumps all pairs.
        RetrieveAll retrieve_all: RetrieveAllArgs<K, V> = retrieve_all::dump::<F>;
    } };
}

/// Likewise, where there are values.
macro_rules! values {
    ($($format:tt)*) => { declare! { $($format)*;
        /// Updates values; stores pairs whose key is absent.
        Batch(Merge) merge: OperationArgs<Batch<K, V>, V> = operation::merge::<F, _>;
        /// Updates values; stores pairs in bins whose key is absent.
        Bins(Merge) merge_bins: OperationArgs<Bins<K, V>, V> = operation::merge::<F, _>;
        /// Returns values; stores pairs whose key is absent.
        Batch(GetOrInsert) get_or_insert: OperationArgs<Batch<K, V>, V> = operation::get_or_insert::<F, _>;
        /// Updates values of present keys.
        Batch(Assign) assign: OperationArgs<Batch<K, V>, V> = operation::assign::<F, _>;
        /// Updates values of keys in bins that are present.
        Bins(Assign) assign_bins: OperationArgs<Bins<K, V>, V> = operation::assign::<F, _>;
        /// Removes pairs and returns their values.
        Batch(Take) take: OperationArgs<Batch<K, V>, V> = operation::take::<F, _>;
        /// Makes the pages of an empty map, and merges the values of equal keys.
        BuildMerged build_merged: BuildArgs<K, V> = page::build::<F, false, true>;
        /// Merges the pairs at their heads with the pages of a map in use.
        FillMerged fill_merged: BuildArgs<K, V> = page::build::<F, true, true>;
    } };
}

/// Where values are ids.
macro_rules! ids {
    ($($format:tt)*) => { declare! { $($format)*;
        /// Replaces ids and returns the old ones; stores pairs whose key is absent.
        Batch(Exchange) exchange: OperationArgs<Batch<K, V>, V> = operation::exchange::<F, _>;
        /// Removes pairs and returns their ids.
        Batch(Withdraw) withdraw: OperationArgs<Batch<K, V>, V> = operation::withdraw::<F, _>;
    } };
}

/// For each size of keys.
macro_rules! keys {
    ($($format:tt)*) => { declare! { $($format)*;
        /// Removes pairs.
        Batch(Remove) remove: OperationArgs<Batch<K, V>, V> = operation::remove::<F, _>;
        /// Removes keys in bins.
        Bins(Remove) remove_bins: OperationArgs<Bins<K, V>, V> = operation::remove_bins::<F>;
        /// Makes the pages of a submap from those of the one that it replaces.
        Rebuild rebuild: RebuildArgs = rebuild::rebuild::<F>;
    } };
}

/// For keys and values of all sizes.
macro_rules! slots {
    ($($format:tt)*) => { declare! { $($format)*;
        /// Counts keys that are absent, or present.
        Batch(Count) count: OperationArgs<Batch<K, V>, V> = operation::count::<F, _>;
        /// Counts keys of pairs in bins that are absent, or present.
        Bins(Count) count_bins: OperationArgs<Bins<K, V>, V> = operation::count::<F, _>;
        /// Takes back what a batch stored.
        Batch(Undo) undo: OperationArgs<Batch<K, V>, V> = operation::undo::<F>;
        /// Stores the pairs of a submap that is being replaced, or the remaining pairs.
        Rehash rehash: OperationArgs<Slots, V> = operation::rehash::<F>;
        /// Removes what two predicates do not hold for.
        Retain retain: RetainArgs = retain::retain::<F>;
        /// Counts tombstones, and pairs by probe length.
        Stats stats: StatsArgs = stats::stats::<F>;
    } };
}

pairs! { pairs _4_0: Keys<u32>, u32, () }
pairs! { pairs _8_0: Keys<u64>, u64, () }
keys! { keys _4_keys: Keys<u32>, u32, () }
keys! { keys _8_keys: Keys<u64>, u64, () }
slots! { slots _keys: Keys<u64>, u64, () }

pairs! { pairs _4_4: Packed, u32, u32 }
values! { values _4_4: Packed, u32, u32 }
ids! { ids _4_4: Packed, u32, u32 }
keys! { keys _4_packed: Packed, u32, u32 }
slots! { slots _packed: Packed, u32, u32 }

/// The rows of a format of 16 bytes, of which there are two.
macro_rules! sixteen_bytes {
    ($format:ident $name:ident, $cfg:meta) => {
        paste! {
            pairs! { #[$cfg] pairs [<_4_8_ $name>]: $format<u32, u64>, u32, u64 }
            pairs! { #[$cfg] pairs [<_8_4_ $name>]: $format<u64, u32>, u64, u32 }
            pairs! { #[$cfg] pairs [<_8_8_ $name>]: $format<u64, u64>, u64, u64 }
            values! { #[$cfg] values [<_4_8_ $name>]: $format<u32, u64>, u32, u64 }
            values! { #[$cfg] values [<_8_4_ $name>]: $format<u64, u32>, u64, u32 }
            values! { #[$cfg] values [<_8_8_ $name>]: $format<u64, u64>, u64, u64 }
            ids! { #[$cfg] ids [<_8_4_ $name>]: $format<u64, u32>, u64, u32 }
            keys! { #[$cfg] keys [<_4_ $name>]: $format<u32, u64>, u32, u64 }
            keys! { #[$cfg] keys [<_8_ $name>]: $format<u64, u64>, u64, u64 }
            slots! { #[$cfg] slots [<_ $name>]: $format<u64, u64>, u64, u64 }
        }
    };
}

sixteen_bytes! { Wide wide, cfg(any(not(target_arch = "nvptx64"), gpumap_sm90)) }
sixteen_bytes! { Split split, cfg(not(all(target_arch = "nvptx64", gpumap_sm90))) }
