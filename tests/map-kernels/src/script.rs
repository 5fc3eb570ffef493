//! Operations that the host lists: number `i` is done by lane `i`, or by tile `i`, so the lanes of a
//! warp diverge as far as they can.

use gpumap_kernels::map_ref::{Entry, Insertion, MapRef, Pair, Update};
use gpumap_kernels::probe::TILE;
use gpumap_kernels::slot::Bits;
use gpumap_simt::tile::Tile;
use gpumap_simt::{kernel, kernel_args, mem, thread};

/// What is done.
pub mod op {
    /// Nothing.
    pub const NONE: u8 = 0;
    /// `get`.
    pub const GET: u8 = 1;
    /// `contains`.
    pub const CONTAINS: u8 = 2;
    /// `insert`.
    pub const INSERT: u8 = 3;
    /// `upsert`.
    pub const UPSERT: u8 = 4;
    /// `merge`, adding.
    pub const ADD: u8 = 5;
    /// `get_or_insert`.
    pub const GET_OR_INSERT: u8 = 6;
    /// `remove`.
    pub const REMOVE: u8 = 7;
    /// All of them but `NONE`.
    pub const ALL: [u8; 7] = [GET, CONTAINS, INSERT, UPSERT, ADD, GET_OR_INSERT, REMOVE];
}

/// What came of it.
pub mod outcome {
    /// The key is absent.
    pub const ABSENT: u8 = 1;
    /// The key was there.
    pub const PRESENT: u8 = 2;
    /// The pair is in.
    pub const INSERTED: u8 = 3;
    /// There was no room.
    pub const FULL: u8 = 4;
}

kernel_args! {
    /// Arguments of the scripts: a lane per operation, or four.
    pub struct ScriptArgs<K, V> {
        /// The map.
        pub map: MapRef<K, V>,
        /// For each operation what is done, one of [`op`].
        pub ops: *const u8,
        /// Its key.
        pub keys: *const K,
        /// Its value.
        pub values: *const V,
        /// How many operations.
        pub len: u64,
        /// Out: per lane what came of it, one of [`outcome`].
        pub outcomes: *mut u8,
        /// Out: per lane the value that was found.
        pub held: *mut V,
    }
}

/// An operation's answer.
type Answer<V> = (u8, Option<V>);

fn found<V>(value: Option<V>) -> Answer<V> {
    match value {
        None => (outcome::ABSENT, None),
        value => (outcome::PRESENT, value),
    }
}

fn is_there<V>(present: bool) -> Answer<V> {
    let outcome = if present {
        outcome::PRESENT
    } else {
        outcome::ABSENT
    };
    (outcome, None)
}

fn stored<V>(insertion: Insertion) -> Answer<V> {
    let outcome = match insertion {
        Insertion::Inserted => outcome::INSERTED,
        Insertion::Present => outcome::PRESENT,
        Insertion::Full => outcome::FULL,
    };
    (outcome, None)
}

fn entered<V>(entry: Entry<V>) -> Answer<V> {
    match entry {
        Entry::Inserted => (outcome::INSERTED, None),
        Entry::Present(value) => (outcome::PRESENT, Some(value)),
        Entry::Full => (outcome::FULL, None),
    }
}

impl<K: Bits, V: Bits> ScriptArgs<K, V>
where
    (K, V): Pair<Key = K, Value = V>,
{
    /// # Safety
    /// `i` is below the length.
    #[inline(always)]
    unsafe fn load(&self, i: u64) -> (u8, K, V) {
        let i = i as usize;
        // SAFETY: the caller's promise.
        unsafe {
            (
                mem::load(self.ops.add(i)),
                mem::load(self.keys.add(i)),
                mem::load(self.values.add(i)),
            )
        }
    }

    /// # Safety
    /// There is a place for the calling lane.
    #[inline(always)]
    unsafe fn answer(&self, (outcome, held): Answer<V>) {
        let lane = thread::index() as usize;
        // SAFETY: the lane's own places.
        unsafe {
            mem::store(self.outcomes.add(lane), outcome);
            if let Some(held) = held {
                mem::store(self.held.add(lane), held);
            }
        }
    }

    /// # Safety
    /// As the arguments say.
    #[inline(always)]
    unsafe fn by_lane(&self) {
        let i = thread::index();
        if i >= self.len {
            return;
        }
        let map = self.map;
        // SAFETY: below the length; the map was lent to this launch.
        unsafe {
            let (op, key, value) = self.load(i);
            self.answer(match op {
                op::GET => found(map.get(key)),
                op::CONTAINS => is_there(map.contains(key)),
                op::INSERT => stored(map.insert(key, value)),
                op::UPSERT => stored(map.upsert(key, value)),
                op::ADD => stored(map.merge(key, value, Update::Add)),
                op::GET_OR_INSERT => entered(map.get_or_insert(key, value)),
                op::REMOVE => is_there(map.remove(key)),
                _ => return,
            });
        }
    }

    /// # Safety
    /// As the arguments say.
    #[inline(always)]
    unsafe fn by_tile(&self) {
        let tile = Tile::<TILE>::diverging();
        let i = thread::index() / u64::from(TILE);
        if i >= self.len {
            return;
        }
        let map = self.map;
        // SAFETY: below the length; the map was lent to this launch. The lanes of a tile have one
        // operation, so they call the same verb with the same arguments.
        unsafe {
            let (op, key, value) = self.load(i);
            self.answer(match op {
                op::GET => found(map.tile_get(tile, key)),
                op::CONTAINS => is_there(map.tile_contains(tile, key)),
                op::INSERT => stored(map.tile_insert(tile, key, value)),
                op::UPSERT => stored(map.tile_upsert(tile, key, value)),
                op::ADD => stored(map.tile_merge(tile, key, value, Update::Add)),
                op::GET_OR_INSERT => entered(map.tile_get_or_insert(tile, key, value)),
                op::REMOVE => is_there(map.tile_remove(tile, key)),
                _ => return,
            });
        }
    }
}

macro_rules! scripts {
    ($($k:ty, $v:ty: $LANES:ident $lanes:ident $TILES:ident $tiles:ident;)*) => {
        kernel! {$(
            /// An operation per lane.
            pub static $LANES = fn $lanes(args: ScriptArgs<$k, $v>) by thread {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { args.by_lane() }
            }
            /// An operation per tile.
            pub static $TILES = fn $tiles(args: ScriptArgs<$k, $v>) {
                // SAFETY: the launcher keeps the contract of the arguments.
                unsafe { args.by_tile() }
            }
        )*}
    };
}

scripts! {
    u32, (): LANES_4_0 map_ref_lanes_4_0 TILES_4_0 map_ref_tiles_4_0;
    u64, (): LANES_8_0 map_ref_lanes_8_0 TILES_8_0 map_ref_tiles_8_0;
    u32, u32: LANES_4_4 map_ref_lanes_4_4 TILES_4_4 map_ref_tiles_4_4;
    u32, u64: LANES_4_8 map_ref_lanes_4_8 TILES_4_8 map_ref_tiles_4_8;
    u64, u32: LANES_8_4 map_ref_lanes_8_4 TILES_8_4 map_ref_tiles_8_4;
    u64, u64: LANES_8_8 map_ref_lanes_8_8 TILES_8_8 map_ref_tiles_8_8;
}
