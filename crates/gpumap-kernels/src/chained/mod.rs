//! The classical slab hash: buckets that are chains of slabs, and a slab allocator on the device.
//!
//! For kernels that insert an unknown number of pairs and cannot stop to let a host grow the
//! table: room comes from a pool while they run, and when the pool is used up, they get that as
//! the answer. The source is Ashkiani, Farach-Colton and Owens, *A Dynamic Hash Table for the
//! GPU* (2018); what differs from it is said below.
//!
//! | module | idea |
//! |---|---|
//! | [`slab`] | 128 bytes: the slots of a slab, and the link to the next |
//! | [`view`] | the map as kernels see it: buckets, and the home of a key |
//! | [`allocator`] | super-blocks, memory blocks and units; found by ballot, taken by an atomic or |
//! | [`answer`] | where a verb's answers go: to memory, or to the calling lane |
//! | [`queue`] | the warp's work queue: keys served one after the other, by eight lanes each |
//! | [`verbs`] | get, append, insert, remove, count: one key and one slab |
//! | [`mixed`] | all of them in one batch |
//! | [`get_all`] | all values of each key, in rows |
//! | [`chained_ref`] | a map as an argument of a user's kernels |
//! | [`compact`] | compaction of chains; empty slabs go back to the pool |
//! | [`retain`] | removes what a pair of predicates does not hold for |
//! | [`retrieve_all`] | dump of all pairs, slab by slab where they lie |
//! | [`stats`] | tombstones, and how long chains are |
//! | [`kernels`] | the entry points |
//!
//! # Invariants
//! While operations run:
//! 1. A slot goes empty → pair → tombstone and never back, and no pair lies after an
//!    empty slot of its chain: a slot is claimed, by a CAS, only by a lane that saw every slot before
//!    it taken.
//! 2. A link goes none → slab and never back, and is set, by a CAS, only by a lane that saw every
//!    slot of its slab taken. So chains grow at their ends alone, have no cycles, and share no slab.
//! 3. A free unit of the pool is all ones, which is what an empty slab without a link looks like. A
//!    slab can be linked at once, by relaxed atomics: it was made so by an earlier launch.
//! 4. Between launches, a unit is taken exactly if its slab is in a chain.
//!
//! From the first follows uniqueness, as for the open table: two lanes that insert one key meet at
//! the same slot. Tombstones are not used again before a chain is [compacted](compact), since a key that was let into
//! one could lie further down the chain as well.
//!
//! # What is promised
//! With keys that are stored by insert only, operations on one key are linearizable. Where a key may be
//! stored several times, get, remove, count and [`get_all`] see every pair that is there throughout; a
//! pair that comes or goes meanwhile they may see or not. Of several pairs with one key, get and
//! remove take the one that was stored first.
//!
//! **Every loop ends.** A walk has as many turns as its chain has slabs, and is cut off after as many as
//! the pool has. A slab is read again only after one of its slots has been filled or emptied by another
//! lane, when another lane is about to finish writing there, or when another lane was faster to link a
//! slab. An allocation visits each memory block once.
//!
//! **A full pool is an answer.** A pair that finds no room is reported as
//! [`Full`](answer::Outcome::Full), and is not in. That may happen while another lane holds a slab that
//! it is about to link or to give back: the answer is about a moment at which the warp looked for room,
//! and a warp that found none does not look again for every pair (see [`allocator`]). A warp that is
//! alone refuses no pair before every unit is in a chain; beside others few are refused too early.
//!
//! # What differs from the paper
//! - The verbs have the names that the host has for them: append and insert are the paper's insert and
//!   replace, except that a present key's value stays; get, remove and compact are its search,
//!   delete and flush.
//! - A lane reads 16 bytes, not four, so that a pair is never read in two halves: eight lanes read a
//!   slab, and a warp serves four keys at a time. Pairs of all sizes have the same shape.
//! - Every bit pattern is a key: those that mean a state have buckets of their own.
//! - A removal is a CAS of the pair that was read, and tombstones are not filled while operations run.
//! - Links are 64-bit indices, and super-blocks can be added without moving a slab.

pub mod allocator;
pub mod answer;
pub mod chained_ref;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod compact;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod get_all;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod kernels;
pub mod mixed;
pub mod queue;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod retain;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod retrieve_all;
pub mod slab;
#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod stats;
pub mod verbs;
pub mod view;
