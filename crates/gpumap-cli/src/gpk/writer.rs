//! [`Writer`]: k-mers in their order to an output, packed by all cores while others write.

use std::io::{self, Write};

use super::block::{self, MOST};
use super::{Totals, entry_bytes, header_of};
use crate::emit::Blocks;
use crate::kind::KmerKind;
use crate::kmer::Code;
use crate::output::Out;

/// Blocks that a thread packs at once: some hundred thousand bytes.
const GROUP: usize = 8;

/// K-mers that are packed between two looks at what is written: groups for many cores.
const SPAN: usize = 1 << 21;

/// Writes a database.
pub struct Writer<'a, C> {
    kind: KmerKind,
    blocks: Blocks<'a>,
    /// K-mers that are no whole block yet.
    rest: (Vec<C>, Vec<u64>),
    index: Vec<u8>,
    totals: Totals,
    last: Option<C>,
}

/// A group of blocks that was packed.
struct Packed {
    entries: Vec<u8>,
    largest: u64,
    sum: u128,
}

impl<'a, C: Code> Writer<'a, C> {
    /// Begins a database.
    pub fn new(out: &'a mut Out, kind: KmerKind) -> io::Result<Self> {
        out.write_all(&header_of(kind))?;
        Ok(Self {
            kind,
            blocks: Blocks::written_by_one(out),
            rest: (Vec::new(), Vec::new()),
            index: Vec::new(),
            totals: Totals::default(),
            last: None,
        })
    }

    /// Adds k-mers, which rise, beyond those before too.
    pub fn write(&mut self, mut keys: &[C], mut counts: &[u64]) -> io::Result<()> {
        if !self.rest.0.is_empty() {
            let more = keys.len().min(MOST - self.rest.0.len());
            self.rest.0.extend_from_slice(&keys[..more]);
            self.rest.1.extend_from_slice(&counts[..more]);
            (keys, counts) = (&keys[more..], &counts[more..]);
            if self.rest.0.len() == MOST {
                self.write_rest()?;
            }
        }
        let (whole, part) = (keys.len() / MOST * MOST, keys.len() % MOST);
        for start in (0..whole).step_by(SPAN) {
            let span = start..whole.min(start + SPAN);
            self.write_blocks(&keys[span.clone()], &counts[span])?;
        }
        if part > 0 {
            self.rest.0.extend_from_slice(&keys[whole..]);
            self.rest.1.extend_from_slice(&counts[whole..]);
        }
        Ok(())
    }

    fn write_rest(&mut self) -> io::Result<()> {
        let (mut keys, mut counts) = std::mem::take(&mut self.rest);
        self.write_blocks(&keys, &counts)?;
        keys.clear();
        counts.clear();
        self.rest = (keys, counts);
        Ok(())
    }

    fn write_blocks(&mut self, keys: &[C], counts: &[u64]) -> io::Result<()> {
        let groups = keys.chunks(GROUP * MOST).zip(counts.chunks(GROUP * MOST));
        let groups: Vec<(&[C], &[u64])> = groups.collect();
        let last_of = |group: usize| match group.checked_sub(1) {
            Some(before) => groups[before].0.last().copied(),
            None => self.last,
        };
        let packed = self.blocks.make(groups.len(), |group, out| {
            let (keys, counts) = groups[group];
            let rises = keys.is_sorted_by(|one, next| one < next);
            match rises && last_of(group) < keys.first().copied() {
                true => Ok(pack(keys, counts, out)),
                false => Err(io::Error::other("k-mers out of their order")),
            }
        })?;
        self.last = keys.last().copied();
        for packed in packed {
            self.index.extend(packed.entries);
            self.totals.largest = self.totals.largest.max(packed.largest);
            self.totals.sum += packed.sum;
        }
        self.totals.kmers += keys.len() as u64;
        Ok(())
    }

    /// Writes what is left and the end; returns how many k-mers there are.
    pub fn finish(mut self) -> io::Result<u64> {
        if !self.rest.0.is_empty() {
            self.write_rest()?;
        }
        let totals = self.totals.to_bytes();
        let mut crc = crc32fast::Hasher::new();
        crc.update(&header_of(self.kind));
        crc.update(&self.index);
        crc.update(&totals);
        let out = self.blocks.finish()?;
        out.write_all(&self.index)?;
        out.write_all(&totals)?;
        out.write_all(&crc.finalize().to_le_bytes())?;
        Ok(self.totals.kmers)
    }
}

/// Packs blocks one behind the other.
fn pack<C: Code>(keys: &[C], counts: &[u64], out: &mut Vec<u8>) -> Packed {
    let mut packed = Packed {
        entries: Vec::with_capacity(keys.len().div_ceil(MOST) * entry_bytes::<C>()),
        largest: 0,
        sum: 0,
    };
    for (keys, counts) in keys.chunks(MOST).zip(counts.chunks(MOST)) {
        let start = out.len();
        block::pack(keys, counts, out);
        let bytes = &out[start..];
        let entries = &mut packed.entries;
        entries.extend_from_slice(keys[0].to_le_bytes().as_ref());
        entries.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        entries.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
        packed.largest = counts.iter().copied().fold(packed.largest, u64::max);
        let sum: u128 = counts.iter().map(|&count| u128::from(count)).sum();
        packed.sum += sum;
    }
    packed
}
