//! How a shard runs an operation over its group.
//!
//! Operations without answers for single keys are [scattered](super::scatter): each key goes to its owner, with its
//! value. Of everything else the answers [come back](super::scatter_gather). Large batches of both go over [peer
//! memory](super::p2p), where they may.

use std::iter::repeat_n;
use std::sync::Arc;

use super::Rank;
use super::error::GroupError;
use super::exchange::{attempt, total};
use super::scatter::OwnPart;
use super::scatter_gather::Targets;
use super::step::{Call, run_over};
use super::words::Words;
use crate::error::{Error, Result};
use crate::input::Source;
use crate::map::{Arrays, Batch, Key, Kind, Operands, Outputs, Receiver, Value, value_of};
use crate::memory::host_collect;
use crate::op::Op;
use crate::scratch::ScratchRole;

/// The values that come with the keys of a batch.
pub(super) enum BatchValues<'a, V> {
    None,
    Each(Source<'a, V>),
    /// Pairs are sent, so each key takes its copy of a common value with it.
    Copies(Vec<V>),
}

impl<'a, V: Value> BatchValues<'a, V> {
    pub(super) fn of(batch: &Batch<'a>) -> Result<Self> {
        Ok(match batch.values {
            _ if !batch.kind.traits().takes_values => Self::None,
            Operands::Each(values) => Self::Each(values.elements()),
            Operands::Same(bits) => {
                let value: V = value_of(bits);
                Self::Copies(host_collect(repeat_n(value, batch.keys.len()))?)
            }
        })
    }

    pub(super) fn source(&self) -> Option<Source<'_, V>> {
        match self {
            Self::None => None,
            Self::Each(values) => Some(*values),
            Self::Copies(values) => Some(Source::Host(values)),
        }
    }
}

/// # Operations
impl<K: Key, V: Value> Words<K, V> {
    /// Runs an operation over the group. A collective.
    pub fn execute<A>(&mut self, rank: &mut Rank, op: Op<'_, K, V, A>) -> Result<A> {
        if rank.ranks() == 1 {
            let core = self.map.inline();
            return op.run(Receiver::Sharded, |batch, outputs| core.run(batch, outputs));
        }
        match run_over(op, |batch, outputs, checked| {
            self.run(rank, batch, outputs, checked)
        }) {
            Ok(done) => done,
            Err((call, error)) => self.refuse(rank, call, error),
        }
    }

    /// Runs a part of an operation over the group. An error of this rank's own before it is one on all ranks.
    pub(super) fn run(
        &mut self,
        rank: &mut Rank,
        batch: Batch<'_>,
        outputs: Outputs<'_>,
        checked: Result<()>,
    ) -> Result<usize> {
        let (kind, told) = (batch.kind, outputs.told());
        let call = Call::Run { kind, told };
        let mut has_come = false;
        let done = outputs.through_arrays(batch.keys.len(), |arrays| {
            has_come = true;
            match (kind, told) {
                (kind, [false, false]) if kind != Kind::Get => {
                    self.run_counted(rank, call, batch, checked)
                }
                _ => self.run_answered(rank, call, batch, arrays, checked),
            }
        });
        match done {
            Err(error) if !has_come => self.refuse(rank, call, error),
            done => done,
        }
    }

    /// Lets the other ranks know that this one cannot take part in a call.
    fn refuse<R>(&mut self, rank: &mut Rank, call: Call, error: Error) -> Result<R> {
        self.negotiate(rank, call, Err(error), 0)?;
        Err(Error::Group(GroupError::OutOfStep))
    }

    /// Takes each key to its owner, and runs an operation on it there. Returns the sum of what it counts on all ranks.
    fn run_counted(
        &mut self,
        rank: &mut Rank,
        call: Call,
        batch: Batch<'_>,
        checked: Result<()>,
    ) -> Result<usize> {
        let values = checked.and_then(|()| BatchValues::of(&batch));
        let (mine, values) = match values {
            Ok(values) => (Ok(batch.keys.len()), values),
            Err(error) => (Err(error), BatchValues::None),
        };
        let (keys, values) = (batch.keys.elements(), values.source());
        if let Some(session) = self.negotiate(rank, call, mine, 0)?
            && let Some(received) = self.send(rank, &session, keys, values, false)?
        {
            let done = self.map.inline().run_sent(batch.kind, &received.batch);
            // What is fetched has been, whatever became of it.
            drop(received);
            return total(rank, done);
        }
        self.scatter(rank, keys, values, OwnPart::First, |core, keys, values| {
            let values = Operands::Each(values.into());
            let batch = Batch {
                keys: keys.into(),
                values,
                ..batch
            };
            core.run(&batch, Outputs::NONE)
        })
    }

    /// Has the owner of each key answer. An operation that could not get places for the answers is an error on all ranks.
    fn run_answered(
        &mut self,
        rank: &mut Rank,
        call: Call,
        batch: Batch<'_>,
        outputs: Arrays<'_>,
        checked: Result<()>,
    ) -> Result<usize> {
        let len = batch.keys.len();
        let primitives = Arc::clone(&self.primitives);
        let made = attempt(|| {
            checked?;
            if u32::try_from(len).is_err() {
                return Err(Error::Group(GroupError::BatchTooLong { len }));
            }
            let operands = BatchValues::<V>::of(&batch)?;
            let mut scratch = primitives.scratch.take()?;
            let mut arrays = scratch.host_targets(outputs, len)?;
            let [values, found] = &mut arrays;
            let targets = Targets {
                values: values.as_mut().map(|values| values.as_mut_ptr().cast()),
                found: match found {
                    Some(found) => found.as_mut_ptr(),
                    None => scratch.reserve(ScratchRole::SecondOutput, len)?,
                },
            };
            self.stream.wait_stream(scratch.stream())?;
            Ok((scratch, operands, targets, arrays))
        });
        let (ready, made) = match made {
            Ok(made) => (Ok(len), Some(made)),
            Err(error) => (Err(error), None),
        };
        // Only lookups are answered over peer memory.
        let session = match batch.kind {
            Kind::Get => self.negotiate(rank, call, ready, batch.default)?,
            _ => {
                self.spread.together(rank, call, || ready)?;
                None
            }
        };
        // Without places, that was an error.
        let (mut scratch, operands, targets, arrays) =
            made.ok_or(Error::Group(GroupError::OutOfStep))?;
        let keys = batch.keys.elements();
        let is_answered = match session {
            Some(session) => self.ask(rank, &session, keys, batch.default, targets)?,
            None => false,
        };
        let count = match is_answered {
            true => 0,
            false => self.scatter_gather(rank, batch, keys, operands.source(), targets)?,
        };
        scratch.copy_all_to_host(arrays.into_iter().flatten())?;
        Ok(count)
    }
}
