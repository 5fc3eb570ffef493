//! What a forked process may do with the maps, devices and streams that it has from the one before: all of it, on the CPU. Only what
//! was queued when it was forked never ends there, and that is [`Error::Forked`].

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use gpumap::simt::kernel::{Grid, Launcher};
use gpumap::simt::{atomic, kernel, kernel_args};
use gpumap::{Buffer, Device, Error, Map, Stream, op};

use crate::verbs::Hostile;
use crate::{case, for_each_kind};

const LIMIT: Duration = Duration::from_secs(20);

/// Does something in a forked process, which has to succeed within the limit.
fn forked(what: &str, work: impl FnOnce()) {
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
            panic!("{what} hangs in a forked process");
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "{what} fails in a forked process: {status:#x}"
    );
}

fn calls_every_method<M: Hostile>() {
    // All threads that calls start are there.
    let map = M::make();
    for verb in M::verbs() {
        (verb.run)(&map).unwrap();
    }
    let map = M::make();
    for verb in M::verbs() {
        forked(&format!("{}::{}", M::NAME, verb.name), || {
            (verb.run)(&map).unwrap();
            (verb.run)(&M::make()).unwrap();
        });
    }
    // A process that was forked by a forked one.
    forked(M::NAME, || {
        forked(M::NAME, || {
            for verb in M::verbs() {
                (verb.run)(&map).unwrap();
            }
        });
    });
    // Nothing of that has come back.
    for verb in M::verbs() {
        (verb.run)(&map).unwrap();
    }
}

case! { every_method_of_every_kind within 240: || {
    for_each_kind!(calls_every_method);
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
    let is_forked = |error: &Error| matches!(error, Error::Forked { .. });
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
