//! Blocks of packed bases to a device, which makes k-mers of them and counts these: no k-mer is copied to the host.
//!
//! ```text
//! blocks -> lanes: a copy and a kernel each, on a stream of its own -> a batch of k-mers -> the thread that merges
//! ```
//! While one batch is merged into the table, the next is filled.

#[cfg(test)]
mod tests;

use std::panic::resume_unwind;
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use gpumap::simt::kernel::Grid;
use gpumap::{Buffer, Device, Stream};
use gpumap_kmer_kernels::{GROUP, KmersArgs};

use crate::error::{Error, Result};
use crate::kmer::{Code, KmerLength, Strand};
use crate::packed::Block;
use crate::pipeline::{IN_FLIGHT, Packed, Pipeline};
use crate::progress::Progress;
use crate::table::Table;

const SM_70: &[u8] = include_bytes!("../ptx/gpumap_kmer_sm_70.ptx.br");
const SM_90: &[u8] = include_bytes!("../ptx/gpumap_kmer_sm_90.ptx.br");

/// Threads of a block of the kernels.
pub const THREADS: u32 = 256;

/// K-mers of a batch at most: the larger, the more often pages of the table are made from it whole.
const MOST_KMERS: usize = 1 << 27;
/// A batch takes this part of the free memory at most: there are three, and what the map needs to sort one.
const MEMORY_SHARE: u64 = 64;

/// Adds the kernels of the program to a device.
///
/// # Errors
/// [`gpumap::Error::Ptx`] where the driver rejects them.
pub fn register(device: &Device) -> gpumap::Result<()> {
    device.register_ptx_pair(SM_70, SM_90)
}

/// What is counted, and on what.
#[derive(Clone, Debug)]
pub struct Feed {
    /// The device.
    pub device: Device,
    /// Bases in a k-mer.
    pub length: KmerLength,
    /// The strand that it is counted on.
    pub strand: Strand,
    /// K-mers of a batch at most; at least as many as a block has elements.
    pub batch: usize,
}

impl Feed {
    /// K-mers of a batch for a device, if blocks have up to `block` elements and the input `bytes` bytes, where that is
    /// known.
    pub fn batch<C: Code>(
        device: &Device,
        block: usize,
        bytes: Option<u64>,
    ) -> gpumap::Result<usize> {
        /// What gzip makes of a sequence at best, about.
        const UNPACKED: u64 = 8;
        let memory = device.available_bytes()? / MEMORY_SHARE / size_of::<C>() as u64;
        let input = bytes.map_or(u64::MAX, |bytes| bytes.saturating_mul(UNPACKED));
        let most = memory.min(input).min(MOST_KMERS as u64);
        Ok((most as usize).max(block))
    }

    /// Adds 1 to `table` for each k-mer of what the pipeline gives. Returns how many there were, and the time that
    /// copies and kernels were waited for.
    pub fn count<C: Code>(
        &self,
        pipeline: &mut Pipeline<C>,
        table: &mut Table<C>,
        progress: &Progress,
    ) -> Result<(u64, Duration)> {
        scope(|scope| {
            let (send_full, full) = bounded::<Batch<C>>(1);
            let (send_free, free) = bounded(BATCHES);
            let merge = move || -> Result<()> {
                for batch in full {
                    table.count_on_device(&batch.made()?, progress.fraction())?;
                    // The caller may need no more.
                    let _ = send_free.send(batch);
                }
                Ok(())
            };
            let merging = Builder::new().name("merge".to_owned());
            let merging = merging.spawn_scoped(scope, merge);
            let merging = merging.map_err(|source| Error::Thread { source })?;
            let fed = self.feed(pipeline, &send_full, &free);
            drop(send_full);
            let merged = merging.join().unwrap_or_else(|panic| resume_unwind(panic));
            // A channel that was closed is the other thread's error.
            merged?;
            fed.map_err(|error| {
                error.expect("a thread that merges and returns no error takes all batches")
            })
        })
    }

    fn feed<C: Code>(
        &self,
        pipeline: &mut Pipeline<C>,
        full: &Sender<Batch<C>>,
        free: &Receiver<Batch<C>>,
    ) -> Fed<(u64, Duration)> {
        let mut feeder = Feeder {
            feed: self,
            lanes: Vec::new(),
            next: 0,
            batch: None,
            batches: 0,
            full,
            free,
            kmers: 0,
            waited: Duration::ZERO,
        };
        while let Some(packed) = pipeline.next()? {
            if let Packed::Block(block) = packed
                && let Some(block) = feeder.take(block)?
            {
                pipeline.give_back(block);
            }
        }
        feeder.submit()?;
        Ok((feeder.kmers, feeder.waited))
    }
}

/// `None` is for an error of the thread that merges, which returns it.
type Fed<T> = Result<T, Option<Error>>;

/// Batches there are at most: one is filled, one waits, one is merged.
const BATCHES: usize = 3;

/// K-mers on the device.
struct Batch<C> {
    kmers: Buffer<C>,
    /// How many there are.
    count: Buffer<u64>,
    /// How many there may be.
    elements: usize,
    made: usize,
}

