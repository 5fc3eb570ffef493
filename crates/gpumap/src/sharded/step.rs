//! [`Step`]: what a rank has come to a meeting for.
//!
//! Every post begins with it, so that ranks at different calls find that out, at the latest when they next
//! meet, and before anybody acts upon what the others have said.

use gpumap_simt::atomic::part::Update;

use crate::map::Verb;

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
    /// The settings of a histogram with counters on all ranks, or on one each.
    Histogram {
        distributed: bool,
    },
}

/// What is done with a shard.
#[derive(Clone, Copy)]
pub(super) enum Call {
    Store(Verb),
    /// Values of present keys are updated.
    Assign(Update),
    Remove,
    LookUp {
        values: bool,
    },
    Len,
    Clear,
    Reserve,
}

impl Step {
    /// Words of it.
    pub(super) const WORDS: usize = 2;

    /// As it is told, with the lowest bit free.
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
            Self::Shard { id, call } => (9 + call, id),
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
            Self::Remove => 3,
            Self::LookUp { values } => 4 + u64::from(values),
            Self::Store(Verb::Insert) => 6,
            Self::Store(Verb::GetOrInsert) => 7,
            Self::Store(Verb::Exchange(_)) => 8,
            Self::Store(Verb::Merge(update)) => 9 + update as u64,
            Self::Assign(update) => 32 + update as u64,
        }
    }

    /// What it may need room for.
    pub(super) fn stores(self) -> Option<Verb> {
        match self {
            Self::Store(verb) => Some(verb),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_steps_are_told_alike() {
        let mut calls: Vec<Call> = vec![Call::Len, Call::Clear, Call::Reserve, Call::Remove];
        calls.extend([false, true].map(|values| Call::LookUp { values }));
        let updates = [
            Update::Replace,
            Update::Add,
            Update::AddFloat,
            Update::MinSigned,
            Update::Xor,
        ];
        let verbs = [Verb::Insert, Verb::GetOrInsert].into_iter();
        calls.extend(verbs.chain(updates.map(Verb::Merge)).map(Call::Store));
        calls.extend(updates.map(Call::Assign));
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
