//! Serving one key with one verb: by one lane, or by the four lanes of a tile.
//!
//! Both are the walk of [`probe`](crate::probe), without the warp around it: the same slabs in the
//! same order, the same decisions by the same verb. A slab's vectors are read at different moments,
//! by one lane as by four; that is as good as at one moment, since a slot is never empty again and a
//! claim shows which lane was faster.

use crate::probe::{Job, Next, Seen, TILE, Verb, slots_of_slab};
use crate::slot::{Format, KeyWord, Stored};
use crate::table::MapView;
use gpumap_simt::U64x2;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::tile::Tile;

/// A key on its walk.
struct Walk<F: Format> {
    stored: Stored<F::Word>,
    job: Job<F>,
    probe: u32,
    /// How many slabs it has.
    length: u32,
}

impl<F: Format> Walk<F> {
    /// At its first slab.
    ///
    /// # Safety
    /// The view is of a live map of format `F`.
    #[inline(always)]
    unsafe fn new(view: &MapView, key: F::Key, value: F::Value) -> Self {
        let stored = F::stored(key);
        let word = match stored {
            Stored::Table(word) | Stored::Reserved(word) => word,
        };
        let mut walk = Self {
            stored,
            job: Job {
                word,
                value,
                index: 0,
                slab: view.reserved,
            },
            probe: 0,
            length: 1,
        };
        // SAFETY: passed on.
        unsafe { walk.go_to(view, 0) };
        walk
    }

    /// # Safety
    /// As for [`new`](Self::new); `probe` is 0 or below the length.
    #[inline(always)]
    unsafe fn go_to(&mut self, view: &MapView, probe: u32) {
        // SAFETY: passed on.
        let place = unsafe { view.place::<F>(self.stored, probe) };
        self.job.slab = place.slab;
        self.length = place.walk;
        self.probe = probe;
    }

    /// Lets the verb decide about the slab that was read; at the end of the walk also what then.
    ///
    /// # Safety
    /// `seen` is of the slab where the walk is, of a live map.
    #[inline(always)]
    unsafe fn step<V: Verb<F>>(&self, verb: &mut V, seen: Seen<F::Value>) -> Next {
        // SAFETY: the job has the slab that was read.
        unsafe {
            match verb.serve(&self.job, seen) {
                Next::Walk if self.probe + 1 >= self.length => {
                    let cell = matches!(self.stored, Stored::Reserved(_));
                    match verb.walked_off(&self.job, cell) {
                        Next::Done => Next::Done,
                        Next::Walk | Next::Again => Next::Again,
                    }
                }
                next => next,
            }
        }
    }
}

/// Serves a key, the calling lane alone.
///
/// | must call | result |
/// |---|---|
/// | any lane, also in divergent code | in `verb` |
///
/// # Safety
/// The view is of a live map of format `F`.
#[inline(always)]
pub unsafe fn alone<F: Format, V: Verb<F>>(
    view: &MapView,
    key: F::Key,
    value: F::Value,
    verb: &mut V,
) {
    // SAFETY: the caller's promise; the walk's length bounds `probe`. Ends: a walk has a bounded
    // number of slabs, and a slab is read again only when another lane changes it.
    unsafe {
        let mut walk = Walk::<F>::new(view, key, value);
        #[cfg(not(target_arch = "nvptx64"))]
        let mut waits = gpumap_simt::native::Waits::default();
        loop {
            let seen = read_alone::<F, V>(&walk.job);
            match walk.step(verb, seen) {
                Next::Done => return,
                Next::Walk => walk.go_to(view, walk.probe + 1),
                Next::Again =>
                {
                    #[cfg(not(target_arch = "nvptx64"))]
                    if crate::native::is_here() {
                        waits.wait();
                    }
                }
            }
        }
    }
}

