//! Looking keys up over a group: there and back.

use std::ops::Range;

use gpumap_kernels::primitives::order::{
    NUMBER, NumberArgs, RETURN_0, RETURN_4, RETURN_8, ReturnArgs,
};
use gpumap_simt::kernel::Grid;

use super::error::GroupError;
use super::exchange::{Given, attempt, exchange, parcel};
use super::room::{Answers, Room, Rooms};
use super::{Rank, Shard};
use crate::buffer::Buffer;
use crate::error::{Error, Result, expect_room};
use crate::input::{Input, Source};
use crate::map::{Key, Map, Value};
use crate::stream::Stream;

/// Threads per block of what puts answers back.
const THREADS: u32 = 256;

impl<K: Key, V: Value> Shard<K, V> {
    /// [`Map::get`] over the group: the value of each key of this rank's batch, whoever has it.
    ///
    /// # Errors
    /// As for [`Map::get`], of any rank, and [`Error::Group`].
    pub fn get(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
    ) -> Result<Vec<Option<V>>> {
        if rank.ranks() == 1 {
            return self.map.get(keys);
        }
        let keys = keys.source();
        let mut out = std::mem::take(&mut self.rooms.out);
        let answers = self.answer(rank, keys, &mut out, true);
        self.rooms.out = out;
        let (values, found) = answers?;
        let answer = |(value, found)| (found != 0).then_some(value);
        Ok(values.into_iter().zip(found).map(answer).collect())
    }

    /// [`Map::contains`] over the group.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn contains(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
    ) -> Result<Vec<bool>> {
        if rank.ranks() == 1 {
            return self.map.contains(keys);
        }
        let keys = keys.source();
        let mut out = std::mem::take(&mut self.rooms.out);
        let answers = self.answer(rank, keys, &mut out, false);
        self.rooms.out = out;
        let (_, found) = answers?;
        Ok(found.into_iter().map(|found| found != 0).collect())
    }

    /// [`Map::get_into`] over the group: `found[i]` is 1 and `values[i]` the value of `keys[i]`, or both
    /// are 0 where it is absent.
    ///
    /// # Errors
    /// As for [`get`](Self::get), and [`Error::OutputTooSmall`] if an output is shorter than `keys`.
    pub fn get_into(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        values: &mut Buffer<V>,
        found: &mut Buffer<u8>,
    ) -> Result<()> {
        if rank.ranks() == 1 {
            return self.map.get_into(keys, values, found);
        }
        self.look_up(rank, keys.source(), Ok((Some(values), found)))
    }

    /// [`Map::contains_into`] over the group: `found[i]` is 1 if `keys[i]` is present, or 0.
    ///
    /// # Errors
    /// As for [`get_into`](Self::get_into).
    pub fn contains_into(
        &mut self,
        rank: &mut Rank,
        keys: &(impl Input<K> + ?Sized),
        found: &mut Buffer<u8>,
    ) -> Result<()> {
        if rank.ranks() == 1 {
            return self.map.contains_into(keys, found);
        }
        self.look_up(rank, keys.source(), Ok((None, found)))
    }

    fn answer(
        &mut self,
        rank: &mut Rank,
        keys: Source<'_, K>,
        out: &mut Answers<V>,
        with_values: bool,
    ) -> Result<(Vec<V>, Vec<u8>)> {
        let (len, stream) = (keys.len(), self.stream.clone());
        let outputs = attempt(|| {
            let values = match with_values {
                true => Some(out.values.of(&stream, len)?),
                false => None,
            };
            Ok((values, out.found.of(&stream, len)?))
        });
        self.look_up(rank, keys, outputs)?;
        let values = match with_values {
            true => out.values.of(&stream, len)?.slice(..len)?.to_vec()?,
            false => Vec::new(),
        };
        Ok((values, out.found.of(&stream, len)?.slice(..len)?.to_vec()?))
    }

    /// Asks the owner of each key, and puts the answers in the order of the keys. Outputs that could
    /// not be had are an error on all ranks.
    fn look_up(
        &mut self,
        rank: &mut Rank,
        keys: Source<'_, K>,
        outputs: Result<(Option<&mut Buffer<V>>, &mut Buffer<u8>)>,
    ) -> Result<()> {
        let len = keys.len();
        let mut targets = None;
        let ready = outputs.and_then(|(values, found)| {
            let room = values.as_ref().map_or(found.len(), |values| values.len());
            expect_room(len, room.min(found.len()))?;
            if u32::try_from(len).is_err() {
                return Err(Error::Group(GroupError::BatchTooLong { len }));
            }
            if let Some(values) = &values {
                self.stream.wait_stream(values.stream())?;
            }
            self.stream.wait_stream(found.stream())?;
            targets = Some((values, found));
            Ok(len)
        });
        let post = self.terms(rank, ready, None)?;
        let Some((mut values, found)) = targets else {
            return Ok(());
        };
        if let Some(post) = post
            && self.ask(rank, &post, keys, values.as_deref_mut(), found)?
        {
            return Ok(());
        }
        let Self {
            map,
            rooms,
            stream,
            primitives,
            owners,
            ..
        } = self;
        let stream: &Stream = stream;
        let Rooms {
            keys: sent,
            places,
            numbers,
            numbered,
            came_keys,
            answers,
            own,
            came,
            ..
        } = rooms;
        let parted = attempt(|| {
            number(stream, numbers, numbered, len)?;
            let numbers = numbers.of(stream, len)?.slice(..len)?;
            let (sent, places) = (sent.of(stream, len)?, places.of(stream, len)?);
            let offsets =
                primitives.partition_into(&Given(keys), &numbers, owners.digit(), sent, places)?;
            Ok(owners.ranges(&offsets))
        });
        let mine = parted
            .as_ref()
            .map_or(0..0, |ranges| ranges[rank.index()].clone());
        let plan = rank.plan(parted)?;
        let incoming = plan.incoming();
        let with_values = values.is_some();

        let room = attempt(|| {
            Ok((
                sent.of(stream, len)?,
                places.of(stream, len)?,
                came_keys.of(stream, incoming)?,
                answers.of(stream, incoming, with_values)?,
                own.of(stream, mine.len(), with_values)?,
                came.of(stream, len, with_values)?,
            ))
        });
        let (sent, places, came_keys, mut answers, mut own, mut came) = rank.together(room)?;
        // SAFETY: the buffers have what is planned, and are left alone until the wait below is over.
        unsafe { exchange(rank, stream, &plan, &[parcel(sent, came_keys)]) }?;
        // Those of its own keys are looked up while the others are on their way.
        let asked = own.ask(map, sent, mine.clone());
        rank.wait()?;
        let asked = asked.and_then(|()| answers.ask(map, came_keys, 0..incoming));
        rank.together(asked)?;

        let mut parcels = vec![parcel(answers.found, came.found)];
        if let (Some(answers), Some(came)) = (&answers.values, &mut came.values) {
            parcels.push(parcel(answers, came));
        }
        // SAFETY: as above.
        unsafe { exchange(rank, stream, &plan.reversed(), &parcels) }?;
        let mut put = |answers: &AnswerBuffers<'_, V>, first: usize, range: Range<usize>| {
            put_back(stream, answers, first, places, range, &mut values, found)
        };
        let returned = put(&own, mine.start, mine.clone());
        rank.wait()?;
        let returned = returned
            .and_then(|()| put(&came, 0, 0..mine.start))
            .and_then(|()| put(&came, 0, mine.end..len))
            .and_then(|()| stream.synchronize());
        rank.together(returned)
    }
}

