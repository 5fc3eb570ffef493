//! Chained maps: their verbs, compaction, removal by predicate, statistics and dump, by blocks that take one chain after the other.
//!
//! The same [`Verb`]s as on a GPU. A key is served to its end before the next one is begun, since a verb keeps account
//! of the key at hand; meanwhile the base slabs of the next keys are on their way to the cache.

use core::mem::MaybeUninit;
use core::ptr::{copy_nonoverlapping, write_bytes};

use gpumap_simt::atomic::{self, Relaxed};
use gpumap_simt::native::{Block, Waits, prefetch};
use gpumap_simt::{U64x2, warp};

use super::slots;
use crate::chained::allocator::{Pool, Resident, UNITS_LOG2};
use crate::chained::queue::{Job, Next, Seen, Verb, put_behind};
use crate::chained::retain::RetainChainsArgs;
use crate::chained::retrieve_all::{DumpChainsArgs, SLABS, blocks_of_bases};
use crate::chained::slab::{LANES, SLAB_BYTES, Slab, SlabIndex, slots as slots_of};
use crate::chained::stats::{ChainStatsArgs, figure};
use crate::chained::view::{ChainedView, bases};
use crate::count::Counters;
use crate::retrieve_all::packed::Outputs;
use crate::slot::{Bits, Format, KeyWord, RESERVED_WORDS};
use crate::source::Source;

/// Keys whose base slabs are on their way.
const AHEAD: u64 = 16;

/// Has both cache lines of a slab fetched.
#[inline(always)]
fn fetch(slab: Slab) {
    prefetch(slab.slots());
    prefetch(slab.slots().wrapping_add(SLAB_BYTES as usize / 2));
}

/// Serves a block's part of a batch.
///
/// # Safety
/// As for [`serve_batch`](crate::chained::queue::serve_batch), of which this is what all threads of the block do.
pub(crate) unsafe fn serve_batch<F: Format, S: Source<F>, V: Verb<F>>(
    view: &ChainedView,
    batch: &S,
    verb: &mut V,
    block: Block,
) {
    let warps = u64::from(block.threads / warp::SIZE);
    let of_block = warps * u64::from(batch.per_warp());
    let begin = u64::from(block.index) * of_block;
    let end = (begin + of_block).min(batch.places());
    let mut resident = Resident::new(&view.pool, u64::from(block.index) * warps);
    let mut ring = [const { MaybeUninit::<(Job<F>, bool)>::uninit() }; AHEAD as usize];
    // Sends for the base slab of the key at place `i`.
    let begin_with = |i: u64| {
        // SAFETY: the source has a place in front of `end`.
        let input = unsafe { batch.load(i, V::STORES) };
        let job = Job::new(view, input.key, input.value, i);
        fetch(job.home);
        (job, input.live)
    };
    for i in begin..end.min(begin + AHEAD) {
        ring[(i % AHEAD) as usize].write(begin_with(i));
    }
    for i in begin..end {
        let place = &mut ring[(i % AHEAD) as usize];
        // SAFETY: written when place `i` was sent for; the rest is the caller's promise.
        unsafe {
            let (job, is_live) = *place.assume_init_ref();
            if i + AHEAD < end {
                place.write(begin_with(i + AHEAD));
            }
            if is_live && verb.begin(i) {
                serve(view, &mut resident, &job, verb);
            }
        }
    }
}

