//! Which batches are sent, and that results are the same whichever way they go.

use crate::executor::Config;
use crate::sharded::{GroupError, Rank, Ranks, Shard};
use crate::{Device, Error, Fault, Faults, Growth, Key, MapBuilder, Merge, Result, Value};

use super::{LONG_PAUSE, PAUSE};

const N: usize = 3_000;

fn executors(ranks: usize) -> Vec<Device> {
    let one = |_| {
        Device::cpu_with(Config {
            workers: 1,
            ..Config::default()
        })
    };
    (0..ranks).map(one).collect()
}

/// Executors, of which the last has so much memory.
fn group(ranks: usize, last: Option<u64>) -> Ranks {
    let mut devices = executors(ranks);
    if let (Some(bytes), Some(device)) = (last, devices.last_mut()) {
        *device = device.with_memory_budget(bytes);
    }
    Ranks::new(&devices).unwrap()
}

type Settings = MapBuilder<u64, u64>;

/// A map that sends batches of 100 keys and more.
fn sending(builder: Settings, share: &dyn Fn(usize) -> usize) -> Settings {
    let builder = builder.bulk_from([usize::MAX, usize::MAX, 100]);
    builder.capacity(share(4 * N))
}

/// The same, and it makes pages from such inserts.
fn building(builder: Settings, share: &dyn Fn(usize) -> usize) -> Settings {
    sending(builder, share)
        .bulk_from([100; 3])
        .capacity(share(20 * N))
}

/// A map that sends none of its batches.
fn exchanging(builder: Settings, share: &dyn Fn(usize) -> usize) -> Settings {
    sending(builder, share).bulk_from([usize::MAX; 3])
}