/// Buffers of answers, those of values if they are asked for.
struct AnswerBuffers<'a, V> {
    values: Option<&'a mut Buffer<V>>,
    found: &'a mut Buffer<u8>,
}

impl<V: Value> Answers<V> {
    fn of(
        &mut self,
        stream: &Stream,
        len: usize,
        with_values: bool,
    ) -> Result<AnswerBuffers<'_, V>> {
        Ok(AnswerBuffers {
            values: match with_values {
                true => Some(self.values.of(stream, len)?),
                false => None,
            },
            found: self.found.of(stream, len)?,
        })
    }
}

impl<V: Value> AnswerBuffers<'_, V> {
    /// Looks some keys up.
    fn ask<K: Key>(
        &mut self,
        map: &Map<K, V>,
        keys: &Buffer<K>,
        range: Range<usize>,
    ) -> Result<()> {
        let keys = keys.slice(range)?;
        match &mut self.values {
            Some(values) => map.get_into(&keys, values, self.found),
            None => map.contains_into(&keys, self.found),
        }
    }
}

/// Sees to it that the first numbers are there.
fn number(
    stream: &Stream,
    numbers: &mut Room<u32>,
    numbered: &mut usize,
    len: usize,
) -> Result<()> {
    if *numbered >= len {
        return Ok(());
    }
    *numbered = 0;
    let buffer = numbers.of(stream, len)?;
    let args = NumberArgs {
        places: buffer.as_mut_ptr(),
        n: len as u64,
    };
    // SAFETY: the buffer has as many, and is ordered by this stream.
    unsafe { NUMBER.launch(stream, Grid::covering(len as u64, THREADS), args) }?;
    *numbered = len;
    Ok(())
}

/// Queues putting answers to the keys of a range back. The first of the answers is that of key `first`.
fn put_back<V: Value>(
    stream: &Stream,
    answers: &AnswerBuffers<'_, V>,
    first: usize,
    places: &Buffer<u32>,
    range: Range<usize>,
    values: &mut Option<&mut Buffer<V>>,
    found: &mut Buffer<u8>,
) -> Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let skip = range.start - first;
    let args = ReturnArgs::<()> {
        places: places.slice(range.clone())?.as_ptr(),
        values: answers.values.as_ref().map_or(std::ptr::null(), |values| {
            values.as_ptr().wrapping_add(skip).cast()
        }),
        found: answers.found.as_ptr().wrapping_add(skip),
        n: range.len() as u64,
        out_values: values
            .as_mut()
            .map_or(std::ptr::null_mut(), |values| values.as_mut_ptr().cast()),
        out_found: found.as_mut_ptr(),
    };
    let grid = Grid::covering(args.n, THREADS);
    let bytes = if values.is_some() { size_of::<V>() } else { 0 };
    // SAFETY: places are below the length of the batch, which the outputs have room for; answers have
    // the range. Values are of the size that the kernel is for. All of it lives until the caller's wait.
    unsafe {
        match bytes {
            0 => RETURN_0.launch(stream, grid, args),
            4 => RETURN_4.launch(stream, grid, args.of()),
            _ => RETURN_8.launch(stream, grid, args.of()),
        }
    }
}
