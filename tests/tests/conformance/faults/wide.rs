//! Maps with wide keys.

use gpumap::op::{self, Execute};
use gpumap::{Error, Growth, Key, Map, Merge, Result};
use gpumap_tests::faults::{
    Exception, try_every_call, try_every_call_but, try_every_call_of_making,
};
use gpumap_tests::{Target, on_every_target};

use crate::rows::keys;

/// A map with 40 pairs, of keys that are numbered from `first` on, and room for so many; others came and went.
fn filled<K: Key>(on: &Target, capacity: usize, gone: u64) -> Result<Map<K, u64>> {
    let map = Map::builder(on.device())
        .capacity(capacity)
        .hash_seed(1)
        .build()?;
    fill(&map, gone)?;
    Ok(map)
}

fn fill<K: Key>(map: &Map<K, u64>, gone: u64) -> Result<()> {
    let values: Vec<u64> = (0..40 + gone).collect();
    map.insert(&keys::<K>(0..40 + gone), &values)?;
    map.remove(&keys::<K>(40..40 + gone))?;
    Ok(())
}

#[test]
fn wide_maps() {
    fn body<K: Key + Send + Sync>(on: &Target) {
        let more = keys::<K>((30..90).chain(30..90));
        let values: Vec<u64> = (0..120).collect();
        for (room, capacity, gone) in [
            ("with room", 400, 0),
            ("growing", 0, 0),
            ("with rows to be used again", 0, 60),
        ] {
            let build = |on: &Target| filled::<K>(on, capacity, gone);
            let name = |verb: &str| format!("wide: {verb}, {room}");
            try_every_call(on, &name("insert"), build, |map| {
                // When it is done again, none is new.
                map.insert(&more, &values).map(drop)
            });
            try_every_call(on, &name("get_or_insert"), build, |map| {
                map.get_or_insert(&more, &values)
            });
            try_every_call(on, &name("merge"), build, |map| {
                map.merge(&more, &values, Merge::Max).map(drop)
            });
            try_every_call(on, &name("reserve"), build, |map| map.reserve(1_000));
        }
        // Fixed: 60 rows are as many as there are slots for, so that repeated keys want more for a moment, and those of removed keys.
        for (room, gone) in [("fixed", 0), ("fixed, with removed keys", 20)] {
            let build = |on: &Target| {
                let builder = Map::builder(on.device()).capacity(60);
                let map = builder.hash_seed(1).growth(Growth::Fixed).build()?;
                fill::<K>(&map, gone)?;
                Ok(map)
            };
            let fits = keys::<K>((30..60).chain(30..60).chain(30..60));
            let name = |verb: &str| format!("wide: {verb}, {room}");
            try_every_call(on, &name("merge"), build, |map| {
                map.merge(&fits, &values[..90], Merge::Max).map(drop)
            });
            try_every_call(on, &name("refused"), build, |map| {
                match map.insert(&keys::<K>(0..61), &values[..61]) {
                    Err(Error::Full { partial: false, .. }) => Ok(()),
                    Err(error) => Err(error),
                    Ok(new) => panic!("{new} keys were stored"),
                }
            });
        }
        let build = |on: &Target| filled::<K>(on, 200, 10);
        try_every_call(on, "wide: update_with", build, |map| {
            map.update_with(&more, &values, Merge::Max)
        });
        try_every_call(on, "wide: get", build, |map| map.get(&more));
        try_every_call(on, "wide: remove", build, |map| map.remove(&more).map(drop));
        try_every_call(on, "wide: remove with outcomes", build, |map| {
            map.execute(op::remove(&more).each()).map(drop)
        });
        try_every_call(on, "wide: retain", build, |map| {
            map.retain(|_, value| value % 3 == 0).map(drop)
        });
        try_every_call(on, "wide: retain_keys", build, |map| {
            map.retain_keys(&more).map(drop)
        });
        try_every_call_but(on, "wide: clear", Exception::Heals, build, Map::clear);
        try_every_call(on, "wide: retrieve_all", build, |map| {
            Ok(map.retrieve_all()?.1)
        });
        try_every_call(on, "wide: save_to", build, |map| {
            let mut bytes = Vec::new();
            map.save_to(&mut bytes)?;
            Ok(bytes)
        });
        try_every_call_of_making(on, "wide: build", |on| filled::<K>(on, 1_000, 0));
    }
    on_every_target(|on| {
        body::<u128>(on);
        body::<[u32; 3]>(on);
    });
}

/// Values that are copied to rows, of which a batch elects one for each key.
#[test]
fn wide_maps_of_large_values() {
    type Value = [u64; 5];
    fn body<K: Key + Send + Sync>(on: &Target) {
        let numbers = || (30..90).chain(30..90);
        let more = keys::<K>(numbers());
        let values: Vec<Value> = numbers().map(|i| [i + 7; 5]).collect();
        for (room, capacity, gone) in [
            ("with room", 400, 0),
            ("growing", 0, 0),
            ("with rows to be used again", 0, 60),
        ] {
            let build = |on: &Target| {
                let builder = Map::<K, Value>::builder(on.device()).capacity(capacity);
                let map = builder.hash_seed(1).build()?;
                let held: Vec<Value> = (0..40 + gone).map(|i| [i; 5]).collect();
                map.insert(&keys::<K>(0..40 + gone), &held)?;
                map.remove(&keys::<K>(40..40 + gone))?;
                Ok(map)
            };
            let name = |verb: &str| format!("wide, large: {verb}, {room}");
            try_every_call(on, &name("insert"), build, |map| {
                map.insert(&more, &values).map(drop)
            });
            try_every_call(on, &name("upsert"), build, |map| {
                map.upsert(&more, &values).map(drop)
            });
            try_every_call(on, &name("get_or_insert"), build, |map| {
                map.get_or_insert(&more, &values)
            });
            try_every_call(on, &name("update"), build, |map| map.update(&more, &values));
            try_every_call(on, &name("get"), build, |map| map.get(&more));
            try_every_call(on, &name("take"), build, |map| map.take(&more).map(drop));
            if room != "growing" {
                try_every_call(on, &name("shrink_to_fit"), build, Map::shrink_to_fit);
            }
            try_every_call(on, &name("reserve"), build, |map| map.reserve(1_000));
        }
    }
    on_every_target(|on| {
        body::<u128>(on);
        body::<[u32; 3]>(on);
    });
}

#[test]
fn graphs_of_wide_maps() {
    fn body<K: Key + Send + Sync>(on: &Target) {
        let keys = keys::<K>(30..140);
        let values: Vec<u64> = (0..110).collect();
        for capacity in [400, 0] {
            let build = |on: &Target| filled::<K>(on, capacity, 10);
            super::streams::graphs(on, build, &keys, &values);
        }
    }
    on_every_target(body::<[u32; 3]>);
}
