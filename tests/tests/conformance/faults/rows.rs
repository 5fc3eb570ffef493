//! Row maps.

use std::borrow::Borrow;

use gpumap::bytemuck::Pod;
use gpumap::primitives::{Count, GroupBy, JoinTable, Pairs, Primitives, Sum};
use gpumap::{Buffer, Result, RowMap, Stream};
use gpumap_tests::faults::{
    Contents, Exception, Subject, sorted, try_every_call, try_every_call_but,
    try_every_call_of_making,
};
use gpumap_tests::{Target, on_every_target};

use crate::rows::{self, Key};

/// Keys of so many numbers, each of which comes twice.
fn keys<K: Key + ?Sized>(numbers: std::ops::Range<u64>) -> Vec<K::One> {
    rows::keys::<K>(numbers.clone().chain(numbers))
}

/// Keys of which some are those of a map; strings take more than a chunk of the least size.
pub(super) fn more<K: Key + ?Sized>() -> Vec<K::One> {
    keys::<K>(30..if K::ARE_STRINGS { 240 } else { 90 })
}

/// A map with 40 rows and room for so many.
pub(super) fn filled<K: Key + ?Sized>(on: &Target, capacity: usize) -> Result<RowMap<K>> {
    let map = K::builder(on.device(), capacity).hash_seed(1).build()?;
    map.insert(K::batch(&keys::<K>(0..40)))?;
    Ok(map)
}

/// A map of which half the keys were removed.
pub(super) fn thinned<K: Key + ?Sized>(on: &Target, capacity: usize) -> Result<RowMap<K>> {
    let map = filled::<K>(on, capacity)?;
    map.remove(K::batch(&keys::<K>(5..25)))?;
    Ok(map)
}

#[test]
fn removals() {
    fn body<K: Key + ?Sized>(on: &Target)
    where
        RowMap<K>: Subject,
    {
        let all = &more::<K>();
        let more = K::batch(all);
        for (room, capacity) in [("with room", 400), ("growing", 0)] {
            let name = |verb: &str| format!("rows: {verb}, {room}");
            let build = |on: &Target| filled::<K>(on, capacity);
            try_every_call(on, &name("remove"), build, |map| map.remove(more));
            let build = |on: &Target| thinned::<K>(on, capacity);
            try_every_call(on, &name("remove more"), build, |map| map.remove(more));
            let insert = |map: &RowMap<K>| map.insert(more);
            try_every_call(on, &name("insert after removals"), build, insert);
            let reserve = |map: &RowMap<K>| map.reserve(1_000);
            try_every_call(on, &name("reserve after removals"), build, reserve);
            try_every_call(on, &name("compact"), build, |map| {
                // When it is done again, the rows are others.
                map.compact().map(|old| old.len())
            });
            try_every_call(on, &name("shrink_to_fit"), build, RowMap::shrink_to_fit);
            try_every_call(on, &name("compact_into"), build, |map| {
                let stream = Stream::new(map.device())?;
                let mut old = Buffer::<u32>::zeroed(&stream, 100)?;
                map.compact_into(&mut old)
            });
        }
        let build = |on: &Target| thinned::<K>(on, 100);
        try_every_call(on, "rows: save_to", build, |map| {
            let mut bytes = Vec::new();
            map.save_to(&mut bytes)?;
            Ok(bytes)
        });
        let mut bytes = Vec::new();
        build(on)
            .and_then(|map| map.save_to(&mut bytes))
            .expect("a file");
        try_every_call_of_making(on, "rows: load_from", |on| {
            RowMap::<K>::builder(on.device()).load_from(&bytes[..])
        });
        let dump =
            |map: &RowMap<K>| Ok((K::bytes(map.keys()?.borrow()).len(), map.retrieve_all()?.1));
        try_every_call(on, "rows: keys with rows", build, dump);
        try_every_call(on, "rows: for_each_chunk", build, |map| {
            let mut told = Vec::new();
            map.for_each_chunk(9, |chunk| {
                let keys = K::bytes(chunk.keys()).concat();
                told.push((keys, chunk.values().to_vec()));
                Ok(())
            })?;
            Ok(told)
        });
    }
    on_every_target(|on| {
        body::<u64>(on);
        body::<[u32; 3]>(on);
        body::<str>(on);
    });
}

