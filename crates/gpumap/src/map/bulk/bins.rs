//! A batch in bins: one pass of the partition by the top bits of the hash.

use std::ptr;

use gpumap_kernels::build::bins::Bins;
use gpumap_kernels::build::combine::{self, Combine, SampleArgs};
use gpumap_kernels::primitives::binning::DigitOf;
use gpumap_kernels::primitives::partition::{ScatterArgs, ScatterKernel};
use gpumap_simt::atomic::part::Update;
use gpumap_simt::kernel::Grid;

use super::grains::Grains;
use super::stages::Arrival;
use crate::error::{Error, Result};
use crate::map::command::{Command, Kind};
use crate::map::plan::BatchInfo;
use crate::map::{Core, Pair};
use crate::memory::{Memory, bytes_of, bytes_of_each};
use crate::primitives::scatter_tile;
use crate::scratch::Workspace;

/// Bits of the hash that choose the bin of a pair on its way to a table in use: 256 regions, of
/// which those that are being worked on stay in the L2.
pub(super) const REGION_BITS: u32 = 8;

/// Of so many keys of a sample at least one must be a repeat: then writing fewer pairs saves more than it takes to find these.
const REPEATS: u64 = 8;

/// Keys, and values if there are any, in bins by the top `bits` bits of their hashes: for each
/// value of these, one bin after the other from each of `sources`.
#[derive(Debug)]
pub(crate) struct InBins {
    pub(crate) bins: Bins<u8, u8>,
    pub(crate) bits: u32,
    pub(crate) sources: u32,
    /// Keys in all bins.
    pub(crate) len: usize,
    /// When they come, if they are not there: all of them at the last.
    pub(crate) arrivals: Vec<Arrival>,
    /// What became of the values of equal keys, if these were combined.
    pub(crate) combined: Option<Combine>,
    /// Whether there is another copy of the batch, so that the memory of the bins may be used for something else.
    pub(crate) is_copy: bool,
}

/// A sorted batch. Its memory is freed in the order of the stream.
#[derive(Debug)]
pub(in crate::map) struct Binned {
    keys: Memory,
    values: Memory,
    counts: Memory,
    bits: u32,
    grains: Grains,
    part: u32,
    len: usize,
    /// The bits of what comes with every key, if keys lie alone.
    same: Option<u64>,
    /// What became of the values of equal keys, if these were combined.
    combined: Option<Combine>,
}

impl Binned {
    /// Memory for so many keys in bins by the top `bits` bits of their hashes, and for their
    /// values: none if there is none, or they are too many.
    /// Warps have [parts](Bins::part) of what `part` says.
    fn of(
        scratch: &Workspace,
        pair: Pair,
        len: usize,
        bits: u32,
        part: impl FnOnce(Grains) -> u32,
    ) -> Result<Option<Self>> {
        let bins = 1usize << bits;
        let Some(grains) = Grains::of(len, bins) else {
            return Ok(None);
        };
        let places = grains.places(bins);
        let (of_keys, of_values) = match pair.side_by_side() {
            true => (bytes_of_each(pair.bytes(), places)?, 0),
            false => (
                bytes_of_each(pair.key, places)?,
                bytes_of_each(pair.value, places)?,
            ),
        };
        let Some(keys) = spare(scratch, of_keys)? else {
            return Ok(None);
        };
        let Some(values) = spare(scratch, of_values)? else {
            return Ok(None);
        };
        let Some(counts) = spare(scratch, bytes_of::<u64>(bins)?)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            keys,
            values,
            counts,
            bits,
            grains,
            part: part(grains),
            len,
            same: None,
            combined: None,
        }))
    }

    /// Bytes of the keys and their values.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.keys.bytes() + self.values.bytes()
    }

    /// The bins as kernels take them, which is valid for as long as this.
    pub fn bins(&self) -> Bins<u8, u8> {
        Bins {
            keys: self.keys.ptr(),
            values: self.values.ptr(),
            value: self.same.unwrap_or(0),
            counts: self.counts.ptr().cast(),
            bins: 1 << self.bits,
            grains: self.grains.get(),
            part: self.part,
            same: u32::from(self.same.is_some()),
        }
    }

    /// The same, and what they are.
    pub(in crate::map) fn in_bins(&self) -> InBins {
        InBins {
            bins: self.bins(),
            bits: self.bits,
            sources: 1,
            len: self.len,
            arrivals: Vec::new(),
            combined: self.combined,
            is_copy: true,
        }
    }
}

