//! What each verb does, and all of them in turn.

use gpumap::multi::{Answer, Operation};
use gpumap::{Buffer, MultiMap, Numeric, Word, WordKey};
use gpumap_kernels::hash::mix64;
use gpumap_tests::multi::{Model, answer_bits, assert_absent, assert_model, contents};
use gpumap_tests::pairs::{nth_key, value_by};
use gpumap_tests::{
    Batch, Target, key_bits, on_every_multi_format, on_every_multi_pair, value_bits,
};

#[test]
fn insert_keeps_the_value_that_is_there() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let n = on.n(500, 300_000) as u64;
        let map = on.multi::<K, V>().capacity(n as usize).build().unwrap();
        let first = Batch::<K, V>::numbered(0..n, 1);
        assert_eq!(map.insert(&first.keys, &first.values).unwrap() as u64, n);
        // Half of them present, and each of the others twice.
        let second = Batch::<K, V>::numbered((n / 2..n + n / 2).chain(n..n + n / 2), 2);
        let new = map.insert(&second.keys, &second.values).unwrap() as u64;
        assert_eq!(new, n / 2);
        let mut model = Model::default();
        model.extend(first.bits());
        model.extend(Batch::<K, V>::numbered(n..n + n / 2, 2).bits());
        assert_model(&map, &model);
        assert_absent(&map, &[nth_key::<K>(n + n / 2)]);
    }
    on_every_multi_pair!(body);
}

#[test]
fn append_stores_whatever_is_there() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let (n, times) = (on.n(40, 10_000) as u64, 30);
        let map = on.multi::<K, V>().capacity(0).build().unwrap();
        let mut model = Model::default();
        // All of a batch at once: values of one key in no order, so the same value for all.
        let batch = Batch::<K, V>::numbered((0..n * times).map(|i| i % n), 1);
        map.append(&batch.keys, &batch.values).unwrap();
        model.extend(batch.bits());
        assert_model(&map, &model);
        // Batch by batch, in order.
        for writer in 2..6 {
            let batch = Batch::<K, V>::numbered(0..n, writer);
            map.append(&batch.keys, &batch.values).unwrap();
            model.extend(batch.bits());
        }
        assert_model(&map, &model);
    }
    on_every_multi_format!(body);
}

#[test]
fn remove_takes_the_pair_that_came_first() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let n = on.n(40, 10_000) as u64;
        let map = on.multi::<K, V>().capacity(0).build().unwrap();
        let mut model = Model::default();
        for writer in 0..20 {
            let batch = Batch::<K, V>::numbered(0..n, writer);
            map.append(&batch.keys, &batch.values).unwrap();
            model.extend(batch.bits());
        }
        for writer in 0..20 {
            let keys = Batch::<K, V>::numbered(0..n, writer).keys;
            let got = map.get(&keys).unwrap();
            for (&k, got) in keys.iter().zip(got) {
                let first = value_bits(value_by::<K, V>(k, writer));
                assert_eq!(got.map(value_bits), Some(first));
                assert_eq!(model.remove(key_bits(k)), Some(first));
            }
            assert_eq!(map.remove(&keys).unwrap() as u64, n);
            assert_eq!(map.len(), model.len());
            if writer % 5 == 2 {
                map.compact().unwrap();
                assert_model(&map, &model);
            }
        }
        assert!(map.is_empty());
        let keys = Batch::<K, V>::numbered(0..n, 0).keys;
        assert_eq!(map.remove(&keys).unwrap(), 0);
        assert_absent(&map, &keys);
    }
    on_every_multi_format!(body);
}

#[test]
fn a_batch_removes_as_many_pairs_as_it_names() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map = on.multi::<K, V>().buckets(2).build().unwrap();
        let k = nth_key::<K>(1);
        let v = value_by::<K, V>(k, 0);
        map.append(&[k; 100], &[v; 100]).unwrap();
        assert_eq!(map.remove(&[k; 60]).unwrap(), 60);
        assert_eq!((map.len(), map.count(&[k]).unwrap()[0]), (40, 40));
        assert_eq!(map.remove(&[k; 60]).unwrap(), 40);
        assert!(map.is_empty());
    }
    on_every_multi_format!(body);
}

/// Operation number `i` of a round, on a key of its own.
fn draw(round: u64, i: u64) -> Option<Operation> {
    use Operation::{Append, Count, Get, Insert, Remove};
    let all = [Get, Insert, Append, Remove, Count];
    let z = mix64(round << 32 | i);
    (z >> 60 != 0).then_some(all[(z % 5) as usize])
}

#[test]
fn mixed_batches_answer_like_the_model() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let n = on.n(300, 50_000) as u64;
        let map = on.multi::<K, V>().buckets(on.n(7, 4_000)).build().unwrap();
        let mut model = Model::default();
        for round in 0..25u8 {
            let drawn = (0..n).filter_map(|i| Some((i, draw(round.into(), i)?)));
            let (numbers, operations): (Vec<u64>, Vec<Operation>) = drawn.unzip();
            let batch = Batch::<K, V>::numbered(numbers, round);
            let answers = map.apply(&operations, &batch.keys, &batch.values).unwrap();
            assert_eq!(answers.len(), operations.len());
            for ((operation, pair), answer) in operations.iter().zip(batch.bits()).zip(answers) {
                let expected = model.apply(*operation, pair);
                assert_eq!(
                    answer_bits(answer),
                    expected,
                    "round {round}: {operation:?}"
                );
            }
            assert_eq!(map.len(), model.len(), "round {round}");
            if round % 8 == 3 {
                map.compact().unwrap();
            }
        }
        assert_model(&map, &model);
    }
    on_every_multi_pair!(body);
}

