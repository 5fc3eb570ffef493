//! Chained maps in host memory, on the CPU executor: verbs against an oracle, the allocator, compaction,
//! and adversarial interleavings of lanes.

mod allocator;
mod compact;
mod get_all;
mod interleavings;
mod kernels;
mod support;
mod verbs;
