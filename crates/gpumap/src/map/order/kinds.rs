//! Lookups on streams and in graphs of maps of every kind: each call that moves or frees what they read waits for them. And
//! what waits for its stream comes behind it.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::primitives::Predicate;
use crate::stream::launches_started;
use crate::strings::{StringColumn, Strings};
use crate::sync::{AtomicUsize, Ordering};
use crate::{Call, Fault, Faults, Graph, Map, MultiMap, OnStream, RowMap};

type Large = [u64; 3];

/// What is done to a map by the host, at once.
type Deed<M> = (&'static str, fn(M));

fn large(first: u64) -> Vec<Large> {
    values(first).into_iter().map(|value| [value; 3]).collect()
}

fn wide_keys(first: u64) -> Vec<u128> {
    keys(first)
        .into_iter()
        .map(|key| u128::from(key) << 70)
        .collect()
}

/// Keys of a batch for which every map here has to grow.
fn many() -> std::ops::Range<u64> {
    1_000..1_000 + 60 * N as u64
}

fn wide(device: &Device) -> Map<u128, u64> {
    let map = Map::with_capacity(device, N).unwrap();
    map.insert(&wide_keys(5), &values(5)).unwrap();
    map
}

fn arena(device: &Device) -> Map<u64, Large> {
    let map = Map::with_capacity(device, 2 * N).unwrap();
    map.insert(&keys(5), &large(5)).unwrap();
    map
}

fn multi(device: &Device) -> MultiMap<u64, u64> {
    let builder = MultiMap::builder(device).buckets(4).hash_seed(1);
    let map = builder.build().unwrap();
    map.insert(&keys(5), &values(5)).unwrap();
    // Room for compactions.
    map.insert(&keys(300), &values(300)).unwrap();
    map.remove(&keys(300)).unwrap();
    map
}

fn rows(device: &Device) -> RowMap<u128> {
    let map = RowMap::with_capacity(device, N).unwrap();
    map.insert(&wide_keys(300)).unwrap();
    map.insert(&wide_keys(5)).unwrap();
    map.remove(&wide_keys(300)[1..]).unwrap();
    map
}

/// A lookup of all keys of a batch that a map holds.
struct Lookup<M, K: Pod, V: Pod> {
    make: fn(&Device) -> M,
    on: for<'m> fn(&'m M, &Stream) -> OnStream<'m, K, V>,
    graph: for<'m> fn(&'m M, &Stream) -> Graph<'m, K, V>,
    keys: Vec<K>,
    held: Vec<V>,
}

impl<M, K: Pod, V: Pod + PartialEq> Lookup<M, K, V> {
    /// The answers if it is queued just before a deed, on a stream and in a graph.
    fn before(&self, device: &Device, deed: fn(M)) -> [Vec<Option<V>>; 2] {
        [false, true].map(|is_graph| {
            let [stream, elsewhere] = streams(device);
            let map = (self.make)(device);
            let mut asked = Arriving::new(&elsewhere, &self.keys);
            let (mut values, mut found) = (output::<V>(&stream, N), output::<u8>(&elsewhere, N));
            if is_graph {
                let mut graph = (self.graph)(&map, &stream);
                let mut lookup = graph.record();
                let noted = lookup.get_into(&asked.buffer, &mut values, &mut found);
                noted.unwrap();
                drop(lookup.launch().unwrap());
                assert_eq!(graph.captures(), 1);
                // Its own memory goes before the launch has ended, for all that it knows.
            } else {
                let on = (self.on)(&map, &stream);
                let answer = on.get_into(&asked.buffer, &mut values, &mut found);
                drop(answer.unwrap());
            }
            deed(map);
            asked.buffer.fill_bytes(JUNK).unwrap();
            let (values, found) = (values.to_vec().unwrap(), found.to_vec().unwrap());
            let answer = |(value, found)| (found != 0).then_some(value);
            values.into_iter().zip(found).map(answer).collect()
        })
    }

    /// Sees that each deed waits for it.
    fn holds_back(&self, device: &Device, deeds: &[Deed<M>]) {
        for &(name, deed) in deeds {
            for found in self.before(device, deed) {
                let held = self.held.iter().copied().map(Some);
                assert!(found.into_iter().eq(held), "{name}");
            }
        }
    }
}

