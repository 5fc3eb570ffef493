//! The configurations: few slots, few keys, and verbs that do not go well together.

use gpumap_kernels::hash::KeyHash;

/// What one launch does with its part of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Stores pairs whose key is absent.
    Insert,
    /// As that, by a verb with an error, for the tests of the exploration itself: it takes a slot
    /// that is being written for one of another key.
    HastyInsert,
    /// Stores pairs, or replaces their values.
    Upsert,
    /// Adds to values.
    Add,
    /// Stores pairs whose key is absent, and reads the others.
    GetOrInsert,
    /// Reads.
    Get,
    /// Removes.
    Remove,
}

/// What the table holds at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing.
    Empty,
    /// Tombstones, except for three slots.
    Tombstones,
    /// Every second one of the keys.
    Half,
}

/// A configuration of a table.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What it is called.
    pub name: &'static str,
    /// Slabs of the table, in one page; a power of two.
    pub slabs: u32,
    /// The keys that meet, for a seed, which is that of the hash as well.
    pub keys: fn(seed: u64) -> Vec<u64>,
    /// What is there at first.
    pub start: Start,
    /// One launch of one warp for each; they run side by side.
    pub roles: &'static [Role],
    /// Keys of each launch, at most 32.
    pub operations: u32,
    /// Whether `retrieve_all` runs beside them.
    pub dumps: bool,
}

use Role::{Add, Get, GetOrInsert, Insert, Remove, Upsert};

/// Every configuration of a table.
pub const PLANS: &[Plan] = &[
    Plan {
        name: "one slab",
        slabs: 1,
        keys: |seed| (0..3 + seed % 4).collect(),
        start: Start::Empty,
        roles: &[Insert, Remove, Get, Upsert, GetOrInsert, Add],
        operations: 16,
        dumps: false,
    },
    Plan {
        name: "two keys of one hash prefix",
        slabs: 64,
        keys: |seed| neighbours(seed, 63),
        start: Start::Empty,
        roles: &[Insert, Remove, GetOrInsert, Get, Remove, Upsert],
        operations: 16,
        dumps: false,
    },
    Plan {
        name: "one key in all lanes",
        slabs: 16,
        keys: |_| vec![7],
        start: Start::Empty,
        roles: &[Insert, Add, Remove, Get, GetOrInsert, Remove],
        operations: 10,
        dumps: false,
    },
    Plan {
        name: "tombstones everywhere",
        slabs: 2,
        keys: |_| vec![1, 2, 3],
        start: Start::Tombstones,
        roles: &[Insert, Remove, Upsert, Get, Add],
        operations: 12,
        dumps: false,
    },
    Plan {
        name: "reserved keys",
        slabs: 1,
        keys: |seed| (0..1 + seed % 3).map(|key| u64::MAX - key).collect(),
        start: Start::Empty,
        roles: &[Insert, Remove, Add, GetOrInsert, Remove, Get],
        operations: 10,
        dumps: false,
    },
    Plan {
        name: "updates beside claims",
        slabs: 1,
        keys: |_| vec![1, 2],
        start: Start::Empty,
        roles: &[Upsert, Add, Remove, Upsert, Add, Get],
        operations: 12,
        dumps: false,
    },
    Plan {
        name: "retrieve_all beside writers",
        slabs: 4,
        keys: |_| (0..8).collect(),
        start: Start::Half,
        roles: &[Insert, Upsert, Remove],
        operations: 16,
        dumps: true,
    },
];

/// Two keys whose walks begin in the same slab, whether they have 4 bytes or 8.
fn neighbours(seed: u64, mask: u32) -> Vec<u64> {
    let slabs = |&key: &u64| {
        let small = KeyHash::new(key as u32, seed);
        [small, KeyHash::new(key, seed)].map(|hash| hash.slab(mask))
    };
    let home = slabs(&0);
    (0..).filter(|key| slabs(key) == home).take(2).collect()
}
