//! The threads that take the steps of streams.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::state::{State, Step};
use super::{MOST_STEPS, Scheduler};

impl Scheduler {
    /// Queues a step for the thread of a stream, after the caller has waited while there are too many.
    pub(super) fn hand_over(&self, at: u64, step: Step) {
        let mut state = self.shared.state();
        let mut step = Some(step);
        let has_worker = loop {
            let Some(line) = state.lines.get_mut(&at) else {
                return;
            };
            if line.steps.len() < MOST_STEPS {
                line.steps.extend(step.take());
                line.has_worker = line.has_worker || self.start(at);
                line.wake.notify_one();
                break line.has_worker;
            }
            let next = line.point(at, line.ended + 1);
            drop(state);
            state = self.reach(&next);
        };
        let end = state
            .lines
            .get(&at)
            .map(|line| line.point(at, line.queued()));
        drop(state);
        if !has_worker && let Some(end) = end {
            drop(self.reach(&end));
        }
    }

    /// Starts the thread of a stream, if the system has one.
    fn start(&self, at: u64) -> bool {
        let scheduler = self.clone();
        let work = move || {
            // The panic of a step is a bug of the library, and not the end of the stream.
            while catch_unwind(AssertUnwindSafe(|| scheduler.work(at))).is_err() {}
        };
        let thread = thread::Builder::new().name("gpumap-stream".to_owned());
        thread.spawn(work).is_ok()
    }

    /// Takes the steps of a stream until it has been dropped and none is left.
    fn work(&self, at: u64) {
        let mut state = self.shared.state();
        while let Some(line) = state.lines.get(&at) {
            if state.can_run(line) {
                state = self.step(state, at);
            } else if line.is_open || line.is_running || !line.steps.is_empty() {
                let wake = line.wake.clone();
                state = super::wait(&wake, state);
            } else {
                break;
            }
        }
    }
}