#[test]
fn lookups_of_wide_keys_hold_back_every_change() {
    const DEEDS: &[Deed<Map<u128, u64>>] = &[
        ("drop", drop),
        ("clear", |map| map.clear().unwrap()),
        ("drain", |map| drop(map.drain().unwrap())),
        ("reserve", |map| map.reserve(40 * N).unwrap()),
        ("upsert", |map| {
            map.upsert(&wide_keys(5), &values(500)).unwrap();
        }),
        ("update", |map| {
            map.update(&wide_keys(5), &values(500)).unwrap();
        }),
        ("remove", |map| {
            assert_eq!(map.remove(&wide_keys(5)).unwrap(), N);
        }),
        ("retain", |map| {
            assert_eq!(map.retain(|_, _| false).unwrap(), N);
        }),
        ("grow", |map| {
            let keys: Vec<u128> = many().map(u128::from).collect();
            map.insert(&keys, &many().collect::<Vec<_>>()).unwrap();
        }),
        ("remove, and use rows again", |map| {
            map.remove(&wide_keys(5)).unwrap();
            map.insert(&wide_keys(700), &values(700)).unwrap();
            map.insert(&wide_keys(900), &values(900)).unwrap();
        }),
    ];
    let lookup = Lookup {
        make: wide,
        on: Map::on,
        graph: Map::graph,
        keys: wide_keys(5),
        held: values(5),
    };
    in_many_orders(|device| {
        lookup.holds_back(device, DEEDS);
    });
}

#[test]
fn lookups_of_large_values_by_row_hold_back_every_change() {
    const DEEDS: &[Deed<Map<u128, Large>>] = &[
        ("drop", drop),
        ("reserve", |map| map.reserve(40 * N).unwrap()),
        ("upsert", |map| {
            map.upsert(&wide_keys(5), &large(500)).unwrap();
        }),
        ("update", |map| {
            map.update(&wide_keys(5), &large(500)).unwrap();
        }),
        ("grow", |map| {
            let keys: Vec<u128> = many().map(u128::from).collect();
            map.insert(&keys, &vec![[7; 3]; keys.len()]).unwrap();
        }),
        ("remove, and use rows again", |map| {
            map.remove(&wide_keys(5)).unwrap();
            map.insert(&wide_keys(700), &large(700)).unwrap();
            map.insert(&wide_keys(900), &large(900)).unwrap();
        }),
    ];
    let lookup = Lookup {
        make: |device| {
            let map = Map::with_capacity(device, N).unwrap();
            map.insert(&wide_keys(5), &large(5)).unwrap();
            map
        },
        on: Map::on,
        graph: Map::graph,
        keys: wide_keys(5),
        held: large(5),
    };
    in_many_orders(|device| lookup.holds_back(device, DEEDS));
}

#[test]
fn lookups_of_large_values_hold_back_what_frees_and_uses_cells_again() {
    const DEEDS: &[Deed<Map<u64, Large>>] = &[
        ("drop", drop),
        ("clear", |map| map.clear().unwrap()),
        ("drain", |map| drop(map.drain().unwrap())),
        ("reserve", |map| map.reserve(40 * N).unwrap()),
        ("shrink", |map| map.shrink_to_fit().unwrap()),
        ("retain", |map| {
            assert_eq!(map.retain(|_, _| false).unwrap(), N);
        }),
        ("grow", |map| {
            let keys: Vec<u64> = many().collect();
            map.insert(&keys, &vec![[7; 3]; keys.len()]).unwrap();
        }),
    ];
    let lookup = Lookup {
        make: arena,
        on: Map::on,
        graph: Map::graph,
        keys: keys(5),
        held: large(5),
    };
    in_many_orders(|device| {
        lookup.holds_back(device, DEEDS);
        // These run beside lookups, until cells have to be used again.
        let upserts = |map: Map<u64, Large>| {
            for _ in 0..4 {
                map.upsert(&keys(5), &large(500)).unwrap();
            }
        };
        for found in lookup.before(device, upserts) {
            let both = large(5).into_iter().zip(large(500));
            for (found, (old, new)) in found.into_iter().zip(both) {
                assert!(found == Some(old) || found == Some(new), "{found:?}");
            }
        }
        let removals = |map: Map<u64, Large>| {
            map.remove(&keys(5)).unwrap();
            for first in [700, 800, 900] {
                map.insert(&keys(first), &large(first)).unwrap();
            }
        };
        for found in lookup.before(device, removals) {
            for (found, old) in found.into_iter().zip(large(5)) {
                assert!(found.is_none_or(|found| found == old), "{found:?}");
            }
        }
    });
}

