//! Deferred streams keep what CUDA promises, and nothing more. For audit finding 6.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gpumap_simt::{kernel, kernel::Grid, kernel_args};

use crate::{
    Buffer, Device, Error, Event, Fault, Faults, Map, PinnedBuffer, Result, RowMap, Stream,
};

/// Enough for each order of a few steps.
const SEEDS: u64 = 64;

kernel_args! {
    /// Arguments of [`FAIL`].
    struct NoArgs {}
}

kernel! {
    /// Breaks a rule.
    static FAIL = fn test_fail(_args: NoArgs) {
        panic!("on purpose");
    }
}

/// What comes of a test on each of many orders.
fn outcomes<T: Ord>(test: impl Fn(&Device) -> T) -> BTreeSet<T> {
    let devices = (0..SEEDS).map(Device::cpu_deferred);
    devices.map(|device| test(&device)).collect()
}

fn fill(stream: &Stream, buffer: &mut Buffer<u8>, value: u8) {
    let (to, bytes) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: every test waits for the stream before it drops the buffer.
    unsafe { stream.fill(to, value, bytes) }.unwrap();
}

/// What a buffer holds at this moment, whatever is queued.
fn now(buffer: &Buffer<u8>) -> u8 {
    // SAFETY: the memory is the host's, and no other thread runs a step.
    unsafe { buffer.as_ptr().read() }
}

fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

#[test]
fn work_runs_at_once_or_later_and_before_a_wait_returns() {
    let seen = outcomes(|device| {
        let stream = Stream::new(device).unwrap();
        let mut buffer = Buffer::<u8>::zeroed(&stream, 1).unwrap();
        stream.synchronize().unwrap();
        fill(&stream, &mut buffer, 7);
        let at_once = now(&buffer);
        stream.synchronize().unwrap();
        assert_eq!(now(&buffer), 7);
        assert!(stream.is_idle().unwrap());
        at_once
    });
    assert!(seen.into_iter().eq([0, 7]));
}

#[test]
fn who_asks_often_enough_hears_yes() {
    let seen = outcomes(|device| {
        let stream = Stream::new(device).unwrap();
        let event = Event::new(device).unwrap();
        let _buffer = Buffer::<u8>::zeroed(&stream, 1).unwrap();
        event.record(&stream).unwrap();
        let noes = (0..1000).take_while(|_| !event.is_done().unwrap()).count();
        assert!(stream.is_idle().unwrap());
        assert!(noes < 1000);
        noes > 0
    });
    assert_eq!(seen.len(), 2);
}

#[test]
fn only_events_and_waits_order_streams() {
    let last = |is_ordered: bool| {
        outcomes(|device| {
            let (one, two) = (Stream::new(device).unwrap(), Stream::new(device).unwrap());
            let mut buffer = Buffer::<u8>::zeroed(&one, 1).unwrap();
            device.synchronize().unwrap();
            fill(&one, &mut buffer, 1);
            if is_ordered {
                two.wait_stream(&one).unwrap();
            }
            fill(&two, &mut buffer, 2);
            device.synchronize().unwrap();
            now(&buffer)
        })
    };
    assert!(last(false).into_iter().eq([1, 2]));
    assert!(last(true).into_iter().eq([2]));
}

#[test]
fn an_event_is_where_it_was_recorded_last() {
    let seen = outcomes(|device| {
        let (one, two) = (Stream::new(device).unwrap(), Stream::new(device).unwrap());
        let mut buffer = Buffer::<u8>::zeroed(&one, 1).unwrap();
        device.synchronize().unwrap();
        let event = Event::new(device).unwrap();
        // Not recorded: not waited for.
        two.wait_event(&event).unwrap();
        event.synchronize().unwrap();
        fill(&one, &mut buffer, 1);
        event.record(&one).unwrap();
        fill(&one, &mut buffer, 2);
        event.synchronize().unwrap();
        let first = now(&buffer);
        two.wait_event(&event).unwrap();
        // A wait is for the point that was recorded when it was queued.
        event.record(&one).unwrap();
        two.synchronize().unwrap();
        let second = now(&buffer);
        event.synchronize().unwrap();
        assert_eq!(now(&buffer), 2);
        (first, second)
    });
    assert!(seen.iter().all(|(first, _)| [1, 2].contains(first)));
    assert!(seen.contains(&(1, 1)) && seen.contains(&(2, 2)));
}

