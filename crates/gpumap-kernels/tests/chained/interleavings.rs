//! Adversarial scenarios under random interleavings of their lanes: a few buckets and slabs, so that
//! all lanes meet.

use std::collections::HashMap;

use gpumap_kernels::chained::answer::Outcome;
use gpumap_kernels::chained::mixed::Operation;
use gpumap_kernels::slot::Format;

use crate::support::{
    Answers, By, HostMap, Launch, Random, Step, all, compact_all, cut, key, on_every_format, serve,
    value_for,
};

/// Blocks and warps of a launch, by its seed.
fn launch(seed: u64) -> Launch {
    let (blocks, warps) = [(4, 1), (2, 2), (3, 1)][seed as usize % 3];
    Launch::random(seed, blocks, warps)
}

/// Pairs with keys that many lanes share; two of them are reserved.
fn shared_keys<F: Format>(n: usize, distinct: u64) -> Vec<(u64, u64)> {
    let key_of = |i: u64| if i < 2 { key::<F>(!i) } else { i };
    (0..n as u64)
        .map(|i| {
            let k = key_of((i / 2 + i / 64) % distinct);
            (k, cut::<F>(value_for(k, i)))
        })
        .collect()
}

/// All values that some pair has for each key.
fn offers(pairs: &[(u64, u64)]) -> HashMap<u64, Vec<u64>> {
    let mut offers: HashMap<u64, Vec<u64>> = HashMap::new();
    for &(k, v) in pairs {
        offers.entry(k).or_default().push(v);
    }
    offers
}

#[test]
fn unique_inserters_of_the_same_keys() {
    fn scenario<F: Format>(seed: u64) {
        let launch = launch(seed);
        let distinct = [1, 3, 8, 40][seed as usize % 4];
        let mut map = HostMap::<F>::new(1 + seed as u32 % 2, &[40], 0, seed);
        let pairs = shared_keys::<F>(launch.threads(), distinct);
        let answers = serve(&mut map, By::Own, launch, &all(Operation::Insert, &pairs));
        let by_key = map.check().by_key();
        let offers = offers(&pairs);
        assert_eq!(by_key.len(), offers.len());
        assert_eq!(answers.stored, offers.len());
        assert_eq!(answers.full, 0);
        for (k, held) in &by_key {
            assert_eq!(held.len(), 1, "key {k:#x} is stored twice");
            assert!(offers[k].contains(&held[0]));
        }
        for (i, (k, v)) in pairs.iter().enumerate() {
            let held = by_key[k][0];
            if answers.is(i, Outcome::Stored) {
                assert_eq!(*v, held);
            } else {
                assert!(answers.is(i, Outcome::Present));
                assert_eq!(answers.value(i), held);
            }
        }
    }
    on_every_format!(scenario, 60);
}

#[test]
fn no_pair_is_lost_where_keys_repeat() {
    fn scenario<F: Format>(seed: u64) {
        let launch = launch(seed);
        let mut map = HostMap::<F>::new(1 + seed as u32 % 3, &[60], 0, seed);
        let pairs = shared_keys::<F>(launch.threads(), [2, 30][seed as usize % 2]);
        let answers = serve(&mut map, By::Own, launch, &all(Operation::Append, &pairs));
        assert_eq!(answers.stored, pairs.len());
        let (mut there, mut want) = (map.check().pairs, pairs);
        there.sort_unstable();
        want.sort_unstable();
        assert_eq!(there, want);
    }
    on_every_format!(scenario, 40);
}

