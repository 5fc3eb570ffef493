//! Joins, beside a `HashMap` of the keys' bytes.

use std::collections::HashMap;
use std::thread;

use gpumap::bytemuck::{Pod, bytes_of};
use gpumap::primitives::{JoinTable, Pairs, Primitives};
use gpumap::rows::NO_ROW;
use gpumap::{Buffer, Device, Error, Stream};
use gpumap_kernels::kernels::Encoding;
use gpumap_tests::Target;
use gpumap_tests::device::{noting, targets_of_all_kernels};
use gpumap_tests::memory::{BUDGET, with_left};
use gpumap_tests::scheduled::on_random_schedules;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::{keys, on_every_key, on_keys, patterns};

/// What joins find: sorted pairs of a left join, in which the others are.
fn expected<K: Pod>(left: &[K], right: &[K]) -> Vec<(u32, u32)> {
    let mut places = HashMap::<&[u8], Vec<u32>>::new();
    for (place, key) in (0..).zip(right) {
        places.entry(bytes_of(key)).or_default().push(place);
    }
    let mut pairs = Vec::new();
    for (place, key) in (0..).zip(left) {
        match places.get(bytes_of(key)) {
            Some(found) => pairs.extend(found.iter().map(|&right| (place, right))),
            None => pairs.push((place, NO_ROW)),
        }
    }
    pairs
}

/// Pairs, those of one place on the left sorted; panics if the left side is not in order.
fn sorted(pairs: Pairs) -> Vec<(u32, u32)> {
    assert!(pairs.left.is_sorted(), "in the order of the left side");
    assert_eq!(pairs.left.len(), pairs.right.len());
    let mut pairs: Vec<_> = pairs.left.into_iter().zip(pairs.right).collect();
    pairs.sort_unstable();
    pairs
}

/// All four joins of a left side with a table.
fn check<K: Pod>(table: &JoinTable<K>, left: &[K], right: &[K]) {
    let all = expected(left, right);
    let (there, absent): (Vec<_>, Vec<_>) = all.iter().partition(|(_, right)| *right != NO_ROW);
    assert_eq!(sorted(table.join(left).inner().unwrap()), there);
    assert_eq!(sorted(table.join(left).left().unwrap()), all);
    let mut semi: Vec<u32> = there.iter().map(|pair| pair.0).collect();
    semi.dedup();
    assert_eq!(table.join(left).semi().unwrap(), semi);
    let anti: Vec<u32> = absent.iter().map(|pair| pair.0).collect();
    assert_eq!(table.join(left).anti().unwrap(), anti);
}

#[test]
fn all_kinds() {
    fn body<K: Pod>(on: &Target) {
        let n = on.n(300, 20_000) as u64;
        for (of_right, right) in patterns(n) {
            // Pairs of one key with itself are as many as its square.
            let right = keys::<K>(right.into_iter().take(200));
            let table = JoinTable::new(on.device(), &right).unwrap();
            assert_eq!(
                (table.len(), table.is_empty()),
                (right.len(), right.is_empty())
            );
            for (of_left, left) in patterns(n) {
                let left = keys::<K>(left);
                noting(&format!("{of_left} with {of_right}"), || {
                    check(&table, &left, &right);
                });
            }
        }
    }
    on_every_key!(body);
}

