//! `gpumap join`: the rows of two tables with equal keys. The right table is kept in memory, and its keys are the table on the
//! device; the left one is read batch by batch.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use gpumap::Device;
use gpumap::primitives::{JoinTable, Pairs};
use gpumap::rows::NO_ROW;
use rayon::prelude::*;

use super::BATCH;
use super::args::{How, JoinArgs};
use super::file::{TableFile, format_of, place, shortened};
use super::keys::{KEY_TYPES, KeyColumn, MOST_KEY_BYTES, Stored, push_rows};
use super::writer::{TableWriter, check};
use crate::cli::Session;
use crate::error::{Error, Result};
use crate::output::{Destination, check_paths, commit_all};
use crate::summary::Summary;

/// What stands behind the name of a column of the right table that the left one has too.
const SUFFIX: &str = "_right";

/// Runs the command.
pub fn run(args: &JoinArgs, session: &Session) -> Result<()> {
    let output = Destination::new(&args.tables.output);
    let format = format_of(output.path(), args.tables.output_format)?;
    let inputs: [&Path; 2] = [&args.left, &args.right];
    for input in inputs {
        format_of(input, args.tables.format)?;
    }
    check_paths(&inputs, &[&output])?;
    let engine = session.open()?;
    let progress = session.progress();
    let start = Instant::now();

    let files = inputs.map(|input| TableFile::open(args.tables.input(input)));
    let [left, right] = files;
    let (mut left, mut right) = (left?, right?);
    left.expect_typed(&args.tables.types, Some(&right))?;
    learn(args, &mut left, &mut right)?;
    let mut keys = Keys::new(args, [&left, &right])?;
    let result = Columns::new(args, &left, &right)?;
    check(&output.path().display().to_string(), format, &result.schema)?;

    let (mut words, mut kept) = (Vec::new(), Vec::new());
    let places = [&result.right[..], &keys.places[1][..]].concat();
    right.read(&places, &progress, |batch| {
        keys.insert(batch, result.right.len(), &mut words)?;
        if args.how.has_right() {
            let columns: Vec<usize> = (0..result.right.len()).collect();
            kept.push(
                batch
                    .project(&columns)
                    .map_err(Error::arrow("choose columns"))?,
            );
        }
        Ok(())
    })?;
    let kept = Kept::new(kept, &result.right_types, args.how);
    let mut busy = Busy::default();
    let table = busy.time(|| probe_side(engine.device(), &words, keys.width))?;
    drop(words);

    let mut staged = output.stage()?;
    let mut writer = TableWriter::new(&mut staged, format, &result.schema)?;
    let places = [&result.left[..], &keys.places[0][..]].concat();
    let mut words = Vec::new();
    let rows = left.read(&places, &progress, |batch| {
        words.clear();
        keys.get(batch, result.left.len(), &mut words)?;
        let mut probe = |rows: Range<usize>| {
            let words = &words[rows.start * keys.width..rows.end * keys.width];
            busy.time(|| table.probe(words, args.how))
        };
        in_halves(0..batch.num_rows(), &mut probe, &mut |rows, pairs| {
            let batch = batch.slice(rows.start, rows.len());
            for pairs in pairs.chunks(BATCH) {
                let mut gather =
                    |part: Range<usize>| result.gather(&batch, &kept, &pairs[part], args.how);
                in_halves(0..pairs.len(), &mut gather, &mut |_, rows| {
                    writer.write(&rows)
                })?;
            }
            Ok(())
        })
    })?;
    let written = writer.finish()?;
    commit_all(vec![staged])?;
    progress.finish();

    session.report(&Summary {
        job: "join",
        device: engine.name(),
        facts: vec![
            ("left rows", rows),
            ("right rows", table.rows() as u64),
            ("written", written),
        ],
        pairs: rows + table.rows() as u64,
        distinct: table.distinct() as u64,
        seconds: start.elapsed().as_secs_f64(),
        map_seconds: busy.0.as_secs_f64(),
        steps: Vec::new(),
        warning: None,
    });
    Ok(())
}

