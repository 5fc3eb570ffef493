//! Looking keys up over a group.

use std::sync::Arc;

use super::error::GroupError;
use super::exchange::attempt;
use super::scatter_gather::Targets;
use super::step::Call;
use super::{Rank, Shard};
use crate::error::{Error, Result, expect_room};
use crate::input::{Input, Source};
#[cfg(doc)]
use crate::map::Map;
use crate::map::{Key, Value};
use crate::output::{Output, found_values};
use crate::scratch::{ScratchRole, Workspace};

/// # Look up
impl<K: Key, V: Value> Shard<K, V> {
    /// [`Map::get`] over the group: the value of each key of this rank's batch, whoever has it.
    ///
    /// # Errors
    /// As for [`Map::get`], of any rank, and [`Error::Group`].
    pub fn get(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
    ) -> Result<Vec<Option<V>>> {
        if rank.ranks() == 1 {
            return self.map.get(keys);
        }
        let keys = keys.source();
        let len = keys.len();
        let make = |scratch: &mut Workspace| {
            let mut values = scratch.output::<V>(ScratchRole::FirstOutput, len)?;
            let mut found = scratch.output::<u8>(ScratchRole::SecondOutput, len)?;
            let targets = Targets {
                values: Some(values.as_mut_ptr()),
                found: found.as_mut_ptr(),
            };
            Ok((targets, (values, found)))
        };
        let (values, found) =
            self.ask_all(rank, keys, true, make, |scratch, (values, found)| {
                Ok((scratch.fetch(values, len)?, scratch.fetch(found, len)?))
            })?;
        found_values(values, found)
    }

    /// [`Map::contains`] over the group.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn contains(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
    ) -> Result<Vec<bool>> {
        if rank.ranks() == 1 {
            return self.map.contains(keys);
        }
        let keys = keys.source();
        let len = keys.len();
        let make = |scratch: &mut Workspace| {
            let mut found = scratch.output::<u8>(ScratchRole::FirstOutput, len)?;
            let targets = Targets {
                values: None,
                found: found.as_mut_ptr(),
            };
            Ok((targets, found))
        };
        let fetch = |scratch: &mut Workspace, found| scratch.fetch(found, len);
        let found = self.ask_all(rank, keys, false, make, fetch)?;
        Ok(found.into_iter().map(|found| found != 0).collect())
    }

    /// [`Map::get_into`] over the group, into memory of the host or of the rank's device: `found[i]` is 1 and
    /// `values[i]` the value of `keys[i]`, or both are 0 where it is absent.
    ///
    /// # Errors
    /// As for [`get`](Self::get), and [`Error::OutputTooSmall`] if an output is shorter than `keys`.
    pub fn get_into(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: &mut (impl Output<V> + ?Sized),
        found: &mut (impl Output<u8> + ?Sized),
    ) -> Result<()> {
        if rank.ranks() == 1 {
            return self.map.get_into(keys, values, found);
        }
        let (keys, values, found) = (keys.source(), values.sink(), found.sink());
        let len = keys.len();
        let make = |scratch: &mut Workspace| {
            expect_room(len, values.len().min(found.len()))?;
            let mut values = scratch.host_target(ScratchRole::FirstOutput, values, len)?;
            let mut found = scratch.host_target(ScratchRole::SecondOutput, found, len)?;
            let targets = Targets {
                values: Some(values.as_mut_ptr()),
                found: found.as_mut_ptr(),
            };
            Ok((targets, (values, found)))
        };
        self.ask_all(rank, keys, true, make, |scratch, (values, found)| {
            scratch.copy_both_to_host(values, found, len)
        })
    }

    /// [`Map::contains_into`] over the group, into memory of the host or of the rank's device: `found[i]` is 1
    /// if `keys[i]` is present, or 0.
    ///
    /// # Errors
    /// As for [`get_into`](Self::get_into).
    pub fn contains_into(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        found: &mut (impl Output<u8> + ?Sized),
    ) -> Result<()> {
        if rank.ranks() == 1 {
            return self.map.contains_into(keys, found);
        }
        let (keys, found) = (keys.source(), found.sink());
        let len = keys.len();
        let make = |scratch: &mut Workspace| {
            expect_room(len, found.len())?;
            let mut found = scratch.host_target(ScratchRole::FirstOutput, found, len)?;
            let targets = Targets {
                values: None,
                found: found.as_mut_ptr(),
            };
            Ok((targets, found))
        };
        let copy = |scratch: &mut Workspace, found| scratch.copy_to_host(found, len);
        self.ask_all(rank, keys, false, make, copy)
    }

    /// Looks a batch up, for `values` or for whether they are there: `make` finds places for the answers in a
    /// workspace, `take` what the caller wants out of them. A collective; places that could not be had are an error
    /// on all ranks.
    fn ask_all<P, R>(
        &mut self,
        rank: &mut Rank,
        keys: Source<'_, K>,
        values: bool,
        make: impl FnOnce(&mut Workspace) -> Result<(Targets<V>, P)>,
        take: impl FnOnce(&mut Workspace, P) -> Result<R>,
    ) -> Result<R> {
        let len = keys.len();
        let primitives = Arc::clone(&self.primitives);
        let made = attempt(|| {
            if u32::try_from(len).is_err() {
                return Err(Error::Group(GroupError::BatchTooLong { len }));
            }
            let mut scratch = primitives.scratch.take()?;
            let (targets, places) = make(&mut scratch)?;
            self.stream.wait_stream(scratch.stream())?;
            Ok((scratch, targets, places))
        });
        let (ready, made) = match made {
            Ok(made) => (Ok(len), Some(made)),
            Err(error) => (Err(error), None),
        };
        let session = self.negotiate(rank, Call::LookUp { values }, ready)?;
        // Without places, that was an error.
        let (mut scratch, targets, places) = made.ok_or(Error::Group(GroupError::OutOfStep))?;
        let sent = match session {
            Some(session) => self.ask(rank, &session, keys, targets)?,
            None => false,
        };
        if !sent {
            self.scatter_gather(rank, keys, targets)?;
        }
        take(&mut scratch, places)
    }
}