#[test]
fn two_arrays() {
    fn body<K: Pod>(on: &Target) {
        let (primitives, stream) = (Primitives::new(on.device()), on.stream());
        let n = on.n(2_000, 200_000) as u64;
        let left = keys::<K>((0..n).map(|i| i * 7 % (n / 2)));
        let right = keys::<K>((0..n).map(|i| i * 11 % (n / 3)));
        let all = expected(&left, &right);
        assert_eq!(sorted(primitives.join(&left, &right).left().unwrap()), all);
        // The same from and to the device.
        let [of_left, of_right] =
            [&left, &right].map(|side| Buffer::from_slice(&stream, side).unwrap());
        let words = |len| Buffer::<u32>::zeroed(&stream, len).unwrap();
        let (mut to_left, mut to_right) = (words(all.len()), words(all.len() + 1));
        let join = primitives.join(&of_left, &of_right);
        assert_eq!(
            join.left_into(&mut to_left, &mut to_right).unwrap(),
            all.len()
        );
        let mut right_places = to_right.to_vec().unwrap();
        assert_eq!(right_places.pop(), Some(0));
        let pairs = Pairs {
            left: to_left.to_vec().unwrap(),
            right: right_places,
        };
        assert_eq!(sorted(pairs), all);
        let there = all.iter().filter(|pair| pair.1 != NO_ROW).count();
        let join = primitives.join(&of_left, &of_right);
        assert_eq!(join.inner_into(&mut to_left, &mut to_right).unwrap(), there);
        // To the host: one side, or both, whose other places stay.
        let (mut to_host, mut beside) = (vec![7; there + 1], vec![7; there + 2]);
        let join = primitives.join(&of_left, &of_right);
        assert_eq!(join.inner_into(&mut to_host, &mut beside).unwrap(), there);
        assert!(
            to_host[there..]
                .iter()
                .chain(&beside[there..])
                .all(|&it| it == 7)
        );
        let join = primitives.join(&left, &right);
        assert_eq!(join.inner_into(&mut to_host, &mut to_right).unwrap(), there);
        let right_places = to_right.slice(..there).unwrap().to_vec().unwrap();
        to_host.truncate(there);
        let pairs = Pairs {
            left: to_host,
            right: right_places,
        };
        let matched = all.iter().copied().filter(|pair| pair.1 != NO_ROW);
        assert_eq!(sorted(pairs), matched.collect::<Vec<_>>());
        let semi = primitives.join(&of_left, &of_right).semi().unwrap();
        let anti = primitives.join(&of_left, &of_right).anti().unwrap();
        assert_eq!(semi.len() + anti.len(), left.len());
        assert_eq!(
            primitives
                .join(&of_left, &right)
                .semi_into(&mut to_left)
                .unwrap(),
            semi.len()
        );
        assert_eq!(to_left.slice(..semi.len()).unwrap().to_vec().unwrap(), semi);
        assert_eq!(
            primitives
                .join(&left, &of_right)
                .anti_into(&mut to_left)
                .unwrap(),
            anti.len()
        );
        assert_eq!(to_left.slice(..anti.len()).unwrap().to_vec().unwrap(), anti);
    }
    on_keys!(body: u32, u64, [u32; 3], [u8; 16]);
}

/// Hot keys beside keys without pairs: shares of warps end within keys, and have many strips.
#[test]
fn shares_of_any_size() {
    fn body<K: Pod>(on: &Target) {
        let n = on.n(6_000, 300_000) as u64;
        for (hot, times) in [(1, 3_000), (40, 70), (3, 0)] {
            let right = keys::<K>((0..times).map(|i| i % hot).chain(1_000_000..1_000_040));
            let table = JoinTable::new(on.device(), &right).unwrap();
            // A few of the left side have pairs.
            for every in [1_000, 37, 1] {
                let left = keys::<K>(
                    (0..n / hot.min(2))
                        .take(if every == 1 { 90 } else { n as usize })
                        .map(|i| match i % every {
                            0 => i / every % hot,
                            _ => 2_000_000 + i,
                        }),
                );
                check(&table, &left, &right);
            }
        }
    }
    on_keys!(body: u64, [u32; 3]);
}

/// Arrays of any keys, of any length.
#[test]
fn any_arrays() {
    fn body<K: Pod>(on: &Target) {
        let side = || prop::collection::vec(0u64..1 << 40, 0..300);
        let sides = (side(), side(), 1u64..600);
        let config = Config {
            cases: 40,
            failure_persistence: None,
            ..Config::default()
        };
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        TestRunner::new_with_rng(config, rng)
            .run(&sides, |(left, right, distinct)| {
                let [left, right] =
                    [left, right].map(|side| keys::<K>(side.into_iter().map(|i| i % distinct)));
                check(&JoinTable::new(on.device(), &right).unwrap(), &left, &right);
                Ok(())
            })
            .unwrap();
    }
    on_keys!(body: u32, [u32; 2], u128, [u32; 7]);
}

#[test]
fn threads_share_a_table() {
    fn body<K: Pod + Send + Sync>(on: &Target) {
        let right = keys::<K>((0..900).map(|i| i % 400));
        let table = JoinTable::new(on.device(), &right).unwrap();
        thread::scope(|scope| {
            for thread in 0..3u64 {
                let (table, right) = (&table, &right);
                scope.spawn(move || {
                    for round in 0..4 {
                        let left = keys::<K>((0..500).map(|i| (i * 3 + thread * round) % 700));
                        check(table, &left, right);
                    }
                });
            }
        });
    }
    on_keys!(body: u64, [u32; 3]);
}

#[test]
fn what_does_not_fit_is_refused() {
    fn body<K: Pod>(on: &Target) {
        let stream = on.stream();
        let right = keys::<K>((0..40).map(|i| i % 20));
        let table = JoinTable::new(on.device(), &right).unwrap();
        let left = keys::<K>(0..30);
        let words = |len| Buffer::<u32>::zeroed(&stream, len).unwrap();
        for (of_left, of_right) in [(39, 40), (40, 39)] {
            let (mut to_left, mut to_right) = (words(of_left), words(of_right));
            let refused = table.join(&left).inner_into(&mut to_left, &mut to_right);
            assert!(matches!(
                refused,
                Err(Error::OutputTooSmall {
                    needed: 40,
                    given: 39
                })
            ));
            assert_eq!(to_left.to_vec().unwrap(), vec![0; of_left]);
        }
        let mut few = words(9);
        assert!(matches!(
            table.join(&left).anti_into(&mut few),
            Err(Error::OutputTooSmall {
                needed: 10,
                given: 9
            })
        ));
        let elsewhere = Device::cpu().with_memory_budget(1 << 20);
        if elsewhere.info().unwrap().backend != on.device().info().unwrap().backend {
            let far = Buffer::from_slice(&Stream::new(&elsewhere).unwrap(), &left).unwrap();
            assert!(matches!(
                table.join(&far).inner(),
                Err(Error::WrongDevice { .. })
            ));
        }
        check(&table, &left, &right);
    }
    on_keys!(body: u64, [u32; 3]);
}

