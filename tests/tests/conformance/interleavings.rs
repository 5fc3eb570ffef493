//! Adversarial scenarios under hundreds of random interleavings of their lanes.
//!
//! These run on the CPU executor whatever the target: its random schedule may hand over to any
//! lane of any block at every atomic, and one seed gives one interleaving, so that a failure can
//! be run again. The device code is the GPU's own; the tables are one or two slabs, so that
//! all lanes meet.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use gpumap::simt::atomic::part::Update;
use gpumap::simt::kernel::Grid;
use gpumap::simt::thread;

use gpumap_kernels::count::Counters;
use gpumap_kernels::primitives::CONTROL_THREADS;
use gpumap_kernels::probe::serve_batch;
use gpumap_kernels::retrieve_all::{MAX_WORKERS, RetrieveAllArgs, dump, shared_bytes};
use gpumap_kernels::slot::{Bits, Format};
use gpumap_kernels::verbs::look_up::{Answers, Get};
use gpumap_kernels::verbs::remove::Undo;
use gpumap_kernels::verbs::store::{Keep, Merge};
use gpumap_tests::interleave::{Inputs, LANES, Out, PER_WARP, check, key_patterns, launch, store};
use gpumap_tests::table::HostTable;
use gpumap_tests::{on_every_interleaving, on_interleavings_with_values};

/// Pairs stored, and pairs that found no room.
fn counters() -> [AtomicU64; 2] {
    [AtomicU64::new(0), AtomicU64::new(0)]
}

/// How many pairs found no room.
fn unplaced(counters: &[AtomicU64; 2]) -> u64 {
    counters[1].load(Ordering::Relaxed)
}

fn run(seed: u64, grid: Grid, body: impl Fn() + Sync) {
    // SAFETY: the bodies below say why they are sound.
    unsafe { launch(seed, grid, body) };
}

#[test]
fn inserters_of_the_same_keys() {
    fn scenario<F: Format>(seed: u64) {
        let slabs = 1 + seed as u32 / 5 % 2;
        let (blocks, warps) = [(4, 1), (2, 2)][seed as usize / 10 % 2];
        let mut table = HostTable::<F>::new(&[slabs], 0, seed);
        let patterns = key_patterns(table.slots());
        let (distinct, key_of) = &patterns[seed as usize % patterns.len()];
        let inputs = &Inputs::<F>::new(blocks * warps, key_of);
        let (view, stored, counters) = (table.view(), AtomicU64::new(0), counters());
        run(seed, Grid::new(blocks, warps * LANES), || {
            // SAFETY: all warps are whole; the table and the inputs outlive the launch.
            let mine = unsafe { store::<F, _>(&view, inputs, Keep, &counters, ptr::null_mut()) };
            stored.fetch_add(mine, Ordering::Relaxed);
        });
        let offers = inputs.offers();
        assert_eq!(offers.len(), *distinct);
        assert_eq!(
            (stored.into_inner() as usize, unplaced(&counters)),
            (*distinct, 0),
            "stored and unplaced"
        );
        check(&table, &offers);
    }
    on_every_interleaving!(scenario, 200);
}

