//! Verbs on streams, whose answers are waited for, awaited, or dropped; and maps that are lent.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use gpumap::bytemuck::{Pod, cast_slice};
use gpumap::{Buffer, Key, Map, Merge, Numeric, Result, Stream, Word, WordKey};
use gpumap_tests::faults::{Exception, Subject, try_every_call, try_every_call_but};
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{Batch, Target, on_pairs, value, value_bits};

use super::{HELD, batch, full, roomy};
use crate::graphs::kinds::HasGraphs;

/// Keys and values on the device, on a stream of their own.
fn staged<K: Key, V: Numeric>(
    map: &Map<K, V>,
    pairs: &Batch<K, V>,
) -> Result<(Buffer<K>, Buffer<V>)> {
    let stream = Stream::new(map.device())?;
    let keys = Buffer::from_slice(&stream, &pairs.keys)?;
    Ok((keys, Buffer::from_slice(&stream, &pairs.values)?))
}

#[test]
fn answers_that_are_waited_for() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let more = batch::<K, V>(30);
        let some: Vec<K> = (5..HELD + 5).map(nth_key).collect();
        try_every_call(on, "insert on a stream", roomy::<K, V>, |map| {
            let stream = Stream::new(map.device())?;
            map.on(&stream).insert(&more.keys, &more.values)?.wait()
        });
        try_every_call(on, "upsert on a stream, of buffers", roomy::<K, V>, |map| {
            let stream = Stream::new(map.device())?;
            let (keys, values) = staged(map, &more)?;
            map.on(&stream).upsert(&keys, &values)?.wait()
        });
        try_every_call(on, "merge on a stream, growing", full::<K, V>, |map| {
            let stream = Stream::new(map.device())?;
            let more = batch::<K, V>(100);
            let answer = map.on(&stream).merge(&more.keys, &more.values, Merge::Add);
            answer?.wait()
        });
        try_every_call(on, "remove on a stream", roomy::<K, V>, |map| {
            let stream = Stream::new(map.device())?;
            map.on(&stream).remove(&some)?.wait()
        });
        try_every_call(on, "get_or_into on a stream", roomy::<K, V>, |map| {
            let stream = Stream::new(map.device())?;
            let mut values = Buffer::<V>::zeroed(&Stream::new(map.device())?, some.len())?;
            let answer = map.on(&stream).get_or_into(&some, value(3), &mut values)?;
            answer.wait()?;
            let values = values.to_vec()?;
            Ok(values.into_iter().map(value_bits).collect::<Vec<_>>())
        });
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

#[test]
fn verbs_that_are_launched_together() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for (room, build) in [
            ("with room", roomy as fn(&Target) -> Result<Map<K, V>>),
            ("growing", full),
        ] {
            try_every_call(on, &format!("a graph, {room}"), build, |map| {
                let stream = Stream::new(map.device())?;
                let more = batch::<K, V>(100);
                let (keys, values) = staged(map, &more)?;
                let mut found = Buffer::<V>::zeroed(&Stream::new(map.device())?, keys.len())?;
                let mut graph = map.graph(&stream);
                let mut verbs = graph.record();
                // One that writes, as the last: of several, those before the fault take effect.
                verbs.get_or_into(&keys, value(3), &mut found)?;
                verbs.upsert(&keys, &values)?;
                let counts = verbs.launch()?.wait()?;
                let found = found.to_vec()?.into_iter().map(value_bits);
                Ok((counts, found.collect::<Vec<_>>()))
            });
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

/// Lookups of a map of any kind as a graph, and with an insert behind them.
pub(super) fn graphs<K: Pod, V: Pod, S: Subject + HasGraphs<K, V>>(
    on: &Target,
    build: impl Fn(&Target) -> Result<S>,
    keys: &[K],
    values: &[V],
) {
    // Of several launches that change a map, those before the fault take effect.
    for (name, launches, inserts) in [("lookups", 2, false), ("a lookup and an insert", 1, true)] {
        let name = format!("{}: a graph of {name}", S::NAME);
        try_every_call(on, &name, &build, |map| {
            let (stream, elsewhere) = (Stream::new(map.device())?, Stream::new(map.device())?);
            let keys = Buffer::from_slice(&elsewhere, keys)?;
            let values = Buffer::from_slice(&stream, values)?;
            let mut told = Buffer::<V>::zeroed(&elsewhere, keys.len())?;
            let mut found = Buffer::<u8>::zeroed(&stream, keys.len())?;
            let mut graph = map.graph(&stream);
            for _ in 0..launches {
                let mut verbs = graph.record();
                verbs.get_into(&keys, &mut told, &mut found)?;
                if inserts {
                    verbs.insert(&keys, &values)?;
                }
                verbs.launch()?.wait()?;
            }
            let told = told.to_vec()?;
            Ok((found.to_vec()?, cast_slice::<V, u8>(&told).to_vec()))
        });
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Awaits on this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn answers_that_are_awaited() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let more = batch::<K, V>(30);
        try_every_call(on, "insert, awaited", roomy::<K, V>, |map| {
            let stream = Stream::new(map.device())?;
            block_on(map.on(&stream).insert(&more.keys, &more.values)?)
        });
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn answers_that_are_dropped_before_another_call() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let more = batch::<K, V>(30);
        let name = "clear behind a dropped answer";
        try_every_call_but(on, name, Exception::Heals, roomy::<K, V>, |map| {
            let stream = Stream::new(map.device())?;
            // Takes its error with it.
            let _ = map.on(&stream).insert(&more.keys, &more.values);
            map.clear()
        });
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn maps_that_are_lent() {
    fn body<K: WordKey, V: Numeric + Word>(on: &Target) {
        for (room, build) in [
            ("with room", roomy as fn(&Target) -> Result<Map<K, V>>),
            ("growing", full),
        ] {
            try_every_call(on, &format!("launch_with, {room}"), build, |map| {
                let stream = Stream::new(map.device())?;
                map.launch_with(&stream, 200, |_| Ok(()))
                    .map(|tally| tally.inserted)
            });
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}
