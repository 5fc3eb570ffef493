//! Tests of questions that the driver refuses, and of wakers, which may do anything.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::device::{Device, Fault, Faults};
use crate::error::Error;
use crate::map::Map;
use crate::map::flight::Effect;
use crate::stream::Stream;
use crate::testing::on_every_device;

const KEYS: [u64; 4] = [3, 5, 7, 11];

/// Audit findings 1 and 3: the map of a call in flight is asked where the driver answers nothing.
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
    tells: Sender<(Option<String>, Result<usize, Error>)>,
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

/// Audit finding 3: a waker calls operations, asks, and drops the map, on a thread of the library.
#[test]
fn wakers_may_do_anything() {
    on_every_device(|device| {
        let map = Arc::new(Map::<u64, u64>::with_capacity(device, 100).unwrap());
        let stream = Stream::new(device).unwrap();
        let (tells, told) = channel();
        let flight = map
            .books()
            .depart(&stream, Effect::Read, |_| Ok(()))
            .unwrap();
        let waker = Waker::from(Arc::new(Asks {
            map: Mutex::new(Some(map.clone())),
            tells,
        }));
        map.flights.wake(&flight, waker).unwrap();
        drop((flight, map));
        let (thread, new) = told.recv_timeout(Duration::from_secs(20)).expect("woken");
        assert_eq!(thread.as_deref(), Some("gpumap-wakers"));
        assert_eq!(new.unwrap(), 8);
    });
}
