//! A large member, inflated by all threads.
//!
//! The compressed bytes are cut into chunks. A thread looks in each for a place where a block seems to begin, and inflates
//! from there to the first block that begins in the next chunk, without the window before it ([`deflate`]). The reader takes
//! these guesses in their order. It uses one only if it begins where the one before ended, which proves it right: then
//! the window is known, and a thread makes bytes of the symbols. The reader inflates what lies between two guesses itself, and
//! so a wrong guess costs time and nothing else.
//!
//! Where that does not do, as the data are damaged or a block is larger than a chunk, the member is left to flate2 from the
//! last good block on. Memory is bounded by the size of a chunk and by [`EXPANSION`], whatever the data claim.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

use flate2::Crc;

use super::Scratch;
use super::deflate::{self, Bits, Output, WINDOW};
use super::huffman::Codes;
use crate::stream::Packed;
use crate::workers::{Pending, Workers};

/// Bytes that a chunk may become, for each of its own. Text becomes 3 to 8.
const EXPANSION: usize = 16;

/// What a thread made of a chunk, with bits counted from the first of the chunk.
struct Guess {
    /// Where it begins and ends, and whether the member ends there; none if nothing was found.
    found: Option<Found>,
    output: Output<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    start: usize,
    end: usize,
    is_last: bool,
}

/// Bytes that have been made, with their checksum, and what they were made of.
struct Made {
    bytes: Vec<u8>,
    crc: Crc,
    from: Output<u16>,
}

/// Compressed bytes, and what a thread makes of them.
struct Chunk {
    bytes: Arc<Vec<u8>>,
    guess: Progress,
}

enum Progress {
    /// No thread has it yet.
    New,
    Guess(Pending<Guess>),
    Known(Guess),
    /// It has been used, or cannot be.
    Gone,
}

/// How the chunks of a member end.
pub enum Ending {
    /// The member ends where the next byte of the stream comes.
    Member,
    /// They go on with this bit of the next byte of the stream, and flate2 has to find out how.
    Unknown(u32),
}

/// A member behind its header.
pub struct Chunks {
    /// Bytes of a chunk.
    size: usize,
    chunks: VecDeque<Chunk>,
    /// The bit of the first chunk that comes next.
    at: usize,
    /// Whether all of the stream is in chunks.
    has_all: bool,
    /// How many guesses have been used.
    used: usize,
    /// What was there before `at`.
    window: Vec<u8>,
    /// Bytes in their order.
    making: VecDeque<Pending<Made>>,
    ending: Option<Ending>,
    /// What is being read, and how far.
    bytes: Vec<u8>,
    read: usize,
    crc: Crc,
    codes: Codes,
    output: Output<u8>,
    scratch: Vec<u8>,
    spare_bytes: Vec<Vec<u8>>,
    spare_outputs: Vec<Output<u16>>,
}

impl Chunks {
    /// Begins with the first blocks of a member, which this thread inflates. None if flate2 has to find out about them.
    pub fn begin<R: Read>(packed: &mut Packed<R>, size: usize) -> Option<Self> {
        let first = packed.try_fill(size);
        let mut codes = Codes::default();
        let mut output = Output::default();
        output.begin(std::iter::empty(), size * EXPANSION);
        let mut bits = Bits::new(first, 0);
        let (end, is_last) = output.inflate(&mut bits, size * 4, &mut codes).ok()?;
        let bytes = output.symbols().to_vec();
        let mut crc = Crc::new();
        crc.update(&bytes);
        let (used, at) = match is_last {
            true => (end.div_ceil(8), 0),
            false => (end / 8, end % 8),
        };
        packed.skip(used);
        Some(Self {
            size,
            chunks: VecDeque::new(),
            at,
            has_all: false,
            used: 0,
            window: output.tail().to_vec(),
            making: VecDeque::new(),
            ending: is_last.then_some(Ending::Member),
            bytes,
            read: 0,
            crc,
            codes,
            output,
            scratch: Vec::new(),
            spare_bytes: Vec::new(),
            spare_outputs: Vec::new(),
        })
    }

    /// The checksum of all that has been read, and what was read last.
    pub fn into_rest(self) -> (Crc, Vec<u8>) {
        (self.crc, self.window)
    }

