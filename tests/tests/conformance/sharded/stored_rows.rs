//! Files of row maps over several ranks: places that come back, damage, and ranks that fail.

use std::fs;
use std::path::Path;
use std::thread;

use gpumap::file::FileError;
use gpumap::sharded::{GroupError, Ranks, RowShard, ShardRow};
use gpumap::{Device, Error, Fault, Faults, Growth, Result, RowMap, ShardedRowMap};
use gpumap_tests::device::noting;
use gpumap_tests::group::{Group, PATIENCE, cpu_devices, fresh_groups, on_cpu_devices};

use super::failures::assert_failed;
use super::rows::{Key, map, on_keys};
use crate::rows::keys;

/// What was wrong with a file.
fn cause<T>(outcome: Result<T>) -> FileError {
    match outcome {
        Err(Error::File { cause, .. }) => cause,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was loaded"),
    }
}

/// Panics unless two maps have the same keys at the same places, and go on alike.
fn assert_same<K: Key>(map: &ShardedRowMap<K>, back: &ShardedRowMap<K>) {
    let (held, places) = map.retrieve_all().unwrap();
    assert!(back.retrieve_all().unwrap() == (held.clone(), places));
    assert_eq!(back.lens(), map.lens());
    assert_eq!(back.row_bounds(), map.row_bounds());
    assert_eq!(back.get(&held).unwrap(), map.get(&held).unwrap());
    let next = keys::<K>(1 << 20..(1 << 20) + 50);
    assert_eq!(back.insert(&next).unwrap(), map.insert(&next).unwrap());
    assert_eq!(back.compact().unwrap(), map.compact().unwrap());
    assert_eq!(back.get(&held).unwrap(), map.get(&held).unwrap());
}

#[test]
fn places_come_back() {
    fn body<K: Key>(on: &Group) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        for (rows, removed) in [(0, 0..0), (1, 0..1), (90, 20..90), (400, 30..170)] {
            noting(&format!("{rows} rows without {removed:?}"), || {
                let map = map::<K>(on);
                map.insert(&keys::<K>(0..rows)).unwrap();
                map.remove(&keys::<K>(removed.clone())).unwrap();
                let kept = rows - (removed.end - removed.start);
                assert_eq!(map.save(&path).unwrap(), kept);
                let mut bytes = Vec::new();
                assert_eq!(map.save_to(&mut bytes).unwrap(), kept);
                let from_bytes = ShardedRowMap::load_from(on.ranks(), &bytes[..]).unwrap();
                let from_file = ShardedRowMap::load(on.ranks(), &path).unwrap();
                let mut told = (Vec::new(), Vec::new());
                map.for_each_chunk(7, |chunk| {
                    assert!(chunk.len() <= 7);
                    told.0.extend_from_slice(chunk.keys());
                    told.1.extend_from_slice(chunk.values());
                    Ok(())
                })
                .unwrap();
                assert!(told == map.retrieve_all().unwrap());
                assert!(told == from_bytes.retrieve_all().unwrap());
                assert_same(&map, &from_file);
            });
        }
    }
    on_keys!(body: u32, [u32; 3], u128);
}

