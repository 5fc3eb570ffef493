//! The device code of gpumap.
//!
//! Plain Rust over the facade of [`gpumap_simt`]: compiled to PTX for a GPU, run by the checked
//! executor everywhere else. The host crate `gpumap` launches what [`kernels`] declares; nothing
//! here knows the host. Kernels of other crates work on a map through [`map_ref`].
//!
//! | module | idea |
//! |---|---|
//! | [`hash`] | a bijective mix of the key decides submap, page, slab and step |
//! | [`slot`] | how a pair lies in a slot, and the atomics that move a slot from state to state |
//! | [`table`] | submaps, pages, slabs; the bounded walk of a key |
//! | [`source`] | where keys come from: a batch, or the slots of a submap that is being replaced |
//! | [`probe`] | tiles of four lanes with lane refill: what every verb is run by |
//! | [`map_ref`] | a map as an argument of a user's kernels |
//! | [`verbs`] | insert, merge, get, remove: what one key does with one slab |
//! | [`chained`] | the other layout: chains of slabs, and a slab allocator on the device |
//! | [`primitives`] | scans, reductions, filters, histograms and partitions of plain arrays |
//! | [`chunk`] | the table in chunks, one per block, for what looks at every slot |
//! | [`retrieve_all`] | dump of all pairs, one atomic per block |
//! | [`rebuild`] | moving the pairs of a submap to a new one, page by page |
//! | [`build`] | large batches, in bins by hash, and pages made from them |
//! | [`p2p`] | batches that go to the devices that own their keys |
//! | [`retain`] | removal by predicate |
//! | [`stats`] | tombstones and probe lengths |
//! | [`rows`] | a dense row number for each key, of any width |
//! | [`cells`] | values too large for a slot, which has the id of their cell |
//! | [`kernels`] | the entry points, and the sets of them that the host chooses from |
//!
//! A crate of kernels that uses [`map_ref`] depends on this one with `default-features = false`:
//! without the feature `entries` its PTX has none of the library's own kernels, nor what only these
//! need.
//!
//! # Invariant
//! A key lies in the first slot of its walk that was empty when it was claimed. Slots go empty
//! → pair → tombstone and never back while operations run. So two inserters of one key
//! meet at the same slot, a key is never stored twice, and a search may end at the first empty
//! slot.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(all(target_arch = "nvptx64", feature = "entries"), feature(abi_ptx))]

#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod build;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod cells;
pub mod chained;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod chunk;
pub mod count;
pub mod hash;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod kernels;
pub mod map_ref;
pub mod marks;
#[cfg(not(target_arch = "nvptx64"))]
mod native;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod p2p;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod primitives;
pub mod probe;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod rebuild;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod retain;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod retrieve_all;
pub mod rows;
pub mod slot;
pub mod source;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod stats;
pub mod table;
pub mod verbs;
