//! Ranks that make different calls: an error on every rank, and the group goes on.

use std::sync::Mutex;

use gpumap::sharded::{GroupError, Parcel, Plan, Rank, Ranks, Shard};
use gpumap::{Buffer, Error, Merge, Result, Stream};
use gpumap_tests::group::{Group, PATIENCE, cpu_devices, on_every_group};

use super::map;

/// What a rank may call.
type Call = fn(&mut Rank, &mut Shard<u32, u32>) -> Result<()>;

const KEYS: [u32; 4] = [5, 6, 7, 1 << 20];

/// Calls that are all different ones.
const CALLS: &[(&str, Call)] = &[
    ("insert", |rank, shard| {
        shard.insert(rank, &KEYS, &KEYS).map(drop)
    }),
    ("upsert", |rank, shard| {
        shard.upsert(rank, &KEYS, &KEYS).map(drop)
    }),
    ("add", |rank, shard| {
        shard.merge(rank, &KEYS, &KEYS, Merge::Add).map(drop)
    }),
    ("xor", |rank, shard| {
        shard.merge(rank, &KEYS, &KEYS, Merge::Xor).map(drop)
    }),
    ("update", |rank, shard| {
        shard.update(rank, &KEYS, &KEYS).map(drop)
    }),
    ("xor of those present", |rank, shard| {
        shard.update_with(rank, &KEYS, &KEYS, Merge::Xor).map(drop)
    }),
    ("remove", |rank, shard| shard.remove(rank, &KEYS).map(drop)),
    ("get", |rank, shard| shard.get(rank, &KEYS).map(drop)),
    ("contains", |rank, shard| {
        shard.contains(rank, &KEYS).map(drop)
    }),
    ("len", |rank, shard| shard.len(rank).map(drop)),
    ("reserve", |rank, shard| shard.reserve(rank, 1)),
    ("shrink_to_fit", |rank, shard| shard.shrink_to_fit(rank)),
    ("retain_keys", |rank, shard| {
        shard.retain_keys(rank, &KEYS).map(drop)
    }),
    ("new", |rank, _| Shard::<u32, u32>::new(rank).map(drop)),
    ("gather", |rank, _| rank.gather(&[1]).map(drop)),
    ("barrier", |rank, _| rank.barrier()),
    ("together", |rank, _| rank.together(Ok(()))),
    ("agree", |rank, _| rank.agree(Ok([1])).map(drop)),
];

/// Runs work on all ranks, and panics unless all get the error that they are out of step, and the
/// group goes on.
fn out_of_step<R: Send>(on: &Ranks, what: &str, work: impl Fn(&mut Rank) -> Result<R> + Sync) {
    for (rank, result) in on.run_each(work).into_iter().enumerate() {
        match result.err() {
            Some(Error::Group(GroupError::OutOfStep)) => {}
            other => panic!("{what}: rank {rank}: {other:?}"),
        }
    }
    on.run(|rank| rank.barrier()).unwrap();
}

/// The same, with a flag for the last rank.
pub fn last_differs<R: Send>(
    on: &Group,
    what: &str,
    work: impl Fn(&mut Rank, bool) -> Result<R> + Sync,
) {
    if on.len() > 1 {
        out_of_step(on.ranks(), what, |rank| {
            let is_last = rank.index() + 1 == rank.ranks();
            work(rank, is_last)
        });
    }
}

#[test]
fn different_calls_are_an_error_everywhere_and_change_nothing() {
    on_every_group(|on| {
        if on.len() == 1 {
            return;
        }
        let sharded = map::<u32, u32>(on);
        sharded.insert(&[5, 9], &[50, 90]).unwrap();
        for (i, &(one, first)) in CALLS.iter().enumerate() {
            for &(other, second) in &CALLS[i + 1..] {
                let results = sharded.run(|rank, shard| {
                    let called = match rank.index() + 1 == rank.ranks() {
                        true => second(rank, shard),
                        false => first(rank, shard),
                    };
                    Ok(called.err())
                });
                for error in results.unwrap() {
                    let told = matches!(error, Some(Error::Group(GroupError::OutOfStep)));
                    assert!(told, "{one}, {other}: {error:?}");
                }
            }
        }
        assert_eq!(sharded.len(), 2);
        let found = sharded.get(&[5, 6, 7, 9]).unwrap();
        assert_eq!(found, [Some(50), None, None, Some(90)]);
        // A call that does something before it meets the others.
        let cleared = sharded.run(|rank, shard| {
            Ok(match rank.index() {
                0 => shard.len(rank).err(),
                _ => shard.clear(rank).err(),
            })
        });
        for error in cleared.unwrap() {
            assert!(matches!(error, Some(Error::Group(GroupError::OutOfStep))));
        }
    });
}

#[test]
fn shards_of_different_types_are_not_made() {
    on_every_group(|on| {
        last_differs(on, "keys", |rank, is_last| match is_last {
            true => Shard::<u64, u32>::new(rank).map(drop),
            false => Shard::<u32, u32>::new(rank).map(drop),
        });
        last_differs(on, "values", |rank, is_last| match is_last {
            true => Shard::<u64, ()>::with_capacity(rank, 1_000).map(drop),
            false => Shard::<u64, u64>::with_capacity(rank, 1_000).map(drop),
        });
    });
}