/// Serves one key.
///
/// # Safety
/// As for [`serve`](crate::chained::queue::serve), of which this is what a warp does for one lane.
#[inline(always)]
unsafe fn serve<F: Format, V: Verb<F>>(
    view: &ChainedView,
    resident: &mut Resident,
    job: &Job<F>,
    verb: &mut V,
) {
    let mut slab = job.home;
    let mut slabs_left = view.pool.units();
    let mut waits = Waits::default();
    // SAFETY: slabs of the key's chain in a live map.
    unsafe {
        loop {
            let (seen, link) = look::<F, V>(slab, job.word);
            verb.share_alone(slab, seen.holds);
            match verb.serve(job, seen) {
                Next::Done => return,
                Next::Again => waits.wait(),
                Next::Walk if link.is_some() && slabs_left != 0 => {
                    slab = view.pool.slab(link);
                    fetch(slab);
                    slabs_left -= 1;
                }
                Next::Walk if V::STORES && !link.is_some() && verb.grows() => {
                    let unit = resident.allocate_alone(&view.pool);
                    let link = if unit.is_some() {
                        put_behind(&view.pool, slab, unit)
                    } else {
                        slab.next()
                    };
                    if unit.is_some() && link != unit {
                        // It was given back.
                        resident.look_again();
                    }
                    if !link.is_some() {
                        return verb.walked_off(job);
                    }
                    slab = view.pool.slab(link);
                }
                Next::Walk => return verb.walked_off(job),
            }
        }
    }
}

/// What the slots of a slab hold for a key, and the link.
///
/// # Safety
/// It is a slab of a live map of this format.
#[inline(always)]
unsafe fn look<F: Format, V: Verb<F>>(slab: Slab, word: F::Word) -> (Seen<F::Value>, SlabIndex) {
    let mut seen = Seen {
        slab,
        holds: 0,
        empty: 0,
        busy: false,
        value: F::Value::default(),
    };
    // SAFETY: slots of the slab, the key word first and the link last.
    unsafe {
        for i in 0..slots_of::<F>() {
            let first = slots::load(slab.slots(), (i * F::SLOT_BYTES) as usize);
            let found = F::word(U64x2::new(first, 0), 0);
            seen.holds |= u32::from(found == word) << i;
            seen.empty |= u32::from(found == F::Word::EMPTY) << i;
            if F::HAS_BUSY && V::WAITS {
                seen.busy |= found == F::Word::BUSY;
            }
        }
        if V::READS && seen.holds != 0 {
            let i = seen.holds.trailing_zeros() as usize;
            seen.value = slots::read::<F>(slab.slots(), i).1;
        }
        (seen, slab.next())
    }
}

/// The chains of a block whose tiles would have one each.
fn chains_of(view: &ChainedView, block: Block) -> core::ops::Range<u64> {
    let of_block = u64::from(block.threads / LANES);
    let first = u64::from(block.index) * of_block;
    first..(first + of_block).min(bases(view.buckets))
}

/// Compacts the chains of a block. Returns how many slabs were given back.
///
/// # Safety
/// As for [`compact`](crate::chained::compact::compact), of which this is what all tiles of the block do.
pub(crate) unsafe fn compact<F: Format>(view: &ChainedView, block: Block) -> u32 {
    let mut freed = 0;
    for chain in chains_of(view, block) {
        // SAFETY: passed on.
        freed += unsafe { compact_chain::<F>(view, view.base(chain)) };
    }
    freed
}

/// # Safety
/// As for [`compact`]; the chain begins there.
unsafe fn compact_chain<F: Format>(view: &ChainedView, base: Slab) -> u32 {
    let (mut from, mut to, mut used) = (base, base, 0);
    let mut slabs_left = view.pool.units();
    // SAFETY: slabs of a chain that nothing else uses. A pair goes to a slot that was read before, or is its own.
    unsafe {
        loop {
            let link = from.next();
            for i in 0..slots_of::<F>() {
                let (word, value) = F::read(from.slots(), u64::from(i));
                if !word.is_key() {
                    continue;
                }
                if used == slots_of::<F>() {
                    (to, used) = (view.pool.slab(to.next()), 0);
                }
                F::write(to.slots(), u64::from(used), word, value);
                used += 1;
            }
            if !link.is_some() || slabs_left == 0 {
                break;
            }
            slabs_left -= 1;
            from = view.pool.slab(link);
        }
        let mut index = to.next();
        let kept = (used * F::SLOT_BYTES) as usize;
        write_bytes(to.slots().add(kept), 0xff, SLAB_BYTES as usize - kept);
        let mut freed = 0;
        let mut slabs_left = view.pool.units();
        while index.is_some() && slabs_left != 0 {
            let slab = view.pool.slab(index);
            let next = slab.next();
            write_bytes(slab.slots(), 0xff, SLAB_BYTES as usize);
            view.pool.free(index);
            freed += 1;
            index = next;
            slabs_left -= 1;
        }
        freed
    }
}

