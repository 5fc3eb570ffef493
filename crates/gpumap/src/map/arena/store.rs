//! The verbs that store pairs or replace values: values go to cells first, then the cells' ids to slots.

use std::ptr;

use gpumap_kernels::cells::NO_CELL;

use super::super::command::{Arrays, Batch, Command, Kind};
use super::Core;
use super::gate::Kind as Gated;
use super::memory::Arena;
use super::ring::Returned;
use super::upkeep::Taken;
use crate::array::{Array, ArrayMut};
use crate::error::{Error, Result};
use crate::lock::ReadGuard;
use crate::scratch::{ScratchRole, Workspace, address_of};

/// What has become of a batch, while the arena is still shared.
struct Stored<'m> {
    arena: ReadGuard<'m, Arena>,
    /// How many keys were new.
    new: usize,
    /// The id that the map holds for each key, of `get_or_insert`.
    held: *mut u32,
}

/// Where the ids of a batch are, on the device.
#[derive(Clone, Copy)]
struct Ids {
    /// The batch's own.
    own: *mut u32,
    /// What the map holds for each key, or what was replaced; null if that is not requested.
    held: *mut u32,
    /// One byte per key, 1 where its own was stored: as a new pair, or by an update.
    outcomes: *mut u8,
    len: usize,
}

impl Core {
    /// Stores a batch or updates present keys, and waits. Returns how many keys were new, or present. The outputs are at least as long as the keys.
    pub(super) fn store(&self, batch: Batch<'_>, outputs: Arrays<'_>) -> Result<usize> {
        let kind = match batch.kind {
            Kind::Merge(_) => Kind::ExchangeIds,
            Kind::Update(update) => Kind::GetAndTouch(update),
            kind => kind,
        };
        let (keys, values, len) = (batch.keys, batch.values.each(), batch.keys.len());
        self.ids.scratch.of_batch(|scratch| {
            let _pass = replaces(kind).then(|| self.gate.enter(Gated::Replaces));
            let bytes = |output: &Option<ArrayMut<'_>>| {
                let output = output.as_ref();
                output.map_or(0, |output| scratch.bytes_of_array(output, len))
            };
            let [told_values, told_flags] = outputs.each_ref().map(bytes);
            let mut targets = scratch.host_targets(outputs, len).map_err(|error| {
                let flags = match told_flags {
                    0 => Workspace::bytes_of(len),
                    told => told,
                };
                let bytes = told_values + flags + Ids::bytes(scratch, kind, keys, values);
                self.too_large_to_stage(error, len, bytes)
            })?;
            let [held, outcomes] = targets.each_mut().map(address_of);
            let stored = self.store_pairs(scratch, kind, (keys, values), outcomes);
            let stored = stored.map_err(|error| error.of_batch_with(told_values))?;
            if !held.is_null() {
                self.read_cells(&stored.arena, scratch, stored.held, held, len)?;
            }
            let new = stored.new;
            drop(stored);
            scratch.copy_all_to_host(targets.into_iter().flatten())?;
            Ok(new)
        })
    }

    /// The error of a batch for which there was not even the scratch memory of its arrays: what it needs if all keys
    /// are new. Its arrays have so many `bytes`.
    fn too_large_to_stage(&self, error: Error, batch: usize, bytes: u64) -> Error {
        let cells = {
            let arena = self.arena.read();
            arena.bytes_to_grow(batch.saturating_sub(arena.ring.free()))
        };
        let bytes = bytes.saturating_add(cells.unwrap_or(u64::MAX));
        self.ids.too_large_to_stage(error, batch, bytes)
    }

    /// Stores keys and values, and waits. For each key there is a byte for what becomes of it, 1 where its pair was
    /// stored; null if the caller does not need it.
    fn store_pairs(
        &self,
        scratch: &mut Workspace,
        kind: Kind,
        (keys, values): (Array<'_>, Array<'_>),
        outcomes: *mut u8,
    ) -> Result<Stored<'_>> {
        let len = keys.len();
        let staged = Ids::bytes(scratch, kind, keys, values)
            + match outcomes.is_null() {
                true => Workspace::bytes_of(len),
                false => scratch.bytes_at(outcomes, len),
            };
        // What may fail for want of memory, before cells are taken.
        let mut stage = || {
            // SAFETY: the workspace waits for its stream before the callers return.
            let (keys, values) = unsafe {
                (
                    scratch.stage(ScratchRole::Keys, keys.bytes())?,
                    scratch.stage(ScratchRole::Values, values.bytes())?,
                )
            };
            let ids = Ids {
                own: scratch.reserve(ScratchRole::Ids, len)?,
                held: match Ids::are_held(kind) {
                    true => scratch.reserve(ScratchRole::Held, len)?,
                    false => ptr::null_mut(),
                },
                outcomes: match outcomes.is_null() {
                    true => scratch.reserve(ScratchRole::SecondOutput, len)?,
                    false => outcomes,
                },
                len,
            };
            Ok((keys, values, ids))
        };
        let (keys, values, ids) =
            stage().map_err(|error| self.too_large_to_stage(error, len, staged))?;
        let Taken {
            arena,
            lease,
            grown,
        } = self
            .take_cells(len)
            .map_err(|error| error.of_batch_with(staged))?;
        if len != 0 {
            self.ids.or_poison(scratch, |scratch| {
                let stream = scratch.stream();
                // SAFETY: all are as long as the batch, and the cells are this call's alone.
                unsafe {
                    arena.ring.hand_out(stream, &lease, ids.own)?;
                    arena
                        .cells
                        .copying()
                        .scatter(stream, ids.own, values, len)?;
                    ids.clear(stream)
                }
            })?;
            self.order();
        }
        let job = Command {
            kind,
            keys,
            values: ids.own.cast_const().cast(),
            out_values: ids.held.cast(),
            out_flags: ids.outcomes,
            default: u64::from(NO_CELL),
            ..Command::of(Kind::Insert, self.ids.pair, len)
        };
        let new = match len {
            0 => Ok(0),
            _ if kind.traits().stores => self.ids.store_all(scratch, job),
            _ => self.ids.change_staged(scratch, job),
        };
        self.give_back(&arena, scratch, ids, kind, &new)?;
        match (new, grown) {
            (Ok(new), _) => Ok(Stored {
                arena,
                new,
                held: ids.held,
            }),
            // A part of the batch has them.
            (Err(error @ Error::Full { partial: true, .. }), _) | (Err(error), None) => {
                Err(error.of_batch_with(staged))
            }
            (Err(error), Some(grown)) => {
                drop(arena);
                self.release_cells(grown);
                Err(error.of_batch_with(staged + grown.bytes))
            }
        }
    }

    /// Gives back the ids that a batch has no use for, and waits.
    fn give_back(
        &self,
        arena: &Arena,
        scratch: &mut Workspace,
        ids: Ids,
        kind: Kind,
        new: &Result<usize>,
    ) -> Result<()> {
        let own = Returned::all(ids.own, ids.len);
        let not_stored = Returned {
            kept: ids.outcomes,
            ..own
        };
        let replaced = Returned::all(ids.held, ids.len);
        let returned = match new {
            // Those of present keys took the place of others.
            Ok(_) if !kind.traits().stores => [Some(replaced), Some(not_stored)],
            // All are in the map, and took no other's place.
            Ok(new) if *new == ids.len => [None, None],
            Ok(_) if replaces(kind) => [Some(replaced), None],
            Ok(_) => [Some(not_stored), None],
            // Keys that were made to collide: a part of the batch is in the map.
            Err(Error::Full { partial: true, .. }) if replaces(kind) => {
                let given = ids.held;
                let left = Returned {
                    given,
                    ..not_stored
                };
                [Some(replaced), Some(left)]
            }
            Err(Error::Full { partial: true, .. }) => [Some(not_stored), None],
            // The places of ids are unknown now; `clear` makes all of them free.
            Err(_) if self.ids.expect_sound().is_err() => [None, None],
            // Nothing of it is there.
            Err(_) => [Some(own), None],
        };
        self.ids.or_poison(scratch, |scratch| {
            for returned in returned.into_iter().flatten() {
                // SAFETY: all are as long as the batch. An id that was not stored is this call's, and so
                // is one that it replaced; nothing else gives them back.
                unsafe { arena.ring.retire(scratch.stream(), returned) }?;
            }
            scratch.stream().finish()
        })
    }
}

