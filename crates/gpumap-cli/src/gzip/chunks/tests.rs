use std::num::NonZero;

use flate2::{Compress, Compression, FlushCompress, Status};
use proptest::prelude::*;

use super::*;
use crate::gzip::tests::{blocks, gzip};
use crate::gzip::{GzipError, GzipReader};

/// Numbers that look random, the same ones each time.
fn random() -> impl FnMut() -> u32 {
    let mut state = 1_u64;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u32
    }
}

/// Reads as a sequencer writes them, of about this many bytes.
fn reads(bytes: usize) -> Vec<u8> {
    let mut random = random();
    let genome: Vec<u8> = (0..5000).map(|_| b"ACGT"[random() as usize % 4]).collect();
    let mut text = Vec::new();
    while text.len() < bytes {
        let at = random() as usize % (genome.len() - 100);
        let name = format!("@run:{}:{}\n", random() % 9, random() % 30_000);
        let mut qualities = [b'F'; 100];
        for _ in 0..random() % 9 {
            qualities[random() as usize % 100] = b",:#"[random() as usize % 3];
        }
        let read = &genome[at..at + 100];
        text.extend([name.as_bytes(), read, b"\n+\n", &qualities, b"\n"].concat());
    }
    text
}

/// A member, of a level, with a flush after each `step` bytes.
fn member(bytes: &[u8], level: u32, step: usize, flush: FlushCompress) -> Vec<u8> {
    let mut packer = Compress::new(Compression::new(level), false);
    let mut packed = b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec();
    for part in bytes.chunks(step) {
        let end = packer.total_in() + part.len() as u64;
        while packer.total_in() < end {
            packed.reserve(part.len() + 1000);
            let rest = &part[part.len() - (end - packer.total_in()) as usize..];
            packer.compress_vec(rest, &mut packed, flush).unwrap();
        }
    }
    loop {
        packed.reserve(1000);
        let finish = FlushCompress::Finish;
        if packer.compress_vec(&[], &mut packed, finish).unwrap() == Status::StreamEnd {
            break;
        }
    }
    let mut crc = Crc::new();
    crc.update(bytes);
    packed.extend(crc.sum().to_le_bytes());
    packed.extend(crc.amount().to_le_bytes());
    packed
}

type Outcome = (Vec<u8>, Result<(), GzipError>);

/// What a stream holds, by threads that have chunks of this size, and by flate2 alone.
fn read(stream: &[u8], threads: usize, chunk: usize) -> Outcome {
    let threads = NonZero::new(threads).unwrap();
    let mut bytes = Vec::new();
    let outcome = GzipReader::with_chunks(stream, threads, chunk).read_to_end(&mut bytes);
    let outcome = outcome.map(|_| ());
    let error = |error: io::Error| *error.get_ref().unwrap().downcast_ref().unwrap();
    (bytes, outcome.map_err(error))
}

/// What a stream holds, which is the same in chunks and as flate2 alone finds it.
pub fn compare(stream: &[u8], threads: usize, chunk: usize, name: &str) -> Outcome {
    let (bytes, outcome) = read(stream, 1, chunk);
    let found = read(stream, threads, chunk);
    assert_eq!(found.1, outcome, "{name}, {threads} threads, {chunk}");
    // Where a block is damaged, what was in it before may be given out or not.
    let common = bytes.len().min(found.0.len());
    assert!(bytes[..common] == found.0[..common], "{name}");
    if outcome.is_ok() {
        assert_eq!(bytes.len(), found.0.len(), "{name}");
    }
    (bytes, outcome)
}

/// All that chunks hold, and how many guesses were right, of how many chunks.
fn guessed(member: &[u8], chunk: usize) -> (usize, usize) {
    let workers = Workers::start(NonZero::new(3).unwrap());
    let body = &member[10..];
    let mut packed = Packed::new(body);
    let mut chunks = Chunks::begin(&mut packed, chunk).unwrap();
    let mut bytes = vec![0; 1 << 16];
    while chunks.read(&mut packed, &workers, &mut bytes).unwrap() > 0 {}
    assert!(matches!(chunks.end(&mut packed), Some(Ending::Member)));
    (chunks.used, body.len() / chunk)
}

