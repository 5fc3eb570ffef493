//! The executor through the public facade: collectives against plain references, barriers, faults,
//! schedules, and launches from many threads.

mod barriers;
mod by_block;
mod collectives;
mod faults;
mod launches;
mod policies;
mod replays;
mod schedules;
mod shrinks;
mod together;
mod unwinding;
mod weak;

use std::sync::atomic::{AtomicU64, Ordering};

use gpumap_simt::executor::{Config, Executor, Fault};
use gpumap_simt::kernel::Grid;

/// Runs a body on an executor.
fn launch(on: &Executor, blocks: u32, threads: u32, body: impl Fn() + Sync) -> Result<(), Fault> {
    // SAFETY: the bodies of these tests touch memory through atomics and the slots below only.
    unsafe { on.launch("test", Grid::new(blocks, threads), &body) }
}

/// The executors that every test of results goes through: one worker, several, and some seeds.
fn executors() -> impl Iterator<Item = Executor> {
    let workers = |workers| Config {
        workers,
        ..Config::default()
    };
    [
        workers(1),
        workers(3),
        Config::random(1),
        Config::random(0xfeed),
    ]
    .map(Executor::new)
    .into_iter()
}

/// One word per thread of a grid, for results.
struct Slots(Vec<AtomicU64>);

impl Slots {
    fn new(n: usize) -> Self {
        Self((0..n).map(|_| AtomicU64::new(u64::MAX)).collect())
    }

    fn set(&self, value: impl Into<u64>) {
        self.0[gpumap_simt::thread::index() as usize].store(value.into(), Ordering::Relaxed);
    }

    fn get(&self, thread: usize) -> u64 {
        self.0[thread].load(Ordering::Relaxed)
    }
}
