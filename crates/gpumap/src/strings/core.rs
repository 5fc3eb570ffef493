//! [`Core`]: a row map of references to strings, and the memory of these.
//!
//! A batch comes as offsets and bytes. A kernel makes a reference of each string, with its hash, in scratch memory; these are
//! the keys of the row map. When it is known which ones are new, and before their rows are written, their bytes are copied to
//! the arena, and their references changed to these. So a batch that is refused has changed no row.

use gpumap_kernels::count::Counters;
use gpumap_kernels::rows::{
    MOST_KEYS, MOST_STRING_BYTES, STRING_COPY, STRING_SIZES, StringCopyArgs, StringRef,
    StringSizesArgs,
};

use super::arena::Arena;
use super::column::{StringColumn, StringColumnMut, wrong_string};
use super::owned::Strings;
use crate::error::{Error, Result, expect_room};
use crate::input::Source;
use crate::lock::{Lock, WriteGuard};
use crate::map::{Arrays, StringLayout};
use crate::memory::{host_collect, host_vec};
use crate::output::Sink;
use crate::primitives::queue_exclusive_sum;
use crate::rows::{self, Keys, Moved, Told, expect_at_most, grid};
use crate::scratch::{Scratch, ScratchRole, Workspace};
use crate::stream::Stream;

use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A map of strings.
#[derive(Debug)]
pub(crate) struct Core {
    /// Before the arena: its drop waits for lookups in flight.
    pub rows: rows::Core,
    /// Where the strings of rows are. Whatever adds or frees some holds it alone, and lookups do not look at it: they have
    /// addresses of rows, which a call that frees memory has changed before.
    arena: Lock<Arena>,
    /// What the arena has, for those that must not wait for it.
    bytes: AtomicUsize,
    seed: u64,
}

/// The arena, held alone.
#[derive(Debug)]
struct Changing<'c> {
    arena: WriteGuard<'c, Arena>,
    bytes: &'c AtomicUsize,
}

impl Deref for Changing<'_> {
    type Target = Arena;

    fn deref(&self) -> &Arena {
        &self.arena
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut Arena {
        &mut self.arena
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.bytes.store(self.arena.bytes(), Ordering::Release);
    }
}

impl Core {
    /// One of rows whose keys are references of strings, with room for so many bytes of these.
    pub fn new(rows: rows::Core, bytes: usize, seed: u64) -> Result<Self> {
        let stream = Stream::of_calls(&rows.device)?;
        let arena = Arena::new(stream, bytes)?;
        Ok(Self {
            rows,
            bytes: AtomicUsize::new(arena.bytes()),
            arena: Lock::new(arena),
            seed,
        })
    }

    /// Bytes of device memory for strings.
    pub fn byte_capacity(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// The strings alone, for a call that adds or frees some.
    ///
    /// # Errors
    /// [`Error::Nested`].
    fn alone(&self) -> Result<Changing<'_>> {
        self.rows.expect_no_callback()?;
        Ok(Changing {
            arena: self.arena.write()?,
            bytes: &self.bytes,
        })
    }

    /// Has the references of strings made, in scratch memory of the role `Keys`. Waits.
    ///
    /// # Safety
    /// Until what is queued has ended, nothing frees or writes to the column.
    unsafe fn stage(&self, scratch: &mut Workspace, column: &StringColumn<'_>) -> Result<Keys> {
        let n = column.len();
        expect_at_most(n, MOST_KEYS, StringRef::BYTES)?;
        let refs = scratch.reserve::<[u64; 3]>(ScratchRole::Keys, n)?;
        let (bytes, layout) = column.used();
        let arrays = [column.offsets, bytes];
        // SAFETY: passed on.
        let places = unsafe { scratch.stage_all(ScratchRole::Columns, &arrays) }?;
        scratch.reset_counters()?;
        let counters = Counters::of(scratch.counters());
        let refs = (refs.cast(), n);
        // SAFETY: staged and reserved just now.
        let keys = unsafe {
            let on = scratch.stream();
            Keys::of_strings(
                on,
                [places[0], places[1]],
                layout,
                refs,
                self.seed,
                counters,
            )
        }?;
        match scratch.read_counters()?[0] as usize {
            0 => Ok(keys),
            wrong => Err(first_wrong(column, layout, n - wrong)),
        }
    }

