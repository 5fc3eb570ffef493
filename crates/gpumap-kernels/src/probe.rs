//! The machine that every batch verb runs on: tiles of four lanes, with lane refill.
//!
//! Every lane of a warp owns one key. In each round the warp reads 32 slabs, the home slab of
//! each lane's key or the one its walk has reached: a tile of four lanes reads a slab with one
//! load per lane (16 bytes, or what the verb uses of them) and serves its four keys one after the other, so eight slabs are in
//! flight per instruction and 32 per round. Ballots show the owner which slots match or are
//! empty; then the owner acts. A lane whose key is finished takes the warp's next key **at
//! once**, from two register buffers that are loaded ahead of need, so that no lane idles while
//! another walks on. (Warp-cooperative work sharing is from Ashkiani, Farach-Colton and Owens'
//! slab hash, 2018; the refill was found 9 to 24 % faster than draining a work queue.)
//!
//! A warp works on `per_warp` consecutive inputs of a [`Source`]. Every loop ends: a walk has a
//! bounded number of slabs, and a slab is read again only when another lane is about to finish
//! writing there.

use crate::marks::{class, unpassed};
use crate::slot::{Format, KeyWord, Stored};
use crate::source::{Input, Source};
use crate::table::MapView;
use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::mask::LaneMask;
use gpumap_simt::tile::Tile;
use gpumap_simt::{U64x2, thread, warp};

/// Lanes per tile: four vectors of 16 bytes are a slab.
pub const TILE: u32 = 4;

/// What the owner of a key gets of the slab that was read for it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<V> {
    /// The slot that holds the key, bit `i` for slot `i` of the slab, if [`Verb::LOCATES`]; else
    /// any bit says that there is one.
    pub holds: u32,
    /// The empty slots, likewise, if [`Verb::CLAIMS`], and [`ENDS_HERE`]; else any bit says that there are
    /// some, or that the key is not farther on for another reason.
    pub empty: u32,
    /// Whether a slot is busy, if [`Verb::CLAIMS`].
    pub busy: bool,
    /// The value beside the key, if [`Verb::READS`] and the slab holds it.
    pub value: V,
}

/// The bit of [`Seen::empty`] that is no slot: [marks](crate::marks) say that the key is not farther on.
pub const ENDS_HERE: u32 = 1 << 31;

/// One lane's key while it is being served.
#[derive(Clone, Copy, Debug)]
pub struct Job<F: Format> {
    /// The word that stands for the key in a slot.
    pub word: F::Word,
    /// The value that came with the key, if [`Verb::TAKES`].
    pub value: F::Value,
    /// Its place in the batch.
    pub index: u64,
    /// The slab that was read.
    pub slab: *mut u8,
}

impl<F: Format> Job<F> {
    /// The lowest slot of a set of the slab's slots.
    #[inline(always)]
    pub fn slot(&self, slots: u32) -> *mut u8 {
        self.slab
            .wrapping_add((slots.trailing_zeros() * F::SLOT_BYTES) as usize)
    }
}

/// What is next for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is finished.
    Done,
    /// Read the next slab of its walk.
    Walk,
    /// Read the same slab again.
    Again,
}

/// What a verb does with one key and one slab.
pub trait Verb<F: Format> {
    /// Whether a value comes with each key.
    const TAKES: bool;
    /// Whether it wants the value that is stored.
    const READS: bool;
    /// Whether it wants the exact slot that holds the key, to write to it.
    const LOCATES: bool;
    /// Whether it wants the exact empty slots, to put pairs into them, and the busy ones.
    const CLAIMS: bool;
    /// Whether [marks](crate::marks) are looked at: its walks end where they say that the key is not
    /// farther on.
    const SEARCHES: bool = false;

    /// Whether the key at this place of the batch is to be served at all; if so, it is the lane's next.
    ///
    /// # Safety
    /// `index` is in the batch, and what the verb's pointers lead to is valid for it.
    #[inline(always)]
    unsafe fn wants(&mut self, _index: u64) -> bool {
        true
    }

    /// The key at this place of the batch, one of several in flight, is about to be served: what the verb keeps of
    /// the key at hand is to be of this one. A lane of a GPU has one key in flight, and does not call it.
    ///
    /// # Safety
    /// As for [`wants`](Self::wants), which has said yes.
    #[inline(always)]
    unsafe fn resume(&mut self, _index: u64) {}

