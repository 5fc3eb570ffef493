//! The devices that the same test body runs on.

use parking_lot::RwLock;

use crate::device::Device;

/// Who holds a stream up wants the GPU alone: some calls of the driver, such as those that load kernels, wait for all
/// streams, and meanwhile others wait for them.
static GPU: RwLock<()> = RwLock::new(());

/// Runs a test on the CPU, and on the first CUDA device where there is one; says so where not.
/// `GPUMAP_TEST_DEVICE=cuda` runs it on CUDA alone, and fails where there is no device.
pub(crate) fn on_every_device(test: impl Fn(&Device)) {
    if !is_gpu_required() {
        test(&Device::cpu());
    }
    let _shared = GPU.read_recursive();
    on_the_gpu(test);
}

/// The same on the CUDA device only, with nobody beside it: for tests that hold a stream up.
pub(crate) fn alone_on_the_gpu(test: impl Fn(&Device)) {
    let _alone = GPU.write();
    on_the_gpu(test);
}

fn is_gpu_required() -> bool {
    std::env::var_os("GPUMAP_TEST_DEVICE").is_some_and(|device| device == "cuda")
}

fn on_the_gpu(test: impl Fn(&Device)) {
    match Device::cuda(0) {
        Ok(device) => test(&device),
        Err(reason) if is_gpu_required() => panic!("GPUMAP_TEST_DEVICE=cuda: {reason}"),
        Err(reason) => eprintln!("not run on CUDA: {reason}"),
    }
}
