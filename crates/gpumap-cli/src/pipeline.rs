//! The threads between inputs and counts: some read and unpack, one input each, others parse pieces into blocks of
//! packed bases, and the caller takes these.
//!
//! Threads wait for each other at channels of bounded length, so memory is bounded as well. A thread ends when the
//! channel that it sends to is closed; so dropping a [`Pipeline`] ends all of them, but for one that waits for an input.
//! For that reason nothing waits for threads after an error.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle, available_parallelism};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use gpumap::Device;
use gpumap_kmer_kernels::GROUP;
use needletail::errors::ParseError;

use crate::error::{Error, Result};
use crate::kmer::{Kmer, KmerLength, Kmers, Strand};
use crate::ledger::Ledger;
use crate::packed::Block;
use crate::parse::{Blocks, Failure, Parsed, parse};
use crate::pieces::{CutError, Cutter, Line, Piece, Start, behind_range};
use crate::progress::{ByteBar, Progress};
use crate::sequence::SequenceTotals;
use crate::source::{Source, read_at};

/// Blocks that are with the device, beside those of the threads.
pub const IN_FLIGHT: usize = 3;

/// What is made of inputs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose memory blocks are copied to.
    pub device: Device,
    /// Bases in a k-mer.
    pub length: KmerLength,
    /// Bytes of a record at most, with [`LINE_END`](crate::limit::LINE_END) for a line end.
    pub most: u64,
    /// Bytes of a piece.
    pub piece: usize,
    /// Whether the threads make k-mers, of which strand, or leave that to the caller.
    pub kmers: Option<Strand>,
    /// Threads that parse.
    pub workers: NonZero<usize>,
}

impl Settings {
    /// Elements of a block: with room for what a piece of FASTA carries over.
    pub fn block(&self) -> usize {
        self.piece + 2 * GROUP
    }

    /// As many threads as the machine runs at once, up to `most`.
    pub fn workers(most: usize) -> NonZero<usize> {
        let cores = available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        cores.min(NonZero::new(most).unwrap_or(NonZero::<usize>::MIN))
    }
}

/// What the threads make.
#[derive(Debug)]
pub enum Packed {
    /// A sealed block, to be given [back](Pipeline::give_back).
    Block(Block),
    /// K-mers, where the threads make them, to be given [back](Pipeline::give_back_kmers).
    Kmers(Vec<u64>),
}

enum Message {
    Packed(Packed),
    /// A piece of an input ends here, after what it was packed into.
    Parsed {
        input: usize,
        index: usize,
        outcome: Result<Parsed>,
    },
}

/// What a thread that parses is to do.
enum Job {
    /// A piece that has been read.
    Piece(Piece),
    /// A piece that it reads itself, of a large file of FASTA.
    Range(FileRange),
}

/// A piece of a file.
struct FileRange {
    file: Arc<File>,
    at: u64,
    len: usize,
    index: usize,
    start: Start,
}

/// Pieces from which on a file of FASTA is read by the threads that parse.
const LARGE: usize = 8;

/// Seconds that threads worked, all of them together.
#[derive(Debug, Default)]
struct Busy {
    read: AtomicU64,
    /// By those that parse.
    read_range: AtomicU64,
    parse: AtomicU64,
}

/// Times the work of a thread.
fn timed<T>(busy: &AtomicU64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let outcome = work();
    busy.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    outcome
}

