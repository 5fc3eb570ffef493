//! What benchmarks are made of, for the programs that run them: `gpumap-bench`, and
//! `gpumap bench`.

pub mod cpu;
pub mod data;
pub mod ladder;
pub mod measure;
pub mod plots;
mod style;
