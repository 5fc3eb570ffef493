//! Pages in use that a large batch is added to: what they hold lies near its home still, in every format of a slot.

use gpumap::{Buffer, Growth, Key, Map, Numeric};
use gpumap_tests::pairs::slot_bytes;
use gpumap_tests::{Batch, Target, assert_holds, on_every_format};

const NEVER: usize = usize::MAX;

/// A map with half of its pairs made at one go, and the other half added in so many batches.
fn filled<K: Key, V: Numeric>(on: &Target, load: f64, batches: u64) -> Map<K, V> {
    let slots = on.n(16_384, 1 << 21);
    let map: Map<K, V> = on
        .builder()
        .submap_slots(&[slots])
        .max_load_factor(0.95)
        .growth(Growth::Fixed)
        .hash_seed(11)
        .page_slabs(256)
        .bulk_from([1, 1, NEVER])
        .build()
        .unwrap();
    assert_eq!(map.slots(), slots);
    let half = (slots as f64 * load / 2.0) as u64;
    let insert = |numbers: std::ops::Range<u64>| {
        let batch = Batch::<K, V>::numbered(numbers, 1);
        // On the device: from the host they would come in chunks.
        let keys = Buffer::from_slice(&on.stream(), &batch.keys).unwrap();
        let values = Buffer::from_slice(&on.stream(), &batch.values).unwrap();
        assert_eq!(map.insert(&keys, &values).unwrap(), batch.len());
    };
    insert(0..half);
    for part in 0..batches {
        insert(half + half * part / batches..half + half * (part + 1) / batches);
    }
    let all = Batch::<K, V>::numbered(0..2 * half, 1);
    assert_holds(&map, &all.bits().collect());
    map
}

#[test]
fn pairs_of_pages_that_were_added_to_lie_near_their_homes() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // Of slabs with eight slots, and with four: the latter about as if pairs were stored one by one.
        for (load, batches, most) in [
            (0.8, 1, [1.09, 1.26]),
            (0.8, 4, [1.12, 1.26]),
            (0.9, 1, [1.17, 1.47]),
            (0.9, 4, [1.23, 1.47]),
        ] {
            let map = filled::<K, V>(on, load, batches);
            let mean = map.stats().unwrap().mean_probe_length();
            let wide = slot_bytes::<K, V>() == 16;
            let most = match on.is_native() {
                false => most[usize::from(wide)],
                // As if they were stored one by one.
                true if wide => most[1],
                true if load < 0.85 => 1.13,
                true => 1.26,
            };
            let case = format!("load {load}, {batches} batches");
            assert!(mean < most, "{mean} slabs at {case}");
        }
    }
    on_every_format!(body);
}
