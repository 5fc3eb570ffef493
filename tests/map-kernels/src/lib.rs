//! Kernels that use maps which the host lends them: every verb of
//! [`MapRef`](gpumap_kernels::map_ref::MapRef), by single lanes and by tiles, for every format, lookups in row maps, and lookups and
//! updates in maps with wide keys.
//!
//! | module | what its kernels do |
//! |---|---|
//! | [`script`] | an operation per lane or tile, each of another kind than its neighbour's |
//! | [`churn`] | many operations per lane, in which removed keys come back |
//! | [`chained`] | the verbs of multimaps by whole warps, and pairs of unknown number |
//! | [`rows`] | lookups in row maps |
//! | [`wide`] | lookups in maps with wide keys, and updates of their values |
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

pub mod chained;
pub mod churn;
pub mod rows;
pub mod script;
pub mod wide;