/// Key number `i` of a rank, and its value.
fn key(rank: &Rank, i: usize) -> u64 {
    ((rank.index() as u64) << 32 | i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Every verb once, and the answers it should have; the map is empty then.
fn through(rank: &mut Rank, shard: &mut Shard<u64, u64>, keys: &[u64]) -> Result<()> {
    let all = keys.len() * rank.ranks();
    let values: Vec<u64> = keys.iter().map(|key| key ^ 1).collect();
    let more = vec![1u64 << 33; keys.len()];
    assert_eq!(shard.insert(rank, keys, &values)?, all);
    assert_eq!(shard.insert(rank, keys, &more)?, 0);
    assert_eq!(shard.merge(rank, keys, &more, Merge::Add)?, 0);
    let right = |key: &u64| Some((key ^ 1).wrapping_add(1 << 33));
    let got = shard.get(rank, keys)?;
    assert!(got.into_iter().eq(keys.iter().map(right)));
    let absent: Vec<u64> = keys.iter().map(|key| !key).collect();
    let there = |found: Vec<bool>| found.into_iter().filter(|&found| found).count();
    assert_eq!(there(shard.contains(rank, keys)?), keys.len());
    assert_eq!(there(shard.contains(rank, &absent)?), 0);
    assert!(shard.get(rank, &absent)?.iter().all(Option::is_none));
    assert_eq!(shard.upsert(rank, keys, keys)?, 0);
    assert!(
        shard
            .get(rank, keys)?
            .into_iter()
            .eq(keys.iter().copied().map(Some))
    );
    assert_eq!(shard.remove(rank, keys)?, all);
    assert!(shard.is_empty(rank)?);
    Ok(())
}

/// The verbs with `N` keys of each rank.
fn through_all(rank: &mut Rank, shard: &mut Shard<u64, u64>) -> Result<()> {
    let keys: Vec<u64> = (0..N).map(|i| key(rank, i)).collect();
    through(rank, shard, &keys)
}

#[test]
fn large_batches_are_sent() {
    for ranks in [2, 3, 4] {
        let work = |rank: &mut Rank| {
            let mut shard = Shard::with(rank, None, sending)?;
            shard.insert(rank, &[1], &[1])?;
            shard.clear(rank)?;
            assert!(shard.words().p2p.window.is_none(), "a small batch was sent");
            through_all(rank, &mut shard)?;
            assert!(shard.words().p2p.window.is_some() && shard.words().p2p.pause == 0);
            // A rank that has freed its memory does not leave the others with theirs.
            if rank.index() == 1 {
                shard.trim();
            }
            through_all(rank, &mut shard)?;
            assert!(shard.words().p2p.window.is_some());
            Ok(())
        };
        group(ranks, None).run(work).unwrap();
    }
}

/// Streams run late, and in any order: nothing is taken for done that has not been waited for.
#[test]
fn devices_whose_streams_run_late_come_to_the_same() {
    for (seed, settings) in [exchanging, sending, building].into_iter().enumerate() {
        let device = |rank| Device::cpu_deferred((seed * 8 + rank) as u64);
        let devices: Vec<Device> = (0..2 + seed % 2).map(device).collect();
        let work = |rank: &mut Rank| {
            let mut shard = Shard::with(rank, None, settings)?;
            through_all(rank, &mut shard)
        };
        Ranks::new(&devices).unwrap().run(work).unwrap();
    }
}

#[test]
fn large_inserts_that_make_pages_are_fetched() {
    for ranks in [2, 3, 4, 8] {
        let work = |rank: &mut Rank| {
            let mut shard = Shard::with(rank, None, building)?;
            through_all(rank, &mut shard)?;
            assert!(shard.words().p2p.link.is_some() && shard.words().p2p.pause == 0);
            // One of them would not make pages now: then none fetches.
            shard.words().p2p.link = None;
            let one: &[u64] = if rank.index() == 0 { &[1] } else { &[] };
            assert_eq!(shard.upsert(rank, one, one)?, 1);
            let keys: Vec<u64> = (0..N).map(|i| key(rank, i + N)).collect();
            assert_eq!(shard.upsert(rank, &keys, &keys)?, ranks * N);
            assert!(shard.words().p2p.link.is_none());
            Ok(())
        };
        group(ranks, None).run(work).unwrap();
    }
}

#[test]
fn what_is_fetched_is_stored_too_where_no_page_can_be_made() {
    let work = |rank: &mut Rank| {
        // A page of 32 KiB, and not what goes into it.
        let mut shard = Shard::with(rank, None, |builder, share| {
            building(builder, share).page_slabs(512)
        })?;
        let keys: Vec<u64> = (0..2 * N).map(|i| key(rank, i)).collect();
        let (first, second) = keys.split_at(N);
        assert_eq!(shard.insert(rank, first, first)?, 2 * N);
        shard.words().p2p.link = None;
        assert_eq!(shard.insert(rank, second, second)?, 2 * N);
        assert!(shard.words().p2p.link.is_some());
        let got = shard.get(rank, &keys)?;
        assert!(got.into_iter().eq(keys.into_iter().map(Some)));
        Ok(())
    };
    let devices = executors(2);
    let small: Vec<Device> = devices
        .iter()
        .map(|d| d.with_shared_memory(48 << 10))
        .collect();
    Ranks::new(&small).unwrap().run(work).unwrap();
}

#[test]
fn keys_and_values_of_any_size_are_fetched() {
    fn with<K: Key, V: Value + PartialEq>(key: fn(u64) -> K, value: fn(u64) -> V) {
        let work = |rank: &mut Rank| {
            let mut shard = Shard::<K, V>::with(rank, None, |builder, share| {
                builder.bulk_from([100; 3]).capacity(share(8 * N))
            })?;
            let mine = |half: u64| {
                let first = (2 * rank.index() as u64 + half) * N as u64;
                let numbers = first..first + N as u64;
                let keys: Vec<K> = numbers.clone().map(key).collect();
                (keys, numbers.map(value).collect::<Vec<V>>())
            };
            let ((keys, values), (more, others)) = (mine(0), mine(1));
            // Of an empty map, and of one in use.
            assert_eq!(shard.insert(rank, &keys, &values)?, 3 * N);
            assert!(shard.words().p2p.link.take().is_some());
            assert_eq!(shard.insert(rank, &more, &others)?, 3 * N);
            assert!(shard.words().p2p.link.is_some());
            for (keys, values) in [(keys, values), (more, others)] {
                let got = shard.get(rank, &keys)?;
                assert!(got.into_iter().eq(values.into_iter().map(Some)));
            }
            Ok(())
        };
        group(3, None).run(work).unwrap();
    }
    with(|i| i as u32 * 7 + 1, |i| i as u32);
    with(|i| i as u32 * 7 + 1, |i| i << 20);
    with(|i| (i * 7) << 30, |i| i as u32);
    with(|i| (i * 7) << 30, |i| !i);
}

#[test]
fn ranks_may_have_batches_of_different_lengths() {
    let work = |rank: &mut Rank| {
        let mut shard = Shard::with(rank, None, sending)?;
        let keys: Vec<u64> = (0..N - 700 * rank.index()).map(|i| key(rank, i)).collect();
        let all: u64 = rank.gather(&[keys.len() as u64])?.iter().sum();
        assert_eq!(shard.insert(rank, &keys, &keys)?, all as usize);
        assert!(shard.words().p2p.window.is_some());
        // Each looks up what the others have as well.
        let asked: Vec<u64> = (0..3 * N as u64)
            .map(|i| ((i % 3) << 32 | (i / 3)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let got = shard.get(rank, &asked)?;
        for (i, (got, &asked)) in got.iter().zip(&asked).enumerate() {
            let there = i / 3 < N - 700 * (i % 3);
            assert_eq!(*got, there.then_some(asked), "key number {i}");
        }
        Ok(())
    };
    group(3, None).run(work).unwrap();
}

#[test]
fn keys_that_do_not_fit_their_bins_go_all_to_all_and_so_do_the_next_batches() {
    let work = |rank: &mut Rank| {
        let mut shard = Shard::with(rank, None, sending)?;
        // All of one bin of rank 0.
        let mut keys = (0..).map(|i| key(rank, i));
        let bin = |shard: &Shard<u64, u64>, key| {
            gpumap_kernels::hash::KeyHash::new(key, shard.local().inline().seed()).bits() >> 57
        };
        let of_one: Vec<u64> = keys
            .by_ref()
            .filter(|&key| shard.owner(key) == 0 && bin(&shard, key) == 5)
            .take(N / 2)
            .collect();
        assert_eq!(shard.insert(rank, &of_one, &of_one)?, 2 * of_one.len());
        assert_eq!(shard.words().p2p.pause, PAUSE);
        assert!(shard.get(rank, &of_one)?.iter().all(Option::is_some));
        assert_eq!(
            shard.words().p2p.pause,
            PAUSE - 1,
            "one batch went through the all-to-all exchange"
        );
        assert_eq!(shard.remove(rank, &of_one)?, 2 * of_one.len());
        shard.words().p2p.pause = 0;
        through_all(rank, &mut shard)?;
        assert_eq!(shard.words().p2p.pause, 0);
        Ok(())
    };
    group(2, None).run(work).unwrap();
}

#[test]
fn maps_of_different_seeds_and_maps_without_room_are_sent_nothing() {
    let work = |rank: &mut Rank| {
        let index = rank.index() as u64;
        let mut shard = Shard::with(rank, None, |builder, share| {
            sending(builder, share).hash_seed(index)
        })?;
        through_all(rank, &mut shard)?;
        assert!(!shard.words().alike && shard.words().p2p.window.is_none());

        let small = |builder: Settings, share: &dyn Fn(usize) -> usize| {
            sending(builder, share).capacity(share(N))
        };
        let mut shard = Shard::with(rank, None, small)?;
        let keys: Vec<u64> = (0..N).map(|i| key(rank, i)).collect();
        assert_eq!(shard.insert(rank, &keys, &keys)?, 2 * N);
        assert!(shard.words().p2p.window.is_none());
        // Nothing needs room for an answer.
        assert!(shard.get(rank, &keys)?.iter().all(Option::is_some));
        assert!(shard.words().p2p.window.is_some());

        let full = |builder: Settings, share: &dyn Fn(usize) -> usize| {
            small(builder, share)
                .capacity(share(N / 8))
                .growth(Growth::Fixed)
        };
        let mut shard = Shard::with(rank, None, full)?;
        assert!(shard.insert(rank, &keys, &keys).is_err());
        Ok(())
    };
    group(2, None).run(work).unwrap();
}

#[test]
fn without_memory_for_receive_buffers_batches_go_all_to_all() {
    let work = |rank: &mut Rank| {
        let mut shard = Shard::with(rank, None, |builder, _| {
            builder.bulk_from([usize::MAX, usize::MAX, 100])
        })?;
        let few: Vec<u64> = (0..200).map(|i| key(rank, i)).collect();
        shard.insert(rank, &few[..50], &few[..50])?;
        let got = shard.get(rank, &few)?;
        assert_eq!(got.iter().filter(|got| got.is_some()).count(), 50);
        assert!(shard.words().p2p.window.is_none());
        assert_eq!(shard.words().p2p.pause, LONG_PAUSE);
        Ok(())
    };
    // Bins are rounded up: receive buffers for 200 keys take more than two megabytes.
    group(2, Some(2 << 20)).run(work).unwrap();
}

/// What a rank does with its shard and its keys.
type Step = fn(&mut Rank, &mut Shard<u64, u64>, &[u64]) -> Result<()>;

/// Whatever fails on one rank, all reach the next collective; and none returns success before the
/// last one of a verb.
#[test]
fn a_call_of_the_device_that_fails_leaves_all_ranks_in_step() {
    fail_at_every_call(sending);
    fail_at_every_call(building);
    fail_at_every_call(exchanging);
}

fn fail_at_every_call(settings: fn(Settings, &dyn Fn(usize) -> usize) -> Settings) {
    const STEPS: [Step; 4] = [
        |rank, shard, keys| shard.insert(rank, keys, keys).map(drop),
        |rank, shard, keys| shard.get(rank, keys).map(drop),
        |rank, shard, keys| shard.contains(rank, keys).map(drop),
        |rank, shard, keys| shard.remove(rank, keys).map(drop),
    ];
    let faults = Faults::default();
    let mut devices = executors(2);
    devices[1] = devices[1].with_faults(&faults);
    let ranks = Ranks::new(&devices).unwrap();
    let (mut call, mut refused, mut alone) = (0, 0, 0);
    // Ends when none fails any more.
    loop {
        faults.plan(call, Fault::Once);
        let results = ranks.run_each(|rank| {
            let mut made = Shard::with(rank, None, settings);
            let keys: Vec<u64> = (0..150).map(|i| key(rank, i)).collect();
            let mut result = made.as_ref().err().map_or(Ok(()), |_| Err(()));
            let mut own = None;
            for step in STEPS {
                // Out of step, this would fail.
                if rank.gather(&[u64::from(result.is_err())])?.contains(&1) {
                    break;
                }
                let Ok(shard) = &mut made else { break };
                result = step(rank, shard, &keys).map_err(|error| own = Some(error));
            }
            rank.barrier()?;
            Ok(own.or(made.err()))
        });
        let Some(failed) = faults.failed() else { break };
        let of = |rank: usize| match &results[rank] {
            Ok(error) => error,
            Err(error) => panic!("call {call}, {failed:?}: rank {rank} is out of step: {error}"),
        };
        match (of(0), of(1)) {
            (None, None) => {}
            (None, Some(own)) if !matches!(own, Error::Group(_)) => alone += 1,
            (Some(Error::Group(GroupError::Failed { rank: 1 })), Some(own))
                if !matches!(own, Error::Group(_)) =>
            {
                refused += 1;
            }
            other => panic!("call {call}, {failed:?}: {other:?}"),
        }
        call += 1;
    }
    faults.heal();
    assert!(refused > 20, "{refused} of {call} calls were refused");
    assert!(
        alone < 10,
        "{alone} of {call} calls were the matter of one rank"
    );
    ranks
        .run(|rank| {
            let mut shard = Shard::with(rank, None, settings)?;
            through_all(rank, &mut shard)
        })
        .unwrap();
}
