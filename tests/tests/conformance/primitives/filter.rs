//! Filters.

use gpumap::primitives::{Op, Order, Predicate, Primitives};
use gpumap::{Buffer, Error};
use gpumap_tests::Target;
use gpumap_tests::pairs::{Celsius, Cents};

use super::{
    TILE_BYTES, Tested, assert_same, data, lengths, mix, on_every_device, on_every_element,
};

/// Filters in all three ways and both orders, with the elements that `keep` says.
pub(super) fn check_filter<T: Tested>(
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
fn newtypes_are_what_their_numbers_are() {
    on_every_device(|on| {
        let primitives = Primitives::new(on.device());
        let x: Vec<i64> = data::<i64>(5_000, 6).iter().map(|x| x >> 20).collect();
        let cents: Vec<Cents> = x.iter().copied().map(Cents).collect();
        let kept = primitives
            .filter(&cents, Predicate::Less(Cents(0)), Order::Stable)
            .unwrap();
        let expected = x.iter().copied().filter(|&x| x < 0).map(Cents);
        assert!(kept.into_iter().eq(expected));
        let at = primitives
            .filter_indices(&cents, Predicate::Equal(cents[77]), Order::Stable)
            .unwrap();
        assert!(at.contains(&77));

        let sum = primitives.reduce(&cents, Op::Add, Cents(0)).unwrap();
        assert_eq!(sum, Cents(x.iter().sum()));
        let least = primitives.reduce(&cents, Op::Min, Cents(0)).unwrap();
        assert_eq!(Some(least.0), x.iter().copied().min());
        let scanned = primitives
            .exclusive_scan(&cents, Op::Max, Cents(i64::MIN))
            .unwrap();
        assert_eq!(scanned[0], Cents(i64::MIN));
        assert_eq!(scanned[99].0, *x[..99].iter().max().unwrap());

        let degrees: Vec<Celsius> = data::<f32>(5_000, 6).into_iter().map(Celsius).collect();
        let cold = Predicate::LessOrEqual(Celsius(-0.0));
        let kept = primitives.filter(&degrees, cold, Order::Stable).unwrap();
        assert!(
            kept.into_iter()
                .eq(degrees.into_iter().filter(|x| x.0 <= 0.0))
        );
    });
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
        let n = on.n(2 * TILE_BYTES[0] / size_of::<T>() + 5, 1_000_003);
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
                // SAFETY: memory that nothing else uses any more, seen as a part and as a whole.
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
