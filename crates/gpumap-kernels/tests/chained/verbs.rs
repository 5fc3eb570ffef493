//! Verbs against what they should do, batch after batch.

use std::collections::HashMap;

use gpumap_kernels::chained::answer::Outcome;
use gpumap_kernels::chained::mixed::Operation;
use gpumap_kernels::slot::Format;

use crate::support::{
    By, HostMap, Launch, Random, Step, UNANSWERED, all, compact_all, cut, key, on_every_format,
    serve, value_for,
};

/// `n` pairs with distinct keys, the reserved ones among them.
fn pairs<F: Format>(n: u64) -> Vec<(u64, u64)> {
    let keys = (0..n).map(|i| if i < 4 { key::<F>(!i) } else { i });
    keys.map(|k| (k, cut::<F>(value_for(k, 1)))).collect()
}

fn run<F: Format>(map: &mut HostMap<F>, steps: &[Step]) -> crate::support::Answers<F> {
    serve(map, By::Own, Launch::plain(steps.len()), steps)
}

#[test]
fn chains_of_many_slabs() {
    fn scenario<F: Format>(seed: u64) {
        let mut map = HostMap::<F>::new(1 + seed as u32, &[70, 5], 0, seed);
        let pairs = pairs::<F>(300);
        let inserted = run(&mut map, &all(Operation::Insert, &pairs));
        assert_eq!(inserted.stored, 300);
        let contents = map.check();
        assert!(contents.chains.iter().any(|&n| n >= 300 / 4 / 15));
        let mut there = contents.pairs;
        there.sort_unstable();
        let mut want = pairs.clone();
        want.sort_unstable();
        assert_eq!(there, want);

        // A second time they are present, with their values.
        let other: Vec<_> = pairs.iter().map(|&(k, _)| (k, 7)).collect();
        for operation in [Operation::Insert, Operation::Get] {
            let answers = run(&mut map, &all(operation, &other));
            for (i, &(_, v)) in pairs.iter().enumerate() {
                assert!(answers.is(i, Outcome::Present));
                assert_eq!(answers.value(i), v);
            }
        }
        let absent: Vec<_> = (1000..1100).map(|k| (k, 0)).collect();
        let answers = run(&mut map, &all(Operation::Get, &absent));
        assert_eq!(answers.count(Outcome::Absent), 100);
    }
    on_every_format!(scenario, 3);
}

#[test]
fn duplicates_are_counted_and_deleted_one_by_one() {
    fn scenario<F: Format>(seed: u64) {
        let mut map = HostMap::<F>::new(1, &[20], 0, seed);
        let keys = [5, key::<F>(!0), 9];
        let pairs: Vec<_> = (0..90).map(|i| (keys[i % 3], i as u64)).collect();
        let inserted = run(&mut map, &all(Operation::Append, &pairs));
        assert_eq!(inserted.stored, 90);
        let by_key = map.check().by_key();
        let asked: Vec<_> = keys.iter().chain(&[1]).map(|&k| (k, 0)).collect();
        let counts = run(&mut map, &all(Operation::Count, &asked));
        assert_eq!(
            (0..4).map(|i| counts.value(i)).collect::<Vec<_>>(),
            [30, 30, 30, 0]
        );
        assert!(counts.is(0, Outcome::Present) && counts.is(3, Outcome::Absent));

        // Get and remove take the first.
        for left in (0..30).rev() {
            let found = run(&mut map, &all(Operation::Get, &asked[..1]));
            let removed = run(&mut map, &all(Operation::Remove, &asked[..1]));
            assert_eq!(found.value(0), by_key[&5][29 - left]);
            assert_eq!(removed.value(0), by_key[&5][29 - left]);
            let counts = run(&mut map, &all(Operation::Count, &asked[..1]));
            assert_eq!(counts.value(0), left as u64);
        }
        let removed = run(&mut map, &all(Operation::Remove, &asked[..1]));
        assert!(removed.is(0, Outcome::Absent));
        assert_eq!(map.check().pairs.len(), 60);
    }
    on_every_format!(scenario, 1);
}

#[test]
fn deleted_keys_are_inserted_once_again() {
    fn scenario<F: Format>(seed: u64) {
        let mut map = HostMap::<F>::new(1, &[40], 0, seed);
        let pairs = pairs::<F>(40);
        run(&mut map, &all(Operation::Insert, &pairs));
        // Tombstones in front of keys that are still there: the classic way to a second copy.
        run(&mut map, &all(Operation::Remove, &pairs[..20]));
        for round in 0..3 {
            let again: Vec<_> = pairs.iter().map(|&(k, _)| (k, cut::<F>(round))).collect();
            let inserted = run(&mut map, &all(Operation::Insert, &again));
            assert_eq!(inserted.stored, 20);
            let by_key = map.check().by_key();
            assert_eq!(by_key.len(), 40);
            assert!(by_key.values().all(|values| values.len() == 1));
            run(&mut map, &all(Operation::Remove, &pairs[..20]));
        }
    }
    on_every_format!(scenario, 1);
}