    /// Serves the key with what was seen of one slab.
    ///
    /// # Safety
    /// `job.slab` is a slab of a live map, the one that was read.
    unsafe fn serve(&mut self, job: &Job<F>, seen: Seen<F::Value>) -> Next;

    /// The walk of this key has ended, at `job.slab`. `cell` says that this is the
    /// reserved slab of the key.
    ///
    /// # Safety
    /// As for [`serve`](Self::serve).
    unsafe fn walked_off(&mut self, job: &Job<F>, cell: bool) -> Next;
}

/// Serves the warp's part of a batch of inputs.
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
    view: &MapView,
    batch: &S,
    verb: &mut V,
) {
    #[cfg(not(target_arch = "nvptx64"))]
    if crate::native::ALONE || crate::native::is_here() {
        let block = crate::native::block();
        // SAFETY: passed on.
        return unsafe { crate::native::serve(view, batch, verb, block) };
    }
    let lane = warp::lane_id();
    let tile = Tile::<TILE>::converged();
    let start = (thread::index() >> 5) * u64::from(batch.per_warp());
    if start >= batch.places() {
        return; // the same for all lanes of the warp
    }
    // SAFETY: the first place of this warp; the source is valid.
    let in_part = unsafe { batch.part(start) };

    // SAFETY: the whole warp is here in each collective below: the loop's exits are decided by
    // ballots, and the code between them reconverges. The batch is not empty.
    unsafe {
        let mut near = ahead::<F, S, V>(batch, start);
        let mut far = ahead::<F, S, V>(batch, start + 32);
        // Inputs of the part in front of `near`, and those of `near` and `far` that are taken.
        let mut base = 0u32;
        let mut taken = 0u32;

        let mut busy = false;
        let mut reserved = true;
        let mut probe = 0u32;
        // Whether the walk has no slab after this one.
        let mut last = true;
        let mut moved = false;
        // Lanes without a key read a slab too; the reserved one is always there.
        let mut job = Job::<F> {
            word: F::Word::EMPTY,
            value: F::Value::default(),
            index: 0,
            slab: view.reserved,
        };

        loop {
            // Refill: idle lanes take the next inputs, in lane order.
            let idle = warp::warp_vote_ballot(LaneMask::FULL, !busy);
            if !idle.is_empty() && base + taken < in_part {
                let mine = taken + idle.rank_of(lane);
                let from_near = near.of_lane::<S>(mine & 31, V::TAKES);
                let from_far = far.of_lane::<S>(mine & 31, V::TAKES);
                let input = base + mine;
                if !busy && input < in_part {
                    let next = if mine < 32 { from_near } else { from_far };
                    job.index = start + u64::from(input);
                    if next.live && verb.wants(job.index) {
                        (job.word, reserved) = match F::stored(next.key) {
                            Stored::Table(word) => (word, false),
                            Stored::Reserved(word) => (word, true),
                        };
                        job.value = next.value;
                        probe = 0;
                        busy = true;
                        moved = true;
                    }
                }
                taken += idle.count();
                if taken >= 32 {
                    taken -= 32;
                    base += 32;
                    near = far;
                    if base + 32 < in_part {
                        far = ahead::<F, S, V>(batch, start + u64::from(base) + 32);
                    }
                }
            }
            if warp::warp_vote_ballot(LaneMask::FULL, busy).is_empty() {
                // No key in flight. There may be inputs left all the same, if some were left out.
                if base + taken >= in_part {
                    break;
                }
                continue;
            }
            if moved {
                // Not kept: that would be the word twice.
                let stored = if reserved {
                    Stored::Reserved(job.word)
                } else {
                    Stored::Table(job.word)
                };
                let place = view.place_of::<F>(stored, probe, batch.has_narrow_keys());
                job.slab = place.slab;
                last = probe + 1 >= place.walk;
                moved = false;
            }

            let seen = read_slabs::<F, V>(tile, &job, view.marks, probe);
            if busy {
                match verb.serve(&job, seen) {
                    Next::Done => busy = false,
                    Next::Walk if last => busy = verb.walked_off(&job, reserved) != Next::Done,
                    Next::Walk => {
                        probe += 1;
                        moved = true;
                    }
                    Next::Again => {}
                }
            }
        }
    }
}

