//! What becomes of a group when one rank fails: an error on every rank, within a timeout, never a hang.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gpumap::sharded::{GroupError, Parcel, Plan, Rank, Ranks, Shard, devices};
use gpumap::{Buffer, Device, Error, Result, Stream};
use gpumap_tests::device::noting;
use gpumap_tests::group::{PATIENCE, cpu_devices, fresh_groups, on_every_group};

/// Far less than [`PATIENCE`]: a rank that got its error by then did not wait for a timeout.
const SOON: Duration = Duration::from_secs(60);

/// Panics unless the error says that another rank failed.
pub fn assert_failed(error: &Error, rank: usize) {
    match error {
        Error::Group(GroupError::Failed { rank: found }) => assert_eq!(*found, rank),
        other => panic!("not the failure of rank {rank}: {other}"),
    }
}

/// Panics unless a call was refused because other ranks have made another one.
pub fn assert_out_of_step<T>(called: Result<T>) {
    match called.err() {
        Some(Error::Group(GroupError::OutOfStep)) => {}
        other => panic!("not out of step: {other:?}"),
    }
}

/// Panics unless all have waited until their time was up, and the group has been given up.
fn assert_given_up<R>(ranks: &Ranks, results: Vec<Result<R>>) {
    for result in results {
        let error = result.err();
        assert!(
            matches!(error, Some(Error::Group(GroupError::Silent { .. }))),
            "{error:?}"
        );
    }
    let after = ranks.run(|_| Ok(())).unwrap_err();
    assert!(matches!(after, Error::Group(GroupError::Ended)), "{after}");
}

/// Runs work in which the last rank fails in some way, on a new group of every kind; returns all results.
fn last_fails<R: Send>(
    timeout: Duration,
    work: impl Fn(&mut Rank, bool) -> Result<R> + Sync,
    check: impl Fn(&Ranks, Vec<Result<R>>),
) {
    for group in fresh_groups(timeout) {
        if group.len() == 1 {
            continue;
        }
        noting(&group.to_string(), || {
            let last = group.len() - 1;
            let start = Instant::now();
            let results = group.ranks().run_each(|rank| {
                let is_last = rank.index() == last;
                work(rank, is_last)
            });
            assert!(start.elapsed() < SOON, "waited {:?}", start.elapsed());
            assert_eq!(results.len(), group.len());
            check(group.ranks(), results);
        });
    }
}

/// An error that a rank has of its own.
fn of_its_own() -> Error {
    Error::OutputTooSmall {
        needed: 2,
        given: 1,
    }
}

#[test]
fn who_gives_up_before_a_collective_is_not_waited_for() {
    last_fails(
        PATIENCE,
        |rank, is_last| {
            if is_last {
                Err(of_its_own())
            } else {
                rank.barrier()
            }
        },
        |ranks, results| {
            let last = results.len() - 1;
            for (rank, result) in results.into_iter().enumerate() {
                let error = result.unwrap_err();
                if rank == last {
                    assert!(matches!(error, Error::OutputTooSmall { .. }), "{error}");
                } else {
                    assert_failed(&error, last);
                }
            }
            // Nothing was under way: the group goes on, and reports the error that says most.
            ranks.run(|rank| rank.barrier()).unwrap();
            let error = ranks.run(|rank| match rank.index() == last {
                true => Err(of_its_own()),
                false => rank.barrier(),
            });
            assert!(matches!(error, Err(Error::OutputTooSmall { .. })));
        },
    );
}

#[test]
fn a_panic_is_an_error_everywhere_and_the_end_of_the_group() {
    last_fails(
        PATIENCE,
        |rank, is_last| {
            let mut shard = Shard::<u64, u64>::new(rank)?;
            shard.insert(rank, &[1, 2, 3], &[1, 2, 3])?;
            if is_last {
                panic!("meant to be");
            }
            shard.get(rank, &[1, 2, 3]).map(drop)
        },
        |ranks, results| {
            let last = results.len() - 1;
            for result in results {
                let error = result.unwrap_err();
                let is_panic = |rank| rank == last;
                match error {
                    Error::Group(GroupError::Panicked { rank }) => assert!(is_panic(rank)),
                    other => panic!("not a panic: {other}"),
                }
            }
            let after = ranks.run(|rank| rank.barrier()).unwrap_err();
            assert!(matches!(after, Error::Group(GroupError::Ended)), "{after}");
        },
    );
}

