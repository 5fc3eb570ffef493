//! Chains that get a slab: units of the allocator's bitmap, and the link by CAS.
//!
//! What is modelled by hand is the work queue of a warp (`look` and `serve` of `chained/queue.rs`, `take`
//! of `chained/allocator.rs`), for a warp of one lane: what a slab shows, the verb's decision, and the
//! growth of the chain. The verbs, the slots, the bitmap and the link are the real ones.

use std::collections::HashMap;
use std::marker::PhantomData;

use gpumap_kernels::chained::allocator::{Pool, Resident, SuperBlock};
use gpumap_kernels::chained::answer::{Held, Outcome};
use gpumap_kernels::chained::queue::{Job, Next, Seen, Verb, put_behind};
use gpumap_kernels::chained::slab::{LANES, SLAB_BYTES, Slab, SlabIndex, is_slot, link_in, slots};
use gpumap_kernels::chained::verbs::{Get, Store, Tally};
use gpumap_kernels::chained::view::ChainedView;
use gpumap_kernels::slot::{Bits, Format, KeyWord, Packed, Split, Wide};
use gpumap_loom::{Fault, Units, explore_on};
use loom::thread;

/// Vectors of 16 bytes in a slab.
const VECTORS: usize = SLAB_BYTES as usize / 16;
/// Units that the pool has memory for.
const UNITS: usize = 3;
/// Words of the bitmap of a memory block.
const WORDS: usize = 32;

type Bytes = [u128; VECTORS];

/// How a unit is linked after a slab.
type PutBehind = unsafe fn(&Pool, Slab, SlabIndex) -> SlabIndex;

/// One bucket, whose base slab is full, and the bases of the reserved keys.
struct Chain<F> {
    memory: *mut Memory,
    _format: PhantomData<F>,
}

#[repr(align(16))]
struct Memory {
    bases: [Bytes; 4],
    units: [Bytes; UNITS],
    bitmap: [u32; WORDS],
    directory: SuperBlock,
}

impl<F> Drop for Chain<F> {
    fn drop(&mut self) {
        // SAFETY: it is from a box, and the threads of the model are gone.
        drop(unsafe { Box::from_raw(self.memory) });
    }
}

impl<F: Format> Chain<F> {
    /// With so many free units.
    fn new(free: u32) -> (Self, Units) {
        let memory = Box::into_raw(Box::new(Memory {
            bases: [[!0; VECTORS]; 4],
            units: [[!0; VECTORS]; UNITS],
            bitmap: [!0; WORDS],
            directory: SuperBlock {
                slabs: std::ptr::null_mut(),
                bitmaps: std::ptr::null_mut(),
            },
        }));
        let mut units = Units::default();
        // SAFETY: its own memory.
        unsafe {
            (*memory).directory.slabs = (&raw mut (*memory).units).cast();
            (*memory).directory.bitmaps = (&raw mut (*memory).bitmap).cast();
            // The first free unit is not number 0, which an index of zeros would hit by chance.
            (*memory).bitmap[0] = !0 << 3 | !(!0 << (3 - free));
            for i in 0..slots::<F>() {
                let filler = F::Word::from_u64(0x7000 + u64::from(i));
                F::write(
                    (&raw mut (*memory).bases).cast(),
                    i.into(),
                    filler,
                    F::Value::from_u64(0),
                );
            }
            // The link; the first slots of a new slab, and its link; the bitmap's first words.
            let vectors = |slab: *mut Bytes| slab.cast::<u128>();
            units.add(vectors(&raw mut (*memory).bases[0]).add(VECTORS - 1), 1);
            for i in 0..UNITS {
                let unit = vectors(&raw mut (*memory).units[i]);
                units.add(unit, 2);
                units.add(unit.add(VECTORS - 1), 1);
            }
            units.add((&raw mut (*memory).bitmap).cast::<u128>(), 1);
        }
        let chain = Self {
            memory,
            _format: PhantomData,
        };
        (chain, units)
    }

    fn view(&self) -> ChainedView {
        ChainedView {
            // SAFETY: its own memory.
            bases: unsafe { &raw mut (*self.memory).bases }.cast(),
            pool: Pool {
                // SAFETY: as above.
                super_blocks: unsafe { &raw const (*self.memory).directory },
                count: 1,
                blocks_log2: 0,
            },
            seed: 0,
            buckets: 1,
        }
    }

