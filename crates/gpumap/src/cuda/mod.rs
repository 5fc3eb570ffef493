//! The CUDA back end: a small safe layer over the driver API.
//!
//! Built on `cudarc`'s bindings, which load the driver at run time. `cudarc`'s own safe layer is
//! not used: it frees a slice after waiting only for the last read that it recorded, and its
//! events cannot be captured into a graph.

#[cfg(test)]
pub(crate) mod calls;
mod context;
mod driver;
mod graph;
mod module;
mod peer;
mod ptx;
mod query;
mod refusal;
mod relaxed;
mod streams;

pub(crate) use context::{Context, Current};
pub(crate) use driver::{check, cu, device_count, elapsed_ms, expect_own};
pub(crate) use graph::{ExecutableGraph, KernelNodes};
pub(crate) use module::Function;
pub(crate) use peer::allow_peer;
pub(crate) use ptx::{PtxText, Symbol};
pub(crate) use refusal::{until_answered, until_ended};
pub(crate) use streams::Awaited;
