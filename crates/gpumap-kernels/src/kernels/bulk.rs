//! The verbs over a batch in bins, and the kernels that large batches take.

use super::batch::{assign, count_absent, store};
use super::reply::{GetBinsArgs, get_bins};
use crate::build::bins::{Bins, KeysOfPairs};
#[cfg(not(target_arch = "nvptx64"))]
use crate::build::combine::{COUNT_REPEATS, SampleArgs};
use crate::build::page::{self, BuildArgs};
#[cfg(not(target_arch = "nvptx64"))]
use crate::build::{ToBins, ToPages, pages::PagesArgs};
use crate::count::Counters;
#[cfg(not(target_arch = "nvptx64"))]
use crate::p2p::{SendArgs, Sent, Sorted};
#[cfg(not(target_arch = "nvptx64"))]
use crate::primitives::partition::{Partitioned, ScatterArgs, ScatterKernel};
use crate::probe::serve_batch;
#[cfg(not(all(target_arch = "nvptx64", gpumap_sm90)))]
use crate::slot::Split;
#[cfg(any(not(target_arch = "nvptx64"), gpumap_sm90))]
use crate::slot::Wide;
use crate::slot::{Format, Packed};
use crate::table::MapView;
use crate::verbs::look_up::Answers;
use crate::verbs::remove::Remove;
use crate::verbs::store::{Account, Keep, Merge};
use core::ptr;
use gpumap_simt::atomic::part::Update;
#[cfg(not(target_arch = "nvptx64"))]
use gpumap_simt::kernel::Kernel;
use gpumap_simt::{kernel, kernel_args};
use pastey::paste;

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
    /// Arguments of the kernels that count what is absent of a batch in bins: blocks of whole warps, enough for all
    /// places.
    pub struct CountBinsArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys and values.
        pub bins: Bins<K, V>,
        /// Keys that are absent; of several equal ones each.
        pub absent: Counters,
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
    /// Arguments of the kernels that update what is present of a batch in bins: blocks of whole warps, enough for all
    /// places.
    pub struct AssignBinsArgs<K, V> {
        /// The map.
        pub view: MapView,
        /// Keys and values.
        pub bins: Bins<K, V>,
        /// What is done to values of present keys.
        pub update: Update,
        /// Keys that were present.
        pub present: Counters,
    }
}

/// # Safety
/// See [`RemoveBinsArgs`].
#[inline(always)]
pub(super) unsafe fn remove_bins<F: Format>(args: &RemoveBinsArgs<F::Key, F::Value>) {
    let mut verb = Remove::<_, false> {
        answers: Answers {
            values: ptr::null_mut(),
            found: ptr::null_mut(),
            default: 0,
        },
        removed: 0,
    };
    // SAFETY: blocks are whole warps, and all their threads come to the count.
    unsafe {
        serve_batch::<F, _, _>(&args.view, &args.bins, &mut verb);
        args.removed.add_from_block(verb.removed);
    }
}

/// The kernels that combine equal keys.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Combined {
    /// Counts keys that would be combined, of a sample.
    pub count_repeats: &'static Kernel<SampleArgs>,
    /// Sorts pairs into bins.
    pub to_bins: ScatterKernel<ScatterArgs<u8, u8>>,
    /// Sorts bins into pages.
    pub to_pages: ScatterKernel<PagesArgs<u8, u8>>,
}

/// Those for keys and values that there are such kernels for.
#[cfg(not(target_arch = "nvptx64"))]
const fn combined<K, V>() -> Option<Combined>
where
    K: crate::slot::Bits + ToBins<V> + ToPages<V>,
    V: crate::slot::Bits,
{
    match (<K as ToBins<V>>::COMBINED, <K as ToPages<V>>::COMBINED) {
        (Some(to_bins), Some(to_pages)) => Some(Combined {
            count_repeats: &COUNT_REPEATS,
            to_bins: erased!(to_bins),
            to_pages: erased!(to_pages),
        }),
        _ => None,
    }
}