    /// Reads some bytes; none only at the end.
    pub fn read<R: Read>(
        &mut self,
        packed: &mut Packed<R>,
        workers: &Workers<Scratch>,
        bytes: &mut [u8],
    ) -> io::Result<usize> {
        loop {
            let read = (&self.bytes[self.read..]).read(bytes)?;
            if read > 0 {
                self.read += read;
                return Ok(read);
            }
            // As many as can be without waiting, so that threads have work.
            while self.ending.is_none() && self.go_on(packed, workers)? {}
            if self.read < self.bytes.len() {
                continue;
            }
            if let Some(made) = self.making.pop_front() {
                let made = made.wait()?;
                self.crc.combine(&made.crc);
                self.spare_outputs.push(made.from);
                self.give_out(made.bytes);
            } else if self.ending.is_some() {
                return Ok(0);
            }
        }
    }

    /// How it ends, once all of it has been read. What was not used is in the stream again.
    pub fn end<R: Read>(&mut self, packed: &mut Packed<R>) -> Option<Ending> {
        let ending = self.ending.take()?;
        let chunks = self.chunks.drain(..);
        let rest: Vec<u8> = chunks.flat_map(|chunk| chunk.bytes.to_vec()).collect();
        let (used, ending) = match ending {
            Ending::Member => (self.at.div_ceil(8), Ending::Member),
            Ending::Unknown(_) => (self.at / 8, Ending::Unknown(self.at as u32 % 8)),
        };
        packed.put_back(&rest[used..]);
        Some(ending)
    }

    fn give_out(&mut self, bytes: Vec<u8>) {
        let spent = std::mem::replace(&mut self.bytes, bytes);
        self.read = 0;
        self.spare_bytes.push(spent);
    }

    /// Uses what threads have made of the chunk that comes next. `false` if there is nothing to do now, as bytes are to be read
    /// first.
    fn go_on<R: Read>(
        &mut self,
        packed: &mut Packed<R>,
        workers: &Workers<Scratch>,
    ) -> io::Result<bool> {
        self.read_ahead(packed, workers);
        let is_needed = self.making.is_empty() && self.read == self.bytes.len();
        let Some(chunk) = self.chunks.front_mut() else {
            // The stream ends within the member.
            self.ending = Some(Ending::Unknown(0));
            return Ok(true);
        };
        if let Progress::Guess(pending) = &chunk.guess
            && !pending.is_ready()
            && !is_needed
        {
            return Ok(false);
        }
        let len = 8 * chunk.bytes.len();
        let guess = match std::mem::replace(&mut chunk.guess, Progress::Gone) {
            Progress::Guess(pending) => Some(pending.wait()?),
            Progress::Known(guess) => Some(guess),
            Progress::New | Progress::Gone => None,
        };
        let mut until = len;
        if let Some(guess) = guess {
            match guess.found {
                Some(found) if found.start == self.at && self.window.len() == WINDOW => {
                    self.resolve(found, guess.output, workers);
                    return Ok(true);
                }
                Some(found) if found.start > self.at => {
                    until = found.start;
                    chunk.guess = Progress::Known(guess);
                }
                _ => self.spare_outputs.push(guess.output),
            }
        }
        // What the reader inflates itself comes behind what threads are making.
        if !is_needed {
            return Ok(false);
        }
        self.inflate(until);
        Ok(true)
    }

    /// Reads chunks, and gives them to threads.
    fn read_ahead<R: Read>(&mut self, packed: &mut Packed<R>, workers: &Workers<Scratch>) {
        // A member may end soon: then what was made of the chunks behind is of no use.
        let most = (workers.threads() * 3 / 2 + 2).min(3 + 2 * self.used);
        while !self.has_all && self.chunks.len() + self.making.len() < most {
            let bytes = packed.take_next(self.size);
            self.has_all = bytes.len() < self.size;
            if !bytes.is_empty() {
                self.chunks.push_back(Chunk {
                    bytes: Arc::new(bytes),
                    guess: Progress::New,
                });
            }
        }
        // Not the last one, as the next is needed with it.
        let whole = self.chunks.len() - usize::from(!self.has_all).min(self.chunks.len());
        let most_symbols = self.size * EXPANSION;
        for place in 0..whole {
            if !matches!(self.chunks[place].guess, Progress::New) {
                continue;
            }
            let bytes = Arc::clone(&self.chunks[place].bytes);
            let next = self.chunks.get(place + 1);
            let next = next.map(|chunk| Arc::clone(&chunk.bytes));
            let start = (place == 0).then_some(self.at);
            let output = self.spare_outputs.pop().unwrap_or_default();
            let job = move |scratch: &mut Scratch| {
                guess(
                    &bytes,
                    next.as_deref(),
                    start,
                    output,
                    most_symbols,
                    scratch,
                )
            };
            self.chunks[place].guess = Progress::Guess(workers.run(job));
        }
    }

