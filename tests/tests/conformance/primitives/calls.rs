//! Whole calls: forward progress, memory, threads, length, and what sanitizers run.

use gpumap::executor::{Config, Schedule};
use gpumap::primitives::{Op, Order, Predicate, Primitives};
use gpumap::{Buffer, Device, Stream};
use gpumap_tests::Target;

use super::filter::check_filter;
use super::{TILE_BYTES, Tested, assert_same, data, on_every_device, on_every_element, scanned};

#[test]
fn look_back_goes_on_whatever_the_order_of_blocks() {
    // Some tiles for each block, on one and several workers and with eight blocks at once in
    // random order.
    let n = 41 * TILE_BYTES[1] / 4 + 5;
    let x = data::<u32>(n, 6);
    let expected = scanned(&x, Op::Add, None);
    let kept: Vec<u32> = x.iter().copied().filter(|&x| x & 3 == 1).collect();
    let workers = |workers| Config {
        workers,
        ..Config::default()
    };
    let random = |seed| Config {
        schedule: Schedule::Random { seed },
        ..Config::default()
    };
    for config in [workers(1), workers(5), random(1), random(2)] {
        let primitives = Primitives::new(&Device::cpu_with(config));
        let got = primitives.inclusive_scan(&x, Op::Add).unwrap();
        assert_same(&got, &expected, "scan");
        let odd = Predicate::Bits { mask: 3, value: 1 };
        let got = primitives.filter(&x, odd, Order::Stable).unwrap();
        assert_same(&got, &kept, "filter");
    }
}

#[test]
fn outputs_are_parts_of_buffers() {
    fn body<T: Tested>(on: &Target) {
        let x = data::<T>(3_000, 9);
        let primitives = Primitives::new(on.device());
        let stream = on.stream();
        let zero = T::default();
        let keep = Predicate::Greater(zero);
        let kept: Vec<T> = x.iter().copied().filter(|&x| x > zero).collect();
        // At no multiple of 16 bytes, with room after.
        for first in [1, 3] {
            let mut out = Buffer::<T>::zeroed(&stream, x.len() + 5).unwrap();
            let part = first..first + x.len();
            let mut view = out.slice_mut(part.clone()).unwrap();
            primitives
                .inclusive_scan_into(&x, Op::Max, &mut view)
                .unwrap();
            primitives
                .exclusive_scan_in_place(&mut view, Op::Max, x[0])
                .unwrap();
            let host = out.to_vec().unwrap();
            let mut expected = scanned(&x, Op::Max, None);
            expected.insert(0, x[0]);
            expected.pop();
            assert_same(&host[part.clone()], &expected, "scans");
            assert_same(&host[..first], &vec![zero; first], "before");
            assert_same(&host[part.end..], &vec![zero; 5 - first], "behind");

            let mut view = out.slice_mut(part.clone()).unwrap();
            let n = primitives
                .filter_into(&x, keep, Order::Stable, &mut view)
                .unwrap();
            let host = view.as_view().to_vec().unwrap();
            assert_same(&host[..n], &kept, "filter");
            assert_same(&host[n..], &expected[n..], "beyond what was kept");
        }
    }
    on_every_element!(body);
}

#[test]
fn calls_in_the_steady_state_allocate_nothing() {
    on_every_device(|on| {
        let device = on.device().with_memory_budget(1 << 30);
        let stream = Stream::new(&device).unwrap();
        let primitives = Primitives::new(&device);
        let x = Buffer::from_slice(&stream, &data::<i32>(100_000, 7)).unwrap();
        let mut out = Buffer::<i32>::zeroed(&stream, x.len()).unwrap();
        let mut call = || {
            primitives
                .inclusive_scan_into(&x, Op::Add, &mut out)
                .unwrap();
            primitives.reduce(&x, Op::Add, 0).unwrap();
            primitives
                .filter_into(&x, Predicate::Less(0), Order::Stable, &mut out)
                .unwrap();
            primitives
                .filter_into(&x, Predicate::Less(0), Order::Any, &mut out)
                .unwrap();
        };
        call();
        let (held, peak) = (device.allocated_bytes(), device.peak_allocated_bytes());
        for _ in 0..3 {
            call();
        }
        assert_eq!(device.allocated_bytes(), held);
        assert_eq!(device.peak_allocated_bytes(), peak);
    });
}