/// All keys are equal on both sides: more pairs than 32 bits can count, or than there is memory for.
#[test]
fn the_product_of_the_sides() {
    fn body<K: Pod>(on: &Target) {
        let n = 70_000;
        let keys = keys::<K>(vec![7; n]);
        let table = JoinTable::new(on.device(), &keys).unwrap();
        assert_eq!((table.len(), table.distinct()), (n, 1));
        let mut few = Buffer::<u32>::zeroed(&on.stream(), 3).unwrap();
        let mut other = Buffer::<u32>::zeroed(&on.stream(), 3).unwrap();
        let refused = table.join(&keys).inner_into(&mut few, &mut other);
        let Err(Error::OutputTooSmall { needed, given: 3 }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(needed, n * n);
        assert_eq!(
            [few, other].map(|it| it.to_vec().unwrap()),
            [[0; 3], [0; 3]]
        );
        let all: Vec<u32> = (0..n as u32).collect();
        assert_eq!(table.join(&keys).semi().unwrap(), all);
        assert_eq!(table.join(&keys).anti().unwrap(), []);
        let (few, pairs) = (&keys[..3], 3 * n);
        let mut expected = Vec::with_capacity(pairs);
        (0..3).for_each(|left| expected.extend(all.iter().map(|&right| (left, right))));
        assert_eq!(sorted(table.join(few).inner().unwrap()), expected);
        if on.is_native() || on.device().is_cuda() {
            // Tebibytes.
            let keys = vec![keys[0]; 1 << 20];
            let table = JoinTable::new(on.device(), &keys).unwrap();
            let refused = table.join(&keys).inner();
            assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
            assert_eq!(sorted(table.join(few).left().unwrap()).len(), 3 << 20);
        }
    }
    on_keys!(body: u64, [u64; 4]);
}

/// With little memory a join fails as a whole, and the table joins on.
#[test]
fn too_little_memory() {
    fn body<K: Pod>(on: &Target) {
        let on = &on.with_memory_budget(BUDGET);
        let right = keys::<K>((0..3_000).map(|i| i % 2_000));
        let left = keys::<K>(0..4_000);
        let table = JoinTable::new(on.device(), &right).unwrap();
        let mut left_bytes = 0;
        loop {
            table.trim();
            let both = || {
                (
                    table.join(&left).inner(),
                    JoinTable::new(on.device(), &right),
                )
            };
            match with_left(on, left_bytes, both) {
                (Ok(_), Ok(_)) => break,
                (joined, built) => {
                    let errors = [joined.err(), built.err()];
                    for error in errors.into_iter().flatten() {
                        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
                    }
                }
            }
            left_bytes += 8 << 10;
            assert!(left_bytes < 8 << 20);
        }
        assert!(left_bytes > 0, "there was memory from the beginning");
        check(&table, &left, &right);
    }
    on_keys!(body: u32, [u64; 3]);
}

/// Small joins on executors with a random schedule.
#[test]
fn interleaved() {
    on_random_schedules(15, |on| {
        if on.encoding() == Some(Encoding::Split) {
            return;
        }
        for distinct in [1, 3, 40, 300] {
            let right = keys::<u64>((0..300).map(|i| (300 - i) % distinct));
            let left = keys::<u64>((0..70).map(|i| i * 5 % (distinct + 3)));
            check(&JoinTable::new(on.device(), &right).unwrap(), &left, &right);
        }
    });
}

/// Every kernel of joins, small, for `compute-sanitizer`.
#[test]
fn sanitizer_joins() {
    fn body<K: Pod>(on: &Target) {
        for n in [1, 31, 33, 300, 1_500] {
            let right = keys::<K>((0..n).map(|i| i * 7 % (n / 2 + 1)));
            let left = keys::<K>((0..n + 1).map(|i| i * 3 % (n + 2)));
            check(&JoinTable::new(on.device(), &right).unwrap(), &left, &right);
        }
    }
    for on in targets_of_all_kernels() {
        if on.encoding() != Some(Encoding::Split) {
            body::<u32>(&on);
            body::<[u64; 3]>(&on);
        }
    }
}
