//! What blocks do [natively](gpumap_simt::native), each as one thread: the verbs here, the rest in files of its own.
//!
//! | file | idea |
//! |---|---|
//! | `slots` | slots, read word by word |
//! | `chains` | chained maps |
//! | `dump` | all pairs of a table |
//! | `rebuild` | the pages of a table that grows |
//! | `pages` | pages from pairs in bins |
//! | `primitives` | scans, filters, histograms, partitions |
//!
//! # Verbs
//! One thread serves the keys of all warps of a block.
//!
//! The same [`Verb`]s over the same slots as on a GPU. What hides the latency of memory there, many warps, is
//! here groups of keys: while one is served, the slabs of the others are on their way to the cache. A key that
//! has to walk on lets the others go first, and has its next slab fetched with those of new keys.
//!
//! Slots are read word by word, the key word first. A value beside a key that was seen is one that the key had at
//! that time or later: between two pairs of one key a slot is a tombstone, and no slot gets another key. (In the
//! cell of a reserved key, too: it has one key.)

pub(crate) mod chains;
pub(crate) mod dump;
pub(crate) mod pages;
pub(crate) mod primitives;
pub(crate) mod rebuild;
pub(crate) mod slots;

use core::mem::MaybeUninit;

use gpumap_simt::kernel::By;
use gpumap_simt::native::{Block, Waits, prefetch};
use gpumap_simt::{U64x2, warp};

use crate::marks::{MOST_SLOTS, class, unpassed_by};
use crate::probe::{ENDS_HERE, Job, Next, Seen, Verb};
use crate::slot::{Format, KeyWord, Stored};
use crate::source::Source;
use crate::table::{MapView, SLAB_BYTES};

/// Keys whose slabs are fetched one right after the other. A processor holds a prefetch until its page is translated, and
/// what comes after it waits, so only prefetches that are close together are translated together.
const GROUP: usize = 16;

/// Groups in flight: while one is served, the slabs of the others arrive.
const GROUPS: usize = 2;

/// A key that is being served.
#[derive(Clone, Copy)]
struct Flight<F: Format> {
    job: Job<F>,
    /// Whether its slab is the reserved one.
    reserved: bool,
    /// The slab's number in the walk.
    probe: u32,
    /// How many slabs the walk has.
    walk: u32,
}

impl<F: Format> Flight<F> {
    /// Takes the key, which may be [narrow](MapView::place_of), to slab number `probe` of its walk.
    ///
    /// # Safety
    /// The view is of a live map, and the walk has such a slab.
    #[inline(always)]
    unsafe fn go_to(&mut self, view: &MapView, probe: u32, narrow: bool) {
        let stored = if self.reserved {
            Stored::Reserved(self.job.word)
        } else {
            Stored::Table(self.job.word)
        };
        // SAFETY: the caller's promise.
        let place = unsafe { view.place_of::<F>(stored, probe, narrow) };
        self.job.slab = place.slab;
        self.walk = place.walk;
        self.probe = probe;
    }
}

/// The places of a block's part of a batch.
struct Places<'a, S> {
    batch: &'a S,
    /// Warps whose parts have not begun, and the first place of the next of them.
    warps: u32,
    start: u64,
    /// What is left of the part at hand.
    next: u64,
    end: u64,
}

