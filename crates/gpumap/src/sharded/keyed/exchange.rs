//! How the keys of a batch come to their owners, with their values if there are any, and answers back.
//!
//! Keys lie by owner first, those of each in the order of the batch, and an owner has what comes to it in the order of the ranks. So
//! owners see keys in the order of the batches, whichever ranks these are of.

use std::ops::Range;

use bytemuck::Pod;
use gpumap_kernels::rows::{RowOwnerArgs, RowTakeArgs};

use super::super::Rank;
use super::super::exchange::{attempt, exchange, total};
use super::super::reused::{AnswerBuffers, Answers, Pairs, Reused};
use super::super::run::BatchValues;
use super::super::scatter_gather::number;
use super::super::step::Call;
use super::{Keyed, Part, Ready, Returned, all_or_none};
use crate::array::Array;
use crate::buffer::Buffer;
use crate::error::{Error, Result, expect_room};
use crate::input::Source;
use crate::map::{Arrays, Batch, Kind, Operands, Value, told};
use crate::primitives::Digit;
use crate::rows::{KeyForm, Keys, grid};
use crate::scratch::{ScratchRole, Workspace, address_of};
use crate::sharded::GroupError;
use crate::stream::Stream;

/// Words that ranks compare when a call begins.
const WORDS: usize = 3;

/// Buffers of a call.
#[derive(Debug)]
pub(super) struct Buffers<K, V, A> {
    /// The owner of each key, in the order of the batch and by owner.
    owners: Reused<u32>,
    sorted: Reused<u32>,
    /// Where each key of the batch was, and 0, 1, 2 and so on up to `numbered`.
    places: Reused<u32>,
    numbers: Reused<u32>,
    numbered: usize,
    /// The batch, by owner.
    sent: Pairs<K, V>,
    /// What came here.
    arrived: Pairs<K, V>,
    /// Answers to that, and those from others.
    answers: Answers<A>,
    received: Answers<A>,
}

impl<K, V, A> Default for Buffers<K, V, A> {
    fn default() -> Self {
        Self {
            owners: Reused::default(),
            sorted: Reused::default(),
            places: Reused::default(),
            numbers: Reused::default(),
            numbered: 0,
            sent: Pairs::default(),
            arrived: Pairs::default(),
            answers: Answers::default(),
            received: Answers::default(),
        }
    }
}

/// Waits for a stream when it goes: so that what is queued there does not outlive what it uses.
struct Waits<'a>(&'a Stream);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.finish() {
            tracing::debug!(%error, "waiting for a call of a shard");
        }
    }
}

/// What comes with the keys of all ranks.
#[derive(Clone, Copy, Debug)]
enum Common {
    /// Nothing, or the value with these bits.
    Same(u64),
    /// A value for each key, which goes with it.
    Each,
}

impl Common {
    /// Forms of what comes with the keys of one rank.
    const NOTHING: u64 = 0;
    const SAME: u64 = 1;
    const EACH: u64 = 2;

    /// What a rank tells the others of its batch.
    fn words<V>(batch: &Batch<'_>) -> [u64; WORDS] {
        let (form, bits) = match batch.values {
            _ if !batch.kind.traits().takes_values || size_of::<V>() == 0 => (Self::NOTHING, 0),
            Operands::Same(bits) => (Self::SAME, bits),
            Operands::Each(_) => (Self::EACH, 0),
        };
        [form, bits, batch.default]
    }

    /// What all ranks make of what they have told.
    fn of(told: &[[u64; WORDS]]) -> Self {
        let [form, bits, _] = told[0];
        let is_same = told.iter().all(|words| words[..2] == [form, bits]);
        match is_same && form != Self::EACH {
            true => Self::Same(bits),
            false => Self::Each,
        }
    }

    /// Whether absent keys of some ranks get another value than those of others.
    fn has_other_defaults(told: &[[u64; WORDS]]) -> bool {
        told.iter().any(|words| words[2] != told[0][2])
    }
}

impl<K: Pod, V: Value, A: Pod> Keyed<K, V, A> {
    /// What the ranks tell each other when an operation begins. A collective.
    pub(super) fn agree(
        &self,
        rank: &mut Rank,
        call: Call,
        mine: Result<[u64; WORDS]>,
    ) -> Result<Vec<[u64; WORDS]>> {
        let mine = self.spread.of_this_group(rank, mine);
        rank.agree_at(self.spread.step(call), mine)
    }

    /// Runs an operation on the keys of all ranks, which each owner does with what comes to it. An error of this rank's own before it is
    /// one on all ranks. Returns what it counts on all ranks. A collective.
    ///
    /// What one rank refuses, no rank does. A value that all keys have does not travel.
    pub fn run(
        &self,
        rank: &mut Rank,
        part: &impl Part<A>,
        batch: &Batch<'_>,
        outputs: Arrays<'_>,
        checked: Result<()>,
    ) -> Result<usize> {
        let call = Call::Run {
            kind: batch.kind,
            told: told(&outputs),
        };
        self.run_as(rank, call, part, batch, outputs, checked)
    }

