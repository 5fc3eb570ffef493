//! Keys of the host that are looked up, and answers for it.

use std::ptr;

use bytemuck::Pod;

use super::take_there;
use crate::error::Result;
use crate::input::Source;
use crate::map::look_up::{LookUp, Outputs};
use crate::map::table::Table;
use crate::map::{Key, Map, Value};
use crate::output::Sink;
use crate::scratch::{Crew, Lane, Places, Slot, places_of};

/// Which answers of a lookup are wanted.
#[derive(Clone, Copy, Debug)]
pub(in crate::map) struct Wanted {
    pub values: bool,
    pub found: bool,
}

impl Wanted {
    /// Bytes of the answers to so many keys: values, and behind them who was found.
    fn bytes<V>(self, keys: usize) -> [usize; 2] {
        [
            usize::from(self.values) * keys * size_of::<V>(),
            usize::from(self.found) * keys,
        ]
    }
}

impl<K: Key, V: Value> Map<K, V> {
    /// Threads for a lookup of keys of the host, if they are many.
    pub(in crate::map) fn crew_for<'a>(
        &self,
        keys: Source<'a, K>,
        wanted: Wanted,
    ) -> Option<(&'a [K], Crew)> {
        let Source::Host(keys) = keys else {
            return None;
        };
        let per_key = size_of::<K>()
            + usize::from(wanted.values) * size_of::<V>()
            + usize::from(wanted.found);
        Some((keys, self.scratch.crew(keys.len().saturating_mul(per_key))?))
    }

    /// Queues looking up a piece that has been loaded; returns where the answers are then, one
    /// array right behind the other. To be called under the table's lock, which is to be held until
    /// the lane has been waited for.
    fn queue_piece(
        &self,
        table: &Table,
        lane: &mut Lane,
        keys: &[K],
        wanted: Wanted,
        default: V,
    ) -> Result<*const u8> {
        let staged = take_there(lane, Slot::Keys, 0, keys)?;
        let [values, found] = wanted.bytes::<V>(keys.len());
        let answers: *mut u8 = lane.reserve(Slot::FirstOutput, values + found)?;
        let unless_none = |is_wanted, at| if is_wanted { at } else { ptr::null_mut() };
        let look_up = LookUp {
            keys: staged,
            len: keys.len(),
            outputs: Outputs {
                values: unless_none(wanted.values, answers).cast(),
                found: unless_none(wanted.found, answers.wrapping_add(values)),
                default,
            },
        };
        self.expect_sound()?;
        // SAFETY: the keys are staged, and there are places for as many answers; the caller holds
        // the table's lock until this has ended.
        unsafe { self.launch_look_up(table, lane.stream(), look_up) }?;
        Ok(answers)
    }

    /// Looks up keys of the host, if they are many, and makes something of each answer: `fill`
    /// writes it, from values, `default` where there is none, and from bytes that say which were found. What is not wanted of
    /// these has elements of no bytes.
    ///
    /// # Safety
    /// `fill` is for elements of these types.
    pub(in crate::map) unsafe fn collect_answers<T, A: Pod, B: Pod>(
        &self,
        keys: Source<'_, K>,
        wanted: Wanted,
        default: V,
        fill: unsafe fn(Places),
    ) -> Result<Option<Vec<T>>> {
        let Some((keys, crew)) = self.crew_for(keys, wanted) else {
            return Ok(None);
        };
        let table = self.table.read();
        // Dropped before the lock is opened: after an error kernels of other lanes still read the
        // table.
        let mut crew = crew;
        let cuts = crew.cuts::<K, V>(keys.len());
        let [values, found] = wanted.bytes::<V>(1);
        debug_assert_eq!([values, found], [size_of::<A>(), size_of::<B>()]);
        // SAFETY: `fill` writes to all places; the keys are borrowed, and the answers in the berth
        // until they are filled.
        let answers = unsafe {
            crew.collect(
                cuts,
                |lane, part| lane.load(0, &keys[part]),
                |lane, part| {
                    let keys = &keys[part];
                    let from = self.queue_piece(&table, lane, keys, wanted, default)?;
                    lane.download(0, from, keys.len() * (values + found))
                },
                |lane, places| {
                    lane.wait()?;
                    lane.fill::<T, A, B>(fill, places);
                    Ok(())
                },
            )
        };
        answers.map(Some)
    }

    /// Looks up keys of the host for places of the host, if they are many. To be called without the
    /// table's lock. Outputs that are there are at least as long as the keys.
    pub(in crate::map) fn look_up_for_host(
        &self,
        keys: Source<'_, K>,
        values: Option<&mut Sink<'_, V>>,
        found: Option<&mut Sink<'_, u8>>,
        default: V,
    ) -> Result<bool> {
        let wanted = Wanted {
            values: values.is_some(),
            found: found.is_some(),
        };
        let (Some(mut values), Some(mut found)) = (host_places(values), host_places(found)) else {
            return Ok(false);
        };
        let Some((keys, crew)) = self.crew_for(keys, wanted) else {
            return Ok(false);
        };
        let table = self.table.read();
        // Dropped before the lock is opened: after an error kernels of other lanes still read the
        // table.
        let mut crew = crew;
        let pieces = crew.cuts::<K, V>(keys.len()).map(|piece| {
            let len = piece.len();
            (&keys[piece], take(&mut values, len), take(&mut found, len))
        });
        crew.each(
            pieces,
            // SAFETY: the keys are borrowed until chores are done.
            |lane, (keys, ..)| unsafe { lane.load(0, keys) },
            |lane, (keys, values, found)| {
                // SAFETY: values and bytes are written, and nothing else.
                let (values, found) = unsafe { (places_of(values), places_of(found)) };
                let from = self.queue_piece(&table, lane, keys, wanted, default)?;
                // SAFETY: as many answers, which the kernel before has written. The outputs are
                // borrowed until the crew has waited for its lanes.
                unsafe { lane.land(from, values, found) }?;
                Ok((values, found))
            },
            |lane, (values, found)| {
                lane.wait()?;
                // SAFETY: the outputs are borrowed until chores are done.
                unsafe { lane.hand_out(values, found) };
                Ok(())
            },
        )?;
        Ok(true)
    }
}

/// The places of an output on the host, none if there is no output.
fn host_places<'s, T>(sink: Option<&'s mut Sink<'_, T>>) -> Option<&'s mut [T]> {
    match sink {
        None => Some(&mut []),
        Some(Sink::Host(places)) => Some(places),
        Some(Sink::Device(_)) => None,
    }
}

/// The next places of an output, as many as a piece has elements; none if it is not wanted.
fn take<'o, T>(output: &mut &'o mut [T], len: usize) -> &'o mut [T] {
    output.split_off_mut(..len).unwrap_or_default()
}
