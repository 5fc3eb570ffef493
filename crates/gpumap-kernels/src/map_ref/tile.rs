//! The verbs for a tile of four lanes: all of them call, with the same key and value. Tiles go
//! their own ways, so they may be called in code where other tiles of the warp are not.

use super::format::{Named, Pair, by_format};
use super::one::{Held, LookUp, StoreOne, entry, remove};
use super::serve::together;
use super::{Entry, Insertion, MapRef, Update};
use crate::probe::{TILE, Verb};
use crate::slot::{Bits, Format};
use crate::verbs::remove::Remove;
use crate::verbs::store::{Keep, Merge, Present};
use gpumap_simt::tile::Tile;

impl<K: Bits, V: Bits> MapRef<K, V>
where
    (K, V): Pair<Key = K, Value = V>,
{
    /// As [`get`](Self::get), four lanes together.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | the four lanes of `tile`, none exited, with the same arguments | in all four |
    ///
    /// # Safety
    /// As the table says; and as for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn tile_get(&self, tile: Tile<TILE>, key: K) -> Option<V> {
        let tile = tile.on_its_own();
        // SAFETY: passed on.
        unsafe { by_format!(self, get(tile, key), None) }
    }

    /// As [`contains`](Self::contains), four lanes together.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | the four lanes of `tile`, none exited, with the same arguments | in all four |
    ///
    /// # Safety
    /// As the table says; and as for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn tile_contains(&self, tile: Tile<TILE>, key: K) -> bool {
        let tile = tile.on_its_own();
        // SAFETY: passed on.
        unsafe { by_format!(self, contains(tile, key), false) }
    }

    /// As [`insert`](Self::insert), four lanes together: one pair.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | the four lanes of `tile`, none exited, with the same arguments | in all four |
    ///
    /// # Safety
    /// As the table says; and as for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn tile_insert(&self, tile: Tile<TILE>, key: K, value: V) -> Insertion {
        let tile = tile.on_its_own();
        // SAFETY: passed on.
        unsafe { by_format!(self, insert(tile, key, value), Insertion::Full) }
    }

    /// As [`upsert`](Self::upsert), four lanes together: one pair.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | the four lanes of `tile`, none exited, with the same arguments | in all four |
    ///
    /// # Safety
    /// As the table says; and as for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn tile_upsert(&self, tile: Tile<TILE>, key: K, value: V) -> Insertion {
        let tile = tile.on_its_own();
        // SAFETY: passed on.
        unsafe {
            by_format!(
                self,
                merge(tile, key, value, Update::Replace),
                Insertion::Full
            )
        }
    }

    /// As [`merge`](Self::merge), four lanes together: one pair, which is merged once.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | the four lanes of `tile`, none exited, with the same arguments | in all four |
    ///
    /// # Safety
    /// As the table says; and as for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn tile_merge(
        &self,
        tile: Tile<TILE>,
        key: K,
        value: V,
        update: Update,
    ) -> Insertion {
        let tile = tile.on_its_own();
        // SAFETY: passed on.
        unsafe { by_format!(self, merge(tile, key, value, update), Insertion::Full) }
    }

    /// As [`get_or_insert`](Self::get_or_insert), four lanes together: one pair.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | the four lanes of `tile`, none exited, with the same arguments | in all four |
    ///
    /// # Safety
    /// As the table says; and as for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn tile_get_or_insert(&self, tile: Tile<TILE>, key: K, value: V) -> Entry<V> {
        let tile = tile.on_its_own();
        // SAFETY: passed on.
        unsafe { by_format!(self, get_or_insert(tile, key, value), Entry::Full) }
    }

    /// As [`remove`](Self::remove), four lanes together: one key.
    ///
    /// | must call | result valid |
    /// |---|---|
    /// | the four lanes of `tile`, none exited, with the same arguments | in all four |
    ///
    /// # Safety
    /// As the table says; and as for [`get`](Self::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn tile_remove(&self, tile: Tile<TILE>, key: K) -> bool {
        let tile = tile.on_its_own();
        // SAFETY: passed on.
        unsafe { by_format!(self, take_away(tile, key), false) }
    }
}

