//! Every operation of [`gpumap::op`] on everything that runs operations, against a plain map: one row of [`expect`] for
//! an operation, a line of the tests below for a receiver.

use std::cell::RefCell;

use bytemuck::Pod;
use gpumap::op::{self, Execute, Op};
use gpumap::sharded::{Rank, Shard};
use gpumap::{
    Buffer, Error, Graph, Input, Key, Map, Merge, Numeric, OnStream, Output, Pending, Result, Word,
    WordKey,
};
use gpumap_tests::device::noting;
use gpumap_tests::group::on_every_group;
use gpumap_tests::pairs::{Halves32, Halves64, nth_key};
use gpumap_tests::{Oracle, Target, key_bits, on_every_target, on_pairs, value, value_bits};

use super::graphs::kinds::HasGraphs;

/// Keys of a batch, of which every second is present at first.
const N: u64 = 90;

/// The expected result of an operation.
struct Expected {
    count: usize,
    /// The value of each key, and whether it was found, stored or removed.
    answers: Vec<(Option<u64>, bool)>,
}

/// What an operation does to the pairs, key by key.
fn expect(operation: &str, pairs: &mut Oracle, batch: &[(u64, u64)]) -> Expected {
    let one = |&(key, new): &(u64, u64)| {
        let old = pairs.get(&key).copied();
        let (held, told, flag) = match operation {
            "insert" => (old.or(Some(new)), None, old.is_none()),
            "upsert" => (Some(new), None, old.is_none()),
            "merge" => (
                Some(old.map_or(new, |old| old.max(new))),
                None,
                old.is_none(),
            ),
            "get_or_insert" => (old.or(Some(new)), old.or(Some(new)), old.is_none()),
            "update" => (old.map(|_| new), None, old.is_some()),
            "update_with" => (old.map(|old| old.max(new)), None, old.is_some()),
            "get_and_touch" => (old.map(|old| old.max(new)), old, old.is_some()),
            "get" => (old, old, old.is_some()),
            "remove" => (None, None, old.is_some()),
            "take" => (None, old, old.is_some()),
            other => panic!("{other} has no row here"),
        };
        match held {
            Some(value) => pairs.insert(key, value),
            None => pairs.remove(&key),
        };
        (told, flag)
    };
    let answers: Vec<_> = batch.iter().map(one).collect();
    let count = answers.iter().filter(|(_, flag)| *flag).count();
    Expected {
        count: if operation == "get" { 0 } else { count },
        answers,
    }
}

/// An operation that counts.
fn counting<'a, K: Key, V: Numeric>(
    operation: &str,
    keys: &'a (impl Input<K> + ?Sized),
    values: &'a (impl Input<V> + ?Sized),
) -> Option<Op<'a, K, V, usize>> {
    Some(match operation {
        "insert" => op::insert(keys, values),
        "upsert" => op::upsert(keys, values),
        "merge" => op::merge(keys, values, Merge::Max),
        "update" => op::update(keys, values),
        "update_with" => op::update_with(keys, values, Merge::Max),
        "remove" => op::remove(keys),
        _ => return None,
    })
}

/// One that returns values, into places for them.
fn telling<'a, K: Key, V: Numeric>(
    operation: &str,
    keys: &'a (impl Input<K> + ?Sized),
    values: &'a (impl Input<V> + ?Sized),
    told: &'a mut (impl Output<V> + ?Sized),
) -> Op<'a, K, V, ()> {
    match operation {
        "get" => op::get(keys).into(told),
        "get_or_insert" => op::get_or_insert(keys, values).into(told),
        "take" => op::take(keys).into(told),
        "get_and_touch" => op::get_and_touch(keys, values, Merge::Max).into(told),
        other => panic!("{other} has no row here"),
    }
}

/// What runs operations that answer with a count: everything.
trait Counting<K, V> {
    fn count(&self, op: Op<'_, K, V, usize>) -> Result<usize>;
}

struct Direct<R>(R);

impl<K, V, R: Execute<K, V>> Counting<K, V> for Direct<R> {
    fn count(&self, op: Op<'_, K, V, usize>) -> Result<usize> {
        self.0.execute(op)
    }
}

/// A graph of one operation.
struct OnGraph<'m, K, V>(RefCell<Graph<'m, K, V>>);

