//! The conformance suite, one module per behaviour. One program, so that it links once and
//! carries the library's kernels to a GPU machine once.

mod add;
mod batch_sizes;
mod churn;
mod clear;
mod collect;
mod concurrency;
mod counts;
mod errors;
mod facade;
mod full;
mod get;
mod growth;
mod growth_memory;
mod growth_threads;
mod histogram;
mod histories;
mod insert;
mod interleaved_maps;
mod interleaved_verbs;
mod interleavings;
mod ladder;
mod memory;
mod merge;
mod outcomes;
mod partition;
mod primitives;
mod remove;
mod reserved_keys;
mod retain;
mod retrieve_all;
mod sanitizer;
mod simt;
mod stateful;
mod stats;
mod upsert;