#[test]
fn calls_from_several_threads() {
    on_every_device(|on| {
        let primitives = Primitives::new(on.device());
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let primitives = &primitives;
                scope.spawn(move || {
                    let x = data::<i64>(on.n(9_000, 1_000_000), seed);
                    for _ in 0..3 {
                        let got = primitives.inclusive_scan(&x, Op::Max).unwrap();
                        assert_same(&got, &scanned(&x, Op::Max, None), "beside others");
                    }
                });
            }
        });
    });
}

#[test]
fn more_than_two_to_the_31_elements() {
    on_every_device(|on| {
        if !on.device().is_cuda() {
            println!("{on}: too slow for this length");
            return;
        }
        let (stream, primitives) = (on.stream(), Primitives::new(on.device()));
        let n = (1usize << 31) + 5;
        let mut x = Buffer::<u32>::zeroed(&stream, n).unwrap();
        x.fill_bytes(1).unwrap();
        let one = 0x0101_0101u32;
        let sum = |count: usize| (count as u32).wrapping_mul(one);
        assert_eq!(
            primitives.reduce(&x, Op::Add, 3).unwrap(),
            sum(n).wrapping_add(3)
        );
        for order in [Order::Any, Order::Stable] {
            let mut at = Buffer::<u64>::zeroed(&stream, n).unwrap();
            let equal = Predicate::Equal(one);
            assert_eq!(
                primitives
                    .filter_indices_into(&x, equal, order, &mut at)
                    .unwrap(),
                n
            );
            if order == Order::Stable {
                for start in [0, (1 << 31) - 95, n - 100] {
                    let part = at.slice(start..start + 100).unwrap().to_vec().unwrap();
                    assert!(part.into_iter().eq((start as u64..).take(100)));
                }
            }
        }
        primitives.inclusive_scan_in_place(&mut x, Op::Add).unwrap();
        for start in [0, (1 << 31) - 95, n - 100] {
            let part = x.slice(start..start + 100).unwrap().to_vec().unwrap();
            assert!(
                part.into_iter().eq((start + 1..).take(100).map(sum)),
                "around {start}"
            );
        }
    });
}

#[test]
fn sanitizer_primitives() {
    fn body<T: Tested>(on: &Target) {
        let primitives = Primitives::new(on.device());
        for n in [1, 1_000, 3 * TILE_BYTES[0] / size_of::<T>() + 11] {
            let x = data::<T>(n, 8);
            let got = primitives.inclusive_scan(&x, Op::Add).unwrap();
            assert_same(&got, &scanned(&x, Op::Add, None), "scan");
            let got = primitives.reduce(&x, Op::Max, x[0]).unwrap();
            assert_eq!(
                got.bits(),
                x.iter().fold(x[0], |a, &b| a.combine(b, Op::Max)).bits()
            );
            let zero = T::default();
            check_filter(on, &x, Predicate::Greater(zero), |x| x > zero);
        }
    }
    on_every_element!(body);
}
#[test]
fn sanitizer_primitives_of_many_tiles() {
    // A GPU's blocks work on four tiles each, so that all of their turns come up.
    on_every_device(|on| {
        let primitives = Primitives::new(on.device());
        let blocks = on.n(8, 140);
        let x = data::<u32>(4 * blocks * TILE_BYTES[0] / 4 + 11, 9);
        let got = primitives.inclusive_scan(&x, Op::Add).unwrap();
        assert_same(&got, &scanned(&x, Op::Add, None), "scan");
        let odd = Predicate::Bits { mask: 1, value: 1 };
        let mut kept: Vec<u32> = x.iter().copied().filter(|&x| x & 1 == 1).collect();
        let got = primitives.filter(&x, odd, Order::Stable).unwrap();
        assert_same(&got, &kept, "stable filter");
        let mut got = primitives.filter(&x, odd, Order::Any).unwrap();
        got.sort_unstable();
        kept.sort_unstable();
        assert_same(&got, &kept, "filter");
    });
}
