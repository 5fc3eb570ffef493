//! Many batches.

use std::thread;

use gpumap::bytemuck::{Pod, bytes_of};
use gpumap::primitives::{GroupBy, Primitives};
use gpumap::{Buffer, Error};
use gpumap_tests::Target;
use gpumap_tests::device::noting;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::super::{keys, on_keys, patterns};
use super::{All, Expected, column};

#[test]
fn batches_add_up() {
    fn body<K: Pod>(on: &Target) {
        let groups = GroupBy::<K, All<f32>>::new(on.device()).unwrap();
        let mut expected = Expected::default();
        expected.assert_same(&groups.finish().unwrap());
        for (name, numbers) in patterns(on.n(700, 200_000) as u64) {
            noting(name, || {
                let batch = keys::<K>(numbers);
                let column = column::<f32>(batch.len(), 7);
                let on_device = Buffer::from_slice(&on.stream(), &column).unwrap();
                let grouping = groups.batch(&batch).count().sum(&column).min(&on_device);
                let new = grouping.max(&column).mean(&on_device).run().unwrap();
                assert_eq!(new, expected.add(&batch, &column));
                assert_eq!(
                    (groups.len(), groups.is_empty()),
                    (expected.keys.len(), expected.keys.is_empty())
                );
                expected.assert_same(&groups.finish().unwrap());
            });
        }
        let n = groups.len();
        let stream = on.stream();
        let mut told = Buffer::<K>::zeroed(&stream, n).unwrap();
        let words = |len| Buffer::<u64>::zeroed(&stream, len).unwrap();
        let floats = |len| Buffer::<f32>::zeroed(&stream, len).unwrap();
        let doubles = |len| Buffer::<f64>::zeroed(&stream, len).unwrap();
        let (mut count, mut sum, mut min, mut max, mut mean) =
            (words(n), doubles(n), floats(n), floats(n + 2), doubles(n));
        let places = (
            (&mut count).into(),
            (&mut sum).into(),
            (&mut min).into(),
            (&mut max).into(),
            (&mut mean).into(),
        );
        assert_eq!(groups.finish_into(&mut told, places).unwrap(), n);
        let told = told.to_vec().unwrap();
        assert!(
            told.iter()
                .map(bytes_of)
                .eq(expected.keys.iter().map(|key| &key[..]))
        );
        assert_eq!(count.to_vec().unwrap(), expected.counts);
        assert_eq!(sum.to_vec().unwrap(), expected.sums);
        assert_eq!(min.to_vec().unwrap(), expected.least);
        assert_eq!(max.to_vec().unwrap()[..n], expected.most);

        groups.clear().unwrap();
        Expected::default().assert_same(&groups.finish().unwrap());
        let (batch, column) = (keys::<K>(0..50), column::<f32>(50, 1));
        let grouping = groups.batch(&batch).count().sum(&column).min(&column);
        assert_eq!(grouping.max(&column).mean(&column).run().unwrap(), 50);
        Expected::of(&batch, &column).assert_same(&groups.finish().unwrap());
    }
    on_keys!(body: u32, u64, [u32; 3], [u8; 16], [u64; 8]);
}

/// Aggregates of the first batch are those of all.
#[test]
fn chosen_by_the_first_batch() {
    fn body<K: Pod>(on: &Target) {
        let primitives = Primitives::new(on.device());
        let n = on.n(700, 200_000);
        let (first, second) = (
            keys::<K>((0..n as u64).map(|i| i * i % 301)),
            keys::<K>((0..n as u64).map(|i| i * 7 % 1_013)),
        );
        let (a, b) = (column::<i64>(n, 3), column::<f32>(n, 4));
        let ask = |keys| primitives.group_by(keys).chosen().sum(&a).max(&b);
        let groups = ask(&first).start().unwrap();
        let new = groups
            .batch(&second)
            .chosen()
            .sum(&a)
            .max(&b)
            .run()
            .unwrap();
        let both: Vec<K> = first.iter().chain(&second).copied().collect();
        let (a2, b2) = ([&a[..], &a].concat(), [&b[..], &b].concat());
        let once = primitives.group_by(&both).chosen().sum(&a2).max(&b2);
        let once = once.run().unwrap();
        let of_first = primitives.group_by(&first).count().run().unwrap();
        assert_eq!(new, once.keys.len() - of_first.keys.len());
        let assert_as_once = || {
            let all = groups.finish().unwrap();
            assert_eq!(all.columns, once.columns);
            assert!(
                all.keys
                    .iter()
                    .map(bytes_of)
                    .eq(once.keys.iter().map(bytes_of))
            );
        };
        assert_as_once();

        let batch = || groups.batch(&second).chosen();
        for (refused, expected) in [
            (batch().sum(&a).run(), "sum of i64"),
            (batch().sum(&a).min(&b).run(), "sum of i64, min of f32"),
            (batch().max(&b).sum(&a).run(), "max of f32, sum of i64"),
            (batch().sum(&b).max(&b).run(), "sum of f32, max of f32"),
            (
                batch().count().sum(&a).max(&b).run(),
                "count, sum of i64, max of f32",
            ),
        ] {
            let refused = refused.unwrap_err();
            let text = refused.to_string();
            assert!(matches!(refused, Error::OtherAggregates { .. }), "{text}");
            assert!(
                text.contains(&format!(
                    "for {expected}, and the groups have sum of i64, max of f32:"
                )),
                "{text}"
            );
        }
        let short = batch().sum(&a).max(&b[1..]).run().unwrap_err();
        assert!(matches!(short, Error::LengthMismatch { .. }), "{short}");
        assert_as_once();
        let none = primitives.group_by(&first).chosen().start().unwrap_err();
        assert!(matches!(none, Error::Aggregates { given: 0, .. }), "{none}");

        // Those of a tuple can be started too.
        let groups = primitives.group_by(&first).count().start().unwrap();
        assert_eq!(groups.batch(&first).count().run().unwrap(), 0);
        let twice = of_first.columns.0.iter().map(|count| 2 * count);
        assert!(groups.finish().unwrap().columns.0.into_iter().eq(twice));
    }
    on_keys!(body: u64, [u32; 3]);
}

