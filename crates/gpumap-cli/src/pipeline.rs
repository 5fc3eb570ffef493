//! The threads between inputs and counts: some read and unpack, one input each, others parse pieces into blocks of
//! packed bases, and the caller takes these.
//!
//! Threads wait for each other at channels of bounded length, so memory is bounded as well. A thread ends when the
//! channel that it sends to is closed; so dropping a [`Pipeline`] ends all of them, except one that waits for an input.
//! For that reason nothing waits for threads after an error.

pub mod part;
mod read;
mod work;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use gpumap::Device;
use gpumap_kmer_kernels::GROUP;

use self::read::ReadThread;
use self::work::{ParseThread, PooledBlocks};
use crate::bins::Bins;
use crate::error::{Error, Result, printable};
use crate::kmer::{Code, KmerLength, Strand};
use crate::ledger::{Ledger, SequenceTotals};
use crate::malformed::Malformed;
use crate::packed::Block;
use crate::parse::Parsed;
use crate::progress::Progress;
use crate::source::{Oddity, Source};
use crate::threads;

/// Blocks that are with the device, beside those of the threads.
pub const IN_FLIGHT: usize = 3;

/// What is made of inputs.
#[derive(Clone, Debug)]
pub struct Settings<C = u64> {
    /// Whose memory blocks are copied to.
    pub device: Device,
    /// Bases in a k-mer.
    pub length: KmerLength,
    /// Bytes of a record at most, with [`LINE_END`](crate::limit::LINE_END) for a line end.
    pub most: u64,
    /// Bytes of a piece.
    pub piece: usize,
    /// What the threads make.
    pub make: Make<C>,
    /// Threads that parse.
    pub workers: NonZero<usize>,
}

/// What threads make of the bases that they have parsed.
#[derive(Clone, Debug)]
pub enum Make<C> {
    /// Blocks for the caller.
    Blocks,
    /// K-mers for the caller.
    Kmers(Strand),
    /// K-mers that they put into bins.
    Bins(Strand, Bins<C>),
}

impl<C> Settings<C> {
    /// Elements of a block: with room for what a piece of FASTA carries over.
    pub fn block(&self) -> usize {
        self.piece + 2 * GROUP
    }
}

/// What the threads make.
#[derive(Debug)]
pub enum Packed<C = u64> {
    /// A sealed block, to be given [back](Pipeline::give_back).
    Block(Block),
    /// K-mers, where the threads make them, to be given [back](Pipeline::give_back_kmers).
    Kmers(Vec<C>),
}

enum Message<C> {
    Packed(Packed<C>),
    /// A piece of an input ends here, after what it was packed into.
    Parsed {
        input: usize,
        index: usize,
        outcome: Result<Parsed, Stop>,
    },
    /// A thread cannot go on.
    Failed(Error),
    /// Something about an input that its user may not expect.
    Odd {
        input: usize,
        oddity: Oddity,
    },
}

/// Why an input is read no further.
#[derive(Debug)]
enum Stop {
    /// It cannot be read.
    Error(Error),
    /// It is no FASTA or FASTQ, in a line that is counted from the beginning of the piece on.
    Malformed(Malformed),
    /// The record at the beginning of the piece is longer than allowed.
    TooLong,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// The caller takes no more.
struct Stopped;

/// Seconds that threads worked, all of them together.
#[derive(Debug, Default)]
struct Busy {
    read: AtomicU64,
    /// By those that parse.
    read_range: AtomicU64,
    parse: AtomicU64,
}

/// Works when it is this thread's turn, and times it.
fn timed<T>(busy: &AtomicU64, work: impl FnOnce() -> T) -> T {
    let _turn = threads::turn();
    let start = Instant::now();
    let outcome = work();
    busy.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    outcome
}

/// The threads at work.
pub struct Pipeline<C = u64> {
    messages: Receiver<Message<C>>,
    empty: Sender<Block>,
    spare_kmers: Sender<Vec<C>>,
    inputs: Vec<Input>,
    busy: Arc<Busy>,
    readers: usize,
    workers: usize,
    threads: Vec<JoinHandle<()>>,
}

impl<C: Code> Pipeline<C> {
    /// Starts to read.
    pub fn start(sources: &[Source], settings: &Settings<C>, progress: &Progress) -> Result<Self> {
        let mut length = Some(0);
        for source in sources {
            length = source.length()?.zip(length).map(|(one, all)| one + all);
        }
        progress.start_bytes(length);
        let workers = settings.workers.get();
        let readers = workers.min(sources.len());
        let (send_jobs, jobs) = bounded(workers);
        let (send_spare, spare) = unbounded();
        let (send_messages, messages) = bounded(2 * workers);
        let (empty, empties) = unbounded();
        let (send_kmers, spare_kmers) = unbounded();
        let busy = Arc::new(Busy::default());
        let mut threads = Vec::new();
        let mut start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = Builder::new().name(name.to_owned()).spawn(run);
            let thread = thread.map_err(|source| Error::Thread { source })?;
            threads.push(thread);
            Ok(())
        };
        let next = Arc::new(AtomicUsize::new(0));
        let share = threads::of_unpacking(readers);
        for _ in 0..readers {
            let reader = ReadThread {
                sources: sources.to_vec(),
                next: Arc::clone(&next),
                settings: settings.clone(),
                threads: share,
                bar: progress.bytes(),
                jobs: send_jobs.clone(),
                spare: spare.clone(),
                messages: send_messages.clone(),
                busy: Arc::clone(&busy),
            };
            start("read", Box::new(move || reader.run()))?;
        }
        let made = Arc::new(AtomicUsize::new(0));
        for _ in 0..workers {
            let worker = ParseThread {
                jobs: jobs.clone(),
                spare: send_spare.clone(),
                sources: sources.to_vec(),
                bar: progress.bytes(),
                busy: Arc::clone(&busy),
                blocks: PooledBlocks {
                    settings: settings.clone(),
                    empty: empties.clone(),
                    give_back: empty.clone(),
                    spare_kmers: spare_kmers.clone(),
                    made: Arc::clone(&made),
                    // Each thread may hold one and need another.
                    most: 2 * workers + IN_FLIGHT,
                    messages: send_messages.clone(),
                    bins: match &settings.make {
                        Make::Bins(strand, bins) => Some((*strand, bins.writer())),
                        Make::Blocks | Make::Kmers(_) => None,
                    },
                    waited: Duration::ZERO,
                    turn: None,
                },
            };
            start("parse", Box::new(move || worker.run()))?;
        }
        let inputs = sources.iter().map(|source| Input {
            name: source.to_string(),
            oddities: Vec::new(),
            most: settings.most,
            next: 0,
            waiting: BTreeMap::new(),
            ledger: Ledger::new(settings.most),
        });
        Ok(Self {
            messages,
            empty,
            spare_kmers: send_kmers,
            inputs: inputs.collect(),
            busy,
            readers,
            workers,
            threads,
        })
    }

