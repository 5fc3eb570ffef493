//! Where sequences come from: files, standard input or memory, plain or compressed.
//!
//! What an input is compressed with is known from its first bytes, not from its name. [`crate::gzip`] reads gzip and
//! block gzip, [`crate::zstd`] Zstandard.

use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::gzip::GzipReader;
use crate::progress::ByteBar;
use crate::words;
use crate::zstd::ZstdReader;

/// Where sequences come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// `-` on the command line.
    Stdin,
    /// A file.
    File(PathBuf),
    /// Bytes in memory, with the name to show for them.
    Memory(&'static str, Arc<[u8]>),
}

/// What an input is read through.
pub enum Reader {
    /// It is not compressed.
    Plain(Packed),
    /// Gzip, with or without blocks.
    Gzip(Box<GzipReader<Packed>>),
    /// Zstandard.
    Zstd(Box<ZstdReader<Packed>>),
}

/// The bytes of an input as they are.
pub type Packed = Box<dyn Read + Send>;

impl Reader {
    /// What its user may not expect, once it has been read to its end.
    pub fn oddity(&self) -> Option<Oddity> {
        match self {
            Self::Gzip(reader) => reader.lacks_end_block().then_some(Oddity::NoEndBlock),
            Self::Plain(_) | Self::Zstd(_) => None,
        }
    }
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(bytes),
            Self::Gzip(reader) => reader.read(bytes),
            Self::Zstd(reader) => reader.read(bytes),
        }
    }
}

/// Something about an input that is no error, but that its user may not expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Oddity {
    /// There is no record in it.
    #[error("is empty: it counts as nothing")]
    Empty,
    /// It consists of blocks, and the last one has something in it.
    #[error("does not end with the empty block that bgzip writes last: it may have been cut off")]
    NoEndBlock,
}

/// As many first bytes as it takes to know how an input is compressed.
const HEAD: usize = 18;

/// A file of sequences that are not packed.
pub struct PlainFile {
    /// It, at its start.
    pub file: File,
    /// Its bytes.
    pub len: u64,
    /// Whether it is FASTA; else it is FASTQ.
    pub is_fasta: bool,
}

impl Source {
    /// The source that a command line argument names.
    pub fn from_argument(path: &Path) -> Self {
        if path.as_os_str() == "-" {
            Self::Stdin
        } else {
            Self::File(path.to_owned())
        }
    }

    /// Its length in bytes, where it is known beforehand. A folder is refused; nothing is opened, as a pipe can be
    /// opened only once.
    pub fn length(&self) -> Result<Option<u64>> {
        match self {
            Self::Stdin => Ok(None),
            Self::Memory(_, bytes) => Ok(Some(bytes.len() as u64)),
            Self::File(path) => {
                let length = path.metadata().and_then(|metadata| {
                    if metadata.is_dir() {
                        return Err(io::ErrorKind::IsADirectory.into());
                    }
                    Ok(metadata.is_file().then_some(metadata.len()))
                });
                length.map_err(|source| Error::Open {
                    path: path.clone(),
                    source,
                })
            }
        }
    }

    /// Opens it, if it is a file of at least so many bytes that is FASTA or FASTQ as it is: any part of it can be read at any
    /// time.
    pub fn open_plain(&self, least: u64) -> Result<Option<PlainFile>> {
        let Self::File(path) = self else {
            return Ok(None);
        };
        // Not opened, as a pipe can be opened only once.
        if self.length()?.is_none_or(|length| length < least) {
            return Ok(None);
        }
        let (file, length) = open_input(path)?;
        let mut first = [0];
        let is_read = read_at(&file, &mut first, 0).is_ok();
        let is_fasta = first == *b">";
        let plain = length.filter(|_| is_read && (is_fasta || first == *b"@"));
        Ok(plain.map(|len| PlainFile {
            file,
            len,
            is_fasta,
        }))
    }

