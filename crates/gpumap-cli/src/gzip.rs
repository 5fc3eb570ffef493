//! Gzip: the members of a stream one after the other, as `gzip -d` reads them, and the blocks of `bgzip` (BGZF) on
//! several threads.
//!
//! Whether a member is a block is decided for each member: a field of its header says how long a block is, so that
//! threads can inflate the next ones at the same time. The field is believed only if the member ends where it says
//! and has the right checksum. Otherwise the same bytes are read as those of any other member, which also finds out
//! what is wrong with them.

mod member;
pub mod pack;
#[cfg(test)]
pub mod tests;

use std::collections::VecDeque;
use std::io::{self, Read};
use std::num::NonZero;
use std::thread::Builder;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use flate2::{Crc, Decompress, FlushDecompress, Status};

use self::member::{Header, Member, Packed, TRAILER, trailer_of};

/// What is wrong with a gzip stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GzipError {
    /// The stream ends within a member.
    #[error("it ends within its compressed data: it was cut off")]
    CutOff,
    /// A header that gzip does not have.
    #[error("the header of its compressed data is damaged")]
    Header,
    /// A body that is not Deflate.
    #[error("its compressed data are damaged")]
    Data,
    /// A body whose bytes are others than those that were compressed.
    #[error("its compressed data are damaged: their checksum is wrong")]
    Checksum,
    /// A body of another length than what was compressed.
    #[error("its compressed data are damaged: their length is wrong")]
    Length,
    /// Something that is neither a member nor zeros, behind a member.
    #[error("behind its compressed data are bytes that gzip does not know")]
    Trailing,
}

impl From<GzipError> for io::Error {
    fn from(error: GzipError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// Bytes of a block at most, before it is compressed.
const BLOCK: usize = 1 << 16;

/// Blocks that are in work or wait to be read, for each thread.
const AHEAD: usize = 4;

/// Whether a file that begins so begins with a block that bgzip has packed.
pub fn begins_with_block(head: &[u8]) -> bool {
    member::header_of(head).is_ok_and(|header| header.is_some_and(|it| it.block.is_some()))
}

/// What the members of a stream hold.
pub struct GzipReader<R> {
    packed: Packed<R>,
    threads: NonZero<usize>,
    workers: Option<Workers>,
    /// Blocks that are inflated, in their order. What follows them has not been taken from the stream.
    ahead: VecDeque<Receiver<Block>>,
    /// What follows them, once that is known to be no block.
    next: Option<Next>,
    /// Whether threads are to inflate blocks: each member so far that looked like one was one.
    has_blocks: bool,
    current: Current,
    /// Whether the last member is a block with something in it.
    ends_in_block: bool,
}

/// What follows the blocks that are inflated.
enum Next {
    /// A member that this thread inflates.
    Member(Header),
    /// Zeros, behind which the stream must end.
    Zeros,
    /// The end of the stream.
    End,
    /// No member.
    Failed(io::Error),
}

/// What is being read.
enum Current {
    Nothing,
    Member(Box<Member>),
    Block { block: Block, at: usize },
    End,
}

impl<R: Read> GzipReader<R> {
    /// Reads a stream. If it may have several threads, these inflate its blocks, beside that of the caller.
    pub fn new(reader: R, threads: NonZero<usize>) -> Self {
        Self {
            packed: Packed::new(reader),
            threads,
            workers: None,
            ahead: VecDeque::new(),
            next: None,
            has_blocks: threads.get() > 1,
            current: Current::Nothing,
            ends_in_block: false,
        }
    }

    /// Whether the stream, which has been read to its end, ended in a block that is not the empty one that `bgzip`
    /// writes last.
    pub fn lacks_end_block(&self) -> bool {
        self.ends_in_block
    }

    /// Begins what is to be read next.
    fn begin(&mut self) -> io::Result<()> {
        self.look_ahead();
        if let Some(block) = self.ahead.pop_front() {
            // A thread that is gone has not inflated it, but nothing else has its bytes.
            let block = block
                .recv()
                .map_err(|_| io::Error::other("a thread has ended"))?;
            if block.is_good {
                self.ends_in_block = !block.bytes.is_empty();
                self.current = Current::Block { block, at: 0 };
                return Ok(());
            }
            self.take_back(block)?;
        }
        match self.next.take() {
            Some(Next::Member(header)) => {
                self.packed.skip(header.len);
                self.current = Current::Member(Box::new(Member::new(header)));
            }
            Some(Next::Zeros) => {
                self.packed.skip_zeros()?;
                self.current = Current::End;
            }
            Some(Next::Failed(error)) => return Err(error),
            Some(Next::End) | None => self.current = Current::End,
        }
        Ok(())
    }

    /// Gives threads as many blocks as they may have, until something else follows.
    fn look_ahead(&mut self) {
        while self.next.is_none() && self.ahead.len() < AHEAD * self.threads.get() {
            self.next = self
                .block_or_next()
                .unwrap_or_else(|error| Some(Next::Failed(error)));
        }
    }

    /// Gives a block to a thread, or says what is there instead. Nothing else is used of the stream, as the blocks before
    /// may turn out to be none.
    fn block_or_next(&mut self) -> io::Result<Option<Next>> {
        if self.packed.is_at_zeros()? {
            return Ok(Some(Next::Zeros));
        }
        let Some(header) = self.packed.header()? else {
            return Ok(Some(Next::End));
        };
        let member = Ok(Some(Next::Member(header)));
        let Some(len) = header.block.filter(|_| self.has_blocks) else {
            return member;
        };
        if len < header.len + TRAILER || self.packed.fill(len)?.len() < len {
            return member;
        }
        let workers = self
            .workers
            .get_or_insert_with(|| Workers::start(self.threads));
        if workers.count == 0 {
            return member;
        }
        let mut block = workers.spare();
        block
            .packed
            .extend_from_slice(&self.packed.fill(len)?[..len]);
        block.header = header.len;
        self.packed.skip(len);
        self.ahead.push_back(workers.inflate(block));
        Ok(None)
    }

    /// Takes a block that is none, and those after it, back into the stream.
    fn take_back(&mut self, first: Block) -> io::Result<()> {
        self.has_blocks = false;
        let mut packed = first.packed;
        for block in self.ahead.drain(..) {
            let block = block
                .recv()
                .map_err(|_| io::Error::other("a thread has ended"))?;
            packed.extend_from_slice(&block.packed);
        }
        self.packed.put_back(&packed);
        self.next = self.block_or_next()?;
        Ok(())
    }
}

impl<R: Read> Read for GzipReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            match &mut self.current {
                Current::Nothing => self.begin()?,
                Current::End => return Ok(0),
                Current::Member(member) => {
                    let read = member.read(&mut self.packed, bytes)?;
                    if member.has_ended() {
                        self.ends_in_block = member.is_full_block();
                        self.current = Current::Nothing;
                    }
                    if read > 0 {
                        return Ok(read);
                    }
                }
                Current::Block { block, at } => {
                    let rest = &block.bytes[*at..];
                    if !rest.is_empty() {
                        let read = rest.len().min(bytes.len());
                        bytes[..read].copy_from_slice(&rest[..read]);
                        *at += read;
                        return Ok(read);
                    }
                    let spent = std::mem::replace(&mut self.current, Current::Nothing);
                    if let (Current::Block { block, .. }, Some(workers)) =
                        (spent, &mut self.workers)
                    {
                        workers.spare.push(block);
                    }
                }
            }
        }
    }
}

