//! Room for more pairs: slabs that are added to the pool.
//!
//! Every slab of the pool that is in a chain has a full one before it, and no two the same. So as long
//! as `used` slots are not empty, there are no more than `used / slots per slab` of them. Beside that,
//! a warp may hold four for a moment: one for each of its tiles.

use gpumap_kernels::chained::slab::LANES;
use gpumap_simt::warp;

use super::chains::Chains;
use super::{Core, MultiMap, Word, WordKey};
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

/// # Capacity
impl<K: WordKey, V: Word<Bits = K::Bits>> MultiMap<K, V> {
    /// Makes room for `more` pairs beyond those it has, whatever their keys. Waits for the calls in
    /// flight. For kernels of your own that found the map full, before they are launched again.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Full`] if the pool is fixed: the map holds what it held.
    /// [`Error::CapacityOverflow`], [`Error::Poisoned`], [`Error::Driver`].
    pub fn reserve(&self, more: usize) -> Result<()> {
        let spare = self.core.spare_slots(more);
        let mut chains = self.core.exclusive()?;
        self.core.make_room_and_spare(&mut chains, more, spare)
    }
}

impl Core {
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
        if pairs <= self.state.occupancy.left() {
            return Ok(());
        }
        let (len, capacity) = (self.state.occupancy.len(), self.pool_capacity());
        let has_tombstones = self.state.occupancy.used() > len;
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
        let least = self.slabs_beyond(chains, self.state.occupancy.used().saturating_add(pairs));
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

    /// The error of a batch for which there was not even the scratch memory of its arrays, so many `bytes`: what it
    /// needs if all of its pairs are new.
    pub(super) fn too_large_to_stage(&self, error: Error, batch: usize, bytes: u64) -> Error {
        if !matches!(error, Error::OutOfMemory { .. }) {
            return error;
        }
        let chains = self.chains.read();
        let used = self.state.occupancy.used().saturating_add(batch);
        let pool = match self.fixed {
            true => Ok(0),
            false => chains.bytes_to_grow(self.slabs_beyond(&chains, used)),
        };
        error.of_batch_of(pool.unwrap_or(u64::MAX).saturating_add(bytes))
    }

    /// Slabs that the pool lacks for so many slots that are not empty.
    fn slabs_beyond(&self, chains: &Chains, used: usize) -> usize {
        let slabs = used.div_ceil(self.slab_slots());
        slabs.saturating_sub(chains.slabs())
    }

    /// Adds slabs, and takes note.
    fn grow(&self, chains: &mut Chains, add: impl Fn(&mut Chains) -> Result<()>) -> Result<()> {
        let before = chains.slabs();
        let mut added = add(chains);
        if matches!(added, Err(Error::OutOfMemory { .. })) {
            // What earlier calls have left for later ones.
            self.scratch.trim();
            added = add(chains);
        }
        added?;
        tracing::debug!(
            from = before,
            to = chains.slabs(),
            "adding slabs to the pool"
        );
        self.state
            .occupancy
            .resized(chains.slabs() * self.slab_slots());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::testing::on_each_back_end;

    const PAIRS: usize = 12_000;

    #[test]
    fn warps_in_flight_hold_four_slabs_each() {
        assert_eq!(spare_slabs(1, 132), 4);
        assert_eq!(spare_slabs(33, 132), 8);
        assert_eq!(spare_slabs(1 << 30, 132), 132 * 64 * 4);
    }

    #[test]
    fn a_refused_batch_of_pairs_of_a_multimap_takes_nothing() {
        type Store = fn(&MultiMap<u64, u64>, &[u64]) -> Result<()>;
        let verbs: [(&str, Store); 3] = [
            ("insert", |map, keys| map.insert(keys, keys).map(drop)),
            ("append", |map, keys| map.append(keys, keys)),
            ("apply", |map, keys| {
                let operations = vec![crate::multi::Operation::Append; keys.len()];
                map.apply(&operations, keys, keys).map(drop)
            }),
        ];
        on_each_back_end(|device| {
            let with = |more: u64| {
                let build = |device: &Device| {
                    let builder = MultiMap::<u64, u64>::builder(device);
                    builder.buckets(200).capacity(2_000).build().unwrap()
                };
                let free = device.with_memory_budget(u64::MAX);
                let held = (build(&free), free.allocated_bytes()).1;
                let device = device.with_memory_budget(held + more);
                (build(&device), device, held)
            };
            let keys: Vec<u64> = (0..PAIRS as u64).collect();
            for (verb, store) in verbs {
                let mut needs = Vec::new();
                for more in [4_000, 60_000, 200_000, 400_000, 1_000_000] {
                    let (map, device, held) = with(more);
                    let stats = map.stats().unwrap();
                    map.trim();
                    match store(&map, &keys) {
                        Ok(()) => assert_eq!(map.len(), PAIRS, "{verb}"),
                        Err(Error::OutOfMemory { needed, available }) => {
                            assert!(available <= more && needed > available, "{verb}");
                            needs.push(needed);
                            assert_eq!(device.allocated_bytes(), held, "{verb}, {more} bytes");
                            assert_eq!(map.stats().unwrap(), stats, "{verb}");
                        }
                        other => panic!("{verb}: {other:?}"),
                    }
                }
                assert!(needs.len() >= 2, "{verb}: {needs:?}");
                needs.dedup();
                assert_eq!(needs.len(), 1, "{verb}: {needs:?}");
                let (map, ..) = with(needs[0]);
                store(&map, &keys).unwrap();
            }
        });
    }
}
