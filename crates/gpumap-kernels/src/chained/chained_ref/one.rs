//! The verbs of a [`ChainedWarp`] for a known slot format: those of the batches, whose answers stay in
//! the lanes.

use super::ChainedWarp;
use crate::chained::answer::{Held, Outcome};
use crate::chained::verbs::{Count, Get, Remove, Store, Tally};
use crate::map_ref::{Entry, Insertion, Pair};
use crate::slot::{Bits, Format};

/// # Safety
/// As for [`ChainedWarp::get`], with a map of format `F`.
#[inline(always)]
pub(super) unsafe fn get<F: Format>(
    warp: &mut ChainedWarp<F::Key, F::Value>,
    key: Option<F::Key>,
) -> Option<F::Value>
where
    (F::Key, F::Value): Pair<Key = F::Key, Value = F::Value>,
{
    let mut verb = Get {
        report: Held::new(),
    };
    // SAFETY: passed on.
    unsafe { warp.serve::<F, _>(key.map(|key| (key, F::Value::default())), &mut verb) };
    (verb.report.outcome == Outcome::Present).then_some(verb.report.value)
}

/// # Safety
/// As for [`ChainedWarp::insert`], with a map of format `F`.
#[inline(always)]
pub(super) unsafe fn insert<F: Format>(
    warp: &mut ChainedWarp<F::Key, F::Value>,
    pair: Option<(F::Key, F::Value)>,
) -> Option<Entry<F::Value>>
where
    (F::Key, F::Value): Pair<Key = F::Key, Value = F::Value>,
{
    // SAFETY: passed on.
    let held = unsafe { store::<F, true>(warp, pair) };
    pair.map(|_| match held.outcome {
        Outcome::Stored => Entry::Inserted,
        Outcome::Present => Entry::Present(held.value),
        _ => Entry::Full,
    })
}

/// # Safety
/// As for [`ChainedWarp::append`], with a map of format `F`.
#[inline(always)]
pub(super) unsafe fn append<F: Format>(
    warp: &mut ChainedWarp<F::Key, F::Value>,
    pair: Option<(F::Key, F::Value)>,
) -> Option<Insertion>
where
    (F::Key, F::Value): Pair<Key = F::Key, Value = F::Value>,
{
    // SAFETY: passed on.
    let held = unsafe { store::<F, false>(warp, pair) };
    pair.map(|_| match held.outcome {
        Outcome::Stored => Insertion::Inserted,
        _ => Insertion::Full,
    })
}

/// # Safety
/// As for [`ChainedWarp::insert`], with a map of format `F`.
#[inline(always)]
unsafe fn store<F: Format, const UNIQUE: bool>(
    warp: &mut ChainedWarp<F::Key, F::Value>,
    pair: Option<(F::Key, F::Value)>,
) -> Held<F::Value>
where
    (F::Key, F::Value): Pair<Key = F::Key, Value = F::Value>,
{
    let mut verb = Store::<_, UNIQUE> {
        report: Held::new(),
        tally: Tally::default(),
    };
    // SAFETY: passed on.
    unsafe {
        warp.serve::<F, _>(pair, &mut verb);
        warp.tell(verb.tally);
    }
    verb.report
}

/// # Safety
/// As for [`ChainedWarp::remove`], with a map of format `F`.
#[inline(always)]
pub(super) unsafe fn remove<F: Format>(
    warp: &mut ChainedWarp<F::Key, F::Value>,
    key: Option<F::Key>,
) -> Option<F::Value>
where
    (F::Key, F::Value): Pair<Key = F::Key, Value = F::Value>,
{
    let mut verb = Remove {
        report: Held::new(),
        tally: Tally::default(),
    };
    // SAFETY: passed on.
    unsafe {
        warp.serve::<F, _>(key.map(|key| (key, F::Value::default())), &mut verb);
        warp.tell(verb.tally);
    }
    (verb.report.outcome == Outcome::Removed).then_some(verb.report.value)
}

/// # Safety
/// As for [`ChainedWarp::count`], with a map of format `F`.
#[inline(always)]
pub(super) unsafe fn count<F: Format>(
    warp: &mut ChainedWarp<F::Key, F::Value>,
    key: Option<F::Key>,
) -> u64
where
    (F::Key, F::Value): Pair<Key = F::Key, Value = F::Value>,
{
    let mut verb = Count {
        report: Held::new(),
        pairs: 0,
    };
    // SAFETY: passed on.
    unsafe { warp.serve::<F, _>(key.map(|key| (key, F::Value::default())), &mut verb) };
    verb.report.value.to_u64()
}