#[test]
fn a_full_pool_is_an_answer() {
    fn scenario<F: Format>(seed: u64) {
        let units = seed as usize * 2;
        let blocks = if units == 0 { vec![] } else { vec![units] };
        let mut map = HostMap::<F>::new(1, &blocks, 0, seed);
        let room = HostMap::<F>::slots(units);
        let pairs: Vec<_> = (0..room as u64 + 50)
            .map(|k| (k, cut::<F>(value_for(k, 0))))
            .collect();
        for round in 0..2 {
            let answers = run(&mut map, &all(Operation::Insert, &pairs));
            let by_key = map.check().by_key();
            assert_eq!(by_key.len(), room);
            for (i, (k, _)) in pairs.iter().enumerate() {
                let is_in = by_key.contains_key(k);
                assert_eq!(answers.is(i, Outcome::Full), !is_in, "pair {i}");
                assert_eq!(
                    answers.is(
                        i,
                        if round == 0 {
                            Outcome::Stored
                        } else {
                            Outcome::Present
                        }
                    ),
                    is_in
                );
            }
            assert_eq!(answers.full, 50);
        }
        // With some removed and compacted, there is room for as many.
        let held: Vec<_> = map.check().pairs.into_iter().take(5).collect();
        run(&mut map, &all(Operation::Remove, &held));
        let full = run(&mut map, &all(Operation::Append, &[(7777, 0)]));
        assert_eq!(full.full, 1);
        compact_all(&mut map, None);
        map.check();
        let refilled: Vec<_> = (7000..7010).map(|k| (k, 0)).collect();
        let answers = run(&mut map, &all(Operation::Append, &refilled));
        assert_eq!((answers.stored, answers.full), (5, 5));
        map.check();
    }
    on_every_format!(scenario, 3);
}

#[test]
fn batches_against_an_oracle() {
    fn scenario<F: Format>(seed: u64) {
        let mut random = Random(seed);
        let mut map = HostMap::<F>::new(3, &[30, 1, 30], 1, seed);
        let mut oracle: HashMap<u64, Vec<u64>> = HashMap::new();
        for round in 0..12 {
            // One operation per key and batch, so that their order does not matter.
            let keys: Vec<u64> = (0..60).filter(|_| random.below(2) == 0).collect();
            let steps: Vec<Step> = keys
                .iter()
                .map(|&k| {
                    let operation = match random.below(5) {
                        0 => Operation::Get,
                        1 => Operation::Append,
                        2 => Operation::Insert,
                        3 => Operation::Remove,
                        _ => Operation::Count,
                    };
                    let k = if k < 4 { key::<F>(!k) } else { k };
                    (operation, k, cut::<F>(value_for(k, round)))
                })
                .collect();
            let answers = serve(&mut map, By::Mixed, Launch::plain(steps.len()), &steps);
            for (i, &(operation, k, v)) in steps.iter().enumerate() {
                let held = oracle.entry(k).or_default();
                let first = held.first().copied();
                let present = if first.is_some() {
                    Outcome::Present
                } else {
                    Outcome::Absent
                };
                let (outcome, value) = match operation {
                    Operation::Get => (present, first),
                    Operation::Count => (present, Some(held.len() as u64)),
                    Operation::Insert if first.is_some() => (present, first),
                    Operation::Append | Operation::Insert => {
                        held.push(v);
                        (Outcome::Stored, None)
                    }
                    Operation::Remove if first.is_some() => {
                        (Outcome::Removed, Some(held.remove(0)))
                    }
                    Operation::Remove => (Outcome::Absent, None),
                };
                assert!(
                    answers.is(i, outcome),
                    "{operation:?} of {k:#x}: {}",
                    answers.outcomes[i]
                );
                assert_eq!(
                    answers.value(i),
                    value.unwrap_or(0),
                    "{operation:?} of {k:#x}"
                );
            }
            oracle.retain(|_, held| !held.is_empty());
            assert_eq!(map.check().by_key(), oracle);
            if round % 4 == 3 {
                compact_all(&mut map, None);
                assert_eq!(map.check().by_key(), oracle);
            }
        }
    }
    on_every_format!(scenario, 4);
}

#[test]
fn an_empty_batch_and_unknown_operations_do_nothing() {
    type F = gpumap_kernels::slot::Packed;
    let mut map = HostMap::<F>::new(1, &[1], 0, 0);
    let launch = Launch::random(1, 2, 1);
    let answers = serve(&mut map, By::Mixed, launch, &[]);
    assert!(answers.outcomes.is_empty());
    assert!(map.check().pairs.is_empty());
    assert!(!answers.outcomes.contains(&UNANSWERED));
}
