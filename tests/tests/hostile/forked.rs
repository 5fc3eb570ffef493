//! What a forked process may do with the maps, devices and streams that it has from the one before: all of it, on the CPU. Only what
//! was queued when it was forked never ends there, and that is [`Error::Forked`]. So is every use of a GPU, which stays with the process
//! that opened it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use gpumap::primitives::{Op, Primitives};
use gpumap::simt::kernel::{Grid, Launcher};
use gpumap::simt::{atomic, kernel, kernel_args};
use gpumap::{Buffer, Device, Error, Map, PinnedBuffer, Stream, op};
use gpumap_test_skips::{skip, wished_device};
use gpumap_tests::device::targets;

use crate::verbs::{Hostile, Kind, make_on};
use crate::{case, for_each_kind};

const LIMIT: Duration = Duration::from_secs(20);

/// Does something in a forked process, which has to succeed within the limit.
fn forked(what: &str, work: impl FnOnce()) {
    try_forked(what, work).unwrap();
}

/// Does something in a forked process, and says what was wrong if that fails or takes longer than the limit.
fn try_forked(what: &str, work: impl FnOnce()) -> Result<(), String> {
    // SAFETY: no other thread of this process is in a call, as each case has a process of its own; the forked one leaves by
    // `_exit`, and so runs nothing that belongs to the one before.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no fork");
    if child == 0 {
        let is_well = catch_unwind(AssertUnwindSafe(work)).is_ok();
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(!is_well)) };
    }
    let start = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: its child, and a place for its status.
        let waited = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if waited == child {
            break;
        }
        if start.elapsed() > LIMIT {
            // SAFETY: its child, which has not been waited for.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &raw mut status, 0);
            }
            return Err(format!("{what} hangs in a forked process"));
        }
        thread::sleep(Duration::from_millis(1));
    }
    match libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        true => Ok(()),
        false => Err(format!("{what} fails in a forked process: {status:#x}")),
    }
}

/// The GPU, if tests are to run on one; it is opened in this process.
fn gpu() -> Option<Device> {
    let target = targets().iter().find(|target| target.device().is_cuda());
    target.map(|target| target.device().clone())
}

/// Whether an error, or what it comes from, is that of a fork.
fn is_forked(error: &Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(Error::Forked { .. }) = error.downcast_ref() {
            return true;
        }
        next = error.source();
    }
    false
}

/// Methods that say what the host knows, or free what it has, without the device.
const OF_THE_HOST: [&str; 18] = [
    "device",
    "len",
    "lens",
    "is_empty",
    "capacity",
    "byte_capacity",
    "is_fixed",
    "slots",
    "submaps",
    "load_factor",
    "row_bound",
    "row_bounds",
    "ranks",
    "owner",
    "trim",
    "fmt",
    "run",
    // Of keys with rows.
    "stats",
];

/// Compares what a method returned in a forked process with what it has to.
fn expect_forked(name: &str, outcome: gpumap::Result<()>) {
    match outcome {
        Ok(()) if OF_THE_HOST.contains(&name) => {}
        Err(error) if is_forked(&error) => {}
        outcome => panic!("{name}: {outcome:?}"),
    }
}

