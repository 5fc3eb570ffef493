//! Callbacks of a map, while another thread waits to change it: lookups work, changes are [`Error::Nested`].

use std::io::{self, Write};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use gpumap::sharded::{GroupError, Ranks};
use gpumap::{Device, Error, Map, RowMap, ShardedMap};

use crate::verbs::{Callback, Hostile, Kind, Verb};
use crate::{case, for_each_kind};

/// How long it takes a thread to be waiting for a lock, most likely.
const SOON: Duration = Duration::from_millis(30);

fn clear<M: Hostile>(map: &M) -> gpumap::Result<()> {
    let clear = M::verbs().into_iter().find(|verb| verb.name == "clear");
    (clear.unwrap().run)(map)
}

/// Every method, by the thread that runs the callback.
fn call_each<M: Hostile>(map: &M, callback: &Callback<M>) {
    for Verb { name, kind, run } in M::verbs() {
        if !callback.holds && kind == Kind::Changes {
            continue;
        }
        eprintln!("{}::{name} in {}", M::NAME, callback.name);
        match (kind, run(map)) {
            (Kind::Changes, Err(Error::Nested)) | (Kind::Looks | Kind::Gives, Ok(())) => {}
            (_, other) => panic!("{other:?}"),
        }
    }
}

/// Every lookup, by another thread.
fn look_up<M: Hostile>(map: &M, callback: &Callback<M>) {
    for Verb { name, run, .. } in M::verbs()
        .into_iter()
        .filter(|verb| verb.kind == Kind::Looks)
    {
        eprintln!("{}::{name} beside {}", M::NAME, callback.name);
        run(map).unwrap();
    }
}

fn in_each_callback<M: Hostile>() {
    for callback in M::callbacks() {
        let map = M::make();
        let (begun, begin) = channel();
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let (map, callback, has_ended) = (&map, &callback, &has_ended);
            scope.spawn(move || {
                begin.recv().unwrap();
                clear(map).unwrap();
                let is_alone = !callback.holds || has_ended.load(Ordering::Acquire);
                assert!(
                    is_alone,
                    "{}: changed in the middle of a callback",
                    callback.name
                );
            });
            let mut calls = 0;
            let mut work = || {
                calls += 1;
                // Some write the header of a file before they take the lock.
                if calls != 1 + usize::from(callback.name == "save_to") {
                    return;
                }
                begun.send(()).unwrap();
                thread::sleep(SOON);
                call_each(map, callback);
                let runs_alone =
                    ["launch_unbounded", "launch_with_rows", "retain"].contains(&callback.name);
                if !runs_alone {
                    thread::scope(|scope| scope.spawn(|| look_up(map, callback)).join().unwrap());
                }
                has_ended.store(true, Ordering::Release);
            };
            (callback.run)(map, &mut work).unwrap();
            assert!(calls > 0, "{} calls nothing", callback.name);
        });
    }
}

case! { every_method_in_every_callback within 60: || {
    for_each_kind!(in_each_callback);
} }

/// What it is to be a callback of another map.
fn changes_another<M: Hostile>() {
    for callback in M::callbacks() {
        let (map, other) = (M::make(), M::make());
        (callback.run)(&map, &mut || clear(&other).unwrap()).unwrap();
        let (mut nested, mut calls) = (None, 0);
        // Of this one, through a callback of the other.
        (callback.run)(&map, &mut || {
            calls += 1;
            // Some write the header of a file before they take the lock.
            if calls != 2 && callback.name == "save_to" {
                return;
            }
            let other = M::make();
            (callback.run)(&other, &mut || {
                nested.get_or_insert_with(|| clear(&map));
            })
            .unwrap();
        })
        .unwrap();
        match nested {
            Some(Err(Error::Nested)) => assert!(callback.holds),
            Some(Ok(())) => assert!(!callback.holds, "{}", callback.name),
            other => panic!("{}: {other:?}", callback.name),
        }
        // And afterwards.
        clear(&map).unwrap();
    }
}

case! { callbacks_may_change_other_maps within 30: || {
    for_each_kind!(changes_another);
} }

/// A writer that takes its time.
struct Slow<'a>(&'a Barrier, usize);

impl Write for Slow<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1 += 1;
        // After the header.
        if self.1 == 2 {
            self.0.wait();
            self.0.wait();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A lookup by a third thread while one saves slowly and another waits to remove.
fn third_party<M: Sync>(
    map: &M,
    save: fn(&M, &mut dyn Write) -> gpumap::Result<u64>,
    [remove, look]: [fn(&M) -> gpumap::Result<()>; 2],
) {
    let barrier = Barrier::new(2);
    let is_removed = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| save(map, &mut Slow(&barrier, 0)).unwrap());
        barrier.wait();
        scope.spawn(|| {
            remove(map).unwrap();
            is_removed.store(true, Ordering::Release);
        });
        thread::sleep(SOON);
        let start = Instant::now();
        look(map).unwrap();
        // The save does not go on before.
        assert!(!is_removed.load(Ordering::Acquire));
        println!("looked up in {:?}", start.elapsed());
        barrier.wait();
    });
    assert!(is_removed.load(Ordering::Acquire));
}