/// Removes the pairs of the chains of a block that predicates do not hold for.
///
/// # Safety
/// As for [`retain`](crate::chained::retain::retain), of which this is what all tiles of the block do.
pub(crate) unsafe fn retain<F: Format>(args: &RetainChainsArgs, block: Block) {
    let view = &args.view;
    let mut removed = 0;
    // SAFETY: slabs of chains of a live map, which nothing else uses.
    unsafe {
        for chain in chains_of(view, block) {
            each_slab(view, view.base(chain), |slab| {
                for i in 0..slots_of::<F>() {
                    let (word, value) = slots::read::<F>(slab.slots(), i as usize);
                    if word.is_key() {
                        let key = view.key::<F>(chain, word).to_u64();
                        if !args.stay.holds(key, value.to_u64()) {
                            removed += u32::from(F::bury(slab.slot::<F>(i), word));
                        }
                    }
                }
            });
        }
        args.removed.add_from_block(removed);
    }
}

/// Counts what the chains of a block hold.
///
/// # Safety
/// As for [`stats`](crate::chained::stats::stats), of which this is what all tiles of the block do.
pub(crate) unsafe fn stats<F: Format>(args: &ChainStatsArgs, block: Block) {
    let view = &args.view;
    let mut figures = [0u64; figure::COUNT];
    // SAFETY: slabs of chains of a live map.
    unsafe {
        for chain in chains_of(view, block) {
            let mut slabs = 0;
            each_slab(view, view.base(chain), |slab| {
                slabs += 1;
                for i in 0..slots_of::<F>() {
                    let (word, _) = slots::read::<F>(slab.slots(), i as usize);
                    figures[figure::PAIRS] += u64::from(word.is_key());
                    figures[figure::TOMBSTONES] += u64::from(word == F::Word::TOMBSTONE);
                }
            });
            figures[figure::LINKED] += slabs - 1;
            figures[figure::LONGEST] = figures[figure::LONGEST].max(slabs);
        }
        for (i, &figure) in figures.iter().enumerate() {
            let place = args.figures.add(i);
            if i == figure::LONGEST {
                atomic::fetch_max(place, figure, Relaxed);
            } else {
                atomic::fetch_add(place, figure, Relaxed);
            }
        }
    }
}

/// Calls `f` for each slab of a chain.
///
/// # Safety
/// The chain is one of a live map.
unsafe fn each_slab(view: &ChainedView, base: Slab, mut f: impl FnMut(Slab)) {
    let mut slab = base;
    let mut slabs_left = view.pool.units();
    loop {
        f(slab);
        // SAFETY: the caller's promise.
        unsafe {
            let link = slab.next();
            if !link.is_some() || slabs_left == 0 {
                return;
            }
            slab = view.pool.slab(link);
        }
        slabs_left -= 1;
    }
}

/// The most pairs that are on their way to the outputs.
const PACKED: usize = 512;

/// Pairs on their way to the outputs.
struct Packed<F: Format> {
    out: Outputs<F::Key, F::Value>,
    pairs: Counters,
    keys: [MaybeUninit<F::Key>; PACKED],
    values: [MaybeUninit<F::Value>; PACKED],
    len: usize,
}

impl<F: Format> Packed<F> {
    /// # Safety
    /// There is room in the outputs for what they say, and the counter is that of the launch.
    unsafe fn push(&mut self, key: F::Key, value: F::Value) {
        if self.len == PACKED {
            // SAFETY: passed on.
            unsafe { self.flush() };
        }
        self.keys[self.len].write(key);
        self.values[self.len].write(value);
        self.len += 1;
    }

