//! [`Batch`] and [`Command`]: an operation on many keys, as plain data.
//!
//! A call makes a [`Batch`], whose arrays are where the caller has them. When they are on the device, it is a
//! [`Command`]: what a kernel is launched with, what a stream queues, and what a graph records and compares.

use std::mem::MaybeUninit;
use std::ptr;

use gpumap_kernels::build::bins::Bins;
use gpumap_kernels::verbs::look_up::Answers;
use gpumap_simt::atomic::part::Update;

use super::bulk::Binned;
use super::in_flight::Effect;
use super::operand::Operands;
use super::{Layout, Pair};
use crate::array::{Array, ArrayMut};
use crate::error::{Error, Result, expect_same_len};
use crate::memory::host_zeroed;
use crate::output::Sink;
use crate::scratch::{Fill, Places, Workspace};

/// What is done with each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Looks up.
    Get,
    /// Looks up strings, in a row map of these: keys are offsets, one more than there are strings, and values the bytes.
    GetStrings(StringLayout),
    /// Counts absent keys; of several equal ones each.
    CountAbsent,
    /// Stores pairs whose key is absent.
    Insert,
    /// Stores pairs, or updates values.
    Merge(Update),
    /// Stores pairs, or returns what is there.
    GetOrInsert,
    /// Stores pairs, or replaces ids and returns the old ones; beside no removals.
    ExchangeIds,
    /// Updates values of present keys.
    Update(Update),
    /// The same, and returns what they were.
    GetAndTouch(Update),
    /// Removes.
    Remove,
    /// Removes, and returns values; beside no updates.
    Take,
    /// Removes, and returns ids; beside no exchanges.
    TakeIds,
    /// Writes every pair to the keys and values of the command.
    Dump,
}

/// How the strings of a batch lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StringLayout {
    /// The offset of the first byte that there is,
    pub from: usize,
    /// and of the one behind the last.
    pub end: usize,
    /// Bytes of the column, of which these are a part.
    pub all: usize,
    /// Whether offsets have 8 bytes, or 4.
    pub are_wide: bool,
}

/// The properties of a [`Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Its name in [`op`](crate::op).
    pub name: &'static str,
    /// Whether it takes values.
    pub takes_values: bool,
    /// Whether it may store pairs, so that there has to be room for them.
    pub stores: bool,
    /// Whether it removes pairs.
    pub removes: bool,
    /// Whether nothing else may run on the map.
    pub is_alone: bool,
    /// Whether it returns a value for each key, by a kernel of its own.
    pub tells_values: bool,
    /// Whether it returns a byte for each key: whether that was found, stored or removed.
    pub tells_flags: bool,
    /// What does not run it.
    pub lacking: &'static [Receiver],
}

impl Kind {
    /// Whether it may change the map.
    pub fn changes(self) -> bool {
        let Traits {
            takes_values,
            stores,
            removes,
            ..
        } = *self.traits();
        // The values of strings that are looked up are their bytes.
        stores || removes || takes_values && !matches!(self, Self::GetStrings(_))
    }
}

/// What runs operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiver {
    Map(Layout),
    /// One of the layout `Rows`, whose values are bytes.
    RowsOfBytes,
    Sharded,
    Multi,
    /// A row map, whose values are its rows. It runs what its own methods say.
    Rows,
}

impl Receiver {
    /// All that run [operations](crate::op), in the order of the guide's table.
    pub const ALL: [Self; 6] = [
        Self::Map(Layout::Inline),
        Self::Map(Layout::Cells),
        Self::Map(Layout::Rows),
        Self::RowsOfBytes,
        Self::Sharded,
        Self::Multi,
    ];

    /// As messages and the guide's table name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Map(Layout::Inline) => "Map",
            Self::Map(Layout::Cells) => "Map (Cells)",
            Self::Map(Layout::Rows) => "Map (Rows)",
            Self::RowsOfBytes => "Map (Rows of bytes)",
            Self::Sharded => "ShardedMap",
            Self::Multi => "MultiMap",
            Self::Rows => "RowMap",
        }
    }

    /// Those that run operations in the order of a stream, or in a graph.
    pub const WITH_STREAMS: [Self; 5] = [
        Self::Map(Layout::Inline),
        Self::Map(Layout::Cells),
        Self::Map(Layout::Rows),
        Self::RowsOfBytes,
        Self::Multi,
    ];

    /// Whether an operation on a stream is queued, unless it may not fit. All others wait for the stream, since the host has
    /// a part in them, or nothing may run beside them.
    pub fn queues(self, kind: Kind) -> bool {
        match self {
            Self::Map(Layout::Inline) => !kind.traits().is_alone,
            // What stores takes cells from the host, which may wait for the calls in flight; what removes gives some back.
            Self::Map(Layout::Cells) => kind == Kind::Get,
            // What changes pairs is alone, and its rows are counted on the host.
            Self::Map(Layout::Rows) | Self::RowsOfBytes => kind == Kind::Get,
            Self::Rows => matches!(kind, Kind::Get | Kind::GetStrings(_)),
            // What stores may find all slabs taken for a moment, and is done once more by the host.
            Self::Multi => matches!(kind, Kind::Get | Kind::Remove | Kind::Take),
            Self::Sharded => false,
        }
    }
}

