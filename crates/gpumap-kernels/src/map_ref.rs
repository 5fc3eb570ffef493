//! [`MapRef`]: a map as an argument of a user's kernels.
//!
//! The host lends it out for a launch (`Map::launch_with` of the crate `gpumap`), and a kernel
//! takes it as one field of its arguments. Every verb follows the protocol of the batch verbs, to
//! the letter: the same walk, the same [`Format`](crate::slot::Format), the same
//! [`Verb`](crate::probe::Verb)s. So kernels of any number of streams and batches may work on one
//! map at once, and each key stays linearizable.
//!
//! | form | must call | result valid | reads a slab with |
//! |---|---|---|---|
//! | [`get`](MapRef::get), [`contains`](MapRef::contains), [`insert`](MapRef::insert), [`upsert`](MapRef::upsert), [`merge`](MapRef::merge), [`get_or_insert`](MapRef::get_or_insert), [`remove`](MapRef::remove) | any lane, also in divergent code | in the calling lane | four loads of one lane |
//! | the same with `tile_` in front | the four lanes of a tile, with the same key and value; tiles go their own ways | in all four lanes | one load of four lanes |
//!
//! One lane per key is best where lanes have keys of their own. A tile per key is best where the
//! four lanes have one key between them, since it spares registers and divergence.
//!
//! | | absent key | present key | no room |
//! |---|---|---|---|
//! | `get` | `None` | its value | |
//! | `contains` | `false` | `true` | |
//! | `insert` | [`Inserted`](Insertion::Inserted) | keeps its value: [`Present`](Insertion::Present) | [`Full`](Insertion::Full) |
//! | `upsert` | `Inserted` | gets the new value: `Present` | `Full` |
//! | `merge` | `Inserted` | its value is updated: `Present` | `Full` |
//! | `get_or_insert` | [`Inserted`](Entry::Inserted) | [`Present`](Entry::Present) with its value | [`Full`](Entry::Full) |
//! | `remove` | `false` | gone: `true` | |
//!
//! `Full` means that nothing was done for this key. A kernel cannot grow a map: it notes what found
//! no room, and the host makes some and launches it again. Removed pairs leave tombstones, which are
//! not used again before the map is rebuilt; so a key that is removed and inserted again uses up a
//! second slot.
//!
//! # One source, every GPU
//! How 16-byte slots are claimed depends on the GPU ([`Wide`](crate::slot::Wide),
//! [`Split`](crate::slot::Split)), and PTX has the one that it was compiled for. A kernel is written
//! once, and [`Pair`] picks the format. Each verb compares it with that of the map: if they differ,
//! it does nothing, answers as an empty and full map would, and says so to the host, whose launch
//! ends with an error. On the CPU a map may have either, and the verbs follow it.

mod format;
mod one;
mod serve;
mod single;
mod tally;
mod tile;

use core::marker::PhantomData;
use gpumap_simt::layout;

use crate::table::MapView;

pub(crate) use format::{Named, by_format};
pub use format::{Pair, SlotKind};
/// What [`merge`](MapRef::merge) does with two values.
pub use gpumap_simt::atomic::part::Update;
/// For code that brings a slot format or a verb of its own, like the models of the tests.
#[doc(hidden)]
pub use serve::alone;
pub use tally::{Counts, STRIPES};

/// A map that a kernel may use while its launch lasts. `K` and `V` are the bits of key and value,
/// `u32` or `u64` each, `()` for the values of a set; a signed integer is cast, a float goes through `to_bits`.
///
/// ```
/// use gpumap_kernels::map_ref::{Insertion, MapRef};
/// use gpumap_simt::{kernel, kernel_args, mem, thread};
///
/// kernel_args! {
///     /// Arguments of [`NUMBER`].
///     pub struct NumberArgs {
///         /// Word to the place where it was seen.
///         pub map: MapRef<u64, u32>,
///         /// `n` words.
///         pub words: *const u64,
///         /// How many.
///         pub n: u64,
///         /// Out: one byte per word, 1 if it found no room.
///         pub left_over: *mut u8,
///     }
/// }
/// kernel! {
///     /// Notes for each distinct word one place where it is.
///     pub static NUMBER = fn number(args: NumberArgs) {
///         let i = thread::index();
///         if i < args.n {
///             // SAFETY: below `n`, one lane per place; the map was lent to this launch.
///             unsafe {
///                 let word = mem::load(args.words.add(i as usize));
///                 let full = args.map.insert(word, i as u32) == Insertion::Full;
///                 mem::store(args.left_over.add(i as usize), u8::from(full));
///             }
///         }
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MapRef<K, V> {
    view: MapView,
    /// [`STRIPES`] of them.
    counts: *mut Counts,
    slots: SlotKind,
    _pair: PhantomData<fn(K) -> V>,
}
layout!(MapRef<K, V> { view, counts, slots, _pair });

// SAFETY: addresses and plain words. What they lead to is accessed by the verbs alone, which are
// `unsafe`, and atomically.
unsafe impl<K, V> Send for MapRef<K, V> {}
// SAFETY: as above.
unsafe impl<K, V> Sync for MapRef<K, V> {}

#[cfg(not(target_arch = "nvptx64"))]
impl<K, V> MapRef<K, V> {
    /// For the host that lends the map out: its table, and [`STRIPES`] zeroed [`Counts`].
    pub fn new(view: MapView, slots: SlotKind, counts: *mut Counts) -> Self {
        Self {
            view,
            counts,
            slots,
            _pair: PhantomData,
        }
    }
}

/// What became of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a pair that found no room is not in the map"]
pub enum Insertion {
    /// The key was absent, and the pair is in the map.
    Inserted,
    /// The key was there before, or another lane was faster.
    Present,
    /// The key is absent and there is no room: nothing was done.
    Full,
}

/// What the map holds for a key that was looked up and inserted if absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a pair that found no room is not in the map"]
pub enum Entry<V> {
    /// The key was absent, and the pair is in the map.
    Inserted,
    /// The key was there before, or another lane was faster: this is its value.
    Present(V),
    /// The key is absent and there is no room: nothing was done.
    Full,
}
