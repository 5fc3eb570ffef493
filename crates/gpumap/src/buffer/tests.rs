//! The same bodies on the CPU and on a GPU.

use super::*;
use crate::testing::{Arriving, in_many_orders, on_every_device};

fn numbers(len: usize) -> Vec<u64> {
    (0..len as u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect()
}

#[test]
fn round_trips() {
    on_every_device(|device| {
        let stream = Stream::new(device).unwrap();
        for len in [1, 7, 1000, 1 << 20] {
            let host = numbers(len);
            let mut buffer = Buffer::from_slice(&stream, &host).unwrap();
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.device(), device);
            assert!(buffer.to_vec().unwrap() == host);
            buffer.fill_bytes(0xff).unwrap();
            let mut back = vec![0; len];
            buffer.copy_to_slice(&mut back).unwrap();
            assert!(back.iter().all(|&x| x == u64::MAX));
            assert!(
                Buffer::<u64>::zeroed(&stream, len)
                    .unwrap()
                    .to_vec()
                    .unwrap()
                    == vec![0; len]
            );
        }
    });
}

/// Large copies go through stages, whose counters are memory of the device.
#[test]
fn what_copies_is_given_up_with_the_last_stream() {
    on_every_device(|device| {
        // Counted from nothing.
        let device = device.with_memory_budget(1 << 30);
        let streams = [(); 2].map(|()| Stream::new(&device).unwrap());
        let host = numbers(1 << 16);
        let mut there = streams
            .each_ref()
            .map(|stream| Buffer::from_slice(stream, &host).unwrap());
        let before = device.allocated_bytes();
        for buffer in &mut there {
            assert!(buffer.to_vec().unwrap() == host);
            // The stages of the first stream serve the other one.
            buffer.copy_from_slice(&host).unwrap();
        }
        assert_eq!(device.allocated_bytes(), before);
        drop((there, streams));
        assert_eq!(device.allocated_bytes(), 0);
    });
}

#[test]
fn zero_length() {
    on_every_device(|device| {
        let stream = Stream::new(device).unwrap();
        let mut buffer = Buffer::<u32>::from_slice(&stream, &[]).unwrap();
        assert!(buffer.is_empty());
        buffer.fill_bytes(1).unwrap();
        buffer.copy_from_slice(&[]).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), []);
        assert!(buffer.slice(..).unwrap().is_empty());
        assert!(buffer.slice(0..1).is_err());
        let units = Buffer::<()>::from_slice(&stream, &[(); 5]).unwrap();
        assert_eq!(units.to_vec().unwrap().len(), 5);
        assert_eq!(device.allocated_bytes(), 0);
        assert!(PinnedBuffer::<u32>::zeroed(device, 0).unwrap().is_empty());
    });
}

#[test]
fn views() {
    on_every_device(|device| {
        let stream = Stream::new(device).unwrap();
        let host = numbers(100);
        let mut buffer = Buffer::from_slice(&stream, &host).unwrap();
        let view = buffer.slice(10..20).unwrap();
        assert_eq!(view.to_vec().unwrap(), host[10..20]);
        assert_eq!(view.slice(5..=6).unwrap().to_vec().unwrap(), host[15..=16]);
        assert_eq!(view.as_ptr().addr(), buffer.as_ptr().addr() + 80);
        buffer
            .slice_mut(..2)
            .unwrap()
            .copy_from_slice(&[1, 2])
            .unwrap();
        buffer.slice_mut(98..).unwrap().fill_bytes(0).unwrap();
        let other = Buffer::from_slice(&Stream::new(device).unwrap(), &[7, 8, 9]).unwrap();
        buffer.copy_range(50, &other.as_view()).unwrap();
        let back = buffer.to_vec().unwrap();
        assert_eq!(back[..3], [1, 2, host[2]]);
        assert_eq!(back[97..], [host[97], 0, 0]);
        assert_eq!(back[49..54], [host[49], 7, 8, 9, host[53]]);
    });
}