    /// Writes where each of `n` strings begins if they lie one behind the other, and where the last one ends. Returns that.
    ///
    /// # Safety
    /// So many references lie there, and a bit for each or none at all, and there is room for an offset more.
    unsafe fn lay_out(
        scratch: &mut Workspace,
        (refs, n): (*const u8, usize),
        owners: *const u32,
        are_padded: bool,
        offsets: *mut u64,
    ) -> Result<usize> {
        let args = StringSizesArgs {
            refs: refs.cast(),
            n: n as u64,
            owners,
            are_padded: u32::from(are_padded),
            sizes: offsets,
        };
        scratch.reset_counters()?;
        let counter = scratch.counters();
        // SAFETY: passed on; a counter has room for the last one.
        unsafe {
            STRING_SIZES.launch(scratch.stream(), grid(n + 1), args)?;
            queue_exclusive_sum(scratch, offsets, n + 1)?;
            let end = offsets.wrapping_add(n).cast_const().cast();
            scratch
                .stream()
                .copy(counter.cast(), end, size_of::<u64>())?;
        }
        Ok(scratch.read_counters()?[0] as usize)
    }

    /// Queues copying the bytes of `n` strings.
    ///
    /// # Safety
    /// As for [`lay_out`](Self::lay_out), which has told the offsets. There is room for the bytes, aligned if references are
    /// to be changed to them, until what is queued has ended.
    unsafe fn queue_copy(
        scratch: &Workspace,
        (refs, n): (*const u8, usize),
        owners: *const u32,
        offsets: *const u64,
        (to, moves): (*mut u8, bool),
    ) -> Result<()> {
        let args = StringCopyArgs {
            refs: refs.cast_mut().cast(),
            n: n as u64,
            owners,
            offsets,
            to,
            moves: u32::from(moves),
        };
        match n {
            0 => Ok(()),
            // SAFETY: passed on.
            _ => unsafe { STRING_COPY.launch(scratch.stream(), grid(n), args) },
        }
    }

    /// Gives strings rows. Outputs are the rows and the flags of new ones. Returns how many were new.
    pub fn insert(&self, column: &StringColumn<'_>, outputs: Arrays<'_>) -> Result<usize> {
        let n = column.len();
        let beside = self.bytes_of_batch(column);
        let of_host = column.host_bytes();
        self.rows
            .insert_by(n, (of_host, beside), outputs, |scratch, told| {
                self.insert_on(scratch, column, told)
            })
    }

    /// Bytes that a batch needs at most, besides its rows, and its arrays if they lie on the host.
    fn bytes_of_batch(&self, column: &StringColumn<'_>) -> u64 {
        let n = column.len();
        let refs = n.saturating_mul(StringRef::BYTES);
        let sizes = n.saturating_add(1).saturating_mul(size_of::<u64>());
        let bytes = Arena::bytes_for(n, column.used().0.len());
        Workspace::bytes_of(refs)
            .saturating_add(Workspace::bytes_of(sizes))
            .saturating_add(bytes as u64)
    }

    fn insert_on(
        &self,
        scratch: &mut Workspace,
        column: &StringColumn<'_>,
        told: Told,
    ) -> Result<usize> {
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let keys = unsafe { self.stage(scratch, column) }?;
        let mut arena = self.alone()?;
        let inserted = self
            .rows
            .insert_staged(scratch, keys, told, |scratch, _, owners| {
                match owners.is_null() {
                    true => Ok(()),
                    false => Self::own(scratch, &mut arena, keys, owners),
                }
            });
        match inserted.is_ok() {
            true => arena.keep(),
            false => arena.undo(Some(scratch)),
        }
        inserted
    }

    /// Has the strings of a batch that are owners copied to the arena, and their references changed; all of them if it is not said
    /// which ones are.
    fn own(
        scratch: &mut Workspace,
        arena: &mut Arena,
        keys: Keys,
        owners: *const u32,
    ) -> Result<()> {
        let refs = (keys.at, keys.n);
        let offsets = scratch.reserve::<u64>(ScratchRole::Values, keys.n + 1)?;
        // SAFETY: staged references, a bit for each or none at all, and offsets reserved just now; room of the arena for what these say.
        unsafe {
            let bytes = Self::lay_out(scratch, refs, owners, true, offsets)?;
            let to = arena.take(bytes)?;
            Self::queue_copy(scratch, refs, owners, offsets, (to, true))
        }
    }

    /// Looks up the row of each string.
    pub fn get(&self, column: &StringColumn<'_>, rows: Arrays<'_>) -> Result<()> {
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let stage = |scratch: &mut Workspace| unsafe { self.stage(scratch, column) };
        self.rows.get_by(column.len(), rows, stage)
    }

