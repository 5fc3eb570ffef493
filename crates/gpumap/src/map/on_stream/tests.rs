//! Calls on streams: the same bodies on the CPU and on a GPU.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::map::in_flight::Effect;
use crate::sync::{AtomicUsize, Ordering};
use crate::testing::{alone_on_the_gpu, hold, map, map_and_batch, on_every_device};
use crate::{Buffer, Device, Error, Fault, Faults, Growth, Map, Merge, Stream};

const N: usize = 5_000;

fn keys(first: u64) -> Vec<u64> {
    (first..first + N as u64).collect()
}

#[test]
fn verbs_take_effect_in_the_order_of_the_stream() {
    on_every_device(|device| {
        let (map, stream, keys) = map_and_batch(device, 4 * N, N);
        let mut found = Buffer::<u64>::zeroed(&stream, N).unwrap();
        let mut there = Buffer::<u8>::zeroed(&stream, N).unwrap();
        let on = map.on(&stream);
        let first = on.insert(&keys, &keys).unwrap();
        let second = on.merge(&keys, &keys, Merge::Add).unwrap();
        let third = on.get_into(&keys, &mut found, &mut there).unwrap();
        let removed = on.remove(&keys.slice(..10).unwrap()).unwrap();
        let fourth = on.upsert(&keys, &keys).unwrap();
        third.wait().unwrap();
        let doubled: Vec<u64> = (0..N as u64).map(|key| 2 * key).collect();
        assert_eq!(found.to_vec().unwrap(), doubled);
        assert!(there.to_vec().unwrap().iter().all(|&found| found == 1));
        assert_eq!(fourth.wait().unwrap(), 10);
        assert_eq!(removed.wait().unwrap(), 10);
        assert_eq!(second.wait().unwrap(), 0);
        assert_eq!(first.wait().unwrap(), N);
        assert_eq!(map.len(), N);
        on.contains_into(&keys, &mut there).unwrap().wait().unwrap();
        on.get_or_into(&keys, 7, &mut found)
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(found.to_vec().unwrap(), (0..N as u64).collect::<Vec<_>>());
    });
}

#[test]
fn answers_go_to_parts_of_buffers() {
    on_every_device(|device| {
        let map = map(device, 4 * N);
        let (stream, elsewhere) = (Stream::new(device).unwrap(), Stream::new(device).unwrap());
        let keys = Buffer::from_slice(&stream, &keys(1)).unwrap();
        let [mut values, mut held] =
            [0; 2].map(|_| Buffer::<u64>::zeroed(&elsewhere, 2 * N + 1).unwrap());
        let mut found = Buffer::<u8>::zeroed(&stream, 2 * N).unwrap();
        let on = map.on(&stream);
        let half = keys.slice(..N / 2).unwrap();
        drop(on.insert(&half, &half).unwrap());
        for (first, absent) in [(0, 0), (N, 7)] {
            let part = first..first + N;
            let mut values = values.slice_mut(part.clone()).unwrap();
            let mut found = found.slice_mut(part).unwrap();
            let answer = if absent == 0 {
                on.get_into(&keys, &mut values, &mut found).unwrap()
            } else {
                drop(on.contains_into(&keys, &mut found).unwrap());
                on.get_or_into(&keys, absent, values).unwrap()
            };
            answer.wait().unwrap();
        }
        let expected =
            |absent| (1..=N as u64).map(move |i| if i <= N as u64 / 2 { i } else { absent });
        let answers = values.to_vec().unwrap();
        assert!(
            answers
                .into_iter()
                .eq(expected(0).chain(expected(7)).chain([0]))
        );
        let there = expected(0).map(|value| u8::from(value != 0));
        let twice = there.clone().chain(there);
        assert!(found.to_vec().unwrap().into_iter().eq(twice));

        // A part is an input as well; what lies beside an output stays as it was.
        let asked = values.slice_mut(..N / 2).unwrap();
        let place = held.slice_mut(1..=N / 2).unwrap();
        let new = on.get_or_insert_into(&asked, &asked, place).unwrap();
        assert_eq!(new.wait().unwrap(), 0);
        let (out_keys, out_values) = (
            values.slice_mut(N..2 * N).unwrap(),
            held.slice_mut(N..2 * N).unwrap(),
        );
        let all = on.retrieve_all_into(out_keys, out_values).unwrap();
        assert_eq!(all.wait().unwrap(), N / 2);
        let held = held.to_vec().unwrap();
        assert_eq!(held[0], 0);
        assert!(held[1..=N / 2].iter().copied().eq(1..=N as u64 / 2));
        assert_eq!(held[N..][..N / 2], values.to_vec().unwrap()[N..][..N / 2]);
        // One that is too short is refused, though its buffer is not.
        let short = found.slice_mut(..N - 1).unwrap();
        assert!(matches!(
            on.contains_into(&keys, short),
            Err(Error::OutputTooSmall { needed: N, .. })
        ));
    });
}

