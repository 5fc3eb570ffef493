//! Audit findings 1 and 2: every call works while another thread captures a CUDA graph in the default mode, and
//! the capture survives it.

use std::cell::Cell;
use std::fmt::Debug;
use std::time::Duration;

use gpumap::primitives::{Op, Order, Predicate, Primitives};
use gpumap::{
    Buffer, Error, Event, Map, Merge, MultiMap, Operation, PinnedBuffer, Result, RowMap, Stream,
};
use gpumap_tests::captures::{CapturedStream, Captures};
use gpumap_tests::faults::Watchdog;
use gpumap_tests::soak::{self, beside};
use gpumap_tests::{Target, on_every_target};

/// Runs operations one by one, each beside a capture of its own, and the first ones beside one that begins before
/// their kernels are loaded.
struct Beside {
    captures: Captures,
}

impl Beside {
    /// Something that cannot fail.
    fn does(&self, name: &str, operation: impl FnOnce()) {
        self.captures.during(name, operation);
    }

    fn on(target: &Target) -> Self {
        Self {
            captures: Captures::on(target.device()),
        }
    }

    /// The answer of an operation.
    fn run<T: Debug>(&self, name: &str, operation: impl FnOnce() -> Result<T>) -> T {
        let answer = self.captures.during(name, operation);
        answer.unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

fn batch(target: &Target) -> Vec<u64> {
    // Large enough on a GPU for batches in chunks, sorted, and for pages.
    (0..target.n(2_000, 6_000_000) as u64)
        .map(|i| i * 7)
        .collect()
}

#[test]
fn operations_of_maps() {
    on_every_target(|on| {
        let _watchdog = Watchdog::new("captures");
        let beside = Beside::on(on);
        let keys = batch(on);
        let (n, few) = (keys.len(), &keys[..100]);
        let map = beside.run("build", || on.builder::<u64, u64>().capacity(n / 4).build());
        assert_eq!(beside.run("insert of few", || map.insert(few, few)), 100);
        assert_eq!(
            beside.run("insert that grows", || map.insert(&keys, &keys)),
            n - 100
        );
        assert_eq!(beside.run("upsert", || map.upsert(few, few)), 0);
        assert_eq!(
            beside.run("merge", || map.merge(&keys, &keys, Merge::Max)),
            0
        );
        assert_eq!(beside.run("update", || map.update(few, few)), 100);
        let held = beside.run("get_or_insert", || map.get_or_insert(few, few));
        assert_eq!(held, few);
        let found = beside.run("get", || map.get(&keys));
        assert!(
            found
                .iter()
                .zip(&keys)
                .all(|(found, key)| *found == Some(*key))
        );
        assert!(
            beside
                .run("contains", || map.contains(few))
                .iter()
                .all(|&found| found)
        );
        let gone = beside.run("apply", || map.apply(&[Operation::Remove; 100], few, few));
        assert_eq!(gone.len(), 100);
        assert_eq!(beside.run("remove", || map.remove(&keys[100..200])), 100);
        let (left, _) = beside.run("retrieve_all", || map.retrieve_all());
        assert_eq!(left.len(), n - 200);
        let chunks = || -> Result<usize> {
            let lengths = map.chunks(1 << 20).map(|chunk| Ok(chunk?.keys().len()));
            lengths.sum()
        };
        assert_eq!(beside.run("chunks", chunks), n - 200);
        let mut file = Vec::new();
        beside.run("save", || map.save_to(&mut file));
        let loaded = beside.run("load", || on.builder::<u64, u64>().load_from(&*file));
        assert_eq!(loaded.len(), n - 200);
        beside.does("drop", || drop(loaded));
        beside.run("reserve", || map.reserve(n));
        beside.run("stats", || map.stats());
        let removed = beside.run("retain", || {
            map.retain_where(Predicate::Less(7_000), Predicate::Always)
        });
        assert_eq!(removed, n - 1_000);
        beside.run("shrink_to_fit", || map.shrink_to_fit());
        beside.does("trim", || map.trim());
        assert_eq!(beside.run("drain", || map.drain()).0.len(), 800);
        beside.run("clear", || map.clear());
        beside.run("synchronize", || on.device().synchronize());
        beside.run("available_bytes", || on.device().available_bytes());
        beside.does("drop of a map", || drop(map));
    });
}

#[test]
fn calls_on_streams_and_graphs() {
    on_every_target(|on| {
        let _watchdog = Watchdog::new("captures");
        let beside = Beside::on(on);
        let keys = batch(on);
        let n = keys.len();
        let map = on.map::<u64, u64>(2 * n);
        let (stream, other) = beside.run("streams", || {
            Ok((Stream::new(on.device())?, Stream::new(on.device())?))
        });
        let keys = beside.run("buffer", || Buffer::from_slice(&other, &keys));
        let mut found = beside.run("zeroed", || Buffer::<u64>::zeroed(&other, n));
        let calls = map.on(&stream);
        let pending = beside.run("insert on a stream", || calls.insert(&keys, &keys));
        beside.run("polls", || {
            while !pending.is_done() {
                std::thread::sleep(Duration::from_micros(50));
                map.len();
            }
            Ok(())
        });
        assert_eq!(beside.run("wait", || pending.wait()), n);
        let look_up = || calls.get_or_into(&keys, 0, &mut found)?.wait();
        beside.run("get_or_into on a stream", look_up);
        assert_eq!(
            beside.run("to_vec", || found.to_vec()),
            beside.run("to_vec", || keys.to_vec())
        );
        let mut graph = map.graph(&stream);
        for _ in 0..3 {
            let counts = beside.run("graph", || {
                let mut steps = graph.record();
                steps.remove(keys.slice(..100)?)?;
                steps.insert(keys.slice(..100)?, keys.slice(..100)?)?;
                steps.launch()?.wait()
            });
            assert_eq!(counts, [100, 100]);
        }
        let mut pinned = beside.run("pinned", || PinnedBuffer::<u64>::zeroed(on.device(), n));
        beside.run("copy to pinned memory", || keys.copy_to_slice(&mut pinned));
        assert_eq!(pinned[n - 1], 7 * (n as u64 - 1));
        beside.run("event", || {
            let event = Event::new(on.device())?;
            event.record(&stream)?;
            other.wait_event(&event)?;
            event.synchronize()?;
            other.is_idle()
        });
        let dropped = beside.run("unwaited", || calls.remove(&keys));
        beside.does("drop of a graph", move || drop(graph));
        beside.does("drop beside a call in flight", move || {
            drop(map);
            drop(dropped);
        });
        beside.does("drop of buffers", || drop((keys, found, pinned)));
    });
}

#[test]
fn other_maps_and_primitives() {
    on_every_target(|on| {
        let _watchdog = Watchdog::new("captures");
        let beside = Beside::on(on);
        let keys = &batch(on)[..1_000];
        let values: Vec<[u64; 4]> = keys.iter().map(|&key| [key; 4]).collect();
        let arena = beside.run("arena", || Map::<u64, [u64; 4]>::new(on.device()));
        assert_eq!(
            beside.run("arena insert", || arena.insert(keys, &values)),
            1_000
        );
        assert_eq!(
            beside.run("arena get", || arena.get(&keys[..1])),
            [Some(values[0])]
        );
        assert_eq!(beside.run("arena remove", || arena.remove(keys)), 1_000);
        beside.does("arena drop", || drop(arena));
        let multi = beside.run("multi", || {
            MultiMap::<u64, u64>::with_capacity(on.device(), 100)
        });
        beside.run("append", || multi.append(keys, keys));
        assert_eq!(beside.run("get_all", || multi.get_all(keys)).len(), 1_000);
        beside.run("compact", || multi.compact());
        beside.does("multi drop", || drop(multi));
        let primitives = Primitives::new(on.device());
        assert_eq!(
            beside.run("reduce", || primitives.unique_count(keys)),
            1_000
        );
        beside.run("scan", || primitives.inclusive_scan(keys, Op::Add));
        beside.run("filter", || {
            primitives.filter(keys, Predicate::Less(100), Order::Any)
        });
        beside.run("histogram", || {
            primitives.histogram_even(keys, 0..7_000, 16)
        });
    });
}

/// The invariant: of a stream that its own thread captures, every call is refused before anything is queued, also one that
/// queues nothing, and none waits for the end of the capture.
#[test]
fn calls_on_a_captured_stream() {
    on_every_target(|on| {
        let Some(captured) = CapturedStream::on(on.device()) else {
            return;
        };
        let _watchdog = Watchdog::new("captured stream");
        let (stream, other) = (captured.stream(), Stream::new(on.device()).unwrap());
        let keys = Buffer::from_slice(&other, &[1u64, 2, 3]).unwrap();
        let wide_keys = Buffer::from_slice(&other, &[1u128, 2, 3]).unwrap();
        let none = keys.slice(..0).unwrap();
        let [mut found, mut wide_found] =
            [(); 2].map(|()| Buffer::<u64>::zeroed(&other, 3).unwrap());
        let map = on.map::<u64, u64>(100);
        let arena = Map::<u64, u64>::new(on.device()).unwrap();
        let multi = MultiMap::<u64, u64>::with_capacity(on.device(), 100).unwrap();
        let wide = Map::<u128, u64>::new(on.device()).unwrap();
        let rows = RowMap::<u128>::new(on.device()).unwrap();
        let strings = RowMap::<str>::new(on.device()).unwrap();
        let words = ["one", "two", "three"];
        let event = Event::new(on.device()).unwrap();
        event.record(&other).unwrap();

        let launches = Cell::new(0);
        let launch = || {
            launches.set(launches.get() + 1);
            Ok(())
        };
        type Call<'a> = Box<dyn FnMut() -> Result<()> + 'a>;
        let mut calls: Vec<(&str, Call)> = vec![
            ("synchronize", Box::new(|| stream.synchronize())),
            ("is_idle", Box::new(|| stream.is_idle().map(drop))),
            (
                "record",
                Box::new(|| Event::new(on.device())?.record(stream)),
            ),
            ("wait_event", Box::new(|| stream.wait_event(&event))),
            ("wait_stream", Box::new(|| stream.wait_stream(&other))),
            (
                "from_slice",
                Box::new(|| Buffer::from_slice(stream, &[1u64]).map(drop)),
            ),
            (
                "insert",
                Box::new(|| map.on(stream).insert(&keys, &keys)?.wait().map(drop)),
            ),
            (
                "insert of nothing",
                Box::new(|| map.on(stream).insert(&none, &none)?.wait().map(drop)),
            ),
            (
                "get",
                Box::new(|| map.on(stream).get_or_into(&keys, 0, &mut found)?.wait()),
            ),
            (
                "graph",
                Box::new(|| {
                    let mut graph = map.graph(stream);
                    let mut steps = graph.record();
                    steps.insert(&keys, &keys)?;
                    steps.launch()?.wait().map(drop)
                }),
            ),
            (
                "launch_with",
                Box::new(|| map.launch_with(stream, 0, |_| launch()).map(drop)),
            ),
            (
                "arena insert",
                Box::new(|| arena.on(stream).insert(&keys, &keys)?.wait().map(drop)),
            ),
            (
                "multi insert",
                Box::new(|| multi.on(stream).insert(&keys, &keys)?.wait().map(drop)),
            ),
            (
                "wide insert",
                Box::new(|| wide.on(stream).insert(&wide_keys, &keys)?.wait().map(drop)),
            ),
            (
                "wide get",
                Box::new(|| {
                    wide.on(stream)
                        .get_or_into(&wide_keys, 0, &mut wide_found)?
                        .wait()
                }),
            ),
            (
                "wide launch_with",
                Box::new(|| wide.launch_with_rows(stream, |_| launch())),
            ),
            (
                "multi launch_with",
                Box::new(|| multi.launch_with(stream, 0, |_| launch()).map(drop)),
            ),
            (
                "rows insert",
                Box::new(|| rows.on(stream).insert(&wide_keys)?.wait().map(drop)),
            ),
            (
                "rows get",
                Box::new(|| rows.on(stream).get(&wide_keys)?.wait().map(drop)),
            ),
            (
                "rows launch_with",
                Box::new(|| rows.launch_with(stream, |_| launch())),
            ),
            (
                "strings insert",
                Box::new(|| strings.on(stream).insert(&words)?.wait().map(drop)),
            ),
            (
                "strings get",
                Box::new(|| strings.on(stream).get(&words)?.wait().map(drop)),
            ),
        ];
        let refused = || {
            calls
                .iter_mut()
                .map(|(name, call)| (*name, call()))
                .collect()
        };
        let (refused, nodes): (Vec<(&str, Result<()>)>, usize) = captured.during(refused);
        let mut wrong = refused;
        wrong.retain(|(_, answer)| !matches!(answer, Err(Error::StreamIsCaptured)));
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!([nodes, launches.get()], [0; 2], "something was queued");
        assert!(map.is_empty() && wide.is_empty() && rows.is_empty() && strings.is_empty());
        for (name, call) in &mut calls {
            call().unwrap_or_else(|error| panic!("{name} afterwards: {error}"));
        }
        drop(calls);
        assert_eq!([map.len(), wide.len(), rows.len(), strings.len()], [3; 4]);
    });
}

#[test]
fn many_threads_beside_captures() {
    on_every_target(|on| {
        let _watchdog = Watchdog::new("captures");
        let options = soak::Options {
            time: Duration::from_secs(3),
            streams: 8,
            seed: 9,
            keys: on.n(1 << 9, 1 << 16) as u64,
            batch: on.n(1 << 7, 1 << 14),
        };
        let others = beside::Beside {
            captures: true,
            groups: 2,
        };
        let soak = || soak::run::<u64, u64>(on, &options, |_| ());
        let (report, count) = beside::during(on, others, soak);
        println!("{report}, beside {count:?}");
        assert_eq!(report.difference, None);
        assert!(count.captures > 0 && count.groups > 0, "{count:?}");
    });
}