    /// Takes a part of the outputs, and copies the pairs there as far as there is room.
    ///
    /// # Safety
    /// As for [`push`](Self::push).
    unsafe fn flush(&mut self) {
        if self.len == 0 {
            return;
        }
        // SAFETY: so many have been pushed; places of the outputs are given once.
        unsafe {
            let begin = atomic::fetch_add(self.pairs.words, self.len as u64, Relaxed);
            let len = (self.len as u64).min(self.out.room.saturating_sub(begin)) as usize;
            let (keys, values) = (self.keys.as_ptr().cast(), self.values.as_ptr().cast());
            copy_nonoverlapping(keys, self.out.keys.wrapping_add(begin as usize), len);
            copy_nonoverlapping(values, self.out.values.wrapping_add(begin as usize), len);
        }
        self.len = 0;
    }

    /// Pushes the pairs of a slab, aliases left out.
    ///
    /// # Safety
    /// As for [`push`](Self::push); it is a slab of a live map.
    unsafe fn push_slab(&mut self, slab: Slab) {
        for i in 0..slots_of::<F>() {
            // SAFETY: a slot of the slab.
            unsafe {
                let (word, value) = slots::read::<F>(slab.slots(), i as usize);
                if word.is_key() && word.to_u64() >= RESERVED_WORDS {
                    self.push(F::key(word), value);
                }
            }
        }
    }

    /// Pushes the pairs whose words are aliases, or might be: those in the chains of few keys.
    ///
    /// # Safety
    /// As for [`push`](Self::push); the map is live.
    unsafe fn push_aliases(&mut self, view: &ChainedView) {
        for alias in 0..RESERVED_WORDS {
            let alias = F::Word::from_u64(alias);
            for key in [F::key(alias), F::reserved_key(alias)] {
                let (_, base) = view.home::<F>(key);
                // SAFETY: passed on.
                unsafe {
                    each_slab(view, base, |slab| {
                        for i in 0..slots_of::<F>() {
                            let (word, value) = slots::read::<F>(slab.slots(), i as usize);
                            if word == alias {
                                self.push(key, value);
                            }
                        }
                    });
                }
            }
        }
    }
}

/// # Safety
/// See [`dump`](crate::chained::retrieve_all::dump), of which this is what all threads of the block do.
pub(crate) unsafe fn dump<F: Format>(args: &DumpChainsArgs<F::Key, F::Value>, block: Block) {
    let view = &args.view;
    let mut packed = Packed::<F> {
        out: Outputs {
            keys: args.keys,
            values: args.values,
            room: args.room,
        },
        pairs: args.pairs,
        keys: [const { MaybeUninit::uninit() }; PACKED],
        values: [const { MaybeUninit::uninit() }; PACKED],
        len: 0,
    };
    let of_bases = blocks_of_bases(view);
    let block = args.first + u64::from(block.index);
    // SAFETY: slabs of a live map; the outputs and the counter are those of the launch.
    unsafe {
        if block < of_bases {
            let first = block * u64::from(SLABS);
            let end = (first + u64::from(SLABS)).min(u64::from(view.buckets));
            for base in first..end {
                packed.push_slab(view.base(base));
            }
        } else if block - of_bases < u64::from(view.pool.blocks()) {
            push_taken(
                &mut packed,
                &view.pool,
                (block - of_bases) as u32,
                args.units,
            );
        } else {
            packed.push_aliases(view);
        }
        packed.flush();
        args.pairs.block_is_done();
    }
}

/// Pushes the pairs of the slabs of a memory block that are taken.
///
/// # Safety
/// As for [`dump`]; the pool has the memory block.
unsafe fn push_taken<F: Format>(
    packed: &mut Packed<F>,
    pool: &Pool,
    block: u32,
    units: *const u64,
) {
    for lane in 0..warp::SIZE {
        // SAFETY: a word of the block's bitmap, and units of it that exist.
        unsafe {
            let mut taken = pool.taken(block, lane, units);
            while taken != 0 {
                let unit = u64::from(lane * u32::BITS + taken.trailing_zeros());
                let index = SlabIndex::new(u64::from(block) << UNITS_LOG2 | unit);
                packed.push_slab(pool.slab(index));
                taken &= taken - 1;
            }
        }
    }
}