    /// Removes strings. Returns how many there were.
    pub fn remove(&self, column: &StringColumn<'_>) -> Result<usize> {
        // SAFETY: what is queued has ended when this returns, or when the workspace goes back.
        let stage = |scratch: &mut Workspace| unsafe { self.stage(scratch, column) };
        self.rows.remove_by(column.len(), stage, || Ok(()))
    }

    /// All strings in the order of their rows, and these if they are wanted.
    pub fn keys(&self, wants_rows: bool) -> Result<(Strings, Vec<u32>)> {
        let mut scratch = self.rows.scratch.take()?;
        let shared = self.rows.share()?;
        let told = Self::fetch(&mut scratch, &shared, wants_rows);
        scratch.or_wait(told)
    }

    fn fetch(
        scratch: &mut Workspace,
        shared: &rows::Shared<'_>,
        wants_rows: bool,
    ) -> Result<(Strings, Vec<u32>)> {
        let n = shared.len();
        let of_rows = if wants_rows { n } else { 0 };
        let mut rows = scratch.output::<u32>(ScratchRole::ThirdOutput, of_rows)?;
        let mut offsets = scratch.output::<i64>(ScratchRole::FirstOutput, n + 1)?;
        let refs = (shared.dense_keys(scratch)?, n);
        let at = offsets.as_mut_ptr().cast::<u64>();
        // SAFETY: outputs for all strings and their bytes; references of rows that do not change.
        unsafe {
            if wants_rows {
                shared.queue_rows(scratch, rows.as_mut_ptr())?;
            }
            let len = Self::lay_out(scratch, refs, ptr::null(), false, at)?;
            let mut bytes = scratch.output::<u8>(ScratchRole::SecondOutput, len)?;
            let to = (bytes.as_mut_ptr(), false);
            Self::queue_copy(scratch, refs, ptr::null(), at, to)?;
            let offsets = scratch.fetch(offsets, n + 1)?;
            let strings = Strings::of(offsets, scratch.fetch(bytes, len)?);
            Ok((strings, scratch.fetch(rows, of_rows)?))
        }
    }

    /// How many bytes all strings have.
    pub fn byte_len(&self) -> Result<usize> {
        let mut scratch = self.rows.scratch.take()?;
        let shared = self.rows.share()?;
        let told = Self::lay_out_all(&mut scratch, &shared);
        scratch.or_wait(told).map(|(_, _, len)| len)
    }

    /// The references of all strings, where these begin if they lie one behind the other, and where the last one ends. Both
    /// are in scratch memory, or in that of the map.
    fn lay_out_all(
        scratch: &mut Workspace,
        shared: &rows::Shared<'_>,
    ) -> Result<(*const u8, *mut u64, usize)> {
        let n = shared.len();
        let refs = shared.dense_keys(scratch)?;
        let offsets = scratch.reserve::<u64>(ScratchRole::Values, n + 1)?;
        // SAFETY: references of rows that do not change, and offsets reserved just now.
        let len = unsafe { Self::lay_out(scratch, (refs, n), ptr::null(), false, offsets) }?;
        Ok((refs, offsets, len))
    }

    /// All strings in the order of their rows, and these if they are wanted, into memory of the caller. Returns how many there are.
    pub fn keys_into(
        &self,
        strings: StringColumnMut<'_>,
        rows: Option<Sink<'_, u32>>,
    ) -> Result<usize> {
        let mut scratch = self.rows.scratch.take()?;
        let shared = self.rows.share()?;
        let told = Self::copy_to_host(&mut scratch, &shared, strings, rows);
        scratch.or_wait(told)
    }

    fn copy_to_host(
        scratch: &mut Workspace,
        shared: &rows::Shared<'_>,
        StringColumnMut { offsets, bytes }: StringColumnMut<'_>,
        rows: Option<Sink<'_, u32>>,
    ) -> Result<usize> {
        let n = shared.len();
        expect_room(n + 1, offsets.len())?;
        if let Some(rows) = &rows {
            expect_room(n, rows.len())?;
        }
        let (refs, at, len) = Self::lay_out_all(scratch, shared)?;
        expect_room(len, bytes.len())?;
        let mut offsets = scratch.host_target(ScratchRole::FirstOutput, offsets, n + 1)?;
        let mut bytes = scratch.host_target(ScratchRole::SecondOutput, bytes, len)?;
        let rows = rows.map(|rows| scratch.host_target(ScratchRole::ThirdOutput, rows, n));
        let mut rows = rows.transpose()?;
        // SAFETY: targets for all strings and their bytes; references of rows that do not change.
        unsafe {
            let to = (bytes.as_mut_ptr(), false);
            Self::queue_copy(scratch, (refs, n), ptr::null(), at, to)?;
            let to = offsets.as_mut_ptr().cast();
            let all = (n + 1) * size_of::<u64>();
            scratch.stream().copy(to, at.cast_const().cast(), all)?;
            if let Some(rows) = &mut rows {
                shared.queue_rows(scratch, rows.as_mut_ptr())?;
            }
        }
        scratch.wait()?;
        scratch.copy_to_host(offsets, n + 1)?;
        scratch.copy_to_host(bytes, len)?;
        if let Some(rows) = rows {
            scratch.copy_to_host(rows, n)?;
        }
        Ok(n)
    }

