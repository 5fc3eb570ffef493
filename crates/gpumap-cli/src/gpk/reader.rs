//! [`Reader`]: k-mers of a database, all in their order or some by name.

use std::fs::File;
use std::io;
use std::ops::Range;

use rayon::prelude::*;

use super::bits::PADDING;
use super::block::{self, MOST, MOST_BYTES};
use super::{Damage, END, HEADER, MAGIC, Totals, VERSION, entry_bytes, header_of, u32_at};
use crate::error::{Error, Result};
use crate::kind::KmerKind;
use crate::kmer::{Code, KmerLength, Strand};
use crate::source::read_at;

/// Queries of a thread at once: enough that those of one block come together.
const QUERIES: usize = 1 << 12;

/// Which k-mers a file has, as its header says.
pub fn kind_of(name: &str, file: &File) -> Result<KmerKind> {
    let mut bytes = [0; HEADER];
    match read_at(file, &mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(in_file(name)(damaged("it ends in its header")))
        }
        read => {
            read.map_err(unread(name))?;
            kind_in(&bytes).map_err(in_file(name))
        }
    }
}

fn kind_in(bytes: &[u8; HEADER]) -> Result<KmerKind, Damage> {
    if !bytes.starts_with(&MAGIC) {
        return Err(Damage::NotADatabase);
    }
    let found = u32_at(bytes, 8);
    if found != VERSION {
        return Err(Damage::Version { found });
    }
    let strand = match bytes[13] {
        0 => Some(Strand::AsRead),
        1 => Some(Strand::Canonical),
        _ => None,
    };
    match (KmerLength::new(bytes[12]), strand, &bytes[14..]) {
        (Some(length), Some(strand), [0, 0]) => Ok(KmerKind { length, strand }),
        _ => Err(damaged("its header says nothing that is known")),
    }
}

/// Bytes of the keys of a database of these k-mers.
pub fn key_bytes(kind: KmerKind) -> u16 {
    match kind.length.is_wide() {
        false => 8,
        true => 16,
    }
}

fn damaged(problem: &'static str) -> Damage {
    Damage::Frame { problem }
}

fn in_file(name: &str) -> impl Fn(Damage) -> Error {
    move |cause| Error::Database {
        name: name.to_owned(),
        cause,
    }
}

fn unread(name: &str) -> impl Fn(io::Error) -> Error {
    move |source| match source.kind() {
        io::ErrorKind::UnexpectedEof => in_file(name)(damaged("it has become shorter")),
        _ => Error::Read {
            name: name.to_owned(),
            source,
        },
    }
}

/// Hands the k-mers of a file of so many bytes to `take`, as numbers with their counts.
pub fn read<C: Code>(
    name: &str,
    file: File,
    length: u64,
    take: &mut impl FnMut(C, u64) -> Result<()>,
) -> Result<()> {
    /// Blocks at a time.
    const BLOCKS: usize = 64;
    let reader = Reader::<C>::open(name, file, length)?;
    let (mut keys, mut counts) = (Vec::new(), Vec::new());
    for first in (0..reader.blocks()).step_by(BLOCKS) {
        let blocks = first..reader.blocks().min(first + BLOCKS);
        reader.read_all(blocks, &mut keys, &mut counts)?;
        let pairs = keys.iter().zip(&counts);
        pairs
            .into_iter()
            .try_for_each(|(&key, &count)| take(key, count))?;
    }
    Ok(())
}

/// A database whose frame is whole. Blocks are read and checked when they are needed.
#[derive(Debug)]
pub struct Reader<C> {
    name: String,
    file: File,
    kind: KmerKind,
    totals: Totals,
    /// The first k-mer of each block.
    firsts: Vec<C>,
    /// Where each block begins, and where the last one ends.
    places: Vec<u64>,
    checksums: Vec<u32>,
}

impl<C: Code> Reader<C> {
    /// Opens a file of so many bytes.
    pub fn open(name: &str, file: File, length: u64) -> Result<Self> {
        let kind = kind_of(name, &file)?;
        if kind.length.is_wide() != (size_of::<C>() > size_of::<u64>()) {
            return Err(Error::OtherKeys {
                name: name.to_owned(),
                found: key_bytes(kind),
            });
        }
        let cut = || in_file(name)(damaged("its end does not fit"));
        let end_at = length.checked_sub(END as u64);
        let end_at = end_at.filter(|&at| at >= HEADER as u64).ok_or_else(cut)?;
        let mut end = [0; END];
        read_at(&file, &mut end, end_at).map_err(unread(name))?;
        let (totals, checksum) = end.split_at(END - 4);
        let totals_bytes: &[u8; END - 4] = totals.try_into().map_err(|_| cut())?;
        let totals = Totals::of_bytes(totals_bytes);

        let blocks = totals.kmers.div_ceil(MOST as u64);
        let index_bytes = blocks.checked_mul(entry_bytes::<C>() as u64);
        let index_at = index_bytes.and_then(|bytes| end_at.checked_sub(bytes));
        let index_at = index_at.filter(|&at| at >= HEADER as u64).ok_or_else(cut)?;
        // No longer than the file.
        let mut index = vec![0; (end_at - index_at) as usize];
        read_at(&file, &mut index, index_at).map_err(unread(name))?;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&header_of(kind));
        crc.update(&index);
        crc.update(totals_bytes);
        if crc.finalize() != u32_at(checksum, 0) {
            return Err(in_file(name)(damaged("its index has another checksum")));
        }