#[test]
fn rows() {
    fn body<K: Key + ?Sized>(on: &Target)
    where
        RowMap<K>: Subject,
    {
        let all = &more::<K>();
        let more = K::batch(all);
        for (room, capacity) in [("with room", 400), ("growing", 0)] {
            let build = |on: &Target| filled::<K>(on, capacity);
            let name = |verb: &str| format!("rows: {verb}, {room}");
            try_every_call(on, &name("insert"), build, |map| map.insert(more));
            try_every_call(on, &name("insert with new"), build, |map| {
                let (mut rows, mut new) = (vec![0; all.len()], vec![0; all.len()]);
                map.insert_with_outcome_into(more, &mut rows, &mut new)?;
                // When it is done again, none is new.
                Ok(rows)
            });
            try_every_call(on, &name("reserve"), build, |map| map.reserve(1_000));
        }
        let build = |on: &Target| filled::<K>(on, 100);
        try_every_call(on, "rows: get", build, |map| map.get(more));
        try_every_call(on, "rows: keys", build, |map| {
            Ok(K::bytes(map.keys()?.borrow()).len())
        });
        try_every_call_but(on, "rows: clear", Exception::Heals, build, RowMap::clear);
        try_every_call_of_making(on, "rows: build", |on| filled::<K>(on, 1_000));
    }
    on_every_target(|on| {
        body::<u64>(on);
        body::<[u32; 3]>(on);
        body::<str>(on);
    });
}

#[test]
fn unique_keys() {
    fn body<K: Pod>(on: &Target) {
        let build = |on: &Target| filled::<K>(on, 100);
        try_every_call(on, "rows: unique beside", build, |map| {
            let unique = Primitives::new(map.device()).unique(&more::<K>())?;
            Ok((unique.inverse, unique.counts, unique.first))
        });
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

/// A build side and a probe side of 60 keys, each of which comes twice. Nothing changes them.
struct Sides<K: Pod> {
    table: JoinTable<K>,
    probe: Vec<K>,
}

impl<K: Pod> Sides<K> {
    /// Ten keys are on both sides. Those of the build side come once or twice.
    fn new(on: &Target, times: usize) -> Result<Self> {
        let build = keys::<K>(0..40);
        Ok(Self {
            table: JoinTable::new(on.device(), &build[..40 * times])?,
            probe: keys::<K>(30..90),
        })
    }
}

impl<K: Pod> Subject for Sides<K> {
    fn contents(&self) -> Result<Contents> {
        let pairs = self.table.join(&self.probe).left()?;
        Ok(sorted((pairs.left, pairs.right)))
    }
    fn len(&self) -> usize {
        let of_both = self.table.len() / self.table.distinct() * 2 * 10;
        of_both + 2 * 50
    }
    fn clear(&self) -> Result<()> {
        self.contents().map(drop)
    }
}

#[test]
fn joins() {
    fn body<K: Pod>(on: &Target, times: usize) {
        let build = |on: &Target| Sides::<K>::new(on, times);
        let name = |verb: &str| format!("joins: {verb}, keys {times} times");
        let in_order = |pairs: Pairs| sorted((pairs.left, pairs.right));
        try_every_call(on, &name("inner"), build, |sides| {
            sides.table.join(&sides.probe).inner().map(in_order)
        });
        try_every_call(on, &name("semi and anti"), build, |sides| {
            let join = || sides.table.join(&sides.probe);
            Ok((join().semi()?, join().anti()?))
        });
        try_every_call(on, &name("left_into"), build, |sides| {
            let stream = Stream::new(sides.table.device())?;
            let mut left = Buffer::<u32>::zeroed(&stream, sides.len())?;
            let mut right = Buffer::<u32>::zeroed(&stream, sides.len())?;
            let join = sides.table.join(&sides.probe);
            let found = join.left_into(&mut left, &mut right)?;
            Ok((found, sorted((left.to_vec()?, right.to_vec()?))))
        });
        try_every_call(on, &name("beside"), build, |sides| {
            let primitives = Primitives::new(sides.table.device());
            let twice = [&sides.probe[..], &sides.probe[..30]].concat();
            let pairs = primitives.join(&sides.probe, &twice).inner()?;
            Ok((
                in_order(pairs),
                primitives.join(&sides.probe, &twice).semi()?,
            ))
        });
        try_every_call_of_making(on, &name("build"), build);
    }
    on_every_target(|on| {
        for times in [1, 2] {
            body::<u64>(on, times);
            body::<[u32; 3]>(on, times);
        }
    });
}

#[test]
fn graphs_of_row_maps() {
    on_every_target(|on| {
        let asked = keys::<[u32; 3]>(30..90);
        let build = |on: &Target| thinned::<[u32; 3]>(on, 100);
        try_every_call(on, "rows: a graph", build, |map| {
            let stream = Stream::new(map.device())?;
            let asked = Buffer::from_slice(&Stream::new(map.device())?, &asked)?;
            let mut rows = Buffer::<u32>::zeroed(&stream, asked.len())?;
            let mut graph = map.graph(&stream);
            for _ in 0..2 {
                let mut lookups = graph.record();
                lookups.get_into(&asked, &mut rows)?;
                lookups.launch()?.wait()?;
            }
            rows.to_vec()
        });
    });
}
