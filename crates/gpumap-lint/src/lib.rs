//! Compiles kernels to PTX as this project's own are, and checks the PTX and what NVIDIA's assemblers make of it. No GPU is needed.
//!
//! `gpumap-lint` is the program for a crate of kernels anywhere; `cargo xtask ptx` and `cargo xtask lint` do the same for
//! those of this workspace, by this library, and [`CudaBuilder`] for a `build.rs`. Beside that and the
//! program's arguments it promises nothing.

pub mod arch;
pub mod build;
pub mod compile;
mod convergence;
mod cuda_builder;
mod exceptions;
pub mod grid;
pub mod lint;
pub mod package;
pub mod process;
pub mod ptx;
mod ptxas;
mod sass;
mod spills;
pub mod toolchain;
pub mod wheel;

pub use cuda_builder::CudaBuilder;
