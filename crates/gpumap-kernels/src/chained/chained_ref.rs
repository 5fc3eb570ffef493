//! [`ChainedRef`]: a chained map as an argument of a user's kernels.
//!
//! The host lends it out for a launch (`MultiMap::launch_with` of the crate `gpumap`), and a
//! kernel takes it as one field of its arguments. A whole warp works on it, through the
//! [`ChainedWarp`] that it makes once: every lane may bring a key, and the warp serves them one after
//! the other, eight lanes to a slab, as the batch verbs do. New slabs come from the map's pool while
//! the kernel runs; when that is used up, lanes get `Full`, note what they could not store, and the
//! host reserves more and launches again.
//!
//! | verb | key absent | key present | no room |
//! |---|---|---|---|
//! | [`get`](ChainedWarp::get) | `None` | the value that was inserted first | |
//! | [`insert`](ChainedWarp::insert) | [`Inserted`](Entry::Inserted) | [`Present`](Entry::Present) with its value | [`Full`](Entry::Full) |
//! | [`append`](ChainedWarp::append) | [`Inserted`](Insertion::Inserted) | `Inserted`: the key has one pair more | [`Full`](Insertion::Full) |
//! | [`remove`](ChainedWarp::remove) | `None` | its value; the pair that was inserted first is gone | |
//! | [`count`](ChainedWarp::count) | 0 | how many pairs it has | |
//!
//! Which slots the kernel was compiled for is compared with the map's, as for
//! [`MapRef`](crate::map_ref::MapRef): if they differ, the verbs answer as an empty and full map would,
//! and the host's launch ends with an error.

mod one;

use core::marker::PhantomData;

use self::one::{append, count, get, insert, remove};
use super::allocator::Resident;
use super::queue::{Job, Verb, serve};
use super::verbs::Tally;
use super::view::ChainedView;
use crate::map_ref::{Counts, Entry, Insertion, Named, Pair, STRIPES, SlotKind, by_format};
use crate::slot::{Bits, Format};
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::{layout, thread, warp};

/// A chained map that a kernel may use while its launch lasts. `K` and `V` are the bits of key and
/// value, both `u32` or both `u64`.
///
/// ```
/// use gpumap_kernels::chained::chained_ref::ChainedRef;
/// use gpumap_kernels::map_ref::Insertion;
/// use gpumap_simt::{kernel, kernel_args, mem, thread};
///
/// kernel_args! {
///     /// Arguments of [`INVERT`].
///     pub struct InvertArgs {
///         /// Gets the places of every word.
///         pub places: ChainedRef<u64, u64>,
///         /// `n` words.
///         pub words: *const u64,
///         /// How many.
///         pub n: u64,
///         /// In and out: one byte per word, 1 while it is to be stored.
///         pub to_do: *mut u8,
///     }
/// }
/// kernel! {
///     /// Notes for each word all places where it is. The grid has a lane for each.
///     pub static INVERT = fn invert(args: InvertArgs) {
///         let mut places = args.places.by_warp();
///         let i = thread::index();
///         // SAFETY: below `n`, one lane per place; blocks are whole warps, and all lanes reach the
///         // verb; the map was lent to this launch.
///         unsafe {
///             let mut pair = None;
///             if i < args.n && mem::load(args.to_do.add(i as usize)) != 0 {
///                 pair = Some((mem::load(args.words.add(i as usize)), i));
///             }
///             if places.append(pair) == Some(Insertion::Inserted) {
///                 mem::store(args.to_do.add(i as usize), 0);
///             }
///         }
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ChainedRef<K, V> {
    view: ChainedView,
    /// [`STRIPES`] of them.
    counts: *mut Counts,
    slots: SlotKind,
    _pair: PhantomData<fn(K) -> V>,
}
layout!(ChainedRef<K, V> { view, counts, slots, _pair });

// SAFETY: addresses and plain words. What they lead to is accessed by the verbs alone, which are
// `unsafe`, and atomically.
unsafe impl<K, V> Send for ChainedRef<K, V> {}
// SAFETY: as above.
unsafe impl<K, V> Sync for ChainedRef<K, V> {}

#[cfg(not(target_arch = "nvptx64"))]
impl<K, V> ChainedRef<K, V> {
    /// For the host that lends the map out: its chains, and [`STRIPES`] zeroed [`Counts`].
    pub fn new(view: ChainedView, slots: SlotKind, counts: *mut Counts) -> Self {
        Self {
            view,
            counts,
            slots,
            _pair: PhantomData,
        }
    }
}

impl<K: Bits, V: Bits> ChainedRef<K, V> {
    /// The map for the calling warp. To be made once and kept: it remembers where the warp last found
    /// free slabs.
    #[inline(always)]
    pub fn by_warp(&self) -> ChainedWarp<K, V> {
        let warp = thread::index() / u64::from(warp::SIZE);
        ChainedWarp {
            resident: Resident::new(&self.view.pool, warp),
            slots: self.slots,
            map: *self,
        }
    }
}