impl<K, V> Counting<K, V> for OnGraph<'_, K, V> {
    fn count(&self, op: Op<'_, K, V, usize>) -> Result<usize> {
        let mut graph = self.0.borrow_mut();
        let mut recording = graph.record();
        recording.add(op)?;
        Ok(recording.launch()?.wait()?[0])
    }
}

/// A rank at its shard.
struct AtRank<'r, S>(RefCell<(&'r mut Rank, S)>);

impl<K: Key, V: Numeric> Execute<K, V> for AtRank<'_, Shard<K, V>> {
    fn execute<A>(&self, op: Op<'_, K, V, A>) -> Result<A> {
        let (rank, shard) = &mut *self.0.borrow_mut();
        shard.execute(rank, op)
    }
}

/// Places for answers, on the host or on the device.
trait Places<T: Pod> {
    type Of: Output<T> + Input<T>;
    fn with(&self, elements: &[T]) -> Self::Of;
    fn read(&self, places: Self::Of) -> Vec<T>;
}

struct OnHost;

impl<T: Pod> Places<T> for OnHost {
    type Of = Vec<T>;

    fn with(&self, elements: &[T]) -> Vec<T> {
        elements.to_vec()
    }

    fn read(&self, places: Vec<T>) -> Vec<T> {
        places
    }
}

struct OnDevice<'t>(&'t Target);

impl<T: Pod> Places<T> for OnDevice<'_> {
    type Of = Buffer<T>;

    fn with(&self, elements: &[T]) -> Buffer<T> {
        Buffer::from_slice(&self.0.stream(), elements).unwrap()
    }

    fn read(&self, places: Buffer<T>) -> Vec<T> {
        places.to_vec().unwrap()
    }
}

/// The numbers of the keys of a case, and what makes counts of it: ranks have keys of their own, and count all.
#[derive(Clone, Copy)]
struct Case {
    receiver: &'static str,
    first: u64,
    ranks: usize,
    /// Whether it asks which keys were stored, removed or found.
    with_outcomes: bool,
}

/// Whether a receiver runs an operation.
fn supported(receiver: &str, operation: &str) -> bool {
    let table = op::table();
    let (_, cells) = table.iter().find(|(name, _)| *name == operation).unwrap();
    let (_, cell) = cells.iter().find(|(name, _)| *name == receiver).unwrap();
    *cell == "yes"
}

fn assert_unsupported<T>(result: Result<T>, case: Case, operation: &str) {
    match result.map(drop) {
        Err(Error::Unsupported {
            operation: name,
            receiver,
            ..
        }) => assert_eq!((name, receiver), (operation, case.receiver)),
        other => panic!("{operation} on {}: {other:?}", case.receiver),
    }
}