/// Reads the slab of a job with one lane.
///
/// # Safety
/// `job.slab` is a slab of a live map.
#[inline(always)]
unsafe fn read_alone<F: Format, V: Verb<F>>(job: &Job<F>) -> Seen<F::Value> {
    const N: usize = TILE as usize;
    let mut seen = Seen {
        holds: 0,
        empty: 0,
        busy: false,
        value: F::Value::default(),
    };
    let slab = job.slab.cast::<U64x2>().cast_const();
    let mut vectors = [U64x2::default(); N];
    let mut i = 0;
    while i < N {
        // SAFETY: slabs are 64 aligned bytes, written atomically only. All four loads are issued
        // before the first is used.
        vectors[i] = unsafe { atomic::load(slab.wrapping_add(i), Relaxed) };
        i += 1;
    }
    let mut i = 0;
    while i < N {
        let vector = vectors[i];
        let at = i as u32 * F::SLOTS;
        let found = F::find(vector, job.word);
        seen.holds |= found << at;
        seen.empty |= F::find(vector, F::Word::EMPTY) << at;
        if F::HAS_BUSY && V::CLAIMS {
            seen.busy |= F::find(vector, F::Word::BUSY) != 0;
        }
        if V::READS && found != 0 {
            seen.value = F::value(vector, found.trailing_zeros());
        }
        i += 1;
    }
    seen
}

/// Serves a key, four lanes together.
///
/// | must call | result |
/// |---|---|
/// | the lanes of `tile`, with the same arguments | in `verb`: of one that only reads in every lane, else in that of rank 0 |
///
/// # Safety
/// As the table says; `tile` is [on its own](Tile::on_its_own), and the view is of a live map of
/// format `F`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn together<F: Format, V: Verb<F>>(
    tile: Tile<TILE>,
    view: &MapView,
    key: F::Key,
    value: F::Value,
    verb: &mut V,
) {
    // SAFETY: as for `alone`; all lanes of the tile do the same: what they decide by is the same in
    // all of them, or comes from rank 0.
    unsafe {
        let mut walk = Walk::<F>::new(view, key, value);
        loop {
            let seen = read_together::<F, V>(tile, &walk.job);
            let next = if V::CLAIMS || V::LOCATES {
                let mut next = 0;
                if tile.rank() == 0 {
                    next = code(walk.step(verb, seen));
                }
                decode(tile.shfl(next, 0))
            } else {
                walk.step(verb, seen)
            };
            match next {
                Next::Done => return,
                Next::Walk => walk.go_to(view, walk.probe + 1),
                Next::Again => {}
            }
        }
    }
}

/// Reads the slab of a job with four lanes; each of them gets the whole result.
///
/// # Safety
/// All lanes of `tile` call it, which is [on its own](Tile::on_its_own), for one slab of a live map.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn read_together<F: Format, V: Verb<F>>(tile: Tile<TILE>, job: &Job<F>) -> Seen<F::Value> {
    let slab = job.slab.cast::<U64x2>().cast_const();
    // SAFETY: slabs are 64 aligned bytes, written atomically only; the tile is here.
    unsafe {
        let vector: U64x2 = atomic::load(slab.wrapping_add(tile.rank() as usize), Relaxed);
        let found = F::find(vector, job.word);
        let empty = F::find(vector, F::Word::EMPTY);
        let holds = slots_of_slab::<F>(tile, found, V::LOCATES);
        let mut value = F::Value::default();
        if V::READS {
            let own = if F::SLOTS == 1 || found & 1 != 0 {
                F::value(vector, 0)
            } else {
                F::value(vector, 1)
            };
            let holder = holds.trailing_zeros() / if V::LOCATES { F::SLOTS } else { 1 };
            value = tile.shfl(own, holder & (TILE - 1));
        }
        Seen {
            holds,
            empty: slots_of_slab::<F>(tile, empty, V::CLAIMS),
            busy: F::HAS_BUSY && V::CLAIMS && tile.any(F::find(vector, F::Word::BUSY) != 0),
            value,
        }
    }
}

/// What is next as a word that a shuffle can move.
#[inline(always)]
const fn code(next: Next) -> u32 {
    match next {
        Next::Done => 0,
        Next::Walk => 1,
        Next::Again => 2,
    }
}

/// The inverse of [`code`].
#[inline(always)]
const fn decode(code: u32) -> Next {
    match code {
        0 => Next::Done,
        1 => Next::Walk,
        _ => Next::Again,
    }
}
