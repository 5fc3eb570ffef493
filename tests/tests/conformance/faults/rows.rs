//! Row maps.

use gpumap::bytemuck::Pod;
use gpumap::primitives::{Count, GroupBy, Primitives, Sum};
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

/// Groups of 40 keys, and room for no more.
fn grouped<K: Pod>(on: &Target) -> Result<GroupBy<K, (Count, Sum<u32>)>> {
    let groups = GroupBy::new(on.device())?;
    let keys = keys::<K>(0..40);
    groups
        .batch(&keys)
        .count()
        .sum(&vec![3u32; keys.len()])
        .run()?;
    Ok(groups)
}

#[test]
fn groups() {
    fn body<K: Pod>(on: &Target) {
        let more = keys::<K>(30..90);
        let column: Vec<u32> = (0..).take(more.len()).collect();
        try_every_call(on, "groups: a batch", grouped::<K>, |groups| {
            groups.batch(&more).count().sum(&column).run()?;
            Ok(groups.len())
        });
        try_every_call(on, "groups: finish", grouped::<K>, |groups| {
            let (counts, sums) = groups.finish()?.columns;
            Ok((counts, sums))
        });
        try_every_call_but(
            on,
            "groups: clear",
            Exception::Heals,
            grouped::<K>,
            GroupBy::clear,
        );
        try_every_call(on, "groups: group_by beside", grouped::<K>, |groups| {
            let primitives = Primitives::new(groups.device());
            let grouped = primitives.group_by(&more).count().max(&column).run()?;
            Ok(grouped.columns)
        });
        try_every_call_of_making(on, "groups: build", grouped::<K>);
    }
    on_every_target(|on| {
        body::<u64>(on);
        body::<[u32; 3]>(on);
    });
}
