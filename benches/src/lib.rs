//! What benchmarks are made of, for the program that runs them, `gpumap-bench`,
//! and for the tests that verify them.

pub mod callers;
pub mod cpu;
pub mod data;
pub mod ladder;
pub mod latency;
mod maps;
pub mod measure;
pub mod plots;
mod style;