/// Gives columns of keys of which nothing is known the type of those that they have to equal.
fn learn(args: &JoinArgs, left: &mut TableFile, right: &mut TableFile) -> Result<()> {
    for on in &args.on {
        let places = [left.place(&on.left)?, right.place(&on.right)?];
        let types = [(&*left, places[0]), (&*right, places[1])];
        let types = types.map(|(file, place)| file.schema.field(place).data_type().clone());
        left.adopt(places[0], &types[1]);
        right.adopt(places[1], &types[0]);
    }
    Ok(())
}

/// Makes something of rows, and hands it to `take`: of all at once or, where that is more than there is room for, of each half.
fn in_halves<T>(
    rows: Range<usize>,
    make: &mut dyn FnMut(Range<usize>) -> Result<T>,
    take: &mut dyn FnMut(Range<usize>, T) -> Result<()>,
) -> Result<()> {
    match make(rows.clone()) {
        Err(error) if rows.len() > 1 && is_of_room(&error) => {
            let middle = rows.start + rows.len() / 2;
            in_halves(rows.start..middle, make, take)?;
            in_halves(middle..rows.end, make, take)
        }
        made => take(rows, made?),
    }
}

/// Whether fewer rows may do what failed.
fn is_of_room(error: &Error) -> bool {
    use gpumap::Error::{CapacityOverflow, OutOfMemory};
    match error {
        Error::Map { source, .. } => {
            matches!(source, OutOfMemory { .. } | CapacityOverflow { .. })
        }
        Error::Arrow { source, .. } => matches!(source, ArrowError::OffsetOverflowError(_)),
        _ => false,
    }
}

/// The columns of the right table that are wanted, in batches as they were read: a column of text of all rows may be longer than
/// arrow's can be.
struct Kept {
    /// The batches of each column. One more has a missing value, if there is need for it.
    columns: Vec<Vec<ArrayRef>>,
    /// The first row of each batch.
    starts: Vec<usize>,
}

impl Kept {
    fn new(batches: Vec<RecordBatch>, types: &[DataType], how: How) -> Self {
        let needs_missing = how == How::Left || batches.is_empty();
        let columns = types.iter().enumerate().map(|(at, data_type)| {
            let arrays = batches.iter().map(|batch| Arc::clone(batch.column(at)));
            let missing = needs_missing.then(|| new_null_array(data_type, 1));
            arrays.chain(missing).collect()
        });
        let starts = batches.iter().scan(0, |rows, batch| {
            let start = *rows;
            *rows += batch.num_rows();
            Some(start)
        });
        Self {
            columns: columns.collect(),
            starts: starts.collect(),
        }
    }

    /// In which batch a row is, and where there.
    fn place(&self, row: u32) -> (usize, usize) {
        match row {
            // Behind all batches.
            NO_ROW => (self.starts.len(), 0),
            row => {
                let behind = self.starts.partition_point(|&start| start <= row as usize);
                let batch = behind.saturating_sub(1);
                (batch, row as usize - self.starts[batch])
            }
        }
    }

    /// Values of a column.
    fn gather(&self, column: usize, places: &[(usize, usize)]) -> Result<ArrayRef, ArrowError> {
        let batches: Vec<&dyn Array> = self.columns[column].iter().map(AsRef::as_ref).collect();
        interleave(&batches, places)
    }
}

/// The seconds of the library.
#[derive(Default)]
struct Busy(Duration);

impl Busy {
    fn time<T>(&mut self, work: impl FnOnce() -> gpumap::Result<T>) -> Result<T> {
        let start = Instant::now();
        let done = work();
        self.0 += start.elapsed();
        done.map_err(Error::while_doing("cannot join"))
    }
}

/// The keys of both tables, as rows of words.
struct Keys {
    columns: Vec<KeyColumn>,
    /// The type that the keys of both sides are converted to.
    types: Vec<DataType>,
    /// Where they are, in the left and in the right table.
    places: [Vec<usize>; 2],
    /// Words of a row.
    width: usize,
}