    /// As [`run`](Self::run), for a call with the keys of an operation that may be another one.
    pub fn run_as(
        &self,
        rank: &mut Rank,
        call: Call,
        part: &impl Part<A>,
        batch: &Batch<'_>,
        outputs: Arrays<'_>,
        checked: Result<()>,
    ) -> Result<usize> {
        let (kind, len, told) = (batch.kind, batch.keys.len(), told(&outputs));
        let stream = &self.stream;
        let mut buffers = self.buffers.lock();
        let mut values = BatchValues::None;
        let mut scratch = part.scratch().take();
        // Before the scratch memory goes back, the buffers, and copies of a value.
        let _waits = Waits(stream);

        let made = attempt(|| {
            checked?;
            for output in outputs.iter().flatten() {
                expect_room(len, output.len())?;
            }
            let scratch = scratch.as_mut().map_err(|error| error.clone())?;
            let mut targets = scratch.host_targets(outputs, len)?;
            let at = targets.each_mut().map(address_of);
            let ranges = self.sort(scratch, &mut buffers, batch.keys)?;
            Ok((Common::words::<V>(batch), (ranges, targets, at)))
        });
        let (words, made) = made.map_or_else(
            |error| (Err(error), None),
            |(words, made)| (Ok(words), Some(made)),
        );
        let words = self.agree(rank, call, words)?;
        let common = Common::of(&words);
        // Owners have one for all keys. Where ranks have others, each puts its own in, by the flags.
        let default = Common::has_other_defaults(&words).then_some(batch.default);
        // Without it, that was an error.
        let (ranges, targets, at) = made.ok_or(Error::Group(GroupError::OutOfStep))?;

        let own = ranges[rank.index()].clone();
        let mut plan = rank.plan(Ok(ranges.clone()))?;
        // The own part lies between those of the ranks before and after.
        let mine = plan.receives[rank.index()].start;
        for receive in &mut plan.receives[rank.index() + 1..] {
            *receive = receive.start + own.len()..receive.end + own.len();
        }
        let incoming = plan.incoming() + own.len();
        let Buffers {
            places,
            sent,
            arrived,
            answers,
            received,
            ..
        } = &mut *buffers;
        // Values without bytes are there already.
        let answered = [told[0] && size_of::<A>() != 0, told[1] || default.is_some()];
        let with_values = matches!(common, Common::Each);
        let link = rank.link().0.clone();
        let made = attempt(|| {
            let places = places.of(stream, len)?;
            let mut sent = sent.of(stream, len, with_values)?;
            if let Some(sent) = &mut sent.values {
                values = BatchValues::of(batch)?;
                let scratch = scratch.as_mut().map_err(|error| error.clone())?;
                self.take_values(scratch, &values, places, sent)?;
            }
            let made = (
                places,
                sent,
                arrived.of(stream, incoming, with_values)?,
                answers.of(stream, incoming, answered)?,
                received.of(stream, len, answered)?,
            );
            link.wait_stream(stream)?;
            Ok(made)
        });
        let (places, sent, mut arrived, mut answers, mut received) = rank.together(made)?;
        let parcels = sent.parcels(&mut arrived);
        // SAFETY: the buffers have what is planned, and are not used until the wait below is over.
        let under_way = unsafe { exchange(rank, &plan, &parcels) }?;
        let copied = arrived.copy_from(mine, &sent, own.clone());
        let there = under_way.wait().and(copied);

        // Before any rank changes anything, all have room for what they do.
        let work = |ready: Ready<'_>| {
            there?;
            let (keys, values) = arrived.part(0..incoming)?;
            let batch = Batch {
                keys: keys.into(),
                values: match common {
                    Common::Same(bits) => Operands::Same(bits),
                    Common::Each => Operands::Each(values.into()),
                },
                ..*batch
            };
            part.run(&batch, answers.outputs(), ready)
        };
        let done = match kind {
            Kind::Get => work(&mut || Ok(())),
            _ => all_or_none(rank, work)?,
        };
        if answered == [false; 2] {
            return total(rank, done);
        }
        let done = done.and_then(|count| link.wait_stream(stream).map(|()| count));
        let count = rank.together(done)?;

