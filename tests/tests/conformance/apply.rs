//! Batches in which each key says what is done with it.

use std::thread;

use gpumap::{Answer, Buffer, Error, Growth, Key, Map, Numeric, Operation};
use gpumap_tests::pairs::{nth_key, value_by};
use gpumap_tests::{
    Batch, Oracle, Shape, Target, assert_holds, contents, key_bits, on_every_format, on_every_pair,
    on_pairs, value, value_bits,
};

const ALL: [Operation; 4] = [
    Operation::Get,
    Operation::Insert,
    Operation::Upsert,
    Operation::Remove,
];

/// Does a map's operation to an oracle, and returns what the map should answer.
fn expected(held: &mut Oracle, operation: Operation, key: u64, value: u64) -> Answer<u64> {
    let there = held.get(&key).copied();
    match (operation, there) {
        (Operation::Get | Operation::Remove, None) => Answer::Absent,
        (Operation::Get | Operation::Insert, Some(old)) => Answer::Present(old),
        (Operation::Insert | Operation::Upsert, None) => {
            held.insert(key, value);
            Answer::Stored
        }
        (Operation::Upsert, Some(_)) => {
            held.insert(key, value);
            Answer::Present(value)
        }
        (Operation::Remove, Some(_)) => {
            held.remove(&key);
            Answer::Removed
        }
    }
}

/// An answer with the bits of its value.
fn bits<V: Numeric>(answer: Answer<V>) -> Answer<u64> {
    match answer {
        Answer::Absent => Answer::Absent,
        Answer::Present(value) => Answer::Present(value_bits(value)),
        Answer::Stored => Answer::Stored,
        Answer::Removed => Answer::Removed,
    }
}

/// Applies a batch of distinct keys, and compares all answers.
fn apply<K: Key, V: Numeric>(
    map: &Map<K, V>,
    held: &mut Oracle,
    operations: &[Operation],
    batch: &Batch<K, V>,
) {
    let answers = map.apply(operations, &batch.keys, &batch.values).unwrap();
    let asked = operations.iter().zip(batch.bits());
    let right: Vec<_> = asked
        .map(|(&operation, (key, value))| expected(held, operation, key, value))
        .collect();
    let answers: Vec<_> = answers.into_iter().map(bits).collect();
    assert_eq!(answers, right);
    assert_holds(map, held);
}

/// What is done with the `i`-th key, in every way with every key after some rounds.
fn mixed(n: usize, round: usize) -> Vec<Operation> {
    (0..n).map(|i| ALL[(i * 7 / 3 + i + round) % 4]).collect()
}

#[test]
fn answers_of_every_operation() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let most = on.n(700, 200_000);
        for n in [0, 1, 31, 33, 257, most] {
            let map = on.map::<K, V>(8 * n);
            let mut held = Oracle::new();
            for round in 0..6 {
                let writer = round as u8 + 1;
                let batch = Batch::numbered(0..n as u64, writer);
                apply(&map, &mut held, &mixed(n, round), &batch);
            }
        }
    }
    on_every_pair!(body);
}

#[test]
fn absent_keys_of_full_slabs() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(1_200, 300_000);
        for page_slabs in [2, 512] {
            // Built, so that slabs say which keys have passed them; and nearly full.
            let builder = on.builder().capacity(n).max_load_factor(0.95);
            let builder = builder.page_slabs(page_slabs).bulk_from([1; 3]);
            let map: Map<K, V> = builder.build().unwrap();
            let first = Batch::<K, V>::numbered(0..n as u64, 1);
            assert_eq!(map.insert(&first.keys, &first.values).unwrap(), n);
            let mut held: Oracle = first.bits().collect();
            let twice = Batch::numbered(0..2 * n as u64, 2);
            apply(&map, &mut held, &vec![Operation::Get; 2 * n], &twice);
            // Some are stored where others are not found, in the same launch and after it.
            for round in 0..3 {
                let batch = Batch::numbered(0..2 * n as u64, 3 + round as u8);
                apply(&map, &mut held, &mixed(2 * n, round), &batch);
            }
        }
    }
    on_every_format!(body);
}

