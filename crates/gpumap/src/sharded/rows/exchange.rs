//! How the keys of a batch come to their owners, and answers back.
//!
//! Keys lie by owner first, those of each in the order of the batch, and an owner has what comes to it in the order of the ranks. So
//! rows follow the order of the batches, whichever ranks these are of.

use std::ops::Range;
use std::ptr;

use bytemuck::Pod;
use gpumap_kernels::rows::{ROW_RETURN, RowOwnerArgs, RowReturnArgs, RowTakeArgs};

use super::super::Rank;
use super::super::exchange::{attempt, exchange, parcel, total};
use super::super::reused::Reused;
use super::super::scatter_gather::number;
use super::super::step::Call;
use super::RowShard;
use crate::array::Array;
use crate::buffer::Buffer;
use crate::error::{Result, expect_room};
use crate::input::Source;
use crate::map::{Arrays, Kind};
use crate::output::Output;
use crate::primitives::Digit;
use crate::rows::{Keys, grid};
use crate::scratch::{Workspace, address_of};
use crate::sharded::GroupError;
use crate::stream::Stream;

/// Buffers of a call.
#[derive(Debug)]
pub(super) struct RowBuffers<K> {
    /// The owner of each key, in the order of the batch and by owner.
    owners: Reused<u32>,
    sorted: Reused<u32>,
    /// Where each key of the batch was, and 0, 1, 2 and so on up to `numbered`.
    places: Reused<u32>,
    numbers: Reused<u32>,
    numbered: usize,
    /// The batch, by owner.
    sent: Reused<K>,
    /// What came here.
    arrived: Reused<K>,
    /// Answers to that, and those from others.
    answers: Answers,
    received: Answers,
}

/// Rows, and beside each whether it is new.
#[derive(Debug, Default)]
struct Answers {
    rows: Reused<u32>,
    new: Reused<u8>,
}

impl<K> Default for RowBuffers<K> {
    fn default() -> Self {
        Self {
            owners: Reused::default(),
            sorted: Reused::default(),
            places: Reused::default(),
            numbers: Reused::default(),
            numbered: 0,
            sent: Reused::default(),
            arrived: Reused::default(),
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
            tracing::debug!(%error, "waiting for a call of a row shard");
        }
    }
}

