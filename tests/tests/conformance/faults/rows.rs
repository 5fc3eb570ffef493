//! Row maps.

use gpumap::bytemuck::Pod;
use gpumap::primitives::Primitives;
use gpumap::{Result, RowMap};
use gpumap_tests::faults::{
    Exception, try_every_call, try_every_call_but, try_every_call_of_making,
};
use gpumap_tests::{Target, on_every_target};

/// Keys of so many numbers, each of which comes twice.
fn keys<K: Pod>(numbers: std::ops::Range<u32>) -> Vec<K> {
    let twice = numbers.clone().chain(numbers);
    let key = |i: u32| {
        let mut key = K::zeroed();
        gpumap::bytemuck::bytes_of_mut(&mut key)[..4].copy_from_slice(&i.to_le_bytes());
        key
    };
    twice.map(key).collect()
}

/// A map with 40 rows and room for so many.
fn filled<K: Pod>(on: &Target, capacity: usize) -> Result<RowMap<K>> {
    let map = RowMap::builder(on.device())
        .capacity(capacity)
        .hash_seed(1)
        .build()?;
    map.insert(&keys::<K>(0..40))?;
    Ok(map)
}

#[test]
fn rows() {
    fn body<K: Pod>(on: &Target) {
        let more = keys::<K>(30..90);
        for (room, capacity) in [("with room", 400), ("growing", 0)] {
            let build = |on: &Target| filled::<K>(on, capacity);
            let name = |verb: &str| format!("rows: {verb}, {room}");
            try_every_call(on, &name("insert"), build, |map| map.insert(&more));
            try_every_call(on, &name("insert with new"), build, |map| {
                let (mut rows, mut new) = (vec![0; more.len()], vec![0; more.len()]);
                map.insert_with_new_into(&more, &mut rows, &mut new)?;
                // When it is done again, none is new.
                Ok(rows)
            });
            try_every_call(on, &name("reserve"), build, |map| map.reserve(1_000));
        }
        let build = |on: &Target| filled::<K>(on, 100);
        try_every_call(on, "rows: get", build, |map| map.get(&more));
        try_every_call(on, "rows: keys", build, |map| Ok(map.keys()?.len()));
        try_every_call_but(on, "rows: clear", Exception::Heals, build, RowMap::clear);
        try_every_call(on, "rows: unique beside", build, |map| {
            let unique = Primitives::new(map.device()).unique(&more)?;
            Ok((unique.inverse, unique.counts, unique.first))
        });
        try_every_call_of_making(on, "rows: build", |on| filled::<K>(on, 1_000));
    }
    on_every_target(|on| {
        body::<u64>(on);
        body::<[u32; 3]>(on);
    });
}
