//! The verbs for one lane: any lane may call them, also in divergent code.

use super::format::{Named, Pair, by_format};
use super::one::{Held, LookUp, StoreOne, entry, remove};
use super::serve::alone;
use super::{Entry, Insertion, MapRef, Update};
use crate::probe::Verb;
use crate::slot::{Bits, Format};
use crate::verbs::remove::Remove;
use crate::verbs::store::{Keep, Merge, Present};

impl<K: Bits, V: Bits> MapRef<K, V>
where
    (K, V): Pair<Key = K, Value = V>,
{
    /// The value of a key, or none.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | any lane, also in divergent code | in the calling lane |
    ///
    /// # Safety
    /// The caller is a kernel of a launch that the map was lent to, on the stream it was lent for.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn get(&self, key: K) -> Option<V> {
        // SAFETY: passed on.
        unsafe { by_format!(self, get(key), None) }
    }

    /// Whether a key is present.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | any lane, also in divergent code | in the calling lane |
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn contains(&self, key: K) -> bool {
        // SAFETY: passed on.
        unsafe { by_format!(self, contains(key), false) }
    }

    /// Keeps the present value, unlike `HashMap::insert`: stores a pair if its key is absent.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | any lane, also in divergent code | in the calling lane |
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn insert(&self, key: K, value: V) -> Insertion {
        // SAFETY: passed on.
        unsafe { by_format!(self, insert(key, value), Insertion::Full) }
    }

    /// Stores a pair; a present key gets the new value.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | any lane, also in divergent code | in the calling lane |
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn upsert(&self, key: K, value: V) -> Insertion {
        // SAFETY: passed on.
        unsafe { self.merge(key, value, Update::Replace) }
    }

    /// Stores a pair if its key is absent, else updates the value that is there with this one, in
    /// one atomic. A constant `update` is one instruction.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | any lane, also in divergent code | in the calling lane |
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn merge(&self, key: K, value: V, update: Update) -> Insertion {
        // SAFETY: passed on.
        unsafe { by_format!(self, merge(key, value, update), Insertion::Full) }
    }

    /// Stores a pair if its key is absent, else says what value is there.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | any lane, also in divergent code | in the calling lane |
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn get_or_insert(&self, key: K, value: V) -> Entry<V> {
        // SAFETY: passed on.
        unsafe { by_format!(self, get_or_insert(key, value), Entry::Full) }
    }

    /// Removes a key. Returns whether it was present; of several lanes that remove one key at the
    /// same time, one gets `true`.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | any lane, also in divergent code | in the calling lane |
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn remove(&self, key: K) -> bool {
        // SAFETY: passed on.
        unsafe { by_format!(self, take_away(key), false) }
    }
}

/// The map of a format's keys and values.
type Of<F> = MapRef<<F as Format>::Key, <F as Format>::Value>;

/// # Safety
/// As for [`MapRef::get`], of a map of this format; also for the functions below.
#[inline(always)]
unsafe fn get<F: Format>(map: &Of<F>, key: F::Key) -> Option<F::Value> {
    let mut verb = LookUp::<_, true>::new();
    // SAFETY: the map is live while it is lent.
    unsafe { alone::<F, _>(&map.view, key, F::Value::default(), &mut verb) };
    verb.found.then_some(verb.value)
}

/// # Safety
/// As for [`get`].
#[inline(always)]
unsafe fn contains<F: Format>(map: &Of<F>, key: F::Key) -> bool {
    let mut verb = LookUp::<_, false>::new();
    // SAFETY: the map is live while it is lent.
    unsafe { alone::<F, _>(&map.view, key, F::Value::default(), &mut verb) };
    verb.found
}

/// Stores a pair, and counts it.
///
/// # Safety
/// As for [`get`].
#[inline(always)]
unsafe fn store<F: Format, P: Present<F>>(
    map: &Of<F>,
    key: F::Key,
    value: F::Value,
    present: P,
) -> (Insertion, P)
where
    StoreOne<P>: Verb<F>,
{
    let mut verb = StoreOne::new(map, present);
    // SAFETY: the map and its counters are live while it is lent.
    unsafe {
        alone::<F, _>(&map.view, key, value, &mut verb);
        let outcome = verb.outcome();
        if outcome == Insertion::Inserted {
            map.count_inserted();
        }
        (outcome, verb.store.present)
    }
}

/// # Safety
/// As for [`get`].
#[inline(always)]
unsafe fn insert<F: Format>(map: &Of<F>, key: F::Key, value: F::Value) -> Insertion {
    // SAFETY: passed on.
    unsafe { store::<F, _>(map, key, value, Keep) }.0
}

/// # Safety
/// As for [`get`].
#[inline(always)]
unsafe fn merge<F: Format>(map: &Of<F>, key: F::Key, value: F::Value, update: Update) -> Insertion {
    // SAFETY: passed on.
    unsafe { store::<F, _>(map, key, value, Merge(update)) }.0
}

/// # Safety
/// As for [`get`].
#[inline(always)]
unsafe fn get_or_insert<F: Format>(map: &Of<F>, key: F::Key, value: F::Value) -> Entry<F::Value> {
    // SAFETY: passed on.
    let (outcome, held) = unsafe { store::<F, _>(map, key, value, Held(F::Value::default())) };
    entry(outcome, held.0)
}

/// # Safety
/// As for [`get`].
#[inline(always)]
unsafe fn take_away<F: Format>(map: &Of<F>, key: F::Key) -> bool {
    let mut verb: Remove<F::Value, false> = remove();
    // SAFETY: the map and its counters are live while it is lent.
    unsafe {
        alone::<F, _>(&map.view, key, F::Value::default(), &mut verb);
        if verb.removed != 0 {
            map.count_removed();
        }
    }
    verb.removed != 0
}
