//! Kernels that use maps which the host lends them: every verb of
//! [`MapRef`](gpumap_kernels::map_ref::MapRef), by single lanes and by tiles, for every format, and lookups in row maps.
//!
//! | module | what its kernels do |
//! |---|---|
//! | [`script`] | an operation per lane or tile, each of another kind than its neighbour's |
//! | [`churn`] | many operations per lane, in which removed keys come back |
//! | [`chained`] | the verbs of chained maps by whole warps, and pairs of unknown number |
//! | [`rows`] | lookups in row maps |
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]

pub mod chained;
pub mod churn;
pub mod rows;
pub mod script;
