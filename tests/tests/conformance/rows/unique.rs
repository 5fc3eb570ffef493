//! `primitives::unique`.

use gpumap::bytemuck::{Pod, bytes_of};
use gpumap::primitives::{Primitives, UniqueOutputs};
use gpumap::{Buffer, Error, RowMap};
use gpumap_kernels::kernels::Encoding;
use gpumap_tests::Target;
use gpumap_tests::device::{noting, targets_of_all_kernels};

use super::{Oracle, keys, on_every_key, on_keys, patterns};

/// What `unique` of a batch has to say: keys, inverse, counts, first.
fn expected<K: Pod>(batch: &[K]) -> (Vec<Vec<u8>>, Vec<u32>, Vec<u32>, Vec<u32>) {
    let mut oracle = Oracle::default();
    let (inverse, new) = oracle.insert(batch);
    let mut counts = vec![0; oracle.keys.len()];
    for &row in &inverse {
        counts[row as usize] += 1;
    }
    let first = (0..)
        .zip(&new)
        .filter(|(_, new)| **new == 1)
        .map(|(i, _)| i);
    (oracle.keys, inverse, counts, first.collect())
}

#[test]
fn unique_keys_are_told_whole() {
    fn body<K: Pod>(on: &Target) {
        let primitives = Primitives::new(on.device());
        for (name, numbers) in patterns(on.n(700, 300_000) as u64) {
            let batch = keys::<K>(numbers);
            let (keys, inverse, counts, first) = expected(&batch);
            noting(name, || {
                let unique = primitives.unique(&batch).unwrap();
                let found: Vec<_> = unique
                    .keys
                    .iter()
                    .map(|key| bytes_of(key).to_vec())
                    .collect();
                assert_eq!(found, keys);
                assert_eq!(unique.inverse, inverse);
                assert_eq!((unique.counts, unique.first), (counts, first));
            });
        }
    }
    on_every_key!(body);
}

#[test]
fn a_part_of_a_large_batch_is_no_promise() {
    fn body<K: Pod>(on: &Target) {
        let (primitives, stream) = (Primitives::new(on.device()), on.stream());
        let of_interest = [
            "few",
            "some",
            "many",
            "an eighth",
            "few, then all different",
        ];
        for (name, numbers) in patterns(on.n(2_000, 2_200_000) as u64) {
            if !of_interest.contains(&name) {
                continue;
            }
            let batch = keys::<K>(numbers);
            let (keys, inverse, counts, first) = expected(&batch);
            let (n, len) = (batch.len(), keys.len());
            let words = |len| Buffer::<u32>::zeroed(&stream, len).unwrap();
            let (mut told, mut told_counts, mut told_first) = (words(n), words(len), words(len));
            let outputs = UniqueOutputs::new()
                .inverse(&mut told)
                .first(&mut told_first);
            let outputs = outputs.counts(&mut told_counts);
            let found = primitives.unique_into(&batch, outputs).unwrap();
            noting(name, || {
                assert_eq!(found, len);
                assert!(told.to_vec().unwrap() == inverse);
                assert!(told_counts.to_vec().unwrap() == counts);
                assert!(told_first.to_vec().unwrap() == first);
            });
        }
    }
    on_keys!(body: u64, [u32; 3]);
}