    /// The pairs after the base slab, and how many slabs those are, when all threads are done.
    fn pairs(&self) -> (HashMap<u64, u64>, u32) {
        let (mut pairs, mut linked) = (HashMap::new(), 0);
        let memory = self.memory.cast_const();
        // SAFETY: its own memory, and all threads are done.
        let link = |slab: *const Bytes| unsafe { (*slab)[VECTORS - 1] >> 64 } as u64;
        // SAFETY: as above.
        let mut next = link(unsafe { &raw const (*memory).bases[0] });
        while next != !0 {
            linked += 1;
            // SAFETY: as above.
            let slab = unsafe { &raw const (*memory).units[next as usize] };
            for i in 0..slots::<F>() {
                // SAFETY: as above, a slot of the slab.
                let (word, value) = unsafe { F::read(slab.cast(), i.into()) };
                assert!(!F::HAS_BUSY || word != F::Word::BUSY);
                if word.is_key() {
                    let before = pairs.insert(F::key(word).to_u64(), value.to_u64());
                    assert!(before.is_none(), "a key is stored twice");
                }
            }
            next = link(slab);
        }
        (pairs, linked)
    }

    /// Units that are taken.
    fn taken(&self, free: u32) -> u32 {
        // SAFETY: its own memory, and all threads are done.
        let now = unsafe { (*self.memory).bitmap[0] };
        free - now.count_zeros()
    }
}

/// What a warp of one lane sees of a slab.
unsafe fn look<F: Format, V: Verb<F>>(slab: Slab, word: F::Word) -> (Seen<F::Value>, SlabIndex) {
    let mut seen = Seen {
        slab,
        holds: 0,
        empty: 0,
        busy: false,
        value: F::Value::default(),
    };
    let mut link = SlabIndex::NONE;
    for rank in 0..LANES {
        // SAFETY: the slab is one of the chain.
        let vector = unsafe { slab.load(rank) };
        for i in (0..F::SLOTS).filter(|&i| is_slot::<F>(rank, i)) {
            let slot = rank * F::SLOTS + i;
            let there = F::word(vector, i);
            if there == word && seen.holds == 0 {
                seen.value = F::value(vector, i);
            }
            seen.holds |= u32::from(there == word) << slot;
            seen.empty |= u32::from(there == F::Word::EMPTY) << slot;
            seen.busy |= F::HAS_BUSY && V::STORES && there == F::Word::BUSY;
        }
        link = link_in(vector);
    }
    (seen, link)
}

/// Serves a key as a warp of one lane.
unsafe fn serve<F: Format, V: Verb<F>>(
    view: &ChainedView,
    (key, value): (u64, u64),
    verb: &mut V,
    put_behind: PutBehind,
) {
    let (key, value) = (F::Key::from_u64(key), F::Value::from_u64(value));
    let mut resident = Resident::new(&view.pool, 0);
    let job = Job::<F>::new(view, key, value, 0);
    let (word, mut slab) = view.home::<F>(key);
    // SAFETY: the chain is there as long as the model runs.
    unsafe {
        loop {
            let (seen, link) = look::<F, V>(slab, word);
            match verb.serve(&job, seen) {
                Next::Done => return,
                Next::Again => {}
                Next::Walk if link.is_some() => slab = view.pool.slab(link),
                Next::Walk if V::STORES => {
                    let unit = take(&view.pool, &mut resident);
                    let link = if unit.is_some() {
                        put_behind(&view.pool, slab, unit)
                    } else {
                        slab.next()
                    };
                    if link.is_some() {
                        slab = view.pool.slab(link);
                    } else {
                        return verb.walked_off(&job);
                    }
                }
                Next::Walk => return verb.walked_off(&job),
            }
        }
    }
}

/// Takes a unit of the one memory block.
unsafe fn take(pool: &Pool, resident: &mut Resident) -> SlabIndex {
    // SAFETY: the pool has one block.
    unsafe {
        while resident.look(pool, 0) {
            let unit = resident.mark(pool, 0);
            if unit.is_some() {
                return unit;
            }
        }
    }
    SlabIndex::NONE
}

/// Inserts a key unless it is there; says what became of it.
fn insert<F: Format>(view: &ChainedView, pair: (u64, u64), put_behind: PutBehind) -> Outcome {
    let mut verb = Store::<_, true> {
        report: Held::new(),
        tally: Tally::default(),
    };
    // SAFETY: the chain is there as long as the model runs.
    unsafe { serve::<F, _>(view, pair, &mut verb, put_behind) };
    verb.report.outcome
}

/// The value of a key.
fn get<F: Format>(view: &ChainedView, key: u64) -> Option<u64> {
    let mut verb = Get {
        report: Held::new(),
    };
    // SAFETY: as above.
    unsafe { serve::<F, _>(view, (key, 0), &mut verb, put_behind) };
    (verb.report.outcome == Outcome::Present).then(|| verb.report.value.to_u64())
}