#[test]
fn who_does_not_come_is_waited_for_until_the_time_is_up() {
    // Whatever else the machine does, the last one comes when the others have given up.
    let given_up = AtomicUsize::new(0);
    last_fails(
        Duration::from_millis(200),
        |rank, is_last| {
            let begun = Instant::now();
            while is_last
                && given_up.load(Ordering::Acquire) < rank.ranks() - 1
                && begun.elapsed() < SOON / 2
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            let met = rank.barrier();
            given_up.fetch_add(1, Ordering::AcqRel);
            met
        },
        |ranks, results| {
            given_up.store(0, Ordering::Release);
            assert_given_up(ranks, results);
        },
    );
}

/// A collective of the link, as each rank calls it.
type Phase = fn(&mut Rank, &Stream, Buffer<u64>) -> Result<()>;

/// What a rank may be late for, or never reach (audit finding 0).
const PHASES: [Phase; 4] = [
    |rank, _, _| rank.transport().gather(&[1]).map(drop),
    |rank, stream, mut words| {
        let parts: Vec<_> = (0..rank.ranks()).map(|to| to..to + 1).collect();
        let plan = Plan {
            sends: parts.clone(),
            receives: parts,
        };
        let send = Buffer::<u64>::zeroed(stream, rank.ranks())?;
        let parcel = Parcel {
            send: send.as_ptr().cast(),
            receive: words.as_mut_ptr().cast(),
            bytes: size_of::<u64>(),
        };
        // SAFETY: both have an element for each rank, and live until the wait is over.
        unsafe { rank.transport().exchange(stream, &plan, &[parcel]) }?;
        rank.transport().wait(stream)
    },
    |rank, stream, mut words| {
        let (at, len) = (words.as_mut_ptr(), words.len());
        // SAFETY: `len` words, which live until the wait is over.
        unsafe { rank.transport().sum(stream, at, len) }?;
        rank.transport().wait(stream)
    },
    |rank, _, words| rank.transport().window(words.into()).map(drop),
];

/// Calls a phase, after something that the last rank does alone.
fn come(rank: &mut Rank, phase: Phase, before: impl FnOnce() -> Result<()>) -> Result<()> {
    let stream = Stream::new(rank.device())?;
    let words = Buffer::<u64>::zeroed(&stream, rank.ranks())?;
    stream.synchronize()?;
    before()?;
    phase(rank, &stream, words)
}

#[test]
fn who_is_late_for_any_phase_is_waited_for_until_the_time_is_up() {
    for phase in PHASES {
        last_fails(
            Duration::from_millis(100),
            |rank, is_last| {
                come(rank, phase, || {
                    if is_last {
                        std::thread::sleep(Duration::from_millis(400));
                    }
                    Ok(())
                })
            },
            |ranks, results| {
                assert_given_up(ranks, results);
            },
        );
    }
}

#[test]
fn who_does_not_come_to_any_phase_is_not_waited_for() {
    for phase in PHASES {
        last_fails(
            PATIENCE,
            |rank, is_last| {
                come(rank, phase, || match is_last {
                    true => Err(of_its_own()),
                    false => Ok(()),
                })
            },
            |ranks, results| {
                let last = results.len() - 1;
                for result in &results[..last] {
                    assert_failed(result.as_ref().unwrap_err(), last);
                }
                // Nothing was under way, so the group goes on.
                let again = ranks.run(|rank| come(rank, phase, || Ok(())));
                again.unwrap();
            },
        );
    }
}

