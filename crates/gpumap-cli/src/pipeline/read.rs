//! The threads that read inputs, unpack them and cut them into pieces.

use std::fs::File;
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::part::Part;
use super::{Busy, Message, Settings, Stop, Stopped, timed};
use crate::error::{Error, Result};
use crate::pieces::{CutError, Cutter, Line, Piece, Start, behind_range};
use crate::progress::ByteBar;
use crate::source::{Oddity, Source, read_at};

/// What a thread that parses is to do.
pub(super) enum Job {
    /// A piece that has been read.
    Piece(Piece),
    /// A piece that it reads itself, of a large file of FASTA that is not packed.
    Range(FileRange),
    /// The same of FASTQ.
    Part(FilePart),
}

/// A piece of a file.
pub(super) struct FileRange {
    file: Arc<File>,
    at: u64,
    len: usize,
    pub index: usize,
    start: Start,
}

/// A part of a file of FASTQ. Parts are given out in their order: who waits for the one before waits for a thread that has it, or
/// for none.
pub(super) struct FilePart {
    pub file: Arc<File>,
    pub part: Part,
    pub index: usize,
    /// Tells where the first record begins, or is closed if the records end before.
    pub before: Receiver<u64>,
    /// Tells the same to the next part.
    pub next: Sender<u64>,
}

/// Pieces from which on a file is read by the threads that parse.
const LARGE: usize = 8;

impl FileRange {
    /// Reads it into the memory of `bytes`.
    pub fn read(self, mut bytes: Vec<u8>) -> io::Result<Piece> {
        bytes.resize(self.len, 0);
        read_at(&self.file, &mut bytes, self.at)?;
        Ok(Piece {
            index: self.index,
            bytes,
            start: self.start,
        })
    }
}

/// Reads one input after the other.
pub(super) struct ReadThread<C> {
    pub sources: Vec<Source>,
    /// The first that no thread has begun.
    pub next: Arc<AtomicUsize>,
    pub settings: Settings<C>,
    /// Threads that may unpack an input.
    pub threads: NonZero<usize>,
    pub bar: ByteBar,
    pub jobs: Sender<(usize, Job)>,
    pub spare: Receiver<Vec<u8>>,
    pub messages: Sender<Message<C>>,
    pub busy: Arc<Busy>,
}

impl<C> ReadThread<C> {
    pub fn run(self) {
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
        match source.open_plain((LARGE * size) as u64) {
            Ok(Some(plain)) if plain.is_fasta => {
                return self.cut_fasta(input, Arc::new(plain.file), plain.len);
            }
            Ok(Some(plain)) => return self.cut_fastq(input, Arc::new(plain.file), plain.len),
            Ok(None) => {}
            Err(error) => return self.fail(input, 0, error.into()),
        }
        let reader = match timed(&self.busy.read, || source.open(&self.bar, self.threads)) {
            Ok(reader) => reader,
            Err(error) => return self.fail(input, 0, error.into()),
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
        let (reader, is_empty) = cutter.into_reader();
        let oddities = [is_empty.then_some(Oddity::Empty), reader.oddity()];
        for oddity in oddities.into_iter().flatten() {
            let message = Message::Odd { input, oddity };
            self.messages.send(message).map_err(|_| Stopped)?;
        }
        Ok(())
    }

    /// Cuts a file of FASTA, of which it reads no more than it takes to know how each piece begins.
    fn cut_fasta(&self, input: usize, file: Arc<File>, len: u64) -> Result<(), Stopped> {
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
                    let error = unreadable(&self.sources[input], error);
                    return self.fail(input, index, error.into());
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

    /// Cuts a file of FASTQ, of which it reads nothing: who parses a part finds its records.
    fn cut_fastq(&self, input: usize, file: Arc<File>, len: u64) -> Result<(), Stopped> {
        let (first, mut before) = bounded(1);
        // The first record begins with the file.
        let _ = first.send(0);
        for (index, at) in (0..len).step_by(self.settings.piece).enumerate() {
            let (next, after) = bounded(1);
            let job = Job::Part(FilePart {
                file: Arc::clone(&file),
                part: Part {
                    at,
                    end: len.min(at + self.settings.piece as u64),
                    file: len,
                },
                index,
                before,
                next,
            });
            self.jobs.send((input, job)).map_err(|_| Stopped)?;
            before = after;
        }
        Ok(())
    }

    /// The error stands where the next piece would.
    fn fail(&self, input: usize, index: usize, stop: Stop) -> Result<(), Stopped> {
        let message = Message::Parsed {
            input,
            index,
            outcome: Err(stop),
        };
        self.messages.send(message).map_err(|_| Stopped)
    }

    fn explain(&self, source: &Source, error: CutError) -> Stop {
        match error {
            CutError::TooLong => Stop::TooLong,
            CutError::Malformed(malformed) => Stop::Malformed(malformed),
            CutError::Read(error) => unreadable(source, error).into(),
        }
    }
}

pub(super) fn unreadable(input: &Source, source: io::Error) -> Error {
    Error::Read {
        name: input.to_string(),
        source,
    }
}
