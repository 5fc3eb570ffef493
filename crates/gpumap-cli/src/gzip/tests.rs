pub use super::chunks::tests::{compare, small};
use super::*;
use proptest::prelude::*;
use std::io::Write;

/// A plain member.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A member with these subfields in its header. The length that a field BC says is the right one, and a little more.
fn with_fields(bytes: &[u8], fields: &[(&[u8; 2], usize)], more: i32) -> Vec<u8> {
    let mut body = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    body.write_all(bytes).unwrap();
    let body = body.finish().unwrap();
    let field: usize = fields.iter().map(|(_, len)| 4 + len).sum();
    let len = 12 + field + body.len() + TRAILER;
    let size = (len as i32 - 1 + more) as u16;
    let mut member = vec![0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff];
    member.extend((field as u16).to_le_bytes());
    for (name, len) in fields {
        member.extend(*name);
        member.extend((*len as u16).to_le_bytes());
        let value = size.to_le_bytes();
        member.extend((0..*len).map(|i| value.get(i).copied().unwrap_or(7)));
    }
    member.extend(body);
    let mut crc = Crc::new();
    crc.update(bytes);
    member.extend(crc.sum().to_le_bytes());
    member.extend(crc.amount().to_le_bytes());
    member
}

/// A block as bgzip writes it.
fn block(bytes: &[u8]) -> Vec<u8> {
    with_fields(bytes, &[(b"BC", 2)], 0)
}

/// Blocks and the empty one at their end, as bgzip writes them.
pub fn blocks(bytes: &[u8]) -> Vec<u8> {
    let blocks = bytes.chunks(0xff00).map(block);
    blocks.chain([block(b"")]).flatten().collect()
}

/// A member with all that a header can have.
fn with_names(bytes: &[u8]) -> Vec<u8> {
    let plain = with_fields(bytes, &[(b"XX", 3)], 0);
    let (head, body) = plain.split_at(19);
    let mut member = [head, b"name\0a comment\0"].concat();
    member[3] = 4 | 8 | 16 | 2;
    let mut crc = Crc::new();
    crc.update(&member);
    member.extend((crc.sum() as u16).to_le_bytes());
    member.extend(body);
    member
}

/// Gives so many bytes at once, at most.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(self.1);
        self.0.read(&mut bytes[..most])
    }
}

/// What a stream holds, and whether it lacks its last block.
fn read(stream: &[u8], threads: usize, step: usize) -> Result<(Vec<u8>, bool), GzipError> {
    let threads = NonZero::new(threads).unwrap();
    let mut reader = GzipReader::new(Slow(stream, step), threads);
    let mut bytes = Vec::new();
    match reader.read_to_end(&mut bytes) {
        Ok(_) => Ok((bytes, reader.lacks_end_block())),
        Err(error) => Err(*error.get_ref().unwrap().downcast_ref().unwrap()),
    }
}

/// The same, however it is read.
fn read_any_way(stream: &[u8]) -> Result<(Vec<u8>, bool), GzipError> {
    let first = read(stream, 1, usize::MAX);
    for (threads, step) in [(2, 1), (3, 17)] {
        assert_eq!(read(stream, threads, step), first);
    }
    first
}

#[test]
fn members_of_all_kinds_are_read_in_any_order() {
    let text = b"ACGTTGCA".repeat(30);
    let text = text.as_slice();
    let members: Vec<(&str, Vec<u8>, bool)> = vec![
        ("gzip", gzip(text), false),
        ("blocks", blocks(text), false),
        ("a block", block(text), true),
        ("names", with_names(text), false),
        (
            "a field before",
            with_fields(text, &[(b"XX", 5), (b"BC", 2)], 0),
            true,
        ),
        (
            "a field after",
            with_fields(text, &[(b"BC", 2), (b"XX", 0)], 0),
            true,
        ),
        ("another BC", with_fields(text, &[(b"BC", 4)], 0), false),
        (
            "another BC first",
            with_fields(text, &[(b"BC", 1), (b"BC", 2)], 0),
            true,
        ),
        (
            "a length below",
            with_fields(text, &[(b"BC", 2)], -1),
            false,
        ),
        ("a length above", with_fields(text, &[(b"BC", 2)], 1), false),
        ("no length", with_fields(text, &[(b"BC", 2)], -40), false),
        (
            "a length beyond",
            with_fields(text, &[(b"BC", 2)], 5000),
            false,
        ),
        ("nothing", gzip(b""), false),
        (
            "a field that is cut",
            {
                let mut member = with_fields(text, &[(b"BC", 2)], 0);
                member[14] = 200;
                member
            },
            false,
        ),
    ];
    for (first_name, first, _) in &members {
        for (second_name, second, is_open) in &members {
            let expected = [&first[..], second].map(|member| {
                let len = if *member == gzip(b"") { 0 } else { text.len() };
                &text[..len]
            });
            let expected = expected.concat();
            for end in [&b""[..], &[0], &[0; 600]] {
                let stream = [&first[..], second, end].concat();
                let found = read_any_way(&stream).map(|(bytes, _)| bytes);
                assert_eq!(found, Ok(expected.clone()), "{first_name}, {second_name}");
            }
            let (_, lacks_end) = read_any_way(&[&first[..], second].concat()).unwrap();
            assert_eq!(lacks_end, *is_open, "{first_name}, {second_name}");
        }
    }
    assert_eq!(read_any_way(b""), Ok((Vec::new(), false)));
}

