//! Work of a group that calls for the whole group again: an error, since it would wait for itself.

use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use gpumap::primitives::Predicate;
use gpumap::sharded::{GroupError, Ranks, Shard};
use gpumap::{Error, Result, ShardedMap};
use gpumap_tests::group::{PATIENCE, cpu_devices};

/// Far less than [`PATIENCE`], and more than anything here takes.
const SOON: Duration = Duration::from_secs(60);

/// Runs a test that might never end.
fn ends(test: impl FnOnce() + Send + 'static) {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        test();
        let _ = send.send(());
    });
    receive.recv_timeout(SOON).expect("it ended, and well");
}

fn is_nested<R>(result: Result<R>) -> bool {
    matches!(result, Err(Error::Group(GroupError::Nested)))
}

#[test]
fn work_of_a_group_does_not_wait_for_itself() {
    ends(|| {
        for ranks in [1, 2, 3] {
            let group = Ranks::with_timeout(&cpu_devices(ranks), PATIENCE).unwrap();
            let sharded = ShardedMap::<u32, u32>::new(&group).unwrap();
            sharded.insert(&[1, 2, 3], &[10, 20, 30]).unwrap();
            let (mut keys, mut values) = (vec![0; 3], vec![0; 3]);
            let nested = sharded.run(|rank, _| {
                assert_eq!((sharded.len(), sharded.is_empty()), (3, false));
                assert_eq!(sharded.lens().iter().sum::<usize>(), 3);
                assert!(sharded.capacity() >= 3);
                assert!(is_nested(sharded.insert(&[4], &[4])));
                assert!(is_nested(sharded.get(&[4])));
                assert!(is_nested(sharded.clear()));
                assert!(is_nested(sharded.drain()));
                assert!(is_nested(
                    sharded.retain_where(Predicate::Always, Predicate::Always)
                ));
                assert!(is_nested(sharded.retrieve_all()));
                assert!(is_nested(
                    sharded.retrieve_all_into(&mut [0; 9], &mut [0; 9])
                ));
                assert!(is_nested(sharded.run(|_, _| Ok(()))));
                assert!(is_nested(ShardedMap::<u32, u32>::new(&group)));
                assert!(is_nested(group.run(|_| Ok(()))));
                let each = group.run_each(|_| Ok(()));
                assert!(each.len() == ranks && each.into_iter().all(is_nested));
                // All are still in step.
                rank.barrier()?;
                group.run(|_| Ok(()))
            });
            assert!(is_nested(nested));
            let of_others = group.run(|_| Ok((sharded.len(), is_nested(sharded.contains(&[1])))));
            assert_eq!(of_others.unwrap(), vec![(3, true); ranks]);
            assert_eq!(
                sharded.retrieve_all_into(&mut keys, &mut values).unwrap(),
                3
            );
        }
    });
}

#[test]
fn work_of_a_group_may_call_another_one() {
    ends(|| {
        let [outer, inner] =
            [2, 3].map(|n| Ranks::with_timeout(&cpu_devices(n), PATIENCE).unwrap());
        let sharded = ShardedMap::<u32, u32>::new(&inner).unwrap();
        let of_each = outer.run(|rank| {
            let key = rank.index() as u32;
            sharded.insert(&[key], &[key])?;
            rank.barrier()?;
            assert_eq!(sharded.len(), 2);
            // By way of the other, it is this one again.
            inner.run(|_| Ok(is_nested(outer.run(|_| Ok(())))))
        });
        assert_eq!(of_each.unwrap(), vec![vec![true; 3]; 2]);
    });
}

/// Groups whose work calls for the next one, the last one's for the first (audit finding 0).
#[test]
fn groups_that_would_wait_for_each_other_do_not() {
    for n in [2, 3] {
        ends(move || {
            let groups: Vec<Ranks> = (0..n)
                .map(|_| Ranks::with_timeout(&cpu_devices(2), PATIENCE).unwrap())
                .collect();
            let maps: Vec<_> = groups.iter().map(ShardedMap::<u32, u32>::new).collect();
            let maps: Vec<_> = maps.into_iter().map(Result::unwrap).collect();
            for round in 0..20u32 {
                let all_are_at_work = Barrier::new(n);
                let outcomes: Vec<Vec<Result<()>>> = thread::scope(|scope| {
                    let work = |at: usize| {
                        let (mine, next) = (&groups[at], &maps[(at + 1) % n]);
                        let all_are_at_work = &all_are_at_work;
                        scope.spawn(move || {
                            mine.run_each(|rank| {
                                if rank.index() == 1 {
                                    return Ok(());
                                }
                                all_are_at_work.wait();
                                match at {
                                    0 => next.retrieve_all().map(drop),
                                    _ => next.insert(&[round], &[round]).map(drop),
                                }
                            })
                        })
                    };
                    let threads: Vec<_> = (0..n).map(work).collect();
                    let joined = threads.into_iter().map(|thread| thread.join().unwrap());
                    joined.collect()
                });
                let mut refused = 0;
                for outcome in outcomes.into_iter().flatten() {
                    match outcome {
                        Ok(()) => {}
                        other => {
                            assert!(is_nested(other));
                            refused += 1;
                        }
                    }
                }
                assert_eq!(refused, 1, "of {n} groups, in round {round}");
            }
        });
    }
}

#[test]
fn what_is_counted_is_of_the_shard_that_is_there() {
    let group = Ranks::with_timeout(&cpu_devices(2), PATIENCE).unwrap();
    let sharded = ShardedMap::<u32, u32>::new(&group).unwrap();
    sharded.insert(&[1, 2, 3], &[1, 2, 3]).unwrap();
    sharded
        .run(|rank, shard| {
            *shard = Shard::new(rank)?;
            shard.insert(rank, &[7 + rank.index() as u32], &[7])
        })
        .unwrap();
    assert_eq!(sharded.len(), 2);
    assert_eq!(sharded.retrieve_all().unwrap().0.len(), 2);
}
