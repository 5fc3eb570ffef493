//! The devices that the same test body runs on.

use gpumap_test_skips::skip;
use parking_lot::RwLock;

use crate::device::Device;

/// Who holds a stream up wants the GPU alone: some calls of the driver, such as those that load kernels, wait for all
/// streams, and meanwhile others wait for them.
static GPU: RwLock<()> = RwLock::new(());

/// Seeds of the devices with [deferred streams](Device::cpu_deferred) that a test runs on, unless
/// `GPUMAP_TEST_SEEDS` says how many.
const SEEDS: u64 = 4;

/// Runs a test on the CPU, on deferred streams of the CPU in several orders, and on the first CUDA device where there is one; says so where not.
/// `GPUMAP_TEST_DEVICE=cuda` runs it on CUDA alone, and fails where there is no device.
pub(crate) fn on_every_device(test: impl Fn(&Device)) {
    if !is_gpu_required() {
        test(&Device::cpu());
        on_deferred_streams(SEEDS, &test);
    }
    let _shared = GPU.read_recursive();
    on_the_gpu(test);
}

/// Runs a test on as many devices whose streams run later, unless `GPUMAP_TEST_SEEDS` says how many. A test that fails
/// says which.
pub(crate) fn on_deferred_streams(seeds: u64, test: impl Fn(&Device)) {
    struct Note<'d>(&'d Device);
    impl Drop for Note<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("the device: {}", self.0);
            }
        }
    }
    let asked = std::env::var("GPUMAP_TEST_SEEDS").ok();
    let seeds = asked.map_or(seeds, |seeds| seeds.parse().expect("a number of seeds"));
    for seed in 0..seeds {
        let device = Device::cpu_deferred(seed);
        let _note = Note(&device);
        test(&device);
    }
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
        Err(reason) => skip(&reason.to_string()),
    }
}
