//! Large batches of the host: worked on piece by piece, while other pieces are on their way.
//!
//! Each thread of a [`Crew`] takes a piece to the device, runs the verb on it, and brings its answers back,
//! beside the others: so the time is that of the link, both ways at once, and the kernels cost nothing.
//! A batch that stores is staged as a whole in the end, so that all that may happen after its kernel, such
//! as keys that collide, is as for any other batch. Only batches with room for sure are worked on like
//! this.

use std::iter::repeat_with;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpumap_kernels::kernels::RemoveArgs;
use gpumap_kernels::verbs::look_up::Answers;
use gpumap_kernels::verbs::store::{Account, Select};
use parking_lot::RwLockReadGuard;

use super::store::{Job, Progress, Report};
use super::table::Table;
use super::{Key, Map, Value};
use crate::error::Result;
use crate::input::Source;
use crate::output::Sink;
use crate::room::Promise;
use crate::scratch::{Berth, Crew, Lane, Shared, Slot, Workspace, places_of};

/// Which answers of a lookup are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub values: bool,
    pub found: bool,
}

impl Wanted {
    /// How many values and words of who was found there are for so many keys.
    fn lens(self, keys: usize) -> [usize; 2] {
        [self.values, self.found].map(|is_wanted| if is_wanted { keys } else { 0 })
    }

    /// Waits for a lane, and returns the answers to so many keys that were queued there.
    pub(super) fn landed<V: Value>(self, lane: &mut Lane, keys: usize) -> Result<(&[V], &[u8])> {
        lane.wait()?;
        let [values, found] = self.lens(keys);
        let lane = &*lane;
        Ok((
            lane.landed(Berth::First, values),
            lane.landed(Berth::Second, found),
        ))
    }
}

impl<K: Key, V: Value> Map<K, V> {
    /// Stores a batch of the host, if it is large and there is room for it. Returns how many pairs were
    /// stored.
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

