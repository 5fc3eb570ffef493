//! Gzip by all cores: blocks of the output, each packed by itself into a member of its own.
//!
//! There is no Zstandard beside it: ruzstd's encoder, the only one without C, makes counts of k-mers 1.7 times as large
//! as gzip does (version 0.9.1, measured on 2026-11-27).
//!
//! The members are those of bgzip (BGZF), which says how long each is: `gzip` reads them one after the other as one file, and
//! this program, samtools and others unpack them by several threads. Where a block begins depends on the bytes alone, so the
//! outcome is the same for any number of threads.

use std::io;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use rayon::prelude::*;

/// Bytes of a block before it is packed, as bgzip has them: so many never take more than [`MOST_MEMBER`], even if they
/// cannot be packed.
pub const BLOCK: usize = 0xff00;

/// Bytes of a member at most: its length is a number of 16 bits.
const MOST_MEMBER: usize = 1 << 16;

/// What gzip itself takes.
const LEVEL: u32 = 6;

/// Deflate, no name, and an extra field `BC` with two bytes, the length less 1, which come next.
const START: [u8; 16] = *b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0";

/// The last member, without bytes: a file that is cut off lacks it.
pub const END: [u8; 28] =
    *b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0\x1b\0\x03\0\0\0\0\0\0\0\0\0";

/// Packs bytes, each [`BLOCK`] of them and the rest by itself.
pub fn pack(bytes: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let blocks = bytes.par_chunks(BLOCK);
    let packer = || Compress::new(Compression::new(LEVEL), false);
    blocks.map_init(packer, member).collect()
}

fn member(packer: &mut Compress, block: &[u8]) -> io::Result<Vec<u8>> {
    let mut member = Vec::with_capacity(MOST_MEMBER);
    member.extend_from_slice(&START);
    member.extend_from_slice(&[0; 2]);
    packer.reset();
    let ended = packer.compress_vec(block, &mut member, FlushCompress::Finish);
    let ended = ended.map_err(io::Error::other)?;
    let mut sum = Crc::new();
    sum.update(block);
    member.extend_from_slice(&sum.sum().to_le_bytes());
    member.extend_from_slice(&sum.amount().to_le_bytes());
    let last = u16::try_from(member.len() - 1).ok();
    let (Status::StreamEnd, Some(last)) = (ended, last) else {
        return Err(io::Error::other("a block takes too many bytes"));
    };
    member[START.len()..][..2].copy_from_slice(&last.to_le_bytes());
    Ok(member)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::num::NonZero;

    use flate2::read::MultiGzDecoder;

    use super::*;
    use crate::gzip::GzipReader;

    fn unpacked(packed: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        MultiGzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        let mut blocks = Vec::new();
        let threads = NonZero::new(2).unwrap();
        let mut reader = GzipReader::new(packed, threads);
        reader.read_to_end(&mut blocks).unwrap();
        assert!(!reader.lacks_end_block());
        assert!(blocks == bytes);
        bytes
    }

    #[test]
    fn what_is_packed_is_read_as_gzip_and_as_blocks() {
        let text: Vec<u8> = (0..60_000_u32)
            .flat_map(|i| format!("{:x}\t{}\n", i.wrapping_mul(0x9e37_79b9), i % 7).into_bytes())
            .collect();
        // Of these nothing is saved.
        let mut random = 1_u64;
        let noise: Vec<u8> = (0..3 * BLOCK)
            .map(|_| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (random >> 56) as u8
            })
            .collect();
        for bytes in [
            &text[..],
            &noise,
            b"a",
            &text[..BLOCK],
            &text[..BLOCK + 1],
            b"",
        ] {
            let mut packed = pack(bytes).unwrap().concat();
            packed.extend_from_slice(&END);
            assert!(unpacked(&packed) == bytes);
            assert!(packed.len() < bytes.len() + 64 * (bytes.len() / BLOCK + 2));
        }
        assert!(pack(&text).unwrap().concat().len() * 4 < text.len() * 3);
    }
}
