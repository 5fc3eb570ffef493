//! The threads that parse pieces into blocks, and make k-mers where that is theirs to do.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use super::part::{Behind, Look};
use super::read::{FilePart, Job, unreadable};
use super::{Busy, Make, Message, Packed, Settings, Stop, Stopped, timed};
use crate::bins::Writer;
use crate::error::{Error, Result};
use crate::kmer::{Code, Strand};
use crate::packed::Block;
use crate::parse::{Blocks, Failure, Parsed, parse};
use crate::pieces::Start;
use crate::progress::ByteBar;
use crate::source::{Source, read_at};
use crate::threads::{self, Turn};

/// Parses pieces of any input.
pub(super) struct ParseThread<C> {
    pub jobs: Receiver<(usize, Job)>,
    pub spare: Sender<Vec<u8>>,
    pub sources: Vec<Source>,
    pub bar: ByteBar,
    pub busy: Arc<Busy>,
    pub blocks: PooledBlocks<C>,
}

impl<C: Code> ParseThread<C> {
    pub fn run(mut self) {
        let mut own = Vec::new();
        while let Ok((input, job)) = self.jobs.recv() {
            let done = match job {
                Job::Piece(piece) => {
                    let outcome = self.parse(&piece.bytes, &piece.start);
                    // The reader may have ended.
                    let _ = self.spare.send(piece.bytes);
                    self.tell(input, piece.index, outcome)
                }
                Job::Range(range) => {
                    let index = range.index;
                    let bytes = std::mem::take(&mut own);
                    let outcome = match timed(&self.busy.read_range, || range.read(bytes)) {
                        Ok(piece) => {
                            self.bar.advance(piece.bytes.len());
                            let outcome = self.parse(&piece.bytes, &piece.start);
                            own = piece.bytes;
                            outcome
                        }
                        Err(error) => Err(Some(unreadable(&self.sources[input], error).into())),
                    };
                    self.tell(input, index, outcome)
                }
                Job::Part(part) => self.parse_part(input, part, &mut own),
            };
            if done.is_err() {
                return;
            }
        }
        if let Some((_, bins)) = self.blocks.bins.take()
            && let Err(error) = timed(&self.busy.parse, || bins.close())
        {
            // The caller may need no more.
            let _ = self.blocks.messages.send(Message::Failed(error));
        }
    }

    /// Parses the records of a part, if there are any.
    fn parse_part(
        &mut self,
        input: usize,
        part: FilePart,
        own: &mut Vec<u8>,
    ) -> Result<(), Stopped> {
        let FilePart {
            file,
            part,
            index,
            before,
            next,
        } = part;
        let bytes = std::mem::take(own);
        let looked = timed(&self.busy.read_range, || {
            let mut look = Look::at(part, bytes, |bytes, at| read_at(&file, bytes, at))?;
            // A thread alone need not guess.
            if before.is_empty() {
                look.guess()?;
            }
            Ok(look)
        });
        let Ok(start) = before.recv() else {
            // There are no records, or they are not needed.
            return Ok(());
        };
        let found = looked.and_then(|mut look| {
            let most = self.blocks.settings.most;
            let records = timed(&self.busy.read_range, || look.records(start, most))?;
            Ok((look, records))
        });
        let (look, records) = match found {
            Ok(found) => found,
            Err(error) => {
                let error = unreadable(&self.sources[input], error);
                return self.tell(input, index, Err(Some(error.into())));
            }
        };
        if let Behind::Records(start) = records.behind {
            // There may be no next part.
            let _ = next.send(start);
        }
        drop(next);
        let bytes = look.bytes(&records);
        self.bar.advance(bytes.len());
        let outcome = self.parse(bytes, &Start::Fastq);
        self.tell(input, index, outcome)?;
        if records.behind == Behind::TooLong {
            // Where the next part would be, which has no records.
            self.tell(input, index + 1, Err(Some(Stop::TooLong)))?;
        }
        *own = look.into_memory();
        Ok(())
    }

    /// Tells the caller that a piece ends here. An outcome may be that it takes no more.
    fn tell(
        &self,
        input: usize,
        index: usize,
        outcome: Result<Parsed, Option<Stop>>,
    ) -> Result<(), Stopped> {
        let outcome = match outcome {
            Ok(parsed) => Ok(parsed),
            Err(Some(stop)) => Err(stop),
            Err(None) => return Err(Stopped),
        };
        let message = Message::Parsed {
            input,
            index,
            outcome,
        };
        self.blocks.messages.send(message).map_err(|_| Stopped)
    }

    /// `None` if the caller takes no more.
    fn parse(&mut self, bytes: &[u8], start: &Start) -> Result<Parsed, Option<Stop>> {
        let Settings { length, most, .. } = self.blocks.settings;
        self.blocks.waited = Duration::ZERO;
        self.blocks.turn = Some(threads::turn());
        let begun = Instant::now();
        let outcome = parse(bytes, start, length.get(), most, &mut self.blocks);
        self.blocks.turn = None;
        let worked = begun.elapsed().saturating_sub(self.blocks.waited);
        let nanos = worked.as_nanos() as u64;
        self.busy.parse.fetch_add(nanos, Ordering::Relaxed);
        outcome.map_err(|failure| match failure {
            Failure::Malformed(malformed) => Some(Stop::Malformed(malformed)),
            Failure::Blocks(error) => error.map(Stop::from),
        })
    }
}

/// Blocks that go round.
pub(super) struct PooledBlocks<C> {
    pub settings: Settings<C>,
    pub empty: Receiver<Block>,
    pub give_back: Sender<Block>,
    pub spare_kmers: Receiver<Vec<C>>,
    pub made: Arc<AtomicUsize>,
    pub most: usize,
    pub messages: Sender<Message<C>>,
    /// Where k-mers of which strand go, if not to the caller.
    pub bins: Option<(Strand, Writer<C>)>,
    /// For how long this thread has waited here.
    pub waited: Duration,
    /// While it works.
    pub turn: Option<Turn>,
}

impl<C> PooledBlocks<C> {
    fn waiting<T>(&mut self, wait: impl FnOnce(&Self) -> Option<T>) -> Result<T, Option<Error>> {
        let start = Instant::now();
        self.turn = None;
        let outcome = wait(self);
        self.turn = Some(threads::turn());
        self.waited += start.elapsed();
        outcome.ok_or(None)
    }
}

impl<C: Code> Blocks for PooledBlocks<C> {
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
        let length = self.settings.length;
        if let Some((strand, bins)) = &mut self.bins {
            bins.add(&block, length, *strand).map_err(Some)?;
            block.clear();
            let _ = self.give_back.send(block);
            return Ok(());
        }
        let packed = match self.settings.make {
            Make::Blocks | Make::Bins(..) => Packed::Block(block),
            Make::Kmers(strand) => {
                // New pages for each block would take longer than its k-mers.
                let mut kmers = self.spare_kmers.try_recv().unwrap_or_default();
                kmers.clear();
                kmers.reserve(block.len());
                let Ok(()) = block.try_for_each_kmer(length, strand, |kmer| {
                    kmers.push(kmer);
                    Ok::<(), Infallible>(())
                });
                block.clear();
                let _ = self.give_back.send(block);
                Packed::Kmers(kmers)
            }
        };
        self.waiting(|blocks| blocks.messages.send(Message::Packed(packed)).ok())
    }
}