case! { lookups_beside_a_slow_save_and_a_waiting_removal within 20: || {
    let device = Device::cpu();
    let rows = RowMap::<u64>::new(&device).unwrap();
    rows.insert(&[1, 2]).unwrap();
    third_party(&rows, |m, to| m.save_to(to), [
        |m| m.remove(&[1]).map(drop),
        |m| m.get(&[1, 2]).map(|found| assert_eq!(found, [Some(0), Some(1)])),
    ]);
    let strings = RowMap::<str>::new(&device).unwrap();
    strings.insert(&["a", "b"]).unwrap();
    third_party(&strings, |m, to| m.save_to(to), [
        |m| m.remove(&["a"]).map(drop),
        |m| m.get(&["a", "b"]).map(|found| assert_eq!(found, [Some(0), Some(1)])),
    ]);
    let wide = Map::<u128, u64>::new(&device).unwrap();
    wide.insert(&[1, 2], &[10, 20]).unwrap();
    third_party(&wide, |m, to| m.save_to(to), [
        |m| m.remove(&[1]).map(drop),
        |m| m.get(&[1, 2]).map(|found| assert_eq!(found, [Some(10), Some(20)])),
    ]);
    let ranks = Ranks::new(&[device.clone(), device]).unwrap();
    let wide = ShardedMap::<u128, u64>::new(&ranks).unwrap();
    wide.insert(&[1, 2], &[10, 20]).unwrap();
    third_party(&wide, |m, to| m.save_to(to), [
        |m| m.remove(&[1]).map(drop),
        |m| m.get(&[1, 2]).map(|found| assert_eq!(found, [Some(10), Some(20)])),
    ]);
} }

case! { readers_pass_a_writer_that_waits_for_a_callback within 20: || {
    let map = Map::<u64, u64>::with_capacity(&Device::cpu(), 100).unwrap();
    map.insert(&[1], &[10]).unwrap();
    let stream = gpumap::Stream::new(&Device::cpu()).unwrap();
    for _ in 0..20 {
        thread::scope(|scope| {
            let _ = map.launch_with(&stream, 0, |_| {
                let writer = scope.spawn(|| map.reserve(1_000).unwrap());
                let readers = [(); 3].map(|()| scope.spawn(|| map.get(&[1]).unwrap()));
                for reader in readers {
                    assert_eq!(reader.join().unwrap(), [Some(10)]);
                }
                assert!(!writer.is_finished());
                Ok(())
            })
            .unwrap();
        });
    }
} }

case! { callbacks_that_overlap_do_not_hold_a_change_up_for_ever within 30: || {
    let map = RowMap::<u64>::new(&Device::cpu()).unwrap();
    map.insert(&[1, 2, 3]).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    let pause = |_: &_| { thread::sleep(Duration::from_millis(1)); Ok(()) };
                    map.for_each_chunk(1, pause).unwrap();
                }
            });
        }
        for key in 10..20 {
            map.insert(&[key]).unwrap();
        }
        is_over.store(true, Ordering::Release);
    });
} }

case! {
    /// A panic of the closure: the map, and the group, go on.
    a_panic_in_a_closure_ends_nothing_else within 20: || {
    let device = Device::cpu();
    let ranks = Ranks::new(&[device.clone(), device]).unwrap();
    let map = ShardedMap::<u128, u64>::new(&ranks).unwrap();
    map.insert(&[1, 2, 3, 4], &[10, 20, 30, 40]).unwrap();
    let refused = map.retain(|key, _| if key == 3 { panic!("on purpose") } else { false });
    assert!(
        matches!(refused, Err(Error::Group(GroupError::Predicate { .. }))),
        "{refused:?}"
    );
    assert_eq!(map.len(), 4);
    assert_eq!(map.get(&[3]).unwrap(), [Some(30)]);
    assert_eq!(map.remove(&[3]).unwrap(), 1);
    assert_eq!(ranks.run(|rank| rank.gather(&[1u64])).unwrap()[0], [1, 1]);

    let map = Map::<u128, u64>::new(&Device::cpu()).unwrap();
    map.insert(&[1, 2], &[10, 20]).unwrap();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.for_each_chunk(1, |_| panic!("on purpose"))
    }));
    assert!(caught.is_err());
    // It is no callback any more.
    assert_eq!(map.insert(&[3], &[30]).unwrap(), 1);
} }