#[test]
fn another_number_of_ranks_is_refused() {
    fn body<K: Key>(on: &Group) {
        let mut bytes = Vec::new();
        let map = map::<K>(on);
        let places = map.insert(&keys::<K>(0..100)).unwrap();
        map.save_to(&mut bytes).unwrap();
        for ranks in [1, 2, 4].into_iter().filter(|&ranks| ranks != on.len()) {
            let others = on_cpu_devices(ranks, PATIENCE);
            let refused = cause(ShardedRowMap::<K>::load_from(&others, &bytes[..]));
            assert!(
                matches!(refused, FileError::Group { rank: 0, ranks: found, wanted: 0, wanted_ranks }
                    if (usize::from(found), wanted_ranks) == (on.len(), ranks)),
                "{refused}"
            );
        }
        // As many ranks on the CPU have the places.
        let on_cpu = on_cpu_devices(on.len(), PATIENCE);
        let back = ShardedRowMap::<K>::load_from(&on_cpu, &bytes[..]).unwrap();
        let found = back.get(&keys::<K>(0..100)).unwrap();
        assert!(found.into_iter().eq(places.into_iter().map(Some)));
        // A row map has the rows of a group of one.
        let cpu = Device::cpu();
        match RowMap::<K>::builder(&cpu).load_from(&bytes[..]) {
            Ok(alone) => assert_eq!((on.len(), alone.len()), (1, 100)),
            refused => assert!(
                matches!(
                    cause(refused),
                    FileError::Group {
                        wanted_ranks: 1,
                        ..
                    }
                ) && on.len() > 1
            ),
        }
        let mut of_one = Vec::new();
        let alone = RowMap::<K>::new(&cpu).unwrap();
        alone.insert(&keys::<K>(0..100)).unwrap();
        alone.save_to(&mut of_one).unwrap();
        match ShardedRowMap::<K>::load_from(on.ranks(), &of_one[..]) {
            Ok(back) => assert_eq!((on.len(), back.lens()), (1, vec![100])),
            refused => {
                assert!(
                    matches!(cause(refused), FileError::Group { ranks: 1, .. }) && on.len() > 1
                );
            }
        }
    }
    on_keys!(body: u64, [u32; 7]);
}

#[test]
fn every_damage_is_found() {
    let ranks = on_cpu_devices(3, PATIENCE);
    let saved = |first: u64| {
        let map = ShardedRowMap::<u64>::with(&ranks, Some(5), |builder, _| builder).unwrap();
        map.insert(&keys::<u64>(first..first + 12)).unwrap();
        map.remove(&keys::<u64>(first + 2..first + 5)).unwrap();
        let mut bytes = Vec::new();
        map.save_to(&mut bytes).unwrap();
        let lens = map.lens();
        assert!(lens.iter().all(|&keys| keys > 0), "{lens:?}");
        (bytes, lens)
    };
    let load = |bytes: &[u8]| ShardedRowMap::<u64>::load_from(&ranks, bytes);
    let (good, lens) = saved(0);
    assert_eq!(load(&good).unwrap().lens(), lens);
    for len in 0..good.len() {
        let refused = cause(load(&good[..len]));
        if len >= 8 {
            let at = |bytes| bytes == len as u64;
            assert!(
                matches!(refused, FileError::Truncated { bytes } if at(bytes)),
                "{len}: {refused}"
            );
        }
    }
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        noting(&format!("byte {at}"), || cause(load(&bytes)));
    }
    let longer = cause(load(&[&good[..], &[0]].concat()));
    assert!(
        matches!(longer, FileError::TrailingBytes { at } if at == good.len() as u64),
        "{longer}"
    );
    // A header, a block and an end of each rank.
    let part = |lens: &[usize], rank: usize| {
        let end = |rank| {
            lens[..rank]
                .iter()
                .map(|keys| 64 + 8 + 12 * keys + 20)
                .sum()
        };
        let (start, end): (usize, usize) = (end(rank), end(rank + 1));
        start..end
    };
    let parts = [0, 1, 2].map(|rank| &good[part(&lens, rank)]);
    for order in [[0, 2, 1], [1, 0, 2], [0, 0, 2], [0, 1, 1]] {
        let refused = cause(load(&order.map(|rank: usize| parts[rank]).concat()));
        assert!(
            matches!(refused, FileError::Group { .. }),
            "{order:?}: {refused}"
        );
    }
    // A part of another moment.
    let (other, of_other) = saved(0);
    let mixed = [parts[0], &other[part(&of_other, 1)], parts[2]].concat();
    assert!(matches!(cause(load(&mixed)), FileError::Moment));
}

#[test]
fn keys_of_another_rank_are_refused() {
    let ranks = on_cpu_devices(2, PATIENCE);
    let map = ShardedRowMap::<u64>::new(&ranks).unwrap();
    // In the rows of rank 0, although rank 1 owns it.
    let stray = (0..).find(|&key| map.owner(key) == 1).unwrap();
    map.local(0).unwrap().insert(&[stray]).unwrap();
    let mut bytes = Vec::new();
    map.save_to(&mut bytes).unwrap();
    let refused = cause(ShardedRowMap::<u64>::load_from(&ranks, &bytes[..]));
    assert!(matches!(refused, FileError::Row { row: 0 }), "{refused}");
}