#[test]
fn a_mix_that_may_not_fit_makes_the_map_grow() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(1_500, 300_000);
        let map = on.builder().page_slabs(8).submaps(3).build().unwrap();
        let mut held = Oracle::new();
        for round in 0..4 {
            let first = (round * n / 2) as u64;
            let batch = Batch::<K, V>::numbered(first..first + n as u64, round as u8);
            apply(&map, &mut held, &mixed(n, round), &batch);
        }
    }
    on_every_format!(body);
}

#[test]
fn a_mix_without_room_is_refused_as_a_whole() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let builder = on.builder().growth(Growth::Fixed).submap_slots(&[64]);
        let map: Map<K, V> = builder.build().unwrap();
        let first = Batch::<K, V>::numbered(0..40, 1);
        map.insert(&first.keys, &first.values).unwrap();
        let held: Oracle = first.bits().collect();
        let more = Batch::<K, V>::numbered(30..530, 2);
        let operations = mixed(500, 1);
        let error = map.apply(&operations, &more.keys, &more.values).map(drop);
        assert!(
            matches!(error, Err(Error::Full { partial: false, .. })),
            "{error:?}"
        );
        assert_holds(&map, &held);
        // As many that need none.
        let gets = vec![Operation::Get; 500];
        let mut held = held;
        apply(&map, &mut held, &gets, &more);
    }
    on_pairs!(body: u32 => u32, u64 => u64, u64 => ());
}

#[test]
fn keys_without_room_are_placed_later() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // It promises more room than it has.
        let shape = Shape::new::<K, V>(&[8, 64, 8], 1, 3);
        let builder = shape.builder::<K, V>(on).capacity(2_000);
        let map = builder.growth(Growth::By(2.0)).build().unwrap();
        let (slots, mut held) = (map.slots(), Oracle::new());
        let batch = Batch::<K, V>::numbered(0..700, 1);
        apply(&map, &mut held, &[Operation::Upsert; 700], &batch);
        assert!(map.slots() > slots, "all of them had room");
        let batch = Batch::<K, V>::numbered(0..900, 2);
        apply(&map, &mut held, &mixed(900, 0), &batch);
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn equal_keys_in_one_batch() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(40, 5_000) as u64;
        let map = on.map::<K, V>(10 * n as usize);
        // Each key once stored and once removed, in some order, and looked up beside that.
        let numbers = (0..n).chain(0..n).chain(0..n);
        let batch = Batch::<K, V>::numbered(numbers, 1);
        let of = |operation| vec![operation; n as usize];
        let operations = [
            of(Operation::Insert),
            of(Operation::Get),
            of(Operation::Remove),
        ]
        .concat();
        let answers = map.apply(&operations, &batch.keys, &batch.values).unwrap();
        let held = contents(&map);
        for i in 0..n as usize {
            let key = key_bits(batch.keys[i]);
            let own = value_bits(batch.values[i]);
            let at = |part: usize| bits(answers[part * n as usize + i]);
            assert_eq!(at(0), Answer::Stored);
            assert!([Answer::Absent, Answer::Present(own)].contains(&at(1)));
            let left = if at(2) == Answer::Removed {
                None
            } else {
                assert_eq!(at(2), Answer::Absent);
                Some(&own)
            };
            assert_eq!(held.get(&key), left);
        }
        assert_eq!(map.len(), held.len());
    }
    on_every_format!(body);
}

