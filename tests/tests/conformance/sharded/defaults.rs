//! What absent keys get: that of the rank that looks them up, whatever other ranks pass.

use gpumap::bytemuck::Pod;
use gpumap::op;
use gpumap::sharded::{Rank, Shard};
use gpumap::{Buffer, Key, Merge, Numeric, Result, ShardedMap, Stream};
use gpumap_tests::group::{Group, on_every_group};
use gpumap_tests::value;

use super::map;
use crate::rows::keys;

/// Looks up keys of which half are present, with a default of each rank's own, and then removes them.
fn look_up<K: Key, V: Numeric + PartialEq>(
    rank: &mut Rank,
    shard: &mut Shard<K, V>,
    n: u64,
) -> Result<()> {
    let (me, ranks) = (rank.index() as u64, rank.ranks() as u64);
    let held = keys::<K>(0..n);
    let values: Vec<V> = (0..n).map(value).collect();
    shard.execute(rank, op::insert(&held, &values))?;

    let asked: Vec<u64> = (0..2 * n).map(|i| (i * 7 + me) % (2 * n)).collect();
    let batch = keys::<K>(asked.iter().copied());
    let right = |default: V| -> Vec<V> {
        let of_key = |&i: &u64| if i < n { value(i) } else { default };
        asked.iter().map(of_key).collect()
    };
    let is_there: Vec<u8> = asked.iter().map(|&i| u8::from(i < n)).collect();
    let own = value::<V>(1_000_000 + me);
    for default in [value(3), own, value(u64::from(me == 0))] {
        let answers = shard.execute(rank, op::get(&batch).or(default))?;
        assert!(answers == right(default));
        // On the host or on the device, and with flags or without on all ranks.
        let stream = Stream::new(rank.device())?;
        let mut there = Buffer::<V>::zeroed(&stream, batch.len())?;
        let mut found = vec![9; batch.len()];
        let into = op::get(&batch).or(default).into(&mut there);
        shard.execute(rank, into.found(&mut found))?;
        assert!(there.to_vec()? == right(default) && found == is_there);
        // One that changes nothing.
        let touch = op::get_and_touch(&batch, value::<V>(0), Merge::Max);
        assert!(shard.execute(rank, touch.or(default))? == right(default));
    }
    // Without one, or only on some ranks.
    let default = if me == 0 { own } else { value(0) };
    assert!(shard.execute(rank, op::get(&batch).or(default))? == right(default));

    // Each rank removes other keys.
    let mine: Vec<u64> = (0..2 * n).filter(|i| i % ranks == me).collect();
    let taken = shard.execute(rank, op::take(&keys::<K>(mine.iter().copied())).or(own))?;
    let of_key = |&i: &u64| if i < n { value(i) } else { own };
    assert!(taken.into_iter().eq(mine.iter().map(of_key)));
    // And nothing is left.
    assert!(shard.execute(rank, op::get(&batch).or(own))? == vec![own; batch.len()]);
    Ok(())
}

#[test]
fn absent_keys_get_the_default_of_the_rank_that_asks() {
    fn body<K: Key, V: Numeric + PartialEq>(on: &Group) {
        let n = on.n(150, 100_000) as u64;
        let sharded = map::<K, V>(on);
        sharded.run(|rank, shard| look_up(rank, shard, n)).unwrap();
        assert!(sharded.is_empty());
    }
    super::on_groups!(body: u64 => u64, u32 => u32, u64 => f32, u32 => u64);
}

#[test]
fn absent_wide_keys_get_the_default_of_the_rank_that_asks() {
    fn body<K: Pod + Send + Sync, V: Numeric + PartialEq>(on: &Group) {
        let n = on.n(150, 100_000) as u64;
        let sharded = ShardedMap::<K, V>::new(on.ranks()).unwrap();
        sharded.run(|rank, shard| look_up(rank, shard, n)).unwrap();
        assert!(sharded.is_empty());
    }
    on_every_group(body::<u128, u64>);
    on_every_group(body::<[u32; 3], u32>);
}
