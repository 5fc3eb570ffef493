//! The kernels of a map: those of the [table](super::table) for its sizes of keys and values, and those that sort
//! batches.

use super::Encoding;
use super::operations::OperationArgs;
use super::reply::GetBinsArgs;
use super::table::{BatchArgs, BinsArgs, Operation, Row, *};
use crate::build::combine::{COUNT_REPEATS, SampleArgs};
use crate::build::page::BuildArgs;
use crate::build::{ToBins, ToPages, pages::PagesArgs};
use crate::map_ref::{Named, SlotKind};
use crate::p2p::{SendArgs, Sent, Sorted};
use crate::primitives::partition::{Partitioned, ScatterArgs, ScatterKernel};
use crate::rebuild::RebuildArgs;
use crate::retain::RetainArgs;
use crate::retrieve_all::RetrieveAllArgs;
use crate::slot::{Bits, Keys, Packed, Split, Wide};
use crate::source::Slots;
use crate::stats::StatsArgs;
use gpumap_simt::kernel::Kernel;

/// The bits of keys: `u32` and `u64`.
pub trait KeyBits: Bits {}

impl KeyBits for u32 {}
impl KeyBits for u64 {}

/// The bits of values: `u32` and `u64`, and `()` for maps that are sets.
pub trait ValueBits: Bits {}

impl ValueBits for () {}
impl ValueBits for u32 {}
impl ValueBits for u64 {}

