//! Large batches, in each of the ways that they are stored. See the library's `map::bulk`.

use gpumap::{Key, Map, Merge, Result, Value};
use gpumap_tests::faults::try_every_call;
use gpumap_tests::{Batch, Target, on_pairs};

use super::{HELD, batch, builder, filled};

const NEVER: usize = usize::MAX;

/// A way to store batches of any size, and a map that takes it.
struct Way {
    name: &'static str,
    from: [usize; 3],
    is_empty: bool,
}

const WAYS: [Way; 3] = [
    Way {
        name: "built",
        from: [1, NEVER, NEVER],
        is_empty: true,
    },
    Way {
        name: "page by page",
        from: [NEVER, 1, NEVER],
        is_empty: false,
    },
    Way {
        name: "sorted",
        from: [NEVER, NEVER, 1],
        is_empty: false,
    },
];

impl Way {
    /// In three submaps, with room for some hundred more.
    fn map<K: Key, V: Value>(&self, on: &Target) -> Result<Map<K, V>> {
        let builder = builder(on).capacity(600).submaps(3).page_slabs(4);
        let builder = builder.bulk_from(self.from);
        match self.is_empty {
            true => builder.build(),
            false => filled(builder),
        }
    }
}

#[test]
fn storing() {
    fn body<K: Key, V: Value>(on: &Target) {
        let more = batch::<K, V>(150);
        let (keys, values) = (&more.keys, &more.values);
        for way in WAYS {
            let build = |on: &Target| way.map::<K, V>(on);
            let name = |verb| format!("{verb}, {}", way.name);
            try_every_call(on, &name("insert"), build, |map| map.insert(keys, values));
            try_every_call(on, &name("upsert"), build, |map| map.upsert(keys, values));
            try_every_call(on, &name("merge"), build, |map| {
                // To be told from itself when it is done once more.
                map.merge(keys, values, Merge::Add)
            });
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

#[test]
fn changing_and_removing() {
    fn body<K: Key, V: Value>(on: &Target) {
        let [.., sorted] = &WAYS;
        let build = |on: &Target| sorted.map::<K, V>(on);
        // Some are not there.
        let some = Batch::<K, V>::numbered(5..HELD + 5, 3);
        try_every_call(on, "assign, sorted", build, |map| {
            map.assign(&some.keys, &some.values)
        });
        try_every_call(on, "merge_present, sorted", build, |map| {
            map.merge_present(&some.keys, &some.values, Merge::Xor)
        });
        try_every_call(on, "remove, sorted", build, |map| map.remove(&some.keys));
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}
