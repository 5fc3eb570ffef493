//! Scatter and gather: keys go to their owners, with their values if there are any, and answers come back.

use std::ops::Range;
use std::ptr;

use gpumap_kernels::primitives::order::{NUMBER, NumberArgs, RETURN, ReturnArgs};
use gpumap_simt::kernel::Grid;

use super::Rank;
use super::exchange::{Given, attempt, exchange, total};
use super::reused::{AnswerBuffers, CallBuffers, PairBuffers, Reused};
use super::route::Routed;
use super::words::Words;
use crate::buffer::Buffer;
use crate::error::Result;
use crate::input::Source;
use crate::map::{Batch, Core, Key, Operands, Outputs, Value};
use crate::stream::Stream;

/// Threads per block of what puts answers back.
const THREADS: u32 = 256;

/// Where on its device the answers to a rank's batch go: as many as it has keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Targets<V> {
    /// None if values are not requested.
    pub(super) values: Option<*mut V>,
    pub(super) found: *mut u8,
}

impl<V: Value> Targets<V> {
    /// Bytes of a value, if any are requested.
    pub(super) fn value_bytes(&self) -> usize {
        self.values.map_or(0, |_| size_of::<V>())
    }

    /// Where values go, for a kernel; null if nowhere.
    pub(super) fn values_at(&self) -> *mut () {
        self.values.map_or(ptr::null_mut(), |values| values.cast())
    }
}

impl<K: Key, V: Value> Words<K, V> {
    /// Has the owner of each key run an operation on it, puts the answers in the order of the keys, and waits. Returns
    /// the sum of what it counts on all ranks. A collective. What is queued on this shard's stream may write to the
    /// targets.
    pub(super) fn scatter_gather(
        &mut self,
        rank: &mut Rank,
        batch: Batch<'_>,
        keys: Source<'_, K>,
        values: Option<Source<'_, V>>,
        targets: Targets<V>,
    ) -> Result<usize> {
        let len = keys.len();
        let Self {
            map,
            buffers,
            stream,
            primitives,
            spread,
            ..
        } = self;
        let stream: &Stream = stream;
        let CallBuffers {
            sent,
            arrived,
            places,
            numbers,
            numbered,
            answers,
            own,
            received,
        } = buffers;
        let takes_values = values.is_some();
        let Routed {
            plan,
            own: mine,
            incoming,
        } = Routed::new(rank, &spread.owners, |digit| {
            number(stream, numbers, numbered, len)?;
            let numbers = numbers.of(stream, len)?.slice(..len)?;
            let sent = sent.of(stream, len, takes_values)?;
            let places = places.of(stream, len)?;
            let keys = Given(keys);
            let (Some(values), Some(sent_values)) = (values.map(Given), sent.values) else {
                return primitives.partition_into(&keys, &numbers, digit, sent.keys, places);
            };
            // Stable, so that values lie as numbers do.
            primitives.stable_partition_into(
                &keys,
                &values,
                digit,
                &mut *sent.keys,
                sent_values,
            )?;
            primitives.stable_partition_into(&keys, &numbers, digit, sent.keys, places)
        })?;
        let told = [targets.values.is_some(), true];

        let link = rank.link().0.clone();
        let made = attempt(|| {
            let made = (
                sent.of(stream, len, takes_values)?,
                places.of(stream, len)?,
                arrived.of(stream, incoming, takes_values)?,
                answers.of(stream, incoming, told)?,
                own.of(stream, mine.len(), told)?,
                received.of(stream, len, told)?,
            );
            link.wait_stream(stream)?;
            Ok(made)
        });
        let (sent, places, mut arrived, mut answers, mut own, mut received) =
            rank.together(made)?;
        let parcels = sent.parcels(&mut arrived);
        // SAFETY: the buffers have what is planned, and are not used until the wait below is over.
        let under_way = unsafe { exchange(rank, &plan, &parcels) }?;
        // Those of its own keys are worked on while the others are on their way.
        let core = map.inline();
        let asked = own.ask(core, batch, &sent, mine.clone());
        let there = under_way.wait().and(asked);
        let asked =
            there.and_then(|own| Ok(own + answers.ask(core, batch, &arrived, 0..incoming)?));
        let asked = asked.and_then(|count| link.wait_stream(stream).map(|()| count));
        let count = rank.together(asked)?;

        let parcels = answers.parcels(&mut received);
        // SAFETY: as above.
        let under_way = unsafe { exchange(rank, &plan.reversed(), &parcels) }?;
        let order = BatchOrder {
            stream,
            places,
            targets,
            // Bytes of what stores say what was stored, and there is a value for each key.
            default: (!batch.kind.traits().stores).then_some(batch.default),
        };
        let returned = order.put_back(&own, mine.start, mine.clone());
        let returned = under_way.wait().and(returned);
        let returned = returned
            .and_then(|()| order.put_back(&received, 0, 0..mine.start))
            .and_then(|()| order.put_back(&received, 0, mine.end..len));
        // Also after an error: the targets are the caller's again.
        let ended = stream.finish();
        total(rank, returned.and(ended).map(|()| count))
    }
}

impl<V: Value> AnswerBuffers<'_, V> {
    /// Runs an operation on some keys, and has its answers here. Returns what it counts.
    fn ask<K: Key>(
        &mut self,
        core: &Core,
        batch: Batch<'_>,
        pairs: &PairBuffers<'_, K, V>,
        range: Range<usize>,
    ) -> Result<usize> {
        let (keys, values) = pairs.part(range)?;
        let part = Batch {
            keys: keys.into(),
            values: Operands::Each(values.into()),
            ..batch
        };
        core.run(&part, Outputs::Arrays(self.outputs()))
    }
}

/// Sees to it that the first numbers are there.
pub(super) fn number(
    stream: &Stream,
    numbers: &mut Reused<u32>,
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

/// The order of a batch, that its answers are put into.
struct BatchOrder<'a, V> {
    stream: &'a Stream,
    /// Where each key was, by owner.
    places: &'a Buffer<u32>,
    targets: Targets<V>,
    /// What absent keys of this rank get, if any may be absent.
    default: Option<u64>,
}

impl<V: Value> BatchOrder<'_, V> {
    /// Queues putting answers to the keys of a range back. The first of the answers is that of key
    /// `first`.
    fn put_back(
        &self,
        answers: &AnswerBuffers<'_, V>,
        first: usize,
        range: Range<usize>,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let (values, found) = answers.at(range.start - first);
        let args = ReturnArgs {
            places: self.places.slice(range.clone())?.as_ptr(),
            values: values.cast(),
            value_bytes: self.targets.value_bytes() as u32,
            found,
            n: range.len() as u64,
            default: self.default.unwrap_or(0),
            has_default: u32::from(self.default.is_some()),
            out_values: self.targets.values_at().cast(),
            out_found: self.targets.found,
        };
        let grid = Grid::covering(args.n, THREADS);
        // SAFETY: places are below the length of the batch, which the targets have room for; answers
        // have the range. Values are of the size that the kernel is for. All of it lives until the
        // caller's wait.
        unsafe { RETURN.launch(self.stream, grid, args) }
    }
}