#[test]
fn readers_beside_inserters() {
    fn scenario<F: Format>(seed: u64) {
        // Blocks 0 and 1 insert; 2 and 3 look the same keys up, twice.
        const BLOCKS: u32 = 4;
        let mut table = HostTable::<F>::new(&[1 + seed as u32 % 2], 0, seed);
        let n = table.slots() as u64;
        let inputs = Inputs::<F>::new(BLOCKS, |i| i % n);
        let view = table.view();
        let counters = counters();
        let len = inputs.keys.len();
        let mut found = [vec![0u8; len], vec![0u8; len]];
        let mut values = [
            vec![F::Value::default(); len],
            vec![F::Value::default(); len],
        ];
        {
            let [f0, f1] = &mut found;
            let [v0, v1] = &mut values;
            let (f, v) = ([Out::of(f0), Out::of(f1)], [Out::of(v0), Out::of(v1)]);
            let shared = &inputs;
            run(seed, Grid::new(BLOCKS, LANES), || {
                let batch = shared.batch();
                // SAFETY: all warps are whole; everything outlives the launch, and the outputs
                // are as long as the batch.
                unsafe {
                    if thread::block_idx_x() < 2 {
                        store::<F, _>(&view, shared, Keep, &counters, ptr::null_mut());
                    }
                    // The inserters look at what they stored themselves.
                    for (f, v) in f.iter().zip(&v) {
                        let mut get = Get(Answers {
                            values: v.ptr(),
                            found: f.ptr(),
                            default: 5,
                        });
                        serve_batch::<F, _, _>(&view, &batch, &mut get);
                    }
                }
            });
        }
        let inserted = Inputs::<F> {
            keys: inputs.keys[..len / 2].to_vec(),
            values: inputs.values[..len / 2].to_vec(),
        };
        let offers = inserted.offers();
        check(&table, &offers);
        let stored: HashMap<u64, u64> = table.pairs().into_iter().collect();
        let absent = F::Value::from_u64(5).to_u64();
        for i in 0..len {
            let k = inputs.keys[i].to_u64();
            for round in 0..2 {
                let v = values[round][i].to_u64();
                match found[round][i] {
                    // Pairs never change, so a lane that finds one finds what is there at the end.
                    1 => assert_eq!(v, stored[&k], "key {k:#x}: a torn or foreign value"),
                    0 => {
                        assert_eq!(v, absent, "key {k:#x}: not the default");
                        assert!(i >= len / 2, "key {k:#x}: an inserter misses its own key");
                        assert!(round == 0 || found[0][i] == 0, "key {k:#x} is gone again");
                    }
                    other => panic!("found is {other}"),
                }
            }
        }
    }
    on_every_interleaving!(scenario, 100);
}

#[test]
fn adders_of_the_same_keys() {
    fn scenario<F: Format>(seed: u64) {
        const BLOCKS: u32 = 4;
        let mut table = HostTable::<F>::new(&[1 + seed as u32 % 2], 0, seed);
        let patterns = key_patterns(table.slots());
        let (distinct, key_of) = &patterns[seed as usize % patterns.len()];
        let inputs = &Inputs::<F>::new(BLOCKS, key_of);
        let (view, stored, counters) = (table.view(), AtomicU64::new(0), counters());
        run(seed, Grid::new(BLOCKS, LANES), || {
            // SAFETY: all warps are whole; the table and the inputs outlive the launch.
            let mine = unsafe {
                store::<F, _>(
                    &view,
                    inputs,
                    Merge(Update::Add),
                    &counters,
                    ptr::null_mut(),
                )
            };
            stored.fetch_add(mine, Ordering::Relaxed);
        });
        assert_eq!(
            (stored.into_inner() as usize, unplaced(&counters)),
            (*distinct, 0),
            "stored and unplaced"
        );
        let pairs = table.pairs();
        let found: HashMap<u64, u64> = pairs.iter().copied().collect();
        assert_eq!(found.len(), pairs.len(), "a key is stored twice");
        assert_eq!(found.len(), *distinct);
        for (k, values) in inputs.offers() {
            let sum = values.iter().fold(0u64, |sum, v| sum.wrapping_add(*v));
            let sum = F::Value::from_u64(sum).to_u64();
            assert_eq!(found.get(&k), Some(&sum), "sum of key {k:#x}");
        }
    }
    on_interleavings_with_values!(scenario, 100);
}

