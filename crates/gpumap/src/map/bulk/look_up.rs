//! Large lookups in tables that are larger than what the device can tell the addresses of: keys are sorted into bins
//! first, and answers collected from there. It is what ranks do with the keys that they [send](super::sent), with one rank.

use std::ptr;

use gpumap_kernels::build::bins::{Bins, GRAIN};
use gpumap_kernels::mail::{
    COLLECT_0, COLLECT_4, COLLECT_8, CollectArgs, Mailbox, OwnerOf, SendArgs,
};
use gpumap_kernels::primitives::binning::DigitOf;
use gpumap_simt::kernel::Grid;

use super::bins::{REGION_BITS, spare};
use super::sent::grains_of_sent;
use crate::error::Result;
use crate::map::table::Table;
use crate::map::{Key, Map, Value};
use crate::memory::bytes_of;
use crate::primitives::scatter_tile;
use crate::scratch::Workspace;
use crate::stream::Stream;

/// Threads per block of what collects answers.
const THREADS: u32 = 1024;

/// Queues collecting answers: values of `value_bytes` bytes, none if that is 0.
///
/// # Safety
/// As [`CollectArgs`] says, until the stream has come to its end; values are of the type of those bytes.
pub(crate) unsafe fn collect(
    stream: &Stream,
    value_bytes: usize,
    args: CollectArgs<()>,
) -> Result<()> {
    let grid = Grid::new(args.len.div_ceil(args.tile.into()) as u32, THREADS);
    // SAFETY: the caller's promise.
    unsafe {
        match value_bytes {
            0 => COLLECT_0.launch(stream, grid, args),
            4 => COLLECT_4.launch(stream, grid, args.of()),
            _ => COLLECT_8.launch(stream, grid, args.of()),
        }
    }
}

impl<K: Key, V: Value> Map<K, V> {
    /// Looks up `len` keys in the order of the table, and waits; outputs may be null. False if that is not worth while,
    /// or cannot be done; then nothing has happened. The caller holds the table's lock.
    pub(in crate::map) fn look_up_sorted(
        &self,
        table: &Table,
        scratch: &mut Workspace,
        keys: *const K,
        len: usize,
        (values, found): (*mut V, *mut u8),
        default: V,
    ) -> Result<bool> {
        let Some(kernels) = &self.kernels.bulk else {
            return Ok(false);
        };
        if !self.bulk.sorts_lookups(len, table.shape.bytes()) {
            return Ok(false);
        }
        let bins = 1usize << REGION_BITS;
        let Some(grains) = grains_of_sent(len, bins) else {
            return Ok(false);
        };
        let capacity = grains as usize * GRAIN as usize;
        let places = bins * capacity;
        // Where answers are is told in 32 bits.
        if u32::try_from(places).is_err() {
            return Ok(false);
        }
        self.expect_sound()?;

        let value_bytes = if values.is_null() { 0 } else { size_of::<V>() };
        let sizes = [
            bytes_of::<K>(places)?,
            places * value_bytes,
            places,
            bytes_of::<u32>(len)?,
            bytes_of::<u64>(bins)?,
            size_of::<Mailbox>(),
        ];
        let mut memory = Vec::with_capacity(sizes.len());
        for bytes in sizes {
            match spare(scratch, bytes)? {
                Some(one) => memory.push(one),
                None => return Ok(false),
            }
        }
        let at = |i: usize| memory[i].ptr();
        let mailbox = Mailbox {
            keys: at(0),
            values: if value_bytes == 0 {
                ptr::null_mut()
            } else {
                at(1)
            },
            found: at(2),
        };
        let (to, counts, boxes) = (at(3).cast::<u32>(), at(4).cast::<u64>(), at(5));

        let kernel = kernels.send_keys;
        let tile = scatter_tile(&self.device, &kernel, bins as u32);
        let args = SendArgs {
            keys: keys.cast(),
            values: ptr::null(),
            len: len as u64,
            tile,
            aligned: u32::from(keys.addr().is_multiple_of(16)),
            owner: OwnerOf {
                digit: DigitOf {
                    seed: 0,
                    shift: 0,
                    mask: 0,
                    hashed: 0,
                },
                ranks: 1,
                log2: 0,
            },
            me: 0,
            bin: DigitOf {
                seed: self.seed,
                shift: 64 - REGION_BITS,
                mask: bins as u32 - 1,
                hashed: 1,
            },
            bits: REGION_BITS,
            boxes: boxes.cast_const().cast(),
            capacity: capacity as u64,
            stride: capacity as u64,
            cursors: counts,
            places: to,
        };
        let grid = Grid {
            // Fewer keys than places, which are below 2^32.
            blocks: len.div_ceil(tile as usize) as u32,
            threads: kernel.threads,
            shared_bytes: kernel.shared_bytes(tile, bins as u32),
        };
        let mut came = vec![0u64; bins];
        let stream = scratch.stream();
        // SAFETY: the keys are staged, the mailbox has `capacity` places for each bin, and there is one for each key's
        // answer and a count for each bin. What the host gives and takes lives until the wait, which is reached unless
        // something failed; then nothing is left to use it.
        unsafe {
            stream.fill(counts.cast(), 0, size_of_val(&*came))?;
            stream.upload(boxes, ptr::from_ref(&mailbox).cast(), size_of::<Mailbox>())?;
            kernel.kernel.launch(stream, grid, args)?;
            let host = came.as_mut_ptr().cast();
            stream.download(host, counts.cast(), size_of_val(&*came))?;
        }
        stream.synchronize()?;
        if came.iter().any(|&keys| keys > capacity as u64) {
            return Ok(false);
        }

        let sorted = Bins {
            keys: mailbox.keys.cast_const().cast(),
            values: ptr::null(),
            counts,
            bins: bins as u32,
            grains,
        };
        let answers = CollectArgs {
            places: to,
            values: mailbox.values.cast_const().cast(),
            found: mailbox.found,
            len: len as u64,
            tile,
            out_values: values.cast(),
            out_found: found,
        };
        // SAFETY: the one source has a mailbox, with a place for each answer; each key has such a place, and outputs
        // are as long as the batch. All of it lives until the wait; the caller holds the lock.
        unsafe {
            self.queue_get_bins(table, stream, sorted, 1, boxes.cast_const().cast(), default)?;
            collect(stream, value_bytes, answers)?;
        }
        scratch.wait()?;
        Ok(true)
    }
}