#[test]
fn lookups_of_chains_hold_back_what_frees_and_moves_pairs() {
    const DEEDS: &[Deed<MultiMap<u64, u64>>] = &[
        ("drop", drop),
        ("clear", |map| map.clear().unwrap()),
        ("compact", |map| assert!(map.compact().unwrap() > 0)),
        ("reserve", |map| map.reserve(40 * N).unwrap()),
        ("retain", |map| {
            let none = Predicate::Less(0);
            assert_eq!(map.retain_where(none, none).unwrap(), N);
        }),
        ("grow", |map| {
            let keys: Vec<u64> = many().collect();
            map.insert(&keys, &keys).unwrap();
        }),
    ];
    let lookup = Lookup {
        make: multi,
        on: MultiMap::on,
        graph: MultiMap::graph,
        keys: keys(5),
        held: values(5),
    };
    in_many_orders(|device| {
        lookup.holds_back(device, DEEDS);
        // This one runs beside lookups.
        let removal = |map: MultiMap<u64, u64>| {
            assert_eq!(map.remove(&keys(5)).unwrap(), N);
        };
        for found in lookup.before(device, removal) {
            for (found, old) in found.into_iter().zip(values(5)) {
                assert!(found.is_none_or(|found| found == old), "{found:?}");
            }
        }
    });
}

#[test]
fn lookups_of_rows_hold_back_every_change() {
    const DEEDS: &[Deed<RowMap<u128>>] = &[
        ("drop", drop),
        ("clear", |map| map.clear().unwrap()),
        ("reserve", |map| map.reserve(40 * N).unwrap()),
        ("remove", |map| {
            assert_eq!(map.remove(&wide_keys(5)).unwrap(), N);
        }),
        ("compact", |map| {
            assert_eq!(map.compact().unwrap().len(), N + 1);
        }),
        ("grow", |map| {
            let keys: Vec<u128> = many().map(u128::from).collect();
            map.insert(&keys).unwrap();
        }),
    ];
    in_many_orders(|device| {
        let by_both = DEEDS.iter().flat_map(|deed| [(deed, false), (deed, true)]);
        for (&(name, deed), is_graph) in by_both {
            let [stream, elsewhere] = streams(device);
            let map = rows(device);
            let mut asked = Arriving::new(&elsewhere, &wide_keys(5));
            let mut found = output::<u32>(&elsewhere, N);
            if is_graph {
                let mut graph = map.graph(&stream);
                let mut lookup = graph.record();
                lookup.get_into(&asked.buffer, &mut found).unwrap();
                drop(lookup.launch().unwrap());
            } else {
                let answer = map.on(&stream).get_into(&asked.buffer, &mut found);
                drop(answer.unwrap());
            }
            deed(map);
            asked.buffer.fill_bytes(JUNK).unwrap();
            let expected = N as u32..2 * N as u32;
            assert!(found.to_vec().unwrap().into_iter().eq(expected), "{name}");
        }
    });
}

/// Strings by numbers, as offsets and bytes.
fn strings(first: u64) -> Strings {
    let string = |key: u64| format!("string number {key}");
    keys(first).into_iter().map(string).collect()
}