/// Wakes the threads of streams that can go on.
pub(super) fn wake(state: &State) {
    let with_worker = state.lines.values().filter(|line| line.has_worker);
    for line in with_worker.filter(|line| state.can_run(line) || !line.is_open) {
        line.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Sender, channel};
    use std::thread;
    use std::time::{Duration, Instant};

    use gpumap_simt::kernel::{Grid, Launcher};
    use gpumap_simt::{kernel, kernel_args};

    use super::*;
    use crate::{Buffer, Device, Error, Event, Map, Stream};

    kernel_args! {
        /// Arguments of [`FAIL`].
        struct NoArgs {}
    }

    kernel! {
        /// Breaks a rule.
        static FAIL = fn test_fail_on_a_thread(_args: NoArgs) {
            panic!("on purpose");
        }
    }

    /// Work in front of what is queued from now on, until the sender is dropped.
    fn hold(stream: &Stream) -> Sender<()> {
        let (go, held) = channel::<()>();
        let wait = move || assert!(held.recv().is_err(), "the sender is dropped");
        stream.call_host(Box::new(wait)).unwrap();
        go
    }

    /// A device of its own.
    fn device() -> Device {
        Device::cpu_with_threads(2)
    }

    /// Waits for something that another thread does.
    fn soon(mut happens: impl FnMut() -> bool) {
        let start = Instant::now();
        while !happens() {
            assert!(start.elapsed() < Duration::from_secs(60), "never");
            thread::yield_now();
        }
    }

    fn workers(device: &Device) -> Vec<bool> {
        let state = device.scheduler().unwrap().shared.state();
        state.lines.values().map(|line| line.has_worker).collect()
    }

    #[test]
    fn a_call_on_a_stream_is_pending_until_it_has_run() {
        let device = device();
        let stream = Stream::new(&device).unwrap();
        let map = Map::<u64, u64>::with_capacity(&device, 100).unwrap();
        let keys = Buffer::from_slice(&stream, &[1, 2, 1]).unwrap();
        let go = hold(&stream);
        let new = map.on(&stream).insert(&keys, &keys).unwrap();
        drop(keys);
        assert!(!new.is_done() && !stream.is_idle().unwrap());
        // A call without a stream is before it.
        assert_eq!(map.get(&[1]).unwrap(), [None]);
        drop(go);
        soon(|| new.is_done());
        assert_eq!(new.wait().unwrap(), 2);
        assert_eq!(map.get(&[1]).unwrap(), [Some(1)]);
    }

    #[test]
    fn a_call_of_the_library_waits_for_the_streams_of_its_buffers() {
        let device = device();
        let stream = Stream::new(&device).unwrap();
        let map = Map::<u64, u64>::with_capacity(&device, 100).unwrap();
        for round in 0..200 {
            let (n, each) = (100, |i: u64| i + round);
            let keys: Vec<u64> = (0..n).map(each).collect();
            let mut buffer = Buffer::<u64>::zeroed(&stream, keys.len()).unwrap();
            let source = Buffer::from_slice(&stream, &keys).unwrap();
            buffer.copy_range(0, &source.as_view()).unwrap();
            map.upsert(&buffer, &buffer).unwrap();
            assert!(map.contains(&keys).unwrap().into_iter().all(|found| found));
        }
        assert_eq!(map.len(), 299);
    }

    #[test]
    fn the_thread_of_a_stream_is_there_while_there_is_work_for_it() {
        let device = device();
        let stream = Stream::new(&device).unwrap();
        let buffer = Buffer::<u64>::zeroed(&stream, 100).unwrap();
        drop(buffer);
        assert_eq!(workers(&device), [false]);
        let go = hold(&stream);
        assert_eq!(workers(&device), [true]);
        drop(stream);
        assert_eq!(workers(&device), [true]);
        drop(go);
        soon(|| workers(&device).is_empty());
    }

    #[test]
    fn a_dropped_stream_runs_to_its_end() {
        let device = device();
        let runs = std::sync::Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let stream = Stream::new(&device).unwrap();
            for _ in 0..3 {
                let runs = runs.clone();
                let count = move || {
                    runs.fetch_add(1, Ordering::Relaxed);
                };
                stream.call_host(Box::new(count)).unwrap();
            }
        }
        device.synchronize().unwrap();
        soon(|| runs.load(Ordering::Relaxed) == 300);
    }

    #[test]
    fn a_caller_that_queues_too_much_waits() {
        let device = device();
        let stream = Stream::new(&device).unwrap();
        let mut buffer = Buffer::<u8>::zeroed(&stream, 1).unwrap();
        let go = hold(&stream);
        let queued = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for value in 0..3000u32 {
                    buffer.fill_bytes(value as u8).unwrap();
                    queued.fetch_add(1, Ordering::Relaxed);
                }
            });
            soon(|| queued.load(Ordering::Relaxed) >= MOST_STEPS - 1);
            thread::sleep(Duration::from_millis(50));
            assert!(queued.load(Ordering::Relaxed) <= MOST_STEPS);
            drop(go);
        });
        assert_eq!(buffer.to_vec().unwrap(), [(2999 % 256) as u8]);
    }

    #[test]
    fn a_fault_is_returned_by_a_wait_and_the_stream_goes_on() {
        let device = device();
        let (one, two) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
        let mut buffer = Buffer::<u8>::zeroed(&one, 1).unwrap();
        // SAFETY: a kernel without arguments.
        unsafe { one.launch(&FAIL, Grid::new(1, 32), NoArgs {}) }.unwrap();
        two.wait_stream(&one).unwrap();
        // Does not run.
        buffer.fill_bytes(7).unwrap();
        for stream in [&two, &one] {
            assert!(matches!(stream.synchronize(), Err(Error::Kernel(_))));
        }
        assert_eq!(buffer.to_vec().unwrap(), [0]);
        buffer.fill_bytes(8).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [8]);
    }

    /// It may take locks that a thread has which waits.
    #[test]
    fn callbacks_run_on_the_thread_of_the_stream_whoever_waits() {
        let device = device();
        let stream = Stream::new(&device).unwrap();
        let (told, threads) = channel();
        for round in 0..500 {
            let told = told.clone();
            let tell = move || told.send(thread::current().id()).unwrap();
            stream.call_host(Box::new(tell)).unwrap();
            match round % 3 {
                0 => stream.synchronize().unwrap(),
                1 => device.synchronize().unwrap(),
                _ => soon(|| stream.is_idle().unwrap()),
            }
            assert_ne!(threads.recv().unwrap(), thread::current().id(), "{round}");
        }
    }

    #[test]
    fn a_stream_is_forgotten_though_its_fault_was_not_told() {
        let device = device();
        let lines = || device.scheduler().unwrap().shared.state().lines.len();
        for _ in 0..10 {
            let stream = Stream::new(&device).unwrap();
            // SAFETY: a kernel without arguments.
            unsafe { stream.launch(&FAIL, Grid::new(1, 32), NoArgs {}) }.unwrap();
            let event = Event::new(&device).unwrap();
            event.record(&stream).unwrap();
            drop(stream);
            soon(|| event.is_done().is_err());
            // Whatever still asks is told.
            assert!(matches!(event.synchronize(), Err(Error::Kernel(_))));
        }
        // No event of an untold one is left.
        let stream = Stream::new(&device).unwrap();
        // SAFETY: a kernel without arguments.
        unsafe { stream.launch(&FAIL, Grid::new(1, 32), NoArgs {}) }.unwrap();
        drop(stream);
        soon(|| {
            drop(Stream::new(&device).unwrap());
            lines() == 0
        });
        // It is told all the same, once.
        assert!(matches!(device.synchronize(), Err(Error::Kernel(_))));
        device.synchronize().unwrap();
    }

    #[test]
    fn events_take_the_time_when_they_happen() {
        let device = device();
        let stream = Stream::new(&device).unwrap();
        let events = [(); 2].map(|()| Event::new(&device).unwrap());
        let go = hold(&stream);
        events[0].record(&stream).unwrap();
        assert!(!events[0].is_done().unwrap());
        thread::sleep(Duration::from_millis(30));
        drop(go);
        let go = hold(&stream);
        thread::sleep(Duration::from_millis(30));
        events[1].record(&stream).unwrap();
        drop(go);
        let between = events[1].elapsed_since(&events[0]).unwrap();
        assert!(between >= Duration::from_millis(20), "{between:?}");
    }

    /// Streams of several threads, each of which waits for others, add up to what one after the other would.
    #[test]
    fn streams_that_wait_for_each_other_keep_their_orders() {
        const STREAMS: usize = 4;
        let device = device();
        let streams = [(); STREAMS].map(|()| Stream::new(&device).unwrap());
        let map = Map::<u64, u64>::with_capacity(&device, 10_000).unwrap();
        let rounds = 200u64;
        thread::scope(|scope| {
            for (at, stream) in streams.iter().enumerate() {
                let (map, streams) = (&map, &streams);
                scope.spawn(move || {
                    let on = map.on(stream);
                    for round in 0..rounds {
                        let keys: Vec<u64> = (0..32).map(|i| round * 32 + i).collect();
                        let of_keys = Buffer::from_slice(stream, &keys).unwrap();
                        let ones = Buffer::from_slice(stream, &[1u64; 32]).unwrap();
                        drop(on.merge(&of_keys, &ones, crate::Merge::Add).unwrap());
                        stream
                            .wait_stream(&streams[(at + round as usize) % STREAMS])
                            .unwrap();
                        let mut counts = Buffer::<u64>::zeroed(stream, 32).unwrap();
                        let answer = on.get_or_into(&of_keys, 0, &mut counts).unwrap();
                        if round % 3 == 0 {
                            answer.wait().unwrap();
                        }
                        let counts = counts.to_vec().unwrap();
                        let all = 1..=STREAMS as u64;
                        assert!(counts.iter().all(|count| all.contains(count)), "{counts:?}");
                    }
                });
            }
        });
        device.synchronize().unwrap();
        let (_, counts) = map.retrieve_all().unwrap();
        assert_eq!(counts, vec![STREAMS as u64; 32 * rounds as usize]);
    }
}