        let mut reader = Self {
            name: name.to_owned(),
            file,
            kind,
            totals,
            firsts: Vec::with_capacity(blocks as usize),
            places: Vec::with_capacity(blocks as usize + 1),
            checksums: Vec::with_capacity(blocks as usize),
        };
        let mut at = HEADER as u64;
        for entry in index.chunks_exact(entry_bytes::<C>()) {
            let (key, entry) = entry.split_at(size_of::<C>());
            let mut code = [0; 16];
            code[..key.len()].copy_from_slice(key);
            let first = C::of_number(u128::from_le_bytes(code));
            if reader.firsts.last().is_some_and(|&last| last >= first)
                || kind.why_not(first).is_some()
            {
                return Err(in_file(name)(damaged("its index is out of order")));
            }
            reader.firsts.push(first);
            reader.places.push(at);
            reader.checksums.push(u32_at(entry, 4));
            at += u64::from(u32_at(entry, 0));
        }
        reader.places.push(at);
        match at == index_at {
            true => Ok(reader),
            false => Err(in_file(name)(damaged("its blocks have another length"))),
        }
    }

    /// How many k-mers there are, and the like.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.firsts.len()
    }

    /// K-mers of a block: only the last one has fewer than others.
    fn kmers_of(&self, block: usize) -> usize {
        let before = (block * MOST) as u64;
        (self.totals.kmers - before).min(MOST as u64) as usize
    }

    /// Reads a block into k-mers and counts, as many as it has.
    fn read(&self, block: usize, keys: &mut [C], counts: &mut [u64]) -> Result<()> {
        let at = self.places[block];
        let wrong = |problem| in_file(&self.name)(Damage::Block { block, at, problem });
        let length = self.places[block + 1] - at;
        if length > MOST_BYTES as u64 {
            return Err(wrong("claims to be longer than a block can be"));
        }
        let length = length as usize;
        let mut bytes = vec![0; length + PADDING];
        read_at(&self.file, &mut bytes[..length], at).map_err(unread(&self.name))?;
        if crc32fast::hash(&bytes[..length]) != self.checksums[block] {
            return Err(wrong("has another checksum"));
        }
        let most = match self.firsts.get(block + 1) {
            Some(&next) => C::of_number(next.number() - 1),
            None => !C::zeroed() >> self.kind.length.unused::<C>(),
        };
        let ends = [self.firsts[block], most];
        let unpacked = block::unpack(&bytes, ends, self.totals.largest, keys, counts);
        unpacked.map_err(wrong)?;
        let other = keys.iter().find_map(|&key| self.kind.why_not(key));
        other.map_or(Ok(()), |problem| Err(wrong(problem)))
    }

    /// Puts the k-mers and counts of these blocks into columns, which are as long afterwards. All cores take part.
    pub fn read_all(
        &self,
        blocks: Range<usize>,
        keys: &mut Vec<C>,
        counts: &mut Vec<u64>,
    ) -> Result<()> {
        let kmers = blocks.clone().map(|block| self.kmers_of(block)).sum();
        keys.resize(kmers, C::zeroed());
        counts.resize(kmers, 0);
        let columns = keys.par_chunks_mut(MOST).zip(counts.par_chunks_mut(MOST));
        let blocks = blocks.into_par_iter().zip(columns);
        blocks.try_for_each(|(block, (keys, counts))| self.read(block, keys, counts))
    }

    /// The counts of k-mers in any order, 0 of those that are not there. All cores take part; a block is read once for the k-mers that are in
    /// it, or a few times.
    pub fn counts_of(&self, wanted: &[C]) -> Result<Vec<u64>> {
        let mut found = vec![0; wanted.len()];
        let mut order: Vec<(C, u32)> = wanted.iter().copied().zip(0..).collect();
        order.par_sort_unstable();
        let parts = order.par_chunks(QUERIES).map(|part| self.find(part));
        let parts: Vec<Vec<u64>> = parts.collect::<Result<_>>()?;
        for (&(_, place), count) in order.iter().zip(parts.into_iter().flatten()) {
            found[place as usize] = count;
        }
        Ok(found)
    }

    /// The counts of k-mers that are in their order.
    fn find(&self, wanted: &[(C, u32)]) -> Result<Vec<u64>> {
        let (mut keys, mut counts) = (Vec::new(), Vec::new());
        let mut held = None;
        let count = |&(key, _): &(C, u32)| {
            let Some(block) = self
                .firsts
                .partition_point(|&first| first <= key)
                .checked_sub(1)
            else {
                return Ok(0);
            };
            if held != Some(block) {
                let kmers = self.kmers_of(block);
                keys.resize(kmers, C::zeroed());
                counts.resize(kmers, 0);
                held = None;
                self.read(block, &mut keys, &mut counts)?;
                held = Some(block);
            }
            let place = keys.binary_search(&key);
            Ok(place.map_or(0, |place| counts[place]))
        };
        wanted.iter().map(count).collect()
    }
}
