//! Each key is linearizable: the answers of all verbs on the same keys in one launch, under
//! random interleavings, fits one order of events per key. On the CPU executor whatever the target.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use gpumap::simt::atomic::part::Update;
use gpumap::simt::kernel::Grid;
use gpumap::simt::tile::Tile;
use gpumap::simt::{thread, warp};
use gpumap_kernels::map_ref::{Counts, Entry, Insertion, MapRef, Pair, STRIPES, SlotKind};
use gpumap_kernels::probe::serve_batch;
use gpumap_kernels::slot::{Bits, Format};
use gpumap_kernels::verbs::look_up::{Answers, Get};
use gpumap_kernels::verbs::remove::Remove;
use gpumap_kernels::verbs::store::{Keep, Merge, Read};
use gpumap_tests::history::{Clock, Deed, Event, History, Timed};
use gpumap_tests::interleave::{Inputs, LANES, Out, PER_WARP, launch, store_verb};
use gpumap_tests::on_every_interleaving;
use gpumap_tests::table::HostTable;

/// What each block does, in two arrangements.
const ROLES: [[Role; 6]; 2] = [
    [
        Role::Insert,
        Role::Remove,
        Role::Get,
        Role::GetOrInsert,
        Role::Remove,
        Role::Get,
    ],
    [
        Role::Add,
        Role::Remove,
        Role::Upsert,
        Role::Get,
        Role::Add,
        Role::GetOrInsert,
    ],
];

#[derive(Clone, Copy, Debug)]
enum Role {
    Insert,
    Upsert,
    Add,
    GetOrInsert,
    Get,
    Remove,
}

#[test]
fn each_key_has_one_order_of_events() {
    fn scenario<F: Format>(seed: u64) {
        let roles = &ROLES[seed as usize % 2];
        // Some four events a block for each key, on tables where keys share slabs or have their
        // own; reserved ones among them.
        let keys = 16 + seed % 5;
        let key_of = move |i: u64| match (i ^ i >> 6) % keys {
            k @ 0..3 => u64::MAX - k,
            k => k,
        };
        let inputs = Inputs::<F>::new(roles.len() as u32, key_of);
        let len = inputs.keys.len();
        let mut table = HostTable::<F>::new(&[128], (seed % 3) as u32, seed);
        let (view, clock) = (table.view(), Clock::default());
        let counters = [AtomicU64::new(0), AtomicU64::new(0)];
        let mut times = vec![[0u64; 2]; len];
        let mut values = vec![F::Value::default(); len];
        let (mut found, mut outcomes) = (vec![0u8; len], vec![0u8; len]);
        {
            let (times, values) = (Out::of(&mut times), Out::of(&mut values));
            let (found, outcomes) = (Out::of(&mut found), Out::of(&mut outcomes));
            let (inputs, clock) = (&inputs, &clock);
            let body = || {
                let answers = Answers {
                    values: values.ptr(),
                    found: found.ptr(),
                    default: 0,
                };
                let read = Read {
                    values: values.ptr(),
                };
                macro_rules! serve {
                    ($verb:expr) => {{
                        let mut timed = Timed {
                            verb: $verb,
                            clock,
                            times: times.ptr(),
                        };
                        // SAFETY: all warps are whole; everything outlives the launch, and each
                        // block writes its own part of the outputs only.
                        unsafe { serve_batch::<F, _, _>(&view, &inputs.batch(), &mut timed) };
                    }};
                }
                macro_rules! store {
                    ($present:expr) => {
                        serve!(store_verb($present, &counters, outcomes.ptr()))
                    };
                }
                match roles[thread::block_idx_x() as usize] {
                    Role::Insert => store!(Keep),
                    Role::Upsert => store!(Merge(Update::Replace)),
                    Role::Add => store!(Merge(Update::Add)),
                    Role::GetOrInsert => store!(read),
                    Role::Get => serve!(Get(answers)),
                    Role::Remove => serve!(Remove::<_, true> {
                        answers,
                        removed: 0,
                    }),
                }
            };
            // SAFETY: as said in the body.
            unsafe { launch(seed, Grid::new(roles.len() as u32, LANES), body) };
        }
        assert_eq!(counters[1].load(Ordering::Relaxed), 0, "no room");
        let pairs = table.pairs();
        let held: HashMap<u64, u64> = pairs.iter().copied().collect();
        assert_eq!(held.len(), pairs.len(), "a key is stored twice");

        let mut history = History::default();
        for i in 0..len {
            let (v, new) = (inputs.values[i].to_u64(), outcomes[i] == 1);
            let (got, there) = (values[i].to_u64(), found[i] == 1);
            let deed = match roles[i / PER_WARP as usize] {
                Role::Insert => Deed::Insert(v, new),
                Role::Upsert => Deed::Upsert(v, new),
                Role::Add => Deed::Add(v, new),
                Role::GetOrInsert => Deed::GetOrInsert(v, new, got),
                Role::Get => Deed::Get(there.then_some(got)),
                Role::Remove => Deed::Remove(there),
            };
            let [begin, end] = times[i];
            history.note(inputs.keys[i].to_u64(), Event { deed, begin, end });
        }
        check::<F>(&history, &held);
    }
    on_every_interleaving!(scenario, 60);
}

/// Panics unless the events of each key fit some order that ends with what the table holds.
fn check<F: Format>(history: &History, held: &HashMap<u64, u64>) {
    let mask = F::Value::from_u64(!0).to_u64();
    history
        .check(held, mask)
        .unwrap_or_else(|why| panic!("{why}"));
}

