//! Where the tiles of a scatter kernel come from, and where its keys go.

use super::{Payload, ScatterArgs, UNBOUNDED};
use crate::build::combine;
use crate::build::pair::{self, side_by_side};
use crate::slot::Bits;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::shared_ptr::{SharedPtr, SharedWord};
use gpumap_simt::{mem, thread};

/// What one block takes in.
pub(crate) struct Tile<K, V: Payload> {
    pub(crate) keys: *const K,
    /// Or nothing, if there is no payload.
    pub(crate) values: *const V::Word,
    /// How many; no block that has none counts anything.
    pub(crate) len: u32,
    /// Bit 0: the keys are aligned to 16 bytes; bit 1: the values are.
    pub(crate) aligned: u32,
}

impl<K, V: Payload> Tile<K, V> {
    /// The tile of the calling block, of arrays of `len` keys and values.
    #[inline(always)]
    pub(crate) fn of_array(
        keys: *const K,
        values: *const V,
        len: u64,
        tile: u32,
        aligned: u32,
    ) -> Self {
        let begin = u64::from(thread::block_idx_x()) * u64::from(tile);
        let left = len - begin;
        Self {
            keys: keys.wrapping_add(begin as usize),
            values: values.cast::<V::Word>().wrapping_add(begin as usize),
            len: if left < u64::from(tile) {
                left as u32
            } else {
                tile
            },
            aligned,
        }
    }
}

/// What a tile has of one part.
pub(crate) struct Run {
    /// What [`Route::take`] said.
    pub(crate) to: u64,
    /// How many keys.
    pub(crate) len: u32,
    /// Where they begin in the order of the tile's output.
    pub(crate) start: u32,
}

/// A way from tiles to parts. Key number `i` in the order of the tile's output goes where the
/// place of its part and `i` say.
pub(crate) trait Route<K, V: Payload> {
    /// Where the keys that a block has of one part go.
    type Place: SharedWord;

    /// Whether it [records](Self::tell) where keys go. Not in stable kernels.
    const TELLS: bool = false;

    /// Whether warps write runs from the [lines](Self::ahead) of the output on, rather than from anywhere in the
    /// tile's order: for a link, on which parts of a line cost as much as the whole. Not in stable kernels.
    const BY_LINES: bool = false;

    /// Whether a value is written together with its key, rather than after all keys, however large they are.
    const TOGETHER: bool = false;

    /// Neighbouring parts for each thread of a block: at most two.
    const ROWS: usize = 1;

    /// The tile of the calling block.
    fn tile(&self) -> Tile<K, V>;

    /// A hash of a key by which equal ones are looked for, whose low bits count. Of kernels that combine.
    #[inline(always)]
    fn place_of(&self, key: K) -> u32 {
        let _ = key;
        0
    }

    /// Whether keys of the tile are equal. Of kernels that combine.
    #[inline(always)]
    fn same(&self, one: K, other: K) -> bool {
        let _ = (one, other);
        false
    }

    /// Combines key `i` of the tile, which is not written, with key `there`, which is equal. Of kernels that combine.
    ///
    /// # Safety
    /// Both are staged with their values. That of `there` is accessed by this alone, and that of `i` is not changed.
    #[inline(always)]
    unsafe fn combine(&self, keys: SharedPtr<K>, values: SharedPtr<V::Word>, there: u32, i: u32) {
        let _ = (keys, values, there, i);
    }

    /// The value of every key, if they have the same: then none are read.
    #[inline(always)]
    fn common_value(&self) -> Option<V::Word> {
        None
    }

    /// Makes ready for all that follows, while the tile is on its way.
    ///
    /// # Safety
    /// The launch is the one that the route is for.
    #[inline(always)]
    unsafe fn begin(&mut self) {}

    /// How many parts there are at most, the same for all blocks.
    fn parts(&self) -> u32;

    /// The part of a key of the block's tile.
    fn part(&self, key: K) -> u32;

    /// Takes room for the `len` keys that the block has of a part.
    ///
    /// # Safety
    /// Called once by the block for each part, in the launch that the route is for.
    unsafe fn take(&self, part: u32, len: u32) -> u64;

    /// Where a run goes.
    ///
    /// # Safety
    /// The run is what the block has of that part.
    unsafe fn place(&self, part: u32, run: Run) -> Self::Place;

    /// How many keys there would be from the start of a line of the output to the first key of a run.
    #[inline(always)]
    fn ahead(&self, place: Self::Place, start: u32) -> u32 {
        let _ = (place, start);
        0
    }

    /// Takes note that key `i` of the block's tile is number `at` in the order of the tile's output.
    ///
    /// # Safety
    /// `place` is that of the key's part; one thread calls it for the key.
    #[inline(always)]
    unsafe fn tell(&self, i: u32, place: Self::Place, at: u32) {
        let _ = (i, place, at);
    }

