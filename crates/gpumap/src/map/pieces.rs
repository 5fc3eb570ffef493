//! Large batches of the host: worked on piece by piece, while other pieces are on their way.
//!
//! Each lane of a [`Crew`] takes a piece to the device, runs the verb on it, and brings its answers
//! back, beside the others: so the time is that of the link, both ways at once, and the kernels
//! cost nothing. A batch that stores is staged as a whole in the end, so that all that may happen
//! after its kernel, such as keys that collide, is as for any other batch. Only batches with room
//! for sure are worked on like this.

use std::ops::Range;
use std::ptr;

use bytemuck::Pod;
use gpumap_kernels::verbs::store::{Account, Select};
use gpumap_simt::atomic::part::Update;
use parking_lot::RwLockReadGuard;

use super::assign::Assignment;
use super::look_up::{LookUp, Outputs};
use super::remove::{Removal, Tells};
use super::store::{Job, Progress, Report};
use super::table::Table;
use super::{Key, Map, Value};
use crate::error::Result;
use crate::input::Source;
use crate::output::Sink;
use crate::room::Promise;
use crate::scratch::{Crew, Lane, Places, Slot, Workspace, places_of};

/// Which answers of a lookup are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
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
    /// Stores a batch of the host, if it is large and there is room for it. Returns how many pairs
    /// were stored.
    pub(super) fn store_in_pieces(
        &self,
        scratch: &mut Workspace,
        keys: Source<'_, K>,
        values: Source<'_, V>,
        with: impl Fn(Job<K, V>) -> Job<K, V>,
    ) -> Result<Option<usize>> {
        let (Source::Host(keys), Source::Host(values)) = (keys, values) else {
            return Ok(None);
        };
        let bytes = size_of_val(keys) + size_of_val(values);
        let Some(crew) = self.scratch.crew(bytes) else {
            return Ok(None);
        };
        let table = self.table.read();
        let Some(promise) = self.room.promise(keys.len()) else {
            return Ok(None);
        };
        self.expect_sound()?;
        let job = with(Job {
            keys: scratch.reserve(Slot::Keys, keys.len())?,
            values: scratch.reserve(Slot::Values, keys.len())?,
            ..Job::insert(keys.len())
        });
        let unplaced = scratch.clear_bits(job.len)?;
        // The lanes have streams of their own.
        scratch.stream().synchronize()?;
        scratch.dirty_bits();
        let report = self.store_pieces(&table, crew, job, unplaced, (keys, values))?;
        self.end_pieces(table, promise, scratch, job, report)
            .map(Some)
    }

    /// Stores pieces on lanes, and waits for them also after an error: then nobody knows what the
    /// map holds. There is a bit for each pair.
    fn store_pieces(
        &self,
        table: &Table,
        mut crew: Crew,
        job: Job<K, V>,
        unplaced: *mut u32,
        (keys, values): (&[K], &[V]),
    ) -> Result<Report> {
        let mut report = Report::default();
        let of_piece = |piece: &Range<usize>| (&keys[piece.clone()], &values[piece.clone()]);
        let done = crew.each(
            crew.cuts::<K, V>(keys.len()),
            |lane, piece| {
                let (keys, values) = of_piece(piece);
                // SAFETY: both are borrowed until chores are done.
                unsafe {
                    lane.load(0, keys);
                    lane.load(size_of_val(keys), values);
                }
            },
            |lane, piece| {
                let (keys, values) = of_piece(&piece);
                let part = job.after(piece.start).first(keys.len());
                // SAFETY: there is room for all pieces, one after the other; the wait is below.
                unsafe {
                    lane.upload(0, part.keys.cast_mut(), keys)?;
                    lane.upload(size_of_val(keys), part.values.cast_mut(), values)?;
                }
                let account = Account {
                    outcomes: part.outcomes,
                    unplaced: unplaced.wrapping_add(piece.start / 32),
                    counters: lane.counting()?,
                    select: Select::All,
                };
                // SAFETY: the pairs are staged and there is a bit for each; the caller holds the
                // table's lock until this has ended.
                unsafe { self.launch_store(table, lane.stream(), part, account) }
            },
            |lane, ()| {
                let [new, refused] = lane.counted()?;
                report.stored += new as usize;
                report.unplaced += refused as usize;
                Ok(())
            },
        );
        // Waits for its lanes.
        drop(crew);
        done.inspect_err(|_| self.poison())?;
        Ok(report)
    }

    /// Enters what pieces came to, and places the pairs whose keys collide.
    fn end_pieces(
        &self,
        table: RwLockReadGuard<'_, Table>,
        promise: Promise<'_>,
        scratch: &mut Workspace,
        job: Job<K, V>,
        report: Report,
    ) -> Result<usize> {
        // Under the lock still: who rebuilds the table next takes the books as they are then.
        promise.keep(report.stored);
        drop(table);
        if report.unplaced == 0 {
            scratch.untouched_bits();
            return Ok(report.stored);
        }
        let (mut table, mut progress) = (self.exclusive(), Progress::default());
        self.place_colliding(&mut table, scratch, job, report, &mut progress)?;
        Ok(report.stored + progress.stored)
    }

    /// Gives present keys of the host new values, if they are many. Returns how many were present.
    /// To be called under the table's lock.
    pub(super) fn assign_in_pieces(
        &self,
        table: &Table,
        update: Update,
        keys: Source<'_, K>,
        values: Source<'_, V>,
    ) -> Result<Option<usize>> {
        let (Source::Host(keys), Source::Host(values)) = (keys, values) else {
            return Ok(None);
        };
        let bytes = size_of_val(keys) + size_of_val(values);
        let Some(mut crew) = self.scratch.crew(bytes) else {
            return Ok(None);
        };
        self.expect_sound()?;
        let mut present = 0;
        let pieces = crew.cuts::<K, V>(keys.len());
        let pieces = pieces.map(|piece| (&keys[piece.clone()], &values[piece]));
        let done = crew.each(
            pieces,
            |lane, &mut (keys, values)| {
                // SAFETY: both are borrowed until chores are done.
                unsafe {
                    lane.load(0, keys);
                    lane.load(size_of_val(keys), values);
                }
            },
            |lane, (keys, values)| {
                let assignment = Assignment {
                    keys: take_there(lane, Slot::Keys, 0, keys)?,
                    values: take_there(lane, Slot::Values, size_of_val(keys), values)?,
                    len: keys.len(),
                    update,
                };
                let counters = lane.counting()?;
                // SAFETY: the pairs are staged; the caller holds the table's lock until this has
                // ended.
                unsafe { self.launch_assignment(table, lane.stream(), assignment, counters) }
            },
            |lane, ()| {
                let [of_piece, _] = lane.counted()?;
                present += of_piece as usize;
                Ok(())
            },
        );
        // Waits for its lanes.
        drop(crew);
        done.inspect_err(|_| self.poison())?;
        Ok(Some(present))
    }

    /// Removes keys of the host, if they are many. Returns how many were present. To be called
    /// under the table's lock.
    pub(super) fn remove_in_pieces(
        &self,
        table: &Table,
        keys: Source<'_, K>,
    ) -> Result<Option<usize>> {
        let Source::Host(keys) = keys else {
            return Ok(None);
        };
        let Some(mut crew) = self.scratch.crew(size_of_val(keys)) else {
            return Ok(None);
        };
        self.expect_sound()?;
        let mut removed = 0;
        let pieces = crew.cuts::<K, ()>(keys.len()).map(|piece| &keys[piece]);
        let done = crew.each(
            pieces,
            // SAFETY: they are borrowed until chores are done.
            |lane, keys| unsafe { lane.load(0, keys) },
            |lane, keys| {
                let there = take_there(lane, Slot::Keys, 0, keys)?;
                let removal = Removal {
                    keys: there,
                    len: keys.len(),
                    tells: Tells::Count,
                };
                let removed = lane.counting()?;
                // SAFETY: the keys are staged; the caller holds the table's lock until this has
                // ended.
                unsafe { self.launch_removal(table, lane.stream(), removal, removed) }
            },
            |lane, ()| {
                let [gone, _] = lane.counted()?;
                removed += gone as usize;
                Ok(())
            },
        );
        // Waits for its lanes.
        drop(crew);
        done.inspect_err(|_| self.poison())?;
        self.room.removed(removed);
        Ok(Some(removed))
    }

    /// Threads for a lookup of keys of the host, if they are many.
    pub(super) fn crew_for<'a>(
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
    /// writes it, from values and from bytes that say which were found. What is not wanted of these
    /// has elements of no bytes.
    ///
    /// # Safety
    /// `fill` is for elements of these types.
    pub(super) unsafe fn collect_answers<T, A: Pod, B: Pod>(
        &self,
        keys: Source<'_, K>,
        wanted: Wanted,
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
                    let from = self.queue_piece(&table, lane, keys, wanted, V::zeroed())?;
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
    pub(super) fn look_up_for_host(
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

/// Queues a copy of part of a batch, which has been loaded at byte `at` of a lane, into the lane's own memory of the
/// device; the lane is waited for while the batch is borrowed.
fn take_there<T: Pod>(lane: &mut Lane, slot: Slot, at: usize, part: &[T]) -> Result<*const T> {
    let to: *mut T = lane.reserve(slot, part.len())?;
    // SAFETY: reserved just now. If there is an error before the wait, the crew waits when it is
    // dropped, which is while the whole batch is borrowed.
    unsafe { lane.upload(at, to, part) }?;
    Ok(to)
}