#[test]
fn lookups_of_strings_hold_back_every_change() {
    const DEEDS: &[Deed<RowMap<str>>] = &[
        ("drop", drop),
        ("clear", |map| {
            map.clear().unwrap();
            // Over the bytes of the strings that were there.
            map.insert(&strings(300)).unwrap();
        }),
        ("reserve", |map| map.reserve_bytes(40 * N, 400 * N).unwrap()),
        ("remove", |map| {
            assert_eq!(map.remove(&strings(5)).unwrap(), N);
        }),
        ("compact", |map| {
            assert_eq!(map.compact().unwrap().len(), N + 1);
        }),
        ("grow", |map| {
            let strings: Strings = many().map(|i| i.to_string()).collect();
            map.insert(&strings).unwrap();
        }),
    ];
    in_many_orders(|device| {
        for &(name, deed) in DEEDS {
            let [stream, one, other] = streams(device);
            let map = RowMap::<str>::new(device).unwrap();
            map.insert(&strings(300)).unwrap();
            map.insert(&strings(5)).unwrap();
            map.remove(&strings(300).to_vecs()[1..]).unwrap();
            let asked = strings(5);
            let mut offsets = Arriving::new(&one, asked.offsets());
            let mut bytes = Arriving::new(&other, asked.bytes());
            let mut found = output::<u32>(&one, N);
            let column = StringColumn::new(&offsets.buffer, &bytes.buffer);
            let on = map.on(&stream);
            drop(on.get_into(&column, &mut found).unwrap());
            let told = on.get(&column).unwrap();
            offsets.buffer.fill_bytes(JUNK).unwrap();
            bytes.buffer.fill_bytes(JUNK).unwrap();
            deed(map);
            let expected = N as u32..2 * N as u32;
            assert!(
                found.to_vec().unwrap().into_iter().eq(expected.clone()),
                "{name}"
            );
            assert!(
                told.wait().unwrap().into_iter().eq(expected.map(Some)),
                "{name}"
            );
        }
    });
}

#[test]
fn what_waits_comes_behind_its_stream() {
    in_many_orders(|device| {
        let [stream, one, other] = streams(device);
        let map = wide(device);
        let on = map.on(&stream);
        let (mut keys_in, values_in) = (
            Arriving::new(&one, &wide_keys(500)),
            Arriving::new(&other, &values(500)),
        );
        let mut absent = output::<u8>(&other, N);
        drop(on.contains_into(&keys_in.buffer, &mut absent).unwrap());
        let new = on.insert(&keys_in.buffer, &values_in.buffer).unwrap();
        assert!(new.is_done());
        assert_eq!(new.wait().unwrap(), N);
        let mut held = output::<u64>(&one, N);
        let gone = on.submit(crate::op::take(&keys_in.buffer).into(&mut held));
        assert!(gone.unwrap().is_done());
        keys_in.buffer.fill_bytes(JUNK).unwrap();
        assert_eq!(held.to_vec().unwrap(), values(500));
        assert_eq!(absent.to_vec().unwrap(), [0; N]);
        let (mut all_keys, mut all_values) = (output(&one, N), output(&other, N));
        let all = on
            .retrieve_all_into(&mut all_keys, &mut all_values)
            .unwrap();
        assert_eq!(all.wait().unwrap(), N);
        assert_eq!(all_keys.to_vec().unwrap(), wide_keys(5));
        assert_eq!(all_values.to_vec().unwrap(), values(5));

        let map = rows(device);
        let on = map.on(&stream);
        let mut asked = Arriving::new(&one, &wide_keys(500));
        let before = on.get(&asked.buffer).unwrap();
        let mut given = output::<u32>(&other, N);
        let new = on.insert_into(&asked.buffer, &mut given).unwrap();
        asked.buffer.fill_bytes(JUNK).unwrap();
        assert_eq!(new.wait().unwrap(), N);
        let expected = 2 * N as u32..3 * N as u32;
        assert!(given.to_vec().unwrap().into_iter().eq(expected.clone()));
        assert_eq!(before.wait().unwrap(), [None; N]);
        let given = on.insert(&wide_keys(500)).unwrap().wait().unwrap();
        assert!(given.into_iter().eq(expected));
        let (mut all_keys, mut all_rows) = (output(&one, 3 * N), output(&other, 3 * N));
        let all = on.retrieve_all_into(&mut all_keys, &mut all_rows);
        assert_eq!(all.unwrap().wait().unwrap(), 2 * N + 1);
        let first = [wide_keys(300)[0], wide_keys(5)[0]];
        assert_eq!(all_keys.to_vec().unwrap()[..2], first);
        assert_eq!(all_rows.to_vec().unwrap()[..2], [0, N as u32]);
        assert_eq!(on.remove(&wide_keys(500)).unwrap().wait().unwrap(), N);

        let map = RowMap::<str>::new(device).unwrap();
        let (on, asked) = (map.on(&stream), strings(500));
        let offsets = Arriving::new(&one, asked.offsets());
        let bytes = Arriving::new(&other, asked.bytes());
        let column = StringColumn::new(&offsets.buffer, &bytes.buffer);
        let before = on.get(&column).unwrap();
        let mut given = output::<u32>(&other, N);
        let new = on.insert_into(&column, &mut given).unwrap();
        assert_eq!((new.is_done(), new.wait().unwrap()), (true, N));
        assert!(given.to_vec().unwrap().into_iter().eq(0..N as u32));
        assert_eq!(before.wait().unwrap(), [None; N]);
        let given = on.insert(&asked).unwrap().wait().unwrap();
        assert!(given.into_iter().eq(0..N as u32));
        assert_eq!(on.remove(&column).unwrap().wait().unwrap(), N);
    });
}