/// Batches of any keys, in any order, of any length: a few hot ones, many, none.
#[test]
fn any_batches() {
    fn body<K: Pod>(on: &Target) {
        let batches = prop::collection::vec(
            (
                prop::collection::vec(0u64..1 << 40, 0..300),
                1u64..2_000,
                any::<u64>(),
            ),
            1..6,
        );
        let mut runner = TestRunner::new_with_rng(
            Config {
                cases: 24,
                failure_persistence: None,
                ..Config::default()
            },
            proptest::test_runner::TestRng::deterministic_rng(
                proptest::test_runner::RngAlgorithm::ChaCha,
            ),
        );
        runner
            .run(&batches, |batches| {
                let groups = GroupBy::<K, All<i32>>::new(on.device()).unwrap();
                let mut expected = Expected::default();
                for (numbers, distinct, salt) in batches {
                    let batch = keys::<K>(numbers.into_iter().map(|i| i % distinct));
                    let column = column::<i32>(batch.len(), salt % 1_000);
                    let grouping = groups.batch(&batch).count().sum(&column).min(&column);
                    let new = grouping.max(&column).mean(&column).run().unwrap();
                    prop_assert_eq!(new, expected.add(&batch, &column));
                }
                expected.assert_same(&groups.finish().unwrap());
                Ok(())
            })
            .unwrap();
    }
    on_keys!(body: u32, [u32; 2], u128, [u32; 7]);
}

#[test]
fn batches_of_several_threads() {
    fn body<K: Pod + Send + Sync>(on: &Target) {
        let n = on.n(600, 100_000) as u64;
        let groups = GroupBy::<K, All<i64>>::new(on.device()).unwrap();
        let batch = |thread: u64, round: u64| {
            let numbers = (0..n).map(|i| (i * 7 + thread * round) % (n / 3 + round));
            let batch = keys::<K>(numbers);
            let column = column::<i64>(batch.len(), thread + round);
            (batch, column)
        };
        thread::scope(|scope| {
            for thread in 0..3 {
                let (groups, batch) = (&groups, &batch);
                scope.spawn(move || {
                    for round in 0..4 {
                        let (keys, column) = batch(thread, round);
                        let grouping = groups.batch(&keys).count().sum(&column).min(&column);
                        grouping.max(&column).mean(&column).run().unwrap();
                        let seen = groups.finish().unwrap();
                        let counted: u64 = seen.columns.0.iter().sum();
                        assert!(counted.is_multiple_of(n), "a part of a batch");
                    }
                });
            }
        });
        let mut expected = Expected::default();
        for (thread, round) in (0..3).flat_map(|thread| (0..4).map(move |round| (thread, round))) {
            let (keys, column) = batch(thread, round);
            expected.add(&keys, &column);
        }
        // In the order in which the batches came.
        let grouped = groups.finish().unwrap();
        let by_key = |keys: Vec<Vec<u8>>, counts: Vec<u64>, sums: Vec<i64>| {
            let mut all: Vec<_> = keys.into_iter().zip(counts).zip(sums).collect();
            all.sort();
            all
        };
        let keys = grouped
            .keys
            .iter()
            .map(|key| bytes_of(key).to_vec())
            .collect();
        let (counts, sums, ..) = grouped.columns;
        assert_eq!(
            by_key(keys, counts, sums),
            by_key(expected.keys, expected.counts, expected.sums)
        );
    }
    on_keys!(body: u64, [u32; 3]);
}

#[test]
fn a_batch_with_a_column_too_short_changes_nothing() {
    fn body<K: Pod>(on: &Target) {
        let groups = GroupBy::<K, All<u32>>::with_capacity(on.device(), 100).unwrap();
        let (batch, column) = (keys::<K>(0..20), column::<u32>(20, 5));
        let short = &column[..19];
        let grouping = groups.batch(&batch).count().sum(&column).min(&column);
        let refused = grouping.max(short).mean(&column).run();
        assert!(matches!(
            refused,
            Err(Error::LengthMismatch {
                keys: 20,
                values: 19
            })
        ));
        Expected::default().assert_same(&groups.finish().unwrap());
        let mut expected = Expected::default();
        let grouping = groups.batch(&batch).count().sum(&column).min(&column);
        let new = grouping.max(&column).mean(&column).run().unwrap();
        assert_eq!(new, expected.add(&batch, &column));
        expected.assert_same(&groups.finish().unwrap());
        let mut told = Buffer::<K>::zeroed(&on.stream(), 19).unwrap();
        let groups = GroupBy::<K, (gpumap::primitives::Count,)>::new(on.device()).unwrap();
        groups.batch(&batch).count().run().unwrap();
        let mut counts = Buffer::<u64>::zeroed(&on.stream(), 20).unwrap();
        let refused = groups.finish_into(&mut told, ((&mut counts).into(),));
        assert!(matches!(
            refused,
            Err(Error::OutputTooSmall {
                needed: 20,
                given: 19
            })
        ));
    }
    on_keys!(body: u64);
}
