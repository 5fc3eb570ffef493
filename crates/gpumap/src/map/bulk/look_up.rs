//! Large lookups in tables that exceed the TLB reach of the device: keys are sorted into bins
//! first, and answers collected from there. It is what ranks do with the keys that they
//! [send](super::sent), with one rank.

use std::ptr;

use gpumap_kernels::build::bins::{Bins, PART};
use gpumap_kernels::p2p::{COLLECT, CollectArgs, OwnerOf, ReceiveBuffer, SendArgs};
use gpumap_kernels::primitives::binning::DigitOf;
use gpumap_kernels::primitives::partition::ScatterKernel;
use gpumap_simt::kernel::Grid;

use super::bins::{REGION_BITS, spare};
use super::grains::Grains;
use crate::error::Result;
use crate::map::Core;
use crate::map::command::Command;
use crate::map::plan::BatchInfo;
use crate::map::table::Table;
use crate::memory::{Memory, bytes_of, bytes_of_each};
use crate::primitives::scatter_tile;
use crate::scratch::Workspace;
use crate::stream::Stream;

/// Bins that keys are sorted into.
const BINS: u32 = 1 << REGION_BITS;

/// Threads per block of what collects answers.
const THREADS: u32 = 1024;

/// Queues collecting answers.
///
/// # Safety
/// As [`CollectArgs`] says, until the stream has finished.
pub(crate) unsafe fn collect(stream: &Stream, args: CollectArgs) -> Result<()> {
    let grid = Grid::new(args.len.div_ceil(args.tile.into()) as u32, THREADS);
    // SAFETY: the caller's promise.
    unsafe { COLLECT.launch(stream, grid, args) }
}

/// Keys that have been sorted into bins, and where their answers will be.
struct Sorted {
    /// How much room each bin has.
    grains: Grains,
    /// Room for as many keys, values and bytes that say which are found,
    receive_buffer: ReceiveBuffer,
    /// and where on the device that is written.
    boxes: *mut u8,
    /// How many keys each bin has.
    counts: *mut u64,
    /// For each key of the batch, the place of its answer.
    places: *mut u32,
    /// Keys of a tile of the kernel that sorts them.
    tile: u32,
    memory: Vec<Memory>,
}

impl Core {
    /// Looks up keys in the order of the table, and waits. False if that is not worth while, or
    /// cannot be done; then nothing has happened. The caller holds the table's lock.
    pub(in crate::map) fn look_up_sorted(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        command: Command,
    ) -> Result<bool> {
        let Command {
            keys,
            len,
            default,
            out_values,
            out_flags,
            ..
        } = command;
        let kernels = &self.kernels.bulk;
        if !self.plan(&command, BatchInfo::of(&command)).is_sorted {
            return Ok(false);
        }
        self.expect_sound()?;
        let value_bytes = match out_values.is_null() {
            true => 0,
            false => self.pair.value,
        };
        let tile = scatter_tile(&self.device, &kernels.send_keys, BINS);
        let Some(sorted) = self.room_to_sort(scratch, len, value_bytes, tile)? else {
            return Ok(false);
        };
        if !self.sort_keys(scratch, &kernels.send_keys, keys, len, &sorted)? {
            return Ok(false);
        }
        let receive_buffer = &sorted.receive_buffer;
        let bins = Bins {
            keys: receive_buffer.keys.cast(),
            values: ptr::null(),
            value: 0,
            counts: sorted.counts,
            bins: BINS,
            grains: sorted.grains.get(),
            part: PART,
            same: 0,
        };
        let answers = CollectArgs {
            places: sorted.places,
            values: receive_buffer.values.cast_const(),
            value_bytes: value_bytes as u32,
            found: receive_buffer.found,
            len: len as u64,
            tile,
            out_values,
            out_found: out_flags,
        };
        let (stream, boxes) = (scratch.stream(), sorted.boxes.cast_const().cast());
        // SAFETY: the one source has a receive buffer, with a place for each answer; each key has such a
        // place, and outputs are as long as the batch. All of it lives until the wait; the caller
        // holds the lock.
        unsafe {
            self.queue_get_bins(table, stream, bins, 1, boxes, default)?;
            collect(stream, answers)?;
        }
        scratch.wait()?;
        Ok(true)
    }

