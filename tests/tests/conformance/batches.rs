//! Operations on batches, in every form and on maps that take them in every way, against the oracle: the counts, the
//! answer for each key, and what the map holds afterwards.
//!
//! [`ROWS`] is the script: a row is an operation and the numbers of the keys of its batch. The tests run all of it on a map,
//! each for other sizes, maps, forms or types.

use std::collections::{HashMap, HashSet};

use gpumap::op::{self, Execute, Op};
use gpumap::{Buffer, Input, Key, Map, Merge, Numeric, PinnedBuffer};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::{nth_key, patterns, value_by};
use gpumap_tests::{
    Batch, Oracle, Target, assert_holds, key, on_every_format, on_every_pair, oracle, value,
    value_bits,
};

/// What is done with a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Do {
    Insert,
    InsertTelling,
    Upsert,
    UpsertTelling,
    GetOrInsert,
    Merge(Merge),
    MergePresent(Merge),
    Assign,
    Remove,
    RemoveTelling,
    Take,
    RetainKeys,
}
use Do::*;

/// Numbers from here on are those of keys with bits that might mean something.
const SPECIAL: u64 = 1 << 40;

/// For a size, the numbers of the keys of a batch.
type Numbers = fn(u64) -> Vec<u64>;

const ROWS: &[(Do, Numbers)] = &[
    (Assign, |n| (0..n).collect()),
    (Remove, |n| (0..n).collect()),
    (Insert, |n| (0..n).collect()),
    // All are there.
    (Insert, |n| (0..n).collect()),
    // A key, and then many, of which each comes twice, side by side.
    (Insert, |n| vec![n]),
    (Insert, |n| (0..n).map(|i| n + 1 + i / 2).collect()),
    // Half of them are new; each comes twice, far apart.
    (InsertTelling, |n| (0..2 * n).map(|i| n + i % n).collect()),
    (Insert, |_| vec![]),
    (Upsert, |n| (n / 2..n / 2 + 2 * n).collect()),
    (Upsert, |n| (n / 2..n / 2 + 2 * n).collect()),
    // A few keys, each many times, of which some are new.
    (UpsertTelling, |n| (0..n).map(|i| 3 * n + i % 40).collect()),
    (Upsert, |n| (0..n).map(|i| 2 * n + i % 3).collect()),
    (Merge(Merge::Xor), |n| (n..n + n / 2 + 1).collect()),
    (Merge(Merge::Max), |n| {
        (0..2 * n).map(|i| 3 * n + i % n).collect()
    }),
    (MergePresent(Merge::Or), |n| {
        (0..3 * n).map(|i| i % n * 2).collect()
    }),
    (Assign, |n| (n / 2..n + n / 2).collect()),
    // Most are absent, and each that is present comes several times.
    (Assign, |n| (0..2 * n).map(|i| 4 * n - 2 + i % 9).collect()),
    (GetOrInsert, |n| {
        (0..n).map(|i| 4 * n - 5 + i % (n / 2 + 1)).collect()
    }),
    (GetOrInsert, |n| (n..3 * n).collect()),
    (Take, |n| (0..n).step_by(3).chain([0; 40]).collect()),
    // After tombstones.
    (Assign, |n| (0..n).collect()),
    (InsertTelling, |n| (0..n / 2).chain(0..n / 2).collect()),
    (Upsert, |n| (0..n / 2).collect()),
    (RemoveTelling, |n| (n / 3..2 * n).chain(n..2 * n).collect()),
    (Remove, |n| (0..n).map(|i| 2 * n + i % 7).collect()),
    // Keys whose bits mean a state are used up, and used again.
    (Insert, |_| (SPECIAL..SPECIAL + 9).collect()),
    (Upsert, |_| {
        (SPECIAL..SPECIAL + 9).chain(SPECIAL..SPECIAL + 9).collect()
    }),
    (MergePresent(Merge::And), |_| {
        (SPECIAL..SPECIAL + 12).collect()
    }),
    (Take, |_| (SPECIAL..SPECIAL + 9).collect()),
    (GetOrInsert, |_| (SPECIAL..SPECIAL + 12).collect()),
    (Remove, |_| (SPECIAL + 2..SPECIAL + 12).collect()),
    (InsertTelling, |_| vec![SPECIAL + 2; 50]),
    (RetainKeys, |n| {
        (0..n).map(|i| 2 * i).chain([SPECIAL, 1]).collect()
    }),
    // All that is left, and some that is not; and all of it once more.
    (RemoveTelling, |n| {
        (0..5 * n).chain(SPECIAL..SPECIAL + 12).collect()
    }),
    (Upsert, |n| (0..n).collect()),
    (Take, |n| (0..n + 40).collect()),
];