#[test]
fn many_removed_rows_need_room() {
    let ranks = on_cpu_devices(2, PATIENCE);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let map = ShardedRowMap::<u64>::new(&ranks).unwrap();
    let all = keys::<u64>(0..200_000);
    map.insert(&all).unwrap();
    map.remove(&all[1..199_999]).unwrap();
    map.save(&path).unwrap();
    let refused = cause(ShardedRowMap::<u64>::load(&ranks, &path));
    assert!(matches!(refused, FileError::RowBound { .. }), "{refused}");
    let back = ShardedRowMap::<u64>::load_with(&ranks, &path, |builder, share| {
        builder.capacity(share(200_000)).growth(Growth::Fixed)
    });
    assert_same(&map, &back.unwrap());
}

#[test]
fn files_have_the_keys_of_one_moment() {
    let ranks = on_cpu_devices(3, PATIENCE);
    let map = ShardedRowMap::<u64>::new(&ranks).unwrap();
    thread::scope(|scope| {
        let inserts = scope.spawn(|| {
            for batch in 0..60 {
                map.insert(&keys::<u64>(10 * batch..10 * batch + 10))
                    .unwrap();
            }
        });
        while !inserts.is_finished() {
            let mut bytes = Vec::new();
            map.save_to(&mut bytes).unwrap();
            let back = ShardedRowMap::<u64>::load_from(&ranks, &bytes[..]).unwrap();
            let len = back.len() as u64;
            assert_eq!(len % 10, 0, "a part of a batch");
            let found = back.get(&keys::<u64>(0..len)).unwrap();
            assert!(found.iter().all(Option::is_some));
        }
    });
}

#[test]
fn the_work_of_the_group_cannot_save() {
    let map = ShardedRowMap::<u64>::new(&on_cpu_devices(2, PATIENCE)).unwrap();
    map.insert(&[1, 2, 3]).unwrap();
    let nested = |outcome: Result<()>| {
        assert!(matches!(outcome, Err(Error::Group(GroupError::Nested))));
    };
    map.run(|_, _| {
        nested(map.save_to(Vec::new()).map(drop));
        nested(map.for_each_chunk(9, |_| Ok(())));
        Ok(())
    })
    .unwrap();
    // A callback may look keys up.
    map.for_each_chunk(9, |_| {
        assert_eq!(map.get(&[1]).unwrap().len(), 1);
        assert!(matches!(map.insert(&[4]), Err(Error::Nested)));
        Ok(())
    })
    .unwrap();
    // Also after a panic the thread is as before.
    let panics = std::panic::AssertUnwindSafe(|| map.for_each_chunk(9, |_| panic!("on purpose")));
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!(map.get(&[1]).unwrap().len(), 1);
}

/// One device fails in the middle of it: the map and the file before are as they were, and the group goes on.
#[test]
fn a_device_that_fails_leaves_files_and_maps_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let faults = Faults::default();
    let mut devices = cpu_devices(3);
    devices[1] = devices[1].with_faults(&faults);
    let ranks = Ranks::with_timeout(&devices, PATIENCE).unwrap();
    let map = ShardedRowMap::<u128>::new(&ranks).unwrap();
    map.insert(&keys::<u128>(0..60)).unwrap();
    map.save(&path).unwrap();
    let before = fs::read(&path).unwrap();
    map.insert(&keys::<u128>(40..90)).unwrap();
    let held = map.retrieve_all().unwrap();
    let mut refused = [0; 2];
    for call in 0.. {
        faults.plan(call, Fault::Once);
        let saved = map.save(&path);
        let mut is_over = faults.failed().is_none();
        faults.heal();
        if saved.is_err() {
            refused[0] += 1;
            assert_eq!(fs::read(&path).unwrap(), before);
        } else if !is_over {
            fs::write(&path, &before).unwrap();
        }
        assert!(map.retrieve_all().unwrap() == held);

        let bytes = before.clone();
        faults.plan(call, Fault::Once);
        let loaded = ShardedRowMap::<u128>::load_from(&ranks, &bytes[..]);
        is_over &= faults.failed().is_none();
        faults.heal();
        match loaded {
            Ok(back) => assert_eq!(back.len(), 60),
            Err(_) => refused[1] += 1,
        }
        assert_eq!(map.get(&held.0).unwrap().len(), held.0.len());
        if is_over {
            break;
        }
    }
    assert!(refused.iter().all(|&refused| refused > 0), "{refused:?}");
}

