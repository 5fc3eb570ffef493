//! The ladder of `retrieve_all`.

use anyhow::{Result, ensure};
use gpumap::{Buffer, Map, PinnedBuffer, Stream};
use gpumap_bench_kernels::compact::{SHARED_BYTES, THREADS};
use gpumap_bench_kernels::retrieve_all::*;
use gpumap_simt::kernel::{Grid, Kernel};

use super::SUBMAPS;
use super::digest;
use super::report::Row;
use crate::data::Word;
use crate::measure::Clock;

/// A rung: its name, and how it is run.
#[derive(Debug)]
pub struct DumpRung {
    /// What tables call it.
    pub name: &'static str,
    how: How,
}

#[derive(Debug)]
enum How {
    /// A kernel of the ladder, so many slots a thread.
    Kernel(&'static Kernel<RetrieveAllArgs>, u32),
    /// The library's own, on a map of its own with the same pairs.
    Library,
}

const fn rung(name: &'static str, kernel: &'static Kernel<RetrieveAllArgs>) -> DumpRung {
    let how = How::Kernel(kernel, 1);
    DumpRung { name, how }
}

/// From the naive one up.
pub static DUMP_RUNGS: [DumpRung; 12] = [
    rung("naive: one atomic per pair", &DUMP_NAIVE),
    rung("the same, left to the assembler", &DUMP_ASSEMBLED),
    rung("aggregated by the counter's address", &DUMP_AGGREGATED),
    rung("ballot, one atomic per warp", &DUMP_BALLOT),
    rung("counter of the block", &DUMP_BLOCK_COUNTER),
    rung("scan of the block", &DUMP_BLOCK_SCAN),
    rung("tiles of 4 lanes", &DUMP_TILES_4),
    rung("tiles of 8 lanes", &DUMP_TILES_8),
    rung("tiles of 16 lanes", &DUMP_TILES_16),
    rung("tiles of 32 lanes", &DUMP_TILES_32),
    DumpRung {
        name: "several slots a thread",
        how: How::Kernel(&DUMP_ROUNDS, ROUNDS as u32),
    },
    DumpRung {
        name: "gpumap",
        how: How::Library,
    },
];

/// A slot: a key, which may be [`EMPTY`] or [`ERASED`], and a value.
pub type Slot = [u64; 2];

/// The data of the ladder, on a device whose kernels are [registered](super::register_kernels).
#[derive(Debug)]
pub struct RetrieveAll {
    stream: Stream,
    /// The slots; the directory has their addresses.
    submaps: Vec<Buffer<Slot>>,
    directory: Buffer<u64>,
    ends: Buffer<u64>,
    slots: usize,
    pairs: usize,
    keys: Buffer<u64>,
    values: Buffer<u64>,
    counter: Buffer<u64>,
    map: Map<u64, u64>,
}

impl RetrieveAll {
    /// Dumps of these submaps, and of a map with as many submaps and the same pairs. No key comes
    /// twice.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(stream: &Stream, submaps: &[Vec<Slot>]) -> Result<Self> {
        let buffers = submaps
            .iter()
            .map(|slots| Buffer::from_slice(stream, slots));
        let buffers: Vec<Buffer<Slot>> = buffers.collect::<Result<_, _>>()?;
        let directory: Vec<u64> = buffers.iter().map(|slots| slots.as_ptr() as u64).collect();
        // The first end is the first capacity, not 0: a thread is in the first submap whose end is
        // beyond its slot.
        let mut slots = 0;
        let ends = submaps.iter().map(|submap| {
            slots += submap.len();
            slots as u64
        });
        let ends: Vec<u64> = ends.collect();

        let live = || submaps.iter().flatten().filter(|slot| is_live(slot));
        let pairs = live().count();
        let keys: Vec<u64> = live().map(|slot| slot[0]).collect();
        let values: Vec<u64> = live().map(|slot| slot[1]).collect();
        let map = Map::builder(stream.device())
            .capacity(pairs.max(slots / 2).max(1))
            .max_load_factor(0.5)
            .submaps(u32::try_from(submaps.len())?)
            .hash_seed(1)
            .build()?;
        let new = map.insert(&keys, &values)?;
        ensure!(new == pairs, "{new} of {pairs} pairs went into the map");
        Ok(Self {
            stream: stream.clone(),
            directory: Buffer::from_slice(stream, &directory)?,
            ends: Buffer::from_slice(stream, &ends)?,
            submaps: buffers,
            slots,
            pairs,
            keys: Buffer::zeroed(stream, pairs)?,
            values: Buffer::zeroed(stream, pairs)?,
            counter: Buffer::zeroed(stream, 1)?,
            map,
        })
    }