    /// Memory for sorting so many keys, and for their answers; none if there is none, or they are
    /// too many.
    fn room_to_sort(
        &self,
        scratch: &mut Workspace,
        len: usize,
        value_bytes: usize,
        tile: u32,
    ) -> Result<Option<Sorted>> {
        let bins = BINS as usize;
        let Some(grains) = Grains::of_sent(len, bins) else {
            return Ok(None);
        };
        let places = grains.places(bins);
        // The places of answers are sent in 32 bits.
        if u32::try_from(places).is_err() {
            return Ok(None);
        }
        let sizes = [
            bytes_of_each(self.pair.key, places)?,
            places * value_bytes,
            places,
            bytes_of::<u32>(len)?,
            bytes_of::<u64>(bins)?,
            size_of::<ReceiveBuffer>(),
        ];
        let mut memory = Vec::with_capacity(sizes.len());
        for bytes in sizes {
            match spare(scratch, bytes)? {
                Some(one) => memory.push(one),
                None => return Ok(None),
            }
        }
        let at = |i: usize| memory[i].ptr();
        Ok(Some(Sorted {
            grains,
            receive_buffer: ReceiveBuffer {
                keys: at(0),
                values: if value_bytes == 0 {
                    ptr::null_mut()
                } else {
                    at(1)
                },
                found: at(2),
            },
            places: at(3).cast(),
            counts: at(4).cast(),
            boxes: at(5),
            tile,
            memory,
        }))
    }

    /// Sorts keys into bins, and waits. False if there are too many for one of these.
    fn sort_keys(
        &self,
        scratch: &mut Workspace,
        kernel: &ScatterKernel<SendArgs<u8, u8>>,
        keys: *const u8,
        len: usize,
        sorted: &Sorted,
    ) -> Result<bool> {
        let args = SendArgs {
            keys,
            values: ptr::null(),
            len: len as u64,
            tile: sorted.tile,
            aligned: u32::from(keys.addr().is_multiple_of(16)),
            owner: OwnerOf::ONE,
            me: 0,
            bin: DigitOf::top_of_hash(self.seed, REGION_BITS),
            bits: REGION_BITS,
            boxes: sorted.boxes.cast_const().cast(),
            capacity: sorted.grains.capacity(),
            stride: sorted.grains.capacity(),
            cursors: sorted.counts,
            places: sorted.places,
        };
        let grid = Grid {
            // Fewer keys than places, which are below 2^32.
            blocks: len.div_ceil(sorted.tile as usize) as u32,
            threads: kernel.threads,
            shared_bytes: kernel.shared_bytes(sorted.tile, BINS),
        };
        let mut received = vec![0u64; BINS as usize];
        let (counts, receive_buffer) =
            (sorted.counts.cast(), ptr::from_ref(&sorted.receive_buffer));
        let stream = scratch.stream();
        // SAFETY: the keys are staged, the receive buffer has `capacity` places for each bin, and there is
        // one for each key's answer and a count for each bin. What the host gives and takes lives
        // until the wait, also after an error.
        let mut queue = || unsafe {
            if self.tuning.zeroes_bins {
                stream.fill(sorted.receive_buffer.keys, 0, sorted.memory[0].bytes())?;
            }
            stream.fill(counts, 0, size_of_val(&*received))?;
            stream.upload(
                sorted.boxes,
                receive_buffer.cast(),
                size_of::<ReceiveBuffer>(),
            )?;
            kernel.kernel.launch(stream, grid, args)?;
            stream.download(
                received.as_mut_ptr().cast(),
                counts,
                size_of_val(&*received),
            )
        };
        queue().and(stream.finish())?;
        Ok(received
            .iter()
            .all(|&keys| keys <= sorted.grains.capacity()))
    }
}
