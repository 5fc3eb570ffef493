//! Reading numbers from files: pairs of a key and a value, or keys alone, in the formats of
//! [`crate::format`]. `-` is standard input.

use std::io::{self, BufReader, Read};
use std::path::Path;

use crate::columns;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::gpk;
use crate::kmer::Code;
use crate::progress::Progress;
use crate::rows::{Row, Rows};
use crate::saved;
use crate::source::{open_input, unpacked};
use crate::threads;
use crate::values::Values;

/// Default of the most bytes of a row of text: two numbers take 40.
pub const MOST_ROW: u64 = 1 << 20;

/// Default of the most bytes of a page of Parquet: some writers make one of a whole row group.
pub const MOST_PAGE: u64 = 1 << 29;

/// A file of pairs or keys.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// As given on the command line.
    pub path: &'a Path,
    /// Its format, whatever its name.
    pub format: Option<Format>,
    /// Bytes of a row or page at most, instead of [`MOST_ROW`] and [`MOST_PAGE`].
    pub max_record: Option<u64>,
    /// The names of the columns of keys and values, where they are not the only ones.
    pub columns: Option<[&'a str; 2]>,
    /// What the values are.
    pub values: Values,
}

impl<'a> Input<'a> {
    /// A file of the usual columns and limits.
    pub fn new(path: &'a Path, format: Option<Format>) -> Self {
        Self {
            path,
            format,
            max_record: None,
            columns: None,
            values: Values::Unsigned,
        }
    }
}

/// Reads rows of `N` numbers, keys alone or with values, and hands the two columns to `visit`, `batch` rows at a time
/// and the rest at the end. Returns the number of rows.
pub fn for_each_batch<C: Code, const N: usize>(
    input: Input<'_>,
    batch: usize,
    progress: &Progress,
    mut visit: impl FnMut(&[C], &[u64]) -> Result<()>,
) -> Result<u64> {
    let path = input.path;
    let format = Format::of(path, input.format)?;
    let name = path.display().to_string();
    let (reader, length): (Box<dyn Read + Send>, _) = if path.as_os_str() == "-" {
        (Box::new(io::stdin()), None)
    } else {
        let (file, length) = open_input(path)?;
        (Box::new(file), length)
    };
    if input.columns.is_some() && matches!(format, Format::Bin | Format::Gpumap | Format::Gpk) {
        return Err(Error::NoNames { name, format });
    }
    progress.start_bytes(length);
    let reader = progress.reading(reader);

    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let mut rows = 0;
    let mut take_pair = |key: C, value: u64| {
        keys.push(key);
        if N > 1 {
            values.push(value);
        }
        rows += 1;
        if keys.len() == batch {
            visit(&keys, &values)?;
            keys.clear();
            values.clear();
        }
        Ok(())
    };
    let mut take = |row: [u64; N]| take_pair(C::of_number(row[0].into()), row[N - 1]);
    match format {
        Format::Bin => {
            if let Some(bytes) = length {
                check_length::<N>(&name, bytes)?;
            }
            read_bin(&name, reader, &mut take)?;
        }
        Format::Gpumap => {
            let reader = BufReader::with_capacity(1 << 18, reader);
            saved::read::<C, N>(&name, reader, input.values, &mut take_pair)?;
        }
        Format::Gpk => {
            // Of no use here: it goes to the end of the file first.
            drop(reader);
            let Some(length) = length else {
                return Err(Error::NeedsFile { name, format });
            };
            if N > 1 && input.values != Values::Unsigned {
                let found = Values::Unsigned;
                return Err(Error::OtherValues { name, found });
            }
            gpk::read(&name, open_input(path)?.0, length, &mut take_pair)?;
        }
        Format::Parquet => {
            // Of no use here: it goes to the end of the file first.
            drop(reader);
            if length.is_none() {
                return Err(Error::NeedsFile { name, format });
            }
            let most = input.max_record.unwrap_or(MOST_PAGE);
            columns::read::<C, N>(
                &name,
                open_input(path)?.0,
                input.columns,
                input.values,
                most,
                &mut take_pair,
            )?;
        }
        Format::Csv | Format::Tsv => {
            // Whatever its name is.
            let unpacked = unpacked(Box::new(reader), threads::of_unpacking(1));
            let (_, reader) = unpacked.map_err(|source| Error::Read {
                name: name.clone(),
                source,
            })?;
            let most = input.max_record.unwrap_or(MOST_ROW);
            let rows = Rows::new(&name, reader, format.delimiter(), most);
            let kinds = [Values::Unsigned, input.values];
            read_text(&name, rows, input.columns, kinds, &mut take)?;
        }
    }
    if !keys.is_empty() {
        visit(&keys, &values)?;
    }
    Ok(rows)
}

