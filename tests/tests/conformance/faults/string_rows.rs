//! Row maps of strings.

use gpumap::strings::{StringColumn, Strings};
use gpumap::{Buffer, Result, RowMap, Stream};
use gpumap_tests::faults::{
    Exception, try_every_call, try_every_call_but, try_every_call_of_making,
};
use gpumap_tests::{Target, on_every_target};

/// Strings of so many numbers, each of which comes twice.
fn strings(numbers: std::ops::Range<u32>) -> Vec<String> {
    let twice = numbers.clone().chain(numbers);
    twice.map(|i| format!("string number {i}")).collect()
}

/// A map with 40 rows and room for so many.
fn filled(on: &Target, capacity: usize) -> Result<RowMap<str>> {
    let map = RowMap::<str>::builder(on.device())
        .capacity(capacity)
        .bytes(32 * capacity)
        .hash_seed(1)
        .build()?;
    map.insert(&strings(0..40))?;
    Ok(map)
}

/// A map of which half the strings were removed.
fn thinned(on: &Target, capacity: usize) -> Result<RowMap<str>> {
    let map = filled(on, capacity)?;
    map.remove(&strings(5..25))?;
    Ok(map)
}

#[test]
fn string_rows() {
    on_every_target(|on| {
        // More than a chunk of the least size.
        let more = strings(30..240);
        for (room, capacity) in [("with room", 400), ("growing", 0)] {
            let build = |on: &Target| filled(on, capacity);
            let name = |verb: &str| format!("string rows: {verb}, {room}");
            try_every_call(on, &name("insert"), build, |map| map.insert(&more));
            try_every_call(on, &name("remove"), build, |map| map.remove(&more));
            try_every_call(on, &name("reserve"), build, |map| {
                map.reserve_bytes(1_000, 9_000)
            });
            let build = |on: &Target| thinned(on, capacity);
            let insert = |map: &RowMap<str>| map.insert(&more);
            try_every_call(on, &name("insert after removals"), build, insert);
            try_every_call(
                on,
                &name("shrink_to_fit"),
                build,
                RowMap::<str>::shrink_to_fit,
            );
            try_every_call(on, &name("compact"), build, |map| {
                // When it is done again, the rows are others.
                map.compact().map(|old| old.len())
            });
        }
        let build = |on: &Target| thinned(on, 100);
        try_every_call(on, "string rows: get", build, |map| map.get(&more));
        try_every_call(on, "string rows: keys", build, |map| map.retrieve_all());
        try_every_call(on, "string rows: for_each_chunk", build, |map| {
            let mut told = Vec::new();
            map.for_each_chunk(9, |chunk| {
                told.push((chunk.keys().clone(), chunk.values().to_vec()));
                Ok(())
            })?;
            Ok(told)
        });
        try_every_call(on, "string rows: save_to", build, |map| {
            let mut bytes = Vec::new();
            map.save_to(&mut bytes)?;
            Ok(bytes)
        });
        let mut bytes = Vec::new();
        build(on)
            .and_then(|map| map.save_to(&mut bytes))
            .expect("a file");
        try_every_call_of_making(on, "string rows: load_from", |on| {
            RowMap::<str>::builder(on.device()).load_from(&bytes[..])
        });
        try_every_call(on, "string rows: a stream", build, |map| {
            let stream = Stream::new(map.device())?;
            let asked = Strings::from_iter(&more);
            let offsets = Buffer::from_slice(&Stream::new(map.device())?, asked.offsets())?;
            let column = StringColumn::new(&offsets, asked.bytes());
            let mut rows = Buffer::<u32>::zeroed(&stream, more.len())?;
            map.on(&stream).get_into(&column, &mut rows)?.wait()?;
            Ok((rows.to_vec()?, map.on(&stream).get(&more)?.wait()?))
        });
        try_every_call(on, "string rows: a graph", build, |map| {
            let stream = Stream::new(map.device())?;
            let asked = Strings::from_iter(&more);
            let offsets = Buffer::from_slice(&Stream::new(map.device())?, asked.offsets())?;
            let bytes = Buffer::from_slice(&stream, asked.bytes())?;
            let mut rows = Buffer::<u32>::zeroed(&stream, more.len())?;
            let mut graph = map.graph(&stream);
            let mut lookups = graph.record();
            lookups.get_into(&StringColumn::new(&offsets, &bytes), &mut rows)?;
            lookups.launch()?.wait()?;
            rows.to_vec()
        });
        let clear = RowMap::<str>::clear;
        try_every_call_but(on, "string rows: clear", Exception::Heals, build, clear);
        try_every_call_of_making(on, "string rows: build", |on| filled(on, 1_000));
    });
}