/// The shards of a group, saved by each rank into a file of its own.
fn save_each(ranks: &Ranks, folder: &Path, to: u64) -> Vec<(usize, Vec<Option<ShardRow>>)> {
    let asked = keys::<u64>(0..to);
    let work = |rank: &mut gpumap::sharded::Rank| {
        let shard = RowShard::<u64>::with(rank, Some(5), |builder, _| builder)?;
        shard.insert(rank, &asked)?;
        shard.remove(rank, &asked[..5])?;
        let path = folder.join(rank.index().to_string());
        assert_eq!(shard.save(rank, &path)?, to - 5);
        Ok((shard.local().row_bound(), shard.get(rank, &asked)?))
    };
    ranks.run(work).unwrap()
}

#[test]
fn each_rank_has_a_file_of_its_own() {
    for on in fresh_groups(PATIENCE) {
        let folder = tempfile::tempdir().unwrap();
        let asked = keys::<u64>(0..100);
        let saved = save_each(on.ranks(), folder.path(), 100);
        let load = |of: &(dyn Fn(usize) -> usize + Sync)| {
            on.ranks().run_each(|rank| {
                let path = folder.path().join(of(rank.index()).to_string());
                let shard = RowShard::<u64>::load(rank, &path, |builder, _| builder)?;
                Ok((shard.local().row_bound(), shard.get(rank, &asked)?))
            })
        };
        let back: Vec<_> = load(&|rank| rank).into_iter().map(Result::unwrap).collect();
        assert!(back == saved);
        if on.len() == 1 {
            continue;
        }
        // The last rank has the file of the first.
        let last = on.len() - 1;
        for (rank, outcome) in load(&|rank| rank % last).into_iter().enumerate() {
            match outcome {
                Err(Error::Group(_)) if rank < last => {}
                outcome => {
                    let refused = cause(outcome);
                    assert!(
                        rank == last && matches!(refused, FileError::Group { rank: 0, .. }),
                        "{refused}"
                    );
                }
            }
        }
        // One file is of an earlier moment.
        let earlier = fs::read(folder.path().join("1")).unwrap();
        save_each(on.ranks(), folder.path(), 100);
        fs::write(folder.path().join("1"), earlier).unwrap();
        for outcome in load(&|rank| rank) {
            assert!(matches!(cause(outcome), FileError::Moment));
        }
    }
}

#[test]
fn a_rank_that_cannot_write_its_file_keeps_those_of_the_others() {
    for on in fresh_groups(PATIENCE) {
        let folder = tempfile::tempdir().unwrap();
        save_each(on.ranks(), folder.path(), 50);
        let path = |rank: usize| folder.path().join(rank.to_string());
        let before: Vec<_> = (0..on.len())
            .map(|rank| fs::read(path(rank)).unwrap())
            .collect();
        let last = on.len() - 1;
        let outcomes = on.ranks().run_each(|rank| {
            let shard = RowShard::<u64>::new(rank)?;
            shard.insert(rank, &keys::<u64>(0..70))?;
            let to = match rank.index() == last {
                true => folder.path().join("none").join("rows"),
                false => path(rank.index()),
            };
            let saved = shard.save(rank, to);
            // The group goes on.
            assert_eq!(shard.len(rank)?, 70);
            saved
        });
        for (rank, outcome) in outcomes.into_iter().enumerate() {
            match rank == last {
                true => assert!(matches!(cause(outcome), FileError::Io(_))),
                false => assert_failed(&outcome.unwrap_err(), last),
            }
            assert_eq!(fs::read(path(rank)).unwrap(), before[rank]);
        }
    }
}
