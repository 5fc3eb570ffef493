//! Zstandard: the frames of a stream one after the other, each compared with its checksum. Where several follow each
//! other, as `pzstd` writes them, several threads unpack them.
//!
//! ruzstd unpacks them, in upkeep and without C: the C library is faster, but needs a C compiler. Whether threads have a frame is
//! decided for each: it must be small, by its own bytes and by what is in it, so that memory is bounded. All others are
//! unpacked piece by piece, and so is a frame that is damaged, to find out what is wrong with it.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::num::NonZero;

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::stream::Packed;
use crate::workers::{Pending, Workers};

/// What is wrong with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZstdError {
    /// The stream ends within a frame.
    #[error("it ends within its compressed data: it was cut off")]
    CutOff,
    /// A frame that Zstandard does not have.
    #[error("its compressed data are damaged")]
    Data,
    /// A frame whose bytes are others than those that were compressed.
    #[error("its compressed data are damaged: their checksum is wrong")]
    Checksum,
    /// Something that is no frame, behind one.
    #[error("behind its compressed data are bytes that zstd does not know")]
    Trailing,
    /// A frame that cannot be unpacked alone.
    #[error("it is compressed with a dictionary, which is not read: unpack it by zstd -D")]
    Dictionary,
    /// A frame that takes much memory.
    #[error(
        "it is compressed with a window of {asked} bytes, and {most} are read: unpack it by zstd -d --long=31"
    )]
    Window {
        /// Bytes of its window.
        asked: u64,
        /// Bytes at most.
        most: u64,
    },
}