#[test]
fn threads_inflate_most_of_a_large_member() {
    let text = reads(4 << 20);
    for level in [2, 4, 6, 9] {
        let packed = member(&text, level, usize::MAX, FlushCompress::None);
        let (used, all) = guessed(&packed, 1 << 16);
        assert!(
            all >= 4 && used + 2 >= all,
            "level {level}: {used} of {all}"
        );
    }
}

#[test]
fn any_member_is_read_as_by_flate2() {
    let text = reads(400_000);
    let mut random = random();
    let noise: Vec<u8> = (0..150_000).map(|_| random() as u8).collect();
    let zeros = vec![0; 3 << 20];
    let mixed = [&text[..100_000], &noise[..50_000], &zeros[..300_000], &text].concat();
    let texts = [
        ("reads", &text),
        ("noise", &noise),
        ("zeros", &zeros),
        ("mixed", &mixed),
    ];
    for (name, text) in texts {
        for level in 0..=9 {
            // Blocks of the usual length, and short ones, behind which empty ones are that the search does not find.
            let (step, flush) = match level % 3 {
                0 => (usize::MAX, FlushCompress::None),
                1 => (5000, FlushCompress::Sync),
                _ => (9000, FlushCompress::Full),
            };
            let packed = member(text, level, step, flush);
            let chunk = [1 << 11, 1 << 13, 1 << 15][level as usize / 4];
            for threads in [2, 3, 4] {
                let name = format!("{name}, level {level}");
                let (bytes, outcome) = compare(&packed, threads, chunk, &name);
                assert!(outcome.is_ok() && bytes == *text, "{name}");
            }
        }
    }
}

#[test]
fn members_of_any_size_follow_each_other() {
    let text = reads(120_000);
    let large = member(&text, 6, 7000, FlushCompress::Sync);
    let parts = [
        &large[..],
        &gzip(b""),
        &gzip(&text[..2000]),
        &blocks(&text),
        &large,
        &large,
        &gzip(&text[..20]),
        &large,
    ];
    let stream = parts.concat();
    for end in [&b""[..], &[0; 3000], b"x", b"\0\0x", b"\x1f\x8b\x08\0"] {
        let stream = [&stream[..], end].concat();
        for chunk in [1000, 5000, 40_000] {
            for threads in [2, 3, 4] {
                let (bytes, outcome) = compare(&stream, threads, chunk, "members");
                let expected = match end {
                    b"" | [0, 0, 0, ..] => Ok(()),
                    b"\x1f\x8b\x08\0" => Err(GzipError::CutOff),
                    _ => Err(GzipError::Trailing),
                };
                assert_eq!(outcome, expected);
                assert_eq!(bytes.len(), 4 * text.len() + 2020 + text.len());
            }
        }
    }
}

/// A member of several chunks that is not large, and what is in it.
pub fn small() -> (Vec<u8>, Vec<u8>) {
    let text = reads(5000);
    let packed = member(&text, 6, 700, FlushCompress::Sync);
    (text, packed)
}

#[test]
fn cut_at_every_byte() {
    let (text, packed) = small();
    let stream = [&packed[..], &gzip(&text[..9])].concat();
    for len in 0..stream.len() {
        let (bytes, outcome) = compare(&stream[..len], 3, 200, &format!("cut at {len}"));
        let is_whole = len == 0 || len == packed.len();
        assert_eq!(outcome.is_ok(), is_whole, "{len}");
        assert!(
            [&text[..], &text[..9]].concat().starts_with(&bytes),
            "{len}"
        );
    }
}

#[test]
fn changed_at_every_byte() {
    let (_, packed) = small();
    let mut errors = 0;
    for at in 0..packed.len() {
        let mut changed = packed.clone();
        changed[at] ^= 1 << (at * 5 % 8);
        let (_, outcome) = compare(&changed, 3, 200, &format!("changed at {at}"));
        let trailer = packed.len() - 8;
        match at {
            // Of a header, time and system say nothing.
            4..10 => assert_eq!(outcome, Ok(()), "{at}"),
            _ if at >= trailer + 4 => assert_eq!(outcome, Err(GzipError::Length)),
            _ if at >= trailer => assert_eq!(outcome, Err(GzipError::Checksum)),
            _ => errors += u32::from(outcome.is_err()),
        }
    }
    // Padding and the flag for text mean nothing.
    assert!(
        errors as usize > packed.len() * 9 / 10,
        "{errors} of {}",
        packed.len()
    );
}