/// The threads at work.
pub struct Pipeline {
    messages: Receiver<Message>,
    empty: Sender<Block>,
    spare_kmers: Sender<Vec<u64>>,
    inputs: Vec<Input>,
    busy: Arc<Busy>,
    readers: usize,
    workers: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Pipeline {
    /// Starts to read.
    pub fn start(sources: &[Source], settings: &Settings, progress: &Progress) -> Result<Self> {
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
        let share = NonZero::new(workers / readers.max(1)).unwrap_or(NonZero::<usize>::MIN);
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
                    // Each thread may hold one and ask for another.
                    most: 2 * workers + IN_FLIGHT,
                    messages: send_messages.clone(),
                    waited: Duration::ZERO,
                },
            };
            start("parse", Box::new(move || worker.run()))?;
        }
        let inputs = sources.iter().map(|source| Input {
            name: source.to_string(),
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
    pub fn next(&mut self) -> Result<Option<Packed>> {
        while let Ok(message) = self.messages.recv() {
            match message {
                Message::Packed(packed) => return Ok(Some(packed)),
                Message::Parsed {
                    input,
                    index,
                    outcome,
                } => self.inputs[input].add(index, outcome)?,
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
    pub fn give_back_kmers(&self, kmers: Vec<u64>) {
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
    most: u64,
    /// The first piece that has not been parsed.
    next: usize,
    /// Pieces after it that have been.
    waiting: BTreeMap<usize, Result<Parsed>>,
    ledger: Ledger,
}

impl Input {
    fn add(&mut self, index: usize, outcome: Result<Parsed>) -> Result<()> {
        self.waiting.insert(index, outcome);
        while let Some(outcome) = self.waiting.remove(&self.next) {
            self.next += 1;
            let added = self.ledger.add(outcome?);
            added.map_err(|record| Error::RecordTooLong {
                name: self.name.clone(),
                record,
                most: self.most,
            })?;
        }
        Ok(())
    }
}

/// Reads one input after the other.
struct ReadThread {
    sources: Vec<Source>,
    /// The first that no thread has begun.
    next: Arc<AtomicUsize>,
    settings: Settings,
    /// Threads that may unpack an input.
    threads: NonZero<usize>,
    bar: ByteBar,
    jobs: Sender<(usize, Job)>,
    spare: Receiver<Vec<u8>>,
    messages: Sender<Message>,
    busy: Arc<Busy>,
}

/// The caller takes no more.
struct Stopped;

impl ReadThread {
    fn run(self) {
        loop {
            let input = self.next.fetch_add(1, Ordering::Relaxed);
            if input >= self.sources.len() || self.read(input).is_err() {
                return;
            }
        }
    }

    fn read(&self, input: usize) -> Result<(), Stopped> {
        let source = &self.sources[input];
        let Settings {
            length,
            most,
            piece: size,
            ..
        } = self.settings;
        match source.open_fasta((LARGE * size) as u64) {
            Ok(Some((file, len))) => return self.cut_file(input, Arc::new(file), len),
            Ok(None) => {}
            Err(error) => return self.fail(input, 0, error),
        }
        let reader = match timed(&self.busy.read, || source.open(&self.bar, self.threads)) {
            Ok(reader) => reader,
            Err(error) => return self.fail(input, 0, error),
        };
        let mut cutter = Cutter::new(reader, size, length.get(), most);
        for index in 0.. {
            let spare = self.spare.try_recv().unwrap_or_default();
            let piece = match timed(&self.busy.read, || cutter.next_piece(spare)) {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(error) => return self.fail(input, index, self.explain(source, error)),
            };
            let job = Job::Piece(piece);
            self.jobs.send((input, job)).map_err(|_| Stopped)?;
        }
        Ok(())
    }

    /// Cuts a file of FASTA, of which it reads no more than it takes to know how each piece begins.
    fn cut_file(&self, input: usize, file: Arc<File>, len: u64) -> Result<(), Stopped> {
        let Settings {
            length,
            piece: size,
            ..
        } = self.settings;
        let (mut line, mut carried) = (Line::Start, Vec::new());
        for (index, at) in (0..len).step_by(size).enumerate() {
            let end = len.min(at + size as u64);
            let behind = timed(&self.busy.read, || {
                let before = (line, &carried[..]);
                behind_range(at..end, before, length.get() - 1, |bytes, at| {
                    read_at(&file, bytes, at)
                })
            });
            let behind = match behind {
                Ok(behind) => behind,
                Err(error) => {
                    let error = not_sequences(&self.sources[input], error.into());
                    return self.fail(input, index, error);
                }
            };
            let job = Job::Range(FileRange {
                file: Arc::clone(&file),
                at,
                len: (end - at) as usize,
                index,
                start: Start::Fasta { line, carried },
            });
            self.jobs.send((input, job)).map_err(|_| Stopped)?;
            (line, carried) = behind;
        }
        Ok(())
    }

    /// The error stands where the next piece would.
    fn fail(&self, input: usize, index: usize, error: Error) -> Result<(), Stopped> {
        let message = Message::Parsed {
            input,
            index,
            outcome: Err(error),
        };
        self.messages.send(message).map_err(|_| Stopped)
    }

    fn explain(&self, source: &Source, error: CutError) -> Error {
        let cause = match error {
            CutError::TooLong { record } => {
                return Error::RecordTooLong {
                    name: source.to_string(),
                    record,
                    most: self.settings.most,
                };
            }
            CutError::Read(error) => error.into(),
            CutError::UnknownFormat(first) => ParseError::new_unknown_format(first),
            CutError::Empty => ParseError::new_empty_file(),
        };
        not_sequences(source, cause)
    }
}

fn not_sequences(source: &Source, cause: ParseError) -> Error {
    Error::Sequences {
        name: source.to_string(),
        source: cause,
    }
}

/// Parses pieces of any input.
struct ParseThread {
    jobs: Receiver<(usize, Job)>,
    spare: Sender<Vec<u8>>,
    sources: Vec<Source>,
    bar: ByteBar,
    busy: Arc<Busy>,
    blocks: PooledBlocks,
}

impl ParseThread {
    fn run(mut self) {
        let mut own = Vec::new();
        while let Ok((input, job)) = self.jobs.recv() {
            let (index, outcome) = match job {
                Job::Piece(piece) => {
                    let outcome = self.parse(input, &piece);
                    // The reader may have ended.
                    let _ = self.spare.send(piece.bytes);
                    (piece.index, outcome)
                }
                Job::Range(range) => {
                    let index = range.index;
                    let bytes = std::mem::take(&mut own);
                    let outcome = match timed(&self.busy.read_range, || range.read(bytes)) {
                        Ok(piece) => {
                            self.bar.advance(piece.bytes.len());
                            let outcome = self.parse(input, &piece);
                            own = piece.bytes;
                            outcome
                        }
                        Err(error) => Err(Some(not_sequences(&self.sources[input], error.into()))),
                    };
                    (index, outcome)
                }
            };
            let outcome = match outcome {
                Ok(parsed) => Ok(parsed),
                Err(Some(error)) => Err(error),
                Err(None) => return,
            };
            let message = Message::Parsed {
                input,
                index,
                outcome,
            };
            if self.blocks.messages.send(message).is_err() {
                return;
            }
        }
    }

    /// `None` if the caller takes no more.
    fn parse(&mut self, input: usize, piece: &Piece) -> Result<Parsed, Option<Error>> {
        let Settings { length, most, .. } = self.blocks.settings;
        self.blocks.waited = Duration::ZERO;
        let start = Instant::now();
        let outcome = parse(piece, length.get(), most, &mut self.blocks);
        let worked = start.elapsed().saturating_sub(self.blocks.waited);
        let nanos = worked.as_nanos() as u64;
        self.busy.parse.fetch_add(nanos, Ordering::Relaxed);
        outcome.map_err(|failure| match failure {
            Failure::Parse(cause) => Some(not_sequences(&self.sources[input], cause)),
            Failure::Blocks(error) => error,
        })
    }
}

impl FileRange {
    /// Reads it into the memory of `bytes`.
    fn read(self, mut bytes: Vec<u8>) -> io::Result<Piece> {
        bytes.resize(self.len, 0);
        read_at(&self.file, &mut bytes, self.at)?;
        Ok(Piece {
            index: self.index,
            bytes,
            start: self.start,
        })
    }
}

/// Blocks that go round.
struct PooledBlocks {
    settings: Settings,
    empty: Receiver<Block>,
    give_back: Sender<Block>,
    spare_kmers: Receiver<Vec<u64>>,
    made: Arc<AtomicUsize>,
    most: usize,
    messages: Sender<Message>,
    /// For how long this thread has waited here.
    waited: Duration,
}

impl PooledBlocks {
    fn waiting<T>(&mut self, wait: impl FnOnce(&Self) -> Option<T>) -> Result<T, Option<Error>> {
        let start = Instant::now();
        let outcome = wait(self);
        self.waited += start.elapsed();
        outcome.ok_or(None)
    }
}

impl Blocks for PooledBlocks {
    /// `None` if the caller takes no more.
    type Error = Option<Error>;

    fn empty(&mut self) -> Result<Block, Option<Error>> {
        if let Ok(block) = self.empty.try_recv() {
            return Ok(block);
        }
        if self.made.fetch_add(1, Ordering::Relaxed) < self.most {
            let settings = &self.settings;
            let block = Block::new(&settings.device, settings.block());
            let doing = Error::while_doing("cannot make memory for bases");
            return block.map_err(|error| Some(doing(error)));
        }
        self.waiting(|blocks| blocks.empty.recv().ok())
    }

    fn full(&mut self, mut block: Block) -> Result<(), Option<Error>> {
        let packed = match self.settings.kmers {
            None => Packed::Block(block),
            Some(strand) => {
                // New pages for each block would take longer than its k-mers.
                let mut kmers = self.spare_kmers.try_recv().unwrap_or_default();
                kmers.clear();
                kmers.reserve(block.len());
                let made = Kmers::of_codes(block.codes(), self.settings.length, strand);
                kmers.extend(made.map(Kmer::code));
                block.clear();
                let _ = self.give_back.send(block);
                Packed::Kmers(kmers)
            }
        };
        self.waiting(|blocks| blocks.messages.send(Message::Packed(packed)).ok())
    }
}