impl From<ZstdError> for io::Error {
    fn from(error: ZstdError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// An error of the decoder in the words of the program; of the system its own.
fn in_words(error: &FrameDecoderError) -> io::Error {
    match *error {
        FrameDecoderError::DictNotProvided { .. } => return ZstdError::Dictionary.into(),
        FrameDecoderError::WindowSizeTooBig { requested, max } => {
            let (asked, most) = (requested, max);
            return ZstdError::Window { asked, most }.into();
        }
        _ => {}
    }
    let mut cause = Some(error as &(dyn std::error::Error + 'static));
    while let Some(error) = cause {
        match error.downcast_ref::<io::Error>() {
            Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return ZstdError::CutOff.into();
            }
            Some(error) => {
                return match error.raw_os_error() {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => io::Error::new(error.kind(), error.to_string()),
                };
            }
            None => cause = error.source(),
        }
    }
    ZstdError::Data.into()
}

/// Bytes of a small frame at most. `pzstd` makes frames of 8 MiB by default, before they are packed.
const SMALL: usize = 4 << 20;

/// Bytes that a small frame may become.
const SMALL_UNPACKED: usize = 32 << 20;

/// What is in the frames of a stream.
pub struct ZstdReader<R> {
    packed: Packed<R>,
    decoder: FrameDecoder,
    in_frame: bool,
    threads: NonZero<usize>,
    workers: Option<Workers<FrameDecoder>>,
    /// Frames that threads unpack, in their order. What follows them has not been taken from the stream.
    ahead: VecDeque<Pending<Frame>>,
    /// Whether threads are to unpack frames: those so far were small and not damaged.
    has_small: bool,
    /// What is being read, and how far.
    bytes: Vec<u8>,
    read: usize,
}

/// A small frame, and what was in it; none if it is damaged or not small.
struct Frame {
    packed: Vec<u8>,
    bytes: Option<Vec<u8>>,
}

impl<R: Read> ZstdReader<R> {
    /// Reads a stream. If it may have several threads, these unpack its frames.
    pub fn new(reader: R, threads: NonZero<usize>) -> Self {
        Self {
            packed: Packed::new(reader),
            decoder: FrameDecoder::new(),
            in_frame: false,
            threads,
            workers: None,
            ahead: VecDeque::new(),
            has_small: threads.get() > 1,
            bytes: Vec::new(),
            read: 0,
        }
    }

    /// Begins what is to be read next. `false` if there is nothing.
    fn begin(&mut self) -> io::Result<bool> {
        self.look_ahead()?;
        let Some(frame) = self.ahead.pop_front() else {
            return self.begin_frame();
        };
        let frame = frame.wait()?;
        if let Some(bytes) = frame.bytes {
            (self.bytes, self.read) = (bytes, 0);
            return Ok(true);
        }
        self.has_small = false;
        let mut packed = frame.packed;
        for frame in self.ahead.drain(..) {
            packed.extend_from_slice(&frame.wait()?.packed);
        }
        self.packed.put_back(&packed);
        self.begin_frame()
    }

    /// Gives threads as many small frames as they may have.
    fn look_ahead(&mut self) -> io::Result<()> {
        while self.has_small && self.ahead.len() < 2 * self.threads.get() {
            let Some(len) = self.small_frame() else {
                return Ok(());
            };
            let bytes = self.packed.fill(len)?;
            if bytes.starts_with(&MAGIC) {
                let packed = bytes[..len].to_vec();
                let start = || Workers::start(self.threads);
                let workers = self.workers.get_or_insert_with(start);
                if workers.threads() == 0 {
                    self.has_small = false;
                    return Ok(());
                }
                self.ahead.push_back(workers.run(|decoder| Frame {
                    bytes: unpack(&packed, decoder),
                    packed,
                }));
            }
            self.packed.skip(len);
        }
        Ok(())
    }

    /// Bytes of the frame that comes next, if it is small, whole, and not all that there is: one alone is unpacked while it
    /// is read.
    fn small_frame(&mut self) -> Option<usize> {
        let mut least = 1;
        loop {
            let bytes = self.packed.try_fill(least);
            if bytes.len() < least {
                return None;
            }
            let is_alone = self.ahead.is_empty();
            match frame_len(bytes) {
                Len::Known(len) if len > SMALL => return None,
                Len::Known(len) if len < bytes.len() => return Some(len),
                Len::Known(len) if len == bytes.len() && !is_alone => return Some(len),
                Len::Known(len) => least = len + 1,
                Len::AtLeast(len) if len > SMALL => return None,
                Len::AtLeast(len) => least = len.max(bytes.len() + 1),
                Len::None => return None,
            }
        }
    }

    /// Begins the next frame, which this thread unpacks. `false` if there is none.
    fn begin_frame(&mut self) -> io::Result<bool> {
        loop {
            match self.packed.fill(MAGIC.len())? {
                [] => return Ok(false),
                bytes if may_be_frame(bytes) => {}
                _ => return Err(ZstdError::Trailing.into()),
            }
            match self.decoder.reset(&mut self.packed) {
                Ok(()) => {
                    self.in_frame = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let mut skipped = self.packed.by_ref().take(length);
                    if io::copy(&mut skipped, &mut io::sink())? < length {
                        return Err(ZstdError::CutOff.into());
                    }
                }
                Err(error) => return Err(in_words(&error)),
            }
        }
    }

    /// Reads some bytes of the frame; none only at its end.
    fn read_frame(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.decoder.read(bytes)?;
            if read > 0 {
                return Ok(read);
            }
            if self.decoder.is_finished() {
                self.in_frame = false;
                if !is_right(&self.decoder) {
                    return Err(ZstdError::Checksum.into());
                }
                return Ok(0);
            }
            let one = BlockDecodingStrategy::UptoBlocks(1);
            self.decoder
                .decode_blocks(&mut self.packed, one)
                .map_err(|error| in_words(&error))?;
        }
    }
}

impl<R: Read> Read for ZstdReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            let read = (&self.bytes[self.read..]).read(bytes)?;
            if read > 0 {
                self.read += read;
                return Ok(read);
            }
            if self.in_frame {
                let read = self.read_frame(bytes)?;
                if read > 0 {
                    return Ok(read);
                }
            } else if !self.begin()? {
                return Ok(0);
            }
        }
    }
}

/// Whether a frame that has been unpacked has its checksum, or none.
fn is_right(decoder: &FrameDecoder) -> bool {
    let written = decoder.get_checksum_from_data();
    written.is_none() || written == decoder.get_calculated_checksum()
}

/// What is in a small frame. None if it is damaged or not small.
fn unpack(mut packed: &[u8], decoder: &mut FrameDecoder) -> Option<Vec<u8>> {
    /// Bytes that are unpacked at once.
    const STEP: usize = 1 << 20;
    decoder.reset(&mut packed).ok()?;
    let mut bytes = Vec::new();
    while !decoder.is_finished() {
        let some = BlockDecodingStrategy::UptoBytes(STEP);
        decoder.decode_blocks(&mut packed, some).ok()?;
        decoder.read_to_end(&mut bytes).ok()?;
        if bytes.len() > SMALL_UNPACKED {
            return None;
        }
    }
    decoder.read_to_end(&mut bytes).ok()?;
    (packed.is_empty() && is_right(decoder)).then_some(bytes)
}