#[test]
fn device_buffers_and_codes_that_mean_nothing() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let stream = on.stream();
        let map = on.map::<K, V>(2_000);
        let batch = Batch::<K, V>::numbered(0..500, 1);
        map.insert(&batch.keys[..250], &batch.values[..250])
            .unwrap();
        let codes: Vec<u8> = (0..500u32)
            .map(|i| match i % 3 {
                0 => Operation::Remove.code(),
                1 => Operation::Insert.code(),
                _ => 4 + (i % 250) as u8,
            })
            .collect();
        let keys = Buffer::from_slice(&stream, &batch.keys).unwrap();
        let values = Buffer::from_slice(&stream, &batch.values).unwrap();
        let operations = Buffer::from_slice(&stream, &codes).unwrap();
        let mut told = Buffer::from_slice(&stream, &[value::<V>(9); 501]).unwrap();
        let mut outcomes = Buffer::from_slice(&stream, &[77u8; 501]).unwrap();
        let applied = map
            .apply_into(&operations, &keys, &values, &mut told, &mut outcomes)
            .unwrap();
        let (told, outcomes) = (told.to_vec().unwrap(), outcomes.to_vec().unwrap());
        let (mut stored, mut removed) = (0, 0);
        for i in 0..500 {
            let answer = bits(Answer::from_code(outcomes[i], told[i]));
            let right = match (i % 3, i < 250) {
                (0, true) => {
                    removed += 1;
                    Answer::Removed
                }
                (0, false) => Answer::Absent,
                (1, true) => Answer::Present(value_bits(batch.values[i])),
                (1, false) => {
                    stored += 1;
                    Answer::Stored
                }
                _ => {
                    assert_eq!(outcomes[i], 77, "a code that means nothing was answered");
                    continue;
                }
            };
            assert_eq!(answer, right, "key {i}");
        }
        assert_eq!((applied.stored, applied.removed), (stored, removed));
        assert_eq!(outcomes[500], 77);
        assert_eq!(map.len(), 250 + stored - removed);

        let short = map.apply_into(&operations, &keys, &values, &mut [], &mut vec![0; 500]);
        assert!(
            matches!(
                short,
                Err(Error::OutputTooSmall {
                    needed: 500,
                    given: 0
                })
            ),
            "{short:?}"
        );
        let uneven = map
            .apply(&[Operation::Get], &batch.keys, &batch.values)
            .map(drop);
        assert!(
            matches!(
                uneven,
                Err(Error::LengthMismatch {
                    keys: 500,
                    values: 1
                })
            ),
            "{uneven:?}"
        );
    }
    on_pairs!(body: u32 => u32, u64 => u64, u32 => u64);
}

#[test]
fn operations_on_the_device_are_counted_where_room_is_short() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let few = 50;
        let many = on.n(20_000, 100_000) as u64;
        let map: Map<K, V> = on
            .builder()
            .capacity(2 * few)
            .growth(Growth::Fixed)
            .build()
            .unwrap();
        let first = Batch::<K, V>::numbered(0..few as u64, 1);
        map.insert(&first.keys, &first.values).unwrap();
        let left = map.capacity() - few;
        let stream = on.stream();
        // Absent keys are looked up; some at the end are stored.
        let apply = |stores: usize| {
            let batch = Batch::<K, V>::numbered(1_000..1_000 + many, 2);
            let mut operations = vec![Operation::Get; batch.len()];
            operations[batch.len() - stores..].fill(Operation::Upsert);
            let codes: Vec<u8> = operations.iter().map(|op| op.code()).collect();
            let codes = Buffer::from_slice(&stream, &codes).unwrap();
            let keys = Buffer::from_slice(&stream, &batch.keys).unwrap();
            let (mut values, mut outcomes) = (batch.values.clone(), vec![0; batch.len()]);
            map.apply_into(&codes, &keys, &batch.values, &mut values, &mut outcomes)
        };
        let refused = apply(left + 1).unwrap_err();
        assert!(
            matches!(refused, Error::Full { partial: false, .. }),
            "{refused}"
        );
        assert_holds(&map, &first.bits().collect());
        assert_eq!(apply(left).unwrap().stored, left);
        assert_eq!(map.len(), map.capacity());
        assert_eq!(apply(0).unwrap().stored, 0);
    }
    on_every_format!(body);
}

#[test]
fn mixes_of_many_threads() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(300, 20_000) as u64;
        let map = &on.map::<K, V>(40 * n as usize);
        // Threads share keys: what each gets must be a value that some thread wrote.
        thread::scope(|scope| {
            for caller in 0..4usize {
                scope.spawn(move || {
                    for round in 0..4 {
                        let batch = Batch::<K, V>::numbered(0..n, caller as u8);
                        let operations = mixed(n as usize, caller + round);
                        let answers = map.apply(&operations, &batch.keys, &batch.values).unwrap();
                        for (answer, &key) in answers.into_iter().zip(&batch.keys) {
                            if let Answer::Present(found) = answer {
                                let written =
                                    (0..4).map(|writer| value_bits(value_by::<K, V>(key, writer)));
                                assert!(written.into_iter().any(|w| w == value_bits(found)));
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(map.len(), contents(map).len());
        let absent: Vec<K> = (n..n + 50).map(nth_key).collect();
        assert_eq!(map.remove(&absent).unwrap(), 0);
    }
    on_every_format!(body);
}