fn calls_every_method<M: Hostile>(is_gpu: bool) {
    // All threads that calls start are there.
    let map = M::make();
    for verb in M::verbs() {
        (verb.run)(&map).unwrap();
    }
    let map = M::make();
    let mut wrong = Vec::new();
    for verb in M::verbs() {
        let outcome = try_forked(&format!("{}::{}", M::NAME, verb.name), || match is_gpu {
            true => expect_forked(verb.name, (verb.run)(&map)),
            false => {
                (verb.run)(&map).unwrap();
                (verb.run)(&M::make()).unwrap();
            }
        });
        wrong.extend(outcome.err());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // A process that was forked by a forked one.
    forked(M::NAME, || {
        forked(M::NAME, || {
            for verb in M::verbs() {
                match (is_gpu, verb.kind) {
                    (false, _) => (verb.run)(&map).unwrap(),
                    (true, Kind::Looks) => expect_forked(verb.name, (verb.run)(&map)),
                    // A change that fails may leave the map poisoned for those that follow.
                    _ => {}
                }
            }
        });
    });
    // To drop it there takes no device.
    let map = Cell::new(Some(map));
    forked(&format!("the drop of a {}", M::NAME), || drop(map.take()));
    let map = map.take().unwrap();
    // Nothing of that has come back.
    for verb in M::verbs() {
        (verb.run)(&map).unwrap();
    }
}

fn calls_every_method_on_the_cpu<M: Hostile>() {
    calls_every_method::<M>(false);
}

case! { every_method_of_every_kind within 240: || {
    for_each_kind!(calls_every_method_on_the_cpu);
} }

fn calls_every_method_on_a_gpu<M: Hostile>() {
    calls_every_method::<M>(true);
}

case! { every_method_of_every_kind_on_a_gpu within 240: || {
    let Some(gpu) = gpu() else { return };
    make_on(&gpu);
    for_each_kind!(calls_every_method_on_a_gpu);
} }

case! { what_is_left_of_a_gpu_is_an_error within 120: || {
    let Some(gpu) = gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    // So large that they go through page-locked memory, which has been used before.
    let numbers: Vec<u64> = (0..1 << 20).collect();
    let map = Map::<u64, u64>::new(&gpu).unwrap();
    map.insert(&numbers, &numbers).unwrap();
    assert_eq!(map.get(&numbers).unwrap().len(), numbers.len());
    let buffer = Buffer::from_slice(&stream, &numbers).unwrap();
    let keys = buffer.slice(..1_000).unwrap();
    let on = map.on(&stream);
    let mut graph = map.graph(&stream);
    let mut record = graph.record();
    let (mut values, mut found) = (Buffer::zeroed(&stream, 1_000).unwrap(), Buffer::zeroed(&stream, 1_000).unwrap());
    record.get_into(keys, &mut values, &mut found).unwrap();
    record.launch().unwrap().wait().unwrap();
    let event = gpumap::Event::new(&gpu).unwrap();
    event.record(&stream).unwrap();
    stream.synchronize().unwrap();
    let pinned = PinnedBuffer::<u64>::zeroed(&gpu, 1_000).unwrap();
    let primitives = Primitives::new(&gpu);
    primitives.reduce(&numbers[..], Op::Add, 0).unwrap();
    let pending = Cell::new(Some(on.submit(op::get(&keys)).unwrap()));
    let (pinned, mine) = (Cell::new(Some(pinned)), Cell::new(Some(buffer.slice(..).unwrap())));
    let failed = |what: &str, outcome: Result<(), Error>| {
        let error = outcome.expect_err(what);
        assert!(is_forked(&error), "{what}: {error:?}");
    };
    forked("what is left of a GPU", || {
        failed("a large lookup", map.get(&numbers).map(drop));
        failed("a large change", map.upsert(&numbers, &numbers).map(drop));
        // Nothing has happened to the map.
        failed("a small change", map.insert(&[1], &[2]).map(drop));
        failed("a lookup on a stream", on.submit(op::get(&keys)).map(drop));
        failed("a call in flight", pending.take().unwrap().wait().map(drop));
        failed("a new stream", Stream::new(&gpu).map(drop));
        failed("an event", event.record(&stream));
        failed("a new event", gpumap::Event::new(&gpu).map(drop));
        failed("a wait for an event", event.synchronize());
        failed("a question to an event", event.is_done().map(drop));
        failed("a large copy to the host", mine.take().unwrap().to_vec().map(drop));
        failed("a copy to the host", keys.to_vec().map(drop));
        failed("a buffer", Buffer::from_slice(&stream, &numbers).map(drop));
        failed("page-locked memory", PinnedBuffer::<u64>::zeroed(&gpu, 10).map(drop));
        failed("a primitive", primitives.reduce(&numbers[..], Op::Add, 0).map(drop));
        failed("a map", Map::<u64, u64>::new(&gpu).map(drop));
        failed("the device", gpu.info().map(drop));
        failed("the same device", Device::cuda(0).map(drop));
        // What the process before has is not freed, by this one.
        drop(pinned.take());
        let cpu = Map::<u64, u64>::new(&Device::cpu()).unwrap();
        assert_eq!(cpu.insert(&[1, 2], &[10, 20]).unwrap(), 2);
    });
    assert_eq!(pending.take().unwrap().wait().unwrap().len(), 1_000);
    assert_eq!(map.get(&[7]).unwrap(), [Some(7)]);
    assert_eq!(pinned.take().unwrap()[999], 0);
} }

case! { a_gpu_that_is_opened_after_the_fork_works within 120: || {
    let wish = wished_device();
    if !matches!(wish.as_str(), "" | "cuda") {
        return;
    }
    // The driver has not been initialised in this process.
    forked("a GPU", || match Device::cuda(0) {
        Ok(gpu) => {
            let map = Map::<u64, u64>::new(&gpu).unwrap();
            assert_eq!(map.insert(&[1, 2], &[10, 20]).unwrap(), 2);
            assert_eq!(map.get(&[2, 3]).unwrap(), [Some(20), None]);
        }
        Err(error) if wish == "cuda" => panic!("{error}"),
        Err(error) => skip(&format!("no CUDA device in a forked process: {error}")),
    });
} }

case! { large_batches_use_threads_again within 60: || {
    let device = Device::cpu_with_threads(3);
    let map = Map::<u64, u64>::new(&device).unwrap();
    let keys: Vec<u64> = (0..300_000).collect();
    map.insert(&keys, &keys).unwrap();
    forked("a large batch", || {
        assert_eq!(map.get(&keys).unwrap().iter().flatten().count(), keys.len());
        assert_eq!(map.remove(&keys[..200_000]).unwrap(), 200_000);
        let more = Map::<u64, u64>::new(&device).unwrap();
        more.insert(&keys, &keys).unwrap();
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        assert_eq!(more.save(&path).unwrap(), 300_000);
        assert_eq!(Map::<u64, u64>::load(&device, &path).unwrap().len(), 300_000);
        // Its threads end, and those of the process before are not waited for.
        drop((more, device.clone()));
        drop(Device::cpu_with_threads(2));
    });
    assert_eq!(map.len(), 300_000);
} }

case! { streams_that_were_idle_go_on within 30: || {
    let device = Device::cpu();
    let stream = Stream::new(&device).unwrap();
    let map = Map::<u64, u64>::with_capacity(&device, 100).unwrap();
    let keys = Buffer::from_slice(&stream, &[1, 2]).unwrap();
    let event = gpumap::Event::new(&device).unwrap();
    map.on(&stream).insert(&keys, &keys).unwrap().wait().unwrap();
    event.record(&stream).unwrap();
    stream.synchronize().unwrap();
    forked("a stream", || {
        event.synchronize().unwrap();
        stream.synchronize().unwrap();
        device.synchronize().unwrap();
        assert_eq!(keys.to_vec().unwrap(), [1, 2]);
        let found = map.on(&stream).submit(op::get(&keys)).unwrap();
        assert_eq!(found.wait().unwrap(), [Some(1), Some(2)]);
        let other = Stream::new(&device).unwrap();
        other.wait_stream(&stream).unwrap();
        let more = Buffer::from_slice(&other, &[3]).unwrap();
        assert_eq!(map.on(&other).insert(&more, &more).unwrap().wait().unwrap(), 1);
        drop((other, more));
        assert_eq!(map.len(), 3);
    });
    assert_eq!(map.len(), 2);
    stream.synchronize().unwrap();
} }

kernel_args! {
    /// Arguments of [`HOLD`].
    struct HoldArgs {
        /// What opens the stream.
        go: *mut u32,
    }
}

kernel! {
    /// Keeps a stream busy.
    static HOLD = fn hostile_hold(args: HoldArgs) {
        // SAFETY: it lives until the stream has been waited for.
        while unsafe { atomic::load(args.go, atomic::Relaxed) } == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

case! { what_was_queued_never_ends_and_says_so within 30: || {
    let device = Device::cpu();
    let stream = Stream::new(&device).unwrap();
    let map = Map::<u64, u64>::with_capacity(&device, 100).unwrap();
    let wide = Map::<u128, u64>::new(&device).unwrap();
    wide.insert(&[1], &[10]).unwrap();
    let keys = Buffer::from_slice(&stream, &[1, 2]).unwrap();
    let wide_keys = Buffer::from_slice(&stream, &[1u128]).unwrap();
    stream.synchronize().unwrap();
    let go = AtomicU32::new(0);
    // SAFETY: it lives until the stream has been waited for, and the kernel has no other pointers.
    unsafe { stream.launch(&HOLD, Grid::new(1, 32), HoldArgs { go: go.as_ptr() }) }.unwrap();
    // Each process has its own, and takes it.
    let new = Cell::new(Some(map.on(&stream).insert(&keys, &keys).unwrap()));
    let found = Cell::new(Some(wide.on(&stream).submit(op::get(&wide_keys)).unwrap()));
    let event = gpumap::Event::new(&device).unwrap();
    event.record(&stream).unwrap();
    // The thread of the stream is in the kernel.
    thread::sleep(Duration::from_millis(100));
    forked("work that was queued", || {
        assert!(is_forked(&event.synchronize().unwrap_err()));
        assert!(is_forked(&found.take().unwrap().wait().unwrap_err()));
        assert!(is_forked(&new.take().unwrap().wait().unwrap_err()));
        // Half of the insert may be there.
        assert!(matches!(map.get(&[1]), Err(Error::Poisoned)));
        map.clear().unwrap();
        assert_eq!(map.insert(&[1], &[10]).unwrap(), 1);
        // Lookups leave a map as it was.
        assert_eq!(wide.get(&[1]).unwrap(), [Some(10)]);
        wide.insert(&[2], &[20]).unwrap();
        assert!(is_forked(&stream.synchronize().unwrap_err()));
        // What comes now is sound.
        let keys = Buffer::from_slice(&stream, &[5, 6]).unwrap();
        assert_eq!(map.on(&stream).insert(&keys, &keys).unwrap().wait().unwrap(), 2);
    });
    forked("dropping work that was queued", || {
        assert!(is_forked(&device.synchronize().unwrap_err()));
        device.synchronize().unwrap();
    });
    go.store(1, Ordering::Release);
    assert_eq!(new.take().unwrap().wait().unwrap(), 2);
    assert_eq!(found.take().unwrap().wait().unwrap(), [Some(10)]);
} }

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

case! { tasks_are_woken within 30: || {
    let device = Device::cpu();
    let map = Map::<u64, u64>::with_capacity(&device, 100_000).unwrap();
    let insert = |first: u64| {
        let stream = Stream::new(&device).unwrap();
        let keys: Vec<u64> = (first..first + 10_000).collect();
        let keys = Buffer::from_slice(&stream, &keys).unwrap();
        block_on(map.on(&stream).insert(&keys, &keys).unwrap()).unwrap()
    };
    assert_eq!(insert(0), 10_000);
    forked("a task", || assert_eq!(insert(10_000), 10_000));
    assert_eq!(insert(20_000), 10_000);
} }