fn batch<K: Key, V: Numeric>(numbers: Vec<u64>, round: usize) -> Batch<K, V> {
    let special = patterns(size_of::<K>());
    let (keys, values) = numbers
        .into_iter()
        .enumerate()
        .map(|(i, number)| {
            let k = match number.checked_sub(SPECIAL) {
                // The words that mean a state are the last patterns but those beside them.
                Some(i) => key::<K>(special[special.len() - 1 - i as usize % special.len()]),
                None => nth_key(number),
            };
            // Pairs of one key have different values.
            (k, value_by::<K, V>(k, (7 * round + i % 17) as u8))
        })
        .unzip();
    Batch { keys, values }
}

/// What an operation says.
#[derive(Default)]
struct Told {
    count: Option<usize>,
    /// Whether a pair was stored or removed for each key.
    flags: Option<Vec<bool>>,
    /// The value of each key, if there is one.
    values: Option<Vec<Option<u64>>>,
}

impl Told {
    fn counted(count: gpumap::Result<usize>) -> Self {
        let count = Some(count.unwrap());
        Self {
            count,
            ..Self::default()
        }
    }

    fn flags(flags: gpumap::Result<Vec<bool>>) -> Self {
        let flags = Some(flags.unwrap());
        Self {
            flags,
            ..Self::default()
        }
    }

    fn values(values: Vec<Option<u64>>) -> Self {
        let values = Some(values);
        Self {
            values,
            ..Self::default()
        }
    }
}

/// An operation that counts and has no answers for single keys.
fn counting<'a, K: Key, V: Numeric>(
    what: Do,
    keys: &'a (impl Input<K> + ?Sized),
    values: &'a (impl Input<V> + ?Sized),
) -> Option<Op<'a, K, V, usize>> {
    Some(match what {
        Insert => op::insert(keys, values),
        Upsert => op::upsert(keys, values),
        Merge(how) => op::merge(keys, values, how),
        MergePresent(how) => op::update_with(keys, values, how),
        Assign => op::update(keys, values),
        Remove => op::remove(keys),
        _ => return None,
    })
}

/// Runs an operation, and waits.
fn run<K: Key, V: Numeric>(
    map: &Map<K, V>,
    what: Do,
    keys: &(impl Input<K> + ?Sized),
    values: &(impl Input<V> + ?Sized),
) -> Told {
    let bits = |values: Vec<Option<V>>| values.into_iter().map(|v| v.map(value_bits)).collect();
    match what {
        InsertTelling => Told::flags(map.execute(op::insert(keys, values).each())),
        UpsertTelling => Told::flags(map.execute(op::upsert(keys, values).each())),
        RemoveTelling => Told::flags(map.execute(op::remove(keys).each())),
        GetOrInsert => {
            let there = map.get_or_insert(keys, values).unwrap();
            Told::values(bits(there.into_iter().map(Some).collect()))
        }
        Take => Told::values(bits(map.take(keys).unwrap())),
        RetainKeys => Told::counted(map.retain_keys(keys)),
        _ => Told::counted(map.execute(counting(what, keys, values).unwrap())),
    }
}