#[test]
fn ranges_that_do_not_fit_are_errors() {
    let stream = Stream::new(&Device::cpu()).unwrap();
    let mut buffer = Buffer::from_slice(&stream, &[1u8, 2, 3]).unwrap();
    let out = |result: Result<()>| assert!(matches!(result, Err(Error::OutOfRange { len: 3, .. })));
    out(buffer.slice(0..4).map(drop));
    out(buffer.slice(..=usize::MAX).map(drop));
    #[expect(clippy::reversed_empty_ranges)]
    out(buffer.slice(3..2).map(drop));
    out(buffer.slice_mut(4..).map(drop));
    let uneven = |result: Result<()>, len| {
        assert!(
            matches!(result, Err(Error::CopyLength { needed: 3, given }) if given == len),
            "{result:?}"
        );
    };
    uneven(buffer.copy_from_slice(&[0; 2]), 2);
    uneven(buffer.copy_to_slice(&mut [0; 2]), 2);
    uneven(buffer.copy_to_slice(&mut [0; 4]), 4);
    let other = Buffer::from_slice(&stream, &[1u8, 2]).unwrap();
    out(buffer.copy_range(2, &other.as_view()));
    out(buffer.copy_range(usize::MAX, &other.as_view()));
    assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
}

#[test]
fn a_budget_is_kept() {
    on_every_device(|device| {
        let device = device.with_memory_budget(1000);
        let stream = Stream::new(&device).unwrap();
        let first = Buffer::<u32>::zeroed(&stream, 200).unwrap();
        assert_eq!(device.allocated_bytes(), 800);
        match Buffer::<u32>::zeroed(&stream, 51) {
            Err(Error::OutOfMemory {
                needed: 204,
                available: 200,
            }) => {}
            other => panic!("{other:?}"),
        }
        drop(first);
        assert_eq!(device.allocated_bytes(), 0);
        let (ptr, len) = Buffer::<u32>::zeroed(&stream, 51).unwrap().into_raw_parts();
        assert_eq!((len, device.allocated_bytes()), (51, 0));
        assert_eq!(device.peak_allocated_bytes(), 800);
        // SAFETY: leaked just now, so it stays valid, and nothing else uses it.
        let raw = unsafe { Buffer::from_raw_parts(&stream, ptr, len) }.unwrap();
        assert_eq!(raw.to_vec().unwrap(), [0; 51]);
    });
}

#[test]
fn more_than_there_is_is_an_error() {
    on_every_device(|device| {
        let stream = Stream::new(device).unwrap();
        let error = Buffer::<u8>::unwritten(&stream, 1 << 50).unwrap_err();
        assert!(
            matches!(error, Error::OutOfMemory { needed, .. } if needed == 1 << 50),
            "{error}"
        );
        let error = Buffer::<u64>::unwritten(&stream, usize::MAX).unwrap_err();
        assert!(
            matches!(
                error,
                Error::CapacityOverflow {
                    element_bytes: 8,
                    ..
                }
            ),
            "{error}"
        );
        // The device is as usable as before.
        assert_eq!(
            Buffer::from_slice(&stream, &[1u8])
                .unwrap()
                .to_vec()
                .unwrap(),
            [1]
        );
    });
}

#[test]
fn devices_do_not_mix() {
    on_every_device(|device| {
        let stream = Stream::new(device).unwrap();
        let other = Stream::new(&Device::cpu_with(Default::default())).unwrap();
        let mut buffer = Buffer::from_slice(&stream, &[1u8]).unwrap();
        let foreign = Buffer::from_slice(&other, &[2u8]).unwrap();
        let copied = buffer.copy_range(0, &foreign.as_view());
        assert!(matches!(copied, Err(Error::WrongDevice { .. })));
    });
}

#[test]
fn buffers_outlive_the_handles_they_came_from() {
    on_every_device(|device| {
        let device = device.clone();
        let stream = Stream::new(&device).unwrap();
        let pinned = PinnedBuffer::<u64>::zeroed(&device, 10).unwrap();
        let buffer = Buffer::from_slice(&stream, &numbers(1000)).unwrap();
        drop(stream);
        drop(device);
        assert_eq!(buffer.to_vec().unwrap(), numbers(1000));
        assert_eq!(pinned[..], [0; 10]);
    });
}

