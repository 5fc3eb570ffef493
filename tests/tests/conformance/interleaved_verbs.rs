//! All verbs of the map on the same few keys in one launch, under random interleavings of their
//! lanes: no key is there twice, no value is torn or foreign, and the answers of the lanes fit
//! one order of events per key. On the CPU executor whatever the target.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use gpumap::simt::atomic::part::Update;
use gpumap::simt::kernel::Grid;
use gpumap::simt::thread;
use gpumap_kernels::probe::serve_batch;
use gpumap_kernels::slot::{Bits, Format};
use gpumap_kernels::verbs::assign::Assign;
use gpumap_kernels::verbs::look_up::{Answers, Get};
use gpumap_kernels::verbs::remove::Remove;
use gpumap_kernels::verbs::store::{Keep, Merge, Read};
use gpumap_tests::interleave::{Inputs, LANES, Out, launch, store};
use gpumap_tests::table::HostTable;
use gpumap_tests::{on_every_interleaving, on_interleavings_with_values};

fn run(seed: u64, grid: Grid, body: impl Fn() + Sync) {
    // SAFETY: the bodies below say why they are sound.
    unsafe { launch(seed, grid, body) };
}

/// The outputs of one launch: a value and a byte for each input, of which lookups, removals and
/// `get_or_insert` write their own blocks' part.
struct Told<F: Format> {
    values: Vec<F::Value>,
    found: Vec<u8>,
    outcomes: Vec<u8>,
}

impl<F: Format> Told<F> {
    fn new(len: usize) -> Self {
        Self {
            values: vec![F::Value::default(); len],
            found: vec![0; len],
            outcomes: vec![0; len],
        }
    }
}

/// What the blocks of a launch do, each with its part of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Insert,
    Upsert,
    Add,
    Assign,
    GetOrInsert,
    Get,
    Remove,
}

/// Runs one block of one warp per role. Returns the counts of stored and of removed pairs.
fn play<F: Format>(
    table: &mut HostTable<F>,
    seed: u64,
    roles: &[Role],
    inputs: &Inputs<F>,
    told: &mut Told<F>,
) -> (u64, u64) {
    let view = table.view();
    let (stored, removed) = (AtomicU64::new(0), AtomicU64::new(0));
    let counters = [AtomicU64::new(0), AtomicU64::new(0)];
    {
        let values = Out::of(&mut told.values);
        let found = Out::of(&mut told.found);
        let outcomes = Out::of(&mut told.outcomes);
        run(seed, Grid::new(roles.len() as u32, LANES), || {
            let answers = Answers {
                values: values.ptr(),
                found: found.ptr(),
                default: 0,
            };
            let told = outcomes.ptr();
            let read = Read {
                values: values.ptr(),
            };
            // SAFETY: all warps are whole; everything outlives the launch, and each block writes
            // its own part of the outputs only.
            unsafe {
                let mine = match roles[thread::block_idx_x() as usize] {
                    Role::Insert => store::<F, _>(&view, inputs, Keep, &counters, told),
                    Role::Upsert => {
                        let present = Merge(Update::Replace);
                        store::<F, _>(&view, inputs, present, &counters, told)
                    }
                    Role::Add => store::<F, _>(&view, inputs, Merge(Update::Add), &counters, told),
                    Role::Assign => {
                        let mut assign = Assign {
                            update: Update::Replace,
                            present: 0,
                        };
                        serve_batch::<F, _, _>(&view, &inputs.batch(), &mut assign);
                        0
                    }
                    Role::GetOrInsert => store::<F, _>(&view, inputs, read, &counters, told),
                    Role::Get => {
                        let mut get = Get(answers);
                        serve_batch::<F, _, _>(&view, &inputs.batch(), &mut get);
                        0
                    }
                    Role::Remove => {
                        let mut remove = Remove::<_, false> {
                            answers: Answers {
                                values: ptr::null_mut(),
                                ..answers
                            },
                            removed: 0,
                        };
                        serve_batch::<F, _, _>(&view, &inputs.batch(), &mut remove);
                        removed.fetch_add(remove.removed.into(), Ordering::Relaxed);
                        0
                    }
                };
                stored.fetch_add(mine, Ordering::Relaxed);
            }
        });
    }
    assert_eq!(counters[1].load(Ordering::Relaxed), 0, "no room");
    (stored.into_inner(), removed.into_inner())
}

