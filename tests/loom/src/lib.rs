//! Models of the map's protocols for [loom], which runs a small program in every order of events, and
//! for each value that a relaxed load may return.
//!
//! What loom runs here is the code that is shipped, not a copy of it. Device code that a lane does by
//! itself gets its memory from [`LoomMemory`]: the walk of a key, the slots' claims and updates, the
//! slab allocator, the counters. The host's bookkeeping is compiled once more, against loom's locks and
//! atomics instead of the real ones: [`sync`] stands in for the module of that name in `gpumap`.
//!
//! | module of the tests | of |
//! |---|---|
//! | `slots` | [`Packed`], [`Wide`], [`Split`] and [`Keys`] slots under the real verbs |
//! | `cells` | reserved keys, whose tombstones are used again |
//! | `counts` | how the counters come home |
//! | `chains` | the bitmap of the slab allocator, and the link by CAS |
//! | `fence` | calls in flight, and what waits for them; reservations of room |
//! | `gate` | calls that do not run beside each other |
//! | `work` | what is known of the work on a stream |
//!
//! Beside each model is one with a planted bug, which loom has to find: a model that cannot fail says
//! nothing.
//!
//! [`Packed`]: gpumap_kernels::slot::Packed
//! [`Wide`]: gpumap_kernels::slot::Wide
//! [`Split`]: gpumap_kernels::slot::Split
//! [`Keys`]: gpumap_kernels::slot::Keys

mod memory;
mod planted;
pub mod sync;
mod table;

pub use memory::{Fault, LoomMemory, Units};
pub use planted::{Bug, Planted};
pub use table::{Table, add, get, get_or_insert, insert, remove};

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// Runs `model` in every order of events with at most so many preemptions.
///
/// Nearly all errors of protocols show with two; the number of orders grows with the length of the
/// model to this power.
pub fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let orders = Arc::new(AtomicU64::new(0));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    let count = orders.clone();
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        model();
    });
    // Shown when tests run with `--nocapture`.
    let name = thread::current().name().unwrap_or("model").to_owned();
    println!("{name}: {} orders of events", orders.load(Relaxed));
}

/// The same on some memory, for device code.
pub fn explore_on<T>(
    preemptions: usize,
    fault: Fault,
    setup: impl Fn() -> (T, Units) + Sync + Send + 'static,
    model: impl Fn(&T) + Sync + Send + 'static,
) {
    explore(preemptions, move || {
        let (world, units) = setup();
        let memory = Rc::new(LoomMemory::new(&units, fault));
        gpumap_simt::executor::with_model(memory, || model(&world));
    });
}