/// A rank that is gone between the words of hosts and the data of devices.
#[test]
fn who_leaves_an_exchange_half_way_leaves_nobody_hanging() {
    last_fails(
        Duration::from_secs(5),
        |rank, is_last| {
            let mut shard = Shard::<u64, u64>::new(rank)?;
            shard.insert(rank, &[1, 2, 3], &[1, 2, 3])?;
            // As a batch begins: each rank sends how much it has, then what it has for which rank, then
            // that it has room.
            let words = [8, 2 + rank.ranks(), 2];
            if is_last {
                // What the others send at each step reaches only ranks that have come so far.
                let mut said: Vec<Vec<u64>> = Vec::new();
                for len in words {
                    said.iter()
                        .try_for_each(|said| rank.transport().gather(said).map(drop))?;
                    let all = rank.transport().gather(&vec![0; len])?;
                    said.push(all[..len].to_vec());
                }
                said.iter()
                    .try_for_each(|said| rank.transport().gather(said).map(drop))?;
                return Err(of_its_own());
            }
            for _ in words {
                assert_out_of_step(shard.insert(rank, &[4, 5, 6, 7, 8, 9], &[0; 6]));
            }
            shard.insert(rank, &[4, 5, 6, 7, 8, 9], &[0; 6]).map(drop)
        },
        |_, results| {
            let last = results.len() - 1;
            for (rank, result) in results.into_iter().enumerate() {
                let error = result.unwrap_err();
                let well = match &error {
                    Error::OutputTooSmall { .. } => rank == last,
                    Error::Group(_) => rank != last,
                    _ => false,
                };
                assert!(well, "rank {rank}: {error}");
            }
        },
    );
}

#[test]
fn a_rank_without_memory_is_an_error_everywhere_and_the_group_goes_on() {
    for ranks in [2, 3, 8] {
        let mut all = cpu_devices(ranks);
        // Enough for the table of the map, not for the batches of all.
        all[ranks - 1] = all[ranks - 1].with_memory_budget(1 << 20);
        let group = Ranks::with_timeout(&all, PATIENCE).unwrap();
        let keys: Vec<u64> = (0..200_000).collect();
        let small: Vec<u64> = (0..100).collect();
        let results = group.run_each(|rank| {
            let mut shard = Shard::<u64, u64>::new(rank)?;
            assert_eq!(shard.insert(rank, &small, &small)?, 100);
            let refused = shard.insert(rank, &keys, &keys).unwrap_err();
            // The rank that was refused memory has none of it, and all can go on.
            assert_eq!(shard.get(rank, &[7u64, 99])?, [Some(7), Some(99)]);
            Err::<(), _>(refused)
        });
        for (rank, result) in results.into_iter().enumerate() {
            let error = result.unwrap_err();
            if rank == ranks - 1 {
                assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
            } else {
                assert_failed(&error, ranks - 1);
            }
        }
        group.run(|rank| rank.barrier()).unwrap();
    }
}

#[test]
fn lists_that_cannot_be_groups_are_refused() {
    let none = Ranks::new(&[]).unwrap_err();
    assert!(matches!(none, Error::Group(GroupError::Empty)));
    for text in ["", "cpu,", "gpu", "cuda:x,cpu", "cuda:+1", "-1"] {
        let error = devices(text).unwrap_err();
        assert!(
            matches!(error, Error::Group(GroupError::DeviceList { .. })),
            "{text}: {error}"
        );
    }
    on_every_group(|on| {
        let first = &on.ranks().devices()[0];
        if first.is_cuda() {
            let mixed = Ranks::new(&[first.clone(), Device::cpu()]).unwrap_err();
            assert!(matches!(mixed, Error::Group(GroupError::Mixed { rank: 1 })));
            let same = Ranks::new(&[first.clone(), first.clone()]).unwrap_err();
            let pair = GroupError::SameDevice {
                first: 0,
                second: 1,
            };
            assert_eq!(same.to_string(), Error::Group(pair).to_string());
        }
    });
}

#[test]
#[ignore = "run by the next one in a process of its own"]
fn child_without_nccl() {
    match gpumap::sharded::GroupId::new() {
        Ok(id) => println!("found: {id}"),
        Err(error) => println!("error: {error:?}: {error}"),
    }
}

