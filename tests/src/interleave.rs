//! Device code under random interleavings of its lanes: what `tests/interleavings.rs` is made of.
//!
//! A launch runs on an executor of its own, whose random schedule may hand over to any lane of
//! any block at every atomic. One seed gives one interleaving.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::AtomicU64;

use gpumap::executor::{Config, Executor, Schedule};
use gpumap::simt::kernel::Grid;
use gpumap::simt::{thread, warp};
use gpumap_kernels::count::Counters;
use gpumap_kernels::probe::serve_batch;
use gpumap_kernels::slot::{Bits, Format};
use gpumap_kernels::source::Batch;
use gpumap_kernels::table::MapView;
use gpumap_kernels::verbs::store::{Account, Present, Select, Store};

use crate::table::HostTable;

/// Calls `scenario::<F>(seed)` for every slot format and this many seeds.
#[macro_export]
macro_rules! on_every_interleaving {
    ($scenario:ident, $seeds:expr) => {{
        use gpumap_kernels::slot::Keys;
        $crate::on_interleavings_with_values!($scenario, $seeds);
        $crate::on_interleavings_with_values!(@each $scenario, $seeds, Keys<u32>, Keys<u64>);
    }};
}

/// As [`on_every_interleaving!`], for scenarios about values: sets are left out.
#[macro_export]
macro_rules! on_interleavings_with_values {
    ($scenario:ident, $seeds:expr) => {{
        use gpumap_kernels::slot::{Packed, Split, Wide};
        $crate::on_interleavings_with_values!(@each $scenario, $seeds,
            Packed, Wide<u32, u64>, Wide<u64, u32>, Wide<u64, u64>,
            Split<u32, u64>, Split<u64, u32>, Split<u64, u64>);
    }};
    (@each $scenario:ident, $seeds:expr, $($format:ty),*) => {$(
        for seed in 0..$seeds {
            let case = format!("{}, seed {seed}", stringify!($format));
            $crate::device::noting(&case, || $scenario::<$format>(seed));
        }
    )*};
}

/// Lanes per block: one warp, so that few lanes make many blocks.
pub const LANES: u32 = warp::SIZE;
/// Keys per warp: two for each lane, so that lanes are refilled.
pub const PER_WARP: u32 = 64;

/// Runs a kernel's body for every thread of a grid, in the interleaving of this seed.
///
/// Warps start up to a few rounds of probing apart, as the seed has it. Without that a fair
/// draw keeps them so closely in step that none reads what another is half-way through writing.
///
/// # Panics
/// If the body breaks a rule, or does not end.
///
/// # Safety
/// What the body does is sound on this grid; it shares memory by atomics only.
pub unsafe fn launch(seed: u64, grid: Grid, body: impl Fn() + Sync) {
    let executor = Executor::new(Config {
        workers: 1,
        schedule: Schedule::Random { seed },
        step_budget: 1 << 24,
        ..Config::default()
    });
    let staggered = || {
        for _ in 0..start_of(seed, thread::index() / u64::from(LANES)) {
            thread::nanosleep(1);
        }
        body();
    };
    // SAFETY: passed on.
    unsafe { executor.launch("interleaving", grid, &staggered) }.unwrap();
}

