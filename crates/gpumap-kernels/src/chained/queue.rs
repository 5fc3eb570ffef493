//! The warp's work queue: 32 keys, served one after the other by tiles of eight lanes.
//!
//! Every lane may bring one key. A ballot of the keys that are not finished is the queue; each tile
//! serves the part of it that its own lanes brought, lowest lane first, so that four slabs are in
//! flight at a time. The word of the key at the front and the slab that its walk has reached go
//! round by shuffle; the lanes of the tile read the slab, a vector each; ballots show the owner of
//! the key which slots match or are empty, and a shuffle from the last lane has the link. Then the
//! owner acts: it finishes its key or walks on.
//! (Warp-cooperative work sharing, from Ashkiani, Farach-Colton and Owens, 2018.)
//!
//! A verb that stores and reaches the end of a full chain gets a slab: the whole warp takes units
//! for its tiles, one after the other, and each owner links its own by a CAS. A lane that loses the
//! race gives the unit back, and goes on with the slab that is there; so does a lane without a unit,
//! if there is one by then. If there is none, and the warp gave a unit back meanwhile, it tries
//! again. Hence a warp that is alone refuses a pair only when every unit is in a chain and its own
//! chain is full.

use super::allocator::{Pool, Resident};
use super::slab::{self, LANES, Slab, SlabIndex, link_in, slots_of_slab};
use super::view::ChainedView;
use crate::slot::{Format, KeyWord};
use crate::source::Source;
use gpumap_simt::mask::LaneMask;
use gpumap_simt::tile::Tile;
use gpumap_simt::{U64x2, thread, warp};

/// One lane's key.
#[derive(Clone, Copy, Debug)]
pub struct Job<F: Format> {
    /// The word that stands for the key in a slot.
    pub word: F::Word,
    /// The value that came with the key, for verbs that store.
    pub value: F::Value,
    /// Its place in the batch, or another id that the verb gives it.
    pub index: u64,
    /// Where its chain begins.
    pub(crate) home: Slab,
}

impl<F: Format> Job<F> {
    /// A key of this map.
    #[inline(always)]
    pub fn new(view: &ChainedView, key: F::Key, value: F::Value, index: u64) -> Self {
        let (word, home) = view.home::<F>(key);
        Self {
            word,
            value,
            index,
            home,
        }
    }
}

/// What the owner of a key gets of the slab that was read for it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<V> {
    /// The slab.
    pub slab: Slab,
    /// The slots that hold the key, bit `i` for slot `i`.
    pub holds: u32,
    /// The empty slots.
    pub empty: u32,
    /// Whether a slot is busy, if the verb waits for such.
    pub busy: bool,
    /// The value in the lowest slot that holds the key, if the verb reads.
    pub value: V,
}

/// What is next for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is finished.
    Done,
    /// Read the next slab of its chain.
    Walk,
    /// Read the same slab again: one of its slots has changed or is about to.
    Again,
}

/// What a verb does with one key and one slab. Each lane has a verb of its own.
pub trait Verb<F: Format> {
    /// Whether it stores pairs, so that a value comes with each key.
    const STORES: bool;
    /// Whether it wants the value that is stored.
    const READS: bool;
    /// Whether it has to see slots that another lane is about to finish writing.
    const WAITS: bool = Self::STORES;

    /// Begins with the lane's key at this place of the batch; says whether it is to be served.
    ///
    /// # Safety
    /// `index` is in the batch, and what the verb's pointers lead to is valid for it.
    #[inline(always)]
    unsafe fn begin(&mut self, _index: u64) -> bool {
        true
    }

    /// Whether the key at hand is to be stored, and so gets a slab at the end of a full chain.
    fn grows(&self) -> bool {
        Self::STORES
    }

    /// What all lanes of a tile do with the slab that they read, before the owner of the key, the lane with
    /// rank `front`, [serves](Self::serve) it. Each has its vector of the slab; `holds` are the slots of the
    /// slab that hold the key, none if the tile has no key.
    ///
    /// | must call | result |
    /// |---|---|
    /// | every lane of a full warp, converged | |
    ///
    /// # Safety
    /// As the table says; the rest is as for [`serve`](Self::serve).
    #[inline(always)]
    unsafe fn share(&mut self, _tile: Tile<LANES>, _front: u32, _vector: U64x2, _holds: u32) {}

