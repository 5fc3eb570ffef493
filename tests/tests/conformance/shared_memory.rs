//! Blocks with little shared memory, as on older GPUs, and with as much as on newer ones: pages are made by
//! ones or by twos, in shared memory or not at all, and maps hold the same.

use gpumap::{Key, Map, Numeric};
use gpumap_tests::device::noting;
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{Batch, Oracle, Target, assert_holds, on_every_format, oracle};

/// What a block may have, in KiB: always; on sm_75; on sm_70; on sm_90.
const SIZES: [u32; 4] = [48, 64, 96, 227];

/// The largest pages that maps choose, of 32 KiB.
const PAGE_SLABS: u32 = 512;

/// Runs a body with each size, as far as the device has it.
fn with_each_size(on: &Target, body: impl Fn(&Target)) {
    for kib in SIZES {
        let device = on.device().with_shared_memory(kib << 10);
        let on = Target::new(device, on.encoding());
        noting(&format!("{kib} KiB a block"), || body(&on));
    }
}

#[test]
fn maps_grow_and_shrink() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let part = on.n(2_500, 400_000) as u64;
        with_each_size(on, |on| {
            let map: Map<K, V> = on
                .builder()
                .submaps(2)
                .page_slabs(PAGE_SLABS)
                .build()
                .unwrap();
            let mut held = Oracle::new();
            for i in 0..4 {
                let batch = Batch::<K, V>::numbered(i * part..(i + 1) * part, i as u8);
                let new = map.insert(&batch.keys, &batch.values).unwrap();
                assert_eq!(new as u64, part);
                held.extend(batch.bits());
            }
            assert_holds(&map, &held);
            let gone: Vec<K> = (0..3 * part).map(nth_key).collect();
            assert_eq!(map.remove(&gone).unwrap(), gone.len());
            let slots = map.slots();
            map.shrink_to_fit().unwrap();
            assert!(map.slots() < slots, "{} of {slots} slots", map.slots());
            let rest = Batch::<K, V>::numbered(3 * part..4 * part, 3);
            assert_holds(&map, &rest.bits().collect());
        });
    }
    on_every_format!(body);
}

#[test]
fn large_batches_make_pages_or_do_not() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = on.n(3_000, 1_000_000) as u64;
        // Of each key two copies, and half of them are in the first batch too.
        let first = Batch::<K, V>::numbered(0..n, 1);
        let second = Batch::<K, V>::numbered((0..n).map(|i| n / 2 + i / 2), 2);
        with_each_size(on, |on| {
            let map: Map<K, V> = on
                .builder()
                .capacity(2 * n as usize)
                .submaps(2)
                .page_slabs(PAGE_SLABS)
                .bulk_from([1; 3])
                .build()
                .unwrap();
            let new = map.insert(&first.keys, &first.values).unwrap();
            assert_eq!(new as u64, n);
            let mut held: Oracle = first.bits().collect();
            assert_holds(&map, &held);
            let new = map.insert(&second.keys, &second.values).unwrap();
            assert_eq!(new, oracle::adopt(&mut held, &map, second.bits()));
            assert_holds(&map, &held);
        });
    }
    on_every_format!(body);
}
