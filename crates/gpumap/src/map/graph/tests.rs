//! Graphs: the same bodies on the CPU and on a GPU.

use crate::cuda::calls;
use crate::testing::{alone_on_the_gpu, hold, map, map_and_batch, on_every_device};
use crate::{Buffer, Call, Device, Error, Fault, Faults, Graph, Growth, Map, Merge, Stream};

const N: usize = 1_000;

fn keys(first: u64) -> Vec<u64> {
    (first..first + N as u64).collect()
}

fn insert(graph: &mut Graph<'_, u64, u64>, keys: &Buffer<u64>) -> crate::Result<Vec<usize>> {
    let mut verbs = graph.record();
    verbs.insert(keys, keys)?;
    verbs.launch()?.wait()
}

#[test]
fn a_steady_launch_is_one_call() {
    on_every_device(|device| {
        let (map, stream, batch) = map_and_batch(device, 10 * N, N);
        let [mut held, mut found, mut keys_out, mut values_out] =
            [0; 4].map(|_| Buffer::<u64>::zeroed(&stream, N).unwrap());
        let mut graph = map.graph(&stream);
        let mut steady = || {
            let mut verbs = graph.record();
            verbs.insert(&batch, &batch).unwrap();
            verbs.upsert(&batch, &batch).unwrap();
            verbs.merge(&batch, &batch, Merge::Add).unwrap();
            verbs.get_or_insert_into(&batch, &batch, &mut held).unwrap();
            verbs.get_or_into(&batch, 0, &mut found).unwrap();
            verbs
                .retrieve_all_into(&mut keys_out, &mut values_out)
                .unwrap();
            verbs.remove(&batch).unwrap();
            let answer = verbs.launch().unwrap();
            let calls = calls::take();
            assert_eq!(answer.wait().unwrap(), [N, 0, 0, 0, 0, N, N]);
            calls
        };
        // The first launch captures, and the second as well if marks held before.
        steady();
        steady();
        calls::take();
        let calls = steady();
        let bytes = device.allocated_bytes();
        let allowed = [
            "cuGraphLaunch",
            "cuEventRecord",
            "cuEventQuery",
            "cuCtxGetCurrent",
            "cuCtxPushCurrent_v2",
            "cuCtxPopCurrent_v2",
            "cuThreadExchangeStreamCaptureMode",
        ];
        let is_other = |call: &&&str| !allowed.contains(call);
        let others: Vec<_> = calls.iter().filter(is_other).collect();
        assert!(others.is_empty(), "{others:?}");
        let launches = calls.iter().filter(|&&call| call == "cuGraphLaunch");
        assert_eq!(launches.count(), usize::from(device.is_cuda()));
        steady();
        assert_eq!(device.allocated_bytes(), bytes);
        let doubled: Vec<u64> = (0..N as u64).map(|key| 2 * key).collect();
        assert_eq!(found.to_vec().unwrap(), doubled);
        assert_eq!(held.to_vec().unwrap(), doubled);
        assert_eq!(graph.captures(), 1);
    });
}

#[test]
fn what_changes_is_captured_again() {
    on_every_device(|device| {
        let map = map(device, 10 * N);
        let stream = Stream::new(device).unwrap();
        let (one, other) = (
            Buffer::from_slice(&stream, &keys(0)).unwrap(),
            Buffer::from_slice(&stream, &keys(N as u64)).unwrap(),
        );
        let mut graph = map.graph(&stream);
        for _ in 0..3 {
            insert(&mut graph, &one).unwrap();
        }
        assert_eq!(graph.captures(), 1);
        // Both stay.
        for _ in 0..3 {
            insert(&mut graph, &other).unwrap();
            insert(&mut graph, &one).unwrap();
        }
        assert_eq!(graph.captures(), 2);
        let mut verbs = graph.record();
        verbs
            .insert(one.slice(1..).unwrap(), other.slice(1..).unwrap())
            .unwrap();
        assert_eq!(verbs.launch().unwrap().wait().unwrap(), [0]);
        assert_eq!(graph.captures(), 3);
        let mut found = Buffer::zeroed(&stream, N).unwrap();
        for default in [1, 1, 2] {
            let mut verbs = graph.record();
            verbs.get_or_into(&one, default, &mut found).unwrap();
            verbs.launch().unwrap().wait().unwrap();
        }
        assert_eq!(graph.captures(), 5);
        assert_eq!(found.to_vec().unwrap(), keys(0));
    });
}

