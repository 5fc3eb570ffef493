//! What is refused, and that the map is as it was.

use std::cell::Cell;

use gpumap::multi::Operation;
use gpumap::{
    Buffer, Device, Error, Input, Key, MultiMap, Numeric, Setting, Source, Word, WordKey,
};
use gpumap_tests::multi::{Model, assert_model};
use gpumap_tests::{Batch, Target, on_every_multi_format};

/// A map with a fixed pool of three slabs, almost as full as is guaranteed, and what it holds.
fn almost_full<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(
    on: &Target,
) -> (MultiMap<K, V>, Model) {
    let map = on.multi::<K, V>().buckets(2).pool_slabs(3).build().unwrap();
    let batch = Batch::<K, V>::numbered(0..map.capacity() as u64 - 2, 1);
    map.insert(&batch.keys, &batch.values).unwrap();
    let mut model = Model::default();
    model.extend(batch.bits());
    (map, model)
}

#[test]
fn a_fixed_pool_refuses_what_may_not_fit() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let (map, model) = almost_full::<K, V>(on);
        let slots = map.capacity();
        let batch = Batch::<K, V>::numbered(1_000..1_003, 2);
        let (keys, values) = (&batch.keys, &batch.values);
        let operations = [Operation::Append, Operation::Insert, Operation::Append];
        for refused in [
            map.insert(keys, values).map(drop),
            map.append(keys, values),
            map.apply(&operations, keys, values).map(drop),
            map.reserve(3),
        ] {
            let Err(Error::Full {
                len,
                slots: given,
                batch,
                unplaced,
                partial,
                growth: None,
            }) = refused
            else {
                panic!("{refused:?}");
            };
            assert_eq!((len, given, batch), (slots - 2, slots, 3));
            assert_eq!((unplaced, partial), (1, false));
            assert_model(&map, &model);
        }
        // What fits is taken, and present keys need no room.
        assert_eq!(map.insert(&keys[..2], &values[..2]).unwrap(), 2);
        let present = Batch::<K, V>::numbered(0..slots as u64 - 2, 3);
        assert_eq!(map.insert(&present.keys, &present.values).unwrap(), 0);
        let looks = [Operation::Get, Operation::Count, Operation::Remove];
        map.apply(&looks, keys, values).unwrap();
    }
    on_every_multi_format!(body);
}

#[test]
fn a_pool_that_memory_ends_for_stays_as_it_was() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let on = on.with_memory_budget(4 << 20);
        let map = on.multi::<K, V>().buckets(10).build().unwrap();
        let first = Batch::<K, V>::numbered(0..500, 1);
        map.append(&first.keys, &first.values).unwrap();
        let mut model = Model::default();
        model.extend(first.bits());
        let before = map.stats().unwrap();

        // Its keys and values fit on the CPU, which need not copy them; the slabs do not.
        let batch = Batch::<K, V>::numbered((0..600_000).map(|i| i % 7), 2);
        let refused = map.append(&batch.keys, &batch.values);
        assert!(
            matches!(refused, Err(Error::OutOfMemory { needed, available }) if needed > available),
            "{refused:?}"
        );
        assert_eq!(map.stats().unwrap(), before);
        assert_model(&map, &model);
        // And it goes on.
        map.append(&first.keys, &first.values).unwrap();
        assert_eq!(map.len(), 1_000);
    }
    on_every_multi_format!(body);
}

#[test]
fn wrong_lengths_and_settings_are_told() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let (map, model) = almost_full::<K, V>(on);
        let batch = Batch::<K, V>::numbered(0..3, 1);
        let (keys, values) = (&batch.keys, &batch.values);
        for refused in [
            map.insert(keys, &values[..2]).map(drop),
            map.append(&keys[..1], values),
            map.apply(&[Operation::Append; 3], keys, &values[..2])
                .map(drop),
            map.apply(&[Operation::Append; 2], keys, values).map(drop),
        ] {
            assert!(matches!(refused, Err(Error::LengthMismatch { .. })));
        }
        let stream = on.stream();
        let mut few_keys = Buffer::<K>::zeroed(&stream, 3).unwrap();
        let mut few_values = Buffer::<V>::zeroed(&stream, 100).unwrap();
        assert!(matches!(
            map.retrieve_all_into(&mut few_keys, &mut few_values),
            Err(Error::OutputTooSmall { given: 3, .. })
        ));
        assert_model(&map, &model);

        let no_buckets = on.multi::<K, V>().buckets(0).build();
        let setting = Setting::Buckets;
        assert!(matches!(no_buckets, Err(Error::Setting { setting: s, .. }) if s == setting));
        let many_slabs = on.multi::<K, V>().pool_slabs(1 << 60).build();
        let setting = Setting::PoolSlabs;
        assert!(matches!(many_slabs, Err(Error::Setting { setting: s, .. }) if s == setting));
        let many_pairs = on.multi::<K, V>().capacity(usize::MAX).build();
        assert!(matches!(many_pairs, Err(Error::CapacityOverflow { .. })));
    }
    on_every_multi_format!(body);
}

/// A batch whose `len` grows with each call.
struct Growing<K>(Vec<K>, Cell<usize>);

impl<K: Key> Input<K> for Growing<K> {
    fn source(&self) -> Source<'_, K> {
        let len = self.1.get();
        self.1.set(self.0.len());
        Source::Host(&self.0[..len])
    }
}

/// Outputs are as long as the first `len`: whatever an input says later is not written to.
#[test]
fn inputs_that_change_are_asked_once() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map = on.multi::<K, V>().build().unwrap();
        let batch = Batch::<K, V>::numbered(0..500, 1);
        map.insert(&batch.keys, &batch.values).unwrap();
        let asked = || Growing(batch.keys.clone(), Cell::new(3));
        assert_eq!(map.get(&asked()).unwrap().len(), 3);
        assert_eq!(map.contains(&asked()).unwrap(), [true; 3]);
        assert_eq!(map.count(&asked()).unwrap(), [1; 3]);
        assert_eq!(map.get_all(&asked()).unwrap().len(), 3);
        let (mut values, mut found) = (vec![V::zeroed(); 500], vec![9; 500]);
        map.get_into(&asked(), &mut values[..3], &mut found[..3])
            .unwrap();
        assert!(found[..3] == [1; 3] && found[3..].iter().all(|&byte| byte == 9));
        assert_eq!(map.remove(&asked()).unwrap(), 3);
    }
    on_every_multi_format!(body);
}

#[test]
fn no_capacity_asks_for_more_buckets_than_there_can_be() {
    let device = Device::cpu();
    let refused = MultiMap::<u64, u64>::with_capacity(&device, 1 << 45);
    assert!(
        matches!(
            refused,
            Err(Error::OutOfMemory { .. } | Error::CapacityOverflow { .. })
        ),
        "{refused:?}"
    );
}
