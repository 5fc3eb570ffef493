//! [`Table`]: the build side of joins, without the type of its keys.

use std::ptr;

use gpumap_kernels::rows::{
    JOIN_COUNT, JOIN_PLACE, JOIN_TICKETS, JOIN_WRITE, JoinCountArgs, JoinPlaceArgs, JoinProbe,
    JoinTicketsArgs, JoinWriteArgs, SHARE, STRIP, THREADS,
};
use gpumap_simt::kernel::Grid;
use gpumap_simt::warp;

use crate::array::Array;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Result;
use crate::floats::FloatWords;
use crate::primitives::queue_exclusive_sum;
use crate::rows::{self, KeyForm, Keys, Told, grid};
use crate::scratch::{ScratchPool, ScratchRole, Workspace};

/// Which pairs a join has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Inner,
    Left,
    Semi,
    Anti,
}

impl Kind {
    /// Whether its results are pairs, and not places of the probe side alone.
    pub fn has_right(self) -> bool {
        matches!(self, Self::Inner | Self::Left)
    }
}

/// Where the row numbers of both sides are written; null where they are not wanted.
pub(super) type Targets = (*mut u32, *mut u32);

/// Places of the build side sorted by row.
#[derive(Debug)]
struct Sorted {
    /// For each row where its places begin, and the end.
    offsets: Buffer<u32>,
    places: Buffer<u32>,
}

impl Sorted {
    /// Sorts `n` places, each of which has one of `distinct` rows.
    fn new(scratch: &mut Workspace, rows: *mut u32, n: usize, distinct: usize) -> Result<Self> {
        let stream = scratch.stream().clone();
        let tickets = scratch.reserve(ScratchRole::ThirdOutput, n)?;
        let mut sorted = Self {
            offsets: Buffer::zeroed(&stream, distinct + 1)?,
            places: Buffer::unwritten(&stream, n)?,
        };
        let offsets = sorted.offsets.as_mut_ptr();
        let count = JoinTicketsArgs {
            rows,
            n: n as u64,
            counts: offsets,
            tickets,
        };
        let place = JoinPlaceArgs {
            rows,
            tickets,
            n: n as u64,
            offsets,
            places: sorted.places.as_mut_ptr(),
        };
        // SAFETY: room for all rows and places; nothing else uses the buffers.
        unsafe {
            JOIN_TICKETS.launch(&stream, grid(n), count)?;
            queue_exclusive_sum(scratch, offsets, distinct + 1)?;
            JOIN_PLACE.launch(&stream, grid(n), place)?;
        }
        scratch.wait()?;
        Ok(sorted)
    }
}

/// The keys of a build side as rows, and the places of each row. Nothing changes it.
#[derive(Debug)]
pub(super) struct Table {
    rows: rows::Core,
    /// None if all keys differ, when rows are places, or if no place is wanted.
    sorted: Option<Sorted>,
    len: usize,
    /// Of the keys of both sides.
    floats: FloatWords,
}

impl Table {
    /// A table for all kinds of joins, or for those that want no places alone.
    pub fn new(
        device: &Device,
        keys: Array<'_>,
        key_bytes: usize,
        wants_places: bool,
        seed: u64,
    ) -> Result<Self> {
        let rows = rows::Core::new(device, KeyForm::Data(key_bytes), 0, seed)?;
        let (len, floats) = (keys.len(), keys.floats());
        let mut sorted = None;
        if len != 0 {
            let mut scratch = rows.scratch.take()?;
            // SAFETY: what is queued has ended when the workspace goes back.
            let keys = unsafe { Keys::stage(&mut scratch, keys, key_bytes) }?;
            let mut told = Told::NOTHING;
            if wants_places {
                told.rows = scratch.reserve(ScratchRole::SecondOutput, len)?;
            }
            let distinct = rows.insert_staged(&mut scratch, keys, told, |_, _, _| Ok(()))?;
            if wants_places && distinct != len {
                sorted = Some(Sorted::new(&mut scratch, told.rows, len, distinct)?);
            }
        }
        rows.scratch.trim();
        Ok(Self {
            rows,
            sorted,
            len,
            floats,
        })
    }

    /// How many keys there are, counted as often as they come.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many different keys there are.
    pub fn distinct(&self) -> usize {
        self.rows.len()
    }

    pub fn device(&self) -> &Device {
        &self.rows.device
    }

    pub fn scratch(&self) -> &ScratchPool {
        &self.rows.scratch
    }

