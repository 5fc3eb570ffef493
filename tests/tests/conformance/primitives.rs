//! Scans, reductions and filters against plain Rust, for every element type, on every back end.

use gpumap::executor::{Config, Schedule};
use gpumap::primitives::{Element, Op, Order, Predicate, Primitives};
use gpumap::{Buffer, Device, Error, Stream};
use gpumap_tests::Target;
use gpumap_tests::device::{noting, targets};

/// Bytes per tile of the largest blocks, for lengths around it; others have half of it.
const TILE_BYTES: usize = 32 << 10;

/// Where bodies run: on the CPU once, for the primitives know no encodings.
fn on_every_device(body: impl Fn(&Target)) {
    let mut seen_cpu = false;
    for target in targets() {
        if !target.device().is_cuda() && std::mem::replace(&mut seen_cpu, true) {
            continue;
        }
        noting(&target.to_string(), || body(target));
    }
}

/// A type under test: how to make one of random bits, and what it is in plain Rust.
trait Tested: Element + std::fmt::Debug + Default {
    fn random(bits: u64) -> Self;
    fn add(self, other: Self) -> Self;
    fn less(self, other: Self) -> bool;
    fn bits(self) -> u64;
    /// What minima and maxima are compared with at the start.
    fn extreme(op: Op) -> Self;

    fn combine(self, other: Self, op: Op) -> Self {
        match op {
            Op::Add => self.add(other),
            Op::Min if other.less(self) => other,
            Op::Max if self.less(other) => other,
            _ => self,
        }
    }
}

macro_rules! tested {
    ($($t:ty: $random:expr, $add:expr, $less:expr, $bits:expr, $min:expr, $max:expr;)*) => {$(
        impl Tested for $t {
            fn random(bits: u64) -> Self {
                let random: fn(u64) -> $t = $random;
                random(bits)
            }
            fn add(self, other: Self) -> Self {
                let add: fn($t, $t) -> $t = $add;
                add(self, other)
            }
            fn less(self, other: Self) -> bool {
                let less: fn($t, $t) -> bool = $less;
                less(self, other)
            }
            fn bits(self) -> u64 {
                let bits: fn($t) -> u64 = $bits;
                bits(self)
            }
            fn extreme(op: Op) -> Self {
                match op {
                    Op::Add => <$t>::default(),
                    Op::Min => $max,
                    _ => $min,
                }
            }
        }
    )*};
}

// Floats are whole numbers small enough that sums are exact: their rounding has tests of its own.
tested! {
    u32: |b| b as u32, u32::wrapping_add, |a, b| a < b, u64::from, u32::MIN, u32::MAX;
    i32: |b| b as i32, i32::wrapping_add, |a, b| a < b, |a| a as u64, i32::MIN, i32::MAX;
    u64: |b| b, u64::wrapping_add, |a, b| a < b, |a| a, u64::MIN, u64::MAX;
    i64: |b| b as i64, i64::wrapping_add, |a, b| a < b, |a| a as u64, i64::MIN, i64::MAX;
    f32: |b| (b % 3) as f32 - 1.0, |a, b| a + b, |a, b| a.total_cmp(&b).is_lt(),
        |a| u64::from(a.to_bits()), f32::NEG_INFINITY, f32::INFINITY;
    f64: |b| (b % 101) as f64 - 50.0, |a, b| a + b, |a, b| a.total_cmp(&b).is_lt(),
        |a| a.to_bits(), f64::NEG_INFINITY, f64::INFINITY;
}

/// Runs `body::<T>(&Target)` for every element type, on every device.
macro_rules! on_every_element {
    ($body:ident) => {
        on_every_device(|target| {
            noting("u32", || $body::<u32>(target));
            noting("i32", || $body::<i32>(target));
            noting("f32", || $body::<f32>(target));
            noting("u64", || $body::<u64>(target));
            noting("i64", || $body::<i64>(target));
            noting("f64", || $body::<f64>(target));
        })
    };
}

