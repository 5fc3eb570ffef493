//! Room for more pairs: slabs that are added to the pool.
//!
//! Every slab of the pool that is in a chain has a full one before it, and no two the same. So as long
//! as `used` slots are not empty, there are no more than `used / slots per slab` of them. Beside that,
//! a warp may hold four for a moment: one for each of its tiles.

use gpumap_kernels::chained::slab::LANES;
use gpumap_simt::warp;

use super::chains::Chains;
use super::{ChainedMap, Key, Value};
use crate::error::{Error, Result};

const WARP: usize = warp::SIZE as usize;
/// Slabs that a warp may hold and has not linked yet.
const HELD_BY_WARP: usize = WARP / LANES as usize;
/// Most warps that run on a multiprocessor at a time.
const MULTIPROCESSOR_WARPS: usize = 64;
/// A map is compacted rather than grown if that leaves at least one in so many of its capacity free.
const WORTHWHILE: usize = 16;

/// Slabs that the warps of a batch may hold for a moment, more than they need.
pub(super) fn spare_slabs(batch: usize, multiprocessors: u32) -> usize {
    let at_a_time = multiprocessors as usize * MULTIPROCESSOR_WARPS;
    HELD_BY_WARP * batch.div_ceil(WARP).min(at_a_time)
}

impl<K: Key, V: Value<Bits = K::Bits>> ChainedMap<K, V> {
    /// Makes room for `more` pairs beyond those it has, whatever their keys. Waits for the calls in
    /// flight. For kernels of your own that found the map full, before they are launched again.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Full`] if the pool is fixed: the map holds what it held.
    /// [`Error::CapacityOverflow`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn reserve(&self, more: usize) -> Result<()> {
        let spare = self.spare_slots(more);
        self.make_room_and_spare(&mut *self.exclusive()?, more, spare)
    }

    /// Slots of the slabs that the warps of a batch of `keys` may hold. A batch runs beside others if
    /// there is room for its pairs and for these.
    pub(super) fn spare_slots(&self, keys: usize) -> usize {
        spare_slabs(keys, self.device.multiprocessors()) * self.slab_slots()
    }

    /// Makes room for `pairs` more, alone, and for `spare` slots beside if that can be had.
    pub(super) fn make_room_and_spare(
        &self,
        chains: &mut Chains,
        pairs: usize,
        spare: usize,
    ) -> Result<()> {
        if !self.fixed {
            match self.make_room(chains, pairs.saturating_add(spare)) {
                Err(Error::OutOfMemory { .. } | Error::CapacityOverflow { .. }) => {}
                done => return done,
            }
        }
        self.make_room(chains, pairs)
    }

    /// Makes room for `pairs` more, alone: by compacting if that is enough, else by adding slabs.
    pub(super) fn make_room(&self, chains: &mut Chains, pairs: usize) -> Result<()> {
        if pairs <= self.room.left() {
            return Ok(());
        }
        let (len, capacity) = (self.room.len(), self.capacity());
        let has_tombstones = self.room.used() > len;
        let needed = len.saturating_add(pairs);
        let worthwhile = match self.fixed {
            true => capacity,
            false => capacity - capacity / WORTHWHILE,
        };
        if has_tombstones && needed <= worthwhile {
            return self.compact_in(chains).map(drop);
        }
        if self.fixed {
            return Err(self.full(pairs, needed - capacity, false));
        }
        let least = self.slabs_beyond(chains, self.room.used().saturating_add(pairs));
        let spare = spare_slabs(pairs, self.device.multiprocessors());
        let wished = least.saturating_add(spare).max(chains.slabs());
        let mut grown = self.grow(chains, |chains| chains.grow_by_blocks(wished));
        if matches!(grown, Err(Error::OutOfMemory { .. })) {
            grown = self.grow(chains, |chains| chains.grow_by(least));
        }
        if !matches!(grown, Err(Error::OutOfMemory { .. })) || !has_tombstones {
            return grown;
        }
        self.compact_in(chains)?;
        match self.slabs_beyond(chains, needed) {
            0 => Ok(()),
            least => self.grow(chains, |chains| chains.grow_by(least)),
        }
    }

    /// Slabs that the pool lacks for so many slots that are not empty.
    fn slabs_beyond(&self, chains: &Chains, used: usize) -> usize {
        let slabs = used.div_ceil(self.slab_slots());
        slabs.saturating_sub(chains.slabs())
    }

    /// Adds slabs, and takes note.
    fn grow(&self, chains: &mut Chains, add: impl FnOnce(&mut Chains) -> Result<()>) -> Result<()> {
        let before = chains.slabs();
        add(chains)?;
        tracing::debug!(
            from = before,
            to = chains.slabs(),
            "adding slabs to the pool"
        );
        self.room.resized(chains.slabs() * self.slab_slots());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warps_in_flight_hold_four_slabs_each() {
        assert_eq!(spare_slabs(1, 132), 4);
        assert_eq!(spare_slabs(33, 132), 8);
        assert_eq!(spare_slabs(1 << 30, 132), 132 * 64 * 4);
    }
}
