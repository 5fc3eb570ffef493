//! [`PairWriter`]: pairs to an output in any format, by all cores.
//!
//! What is given is cut into pieces. Threads make each piece into a block of bytes, while others write the
//! blocks of the pieces before: to a file each at its place, to a stream in order. At most two spans of
//! pairs are in memory as bytes, however many there are.

use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpumap::Value;
use gpumap::file::{Block, Frame, Header, Kind};
use rayon::prelude::*;

use crate::columns::{ColumnWriter, Group};
use crate::error::Result;
use crate::format::Format;
use crate::gpk;
use crate::kind::KmerKind;
use crate::kmer::{Code, KmerLength};
use crate::output::{Out, Staged};
use crate::progress::Progress;
use crate::text::{most_row, push_rows};
use crate::values::Values;

/// Pairs of a block.
const PIECE: usize = 1 << 14;

/// Pairs of a row group of Parquet: its readers want large ones.
const GROUP: usize = 1 << 17;

/// Pairs that are made into bytes between two looks at what is written.
const SPAN: usize = 1 << 21;

/// Pairs as a table gives them, or as they are sorted.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a, C = u64> {
    /// As many keys as values.
    Columns(&'a [C], &'a [u64]),
    /// Keys with their values.
    Pairs(&'a [(C, u64)]),
}

impl<'a, C: Code> Rows<'a, C> {
    fn len(self) -> usize {
        match self {
            Self::Columns(keys, _) => keys.len(),
            Self::Pairs(pairs) => pairs.len(),
        }
    }

    /// These in pieces of `len` pairs, and a shorter one at the end.
    fn pieces(self, len: usize) -> impl Iterator<Item = Self> {
        (0..self.len()).step_by(len).map(move |start| {
            let end = self.len().min(start + len);
            match self {
                Self::Columns(keys, values) => {
                    Self::Columns(&keys[start..end], &values[start..end])
                }
                Self::Pairs(pairs) => Self::Pairs(&pairs[start..end]),
            }
        })
    }

    /// Hands those with a value within `bounds` to `work`, as an iterator of a type of its own.
    fn within(self, bounds: &RangeInclusive<u64>, work: impl Work<C>) {
        let is_within = |&(_, value): &(C, u64)| bounds.contains(&value);
        match self {
            Self::Columns(keys, values) => {
                let pairs = keys.iter().copied().zip(values.iter().copied());
                work.take(pairs.filter(is_within));
            }
            Self::Pairs(pairs) => work.take(pairs.iter().copied().filter(is_within)),
        }
    }

    /// Two columns of those with a value within `bounds`.
    fn columns(self, bounds: &RangeInclusive<u64>) -> (Vec<C>, Vec<u64>) {
        let mut columns = (
            Vec::with_capacity(self.len()),
            Vec::with_capacity(self.len()),
        );
        self.within(bounds, ToColumns(&mut columns));
        columns
    }
}

/// What is done with pairs: a loop of its own for each way to get them.
trait Work<C> {
    fn take(self, pairs: impl Iterator<Item = (C, u64)>);
}

struct ToColumns<'a, C>(&'a mut (Vec<C>, Vec<u64>));

impl<C: Code> Work<C> for ToColumns<'_, C> {
    fn take(self, pairs: impl Iterator<Item = (C, u64)>) {
        self.0.extend(pairs);
    }
}

struct ToText<'a> {
    kmers: Option<KmerLength>,
    values: Values,
    delimiter: u8,
    out: &'a mut Vec<u8>,
}

impl<C: Code> Work<C> for ToText<'_> {
    fn take(self, pairs: impl Iterator<Item = (C, u64)>) {
        push_rows(pairs, self.kmers, self.values, self.delimiter, self.out);
    }
}

struct ToNumbers<'a>(&'a mut Vec<u8>);

