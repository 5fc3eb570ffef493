//! Whole maps on executors with a random schedule, and pools with nothing to spare: warps take the last
//! slabs from each other, and the host stores once more what found no room.

use gpumap::{Numeric, Word, WordKey};
use gpumap_tests::multi::{Model, assert_model};
use gpumap_tests::{Batch, Target, on_random_schedules};

#[test]
fn a_pool_with_nothing_to_spare_takes_its_last_pair() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        for buckets in [1, 3] {
            let builder = on.multi::<K, V>().buckets(buckets).pool_slabs(30);
            let map = builder.build().unwrap();
            let n = map.capacity() as u64;
            let batch = Batch::<K, V>::numbered(0..n / 2, 1);
            assert_eq!(
                map.insert(&batch.keys, &batch.values).unwrap() as u64,
                n / 2
            );
            let more = Batch::<K, V>::numbered((n / 2..n).map(|i| i % (n / 3)), 1);
            map.append(&more.keys, &more.values).unwrap();
            assert_eq!(map.len() as u64, n);
            let mut model = Model::default();
            model.extend(batch.bits());
            model.extend(more.bits());
            assert_model(&map, &model);
        }
    }
    on_random_schedules!(15, body: u32 => u32, u64 => u64);
}

#[test]
fn inserters_of_the_same_keys_in_several_blocks() {
    fn body<K: WordKey, V: Numeric + Word<Bits = K::Bits>>(on: &Target) {
        let map = on
            .multi::<K, V>()
            .buckets(1)
            .pool_slabs(60)
            .build()
            .unwrap();
        let batch = Batch::<K, V>::numbered((0..400).map(|i| i % 37), 1);
        assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), 37);
        assert_eq!(map.remove(&batch.keys).unwrap(), 37);
        assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), 37);
        let mut model = Model::default();
        model.extend(Batch::<K, V>::numbered(0..37, 1).bits());
        assert_model(&map, &model);
        map.compact().unwrap();
        assert_model(&map, &model);
    }
    on_random_schedules!(15, body: u32 => u32, u64 => u64);
}