    /// What a native block does instead of [`share`](Self::share): it has the slab to itself.
    ///
    /// # Safety
    /// As for [`serve`](Self::serve).
    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    unsafe fn share_alone(&mut self, _slab: Slab, _holds: u32) {}

    /// Serves the key with what was seen of one slab.
    ///
    /// # Safety
    /// The slab is one of the key's chain in a live map; the job is what [`begin`](Self::begin)
    /// was called for.
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next;

    /// The chain has ended, and there is no room for another slab if one was wanted.
    ///
    /// # Safety
    /// As for [`serve`](Self::serve).
    unsafe fn walked_off(&mut self, job: &Job<F>);
}

/// Serves one key of each lane that brings one (`todo`).
///
/// | must call | result |
/// |---|---|
/// | every lane of a full warp, converged | in `verb`, per lane |
///
/// # Safety
/// As the table says; the view is of a live map of format `F`, `resident` was made for its pool, and
/// the verb is valid for the lane's job.
#[inline(always)]
pub unsafe fn serve<F: Format, V: Verb<F>>(
    view: &ChainedView,
    resident: &mut Resident,
    job: &Job<F>,
    mut todo: bool,
    verb: &mut V,
) {
    let tile = Tile::<LANES>::converged();
    let first_lane = warp::lane_id() - tile.rank();
    // Where the walk of the lane's own key is.
    let mut slab = job.home;
    let mut slabs_left = view.pool.units();
    loop {
        // SAFETY: the whole warp is here in each collective: the exit and the branch round the
        // growth are decided by ballots of the warp, all else reconverges.
        unsafe {
            let warp_queue = warp::warp_vote_ballot(LaneMask::FULL, todo);
            if warp_queue.is_empty() {
                return;
            }
            let queue = warp_queue.bits() >> first_lane & LaneMask::first(LANES).bits();
            let front = queue.trailing_zeros() & (LANES - 1);
            let word = tile.shfl(job.word, front);
            let at = Slab::from_address(tile.shfl(slab.address(), front));
            // Tiles without a key read nothing; what they see is not used.
            let mut vector = U64x2::new(!0, !0);
            if queue != 0 {
                vector = at.load(tile.rank());
            }
            let (seen, link) = look::<F, V>(tile, at, vector, word);
            verb.share(tile, front, vector, if queue != 0 { seen.holds } else { 0 });

            let mut grows = false;
            if todo && tile.rank() == front {
                match verb.serve(job, seen) {
                    Next::Again => {}
                    Next::Done => todo = false,
                    Next::Walk if link.is_some() && slabs_left != 0 => {
                        slab = view.pool.slab(link);
                        slabs_left -= 1;
                    }
                    Next::Walk if V::STORES && !link.is_some() && verb.grows() => grows = true,
                    Next::Walk => {
                        verb.walked_off(job);
                        todo = false;
                    }
                }
            }
            if V::STORES {
                let growing = warp::warp_vote_ballot(LaneMask::FULL, grows);
                if !growing.is_empty() {
                    let unit = take_units(&view.pool, resident, growing);
                    let mut link = SlabIndex::NONE;
                    if unit.is_some() {
                        link = put_behind(&view.pool, slab, unit);
                    }
                    // Waits for the tiles with a unit: one without may find theirs linked here, or
                    // take next what they gave back.
                    let gave_back = warp::warp_vote_any(LaneMask::FULL, link != unit);
                    if gave_back {
                        resident.look_again();
                    }
                    warp::sync_warp(LaneMask::FULL);
                    if grows {
                        if !unit.is_some() {
                            link = slab.next();
                        }
                        if link.is_some() {
                            slab = view.pool.slab(link);
                        } else if !gave_back {
                            verb.walked_off(job);
                            todo = false;
                        }
                    }
                }
            }
        }
    }
}