#[test]
fn memory_is_valid_from_where_it_was_allocated_to_where_it_was_freed() {
    // Written to by a stream that does not wait for the allocation.
    let early = outcomes(|device| {
        let (one, two) = (Stream::new(device).unwrap(), Stream::new(device).unwrap());
        let mut buffer = Buffer::<u8>::unwritten(&one, 1).unwrap();
        fill(&two, &mut buffer, 2);
        device.synchronize().unwrap();
        now(&buffer)
    });
    assert!(early.into_iter().eq([2, super::quarantine::FRESH]));
    // Read by a stream that the free does not wait for.
    let late = outcomes(|device| {
        let (one, two) = (Stream::new(device).unwrap(), Stream::new(device).unwrap());
        let buffer = Buffer::from_slice(&one, &[1u8]).unwrap();
        let mut copy = Buffer::<u8>::zeroed(&two, 1).unwrap();
        device.synchronize().unwrap();
        // SAFETY: that it may be freed before is what this test is about; nothing is unmapped then.
        unsafe { two.copy(copy.as_mut_ptr(), buffer.as_ptr(), 1) }.unwrap();
        drop(buffer);
        copy.to_vec().unwrap()[0]
    });
    assert!(late.into_iter().eq([1, super::quarantine::FREED]));
    // Written to by such a stream.
    let told = (0..SEEDS).all(|seed| {
        let device = Device::cpu_deferred(seed);
        panics(|| {
            let (one, two) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
            let mut buffer = Buffer::<u8>::zeroed(&one, 1).unwrap();
            one.synchronize().unwrap();
            let to = buffer.as_mut_ptr();
            drop(buffer);
            one.synchronize().unwrap();
            // SAFETY: as above.
            unsafe { two.fill(to, 1, 1) }.unwrap();
            drop((one, two, device));
        })
    });
    assert!(told);
}

#[test]
fn a_copy_to_memory_that_is_not_there_any_more_is_told() {
    let told = outcomes(|device| {
        let stream = Stream::new(device).unwrap();
        let buffer = Buffer::<u64>::zeroed(&stream, 10).unwrap();
        let mut pinned = PinnedBuffer::<u64>::zeroed(device, 10).unwrap();
        stream.synchronize().unwrap();
        // SAFETY: that it is dropped before is what this test is about; it is kept then.
        unsafe { buffer.as_view().copy_to_pinned_async(&mut pinned) }.unwrap();
        panics(|| drop(pinned))
    });
    // Unless the copy ran at once.
    assert!(told.into_iter().eq([false, true]));
}

#[test]
fn copies_from_and_to_the_host_are_made_when_their_turn_comes() {
    let seen = outcomes(|device| {
        let stream = Stream::new(device).unwrap();
        let mut pinned = PinnedBuffer::<u8>::zeroed(device, 1).unwrap();
        let (mut buffer, mut back) = (Buffer::zeroed(&stream, 1).unwrap(), [0]);
        stream.synchronize().unwrap();
        pinned[0] = 1;
        // SAFETY: that it is written to before is what this test is about; all live until the wait.
        unsafe {
            buffer
                .as_view_mut()
                .copy_from_pinned_async(&pinned)
                .unwrap();
            pinned[0] = 2;
            stream
                .download(back.as_mut_ptr(), buffer.as_ptr(), 1)
                .unwrap();
        }
        let at_once = back[0];
        stream.synchronize().unwrap();
        (at_once, back[0])
    });
    assert!(seen.contains(&(0, 1)) && seen.contains(&(0, 2)) && seen.contains(&(1, 1)));
    assert!(!seen.contains(&(0, 0)));
}