/// Stores a batch of too many keys, then undoes it, from a table with some pairs.
fn overflow_and_undo<F: Format>(seed: u64, buries: bool) {
    const BLOCKS: u32 = 3;
    let mut table = HostTable::<F>::new(&[1 + seed as u32 % 2], 0, seed);
    let slots = table.slots() as u64;
    let before = seed % slots;
    if before > 0 {
        let (view, counters) = (table.view(), counters());
        let first = &Inputs::<F>::new(1, |i| 1_000 + i % before);
        run(1, Grid::new(1, LANES), || {
            // SAFETY: all warps are whole; everything outlives the launch.
            unsafe { store::<F, _>(&view, first, Keep, &counters, ptr::null_mut()) };
        });
    }
    let snapshot = table.clone();
    let held = snapshot.pairs();
    assert_eq!(held.len() as u64, before);

    // More distinct keys than there is room for, each several times; a reserved one, and one
    // that may be there already.
    let inputs = &Inputs::<F>::new(BLOCKS, |i| match i % 16 {
        0 => u64::MAX,
        1 => 1_000,
        _ => i % (slots + 5),
    });
    let mut outcomes = vec![0u8; inputs.keys.len()];
    let (view, stored, counters) = (table.view(), AtomicU64::new(0), counters());
    let out = Out::of(&mut outcomes);
    run(seed, Grid::new(BLOCKS, LANES), || {
        // SAFETY: all warps are whole; everything outlives the launch; a byte for each key.
        let mine = unsafe { store::<F, _>(&view, inputs, Keep, &counters, out.ptr()) };
        stored.fetch_add(mine, Ordering::Relaxed);
    });
    assert!(unplaced(&counters) > 0, "it does not fit");
    let stored = stored.into_inner() as usize;
    assert!(outcomes.iter().all(|&outcome| outcome <= 1));
    assert_eq!(
        outcomes.iter().filter(|&&outcome| outcome == 1).count(),
        stored,
        "outcomes of stored pairs"
    );
    let now = table.pairs();
    assert_eq!(now.len(), held.len() + stored);
    // The outcomes are on the very pairs that were stored.
    for (i, _) in outcomes.iter().enumerate().filter(|(_, o)| **o != 0) {
        let pair = (inputs.keys[i].to_u64(), inputs.values[i].to_u64());
        assert!(
            now.contains(&pair) && !held.contains(&pair),
            "{pair:x?} is marked"
        );
    }

    let view = table.view();
    let outcomes = Out::of(&mut outcomes);
    run(seed, Grid::new(BLOCKS, LANES), || {
        let mut verb = Undo {
            outcomes: outcomes.ptr().cast_const(),
            buries,
        };
        // SAFETY: as above; the batch has ended, and nothing else runs.
        unsafe { serve_batch::<F, _, _>(&view, &inputs.batch(), &mut verb) };
    });
    assert_eq!(table.pairs(), held, "after undoing");
    assert!(
        buries || table.same_bytes(&snapshot),
        "slots that were emptied are not empty"
    );
}

#[test]
fn an_insert_that_overflows_is_undone() {
    fn scenario<F: Format>(seed: u64) {
        overflow_and_undo::<F>(seed, false);
    }
    on_every_interleaving!(scenario, 100);
}

#[test]
fn an_insert_that_overflows_is_undone_after_pairs_have_moved() {
    fn scenario<F: Format>(seed: u64) {
        overflow_and_undo::<F>(seed, true);
    }
    on_every_interleaving!(scenario, 100);
}

/// Blocks that all add to the counter of pairs, many times each.
#[test]
fn retrieve_all_by_several_blocks() {
    fn scenario<F: Format>(seed: u64) {
        const BLOCKS: u32 = 4;
        let mut table = HostTable::<F>::new(&[1; 40], 1, seed);
        let keys = table.slots() as u64 / 2;
        let warps = keys.div_ceil(u64::from(PER_WARP)) as u32;
        let inputs = &Inputs::<F>::new(warps, |i| i % keys);
        let (view, counters) = (table.view(), counters());
        run(seed, Grid::new(warps, LANES), || {
            // SAFETY: all warps are whole; everything outlives the launch.
            unsafe { store::<F, _>(&view, inputs, Keep, &counters, ptr::null_mut()) };
        });
        let held: HashMap<u64, u64> = table.pairs().into_iter().collect();
        // Except for those that found no room.
        let n = held.len();
        assert!(n as u64 > keys / 2);

        let mut keys = vec![F::Key::default(); n];
        let mut values = vec![F::Value::default(); n];
        let pairs = self::counters();
        let (chunks, count) = table.chunks();
        assert_eq!(
            count, 41,
            "a tile for each submap, and one for the reserved slab"
        );
        {
            let (keys, values) = (Out::of(&mut keys), Out::of(&mut values));
            let grid = Grid {
                shared_bytes: shared_bytes(MAX_WORKERS),
                ..Grid::new(BLOCKS, MAX_WORKERS + CONTROL_THREADS)
            };
            run(seed, grid, || {
                // SAFETY: blocks are whole; everything outlives the launch, and the outputs have `n` elements.
                unsafe {
                    dump::<F>(&RetrieveAllArgs {
                        chunks,
                        count,
                        parts_log2: 0,
                        keys: keys.ptr(),
                        values: values.ptr(),
                        room: n as u64,
                        pairs: Counters::of(pairs.as_ptr().cast_mut().cast()),
                        tiles: ptr::null_mut(),
                    });
                }
            });
        }
        assert_eq!(pairs[0].load(Ordering::Relaxed), n as u64);
        let bits = keys.iter().zip(&values);
        let found: HashMap<u64, u64> = bits.map(|(k, v)| (k.to_u64(), v.to_u64())).collect();
        assert_eq!(found, held);
    }
    on_every_interleaving!(scenario, 4);
}