    /// Opens it. What is read is unpacked, by up to `threads` threads, and moves the bar by its bytes before that.
    pub fn open(&self, bar: &ByteBar, threads: NonZero<usize>) -> Result<Reader> {
        let reader: Packed = match self {
            Self::Stdin => Box::new(bar.reading(io::stdin())),
            Self::File(path) => Box::new(bar.reading(open_input(path)?.0)),
            Self::Memory(_, bytes) => Box::new(bar.reading(Cursor::new(bytes.clone()))),
        };
        let (head, reader) = unpacked(reader, threads).map_err(|source| Error::Read {
            name: self.to_string(),
            source,
        })?;
        if let Some((format, command)) = words::foreign(&head) {
            return Err(Error::Foreign {
                name: self.to_string(),
                format,
                command,
            });
        }
        Ok(reader)
    }
}

/// Reads what is in an input, which is unpacked by up to `threads` threads if it is compressed. Its first bytes, which are read
/// now, say how.
pub fn unpacked(mut reader: Packed, threads: NonZero<usize>) -> io::Result<(Vec<u8>, Reader)> {
    let mut head = Vec::with_capacity(HEAD);
    reader.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    let packing = Packing::of(&head);
    let reader: Packed = Box::new(Cursor::new(head.clone()).chain(reader));
    let reader = match packing {
        Packing::Plain => Reader::Plain(reader),
        Packing::Gzip => Reader::Gzip(Box::new(GzipReader::new(reader, threads))),
        Packing::Zstd => Reader::Zstd(Box::new(ZstdReader::new(reader, threads))),
    };
    Ok((head, reader))
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => path.display().fmt(f),
            Self::Memory(name, _) => f.write_str(name),
        }
    }
}

/// Opens a file to read, with its length if it is a regular file (a pipe has none).
pub fn open_input(path: &Path) -> Result<(File, Option<u64>)> {
    let attempt = || {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok((file, metadata.is_file().then_some(metadata.len())))
    };
    attempt().map_err(|source| Error::Open {
        path: path.to_owned(),
        source,
    })
}

/// Fills `bytes` from byte `at` of a file on.
///
/// # Errors
/// The system's, and [`io::ErrorKind::Unsupported`] where it has no such call.
pub fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    {
        std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
    }
    #[cfg(not(unix))]
    {
        let _ = (file, bytes, at);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Writes `bytes` from byte `at` of a file on.
///
/// # Errors
/// As those of [`read_at`].
pub fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    {
        std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
    }
    #[cfg(not(unix))]
    {
        let _ = (file, bytes, at);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What an input is compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    fn of(head: &[u8]) -> Self {
        match head {
            [0x1f] | [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or one that is to be skipped.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gzip::tests::{blocks, gzip};

    fn unpacked(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let two = NonZero::new(2).unwrap();
        let source = Source::Memory("test", bytes.into());
        let mut reader = source
            .open(&crate::progress::Progress::hidden().bytes(), two)
            .unwrap();
        let mut out = Vec::new();
        reader.read_to_end(&mut out).map(|_| out)
    }

    fn text() -> Vec<u8> {
        (0..200_000u32)
            .flat_map(|i| i.wrapping_mul(i).to_string().into_bytes())
            .collect()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn what_was_packed_comes_out() {
        let text = text();
        let skipped = [
            &[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9][..],
            &zstd(&text),
        ]
        .concat();
        assert_eq!(unpacked(skipped).unwrap(), text);
        assert_eq!(unpacked(text.clone()).unwrap(), text);
        assert_eq!(Packing::of(&gzip(&text)), Packing::Gzip);
        assert_eq!(Packing::of(&zstd(&text)), Packing::Zstd);
        for pack in [gzip, blocks, zstd] {
            let packed = pack(&text);
            assert_eq!(unpacked(packed.clone()).unwrap(), text);
            // Several one after the other are one.
            let two = [&packed[..], &pack(b"more")].concat();
            assert_eq!(unpacked(two).unwrap(), [&text[..], b"more"].concat());
        }
    }

    #[test]
    fn damage_is_seen() {
        let text = text();
        for pack in [gzip, blocks, zstd] {
            let packed = pack(&text);
            unpacked(packed[..packed.len() / 2].to_vec()).unwrap_err();
            for at in [packed.len() / 3, packed.len() / 2] {
                let mut damaged = packed.clone();
                damaged[at] ^= 0x10;
                let outcome = unpacked(damaged);
                assert!(outcome.is_err(), "{at} of {}", packed.len());
            }
        }
    }
}