impl Keys {
    fn new(args: &JoinArgs, files: [&TableFile; 2]) -> Result<Self> {
        let mut keys = Self {
            columns: Vec::new(),
            types: Vec::new(),
            places: [Vec::new(), Vec::new()],
            width: 0,
        };
        let mut is_nullable = false;
        for on in &args.on {
            let names = [&on.left, &on.right];
            let places = [files[0].place(names[0])?, files[1].place(names[1])?];
            let fields = [0, 1].map(|side| files[side].schema.field(places[side]));
            let types = fields.map(Field::data_type);
            for side in [0, 1] {
                if Stored::of(types[side]).is_none() {
                    return Err(files[side].refused(names[side], KEY_TYPES));
                }
                keys.places[side].push(places[side]);
                is_nullable |= fields[side].is_nullable();
            }
            let common = common(types).ok_or_else(|| Error::OtherType {
                name: files[1].name.clone(),
                column: shortened(names[1]),
                found: shortened(&types[1].to_string()),
                expected: shortened(&types[0].to_string()),
            })?;
            let stored = Stored::of(&common).ok_or_else(|| files[1].refused(names[1], KEY_TYPES));
            keys.columns.push(KeyColumn::new(names[1], stored?));
            keys.types.push(common);
        }
        let bytes = keys.columns.iter().map(KeyColumn::bytes).sum();
        if bytes > MOST_KEY_BYTES {
            return Err(Error::LongKey {
                bytes,
                most: MOST_KEY_BYTES,
            });
        }
        // A word more tells missing keys of one side from those of the other.
        let words = bytes / size_of::<u32>() + usize::from(is_nullable);
        keys.width = words.next_power_of_two();
        Ok(keys)
    }

    /// Adds the rows of a batch of the right table, whose keys begin at this column.
    fn insert(&mut self, batch: &RecordBatch, first: usize, words: &mut Vec<u32>) -> Result<()> {
        let mut stored = Vec::new();
        for (at, (column, data_type)) in self.columns.iter_mut().zip(&self.types).enumerate() {
            let keys = converted(batch.column(first + at), data_type)?;
            stored.push((column.insert(&keys)?, column.bytes()));
        }
        push_rows(&stored, batch.num_rows(), self.width, 2, words);
        Ok(())
    }

    /// The same of the left table.
    fn get(&self, batch: &RecordBatch, first: usize, words: &mut Vec<u32>) -> Result<()> {
        let mut stored = Vec::new();
        for (at, (column, data_type)) in self.columns.iter().zip(&self.types).enumerate() {
            let keys = converted(batch.column(first + at), data_type)?;
            stored.push((column.get(&keys)?, column.bytes()));
        }
        push_rows(&stored, batch.num_rows(), self.width, 1, words);
        Ok(())
    }
}

fn converted(keys: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    cast(keys, data_type).map_err(Error::arrow("convert keys"))
}

/// The type of two columns whose values can be equal: their own, or integers that have all values of both.
fn common([left, right]: [&DataType; 2]) -> Option<DataType> {
    if left == right {
        return Some(left.clone());
    }
    if !left.is_integer() || !right.is_integer() {
        return None;
    }
    match [left, right].map(|it| it == &DataType::UInt64) {
        [false, false] => Some(DataType::Int64),
        _ if left.is_unsigned_integer() && right.is_unsigned_integer() => Some(DataType::UInt64),
        _ => None,
    }
}

/// The columns of the result.
struct Columns {
    /// Those of the left table, by their places there.
    left: Vec<usize>,
    /// Those of the right one.
    right: Vec<usize>,
    /// The types of these.
    right_types: Vec<DataType>,
    schema: SchemaRef,
    /// Where each is among those of the left and then of the right table.
    order: Vec<usize>,
}