fn mix(i: u64) -> u64 {
    let h = (i ^ (i >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (h ^ (h >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (h >> 32)
}

fn data<T: Tested>(n: usize, seed: u64) -> Vec<T> {
    (0..n as u64)
        .map(|i| T::random(mix(i ^ seed << 40)))
        .collect()
}

fn lengths<T>(target: &Target) -> Vec<usize> {
    let tile = TILE_BYTES / size_of::<T>();
    let most = target.n(3 * tile + 1001, 20_000_003);
    vec![
        0,
        1,
        2,
        3,
        4,
        5,
        31,
        33,
        127,
        129,
        1_000,
        tile - 1,
        tile,
        tile + 1,
        most,
    ]
}

fn assert_same<T: Tested>(got: &[T], expected: &[T], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}: length");
    let wrong = got
        .iter()
        .zip(expected)
        .position(|(a, b)| a.bits() != b.bits());
    if let Some(i) = wrong {
        panic!("{what}: at {i} {:?} instead of {:?}", got[i], expected[i]);
    }
}

fn scanned<T: Tested>(x: &[T], op: Op, exclusive: Option<T>) -> Vec<T> {
    let mut sum = exclusive;
    x.iter()
        .map(|&x| {
            let before = sum;
            sum = Some(sum.map_or(x, |sum| sum.combine(x, op)));
            if exclusive.is_some() { before } else { sum }.unwrap()
        })
        .collect()
}

const OPS: [Op; 3] = [Op::Add, Op::Min, Op::Max];

#[test]
fn scans_of_any_length() {
    fn body<T: Tested>(on: &Target) {
        let primitives = Primitives::new(on.device());
        for n in lengths::<T>(on) {
            let x = data::<T>(n, n as u64);
            for op in OPS {
                let what = format!("{op:?} of {n}");
                let got = primitives.inclusive_scan(&x, op).unwrap();
                assert_same(&got, &scanned(&x, op, None), &what);
                let init = T::random(mix(7));
                let got = primitives.exclusive_scan(&x, op, init).unwrap();
                assert_same(&got, &scanned(&x, op, Some(init)), &what);
            }
        }
    }
    on_every_element!(body);
}

#[test]
fn scans_of_parts_of_buffers_and_in_place() {
    fn body<T: Tested>(on: &Target) {
        let primitives = Primitives::new(on.device());
        let stream = on.stream();
        let n = on.n(TILE_BYTES / size_of::<T>() + 77, 300_007);
        let x = data::<T>(n, 1);
        let from = Buffer::from_slice(&stream, &x).unwrap();
        // No start is aligned to more than an element.
        for (start, end) in [(1, n), (2, n - 1), (3, n - 7), (0, n - 3)] {
            let part = from.slice(start..end).unwrap();
            let expected = scanned(&x[start..end], Op::Add, None);
            let mut out = Buffer::from_slice(&stream, &vec![T::random(3); n + 2]).unwrap();
            primitives
                .inclusive_scan_into(&part, Op::Add, &mut out)
                .unwrap();
            let out = out.to_vec().unwrap();
            assert_same(&out[..end - start], &expected, "into a longer output");
            assert!(
                out[end - start..]
                    .iter()
                    .all(|x| x.bits() == T::random(3).bits())
            );

            let part = Buffer::from_slice(&stream, &x[start..end]).unwrap();
            let (ptr, len) = (part.into_raw_parts().0, end - start);
            let cut = 1 + start % 2;
            // SAFETY: a part of memory that nobody else uses any more.
            let mut place =
                unsafe { Buffer::from_raw_parts(&stream, ptr.wrapping_add(cut), len - cut) }
                    .unwrap();
            let init = T::random(mix(9));
            primitives
                .exclusive_scan_in_place(&mut place, Op::Max, init)
                .unwrap();
            let expected = scanned(&x[start + cut..end], Op::Max, Some(init));
            assert_same(&place.to_vec().unwrap(), &expected, "exclusive in place");
        }
        let mut place = Buffer::from_slice(&stream, &x).unwrap();
        primitives
            .inclusive_scan_in_place(&mut place, Op::Add)
            .unwrap();
        assert_same(
            &place.to_vec().unwrap(),
            &scanned(&x, Op::Add, None),
            "in place",
        );
        let mut short = Buffer::<T>::zeroed(&stream, n - 1).unwrap();
        let refused = primitives.inclusive_scan_into(&from, Op::Add, &mut short);
        assert!(
            matches!(refused, Err(Error::OutputTooSmall { needed, given }) if needed == n && given == n - 1)
        );
        assert!(short.to_vec().unwrap().iter().all(|x| x.bits() == 0));
    }
    on_every_element!(body);
}

#[test]
fn reductions_of_any_length() {
    fn body<T: Tested>(on: &Target) {
        let primitives = Primitives::new(on.device());
        for n in lengths::<T>(on).into_iter().chain([on.n(140_001, 140_001)]) {
            let x = data::<T>(n, 2);
            for op in OPS {
                for init in [T::extreme(op), T::random(mix(n as u64))] {
                    let got = primitives.reduce(&x, op, init).unwrap();
                    let expected = x.iter().fold(init, |sum, &x| sum.combine(x, op));
                    assert_eq!(
                        got.bits(),
                        expected.bits(),
                        "{op:?} of {n}: {got:?}, {expected:?}"
                    );
                }
            }
        }
    }
    on_every_element!(body);
}

#[test]
fn minima_and_maxima_of_special_floats() {
    on_every_device(|on| {
        let primitives = Primitives::new(on.device());
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f32::NAN,
            -f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MIN_POSITIVE,
            f32::from_bits(1),
            -f32::from_bits(1),
        ];
        for seed in 0..50 {
            let x: Vec<f32> = (0..40)
                .map(|i| special[mix(i + 100 * seed) as usize % special.len()])
                .collect();
            for op in [Op::Min, Op::Max] {
                let got = primitives.inclusive_scan(&x, op).unwrap();
                assert_same(&got, &scanned(&x, op, None), "special floats");
            }
            let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let got = primitives.inclusive_scan(&wide, Op::Min).unwrap();
            assert_same(&got, &scanned(&wide, Op::Min, None), "special floats");
        }
        // Nothing is added to a first element, not even to minus zero.
        let got = primitives
            .inclusive_scan(&[-0.0f32, -0.0, 0.0], Op::Add)
            .unwrap();
        assert_same(&got, &[-0.0, -0.0, 0.0], "minus zero");
    });
}

/// The documented bound: `k u / (1 - k u)` of the sum of absolute values.
fn within(got: f64, exact: f64, absolute: f64, k: f64, u: f64) -> bool {
    // The reference itself is rounded once.
    (got - exact).abs() <= (k * u / (1.0 - k * u)) * absolute + exact.abs() * f64::EPSILON
}

#[test]
fn float_sums_keep_to_their_bound() {
    on_every_device(|on| {
        let primitives = Primitives::new(on.device());
        let n = on.n(50_000, 10_000_000);
        // Multiples of 2^-40 below 2^13 in size: sums of their multiples in 128 bits are exact.
        let whole = |i: usize| (mix(i as u64) as i64 >> 11) as i128;
        let value = |i: usize| whole(i) as f64 / (1u64 << 40) as f64;
        let scale = (1u64 << 40) as f64;
        let x: Vec<f64> = (0..n).map(value).collect();
        let k = 64.0 + (n as f64 / 1024.0).ceil();
        let got = primitives.inclusive_scan(&x, Op::Add).unwrap();
        let (mut exact, mut absolute) = (0i128, 0i128);
        for (i, &got) in got.iter().enumerate() {
            exact += whole(i);
            absolute += whole(i).abs();
            let (exact, absolute) = (exact as f64 / scale, absolute as f64 / scale);
            assert!(
                within(got, exact, absolute, k, f64::EPSILON / 2.0),
                "f64 at {i}"
            );
        }
        let sum = primitives.reduce(&x, Op::Add, 0.0).unwrap();
        let k_sum = 128.0 + n as f64 / (1 << 23) as f64;
        let all = (exact as f64 / scale, absolute as f64 / scale);
        assert!(
            within(sum, all.0, all.1, k_sum, f64::EPSILON / 2.0),
            "f64 reduction"
        );
        assert_eq!(
            sum.to_bits(),
            primitives.reduce(&x, Op::Add, 0.0).unwrap().to_bits()
        );

        let x: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        let u = f64::from(f32::EPSILON) / 2.0;
        let got = primitives.inclusive_scan(&x, Op::Add).unwrap();
        let (mut exact, mut absolute) = (0i128, 0i128);
        for i in 0..n {
            let whole = (f64::from(x[i]) * scale) as i128;
            exact += whole;
            absolute += whole.abs();
            let (exact, absolute) = (exact as f64 / scale, absolute as f64 / scale);
            assert!(
                within(f64::from(got[i]), exact, absolute, k, u),
                "f32 at {i}"
            );
        }
        let sum = f64::from(primitives.reduce(&x, Op::Add, 0.0).unwrap());
        let all = (exact as f64 / scale, absolute as f64 / scale);
        assert!(within(sum, all.0, all.1, k_sum, u), "f32 reduction");
    });
}

/// Filters in all three ways and both orders, with the elements that `keep` says.
fn check_filter<T: Tested>(
    on: &Target,
    x: &[T],
    predicate: Predicate<T>,
    keep: impl Fn(T) -> bool,
) {
    let primitives = Primitives::new(on.device());
    let what = format!("{predicate:?} of {}", x.len());
    let kept: Vec<u64> = (0..x.len() as u64)
        .filter(|&i| keep(x[i as usize]))
        .collect();
    let values: Vec<T> = kept.iter().map(|&i| x[i as usize]).collect();
    let flags: Vec<u8> = x
        .iter()
        .enumerate()
        .map(|(i, &x)| if keep(x) { i as u8 | 1 } else { 0 })
        .collect();
    let sorted = |mut all: Vec<T>| {
        all.sort_unstable_by_key(|x| x.bits());
        all
    };
    let got = primitives.filter(x, predicate, Order::Stable).unwrap();
    assert_same(&got, &values, &what);
    let got = primitives.filter(x, predicate, Order::Any).unwrap();
    assert_same(&sorted(got), &sorted(values.clone()), &what);
    let got = primitives.filter_by_flag(x, &flags, Order::Stable).unwrap();
    assert_same(&got, &values, &what);
    let got = primitives.filter_by_flag(x, &flags, Order::Any).unwrap();
    assert_same(&sorted(got), &sorted(values.clone()), &what);
    let got = primitives
        .filter_indices(x, predicate, Order::Stable)
        .unwrap();
    assert_eq!(got, kept, "{what}");
    let mut got = primitives.filter_indices(x, predicate, Order::Any).unwrap();
    got.sort_unstable();
    assert_eq!(got, kept, "{what}");
}

#[test]
fn filters_of_any_length_and_share() {
    fn body<T: Tested>(on: &Target) {
        for n in lengths::<T>(on) {
            let x = data::<T>(n, 3);
            let zero = T::default();
            check_filter(on, &x, Predicate::Greater(zero), |x| x > zero);
            let (low, high) = (T::extreme(Op::Max), T::extreme(Op::Min));
            check_filter(on, &x, Predicate::Between { low, high }, |_| true);
            check_filter(on, &x, Predicate::Outside { low, high }, |_| false);
            if let Some(&one) = x.get(n / 3) {
                check_filter(on, &x, Predicate::Equal(one), |x| x == one);
                check_filter(on, &x, Predicate::NotEqual(one), |x| x != one);
                check_filter(on, &x, Predicate::LessOrEqual(one), |x| x <= one);
            }
        }
    }
    on_every_element!(body);
}

#[test]
fn filters_by_bits_and_of_special_floats() {
    on_every_device(|on| {
        let x = data::<u64>(5_000, 4);
        check_filter(on, &x, Predicate::Bits { mask: 7, value: 5 }, |x| {
            x & 7 == 5
        });
        check_filter(
            on,
            &x,
            Predicate::NotBits {
                mask: 1 << 63,
                value: 0,
            },
            |x| x >> 63 != 0,
        );
        let x = data::<u32>(5_000, 4);
        check_filter(
            on,
            &x,
            Predicate::Bits {
                mask: 0x8001,
                value: 0x8000,
            },
            |x| x & 0x8001 == 0x8000,
        );
        let special = [
            0.0,
            -0.0,
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1.0,
            -1.0,
        ];
        let x: Vec<f64> = (0..999)
            .map(|i| special[mix(i) as usize % special.len()])
            .collect();
        for c in special {
            check_filter(on, &x, Predicate::Less(c), |x| x < c);
            check_filter(on, &x, Predicate::GreaterOrEqual(c), |x| x >= c);
            check_filter(on, &x, Predicate::Equal(c), |x| x == c);
            check_filter(on, &x, Predicate::NotEqual(c), |x| x != c);
        }
    });
}

#[test]
fn filters_of_parts_into_outputs_of_any_room() {
    fn body<T: Tested>(on: &Target) {
        let primitives = Primitives::new(on.device());
        let stream = on.stream();
        let n = on.n(2 * TILE_BYTES / size_of::<T>() + 5, 1_000_003);
        let x = data::<T>(n, 5);
        let whole = Buffer::from_slice(&stream, &x).unwrap();
        let part = whole.slice(3..n).unwrap();
        let zero = T::default();
        let keep: Vec<T> = x[3..].iter().copied().filter(|&x| x > zero).collect();
        let canary = T::random(mix(11));
        for room in [
            0,
            1,
            keep.len() / 2,
            keep.len() - 1,
            keep.len(),
            keep.len() + 3,
        ] {
            for order in [Order::Any, Order::Stable] {
                // The output, too, begins at an odd place.
                let all = Buffer::from_slice(&stream, &vec![canary; keep.len() + 9]).unwrap();
                let (ptr, len) = all.into_raw_parts();
                // SAFETY: memory that nobody else uses any more, seen as a part and as a whole.
                let (mut out, all) = unsafe {
                    (
                        Buffer::from_raw_parts(&stream, ptr.wrapping_add(1), room).unwrap(),
                        Buffer::from_raw_parts(&stream, ptr, len).unwrap(),
                    )
                };
                let got = primitives.filter_into(&part, Predicate::Greater(zero), order, &mut out);
                match got {
                    Ok(count) => assert!(count == keep.len() && room >= count),
                    Err(Error::OutputTooSmall { needed, given }) => {
                        assert!(needed == keep.len() && given == room && room < needed);
                    }
                    other => panic!("{other:?}"),
                }
                let all = all.to_vec().unwrap();
                assert_eq!(all[0].bits(), canary.bits(), "in front of the output");
                let written = room.min(keep.len());
                assert!(
                    all[1 + written..].iter().all(|x| x.bits() == canary.bits()),
                    "beyond it"
                );
                if order == Order::Stable {
                    assert_same(&all[1..1 + written], &keep[..written], "the first ones");
                }
            }
        }
        let flags = vec![1u8; n];
        let refused = primitives.filter_by_flag(&part, &flags, Order::Any);
        assert!(
            matches!(refused, Err(Error::LengthMismatch { keys, values }) if keys == n - 3 && values == n)
        );
    }
    on_every_element!(body);
}

#[test]
fn look_back_goes_on_whatever_the_order_of_blocks() {
    // Some forty tiles, so that walks of more than a window come up, on one and several workers
    // and with eight blocks at once in random order.
    let n = 41 * TILE_BYTES / 4 + 5;
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
        let mut x = Buffer::<u32>::uninit(&stream, n).unwrap();
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
        for n in [1, 1_000, 3 * TILE_BYTES / size_of::<T>() + 11] {
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