/// Every operation with outputs of the caller, one after the other.
fn into_places<K: Key, V: Numeric, M>(on: &impl Counting<K, V>, case: Case, memory: &M)
where
    M: Places<K> + Places<V> + Places<u8>,
{
    let mut pairs = Oracle::new();
    for (round, (operation, _)) in op::table().into_iter().enumerate() {
        noting(operation, || {
            let runs = supported(case.receiver, operation);
            let with_outcomes = case.with_outcomes;
            let batch: Vec<(K, V)> = (0..N)
                .map(|i| (nth_key(case.first + i), value(i * 7 + 1000 * round as u64)))
                .collect();
            let (keys, values): (Vec<K>, Vec<V>) = batch.iter().copied().unzip();
            let bits: Vec<(u64, u64)> = batch
                .iter()
                .map(|&(k, v)| (key_bits(k), value_bits(v)))
                .collect();
            let (keys, values) = (memory.with(&keys), memory.with(&values));
            let mut told = vec![9; N as usize + 1];
            let mut told_at: <M as Places<V>>::Of =
                memory.with(&vec![value::<V>(9); N as usize + 1]);
            let mut flags_at: <M as Places<u8>>::Of = memory.with(&[9; N as usize + 1]);
            // Half of the keys are there.
            let half: Vec<(K, V)> = batch.iter().copied().step_by(2).collect();
            let (half_keys, half_values): (Vec<K>, Vec<V>) = half.iter().copied().unzip();
            let (half_keys, half_values) = (memory.with(&half_keys), memory.with(&half_values));
            on.count(op::remove(&keys)).unwrap();
            on.count(op::insert(&half_keys, &half_values)).unwrap();
            pairs.clear();
            pairs.extend(half.iter().map(|&(k, v)| (key_bits(k), value_bits(v))));

            let done = match counting(operation, &keys, &values) {
                Some(op) if with_outcomes && op_tells(operation) => {
                    on.count(op.outcomes(&mut flags_at))
                }
                Some(op) => on.count(op),
                None if with_outcomes => {
                    let op = telling(operation, &keys, &values, &mut told_at);
                    on.count(op.found(&mut flags_at).count())
                }
                None => on.count(telling(operation, &keys, &values, &mut told_at).count()),
            };
            if !runs {
                return assert_unsupported(done, case, operation);
            }
            let expected = expect(operation, &mut pairs, &bits);
            assert_eq!(done.unwrap(), expected.count * case.ranks);
            if counting(operation, &keys, &values).is_none() {
                told = memory
                    .read(told_at)
                    .into_iter()
                    .map(value_bits::<V>)
                    .collect();
                let wanted = expected.answers.iter().map(|(value, _)| value.unwrap_or(0));
                assert!(told.iter().copied().take(N as usize).eq(wanted));
            }
            if with_outcomes && op_tells(operation) {
                let flags: Vec<u8> = memory.read(flags_at);
                let wanted = expected.answers.iter().map(|&(_, flag)| u8::from(flag));
                assert!(flags.iter().copied().take(N as usize).eq(wanted));
                assert_eq!(flags[N as usize], 9, "behind the batch");
            }
            assert_eq!(told[N as usize], 9, "behind the batch");
            // What is there now.
            let mut now: <M as Places<V>>::Of = memory.with(&vec![value::<V>(9); N as usize]);
            on.count(op::get(&keys).into(&mut now).count()).unwrap();
            let now = memory.read(now).into_iter().map(value_bits::<V>);
            assert!(
                now.eq(bits
                    .iter()
                    .map(|(key, _)| pairs.get(key).copied().unwrap_or(0)))
            );
        });
    }
}

/// Whether an operation says what became of each key: all but updates of present keys.
fn op_tells(operation: &str) -> bool {
    !operation.starts_with("update")
}