#[test]
fn maps_of_one_group_that_are_mixed_up_are_found_out() {
    on_every_group(|on| {
        // Of the same seeds.
        let (one, other) = (map::<u32, u32>(on), map::<u32, u32>(on));
        let wide = map::<u64, u64>(on);
        for sharded in [&one, &other] {
            // Both have what large batches are sent through.
            sharded.insert(&[1, 2, 3], &[1, 2, 3]).unwrap();
        }
        let shards = |rank: &mut Rank| -> Result<_> {
            let mut of_both = [Shard::<u32, u32>::new(rank)?, Shard::new(rank)?];
            let is_last = rank.index() + 1 == rank.ranks();
            let mine = &mut of_both[usize::from(is_last && rank.ranks() > 1)];
            let mut wide = Shard::<u64, u64>::new(rank)?;
            let told = [
                mine.insert(rank, &KEYS, &KEYS).err(),
                mine.get(rank, &KEYS).err(),
                mine.remove(rank, &KEYS).err(),
                mine.len(rank).err(),
                mine.reserve(rank, 3).err(),
                match is_last {
                    true => wide.insert(rank, &[1 << 40, 2], &[3, 4]).err(),
                    false => mine.insert(rank, &KEYS, &KEYS).err(),
                },
            ];
            for mut shard in of_both {
                shard.insert(rank, &KEYS, &KEYS)?;
                assert_eq!(shard.len(rank)?, KEYS.len());
            }
            Ok(told)
        };
        for told in on.ranks().run(shards).unwrap() {
            for error in told {
                let well = match error {
                    Some(Error::Group(GroupError::OutOfStep)) => on.len() > 1,
                    None => on.len() == 1,
                    _ => false,
                };
                assert!(well, "{error:?}");
            }
        }
        drop(wide);
        assert_eq!((one.len(), other.len()), (3, 3));
    });
}

#[test]
fn a_shard_of_another_group_is_refused() {
    let large = Ranks::with_timeout(&cpu_devices(3), PATIENCE).unwrap();
    let small = Ranks::with_timeout(&cpu_devices(2), PATIENCE).unwrap();
    let shards = large.run(Shard::<u32, u32>::new).unwrap();
    let shards: Vec<_> = shards.into_iter().map(Mutex::new).collect();
    out_of_step(&small, "insert", |rank| {
        shards[rank.index()]
            .lock()
            .unwrap()
            .insert(rank, &KEYS, &KEYS)
    });
    // Before it does anything to the pairs that a rank has.
    let first = || shards[0].lock().unwrap();
    first().local().insert(&[1], &[1]).unwrap();
    out_of_step(&small, "clear", |rank| {
        shards[rank.index()].lock().unwrap().clear(rank)
    });
    assert_eq!(first().local().len(), 1);
    // One for each of the three.
    let two = small.run(Shard::<u32, u32>::new).unwrap();
    let more = small.run(Shard::<u32, u32>::new).unwrap();
    let shards: Vec<_> = two.into_iter().chain(more).map(Mutex::new).collect();
    out_of_step(&large, "get", |rank| {
        shards[rank.index()].lock().unwrap().get(rank, &KEYS)
    });
}

#[test]
fn numbers_of_words_that_differ_are_an_error_everywhere() {
    on_every_group(|on| {
        // Together as many as if all had brought two.
        last_differs(on, "gather", |rank, is_last| {
            match (is_last, rank.index()) {
                (true, _) => rank.gather(&[1; 3]),
                (false, 0) => rank.gather(&[1]),
                _ => rank.gather(&[1; 2]),
            }
        });
        last_differs(on, "raw", |rank, is_last| {
            rank.transport()
                .gather(if is_last { &[1, 2] } else { &[1] })
        });
    });
}

/// On executors: over NCCL it is not detected, and the caller answers for it.
#[test]
fn exchanges_that_do_not_fit_together_are_an_error_everywhere() {
    for ranks in [2, 3] {
        let group = Ranks::with_timeout(&cpu_devices(ranks), PATIENCE).unwrap();
        // How many parcels, of how many bytes, of how many elements for each; and to how many ranks.
        let exchange = |other: (usize, usize, usize, usize)| {
            move |rank: &mut Rank| {
                let (parcels, bytes, len, planned) = match rank.index() {
                    0 => other,
                    _ => (1, 4, 5, rank.ranks()),
                };
                let stream = Stream::new(rank.device())?;
                let mut words = [0, 1].map(|_| Buffer::<u64>::zeroed(&stream, 1_000).unwrap());
                stream.synchronize()?;
                let parts: Vec<_> = (0..planned).map(|to| to * len..(to + 1) * len).collect();
                let plan = Plan {
                    sends: parts.clone(),
                    receives: parts,
                };
                let parcel = Parcel {
                    send: words[0].as_ptr().cast(),
                    receive: words[1].as_mut_ptr().cast(),
                    bytes,
                };
                // SAFETY: fewer bytes than the buffers have, which are used after the wait alone.
                unsafe {
                    rank.transport()
                        .exchange(&stream, &plan, &vec![parcel; parcels])
                }?;
                rank.transport().wait(&stream)
            }
        };
        group.run(exchange((1, 4, 5, ranks))).unwrap();
        out_of_step(&group, "parcels", exchange((2, 4, 5, ranks)));
        out_of_step(&group, "bytes", exchange((1, 8, 5, ranks)));
        out_of_step(&group, "length", exchange((1, 4, 6, ranks)));
        out_of_step(&group, "plan", exchange((1, 4, 5, 1)));
        out_of_step(&group, "sum", |rank| {
            let stream = Stream::new(rank.device())?;
            let mut words = Buffer::<u64>::zeroed(&stream, 9)?;
            let (at, len) = (words.as_mut_ptr(), 9 - rank.index());
            // SAFETY: no more words than there are, used after the wait alone.
            unsafe { rank.transport().sum(&stream, at, len) }
        });
    }
}
