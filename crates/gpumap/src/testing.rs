//! The devices that the same test body runs on, and what many tests begin with.

use std::sync::mpsc;

use bytemuck::Pod;
use gpumap_test_skips::{skip, wished_device};
use parking_lot::RwLock;

use crate::device::Device;
use crate::{Buffer, Map, PinnedBuffer, Stream};

/// A test that holds a stream up needs the GPU alone: some calls of the driver, such as those that load kernels, wait
/// for all streams, and meanwhile others wait for them.
static GPU: RwLock<()> = RwLock::new(());

/// Seeds of the devices with [deferred streams](Device::cpu_deferred) that a test runs on, unless
/// `GPUMAP_TEST_SEEDS` says how many.
const SEEDS: u64 = 4;

/// Seeds for a small test of order.
const ORDERS: u64 = 48;

/// Elements that are on their way to a device: their copy is queued on a stream.
pub(crate) struct Arriving<T: Pod> {
    pub buffer: Buffer<T>,
    _pinned: PinnedBuffer<T>,
}

impl<T: Pod> Arriving<T> {
    pub fn new(stream: &Stream, elements: &[T]) -> Self {
        let mut pinned = PinnedBuffer::zeroed(stream.device(), elements.len()).unwrap();
        pinned.copy_from_slice(elements);
        // SAFETY: all of it is written by the copy.
        let mut buffer = unsafe { Buffer::uninit(stream, elements.len()) }.unwrap();
        let mut all = buffer.as_view_mut();
        // SAFETY: the source is there until the drop, which waits.
        unsafe { all.copy_from_pinned_async(&pinned) }.unwrap();
        Self {
            buffer,
            _pinned: pinned,
        }
    }
}

impl<T: Pod> Drop for Arriving<T> {
    fn drop(&mut self) {
        let _ = self.buffer.stream().synchronize();
    }
}

/// Runs a small test on every device, and on deferred streams in many orders.
pub(crate) fn in_many_orders(test: impl Fn(&Device)) {
    run_on_every_device(ORDERS, test);
}

/// Runs a test on the CPU, natively and on the checked executor, on deferred streams of the CPU in several orders, and on the first CUDA device where there is one; says so where not.
/// `GPUMAP_TEST_DEVICE=cuda` runs it on CUDA alone, and fails where there is no device.
pub(crate) fn on_every_device(test: impl Fn(&Device)) {
    run_on_every_device(SEEDS, test);
}

/// The same on the CPU natively and on deferred streams, which are those of the checked executor, in one order: for tests of what a
/// call stores or allocates, which take long. Order is the matter of others.
pub(crate) fn on_each_back_end(test: impl Fn(&Device)) {
    run_on(&[Device::cpu()], 1, test);
}

fn run_on_every_device(seeds: u64, test: impl Fn(&Device)) {
    run_on(&[Device::cpu(), Device::checked()], seeds, test);
}

fn run_on(devices: &[Device], seeds: u64, test: impl Fn(&Device)) {
    if !is_gpu_required() {
        devices.iter().for_each(&test);
        on_deferred_streams(seeds, &test);
    }
    let _shared = GPU.read_recursive();
    on_the_gpu(test);
}

/// Runs a test on as many devices whose streams run later, unless `GPUMAP_TEST_SEEDS` says how many. A test that fails
/// says which.
fn on_deferred_streams(seeds: u64, test: impl Fn(&Device)) {
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
    assert!(seeds > 0, "GPUMAP_TEST_SEEDS=0 would test nothing");
    for seed in 0..seeds {
        let device = Device::cpu_deferred(seed);
        let _note = Note(&device);
        test(&device);
    }
}

/// The same on the CUDA device only, with no test beside it: for tests that hold a stream up.
pub(crate) fn alone_on_the_gpu(test: impl Fn(&Device)) {
    let _alone = GPU.write();
    on_the_gpu(test);
}

fn is_gpu_required() -> bool {
    wished_device() == "cuda"
}

fn on_the_gpu(test: impl Fn(&Device)) {
    match Device::cuda(0) {
        Ok(device) => test(&device),
        Err(reason) if is_gpu_required() => panic!("GPUMAP_TEST_DEVICE=cuda: {reason}"),
        Err(reason) => skip(&reason.to_string()),
    }
}

/// A map of numbers whose hashes are the same on every run.
pub(crate) fn map(device: &Device, capacity: usize) -> Map<u64, u64> {
    let builder = Map::builder(device).capacity(capacity);
    builder.hash_seed(1).build().unwrap()
}

/// Such a map, a stream, and the first `n` numbers there.
pub(crate) fn map_and_batch(
    device: &Device,
    capacity: usize,
    n: usize,
) -> (Map<u64, u64>, Stream, Buffer<u64>) {
    let stream = Stream::new(device).unwrap();
    let numbers: Vec<u64> = (0..n as u64).collect();
    let batch = Buffer::from_slice(&stream, &numbers).unwrap();
    (map(device, capacity), stream, batch)
}

/// Holds a stream up until what this returns is dropped, so a failure ends.
pub(crate) fn hold(stream: &Stream) -> mpsc::Sender<()> {
    let (let_go, held) = mpsc::channel::<()>();
    let wait = Box::new(move || {
        let _ = held.recv();
    });
    stream.call_host(wait).unwrap();
    let_go
}