#[test]
fn pinned_copies() {
    on_every_device(|device| {
        let stream = Stream::new(device).unwrap();
        let mut source = PinnedBuffer::<u64>::zeroed(device, 1000).unwrap();
        source.copy_from_slice(&numbers(1000));
        let mut target = PinnedBuffer::<u64>::zeroed(device, 1001).unwrap();
        let mut buffer = Buffer::<u64>::zeroed(&stream, 1000).unwrap();
        // SAFETY: neither is touched until the stream is synchronised.
        unsafe {
            buffer
                .as_view_mut()
                .copy_from_pinned_async(&source)
                .unwrap();
            buffer.as_view().copy_to_pinned_async(&mut target).unwrap();
        }
        stream.synchronize().unwrap();
        assert!(target[..1000] == source[..]);
        // SAFETY: refused, so nothing is queued.
        let short = unsafe {
            buffer
                .as_view_mut()
                .copy_from_pinned_async(&PinnedBuffer::zeroed(device, 1).unwrap())
        };
        assert!(matches!(short, Err(Error::OutOfRange { .. })));
    });
}

#[test]
fn many_threads() {
    on_every_device(|device| {
        let device = device.with_memory_budget(u64::MAX);
        std::thread::scope(|scope| {
            for thread in 0..8usize {
                let device = &device;
                scope.spawn(move || {
                    let stream = Stream::new(device).unwrap();
                    for round in 0..50 {
                        let host = numbers(1 + thread * 100 + round);
                        let buffer = Buffer::from_slice(&stream, &host).unwrap();
                        assert!(buffer.to_vec().unwrap() == host);
                    }
                });
            }
        });
        assert_eq!(device.allocated_bytes(), 0);
    });
}

/// Audit finding 16.
#[test]
fn pinned_elements_are_aligned_or_refused() {
    #[derive(Clone, Copy)]
    #[repr(C, align(256))]
    struct Small([u8; 256]);
    #[derive(Clone, Copy)]
    #[repr(C, align(512))]
    struct Large([u8; 512]);
    // SAFETY: bytes, and no padding.
    unsafe impl bytemuck::Zeroable for Small {}
    // SAFETY: as above.
    unsafe impl bytemuck::Pod for Small {}
    // SAFETY: as above.
    unsafe impl bytemuck::Zeroable for Large {}
    // SAFETY: as above.
    unsafe impl bytemuck::Pod for Large {}
    on_every_device(|device| {
        let all = PinnedBuffer::<Small>::zeroed(device, 3).unwrap();
        assert_eq!(all.as_ptr().align_offset(256), 0);
        assert!(all.iter().all(|page| page.0 == [0; 256]));
        for len in [0, 1] {
            let refused = PinnedBuffer::<Large>::zeroed(device, len).map(|all| all.len());
            assert!(
                matches!(
                    refused,
                    Err(Error::Alignment {
                        align: 512,
                        most: 256
                    })
                ),
                "{refused:?}"
            );
        }
    });
}

/// For audit finding 6: each of the waits, and that a copy waits for its source.
#[test]
fn copies_are_over_when_they_return() {
    in_many_orders(|device| {
        let [stream, other] = [0; 2].map(|_| Stream::new(device).unwrap());
        let mut host = numbers(10);
        let mut buffer = Buffer::from_slice(&stream, &host).unwrap();
        host.fill(7);
        assert_eq!(buffer.to_vec().unwrap(), numbers(10));
        host.copy_from_slice(&numbers(10));
        buffer.fill_bytes(0).unwrap();
        buffer.copy_from_slice(&host).unwrap();
        host.fill(7);
        buffer.copy_to_slice(&mut host).unwrap();
        assert_eq!(host, numbers(10));
        let mut source = Arriving::new(&other, &numbers(5));
        buffer.copy_range(5, &source.buffer.as_view()).unwrap();
        source.buffer.fill_bytes(0).unwrap();
        let back = buffer.to_vec().unwrap();
        assert_eq!(back, [&numbers(10)[..5], &numbers(5)].concat());
    });
}