#[test]
fn retrieve_all_beside_inserters() {
    fn scenario<F: Format>(seed: u64) {
        // One block for the submap's tile, one for the reserved slab's, and one that inserts.
        const BLOCKS: u32 = 3;
        let block_threads = MAX_WORKERS + CONTROL_THREADS;
        let block_warps = block_threads / LANES;
        let mut table = HostTable::<F>::new(&[4], 1, seed);
        let n = table.slots() as u64;
        // What is there before: the first half of the keys.
        let first = &Inputs::<F>::new(1, |i| if i < n / 2 { i } else { 0 });
        let (view, counters) = (table.view(), counters());
        run(seed, Grid::new(1, LANES), || {
            // SAFETY: all warps are whole; everything outlives the launch.
            unsafe { store::<F, _>(&view, first, Keep, &counters, ptr::null_mut()) };
        });
        let before = table.pairs();
        assert_eq!(before.len() as u64, n / 2);

        // Of the writers' block only the first two warps have keys.
        let start = 2 * block_warps * PER_WARP;
        let inputs = &Inputs::<F>::new(2 * block_warps + 2, |i| match i % 8 {
            0 => u64::MAX - i % 3,
            _ => i % (n - 3),
        });
        let room = n as usize + 3;
        let mut keys = vec![F::Key::default(); room];
        let mut values = vec![F::Value::default(); room];
        let pairs = self::counters();
        let view = table.view();
        let (chunks, blocks) = table.chunks();
        assert_eq!(blocks, 2);
        {
            let (keys, values) = (Out::of(&mut keys), Out::of(&mut values));
            let grid = Grid {
                shared_bytes: shared_bytes(MAX_WORKERS),
                ..Grid::new(BLOCKS, block_threads)
            };
            run(seed, grid, || {
                // SAFETY: blocks are whole and each does one thing; everything outlives the
                // launch, and the outputs have `room` elements.
                unsafe {
                    if thread::block_idx_x() < 2 {
                        dump::<F>(&RetrieveAllArgs {
                            chunks,
                            count: blocks,
                            parts_log2: 0,
                            keys: keys.ptr(),
                            values: values.ptr(),
                            room: room as u64,
                            pairs: Counters::of(pairs.as_ptr().cast_mut().cast()),
                            tiles: ptr::null_mut(),
                        });
                    } else {
                        store::<F, _>(&view, inputs, Keep, &counters, ptr::null_mut());
                    }
                }
            });
        }
        assert_eq!(unplaced(&counters), 0);
        let after: HashMap<u64, u64> = table.pairs().into_iter().collect();
        assert_eq!(after.len(), table.pairs().len(), "a key is stored twice");
        assert!(
            inputs.keys[start as usize..]
                .iter()
                .all(|k| after.contains_key(&k.to_u64()))
        );
        let reported = pairs[0].load(Ordering::Relaxed) as usize;
        let mut found = HashMap::new();
        for (k, v) in keys.iter().zip(&values).take(reported) {
            let (k, v) = (k.to_u64(), v.to_u64());
            assert!(found.insert(k, v).is_none(), "key {k:#x} is reported twice");
            assert_eq!(
                after.get(&k),
                Some(&v),
                "key {k:#x} is reported with {v:#x}"
            );
        }
        for (k, v) in before {
            assert_eq!(found.get(&k), Some(&v), "key {k:#x} was there throughout");
        }
    }
    on_every_interleaving!(scenario, 20);
}