/// Runs a model on a chain, and with so many free units.
fn on_chain<F: Format + Send + Sync>(
    free: u32,
    fault: Fault,
    put_behind: PutBehind,
    model: fn(&Chain<F>, ChainedView, PutBehind),
) {
    explore_on(
        2,
        fault,
        move || Chain::<F>::new(free),
        move |chain| {
            model(chain, chain.view(), put_behind);
        },
    );
}

/// Two keys reach the end of a full chain: one slab is linked, the other unit is given back.
fn two_keys<F: Format>(chain: &Chain<F>, view: ChainedView, put_behind: PutBehind) {
    let other = thread::spawn(move || insert::<F>(&view, (6, 60), put_behind));
    assert_eq!(insert::<F>(&view, (5, 50), put_behind), Outcome::Stored);
    assert_eq!(other.join().unwrap(), Outcome::Stored);
    let (pairs, linked) = chain.pairs();
    assert_eq!(pairs, [(5, 50), (6, 60)].into(), "a pair was lost");
    assert_eq!((linked, chain.taken(2)), (1, 1), "a unit was lost");
}

/// The same with one unit: the lane without one finds the other's linked, or returns that there is
/// no room.
fn one_unit<F: Format>(chain: &Chain<F>, view: ChainedView, put_behind: PutBehind) {
    let other = thread::spawn(move || insert::<F>(&view, (6, 60), put_behind));
    let mine = insert::<F>(&view, (5, 50), put_behind);
    let theirs = other.join().unwrap();
    let (pairs, linked) = chain.pairs();
    assert_eq!(pairs.contains_key(&5), mine == Outcome::Stored);
    assert_eq!(pairs.contains_key(&6), theirs == Outcome::Stored);
    assert!(!pairs.is_empty(), "one of them finds room");
    assert_eq!((linked, chain.taken(1)), (1, 1), "a unit was lost");
}

/// One key by two, and a reader: it is stored once, and seen whole.
fn one_key<F: Format>(chain: &Chain<F>, view: ChainedView, put_behind: PutBehind) {
    let other = thread::spawn(move || insert::<F>(&view, (5, 51), put_behind));
    let reader = thread::spawn(move || get::<F>(&view, 5));
    let mine = insert::<F>(&view, (5, 50), put_behind);
    let both = [mine, other.join().unwrap()];
    assert!(both.contains(&Outcome::Stored) && both.contains(&Outcome::Present));
    let value = if mine == Outcome::Stored { 50 } else { 51 };
    let seen = reader.join().unwrap();
    assert!([None, Some(value)].contains(&seen), "a value of nobody");
    let (pairs, linked) = chain.pairs();
    assert_eq!(pairs, [(5, value)].into());
    assert_eq!((linked, chain.taken(2)), (1, 1), "a unit was lost");
}

macro_rules! models {
    ($($name:ident: $format:ty;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn the_loser_gives_its_unit_back() {
                on_chain::<$format>(2, Fault::None, put_behind, two_keys);
            }
            #[test]
            fn the_last_unit_serves_both() {
                on_chain::<$format>(1, Fault::None, put_behind, one_unit);
            }
            #[test]
            fn a_key_is_stored_once() {
                on_chain::<$format>(2, Fault::None, put_behind, one_key);
            }
        }
    )*};
}

models! {
    packed: Packed;
    one_step: Wide<u64, u64>;
    two_steps: Split<u64, u64>;
}

/// Bugs that loom has to find.
mod planted {
    use super::*;
    use gpumap_simt::atomic::{self, Relaxed};

    /// The loser keeps its unit.
    unsafe fn leaks(_: &Pool, slab: Slab, unit: SlabIndex) -> SlabIndex {
        // SAFETY: as for the real one.
        let there = unsafe { slab.link(unit) };
        if there.is_some() { there } else { unit }
    }

    /// The link is stored without a look at what is there.
    unsafe fn stores(_: &Pool, slab: Slab, unit: SlabIndex) -> SlabIndex {
        let link = slab.vector(LANES - 1).cast::<u64>().wrapping_add(1);
        // SAFETY: the link of a slab of the chain.
        unsafe { atomic::store(link, unit.bits(), Relaxed) };
        unit
    }

    #[test]
    #[should_panic(expected = "a unit was lost")]
    fn a_unit_that_is_not_given_back() {
        on_chain::<Packed>(2, Fault::None, leaks, two_keys);
    }

    #[test]
    #[should_panic(expected = "a pair was lost")]
    fn a_link_stored_plainly() {
        on_chain::<Packed>(2, Fault::None, stores, two_keys);
    }

    #[test]
    #[should_panic(expected = "a pair was lost")]
    fn a_bitmap_without_exchanges() {
        on_chain::<Packed>(2, Fault::LostUpdates, put_behind, two_keys);
    }
}