/// What a frame begins with.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Whether a frame, or one that is to be skipped, may begin with these bytes, of which there are four at most.
fn may_be_frame(bytes: &[u8]) -> bool {
    let is_skipped = |magic: &[u8]| match magic {
        [] => true,
        [first, rest @ ..] => (0x50..=0x5f).contains(first) && [0x2a, 0x4d, 0x18].starts_with(rest),
    };
    let magic = &bytes[..bytes.len().min(MAGIC.len())];
    MAGIC.starts_with(magic) || is_skipped(magic)
}

/// How many bytes a frame has, that is to be skipped or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Len {
    Known(usize),
    /// It takes so many bytes to know more.
    AtLeast(usize),
    /// It is no frame.
    None,
}

/// Bytes of the frame that `bytes` begin with, by RFC 8878: of its header and of each of its blocks.
fn frame_len(bytes: &[u8]) -> Len {
    let Some(magic) = bytes.first_chunk::<4>() else {
        return Len::AtLeast(4);
    };
    if let [0x50..=0x5f, 0x2a, 0x4d, 0x18] = magic {
        return match bytes.get(4..).and_then(<[u8]>::first_chunk) {
            Some(len) => Len::Known(8 + u32::from_le_bytes(*len) as usize),
            None => Len::AtLeast(8),
        };
    }
    if *magic != MAGIC {
        return Len::None;
    }
    let Some(&flags) = bytes.get(4) else {
        return Len::AtLeast(5);
    };
    let is_single = flags & 0x20 != 0;
    let dictionary = [0, 1, 2, 4][usize::from(flags & 3)];
    let size = [usize::from(is_single), 2, 4, 8][usize::from(flags >> 6)];
    let mut at = 5 + usize::from(!is_single) + dictionary + size;
    loop {
        let Some([low, middle, high]) = bytes.get(at..).and_then(<[u8]>::first_chunk) else {
            return Len::AtLeast(at + 3);
        };
        let header = u32::from_le_bytes([*low, *middle, *high, 0]);
        at += 3;
        at += match header >> 1 & 3 {
            0 | 2 => header as usize >> 3,
            1 => 1,
            _ => return Len::None,
        };
        if header & 1 != 0 {
            let checksum = if flags & 4 != 0 { 4 } else { 0 };
            return Len::Known(at + checksum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn text(bytes: usize) -> Vec<u8> {
        let numbers = (0..u32::MAX).flat_map(|i| i.wrapping_mul(i).to_string().into_bytes());
        numbers.take(bytes).collect()
    }

    /// What a stream holds, and how many frames threads have had.
    fn read(stream: &[u8], threads: usize) -> (Vec<u8>, io::Result<usize>) {
        let threads = NonZero::new(threads).unwrap();
        let mut reader = ZstdReader::new(stream, threads);
        let mut bytes = Vec::new();
        let outcome = reader.read_to_end(&mut bytes);
        (bytes, outcome)
    }

    const SKIPPED: &[u8] = &[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9];

    #[test]
    fn the_length_of_a_frame_is_that_of_its_bytes() {
        for bytes in [0, 1, 1000, 400_000] {
            let frame = zstd(&text(bytes));
            let more = [&frame[..], b"more"].concat();
            assert_eq!(frame_len(&more), Len::Known(frame.len()));
            for len in 0..frame.len() {
                let Len::AtLeast(least) = frame_len(&frame[..len]) else {
                    assert_eq!(frame_len(&frame[..len]), Len::Known(frame.len()));
                    continue;
                };
                assert!(least > len && least <= frame.len(), "{len}: {least}");
            }
        }
        assert_eq!(frame_len(SKIPPED), Len::Known(SKIPPED.len()));
        assert_eq!(frame_len(b">a\nACGT"), Len::None);
    }

    #[test]
    fn frames_of_any_size_follow_each_other() {
        // The largest is not small.
        let sizes = [10_000, 0, 300_000, 1, SMALL_UNPACKED + 1, 50_000, 70_000];
        let texts = sizes.map(|size| match size > SMALL_UNPACKED {
            true => vec![b'A'; size],
            false => text(size),
        });
        let frames = texts.iter().map(|text| [SKIPPED, &zstd(text)].concat());
        let stream = frames.collect::<Vec<_>>().concat();
        for threads in [1, 2, 4] {
            let (bytes, outcome) = read(&stream, threads);
            assert!(outcome.is_ok() && bytes == texts.concat(), "{threads}");
        }
    }

    /// They were the decoder's own, names of its types among them.
    #[test]
    fn errors_are_in_the_words_of_the_program() {
        let frame = zstd(&text(2000));
        let len = frame.len();
        let (whole, checksum) = (&frame[..], &frame[len - 4..]);
        let other = checksum.iter().map(|byte| !byte).collect::<Vec<_>>();
        let reserved = [&MAGIC[..], &[0x20, 1, 7, 0, 0]].concat();
        let dictionary = [&MAGIC[..], &[0x21, 7, 1, 9, 0, 0, b'A']].concat();
        let window = [&MAGIC[..], &[0, 0xa8, 9, 0, 0, b'A']].concat();
        let asked_too_much = ZstdError::Window {
            asked: 1 << 31,
            most: 1 << 27,
        };
        let mut damaged = frame.clone();
        damaged[20..40].fill(0xff);
        for (stream, error) in [
            (whole[..3].to_vec(), ZstdError::CutOff),
            (whole[..5].to_vec(), ZstdError::CutOff),
            (whole[..len / 2].to_vec(), ZstdError::CutOff),
            (whole[..len - 1].to_vec(), ZstdError::CutOff),
            (SKIPPED[..10].to_vec(), ZstdError::CutOff),
            ([whole, &MAGIC[..2]].concat(), ZstdError::CutOff),
            (damaged, ZstdError::Data),
            (reserved, ZstdError::Data),
            ([&whole[..len - 4], &other].concat(), ZstdError::Checksum),
            ([whole, b"xx"].concat(), ZstdError::Trailing),
            ([whole, b"more"].concat(), ZstdError::Trailing),
            ([whole, &[0x53, 0x2a, 0]].concat(), ZstdError::Trailing),
            (dictionary, ZstdError::Dictionary),
            (window, asked_too_much),
        ] {
            for threads in [1, 3] {
                let said = read(&stream, threads).1.unwrap_err();
                assert_eq!(said.to_string(), error.to_string(), "{stream:x?}");
            }
        }
        // The system's own errors stay.
        struct Failing(usize);
        impl Read for Failing {
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                let begin = &zstd(&text(2000))[self.0..30];
                match begin.is_empty() {
                    true => Err(io::Error::from_raw_os_error(5)),
                    false => {
                        let read = { begin }.read(bytes)?;
                        self.0 += read;
                        Ok(read)
                    }
                }
            }
        }
        for threads in [1, 3] {
            let mut reader = ZstdReader::new(Failing(0), NonZero::new(threads).unwrap());
            let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(5), "{error}");
        }
    }

    #[test]
    fn damage_is_seen_by_any_number_of_threads() {
        let parts = [
            zstd(&text(900)),
            zstd(&text(2000)),
            zstd(b"A"),
            SKIPPED.to_vec(),
        ];
        let stream = parts.concat();
        let mut ends = vec![0];
        for part in &parts {
            ends.push(ends[ends.len() - 1] + part.len());
        }
        for len in 0..=stream.len() {
            let outcomes = [1, 3].map(|threads| read(&stream[..len], threads));
            for (bytes, outcome) in &outcomes {
                assert_eq!(outcome.is_ok(), ends.contains(&len), "{len}");
                assert!([text(900), text(2000)].concat().starts_with(bytes) || ends[3] <= len);
            }
        }
        for at in 0..stream.len() {
            let mut changed = stream.clone();
            changed[at] ^= 1 << (at % 8);
            let [one, three] = [1, 3].map(|threads| read(&changed, threads));
            assert_eq!(one.1.is_ok(), three.1.is_ok(), "{at}");
            if one.1.is_ok() {
                assert!(one.0 == three.0, "{at}");
            } else {
                let words = [one.1, three.1].map(|outcome| outcome.unwrap_err().to_string());
                assert_eq!(words[0], words[1], "{at}");
            }
        }
    }
}