#[test]
fn many_blocks_are_read_in_their_order() {
    let text: Vec<u8> = (0..400_000u32)
        .flat_map(|i| i.wrapping_mul(i).to_string().into_bytes())
        .collect();
    let whole = blocks(&text);
    for threads in [1, 2, 7] {
        let found = read(&whole, threads, usize::MAX);
        assert!(found == Ok((text.clone(), false)), "{threads}");
    }
    // One in the middle says another length: what follows it is read as well.
    let liar = with_fields(b"liar", &[(b"BC", 2)], 3);
    let stream = [&whole[..], &liar, &whole].concat();
    let expected = [&text[..], b"liar", &text].concat();
    assert!(read(&stream, 3, 5000).unwrap().0 == expected);
}

#[test]
fn cut_at_every_byte() {
    let text = b"ACGTTGCA".repeat(9);
    let parts = [
        gzip(&text),
        block(&text),
        block(b"C"),
        with_names(b"A"),
        gzip(b""),
        block(b""),
    ];
    let stream = parts.concat();
    let mut ends = vec![0];
    for part in &parts {
        ends.push(ends[ends.len() - 1] + part.len());
    }
    let texts = [&text[..], &text, b"C", b"A", b"", b""];
    for len in 0..=stream.len() {
        let found = read_any_way(&stream[..len]);
        match ends.iter().position(|&end| end == len) {
            Some(whole) => {
                let expected = texts[..whole].concat();
                assert_eq!(found, Ok((expected, [2, 3].contains(&whole))), "{len}");
            }
            None => assert_eq!(found, Err(GzipError::CutOff), "{len}"),
        }
    }
}

#[test]
fn changed_bytes_are_seen() {
    let text = b"ACGTTGCAGGATTACA".repeat(20);
    let packed = [
        (gzip(&text), 0),
        (blocks(&text), block(b"").len()),
        (with_names(&text), 0),
        (block(&text), 0),
    ];
    for (good, behind) in packed {
        let checksum = good.len() - behind - TRAILER;
        for at in 0..good.len() {
            for flip in [1, 0x10, 0x80, 0xff] {
                let mut changed = good.clone();
                changed[at] ^= flip;
                match read(&changed, 2, 1000) {
                    // In a header, what nothing depends on: times, systems, lengths of blocks.
                    Ok((bytes, _)) => {
                        assert!(bytes == text, "{at}");
                        assert!(!(checksum..checksum + TRAILER).contains(&at), "{at}");
                    }
                    Err(error) if (checksum..checksum + 4).contains(&at) => {
                        assert_eq!(error, GzipError::Checksum);
                    }
                    Err(error) if (checksum + 4..checksum + TRAILER).contains(&at) => {
                        assert_eq!(error, GzipError::Length);
                    }
                    Err(_) => {}
                }
            }
        }
    }
}

#[test]
fn what_is_behind_the_last_member_is_none_or_zeros() {
    for end in [&b"x"[..], b"\0\0x", b"\x1f\x8c", b">a\nACGT\n"] {
        for first in [gzip(b"A"), blocks(b"A")] {
            let stream = [&first[..], end].concat();
            assert_eq!(read_any_way(&stream), Err(GzipError::Trailing), "{end:?}");
        }
    }
    let stream = [&gzip(b"A")[..], b"\0", &gzip(b"C")].concat();
    assert_eq!(read_any_way(&stream), Err(GzipError::Trailing));
    for head in [
        &b"\x1f\x8b\x07\0\0\0\0\0\0\0"[..],
        b"\x1f\x8b\x08\x20\0\0\0\0\0\0",
    ] {
        assert_eq!(read_any_way(head), Err(GzipError::Header));
    }
}

/// A header has no end: no more memory than allowed.
#[test]
fn a_name_without_end_is_refused() {
    let head = [0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 0];
    let mut stream = GzipReader::new(head.chain(io::repeat(b'x')), NonZero::<usize>::MIN);
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(
        error.get_ref().unwrap().downcast_ref(),
        Some(&GzipError::Header)
    );
}

proptest! {
    #[test]
    fn any_members_are_read(
        members in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..3000), 0..5), 0..12),
        threads in 1usize..4,
        step in 1usize..5000,
    ) {
        let mut stream = Vec::new();
        for (bytes, kind) in &members {
            stream.extend(match kind {
                0 => gzip(bytes),
                1 => with_names(bytes),
                2 => with_fields(bytes, &[(b"BC", 2)], 9),
                3 => blocks(bytes),
                _ => block(bytes),
            });
        }
        let expected: Vec<u8> = members.into_iter().flat_map(|(bytes, _)| bytes).collect();
        prop_assert_eq!(read(&stream, threads, step).unwrap().0, expected);
    }
}