#[test]
fn full_is_said_of_the_pairs_that_are_not_in() {
    fn scenario<F: Format>(seed: u64) {
        let launch = launch(seed);
        let operation = [Operation::Insert, Operation::Append][seed as usize / 2 % 2];
        let units = seed as usize % 6;
        let mut map = HostMap::<F>::new(1 + seed as u32 % 2, &[units], 0, seed);
        let mut pairs = shared_keys::<F>(launch.threads(), 500);
        if operation == Operation::Append {
            pairs = pairs
                .iter()
                .enumerate()
                .map(|(i, &(k, _))| (k, i as u64))
                .collect();
        }
        for _ in 0..2 {
            let before = map.check().pairs.len();
            let answers = serve(&mut map, By::Own, launch, &all(operation, &pairs));
            let contents = map.check();
            assert_eq!(answers.stored, contents.pairs.len() - before);
            let by_key = contents.by_key();
            for (i, (k, v)) in pairs.iter().enumerate() {
                let held = by_key.get(k).map_or(&[][..], |held| held);
                match answers.outcomes[i] {
                    o if o == Outcome::Stored as u8 => assert!(held.contains(v)),
                    o if o == Outcome::Present as u8 => assert_eq!(held, [answers.value(i)]),
                    o => assert_eq!(o, Outcome::Full as u8),
                }
            }
            if operation == Operation::Append {
                break;
            }
            for held in by_key.values() {
                assert_eq!(held.len(), 1);
            }
        }
        if map.check().slabs() == units {
            return;
        }
        // A lane held a slab for a moment and then gave it back: a later batch finds it.
        let more: Vec<_> = (0..launch.threads() as u64 * 2)
            .map(|k| (10_000 + k, 0))
            .collect();
        serve(
            &mut map,
            By::Own,
            Launch::plain(more.len()),
            &all(Operation::Append, &more),
        );
        assert_eq!(map.check().slabs(), units);
    }
    on_every_format!(scenario, 60);
}

#[test]
fn one_warp_fills_the_pool_to_the_last_slot() {
    fn scenario<F: Format>(seed: u64) {
        // Its tiles want a slab for the same chain at the same time, and there is one.
        let mut map = HostMap::<F>::new(1, &[1 + seed as usize % 3], 0, seed);
        let room = HostMap::<F>::slots(map.room());
        let pairs: Vec<_> = (0..room as u64).map(|k| (k, cut::<F>(k))).collect();
        let launch = Launch::random(seed, 1, 1);
        let answers = serve(&mut map, By::Own, launch, &all(Operation::Insert, &pairs));
        assert_eq!((answers.stored, answers.full), (room, 0));
        let one_more = [(Operation::Append, 9999, 0)];
        assert_eq!(serve(&mut map, By::Own, launch, &one_more).full, 1);
        assert_eq!(map.check().pairs.len(), room);
    }
    on_every_format!(scenario, 60);
}

/// What is stored and removed under each key, and that it adds up to what is there.
fn check_balance<F: Format>(map: &mut HostMap<F>, steps: &[Step], answers: &Answers<F>) {
    let mut balance: HashMap<u64, i64> = HashMap::new();
    let mut offers: HashMap<u64, Vec<u64>> = HashMap::new();
    for (i, &(operation, k, v)) in steps.iter().enumerate() {
        let stored = answers.is(i, Outcome::Stored);
        let removed = answers.is(i, Outcome::Removed);
        assert!(!stored || matches!(operation, Operation::Append | Operation::Insert));
        assert!(!removed || operation == Operation::Remove);
        *balance.entry(k).or_default() += i64::from(stored) - i64::from(removed);
        if stored {
            offers.entry(k).or_default().push(v);
        }
    }
    let by_key = map.check().by_key();
    for (&k, &balance) in &balance {
        let held = by_key.get(&k).map_or(0, Vec::len);
        assert_eq!(held as i64, balance, "pairs of key {k:#x}");
    }
    assert!(by_key.keys().all(|k| balance.contains_key(k)));
    // Values that were seen are values of pairs that were stored under that key; a pair is removed
    // at most once.
    let mut removed: HashMap<u64, Vec<u64>> = HashMap::new();
    for (i, &(operation, k, _)) in steps.iter().enumerate() {
        let seen = answers.is(i, Outcome::Present) && operation != Operation::Count;
        if seen || answers.is(i, Outcome::Removed) {
            let value = answers.value(i);
            assert!(
                offers[&k].contains(&value),
                "key {k:#x} had the foreign value {value:#x}"
            );
        }
        if answers.is(i, Outcome::Removed) {
            removed.entry(k).or_default().push(answers.value(i));
        }
    }
    for (k, mut gone) in removed {
        gone.extend(by_key.get(&k).into_iter().flatten());
        gone.sort_unstable();
        let mut stored = offers[&k].clone();
        stored.sort_unstable();
        assert_eq!(gone, stored, "pairs of key {k:#x}");
    }
}

