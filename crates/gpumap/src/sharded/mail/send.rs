//! Sending a batch: one pass of the partition, into the mailboxes of all ranks.

use std::ptr;

use gpumap_kernels::build::bins::Bins;
use gpumap_kernels::mail::{Mailbox, SendArgs, turn};
use gpumap_kernels::primitives::binning::DigitOf;
use gpumap_kernels::primitives::partition::ScatterKernel;
use gpumap_simt::kernel::Grid;

use super::fetch::Fetching;
use super::{PAUSE, Terms};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::input::Source;
use crate::map::{InBins, Key, Pair, Senders, Value};
use crate::primitives::scatter_tile;
use crate::scratch::{ScratchRole, Workspace};
use crate::sharded::step::Step;
use crate::sharded::transport::Window;
use crate::sharded::{Rank, Shard};
use crate::stream::Stream;

/// What has come to a rank, or is on its way.
pub(in crate::sharded) struct Came {
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
pub(in crate::sharded) struct Post {
    pub(super) pair: Pair,
    pub(super) terms: Terms,
    pub(super) senders: Senders,
    /// Where the mailbox of each rank is,
    pub(super) boxes: Vec<u64>,
    /// for as long as this is held.
    pub(super) _window: Window,
}

impl Post {
    /// Where the mailbox of a rank begins, or its answers: `first` places further on.
    pub(super) fn mailbox(&self, rank: usize, first: u64) -> Mailbox {
        let base = ptr::with_exposed_provenance_mut::<u8>(self.boxes[rank] as usize);
        let (places, first) = (self.terms.places() as usize, first as usize);
        let values = base.wrapping_add(places * self.pair.key);
        let found = values.wrapping_add(places * self.pair.value);
        Mailbox {
            keys: base.wrapping_add(first * self.pair.key),
            values: values.wrapping_add(first * self.pair.value),
            found: found.wrapping_add(first),
        }
    }

    /// The same for pairs, which may lie [side by side](gpumap_kernels::build::pair).
    pub(super) fn mailbox_of_pairs(&self, rank: usize, first: u64) -> Mailbox {
        match self.pair.side_by_side() {
            true => {
                let mailbox = self.mailbox(rank, 0);
                let before = first as usize * self.pair.bytes();
                Mailbox {
                    keys: mailbox.keys.wrapping_add(before),
                    ..mailbox
                }
            }
            false => self.mailbox(rank, first),
        }
    }
}

impl Terms {
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

    /// How many keys come to a rank.
    pub(super) fn incoming(&self, counts: &[u64], owner: usize) -> u64 {
        let of_source = |(source, counts): (usize, &[u64])| -> u64 {
            let first = self.first_bin(source, owner);
            counts[first..first + (1 << self.bits)].iter().sum()
        };
        let by_source = counts.chunks(self.bins() as usize).enumerate();
        by_source.map(of_source).sum()
    }

    /// How many keys each bin of this rank's mailbox has.
    fn of_bins(&self, counts: &[u64]) -> Vec<u64> {
        let bins = self.bins() as usize;
        let count = |i: usize| {
            let (bin, source) = (i / self.ranks, i % self.ranks);
            counts[source * bins + self.first_bin(source, self.me) + bin]
        };
        (0..bins).map(count).collect()
    }
}

/// Mailboxes on the device.
pub(super) fn upload(stream: &Stream, boxes: &[Mailbox]) -> Result<Buffer<u64>> {
    const { assert!(size_of::<Mailbox>() == 3 * size_of::<u64>()) };
    let word = |at: *mut u8| at.expose_provenance() as u64;
    let words = boxes
        .iter()
        .flat_map(|mailbox| [mailbox.keys, mailbox.values, mailbox.found].map(word));
    Buffer::from_slice(stream, &words.collect::<Vec<_>>())
}

impl<K: Key, V: Value> Shard<K, V> {
    /// Sends a batch, or sorts it for those who fetch it; without values, notes the place of each
    /// key's answer if `asks`. Returns what came here, or none if it does not fit, and then batches
    /// go the general way for a while. A collective.
    pub(in crate::sharded) fn send(
        &mut self,
        rank: &mut Rank,
        post: &Post,
        keys: Source<'_, K>,
        values: Option<Source<'_, V>>,
        asks: bool,
    ) -> Result<Option<Came>> {
        let terms = &post.terms;
        let counts = self.post(post, keys, values, asks);
        let counts = rank.agree_on(Step::Counts, counts, terms.bins() as usize)?;
        if !terms.fits(&counts) {
            self.mail.pause = PAUSE;
            return Ok(None);
        }
        let came = self.came(post, &counts);
        rank.together(came).map(Some)
    }

