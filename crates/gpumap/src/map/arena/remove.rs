//! The verbs that take pairs away.

use std::ptr;

use bytemuck::Pod;
use gpumap_kernels::cells::NO_CELL;

use super::super::Key;
use super::super::command::{Arrays, Command, Kind};
use super::super::operand::Operands;
use super::ArenaMap;
use super::gate::Kind as Gated;
use super::memory::Arena;
use super::ring::Returned;
use crate::array::Array;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::input::{Input, Source};
use crate::memory::host_push;
use crate::op::{self, Execute};
use crate::persist::chunk_pairs;
use crate::scratch::{ScratchRole, Workspace, address_of};

/// # Remove
impl<K: Key, V: Pod + Send + Sync> ArenaMap<K, V> {
    /// Removes keys. Returns how many were present; a key that comes several times counts once.
    /// Waits for the calls that upsert, and holds new ones back.
    ///
    /// Cells are used again when a call finds no others; slots as those of a [`Map`](crate::Map).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] before anything is removed; [`Error::WrongDevice`],
    /// [`Error::Poisoned`], [`Error::Driver`].
    pub fn remove(&self, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        self.execute(op::remove(keys))
    }

    /// Removes keys, and returns their values. Of several equal keys, one gets it. Waits for the
    /// calls that upsert, and holds new ones back.
    ///
    /// ```
    /// use gpumap::{ArenaMap, Device};
    /// let map = ArenaMap::<u32, [u16; 7]>::new(&Device::cpu())?;
    /// map.insert(&[1, 2], &[[10; 7], [20; 7]])?;
    /// assert_eq!(map.take(&[2, 3])?, [Some([20; 7]), None]);
    /// assert_eq!(map.len(), 1);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`remove`](Self::remove).
    pub fn take(&self, keys: &(impl Input<K> + ?Sized)) -> Result<Vec<Option<V>>> {
        self.execute(op::take(keys))
    }