#[test]
fn removals_of_chains_are_counted_when_they_have_ended() {
    in_many_orders(|device| {
        let [stream, elsewhere] = streams(device);
        let map = multi(device);
        let on = map.on(&stream);
        let mut gone = Arriving::new(&elsewhere, &keys(5));
        let removed = on.remove(&gone.buffer).unwrap();
        gone.buffer.fill_bytes(JUNK).unwrap();
        // Counts first what is on its way.
        map.compact().unwrap();
        assert_eq!(map.len(), 0);
        assert_eq!(removed.wait().unwrap(), N);
        assert_eq!(map.insert(&keys(5), &values(5)).unwrap(), N);
        let mut told = output::<u64>(&elsewhere, N);
        let taken = on.submit(crate::op::take(&keys(5)).into(&mut told));
        drop(taken.unwrap());
        assert_eq!(told.to_vec().unwrap(), values(5));
        map.clear().unwrap();
        assert_eq!(map.len(), 0);
        map.insert(&keys(5), &values(5)).unwrap();
        assert_eq!((map.len(), map.stats().unwrap().len), (N, N));
    });
}

/// Memory of a lookup is refused, or one of its two kernels: nothing is poisoned, and what was queued writes to nothing that
/// is freed.
#[test]
fn a_lookup_that_is_refused_half_way_changes_nothing() {
    in_many_orders(|device| {
        let faults = Faults::default();
        let device = device.with_faults(&faults);
        let [stream] = streams(&device);
        let mut half_way = [0; 2];
        for call in 0..12 {
            let (wide, arena) = (wide(&device), arena(&device));
            let asked = Buffer::from_slice(&stream, &wide_keys(5)).unwrap();
            let mut found = output::<u8>(&stream, N);
            let mut values_out = output::<u64>(&stream, N);
            let on = wide.on(&stream);
            // What the next lookup uses again.
            let first = on.get_into(&asked, &mut values_out, &mut found);
            first.unwrap().wait().unwrap();
            let before = launches_started();
            faults.plan(call, Fault::Once);
            let answer = on.get_into(&asked, &mut values_out, &mut found);
            faults.heal();
            drop((asked, values_out));
            half_way[0] += usize::from(answer.is_err() && launches_started() != before);
            let told = wide.get(&wide_keys(5)).unwrap();
            assert!(told.into_iter().eq(values(5).into_iter().map(Some)));
            drop(wide);

            let asked = Buffer::from_slice(&stream, &keys(5)).unwrap();
            let mut values_out = output::<Large>(&stream, N);
            let on = arena.on(&stream);
            // What the next lookup uses again.
            let first = on.get_into(&asked, &mut values_out, &mut found);
            first.unwrap().wait().unwrap();
            let before = launches_started();
            faults.plan(call, Fault::Once);
            let answer = on.get_into(&asked, &mut values_out, &mut found);
            faults.heal();
            drop((asked, values_out));
            half_way[1] += usize::from(answer.is_err() && launches_started() != before);
            let told = arena.get(&keys(5)).unwrap();
            assert!(told.into_iter().eq(large(5).into_iter().map(Some)));
        }
        assert!(half_way.into_iter().all(|times| times > 0), "{half_way:?}");
        // Kernels that use what was freed are reported here, unless they crash.
        device.synchronize().unwrap();
    });
}