#[test]
fn streams_and_devices_that_are_dropped_run_to_their_end() {
    outcomes(|device| {
        let stream = Stream::new(device).unwrap();
        let mut target = PinnedBuffer::<u8>::zeroed(device, 1).unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let device = Device::cpu_deferred(1);
        let other = Stream::new(&device).unwrap();
        for stream in [&stream, &other] {
            let buffer = Buffer::from_slice(stream, &[7u8]).unwrap();
            let calls = calls.clone();
            // SAFETY: the target is there to the end.
            unsafe { stream.download(target.as_mut_ptr(), buffer.as_ptr(), 1) }.unwrap();
            stream
                .call_host(Box::new(move || {
                    calls.fetch_add(1, Ordering::AcqRel);
                }))
                .unwrap();
        }
        drop((other, device));
        let device = stream.device().clone();
        drop(stream);
        device.synchronize().unwrap();
        assert_eq!(target[0], 7);
        // The other one may still be at its last call.
        let begun = Instant::now();
        while calls.load(Ordering::Acquire) < 2 {
            assert!(begun.elapsed() < Duration::from_secs(10), "not called");
            std::thread::yield_now();
        }
    });
}

#[test]
fn a_fault_is_told_by_all_that_wait_for_what_came_after_it() {
    outcomes(|device| {
        let [one, two, other] = [0; 3].map(|_| Stream::new(device).unwrap());
        let mut buffer = Buffer::<u8>::zeroed(&one, 1).unwrap();
        let (before, after) = (Event::new(device).unwrap(), Event::new(device).unwrap());
        one.synchronize().unwrap();
        before.record(&one).unwrap();
        // SAFETY: the kernel uses no pointer.
        unsafe { FAIL.launch(&one, Grid::new(1, 32), NoArgs {}) }.unwrap();
        fill(&one, &mut buffer, 1);
        after.record(&one).unwrap();
        two.wait_event(&after).unwrap();
        let is_fault = |outcome| matches!(outcome, Err(Error::Kernel(_)));
        other.synchronize().unwrap();
        before.synchronize().unwrap();
        assert!(is_fault(two.synchronize()));
        assert!(is_fault(one.synchronize()));
        assert!(is_fault(after.synchronize()));
        assert_eq!(now(&buffer), 0, "what came after a fault did not run");
        // Those that come after that are sound.
        fill(&one, &mut buffer, 2);
        one.synchronize().unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [2]);
        device.synchronize().unwrap();
    });
}

#[test]
fn a_wait_that_is_refused_has_not_waited() {
    outcomes(|device| {
        let faults = Faults::default();
        let device = &device.with_faults(&faults);
        let stream = Stream::new(device).unwrap();
        let event = Event::new(device).unwrap();
        let mut buffer = Buffer::<u8>::zeroed(&stream, 1).unwrap();
        stream.synchronize().unwrap();
        for fault in [Fault::Forbidden, Fault::Once, Fault::WaitsRefused(6)] {
            fill(&stream, &mut buffer, 1);
            event.record(&stream).unwrap();
            let before = now(&buffer);
            faults.plan(0, fault);
            match fault {
                Fault::WaitsRefused(_) => stream.synchronize().unwrap(),
                Fault::Once => {
                    // None of a driver's refusals: nothing runs any more.
                    stream.synchronize().unwrap_err();
                    assert_eq!(now(&buffer), 1);
                }
                _ => {
                    let refused = [
                        stream.synchronize(),
                        event.synchronize(),
                        stream.is_idle().map(drop),
                        event.is_done().map(drop),
                        device.synchronize(),
                    ];
                    for answer in refused {
                        let error = answer.unwrap_err();
                        assert!(error.is_refusal(), "{error}");
                    }
                    assert_eq!(now(&buffer), before);
                    // Unless what was queued is to be over.
                    stream.finish().unwrap_err();
                    assert_eq!(now(&buffer), 1);
                    assert!(!event.has_ended());
                }
            }
            faults.heal();
            stream.synchronize().unwrap();
            assert_eq!(now(&buffer), 1);
            fill(&stream, &mut buffer, 0);
            stream.synchronize().unwrap();
        }
    });
}