/// How long a warp waits before it starts.
pub fn start_of(seed: u64, warp: u64) -> u64 {
    let z = (seed << 8 | warp).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (z ^ z >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40 & 0x7f
}

/// A pointer that lanes share; each writes to elements of its own.
#[derive(Clone, Copy, Debug)]
pub struct Out<T>(*mut T);
// SAFETY: see the type; the code that uses the pointer answers for it.
unsafe impl<T> Sync for Out<T> {}

impl<T> Out<T> {
    /// To these elements.
    pub fn of(elements: &mut [T]) -> Self {
        Self(elements.as_mut_ptr())
    }

    /// To none: null.
    pub fn none() -> Self {
        Self(std::ptr::null_mut())
    }

    /// The first of them.
    pub fn ptr(&self) -> *mut T {
        self.0
    }
}

/// Keys and values for every warp of a grid.
#[derive(Clone, Debug)]
pub struct Inputs<F: Format> {
    /// The keys.
    pub keys: Vec<F::Key>,
    /// As many values.
    pub values: Vec<F::Value>,
}

impl<F: Format> Inputs<F> {
    /// [`PER_WARP`] pairs per warp; pair `i` has the key `key_of(i)` and a value made from both.
    pub fn new(warps: u32, key_of: impl Fn(u64) -> u64) -> Self {
        let n = u64::from(warps * PER_WARP);
        let value_of = |i| F::Value::from_u64(value_for(key_of(i), i));
        Self {
            keys: (0..n).map(|i| F::Key::from_u64(key_of(i))).collect(),
            values: (0..n).map(value_of).collect(),
        }
    }

    /// As device code takes them.
    pub fn batch(&self) -> Batch<F::Key, F::Value> {
        Batch {
            keys: self.keys.as_ptr(),
            values: self.values.as_ptr(),
            value: 0,
            len: self.keys.len() as u64,
            per_warp: PER_WARP,
        }
    }

    /// All values that some pair has for each key.
    pub fn offers(&self) -> HashMap<u64, Vec<u64>> {
        let mut offers: HashMap<u64, Vec<u64>> = HashMap::new();
        for (k, v) in self.keys.iter().zip(&self.values) {
            offers.entry(k.to_u64()).or_default().push(v.to_u64());
        }
        offers
    }
}

/// A value made of its key and its place in the batch.
fn value_for(key: u64, i: u64) -> u64 {
    let z = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z << 16 ^ z >> 48 << 48 ^ i
}

/// The number of distinct keys, and the key of each pair.
pub type KeyPattern = (usize, Box<dyn Fn(u64) -> u64>);

/// What meets in which way. Keys are small numbers or the reserved words.
pub fn key_patterns(slots: usize) -> Vec<KeyPattern> {
    let n = slots as u64;
    vec![
        (1, Box::new(|_| 7)),
        (2, Box::new(|i| i % 2)),
        (3, Box::new(|i| u64::MAX - i % 3)),
        (slots, Box::new(move |i| i % n)),
        (slots, Box::new(move |i| (i / 2 + i / 64) % n)),
    ]
}

/// Panics unless the table has exactly these keys, each once and with a value offered for it.
pub fn check<F: Format>(table: &HostTable<F>, offers: &HashMap<u64, Vec<u64>>) {
    let mut seen = HashMap::new();
    for (k, v) in table.pairs() {
        assert!(seen.insert(k, v).is_none(), "key {k:#x} is stored twice");
        let Some(offered) = offers.get(&k) else {
            panic!("foreign key {k:#x}");
        };
        assert!(
            offered.contains(&v),
            "key {k:#x} has the foreign value {v:#x}"
        );
    }
    assert_eq!(seen.len(), offers.len(), "keys stored");
}

/// A verb that stores. `counters[1]` counts the pairs that found no room; `outcomes` is null or has
/// a zeroed byte per key.
pub fn store_verb<P>(present: P, counters: &[AtomicU64; 2], outcomes: *mut u8) -> Store<P> {
    Store {
        present,
        account: Account {
            outcomes,
            unplaced: ptr::null_mut(),
            counters: Counters::of(counters[0].as_ptr()),
            select: if outcomes.is_null() {
                Select::All
            } else {
                Select::UntilFull
            },
        },
        stored: 0,
    }
}

/// Serves this warp's part of a batch that stores; returns how many pairs this lane stored.
///
/// # Safety
/// As for [`serve_batch`] and [`store_verb`].
pub unsafe fn store<F: Format, P: Present<F>>(
    view: &MapView,
    inputs: &Inputs<F>,
    present: P,
    counters: &[AtomicU64; 2],
    outcomes: *mut u8,
) -> u64 {
    let mut verb = store_verb(present, counters, outcomes);
    // SAFETY: passed on.
    unsafe { serve_batch::<F, _, _>(view, &inputs.batch(), &mut verb) };
    verb.stored.into()
}