#[test]
fn without_nccl_an_error_says_how_to_get_it() {
    let run = |nccl: &str, multicast: &str| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sharded::failures::child_without_nccl"])
            .args(["--ignored", "--nocapture"])
            .env("GPUMAP_NCCL", nccl)
            .env("NCCL_NVLS_ENABLE", multicast)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let missing = run("/no/such/libnccl.so.2", "0");
    assert!(missing.contains("NoNccl"), "{missing}");
    for word in [
        "libnccl.so.2",
        "libnccl2",
        "nvidia-nccl-cu13",
        "LD_LIBRARY_PATH",
        "GPUMAP_NCCL",
    ] {
        assert!(missing.contains(word), "{missing}");
    }
    // Some library that is there and is not NCCL: a file without its functions.
    let other = run("libc.so.6", "0");
    assert!(
        other.contains("NcclTooOld") && other.contains("ncclGetUniqueId"),
        "{other}"
    );
    if devices("0,1").is_ok() {
        let multicast = run("", "1");
        let expected = ["Multicast", "NoNccl"];
        assert!(
            expected.iter().any(|name| multicast.contains(name)),
            "{multicast}"
        );
    }
}

/// Buffers of one rank are not those of another, which only separate devices show.
#[test]
fn memory_of_another_rank_is_refused() {
    let group = Ranks::with_timeout(&cpu_devices(2), PATIENCE).unwrap();
    let stream = Stream::new(&group.devices()[1]).unwrap();
    let of_second = Buffer::from_slice(&stream, &[1u64, 2, 3]).unwrap();
    let results = group.run_each(|rank| {
        let mut shard = Shard::<u64, u64>::new(rank)?;
        shard.insert(rank, &of_second, &of_second)
    });
    assert!(matches!(results[0], Err(Error::WrongDevice { .. })));
    assert_failed(results[1].as_ref().unwrap_err(), 0);
}

#[test]
fn who_leaves_without_an_error_is_not_said_to_have_failed() {
    last_fails(
        PATIENCE,
        |rank, is_last| if is_last { Ok(()) } else { rank.barrier() },
        |ranks, results| {
            let last = results.len() - 1;
            let left = |error: &Error| match error {
                Error::Group(GroupError::Left { rank }) => *rank == last,
                _ => false,
            };
            for (rank, result) in results.into_iter().enumerate() {
                match result {
                    Ok(()) => assert_eq!(rank, last),
                    Err(error) => assert!(rank != last && left(&error), "{error}"),
                }
            }
            let error = ranks.run(|rank| match rank.index() == last {
                true => Ok(()),
                false => rank.barrier(),
            });
            let error = error.unwrap_err();
            assert!(left(&error), "{error}");
            // Errors of their own come before those for the others' sake.
            let error = ranks.run(|rank| match rank.index() == last {
                true => Ok(()),
                false => rank.barrier().map_err(|_| of_its_own()),
            });
            assert!(matches!(error, Err(Error::OutputTooSmall { .. })));
            // Also if ranks before it get the error that a rank has left.
            let error = ranks.run(|rank| match rank.index() {
                index if index == last => Ok(()),
                index if index + 1 == last => rank.barrier().map_err(|_| of_its_own()),
                _ => rank.barrier(),
            });
            assert!(matches!(error, Err(Error::OutputTooSmall { .. })));
            ranks.run(|rank| rank.barrier()).unwrap();
        },
    );
}

#[test]
fn a_timeout_may_be_longer_than_time_is_told() {
    for timeout in [Duration::MAX, Duration::from_secs(u64::MAX / 4)] {
        let group = Ranks::with_timeout(&cpu_devices(3), timeout).unwrap();
        group
            .run(|rank| {
                // Longer than a rank spins without sleeping.
                std::thread::sleep(Duration::from_millis(5) * rank.index() as u32);
                rank.barrier()
            })
            .unwrap();
    }
}
