//! The devices that the same test body runs on.

use crate::device::Device;

/// Runs a test on the CPU, and on the first CUDA device where there is one; says so where not.
pub(crate) fn on_every_device(test: impl Fn(&Device)) {
    test(&Device::cpu());
    match Device::cuda(0) {
        Ok(device) => test(&device),
        Err(reason) => eprintln!("not run on CUDA: {reason}"),
    }
}