    /// Has `compact` make rows dense, and tell of the dense references.
    pub fn compact_by<T>(&self, compact: impl FnOnce(Moved<'_>) -> Result<T>) -> Result<T> {
        let mut arena = self.alone()?;
        let mut has_moved = false;
        let compacted = compact(&mut |scratch, refs, n| {
            let wished = arena.bytes();
            let moved = Self::gather(scratch, &mut arena, (refs, n), wished);
            has_moved = moved.is_ok();
            moved
        });
        match (&compacted, has_moved) {
            (Ok(_), true) => arena.keep_last(),
            (Ok(_), false) => arena.keep(),
            // What it queued has ended.
            (Err(_), _) => arena.undo(None),
        }
        compacted
    }

    /// Gives back the memory that the rows given out and their strings do not need.
    pub fn shrink_to_fit(&self) -> Result<()> {
        let mut arena = self.alone()?;
        if arena.is_tight() {
            return self.rows.shrink_to_fit();
        }
        let shrunk = self
            .rows
            .shrink_to_fit_by(|scratch, refs, n| Self::gather(scratch, &mut arena, (refs, n), 0));
        match shrunk {
            Ok(()) => arena.keep_last(),
            // What it queued has ended.
            Err(_) => arena.undo(None),
        }
        shrunk
    }

    /// Has the strings of all rows copied to a chunk of their own, of `wished` bytes if there is memory for them, and the references
    /// changed. Waits. If it fails, the arena is as it was.
    fn gather(
        scratch: &mut Workspace,
        arena: &mut Arena,
        refs: (*mut u8, usize),
        wished: usize,
    ) -> Result<()> {
        let gathered =
            Self::queue_gather(scratch, arena, refs, wished).and_then(|()| scratch.wait());
        if gathered.is_err() {
            arena.undo(Some(scratch));
        }
        gathered
    }

    fn queue_gather(
        scratch: &mut Workspace,
        arena: &mut Arena,
        refs: (*mut u8, usize),
        wished: usize,
    ) -> Result<()> {
        let refs = (refs.0.cast_const(), refs.1);
        let offsets = scratch.reserve::<u64>(ScratchRole::Values, refs.1 + 1)?;
        // SAFETY: references that nothing else knows of, and offsets reserved just now; room of the arena for what these say.
        unsafe {
            let bytes = Self::lay_out(scratch, refs, ptr::null(), true, offsets)?;
            let to = arena.take_anew(bytes, wished)?;
            Self::queue_copy(scratch, refs, ptr::null(), offsets, (to, true))
        }
    }

    /// Gives the strings of a map that is held out with their rows, in the order of these: at most so many at a time, and at most
    /// so many bytes, or one string.
    pub fn give(
        &self,
        held: &mut rows::Held<'_>,
        (strings, bytes): (usize, usize),
        give: &mut dyn FnMut(Strings, Vec<u32>) -> Result<()>,
    ) -> Result<()> {
        let mut scratch = self.rows.scratch.take()?;
        let step = strings.min(Self::GIVEN_REFS);
        held.give(step, &mut |refs: Vec<[u64; 3]>, rows| {
            let mut first = 0;
            while first < refs.len() {
                let (mut end, mut len) = (first, 0);
                let mut offsets = host_vec(refs.len() - first + 1)?;
                offsets.push(0);
                for &[_, more, _] in &refs[first..] {
                    let all = len + more;
                    if end > first && all > bytes as u64 {
                        break;
                    }
                    (end, len) = (end + 1, all);
                    offsets.push(all as i64);
                }
                let fetched = Self::fetch_of(&mut scratch, &refs[first..end], &offsets);
                // What is queued reads the offsets.
                let fetched = scratch.or_wait(fetched)?;
                let given = host_collect(rows[first..end].iter().copied())?;
                give(Strings::of(offsets, fetched), given)?;
                first = end;
            }
            Ok(())
        })
    }

    /// References that are on the host at a time, while strings are given out.
    const GIVEN_REFS: usize = 1 << 19;

    /// The bytes of strings whose references are on the host, with the offsets that they will have. After an error, what is queued
    /// may go on to read both.
    fn fetch_of(scratch: &mut Workspace, refs: &[[u64; 3]], offsets: &[i64]) -> Result<Vec<u8>> {
        let len = offsets.last().map_or(0, |&len| len as usize);
        let sources = [bytemuck::cast_slice(refs), bytemuck::cast_slice(offsets)];
        let sources = sources.map(Source::Host);
        let mut bytes = scratch.output::<u8>(ScratchRole::FirstOutput, len)?;
        let to = (bytes.as_mut_ptr(), false);
        // SAFETY: references of rows that do not change, and an output for their bytes; it is waited for.
        unsafe {
            let places = scratch.stage_all(ScratchRole::Columns, &sources)?;
            let refs = (places[0], refs.len());
            Self::queue_copy(scratch, refs, ptr::null(), places[1].cast(), to)?;
            scratch.fetch(bytes, len)
        }
    }

    /// Begins to get the strings of a file: the map must be empty.
    pub fn load(&self) -> Result<Loading<'_>> {
        Ok(Loading {
            core: self,
            scratch: self.rows.scratch.take()?,
            arena: self.alone()?,
        })
    }

