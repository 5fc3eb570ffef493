//! Gzip: the members of a stream one after the other, as `gzip -d` reads them. Several threads inflate the blocks of `bgzip`
//! (BGZF), and any other member that is [large](chunks).
//!
//! Whether a member is a block is decided for each member: a field of its header says how long a block is, so that
//! threads can inflate the next ones at the same time. The field is believed only if the member ends where it says
//! and has the right checksum. Otherwise the same bytes are read as those of any other member, which also finds out
//! what is wrong with them.

mod chunks;
mod deflate;
mod huffman;
mod member;
pub mod pack;
#[cfg(test)]
pub mod tests;

use std::collections::VecDeque;
use std::io::{self, Read};
use std::num::NonZero;

use flate2::{Crc, Decompress, FlushDecompress, Status};

use self::chunks::{Chunks, Ending};
use self::huffman::Codes;
use self::member::{Header, Member, TRAILER, trailer_of};
use crate::stream::Packed;
use crate::workers::{Pending, Workers};

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

/// Bytes of a chunk of a large member: many blocks, whose first is looked for, and still few enough for the cache of a thread.
const CHUNK: usize = 1 << 19;

/// Threads from which on a large member is inflated in chunks, which takes twice the work: fewer have better things to do.
const CHUNKS_FROM: usize = 3;

/// What the members of a stream hold.
pub struct GzipReader<R> {
    packed: Packed<R>,
    /// Whether there was a member.
    has_begun: bool,
    threads: NonZero<usize>,
    /// Bytes of a chunk.
    chunk: usize,
    workers: Option<Workers<Scratch>>,
    /// Blocks that are inflated, in their order. What follows them has not been taken from the stream.
    ahead: VecDeque<Pending<Block>>,
    /// Memory of blocks that have been read.
    spare: Vec<Block>,
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
    Chunks(Box<Chunks>),
    Block { block: Block, at: usize },
    End,
}

impl<R: Read> GzipReader<R> {
    /// Reads a stream. If it may have several threads, these inflate its blocks and its large members, beside that of the
    /// caller.
    pub fn new(reader: R, threads: NonZero<usize>) -> Self {
        Self::with_chunks(reader, threads, CHUNK)
    }

    /// Reads a stream whose members are large from so many bytes on.
    fn with_chunks(reader: R, threads: NonZero<usize>, chunk: usize) -> Self {
        Self {
            packed: Packed::new(reader),
            has_begun: false,
            threads,
            chunk,
            workers: None,
            ahead: VecDeque::new(),
            spare: Vec::new(),
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
            let block = block.wait()?;
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
                self.current = match self.begin_chunks(header) {
                    Some(chunks) => Current::Chunks(Box::new(chunks)),
                    None => Current::Member(Box::new(Member::new(header))),
                };
            }
            Some(Next::Zeros) => {
                member::skip_zeros(&mut self.packed)?;
                self.current = Current::End;
            }
            Some(Next::Failed(error)) => return Err(error),
            Some(Next::End) | None => self.current = Current::End,
        }
        Ok(())
    }

    /// Begins a member behind its header that threads may inflate, if it is one.
    fn begin_chunks(&mut self, header: Header) -> Option<Chunks> {
        let is_for_threads = self.threads.get() >= CHUNKS_FROM && header.block.is_none();
        if !is_for_threads || self.packed.try_fill(self.chunk).len() < self.chunk {
            return None;
        }
        if self.workers().threads() == 0 {
            return None;
        }
        Chunks::begin(&mut self.packed, self.chunk)
    }

    fn workers(&mut self) -> &Workers<Scratch> {
        let start = || Workers::start(self.threads);
        self.workers.get_or_insert_with(start)
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
        if self.has_begun && self.packed.fill(1)?.first() == Some(&0) {
            return Ok(Some(Next::Zeros));
        }
        let Some(header) = member::next_header(&mut self.packed, self.has_begun)? else {
            return Ok(Some(Next::End));
        };
        self.has_begun = true;
        let member = Ok(Some(Next::Member(header)));
        let Some(len) = header.block.filter(|_| self.has_blocks) else {
            return member;
        };
        if len < header.len + TRAILER || self.packed.fill(len)?.len() < len {
            return member;
        }
        if self.workers().threads() == 0 {
            return member;
        }
        let mut block = self.spare.pop().unwrap_or_default();
        block.packed.clear();
        block
            .packed
            .extend_from_slice(&self.packed.fill(len)?[..len]);
        block.header = header.len;
        self.packed.skip(len);
        let inflated = self.workers().run(move |scratch| {
            block.inflate(&mut scratch.inflate);
            block
        });
        self.ahead.push_back(inflated);
        Ok(None)
    }

    /// Ends a member that has been read in chunks, or leaves what is left of it to flate2.
    fn end_chunks(&mut self) -> io::Result<()> {
        let spent = std::mem::replace(&mut self.current, Current::Nothing);
        let Current::Chunks(mut chunks) = spent else {
            return Ok(());
        };
        let ending = chunks.end(&mut self.packed);
        let (crc, window) = chunks.into_rest();
        if let Some(Ending::Unknown(bit)) = ending {
            let rest = Member::resume(&mut self.packed, bit, &window, crc)?;
            self.current = Current::Member(Box::new(rest));
            return Ok(());
        }
        self.ends_in_block = false;
        member::check(&mut self.packed, &crc)
    }

    /// Takes a block that is none, and those after it, back into the stream.
    fn take_back(&mut self, first: Block) -> io::Result<()> {
        self.has_blocks = false;
        let mut packed = first.packed;
        for block in self.ahead.drain(..) {
            let block = block.wait()?;
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
                Current::Chunks(chunks) => {
                    let Some(workers) = &self.workers else {
                        return Err(io::Error::other("no thread has begun"));
                    };
                    let read = chunks.read(&mut self.packed, workers, bytes)?;
                    if read > 0 {
                        return Ok(read);
                    }
                    self.end_chunks()?;
                }
                Current::Block { block, at } => {
                    let read = (&block.bytes[*at..]).read(bytes)?;
                    if read > 0 {
                        *at += read;
                        return Ok(read);
                    }
                    let spent = std::mem::replace(&mut self.current, Current::Nothing);
                    if let Current::Block { block, .. } = spent {
                        self.spare.push(block);
                    }
                }
            }
        }
    }
}

/// What a thread works with.
struct Scratch {
    inflate: Decompress,
    codes: Codes,
    bytes: Vec<u8>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            inflate: Decompress::new(false),
            codes: Codes::default(),
            bytes: Vec::new(),
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