/// The kernels for [large batches](crate::build).
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct BulkKernels {
    /// Sorts pairs into bins.
    pub to_bins: ScatterKernel<ScatterArgs<u8, u8>>,
    /// The same two steps, to bins and to pages, that combine equal keys of a tile: for pairs that lie side by side.
    pub combined: Option<Combined>,
    /// Sorts keys into bins.
    pub keys_to_bins: ScatterKernel<ScatterArgs<u8, u8>>,
    /// Stores pairs in bins whose key is absent.
    pub insert: &'static Kernel<StoreBinsArgs<u8, u8>>,
    /// Stores pairs in bins, or updates values.
    pub merge: &'static Kernel<StoreBinsArgs<u8, u8>>,
    /// Counts keys in bins that are absent.
    pub count_absent: &'static Kernel<CountBinsArgs<u8, u8>>,
    /// Updates values of keys in bins that are present. None for sets, which have none.
    pub assign: Option<&'static Kernel<AssignBinsArgs<u8, u8>>>,
    /// Looks up keys in bins that several ranks have sent.
    pub get: &'static Kernel<GetBinsArgs<u8, u8>>,
    /// Removes keys in bins.
    pub remove: &'static Kernel<RemoveBinsArgs<u8, u8>>,
    /// Sends pairs to the ranks that own them.
    pub send: ScatterKernel<SendArgs<u8, u8>>,
    /// Sorts pairs for the ranks that own them and fetch them.
    pub sort: ScatterKernel<SendArgs<u8, u8>>,
    /// Sends keys to the ranks that own them.
    pub send_keys: ScatterKernel<SendArgs<u8, u8>>,
    /// Sorts bins into pages.
    pub to_pages: ScatterKernel<PagesArgs<u8, u8>>,
    /// Makes the pages of an empty map.
    pub build: &'static Kernel<BuildArgs<u8, u8>>,
    /// Adds to the pages of a map in use.
    pub fill: &'static Kernel<BuildArgs<u8, u8>>,
    /// The same two, which merge the values of equal keys. None for sets, which have none.
    pub merged: Option<[&'static Kernel<BuildArgs<u8, u8>>; 2]>,
}

#[cfg(not(target_arch = "nvptx64"))]
impl BulkKernels {
    /// Those that a map on one device launches: names and signatures.
    pub(crate) fn entries(&self) -> Vec<(&'static str, u64)> {
        let mut entries = vec![
            self.to_bins.kernel.entry(),
            self.keys_to_bins.kernel.entry(),
            self.insert.entry(),
            self.merge.entry(),
            self.count_absent.entry(),
            self.remove.entry(),
            self.to_pages.kernel.entry(),
            self.build.entry(),
            self.fill.entry(),
        ];
        entries.extend(self.assign.map(Kernel::entry));
        if let Some(combined) = self.combined {
            entries.push(combined.count_repeats.entry());
            entries.push(combined.to_bins.kernel.entry());
            entries.push(combined.to_pages.kernel.entry());
        }
        entries.extend(self.merged.into_iter().flatten().map(Kernel::entry));
        entries
    }
}

/// Declares the kernels of one format for large batches, and their set.
macro_rules! bulk_kernels {
    ($($(#[$cfg:meta])* $suffix:ident: $format:ty, $k:ty, $v:ty;)*) => {$(
        paste! {
            kernel! {
                /// Stores pairs in bins whose key is absent.
                $(#[$cfg])*
                pub static [<INSERT_BINS $suffix:upper>] = fn [<insert_bins $suffix>](args: StoreBinsArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { store::<$format, _, _>(&args.view, &args.bins, &args.account, Keep) }
                }
                /// Updates values; stores pairs in bins whose key is absent.
                $(#[$cfg])*
                pub static [<MERGE_BINS $suffix:upper>] = fn [<merge_bins $suffix>](args: StoreBinsArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { store::<$format, _, _>(&args.view, &args.bins, &args.account, Merge(args.update)) }
                }
                /// Counts keys in bins that are absent.
                $(#[$cfg])*
                pub static [<COUNT_ABSENT_BINS $suffix:upper>] = fn [<count_absent_bins $suffix>](args: CountBinsArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { count_absent::<$format, _>(&args.view, &KeysOfPairs(&args.bins), args.absent) }
                }
                /// Updates values of keys in bins that are present.
                $(#[$cfg])*
                pub static [<ASSIGN_BINS $suffix:upper>] = fn [<assign_bins $suffix>](args: AssignBinsArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { assign::<$format, _>(&args.view, &args.bins, args.update, args.present) }
                }
                /// Looks up keys in bins that several ranks have sent.
                $(#[$cfg])*
                pub static [<GET_BINS $suffix:upper>] = fn [<get_bins $suffix>](args: GetBinsArgs<$k, $v>) {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { get_bins::<$format>(&args) }
                }
                /// Removes keys in bins.
                $(#[$cfg])*
                pub static [<REMOVE_BINS $suffix:upper>] = fn [<remove_bins $suffix>](args: RemoveBinsArgs<$k, $v>) by block {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { remove_bins::<$format>(&args) }
                }
                /// Makes the pages of an empty map from the pairs at their heads.
                $(#[$cfg])*
                pub static [<BUILD $suffix:upper>] = fn [<build $suffix>](args: BuildArgs<$k, $v>) {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { page::build::<$format, false, false>(&args) }
                }
                /// Adds the pairs at their heads to the pages of a map in use.
                $(#[$cfg])*
                pub static [<FILL $suffix:upper>] = fn [<fill $suffix>](args: BuildArgs<$k, $v>) {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { page::build::<$format, true, false>(&args) }
                }
                /// Makes the pages of an empty map, and merges the values of equal keys.
                $(#[$cfg])*
                pub static [<BUILD_MERGED $suffix:upper>] = fn [<build_merged $suffix>](args: BuildArgs<$k, $v>) {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { page::build::<$format, false, true>(&args) }
                }
                /// Merges the pairs at their heads with the pages of a map in use.
                $(#[$cfg])*
                pub static [<FILL_MERGED $suffix:upper>] = fn [<fill_merged $suffix>](args: BuildArgs<$k, $v>) {
                    // SAFETY: the launcher keeps the contract of the arguments.
                    unsafe { page::build::<$format, true, true>(&args) }
                }
            }
            /// The kernels of this format for large batches.
            #[cfg(not(target_arch = "nvptx64"))]
            pub(super) static [<BULK $suffix:upper>]: BulkKernels = BulkKernels {
                to_bins: erased!(<$k as ToBins<$v>>::TO_BINS),
                combined: combined::<$k, $v>(),
                keys_to_bins: erased!(<$k as Partitioned<()>>::KERNELS.scatter),
                insert: erased!([<INSERT_BINS $suffix:upper>]),
                merge: erased!([<MERGE_BINS $suffix:upper>]),
                count_absent: erased!([<COUNT_ABSENT_BINS $suffix:upper>]),
                assign: Some(erased!([<ASSIGN_BINS $suffix:upper>])),
                get: erased!([<GET_BINS $suffix:upper>]),
                remove: erased!([<REMOVE_BINS $suffix:upper>]),
                send: erased!(<$k as Sent<$v>>::SEND),
                sort: erased!(<$k as Sorted<$v>>::SORT),
                send_keys: erased!(<$k as Sent<()>>::SEND),
                to_pages: erased!(<$k as ToPages<$v>>::TO_PAGES),
                build: erased!([<BUILD $suffix:upper>]),
                fill: erased!([<FILL $suffix:upper>]),
                merged: Some([erased!([<BUILD_MERGED $suffix:upper>]), erased!([<FILL_MERGED $suffix:upper>])]),
            };
        }
    )*};
}

bulk_kernels! {
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
