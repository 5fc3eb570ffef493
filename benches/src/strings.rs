//! Row maps of strings: words of 8 bytes, URLs of 60 and texts of 1,000, with 1, 10 and 100 % of them different, in the memory of
//! the device. Each is beside a copy of the bytes that are read and written at least.

use anyhow::{Result, ensure};
use gpumap::rows::NO_ROW;
use gpumap::strings::{StringColumn, Strings};
use gpumap::{Buffer, RowMap};

use crate::bench::Bench;
use crate::data::strided;
use crate::measure::Time;

/// What strings are like.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    /// Bytes of one, about.
    bytes: usize,
    /// The string with a number; all of a kind differ.
    string: fn(u64) -> String,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "words",
        bytes: 8,
        string: word,
    },
    Kind {
        name: "URLs",
        bytes: 60,
        string: url,
    },
    Kind {
        name: "texts",
        bytes: 1_000,
        string: text,
    },
];

/// Bytes of the strings of a kind for each of `n`: of long strings there are fewer.
const BYTES_OF_EACH: usize = 64;

/// Six letters that are the number, or more, and none to four that follow from it.
fn word(mut number: u64) -> String {
    let letter = |of: u64| char::from(b'a' + (of % 26) as u8);
    let more = (number % 5) as usize;
    let mut word: String = std::iter::repeat_n(letter(number / 5), more).collect();
    for _ in 0..6 {
        word.push(letter(number));
        number /= 26;
    }
    if number > 0 {
        word.push_str(&number.to_string());
    }
    word
}

fn url(number: u64) -> String {
    let site = number % 10_000;
    format!("https://www.site-{site:04}.example.com/archive/items/{number:012}")
}

/// One that is known by its end.
fn text(number: u64) -> String {
    format!("{}{number:016}", "all work and no play ".repeat(47))
}

/// All kinds.
pub fn run(bench: &mut Bench) -> Result<()> {
    for kind in KINDS {
        for percent in [1, 10, 100] {
            run_strings(bench, kind, percent)?;
        }
    }
    Ok(())
}

/// Strings in the memory of the device.
struct Column {
    offsets: Buffer<i64>,
    bytes: Buffer<u8>,
}

impl Column {
    fn new(bench: &Bench, strings: impl Iterator<Item = String>) -> Result<Self> {
        let strings: Strings = strings.collect();
        Ok(Self {
            offsets: Buffer::from_slice(bench.stream, strings.offsets())?,
            bytes: Buffer::from_slice(bench.stream, strings.bytes())?,
        })
    }

    fn as_strings(&self) -> StringColumn<'_> {
        StringColumn::new(&self.offsets, &self.bytes)
    }

    /// Bytes that a batch of it reads and writes at least: offsets, strings and rows.
    fn moved(&self) -> usize {
        let n = self.offsets.len() - 1;
        self.bytes.len() + n * (size_of::<i64>() + size_of::<u32>())
    }
}

fn run_strings(bench: &mut Bench, kind: Kind, percent: usize) -> Result<()> {
    let n = bench.n.min(bench.n * BYTES_OF_EACH / kind.bytes).max(1);
    let distinct = (n * percent / 100).max(1) as u64;
    let number = |i: u64| strided(i, n as u64) % distinct;
    let all = 0..n as u64;
    let absent = (n as u64..2 * n as u64).map(kind.string);
    let map = RowMap::<str>::builder(bench.device()).hash_seed(1);
    let map = map.capacity(distinct as usize).build()?;
    let mut strings = Rows {
        kind,
        percent,
        n,
        distinct,
        map,
        keys: Column::new(bench, all.map(|i| (kind.string)(number(i))))?,
        absent: Column::new(bench, absent)?,
        told: bench.zeroed(n)?,
        bench,
    };
    strings.insert()?;
    strings.get()
}

/// A map, and what goes in and comes out.
struct Rows<'a, 'b> {
    bench: &'a mut Bench<'b>,
    kind: Kind,
    percent: usize,
    n: usize,
    distinct: u64,
    map: RowMap<str>,
    keys: Column,
    absent: Column,
    told: Buffer<u32>,
}

impl Rows<'_, '_> {
    fn add(&mut self, what: &str, took: Time, moved: usize) {
        let name = format!("{}, {} % distinct, {what}", self.kind.name, self.percent);
        let row = self.bench.beside_copy(name, took, self.n, moved);
        self.bench.report.add(row);
    }

    /// An error unless the rows that were told are those of the strings, and the map has these strings.
    fn verify(&self) -> Result<()> {
        let rows = self.told.to_vec()?;
        let keys = self.map.keys()?;
        ensure!(keys.len() as u64 == self.distinct, "{} keys", keys.len());
        let mut next = 0;
        for (i, &row) in (0..).zip(&rows) {
            ensure!(
                row <= next,
                "rows are not in the order of first occurrences"
            );
            next += u32::from(row == next);
            let expected = (self.kind.string)(strided(i, self.n as u64) % self.distinct);
            let key = keys.get(row as usize);
            ensure!(key == Some(expected.as_bytes()), "a wrong row");
        }
        Ok(())
    }

    fn insert(&mut self) -> Result<()> {
        let (map, column, told) = (&self.map, self.keys.as_strings(), &mut self.told);
        let insert = || map.insert_into(&column, told);
        let (took, new) = self.bench.time_after(|| map.clear(), insert)?;
        ensure!(new as u64 == self.distinct, "{new} new strings");
        self.verify()?;
        // New strings are written once more.
        let bytes = self.keys.moved() + self.map.byte_len()?;
        self.add("insert", took, bytes);
        let (map, column, told) = (&self.map, self.keys.as_strings(), &mut self.told);
        let (took, new) = self.bench.time(|| map.insert_into(&column, told))?;
        ensure!(new == 0, "{new} new strings");
        self.verify()?;
        // Those of the map are read at least once.
        self.add("insert, all present", took, bytes);
        Ok(())
    }

    fn get(&mut self) -> Result<()> {
        let (map, column, told) = (&self.map, self.keys.as_strings(), &mut self.told);
        let (took, ()) = self.bench.time(|| map.get_into(&column, told))?;
        self.verify()?;
        let bytes = self.keys.moved() + self.map.byte_len()?;
        self.add("get, hit", took, bytes);
        let (map, column, told) = (&self.map, self.absent.as_strings(), &mut self.told);
        let (took, ()) = self.bench.time(|| map.get_into(&column, told))?;
        let all_absent = self.told.to_vec()?.into_iter().all(|row| row == NO_ROW);
        ensure!(all_absent, "an absent string has a row");
        let bytes = self.absent.moved();
        self.add("get, miss", took, bytes);
        Ok(())
    }
}