    /// What is there next. `None` when all inputs have ended. An error is the first of its input.
    pub fn next(&mut self) -> Result<Option<Packed<C>>> {
        while let Ok(message) = self.messages.recv() {
            match message {
                Message::Packed(packed) => return Ok(Some(packed)),
                Message::Parsed {
                    input,
                    index,
                    outcome,
                } => self.inputs[input].add(index, outcome)?,
                Message::Failed(error) => return Err(error),
                Message::Odd { input, oddity } => self.inputs[input].oddities.push(oddity),
            }
        }
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
        Ok(None)
    }

    /// Makes a block that is no longer needed free for the threads.
    pub fn give_back(&self, mut block: Block) {
        block.clear();
        // They may all have ended.
        let _ = self.empty.send(block);
    }

    /// Lets the threads use the memory of k-mers again.
    pub fn give_back_kmers(&self, kmers: Vec<C>) {
        // They may all have ended.
        let _ = self.spare_kmers.send(kmers);
    }

    /// What has been read of all inputs.
    pub fn totals(&self) -> SequenceTotals {
        let totals = self.inputs.iter().map(|input| input.ledger.totals());
        totals.fold(SequenceTotals::default(), |sum, one| SequenceTotals {
            records: sum.records + one.records,
            bases: sum.bases + one.bases,
        })
    }

    /// What users may not expect about the inputs that have been read, as a warning each.
    pub fn warnings(&self) -> Vec<String> {
        let of_input = |input: &Input| {
            let warning = |oddity: &Oddity| format!("{} {oddity}", printable(&input.name));
            input.oddities.iter().map(warning).collect::<Vec<_>>()
        };
        self.inputs.iter().flat_map(of_input).collect()
    }

    /// For how long the threads read, unpacking included, and parsed, on the average of the threads.
    pub fn busy(&self) -> [Duration; 2] {
        let of = |busy: &AtomicU64, threads: usize| {
            Duration::from_nanos(busy.load(Ordering::Relaxed) / threads.max(1) as u64)
        };
        [
            of(&self.busy.read, self.readers) + of(&self.busy.read_range, self.workers),
            of(&self.busy.parse, self.workers),
        ]
    }
}

/// An input, whose pieces are parsed in any order.
struct Input {
    name: String,
    oddities: Vec<Oddity>,
    most: u64,
    /// The first piece that has not been parsed.
    next: usize,
    /// Pieces after it that have been.
    waiting: BTreeMap<usize, Result<Parsed, Stop>>,
    ledger: Ledger,
}

impl Input {
    fn add(&mut self, index: usize, outcome: Result<Parsed, Stop>) -> Result<()> {
        self.waiting.insert(index, outcome);
        while let Some(outcome) = self.waiting.remove(&self.next) {
            self.next += 1;
            let parsed = outcome.map_err(|stop| self.explain(stop))?;
            let added = self.ledger.add(parsed);
            added.map_err(|record| self.too_long(record))?;
        }
        Ok(())
    }

    /// Why the next piece is not there.
    fn explain(&self, stop: Stop) -> Error {
        match stop {
            Stop::Error(error) => error,
            Stop::Malformed(malformed) => Error::Sequences {
                name: self.name.clone(),
                source: malformed.after(self.ledger.lines()),
            },
            Stop::TooLong => self.too_long(self.ledger.totals().records + 1),
        }
    }

    fn too_long(&self, record: u64) -> Error {
        Error::RecordTooLong {
            name: self.name.clone(),
            record,
            most: self.most,
        }
    }
}