/// A [`ChainedRef`] as one warp uses it.
#[derive(Clone, Copy, Debug)]
pub struct ChainedWarp<K, V> {
    map: ChainedRef<K, V>,
    slots: SlotKind,
    resident: Resident,
}

impl<K: Bits, V: Bits> ChainedWarp<K, V>
where
    (K, V): Pair<Key = K, Value = V>,
{
    /// The value of the lane's key that was inserted first; none if the key is absent or the lane
    /// brings none.
    ///
    /// | must call | result |
    /// |---|---|
    /// | every lane of a full warp, converged | per lane |
    ///
    /// # Safety
    /// As the table says; the map was lent to this launch.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn get(&mut self, key: Option<K>) -> Option<V> {
        // SAFETY: passed on.
        unsafe { by_format!(self, get(key), None) }
    }

    /// Stores the lane's pair if its key is absent. None if the lane brings no pair.
    ///
    /// | must call | result |
    /// |---|---|
    /// | every lane of a full warp, converged | per lane |
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn insert(&mut self, pair: Option<(K, V)>) -> Option<Entry<V>> {
        // SAFETY: passed on.
        unsafe { by_format!(self, insert(pair), pair.map(|_| Entry::Full)) }
    }

    /// Stores the lane's pair, whatever is there: never `Present`. None if the lane brings no pair.
    ///
    /// | must call | result |
    /// |---|---|
    /// | every lane of a full warp, converged | per lane |
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn append(&mut self, pair: Option<(K, V)>) -> Option<Insertion> {
        // SAFETY: passed on.
        unsafe { by_format!(self, append(pair), pair.map(|_| Insertion::Full)) }
    }

    /// Takes away the pair with the lane's key that was inserted first, and returns its value; none if
    /// the key is absent or the lane brings none. Of several lanes that remove one pair at the same
    /// time, one gets it.
    ///
    /// | must call | result |
    /// |---|---|
    /// | every lane of a full warp, converged | per lane |
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn remove(&mut self, key: Option<K>) -> Option<V> {
        // SAFETY: passed on.
        unsafe { by_format!(self, remove(key), None) }
    }

    /// How many pairs have the lane's key; 0 if the lane brings none.
    ///
    /// | must call | result |
    /// |---|---|
    /// | every lane of a full warp, converged | per lane |
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn count(&mut self, key: Option<K>) -> u64 {
        // SAFETY: passed on.
        unsafe { by_format!(self, count(key), 0) }
    }

    /// Serves each lane's key with the lane's verb.
    ///
    /// # Safety
    /// The whole warp calls it; the map was lent to this launch, and has the format `F`.
    #[inline(always)]
    unsafe fn serve<F: Format<Key = K, Value = V>, B: Verb<F>>(
        &mut self,
        pair: Option<(K, V)>,
        verb: &mut B,
    ) {
        let (key, value) = pair.unwrap_or_default();
        let job = Job::new(&self.map.view, key, value, 0);
        // SAFETY: the whole warp is here; the share was made for this pool; each lane's verb answers to
        // itself.
        unsafe {
            serve(
                &self.map.view,
                &mut self.resident,
                &job,
                pair.is_some(),
                verb,
            );
        };
    }

    /// Adds what the warp has done to the counters of its block, one atomic for each kind of event.
    ///
    /// # Safety
    /// The whole warp calls it, and each lane has served one key at most.
    #[inline(always)]
    unsafe fn tell(&self, tally: Tally) {
        let stripe = thread::block_idx_x() & (STRIPES - 1);
        let counts = self.map.counts.wrapping_add(stripe as usize);
        // SAFETY: the whole warp is here; the host lends as many stripes as there are, and they are
        // accessed atomically only.
        unsafe {
            let stored = warp::warp_vote_ballot(LaneMask::FULL, tally.stored != 0).count();
            let full = warp::warp_vote_ballot(LaneMask::FULL, tally.full != 0).count();
            let removed = warp::warp_vote_ballot(LaneMask::FULL, tally.removed != 0).count();
            if warp::lane_id() == 0 {
                add(&raw mut (*counts).inserted, stored);
                add(&raw mut (*counts).full, full);
                add(&raw mut (*counts).removed, removed);
            }
        }
    }

    /// Notes that the map's slots are not those that the kernel was compiled for.
    ///
    /// # Safety
    /// The map was lent to this launch.
    #[inline(always)]
    unsafe fn refuse(&self) {
        // SAFETY: there is one stripe at least; it is accessed atomically only.
        unsafe { atomic::store(&raw mut (*self.map.counts).refused, 1, Relaxed) };
    }
}

/// Adds to a counter, unless there is nothing to add.
///
/// # Safety
/// The counter is valid on the device, and accessed atomically only.
#[inline(always)]
unsafe fn add(counter: *mut u64, n: u32) {
    if n != 0 {
        // SAFETY: the caller's promise.
        unsafe { atomic::fetch_add(counter, u64::from(n), Relaxed) };
    }
}
