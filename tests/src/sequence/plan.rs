//! What a sequence is to do: a map's settings and a list of verbs, as plain data that proptest
//! makes and makes smaller.

use gpumap::{Merge, Operation};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

/// Pairs of a batch: the number of a key, and the bits of a value.
pub type Pairs = Vec<(u16, u64)>;
/// Operations of a mixed batch: the number of a key, the bits of a value, and what is done with them.
pub type Mix = Vec<(u16, u64, Operation)>;
/// Keys of a batch, by number.
pub type Keys = Vec<u16>;

/// A map's settings.
#[derive(Clone, Copy, Debug)]
pub enum Growing {
    /// It grows by this factor.
    By(f64),
    /// It does not.
    Fixed,
}

/// A map to be, and the keys that its sequence is about.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Whether it grows.
    pub growing: Growing,
    /// How many pairs it is planned for.
    pub capacity: usize,
    /// Slots of each submap, instead of the planned; then it does not grow, and what fits is
    /// known exactly until something is removed.
    pub slots: Option<Vec<usize>>,
    /// How many submaps.
    pub submaps: u32,
    /// Slabs per page.
    pub page_slabs: u32,
    /// For the hash.
    pub seed: u64,
    /// How many keys take part: few, so that they meet again.
    pub keys: usize,
    /// Whether verbs that take pairs away, or change the shape of the map, are left out.
    pub only_stores: bool,
}

/// One step.
#[derive(Clone, Debug)]
pub enum Op {
    /// `insert`, from the host or from buffers.
    Insert(Pairs, bool),
    /// `insert_with_outcome`.
    InsertTold(Pairs),
    /// `upsert`.
    Upsert(Pairs),
    /// `upsert_with_outcome`.
    UpsertTold(Pairs),
    /// `merge`.
    Merge(Pairs, Merge),
    /// `get_or_insert`.
    GetOrInsert(Pairs),
    /// `get_or_insert_into`, into a part of a buffer.
    GetOrInsertInto(Pairs),
    /// `upsert` on a stream.
    UpsertOnStream(Pairs),
    /// `update`, also on a stream.
    Assign(Pairs, bool),
    /// `update_with`.
    MergePresent(Pairs, Merge),
    /// `apply`.
    Apply(Mix),
    /// `try_extend`.
    Extend(Pairs),
    /// `remove`.
    Remove(Keys),
    /// `remove_with_outcome`.
    RemoveTold(Keys),
    /// `take`.
    RemoveValues(Keys),
    /// `retain` of keys and values up to these bits.
    Retain(u64, u64),
    /// `retain_keys`.
    RetainKeys(Keys),
    /// `drain`.
    Drain,
    /// `clear`.
    Clear,
    /// `reserve`.
    Reserve(usize),
    /// `shrink_to_fit`.
    Shrink,
    /// All verbs that look keys up, with this default, also into parts of buffers.
    LookUp(Keys, u64),
    /// `retrieve_all`, and into parts of buffers with so much room to spare.
    Retrieve(usize),
    /// `stats`.
    Stats,
    /// Calls that are refused.
    Mistake,
}

fn number() -> impl Strategy<Value = u16> {
    any::<u16>()
}

fn keys() -> impl Strategy<Value = Keys> {
    prop_oneof![
        4 => vec(number(), 0..12),
        1 => vec(number(), 0..100),
    ]
}

fn pairs() -> impl Strategy<Value = Pairs> {
    let bits = || {
        prop_oneof![
            3 => any::<u64>(),
            1 => 0..4u64,
            1 => (0..64u32).prop_map(|shift| !0 << shift),
            // Infinities and NaNs of both widths.
            1 => Just(0xff80_0000),
            1 => Just(0x7ff8_0000_7fc0_0001),
        ]
    };
    prop_oneof![
        4 => vec((number(), bits()), 0..12),
        1 => vec((number(), bits()), 0..100),
    ]
}

fn mix() -> impl Strategy<Value = Mix> {
    let operation = || {
        prop_oneof![
            1 => Just(Operation::Get),
            2 => Just(Operation::Insert),
            2 => Just(Operation::Upsert),
            3 => Just(Operation::Remove),
        ]
    };
    let one = || (number(), any::<u64>(), operation());
    prop_oneof![
        2 => vec(one(), 0..12),
        1 => vec(one(), 0..100),
    ]
}

fn merge() -> impl Strategy<Value = Merge> {
    prop_oneof![
        3 => Just(Merge::Add),
        1 => Just(Merge::Min),
        1 => Just(Merge::Max),
        1 => Just(Merge::And),
        1 => Just(Merge::Or),
        1 => Just(Merge::Xor),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (pairs(), any::<bool>()).prop_map(|(pairs, device)| Op::Insert(pairs, device)),
        3 => pairs().prop_map(Op::InsertTold),
        5 => pairs().prop_map(Op::Upsert),
        2 => pairs().prop_map(Op::UpsertTold),
        6 => (pairs(), merge()).prop_map(|(pairs, how)| Op::Merge(pairs, how)),
        4 => pairs().prop_map(Op::GetOrInsert),
        3 => pairs().prop_map(Op::GetOrInsertInto),
        2 => pairs().prop_map(Op::UpsertOnStream),
        3 => (pairs(), any::<bool>()).prop_map(|(pairs, queued)| Op::Assign(pairs, queued)),
        2 => (pairs(), merge()).prop_map(|(pairs, how)| Op::MergePresent(pairs, how)),
        6 => mix().prop_map(Op::Apply),
        1 => pairs().prop_map(Op::Extend),
        6 => keys().prop_map(Op::Remove),
        2 => keys().prop_map(Op::RemoveTold),
        2 => keys().prop_map(Op::RemoveValues),
        1 => (any::<u64>(), any::<u64>()).prop_map(|(k, v)| Op::Retain(k, v)),
        1 => keys().prop_map(Op::RetainKeys),
        1 => Just(Op::Drain),
        1 => Just(Op::Clear),
        1 => (0..100usize).prop_map(Op::Reserve),
        1 => Just(Op::Shrink),
        6 => (keys(), any::<u64>()).prop_map(|(keys, default)| Op::LookUp(keys, default)),
        2 => (0..3usize).prop_map(Op::Retrieve),
        1 => Just(Op::Stats),
        1 => Just(Op::Mistake),
    ]
}

fn setup() -> impl Strategy<Value = Setup> {
    let submaps = || prop_oneof![4 => Just(1u32), 1 => Just(2), 1 => Just(3), 1 => Just(9)];
    let slots = submaps().prop_flat_map(|submaps| vec(1..40usize, submaps as usize));
    let growing = prop_oneof![
        (105..400u32).prop_map(|percent| Growing::By(f64::from(percent) / 100.0)),
        Just(Growing::Fixed),
    ];
    (
        growing,
        0..60usize,
        proptest::option::weighted(0.3, slots),
        submaps(),
        (0..5u32).prop_map(|log2| 1 << log2),
        any::<u64>(),
        1..160usize,
        proptest::bool::weighted(0.3),
    )
        .prop_map(
            |(growing, capacity, slots, submaps, page_slabs, seed, keys, only_stores)| Setup {
                growing,
                capacity,
                slots,
                submaps,
                page_slabs,
                seed,
                keys,
                only_stores,
            },
        )
}

/// A map and up to `steps` verbs on it.
pub fn plan(steps: usize) -> impl Strategy<Value = (Setup, Vec<Op>)> {
    (setup(), vec(op(), 1..steps))
}