/// A member that says how long it is.
#[derive(Default)]
struct Block {
    /// All of it, header and trailer too.
    packed: Vec<u8>,
    /// How long its header is.
    header: usize,
    /// What was in it.
    bytes: Vec<u8>,
    /// Whether it is a block, and not damaged.
    is_good: bool,
}

impl Block {
    fn inflate(&mut self, inflate: &mut Decompress) {
        self.is_good = self.try_inflate(inflate).is_some();
    }

    fn try_inflate(&mut self, inflate: &mut Decompress) -> Option<()> {
        let (body, trailer) = self.packed[self.header..].split_last_chunk::<TRAILER>()?;
        let (checksum, len) = trailer_of(*trailer);
        self.bytes.clear();
        if len as usize > BLOCK {
            return None;
        }
        // A byte more, as the last bits of an empty body are not read without any room.
        self.bytes.reserve(len as usize + 1);
        inflate.reset(false);
        let finish = FlushDecompress::Finish;
        let status = inflate.decompress_vec(body, &mut self.bytes, finish).ok()?;
        let is_whole = status == Status::StreamEnd
            && inflate.total_in() == body.len() as u64
            && self.bytes.len() == len as usize;
        let mut crc = Crc::new();
        crc.update(&self.bytes);
        (is_whole && crc.sum() == checksum).then_some(())
    }
}

/// Threads that inflate blocks. They end when this is dropped.
struct Workers {
    jobs: Sender<(Block, Sender<Block>)>,
    count: usize,
    /// Memory of blocks that have been read.
    spare: Vec<Block>,
}

impl Workers {
    /// As many threads as the system starts, up to `most`.
    fn start(most: NonZero<usize>) -> Self {
        let (jobs, work) = unbounded::<(Block, Sender<Block>)>();
        let start = |_: &usize| {
            let work = work.clone();
            let run = move || {
                let mut inflate = Decompress::new(false);
                for (mut block, done) in work {
                    block.inflate(&mut inflate);
                    // The reader may be gone.
                    let _ = done.send(block);
                }
            };
            Builder::new().name("inflate".to_owned()).spawn(run).is_ok()
        };
        let count = (0..most.get()).take_while(start).count();
        Self {
            jobs,
            count,
            spare: Vec::new(),
        }
    }

    /// An empty block.
    fn spare(&mut self) -> Block {
        let mut block = self.spare.pop().unwrap_or_default();
        block.packed.clear();
        block
    }

    /// Has a block inflated.
    fn inflate(&self, block: Block) -> Receiver<Block> {
        let (done, inflated) = bounded(1);
        // Threads end after this.
        let _ = self.jobs.send((block, done));
        inflated
    }
}