impl Kind {
    /// One of each that is an [operation](crate::op), in the order of the guide's table.
    pub(crate) const OPERATIONS: [Self; 10] = [
        Self::Insert,
        Self::Merge(Update::Replace),
        Self::Merge(Update::Add),
        Self::GetOrInsert,
        Self::Update(Update::Replace),
        Self::Update(Update::Add),
        Self::GetAndTouch(Update::Add),
        Self::Get,
        Self::Remove,
        Self::Take,
    ];

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
            Self::GetStrings(_) => 9,
            Self::Merge(update) => 32 + update as u64,
            Self::Update(update) => 64 + update as u64,
            Self::GetAndTouch(update) => 96 + update as u64,
        }
    }

    /// The table of all kinds. A call looks at it several times: no row is copied.
    pub(crate) const fn traits(self) -> &'static Traits {
        use Receiver::{Multi, RowsOfBytes};
        const CELLS: Receiver = Receiver::Map(Layout::Cells);
        const READS: Traits = Traits {
            name: "",
            takes_values: false,
            stores: false,
            removes: false,
            is_alone: false,
            tells_values: false,
            tells_flags: false,
            lacking: &[],
        };
        const STORES: Traits = Traits {
            takes_values: true,
            stores: true,
            tells_flags: true,
            ..READS
        };
        const REMOVES: Traits = Traits {
            removes: true,
            tells_flags: true,
            ..READS
        };
        match self {
            Self::Get => &Traits {
                name: "get",
                tells_values: true,
                tells_flags: true,
                ..READS
            },
            Self::GetStrings(_) => &Traits {
                name: "get",
                takes_values: true,
                tells_values: true,
                ..READS
            },
            Self::CountAbsent | Self::Dump => &READS,
            Self::Insert => &Traits {
                name: "insert",
                ..STORES
            },
            Self::Merge(Update::Replace) => &Traits {
                name: "upsert",
                lacking: &[Multi],
                ..STORES
            },
            Self::Merge(_) => &Traits {
                name: "merge",
                lacking: &[CELLS, RowsOfBytes, Multi],
                ..STORES
            },
            Self::GetOrInsert => &Traits {
                name: "get_or_insert",
                tells_values: true,
                ..STORES
            },
            Self::ExchangeIds => &Traits {
                tells_values: true,
                ..STORES
            },
            Self::Update(Update::Replace) => &Traits {
                name: "update",
                takes_values: true,
                lacking: &[Multi],
                ..READS
            },
            Self::Update(_) => &Traits {
                name: "update_with",
                takes_values: true,
                // They have bytes, not numbers.
                lacking: &[CELLS, RowsOfBytes, Multi],
                ..READS
            },
            Self::GetAndTouch(_) => &Traits {
                name: "get_and_touch",
                takes_values: true,
                tells_values: true,
                tells_flags: true,
                lacking: &[CELLS, RowsOfBytes, Multi],
                ..READS
            },
            Self::Remove => &Traits {
                name: "remove",
                ..REMOVES
            },
            Self::Take => &Traits {
                name: "take",
                is_alone: true,
                tells_values: true,
                ..REMOVES
            },
            Self::TakeIds => &Traits {
                tells_values: true,
                ..REMOVES
            },
        }
    }
}

/// An operation on arrays of the caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'a> {
    pub kind: Kind,
    pub keys: Array<'a>,
    /// As many as keys, or one for all; not looked at if the kind takes none.
    pub values: Operands<'a>,
    /// What absent keys get in the outputs, as bits.
    pub default: u64,
}

/// What becomes of the answers to the keys of a batch.
#[derive(Debug)]
pub(crate) enum Outputs<'a> {
    /// They are written to arrays.
    Arrays(Arrays<'a>),
    /// Something is made of each on the host.
    Collect(Collect<'a>),
}

/// Places for an answer to each key, if they are wanted: values, and bytes that are not 0 for those that were found,
/// stored or removed.
pub(crate) type Arrays<'a> = [Option<ArrayMut<'a>>; 2];