/// The map of a format's keys and values.
type Of<F> = MapRef<<F as Format>::Key, <F as Format>::Value>;

/// # Safety
/// As for [`MapRef::tile_get`], of a map of this format, with a tile that is
/// [on its own](Tile::on_its_own); also for the functions below.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn get<F: Format>(map: &Of<F>, tile: Tile<TILE>, key: F::Key) -> Option<F::Value> {
    let mut verb = LookUp::<_, true>::new();
    // SAFETY: the map is live while it is lent, and the tile is here.
    unsafe { together::<F, _>(tile, &map.view, key, F::Value::default(), &mut verb) };
    verb.found.then_some(verb.value)
}

/// # Safety
/// As for [`get`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn contains<F: Format>(map: &Of<F>, tile: Tile<TILE>, key: F::Key) -> bool {
    let mut verb = LookUp::<_, false>::new();
    // SAFETY: the map is live while it is lent, and the tile is here.
    unsafe { together::<F, _>(tile, &map.view, key, F::Value::default(), &mut verb) };
    verb.found
}

/// Stores a pair, and counts it once. What was done with a present key is known to rank 0 alone.
///
/// # Safety
/// As for [`get`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn store<F: Format, P: Present<F>>(
    map: &Of<F>,
    tile: Tile<TILE>,
    key: F::Key,
    value: F::Value,
    present: P,
) -> (Insertion, P)
where
    StoreOne<P>: Verb<F>,
{
    let mut verb = StoreOne::new(map, present);
    // SAFETY: the map and its counters are live while it is lent, and the tile is here. Only in
    // rank 0 the verb has stored anything.
    unsafe {
        together::<F, _>(tile, &map.view, key, value, &mut verb);
        let mut outcome = verb.outcome();
        if tile.rank() == 0 && outcome == Insertion::Inserted {
            map.count_inserted();
        }
        outcome = decode(tile.shfl(code(outcome), 0));
        (outcome, verb.store.present)
    }
}

/// # Safety
/// As for [`get`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn insert<F: Format>(
    map: &Of<F>,
    tile: Tile<TILE>,
    key: F::Key,
    value: F::Value,
) -> Insertion {
    // SAFETY: passed on.
    unsafe { store::<F, _>(map, tile, key, value, Keep) }.0
}

/// # Safety
/// As for [`get`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn merge<F: Format>(
    map: &Of<F>,
    tile: Tile<TILE>,
    key: F::Key,
    value: F::Value,
    update: Update,
) -> Insertion {
    // SAFETY: passed on.
    unsafe { store::<F, _>(map, tile, key, value, Merge(update)) }.0
}

/// # Safety
/// As for [`get`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn get_or_insert<F: Format>(
    map: &Of<F>,
    tile: Tile<TILE>,
    key: F::Key,
    value: F::Value,
) -> Entry<F::Value> {
    let held = Held(F::Value::default());
    // SAFETY: passed on; the tile is here for the shuffle as well.
    unsafe {
        let (outcome, held) = store::<F, _>(map, tile, key, value, held);
        entry(outcome, tile.shfl(held.0, 0))
    }
}

/// # Safety
/// As for [`get`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn take_away<F: Format>(map: &Of<F>, tile: Tile<TILE>, key: F::Key) -> bool {
    let mut verb: Remove<F::Value, false> = remove();
    // SAFETY: the map and its counters are live while it is lent, and the tile is here. Only in
    // rank 0 the verb has removed anything.
    unsafe {
        together::<F, _>(tile, &map.view, key, F::Value::default(), &mut verb);
        if verb.removed != 0 {
            map.count_removed();
        }
        tile.shfl(verb.removed, 0) != 0
    }
}

/// An outcome as a word that a shuffle can move.
#[inline(always)]
const fn code(outcome: Insertion) -> u32 {
    match outcome {
        Insertion::Inserted => 0,
        Insertion::Present => 1,
        Insertion::Full => 2,
    }
}

/// The inverse of [`code`].
#[inline(always)]
const fn decode(code: u32) -> Insertion {
    match code {
        0 => Insertion::Inserted,
        1 => Insertion::Present,
        _ => Insertion::Full,
    }
}
