//! Groups on the same devices, made, used and dropped by many threads at the same time (audit finding 0): none waits
//! for ever, and each has its own answers.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use gpumap::primitives::Primitives;
use gpumap::primitives::distributed::{Form, histogram_even};
use gpumap::sharded::Ranks;
use gpumap::{Map, Merge, ShardedMap};
use gpumap_tests::group::{Group, PATIENCE, on_every_group};

use super::map;

/// What is not over by then hangs. Less than [`PATIENCE`]: no timeout of a group comes before it.
const HANGS: Duration = Duration::from_secs(240);

/// A batch of one thread that no other has.
fn keys(on: &Group, thread: usize, round: usize) -> Vec<u64> {
    let first = (thread as u64) << 48 | (round as u64) << 24;
    (first..).take(on.n(150, 60_000)).collect()
}

/// Stores, finds and removes a batch that no other thread has.
fn through(sharded: &ShardedMap<u64, u64>, keys: &[u64]) {
    let values: Vec<u64> = keys.iter().map(|key| key ^ 5).collect();
    assert_eq!(sharded.insert(keys, &values).unwrap(), keys.len());
    assert_eq!(sharded.merge(keys, keys, Merge::Max).unwrap(), 0);
    let got = sharded.get(keys).unwrap();
    let right = keys.iter().map(|&key| Some(key.max(key ^ 5)));
    assert!(got.into_iter().eq(right));
    assert_eq!(sharded.remove(keys).unwrap(), keys.len());
    assert!(!sharded.contains(keys).unwrap().contains(&true));
}

/// Counts in both forms.
fn count(ranks: &Ranks) {
    for form in [Form::Replicated, Form::Distributed] {
        let counted = ranks.run(|rank| {
            let primitives = Primitives::new(rank.device());
            let values: Vec<u32> = (0..1_000).collect();
            histogram_even(&primitives, rank, &values, 0..1_000, 10, form)
        });
        for histogram in counted.unwrap() {
            assert_eq!(histogram.counts, vec![100 * ranks.len() as u64; 10]);
        }
    }
}

/// Threads that share a map over the group, threads that make groups of their own on its devices, and one that makes
/// maps on one of them: memory comes and goes, and the device is waited for as a whole.
fn churn(on: &Group) {
    let until = Instant::now() + Duration::from_secs(on.n(1, 6) as u64);
    let goes_on = |round| round < 2 || Instant::now() < until;
    let lasting = &map::<u64, u64>(on);
    // Each kernel that runs on executors at the same time has a thousand stacks.
    let threads = on.n(4, 8);
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for round in (0..).take_while(|&round| goes_on(round)) {
                    let keys = keys(on, thread, round);
                    if thread % 2 == 0 {
                        through(lasting, &keys);
                        continue;
                    }
                    let group = on.another(PATIENCE);
                    count(group.ranks());
                    let sharded = map::<u64, u64>(&group);
                    // Dropped before its map or after it.
                    let group = (round % 2 == 0).then_some(group);
                    through(&sharded, &keys);
                    assert!(sharded.is_empty());
                    drop(sharded);
                    drop(group);
                }
            });
        }
        scope.spawn(move || {
            let device = &on.ranks().devices()[on.len() - 1];
            for round in (0..).take_while(|&round| goes_on(round)) {
                let alone = Map::<u64, u64>::new(device).unwrap();
                let keys = keys(on, threads, round);
                assert_eq!(alone.insert(&keys, &keys).unwrap(), keys.len());
                drop(alone);
                device.synchronize().unwrap();
            }
        });
    });
    assert!(lasting.is_empty());
}

#[test]
fn made_used_and_dropped_beside_each_other() {
    on_every_group(|on| {
        if on.len() == 1 || on.len() > on.n(3, usize::MAX) {
            return;
        }
        let on = on.clone();
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            churn(&on);
            let _ = send.send(());
        });
        receive.recv_timeout(HANGS).expect("it ended, and well");
    });
}