#[test]
fn operations_on_one_key_come_in_some_order() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map = on.multi::<K, V>().buckets(1).build().unwrap();
        let k = nth_key::<K>(3);
        for round in 0..20 {
            let n = 64;
            let operations: Vec<Operation> = (0..n)
                .map(|i| [Operation::Insert, Operation::Remove][i % 2])
                .collect();
            let values = vec![value_by::<K, V>(k, round); n];
            let before = map.len();
            let answers = map.apply(&operations, &vec![k; n], &values).unwrap();
            let count =
                |wanted: fn(&Answer<V>) -> bool| answers.iter().filter(|a| wanted(a)).count();
            let stored = count(|a| matches!(a, Answer::Stored));
            let removed = count(|a| matches!(a, Answer::Removed(_)));
            assert_eq!(map.len(), before + stored - removed);
            assert!(map.len() <= 1, "a key that was inserted twice");
            assert_eq!(map.count(&[k]).unwrap(), [map.len()]);
            assert_eq!(contents(&map).len(), map.len());
        }
    }
    on_every_multi_format!(body);
}

#[test]
fn batches_may_be_empty_or_on_the_device() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map: MultiMap<K, V> = on.multi().build().unwrap();
        let (no_keys, no_values): (&[K], &[V]) = (&[], &[]);
        assert_eq!(map.insert(no_keys, no_values).unwrap(), 0);
        map.append(no_keys, no_values).unwrap();
        assert!(map.get(no_keys).unwrap().is_empty());
        assert!(map.count(no_keys).unwrap().is_empty());
        assert_eq!(map.remove(no_keys).unwrap(), 0);
        assert!(map.apply(&[], no_keys, no_values).unwrap().is_empty());
        assert!(map.retrieve_all().unwrap().0.is_empty());
        assert_eq!(map.compact().unwrap(), 0);

        let batch = Batch::<K, V>::numbered(0..200, 1);
        let stream = on.stream();
        let keys = Buffer::from_slice(&stream, &batch.keys).unwrap();
        let values = Buffer::from_slice(&stream, &batch.values).unwrap();
        assert_eq!(map.insert(&keys, &values).unwrap(), 200);
        map.append(&keys, &values).unwrap();
        assert_eq!(map.count(&keys).unwrap(), [2; 200]);
        assert_eq!(map.remove(&keys).unwrap(), 200);
        let mut model = Model::default();
        model.extend(batch.bits());
        assert_model(&map, &model);

        let asked: Vec<K> = (190..210).map(nth_key).collect();
        // What was in outputs before is gone, on the device and on the host, except for what lies
        // beyond.
        let one_by_one = map.get(&asked).unwrap();
        let before = &batch.values[..21];
        let mut values = Buffer::from_slice(&stream, before).unwrap();
        let mut found = Buffer::from_slice(&stream, &[7; 20]).unwrap();
        map.get_into(&asked, &mut values, &mut found).unwrap();
        let on_device = (values.to_vec().unwrap(), found.to_vec().unwrap());
        let mut on_host = (before.to_vec(), vec![7; 20]);
        map.get_into(&asked, &mut on_host.0, &mut on_host.1)
            .unwrap();
        for (mut values, found) in [on_device, on_host] {
            let last = values.pop().map(value_bits);
            assert_eq!(last, Some(value_bits(batch.values[20])));
            for ((found, value), expected) in found.into_iter().zip(values).zip(&one_by_one) {
                assert_eq!(found, u8::from(expected.is_some()));
                assert_eq!(value_bits(value), expected.map_or(0, value_bits));
            }
        }

        let mut all_keys = Buffer::<K>::zeroed(&stream, 250).unwrap();
        let mut all_values = Buffer::<V>::zeroed(&stream, 250).unwrap();
        let pairs = map
            .retrieve_all_into(&mut all_keys, &mut all_values)
            .unwrap();
        assert_eq!(pairs, 200);
        let mut found = Batch {
            keys: all_keys.to_vec().unwrap(),
            values: all_values.to_vec().unwrap(),
        };
        found.keys.truncate(pairs);
        found.values.truncate(pairs);
        let mut dumped = Model::default();
        dumped.extend(found.bits());
        assert_eq!(dumped, model);
        // After the pairs stays what was there.
        let keys: Vec<K> = vec![found.keys[0]; 201];
        let mut on_host = Batch {
            values: vec![found.values[0]; 202],
            keys,
        };
        let pairs = map.retrieve_all_into(&mut on_host.keys, &mut on_host.values);
        assert_eq!(pairs.unwrap(), 200);
        assert_eq!(
            on_host.keys.pop().map(key_bits),
            Some(key_bits(found.keys[0]))
        );
        on_host.values.truncate(200);
        let mut dumped = Model::default();
        dumped.extend(on_host.bits());
        assert_eq!(dumped, model);
    }
    on_every_multi_format!(body);
}