/// Every operation with answers that it makes itself.
fn answering<K: Key, V: Numeric>(on: &impl Execute<K, V>, case: Case) {
    let mut pairs = Oracle::new();
    for (round, (operation, _)) in op::table().into_iter().enumerate() {
        noting(operation, || {
            let runs = supported(case.receiver, operation);
            let keys: Vec<K> = (0..N).map(|i| nth_key(case.first + i)).collect();
            let values: Vec<V> = (0..N).map(|i| value(i * 5 + 2000 * round as u64)).collect();
            let bits: Vec<(u64, u64)> = keys
                .iter()
                .zip(&values)
                .map(|(&k, &v)| (key_bits(k), value_bits(v)))
                .collect();
            on.execute(op::remove(&keys)).unwrap();
            let third = keys.len() / 3;
            on.execute(op::insert(&keys[..third], &values[..third]))
                .unwrap();
            pairs.clear();
            pairs.extend(bits[..third].iter().copied());

            let options = |values: Vec<Option<V>>| -> Vec<Option<u64>> {
                values.into_iter().map(|v| v.map(value_bits)).collect()
            };
            let mut told = None;
            let mut flags = None;
            match counting(operation, &keys, &values) {
                Some(op) => match on.execute(op.each()) {
                    done if runs && op_tells(operation) => flags = Some(done.unwrap()),
                    done => return assert_unsupported(done, case, operation),
                },
                None if operation == "get_or_insert" => {
                    match on.execute(op::get_or_insert(&keys, &values)) {
                        done if runs => {
                            told = Some(options(done.unwrap().into_iter().map(Some).collect()));
                        }
                        done => return assert_unsupported(done, case, operation),
                    }
                }
                None if operation == "get_and_touch" => {
                    match on.execute(op::get_and_touch(&keys, &values, Merge::Max)) {
                        done if runs => told = Some(options(done.unwrap())),
                        done => return assert_unsupported(done, case, operation),
                    }
                }
                None if operation == "take" => match on.execute(op::take(&keys)) {
                    done if runs => told = Some(options(done.unwrap())),
                    done => return assert_unsupported(done, case, operation),
                },
                None => {
                    told = Some(options(on.execute(op::get(&keys)).unwrap()));
                    flags = Some(on.execute(op::contains(&keys)).unwrap());
                }
            }
            let expected = expect(operation, &mut pairs, &bits);
            if let Some(told) = told {
                assert!(
                    told.into_iter()
                        .eq(expected.answers.iter().map(|(value, _)| *value))
                );
            }
            if let Some(flags) = flags {
                assert!(
                    flags
                        .into_iter()
                        .eq(expected.answers.iter().map(|(_, flag)| *flag))
                );
            }
            let now = options(on.execute(op::get(&keys)).unwrap());
            assert!(
                now.into_iter()
                    .eq(bits.iter().map(|(key, _)| pairs.get(key).copied()))
            );
        });
    }
    // A default, where values are in slots.
    let absent: Vec<K> = (N..2 * N).map(|i| nth_key(case.first + i)).collect();
    match on.execute(op::get(&absent).or(value(77))) {
        done if ["Map (Cells)", "Map (Rows of bytes)", "MultiMap"].contains(&case.receiver) => {
            assert_unsupported(done, case, "get");
        }
        done => {
            let sevens = vec![value_bits::<V>(value(77)); absent.len()];
            assert!(done.unwrap().into_iter().map(value_bits).eq(sevens));
        }
    }
    // Lengths are compared before anything is done.
    let values = vec![value(1); absent.len() - 1];
    let done = on.execute(op::insert(&absent, &values));
    assert!(
        matches!(done, Err(Error::LengthMismatch { .. })),
        "{done:?}"
    );
    let mut short = vec![0; absent.len() - 1];
    let done = on.execute(op::contains(&absent).found(&mut short));
    assert!(
        matches!(done, Err(Error::OutputTooSmall { .. })),
        "{done:?}"
    );
    let mut twice = vec![0; absent.len()];
    let done = on.execute(op::remove(&absent).outcomes(&mut twice).each());
    assert!(matches!(done, Err(Error::Unsupported { .. })), "{done:?}");
}

fn case(receiver: &'static str) -> Case {
    Case {
        receiver,
        first: 0,
        ranks: 1,
        with_outcomes: true,
    }
}

/// Operations that are submitted, and waited for when each has been.
struct Submitted<'o, 'm, K, V>(&'o OnStream<'m, K, V>);

impl<K, V> Counting<K, V> for Submitted<'_, '_, K, V> {
    fn count(&self, op: Op<'_, K, V, usize>) -> Result<usize> {
        self.0.submit(op)?.wait()
    }
}

/// Every operation in the order of a stream.
fn on_stream<K: Key, V: Numeric>(map: &OnStream<'_, K, V>, case: Case, on: &Target) {
    into_places(&Submitted(map), case, &OnHost);
    into_places(&Submitted(map), case, &OnDevice(on));
    answering(map, case);
    submitting(map, case, on);
}

/// Every operation as a graph.
fn on_graph<K: Key, V: Numeric, M: HasGraphs<K, V>>(map: &M, on: &Target) {
    let stream = on.stream();
    let graph = OnGraph(RefCell::new(map.graph(&stream)));
    // Those that store with outcomes are not captured.
    for with_outcomes in [true, false] {
        let case = Case {
            with_outcomes,
            ..case(M::NAME)
        };
        into_places(&graph, case, &OnDevice(on));
    }
}

