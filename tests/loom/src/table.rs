//! A table of one slab, and the verbs of one lane on it.

use std::collections::HashMap;
use std::ptr;

use gpumap_kernels::count::Counters;
use gpumap_kernels::map_ref::alone;
use gpumap_kernels::slot::{Bits, Format, KeyWord, RESERVED_WORDS};
use gpumap_kernels::table::{MapView, SLAB_BYTES, Submap};
use gpumap_kernels::verbs::look_up::{Answers, Get};
use gpumap_kernels::verbs::remove::Remove;
use gpumap_kernels::verbs::store::{Account, Keep, Merge, Present, Read, Select, Store};
use gpumap_simt::atomic::part::Update;

use crate::Units;

/// Vectors of 16 bytes in a slab.
const VECTORS: usize = SLAB_BYTES as usize / 16;
/// A vector of empty slots.
const EMPTY: u128 = !0;

/// Slabs in memory that models share.
struct Memory {
    /// The slab of the table, and those of the reserved keys.
    slabs: Vec<[u128; VECTORS]>,
    /// Counters of a batch.
    counters: [u128; 2],
    directory: Submap,
}

/// A map of one slab, whose last slots are free and whose others have pairs that nothing touches.
pub struct Table<F> {
    /// Owned. Only used through the pointer, since threads of a model do so too.
    memory: *mut Memory,
    free: u32,
    _format: std::marker::PhantomData<F>,
}

impl<F> Drop for Table<F> {
    fn drop(&mut self) {
        // SAFETY: it is from a box, and the threads of the model are gone.
        drop(unsafe { Box::from_raw(self.memory) });
    }
}

impl<F: Format> Table<F> {
    const SLOTS: u32 = SLAB_BYTES / F::SLOT_BYTES;

    /// With so many free slots.
    pub fn with_room(free: u32) -> Self {
        let memory = Box::into_raw(Box::new(Memory {
            slabs: vec![[EMPTY; VECTORS]; 1 + RESERVED_WORDS as usize],
            counters: [0; 2],
            directory: Submap {
                slabs: ptr::null_mut(),
                pages: 1,
                pages_before: 0,
            },
        }));
        let table = Self {
            memory,
            free,
            _format: std::marker::PhantomData,
        };
        let slabs = table.slabs();
        // SAFETY: its own memory.
        unsafe { (*memory).directory.slabs = slabs.cast() };
        for i in 0..Self::SLOTS - free {
            let filler = F::Word::from_u64(0x7000 + u64::from(i));
            // SAFETY: a slot of the slab, which no other thread uses yet.
            unsafe { F::write(slabs.cast(), i.into(), filler, F::Value::from_u64(0)) };
        }
        table
    }

    fn slabs(&self) -> *mut [u128; VECTORS] {
        // SAFETY: its own memory.
        unsafe { (*self.memory).slabs.as_mut_ptr() }
    }

    /// The cell of the reserved key with this alias.
    pub fn cell(&self, alias: u64) -> *mut u8 {
        self.slabs().wrapping_add(1 + alias as usize).cast()
    }

    /// Makes all slots of the cell of a reserved key tombstones.
    pub fn bury_cell(&self, alias: u64) {
        for i in 0..Self::SLOTS {
            let value = F::Value::from_u64(0);
            // SAFETY: a slot of the cell, which no other thread uses yet.
            unsafe { F::write(self.cell(alias), i.into(), F::Word::TOMBSTONE, value) };
        }
    }

    /// What changes: the free slots, the last vector of each cell, the counters.
    pub fn units(&self) -> Units {
        let mut units = Units::default();
        let vectors = self.free.div_ceil(F::SLOTS) as usize;
        for (slab, count) in [(0, vectors), (1, 1), (2, 1), (3, 1)] {
            let end = self.slabs().wrapping_add(slab + 1).cast::<u128>();
            units.add(end.wrapping_sub(count), count);
        }
        // SAFETY: its own memory.
        units.add(unsafe { &raw mut (*self.memory).counters }, 1);
        units
    }