    /// Removes every pair. Waits for the calls in flight.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn clear(&self) -> Result<()> {
        let mut scratch = self.ids.core().scratch.take()?;
        self.empty(&mut *self.alone()?, &mut scratch)
    }

    /// Removes every pair and returns all of them, as [`retrieve_all`](Self::retrieve_all) does.
    /// Waits for the calls in flight.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] before anything is removed; [`Error::Poisoned`], [`Error::Driver`].
    pub fn drain(&self) -> Result<(Vec<K>, Vec<V>)> {
        let mut scratch = self.ids.core().scratch.take()?;
        let mut arena = self.alone()?;
        let pairs = self.retrieve_from(&arena, &mut scratch)?;
        self.empty(&mut arena, &mut scratch)?;
        Ok(pairs)
    }

    /// Keeps the pairs whose key is in the batch, and removes all others. Returns how many were
    /// removed. Waits for the calls in flight.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] before anything is removed, or when cells could not be made free:
    /// then they are not used again until [`clear`](Self::clear) or
    /// [`shrink_to_fit`](Self::shrink_to_fit). [`Error::WrongDevice`], [`Error::Poisoned`],
    /// [`Error::Driver`].
    pub fn retain_keys(&self, keys: &(impl Input<K> + ?Sized)) -> Result<usize> {
        let mut arena = self.alone()?;
        let removed = self.ids.retain_keys(keys)?;
        if removed != 0 {
            arena.free_all_but(&self.stored_ids()?)?;
        }
        Ok(removed)
    }

    /// Keeps the pairs for which `keep` says so, and removes all others. Returns how many were removed. The values are of a
    /// type of which the device knows nothing, so all pairs are streamed to the host. Waits for the calls in flight, and
    /// holds new ones back: `keep` must not wait for one of another thread. It may look the map up; changes are [`Error::Nested`].
    ///
    /// ```
    /// use gpumap::{ArenaMap, Device};
    /// let map = ArenaMap::<u32, [f32; 3]>::new(&Device::cpu())?;
    /// map.insert(&[1, 2, 3], &[[0.5; 3], [2.0; 3], [0.1; 3]])?;
    /// assert_eq!(map.retain(|key, value| key != 3 && value[0] < 1.0)?, 2);
    /// assert_eq!(map.retrieve_all()?, (vec![1], vec![[0.5; 3]]));
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`retain_keys`](Self::retain_keys).
    pub fn retain(&self, mut keep: impl FnMut(K, &V) -> bool) -> Result<usize> {
        let mut arena = self.alone()?;
        let mut unwanted = Vec::new();
        for chunk in self.ids.chunks(chunk_pairs::<K, V>()) {
            let chunk = chunk?;
            let values = self.values_of(&arena, chunk.values())?;
            for (&key, value) in chunk.keys().iter().zip(&values) {
                let keeps = {
                    let _callback = arena.callback();
                    keep(key, value)
                };
                if !keeps {
                    host_push(&mut unwanted, key)?;
                }
            }
        }
        let removed = self.ids.remove(&unwanted)?;
        if removed != 0 {
            // What `keep` has looked up by streams.
            self.ids.core().state.retire_all()?;
            arena.free_all_but(&self.stored_ids()?)?;
        }
        Ok(removed)
    }

    /// The values in some cells. The caller has the arena alone.
    fn values_of(&self, arena: &Arena, ids: &[u32]) -> Result<Vec<V>> {
        let mut scratch = self.ids.core().scratch.take()?;
        // SAFETY: the wait below is over before the ids are given back.
        let staged = unsafe { scratch.stage(ScratchRole::Ids, Source::Host(ids)) }?;
        let mut values = scratch.output_of_some::<V>(ScratchRole::FirstOutput, ids.len())?;
        let to = values.as_mut_ptr().cast();
        self.read_cells(arena, &mut scratch, staged, to, ids.len())?;
        scratch.fetch(values, ids.len())
    }

    /// Removes keys, and waits. Returns how many were present. The outputs are at least as long as the keys.
    pub(super) fn take_away(&self, keys: Array<'_>, outputs: Arrays<'_>) -> Result<usize> {
        let (core, len) = (self.ids.core(), keys.len());
        let mut scratch = core.scratch.take()?;
        let mut targets = scratch.host_targets(outputs, len)?;
        let [values, found] = targets.each_mut().map(address_of);
        let ids: *mut u32 = scratch.reserve(ScratchRole::Ids, len)?;
        let command = Command {
            default: u64::from(NO_CELL),
            out_values: ids.cast(),
            out_flags: found,
            ..Command::of(Kind::TakeIds, core.pair, len)
        };
        let removed = {
            let _pass = self.gate.enter(Gated::Removes);
            let arena = self.arena.read();
            let removed = {
                let table = core.table.read();
                core.change_batch(&table, &mut scratch, keys, Operands::NONE, command)?
            };
            let read = match values.is_null() {
                true => Ok(()),
                false => {
                    self.order();
                    let stream = scratch.stream();
                    // SAFETY: the ids were in slots just now, and the arena is shared until `retire` has waited.
                    unsafe {
                        arena
                            .cells
                            .gather(stream, ids, values, ptr::null_mut(), len)
                    }
                }
            };
            self.retire(&arena, &mut scratch, ids, len, removed)?;
            read?;
            removed
        };
        scratch.copy_all_to_host(targets.into_iter().flatten())?;
        Ok(removed)
    }

    /// Gives back the ids of pairs that were removed, and waits.
    fn retire(
        &self,
        arena: &Arena,
        scratch: &mut Workspace,
        ids: *const u32,
        len: usize,
        removed: usize,
    ) -> Result<()> {
        self.ids.core().or_poison(scratch, |scratch| {
            if removed != 0 {
                // SAFETY: as long as the batch. The ids are those of pairs that this call took
                // away.
                unsafe { arena.ring.retire(scratch.stream(), Returned::all(ids, len)) }?;
            }
            scratch.stream().finish()
        })
    }

    /// Empties slots and cells. The caller has the arena alone.
    fn empty(&self, arena: &mut Arena, scratch: &mut Workspace) -> Result<()> {
        self.ids.clear()?;
        self.ids.core().or_poison(scratch, |_| arena.clear())
    }
}
