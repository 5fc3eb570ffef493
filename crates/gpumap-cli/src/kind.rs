//! [`KmerKind`]: which k-mers a table or a saved map holds, and how a saved map says so.

use std::fmt;

use crate::kmer::{Code, KmerLength, Strand, reverse_complement};

/// Which k-mers the keys of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KmerKind {
    /// How long they are.
    pub length: KmerLength,
    /// On which strand they were counted.
    pub strand: Strand,
}

/// The first byte of the label of a saved map of k-mers.
const MARK: u8 = b'K';

impl KmerKind {
    /// The label of a saved map of them ([`gpumap::file::Header::label`]).
    pub fn label(self) -> [u8; 4] {
        // At most 64 bases.
        let bases = self.length.get() as u8;
        let is_canonical = self.strand == Strand::Canonical;
        [MARK, bases, u8::from(is_canonical), 0]
    }

    /// Why a number is none of these k-mers; `None` if it is one.
    pub fn why_not<C: Code>(self, key: C) -> Option<&'static str> {
        let unused = self.length.unused::<C>();
        let is_longer = unused > 0 && key > !C::zeroed() >> unused;
        if is_longer {
            return Some("it is too large, so k is another, or the file is damaged");
        }
        let is_other_strand =
            self.strand == Strand::Canonical && reverse_complement(key, self.length) < key;
        is_other_strand.then_some(
            "its reverse complement is smaller, so k is another, or each strand was counted for itself",
        )
    }

    /// The k-mers that a label means; none if it is of another program.
    pub fn of_label(label: [u8; 4]) -> Option<Self> {
        let [MARK, bases, strand @ (0 | 1), 0] = label else {
            return None;
        };
        Some(Self {
            length: KmerLength::new(bases)?,
            strand: match strand {
                0 => Strand::AsRead,
                _ => Strand::Canonical,
            },
        })
    }
}

impl fmt::Display for KmerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strand = match self.strand {
            Strand::AsRead => "as read",
            Strand::Canonical => "of both strands as one",
        };
        write!(f, "{}-mers {strand}", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers_of<C: Code>(length: u8) {
        let length = KmerLength::new(length).unwrap();
        let kind = |strand| KmerKind { length, strand };
        let last = !C::zeroed() >> length.unused::<C>();
        assert_eq!(kind(Strand::AsRead).why_not(last), None);
        assert_eq!(kind(Strand::Canonical).why_not(C::zeroed()), None);
        // Only Ts, where only As would do.
        assert!(kind(Strand::Canonical).why_not(last).is_some());
        if let Some(above) = last.number().checked_add(1)
            && C::of_number(above).number() == above
        {
            let above = C::of_number(above);
            assert!(kind(Strand::AsRead).why_not(above).is_some());
            assert!(kind(Strand::Canonical).why_not(above).is_some());
        }
    }

    #[test]
    fn numbers_that_are_no_kmers() {
        for length in 1..=32 {
            numbers_of::<u64>(length);
        }
        for length in 1..=64 {
            numbers_of::<u128>(length);
        }
    }

    #[test]
    fn labels_come_back_and_others_are_none() {
        for bases in 1..=64 {
            for strand in [Strand::AsRead, Strand::Canonical] {
                let length = KmerLength::new(bases).unwrap();
                let kind = KmerKind { length, strand };
                assert_ne!(kind.label(), [0; 4]);
                assert_eq!(KmerKind::of_label(kind.label()), Some(kind));
            }
        }
        for label in [*b"K\0\0\0", *b"K\x41\0\0", *b"K\x15\x02\0", *b"K\x15\0\x01"] {
            assert_eq!(KmerKind::of_label(label), None, "{label:?}");
        }
        assert_eq!(KmerKind::of_label([0; 4]), None);
        assert_eq!(KmerKind::of_label([b'L', 21, 0, 0]), None);
    }
}
