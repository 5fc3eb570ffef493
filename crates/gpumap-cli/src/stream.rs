//! A compressed input, some way ahead.

use std::io::{self, Read};

/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;

/// The stream, and what has been read of it and not been used.
pub struct Packed<R> {
    reader: R,
    bytes: Vec<u8>,
    at: usize,
    end: usize,
    has_ended: bool,
    /// Why nothing comes behind the bytes that are there.
    failed: Option<io::Error>,
}

impl<R: Read> Packed<R> {
    /// One that nothing has been read of.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            bytes: Vec::new(),
            at: 0,
            end: 0,
            has_ended: false,
            failed: None,
        }
    }

    /// The bytes that are not used, `least` or more unless the stream ends before.
    pub fn fill(&mut self, least: usize) -> io::Result<&[u8]> {
        self.read_on(least)?;
        Ok(&self.bytes[self.at..self.end])
    }

    /// The same, where an error of the stream comes when the bytes before it have been used.
    pub fn try_fill(&mut self, least: usize) -> &[u8] {
        if let Err(error) = self.read_on(least) {
            self.failed = Some(error);
        }
        &self.bytes[self.at..self.end]
    }

    fn read_on(&mut self, least: usize) -> io::Result<()> {
        while self.end - self.at < least && !self.has_ended {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            self.bytes.copy_within(self.at..self.end, 0);
            (self.at, self.end) = (0, self.end - self.at);
            if self.bytes.len() < self.end + BUFFER {
                self.bytes.resize(self.end + BUFFER, 0);
            }
            match self.reader.read(&mut self.bytes[self.end..]) {
                Ok(0) => self.has_ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Uses the next bytes: so many, unless the stream ends or fails before. Its error comes after them.
    pub fn take_next(&mut self, bytes: usize) -> Vec<u8> {
        let had = bytes.min(self.end - self.at);
        let mut taken = Vec::with_capacity(bytes);
        taken.extend_from_slice(&self.bytes[self.at..self.at + had]);
        self.skip(had);
        if had < bytes && !self.has_ended && self.failed.is_none() {
            let rest = self.reader.by_ref().take((bytes - had) as u64);
            match { rest }.read_to_end(&mut taken) {
                Ok(_) => self.has_ended = taken.len() < bytes,
                Err(error) => self.failed = Some(error),
            }
        }
        taken
    }

    /// Uses so many bytes, which there are.
    pub fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Puts bytes in front of those that are not used.
    pub fn put_back(&mut self, bytes: &[u8]) {
        let rest = &self.bytes[self.at..self.end];
        self.bytes = [bytes, rest].concat();
        (self.at, self.end) = (0, self.bytes.len());
    }
}

impl<R: Read> Read for Packed<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.fill(1)?.read(bytes)?;
        self.skip(read);
        Ok(read)
    }
}
