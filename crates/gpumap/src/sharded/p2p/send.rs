//! Sending a batch: one pass of the partition, into the receive buffers of all ranks.

use std::ptr;

use gpumap_kernels::build::bins::Bins;
use gpumap_kernels::p2p::{ReceiveBuffer, SendArgs, turn};
use gpumap_kernels::primitives::binning::DigitOf;
use gpumap_kernels::primitives::partition::ScatterKernel;
use gpumap_simt::kernel::Grid;

use super::fetch::Fetching;
use super::{Agreement, PAUSE};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::input::Source;
use crate::map::{InBins, Key, Pair, SendKernels, Value};
use crate::primitives::scatter_tile;
use crate::scratch::{ScratchRole, Workspace};
use crate::sharded::Rank;
use crate::sharded::step::Step;
use crate::sharded::transport::Window;
use crate::sharded::words::Words;
use crate::stream::Stream;

/// What a rank has received, or is on its way.
pub(in crate::sharded) struct Received {
    pub(in crate::sharded) batch: InBins,
    _fetching: Option<Fetching>,
    /// How many keys each bin has.
    _counts: Buffer<u64>,
}

/// A batch on the device, and the kernel that sends it.
struct Batch {
    kernel: ScatterKernel<SendArgs<u8, u8>>,
    keys: *const u8,
    values: *const u8,
    len: usize,
    places: *mut u32,
}

/// What a batch is sent with.
pub(in crate::sharded) struct Session {
    pub(super) pair: Pair,
    pub(super) agreement: Agreement,
    pub(super) send_kernels: SendKernels,
    /// Where the receive buffer of each rank is,
    pub(super) boxes: Vec<u64>,
    /// for as long as this is held.
    pub(super) _window: Window,
}

impl Session {
    /// Where the receive buffer of a rank begins, or its answers: `first` places further on.
    pub(super) fn receive_buffer(&self, rank: usize, first: u64) -> ReceiveBuffer {
        let base = ptr::with_exposed_provenance_mut::<u8>(self.boxes[rank] as usize);
        let (places, first) = (self.agreement.places() as usize, first as usize);
        let values = base.wrapping_add(places * self.pair.key);
        let found = values.wrapping_add(places * self.pair.value);
        ReceiveBuffer {
            keys: base.wrapping_add(first * self.pair.key),
            values: values.wrapping_add(first * self.pair.value),
            found: found.wrapping_add(first),
        }
    }

    /// The same for pairs, which may lie [side by side](gpumap_kernels::build::pair).
    pub(super) fn receive_buffer_of_pairs(&self, rank: usize, first: u64) -> ReceiveBuffer {
        match self.pair.side_by_side() {
            true => {
                let receive_buffer = self.receive_buffer(rank, 0);
                let before = first as usize * self.pair.bytes();
                ReceiveBuffer {
                    keys: receive_buffer.keys.wrapping_add(before),
                    ..receive_buffer
                }
            }
            false => self.receive_buffer(rank, first),
        }
    }
}

impl Agreement {
    /// The bins of a rank begin so far into what another one counts, and keeps for answers.
    pub(super) fn first_bin(&self, source: usize, owner: usize) -> usize {
        (turn(source as u32, owner as u32, self.ranks as u32) as usize) << self.bits
    }

    /// Whether what all ranks have sent fits: into bins, and into the maps. `counts` has those of
    /// each rank.
    fn fits(&self, counts: &[u64]) -> bool {
        let in_bins = counts.iter().all(|&count| count <= self.capacity());
        let in_maps = (0..self.ranks).all(|owner| self.incoming(counts, owner) <= self.room[owner]);
        in_bins && in_maps
    }

    /// How many keys a rank receives.
    pub(super) fn incoming(&self, counts: &[u64], owner: usize) -> u64 {
        let of_source = |(source, counts): (usize, &[u64])| -> u64 {
            let first = self.first_bin(source, owner);
            counts[first..first + (1 << self.bits)].iter().sum()
        };
        let by_source = counts.chunks(self.bins() as usize).enumerate();
        by_source.map(of_source).sum()
    }

    /// How many keys each bin of this rank's receive buffer has.
    fn of_bins(&self, counts: &[u64]) -> Vec<u64> {
        let bins = self.bins() as usize;
        let count = |i: usize| {
            let (bin, source) = (i / self.ranks, i % self.ranks);
            counts[source * bins + self.first_bin(source, self.me) + bin]
        };
        (0..bins).map(count).collect()
    }
}

/// Receive buffers on the device.
pub(super) fn upload(stream: &Stream, boxes: &[ReceiveBuffer]) -> Result<Buffer<u64>> {
    const { assert!(size_of::<ReceiveBuffer>() == 3 * size_of::<u64>()) };
    let word = |at: *mut u8| at.expose_provenance() as u64;
    let words = boxes.iter().flat_map(|receive_buffer| {
        [
            receive_buffer.keys,
            receive_buffer.values,
            receive_buffer.found,
        ]
        .map(word)
    });
    Buffer::from_slice(stream, &words.collect::<Vec<_>>())
}

impl<K: Key, V: Value> Words<K, V> {
    /// Sends a batch, or sorts it for the ranks that fetch it; without values, notes the place of each
    /// key's answer if `asks`. Returns what came here, or none if it does not fit, and then batches
    /// go through the all-to-all exchange for a while. A collective.
    pub(in crate::sharded) fn send(
        &mut self,
        rank: &mut Rank,
        session: &Session,
        keys: Source<'_, K>,
        values: Option<Source<'_, V>>,
        asks: bool,
    ) -> Result<Option<Received>> {
        let agreement = &session.agreement;
        let counts = self.send_batch(session, keys, values, asks);
        let counts = rank.agree_on(Step::Counts, counts, agreement.bins() as usize)?;
        if !agreement.fits(&counts) {
            self.p2p.pause = PAUSE;
            return Ok(None);
        }
        let received = self.received(session, &counts);
        rank.together(received).map(Some)
    }

