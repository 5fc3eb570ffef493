//! Groups of two of which one device fails: at each of its calls in turn, on maps of any kind.

use gpumap::sharded::Ranks;
use gpumap::{Error, Fault, Faults, Result};
use gpumap_tests::device::{noting, targets};
use gpumap_tests::group::{PATIENCE, cpu_devices};

/// A kind of map over a group.
pub struct Kind<M, H> {
    /// Makes one that holds something.
    pub make: fn(&Ranks) -> M,
    /// What each rank holds, or the error that it cannot be read.
    pub held: fn(&M) -> [Result<H>; 2],
    /// Empties it, and stores something.
    pub refill: fn(&M),
}

/// A verb by its name.
pub type Verb<M> = (&'static str, fn(&M) -> Result<()>);

/// What becomes of a map if a verb of its group fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fails {
    /// It is as it was on both ranks, or done on both; the one that failed may be poisoned.
    AsAWhole,
    /// The same if there was no memory. After another failure, each rank for itself is as it was, or done.
    ByRank,
}

/// What a rank holds, or none if a write failed half-way.
fn unless_poisoned<H>(held: Result<H>) -> Option<H> {
    match held {
        Ok(held) => Some(held),
        Err(Error::Poisoned) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Runs a verb with the call number `calls` of the second device failing, until there is no such call: with every third one on the
/// checked executor.
pub fn every_call_fails<M, H: PartialEq>(kind: &Kind<M, H>, (name, verb): Verb<M>, fails: Fails) {
    let make = || {
        let faults = Faults::default();
        let mut devices = cpu_devices(2);
        devices[1] = devices[1].with_faults(&faults);
        let ranks = Ranks::with_timeout(&devices, PATIENCE).unwrap();
        let map = (kind.make)(&ranks);
        (faults, map)
    };
    let held = |map: &M| (kind.held)(map).map(unless_poisoned);
    let (_, map) = make();
    let before = held(&map);
    verb(&map).unwrap();
    let after = held(&map);
    // What a failed call leaves undone is up to the host, whatever runs the kernels.
    let stride = targets()[0].stride(3) as u64;
    for fault in [Fault::Once, Fault::NoMemory] {
        let (mut calls, mut refused, mut poisoned) = (0, 0, 0);
        loop {
            let failed = noting(&format!("{name}: call {calls}, {fault:?}"), || {
                let (faults, map) = make();
                faults.plan(calls, fault);
                let outcome = verb(&map);
                let failed = faults.failed().is_some();
                faults.heal();
                let found = held(&map);
                let is_one_of =
                    |rank: usize| found[rank] == before[rank] || found[rank] == after[rank];
                match outcome {
                    Ok(()) => assert!(found == after),
                    Err(Error::OutOfMemory { .. }) => {
                        refused += 1;
                        assert!(found == before);
                    }
                    Err(_) if found[1].is_none() => {
                        poisoned += 1;
                        assert!(is_one_of(0));
                    }
                    Err(_) if fails == Fails::ByRank => {
                        refused += 1;
                        assert!(is_one_of(0) && is_one_of(1));
                    }
                    Err(_) => {
                        refused += 1;
                        assert!(found == before || found == after);
                    }
                }
                // The group goes on.
                (kind.refill)(&map);
                failed
            });
            if !failed {
                break;
            }
            calls += stride;
        }
        assert!(refused > 0, "{name}: nothing failed");
        println!("{name}, {fault:?}: {calls} calls, {refused} refused, {poisoned} poisoned");
    }
}