    /// Joins a probe side, and queues writing what it finds to where `place` says when it is told how much that is. Returns
    /// that.
    pub fn probe(
        &self,
        scratch: &mut Workspace,
        left: Array<'_>,
        kind: Kind,
        place: &mut dyn FnMut(&mut Workspace, usize) -> Result<Targets>,
    ) -> Result<usize> {
        let n = left.len();
        if n == 0 {
            place(scratch, 0)?;
            return Ok(0);
        }
        let left = left.and_floats(self.floats);
        // SAFETY: the workspace waits for its stream before the caller's call returns.
        let keys = unsafe { Keys::stage(scratch, left, self.rows.key_bytes) }?;
        let found: *mut u32 = scratch.reserve(ScratchRole::Ids, n)?;
        self.rows.get_staged(scratch, keys, found)?;
        let mut probe = JoinProbe {
            found,
            pairs: ptr::null_mut(),
            n: n as u64,
            matched: u32::from(kind != Kind::Anti),
            unmatched: u32::from(matches!(kind, Kind::Left | Kind::Anti)),
        };
        let (mut offsets, mut places) = (ptr::null(), ptr::null());
        if let Some(sorted) = &self.sorted
            && kind.has_right()
        {
            probe.pairs = scratch.reserve(ScratchRole::Values, n)?;
            (offsets, places) = (sorted.offsets.as_ptr(), sorted.places.as_ptr());
        }
        let strips = n.div_ceil(STRIP as usize);
        let counts: *mut u64 = scratch.reserve(ScratchRole::Held, strips + 1)?;
        let count = JoinCountArgs {
            probe,
            offsets,
            counts,
            strips: strips as u64,
        };
        scratch.reset_counters()?;
        let counter = scratch.counters();
        // SAFETY: a count for each strip and one more; a counter has room for it.
        unsafe {
            JOIN_COUNT.launch(scratch.stream(), warps(strips as u64 + 1), count)?;
            queue_exclusive_sum(scratch, counts, strips + 1)?;
            let all = counts.wrapping_add(strips).cast();
            scratch
                .stream()
                .copy(counter.cast(), all, size_of::<u64>())?;
        }
        let all = scratch.read_counters()?[0];
        let (left, right) = place(scratch, usize::try_from(all).unwrap_or(usize::MAX))?;
        if all != 0 {
            let args = JoinWriteArgs {
                probe,
                places,
                before: counts,
                strips: strips as u64,
                left,
                right,
            };
            let work = strips as u64 * u64::from(STRIP) + all;
            // SAFETY: room for all pairs.
            unsafe { JOIN_WRITE.launch(scratch.stream(), warps(work.div_ceil(SHARE)), args) }?;
        }
        Ok(all as usize)
    }
}

/// So many warps.
fn warps(n: u64) -> Grid {
    Grid::covering(n.saturating_mul(u64::from(warp::SIZE)), THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Input;
    use crate::testing::on_every_device;
    use bytemuck::Pod;
    use gpumap_kernels::hash::mix64;
    use gpumap_kernels::rows::{NO_ROW, hash};

    const SEED: u64 = 5;

    /// Different keys of two words, or four, with one hash: what the words before the last one make of the seed is undone.
    fn alike<const WORDS: usize>(n: u64) -> Vec<[u64; WORDS]> {
        let key = |i| {
            let mut key = [7; WORDS];
            key[0] = i;
            let state = key[..WORDS - 1]
                .iter()
                .fold(SEED, |state, word| mix64(state ^ word));
            key[WORDS - 1] = state ^ 0x1234_5678;
            key
        };
        (0..n).map(key).collect()
    }

    fn pairs(table: &Table, left: Array<'_>, kind: Kind, most: usize) -> Vec<(u32, u32)> {
        let mut scratch = table.scratch().take().unwrap();
        let mut to = Buffer::<u32>::zeroed(scratch.stream(), 2 * most).unwrap();
        let first = to.as_mut_ptr();
        let found = table.probe(&mut scratch, left, kind, &mut |_, found| {
            assert!(found <= most);
            Ok((first, first.wrapping_add(most)))
        });
        let found = found.unwrap();
        scratch.wait().unwrap();
        let words = to.to_vec().unwrap();
        let (left, right) = words.split_at(most);
        let mut pairs: Vec<_> = left.iter().copied().zip(right.iter().copied()).collect();
        pairs.truncate(found);
        pairs.sort_unstable();
        pairs
    }

    /// Joins keys with all but the last ten of them, each of which the build side has once, and then some of them twice.
    fn check<K: Pod>(device: &Device, all: &[K]) {
        let there = all.len() - 10;
        for twice in [0, there / 2] {
            let right = [&all[..there], &all[..twice]].concat();
            let table =
                Table::new(device, right.source().into(), size_of::<K>(), true, SEED).unwrap();
            let left = || Array::from(all.source());
            let number = |i: usize| i as u32;
            let once = (0..there).map(|i| (number(i), number(i)));
            let again = (0..twice).map(|i| (number(i), number(there + i)));
            let mut expected: Vec<_> = once.chain(again).collect();
            expected.sort_unstable();
            assert_eq!(pairs(&table, left(), Kind::Inner, 2 * all.len()), expected);
            expected.extend((there..all.len()).map(|i| (number(i), NO_ROW)));
            assert_eq!(pairs(&table, left(), Kind::Left, 2 * all.len()), expected);
        }
    }

    #[test]
    fn keys_of_one_hash_are_told_apart() {
        let (two, four) = (alike::<2>(90), alike::<4>(90));
        let hash_of = |key: &[u64]| hash(bytemuck::cast_slice(key), SEED);
        assert!(two.iter().all(|key| hash_of(key) == hash_of(&two[0])));
        assert!(four.iter().all(|key| hash_of(key) == hash_of(&four[0])));
        // Of 8 bytes, some with one tag are soon found.
        let mut tags: Vec<(u32, u64)> = (0..400_000)
            .map(|key| (hash_of(&[key]).tag(), key))
            .collect();
        tags.sort_unstable();
        let equal = tags.windows(2).filter(|two| two[0].0 == two[1].0);
        let one: Vec<u64> = equal.flat_map(|two| [two[0].1, two[1].1]).collect();
        assert!(one.len() > 20, "{} keys", one.len());
        on_every_device(|device| {
            check(device, &one);
            check(device, &two);
            check(device, &four);
        });
    }
}
