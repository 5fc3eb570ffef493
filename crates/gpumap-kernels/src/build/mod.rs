//! Large batches: sorted into bins by hash first, and pages made from them whole.
//!
//! A hash chooses the page of a key by its top bits, so keys that agree in those lie close together
//! in the table. One pass of the radix [partition](crate::primitives::partition) thus sorts a batch
//! by the region of the table that each pair belongs to:
//!
//! | table | second step | what it saves |
//! |---|---|---|
//! | in use | the verbs run over the [`bins`], one region after the other | a region stays in the L2 while its keys are served |
//! | empty | a second pass sorts each bin by page, to where the [`pages`] will be; then a block makes each [`page`] in shared memory | all atomics on global memory, and filling the table with empty slots |
//! | in use, and the batch no smaller than a part of it | the same by way of scratch memory, and blocks load their pages first | all atomics on global memory |
//!
//! Pages are made in the order in which single inserts walk, so that lookups do not depend on how a
//! pair came in. What does not fit its page goes to a [`spill`] list, for the ordinary
//! kernels afterwards.
//!
//! Bins and the heads of pages have room for what a uniform hash sends there. A bin that runs over
//! is seen by the host before anything is written to the table; pages spill.

pub mod bins;
pub mod combine;
mod kernels;
pub mod page;
pub mod pages;
pub mod pair;
pub mod spill;

pub use kernels::*;
