//! A file without a name for runs that may take no more memory.

use std::env;
use std::fs::File;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;

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
    /// How many numbers each of its two columns has.
    pub len: usize,
}

impl Spill {
    /// Writes two columns of one length.
    pub fn write<R: Pod>(&self, rests: &[R], counts: &[u64]) -> Result<Segment> {
        let (rests, counts): (&[u8], &[u8]) =
            (bytemuck::cast_slice(rests), bytemuck::cast_slice(counts));
        let bytes = (rests.len() + counts.len()) as u64;
        let at = self.end.fetch_add(bytes, Ordering::Relaxed);
        let written = self.file().and_then(|file| {
            write_at(file, rests, at)?;
            write_at(file, counts, at + rests.len() as u64)
        });
        written.map_err(|source| Error::Write {
            path: env::temp_dir(),
            source,
        })?;
        Ok(Segment {
            at,
            len: counts.len() / size_of::<u64>(),
        })
    }

    /// Reads the two columns of a segment.
    pub fn read<R: Pod>(
        &self,
        segment: Segment,
        rests: &mut [R],
        counts: &mut [u64],
    ) -> Result<()> {
        let (rests, counts): (&mut [u8], &mut [u8]) = (
            bytemuck::cast_slice_mut(rests),
            bytemuck::cast_slice_mut(counts),
        );
        let read = self.file().and_then(|file| {
            read_at(file, rests, segment.at)?;
            read_at(file, counts, segment.at + rests.len() as u64)
        });
        read.map_err(|source| Error::Read {
            name: "the file of what has been counted".to_owned(),
            source,
        })
    }

    fn file(&self) -> io::Result<&File> {
        if self.file.get().is_none() {
            // Of two that are made at once the second goes.
            let _ = self.file.set(tempfile::tempfile()?);
        }
        Ok(self.file.get().expect("a file was made or was there"))
    }
}