/// How the verbs of a lent map are called.
#[derive(Clone, Copy)]
enum Form {
    Lane,
    Tile(Tile<4>),
}

/// Calls the verb of this number with a key and a value, and returns what it did and its answer.
///
/// # Safety
/// The map was lent to the launch; all lanes of a tile call it with the same arguments.
unsafe fn call<F: Format>(
    map: &MapRef<F::Key, F::Value>,
    form: Form,
    verb: u64,
    key: F::Key,
    value: F::Value,
) -> Deed
where
    (F::Key, F::Value): Pair<Key = F::Key, Value = F::Value>,
{
    let stored = |outcome| match outcome {
        Insertion::Inserted => true,
        Insertion::Present => false,
        Insertion::Full => panic!("no room"),
    };
    macro_rules! verb {
        ($lane:ident, $tile:ident, $($argument:expr),*) => {
            // SAFETY: the caller's promise.
            unsafe {
                match form {
                    Form::Lane => map.$lane($($argument),*),
                    Form::Tile(tile) => map.$tile(tile, $($argument),*),
                }
            }
        };
    }
    let v = value.to_u64();
    match verb {
        0 => Deed::Insert(v, stored(verb!(insert, tile_insert, key, value))),
        1 => Deed::Upsert(v, stored(verb!(upsert, tile_upsert, key, value))),
        2 => {
            let added = verb!(merge, tile_merge, key, value, Update::Add);
            Deed::Add(v, stored(added))
        }
        3 => match verb!(get_or_insert, tile_get_or_insert, key, value) {
            Entry::Inserted => Deed::GetOrInsert(v, true, v),
            Entry::Present(held) => Deed::GetOrInsert(v, false, held.to_u64()),
            Entry::Full => panic!("no room"),
        },
        4 => Deed::Get(verb!(get, tile_get, key).map(F::Value::to_u64)),
        5 => Deed::Contains(verb!(contains, tile_contains, key)),
        _ => Deed::Remove(verb!(remove, tile_remove, key)),
    }
}

#[test]
fn each_key_of_a_lent_map_has_one_order_of_events() {
    fn scenario<F: Format>(seed: u64)
    where
        (F::Key, F::Value): Pair<Key = F::Key, Value = F::Value>,
    {
        // Of every two blocks one calls verbs for one lane, each lane one after the other, and one
        // those for tiles: as many calls.
        const BLOCKS: u32 = 6;
        let keys = 16 + seed % 5;
        let key_of = move |i: u64| match (i ^ i >> 6) % keys {
            k @ 0..3 => u64::MAX - k,
            k => k,
        };
        let inputs = Inputs::<F>::new(BLOCKS, key_of);
        let mut table = HostTable::<F>::new(&[128], (seed % 3) as u32, seed);
        let kind = match (F::SLOTS, F::HAS_BUSY) {
            (2, _) if size_of::<F::Value>() == 0 => SlotKind::Keys,
            (2, _) => SlotKind::Packed,
            (_, false) => SlotKind::Wide,
            (_, true) => SlotKind::Split,
        };
        let mut counts = vec![Counts::default(); STRIPES as usize];
        let map = MapRef::<F::Key, F::Value>::new(table.view(), kind, counts.as_mut_ptr());
        let (clock, events) = (Clock::default(), Mutex::new(Vec::new()));
        let begins: Vec<AtomicU64> = inputs.keys.iter().map(|_| AtomicU64::new(!0)).collect();
        let now = || clock.now();
        let body = || {
            let in_tiles = thread::block_idx_x() % 2 == 1;
            let first = thread::block_idx_x() * PER_WARP;
            let lane = warp::lane_id();
            let (form, own, calls) = if in_tiles {
                (
                    Form::Tile(Tile::converged()),
                    lane / 4,
                    PER_WARP / (LANES / 4),
                )
            } else {
                (Form::Lane, lane, PER_WARP / LANES)
            };
            for call_number in 0..calls {
                let at = first + call_number * (PER_WARP / calls) + own;
                let (i, verb) = (at as usize, (u64::from(at) * 5 + seed) % 8);
                begins[i].fetch_min(now(), Ordering::SeqCst);
                // SAFETY: the table and the counts outlive the launch; a tile has one input.
                let deed = unsafe { call::<F>(&map, form, verb, inputs.keys[i], inputs.values[i]) };
                if !in_tiles || lane.is_multiple_of(4) {
                    // The lanes of a tile may be further on, but not with this input.
                    events.lock().unwrap().push((i, deed, now()));
                }
            }
        };
        // SAFETY: as said in the body.
        unsafe { launch(seed, Grid::new(BLOCKS, LANES), body) };
        let pairs = table.pairs();
        let held: HashMap<u64, u64> = pairs.iter().copied().collect();
        assert_eq!(held.len(), pairs.len(), "a key is stored twice");
        let stored: u64 = counts.iter().map(|counts| counts.inserted).sum();
        let removed: u64 = counts.iter().map(|counts| counts.removed).sum();
        assert_eq!(stored - removed, held.len() as u64, "the counts");

        let events = events.into_inner().unwrap();
        assert_eq!(events.len(), inputs.keys.len());
        let mut history = History::default();
        for (i, deed, end) in events {
            let begin = begins[i].load(Ordering::SeqCst);
            history.note(inputs.keys[i].to_u64(), Event { deed, begin, end });
        }
        check::<F>(&history, &held);
    }
    on_every_interleaving!(scenario, 60);
}