    /// Makes room for so many strings more, and for so many bytes of them.
    pub fn reserve(&self, more: usize, bytes: usize) -> Result<()> {
        let mut arena = self.alone()?;
        let before = arena.chunks();
        let bytes = Arena::bytes_for(more, bytes);
        arena.reserve(bytes)?;
        let mut reserved = self.rows.reserve(more);
        if matches!(reserved, Err(Error::OutOfMemory { .. })) && arena.chunks() > before {
            // Of that memory no more than has to be.
            arena.truncate(before);
            arena.reserve_least(bytes)?;
            reserved = self.rows.reserve(more);
        }
        if reserved.is_err() {
            arena.truncate(before);
        }
        reserved
    }

    /// Removes all strings.
    pub fn clear(&self) -> Result<()> {
        let mut arena = self.alone()?;
        self.rows.clear()?;
        arena.clear();
        Ok(())
    }
}

/// An empty map that gets strings of a file.
#[derive(Debug)]
pub(crate) struct Loading<'c> {
    core: &'c Core,
    scratch: Scratch<'c>,
    arena: Changing<'c>,
}

impl Loading<'_> {
    /// Takes strings, and returns the references that rows get.
    pub fn put(&mut self, strings: &Strings) -> Result<Vec<[u64; 3]>> {
        let refs = self.own(strings);
        match refs.is_ok() {
            true => self.arena.keep(),
            false => self.arena.undo(Some(&self.scratch)),
        }
        refs
    }

    fn own(&mut self, strings: &Strings) -> Result<Vec<[u64; 3]>> {
        let Self {
            core,
            scratch,
            arena,
        } = self;
        let column = StringColumn::new(strings.offsets(), strings.bytes());
        // SAFETY: what is queued has ended when this returns, or when the arena has given the room up; references were staged.
        unsafe {
            let keys = core.stage(scratch, &column)?;
            Core::own(scratch, arena, keys, ptr::null())?;
            scratch.read(keys.at.cast(), keys.n)
        }
    }
}

/// What is wrong with the strings of a column, of which the device has found one.
fn first_wrong(column: &StringColumn<'_>, layout: StringLayout, at: usize) -> Error {
    let range = |i| {
        let offsets = column.offsets_at(i)?;
        Ok(offsets.map(|offset| usize::try_from(offset).unwrap_or(usize::MAX)))
    };
    let is_within = |&[start, end]: &[usize; 2]| start <= end && end <= layout.all;
    let is_short = |&[start, end]: &[usize; 2]| (end - start) as u64 <= MOST_STRING_BYTES;
    let mut found: Result<[usize; 2]> = range(at);
    if found
        .as_ref()
        .is_ok_and(|range| is_within(range) && is_short(range))
    {
        // Where offsets fall, all of them may look as if they were not within the bytes from the first one to the last.
        let is_wrong = |range: &Result<_>| !range.as_ref().is_ok_and(is_within);
        found = (0..column.len()).map(range).find(is_wrong).unwrap_or(found);
    }
    match found {
        Ok(range) => wrong_string(layout, range),
        Err(error) => error,
    }
}
