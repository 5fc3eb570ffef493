//! The verbs of maps of ids on the same few keys in one launch, under random interleavings of their
//! lanes: no id is lost, and none is handed to two. On the CPU executor whatever the target.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use gpumap::simt::kernel::Grid;
use gpumap::simt::thread;
use gpumap_kernels::cells::NO_CELL;
use gpumap_kernels::probe::serve_batch;
use gpumap_kernels::slot::ids::IdFormat;
use gpumap_kernels::slot::{Bits, Packed, Split, Wide};
use gpumap_kernels::verbs::ids::{Exchange, Withdraw};
use gpumap_kernels::verbs::look_up::{Answers, Get};
use gpumap_kernels::verbs::store::{Keep, Read};
use gpumap_tests::device::noting;
use gpumap_tests::interleave::{Inputs, LANES, Out, launch, store};
use gpumap_tests::table::HostTable;

/// Calls `scenario::<F>(seed)` for every format of ids and this many seeds.
macro_rules! on_every_id_format {
    ($scenario:ident, $seeds:expr) => {
        on_every_id_format!(@each $scenario, $seeds, Packed, Wide<u64, u32>, Split<u64, u32>)
    };
    (@each $scenario:ident, $seeds:expr, $($format:ty),*) => {$(
        for seed in 0..$seeds {
            let case = format!("{}, seed {seed}", stringify!($format));
            noting(&case, || $scenario::<$format>(seed));
        }
    )*};
}

/// What the blocks of a launch do, each with its part of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Insert,
    GetOrInsert,
    Exchange,
    Withdraw,
    Get,
}

/// A table, and where every id is that was ever given to it.
struct Game<F: IdFormat> {
    table: HostTable<F>,
    /// For each id that came into the table: its key, and whether it is there still.
    ids: HashMap<u32, (u64, bool)>,
    next: u32,
}

impl<F: IdFormat> Game<F> {
    fn new(table: HostTable<F>) -> Self {
        Self {
            table,
            ids: HashMap::new(),
            next: 1,
        }
    }

    /// Runs one block of one warp per role, with ids that no launch had before, and accounts for them.
    fn play(&mut self, seed: u64, roles: &[Role], key_of: impl Fn(u64) -> u64) {
        let mut inputs = Inputs::<F>::new(roles.len() as u32, key_of);
        for id in &mut inputs.values {
            *id = self.next;
            self.next += 1;
        }
        let len = inputs.keys.len();
        let (mut told, mut outcomes) = (vec![NO_CELL; len], vec![0u8; len]);
        let counters = [AtomicU64::new(0), AtomicU64::new(0)];
        let view = self.table.view();
        {
            let (told, outcomes) = (Out::of(&mut told), Out::of(&mut outcomes));
            let body = || {
                let stored = outcomes.ptr();
                let answers = Answers {
                    values: told.ptr(),
                    found: ptr::null_mut(),
                    default: u64::from(NO_CELL),
                };
                let (values, replaced) = (told.ptr(), told.ptr());
                // SAFETY: all warps are whole; everything outlives the launch, and each block writes
                // its own part of the outputs only.
                unsafe {
                    match roles[thread::block_idx_x() as usize] {
                        Role::Insert => {
                            store::<F, _>(&view, &inputs, Keep, &counters, stored);
                        }
                        Role::GetOrInsert => {
                            store::<F, _>(&view, &inputs, Read { values }, &counters, stored);
                        }
                        Role::Exchange => {
                            let present = Exchange { replaced };
                            store::<F, _>(&view, &inputs, present, &counters, stored);
                        }
                        Role::Withdraw => {
                            let mut verb = Withdraw {
                                answers,
                                removed: 0,
                            };
                            serve_batch::<F, _, _>(&view, &inputs.batch(), &mut verb);
                        }
                        Role::Get => {
                            serve_batch::<F, _, _>(&view, &inputs.batch(), &mut Get(answers));
                        }
                    }
                }
            };
            // SAFETY: as said in the body.
            unsafe { launch(seed, Grid::new(roles.len() as u32, LANES), body) };
        }
        assert_eq!(counters[1].load(Ordering::Relaxed), 0, "no room");
        let role_of = |i: usize| roles[i * roles.len() / len];
        let pairs = || (0..len).map(|i| (i, inputs.keys[i].to_u64(), role_of(i)));
        // First what came in: by new pairs, and by exchanges.
        for (i, k, role) in pairs() {
            let exchanged = role == Role::Exchange && told[i] != NO_CELL;
            assert!(
                !(exchanged && outcomes[i] == 1),
                "stored, and in another's place"
            );
            assert!(
                role != Role::Exchange || exchanged || outcomes[i] == 1,
                "neither"
            );
            if exchanged || outcomes[i] == 1 {
                self.ids.insert(inputs.values[i], (k, true));
            }
        }
        // Then what went out: each once.
        for (i, k, role) in pairs().filter(|&(i, ..)| told[i] != NO_CELL) {
            let Some((of, is_there)) = self.ids.get_mut(&told[i]) else {
                panic!("{role:?} got {}, which no lane put there", told[i]);
            };
            assert_eq!(*of, k, "an id of another key");
            if matches!(role, Role::Exchange | Role::Withdraw) {
                assert!(*is_there, "{} was taken twice", told[i]);
                *is_there = false;
            }
        }
        let held: HashMap<u32, u64> = self
            .table
            .pairs()
            .into_iter()
            .map(|(k, id)| (id as u32, k))
            .collect();
        let there = self.ids.iter().filter(|(_, (_, is_there))| *is_there);
        let there: HashMap<u32, u64> = there.map(|(&id, &(k, _))| (id, k)).collect();
        assert_eq!(held, there, "ids that are in slots");
    }
}

#[test]
fn exchanges_beside_inserts_hand_every_id_to_one() {
    fn scenario<F: IdFormat>(seed: u64) {
        let roles = [
            Role::Exchange,
            Role::Insert,
            Role::Exchange,
            Role::GetOrInsert,
            Role::Get,
        ];
        let keys = [1, 2, 7][seed as usize % 3];
        let mut game = Game::<F>::new(HostTable::new(&[64], (seed % 3) as u32, seed));
        for round in 0..3 {
            game.play(seed << 2 | round, &roles, |i| match i % keys {
                k @ 0..3 if seed.is_multiple_of(2) => u64::MAX - k,
                k => k,
            });
        }
    }
    on_every_id_format!(scenario, 60);
}

#[test]
fn withdrawals_beside_inserts_hand_every_id_to_one() {
    fn scenario<F: IdFormat>(seed: u64) {
        let roles = [
            Role::Insert,
            Role::Withdraw,
            Role::GetOrInsert,
            Role::Withdraw,
            Role::Get,
            Role::Withdraw,
        ];
        let mut game = Game::<F>::new(HostTable::new(&[64], 0, seed));
        // Reserved keys in most: the slots of their cells are used up soon, and then used again.
        let keys = 1 + seed % 4;
        for round in 0..4 {
            game.play(seed << 3 | round, &roles, |i| match i % keys {
                3 => 3,
                k => u64::MAX - k,
            });
            // Between the two, alone, exchanges.
            game.play(seed << 3 | 4 | round, &[Role::Exchange], |i| {
                u64::MAX - i % 3
            });
        }
    }
    on_every_id_format!(scenario, 80);
}
