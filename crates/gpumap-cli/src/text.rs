//! Rows of text: a key, a delimiter, a value, a line end. Numbers and k-mers need no quotes.

use crate::kmer::{Code, KmerLength};
use crate::values::{MOST_TEXT, Values, put_integer};

/// Bytes of a row at most: a k-mer or a number, and a value.
pub const fn most_row<C: Code>() -> usize {
    C::BASES as usize + MOST_TEXT + 2
}

/// Bytes of any row at most.
const MOST_ROW: usize = most_row::<u128>();

/// The letters of four bases.
static LETTERS: [[u8; 4]; 256] = {
    let mut letters = [[0; 4]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut place = 0;
        while place < 4 {
            letters[byte][place] = b"ACGT"[byte >> (6 - 2 * place) & 3];
            place += 1;
        }
        byte += 1;
    }
    letters
};

/// Appends rows, with keys as k-mers of a length, which have counts, or else in decimal.
pub fn push_rows<C: Code>(
    rows: impl Iterator<Item = (C, u64)>,
    kmers: Option<KmerLength>,
    values: Values,
    delimiter: u8,
    out: &mut Vec<u8>,
) {
    let put_number = |key, row: &mut [u8; MOST_ROW]| put_integer(key, row);
    let put_value = |value, row: &mut [u8]| values.put(value, row);
    match kmers {
        None => push(rows, delimiter, out, put_number, put_value),
        Some(length) => {
            let put_kmer = |key, row: &mut [u8; MOST_ROW]| put_kmer(key, length, row);
            push(rows, delimiter, out, put_kmer, put_count);
        }
    }
}

/// Writes a count: most k-mers occur a few times.
fn put_count(count: u64, row: &mut [u8]) -> usize {
    if count < 10 {
        row[0] = b'0' + count as u8;
        return 1;
    }
    Values::Unsigned.put(count, row)
}

/// Appends a row for each key, with its value if it has one.
pub fn push_found(
    rows: impl Iterator<Item = (u64, Option<u64>)>,
    values: Values,
    delimiter: u8,
    out: &mut Vec<u8>,
) {
    let mut row = [0; MOST_ROW];
    for (key, value) in rows {
        let mut len = Values::Unsigned.put(key, &mut row);
        row[len] = delimiter;
        len += 1;
        if let Some(value) = value {
            len += values.put(value, &mut row[len..]);
        }
        row[len] = b'\n';
        out.extend_from_slice(&row[..=len]);
    }
}

/// Writes the bases of a packed k-mer, and more after them that does not count.
fn put_kmer<C: Code>(code: C, length: KmerLength, row: &mut [u8; MOST_ROW]) -> usize {
    let bases = length.get();
    // The first base in the highest bits.
    let code = code << length.unused::<C>();
    let fours = row.chunks_exact_mut(4).take(bases.div_ceil(4));
    for (four, &byte) in fours.zip(code.to_be_bytes().as_ref()) {
        four.copy_from_slice(&LETTERS[usize::from(byte)]);
    }
    bases
}

fn push<C: Code>(
    rows: impl Iterator<Item = (C, u64)>,
    delimiter: u8,
    out: &mut Vec<u8>,
    put_key: impl Fn(C, &mut [u8; MOST_ROW]) -> usize,
    put_value: impl Fn(u64, &mut [u8]) -> usize,
) {
    let mut row = [0; MOST_ROW];
    for (key, value) in rows {
        let mut len = put_key(key, &mut row);
        row[len] = delimiter;
        len += 1;
        len += put_value(value, &mut row[len..]);
        row[len] = b'\n';
        out.extend_from_slice(&row[..=len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmer::text_of;

    fn text<C: Code>(rows: &[(C, u64)], kmers: Option<KmerLength>) -> String {
        let mut out = Vec::new();
        push_rows(
            rows.iter().copied(),
            kmers,
            Values::Unsigned,
            b'\t',
            &mut out,
        );
        String::from_utf8(out).unwrap()
    }

    fn every_length<C: Code>() {
        const FIRST: u128 = 0x1b1b_e4e4_0123_4567_89ab_cdef_1b1b_e4e4;
        for k in 1..=C::BASES {
            let length = KmerLength::new(k).unwrap();
            let used = !C::zeroed() >> length.unused::<C>();
            for code in [0, 1, FIRST, 0x9e37_79b9_7f4a_7c15, u128::MAX] {
                let code = C::of_number(code) & used;
                let kmer = text_of(code, length);
                for count in [0, 9, 10, 12345, u64::MAX] {
                    let row = text(&[(code, count)], Some(length));
                    assert_eq!(row, format!("{kmer}\t{count}\n"));
                    assert!(row.len() <= most_row::<C>());
                }
            }
        }
    }

    #[test]
    fn every_length_of_kmer_is_written_base_by_base() {
        every_length::<u64>();
        every_length::<u128>();
    }

    #[test]
    fn numbers_are_decimal() {
        let rows = [(0_u64, u64::MAX), (u64::MAX, 0), (10, 100)];
        let expected = "0\t18446744073709551615\n18446744073709551615\t0\n10\t100\n";
        assert_eq!(text(&rows, None), expected);
        let rows = [(u128::MAX, 7)];
        let expected = "340282366920938463463374607431768211455\t7\n";
        assert_eq!(text(&rows, None), expected);
    }
}