#[test]
fn a_table_that_moves_is_noticed() {
    on_every_device(|device| {
        let map = map(device, 100);
        let stream = Stream::new(device).unwrap();
        let few = |round: u64| keys(10 * round)[..10].to_vec();
        let mut batch = Buffer::from_slice(&stream, &few(0)).unwrap();
        let mut found = Buffer::zeroed(&stream, 10).unwrap();
        let mut graph = map.graph(&stream);
        for round in 0..8 {
            batch.copy_from_slice(&few(round)).unwrap();
            let mut verbs = graph.record();
            verbs.insert(&batch, &batch).unwrap();
            verbs.get_or_into(&batch, u64::MAX, &mut found).unwrap();
            assert_eq!(verbs.launch().unwrap().wait().unwrap(), [10, 0]);
            assert_eq!(found.to_vec().unwrap(), few(round));
            let before = map.inline().table.read().sight();
            match round {
                2 => map.reserve(100 * N).unwrap(),
                4 => map.shrink_to_fit().unwrap(),
                6 => map.clear().unwrap(),
                _ => {}
            }
            // Pages of another size, so all of it is made anew.
            let moved = map.inline().table.read().sight() != before;
            assert!(moved || round != 2, "the table has not moved");
        }
        assert_eq!(map.len(), 10);
        assert!(graph.captures() > 1);
    });
}

#[test]
fn cells_that_are_added_are_noticed() {
    on_every_device(|device| {
        let map = Map::<u64, [u64; 3]>::with_capacity(device, N).unwrap();
        let values = |round: u64| vec![[round; 3]; N];
        map.insert(&keys(0), &values(0)).unwrap();
        let stream = Stream::new(device).unwrap();
        let asked = Buffer::from_slice(&stream, &keys(0)).unwrap();
        let mut told = Buffer::<[u64; 3]>::zeroed(&stream, N).unwrap();
        let mut found = Buffer::zeroed(&stream, N).unwrap();
        let mut graph = map.graph(&stream);
        for round in 0..3 {
            for _ in 0..2 {
                let mut lookup = graph.record();
                lookup.get_into(&asked, &mut told, &mut found).unwrap();
                lookup.launch().unwrap().wait().unwrap();
                assert_eq!(told.to_vec().unwrap(), values(round));
            }
            // Cells for as many values beside those that are there, and no slots: no key is new.
            map.upsert(&keys(0), &values(round + 1)).unwrap();
        }
        assert!(graph.captures() > 1);
    });
}

#[test]
fn marks_end_with_every_launch_that_stores() {
    on_every_device(|device| {
        let (map, stream, batch) = map_and_batch(device, 4 * N, N);
        let mut there = Buffer::<u8>::zeroed(&stream, N).unwrap();
        let mut graph = map.graph(&stream);
        for _ in 0..3 {
            map.inline().table.read().set_marked(true);
            let mut verbs = graph.record();
            verbs.contains_into(&batch, &mut there).unwrap();
            verbs.launch().unwrap().wait().unwrap();
            assert!(map.inline().table.read().is_marked());
            insert(&mut graph, &batch).unwrap();
            assert!(!map.inline().table.read().is_marked());
        }
        // Each of the two for a table with marks; no capture knows whether a call beside it ended them.
        assert_eq!(graph.captures(), 2);
        let mut verbs = graph.record();
        verbs.contains_into(&batch, &mut there).unwrap();
        verbs.launch().unwrap().wait().unwrap();
        assert_eq!(graph.captures(), 3);
        assert!(there.to_vec().unwrap().iter().all(|&found| found == 1));
    });
}