/// All keys of a file of keys.
pub fn read_keys(input: Input<'_>, progress: &Progress) -> Result<Vec<u64>> {
    let mut keys = Vec::new();
    for_each_batch::<_, 1>(input, 1 << 16, progress, |batch, _| {
        keys.extend_from_slice(batch);
        Ok(())
    })?;
    Ok(keys)
}

fn check_length<const N: usize>(name: &str, bytes: u64) -> Result<()> {
    let record = N * size_of::<u64>();
    if bytes.is_multiple_of(record as u64) {
        return Ok(());
    }
    Err(Error::OddLength {
        name: name.to_owned(),
        bytes,
        record,
        columns: N,
    })
}

fn read_bin<const N: usize>(
    name: &str,
    reader: impl Read,
    take: &mut impl FnMut([u64; N]) -> Result<()>,
) -> Result<()> {
    let mut reader = BufReader::with_capacity(1 << 18, reader);
    let mut bytes = 0;
    let mut row = [0; N];
    loop {
        for number in &mut row {
            let mut word = [0; size_of::<u64>()];
            let filled = fill(&mut reader, &mut word).map_err(|source| Error::Read {
                name: name.to_owned(),
                source,
            })?;
            bytes += filled as u64;
            if filled < word.len() {
                // The end. A length seen beforehand may be that of a file still growing.
                return check_length::<N>(name, bytes);
            }
            *number = u64::from_le_bytes(word);
        }
        take(row)?;
    }
}