/// How a batch goes in.
#[derive(Clone, Copy, Debug)]
enum Form {
    Host,
    Pinned,
    Device,
    /// Views that begin at an odd place.
    Views,
    KeysOfDevice,
    ValuesOfDevice,
    /// On a stream, where the operation counts.
    Stream,
    StreamOfDevice,
    /// Likewise, in a graph.
    Graph,
}

const FORMS: [Form; 9] = [
    Form::Host,
    Form::Pinned,
    Form::Device,
    Form::Views,
    Form::KeysOfDevice,
    Form::ValuesOfDevice,
    Form::Stream,
    Form::StreamOfDevice,
    Form::Graph,
];

/// Elements in page-locked memory.
fn pinned<T: bytemuck::Pod>(on: &Target, elements: &[T]) -> PinnedBuffer<T> {
    let mut buffer = PinnedBuffer::zeroed(on.device(), elements.len()).unwrap();
    buffer.copy_from_slice(elements);
    buffer
}

fn run_in<K: Key, V: Numeric>(
    on: &Target,
    form: Form,
    map: &Map<K, V>,
    what: Do,
    Batch { keys, values }: &Batch<K, V>,
) -> Told {
    let stream = on.stream();
    // Each from another stream.
    let of_keys = |keys: &[K]| Buffer::from_slice(&stream, keys).unwrap();
    let of_values = |values: &[V]| Buffer::from_slice(&on.stream(), values).unwrap();
    match form {
        Form::Host => run(map, what, keys, values),
        Form::Pinned => run(map, what, &pinned(on, keys), &pinned(on, values)),
        Form::Device => run(map, what, &of_keys(keys), &of_values(values)),
        Form::Views => {
            let keys = of_keys(&[&[nth_key(0)], &keys[..], &[nth_key(1)]].concat());
            let values = of_values(&[&[value(1)], &values[..]].concat());
            let inside = 1..keys.len() - 1;
            let (keys, values) = (keys.slice(inside).unwrap(), values.slice(1..).unwrap());
            run(map, what, &keys, &values)
        }
        Form::KeysOfDevice => run(map, what, &of_keys(keys), values),
        Form::ValuesOfDevice => run(map, what, keys, &of_values(values)),
        Form::Stream => match counting(what, keys, values) {
            Some(op) => Told::counted(map.on(&stream).submit(op).unwrap().wait()),
            None => run(map, what, keys, values),
        },
        Form::StreamOfDevice | Form::Graph => {
            let (keys, values) = (of_keys(keys), of_values(values));
            let Some(op) = counting(what, &keys, &values) else {
                return run(map, what, &keys, &values);
            };
            if let Form::StreamOfDevice = form {
                return Told::counted(map.on(&stream).submit(op).unwrap().wait());
            }
            let mut graph = map.graph(&stream);
            let mut recording = graph.record();
            recording.add(op).unwrap();
            let counts = recording.launch().unwrap().wait();
            Told::counted(counts.map(|counts| counts[0]))
        }
    }
}