impl Columns {
    fn new(args: &JoinArgs, left: &TableFile, right: &TableFile) -> Result<Self> {
        let of_left = left.schema.fields().iter().map(|it| Field::clone(it));
        let mut fields: Vec<Field> = of_left.collect();
        // From which table, and where there.
        let mut sources: Vec<(bool, usize)> = (0..fields.len()).map(|at| (false, at)).collect();
        if args.how.has_right() {
            for (at, field) in right.schema.fields().iter().enumerate() {
                if args.on.iter().any(|on| on.right == *field.name()) {
                    continue;
                }
                let is_taken = left.schema.index_of(field.name()).is_ok();
                let suffix = if is_taken { SUFFIX } else { "" };
                let is_nullable = field.is_nullable() || args.how == How::Left;
                let name = format!("{}{suffix}", field.name());
                fields.push(Field::new(name, field.data_type().clone(), is_nullable));
                sources.push((true, at));
            }
        }
        let all = Schema::new(fields);
        let chosen: Result<Vec<usize>> = match args.columns.is_empty() {
            true => Ok((0..sources.len()).collect()),
            false => args
                .columns
                .iter()
                .map(|it| place("the result", &all, it))
                .collect(),
        };
        let chosen = chosen?;
        let of = |is_right| {
            let places = chosen.iter().filter(|&&it| sources[it].0 == is_right);
            places.map(|&it| sources[it].1).collect::<Vec<usize>>()
        };
        let types = right
            .schema
            .fields()
            .iter()
            .map(|it| it.data_type().clone());
        let types: Vec<DataType> = types.collect();
        let (left, right) = (of(false), of(true));
        let (mut lefts, mut rights) = (0..left.len(), left.len()..chosen.len());
        let order = chosen.iter().filter_map(|&it| match sources[it].0 {
            false => lefts.next(),
            true => rights.next(),
        });
        Ok(Self {
            order: order.collect(),
            schema: Arc::new(
                all.project(&chosen)
                    .map_err(Error::arrow("choose columns"))?,
            ),
            right_types: right.iter().map(|&at| types[at].clone()).collect(),
            left,
            right,
        })
    }

    /// Rows of the result: those that the pairs name.
    fn gather(
        &self,
        left: &RecordBatch,
        right: &Kept,
        pairs: &[(u32, u32)],
        how: How,
    ) -> Result<RecordBatch> {
        let lefts = UInt32Array::from_iter_values(pairs.iter().map(|pair| pair.0));
        let rights: Vec<(usize, usize)> = match how.has_right() {
            true => pairs.iter().map(|&(_, row)| right.place(row)).collect(),
            false => Vec::new(),
        };
        let columns = self.order.iter().map(|&at| {
            let taken = match at.checked_sub(self.left.len()) {
                None => take(left.column(at), &lefts, None),
                Some(at) => right.gather(at, &rights),
            };
            taken.map_err(Error::arrow("gather rows"))
        });
        let columns: Result<Vec<ArrayRef>> = columns.collect();
        RecordBatch::try_new(SchemaRef::clone(&self.schema), columns?)
            .map_err(Error::arrow("gather rows"))
    }
}

/// The keys of the right table on the device, of any width.
trait Probe {
    /// The pairs of rows of a batch, in the order of both tables. A semi and an anti join have no second row.
    fn probe(&self, words: &[u32], how: How) -> gpumap::Result<Vec<(u32, u32)>>;
    fn rows(&self) -> usize;
    fn distinct(&self) -> usize;
}

impl<const WORDS: usize> Probe for JoinTable<[u32; WORDS]>
where
    [u32; WORDS]: bytemuck::Pod,
{
    fn probe(&self, words: &[u32], how: How) -> gpumap::Result<Vec<(u32, u32)>> {
        let (keys, _) = words.as_chunks::<WORDS>();
        let alone = |rows: Vec<u32>| rows.into_iter().map(|row| (row, NO_ROW)).collect();
        let Pairs { left, right } = match how {
            How::Inner => self.join(keys).inner()?,
            How::Left => self.join(keys).left()?,
            How::Semi => return self.join(keys).semi().map(alone),
            How::Anti => return self.join(keys).anti().map(alone),
        };
        let mut pairs: Vec<(u32, u32)> = left.into_iter().zip(right).collect();
        // The pairs of one row come in no order.
        pairs.par_sort_unstable();
        Ok(pairs)
    }

    fn rows(&self) -> usize {
        self.len()
    }

    fn distinct(&self) -> usize {
        self.distinct()
    }
}