impl<'a, S> Places<'a, S> {
    fn of_block<F: Format>(batch: &'a S, block: Block) -> Self
    where
        S: Source<F>,
    {
        let warps = block.threads / warp::SIZE;
        let of_block = u64::from(warps) * u64::from(batch.per_warp());
        Self {
            batch,
            warps,
            start: u64::from(block.index) * of_block,
            next: 0,
            end: 0,
        }
    }

    /// # Safety
    /// The source is valid.
    #[inline(always)]
    unsafe fn next<F: Format>(&mut self) -> Option<u64>
    where
        S: Source<F>,
    {
        while self.next == self.end {
            if self.warps == 0 || self.start >= self.batch.places() {
                return None;
            }
            self.next = self.start;
            // SAFETY: the first place of a warp; the source is valid.
            self.end = self.start + u64::from(unsafe { self.batch.part(self.start) });
            self.start += u64::from(self.batch.per_warp());
            self.warps -= 1;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// Begins to serve the next key that the verb wants.
    ///
    /// # Safety
    /// As for [`serve`].
    #[inline(always)]
    unsafe fn take<F: Format, V: Verb<F>>(
        &mut self,
        view: &MapView,
        verb: &mut V,
    ) -> Option<Flight<F>>
    where
        S: Source<F>,
    {
        // SAFETY: places are in the batch; the rest is the caller's promise.
        unsafe {
            while let Some(index) = self.next::<F>() {
                let input = self.batch.load(index, V::TAKES);
                if !(input.live && verb.wants(index)) {
                    continue;
                }
                let (word, reserved) = match F::stored(input.key) {
                    Stored::Table(word) => (word, false),
                    Stored::Reserved(word) => (word, true),
                };
                let mut flight = Flight {
                    job: Job {
                        word,
                        value: input.value,
                        index,
                        slab: view.reserved,
                    },
                    reserved,
                    probe: 0,
                    walk: 0,
                };
                flight.go_to(view, 0, self.batch.has_narrow_keys());
                return Some(flight);
            }
        }
        None
    }

    /// Begins to serve keys where flights of a group have ended, and sends for their slabs and for those of the flights that
    /// have `walked`.
    ///
    /// # Safety
    /// As for [`serve`].
    #[inline(always)]
    unsafe fn fill<F: Format, V: Verb<F>>(
        &mut self,
        view: &MapView,
        verb: &mut V,
        flights: &mut [MaybeUninit<Flight<F>>; GROUP],
        flying: &mut u32,
        walked: u32,
    ) where
        S: Source<F>,
    {
        let mut ended = !*flying & (u32::MAX >> (32 - GROUP));
        let mut sent_for = walked;
        while ended != 0 {
            // SAFETY: passed on.
            let Some(flight) = (unsafe { self.take(view, verb) }) else {
                break;
            };
            let i = ended.trailing_zeros();
            ended &= ended - 1;
            flights[i as usize].write(flight);
            *flying |= 1 << i;
            sent_for |= 1 << i;
        }
        while sent_for != 0 {
            let i = sent_for.trailing_zeros();
            // SAFETY: written above, or in flight.
            let flight = unsafe { flights[i as usize].assume_init_ref() };
            prefetch(flight.job.slab);
            sent_for &= sent_for - 1;
        }
    }
}

/// Serves a block's part of a batch.
///
/// # Safety
/// As for [`serve_batch`](crate::probe::serve_batch), of which this is what all threads of the block do.
#[inline(always)]
pub(crate) unsafe fn serve<F: Format, S: Source<F>, V: Verb<F>>(
    view: &MapView,
    batch: &S,
    verb: &mut V,
    block: Block,
) {
    let mut places = Places::of_block::<F>(batch, block);
    let mut ring = [const { [const { MaybeUninit::<Flight<F>>::uninit() }; GROUP] }; GROUPS];
    // A bit for each key of a group that is in flight.
    let mut flying = [0_u32; GROUPS];
    // SAFETY: a flight with a bit is initialised; slabs are of the map, by `go_to`.
    unsafe {
        for (flights, flying) in ring.iter_mut().zip(&mut flying) {
            places.fill(view, verb, flights, flying, 0);
        }
        let (mut group, mut waits) = (0, Waits::default());
        while flying.iter().any(|&flying| flying != 0) {
            let (mut rest, mut walked) = (flying[group], 0);
            while rest != 0 {
                let i = rest.trailing_zeros();
                rest &= rest - 1;
                let flight = ring[group][i as usize].assume_init_mut();
                verb.resume(flight.job.index);
                let marked = flight.probe < view.marks;
                let seen = look::<F, V>(flight.job.slab, flight.job.word, marked);
                let mut next = verb.serve(&flight.job, seen);
                if next == Next::Walk {
                    if flight.probe + 1 < flight.walk {
                        flight.go_to(view, flight.probe + 1, batch.has_narrow_keys());
                        walked |= 1 << i;
                    } else {
                        next = verb.walked_off(&flight.job, flight.reserved);
                    }
                }
                match next {
                    Next::Done => flying[group] &= !(1 << i),
                    Next::Walk => {}
                    Next::Again => waits.wait(),
                }
            }
            places.fill(view, verb, &mut ring[group], &mut flying[group], walked);
            group = (group + 1) % GROUPS;
        }
    }
}

/// What the slots of a slab hold for a key. No branch depends on where in the slab the key lies, which is random.
/// `marked` if the [marks](crate::marks) of the slab hold; they are read where they decide whether a search ends.
///
/// # Safety
/// It is a slab of a live map of this format.
#[inline(always)]
unsafe fn look<F: Format, V: Verb<F>>(
    slab: *mut u8,
    word: F::Word,
    marked: bool,
) -> Seen<F::Value> {
    let mut seen = Seen {
        holds: 0,
        empty: 0,
        busy: false,
        value: F::Value::default(),
    };
    let mut held = 0;
    let mut words = [F::Word::EMPTY; MOST_SLOTS];
    let mut i = 0;
    while i < SLAB_BYTES / F::SLOT_BYTES {
        // SAFETY: a slot of the slab.
        let first = unsafe { slots::load(slab, (i * F::SLOT_BYTES) as usize) };
        let found = F::word(U64x2::new(first, 0), 0);
        words[i as usize] = found;
        seen.holds |= u32::from(found == word) << i;
        seen.empty |= u32::from(found == F::Word::EMPTY) << i;
        if F::HAS_BUSY && V::CLAIMS {
            seen.busy |= found == F::Word::BUSY;
        }
        if V::READS && F::SLOTS == 2 && found == word {
            held = first;
        }
        i += 1;
    }
    if V::SEARCHES && marked && seen.holds | seen.empty == 0 {
        let ends = unpassed_by::<F>(&words) & class::<F>(word);
        seen.empty |= u32::from(ends != 0) * ENDS_HERE;
    }
    if V::READS && seen.holds != 0 {
        let second = match F::SLOTS {
            // SAFETY: the other half of a slot of the slab.
            1 => unsafe {
                slots::load(
                    slab,
                    (seen.holds.trailing_zeros() * F::SLOT_BYTES + 8) as usize,
                )
            },
            _ => 0,
        };
        seen.value = F::value(U64x2::new(held, second), 0);
    }
    seen
}

/// How many tiles a block may take of all that the blocks of its launch take in turn: together they take all. A block that
/// took them until none is left would leave none to other threads, which come when the first block has ended.
pub(crate) fn share_of_tiles(tiles: u64) -> u64 {
    tiles.div_ceil(u64::from(gpumap_simt::thread::grid_dim_x()))
}

/// Whether the kernels of maps have no code for lanes, and so run natively wherever they run on the host. Processors without atomics of 16
/// bytes cannot run them natively.
pub(crate) const ALONE: bool = cfg!(all(
    not(feature = "lanes-on-host"),
    any(target_arch = "aarch64", target_arch = "x86_64")
));

/// How the kernels of maps run on the host.
pub(crate) const MAP_BLOCK: By = match ALONE {
    true => By::OnlyBlock,
    false => By::Block,
};

/// The native block that this thread runs.
#[inline(always)]
pub(crate) fn block() -> Block {
    #[cold]
    fn none() -> ! {
        panic!(
            "the kernels of maps run natively here: the feature `lanes-on-host` has their code for lanes"
        );
    }
    gpumap_simt::native::block().unwrap_or_else(|| none())
}

/// Whether this thread runs a native block.
#[inline(always)]
pub(crate) fn is_here() -> bool {
    gpumap_simt::native::block().is_some()
}