        let parcels = answers.parcels(&mut received);
        let me = rank_number(rank.index());
        // SAFETY: as above.
        let under_way = unsafe { exchange(rank, &plan.reversed(), &parcels) }?;
        let put_back = |answers: &AnswerBuffers<'_, A>, rank, range: Range<usize>, first| {
            if range.is_empty() {
                return Ok(());
            }
            let (values, flags) = answers.at(first);
            let returned = Returned {
                places: places.slice(range.clone())?.as_ptr(),
                n: range.len(),
                rank,
                values,
                flags,
                default,
                out_values: at[0],
                out_flags: at[1],
            };
            // SAFETY: places below the length of the batch, which the outputs have room for; all of it lives until the wait below.
            unsafe { part.put_back(stream, returned) }
        };
        let returned = put_back(&answers, me, own, mine);
        let returned = under_way.wait().and(returned);
        let mut from_others = plan.sends.iter().enumerate();
        let returned = returned.and_then(|()| {
            from_others.try_for_each(|(from, range)| {
                put_back(&received, rank_number(from), range.clone(), range.start)
            })
        });
        // Also after an error: the targets are the caller's again.
        let ended = stream.finish();
        let count = total(rank, returned.and(ended).map(|()| count))?;
        let scratch = scratch.as_mut().map_err(|error| error.clone())?;
        scratch.copy_all_to_host(targets.into_iter().flatten())?;
        Ok(count)
    }

    /// Brings the keys of a batch to the device, in the order of their owners. Returns where those of each rank are.
    fn sort(
        &self,
        scratch: &mut Workspace,
        buffers: &mut Buffers<K, V, A>,
        keys: Array<'_>,
    ) -> Result<Vec<Range<usize>>> {
        let (len, bytes) = (keys.len(), size_of::<K>());
        if u32::try_from(len).is_err() {
            return Err(GroupError::BatchTooLong { len }.into());
        }
        let stream = &self.stream;
        // SAFETY: what is queued has ended when the caller's guard has gone.
        let keys = unsafe { Keys::stage(scratch, keys, bytes) }?;
        stream.wait_stream(scratch.stream())?;
        let Buffers {
            owners,
            sorted,
            places,
            numbers,
            numbered,
            sent,
            ..
        } = buffers;
        let (owners, sorted, places) = (
            owners.of(stream, len)?,
            sorted.of(stream, len)?,
            places.of(stream, len)?,
        );
        let sent = sent.keys.of(stream, len)?;
        number(stream, numbers, numbered, len)?;
        let numbers = numbers.of(stream, len)?.slice(..len)?;
        if len != 0 {
            let args = RowOwnerArgs {
                batch: keys.at,
                n: len as u64,
                seed: self.spread.seed,
                key_bytes: bytes as u32,
                owner_of: self.spread.owners.kernel(),
                owners: owners.as_mut_ptr(),
            };
            // SAFETY: staged, with a place for each owner.
            unsafe { keys.kernels().owner.launch(stream, grid(len), args) }?;
        }
        // By the number of the owner itself: so that keys of one owner keep their order.
        let ranks = self.spread.owners.ranks();
        let by_owner = Digit::of_bits(0..ranks.next_power_of_two().ilog2().max(1));
        let owners = owners.slice(..len)?;
        let offsets = self.primitives.stable_partition_into(
            &owners,
            &numbers,
            by_owner,
            sorted,
            &mut *places,
        )?;
        // SAFETY: places of the batch, and room for as many keys; what is staged lives until the caller's guard has gone.
        unsafe { take(stream, (keys, bytes), places, sent.as_mut_ptr().cast()) }?;
        let range = |rank| offsets[rank] as usize..offsets[rank + 1] as usize;
        Ok((0..ranks).map(range).collect())
    }

    /// Brings values to the device, in the order of their keys' owners.
    fn take_values(
        &self,
        scratch: &mut Workspace,
        values: &BatchValues<'_, V>,
        places: &Buffer<u32>,
        sent: &mut Buffer<V>,
    ) -> Result<()> {
        let values = values.source().unwrap_or(Source::Host(&[]));
        let (n, bytes) = (values.len(), size_of::<V>());
        let values = Array::from(values).bytes();
        // SAFETY: what is queued has ended when the caller's guard has gone.
        let at = unsafe { scratch.stage(ScratchRole::Values, values) }?;
        self.stream.wait_stream(scratch.stream())?;
        let values = Keys::at(at, n, KeyForm::Data(bytes))?;
        let to = sent.as_mut_ptr().cast();
        // SAFETY: a place and a value for each key of the batch, and room for as many; as above.
        unsafe { take(&self.stream, (values, bytes), places, to) }
    }
}

/// Queues copying elements of a batch, of so many bytes, in the order of places.
///
/// # Safety
/// There is a place for each, of one of them, and room for as many; all of it lives until what is queued has ended.
unsafe fn take(
    stream: &Stream,
    (elements, bytes): (Keys, usize),
    places: &Buffer<u32>,
    to: *mut u8,
) -> Result<()> {
    if elements.n == 0 {
        return Ok(());
    }
    let args = RowTakeArgs {
        batch: elements.at,
        places: places.as_ptr(),
        n: elements.n as u64,
        key_bytes: bytes as u32,
        keys: to,
    };
    let kernel = elements.kernels_with(to).take;
    // SAFETY: the caller's promise.
    unsafe { kernel.launch(stream, grid(elements.n), args) }
}

/// A rank as places have it: there are 512 at most.
fn rank_number(rank: usize) -> u32 {
    rank as u32
}