    /// Writes a key. `value` is where its value came from, for routes that put pairs elsewhere.
    ///
    /// # Safety
    /// `place` is that of the key's part, `i` the key's own number.
    unsafe fn put_key(&self, place: Self::Place, i: u32, key: K, value: *const V::Word);

    /// Writes a value beside its key.
    ///
    /// # Safety
    /// As for [`put_key`](Self::put_key).
    unsafe fn put_value(&self, place: Self::Place, i: u32, value: V::Word);

    /// Writes a key and its value, which came from `from`.
    ///
    /// # Safety
    /// As for [`put_key`](Self::put_key).
    #[inline(always)]
    unsafe fn put_pair(
        &self,
        place: Self::Place,
        i: u32,
        key: K,
        value: V::Word,
        from: *const V::Word,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            self.put_key(place, i, key, from);
            self.put_value(place, i, value);
        }
    }
}

/// From one array to another; if `JOINS`, pairs to words [side by side](side_by_side) instead of the keys.
pub(crate) struct Arrays<'a, K, V, const STABLE: bool, const JOINS: bool>(
    pub(crate) &'a ScatterArgs<K, V>,
);

/// The place of runs that find no room.
const DROPPED: u64 = u64::MAX;

impl<K: Bits, V: Payload, const STABLE: bool, const JOINS: bool> Route<K, V>
    for Arrays<'_, K, V, STABLE, JOINS>
{
    /// Position in the output less position in the tile's order.
    type Place = u64;

    const TOGETHER: bool = JOINS;

    #[inline(always)]
    fn tile(&self) -> Tile<K, V> {
        let args = self.0;
        Tile::of_array(args.keys, args.values, args.len, args.tile, args.aligned)
    }

    #[inline(always)]
    fn place_of(&self, key: K) -> u32 {
        combine::place_of(key)
    }

    #[inline(always)]
    fn same(&self, one: K, other: K) -> bool {
        one == other
    }

    #[inline(always)]
    unsafe fn combine(&self, _: SharedPtr<K>, values: SharedPtr<V::Word>, there: u32, i: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.0.combine.apply(values.add(there), values.add(i)) };
    }

    #[inline(always)]
    fn common_value(&self) -> Option<V::Word> {
        if JOINS && self.0.values.is_null() {
            Some(<V::Word as Bits>::from_u64(self.0.value))
        } else {
            None
        }
    }

    #[inline(always)]
    fn parts(&self) -> u32 {
        self.0.parts
    }

    #[inline(always)]
    fn part(&self, key: K) -> u32 {
        self.0.digit.digit(key)
    }

    #[inline(always)]
    unsafe fn take(&self, part: u32, len: u32) -> u64 {
        let cursor = self.0.cursors.wrapping_add(part as usize);
        // SAFETY: a cursor for each part, a cell of the matrix for each part and block. Cursors
        // are only added to, or, in stable kernels, not written.
        unsafe {
            if STABLE {
                let row = u64::from(part) * u64::from(thread::grid_dim_x());
                let cell = row + u64::from(thread::block_idx_x());
                mem::load_readonly(cursor.cast_const())
                    + mem::load_readonly(self.0.matrix.add(cell as usize))
            } else if len != 0 {
                atomic::fetch_add(cursor, u64::from(len), Relaxed)
            } else {
                0
            }
        }
    }

    #[inline(always)]
    unsafe fn place(&self, part: u32, Run { to, len, start }: Run) -> u64 {
        let fixed = !STABLE && self.0.capacity != UNBOUNDED;
        let begin = if fixed {
            u64::from(part) * self.0.capacity
        } else {
            0
        };
        if fixed && to + u64::from(len) > self.0.capacity {
            DROPPED
        } else {
            (begin + to).wrapping_sub(u64::from(start))
        }
    }

    #[inline(always)]
    unsafe fn put_key(&self, place: u64, i: u32, key: K, _: *const V::Word) {
        if place != DROPPED {
            let at = place.wrapping_add(u64::from(i)) as usize;
            // SAFETY: in the part's room; each place is one key's.
            unsafe { mem::store(self.0.out_keys.add(at), key) };
        }
    }

    #[inline(always)]
    unsafe fn put_value(&self, place: u64, i: u32, value: V::Word) {
        if place != DROPPED {
            let at = place.wrapping_add(u64::from(i)) as usize;
            // SAFETY: as above.
            unsafe { mem::store(self.0.out_values.cast::<V::Word>().add(at), value) };
        }
    }

    #[inline(always)]
    unsafe fn put_pair(&self, place: u64, i: u32, key: K, value: V::Word, from: *const V::Word) {
        // SAFETY: as above; joined, the output of keys has room for words.
        unsafe {
            if !JOINS {
                self.put_key(place, i, key, from);
                self.put_value(place, i, value);
            } else if place != DROPPED {
                const { assert!(!JOINS || side_by_side::<K, V>()) };
                let at = place.wrapping_add(u64::from(i));
                pair::store(self.0.out_keys.cast(), at, key, value);
            }
        }
    }
}
