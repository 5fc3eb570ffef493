//! Large batches: when they are sorted by hash before they are stored, and how.
//!
//! | batch | map | what happens |
//! |---|---|---|
//! | large against the map | empty, and no call is using it | its pages are [built](build) whole, alone on the map |
//! | an insert or a merge, large against the map | in use, and no other call runs | it is added to its pages in the same manner |
//! | large, and the map much larger than the L2 | any | it is sorted into [bins], and the ordinary verbs run over these, beside other calls |
//! | a large lookup | larger than the TLB reach of the device | it is [sorted](look_up) likewise, and its answers are put back |
//! | any other | any | the ordinary verbs run over it as it is |
//!
//! Of a batch of pairs in which many keys come often, equal keys of a tile are combined first, in the kernels that sort: a
//! [sample](gpumap_kernels::build::combine) decides. Not where each pair has an answer, or counts.
//!
//! What a batch does is the same in all cases; only the time differs. Sorting takes scratch memory,
//! as much as the batch and a little more, for the length of the call. Where that cannot be had, or
//! where many keys of a batch share a bin, the batch is stored as it is.
//!
//! Pages are made under the exclusive lock, but only where no call is in flight. A call that begins
//! meanwhile waits for some milliseconds.
//!
//! Batches that other ranks have [sent] are in bins when they come, and pages may be made from them
//! in [stages].
//!
//! Other batches with an answer for each key are not sorted: putting answers back in order costs as
//! much as sorting saves. Nor are those on a stream of the caller, which never wait for the device.

mod bins;
mod build;
mod grains;
mod look_up;
mod make;
mod merge;
mod plan;
mod sent;
mod stages;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_merges;

pub(super) use bins::Binned;
pub(crate) use bins::InBins;
pub(in crate::map) use build::PageJob;
pub(crate) use grains::Grains;
pub(crate) use look_up::collect;
pub(in crate::map) use make::PageMerge;
pub(in crate::map) use plan::Before;
pub(crate) use sent::SendKernels;
pub(crate) use stages::Arrival;
