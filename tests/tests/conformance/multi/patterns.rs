//! Every bit pattern is a key and a value, those included that mean a state of a slot.

use gpumap::{Numeric, Word, WordKey};
use gpumap_tests::multi::{Model, assert_model};
use gpumap_tests::pairs::patterns;
use gpumap_tests::{Batch, Target, key, on_every_multi_pair};

#[test]
fn every_key_pattern_with_every_verb() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map = on.multi::<K, V>().buckets(5).build().unwrap();
        let (keys, values) = (patterns(size_of::<K>()), patterns(size_of::<V>()));
        let mut model = Model::default();
        // More pairs of each key than a slab has slots: chains of the reserved keys have several.
        for i in 0..40 {
            let value = |k: usize| values[(i + k) % values.len()];
            let pairs = keys.iter().enumerate().map(|(k, &bits)| (bits, value(k)));
            let batch = Batch::<K, V>::of(pairs);
            if i == 0 {
                assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), keys.len());
                assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), 0);
            } else {
                map.append(&batch.keys, &batch.values).unwrap();
            }
            model.extend(batch.bits());
        }
        assert_model(&map, &model);
        let all: Vec<K> = keys.iter().map(|&bits| key(bits)).collect();
        for round in 0..39 {
            assert_eq!(map.remove(&all).unwrap(), keys.len());
            for &bits in &keys {
                model.remove(bits);
            }
            if round % 10 == 0 {
                assert_model(&map, &model);
                map.compact().unwrap();
            }
        }
        assert_model(&map, &model);
        assert_eq!(map.remove(&all).unwrap(), keys.len());
        assert_model(&map, &Model::default());
    }
    on_every_multi_pair!(body);
}
