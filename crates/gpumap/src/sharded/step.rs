//! [`Step`]: what a rank has called a meeting for.
//!
//! Every contribution begins with it, so that ranks at different calls detect it, at the latest when they
//! next meet, and before any rank uses what the others have sent.

use crate::error::{Error, Result};
use crate::map::{Batch, Kind, Outputs, Receiver};
use crate::op::Op;

/// What a rank has come for. Meetings that follow from another one, where all have agreed upon a verb and a
/// shard, need not name them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Gather,
    Barrier,
    Together,
    Agree,
    /// What goes where.
    Plan,
    /// How many keys went to each bin.
    Counts,
    /// A sum over all ranks.
    Total,
    /// A shard is made, of keys and values of so many bytes.
    New {
        key: usize,
        value: usize,
    },
    /// Of this shard, something with this [code](Call::code).
    Shard {
        id: u64,
        call: u64,
    },
    /// A shard of a row map is made, of keys of so many bytes.
    NewRows {
        key: usize,
    },
    /// A shard of a wide map is made, of keys and values of so many bytes.
    NewWide {
        key: usize,
        value: usize,
    },
    /// The settings of a histogram with counters on all ranks, or on one each.
    Histogram {
        distributed: bool,
    },
}

/// Runs an operation over a group by `run`, which is told what is wrong with the operation. An error from before that comes with the
/// call that all ranks must hear of: the others wait for this one.
pub(super) fn run_over<K, V, A>(
    op: Op<'_, K, V, A>,
    run: impl FnOnce(Batch<'_>, Outputs<'_>, Result<()>) -> Result<usize>,
) -> Result<Result<A>, (Call, Error)> {
    let checked = op.check(Receiver::Sharded);
    let call = Call::Run {
        kind: op.batch.kind,
        told: op.told(),
    };
    let mut has_come = false;
    let done = op.run_checked(|batch, outputs| {
        has_come = true;
        run(*batch, outputs, checked)
    });
    match done {
        Err(error) if !has_come => Err((call, error)),
        done => Ok(done),
    }
}

/// What is done with a shard.
#[derive(Clone, Copy)]
pub(super) enum Call {
    /// An operation, and whether it returns values and bytes for single keys.
    Run {
        kind: Kind,
        told: [bool; 2],
    },
    Len,
    Clear,
    Reserve,
    Compact,
    Save,
    Retain,
    RetainKeys,
    Drain,
    ShrinkToFit,
}

impl Step {
    /// Words of it.
    pub(super) const WORDS: usize = 2;

    /// As it is sent, with the lowest bit free.
    pub(super) fn words(self) -> [u64; Self::WORDS] {
        let (code, of) = match self {
            Self::Gather => (0, 0),
            Self::Barrier => (1, 0),
            Self::Together => (2, 0),
            Self::Agree => (3, 0),
            Self::Plan => (4, 0),
            Self::Counts => (5, 0),
            Self::Total => (6, 0),
            Self::New { key, value } => (7, (key as u64) << 32 | value as u64),
            Self::Histogram { distributed } => (8, u64::from(distributed)),
            Self::NewRows { key } => (9, key as u64),
            Self::NewWide { key, value } => (10, (key as u64) << 32 | value as u64),
            Self::Shard { id, call } => (11 + call, id),
        };
        [code << 1, of]
    }
}

impl Call {
    /// A number for each that is another call.
    pub(super) fn code(self) -> u64 {
        match self {
            Self::Len => 0,
            Self::Clear => 1,
            Self::Reserve => 2,
            Self::Compact => 3,
            Self::Save => 4,
            Self::Retain => 5,
            Self::RetainKeys => 6,
            Self::Drain => 7,
            Self::ShrinkToFit => 8,
            Self::Run {
                kind,
                told: [values, found],
            } => 9 + (kind.code() << 2 | u64::from(values) << 1 | u64::from(found)),
        }
    }

    /// What is stored, if anything is.
    pub(super) fn stores(self) -> Option<Kind> {
        match self {
            Self::Run { kind, .. } if kind.traits().stores => Some(kind),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use gpumap_simt::atomic::part::Update;

    use super::*;

    #[test]
    fn no_two_steps_are_told_alike() {
        let mut calls = vec![
            Call::Len,
            Call::Clear,
            Call::Reserve,
            Call::Compact,
            Call::Save,
            Call::Retain,
            Call::RetainKeys,
            Call::Drain,
            Call::ShrinkToFit,
        ];
        let updates = [
            Update::Replace,
            Update::Add,
            Update::AddFloat,
            Update::MinSigned,
            Update::Xor,
        ];
        let kinds = [Kind::Get, Kind::Remove, Kind::Insert, Kind::GetOrInsert].into_iter();
        let kinds = kinds.chain(updates.map(Kind::Merge));
        for kind in kinds.chain(updates.map(Kind::Update)) {
            let told = [[false, false], [false, true], [true, false], [true, true]];
            calls.extend(told.map(|told| Call::Run { kind, told }));
        }
        let of_shard = |id| {
            calls.iter().map(move |call| Step::Shard {
                id,
                call: call.code(),
            })
        };
        let mut steps = vec![
            Step::Gather,
            Step::Barrier,
            Step::Together,
            Step::Agree,
            Step::Plan,
            Step::Counts,
            Step::Total,
            Step::New { key: 4, value: 8 },
            Step::New { key: 8, value: 4 },
            Step::NewRows { key: 8 },
            Step::NewRows { key: 12 },
            Step::NewWide { key: 12, value: 8 },
            Step::NewWide { key: 8, value: 4 },
            Step::Histogram { distributed: false },
            Step::Histogram { distributed: true },
        ];
        steps.extend(of_shard(0).chain(of_shard(1)));
        let mut told: Vec<_> = steps.iter().map(|step| step.words()).collect();
        assert!(told.iter().all(|words| words[0] & 1 == 0));
        told.sort_unstable();
        told.dedup();
        assert_eq!(told.len(), steps.len());
    }
}
