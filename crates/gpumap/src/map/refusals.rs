//! Tests of calls that the device refuses: nothing has happened then; and of wakers, which may do anything.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::device::Device;
use crate::device::faults::{Call, Fault, Faults};
use crate::error::{Error, Result};
use crate::map::in_flight::Effect;
use crate::map::{Map, Merge, Operation};
use crate::primitives::Predicate;
use crate::stream::Stream;
use crate::testing::on_every_device;
use gpumap_simt::executor::Config;

const KEYS: [u64; 4] = [3, 5, 7, 11];

/// Audit findings 1 and 3: the map of a call in flight is queried where the driver answers nothing.
#[test]
fn a_refused_question_changes_nothing() {
    let faults = Faults::default();
    let map = Map::<u64, u64>::with_capacity(&Device::cpu().with_faults(&faults), 100).unwrap();
    let stream = Stream::new(map.device()).unwrap();
    let on = map.on(&stream);
    let pending = on.insert(&KEYS, &KEYS).unwrap();
    let unasked = on.insert(&[13], &[13]).unwrap();

    faults.plan(0, Fault::Forbidden);
    assert!(!pending.is_done());
    assert_eq!(map.len(), 0, "nothing is known of it yet");
    let refused = pending.wait().unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    let refused = map.clear().unwrap_err();
    assert!(refused.is_refusal(), "{refused}");

    faults.heal();
    assert_eq!(unasked.wait().unwrap(), 1);
    assert_eq!(map.get(&KEYS).unwrap(), KEYS.map(Some));
    assert_eq!(map.len(), 5);
}

/// Audit finding 1: a capture of another thread ends, and so does the wait.
#[test]
fn a_wait_is_asked_again() {
    for call in 0..20 {
        let faults = Faults::default();
        let map = Map::<u64, u64>::with_capacity(&Device::cpu().with_faults(&faults), 100).unwrap();
        let stream = Stream::new(map.device()).unwrap();
        let on = map.on(&stream);
        faults.plan(call, Fault::WaitsRefused(3));
        let pending = on.insert(&KEYS, &KEYS).unwrap();
        assert_eq!(pending.wait().unwrap(), 4, "call {call}");
        assert_eq!(map.get(&KEYS).unwrap(), KEYS.map(Some), "call {call}");
    }
}

/// Sends where it is called what it found there, and drops the last handle of its map.
struct Asks {
    map: Mutex<Option<Arc<Map<u64, u64>>>>,
    tells: Sender<(Option<String>, Result<usize>)>,
}

impl Wake for Asks {
    fn wake(self: Arc<Self>) {
        let map = self.map.lock().unwrap().take().unwrap();
        let new = map.insert(&KEYS, &KEYS).map(|new| new + map.len());
        drop(map);
        let thread = thread::current().name().map(str::to_owned);
        self.tells.send((thread, new)).unwrap();
    }
}

/// Audit finding 3: a waker calls operations, queries and drops the map, on a thread of the
/// library.
#[test]
fn wakers_may_do_anything() {
    on_every_device(|device| {
        let map = Arc::new(Map::<u64, u64>::with_capacity(device, 100).unwrap());
        let stream = Stream::new(device).unwrap();
        let (tells, told) = channel();
        let op = map
            .inline()
            .state
            .submit(&stream, Effect::Read, |_| Ok(()))
            .unwrap();
        let waker = Waker::from(Arc::new(Asks {
            map: Mutex::new(Some(map.clone())),
            tells,
        }));
        map.inline().state.in_flight.wake(&op, waker).unwrap();
        drop((op, map));
        let (thread, new) = told.recv_timeout(Duration::from_secs(20)).expect("woken");
        assert_eq!(thread.as_deref(), Some("gpumap-wakers"));
        assert_eq!(new.unwrap(), 8);
    });
}

type Verb = fn(&Map<u64, u64>) -> Result<()>;

/// Operations that change a map, each by a launch of its own at least.
const WRITERS: [(&str, Verb); 9] = [
    ("insert", |map| map.insert(&[1, 3], &[1, 3]).map(drop)),
    ("upsert", |map| map.upsert(&[1, 3], &[1, 3]).map(drop)),
    ("merge", |map| {
        map.merge(&[1, 3], &[1, 3], Merge::Add).map(drop)
    }),
    ("get_or_insert", |map| {
        map.get_or_insert(&[1, 3], &[1, 3]).map(drop)
    }),
    ("update", |map| map.update(&[3], &[1]).map(drop)),
    ("remove", |map| map.remove(&[3]).map(drop)),
    ("retain", |map| {
        map.retain_where(Predicate::Less(5), Predicate::Always)
            .map(drop)
    }),
    ("apply", |map| {
        map.apply(&[Operation::Remove], &[3], &[0]).map(drop)
    }),
    ("on a stream", |map| {
        let stream = Stream::new(map.device())?;
        map.on(&stream).insert(&[1, 3], &[1, 3])?.wait().map(drop)
    }),
];

/// Audit finding 7: a launch that never happened poisons nothing.
#[test]
fn a_refused_launch_leaves_the_map_as_it_was() {
    on_every_device(|device| {
        for (name, verb) in WRITERS {
            let launches = (0..200).any(|call| {
                let faults = Faults::default();
                let device = device.with_faults(&faults);
                let map = Map::<u64, u64>::with_capacity(&device, 100).unwrap();
                map.insert(&KEYS, &KEYS).unwrap();
                faults.plan(call, Fault::Once);
                let answer = verb(&map);
                if faults.failed() != Some(Call::Launch) {
                    return false;
                }
                faults.heal();
                let error = answer.unwrap_err();
                assert!(matches!(error, Error::Driver { .. }), "{name}: {error}");
                assert_eq!(map.get(&KEYS).unwrap(), KEYS.map(Some), "{name}");
                assert_eq!(map.len(), KEYS.len(), "{name}");
                verb(&map).unwrap();
                true
            });
            assert!(launches, "{name} launches nothing");
        }
    });
}

/// Audit finding 7: without memory for the stacks of the executor nothing is run, and nothing lost.
#[test]
fn a_launch_without_stacks_leaves_the_map_as_it_was() {
    let config = Config {
        stack_bytes: 1 << 46,
        ..Config::default()
    };
    let map = Map::<u64, u64>::with_capacity(&Device::cpu_with(config), 100).unwrap();
    for (name, verb) in WRITERS {
        for _ in 0..2 {
            let error = verb(&map).unwrap_err();
            assert!(
                matches!(error, Error::OutOfMemory { .. }),
                "{name}: {error}"
            );
        }
    }
    assert_eq!(map.len(), 0);
}