#[test]
fn what_the_map_holds_comes_in_buffers_of_any_stream() {
    on_every_device(|device| {
        // Room for all of the first map; the second has to wait and grow.
        for capacity in [4 * N, N / 2] {
            let map = map(device, capacity);
            let (stream, elsewhere) = (Stream::new(device).unwrap(), Stream::new(device).unwrap());
            let keys = Buffer::from_slice(&stream, &keys(0)).unwrap();
            let others = Buffer::from_slice(&elsewhere, &vec![7u64; N]).unwrap();
            let mut held = Buffer::<u64>::zeroed(&elsewhere, N + 1).unwrap();
            let on = map.on(&stream);
            let half = keys.slice(..N / 2).unwrap();
            let first = on.insert(&half, &half).unwrap();
            let second = on.get_or_insert_into(&keys, &others, &mut held).unwrap();
            // In the order of its own stream, on which nothing else was queued since.
            let held = held.to_vec().unwrap();
            assert_eq!(second.wait().unwrap(), N - N / 2);
            assert_eq!(first.wait().unwrap(), N / 2);
            let expected: Vec<u64> = (0..N as u64 + 1)
                .map(|i| match i as usize {
                    i if i < N / 2 => i as u64,
                    i if i < N => 7,
                    _ => 0,
                })
                .collect();
            assert_eq!(held, expected);
            let mut too_short = Buffer::<u64>::zeroed(&stream, N - 1).unwrap();
            assert!(matches!(
                on.get_or_insert_into(&keys, &others, &mut too_short),
                Err(Error::OutputTooSmall { needed, given }) if (needed, given) == (N, N - 1)
            ));
            assert!(matches!(
                map.get_or_insert_into(&keys, &others, &mut too_short),
                Err(Error::OutputTooSmall { .. })
            ));
            let mut held = Buffer::<u64>::zeroed(&elsewhere, N).unwrap();
            let new = map.get_or_insert_into(&keys, &others, &mut held).unwrap();
            assert_eq!(new, 0);
            assert_eq!(held.to_vec().unwrap(), expected[..N]);
        }
    });
}

#[test]
fn all_pairs_are_dumped_in_the_order_of_the_stream() {
    on_every_device(|device| {
        let map = map(device, 4 * N);
        let (stream, elsewhere) = (Stream::new(device).unwrap(), Stream::new(device).unwrap());
        let batch = Buffer::from_slice(&stream, &keys(0)).unwrap();
        let mut out_keys = Buffer::<u64>::zeroed(&elsewhere, N).unwrap();
        let mut out_values = Buffer::<u64>::zeroed(&stream, N).unwrap();
        let on = map.on(&stream);
        let none = on
            .retrieve_all_into(&mut out_keys, &mut out_values)
            .unwrap();
        drop(on.insert(&batch, &batch).unwrap());
        let all = on
            .retrieve_all_into(&mut out_keys, &mut out_values)
            .unwrap();
        drop(on.remove(&batch.slice(..10).unwrap()).unwrap());
        let mut dumped = out_keys.to_vec().unwrap();
        assert_eq!(dumped, out_values.to_vec().unwrap());
        dumped.sort_unstable();
        assert_eq!(dumped, keys(0));
        assert_eq!((none.wait().unwrap(), all.wait().unwrap()), (0, N));

        // A pair more than there is room for: said when it is known, and harmless.
        let mut short = Buffer::<u64>::zeroed(&stream, N - 11).unwrap();
        let short = on.retrieve_all_into(&mut out_keys, &mut short).unwrap();
        assert!(matches!(
            short.wait(),
            Err(Error::OutputTooSmall { needed, given }) if (needed, given) == (N - 10, N - 11)
        ));
        let left = on
            .retrieve_all_into(&mut out_keys, &mut out_values)
            .unwrap();
        assert_eq!(left.wait().unwrap(), N - 10);
        assert_eq!(map.len(), N - 10);
        if device.is_cuda() {
            let cpu = Stream::new(&Device::cpu()).unwrap();
            let on = map.on(&cpu);
            assert!(matches!(
                on.retrieve_all_into(&mut out_keys, &mut out_values),
                Err(Error::WrongDevice { .. })
            ));
        }
    });
}