/// The kernels of a map with keys of one size and values of one size, for a host that does not know their types: what
/// pointers in arguments lead to are keys and values of these sizes.
#[derive(Debug)]
pub struct KernelSet {
    /// Bytes per slot.
    pub slot_bytes: u32,
    /// What the slots are like.
    pub slots: SlotKind,
    /// What sorts batches, and works on what is sorted.
    pub bulk: BulkKernels,
    /// Makes the pages of a submap from those of the one that it replaces.
    pub rebuild: &'static Kernel<RebuildArgs>,
    /// Stores the pairs of a submap that is being replaced, or the remaining pairs.
    pub rehash: &'static Kernel<OperationArgs<Slots, u8>>,
    /// Removes by predicate.
    pub retain: &'static Kernel<RetainArgs>,
    /// Counts.
    pub stats: &'static Kernel<StatsArgs>,
    /// Dumps.
    pub retrieve_all: &'static Kernel<RetrieveAllArgs<u8, u8>>,
    batch: [Option<&'static Kernel<BatchArgs>>; Operation::COUNT],
    bins: [Option<&'static Kernel<BinsArgs>>; Operation::COUNT],
}

/// The kernels for [large batches](crate::build).
#[derive(Debug)]
pub struct BulkKernels {
    /// Sorts pairs into bins.
    pub to_bins: ScatterKernel<ScatterArgs<u8, u8>>,
    /// The same two steps, to bins and to pages, that combine equal keys of a tile: for pairs that lie side by side.
    pub combined: Option<Combined>,
    /// Sorts keys into bins.
    pub keys_to_bins: ScatterKernel<ScatterArgs<u8, u8>>,
    /// Looks up keys in bins that several ranks have sent.
    pub get: &'static Kernel<GetBinsArgs<u8, u8>>,
    /// Sends pairs to the ranks that own them.
    pub send: ScatterKernel<SendArgs<u8, u8>>,
    /// Sorts pairs for the ranks that own them and fetch them.
    pub sort: ScatterKernel<SendArgs<u8, u8>>,
    /// Sends keys to the ranks that own them.
    pub send_keys: ScatterKernel<SendArgs<u8, u8>>,
    /// Sorts bins into pages.
    pub to_pages: ScatterKernel<PagesArgs<u8, u8>>,
    /// Makes the pages of an empty map, and adds to those of a map in use.
    pub pages: [&'static Kernel<BuildArgs<u8, u8>>; 2],
    /// The same two, which merge the values of equal keys. None for sets, which have none.
    pub merged: Option<[&'static Kernel<BuildArgs<u8, u8>>; 2]>,
}

/// The kernels that combine equal keys.
#[derive(Clone, Copy, Debug)]
pub struct Combined {
    /// Counts keys that would be combined, of a sample.
    pub count_repeats: &'static Kernel<SampleArgs>,
    /// Sorts pairs into bins.
    pub to_bins: ScatterKernel<ScatterArgs<u8, u8>>,
    /// Sorts bins into pages.
    pub to_pages: ScatterKernel<PagesArgs<u8, u8>>,
}

impl KernelSet {
    /// The kernel of an operation on a batch as it comes. None for ids, in maps that can have none.
    #[must_use]
    pub const fn batch(&self, operation: Operation) -> Option<&'static Kernel<BatchArgs>> {
        self.batch[operation as usize]
    }

    /// The kernel of an operation on a batch in bins. None if it has an answer for each key.
    #[must_use]
    pub const fn bins(&self, operation: Operation) -> Option<&'static Kernel<BinsArgs>> {
        self.bins[operation as usize]
    }

    /// All of its kernels that a map on one device launches: names and signatures.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, u64)> {
        let BulkKernels {
            to_bins,
            combined,
            keys_to_bins,
            to_pages,
            pages,
            merged,
            ..
        } = self.bulk;
        let combined = combined.map(|combined| {
            [
                combined.count_repeats.entry(),
                combined.to_bins.kernel.entry(),
                combined.to_pages.kernel.entry(),
            ]
        });
        let merged = merged.unwrap_or(pages);
        let own = [
            self.rebuild.entry(),
            self.rehash.entry(),
            self.retain.entry(),
            self.stats.entry(),
            self.retrieve_all.entry(),
            to_bins.kernel.entry(),
            keys_to_bins.kernel.entry(),
            to_pages.kernel.entry(),
        ];
        let batch = self.batch.into_iter().flatten().map(Kernel::entry);
        let bins = self.bins.into_iter().flatten().map(Kernel::entry);
        own.into_iter()
            .chain(combined.into_iter().flatten())
            .chain(pages.into_iter().chain(merged).map(Kernel::entry))
            .chain(batch)
            .chain(bins)
            .collect()
    }

    /// The set of a format, from the rows of the table for it.
    const fn of<F: Named>(sort: ScatterKernel<SendArgs<u8, u8>>, lists: &[&[Row]]) -> Self
    where
        F::Key: ToBins<F::Value> + ToPages<F::Value> + Sent<F::Value> + Sent<()> + Partitioned<()>,
    {
        let mut batch = [None; Operation::COUNT];
        let mut bins = [None; Operation::COUNT];
        let (mut rebuild, mut rehash, mut retain, mut stats) = (None, None, None, None);
        let (mut retrieve_all, mut get, mut build, mut fill) = (None, None, None, None);
        let (mut build_merged, mut fill_merged) = (None, None);
        let mut list = 0;
        while list < lists.len() {
            let mut row = 0;
            while row < lists[list].len() {
                match lists[list][row] {
                    Row::Batch(operation, kernel) => batch[operation as usize] = Some(kernel),
                    Row::Bins(operation, kernel) => bins[operation as usize] = Some(kernel),
                    Row::Reply(kernel) => get = Some(kernel),
                    Row::Rehash(kernel) => rehash = Some(kernel),
                    Row::Rebuild(kernel) => rebuild = Some(kernel),
                    Row::Build(kernel) => build = Some(kernel),
                    Row::Fill(kernel) => fill = Some(kernel),
                    Row::BuildMerged(kernel) => build_merged = Some(kernel),
                    Row::FillMerged(kernel) => fill_merged = Some(kernel),
                    Row::Retain(kernel) => retain = Some(kernel),
                    Row::Stats(kernel) => stats = Some(kernel),
                    Row::RetrieveAll(kernel) => retrieve_all = Some(kernel),
                }
                row += 1;
            }
            list += 1;
        }
        if size_of::<F::Value>() == 0 {
            // There are no values to merge or return.
            batch[Operation::Merge as usize] = batch[Operation::Insert as usize];
            batch[Operation::GetOrInsert as usize] = batch[Operation::Insert as usize];
            batch[Operation::Take as usize] = batch[Operation::Remove as usize];
            bins[Operation::Merge as usize] = bins[Operation::Insert as usize];
        }
        // SAFETY: the set says what sizes its keys and values have, and its users keep to them.
        let bulk = unsafe {
            BulkKernels {
                to_bins: <F::Key as ToBins<F::Value>>::TO_BINS.erased(),
                combined: combined::<F::Key, F::Value>(),
                keys_to_bins: <F::Key as Partitioned<()>>::KERNELS.scatter.erased(),
                get: get.expect("lookups in bins"),
                send: <F::Key as Sent<F::Value>>::SEND.erased(),
                sort,
                send_keys: <F::Key as Sent<()>>::SEND.erased(),
                to_pages: <F::Key as ToPages<F::Value>>::TO_PAGES.erased(),
                pages: [build.expect("pages"), fill.expect("pages in use")],
                merged: match (build_merged, fill_merged) {
                    (Some(build), Some(fill)) => Some([build, fill]),
                    _ => None,
                },
            }
        };
        Self {
            slot_bytes: F::SLOT_BYTES,
            slots: F::KIND,
            bulk,
            rebuild: rebuild.expect("rebuilds"),
            rehash: rehash.expect("rehashes"),
            retain: retain.expect("removals by predicate"),
            stats: stats.expect("statistics"),
            retrieve_all: retrieve_all.expect("dumps"),
            batch,
            bins,
        }
    }
}

/// The kernels that combine equal keys, for keys and values that there are such kernels for.
const fn combined<K, V>() -> Option<Combined>
where
    K: Bits + ToBins<V> + ToPages<V>,
    V: Bits,
{
    match (<K as ToBins<V>>::COMBINED, <K as ToPages<V>>::COMBINED) {
        (Some(to_bins), Some(to_pages)) => Some(Combined {
            count_repeats: &COUNT_REPEATS,
            // SAFETY: as in `KernelSet::of`.
            to_bins: unsafe { to_bins.erased() },
            // SAFETY: likewise.
            to_pages: unsafe { to_pages.erased() },
        }),
        _ => None,
    }
}

/// Declares the sets of kernels, each with the lists of rows that it takes.
macro_rules! sets {
    ($($name:ident: $format:ty, $sort:expr, $($list:ident)*;)*) => {$(
        static $name: KernelSet = KernelSet::of::<$format>(
            // SAFETY: as in `KernelSet::of`.
            unsafe { $sort.erased() },
            &[$($list::ROWS),*],
        );
    )*};
}

sets! {
    KEYS_4: Keys<u32>, <u32 as Sent<()>>::SEND, pairs_4_0 keys_4_keys slots_keys;
    KEYS_8: Keys<u64>, <u64 as Sent<()>>::SEND, pairs_8_0 keys_8_keys slots_keys;
    PACKED: Packed, <u32 as Sorted<u32>>::SORT, pairs_4_4 values_4_4 ids_4_4 keys_4_packed slots_packed;
    WIDE_4_8: Wide<u32, u64>, <u32 as Sorted<u64>>::SORT, pairs_4_8_wide values_4_8_wide keys_4_wide slots_wide;
    WIDE_8_4: Wide<u64, u32>, <u64 as Sorted<u32>>::SORT, pairs_8_4_wide values_8_4_wide ids_8_4_wide keys_8_wide slots_wide;
    WIDE_8_8: Wide<u64, u64>, <u64 as Sorted<u64>>::SORT, pairs_8_8_wide values_8_8_wide keys_8_wide slots_wide;
    SPLIT_4_8: Split<u32, u64>, <u32 as Sorted<u64>>::SORT, pairs_4_8_split values_4_8_split keys_4_split slots_split;
    SPLIT_8_4: Split<u64, u32>, <u64 as Sorted<u32>>::SORT, pairs_8_4_split values_8_4_split ids_8_4_split keys_8_split slots_split;
    SPLIT_8_8: Split<u64, u64>, <u64 as Sorted<u64>>::SORT, pairs_8_8_split values_8_8_split keys_8_split slots_split;
}

/// The kernels for keys of so many bytes, 4 or 8, values of so many, 0, 4 or 8, and an encoding.
#[must_use]
pub const fn kernels_of(
    [key_bytes, value_bytes]: [u32; 2],
    encoding: Encoding,
) -> &'static KernelSet {
    match (key_bytes, value_bytes, encoding) {
        (4, 0, _) => &KEYS_4,
        (_, 0, _) => &KEYS_8,
        (4, 4, _) => &PACKED,
        (4, _, Encoding::Wide) => &WIDE_4_8,
        (4, _, Encoding::Split) => &SPLIT_4_8,
        (_, 4, Encoding::Wide) => &WIDE_8_4,
        (_, 4, Encoding::Split) => &SPLIT_8_4,
        (_, _, Encoding::Wide) => &WIDE_8_8,
        (_, _, Encoding::Split) => &SPLIT_8_8,
    }
}
