//! Scans.

use gpumap::primitives::{Op, Primitives};
use gpumap::{Buffer, Error};
use gpumap_tests::Target;

use super::{OPS, TILE_BYTES, Tested, assert_same, data, lengths, mix, on_every_element, scanned};

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
        let n = on.n(TILE_BYTES[0] / size_of::<T>() + 77, 300_007);
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
            // SAFETY: a part of memory that nothing else uses any more.
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