#[test]
fn dropped_answers_count_and_a_full_map_waits_for_them() {
    on_every_device(|device| {
        // Room for one batch: each of the others finds the last one in flight, and grows.
        let map = map(device, N);
        let stream = Stream::new(device).unwrap();
        let on = map.on(&stream);
        for i in 0..5 {
            let batch = Buffer::from_slice(&stream, &keys(i * N as u64)).unwrap();
            drop(on.insert(&batch, &batch).unwrap());
            // Once more: nothing is new.
            drop(on.insert(&batch, &batch).unwrap());
        }
        stream.synchronize().unwrap();
        assert_eq!(map.len(), 5 * N);
        assert!(map.capacity() >= 5 * N);
        let (mut keys, _) = map.drain().unwrap();
        keys.sort_unstable();
        assert!(keys.iter().copied().eq(0..5 * N as u64));
        assert!(map.is_empty());
    });
}

#[test]
fn buffers_may_go_at_once() {
    on_every_device(|device| {
        let map = map(device, 10 * N);
        let (one, other) = (Stream::new(device).unwrap(), Stream::new(device).unwrap());
        let mut answers = Vec::new();
        for i in 0..8 {
            let batch = Buffer::from_slice(&other, &keys(i * N as u64)).unwrap();
            answers.push(map.on(&one).insert(&batch, &batch).unwrap());
            // Freed in the order of `other`, which waits for the call.
        }
        let host = keys(8 * N as u64);
        answers.push(map.on(&one).insert(&host, &host).unwrap());
        let new: usize = answers.into_iter().map(|new| new.wait().unwrap()).sum();
        assert_eq!(new, 9 * N);
        assert_eq!(map.get(&host).unwrap()[17], Some(host[17]));
    });
}

#[test]
fn what_runs_alone_waits_for_flights() {
    on_every_device(|device| {
        let stream = Stream::new(device).unwrap();
        let batch = Buffer::from_slice(&stream, &keys(0)).unwrap();
        for round in 0..20 {
            let map = map(device, 2 * N);
            let pending = map.on(&stream).insert(&batch, &batch).unwrap();
            match round % 4 {
                0 => assert_eq!(map.take(&[3]).unwrap(), [Some(3)]),
                1 => map.reserve(10 * N).unwrap(),
                2 => map.clear().unwrap(),
                _ => map.shrink_to_fit().unwrap(),
            }
            assert_eq!(pending.wait().unwrap(), N);
            let left = [N - 1, N, 0, N][round % 4];
            assert_eq!(map.len(), left, "round {round}");
            drop(map.on(&stream).remove(&batch).unwrap());
            // The map goes while the call may be in flight.
        }
    });
}

#[test]
fn many_streams_and_threads_beside_growth() {
    on_every_device(|device| {
        let map = map(device, 16);
        thread::scope(|scope| {
            for t in 0..4u64 {
                let map = &map;
                scope.spawn(move || {
                    let stream = Stream::new(device).unwrap();
                    let mut answers = Vec::new();
                    for i in 0..10 {
                        let batch = keys((10 * t + i) * N as u64);
                        let batch = Buffer::from_slice(&stream, &batch).unwrap();
                        answers.push(map.on(&stream).insert(&batch, &batch).unwrap());
                    }
                    for answer in answers {
                        assert_eq!(answer.wait().unwrap(), N);
                    }
                });
            }
        });
        assert_eq!(map.len(), 40 * N);
        let all: Vec<u64> = (0..40 * N as u64).collect();
        let found = map.get(&all).unwrap();
        assert!(found.iter().zip(&all).all(|(v, &k)| *v == Some(k)));
    });
}

