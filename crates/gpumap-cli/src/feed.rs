//! Blocks of packed bases to a device, which makes k-mers of them and counts these: no k-mer comes to the host.
//!
//! ```text
//! blocks -> lanes: a copy and a kernel each, on a stream of its own -> a batch of k-mers -> the thread that merges
//! ```
//! While one batch is merged into the table, the next is filled.

use std::panic::resume_unwind;
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use gpumap::simt::kernel::Grid;
use gpumap::{Buffer, Device, Stream};
use gpumap_kmer_kernels::{GROUP, KmersArgs, MAKE_KMERS};

use crate::error::{Error, Result};
use crate::kmer::{KmerLength, Strand};
use crate::packed::Block;
use crate::pipeline::{IN_FLIGHT, Packed, Pipeline};
use crate::progress::Progress;
use crate::table::Table;

const SM_70: &str = include_str!("../ptx/gpumap_kmer_sm_70.ptx");
const SM_90: &str = include_str!("../ptx/gpumap_kmer_sm_90.ptx");

const THREADS: u32 = 256;

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
    pub fn batch(device: &Device, block: usize, bytes: Option<u64>) -> gpumap::Result<usize> {
        /// What gzip makes of a sequence at best, about.
        const UNPACKED: u64 = 8;
        let memory = device.available_bytes()? / MEMORY_SHARE / size_of::<u64>() as u64;
        let input = bytes.map_or(u64::MAX, |bytes| bytes.saturating_mul(UNPACKED));
        let most = memory.min(input).min(MOST_KMERS as u64);
        Ok((most as usize).max(block))
    }

    /// Adds 1 to `table` for each k-mer of what the pipeline gives. Returns how many there were, and the time that
    /// copies and kernels were waited for.
    pub fn count(
        &self,
        pipeline: &mut Pipeline,
        table: &mut Table,
        progress: &Progress,
    ) -> Result<(u64, Duration)> {
        scope(|scope| {
            let (send_full, full) = bounded::<Batch>(1);
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

    fn feed(
        &self,
        pipeline: &mut Pipeline,
        full: &Sender<Batch>,
        free: &Receiver<Batch>,
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
struct Batch {
    kmers: Buffer<u64>,
    /// How many there are.
    count: Buffer<u64>,
    /// How many there may be.
    elements: usize,
    made: usize,
}

impl Batch {
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
    fn made(&self) -> Result<gpumap::BufferView<'_, u64>> {
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

struct Feeder<'a> {
    feed: &'a Feed,
    /// Before the batch: dropped first, after waiting for kernels that write to it.
    lanes: Vec<Lane>,
    next: usize,
    batch: Option<Batch>,
    batches: usize,
    full: &'a Sender<Batch>,
    free: &'a Receiver<Batch>,
    kmers: u64,
    waited: Duration,
}

fn cannot_make_kmers() -> impl FnOnce(gpumap::Error) -> Error {
    Error::while_doing("cannot make k-mers on the device")
}

impl Feeder<'_> {
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

    fn empty_batch(&mut self) -> Fed<Batch> {
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
            kmers: batch.kmers.as_mut_ptr(),
            count: batch.count.as_mut_ptr(),
        };
        // SAFETY: the block is kept until the stream has been waited for, by `drop` too. The words are of this lane,
        // of whose stream copy and kernel are. The batch has a place for each element that was queued; it is read and
        // dropped after waiting for all lanes.
        unsafe {
            words.copy_from_pinned_async(block.words())?;
            MAKE_KMERS.launch(&lane.stream, Grid::covering(halves, THREADS), args)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmer::kmers_of;
    use crate::pipeline::Settings;
    use crate::source::Source;
    use crate::table::Room;
    use gpumap_kmer_kernels::GROUP_WORDS;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::num::NonZero;

    /// The CPU, and the first CUDA device if there is one; `GPUMAP_TEST_DEVICE` may be `cpu` or `cuda` for one of them.
    fn devices() -> Vec<Device> {
        let wish = std::env::var("GPUMAP_TEST_DEVICE").unwrap_or_default();
        let mut devices = Vec::new();
        if wish != "cuda" {
            devices.push(Device::cpu());
        }
        match Device::cuda(0) {
            _ if wish == "cpu" => {}
            Ok(device) => {
                register(&device).unwrap();
                devices.push(device);
            }
            Err(gpumap::Error::NoDriver | gpumap::Error::NoDevice { .. }) if wish != "cuda" => {
                gpumap_test_skips::skip("no CUDA device: k-mers were made on the executor only");
            }
            Err(error) => panic!("the CUDA device cannot be used: {error}"),
        }
        devices
    }

    /// The k-mers of a text by the kernel.
    fn made(device: &Device, text: &[u8], length: KmerLength, strand: Strand) -> Vec<u64> {
        let stream = Stream::new(device).unwrap();
        let mut block = Block::new(device, text.len().max(1)).unwrap();
        block.push_letters(text);
        block.seal();
        let words = Buffer::from_slice(&stream, &block.words()[..block.used_words()]).unwrap();
        let mut batch = Batch::new(&stream, text.len()).unwrap();
        let halves = (words.len() / GROUP_WORDS * 2) as u64;
        let args = KmersArgs {
            words: words.as_ptr(),
            halves,
            k: length.get() as u32,
            canonical: u32::from(strand == Strand::Canonical),
            kmers: batch.kmers.as_mut_ptr(),
            count: batch.count.as_mut_ptr(),
        };
        // SAFETY: on the stream of the buffers, which have room for all.
        unsafe { MAKE_KMERS.launch(&stream, Grid::covering(halves, 64), args) }.unwrap();
        let count = batch.count.to_vec().unwrap()[0] as usize;
        let kmers = batch.kmers.slice(..count).unwrap();
        let mut kmers = kmers.to_vec().unwrap();
        kmers.sort_unstable();
        kmers
    }

    fn expected(text: &[u8], length: KmerLength, strand: Strand) -> Vec<u64> {
        let mut kmers: Vec<u64> = kmers_of(text, length, strand)
            .map(|kmer| kmer.code())
            .collect();
        kmers.sort_unstable();
        kmers
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn the_kernel_makes_the_kmers_of_the_host(
            text in "([ACGT]{0,70}|[ACGTN]{0,50}|[acgt]{60,900}|N{1,70}){0,5}",
            k in 1u8..=32,
            canonical: bool,
        ) {
            let device = Device::cpu();
            let length = KmerLength::new(k).unwrap();
            let strand = if canonical { Strand::Canonical } else { Strand::AsRead };
            prop_assert_eq!(
                made(&device, text.as_bytes(), length, strand),
                expected(text.as_bytes(), length, strand)
            );
        }
    }

    /// Every k and both strands, on a text whose end is at every place of a word.
    #[test]
    fn every_k_to_the_last_base() {
        devices().iter().for_each(every_k);
    }

    fn every_k(device: &Device) {
        let text = b"ACGTTGCATGCCGATTACAGGCATCGATCGATTAGCNACGTACGGCTTAGCATCGGATCGTACGTAAGCTAGCTTTTTTTTTTTT\
            TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTAAACCG";
        for k in 1..=32 {
            let length = KmerLength::new(k).unwrap();
            for strand in [Strand::AsRead, Strand::Canonical] {
                for len in [text.len() - usize::from(k), 63, 64, 65, usize::from(k)] {
                    let text = &text[..len];
                    assert_eq!(
                        made(device, text, length, strand),
                        expected(text, length, strand),
                        "{k}, {len}"
                    );
                }
            }
        }
    }

    /// Counts a text on a device, in small pieces and batches.
    fn counted(device: &Device, text: &[u8], room: Room) -> Result<(u64, Vec<(u64, u64)>)> {
        let text: &'static [u8] = text.to_vec().leak();
        let settings = Settings {
            device: device.clone(),
            length: KmerLength::new(7).unwrap(),
            most: 1 << 20,
            piece: 200,
            kmers: None,
            workers: NonZero::new(2).unwrap(),
        };
        let feed = Feed {
            device: device.clone(),
            length: settings.length,
            strand: Strand::Canonical,
            batch: 2 * settings.block(),
        };
        let progress = Progress::hidden();
        let sources = [
            Source::Embedded("text", text),
            Source::Embedded("text", text),
        ];
        let mut pipeline = Pipeline::start(&sources, &settings, &progress)?;
        let mut table = Table::new(device, room);
        let (kmers, _) = feed.count(&mut pipeline, &mut table, &progress)?;
        let mut pairs = Vec::new();
        table
            .stream(|keys, values| {
                pairs.extend(keys.iter().copied().zip(values.iter().copied()));
                Ok::<(), Error>(())
            })
            .and_then(|outcome| outcome)?;
        pairs.sort_unstable();
        Ok((kmers, pairs))
    }

    /// Records of many lengths.
    fn text() -> Vec<u8> {
        let mut state = 7u64;
        let mut text = Vec::new();
        for record in 0..40 {
            text.extend_from_slice(b">a record\n");
            for _ in 0..record * 3 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                text.push(b"ACGTACGTACGTACGN"[(state >> 60) as usize]);
                if state >> 33 & 31 == 0 {
                    text.push(b'\n');
                }
            }
            text.push(b'\n');
        }
        text
    }

    const GROWING: Room = Room::Growing { kinds: 1 << 14 };

    /// On streams that run late too, in several orders.
    #[test]
    fn what_is_counted_on_a_device_is_what_the_host_counts() {
        let text = text();
        let mut right = BTreeMap::<u64, u64>::new();
        let mut all = 0;
        let source = Source::Embedded("text", text.clone().leak());
        crate::sequence::for_each_sequence(&source, |sequence| {
            let length = KmerLength::new(7).unwrap();
            for kmer in kmers_of(sequence, length, Strand::Canonical) {
                *right.entry(kmer.code()).or_default() += 2;
                all += 2;
            }
            Ok(())
        })
        .unwrap();
        let right: Vec<(u64, u64)> = right.into_iter().collect();
        let deferred = (0..4).map(Device::cpu_deferred);
        for device in devices().into_iter().chain(deferred) {
            let (kmers, pairs) = counted(&device, &text, GROWING).unwrap();
            assert_eq!(kmers, all);
            assert!(
                pairs == right,
                "{} pairs instead of {}",
                pairs.len(),
                right.len()
            );
        }
    }

    #[test]
    fn what_fails_on_the_device_ends_the_run() {
        let device = Device::cpu();
        assert!(matches!(
            counted(&device, &text(), Room::Fixed(10)),
            Err(Error::CapacityTooSmall { capacity: 10 })
        ));
        let small = device.with_memory_budget(20_000);
        assert!(matches!(
            counted(&small, &text(), GROWING),
            Err(Error::Map {
                source: gpumap::Error::OutOfMemory { .. },
                ..
            })
        ));
        // In the third piece.
        let mut text = b"@a\nACGTACGTACGT\n+\n@@@@@@@@@@@@\n".repeat(20);
        text.extend_from_slice(b"no record\n\n\n\n");
        let outcome = counted(&device, &text, GROWING);
        assert!(
            matches!(outcome, Err(Error::Sequences { .. })),
            "{outcome:?}"
        );
    }

    #[test]
    fn a_batch_fits_into_memory_and_has_room_for_a_block() {
        let device = Device::cpu().with_memory_budget(1 << 30);
        assert_eq!(Feed::batch(&device, 1000, None).unwrap(), 1 << 21);
        assert_eq!(Feed::batch(&device, 1000, Some(500)).unwrap(), 4000);
        assert_eq!(Feed::batch(&device, 1000, Some(5)).unwrap(), 1000);
        let host = Device::cpu();
        assert!(Feed::batch(&host, 1000, None).unwrap() <= MOST_KMERS);
    }
}
