//! Writing what a table holds: rows of a key and a value, in the formats of [`crate::format`].
//!
//! Text has no header, so that `jellyfish dump -c -t` writes the same lines for k-mers and a dump
//! of numbers reads back as it is.

use std::io::{self, Write};

use rayon::prelude::*;

use crate::emit::{Content, PairWriter, Rows};
use crate::format::Format;
use crate::kmer::Code;
use crate::output::Out;
use crate::progress::Progress;
use crate::text::push_found;
use crate::values::Values;

/// Rows that are made into text at once.
const ROWS: usize = 1 << 14;

/// What a table holds, in the order in which it came out, or sorted by key.
#[derive(Clone, Debug, Default)]
pub struct Pairs<C = u64>(Vec<(C, u64)>);

impl<C: Code> Pairs<C> {
    /// No pairs yet, with memory for so many.
    pub fn with_capacity(pairs: usize) -> Self {
        Self(Vec::with_capacity(pairs))
    }

    /// Adds pairs, as many keys as values, by all cores.
    pub fn extend(&mut self, keys: &[C], values: &[u64]) {
        let pairs = keys.par_iter().copied().zip(values.par_iter().copied());
        self.0.par_extend(pairs);
    }

    /// Orders by key, which makes outputs of two runs comparable byte by byte. All cores take part.
    pub fn sort(&mut self) {
        // Keys are unique, so nothing is left to chance.
        self.0.par_sort_unstable();
    }

    /// The pairs.
    pub fn as_slice(&self) -> &[(C, u64)] {
        &self.0
    }

    /// Writes all pairs that belong to the output; returns how many.
    pub fn write(&self, out: &mut Out, content: Content, progress: &Progress) -> io::Result<u64> {
        progress.start_pairs("writing", self.0.len());
        let mut writer = PairWriter::new(out, content, self.0.len())?;
        writer.write(Rows::Pairs(&self.0), progress)?;
        writer.finish()
    }
}

/// Writes keys in the given order with the values found for them; none leaves its field empty.
/// Text only.
pub fn write_found(
    out: &mut Out,
    format: Format,
    kind: Values,
    keys: &[u64],
    values: &[Option<u64>],
) -> io::Result<()> {
    let mut text = Vec::new();
    for (keys, values) in keys.chunks(ROWS).zip(values.chunks(ROWS)) {
        text.clear();
        let rows = keys.iter().copied().zip(values.iter().copied());
        push_found(rows, kind, format.delimiter(), &mut text);
        out.write_all(&text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::KmerKind;
    use crate::kmer::{KmerLength, Strand};
    use crate::output::{Destination, commit_all};

    fn bytes_of(write: impl FnOnce(&mut Out) -> io::Result<()>) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut staged = Destination::any(&path).stage().unwrap();
        staged.write_with(write).unwrap();
        commit_all(vec![staged]).unwrap();
        std::fs::read(path).unwrap()
    }

    fn written(format: Format, kind: Option<KmerKind>) -> Vec<u8> {
        let mut pairs: Pairs = Pairs::default();
        pairs.extend(&[3, 1], &[u64::MAX, 5]);
        pairs.extend(&[0], &[6]);
        pairs.sort();
        let content = Content::all(format, kind);
        bytes_of(|out| {
            let written = pairs.write(out, content, &Progress::hidden())?;
            assert_eq!(written, 3);
            Ok(())
        })
    }

    #[test]
    fn rows_in_every_format() {
        let kind = Some(KmerKind {
            length: KmerLength::new(2).unwrap(),
            strand: Strand::AsRead,
        });
        assert_eq!(
            written(Format::Csv, None),
            b"0,6\n1,5\n3,18446744073709551615\n"
        );
        assert_eq!(
            written(Format::Tsv, kind),
            b"AA\t6\nAC\t5\nAT\t18446744073709551615\n"
        );
        let bin: Vec<u8> = [0, 6, 1, 5, 3, u64::MAX]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        assert_eq!(written(Format::Bin, kind), bin);
    }

    #[test]
    fn a_key_that_was_not_found_has_an_empty_field() {
        let bytes = bytes_of(|out| {
            write_found(
                out,
                Format::Tsv,
                Values::Unsigned,
                &[7, 8],
                &[None, Some(9)],
            )
        });
        assert_eq!(bytes, b"7\t\n8\t9\n");
    }
}