#[test]
fn questions_do_not_wait_beside_one_who_waits() {
    alone_on_the_gpu(|device| {
        let (map, stream, batch) = map_and_batch(device, 4 * N, N);
        // Kernels are loaded now: to load one later might wait for the stream that is held.
        let on = map.on(&stream);
        on.insert(&batch, &batch).unwrap().wait().unwrap();
        on.upsert(&batch, &batch).unwrap().wait().unwrap();
        let let_go = hold(&stream);
        let pending = on.upsert(&batch, &batch).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| map.reserve(5 * N).unwrap());
            thread::sleep(Duration::from_millis(50)); // until it waits
            let (tell, told) = mpsc::channel();
            let (map, pending) = (&map, &pending);
            scope.spawn(move || tell.send((map.len(), pending.is_done())));
            // As long as a busy machine may take.
            let answers = told.recv_timeout(Duration::from_secs(60));
            drop(let_go);
            assert_eq!(answers, Ok((N, false)));
        });
        assert_eq!(pending.wait().unwrap(), 0);
    });
}

/// Wakes the thread that polls.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn answers_are_futures() {
    on_every_device(|device| {
        let map = map(device, 100 * N);
        let stream = Stream::new(device).unwrap();
        let batch = keys(0);
        let (keys, values) = (
            Buffer::from_slice(&stream, &batch).unwrap(),
            Buffer::from_slice(&stream, &batch).unwrap(),
        );
        let new = block_on(async {
            let on = map.on(&stream);
            let first = on.insert(&keys, &values)?;
            let second = on.insert(&keys, &values)?;
            Ok::<_, Error>((first.await?, second.await?))
        });
        assert_eq!(new.unwrap(), (N, 0));
    });
}

/// Counts how often it is called.
#[derive(Default)]
struct Calls(AtomicUsize);

impl Calls {
    /// Waits for the first one.
    fn wait(&self) {
        let begun = Instant::now();
        while self.0.load(Ordering::Acquire) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(10), "not woken");
            thread::yield_now();
        }
    }
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[test]
fn wakers_are_called_once_also_if_they_come_late() {
    on_every_device(|device| {
        let map = map(device, N);
        let stream = Stream::new(device).unwrap();
        // More than there are streams for at once.
        for _ in 0..50 {
            let op = map.inline().state.submit(&stream, Effect::Read, |_| Ok(()));
            let op = op.unwrap();
            for _ in 0..2 {
                let calls = Arc::new(Calls::default());
                map.inline()
                    .state
                    .in_flight
                    .wake(&op, calls.clone().into())
                    .unwrap();
                calls.wait();
                assert_eq!(calls.0.load(Ordering::Acquire), 1);
            }
            map.inline().state.retire(&op).unwrap();
        }
    });
}

#[test]
fn who_cannot_be_woken_may_ask_again() {
    // A new stream, that it waits, and the call.
    for call in 0..3 {
        let faults = Faults::default();
        let map = map(&Device::cpu().with_faults(&faults), N);
        let stream = Stream::new(map.device()).unwrap();
        let op = map.inline().state.submit(&stream, Effect::Read, |_| Ok(()));
        let op = op.unwrap();
        let calls = Arc::new(Calls::default());
        faults.plan(call, Fault::Once);
        map.inline()
            .state
            .in_flight
            .wake(&op, calls.clone().into())
            .unwrap_err();
        assert_eq!(calls.0.load(Ordering::Acquire), 0);
        faults.heal();
        map.inline()
            .state
            .in_flight
            .wake(&op, calls.clone().into())
            .unwrap();
        calls.wait();
    }
}

