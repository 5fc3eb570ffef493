//! The pieces of an input put together again: how many records, and whether one is too long.

use crate::parse::Parsed;

/// How much was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceTotals {
    /// FASTA or FASTQ records.
    pub records: u64,
    /// Bases in them, Ns included.
    pub bases: u64,
}

/// What is known of the pieces of one input, from the first on.
#[derive(Debug)]
pub struct Ledger {
    most: u64,
    totals: SequenceTotals,
    lines: u64,
    /// Bytes of the last record so far.
    record: u64,
}

impl Ledger {
    /// For records of `most` bytes at most.
    pub fn new(most: u64) -> Self {
        Self {
            most,
            totals: SequenceTotals::default(),
            lines: 0,
            record: 0,
        }
    }

    /// Adds the next piece. An error is the number of the record that is too long, from 1 on.
    pub fn add(&mut self, piece: Parsed) -> Result<(), u64> {
        let before = self.totals.records;
        self.record += piece.head;
        if self.record > self.most {
            return Err(before);
        }
        if let Some(record) = piece.too_long {
            return Err(before + record);
        }
        self.totals.records += piece.records;
        self.totals.bases += piece.bases;
        self.lines += piece.lines;
        if piece.records > 0 {
            self.record = piece.tail;
            if self.record > self.most {
                return Err(self.totals.records);
            }
        }
        Ok(())
    }

    /// The totals of all pieces.
    pub fn totals(&self) -> SequenceTotals {
        self.totals
    }

    /// Line ends of all pieces.
    pub fn lines(&self) -> u64 {
        self.lines
    }
}