impl Batch<'_> {
    /// How many keys it has.
    pub fn len(&self) -> usize {
        match self.kind {
            Kind::GetStrings(_) => self.keys.len().saturating_sub(1),
            _ => self.keys.len(),
        }
    }

    /// Whether the receiver runs it, with values and with bytes for each key if they are `wanted`, and there are as many
    /// values as keys.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::LengthMismatch`].
    pub fn check(&self, by: Receiver, wanted: [bool; 2]) -> Result<()> {
        let traits = self.kind.traits();
        let [values, flags] = wanted;
        let form = match by {
            _ if traits.lacking.contains(&by) => "",
            _ if values && !traits.tells_values => " with values",
            _ if flags && !traits.tells_flags => " with outcomes",
            Receiver::Map(Layout::Cells) | Receiver::RowsOfBytes | Receiver::Multi
                if self.default != 0 =>
            {
                " with a default"
            }
            _ => {
                return match &self.values {
                    Operands::Each(values) if traits.takes_values => {
                        expect_same_len(self.keys.len(), values.len())
                    }
                    _ => Ok(()),
                };
            }
        };
        Err(self.unsupported(form, by.name()))
    }

    /// That a receiver does not run it in a form.
    pub fn unsupported(&self, form: &'static str, receiver: &'static str) -> Error {
        Error::Unsupported {
            operation: self.kind.traits().name,
            form,
            receiver,
        }
    }
}

/// Whether values go to arrays, and bytes.
pub(crate) fn told(arrays: &Arrays<'_>) -> [bool; 2] {
    arrays.each_ref().map(Option::is_some)
}

impl<'a> Outputs<'a> {
    /// None.
    pub const NONE: Self = Self::Arrays([None, None]);

    /// Whether values are returned, and bytes.
    pub fn told(&self) -> [bool; 2] {
        match self {
            Self::Arrays(arrays) => told(arrays),
            Self::Collect(collect) => collect.wanted.both(),
        }
    }

    /// Takes the first `len` places out; none if an array is on the device.
    pub fn split_off(&mut self, len: usize) -> Option<Self> {
        Some(match self {
            Self::Arrays(arrays) => {
                let mut parts = [None, None];
                for (part, array) in parts.iter_mut().zip(arrays) {
                    if let Some(array) = array {
                        *part = Some(array.split_off(len)?);
                    }
                }
                Self::Arrays(parts)
            }
            Self::Collect(collect) => Self::Collect(Collect {
                places: collect.places.split_off_mut(..len * collect.element)?,
                ..*collect
            }),
        })
    }

    /// Has `work` write the answers to `len` keys to arrays. Returns what that counts.
    pub fn through_arrays(
        self,
        len: usize,
        work: impl FnOnce(Arrays<'_>) -> Result<usize>,
    ) -> Result<usize> {
        match self {
            Self::Arrays(arrays) => work(arrays),
            Self::Collect(collect) => collect.through_arrays(len, work),
        }
    }
}

/// Which answers are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub values: bool,
    pub found: bool,
}

impl Wanted {
    /// The value of each key, and whether it was found.
    pub const BOTH: Self = Self {
        values: true,
        found: true,
    };

    /// Only values.
    pub const VALUES: Self = Self {
        found: false,
        ..Self::BOTH
    };

    /// Only whether keys were found.
    pub const FOUND: Self = Self {
        values: false,
        ..Self::BOTH
    };

    /// Whether values are, and whether it is said which were found.
    pub fn both(self) -> [bool; 2] {
        [self.values, self.found]
    }

    /// Bytes of the answers to so many keys: values of `value` bytes, and after them which were found.
    pub fn bytes(self, value: usize, keys: usize) -> [usize; 2] {
        [
            usize::from(self.values) * keys * value,
            usize::from(self.found) * keys,
        ]
    }
}

/// Answers of which something is made on the host, each in its place.
///
/// Invariant, of all that make one: `fill` is for places of such elements, and for such answers.
#[derive(Debug)]
pub(crate) struct Collect<'a> {
    /// Of as many elements as there are keys,
    pub places: &'a mut [MaybeUninit<u8>],
    /// and so many bytes each.
    pub element: usize,
    pub wanted: Wanted,
    /// Bytes of a value.
    pub value: usize,
    /// Makes elements of values and bytes, of which those are there that are wanted; it writes to all places.
    pub fill: Fill,
}

