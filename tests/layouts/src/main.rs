//! Prints a line for each kernel whose PTX is checked in: its package, its name, and its signature as
//! this machine's compiler computes it. `cargo xtask ptx --check` builds it with `--cfg gpumap_list`, and
//! compares with the PTX.

// Each is only linked: what it declares by `kernel!` is in the list.
use gpumap_bench_kernels as _;
use gpumap_cuda_test_kernels as _;
use gpumap_kernels as _;
use gpumap_kmer_kernels as _;
use gpumap_map_test_kernels as _;
use gpumap_test_kernels as _;
use word_pairs_kernels as _;

use std::process::ExitCode;

#[cfg(gpumap_list)]
fn main() -> ExitCode {
    for kernel in gpumap_simt::kernel::LISTED {
        let (package, name, signature) = (kernel.package, kernel.name, kernel.signature);
        println!("{package} {name} {signature}");
    }
    ExitCode::SUCCESS
}

#[cfg(not(gpumap_list))]
fn main() -> ExitCode {
    eprintln!("error: there is no list without --cfg gpumap_list: see `cargo xtask ptx --check`");
    ExitCode::FAILURE
}