    /// Has a guess that is right made to bytes.
    fn resolve(&mut self, found: Found, output: Output<u16>, workers: &Workers<Scratch>) {
        let tail = output.tail().iter();
        let window: Vec<u8> = tail
            .map(|&symbol| deflate::byte(symbol, &self.window))
            .collect();
        let before = std::mem::replace(&mut self.window, window);
        let mut bytes = self.spare_bytes.pop().unwrap_or_default();
        self.making.push_back(workers.run_first(move |_| {
            deflate::resolve(output.symbols(), &before, &mut bytes);
            let mut crc = Crc::new();
            crc.update(&bytes);
            Made {
                bytes,
                crc,
                from: output,
            }
        }));
        self.used += 1;
        self.go_to(found.end, found.is_last);
    }

    /// Inflates the blocks of the first chunk that begin before a bit, in this thread.
    fn inflate(&mut self, until: usize) {
        self.scratch.clear();
        for chunk in self.chunks.iter().take(2) {
            self.scratch.extend_from_slice(&chunk.bytes);
        }
        let most = self.size * EXPANSION;
        self.output.begin(self.window.iter().copied(), most);
        let mut bits = Bits::new(&self.scratch, self.at);
        let Ok((end, is_last)) = self.output.inflate(&mut bits, until, &mut self.codes) else {
            self.ending = Some(Ending::Unknown(0));
            return;
        };
        let mut bytes = self.spare_bytes.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(self.output.symbols());
        self.crc.update(&bytes);
        self.window.clear();
        self.window.extend_from_slice(self.output.tail());
        self.give_out(bytes);
        self.go_to(end, is_last);
    }

    /// Goes on with another bit of the first chunk, or of one behind it.
    fn go_to(&mut self, bit: usize, is_last: bool) {
        self.at = bit;
        if is_last {
            self.ending = Some(Ending::Member);
        }
        while let Some(chunk) = self.chunks.front()
            && self.at >= 8 * chunk.bytes.len()
        {
            self.at -= 8 * chunk.bytes.len();
            self.chunks.pop_front();
        }
    }
}

/// Inflates from a block of a chunk, the first that is found if it is not known, to the first in the next chunk.
fn guess(
    bytes: &[u8],
    next: Option<&Vec<u8>>,
    start: Option<usize>,
    mut output: Output<u16>,
    most: usize,
    scratch: &mut Scratch,
) -> Guess {
    /// Places that seemed to be a block, and were none.
    const MOST_TRIES: usize = 8;
    let len = 8 * bytes.len();
    scratch.bytes.clear();
    scratch.bytes.extend_from_slice(bytes);
    scratch
        .bytes
        .extend_from_slice(next.map_or(&[], |next| next));
    let (bytes, codes) = (&scratch.bytes[..], &mut scratch.codes);
    let mut from = start.unwrap_or(0);
    for _ in 0..MOST_TRIES {
        let start = match start {
            Some(start) => start,
            None => match deflate::find(bytes, from..len, codes) {
                Some(start) => start,
                None => break,
            },
        };
        output.begin(deflate::markers(), most);
        let inflated = output.inflate(&mut Bits::new(bytes, start), len, codes);
        if let Ok((end, is_last)) = inflated {
            let found = Some(Found {
                start,
                end,
                is_last,
            });
            return Guess { found, output };
        }
        from = start + 1;
    }
    Guess {
        found: None,
        output,
    }
}

#[cfg(test)]
pub mod tests;