impl<C: Code> Batch<C> {
    fn new(stream: &Stream, most: usize) -> gpumap::Result<Self> {
        // SAFETY: only what a kernel has written is read: as many k-mers as it has counted.
        let kmers = unsafe { Buffer::uninit(stream, most) }?;
        let count = Buffer::zeroed(stream, 1)?;
        stream.synchronize()?;
        Ok(Self {
            kmers,
            count,
            elements: 0,
            made: 0,
        })
    }

    /// Takes all k-mers out.
    fn clear(&mut self) -> gpumap::Result<()> {
        (self.elements, self.made) = (0, 0);
        self.count.fill_bytes(0)?;
        self.count.stream().synchronize()
    }

    /// The k-mers.
    fn made(&self) -> Result<gpumap::BufferView<'_, C>> {
        self.kmers.slice(..self.made).map_err(cannot_make_kmers())
    }
}

/// A block on its way to the device.
struct Lane {
    stream: Stream,
    words: Buffer<u64>,
    block: Option<Block>,
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.stream.synchronize().is_err() {
            // The device may be reading it still.
            std::mem::forget(self.block.take());
        }
    }
}

struct Feeder<'a, C> {
    feed: &'a Feed,
    /// Before the batch: dropped first, after waiting for kernels that write to it.
    lanes: Vec<Lane>,
    next: usize,
    batch: Option<Batch<C>>,
    batches: usize,
    full: &'a Sender<Batch<C>>,
    free: &'a Receiver<Batch<C>>,
    kmers: u64,
    waited: Duration,
}

fn cannot_make_kmers() -> impl FnOnce(gpumap::Error) -> Error {
    Error::while_doing("cannot make k-mers on the device")
}

impl<C: Code> Feeder<'_, C> {
    /// Queues a block, and returns one whose k-mers are made.
    fn take(&mut self, block: Block) -> Fed<Option<Block>> {
        if block.len() == 0 {
            return Ok(Some(block));
        }
        let batch = self.batch.as_ref();
        if batch.is_some_and(|batch| batch.elements + block.len() > self.feed.batch) {
            self.submit()?;
        }
        if self.batch.is_none() {
            self.batch = Some(self.empty_batch()?);
        }
        Ok(self.queue(block).map_err(cannot_make_kmers())?)
    }

    fn empty_batch(&mut self) -> Fed<Batch<C>> {
        let batch = match self.free.try_recv() {
            Ok(mut batch) => batch.clear().map(|()| batch),
            Err(_) if self.batches < BATCHES => {
                self.batches += 1;
                Stream::new(&self.feed.device)
                    .and_then(|stream| Batch::new(&stream, self.feed.batch))
            }
            Err(_) => match self.free.recv() {
                Ok(mut batch) => batch.clear().map(|()| batch),
                Err(_) => return Err(None),
            },
        };
        Ok(batch.map_err(cannot_make_kmers())?)
    }

    fn queue(&mut self, block: Block) -> gpumap::Result<Option<Block>> {
        let Some(batch) = &mut self.batch else {
            return Ok(Some(block));
        };
        if self.lanes.len() < IN_FLIGHT {
            let stream = Stream::new(&self.feed.device)?;
            self.lanes.push(Lane {
                // SAFETY: a kernel reads what was copied before.
                words: unsafe { Buffer::uninit(&stream, block.words().len()) }?,
                stream,
                block: None,
            });
            self.next = self.lanes.len() - 1;
        }
        let lane = &mut self.lanes[self.next];
        self.next = (self.next + 1) % IN_FLIGHT;
        let start = Instant::now();
        lane.stream.synchronize()?;
        self.waited += start.elapsed();
        let done = lane.block.take();
        batch.elements += block.len();
        let (used, halves) = (block.used_words(), 2 * block.len().div_ceil(GROUP) as u64);
        let block = lane.block.insert(block);
        let mut words = lane.words.slice_mut(..used)?;
        let args = KmersArgs {
            words: words.as_mut_ptr(),
            halves,
            k: self.feed.length.get() as u32,
            canonical: u32::from(self.feed.strand == Strand::Canonical),
            kmers: batch.kmers.as_mut_ptr().cast(),
            count: batch.count.as_mut_ptr(),
        };
        // SAFETY: the block is kept until the stream has been waited for, by `drop` too. The words are of this lane,
        // of whose stream copy and kernel are. The batch has a place for each element that was queued; it is read and
        // dropped after waiting for all lanes.
        unsafe {
            words.copy_from_pinned_async(block.words())?;
            C::kernel().launch(&lane.stream, Grid::covering(halves, THREADS), args)?;
        }
        Ok(done)
    }

    /// Sends the batch to be merged.
    fn submit(&mut self) -> Fed<()> {
        let Some(mut batch) = self.batch.take() else {
            return Ok(());
        };
        let start = Instant::now();
        let made = self
            .lanes
            .iter()
            .try_for_each(|lane| lane.stream.synchronize());
        let made = made.and_then(|()| batch.count.to_vec());
        self.waited += start.elapsed();
        let made = match made {
            Ok(made) => made[0],
            Err(error) => {
                // Kernels may be writing to it still.
                self.batch = Some(batch);
                return Err(Some(cannot_make_kmers()(error)));
            }
        };
        batch.made = made as usize;
        self.kmers += made;
        self.full.send(batch).map_err(|_| None)
    }
}
