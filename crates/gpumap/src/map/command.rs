//! [`Batch`] and [`Command`]: an operation on many keys, as plain data.
//!
//! A call makes a [`Batch`], whose arrays are where the caller has them. When they are on the device, it is a
//! [`Command`]: what a kernel is launched with, what a stream queues, and what a graph records and compares.

use std::ptr;

use gpumap_kernels::build::bins::Bins;
use gpumap_kernels::verbs::look_up::Answers;
use gpumap_simt::atomic::part::Update;

use super::Pair;
use super::bulk::Binned;
use super::in_flight::Effect;
use super::operand::Operands;
use crate::array::{Array, ArrayMut};
use crate::scratch::Workspace;

/// What is done with each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Looks up.
    Get,
    /// Counts absent keys; of several equal ones each.
    CountAbsent,
    /// Stores pairs whose key is absent.
    Insert,
    /// Stores pairs, or updates values.
    Merge(Update),
    /// Stores pairs, or tells what is there.
    GetOrInsert,
    /// Stores pairs, or replaces ids and tells them; beside no removals.
    ExchangeIds,
    /// Updates values of present keys.
    Update(Update),
    /// Removes.
    Remove,
    /// Removes, and tells values; beside no updates.
    Take,
    /// Removes, and tells ids; beside no exchanges.
    TakeIds,
    /// Writes every pair to the keys and values of the command.
    Dump,
}

/// What there is to know of a [`Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Whether it takes values.
    pub takes_values: bool,
    /// Whether it may store pairs, so that there has to be room for them.
    pub stores: bool,
    /// Whether it removes pairs.
    pub removes: bool,
    /// Whether nothing else may run on the map.
    pub is_alone: bool,
    /// Whether it tells a value for each key, by a kernel of its own.
    pub tells_values: bool,
}

impl Kind {
    /// A number for each that is another kind, which all ranks of a group must come with.
    pub(crate) fn code(self) -> u64 {
        match self {
            Self::Get => 0,
            Self::CountAbsent => 1,
            Self::Insert => 2,
            Self::GetOrInsert => 3,
            Self::ExchangeIds => 4,
            Self::Remove => 5,
            Self::Take => 6,
            Self::TakeIds => 7,
            Self::Dump => 8,
            Self::Merge(update) => 32 + update as u64,
            Self::Update(update) => 64 + update as u64,
        }
    }

    /// The table of all kinds.
    pub(crate) const fn traits(self) -> Traits {
        const READS: Traits = Traits {
            takes_values: false,
            stores: false,
            removes: false,
            is_alone: false,
            tells_values: false,
        };
        const STORES: Traits = Traits {
            takes_values: true,
            stores: true,
            ..READS
        };
        const REMOVES: Traits = Traits {
            removes: true,
            ..READS
        };
        match self {
            Self::Get | Self::CountAbsent | Self::Dump => READS,
            Self::Insert | Self::Merge(_) => STORES,
            Self::GetOrInsert | Self::ExchangeIds => Traits {
                tells_values: true,
                ..STORES
            },
            Self::Update(_) => Traits {
                takes_values: true,
                ..READS
            },
            Self::Remove => REMOVES,
            Self::Take => Traits {
                is_alone: true,
                tells_values: true,
                ..REMOVES
            },
            Self::TakeIds => Traits {
                tells_values: true,
                ..REMOVES
            },
        }
    }
}

/// An operation on arrays of the caller.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    pub kind: Kind,
    pub keys: Array<'a>,
    /// As many as keys, or one for all; not looked at if the kind takes none.
    pub values: Operands<'a>,
    /// What absent keys get in the outputs, as bits.
    pub default: u64,
    /// Places for an answer to each key, if they are wanted: values, and bytes that are not 0 for those that were found,
    /// stored or removed.
    pub outputs: [Option<ArrayMut<'a>>; 2],
}

impl<'a> Batch<'a> {
    /// Without values and answers.
    pub fn of(kind: Kind, keys: Array<'a>) -> Self {
        Self {
            kind,
            keys,
            values: Operands::NONE,
            default: 0,
            outputs: [None, None],
        }
    }

    /// With values, as many as keys, or one for all.
    pub fn with(kind: Kind, keys: Array<'a>, values: Operands<'a>) -> Self {
        Self {
            values,
            ..Self::of(kind, keys)
        }
    }
}