    /// Copies every pair out, and says how many there are.
    ///
    /// # Errors
    /// Those of the device.
    pub fn run(&mut self, rung: &DumpRung) -> Result<usize> {
        let How::Kernel(kernel, per_thread) = rung.how else {
            let (keys, values) = (&mut self.keys, &mut self.values);
            return Ok(self.map.retrieve_all_into(keys, values)?);
        };
        self.counter.fill_bytes(0)?;
        let args = RetrieveAllArgs {
            submaps: self.directory.as_ptr(),
            ends: self.ends.as_ptr(),
            slots: self.slots as u64,
            keys: self.keys.as_mut_ptr(),
            values: self.values.as_mut_ptr(),
            counter: self.counter.as_mut_ptr(),
        };
        let threads = self.slots.div_ceil(per_thread as usize);
        let grid = Grid {
            shared_bytes: SHARED_BYTES,
            ..Grid::covering(threads as u64, THREADS)
        };
        // SAFETY: the outputs have room for all live slots of the submaps, and the counter is
        // zero; all of them are of this stream and live until the counter has been read.
        unsafe { kernel.launch(&self.stream, grid, args) }?;
        Ok(self.counter.to_vec()?[0] as usize)
    }

    /// What the last run copied out.
    ///
    /// # Errors
    /// Those of the device.
    pub fn output(&self) -> Result<(Vec<u64>, Vec<u64>)> {
        Ok((self.keys.to_vec()?, self.values.to_vec()?))
    }

    /// Makes sure that the output is not what a run leaves.
    ///
    /// # Errors
    /// Those of the device.
    pub fn spoil(&mut self) -> Result<()> {
        self.keys.fill_bytes(0xee)?;
        Ok(self.values.fill_bytes(0xee)?)
    }

    /// Slots that a rung reads.
    fn slots(&self, rung: &DumpRung) -> usize {
        match rung.how {
            How::Kernel(..) => self.submaps.iter().map(Buffer::len).sum(),
            How::Library => self.map.slots(),
        }
    }
}

/// Whether there is a pair in a slot.
fn is_live(slot: &Slot) -> bool {
    slot[0] != EMPTY && slot[0] != ERASED
}

/// `slots` slots in all, half of them with a pair, in submaps of three sizes.
fn submaps(count: usize, slots: usize) -> Vec<Vec<Slot>> {
    let weight = |i: usize| 3 + i % 3;
    let weights: usize = (0..count).map(weight).sum();
    let mut left = slots;
    let mut i = 0;
    let slot = |i: u64| match u32::sparse(i) % 16 {
        0..8 => [u64::sparse(i), i],
        8 => [ERASED, i],
        _ => [EMPTY, EMPTY],
    };
    let submap = |s: usize| {
        let share = slots * weight(s) / weights;
        let len = if s + 1 == count { left } else { share };
        left -= len;
        let begin = i;
        i += len as u64;
        (begin..i).map(slot).collect()
    };
    (0..count).map(submap).collect()
}

/// Measures and verifies every rung on `slots` slots.
pub(super) fn measure(
    stream: &Stream,
    slots: usize,
    clock: Clock,
    add: &mut dyn FnMut(Row),
) -> Result<()> {
    let mixed = |key: u64, value: u64| u64::sparse(key ^ value.rotate_left(32));
    for count in SUBMAPS {
        let host = submaps(count, slots);
        let mut dump = RetrieveAll::new(stream, &host)?;
        let in_submap = |slots: &Vec<Slot>| {
            let of = |slot: &Slot| {
                if is_live(slot) {
                    mixed(slot[0], slot[1])
                } else {
                    0
                }
            };
            digest::sum(slots.len(), |i| of(&slots[i]))
        };
        let expected = host.iter().map(in_submap).fold(0, u64::wrapping_add);
        drop(host);
        let pairs = dump.pairs;
        let mut keys = PinnedBuffer::<u64>::zeroed(stream.device(), pairs)?;
        let mut values = PinnedBuffer::<u64>::zeroed(stream.device(), pairs)?;
        for rung in &DUMP_RUNGS {
            dump.spoil()?;
            let (took, found) = clock.time(|| dump.run(rung))?;
            ensure!(found == pairs, "{}: {found} pairs, not {pairs}", rung.name);
            dump.keys.copy_to_slice(&mut keys)?;
            dump.values.copy_to_slice(&mut values)?;
            let sum = digest::sum(pairs, |i| mixed(keys[i], values[i]));
            ensure!(sum == expected, "{}: not the pairs of the map", rung.name);
            let read = dump.slots(rung);
            let case = match count {
                1 => "1 submap".to_owned(),
                _ => format!("{count} submaps"),
            };
            let bytes = 16 * (read + pairs) as u64;
            add(Row::new("retrieve_all", case, rung.name, read, took, bytes));
        }
    }
    Ok(())
}
