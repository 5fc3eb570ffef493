//! Large batches that make pages on the ranks that own their keys, stage by stage as bins come: what is seen of it is
//! a map that holds each pair, as near its home as in a map that is filled by itself.

use gpumap::sharded::{Rank, Shard};
use gpumap::{Buffer, Key, Numeric, ShardedMap, Stream};
use gpumap_tests::Batch;
use gpumap_tests::group::Group;
use gpumap_tests::oracle::Oracle;
use gpumap_tests::pairs::slot_bytes;

use super::{assert_holds, on_groups};

/// Slots of each rank's map.
const SLOTS: usize = 8_192;

#[test]
fn pairs_lie_near_their_homes_however_many_stages_they_come_in() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        // Ranks of one device work in turn, and eight take their time.
        if on.len() > 4 {
            return;
        }
        let builder = ShardedMap::<K, V>::builder(on.ranks()).owner_seed(5);
        let builder = builder.submap_slots(&[SLOTS]).max_load_factor(0.95);
        let builder = builder.hash_seed(6).page_slabs(256).bulk_from([1; 3]);
        let sharded = builder.build().unwrap();
        let ranks = on.len() as u64;
        let mut held = Oracle::new();
        // An empty map, and one in use, up to load 0.8.
        for half in 0..2 {
            let all = SLOTS as u64 * 4 / 10;
            let of = |rank: u64| {
                Batch::<K, V>::numbered(
                    (half * ranks + rank) * all..(half * ranks + rank + 1) * all,
                    1,
                )
            };
            let work = |rank: &mut Rank, shard: &mut Shard<K, V>| {
                let mine = of(rank.index() as u64);
                let stream = Stream::new(rank.device())?;
                let keys = Buffer::from_slice(&stream, &mine.keys)?;
                let values = Buffer::from_slice(&stream, &mine.values)?;
                shard.insert(rank, &keys, &values)
            };
            let new = sharded.run(work).unwrap();
            assert_eq!(new, vec![(ranks * all) as usize; ranks as usize]);
            (0..ranks).for_each(|rank| held.extend(of(rank).bits()));
            assert_holds(&sharded, &held);
        }
        let most = match slot_bytes::<K, V>() {
            16 => 1.26,
            // As if they were stored one by one.
            _ if on.is_native() => 1.13,
            _ => 1.092,
        };
        let means = sharded.run(|_, shard| Ok(shard.local().stats()?.mean_probe_length()));
        let mean = means.unwrap().iter().sum::<f64>() / ranks as f64;
        assert!(mean < most, "{mean} slabs");
    }
    on_groups!(body: u64 => u64, u32 => u32, u64 => u32);
}