/// Few keys: small ones, and the reserved ones among them.
fn key_of(seed: u64, keys: u64) -> impl Fn(u64) -> u64 {
    move |i| match i % keys {
        k @ (0 | 1) if seed.is_multiple_of(2) => u64::MAX - k,
        k => k,
    }
}

/// Room for every pair that a launch can store, so that none is short of slots though tombstones
/// are not used again.
fn roomy<F: Format>(seed: u64) -> HostTable<F> {
    let slabs = [64, 256][seed as usize / 2 % 2];
    HostTable::new(&[slabs], (seed % 3) as u32, seed)
}

#[test]
fn storing_removing_and_reading_the_same_keys() {
    fn scenario<F: Format>(seed: u64) {
        let roles = [
            Role::Insert,
            Role::Remove,
            Role::Get,
            Role::Upsert,
            Role::Assign,
            Role::GetOrInsert,
            Role::Remove,
        ];
        let keys = [1, 3, 8][seed as usize % 3];
        let mut table = roomy::<F>(seed);
        let inputs = Inputs::<F>::new(roles.len() as u32, key_of(seed, keys));
        let mut told = Told::<F>::new(inputs.keys.len());
        let (stored, removed) = play(&mut table, seed, &roles, &inputs, &mut told);
        let per_block = inputs.keys.len() / roles.len();

        let pairs = table.pairs();
        let held: HashMap<u64, u64> = pairs.iter().copied().collect();
        assert_eq!(held.len(), pairs.len(), "a key is stored twice");
        assert_eq!(held.len() as u64, stored - removed, "stored and removed");
        // Values that were given by a block that stores: no others are ever seen.
        let gives = |role: Role| !matches!(role, Role::Get | Role::Remove);
        let mut offers: HashMap<u64, Vec<u64>> = HashMap::new();
        for i in 0..inputs.keys.len() {
            if gives(roles[i / per_block]) {
                let (k, v) = (inputs.keys[i].to_u64(), inputs.values[i].to_u64());
                offers.entry(k).or_default().push(v);
            }
        }
        for (k, v) in &held {
            assert!(offers[k].contains(v), "key {k:#x} has {v:#x}");
        }
        // Of each key as many pairs were stored as were removed, and the one that is there.
        let mut balance: HashMap<u64, i64> = HashMap::new();
        for i in 0..inputs.keys.len() {
            let (k, v) = (inputs.keys[i].to_u64(), told.values[i].to_u64());
            let role = roles[i / per_block];
            let balance = balance.entry(k).or_default();
            *balance += i64::from(told.outcomes[i]);
            match role {
                Role::Remove => *balance -= i64::from(told.found[i]),
                Role::Get if told.found[i] == 0 => assert_eq!(v, 0, "the default"),
                Role::Get | Role::GetOrInsert => {
                    assert!(offers[&k].contains(&v), "key {k:#x} was seen with {v:#x}");
                }
                _ => {}
            }
            if role == Role::GetOrInsert && told.outcomes[i] == 1 {
                assert_eq!(v, inputs.values[i].to_u64(), "its own value");
            }
        }
        for (k, balance) in balance {
            assert_eq!(balance, i64::from(held.contains_key(&k)), "key {k:#x}");
        }
    }
    on_every_interleaving!(scenario, 120);
}