    /// What came here, by how many keys went from and to each rank.
    fn received(&mut self, session: &Session, counts: &[u64]) -> Result<Received> {
        let agreement = &session.agreement;
        let (fetching, arrivals) = match agreement.fetches {
            true => {
                let (fetching, arrivals) = self.fetch(session, counts)?;
                (Some(fetching), arrivals)
            }
            false => (None, Vec::new()),
        };
        let of_bins = Buffer::from_slice(&self.stream, &agreement.of_bins(counts))?;
        self.stream.synchronize()?;
        let receive_buffer = session.receive_buffer(agreement.me, 0);
        let len = agreement.incoming(counts, agreement.me) as usize;
        let bins = Bins {
            keys: receive_buffer.keys,
            values: receive_buffer.values,
            value: 0,
            counts: of_bins.as_ptr(),
            bins: agreement.bins(),
            grains: agreement.grains.get(),
            part: self.map.inline().part_of_bins(len, agreement.grains),
            same: 0,
        };
        Ok(Received {
            batch: InBins {
                bins,
                bits: agreement.bits,
                sources: agreement.ranks as u32,
                len,
                arrivals,
                combined: None,
                is_copy: false,
            },
            _fetching: fetching,
            _counts: of_bins,
        })
    }

    /// Writes a batch to the receive buffers, and returns how many keys went to each bin of each rank.
    fn send_batch(
        &mut self,
        session: &Session,
        keys: Source<'_, K>,
        values: Option<Source<'_, V>>,
        asks: bool,
    ) -> Result<Vec<u64>> {
        let (len, agreement) = (keys.len(), &session.agreement);
        let places = match asks {
            true => self.p2p.places.of(&self.stream, len)?.as_mut_ptr(),
            false => ptr::null_mut(),
        };
        let mut scratch = self.primitives.scratch.take()?;
        scratch.stream().wait_stream(&self.stream)?;
        // This rank's part of the first bin of each.
        let first = agreement.me as u64 * agreement.capacity();
        let receive_buffer = |step| match (agreement.me + step) % agreement.ranks {
            to if values.is_none() => session.receive_buffer(to, first),
            to if agreement.fetches && to != agreement.me => {
                let turn = step as u64 - 1;
                session.send_buffer(agreement.me, turn * agreement.capacity())
            }
            to => session.receive_buffer_of_pairs(to, first),
        };
        let boxes: Vec<ReceiveBuffer> = (1..=agreement.ranks).map(receive_buffer).collect();
        // SAFETY: the workspace waits for its stream before this call returns.
        let keys = unsafe { scratch.stage(ScratchRole::Keys, keys) }?;
        match values {
            Some(values) => {
                // SAFETY: as above.
                let values = unsafe { scratch.stage(ScratchRole::Values, values) }?;
                let batch = Batch {
                    kernel: match agreement.fetches {
                        true => session.send_kernels.sorted,
                        false => session.send_kernels.pairs,
                    },
                    keys: keys.cast(),
                    values: values.cast(),
                    len,
                    places: ptr::null_mut(),
                };
                self.launch(agreement, &mut scratch, &boxes, batch)
            }
            None => {
                let batch = Batch {
                    kernel: session.send_kernels.keys,
                    keys: keys.cast(),
                    values: ptr::null(),
                    len,
                    places,
                };
                self.launch(agreement, &mut scratch, &boxes, batch)
            }
        }
    }

    /// Runs the kernel that sends a batch, and waits.
    fn launch(
        &self,
        agreement: &Agreement,
        scratch: &mut Workspace,
        boxes: &[ReceiveBuffer],
        batch: Batch,
    ) -> Result<Vec<u64>> {
        let bins = agreement.bins();
        let mut cursors = scratch.output::<u64>(ScratchRole::FirstOutput, bins as usize)?;
        let at = cursors.as_mut_ptr();
        let boxes = upload(scratch.stream(), boxes)?;
        let kernel = batch.kernel;
        let tile = scatter_tile(self.map.device(), &kernel, bins);
        let aligned = |address: usize| u32::from(address.is_multiple_of(16));
        let args = SendArgs {
            keys: batch.keys,
            values: batch.values,
            len: batch.len as u64,
            tile,
            aligned: aligned(batch.keys.addr()) | aligned(batch.values.addr()) << 1,
            owner: self.spread.owners.kernel(),
            me: agreement.me as u32,
            bin: DigitOf::top_of_hash(self.map.inline().seed(), agreement.bits),
            bits: agreement.bits,
            boxes: boxes.as_ptr().cast(),
            capacity: agreement.capacity(),
            stride: agreement.capacity() * agreement.ranks as u64,
            cursors: at,
            places: batch.places,
        };
        let grid = Grid {
            // Fewer keys than places, which are below 2^32.
            blocks: batch.len.div_ceil(tile as usize) as u32,
            threads: kernel.threads,
            shared_bytes: kernel.shared_bytes(tile, bins),
        };
        let stream = scratch.stream();
        // SAFETY: the batch is staged, the receive buffers of all ranks have places for what is counted
        // below their capacity, and no rank reads or writes this one's part of them before all have
        // met again; the tables live until the wait.
        unsafe {
            stream.fill(at.cast(), 0, bins as usize * size_of::<u64>())?;
            if batch.len != 0 {
                kernel.kernel.launch(stream, grid, args)?;
            }
        }
        scratch.fetch(cursors, bins as usize)
    }
}
