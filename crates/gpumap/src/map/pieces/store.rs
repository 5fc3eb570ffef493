//! Pairs of the host that are stored.
//!
//! A batch is staged as a whole in the end, so that all that may happen after its kernel, such as
//! keys that collide, is as for any other batch. Only batches with room for sure are worked on like
//! this.

use std::ops::Range;
use std::ptr;

use gpumap_kernels::verbs::store::{Account, Select};
use parking_lot::RwLockReadGuard;

use super::{load_pairs, part_of};
use crate::error::Result;
use crate::input::Source;
use crate::map::operand::Values;
use crate::map::store::{Job, Progress, Report};
use crate::map::table::Table;
use crate::map::{Key, Map, Value};
use crate::room::Promise;
use crate::scratch::{Crew, Slot, Workspace};

impl<K: Key, V: Value> Map<K, V> {
    /// Stores a batch of the host, if it is large and there is room for it. Returns how many pairs
    /// were stored.
    pub(in crate::map) fn store_in_pieces(
        &self,
        scratch: &mut Workspace,
        keys: Source<'_, K>,
        values: Values<'_, V>,
        with: impl Fn(Job<K, V>) -> Job<K, V>,
    ) -> Result<Option<usize>> {
        let (Source::Host(keys), Source::Host(each)) = (keys, values.each()) else {
            return Ok(None);
        };
        let bytes = size_of_val(keys) + size_of_val(each);
        let Some(crew) = self.scratch.crew(bytes) else {
            return Ok(None);
        };
        let table = self.table.read();
        let Some(promise) = self.books.room.promise(keys.len()) else {
            return Ok(None);
        };
        self.expect_sound()?;
        let job = with(Job {
            keys: scratch.reserve(Slot::Keys, keys.len())?,
            values: match values {
                Values::Each(_) => scratch.reserve(Slot::Values, keys.len())?,
                Values::Same(_) => ptr::null(),
            },
            value: values.same(),
            ..Job::insert(keys.len())
        });
        let unplaced = scratch.clear_bits(job.len)?;
        // The lanes have streams of their own.
        scratch.stream().synchronize()?;
        scratch.dirty_bits();
        let report = self.store_pieces(&table, crew, job, unplaced, (keys, each))?;
        self.end_pieces(table, promise, scratch, job, report)
            .map(Some)
    }

    /// Stores pieces on lanes. There is a bit for each pair, and a value, or all keys have the same.
    fn store_pieces(
        &self,
        table: &Table,
        crew: Crew,
        job: Job<K, V>,
        unplaced: *mut u32,
        (keys, values): (&[K], &[V]),
    ) -> Result<Report> {
        let cuts = crew.cuts::<K, V>(keys.len());
        let of_piece = |piece: &Range<usize>| (&keys[piece.clone()], part_of(values, piece));
        let [stored, refused] = self.change_in_pieces(
            crew,
            cuts,
            // SAFETY: both are borrowed until chores are done.
            |lane, piece| unsafe { load_pairs(lane, of_piece(piece)) },
            |lane, piece, counters| {
                let (keys, values) = of_piece(&piece);
                let part = job.after(piece.start).first(keys.len());
                // SAFETY: there is room for all pieces, one after the other, until the lanes have been waited for.
                unsafe {
                    lane.upload(0, part.keys.cast_mut(), keys)?;
                    lane.upload(size_of_val(keys), part.values.cast_mut(), values)?;
                }
                let account = Account {
                    outcomes: part.outcomes,
                    unplaced: unplaced.wrapping_add(piece.start / 32),
                    counters,
                    select: Select::All,
                };
                // SAFETY: the pairs are staged and there is a bit for each; the caller holds the
                // table's lock until this has ended.
                unsafe { self.launch_store(table, lane.stream(), part, account) }
            },
        )?;
        Ok(Report {
            stored,
            unplaced: refused,
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
        let (mut table, mut progress) = (self.exclusive()?, Progress::default());
        self.place_colliding(&mut table, scratch, job, report, &mut progress)?;
        Ok(report.stored + progress.stored)
    }
}
