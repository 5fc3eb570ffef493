//! The program `gpumap` from outside, one module per subject. One program, so that it links once.

mod bad_input;
mod common;
mod databases;
mod formats;
#[cfg(target_os = "linux")]
mod hostile;
mod inputs;
mod jellyfish;
mod kmers;
#[cfg(unix)]
mod limits;
mod outputs;
mod pairs;
mod program;
