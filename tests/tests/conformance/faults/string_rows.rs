//! Row maps of strings: what there is of them alone.

use gpumap::strings::{StringColumn, Strings};
use gpumap::{Buffer, Stream};
use gpumap_tests::faults::try_every_call;
use gpumap_tests::{Target, on_every_target};

use super::rows::{filled, more, thinned};

#[test]
fn string_rows() {
    on_every_target(|on| {
        let more = more::<str>();
        for (room, capacity) in [("with room", 400), ("growing", 0)] {
            let build = |on: &Target| filled::<str>(on, capacity);
            let name = format!("string rows: reserve_bytes, {room}");
            try_every_call(on, &name, build, |map| map.reserve_bytes(1_000, 9_000));
        }
        let build = |on: &Target| thinned::<str>(on, 100);
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
    });
}