    /// What came here, by how many keys went from and to each rank.
    fn came(&mut self, post: &Post, counts: &[u64]) -> Result<Came> {
        let terms = &post.terms;
        let (fetching, arrivals) = match terms.fetches {
            true => {
                let (fetching, arrivals) = self.fetch(post, counts)?;
                (Some(fetching), arrivals)
            }
            false => (None, Vec::new()),
        };
        let of_bins = Buffer::from_slice(&self.stream, &terms.of_bins(counts))?;
        self.stream.synchronize()?;
        let mailbox = post.mailbox(terms.me, 0);
        let len = terms.incoming(counts, terms.me) as usize;
        let bins = Bins {
            keys: mailbox.keys,
            values: mailbox.values,
            value: 0,
            counts: of_bins.as_ptr(),
            bins: terms.bins(),
            grains: terms.grains.get(),
            part: self.map.core().part_of_bins(len, terms.grains),
            same: 0,
        };
        Ok(Came {
            batch: InBins {
                bins,
                bits: terms.bits,
                sources: terms.ranks as u32,
                len,
                arrivals,
                combined: None,
                is_copy: false,
            },
            _fetching: fetching,
            _counts: of_bins,
        })
    }

    /// Writes a batch to the mailboxes, and returns how many keys went to each bin of each rank.
    fn post(
        &mut self,
        post: &Post,
        keys: Source<'_, K>,
        values: Option<Source<'_, V>>,
        asks: bool,
    ) -> Result<Vec<u64>> {
        let (len, terms) = (keys.len(), &post.terms);
        let places = match asks {
            true => self.mail.places.of(&self.stream, len)?.as_mut_ptr(),
            false => ptr::null_mut(),
        };
        let mut scratch = self.primitives.scratch.take()?;
        scratch.stream().wait_stream(&self.stream)?;
        // This rank's part of the first bin of each.
        let first = terms.me as u64 * terms.capacity();
        let mailbox = |step| match (terms.me + step) % terms.ranks {
            to if values.is_none() => post.mailbox(to, first),
            to if terms.fetches && to != terms.me => {
                let turn = step as u64 - 1;
                post.outbox(terms.me, turn * terms.capacity())
            }
            to => post.mailbox_of_pairs(to, first),
        };
        let boxes: Vec<Mailbox> = (1..=terms.ranks).map(mailbox).collect();
        // SAFETY: the workspace waits for its stream before this call returns.
        let keys = unsafe { scratch.stage(ScratchRole::Keys, keys) }?;
        match values {
            Some(values) => {
                // SAFETY: as above.
                let values = unsafe { scratch.stage(ScratchRole::Values, values) }?;
                let batch = Batch {
                    kernel: match terms.fetches {
                        true => post.senders.sorted,
                        false => post.senders.pairs,
                    },
                    keys: keys.cast(),
                    values: values.cast(),
                    len,
                    places: ptr::null_mut(),
                };
                self.launch(terms, &mut scratch, &boxes, batch)
            }
            None => {
                let batch = Batch {
                    kernel: post.senders.keys,
                    keys: keys.cast(),
                    values: ptr::null(),
                    len,
                    places,
                };
                self.launch(terms, &mut scratch, &boxes, batch)
            }
        }
    }

    /// Runs the kernel that sends a batch, and waits.
    fn launch(
        &self,
        terms: &Terms,
        scratch: &mut Workspace,
        boxes: &[Mailbox],
        batch: Batch,
    ) -> Result<Vec<u64>> {
        let bins = terms.bins();
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
            owner: self.owners.kernel(),
            me: terms.me as u32,
            bin: DigitOf::top_of_hash(self.map.core().seed(), terms.bits),
            bits: terms.bits,
            boxes: boxes.as_ptr().cast(),
            capacity: terms.capacity(),
            stride: terms.capacity() * terms.ranks as u64,
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
        // SAFETY: the batch is staged, the mailboxes of all ranks have places for what is counted
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
