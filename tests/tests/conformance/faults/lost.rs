//! A device that is lost for good: every call gives an error from then on, none waits for ever, and what
//! lived there can be dropped.
//!
//! On the CPU the [faults](gpumap::Faults) say so. On a GPU a second process spoils its own context for
//! real, by a kernel that reads from an address where nothing is: an error that only the end of the
//! process gets rid of.

use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, ptr, thread};

use gpumap::multi::Operation;
use gpumap::primitives::Predicate;
use gpumap::{
    Buffer, Device, Error, Event, Fault, Faults, Map, Merge, MultiMap, PinnedBuffer, Result, Stream,
};
use gpumap_simt::kernel::Grid;
use gpumap_test_kernels::memory::{COPIES, CopyArgs};
use gpumap_tests::faults::Watchdog;
use gpumap_tests::{Target, on_every_target};

/// Set in the second process.
const CHILD: &str = "GPUMAP_TEST_LOSES_ITS_DEVICE";
const NAME: &str = "faults::lost::every_later_call_is_an_error";

/// One of everything that lives on a device.
struct Inhabitants {
    stream: Stream,
    buffer: Buffer<u64>,
    event: Event,
    map: Map<u64, u64>,
    set: Map<u32, ()>,
    arena: Map<u64, [u64; 3]>,
    multi: MultiMap<u32, u32>,
}

impl Inhabitants {
    fn of(device: &Device) -> Result<Self> {
        let stream = Stream::new(device)?;
        let all = Self {
            buffer: Buffer::from_slice(&stream, &[1, 2, 3])?,
            event: Event::new(device)?,
            map: Map::with_capacity(device, 100)?,
            set: Map::with_capacity(device, 100)?,
            arena: Map::with_capacity(device, 100)?,
            multi: MultiMap::with_capacity(device, 100)?,
            stream,
        };
        all.event.record(&all.stream)?;
        all.map.insert(&[1, 2], &[10, 20])?;
        all.set.insert_keys(&[1, 2])?;
        all.arena.insert(&[1, 2], &[[1; 3], [2; 3]])?;
        all.multi.insert(&[1, 2], &[10, 20])?;
        Ok(all)
    }

    /// What each says now.
    fn calls(&mut self) -> Vec<(&'static str, Result<()>)> {
        let Self {
            stream,
            buffer,
            event,
            map,
            set,
            arena,
            multi,
        } = self;
        let device = map.device();
        let on = map.on(stream);
        let mut out = [0; 3];
        let always = Predicate::Always;
        macro_rules! calls {
            ($($call:expr,)*) => {
                vec![$((stringify!($call), $call.map(drop)),)*]
            };
        }
        calls! {
            stream.synchronize(),
            device.synchronize(),
            event.synchronize(),
            event.record(stream),
            buffer.to_vec(),
            buffer.copy_to_slice(&mut out),
            buffer.copy_from_slice(&[4, 5, 6]),
            Buffer::<u64>::zeroed(stream, 100),
            PinnedBuffer::<u64>::zeroed(device, 100),
            Stream::new(device),
            Map::<u64, u64>::new(device),
            map.insert(&[3], &[30]),
            map.upsert(&[1], &[11]),
            map.merge(&[1], &[1], Merge::Add),
            map.get_or_insert(&[4], &[40]),
            map.insert_with_outcome(&[5], &[50]),
            map.get(&[1]),
            map.contains(&[1]),
            map.remove(&[2]),
            map.take(&[2]),
            map.retain_where(always, always),
            map.retain_keys(&[1]),
            map.retrieve_all(),
            map.drain(),
            map.stats(),
            map.reserve(1_000_000),
            map.shrink_to_fit(),
            map.save_to(Vec::new()),
            map.chunks(10).collect::<Result<Vec<_>>>(),
            on.insert(&[6], &[60]).and_then(|answer| answer.wait()),
            on.remove(&[6]).and_then(|answer| answer.wait()),
            launch_graph(map, stream, buffer),
            map.launch_with(stream, 10, |_| Ok(())),
            map.clear(),
            set.insert_keys(&[3]),
            set.keys(),
            arena.insert(&[3], &[[3; 3]]),
            arena.upsert(&[1], &[[4; 3]]),
            arena.get(&[1]),
            arena.remove(&[1]),
            arena.retrieve_all(),
            arena.stats(),
            arena.clear(),
            multi.insert(&[3], &[30]),
            multi.append(&[3], &[30]),
            multi.apply(&[Operation::Get], &[1], &[0]),
            multi.get(&[1]),
            multi.remove(&[1]),
            multi.compact(),
            multi.retrieve_all(),
            multi.stats(),
            multi.clear(),
        }
    }
}

/// A launch of a graph.
fn launch_graph(map: &Map<u64, u64>, stream: &Stream, keys: &Buffer<u64>) -> Result<Vec<usize>> {
    let mut graph = map.graph(stream);
    let mut verbs = graph.record();
    verbs.insert(keys, keys)?;
    verbs.launch()?.wait()
}