impl Collect<'_> {
    /// Has `work` write the answers to arrays, and makes elements of them. Returns what that counts.
    fn through_arrays(
        self,
        len: usize,
        work: impl FnOnce(Arrays<'_>) -> Result<usize>,
    ) -> Result<usize> {
        let Self { wanted, value, .. } = self;
        let [of_values, of_found] = wanted.bytes(value, len);
        // Words, so that values lie as the device has them.
        let mut values = host_zeroed::<u64>(of_values.div_ceil(size_of::<u64>()))?;
        let mut found = host_zeroed::<u8>(of_found)?;
        let bytes = &mut bytemuck::cast_slice_mut(&mut values)[..of_values];
        let arrays = [
            wanted
                .values
                .then(|| ArrayMut::of_bytes(Sink::Host(bytes), value, len)),
            wanted
                .found
                .then(|| ArrayMut::of_bytes(Sink::Host(&mut found), 1, len)),
        ];
        let count = work(arrays)?;
        self.fill(bytemuck::cast_slice(&values), &found, len);
        Ok(count)
    }

    /// Makes elements of `len` answers on the host; what is not wanted may be missing.
    pub fn fill(self, values: &[u8], found: &[u8], len: usize) {
        let [of_values, of_found] = self.wanted.bytes(self.value, len);
        assert!(of_values <= values.len() && of_found <= found.len());
        assert!(len * self.element <= self.places.len());
        let places = Places {
            to: self.places.as_mut_ptr().cast(),
            from: [values.as_ptr(), found.as_ptr()],
            len,
        };
        // SAFETY: as many answers and places, which are for what `fill` makes of them.
        unsafe { (self.fill)(places) };
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
    /// Null if all keys have the same, or none is taken. The bytes of strings.
    pub values: *const u8,
    /// What comes with every key then, as bits.
    pub value: u64,
    /// What absent keys get in the outputs, as bits.
    pub default: u64,
    /// The value that the map has for each key, or had; may be null.
    pub out_values: *mut u8,
    /// A byte for each key that says whether it was found, stored or removed; may be null, and is zero before if pairs are
    /// stored.
    pub out_flags: *mut u8,
    /// The same batch, sorted; only if there are no answers for single keys. One that other ranks have sent is here
    /// alone, and the pointers above are null.
    pub bins: Option<Bins<u8, u8>>,
}

// SAFETY: addresses; what queues a command vouches for what they lead to.
unsafe impl Send for Command {}
// SAFETY: as above.
unsafe impl Sync for Command {}

/// What the addresses of keys are multiples of, for kernels to load them.
pub(crate) const KEY_ALIGN: usize = size_of::<u32>();

impl Command {
    /// An operation with answers at these places. Where its batch is, is still to be said.
    pub fn of_batch(batch: &Batch<'_>, pair: Pair, [out_values, out_flags]: [*mut u8; 2]) -> Self {
        Self {
            value: batch.values.same(),
            default: batch.default,
            out_values,
            out_flags,
            ..Self::of(batch.kind, pair, batch.len())
        }
    }

    /// A dump of up to `room` pairs to keys and values.
    pub fn of_dump(pair: Pair, [keys, values]: [*mut u8; 2], room: usize) -> Self {
        Self {
            keys,
            values,
            ..Self::of(Kind::Dump, pair, room)
        }
    }

    /// Where its batch is, is still to be said.
    pub fn of(kind: Kind, pair: Pair, len: usize) -> Self {
        Self {
            kind,
            pair,
            len,
            keys: ptr::null(),
            values: ptr::null(),
            value: 0,
            default: 0,
            out_values: ptr::null_mut(),
            out_flags: ptr::null_mut(),
            bins: None,
        }
    }

    /// The same batch with another kind, which returns nothing.
    pub fn as_kind(self, kind: Kind) -> Self {
        Self {
            kind,
            out_values: ptr::null_mut(),
            out_flags: ptr::null_mut(),
            ..self
        }
    }

    /// The same, also in bins, if it has been sorted into these.
    pub(super) fn sorted(self, into: Option<&Binned>) -> Self {
        let bins = into.map(Binned::bins).or(self.bins);
        Self { bins, ..self }
    }

    /// Whether it has an answer for each key.
    pub fn answers(&self) -> bool {
        !self.out_values.is_null() || !self.out_flags.is_null()
    }

    /// Where answers go, as kernels take them.
    pub fn outputs(&self) -> Answers<u8> {
        Answers {
            values: self.out_values,
            found: self.out_flags,
            default: self.default,
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

    /// The bytes that have to be zero before its kernels, which write there for some keys only: where they begin, and how
    /// many they are.
    pub fn zeroed(&self) -> Option<(*mut u8, usize)> {
        let (at, bytes) = match self.kind {
            Kind::Take => (self.out_values, self.pair.value),
            kind if kind.traits().stores => (self.out_flags, 1),
            _ => return None,
        };
        (!at.is_null()).then_some((at, self.len * bytes))
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
            Kind::Update(_) | Kind::GetAndTouch(_) => Effect::Update,
            Kind::GetStrings(layout) => Effect::ReadStrings(layout),
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
