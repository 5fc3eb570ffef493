//! A file without a name for runs that may take no more memory.

use std::env;
use std::fs::File;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::run::Run;
use crate::error::{Error, Result};
use crate::source::{read_at, write_at};

/// The file, which is made when the first run comes, in the folder for temporary files.
#[derive(Debug, Default)]
pub struct Spill {
    file: OnceLock<File>,
    end: AtomicU64,
}

/// Where a run is.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    at: u64,
    bytes: usize,
    /// Rests in it.
    pub len: usize,
}

impl Spill {
    /// Writes a run.
    pub fn write(&self, run: &Run) -> Result<Segment> {
        let bytes = run.packed();
        let at = self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let written = self.file().and_then(|file| write_at(file, bytes, at));
        written.map_err(|source| Error::Write {
            path: env::temp_dir(),
            source,
        })?;
        Ok(Segment {
            at,
            bytes: bytes.len(),
            len: run.len(),
        })
    }

    /// Reads a run.
    pub fn read(&self, segment: Segment) -> Result<Run> {
        let mut bytes = vec![0; segment.bytes];
        let file = self.file();
        let read = file.and_then(|file| read_at(file, &mut bytes, segment.at));
        read.map_err(|source| Error::Read {
            name: "the file of what has been counted".to_owned(),
            source,
        })?;
        Ok(Run::of_packed(bytes, segment.len))
    }

    fn file(&self) -> io::Result<&File> {
        if self.file.get().is_none() {
            // Of two that are made at once the second goes.
            let _ = self.file.set(tempfile::tempfile()?);
        }
        Ok(self.file.get().expect("a file was made or was there"))
    }
}