/// A lookup, which all queue, between changes of which some wait.
fn submitting<K: Key, V: Numeric>(map: &OnStream<'_, K, V>, case: Case, on: &Target) {
    let n = N as usize;
    let keys: Vec<K> = (0..N).map(|i| nth_key(case.first + 5 * N + i)).collect();
    let values: Vec<V> = (0..N).map(|i| value(i * 9 + 4)).collect();
    let memory = OnDevice(on);
    let (at, values_at) = (memory.with(&keys), memory.with(&values));
    let mut before: Buffer<V> = memory.with(&vec![value::<V>(9); n]);
    let mut there: Buffer<u8> = memory.with(&vec![9; n]);
    let new = map.insert(&at, &values_at).unwrap();
    let found = map.get_into(&at, &mut before, &mut there).unwrap();
    let bits = map.submit(op::get(&keys)).unwrap();
    let removed = map.remove(&at).unwrap();
    let mut after: Buffer<u8> = memory.with(&vec![9; n]);
    drop(map.contains_into(&at, &mut after).unwrap());
    assert_eq!(after.to_vec().unwrap(), vec![0; n]);
    assert_eq!((new.wait().unwrap(), removed.wait().unwrap()), (n, n));
    found.wait().unwrap();
    assert_eq!(there.to_vec().unwrap(), vec![1; n]);
    let wanted: Vec<u64> = values.iter().copied().map(value_bits).collect();
    let told = before.to_vec().unwrap().into_iter().map(value_bits);
    assert!(told.eq(wanted.iter().copied()));
    let told = bits.wait().unwrap().into_iter().map(|v| v.map(value_bits));
    assert!(told.eq(wanted.into_iter().map(Some)));
    // All pairs.
    map.insert(&at, &values_at).unwrap().wait().unwrap();
    let mut all_keys: Buffer<K> = memory.with(&vec![keys[0]; 4 * n]);
    let mut all_values: Buffer<V> = memory.with(&vec![value::<V>(9); 4 * n]);
    let all = map
        .retrieve_all_into(&mut all_keys, &mut all_values)
        .unwrap();
    let pairs = all.wait().unwrap();
    let told = all_keys.to_vec().unwrap();
    let mut told: Vec<(u64, u64)> = told[..pairs]
        .iter()
        .zip(all_values.to_vec().unwrap())
        .map(|(&k, v)| (key_bits(k), value_bits(v)))
        .filter(|(key, _)| keys.iter().any(|&k| key_bits(k) == *key))
        .collect();
    told.sort_unstable();
    let mut pairs: Vec<(u64, u64)> = keys
        .iter()
        .zip(&values)
        .map(|(&k, &v)| (key_bits(k), value_bits(v)))
        .collect();
    pairs.sort_unstable();
    assert_eq!(told, pairs);
    // Too short, at once or when it is waited for.
    let short = map
        .retrieve_all_into(all_keys.slice_mut(..1).unwrap(), &mut all_values)
        .and_then(Pending::wait);
    assert!(
        matches!(short, Err(Error::OutputTooSmall { .. })),
        "{short:?}"
    );
}

#[test]
fn every_operation_on_every_receiver_of_one_device() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let map = || on.map::<K, V>(8);
        let case = case(<Map<K, V> as HasGraphs<K, V>>::NAME);
        into_places(&Direct(map()), case, &OnHost);
        into_places(&Direct(map()), case, &OnDevice(on));
        answering(&map(), case);
        on_stream(&map().on(&on.stream()), case, on);
        on_graph(&map(), on);
    }
    on_pairs!(body: u32 => u32, u32 => u64, u64 => u32, u64 => u64);
    on_every_target(|on| {
        body::<u32, Halves32>(on);
        body::<u64, Halves64>(on);
        body::<Halves32, u64>(on);
        body::<Halves64, u32>(on);
        body::<Halves32, Halves64>(on);
    });
}

