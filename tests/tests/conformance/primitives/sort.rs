//! Sorts, and the greatest numbers.

use gpumap::primitives::{Direction, Primitives};
use gpumap::{Buffer, Error};
use gpumap_tests::Target;

use super::{Tested, assert_same, data, lengths, on_every_element};

const DIRECTIONS: [Direction; 2] = [Direction::Ascending, Direction::Descending];

/// Numbers with their places, sorted by a stable sort of the host.
fn sorted<T: Tested>(x: &[T], direction: Direction) -> (Vec<T>, Vec<u32>) {
    let mut pairs: Vec<(T, u32)> = x.iter().copied().zip(0..).collect();
    let less = |a: T, b: T| match direction {
        Direction::Ascending => a.less(b),
        Direction::Descending => b.less(a),
    };
    pairs.sort_by(|&(a, _), &(b, _)| less(b, a).cmp(&less(a, b)));
    pairs.into_iter().unzip()
}

#[test]
fn sorts_of_any_length() {
    fn body<T: Tested>(on: &Target) {
        let primitives = Primitives::new(on.device());
        // Several tiles, but of no more keys than a host sorts in a moment; on the executor tiles are small.
        let most = on.n(1_001, 1_000_003) / on.stride(2);
        let lengths = lengths::<T>(on).into_iter().filter(|&n| n <= most);
        for n in lengths.step_by(on.stride(7)).chain([most]) {
            let x = data::<T>(n, n as u64);
            let places: Vec<u32> = (0..n as u32).collect();
            for direction in DIRECTIONS {
                let what = format!("{direction:?} of {n}");
                let (expected, expected_places) = sorted(&x, direction);
                let got = primitives.sort(&x, direction).unwrap();
                assert_same(&got, &expected, &what);
                let (got, told) = primitives.sort_pairs(&x, &places, direction).unwrap();
                assert_same(&got, &expected, &what);
                assert!(told == expected_places, "{what}: not stable");
            }
            let (expected, expected_places) = sorted(&x, Direction::Descending);
            for k in [0, n / 3, n + 5] {
                let (got, places) = primitives.top_k(&x, k).unwrap();
                assert_same(&got, &expected[..k.min(n)], "the greatest");
                assert!(places == expected_places[..k.min(n)], "their places");
            }
        }
    }
    on_every_element!(body);
}

#[test]
fn sorts_of_parts_of_buffers() {
    fn body<T: Tested>(on: &Target) {
        let (primitives, stream) = (Primitives::new(on.device()), on.stream());
        let n = on.n(5_003, 300_007) / on.stride(4);
        let x = data::<T>(n, 1);
        let from = Buffer::from_slice(&stream, &x).unwrap();
        let numbers: Vec<u64> = (0..n as u64).map(|i| i << 33).collect();
        let values = Buffer::from_slice(&stream, &numbers).unwrap();
        let parts = [(1, n), (2, n - 1), (3, n - 7), (0, n)];
        for (start, end) in parts.into_iter().step_by(on.stride(3)) {
            let (part, beside) = (from.slice(start..end), values.slice(start..end));
            let (part, beside) = (part.unwrap(), beside.unwrap());
            let (expected, places) = sorted(&x[start..end], Direction::Ascending);
            let mut keys = Buffer::from_slice(&stream, &vec![T::random(3); n + 2]).unwrap();
            let mut told = Buffer::from_slice(&stream, &vec![7u64; n + 2]).unwrap();
            let ascending = Direction::Ascending;
            primitives
                .sort_pairs_into(&part, &beside, ascending, &mut keys, &mut told)
                .unwrap();
            let (got, told) = (keys.to_vec().unwrap(), told.to_vec().unwrap());
            assert_same(&got[..end - start], &expected, "pairs");
            let of = |place: &u32| numbers[start + *place as usize];
            assert!(
                told[..end - start]
                    .iter()
                    .copied()
                    .eq(places.iter().map(of))
            );
            assert!(
                told[end - start..].iter().all(|&told| told == 7),
                "behind them"
            );
            let mut alone = Buffer::from_slice(&stream, &vec![T::random(3); n]).unwrap();
            primitives.sort_into(&part, ascending, &mut alone).unwrap();
            assert_same(&alone.to_vec().unwrap()[..end - start], &expected, "alone");
            let (expected, places) = sorted(&x[start..end], Direction::Descending);
            let k = (end - start) / 3;
            let mut told = Buffer::from_slice(&stream, &vec![7u32; k + 2]).unwrap();
            let found = primitives.top_k_into(&part, k, &mut keys, &mut told);
            assert_eq!(found.unwrap(), k);
            assert_same(&keys.to_vec().unwrap()[..k], &expected[..k], "the greatest");
            let told = told.to_vec().unwrap();
            assert_eq!((&told[..k], &told[k..]), (&places[..k], &[7, 7][..]));
        }
    }
    on_every_element!(body);
}

#[test]
fn floats_that_are_no_numbers() {
    fn body<T: Tested>(on: &Target) {
        // All patterns of the highest bits, and some of the lowest.
        let width = 8 * size_of::<T>() as u32;
        let patterns = (0..1u64 << 12)
            .flat_map(|high| [0, 1, 5].map(|low| high.reverse_bits() >> 52 << (width - 12) | low));
        let x: Vec<T> = patterns
            .map(|bits| {
                let bytes = bits.to_le_bytes();
                gpumap::bytemuck::pod_read_unaligned(&bytes[..size_of::<T>()])
            })
            .collect();
        let primitives = Primitives::new(on.device());
        for direction in DIRECTIONS {
            let got = primitives.sort(&x, direction).unwrap();
            assert_same(&got, &sorted(&x, direction).0, "patterns");
        }
    }
    on_every_element!(body);
}

#[test]
fn lengths_and_room_are_checked() {
    fn body<T: Tested>(on: &Target) {
        let (primitives, stream) = (Primitives::new(on.device()), on.stream());
        let x = data::<T>(10, 1);
        let refused = primitives.sort_pairs(&x, &[1u32; 9], Direction::Ascending);
        assert!(matches!(refused, Err(Error::LengthMismatch { .. })));
        let mut small = Buffer::<T>::zeroed(&stream, 9).unwrap();
        let refused = primitives.sort_into(&x, Direction::Ascending, &mut small);
        assert!(matches!(refused, Err(Error::OutputTooSmall { .. })));
        let mut places = Buffer::<u32>::zeroed(&stream, 20).unwrap();
        let refused = primitives.top_k_into(&x, 10, &mut small, &mut places);
        assert!(matches!(refused, Err(Error::OutputTooSmall { .. })));
        assert!(small.to_vec().unwrap().iter().all(|x| x.bits() == 0));
        let mut enough = Buffer::<T>::zeroed(&stream, 20).unwrap();
        let all = primitives.top_k_into(&x, 20, &mut enough, &mut places);
        assert_eq!(all.unwrap(), 10);
    }
    on_every_element!(body);
}