#[test]
fn launches_queue_up_and_count_though_dropped() {
    on_every_device(|device| {
        let map = map(device, 100 * N);
        let (stream, elsewhere) = (Stream::new(device).unwrap(), Stream::new(device).unwrap());
        let mut graph = map.graph(&stream);
        let mut answers = Vec::new();
        for round in 0..30u64 {
            // Freed in the order of its own stream, which waits for the launch.
            let batch = Buffer::from_slice(&elsewhere, &keys(round * N as u64)).unwrap();
            let mut verbs = graph.record();
            verbs.insert(&batch, &batch).unwrap();
            verbs.remove(batch.slice(..10).unwrap()).unwrap();
            let answer = verbs.launch().unwrap();
            if round % 3 == 0 {
                answers.push(answer);
            }
        }
        for answer in answers {
            assert_eq!(answer.wait().unwrap(), [N, 10]);
        }
        // The graph goes before its launches have ended, for all that it knows.
        drop(graph);
        stream.synchronize().unwrap();
        assert_eq!(map.len(), 30 * (N - 10));
    });
}

#[test]
fn a_launch_does_not_wait_for_the_device() {
    alone_on_the_gpu(|device| {
        let (map, stream, batch) = map_and_batch(device, 4 * N, N);
        let mut graph = map.graph(&stream);
        // Kernels are loaded now: to load one later might wait for the stream that is held.
        insert(&mut graph, &batch).unwrap();
        let let_go = hold(&stream);
        let mut verbs = graph.record();
        verbs.insert(&batch, &batch).unwrap();
        let answer = verbs.launch().unwrap();
        assert!(!answer.is_done());
        drop(let_go);
        assert_eq!(answer.wait().unwrap(), [0]);
        assert_eq!(graph.captures(), 1);
    });
}

#[test]
fn nothing_to_do_is_nothing() {
    on_every_device(|device| {
        let (map, stream, batch) = map_and_batch(device, N, N);
        let mut found = Buffer::zeroed(&stream, 0).unwrap();
        let mut graph = map.graph(&stream);
        assert!(graph.record().launch().unwrap().wait().unwrap().is_empty());
        let none = batch.slice(..0).unwrap();
        let mut verbs = graph.record();
        verbs.insert(none, none).unwrap();
        verbs.contains_into(none, &mut found).unwrap();
        assert_eq!(verbs.launch().unwrap().wait().unwrap(), [0, 0]);
        assert_eq!(graph.captures(), 0);
        // Among others: with the counters of a launch that did something.
        for some in [batch.as_view(), none, batch.as_view()] {
            let mut verbs = graph.record();
            verbs.remove(some).unwrap();
            verbs.insert(&batch, &batch).unwrap();
            verbs.remove(some).unwrap();
            let removed = some.len();
            let counts = verbs.launch().unwrap().wait().unwrap();
            assert_eq!(counts.last(), Some(&removed));
        }
        assert_eq!(map.len(), 0);
    });
}

#[test]
fn parts_of_buffers_are_inputs_and_outputs() {
    on_every_device(|device| {
        let (map, stream, mut batch) = map_and_batch(device, 4 * N, N);
        let mut values = Buffer::<u64>::zeroed(&stream, 2 * N).unwrap();
        let mut graph = map.graph(&stream);
        let batch = batch.slice_mut(10..).unwrap();
        let mut part = values.slice_mut(N..).unwrap();
        for _ in 0..3 {
            let mut verbs = graph.record();
            verbs.insert(&batch, &batch).unwrap();
            verbs.get_or_into(&batch, 0, &mut part).unwrap();
            verbs.launch().unwrap().wait().unwrap();
        }
        let answers = values.to_vec().unwrap();
        assert!(answers[N..2 * N - 10].iter().copied().eq(10..N as u64));
        assert!(answers[..N].iter().all(|&value| value == 0));
    });
}