#[test]
fn bad_calls_are_errors() {
    on_every_device(|device| {
        let map: Map<u64, u64> = Map::builder(device)
            .capacity(16)
            .growth(Growth::Fixed)
            .build()
            .unwrap();
        let stream = Stream::new(device).unwrap();
        let on = map.on(&stream);
        let (two, three) = ([1, 2], [1, 2, 3]);
        assert!(matches!(
            on.insert(&two, &three),
            Err(Error::LengthMismatch { keys: 2, values: 3 })
        ));
        let mut short = Buffer::zeroed(&stream, 2).unwrap();
        assert!(matches!(
            on.get_or_into(&three, 0, &mut short),
            Err(Error::OutputTooSmall {
                needed: 3,
                given: 2
            })
        ));
        // Whichever of two outputs is the short one.
        let mut enough = Buffer::zeroed(&stream, 3).unwrap();
        let mut few_found = Buffer::zeroed(&stream, 2).unwrap();
        let mut found = Buffer::zeroed(&stream, 3).unwrap();
        for refused in [
            on.get_into(&three, &mut enough, &mut few_found),
            on.get_into(&three, &mut short, &mut found),
            on.contains_into(&three, &mut few_found),
        ] {
            let (needed, given) = match refused.map(drop) {
                Err(Error::OutputTooSmall { needed, given }) => (needed, given),
                other => panic!("{other:?}"),
            };
            assert_eq!((needed, given), (3, 2));
        }
        let many = keys(0);
        assert!(matches!(on.insert(&many, &many), Err(Error::Full { .. })));
        assert!(map.is_empty());
        let empty: [u64; 0] = [];
        assert_eq!(on.insert(&empty, &empty).unwrap().wait().unwrap(), 0);
        if device.is_cuda() {
            let elsewhere = Stream::new(&Device::cpu()).unwrap();
            assert!(matches!(
                map.on(&elsewhere).insert(&two, &two),
                Err(Error::WrongDevice { .. })
            ));
        }
    });
}

#[test]
fn a_steady_call_neither_allocates_nor_waits() {
    use crate::cuda::calls;

    on_every_device(|device| {
        let (map, stream, batch) = map_and_batch(device, 10 * N, N);
        let mut found = Buffer::<u64>::zeroed(&stream, N).unwrap();
        let [mut keys_out, mut values_out] =
            [0, 1].map(|_| Buffer::<u64>::zeroed(&stream, N).unwrap());
        let on = map.on(&stream);
        let mut steady = || {
            let answers = [
                on.insert(&batch, &batch).unwrap(),
                on.upsert(&batch, &batch).unwrap(),
                on.merge(&batch, &batch, Merge::Xor).unwrap(),
                on.get_or_insert_into(&batch, &batch, &mut found).unwrap(),
                on.retrieve_all_into(&mut keys_out, &mut values_out)
                    .unwrap(),
                on.remove(&batch).unwrap(),
            ];
            let read = on.get_or_into(&batch, 0, &mut found).unwrap();
            let calls = calls::take();
            for answer in answers {
                answer.wait().unwrap();
            }
            read.wait().unwrap();
            calls
        };
        // Twice: the first call compiles kernels and makes completions.
        steady();
        calls::take();
        let calls = steady();
        let bytes = device.allocated_bytes();
        let allowed = [
            "cuLaunchKernel",
            "cuEventRecord",
            "cuEventQuery",
            "cuStreamQuery",
            "cuCtxGetCurrent",
            "cuCtxSetCurrent",
            "cuCtxPushCurrent_v2",
            "cuCtxPopCurrent_v2",
            "cuThreadExchangeStreamCaptureMode",
        ];
        let others: Vec<_> = calls
            .iter()
            .filter(|call| !allowed.contains(call))
            .collect();
        assert!(others.is_empty(), "{others:?}");
        let launches = calls
            .iter()
            .filter(|&&call| call == "cuLaunchKernel")
            .count();
        assert_eq!(launches, if device.is_cuda() { 7 } else { 0 });
        steady();
        assert_eq!(device.allocated_bytes(), bytes);
    });
}

#[test]
fn calls_that_nobody_waits_for_take_no_more_tickets_than_are_in_flight() {
    on_every_device(|device| {
        let stream = Stream::new(device).unwrap();
        let map = Map::<u32, u32>::with_capacity(device, 10).unwrap();
        let keys = Buffer::from_slice(&stream, &[1u32]).unwrap();
        let mut found = Buffer::zeroed(&stream, 1).unwrap();
        for _ in 0..20 {
            for _ in 0..64 {
                drop(map.on(&stream).contains_into(&keys, &mut found).unwrap());
            }
            stream.synchronize().unwrap();
        }
        let pending = map.inline().state.in_flight.count.load(Ordering::Acquire);
        let completions = pending + map.inline().state.in_flight.idle.lock().len();
        assert!(
            completions <= 256,
            "{completions} completions for 64 calls at a time"
        );
    });
}