/// Compares what an operation said and did with what it should, and brings the oracle to where the map is.
fn check<K: Key, V: Numeric>(
    held: &mut Oracle,
    map: &Map<K, V>,
    what: Do,
    batch: &Batch<K, V>,
    told: &Told,
) {
    let before = held.clone();
    let pairs: Vec<(u64, u64)> = batch.bits().collect();
    let distinct: HashSet<u64> = pairs.iter().map(|(k, _)| *k).collect();
    let there: Vec<_> = pairs
        .iter()
        .copied()
        .filter(|(k, _)| before.contains_key(k))
        .collect();
    let present = distinct.iter().filter(|k| before.contains_key(k)).count();
    let count = match what {
        Insert | InsertTelling | GetOrInsert => oracle::adopt(held, map, pairs.iter().copied()),
        Upsert | UpsertTelling => oracle::adopt_upserted(held, map, pairs.iter().copied()),
        Merge(how) => oracle::merge::<V>(held, pairs.iter().copied(), how),
        MergePresent(how) => {
            oracle::merge::<V>(held, there.iter().copied(), how);
            there.len()
        }
        Assign => {
            oracle::adopt_upserted(held, map, there.iter().copied());
            there.len()
        }
        Remove | RemoveTelling | Take => {
            held.retain(|k, _| !distinct.contains(k));
            present
        }
        RetainKeys => {
            held.retain(|k, _| distinct.contains(k));
            before.len() - held.len()
        }
    };
    assert_holds(map, held);
    if let Some(counted) = told.count {
        assert_eq!(counted, count, "counted");
    }
    let removes = matches!(what, RemoveTelling | Take);
    if let Some(flags) = &told.flags {
        assert_eq!(flags.len(), pairs.len());
        let mut done = HashMap::new();
        for ((k, v), _) in pairs.iter().zip(flags).filter(|(_, flag)| **flag) {
            assert_eq!(before.contains_key(k), removes, "key {k:#x}");
            assert!(done.insert(k, v).is_none(), "key {k:#x} twice");
            // The pair that says so is the one that is there.
            assert!(what != InsertTelling || held[k] == *v, "key {k:#x}");
        }
        assert_eq!(done.len(), count, "told");
    }
    if let Some(values) = &told.values {
        assert_eq!(values.len(), pairs.len());
        let mut taken = HashSet::new();
        for ((k, _), value) in pairs.iter().zip(values) {
            match removes {
                true if value.is_some() => {
                    assert!(taken.insert(k), "key {k:#x} twice");
                    assert_eq!(*value, before.get(k).copied(), "key {k:#x}");
                }
                true => {}
                false => assert_eq!(*value, Some(held[k]), "key {k:#x}"),
            }
        }
        assert!(!removes || taken.len() == count, "taken");
    }
}

/// Runs the script on an empty map.
fn script<K: Key, V: Numeric>(on: &Target, map: &Map<K, V>, n: u64, form: Form) {
    let mut held = Oracle::new();
    for (round, &(what, numbers)) in ROWS.iter().enumerate() {
        let batch = batch::<K, V>(numbers(n), round);
        noting(&format!("row {round}: {what:?}, {n}, {form:?}"), || {
            let told = run_in(on, form, map, what, &batch);
            check(&mut held, map, what, &batch, &told);
        });
    }
}

/// Pairs that the script has in a map at most.
fn most(n: u64) -> usize {
    6 * n as usize + 60
}

#[test]
fn of_every_size() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for n in [5, 31, 32, 33, 255, 256, 257, on.n(700, 500_003) as u64] {
            script(on, &on.map::<K, V>(most(n)), n, Form::Host);
        }
    }
    on_every_format!(body);
}

#[test]
fn in_every_form() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for form in FORMS {
            let n = on.n(140, 30_011) as u64;
            script(on, &on.map::<K, V>(most(n)), n, form);
        }
    }
    on_every_format!(body);
}

#[test]
fn of_every_pair_of_types() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(100, 50_000) as u64;
        script(on, &on.map::<K, V>(most(n)), n, Form::Host);
    }
    on_every_pair!(body);
}

#[test]
fn on_maps_that_take_them_in_every_way() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = (on.n(400, 40_000) / on.stride(5)) as u64;
        let builder = || on.builder::<K, V>().capacity(most(n));
        let bytes = on.n(256, 16 << 10);
        let maps = [
            ("growing", on.map(0)),
            ("fixed", on.fixed(most(n))),
            ("in nine submaps", builder().submaps(9).build().unwrap()),
            (
                "in chunks",
                builder().chunking(1, bytes, true).build().unwrap(),
            ),
            ("page by page", builder().bulk_from([1; 3]).build().unwrap()),
            (
                "in bins",
                builder().bulk_from([usize::MAX, 1, 1]).build().unwrap(),
            ),
        ];
        for (how, map) in maps {
            noting(how, || script(on, &map, n, Form::Host));
        }
    }
    on_every_format!(body);
}
