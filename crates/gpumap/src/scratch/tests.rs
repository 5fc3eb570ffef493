//! Slots, counters and results: the same bodies on the CPU and on a GPU.

use super::*;
use crate::testing::{in_many_orders, on_every_device};

#[test]
fn slots_grow_and_are_reused() {
    on_every_device(|device| {
        let device = device.with_memory_budget(64 << 20);
        let pool = ScratchPool::new(&device);
        let mut scratch = pool.take().unwrap();
        let first = scratch.reserve::<u64>(ScratchRole::Keys, 1000).unwrap();
        let again = scratch.reserve::<u32>(ScratchRole::Keys, 2048).unwrap();
        assert_eq!(first.addr(), again.addr());
        assert_eq!(first.addr() % 256, 0);
        drop(scratch);
        let bytes = device.allocated_bytes();
        for len in [0, 1, 1000] {
            let mut scratch = pool.take().unwrap();
            assert_eq!(
                scratch.reserve::<u64>(ScratchRole::Keys, len).unwrap(),
                first
            );
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
        scratch.reserve::<u8>(ScratchRole::Keys, 9 << 20).unwrap();
        let error = scratch.reserve::<u8>(ScratchRole::Values, 1).unwrap_err();
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
            .output::<u64>(ScratchRole::FirstOutput, keys.len())
            .unwrap();
        // SAFETY: `keys` lives until `fetch` has waited.
        let staged = unsafe { scratch.stage(ScratchRole::Keys, Source::Host(&keys)) }.unwrap();
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
        let staged = unsafe { scratch.stage(ScratchRole::Keys, source) }.unwrap();
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
        let staged = unsafe { scratch.stage(ScratchRole::Keys, Source::Device(buffer.as_view())) };
        assert!(matches!(staged, Err(Error::WrongDevice { .. })));
    });
}

/// An array that is copied there and back by several stages.
fn there_and_back(device: &Device, len: u32, chunk_bytes: usize, has_copy_pool: bool) {
    let chunking = Chunking {
        from_bytes: 1,
        chunk_bytes,
        has_copy_pool,
    };
    let array: Vec<u8> = (0..len).map(|i| (i % 251 + 1) as u8).collect();
    let pool = ScratchPool::with_chunking(device, chunking);
    let mut scratch = pool.take().unwrap();
    let there: *mut u8 = scratch.reserve(ScratchRole::Keys, array.len()).unwrap();
    // Stages have streams of their own.
    scratch.wait().unwrap();
    let mut back = vec![0u8; array.len()];
    let mut pipeline = pool.pipeline(array.len()).unwrap();
    // SAFETY: reserved just now, and used by nothing else.
    unsafe {
        pipeline.upload(there, &array).unwrap();
        for host in [Arrays::New, Arrays::Used] {
            pipeline
                .download(host, [(places_of(&mut back), there.cast_const())])
                .unwrap();
            assert!(back == array, "{host:?}, pool: {has_copy_pool}");
        }
    }
}

#[test]
fn arrays_go_there_and_back_chunk_by_chunk() {
    on_every_device(|device| {
        for has_copy_pool in [true, false] {
            // In copy tasks of a few bytes, and with some large pages.
            there_and_back(device, 20_011, 100, has_copy_pool);
            there_and_back(device, 5 << 20, 1 << 20, has_copy_pool);
        }
    });
}

#[test]
fn chores_are_done_also_after_a_panic() {
    on_every_device(|device| {
        let chunking = Chunking {
            from_bytes: 1,
            chunk_bytes: 1 << 20,
            has_copy_pool: true,
        };
        let pool = ScratchPool::with_chunking(device, chunking);
        let array = vec![7u8; 64 << 20];
        let panics = std::panic::AssertUnwindSafe(|| {
            let mut pipeline = pool.pipeline(array.len()).unwrap();
            pipeline.each(
                array.chunks(1 << 20),
                // SAFETY: the array lives longer than the pipeline.
                |stage, chunk| unsafe { stage.load(0, chunk) },
                |_, _| -> Result<()> { panic!("at the first chunk") },
                |_, ()| Ok(()),
            )
        });
        std::panic::catch_unwind(panics).unwrap_err();
        // Nothing reads it any more.
        drop(array);
        there_and_back(device, 20_011, 100, true);
        let all = [(); 2].map(|()| pool.pipeline(1 << 30).unwrap());
        let stages = all.each_ref().map(StagingPipeline::stages);
        assert_eq!(stages, [8, 8], "no stage is lost");
        assert!(pool.pipeline(1 << 30).is_none(), "there are no more");
    });
}

/// For audit finding 6.
#[test]
fn counters_are_read_when_they_have_come() {
    in_many_orders(|device| {
        let pool = ScratchPool::new(device);
        let mut scratch = pool.take().unwrap();
        let counters = scratch.counters().cast();
        for value in [1, 2] {
            // SAFETY: as many bytes, which nothing else uses.
            unsafe { scratch.stream().fill(counters, value, 8 * COUNTERS) }.unwrap();
            let expected = u64::from_ne_bytes([value; 8]);
            assert_eq!(scratch.read_counters().unwrap(), [expected; COUNTERS]);
        }
    });
}
