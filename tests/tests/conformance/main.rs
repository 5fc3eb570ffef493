//! The conformance suite, one module per behaviour. One program, so that it links once and
//! carries the library's kernels to a GPU machine once.

mod add;
mod clear;
mod concurrency;
mod errors;
mod facade;
mod full;
mod get;
mod histogram;
mod insert;
mod interleaved_maps;
mod interleavings;
mod ladder;
mod memory;
mod partition;
mod primitives;
mod retrieve_all;
mod sanitizer;
mod simt;
mod stateful;