/// An operation on a batch that is on the device, or on the part of it that is still to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Command {
    pub kind: Kind,
    /// How many bytes its keys and values have.
    pub pair: Pair,
    /// How many keys; of a dump, places.
    pub len: usize,
    pub keys: *const u8,
    /// Null if all keys have the same, or none is taken.
    pub values: *const u8,
    /// What comes with every key then, as bits; of a lookup, what absent keys get.
    pub value: u64,
    /// The value that the map has for each key, or had; may be null.
    pub out_values: *mut u8,
    /// A byte for each key that says whether it was found, stored or removed; may be null, and is zero before if pairs are
    /// stored.
    pub out_flags: *mut u8,
    /// The same batch, sorted; only if nothing is told of single keys. One that other ranks have sent is here alone, and the
    /// pointers above are null.
    pub bins: Option<Bins<u8, u8>>,
}

// SAFETY: addresses; what queues a command vouches for what they lead to.
unsafe impl Send for Command {}
// SAFETY: as above.
unsafe impl Sync for Command {}

impl Command {
    /// Where its batch is, is still to be said.
    pub fn of(kind: Kind, pair: Pair, len: usize) -> Self {
        Self {
            kind,
            pair,
            len,
            keys: ptr::null(),
            values: ptr::null(),
            value: 0,
            out_values: ptr::null_mut(),
            out_flags: ptr::null_mut(),
            bins: None,
        }
    }

    /// The same batch with another kind, which tells nothing.
    pub fn as_kind(self, kind: Kind) -> Self {
        Self {
            kind,
            out_values: ptr::null_mut(),
            out_flags: ptr::null_mut(),
            ..self
        }
    }

    /// The same, also in bins, if it has been sorted into these.
    pub fn sorted(self, into: Option<&Binned>) -> Self {
        let bins = into.map(Binned::bins).or(self.bins);
        Self { bins, ..self }
    }

    /// Whether something is told of each key.
    pub fn answers(&self) -> bool {
        !self.out_values.is_null() || !self.out_flags.is_null()
    }

    /// Where answers go, as kernels take them.
    pub fn outputs(&self) -> Answers<u8> {
        Answers {
            values: self.out_values,
            found: self.out_flags,
            default: self.value,
        }
    }

    /// How many bits it takes to note something of each pair.
    pub fn places(&self) -> usize {
        self.bins
            .as_ref()
            .map_or(self.len, |bins| bins.len() as usize)
    }

    /// How many bytes of a workspace the arrays of the batch take.
    pub fn bytes_in(&self, scratch: &Workspace) -> u64 {
        let Pair { key, value } = self.pair;
        scratch.bytes_at(self.keys, self.len * key)
            + scratch.bytes_at(self.values, self.len * value)
            + scratch.bytes_at(self.out_values, self.len * value)
            + scratch.bytes_at(self.out_flags, self.len)
    }

    /// The first `len` keys.
    pub fn first(self, len: usize) -> Self {
        Self { len, ..self }
    }

    /// What comes after the first `done` keys.
    pub fn after(self, done: usize) -> Self {
        let Pair { key, value } = self.pair;
        Self {
            keys: self.keys.wrapping_add(done * key),
            values: offset(self.values.cast_mut(), done * value).cast_const(),
            out_values: offset(self.out_values, done * value),
            out_flags: offset(self.out_flags, done),
            len: self.len - done,
            ..self
        }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len == 0 && self.kind != Kind::Dump
    }

    /// How many pairs it stores at most.
    pub fn stores(&self) -> usize {
        match self.kind.traits().stores {
            true => self.len,
            false => 0,
        }
    }

    /// What it changes in the map's state.
    pub fn effect(&self) -> Effect {
        let len = self.len;
        match self.kind {
            _ if self.is_empty() => Effect::Read,
            Kind::Dump => Effect::Dump { room: len },
            kind if kind.traits().stores => Effect::Store { keys: len },
            kind if kind.traits().removes => Effect::Remove,
            Kind::Update(_) => Effect::Update,
            _ => Effect::Read,
        }
    }
}

/// Null stays null.
fn offset(pointer: *mut u8, by: usize) -> *mut u8 {
    match pointer.is_null() {
        true => pointer,
        false => pointer.wrapping_add(by),
    }
}