/// What refuses a launch of a lookup, if a call of the device fails; the next launch succeeds. Its buffers go at once.
fn refused_launch<K: Pod, V: Pod>(
    (faults, call): (&Faults, u64),
    stream: &Stream,
    mut graph: Graph<'_, K, V>,
    asked: &[K],
) -> Option<Call> {
    let asked = Buffer::from_slice(stream, asked).unwrap();
    let (mut values, mut found) = (output::<V>(stream, N), output::<u8>(stream, N));
    let mut launch = || {
        let mut lookup = graph.record();
        lookup.get_into(&asked, &mut values, &mut found).unwrap();
        lookup.launch().map(drop)
    };
    faults.plan(call, Fault::Once);
    let refused = launch().is_err();
    let failed = faults.failed().filter(|_| refused);
    faults.heal();
    launch().unwrap();
    failed
}

/// A capture or its launch is refused: nothing is poisoned, and what was queued writes to nothing that is freed.
#[test]
fn a_graph_that_is_refused_changes_nothing() {
    in_many_orders(|device| {
        let faults = Faults::default();
        let device = device.with_faults(&faults);
        let [stream] = streams(&device);
        let mut refused = Vec::new();
        for call in 0..20 {
            let at = (&faults, call);
            let map = wide(&device);
            refused.extend(refused_launch(
                at,
                &stream,
                map.graph(&stream),
                &wide_keys(5),
            ));
            let told = map.get(&wide_keys(5)).unwrap();
            assert!(told.into_iter().eq(values(5).into_iter().map(Some)));
            drop(map);
            let map = arena(&device);
            refused.extend(refused_launch(at, &stream, map.graph(&stream), &keys(5)));
            let told = map.get(&keys(5)).unwrap();
            assert!(told.into_iter().eq(large(5).into_iter().map(Some)));
        }
        let is_memory = |call: &Call| matches!(call, Call::Allocate { .. });
        assert!(refused.iter().any(is_memory), "{refused:?}");
        for call in [Call::MakeGraph, Call::LaunchGraph, Call::RecordEvent] {
            assert!(refused.contains(&call), "{call:?}: {refused:?}");
        }
        // Kernels that use what was freed are reported here, unless they crash.
        device.synchronize().unwrap();
    });
}

/// Sees that a lookup whose second kernel is refused returns when the first one has ended, and that what has the memory of its
/// map alone waits until then.
fn refused_while_the_first_kernel_runs<M: Sync, K: Pod + Send + Sync, V: Pod + Send>(
    make: fn(&Device) -> M,
    on: for<'m> fn(&'m M, &Stream) -> OnStream<'m, K, V>,
    asked: &[K],
    alone: fn(&M),
) {
    let faults = Faults::default();
    let device = Device::cpu().with_faults(&faults);
    let [stream] = streams(&device);
    let map = make(&device);
    let asked = Buffer::from_slice(&stream, asked).unwrap();
    let look_up = || {
        let (mut values, mut found) = (output::<V>(&stream, N), output::<u8>(&stream, N));
        stream.synchronize().unwrap();
        move |map: &M, stream: &Stream, asked: &Buffer<K>| {
            let before = launches_started();
            let answer = on(map, stream).get_into(asked, &mut values, &mut found);
            (answer.map(drop), launches_started() - before)
        }
    };
    look_up()(&map, &stream, &asked).0.unwrap();
    stream.synchronize().unwrap();
    let second = (0..20).find(|&call| {
        let mut look_up = look_up();
        faults.plan(call, Fault::Once);
        let (answer, launches) = look_up(&map, &stream, &asked);
        let is_second = faults.failed() == Some(Call::Launch) && launches == 1;
        faults.heal();
        answer.is_err() && is_second
    });
    let second = second.expect("a second kernel");

    let mut look_up = look_up();
    let (open, gate) = mpsc::channel::<()>();
    stream
        .then_on_cpu(move || assert!(gate.recv().is_err()))
        .unwrap();
    faults.plan(second, Fault::Once);
    let ended = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (answer, launches) = look_up(&map, &stream, &asked);
            assert!(answer.is_err() && launches == 1, "{answer:?}");
            ended.fetch_add(1, Ordering::Relaxed);
        });
        let begun = Instant::now();
        while faults.failed().is_none() && begun.elapsed() < Duration::from_secs(10) {
            thread::yield_now();
        }
        scope.spawn(|| {
            alone(&map);
            ended.fetch_add(1, Ordering::Relaxed);
        });
        thread::sleep(Duration::from_millis(50));
        assert_eq!(ended.load(Ordering::Relaxed), 0);
        drop(open);
    });
    assert_eq!(ended.load(Ordering::Relaxed), 2);
    faults.heal();
}