/// The stream of a reader that fails.
struct Failing<'a>(&'a [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.0.read(bytes)? {
            0 => Err(io::ErrorKind::PermissionDenied.into()),
            read => Ok(read),
        }
    }
}

#[test]
fn an_error_of_the_stream_comes_behind_what_was_read() {
    let text = reads(200_000);
    let packed = member(&text, 6, usize::MAX, FlushCompress::None);
    for part in [packed.len() / 2, packed.len() - 4] {
        for chunk in [2000, 9000, packed.len()] {
            let mut bytes = Vec::new();
            let stream = Failing(&packed[..part]);
            let threads = NonZero::new(3).unwrap();
            let outcome = GzipReader::with_chunks(stream, threads, chunk).read_to_end(&mut bytes);
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert!(bytes.len() > text.len() / 3 && text.starts_with(&bytes));
        }
    }
}

#[test]
fn a_reader_may_end_at_any_time() {
    let packed = member(&reads(1 << 20), 6, usize::MAX, FlushCompress::None);
    for len in [1, 100_000, 500_000] {
        let threads = NonZero::new(4).unwrap();
        let mut reader = GzipReader::with_chunks(&packed[..], threads, 1 << 14);
        reader.read_exact(&mut vec![0; len]).unwrap();
    }
}

/// Blocks whose codes repeat what is far behind, at any distance, so that guesses have markers to their end.
#[test]
fn windows_reach_back() {
    let mut random = random();
    let noise: Vec<u8> = (0..32_000).map(|_| random() as u8).collect();
    let mut text = noise.clone();
    while text.len() < 2_000_000 {
        let from = text.len() - 32_000 + random() as usize % 300;
        let len = 50 + random() as usize % 200;
        text.extend_from_within(from..from + len);
    }
    let packed = member(&text, 9, usize::MAX, FlushCompress::None);
    for chunk in [4000, 20_000] {
        let (bytes, outcome) = compare(&packed, 3, chunk, "far");
        assert!(outcome.is_ok() && bytes == text);
    }
}

/// Run it alone, optimised, on a machine with nothing else to do. `GPUMAP_MEASURED_GZIP` names a file of gzip.
#[test]
#[ignore = "a measurement, of some seconds"]
fn how_fast_a_member_is_inflated() {
    let packed = match std::env::var("GPUMAP_MEASURED_GZIP") {
        Ok(path) => std::fs::read(path).unwrap(),
        Err(_) => member(&reads(1 << 29), 6, usize::MAX, FlushCompress::None),
    };
    let cores = std::thread::available_parallelism().unwrap().get();
    let mut lengths = Vec::new();
    let mut bytes = vec![0; 1 << 20];
    for threads in [1, 3, 4, 8, 16, cores].into_iter().filter(|&n| n <= cores) {
        let start = std::time::Instant::now();
        let mut reader = GzipReader::new(&packed[..], NonZero::new(threads).unwrap());
        let mut len = 0;
        loop {
            let read = reader.read(&mut bytes).unwrap();
            if read == 0 {
                break;
            }
            len += read;
            std::hint::black_box(&bytes[..read]);
        }
        let rate = len as f64 / start.elapsed().as_secs_f64() / 1e9;
        println!("{threads:>2} threads: {len} bytes, {rate:.2} GB/s");
        lengths.push(len);
    }
    assert!(lengths.iter().all(|&len| len == lengths[0]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn any_stream_is_read_as_by_flate2(
        members in prop::collection::vec((0usize..60_000, 0u32..10, 500usize..9000, 0usize..4), 1..4),
        chunk in 300usize..9000,
        threads in 3usize..5,
        change in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        keep in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let text = reads(60_000);
        let mut stream = Vec::new();
        for (len, level, step, flush) in members {
            let flush = [
                FlushCompress::None,
                FlushCompress::Partial,
                FlushCompress::Sync,
                FlushCompress::Full,
            ][flush];
            stream.extend(member(&text[..len], level, step, flush));
        }
        if let Some((at, with)) = change {
            let at = at.index(stream.len());
            stream[at] ^= with;
        }
        if let Some(keep) = keep {
            stream.truncate(keep.index(stream.len() + 1));
        }
        let _ = compare(&stream, threads, chunk, "any");
    }
}