#[test]
fn bad_recordings_are_errors() {
    on_every_device(|device| {
        let map: Map<u64, u64> = Map::builder(device)
            .capacity(16)
            .growth(Growth::Fixed)
            .build()
            .unwrap();
        let stream = Stream::new(device).unwrap();
        let many = Buffer::from_slice(&stream, &keys(0)).unwrap();
        let (two, three) = (many.slice(..2).unwrap(), many.slice(..3).unwrap());
        let (mut short, mut bytes) = (
            Buffer::zeroed(&stream, 2).unwrap(),
            Buffer::zeroed(&stream, 2).unwrap(),
        );
        let mut long = Buffer::zeroed(&stream, 3).unwrap();
        let mut graph = map.graph(&stream);
        let mut verbs = graph.record();
        assert!(matches!(
            verbs.insert(two, three),
            Err(Error::LengthMismatch { keys: 2, values: 3 })
        ));
        let too_small = |result| {
            matches!(
                result,
                Err(Error::OutputTooSmall {
                    needed: 3,
                    given: 2
                })
            )
        };
        assert!(too_small(verbs.get_into(three, &mut long, &mut bytes)));
        assert!(too_small(
            verbs.get_or_insert_into(three, three, &mut short)
        ));
        // None of them was recorded.
        verbs.insert(two, two).unwrap();
        assert_eq!(verbs.launch().unwrap().wait().unwrap(), [2]);

        // What does not fit is refused, and what came before is done.
        let mut verbs = graph.record();
        verbs.remove(two).unwrap();
        verbs.insert(&many, &many).unwrap();
        verbs.insert(two, two).unwrap();
        assert!(matches!(
            verbs.launch(),
            Err(Error::Full { partial: false, .. })
        ));
        assert!(map.is_empty());

        let elsewhere = Device::cpu_with(crate::executor::Config::default());
        let elsewhere = Stream::new(&elsewhere).unwrap();
        let foreign = Buffer::from_slice(&elsewhere, &[1]).unwrap();
        let mut foreign_bytes = Buffer::zeroed(&elsewhere, 2).unwrap();
        let wrong = |result| matches!(result, Err(Error::WrongDevice { .. }));
        let mut verbs = graph.record();
        assert!(wrong(verbs.remove(&foreign)));
        assert!(wrong(verbs.contains_into(two, &mut foreign_bytes)));
        assert!(wrong(map.graph(&elsewhere).record().remove(two)));
    });
}

#[test]
fn a_dump_that_does_not_fit_says_so() {
    on_every_device(|device| {
        let (map, stream, batch) = map_and_batch(device, 4 * N, N);
        let (mut keys_out, mut values_out) = (
            Buffer::zeroed(&stream, N).unwrap(),
            Buffer::zeroed(&stream, N - 1).unwrap(),
        );
        let mut graph = map.graph(&stream);
        for _ in 0..2 {
            let mut verbs = graph.record();
            verbs.insert(&batch, &batch).unwrap();
            verbs
                .retrieve_all_into(&mut keys_out, &mut values_out)
                .unwrap();
            verbs.remove(batch.slice(..10).unwrap()).unwrap();
            assert!(matches!(
                verbs.launch().unwrap().wait(),
                Err(Error::OutputTooSmall { needed: N, .. })
            ));
            // All verbs have taken effect, and are counted.
            assert_eq!(map.len(), N - 10);
        }
    });
}

#[test]
fn refused_graphs_leave_the_map_as_it_was() {
    on_every_device(|device| {
        let faults = Faults::default();
        let device = &device.with_faults(&faults);
        let stream = Stream::new(device).unwrap();
        let batch = Buffer::from_slice(&stream, &keys(0)).unwrap();
        for fails in [Call::MakeGraph, Call::LaunchGraph] {
            let call = (0..20).find(|&at| {
                let map = map(device, 4 * N);
                let mut graph = map.graph(&stream);
                faults.plan(at, Fault::Once);
                let refused = insert(&mut graph, &batch);
                let failed = faults.failed();
                faults.heal();
                if failed != Some(fails) {
                    return false;
                }
                assert!(
                    matches!(refused, Err(Error::Driver { call, .. }) if call == fails.name()),
                    "{refused:?}"
                );
                assert_eq!(map.len(), 0);
                assert_eq!(insert(&mut graph, &batch).unwrap(), [N]);
                map.clear().unwrap();
                assert_eq!(insert(&mut graph, &batch).unwrap(), [N]);
                true
            });
            assert!(call.is_some(), "{fails:?} was not called");
        }
    });
}