#[test]
fn a_lookup_whose_second_kernel_is_refused_waits_for_the_first() {
    let clear = |map: &Map<u128, u64>| map.clear().unwrap();
    refused_while_the_first_kernel_runs(wide, Map::on, &wide_keys(5), clear);
    let clear = |map: &Map<u64, Large>| map.clear().unwrap();
    refused_while_the_first_kernel_runs(arena, Map::on, &keys(5), clear);
}

/// On the CPU itself: a stream that is held up holds up the drop of the maps, and not the calls on it.
#[test]
fn lookups_return_before_their_stream_has_reached_them() {
    let device = Device::cpu();
    let [stream, elsewhere] = streams(&device);
    let (wide, arena, multi, rows) = (wide(&device), arena(&device), multi(&device), rows(&device));
    let asked = Buffer::from_slice(&elsewhere, &keys(5)).unwrap();
    let asked_wide = Buffer::from_slice(&elsewhere, &wide_keys(5)).unwrap();
    let mut of_wide = output::<u64>(&elsewhere, N);
    let mut of_arena = output::<Large>(&elsewhere, N);
    let mut of_multi = output::<u64>(&elsewhere, N);
    let mut of_rows = output::<u32>(&elsewhere, N);
    let mut there = [(); 3].map(|()| output::<u8>(&elsewhere, N));
    elsewhere.synchronize().unwrap();

    let (open, gate) = mpsc::channel::<()>();
    let held = stream.then_on_cpu(move || assert!(gate.recv().is_err()));
    held.unwrap();
    let [first, second, third] = &mut there;
    let answers = [
        wide.on(&stream).get_into(&asked_wide, &mut of_wide, first),
        arena.on(&stream).get_into(&asked, &mut of_arena, second),
        multi.on(&stream).get_into(&asked, &mut of_multi, third),
        rows.on(&stream).get_into(&asked_wide, &mut of_rows),
    ];
    let answers = answers.map(crate::Result::unwrap);
    assert!(answers.iter().all(|answer| !answer.is_done()));
    let freed = AtomicUsize::new(0);
    thread::scope(|scope| {
        let drops: [Box<dyn FnOnce() + Send>; 4] = [
            Box::new(|| drop(wide)),
            Box::new(|| drop(arena)),
            Box::new(|| drop(multi)),
            Box::new(|| drop(rows)),
        ];
        for free in drops {
            scope.spawn(|| {
                free();
                freed.fetch_add(1, Ordering::Relaxed);
            });
        }
        thread::sleep(Duration::from_millis(50));
        assert_eq!(freed.load(Ordering::Relaxed), 0);
        drop(open);
    });
    for answer in answers {
        answer.wait().unwrap();
    }
    assert_eq!(of_wide.to_vec().unwrap(), values(5));
    assert_eq!(of_arena.to_vec().unwrap(), large(5));
    assert_eq!(of_multi.to_vec().unwrap(), values(5));
    assert!(
        of_rows
            .to_vec()
            .unwrap()
            .into_iter()
            .eq(N as u32..2 * N as u32)
    );
    for there in there {
        assert_eq!(there.to_vec().unwrap(), [1; N]);
    }
}
