//! `gpumap bench`: what this device does, beside what it could do.

mod bounds;
mod kmc;
mod kmers;
mod ladder;
mod reads;

pub use kmers::run as kmers;
pub use ladder::run as ladder;