#[test]
fn additions_beside_inserts_and_reads_are_exact() {
    fn scenario<F: Format>(seed: u64) {
        let roles = [Role::Add, Role::Add, Role::Get, Role::Add];
        let mut table = roomy::<F>(seed);
        let key_of = key_of(seed, [1, 2, 9][seed as usize % 3]);
        let mut inputs = Inputs::<F>::new(roles.len() as u32, &key_of);
        // Steps whose sums have the same low and high half.
        let unit = F::Value::from_u64(0x1_0000_0001).to_u64().max(0x1_0001);
        for (i, v) in inputs.values.iter_mut().enumerate() {
            *v = F::Value::from_u64(unit.wrapping_mul(1 + i as u64 % 7));
        }
        let mut told = Told::<F>::new(inputs.keys.len());
        play(&mut table, seed, &roles, &inputs, &mut told);
        let per_block = inputs.keys.len() / roles.len();
        let mut sums: HashMap<u64, u64> = HashMap::new();
        for i in (0..inputs.keys.len()).filter(|i| roles[i / per_block] == Role::Add) {
            let sum = sums.entry(inputs.keys[i].to_u64()).or_default();
            *sum = sum.wrapping_add(inputs.values[i].to_u64());
        }
        let held: HashMap<u64, u64> = table.pairs().into_iter().collect();
        let expected: HashMap<u64, u64> = sums
            .into_iter()
            .map(|(k, sum)| (k, F::Value::from_u64(sum).to_u64()))
            .collect();
        assert_eq!(held, expected, "sums");
        for i in (0..inputs.keys.len()).filter(|&i| told.found[i] == 1) {
            let v = told.values[i].to_u64();
            assert_eq!(v % unit, 0, "a torn sum {v:#x}");
        }
    }
    on_every_interleaving!(scenario, 80);
}

#[test]
fn additions_beside_removals_are_of_pairs_that_were_there() {
    fn scenario<F: Format>(seed: u64) {
        // Every step is 1: what is there in the end was added after the last removal, and what
        // was removed before it.
        let roles = [Role::Add, Role::Remove, Role::Add, Role::Add];
        let mut table = roomy::<F>(seed);
        let keys = [1, 2, 5][seed as usize % 3];
        let mut inputs = Inputs::<F>::new(roles.len() as u32, key_of(seed, keys));
        inputs.values.fill(F::Value::from_u64(1));
        let mut told = Told::<F>::new(inputs.keys.len());
        let (stored, removed) = play(&mut table, seed, &roles, &inputs, &mut told);
        let per_block = inputs.keys.len() / roles.len();
        let pairs = table.pairs();
        assert_eq!(pairs.len() as u64, stored - removed);
        let held: HashMap<u64, u64> = pairs.into_iter().collect();
        assert_eq!(held.len() as u64, stored - removed, "a key is stored twice");
        for k in inputs.keys.iter().map(|k| k.to_u64()) {
            let of_key = |i: &usize| inputs.keys[*i].to_u64() == k;
            let all = (0..inputs.keys.len()).filter(of_key);
            let adds = all.clone().filter(|i| roles[i / per_block] == Role::Add);
            let removals = all.filter(|&i| told.found[i] == 1).count() as u64;
            let sum = held.get(&k).copied();
            let adds = adds.count() as u64;
            assert!(sum.is_none_or(|sum| sum >= 1 && sum <= adds));
            if removals == 0 {
                assert_eq!(sum, Some(adds), "key {k:#x}: an addition is lost");
            }
            assert!(
                removals + sum.unwrap_or(0) <= adds,
                "key {k:#x}: more than was added"
            );
        }
    }
    on_interleavings_with_values!(scenario, 80);
}

#[test]
fn reserved_cells_are_used_again_under_contention() {
    fn scenario<F: Format>(seed: u64) {
        let roles = [Role::Insert, Role::Remove, Role::GetOrInsert, Role::Remove];
        let mut table = HostTable::<F>::new(&[64], 0, seed);
        // Only reserved keys where there are any; all of a cell's slots are used up many times.
        let cells = 1 + seed % 3;
        let inputs = Inputs::<F>::new(roles.len() as u32, |i| u64::MAX - i % cells);
        let offers = inputs.offers();
        let mut there = 0;
        for launch in 0..4 {
            let mut told = Told::<F>::new(inputs.keys.len());
            let (stored, removed) =
                play(&mut table, seed << 2 | launch, &roles, &inputs, &mut told);
            let pairs = table.pairs();
            there = there + stored - removed;
            assert_eq!(pairs.len() as u64, there, "launch {launch}");
            let held: HashMap<u64, u64> = pairs.iter().copied().collect();
            assert_eq!(held.len(), pairs.len(), "a key is stored twice");
            assert!(held.iter().all(|(k, v)| offers[k].contains(v)));
        }
    }
    on_every_interleaving!(scenario, 60);
}
