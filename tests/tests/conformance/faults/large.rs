//! Large batches, in each of the ways that they are stored. See the library's `map::bulk`.

use gpumap::{Key, Map, Merge, Numeric, Result};
use gpumap_tests::faults::try_every_call;
use gpumap_tests::{Batch, Target, on_pairs};

use super::{HELD, batch, builder, filled};

const NEVER: usize = usize::MAX;

/// A way to store batches of any size, and a map that takes it.
struct Way {
    name: &'static str,
    from: [usize; 3],
    /// Pairs that the map has room for.
    capacity: usize,
    is_empty: bool,
    /// Whether all verbs go that way: values are merged in slots, not in pages.
    merges: bool,
}

const SORTED: Way = Way {
    name: "sorted",
    from: [NEVER, NEVER, 1],
    capacity: 600,
    is_empty: false,
    merges: true,
};

const WAYS: [Way; 5] = [
    Way {
        name: "built",
        from: [1, NEVER, NEVER],
        is_empty: true,
        merges: false,
        ..SORTED
    },
    Way {
        name: "page by page",
        from: [NEVER, 1, NEVER],
        merges: false,
        ..SORTED
    },
    SORTED,
    Way {
        name: "sorted, counted and page by page",
        from: [NEVER, 1, 1],
        capacity: 60,
        merges: false,
        ..SORTED
    },
    Way {
        name: "sorted and counted",
        capacity: 60,
        ..SORTED
    },
];

impl Way {
    /// In three submaps.
    fn map<K: Key, V: Numeric>(&self, on: &Target) -> Result<Map<K, V>> {
        let builder = builder(on).capacity(self.capacity).submaps(3);
        let builder = builder.page_slabs(4).bulk_from(self.from);
        match self.is_empty {
            true => builder.build(),
            false => filled(builder),
        }
    }
}

#[test]
fn storing() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let more = batch::<K, V>(150);
        let (keys, values) = (&more.keys, &more.values);
        for way in WAYS {
            let build = |on: &Target| way.map::<K, V>(on);
            let name = |verb| format!("{verb}, {}", way.name);
            try_every_call(on, &name("insert"), build, |map| map.insert(keys, values));
            if way.is_empty || way.merges {
                try_every_call(on, &name("upsert"), build, |map| map.upsert(keys, values));
            }
            if way.merges {
                try_every_call(on, &name("merge"), build, |map| {
                    // So that its effect differs when it is done once more.
                    map.merge(keys, values, Merge::Add)
                });
            }
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

#[test]
fn changing_and_removing() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let build = |on: &Target| SORTED.map::<K, V>(on);
        // Some are not there.
        let some = Batch::<K, V>::numbered(5..HELD + 5, 3);
        try_every_call(on, "update, sorted", build, |map| {
            map.update(&some.keys, &some.values)
        });
        try_every_call(on, "update_with, sorted", build, |map| {
            map.update_with(&some.keys, &some.values, Merge::Xor)
        });
        try_every_call(on, "remove, sorted", build, |map| map.remove(&some.keys));
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}