impl<C: Code> Work<C> for ToNumbers<'_> {
    fn take(self, pairs: impl Iterator<Item = (C, u64)>) {
        for (key, value) in pairs {
            let mut pair = [0; number_bytes::<u128>()];
            pair[..size_of::<C>()].copy_from_slice(key.to_le_bytes().as_ref());
            pair[size_of::<C>()..number_bytes::<C>()].copy_from_slice(&value.to_le_bytes());
            self.0.extend_from_slice(&pair[..number_bytes::<C>()]);
        }
    }
}

/// Bytes of a key and its value as numbers.
const fn number_bytes<C>() -> usize {
    size_of::<C>() + size_of::<u64>()
}

/// What an output holds.
#[derive(Clone, Debug)]
pub struct Content {
    /// In which format.
    pub format: Format,
    /// Which k-mers the keys are, if they are any: text has their bases, and a saved map says it.
    pub kind: Option<KmerKind>,
    /// What the values are.
    pub values: Values,
    /// Between key and value in text.
    pub delimiter: u8,
    /// Pairs with other values are left out.
    pub bounds: RangeInclusive<u64>,
    /// No value is larger. A saved map has values of 4 bytes where that is enough for all of them.
    pub largest: u64,
}

impl Content {
    /// All pairs in this format.
    pub fn all(format: Format, kind: Option<KmerKind>) -> Self {
        Self {
            format,
            kind,
            values: Values::Unsigned,
            delimiter: format.delimiter(),
            bounds: 0..=u64::MAX,
            largest: u64::MAX,
        }
    }

    fn is_narrow(&self) -> bool {
        self.largest <= u64::from(u32::MAX)
    }
}

/// Writes pairs to an output.
pub struct PairWriter<'a, C = u64> {
    content: Content,
    target: Target<'a, C>,
    written: u64,
    /// For how long pairs were made into what the target takes, where it is not the output that knows it.
    made: Duration,
}