    /// The map as kernels see it.
    pub fn view(&self) -> MapView {
        MapView {
            // SAFETY: its own memory.
            submaps: unsafe { &raw const (*self.memory).directory },
            reserved: self.cell(0),
            seed: 0,
            submap_count: 1,
            page_log2: 0,
            marks: 0,
        }
    }

    /// Where a batch counts.
    pub fn counters(&self) -> Counters {
        // SAFETY: its own memory.
        Counters::of(unsafe { &raw mut (*self.memory).counters }.cast())
    }

    /// What it holds when all threads are done, without the pairs that were there before.
    ///
    /// # Panics
    /// If a key is there twice, or a slot is being written.
    pub fn pairs(&self) -> HashMap<u64, u64> {
        let mut pairs = HashMap::new();
        let mut note = |key, value: F::Value| {
            let before = pairs.insert(key, value.to_u64());
            assert!(before.is_none(), "key {key:#x} is stored twice");
        };
        for slab in 0..=RESERVED_WORDS {
            let begin = self.slabs().wrapping_add(slab as usize).cast::<u8>();
            for i in 0..u64::from(Self::SLOTS) {
                // SAFETY: a slot of the slab, and all threads are done.
                let (word, value) = unsafe { F::read(begin, i) };
                assert!(
                    !F::HAS_BUSY || word != F::Word::BUSY,
                    "no thread writes any more"
                );
                if slab == 0 && i >= u64::from(Self::SLOTS - self.free) && word.is_key() {
                    note(F::key(word).to_u64(), value);
                } else if slab > 0 && word.is_key() {
                    note(F::reserved_key(word).to_u64(), value);
                }
            }
        }
        pairs
    }
}

/// Stores a pair with the real verb; says whether it did.
fn store<F: Format, P: Present<F>>(
    (view, counters): (MapView, Counters),
    (key, value): (u64, u64),
    present: P,
) -> bool {
    let mut verb = Store {
        present,
        account: Account {
            outcomes: ptr::null_mut(),
            unplaced: ptr::null_mut(),
            counters,
            select: Select::All,
        },
        stored: 0,
    };
    let (key, value) = (F::Key::from_u64(key), F::Value::from_u64(value));
    // SAFETY: the table is there as long as the model runs.
    unsafe { alone::<F, _>(&view, key, value, &mut verb) };
    verb.stored == 1
}

/// Inserts a pair; says whether it was new.
pub fn insert<F: Format>(map: (MapView, Counters), key: u64, value: u64) -> bool {
    store::<F, _>(map, (key, value), Keep)
}

/// Adds to the value of a key, or inserts the pair; says whether it was new.
pub fn add<F: Format>(map: (MapView, Counters), key: u64, value: u64) -> bool {
    store::<F, _>(map, (key, value), Merge(Update::Add))
}

/// Inserts a pair, and says what the map holds afterwards.
pub fn get_or_insert<F: Format>(map: (MapView, Counters), key: u64, value: u64) -> u64 {
    let mut held = F::Value::default();
    let present = Read {
        values: &raw mut held,
    };
    store::<F, _>(map, (key, value), present);
    held.to_u64()
}

/// The value of a key.
pub fn get<F: Format>((view, _): (MapView, Counters), key: u64) -> Option<u64> {
    let (mut value, mut found) = (F::Value::default(), 0);
    let mut verb = Get(Answers {
        values: &raw mut value,
        found: &raw mut found,
        default: 0,
    });
    let key = F::Key::from_u64(key);
    // SAFETY: the table is there as long as the model runs.
    unsafe { alone::<F, _>(&view, key, F::Value::default(), &mut verb) };
    (found == 1).then(|| value.to_u64())
}

/// Removes a key; says whether it was there.
pub fn remove<F: Format>((view, _): (MapView, Counters), key: u64) -> bool {
    let mut verb = Remove::<F::Value, false> {
        answers: Answers {
            values: ptr::null_mut(),
            found: ptr::null_mut(),
            default: 0,
        },
        removed: 0,
    };
    let key = F::Key::from_u64(key);
    // SAFETY: the table is there as long as the model runs.
    unsafe { alone::<F, _>(&view, key, F::Value::default(), &mut verb) };
    verb.removed == 1
}