/// Whether ids take the place of others.
fn replaces(kind: Kind) -> bool {
    matches!(kind, Kind::ExchangeIds | Kind::GetAndTouch(_))
}

impl Ids {
    /// Whether the map's ids are told.
    fn are_held(kind: Kind) -> bool {
        kind == Kind::GetOrInsert || replaces(kind)
    }

    /// Bytes of a new workspace that the arrays of a batch take, but for its outcomes.
    fn bytes(scratch: &Workspace, kind: Kind, keys: Array<'_>, values: Array<'_>) -> u64 {
        let ids = Workspace::bytes_of(keys.len().saturating_mul(size_of::<u32>()));
        let told = if Ids::are_held(kind) { ids } else { 0 };
        scratch.bytes_of_pairs(keys.bytes(), values.bytes()) + ids + told
    }

    /// Queues saying that no pair is stored yet and none was replaced.
    ///
    /// # Safety
    /// The pointers lead to `len` elements or are null, and are not used until the stream is there.
    unsafe fn clear(&self, stream: &crate::stream::Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            stream.fill(self.outcomes, 0, self.len)?;
            if !self.held.is_null() {
                let bytes = self.len * size_of::<u32>();
                stream.fill(self.held.cast(), NO_CELL as u8, bytes)?;
            }
        }
        Ok(())
    }
}