#[test]
fn what_is_wanted_goes_to_buffers() {
    fn body<K: Pod>(on: &Target) {
        let (primitives, stream) = (Primitives::new(on.device()), on.stream());
        let batch = keys::<K>((0..1_000).map(|i| i * i % 313));
        let (all, inverse, counts, first) = expected(&batch);
        let (n, len) = (batch.len(), all.len());
        let on_device = Buffer::from_slice(&stream, &batch).unwrap();
        for wanted in 0..16 {
            let mut told = Buffer::<K>::zeroed(&stream, len).unwrap();
            let words = |len| Buffer::<u32>::zeroed(&stream, len).unwrap();
            let (mut told_inverse, mut told_counts, mut told_first) =
                (words(n), words(len), words(len + 5));
            let mut outputs = UniqueOutputs::new();
            if wanted & 1 != 0 {
                outputs = outputs.keys(&mut told);
            }
            if wanted & 2 != 0 {
                outputs = outputs.inverse(&mut told_inverse);
            }
            if wanted & 4 != 0 {
                outputs = outputs.counts(&mut told_counts);
            }
            if wanted & 8 != 0 {
                outputs = outputs.first(&mut told_first);
            }
            assert_eq!(primitives.unique_into(&on_device, outputs).unwrap(), len);
            let or_zero = |bit: u32, expected: &[u32]| match wanted & bit {
                0 => vec![0; expected.len()],
                _ => expected.to_vec(),
            };
            assert_eq!(told_inverse.to_vec().unwrap(), or_zero(2, &inverse));
            assert_eq!(told_counts.to_vec().unwrap(), or_zero(4, &counts));
            assert_eq!(told_first.to_vec().unwrap()[..len], or_zero(8, &first));
            if wanted & 1 != 0 {
                let told = told.to_vec().unwrap();
                assert!(told.iter().map(bytes_of).eq(all.iter().map(|key| &key[..])));
            }
        }
    }
    on_keys!(body: u32, u64, [u32; 3], [u8; 16]);
}

#[test]
fn outputs_that_are_too_small() {
    fn body<K: Pod>(on: &Target) {
        let (primitives, stream) = (Primitives::new(on.device()), on.stream());
        let batch = keys::<K>((0..40).map(|i| i % 20));
        let words = |len| Buffer::<u32>::zeroed(&stream, len).unwrap();
        let (mut long, mut short) = (words(40), words(39));
        let refused = primitives.unique_into(&batch, UniqueOutputs::new().inverse(&mut short));
        assert!(matches!(
            refused,
            Err(Error::OutputTooSmall {
                needed: 40,
                given: 39
            })
        ));
        let (mut few, mut keys) = (words(19), Buffer::<K>::zeroed(&stream, 19).unwrap());
        for refused in [
            primitives.unique_into(
                &batch,
                UniqueOutputs::new().inverse(&mut long).counts(&mut few),
            ),
            primitives.unique_into(
                &batch,
                UniqueOutputs::new().inverse(&mut long).keys(&mut keys),
            ),
        ] {
            assert!(matches!(
                refused,
                Err(Error::OutputTooSmall {
                    needed: 20,
                    given: 19
                })
            ));
        }
        assert_eq!(long.to_vec().unwrap(), [0; 40]);
    }
    on_keys!(body: u64);
}

/// Every kernel of row maps, small, for `compute-sanitizer`.
#[test]
fn sanitizer_rows() {
    fn body<K: Pod>(on: &Target) {
        let stream = on.stream();
        for n in [1, 31, 32, 257, 1_500] {
            let batch = keys::<K>((0..n).map(|i| i * 7 % (n / 2 + 1)));
            let (all, inverse, counts, first) = expected(&batch);
            // The last places of exact allocations are where mistakes reach outside.
            let on_device = Buffer::from_slice(&stream, &batch).unwrap();
            let unique = Primitives::new(on.device()).unique(&on_device).unwrap();
            assert_eq!(
                (unique.inverse, unique.counts, unique.first),
                (inverse.clone(), counts, first)
            );
            let map = RowMap::<K>::new(on.device()).unwrap();
            // SAFETY: the verb writes to all of it; if not, that is what is looked for.
            let mut rows = unsafe { Buffer::<u32>::uninit(&stream, batch.len()) }.unwrap();
            assert_eq!(map.insert_into(&on_device, &mut rows).unwrap(), all.len());
            assert_eq!(rows.to_vec().unwrap(), inverse);
            // It grows, for keys of which some are there.
            let more = keys::<K>(0..2 * n);
            map.insert(&more).unwrap();
            map.get_into(&on_device, &mut rows).unwrap();
            assert_eq!(rows.to_vec().unwrap(), inverse);
            assert_eq!(map.keys().unwrap().len(), map.len());
        }
    }
    for on in targets_of_all_kernels() {
        if on.encoding() != Some(Encoding::Split) {
            body::<u32>(&on);
            body::<[u64; 3]>(&on);
            body::<u128>(&on);
        }
    }
}