/// A table of rows of `width` words.
fn probe_side(device: &Device, words: &[u32], width: usize) -> gpumap::Result<Box<dyn Probe>> {
    fn of<const WORDS: usize>(device: &Device, words: &[u32]) -> gpumap::Result<Box<dyn Probe>>
    where
        [u32; WORDS]: bytemuck::Pod,
    {
        let (keys, _) = words.as_chunks::<WORDS>();
        Ok(Box::new(JoinTable::new(device, keys)?))
    }
    match width {
        1 => of::<1>(device, words),
        2 => of::<2>(device, words),
        4 => of::<4>(device, words),
        8 => of::<8>(device, words),
        _ => of::<16>(device, words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::StringArray;
    use arrow_array::cast::AsArray;

    #[test]
    fn rows_that_have_no_room_together_are_halved() {
        let no_room = || {
            Error::while_doing("cannot join")(gpumap::Error::OutOfMemory {
                needed: 2,
                available: 1,
            })
        };
        let mut tried = 0;
        let mut make = |rows: Range<usize>| {
            tried += 1;
            match rows.len() > 3 {
                true => Err(no_room()),
                false => Ok(rows.map(|row| row * 2).collect::<Vec<usize>>()),
            }
        };
        let mut found = Vec::new();
        let taken = in_halves(1..11, &mut make, &mut |rows, made| {
            assert_eq!(rows.len(), made.len());
            found.extend(made);
            Ok(())
        });
        taken.unwrap();
        assert_eq!(found, (1..11).map(|row| row * 2).collect::<Vec<usize>>());
        assert_eq!(tried, 7);
        // One row is not halved, and other errors are none of room.
        let mut none = |_, ()| Ok(());
        in_halves(0..4, &mut |_| Err(no_room()), &mut none).unwrap_err();
        let mut tried = 0;
        let mut fails = |_| {
            tried += 1;
            Err(Error::Arrow {
                doing: "gather rows",
                source: ArrowError::DivideByZero,
            })
        };
        in_halves(0..4, &mut fails, &mut none).unwrap_err();
        assert_eq!(tried, 1);
        let overflow = ArrowError::OffsetOverflowError(1 << 31);
        assert!(is_of_room(&Error::arrow("gather rows")(overflow)));
    }

    #[test]
    fn rows_are_gathered_from_several_batches() {
        let schema = SchemaRef::new(Schema::new(vec![Field::new("a", DataType::Utf8, true)]));
        let batch = |texts: Vec<Option<&str>>| {
            let texts = Arc::new(StringArray::from(texts));
            RecordBatch::try_new(SchemaRef::clone(&schema), vec![texts]).unwrap()
        };
        let batches = vec![
            batch(vec![Some("a"), Some("b")]),
            batch(vec![]),
            batch(vec![None, Some("d"), Some("e")]),
        ];
        let gather = |batches, how, rows: &[u32]| {
            let kept = Kept::new(batches, &[DataType::Utf8], how);
            let places: Vec<(usize, usize)> = rows.iter().map(|&row| kept.place(row)).collect();
            let found = kept.gather(0, &places).unwrap();
            let found = found.as_string::<i32>().iter();
            found.map(|it| it.map(str::to_owned)).collect::<Vec<_>>()
        };
        let some = |text: &str| Some(text.to_owned());
        let found = gather(batches.clone(), How::Left, &[4, NO_ROW, 1, 2, 0]);
        assert_eq!(found, [some("e"), None, some("b"), None, some("a")]);
        assert_eq!(gather(batches, How::Inner, &[3, 3]), [some("d"), some("d")]);
        assert_eq!(gather(Vec::new(), How::Left, &[NO_ROW]), [None]);
        assert_eq!(gather(Vec::new(), How::Inner, &[]), []);
    }

    #[test]
    fn integers_of_both_sides_have_a_common_type() {
        use DataType::{Date32, Int8, Int64, UInt8, UInt32, UInt64, Utf8};
        for (left, right, expected) in [
            (Int64, Int64, Some(Int64)),
            (Utf8, Utf8, Some(Utf8)),
            (Int8, UInt32, Some(Int64)),
            (UInt8, UInt64, Some(UInt64)),
            (Int64, UInt64, None),
            (UInt64, Int8, None),
            (Int64, Utf8, None),
            (Date32, Int64, None),
        ] {
            assert_eq!(common([&left, &right]), expected, "{left} {right}");
            assert_eq!(common([&right, &left]), expected);
        }
    }
}