#[test]
fn every_operation_on_multimaps() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map = || on.multi::<K, V>().capacity(1_000).build().unwrap();
        into_places(&Direct(map()), case("MultiMap"), &OnHost);
        into_places(&Direct(map()), case("MultiMap"), &OnDevice(on));
        answering(&map(), case("MultiMap"));
        on_stream(&map().on(&on.stream()), case("MultiMap"), on);
        on_graph(&map(), on);
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn of_equal_keys_of_a_batch_a_multimap_stores_one_and_removes_as_many_as_there_are() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let (n, times) = (on.n(50, 5_000) as u64, 20);
        // No free capacity, so that a part may be done once more, and much.
        for capacity in [0, (n * times) as usize] {
            let map = on.multi::<K, V>().capacity(capacity).build().unwrap();
            let keys: Vec<K> = (0..n * times).map(|i| nth_key(i % n)).collect();
            let values: Vec<V> = (0..n * times).map(value).collect();
            let flags_of = |flags: Vec<bool>| {
                let mut of_keys = vec![0; n as usize];
                (0..)
                    .zip(flags)
                    .for_each(|(i, flag)| of_keys[i % n as usize] += usize::from(flag));
                of_keys
            };
            let stored = map.execute(op::insert(&keys, &values).each()).unwrap();
            assert!(flags_of(stored).into_iter().all(|flags| flags == 1));
            // Each is told the value that is there, and it is one of the batch.
            let held = map.execute(op::get_or_insert(&keys, &values)).unwrap();
            let there = map.get(&keys).unwrap();
            for (i, (held, there)) in held.into_iter().zip(there).enumerate() {
                let bits = value_bits(held);
                assert_eq!(Some(bits), there.map(value_bits));
                assert_eq!(bits % n, i as u64 % n);
            }
            map.append(&keys[..n as usize], &values[..n as usize])
                .unwrap();
            let taken = map.execute(op::take(&keys)).unwrap();
            let taken = taken.into_iter().map(|value| value.is_some()).collect();
            assert!(flags_of(taken).into_iter().all(|flags| flags == 2));
            let removed = map.execute(op::remove(&keys).each()).unwrap();
            assert!(removed.into_iter().all(|is| !is) && map.is_empty());
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn a_multimap_that_grows_for_a_batch_answers_all_of_it() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map = on.multi::<K, V>().build().unwrap();
        let first: Vec<K> = (0..9).map(nth_key).collect();
        let old: Vec<V> = (0..9).map(|i| value(5 * i + 2)).collect();
        // The pool is made by the first pairs.
        map.insert(&first, &old).unwrap();
        let capacity = map.capacity();
        // More than fit.
        let n = capacity as u64 + 100;
        let keys: Vec<K> = (0..n).map(nth_key).collect();
        let values: Vec<V> = (0..n).map(|i| value(3 * i + 1)).collect();
        let held = map.execute(op::get_or_insert(&keys, &values)).unwrap();
        assert!(map.capacity() > capacity, "it had room");
        let wanted = old.iter().chain(&values[9..]);
        assert!(
            held.into_iter()
                .map(value_bits)
                .eq(wanted.map(|&v| value_bits(v)))
        );
        let map = on.multi::<K, V>().build().unwrap();
        map.insert(&first, &old).unwrap();
        let is_new = map.execute(op::insert(&keys, &values).each()).unwrap();
        assert!(is_new.into_iter().eq((0..n).map(|i| i >= 9)));
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn every_operation_on_every_receiver_of_several_devices() {
    fn body<K: Key, V: Numeric>() {
        on_every_group(|on| {
            if on.len() > 4 {
                return; // as three
            }
            let map = super::sharded::map::<K, V>(on);
            into_places(&Direct(&map), case("ShardedMap"), &OnHost);
            answering(&map, case("ShardedMap"));
            let of_rank = |rank: &mut Rank| {
                let case = Case {
                    receiver: "ShardedMap",
                    first: 1_000 * rank.index() as u64,
                    ranks: rank.ranks(),
                    with_outcomes: true,
                };
                let shard =
                    Shard::<K, V>::with(rank, Some(5), |builder, share| on.set_up(builder, share))?;
                let at = AtRank(RefCell::new((&mut *rank, shard)));
                into_places(&Direct(&at), case, &OnHost);
                answering(&at, case);
                Ok(())
            };
            on.ranks().run(of_rank).unwrap();
        });
    }
    body::<u64, u32>();
    body::<Halves64, u32>();
}

#[test]
fn a_receiver_says_which_memory_it_takes() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let (map, stream) = (on.map::<K, V>(8), on.stream());
        let (keys, values) = (vec![nth_key::<K>(1)], vec![value::<V>(1)]);
        let mut graph = map.graph(&stream);
        let mut recording = graph.record();
        let done = recording.add(op::insert(&keys, &values));
        assert_unsupported(done, case("Map"), "insert");
        drop(recording);
        assert!(map.is_empty());
        // An output of the host makes a stream wait.
        let mut told = [value::<V>(0)];
        map.insert(&keys, &values).unwrap();
        let done = map
            .on(&stream)
            .submit(op::get(&keys).into(&mut told))
            .unwrap();
        assert!(done.is_done());
        assert_eq!(value_bits(told[0]), value_bits(values[0]));
    }
    on_pairs!(body: u64 => u64);
}
