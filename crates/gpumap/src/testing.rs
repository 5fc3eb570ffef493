//! The devices that the same test body runs on.

use crate::device::Device;

/// Runs a test on the CPU, and on the first CUDA device where there is one; says so where not.
/// `GPUMAP_TEST_DEVICE=cuda` runs it on CUDA alone, and fails where there is no device.
pub(crate) fn on_every_device(test: impl Fn(&Device)) {
    let required = std::env::var_os("GPUMAP_TEST_DEVICE").is_some_and(|device| device == "cuda");
    if !required {
        test(&Device::cpu());
    }
    match Device::cuda(0) {
        Ok(device) => test(&device),
        Err(reason) if required => panic!("GPUMAP_TEST_DEVICE=cuda: {reason}"),
        Err(reason) => eprintln!("not run on CUDA: {reason}"),
    }
}