/// Nothing is copied from or to memory of a caller any more when a call has failed because its waits were refused: the
/// scheduler panics when locked memory goes of which a copy is queued still.
#[test]
fn what_a_call_was_lent_is_the_callers_again_after_a_refused_wait() {
    type Lent = PinnedBuffer<u64>;
    type Verb = fn(&Device, &Stream, &mut Lent, &mut [u8]) -> Result<()>;
    let verbs: [(&str, Verb); 5] = [
        ("a buffer to the host", |_, stream, lent, _| {
            Buffer::<u64>::zeroed(stream, lent.len())?.copy_to_slice(lent)
        }),
        ("a buffer from the host", |_, stream, lent, _| {
            Buffer::<u64>::zeroed(stream, lent.len())?.copy_from_slice(lent)
        }),
        ("a lookup", |device, _, lent, found| {
            let map = Map::<u64, u64>::new(device)?;
            map.get_into(&[1; 100], &mut lent[..], found)
        }),
        ("keys on a stream", |device, stream, lent, _| {
            let map = Map::<u64, u64>::with_capacity(device, 1_000)?;
            map.on(stream)
                .insert(&lent[..], &lent[..])?
                .wait()
                .map(drop)
        }),
        ("a row map", |device, _, lent, _| {
            let map = RowMap::<u64>::with_capacity(device, 1_000)?;
            map.insert(&lent[..]).map(drop)
        }),
    ];
    outcomes(|device| {
        for (name, verb) in verbs {
            let mut refused = 0;
            for call in 0..1_000 {
                let faults = Faults::default();
                let device = device.with_faults(&faults);
                let stream = Stream::new(&device).unwrap();
                let mut lent = Lent::zeroed(&device, 100).unwrap();
                lent.iter_mut().zip(0..).for_each(|(key, i)| *key = i);
                faults.plan(call, Fault::Forbidden);
                let outcome = verb(&device, &stream, &mut lent, &mut [0; 100]);
                let is_over = faults.failed().is_none();
                faults.heal();
                drop(lent);
                if is_over {
                    outcome.unwrap();
                    break;
                }
                refused += usize::from(outcome.is_err());
            }
            assert!(refused > 0, "{name}: no wait was refused");
        }
    });
}

#[test]
fn callbacks_run_in_order_and_must_not_call_the_device() {
    outcomes(|device| {
        let stream = Stream::new(device).unwrap();
        let mut buffer = Buffer::<u8>::zeroed(&stream, 1).unwrap();
        let (at, refused) = (buffer.as_mut_ptr().addr(), Arc::new(AtomicUsize::new(0)));
        fill(&stream, &mut buffer, 1);
        let (inner, noted) = (stream.clone(), refused.clone());
        stream
            .call_host(Box::new(move || {
                assert!(inner.synchronize().is_err() && inner.is_idle().is_err());
                let value = std::ptr::with_exposed_provenance::<u8>(at);
                // SAFETY: the memory is the host's, and the stream waits meanwhile.
                noted.store(usize::from(unsafe { value.read() }), Ordering::Release);
            }))
            .unwrap();
        fill(&stream, &mut buffer, 2);
        stream.synchronize().unwrap();
        assert_eq!(refused.load(Ordering::Acquire), 1);
        assert_eq!(now(&buffer), 2);
    });
}

#[test]
fn a_seed_is_an_order() {
    let order = |seed| {
        let device = Device::cpu_deferred(seed);
        let streams = [0; 4].map(|_| Stream::new(&device).unwrap());
        let mut buffer = Buffer::<u8>::zeroed(&streams[0], 1).unwrap();
        device.synchronize().unwrap();
        let mut seen = Vec::new();
        for value in 0..40 {
            fill(&streams[value % 4], &mut buffer, value as u8);
            streams[value % 3].is_idle().unwrap();
            seen.push(now(&buffer));
        }
        device.synchronize().unwrap();
        seen
    };
    assert_eq!(order(3), order(3));
    assert_ne!(order(3), order(4));
}