enum Target<'a, C> {
    /// Text, numbers, or the blocks of a saved map in their frame.
    Blocks(Blocks<'a>, Option<Frame>),
    Columns(Box<ColumnWriter<&'a mut Out>>),
    /// Takes k-mers in their order.
    Kmers(Box<gpk::Writer<'a, C>>),
}

impl<'a, C: Code> PairWriter<'a, C> {
    /// Begins an output of about so many pairs.
    pub fn new(out: &'a mut Out, content: Content, pairs: usize) -> io::Result<Self> {
        let target = match content.format {
            Format::Parquet => {
                Target::Columns(Box::new(ColumnWriter::new::<C>(out, content.values)?))
            }
            Format::Gpumap => {
                let (mut header, bytes) = match content.is_narrow() {
                    true => (Header::new::<C, u32>(pairs as u64), 4),
                    false => (Header::new::<C, u64>(pairs as u64), 8),
                };
                header.value_kind = Some(Kind::Numbers(content.values.number(), bytes));
                if let Some(kind) = content.kind {
                    header.label = kind.label();
                }
                let (frame, header) = Frame::begin(&header);
                out.write_all(&header)?;
                Target::Blocks(Blocks::new(out), Some(frame))
            }
            Format::Gpk => {
                let kind = content.kind.ok_or(io::ErrorKind::InvalidInput)?;
                Target::Kmers(Box::new(gpk::Writer::new(out, kind)?))
            }
            Format::Bin | Format::Csv | Format::Tsv => Target::Blocks(Blocks::new(out), None),
        };
        Ok(Self {
            content,
            target,
            written: 0,
            made: Duration::ZERO,
        })
    }

    /// Adds pairs. An error may be of pairs that were added before.
    pub fn write(&mut self, rows: Rows<'_, C>, progress: &Progress) -> io::Result<()> {
        for span in rows.pieces(SPAN) {
            self.written += match &mut self.target {
                Target::Blocks(blocks, frame) => {
                    let pieces: Vec<Rows<'_, C>> = span.pieces(PIECE).collect();
                    let content = &self.content;
                    let made =
                        blocks.make(pieces.len(), |i, block| make(pieces[i], content, block))?;
                    let mut pairs = 0;
                    for made in made {
                        pairs += made.pairs;
                        if let (Some(frame), Some(block)) = (frame.as_mut(), &made.block) {
                            frame.add(block);
                        }
                    }
                    pairs
                }
                Target::Kmers(kmers) => {
                    let all = 0..=u64::MAX;
                    match span {
                        Rows::Columns(keys, counts) if self.content.bounds == all => {
                            kmers.write(keys, counts)?;
                            keys.len() as u64
                        }
                        _ => {
                            let start = Instant::now();
                            let pieces: Vec<Rows<'_, C>> = span.pieces(GROUP).collect();
                            let within = pieces.par_iter();
                            let within = within.map(|piece| piece.columns(&self.content.bounds));
                            let (keys, counts): (Vec<Vec<C>>, Vec<Vec<u64>>) = within.unzip();
                            let (keys, counts) = (keys.concat(), counts.concat());
                            self.made += start.elapsed();
                            kmers.write(&keys, &counts)?;
                            keys.len() as u64
                        }
                    }
                }
                Target::Columns(columns) => {
                    let start = Instant::now();
                    let pieces: Vec<Rows<'_, C>> = span.pieces(GROUP).collect();
                    let groups = pieces.par_iter().map(|piece| {
                        let (keys, values) = piece.columns(&self.content.bounds);
                        Group::of(&keys, &values, self.content.values)
                    });
                    let groups: io::Result<Vec<Group>> = groups.collect();
                    self.made += start.elapsed();
                    let mut written = 0;
                    for group in groups? {
                        written += group.rows();
                        columns.append(group)?;
                    }
                    written
                }
            };
            progress.advance(span.len());
        }
        Ok(())
    }

    /// Writes what is left and the end; returns how many pairs the output has.
    pub fn finish(self) -> io::Result<u64> {
        match self.target {
            Target::Blocks(blocks, frame) => {
                let out = blocks.finish()?;
                if let Some(frame) = frame {
                    out.write_all(&frame.end())?;
                }
            }
            Target::Columns(columns) => columns.finish()?,
            Target::Kmers(kmers) => return kmers.finish(),
        }
        Ok(self.written)
    }
}

/// Writes about `pairs` pairs as `feed` gives them, columns of keys and values, without all of them in memory.
/// Returns how many pairs the output has.
pub fn stream<C: Code>(
    file: &mut Staged,
    content: Content,
    pairs: usize,
    progress: &Progress,
    feed: impl FnOnce(&mut Take<'_, C>) -> Result<()>,
) -> Result<u64> {
    let failed = file.failed();
    let mut writer = PairWriter::new(file.out(), content, pairs).map_err(&failed)?;
    feed(&mut |keys, values| {
        let rows = Rows::Columns(keys, values);
        writer.write(rows, progress).map_err(&failed)
    })?;
    let made = writer.made;
    let written = writer.finish().map_err(&failed)?;
    file.out().spent.pack += made;
    Ok(written)
}

/// What takes keys with their values, some at a time.
pub type Take<'a, C = u64> = dyn FnMut(&[C], &[u64]) -> Result<()> + 'a;

/// Blocks of bytes on their way to an output.
pub struct Blocks<'a> {
    out: &'a mut Out,
    /// To be written.
    ready: Vec<Vec<u8>>,
    /// Memory of blocks that were written.
    spare: Vec<Vec<u8>>,
    /// Whether one thread writes while others make blocks.
    is_alone: bool,
}

impl<'a> Blocks<'a> {
    /// None yet. They are soon made, and written by all threads.
    pub fn new(out: &'a mut Out) -> Self {
        Self {
            out,
            ready: Vec::new(),
            spare: Vec::new(),
            is_alone: false,
        }
    }

    /// None yet. To make them takes about as long as to write them, so one thread writes while others make the next.
    pub fn written_by_one(out: &'a mut Out) -> Self {
        Self {
            is_alone: true,
            ..Self::new(out)
        }
    }

    /// Makes so many blocks, each in an empty vector, while those before are written.
    pub fn make<T: Send>(
        &mut self,
        blocks: usize,
        make: impl Fn(usize, &mut Vec<u8>) -> io::Result<T> + Sync,
    ) -> io::Result<Vec<T>> {
        let mut to_fill = std::mem::take(&mut self.spare);
        to_fill.resize_with(blocks, Vec::new);
        let is_made = AtomicBool::new(!self.is_alone);
        let (written, (made, pack)) = rayon::join(
            || {
                let rest = self.out.append_while_made(&self.ready, &is_made)?;
                self.out.append(rest)
            },
            || {
                let start = Instant::now();
                let blocks = to_fill.par_iter_mut().enumerate();
                let made = blocks.map(|(i, block)| {
                    block.clear();
                    make(i, block)
                });
                let made = made.collect::<io::Result<Vec<T>>>();
                is_made.store(true, Ordering::Relaxed);
                (made, start.elapsed())
            },
        );
        self.out.spent.pack += pack;
        written?;
        let made = made?;
        self.spare = std::mem::replace(&mut self.ready, to_fill);
        Ok(made)
    }

    /// Writes what is left; returns the output.
    pub fn finish(self) -> io::Result<&'a mut Out> {
        self.out.append(&self.ready)?;
        Ok(self.out)
    }
}

/// What a block was made of.
struct Made {
    pairs: u64,
    /// Of a saved map, if there is a pair.
    block: Option<Block>,
}

/// Makes the bytes of a piece.
fn make<C: Code>(piece: Rows<'_, C>, content: &Content, bytes: &mut Vec<u8>) -> io::Result<Made> {
    let (pairs, block) = match content.format {
        Format::Csv | Format::Tsv => {
            bytes.reserve(piece.len() * most_row::<C>());
            let work = ToText {
                kmers: content.kind.map(|kind| kind.length),
                values: content.values,
                delimiter: content.delimiter,
                out: bytes,
            };
            piece.within(&content.bounds, work);
            (memchr::memchr_iter(b'\n', bytes).count(), None)
        }
        Format::Gpumap => {
            let (keys, values) = piece.columns(&content.bounds);
            let block = match content.is_narrow() {
                true => push_block(&keys, &narrowed(&values)?, bytes),
                false => push_block(&keys, &values, bytes),
            };
            (keys.len(), block?)
        }
        // Of the other formats pieces are not made here.
        Format::Bin | Format::Parquet | Format::Gpk => {
            bytes.reserve(piece.len() * number_bytes::<C>());
            piece.within(&content.bounds, ToNumbers(bytes));
            (bytes.len() / number_bytes::<C>(), None)
        }
    };
    let pairs = pairs as u64;
    Ok(Made { pairs, block })
}

/// Appends the block of these pairs, if there are any.
fn push_block<C: Code, V: Value>(
    keys: &[C],
    values: &[V],
    bytes: &mut Vec<u8>,
) -> io::Result<Option<Block>> {
    if keys.is_empty() {
        return Ok(None);
    }
    let block = Block::of(keys, values).map_err(io::Error::other)?;
    bytes.extend(block.start());
    bytes.extend_from_slice(bytemuck::cast_slice(keys));
    bytes.extend_from_slice(bytemuck::cast_slice(values));
    Ok(Some(block))
}

/// The same numbers in 4 bytes each.
fn narrowed(values: &[u64]) -> io::Result<Vec<u32>> {
    let narrow = |&value| u32::try_from(value).map_err(io::Error::other);
    values.iter().map(narrow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::Pairs;
    use crate::kmer::Strand;
    use crate::output::{Destination, commit_all};
    use crate::pairs::{Input, for_each_batch};
    use crate::sorter::Sorter;

    /// Writes rows given in parts, and reads them again.
    fn there_and_back(
        parts: &[Rows<'_>],
        format: Format,
        bounds: RangeInclusive<u64>,
    ) -> Vec<[u64; 2]> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut staged = Destination::any(&path).stage().unwrap();
        let mut content = Content::all(format, None);
        content.bounds = bounds;
        let mut written = 0;
        let write = |out: &mut Out| {
            let mut writer = PairWriter::new(out, content, 0)?;
            for &rows in parts {
                writer.write(rows, &Progress::hidden())?;
            }
            written = writer.finish()?;
            Ok(())
        };
        staged.write_with(write).unwrap();
        commit_all(vec![staged]).unwrap();
        let input = Input::new(&path, Some(format));
        let mut back = Vec::new();
        let take = |keys: &[u64], values: &[u64]| {
            back.extend(keys.iter().zip(values).map(|(&key, &value)| [key, value]));
            Ok(())
        };
        let read = for_each_batch::<_, 2>(input, 1 << 16, &Progress::hidden(), take).unwrap();
        assert_eq!(read, written, "{format}");
        back
    }

    #[test]
    fn rows_keep_their_order_over_pieces_and_spans() {
        let keys: Vec<u64> = (0..SPAN as u64 + 3 * PIECE as u64 / 2)
            .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let values: Vec<u64> = (0..keys.len() as u64).map(|i| i % 1_000).collect();
        let pairs: Vec<(u64, u64)> = keys.iter().copied().zip(values.iter().copied()).collect();
        let parts = [
            Rows::Columns(&keys[..5], &values[..5]),
            Rows::Columns(&[], &[]),
            Rows::Pairs(&pairs[5..PIECE + 6]),
            Rows::Columns(&keys[PIECE + 6..], &values[PIECE + 6..]),
        ];
        for format in [Format::Bin, Format::Gpumap, Format::Parquet, Format::Tsv] {
            for bounds in [0..=u64::MAX, 7..=700, 999..=999, 1_000..=2_000] {
                let expected = pairs.iter().filter(|pair| bounds.contains(&pair.1));
                let expected = expected.map(|&(key, value)| [key, value]);
                let back = there_and_back(&parts, format, bounds.clone());
                assert!(expected.eq(back), "{format}, {bounds:?}");
            }
        }
    }

    #[test]
    fn values_that_fit_take_4_bytes_in_a_saved_map() {
        let write = |largest: u64, value: u64| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("out");
            let mut staged = Destination::any(&path).stage().unwrap();
            let mut content = Content::all(Format::Gpumap, None);
            content.largest = largest;
            staged.write_with(|out| {
                let mut writer = PairWriter::new(out, content, 3)?;
                let (keys, values) = ([u64::MAX, 1, 2], [value, 0, 6]);
                writer.write(Rows::Columns(&keys, &values), &Progress::hidden())?;
                writer.finish().map(drop)
            })?;
            commit_all(vec![staged])?;
            let bytes = std::fs::metadata(&path).unwrap().len();
            let input = Input::new(&path, None);
            let input = Input {
                format: Some(Format::Gpumap),
                ..input
            };
            let mut back = Vec::new();
            let take = |keys: &[u64], values: &[u64]| {
                back.extend(keys.iter().copied().zip(values.iter().copied()));
                Ok(())
            };
            for_each_batch::<_, 2>(input, 1 << 16, &Progress::hidden(), take)?;
            assert_eq!(back, [(u64::MAX, value), (1, 0), (2, 6)]);
            Ok::<u64, crate::error::Error>(bytes)
        };
        let (most, more) = (u64::from(u32::MAX), u64::from(u32::MAX) + 1);
        let narrow = write(most, most).unwrap();
        assert_eq!(write(more, more).unwrap(), narrow + 3 * 4);
        assert_eq!(write(more, 5).unwrap(), narrow + 3 * 4);
        // Never cut off.
        assert!(write(most, more).is_err());
    }

    #[test]
    fn no_rows_are_a_whole_file() {
        for format in [Format::Bin, Format::Gpumap, Format::Parquet, Format::Csv] {
            assert!(there_and_back(&[], format, 0..=u64::MAX).is_empty());
        }
    }

    /// A stream takes the blocks in order, and an error of a block ends it.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error() {
        let values = vec![1; 3 * PIECE];
        for format in [Format::Bin, Format::Gpumap, Format::Parquet, Format::Csv] {
            let mut staged = Destination::any("/dev/full").stage().unwrap();
            let outcome = staged.write_with(|out| {
                let content = Content::all(format, None);
                let mut writer = PairWriter::new(out, content, values.len())?;
                writer.write(Rows::Columns(&values, &values), &Progress::hidden())?;
                writer.finish().map(drop)
            });
            let outcome = outcome.and_then(|()| commit_all(vec![staged]));
            assert!(outcome.is_err(), "{format}");
        }
    }

    /// Seconds that this process has worked, in the kernel and outside; 0 where the system does not say.
    fn worked() -> [f64; 2] {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields: Vec<&str> = stat.split(' ').collect();
        let ticks = |place: usize| fields.get(place).and_then(|ticks| ticks.parse().ok());
        [14, 13].map(|place| ticks(place).unwrap_or(0.0) / 100.0)
    }

    /// Run it alone, optimised, on a machine with nothing else to do; `TMPDIR` says where the files are.
    #[test]
    #[ignore = "a measurement, of some seconds"]
    fn how_fast_pairs_are_written() {
        let pairs = std::env::var("GPUMAP_MEASURED_PAIRS").map_or(1 << 24, |n| n.parse().unwrap());
        let keys: Vec<u64> = (0..pairs)
            .map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 22)
            .collect();
        let values: Vec<u64> = keys.iter().map(|key| 1 + (key % 64) / 63).collect();
        let kind = KmerKind {
            length: KmerLength::new(21).unwrap(),
            strand: Strand::AsRead,
        };
        let cores = std::thread::available_parallelism().unwrap().get();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        for format in [
            Format::Tsv,
            Format::Bin,
            Format::Gpumap,
            Format::Gpk,
            Format::Parquet,
        ] {
            let mut bytes = Vec::new();
            for threads in [1, 2, 4, 8, 16].into_iter().filter(|&n| n <= cores) {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let (start, before) = (std::time::Instant::now(), worked());
                let write = || {
                    let mut staged = Destination::any(&path).stage().unwrap();
                    let content = Content::all(format, Some(kind));
                    let progress = Progress::hidden();
                    let all = |take: &mut Take<'_>| {
                        let mut spans = keys.chunks(SPAN).zip(values.chunks(SPAN));
                        if format != Format::Gpk {
                            return spans.try_for_each(|(keys, values)| take(keys, values));
                        }
                        let start = std::time::Instant::now();
                        let mut sorter = Sorter::new(42, 0..=u64::MAX);
                        spans.for_each(|(keys, values)| sorter.extend(keys, values));
                        println!("  in buckets after {:?}", start.elapsed());
                        let mut sorted = sorter.sorted();
                        let mut sorting = std::time::Duration::ZERO;
                        loop {
                            let start = std::time::Instant::now();
                            let is_there = sorted.advance();
                            sorting += start.elapsed();
                            if !is_there {
                                println!("  sorted in {sorting:?}");
                                return Ok(());
                            }
                            let (keys, values) = sorted.pairs();
                            take(keys, values)?;
                        }
                    };
                    let written = stream(&mut staged, content, keys.len(), &progress, all);
                    assert_eq!(written.unwrap(), pairs);
                    commit_all(vec![staged]).unwrap();
                };
                pool.build().unwrap().install(write);
                let seconds = start.elapsed().as_secs_f64();
                let length = std::fs::metadata(&path).unwrap().len();
                let (rate, gb) = (pairs as f64 / seconds / 1e6, length as f64 / seconds / 1e9);
                let [kernel, user] = [0, 1].map(|i| worked()[i] - before[i]);
                println!("  worked {kernel:.2} s in the kernel, {user:.2} s outside");
                println!(
                    "{format} {threads:>2} threads: {seconds:.3} s, {rate:.1} M pairs/s, {gb:.2} GB/s"
                );
                bytes.push(length);
            }
            assert!(bytes.iter().all(|length| length == &bytes[0]), "{format}");
        }
        let mut sorted = Pairs::default();
        sorted.extend(&keys, &values);
        let start = std::time::Instant::now();
        sorted.sort();
        let rate = pairs as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!("sorted by {cores} threads: {rate:.1} M pairs/s");
        assert!(sorted.as_slice().is_sorted());
    }
}