/// Fills `word` as far as there are bytes.
fn fill(reader: &mut impl Read, word: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < word.len() {
        match reader.read(&mut word[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads rows of text: `columns` are the names of the columns that are read, for which a header says where they are, and
/// `kinds` what their numbers are.
fn read_text<const N: usize>(
    name: &str,
    mut rows: Rows<'_, impl Read>,
    columns: Option<[&str; 2]>,
    kinds: [Values; 2],
    take: &mut impl FnMut([u64; N]) -> Result<()>,
) -> Result<()> {
    let mut is_first = true;
    // Which fields are read, of how many.
    let mut places: [usize; N] = std::array::from_fn(|place| place);
    let mut expected = N;
    while let Some(row) = rows.next_row()? {
        let line = row.line;
        // Of one column, a blank line is a row whose field is missing: a lookup that passed over it would have an answer less.
        let is_header_to_come = is_first && columns.is_some();
        if row.len() == 0 && (expected > 1 || is_header_to_come) {
            continue;
        }
        let is_first = std::mem::take(&mut is_first);
        if let Some(columns) = columns
            && is_first
        {
            let header: Vec<_> = row.fields().map(String::from_utf8_lossy).collect();
            let header: Vec<&str> = header.iter().map(AsRef::as_ref).collect();
            places = columns::named_places(name, columns, &header)?;
            expected = header.len();
            continue;
        }
        if row.len().max(1) != expected {
            return Err(Error::Fields {
                name: name.to_owned(),
                line,
                found: row.len(),
                expected,
            });
        }
        if is_first && is_header(&row) {
            continue;
        }
        let mut numbers = [0; N];
        for ((number, &place), kind) in numbers.iter_mut().zip(&places).zip(kinds) {
            let field = row.field(place);
            let text = std::str::from_utf8(field).ok();
            *number = text
                .and_then(|text| kind.parse(text))
                .ok_or_else(|| Error::Number {
                    name: name.to_owned(),
                    line,
                    expected: kind,
                    field: String::from_utf8_lossy(field).chars().take(40).collect(),
                })?;
        }
        take(numbers)?;
    }
    Ok(())
}

fn is_header(row: &Row<'_>) -> bool {
    row.len() > 0
        && row.fields().all(|field| match field.first() {
            Some(first) => !first.is_ascii_digit() && !b"+-".contains(first),
            None => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read<const N: usize>(name: &str, bytes: &[u8]) -> Result<Vec<[u64; N]>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let mut rows = Vec::new();
        let input = Input::new(&path, None);
        let count = for_each_batch::<u64, N>(input, 2, &Progress::hidden(), |keys, values| {
            let batch = keys.len();
            assert!((1..=2).contains(&batch));
            assert_eq!(values.len(), (N - 1) * batch);
            let columns = [keys, values];
            rows.extend((0..batch).map(|i| std::array::from_fn(|column| columns[column][i])));
            Ok(())
        })?;
        assert_eq!(count, rows.len() as u64);
        Ok(rows)
    }

    #[test]
    fn text_with_and_without_header() {
        let rows = [[1, 2], [3, u64::MAX], [255, 0]];
        let csv = b"1,2\n 3 , 18446744073709551615\r\n\n0xff,\"0\"";
        assert_eq!(read("a.csv", csv).unwrap(), rows);
        assert_eq!(
            read("a.CSV", &[b"key,value\n", &csv[..]].concat()).unwrap(),
            rows
        );
        assert_eq!(read("a.tsv", b"k\tv\n7\t8\n").unwrap(), [[7, 8]]);
        assert_eq!(read("a.tsv", b"key\n7\n").unwrap(), [[7]]);
        assert_eq!(read::<2>("a.csv", b"").unwrap(), [[0; 2]; 0]);
    }

    #[test]
    fn text_errors_name_the_line() {
        for (bytes, bad_line) in [
            (&b"1,2\n3\n"[..], 2),
            (b"1,2\n3,4,5\n", 2),
            (b"1\t2\n", 1),
            (b"key\n1,2\n", 1),
        ] {
            assert!(
                matches!(read::<2>("a.csv", bytes), Err(Error::Fields { line, .. }) if line == bad_line),
                "{bytes:?}"
            );
        }
        for (bytes, bad_line) in [
            (&b"1,2\nx,4\n"[..], 2),
            (b"key,1\n", 1),
            (b"-1,2\n", 1),
            (b"18446744073709551616,x\n", 1),
            (b"0x,1\n", 1),
            (b"0x+1,1\n", 1),
            (b"+1,1\n", 1),
            (b",\n", 1),
            (b"1.0,1\n", 1),
        ] {
            assert!(
                matches!(read::<2>("a.csv", bytes), Err(Error::Number { line, .. }) if line == bad_line),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn binary_records_are_whole() {
        let bytes: Vec<u8> = [1, u64::MAX, 3, 0]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        assert_eq!(read("a.bin", &bytes).unwrap(), [[1, u64::MAX], [3, 0]]);
        assert_eq!(read("a.bin", &bytes).unwrap(), [[1], [u64::MAX], [3], [0]]);
        for length in [1, 8, 15, 17, 24, 31] {
            assert!(
                matches!(
                    read::<2>("a.bin", &bytes[..length]),
                    Err(Error::OddLength { .. })
                ),
                "{length}"
            );
        }
        assert!(matches!(
            read::<1>("a.bin", &bytes[..12]),
            Err(Error::OddLength { .. })
        ));
        assert!(matches!(
            read_bin("pipe", &bytes[..20], &mut |_: [u64; 2]| Ok(())),
            Err(Error::OddLength { bytes: 20, .. })
        ));
    }

    #[test]
    fn the_name_says_the_format() {
        assert!(matches!(
            read::<2>("a.txt", b"1,2"),
            Err(Error::UnknownFormat { .. })
        ));
    }
}