/// What the tile sees of a slab, in all its lanes, and the link.
///
/// # Safety
/// The whole warp calls it.
#[inline(always)]
unsafe fn look<F: Format, V: Verb<F>>(
    tile: Tile<LANES>,
    slab: Slab,
    vector: U64x2,
    word: F::Word,
) -> (Seen<F::Value>, SlabIndex) {
    // SAFETY: the whole warp is here.
    unsafe {
        let found = F::find(vector, word);
        let holds = slots_of_slab::<F>(tile, found);
        let empty = slots_of_slab::<F>(tile, F::find(vector, F::Word::EMPTY));
        let busy = F::HAS_BUSY && V::WAITS && tile.any(F::find(vector, F::Word::BUSY) != 0);
        let link = SlabIndex::new(tile.shfl(link_in(vector).bits(), LANES - 1));
        let mut value = F::Value::default();
        if V::READS {
            let own = if F::SLOTS == 1 || found & 1 != 0 {
                F::value(vector, 0)
            } else {
                F::value(vector, 1)
            };
            let holder = holds.trailing_zeros() / F::SLOTS;
            value = tile.shfl(own, holder & (LANES - 1));
        }
        let seen = Seen {
            slab,
            holds,
            empty,
            busy,
            value,
        };
        (seen, link)
    }
}

/// Takes a unit for each of these lanes, at most one a tile; none in the lanes that got none.
///
/// # Safety
/// The whole warp calls it, with the same lanes; the rest is as for [`Resident::allocate`].
#[inline(always)]
unsafe fn take_units(pool: &Pool, resident: &mut Resident, lanes: LaneMask) -> SlabIndex {
    let mut mine = SlabIndex::NONE;
    let mut rest = lanes.bits();
    while rest != 0 {
        // SAFETY: the whole warp is here.
        let unit = unsafe { resident.allocate(pool) };
        if warp::lane_id() == rest.trailing_zeros() {
            mine = unit;
        }
        rest &= rest - 1;
    }
    mine
}

/// Links a unit after a full slab, or gives it back if another lane was faster. Returns what
/// comes after the slab now.
///
/// # Safety
/// The slab is one of a live map, and every slot of it was seen taken; the unit is the caller's.
#[inline(always)]
pub unsafe fn put_behind(pool: &Pool, slab: Slab, unit: SlabIndex) -> SlabIndex {
    // SAFETY: the unit is empty, and in no chain unless it was linked here.
    unsafe {
        let there = slab.link(unit);
        if there.is_some() {
            pool.free(unit);
            return there;
        }
    }
    unit
}

/// Serves the warp's part of a batch of inputs, 32 at a time.
///
/// | must call | result |
/// |---|---|
/// | every lane of a full warp, converged | in `verb`, per lane |
///
/// # Safety
/// As the table says; the view is of a live map of format `F`, the source is valid for what `verb`
/// takes, its `per_warp` is a multiple of 32, blocks are whole warps, and the grid has enough of
/// them for all inputs at `per_warp` each.
#[inline(always)]
pub unsafe fn serve_batch<F: Format, S: Source<F>, V: Verb<F>>(
    view: &ChainedView,
    batch: &S,
    verb: &mut V,
) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::ALONE || crate::native::is_here() {
        let block = crate::native::block();
        // SAFETY: passed on.
        return unsafe { crate::native::chains::serve_batch(view, batch, verb, block) };
    }
    let warp = thread::index() / u64::from(warp::SIZE);
    let per_warp = u64::from(batch.per_warp());
    let mut at = warp * per_warp;
    let end = (at + per_warp).min(batch.places());
    let mut resident = Resident::new(&view.pool, warp);
    // The same number of turns for all lanes of the warp.
    while at < end {
        let i = at + u64::from(warp::lane_id());
        // SAFETY: the source has a place in front of `end`; the whole warp is here.
        unsafe {
            let input = batch.load(i.min(end - 1), V::STORES);
            let todo = i < end && input.live && verb.begin(i);
            let job = Job::new(view, input.key, input.value, i);
            serve(view, &mut resident, &job, todo, verb);
        }
        at += u64::from(warp::SIZE);
    }
}

/// The lowest slot of a set of the slab's slots.
#[inline(always)]
pub(super) fn lowest<F: Format>(slab: Slab, slots: u32) -> *mut u8 {
    debug_assert!(slots != 0 && slots < 1 << slab::slots::<F>());
    slab.slot::<F>(slots.trailing_zeros())
}
