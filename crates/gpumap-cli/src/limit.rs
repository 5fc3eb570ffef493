//! How much of an input is read for one record: a parser keeps all of a record, and the input may never
//! end it. Sequences are measured in [`crate::pieces`] and [`crate::ledger`].

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a line end counts as in a sequence: the parser notes the place of each.
pub const LINE_END: u64 = 8;

/// The limit for rows of text. Only the parser knows where they end, since a quote may hold line ends, so it says
/// when it has read one.
pub struct RowLimit {
    most: u64,
    /// What may still be read for the row.
    left: Arc<AtomicU64>,
}

/// Instead of what is left: the row goes on beyond that.
const EXCEEDED: u64 = u64::MAX;

impl RowLimit {
    /// Rows of at most so many bytes.
    pub fn new(most: u64) -> Self {
        let left = Arc::new(AtomicU64::new(most));
        Self { most, left }
    }

    /// Bytes of a row at most.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// A reader that fails where a row goes on beyond the limit. What a parser has read ahead is not counted
    /// for the next row, so a row that is refused is longer than the limit.
    pub fn reading<R: Read>(&self, mut reader: R) -> impl Read + use<R> {
        let left = Arc::clone(&self.left);
        ReadWith(move |bytes: &mut [u8]| {
            let may = left.load(Ordering::Relaxed);
            if may == EXCEEDED {
                return Err(too_long());
            }
            if may == 0 {
                // The row may end here, with the input.
                if bytes.is_empty() || reader.read(&mut [0])? == 0 {
                    return Ok(0);
                }
                left.store(EXCEEDED, Ordering::Relaxed);
                return Err(too_long());
            }
            let most = usize::try_from(may).map_or(bytes.len(), |may| may.min(bytes.len()));
            let read = reader.read(&mut bytes[..most])?;
            left.store(may - read as u64, Ordering::Relaxed);
            Ok(read)
        })
    }

    /// The row has been read: the next one may be as long.
    pub fn next_row(&self) {
        self.left.store(self.most, Ordering::Relaxed);
    }

    /// Whether a row went on beyond the limit.
    pub fn is_exceeded(&self) -> bool {
        self.left.load(Ordering::Relaxed) == EXCEEDED
    }
}

fn too_long() -> io::Error {
    io::Error::other("a row is too long")
}

/// A reader made of a function.
struct ReadWith<F>(F);

impl<F: FnMut(&mut [u8]) -> io::Result<usize>> Read for ReadWith<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (self.0)(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_may_be_as_long_as_the_limit() {
        for (len, fits) in [(0, true), (9, true), (10, true), (11, false), (99, false)] {
            let limit = RowLimit::new(10);
            for _ in 0..2 {
                let mut reader = limit.reading(io::repeat(b'a').take(len));
                let mut bytes = Vec::new();
                let outcome = reader.read_to_end(&mut bytes);
                assert_eq!((outcome.is_ok(), limit.is_exceeded()), (fits, !fits));
                if !fits {
                    assert_eq!(bytes.len(), 10);
                    // It stays so.
                    reader.read_to_end(&mut bytes).unwrap_err();
                    break;
                }
                assert_eq!(bytes.len() as u64, len);
                limit.next_row();
            }
        }
    }
}