#[test]
fn unique_inserts_beside_deletes() {
    fn scenario<F: Format>(seed: u64) {
        let launch = launch(seed);
        let mut random = Random(seed);
        let mut map = HostMap::<F>::new(1, &[40], 0, seed);
        let keys = [1, 2, 5][seed as usize % 3];
        let n = launch.threads() * 2;
        let steps: Vec<Step> = (0..n as u64)
            .map(|i| {
                let (k, v) = (random.below(keys), cut::<F>(value_for(3, i)));
                match random.below(5) {
                    0 | 1 => (Operation::Insert, k, v),
                    2 | 3 => (Operation::Remove, k, v),
                    _ => (Operation::Get, k, v),
                }
            })
            .collect();
        let answers = serve(&mut map, By::Mixed, launch, &steps);
        check_balance(&mut map, &steps, &answers);
        for (k, held) in map.check().by_key() {
            assert_eq!(held.len(), 1, "key {k:#x} is stored twice");
        }
    }
    on_every_format!(scenario, 80);
}

#[test]
fn everything_at_once() {
    fn scenario<F: Format>(seed: u64) {
        let launch = launch(seed);
        let mut random = Random(seed);
        let units = if seed % 4 == 3 { 3 } else { 60 };
        let mut map = HostMap::<F>::new(
            1 + seed as u32 % 3,
            &[units / 2, units - units / 2],
            0,
            seed,
        );
        let mut steps: Vec<Step> = Vec::new();
        let mut answered: Option<Answers<F>> = None;
        for round in 0..3 {
            let n = launch.threads();
            let batch: Vec<Step> = (0..n)
                .map(|i| {
                    let k = random.below(20);
                    let k = if k < 2 { key::<F>(!k) } else { k };
                    let v = cut::<F>(value_for(k, (round * n + i) as u64));
                    let operation = match random.below(8) {
                        0 => Operation::Get,
                        1..4 => Operation::Append,
                        4 => Operation::Insert,
                        5..7 => Operation::Remove,
                        _ => Operation::Count,
                    };
                    (operation, k, v)
                })
                .collect();
            let answers = serve(&mut map, By::Mixed, launch, &batch);
            steps.extend(batch);
            let total = match answered.take() {
                None => answers,
                Some(mut total) => {
                    total.outcomes.extend(answers.outcomes);
                    total.values.extend(answers.values);
                    total
                }
            };
            check_balance(&mut map, &steps, &total);
            let before = map.check().pairs;
            compact_all(&mut map, Some(seed));
            assert_eq!(map.check().pairs, before);
            answered = Some(total);
        }
    }
    on_every_format!(scenario, 40);
}

#[test]
fn what_is_there_throughout_is_seen_beside_writers() {
    fn scenario<F: Format>(seed: u64) {
        let launch = launch(seed);
        let mut map = HostMap::<F>::new(1, &[60], 0, seed);
        // Some in front of them will be tombstones, some after them grow.
        let kept: Vec<_> = (100..140).map(|k| (k, cut::<F>(value_for(k, 0)))).collect();
        let gone: Vec<_> = (0..20).map(|k| (k, 0)).collect();
        let first: Vec<_> = gone.iter().zip(&kept).flat_map(|(&g, &k)| [g, k]).collect();
        let first = [first, kept[20..].to_vec()].concat();
        serve(
            &mut map,
            By::Mixed,
            Launch::plain(64),
            &all(Operation::Append, &first),
        );
        let mut random = Random(seed);
        let steps: Vec<Step> = (0..launch.threads() as u64)
            .map(|i| match i % 4 {
                0 => (Operation::Insert, 200 + random.below(60), 1),
                1 => (Operation::Remove, random.below(20), 0),
                2 => (Operation::Get, 100 + random.below(40), 0),
                _ => (Operation::Count, 100 + random.below(40), 0),
            })
            .collect();
        let answers = serve(&mut map, By::Mixed, launch, &steps);
        for (i, &(operation, k, _)) in steps.iter().enumerate() {
            let want = match operation {
                Operation::Get => cut::<F>(value_for(k, 0)),
                Operation::Count => 1,
                _ => continue,
            };
            assert!(answers.is(i, Outcome::Present), "key {k:#x}");
            assert_eq!(answers.value(i), want, "key {k:#x}");
        }
        map.check();
    }
    on_every_format!(scenario, 40);
}
