//! Slots, counters and results: the same bodies on the CPU and on a GPU.

use super::*;
use crate::testing::on_every_device;

#[test]
fn slots_grow_and_are_reused() {
    on_every_device(|device| {
        let device = device.with_memory_budget(64 << 20);
        let pool = ScratchPool::new(&device);
        let mut scratch = pool.take().unwrap();
        let first = scratch.reserve::<u64>(Slot::Keys, 1000).unwrap();
        let again = scratch.reserve::<u32>(Slot::Keys, 2048).unwrap();
        assert_eq!(first.addr(), again.addr());
        assert_eq!(first.addr() % 256, 0);
        drop(scratch);
        let bytes = device.allocated_bytes();
        for len in [0, 1, 1000] {
            let mut scratch = pool.take().unwrap();
            assert_eq!(scratch.reserve::<u64>(Slot::Keys, len).unwrap(), first);
        }
        assert_eq!(
            device.allocated_bytes(),
            bytes,
            "a steady state allocates nothing"
        );
        drop(pool);
        assert_eq!(device.allocated_bytes(), 0);
    });
}

#[test]
fn room_to_spare_is_given_up_before_it_is_an_error() {
    on_every_device(|device| {
        let device = device.with_memory_budget((9 << 20) + 64);
        let pool = ScratchPool::new(&device);
        let mut scratch = pool.take().unwrap();
        scratch.reserve::<u8>(Slot::Keys, 9 << 20).unwrap();
        let error = scratch.reserve::<u8>(Slot::Values, 1).unwrap_err();
        assert!(
            matches!(
                error,
                Error::OutOfMemory {
                    needed: 1,
                    available: 0
                }
            ),
            "{error}"
        );
    });
}

#[test]
fn counters_and_results_come_back() {
    on_every_device(|device| {
        let pool = ScratchPool::new(device);
        let mut scratch = pool.take().unwrap();
        scratch.reset_counters().unwrap();
        assert_eq!(scratch.read_counters().unwrap(), [0; COUNTERS]);

        let keys: Vec<u64> = (0..10_000).collect();
        let mut output = scratch
            .output::<u64>(Slot::FirstOutput, keys.len())
            .unwrap();
        // SAFETY: `keys` lives until `fetch` has waited.
        let staged = unsafe { scratch.stage(Slot::Keys, Source::Host(&keys)) }.unwrap();
        // SAFETY: both have as many elements on this device.
        unsafe {
            scratch
                .stream()
                .copy(output.as_mut_ptr().cast(), staged.cast(), 80_000)
        }
        .unwrap();
        assert_eq!(scratch.fetch(output, 9_999).unwrap(), keys[..9_999]);

        let buffer = Buffer::from_slice(&Stream::new(device).unwrap(), &keys).unwrap();
        let source = Source::Device(buffer.as_view());
        // SAFETY: `buffer` lives until `scratch` is dropped.
        let staged = unsafe { scratch.stage(Slot::Keys, source) }.unwrap();
        assert_eq!(staged, buffer.as_ptr());
    });
}

#[test]
fn buffers_of_other_devices_are_refused() {
    on_every_device(|device| {
        let other = Stream::new(&Device::cpu_with(Default::default())).unwrap();
        let buffer = Buffer::<u32>::zeroed(&other, 4).unwrap();
        let pool = ScratchPool::new(device);
        let mut scratch = pool.take().unwrap();
        // SAFETY: `buffer` outlives `scratch`.
        let staged = unsafe { scratch.stage(Slot::Keys, Source::Device(buffer.as_view())) };
        assert!(matches!(staged, Err(Error::WrongDevice { .. })));
    });
}
