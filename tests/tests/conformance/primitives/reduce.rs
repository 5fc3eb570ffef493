//! Reductions, and what minima, maxima and sums of floats are.

use gpumap::primitives::{Op, Primitives};
use gpumap_tests::Target;

use super::{
    OPS, Tested, assert_same, data, lengths, mix, on_every_device, on_every_element, scanned,
};

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
        // Of equal elements the roundings of many steps do not cancel out.
        for x in [x, vec![0.1; n]] {
            let got = primitives.inclusive_scan(&x, Op::Add).unwrap();
            let (mut exact, mut absolute) = (0i128, 0i128);
            for i in 0..n {
                let whole = (f64::from(x[i]) * scale) as i128;
                exact += whole;
                absolute += whole.abs();
                let (exact, absolute) = (exact as f64 / scale, absolute as f64 / scale);
                assert!(
                    within(f64::from(got[i]), exact, absolute, k, u),
                    "f32 at {i} of {}, {} ...",
                    x[0],
                    x[1]
                );
            }
            let sum = f64::from(primitives.reduce(&x, Op::Add, 0.0).unwrap());
            let all = (exact as f64 / scale, absolute as f64 / scale);
            assert!(within(sum, all.0, all.1, k_sum, u), "f32 reduction");
        }
    });
}