impl<K: Pod> RowShard<K> {
    /// Runs an operation on the keys of all ranks: `Insert`, `Get` or `Remove`. Outputs are places and flags of new keys. Returns what
    /// it counts on all ranks. A collective.
    pub(super) fn run(
        &self,
        rank: &mut Rank,
        kind: Kind,
        keys: Array<'_>,
        outputs: Arrays<'_>,
    ) -> Result<usize> {
        let len = keys.len();
        let told = outputs.each_ref().map(Option::is_some);
        let (tells, tells_new) = (told[0], told[1]);
        let stream = &self.stream;
        let mut buffers = self.buffers.lock();
        let mut scratch = self.rows.core().scratch.take();
        // Before the scratch memory goes back, and the buffers.
        let _waits = Waits(stream);

        let made = attempt(|| {
            for output in outputs.iter().flatten() {
                expect_room(len, output.len())?;
            }
            let scratch = scratch.as_mut().map_err(|error| error.clone())?;
            let mut targets = scratch.host_targets(outputs, len)?;
            let at = targets.each_mut().map(address_of);
            Ok((self.sort(scratch, &mut buffers, keys)?, targets, at))
        });
        let made = self.of_this_group(rank, made);
        let call = Call::Run { kind, told };
        let (ranges, targets, at) = rank.together_at(self.step(call), made)?;

        let own = ranges[rank.index()].clone();
        let mut plan = rank.plan(Ok(ranges.clone()))?;
        // The own part lies between those of the ranks before and after.
        let mine = plan.receives[rank.index()].start;
        for receive in &mut plan.receives[rank.index() + 1..] {
            *receive = receive.start + own.len()..receive.end + own.len();
        }
        let incoming = plan.incoming() + own.len();
        let RowBuffers {
            places,
            sent,
            arrived,
            answers,
            received,
            ..
        } = &mut *buffers;
        let link = rank.link().0.clone();
        let made = attempt(|| {
            let of = |len, is_wanted| if is_wanted { len } else { 0 };
            let made = (
                places.of(stream, len)?,
                sent.of(stream, len)?,
                arrived.of(stream, incoming)?,
                answers.rows.of(stream, of(incoming, tells))?,
                answers.new.of(stream, of(incoming, tells_new))?,
                received.rows.of(stream, of(len, tells))?,
                received.new.of(stream, of(len, tells_new))?,
            );
            link.wait_stream(stream)?;
            Ok(made)
        });
        let (places, sent, arrived, rows, new, rows_of_others, new_of_others) =
            rank.together(made)?;
        let parcels = [parcel(sent, arrived)];
        // SAFETY: the buffers have what is planned, and are not used until the wait below is over.
        let under_way = unsafe { exchange(rank, &plan, &parcels) }?;
        let copied = arrived.copy_range(mine, &sent.slice(own.clone())?);
        let there = under_way.wait().and(copied);

        // Before any rank has new keys, all have room for theirs.
        let mut is_agreed = None;
        let done = there.and_then(|()| {
            let core = self.rows.core();
            let keys = Source::Device(arrived.slice(..incoming)?).into();
            let rows = tells.then(|| rows.sink().into());
            let new = tells_new.then(|| new.sink().into());
            match kind {
                Kind::Insert => core.insert_when(keys, [rows, new], |_, _| {
                    let agreed = rank.together(Ok(()));
                    is_agreed = Some(agreed.is_ok());
                    agreed
                }),
                Kind::Remove => core.remove(keys),
                _ => core.get(keys, [rows, new]).map(|()| 0),
            }
        });
        let done = match is_agreed {
            Some(true) => done,
            // All have that error, or one like it.
            Some(false) => return done,
            None if kind == Kind::Insert => Ok(rank.together(done)?),
            None => done,
        };
        if !tells {
            return total(rank, done);
        }
        let done = done.and_then(|count| link.wait_stream(stream).map(|()| count));
        let count = rank.together(done)?;

        let mut parcels = vec![parcel(rows, rows_of_others)];
        if tells_new {
            parcels.push(parcel(new, new_of_others));
        }
        let me = rank_number(rank.index());
        // SAFETY: as above.
        let under_way = unsafe { exchange(rank, &plan.reversed(), &parcels) }?;
        let order = BatchOrder {
            stream,
            places,
            out: at[0].cast(),
            out_new: at[1],
        };
        let returned = order.put_back(me, own, (rows, new), mine);
        let returned = under_way.wait().and(returned);
        let mut from_others = plan.sends.iter().enumerate();
        let returned = returned.and_then(|()| {
            from_others.try_for_each(|(from, range)| {
                let of_others = (&*rows_of_others, &*new_of_others);
                order.put_back(rank_number(from), range.clone(), of_others, range.start)
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
        buffers: &mut RowBuffers<K>,
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
        let RowBuffers {
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
        let sent = sent.of(stream, len)?;
        number(stream, numbers, numbered, len)?;
        let numbers = numbers.of(stream, len)?.slice(..len)?;
        if len != 0 {
            let args = RowOwnerArgs {
                batch: keys.at,
                n: len as u64,
                seed: self.seed,
                key_bytes: bytes as u32,
                owner_of: self.owners.kernel(),
                owners: owners.as_mut_ptr(),
            };
            // SAFETY: staged, with a place for each owner.
            unsafe { keys.kernels().owner.launch(stream, grid(len), args) }?;
        }
        // By the number of the owner itself: so that keys of one owner keep their order.
        let ranks = self.owners.ranks();
        let by_owner = Digit::of_bits(0..ranks.next_power_of_two().ilog2().max(1));
        let owners = owners.slice(..len)?;
        let offsets = self.primitives.stable_partition_into(
            &owners,
            &numbers,
            by_owner,
            sorted,
            &mut *places,
        )?;
        if len != 0 {
            let args = RowTakeArgs {
                batch: keys.at,
                places: places.as_ptr(),
                n: len as u64,
                key_bytes: bytes as u32,
                keys: sent.as_mut_ptr().cast(),
            };
            let kernel = keys.kernels_with(sent.as_ptr().cast()).take;
            // SAFETY: places of the batch, and room for as many keys.
            unsafe { kernel.launch(stream, grid(len), args) }?;
        }
        let range = |rank| offsets[rank] as usize..offsets[rank + 1] as usize;
        Ok((0..ranks).map(range).collect())
    }
}

/// A rank as places have it: there are 512 at most.
fn rank_number(rank: usize) -> u32 {
    rank as u32
}

/// The order of a batch, that its answers are put into.
struct BatchOrder<'a> {
    stream: &'a Stream,
    /// Where each key was, by owner.
    places: &'a Buffer<u32>,
    out: *mut u32,
    /// Null if that is not wanted.
    out_new: *mut u8,
}

impl BatchOrder<'_> {
    /// Queues putting the answers of a rank to the keys of a range back, of which the first is number `first` of these.
    fn put_back(
        &self,
        rank: u32,
        range: Range<usize>,
        (rows, new): (&Buffer<u32>, &Buffer<u8>),
        first: usize,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let answers = first..first + range.len();
        let args = RowReturnArgs {
            places: self.places.slice(range.clone())?.as_ptr(),
            rows: rows.slice(answers.clone())?.as_ptr(),
            new: match self.out_new.is_null() {
                true => ptr::null(),
                false => new.slice(answers)?.as_ptr(),
            },
            n: range.len() as u64,
            rank,
            out: self.out,
            out_new: self.out_new,
        };
        // SAFETY: places below the length of the batch, which the outputs have room for; all of it lives until the caller's wait.
        unsafe { ROW_RETURN.launch(self.stream, grid(range.len()), args) }
    }
}