    /// Stores pieces on lanes, and waits for them also after an error: then nobody knows what the map
    /// holds. There is a bit for each pair.
    fn store_pieces(
        &self,
        table: &Table,
        mut crew: Crew,
        job: Job<K, V>,
        unplaced: *mut u32,
        (keys, values): (&[K], &[V]),
    ) -> Result<Report> {
        let (stored, left) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let is_locked = self.device().reaches(keys) && self.device().reaches(values);
        let piece = crew.cut().pairs::<K, V>(is_locked);
        // SAFETY: each piece has its own keys, values, answers and words of bits.
        let shared = unsafe { Shared::new((job, unplaced)) };
        let pieces = keys.chunks(piece).zip(values.chunks(piece)).enumerate();
        let begin = |lane: &mut Lane, (i, (keys, values)): (usize, (&[K], &[V]))| {
            let (job, unplaced) = shared.get();
            let part = job.after(i * piece).first(keys.len());
            // SAFETY: there is room for all pieces, one after the other; the wait is below.
            unsafe {
                lane.upload(Berth::First, part.keys.cast_mut(), keys)?;
                lane.upload(Berth::Second, part.values.cast_mut(), values)?;
            }
            let account = Account {
                outcomes: part.outcomes,
                unplaced: unplaced.wrapping_add(i * piece / 32),
                counters: lane.counting()?,
                select: Select::All,
            };
            self.launch(table, lane.stream(), part, account)
        };
        let done = crew.each(pieces, begin, |lane, ()| {
            let [new, refused] = lane.counted()?;
            stored.fetch_add(new as usize, Ordering::Relaxed);
            left.fetch_add(refused as usize, Ordering::Relaxed);
            Ok(())
        });
        // Waits for its lanes.
        drop(crew);
        done.inspect_err(|_| self.poison())?;
        Ok(Report {
            stored: stored.into_inner(),
            unplaced: left.into_inner(),
        })
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

    /// Removes keys of the host, if they are many. Returns how many were present. To be called under the
    /// table's lock.
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
        let removed = AtomicUsize::new(0);
        let piece = crew.cut().pairs::<K, ()>(self.device().reaches(keys));
        let begin = |lane: &mut Lane, keys: &[K]| {
            let (grid, batch) = self.share_out(take_there(lane, keys)?, ptr::null(), keys.len());
            let args = RemoveArgs {
                view: table.view(),
                batch,
                answers: Answers {
                    values: ptr::null_mut(),
                    found: ptr::null_mut(),
                    default: bytemuck::cast(V::zeroed()),
                },
                removed: lane.counting()?,
            };
            // SAFETY: the kernel set fits the map's types, and the keys are staged; the caller holds the
            // table's lock until this has ended.
            unsafe { self.kernels.remove.launch(lane.stream(), grid, args) }
        };
        let done = crew.each(keys.chunks(piece), begin, |lane, ()| {
            let [gone, _] = lane.counted()?;
            removed.fetch_add(gone as usize, Ordering::Relaxed);
            Ok(())
        });
        // Waits for its lanes.
        drop(crew);
        done.inspect_err(|_| self.poison())?;
        let removed = removed.into_inner();
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

    /// Queues looking up a piece; returns where the answers are then, null for what is not wanted. To be called
    /// under the table's lock, which is to be held until the lane has been waited for.
    fn queue_piece(
        &self,
        table: &Table,
        lane: &mut Lane,
        keys: &[K],
        wanted: Wanted,
        default: V,
    ) -> Result<(*const V, *const u8)> {
        let staged = take_there(lane, keys)?;
        let (mut values, mut found) = (ptr::null_mut::<V>(), ptr::null_mut::<u8>());
        if wanted.values {
            values = lane.reserve(Slot::FirstOutput, keys.len())?;
        }
        if wanted.found {
            found = lane.reserve(Slot::SecondOutput, keys.len())?;
        }
        self.queue_look_up(table, lane, staged, keys.len(), (values, found), default)?;
        Ok((values, found))
    }

    /// Queues looking up a piece, and copies of the answers into a lane's own memory, for
    /// [`Wanted::landed`]. As for [`queue_piece`](Self::queue_piece).
    pub(super) fn fetch_piece(
        &self,
        table: &Table,
        lane: &mut Lane,
        keys: &[K],
        wanted: Wanted,
    ) -> Result<()> {
        let (values, found) = self.queue_piece(table, lane, keys, wanted, V::zeroed())?;
        let [values_len, found_len] = wanted.lens(keys.len());
        // SAFETY: as many answers, which the kernel before has written.
        unsafe {
            lane.download(Berth::First, values, values_len)?;
            lane.download(Berth::Second, found, found_len)
        }
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
        let (Some(values), Some(found)) = (host_places(values), host_places(found)) else {
            return Ok(false);
        };
        let Some((keys, mut crew)) = self.crew_for(keys, wanted) else {
            return Ok(false);
        };
        let table = self.table.read();
        let device = self.device();
        let is_locked = device.reaches(keys) && device.reaches(values) && device.reaches(found);
        let piece = crew.cut().pairs::<K, V>(is_locked);
        // An output that is not wanted has empty pieces, and as many.
        let values = values
            .chunks_mut(piece)
            .chain(repeat_with(Default::default));
        let found = found.chunks_mut(piece).chain(repeat_with(Default::default));
        let pieces = keys.chunks(piece).zip(values).zip(found);
        crew.each(
            pieces,
            |lane, ((keys, values), found)| {
                let [values_len, found_len] = wanted.lens(keys.len());
                // SAFETY: values and bytes are written, and nothing else.
                let (values, found) = unsafe {
                    (
                        places_of(&mut values[..values_len]),
                        places_of(&mut found[..found_len]),
                    )
                };
                let (values_at, found_at) =
                    self.queue_piece(&table, lane, keys, wanted, default)?;
                // SAFETY: as many answers, which the kernel before has written. The outputs are
                // borrowed until the crew has waited for its lanes.
                unsafe {
                    lane.land(Berth::First, values_at, values)?;
                    lane.land(Berth::Second, found_at, found)?;
                }
                Ok((values, found))
            },
            |lane, (values, found)| {
                lane.wait()?;
                lane.hand_out(Berth::First, values);
                lane.hand_out(Berth::Second, found);
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

/// Queues a copy of keys into a lane's own memory of the device; the lane is waited for while they are
/// borrowed.
fn take_there<K: Key>(lane: &mut Lane, keys: &[K]) -> Result<*const K> {
    let to: *mut K = lane.reserve(Slot::Keys, keys.len())?;
    // SAFETY: reserved just now. If there is an error before the wait, the crew waits when it is dropped,
    // which is while the keys of the whole batch are borrowed.
    unsafe { lane.upload(Berth::First, to, keys) }?;
    Ok(to)
}