/// Panics unless everything is refused, soon, and can be dropped then.
fn assert_refused(mut all: Inhabitants) {
    let start = Instant::now();
    for round in 0..2 {
        for (call, answer) in all.calls() {
            let typed = matches!(answer, Err(Error::Driver { .. } | Error::Poisoned));
            assert!(typed, "round {round}: {call} says {answer:?}");
        }
    }
    // From other threads as well.
    thread::scope(|scope| {
        let (map, arena) = (&all.map, &all.arena);
        scope.spawn(|| assert!(map.get(&[1]).is_err()));
        scope.spawn(|| assert!(arena.get(&[1]).is_err()));
    });
    let _ = (
        all.map.len(),
        all.map.capacity(),
        all.arena.len(),
        all.multi.len(),
    );
    drop(all);
    let most = Duration::from_secs(30);
    assert!(start.elapsed() < most, "{:?}", start.elapsed());
}

/// Spoils the context of this process, and looks at what is left.
fn lose_for_real() {
    let device = Device::cuda(0).expect("a CUDA device");
    let all = Inhabitants::of(&device).expect("everything");
    let stream = crate::facade::stream_on(&device);
    let args = CopyArgs {
        from: ptr::without_provenance(0x10),
        to: ptr::without_provenance_mut(0x10),
        units: 1,
    };
    // SAFETY: not sound, on purpose: this process ends when it has seen what becomes of it.
    let launched = unsafe { COPIES.launch(&stream, Grid::new(1, 32), args) };
    let failed = launched.and_then(|()| stream.synchronize());
    assert!(matches!(failed, Err(Error::Driver { .. })), "{failed:?}");
    assert_refused(all);
    println!("refused");
}

#[test]
fn every_later_call_is_an_error() {
    let _watchdog = Watchdog::after(NAME, Duration::from_secs(120));
    if env::var_os(CHILD).is_some() {
        return lose_for_real();
    }
    on_every_target(|on: &Target| {
        if on.device().is_cuda() {
            let child = Command::new(env::current_exe().unwrap())
                .args(["--exact", "--nocapture", NAME])
                .env(CHILD, "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stdout);
            let errors = String::from_utf8_lossy(&child.stderr);
            let well = child.status.success() && said.contains("refused");
            assert!(well, "{}: {said} {errors}", child.status);
            return;
        }
        let faults = Faults::default();
        let device = on.device().with_faults(&faults);
        let all = Inhabitants::of(&device).unwrap();
        faults.plan(0, Fault::Lost);
        assert_refused(all);
        assert_eq!(device.allocated_bytes(), 0, "bytes that leaked");
    });
}

/// A device is waited for with all its streams, those of other handles among them.
#[test]
fn another_handle_waits_for_the_same_device() {
    on_every_target(|on: &Target| {
        let faults = Faults::default();
        let device = on.device().with_faults(&faults);
        let all = Inhabitants::of(&device).unwrap();
        for fault in [Fault::Once, Fault::Forbidden, Fault::Lost] {
            faults.plan(0, fault);
            on.device().synchronize().unwrap();
            assert_eq!(faults.calls(), 0, "{fault:?}");
            device.synchronize().unwrap_err();
        }
        faults.heal();
        drop(all);
    });
}

#[test]
fn a_call_that_hangs_is_noticed() {
    const NAME: &str = "faults::lost::a_call_that_hangs_is_noticed";
    const CHILD: &str = "GPUMAP_TEST_HANGS";
    if env::var_os(CHILD).is_some() {
        let _watchdog = Watchdog::after("a call that hangs", Duration::from_millis(200));
        thread::sleep(Duration::from_secs(600));
        return;
    }
    let start = Instant::now();
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", NAME])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success());
    assert!(
        errors.contains("a call that hangs: has not ended"),
        "{errors}"
    );
    assert!(start.elapsed() < Duration::from_secs(300));
}

#[test]
fn threads_that_wait_for_each_other_all_get_an_error() {
    on_every_target(|on: &Target| {
        let _watchdog = Watchdog::after("threads on a lost device", Duration::from_secs(120));
        let faults = Faults::default();
        let device = on.device().with_faults(&faults);
        let (arena, map) = (
            Map::<u64, [u64; 3]>::with_capacity(&device, 100).unwrap(),
            Map::<u64, u64>::with_capacity(&device, 100).unwrap(),
        );
        // Some hundred calls on the way, verbs that exclude each other among them.
        faults.plan(400, Fault::Lost);
        let until_lost = |verb: &(dyn Fn(u64) -> Result<usize> + Sync)| {
            (0..).map(verb).find_map(Result::err).expect("it was lost")
        };
        thread::scope(|scope| {
            let spawn = |verb: &'static str| {
                let (arena, map) = (&arena, &map);
                scope.spawn(move || {
                    let error = until_lost(&|i| match verb {
                        "insert" => map.insert(&[i], &[i]),
                        "remove" => map.remove(&[i]),
                        "clear" => map.clear().map(|()| 0),
                        "upsert" => arena.upsert(&[i % 50], &[[i; 3]]),
                        _ => arena.remove(&[i % 50]),
                    });
                    let typed = matches!(error, Error::Driver { .. } | Error::Poisoned);
                    assert!(typed, "{verb}: {error:?}");
                });
            };
            for verb in ["insert", "remove", "clear", "upsert", "arena remove"] {
                spawn(verb);
            }
        });
        drop((arena, map));
        assert_eq!(device.allocated_bytes(), 0, "bytes that leaked");
    });
}
