//! What else goes on in the process while a soak runs: another library that captures graphs, and groups that are
//! made and dropped on the same devices.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use gpumap::sharded::{Ranks, ShardedMap};
use gpumap::{Device, Result};

use crate::Target;
use crate::captures::Captures;

/// What goes on beside a soak.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    /// Whether a thread captures graphs, one after the other.
    pub captures: bool,
    /// Threads that make a group over all devices, use a map over it, and drop both, one after the other.
    pub groups: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Captures that a soak did not disturb.
    pub captures: u64,
    /// Groups that were made and dropped.
    pub groups: u64,
}

/// How long ranks wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `work` beside all that. Panics if something of it fails.
pub fn during<T>(on: &Target, beside: Beside, work: impl FnOnce() -> T) -> (T, Count) {
    let stop = &AtomicBool::new(false);
    let goes_on = || !stop.load(Ordering::Relaxed);
    let (ready, is_ready) = channel();
    thread::scope(|scope| {
        let captures = scope.spawn(move || {
            // It may have to wait for another test's captures.
            let captures = beside.captures.then(|| Captures::on(on.device()));
            let _ = ready.send(());
            let Some(captures) = captures else {
                return 0;
            };
            let mut count = 0;
            while goes_on() {
                captures.during("the soak", || thread::sleep(Duration::from_millis(2)));
                count += 1;
            }
            count
        });
        let groups: Vec<_> = (0..beside.groups)
            .map(|number| {
                scope.spawn(move || {
                    let mut count = 0;
                    while goes_on() {
                        one_group(on, number as u64 + count).expect("a group beside a soak");
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        // None if the thread has panicked, which its join returns.
        let _ = is_ready.recv();
        let answer = work();
        stop.store(true, Ordering::Relaxed);
        let count = Count {
            captures: captures.join().expect("the captures"),
            groups: groups
                .into_iter()
                .map(|group| group.join().expect("the groups"))
                .sum(),
        };
        (answer, count)
    })
}

/// Makes a group, on one device or on all there are, and a map over it, and drops both.
fn one_group(on: &Target, turn: u64) -> Result<()> {
    let count = Device::cuda_count();
    let ranks = if on.device().is_cuda() && count > 1 && turn.is_multiple_of(2) {
        let devices: Vec<_> = (0..count).map(Device::cuda).collect::<Result<_>>()?;
        Ranks::with_timeout(&devices, PATIENCE)?
    } else {
        Ranks::on_one(on.device(), 2, PATIENCE)?
    };
    let map = ShardedMap::<u64, u64>::new(&ranks)?;
    let keys: Vec<u64> = (0..on.n(300, 50_000) as u64)
        .map(|i| i * 3 + turn)
        .collect();
    assert_eq!(map.insert(&keys, &keys)?, keys.len());
    let found = map.get(&keys)?;
    assert!(
        found
            .iter()
            .zip(&keys)
            .all(|(found, key)| *found == Some(*key))
    );
    if turn.is_multiple_of(3) {
        assert_eq!(map.remove(&keys)?, keys.len());
    }
    Ok(())
}