/// This lane's input of the 32 that begin at `base`; the last of all where they end.
///
/// # Safety
/// The source is valid and not empty.
#[inline(always)]
unsafe fn ahead<F: Format, S: Source<F>, V: Verb<F>>(batch: &S, base: u64) -> Input<F> {
    let i = (base + u64::from(warp::lane_id())).min(batch.places() - 1);
    // SAFETY: below the length.
    unsafe { batch.load(i, V::TAKES) }
}

/// Reads the slabs of the tile's four keys and gives each owner what is in its own. The slab is
/// number `probe` of the key's walk; `marks` are those of the view.
///
/// # Safety
/// The whole warp calls it; `job.slab` is a slab of a live map in every lane.
#[inline(always)]
unsafe fn read_slabs<F: Format, V: Verb<F>>(
    tile: Tile<TILE>,
    job: &Job<F>,
    marks: u32,
    probe: u32,
) -> Seen<F::Value> {
    const N: usize = TILE as usize;
    let mut vectors = [U64x2::default(); N];
    let mut words = [job.word; N];
    // None, where marks do not hold.
    let class = class::<F>(job.word) * u32::from(probe < marks);
    let mut seen = Seen {
        holds: 0,
        empty: 0,
        busy: false,
        value: F::Value::default(),
    };
    // SAFETY: the whole warp is here; slabs are 64 aligned bytes, written atomically only.
    unsafe {
        // All four loads are issued before the first is used.
        let mut r = 0;
        while r < N {
            words[r] = tile.shfl(job.word, r as u32);
            let slab = tile.shfl(job.slab as u64, r as u32) as *const U64x2;
            vectors[r] = atomic::load(slab.wrapping_add(tile.rank() as usize), Relaxed);
            r += 1;
        }
        let mut r = 0;
        while r < N {
            let vector = vectors[r];
            let mine = tile.rank() == r as u32;
            let found = F::find(vector, words[r]);
            let empty = F::find(vector, F::Word::EMPTY);
            let holds = slots_of_slab::<F>(tile, found, V::LOCATES);
            let mut empty = slots_of_slab::<F>(tile, empty, V::CLAIMS);
            if V::SEARCHES {
                // Always, and without a branch on whether they hold: that costs more than they do.
                let ends = unpassed::<F>(tile, vector) & class;
                empty |= if V::CLAIMS {
                    u32::from(ends != 0) * ENDS_HERE
                } else {
                    ends
                };
            }
            let busy = F::HAS_BUSY && V::CLAIMS && tile.any(F::find(vector, F::Word::BUSY) != 0);
            if V::READS {
                let own = if F::SLOTS == 1 || found & 1 != 0 {
                    F::value(vector, 0)
                } else {
                    F::value(vector, 1)
                };
                let holder = holds.trailing_zeros() / if V::LOCATES { F::SLOTS } else { 1 };
                let value = tile.shfl(own, holder & (TILE - 1));
                if mine {
                    seen.value = value;
                }
            }
            if mine {
                seen.holds = holds;
                seen.empty = empty;
                seen.busy = busy;
            }
            r += 1;
        }
    }
    seen
}

/// From the slots of each lane's vector to the slots of the slab; if not `exact`, to the lanes
/// that have any.
///
/// # Safety
/// The lanes that the tile's collectives wait for call it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn slots_of_slab<F: Format>(
    tile: Tile<TILE>,
    of_vector: u32,
    exact: bool,
) -> u32 {
    // SAFETY: all of them are here.
    unsafe {
        if F::SLOTS == 1 || !exact {
            tile.ballot(of_vector != 0).bits()
        } else {
            let even = tile.ballot(of_vector & 1 != 0).bits();
            let odd = tile.ballot(of_vector & 2 != 0).bits();
            spread(even) | spread(odd) << 1
        }
    }
}

/// Bits 0 to 3 to bits 0, 2, 4, 6.
#[inline(always)]
const fn spread(bits: u32) -> u32 {
    bits & 1 | (bits & 2) << 1 | (bits & 4) << 2 | (bits & 8) << 3
}