/// Memory that is only there for speed.
pub(super) fn spare(scratch: &Workspace, bytes: usize) -> Result<Option<Memory>> {
    match Memory::new(scratch.stream(), bytes) {
        Ok(memory) => Ok(Some(memory)),
        Err(Error::OutOfMemory { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Core {
    /// The batch of a job in bins for a table in use, if that is worth while and can be done. Equal keys are one in them, if it
    /// `combines` and there are many. Waits for the device.
    pub(in crate::map) fn sorted(
        &self,
        scratch: &mut Workspace,
        job: &Command,
        combines: bool,
    ) -> Result<Option<Binned>> {
        if !self.plan(job, BatchInfo::of(job)).is_sorted {
            return Ok(None);
        }
        let looks_first = combines && job.len >= self.tuning.combine;
        if !job.values.is_null() || looks_first && self.repeats(scratch, job)? {
            return self.pairs_to_bins(scratch, job, REGION_BITS, combines);
        }
        let keys = self.keys_to_bins(scratch, job.keys, job.len, REGION_BITS)?;
        Ok(keys.map(|keys| Binned {
            same: Some(job.value),
            ..keys
        }))
    }

    /// Whether many keys of a batch come several times among as many as a tile has, and there are kernels that combine these.
    /// Waits for the device.
    fn repeats(&self, scratch: &mut Workspace, job: &Command) -> Result<bool> {
        let Some(kernels) = self.kernels.bulk.combined else {
            return Ok(false);
        };
        if job.len < combine::SAMPLE as usize {
            return Ok(false);
        }
        let args = SampleArgs {
            keys: job.keys,
            key_bytes: self.pair.key as u32,
            len: job.len as u64,
            repeats: scratch.counting()?,
        };
        let grid = Grid {
            blocks: 1,
            threads: combine::SAMPLE_THREADS,
            shared_bytes: combine::SAMPLE_BYTES,
        };
        // SAFETY: the batch is staged, and has as many keys.
        unsafe { kernels.count_repeats.launch(scratch.stream(), grid, args) }?;
        let [repeats, _] = scratch.counted()?;
        // It only looked.
        scratch.begin();
        Ok(repeats >= u64::from(combine::SAMPLE) / REPEATS)
    }

    /// Consecutive places for each warp, of bins of so many that have `len` keys for this table.
    pub(crate) fn part_of_bins(&self, len: usize, grains: Grains) -> u32 {
        let table_bytes = self.slots() as u64 * u64::from(self.kernels.slot_bytes);
        self.tuning.part(len, table_bytes, grains)
    }

    /// The batch of a job by the top `bits` bits of its hashes, each key with its value; none if there is no memory
    /// for it, or one of the bins runs over. Equal keys are one there, if it `combines` and there are many. Waits for the
    /// device.
    pub(super) fn pairs_to_bins(
        &self,
        scratch: &mut Workspace,
        job: &Command,
        bits: u32,
        combines: bool,
    ) -> Result<Option<Binned>> {
        let kernels = &self.kernels.bulk;
        let sort = |scratch: &mut Workspace, kernel, combine: Option<Combine>| {
            let how = (kernel, combine.unwrap_or(Combine::KEEP));
            let values = (job.values, job.value, self.pair.value);
            let sorted = self.to_bins(scratch, how, job.keys, values, job.len, bits)?;
            Ok(sorted.map(|sorted| Binned {
                combined: combine,
                ..sorted
            }))
        };
        let Some(combined) = kernels.combined.filter(|_| combines) else {
            return sort(scratch, kernels.to_bins, None);
        };
        // A sample of a small batch takes longer than it saves, unless a bin has run over.
        let looks_first = job.len >= self.tuning.combine;
        let mut repeats = looks_first && self.repeats(scratch, job)?;
        if !repeats {
            let sorted = sort(scratch, kernels.to_bins, None)?;
            repeats = sorted.is_none() && !looks_first && self.repeats(scratch, job)?;
            if !repeats {
                return Ok(sorted);
            }
        }
        let combine = match job.kind {
            // Of several pairs with one key any may be kept.
            Kind::Merge(Update::Replace) => Combine::KEEP,
            Kind::Merge(update) => Combine { update, merges: 1 },
            _ => Combine::KEEP,
        };
        sort(scratch, combined.to_bins, Some(combine))
    }

    /// Keys alone by the top `bits` bits of their hashes: as [`pairs_to_bins`](Self::pairs_to_bins).
    fn keys_to_bins(
        &self,
        scratch: &mut Workspace,
        keys: *const u8,
        len: usize,
        bits: u32,
    ) -> Result<Option<Binned>> {
        let values = (ptr::null(), 0, 0);
        let kernel = (self.kernels.bulk.keys_to_bins, Combine::KEEP);
        self.to_bins(scratch, kernel, keys, values, len, bits)
    }

    /// # Errors
    /// As for [`pairs_to_bins`](Self::pairs_to_bins): of the device.
    fn to_bins(
        &self,
        scratch: &mut Workspace,
        (kernel, combine): (ScatterKernel<ScatterArgs<u8, u8>>, Combine),
        keys: *const u8,
        (values, value, value_bytes): (*const u8, u64, usize),
        len: usize,
        bits: u32,
    ) -> Result<Option<Binned>> {
        let part = |grains| self.part_of_bins(len, grains);
        let pair = Pair {
            value: value_bytes,
            ..self.pair
        };
        let Some(binned) = Binned::of(scratch, pair, len, bits, part)? else {
            return Ok(None);
        };
        let bins = binned.bins();
        let tile = scatter_tile(&self.device, &kernel, bins.bins);
        let Ok(blocks) = u32::try_from(len.div_ceil(tile as usize)) else {
            return Ok(None);
        };
        let aligned = |address: usize| u32::from(address.is_multiple_of(16));
        let args = ScatterArgs {
            keys,
            values,
            value,
            len: len as u64,
            tile,
            parts: bins.bins,
            digit: DigitOf::top_of_hash(self.seed, bits),
            aligned: aligned(keys.addr()) | aligned(values.addr()) << 1,
            cursors: binned.counts.ptr().cast(),
            matrix: ptr::null(),
            capacity: bins.capacity(),
            combine,
            out_keys: binned.keys.ptr(),
            out_values: binned.values.ptr(),
        };
        let grid = Grid {
            blocks,
            threads: kernel.threads,
            shared_bytes: kernel.shared_bytes(tile, bins.bins),
        };
        let mut counts = vec![0u64; bins.bins as usize];
        let stream = scratch.stream();
        // SAFETY: the outputs have `capacity` places for each bin and the cursors a word; the batch
        // is staged. The host's counts live until the wait, which is reached if their copy is queued.
        unsafe {
            if self.tuning.zeroes_bins {
                for memory in [&binned.keys, &binned.values] {
                    stream.fill(memory.ptr(), 0, memory.bytes())?;
                }
            }
            stream.fill(binned.counts.ptr(), 0, size_of_val(&*counts))?;
            kernel.kernel.launch(stream, grid, args)?;
            let to = counts.as_mut_ptr().cast();
            stream.download(to, binned.counts.ptr(), size_of_val(&*counts))?;
        }
        stream.finish()?;
        // It only read the batch.
        scratch.begin();
        let capacity = bins.capacity();
        let fits = counts.iter().all(|&count| count <= capacity);
        Ok(fits.then_some(binned))
    }
}
