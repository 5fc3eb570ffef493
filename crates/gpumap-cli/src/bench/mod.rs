//! `gpumap bench`: what this device does, beside what it could do.

mod bounds;
mod cpu;
mod kmc;
mod kmers;
mod ladder;
pub mod reads;

pub use cpu::run as cpu;
pub use kmers::run as kmers;
pub use ladder::run as ladder;
