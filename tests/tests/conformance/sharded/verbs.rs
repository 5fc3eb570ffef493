//! Every verb, on the same input as one map and a `HashMap`.

use gpumap::sharded::{Rank, Shard};
use gpumap::{Error, Key, Merge, Numeric, Result};
use gpumap_tests::group::{Group, on_every_group};
use gpumap_tests::oracle::Oracle;
use gpumap_tests::pairs::{Edge, Ticket, patterns};
use gpumap_tests::{key, key_bits, value, value_bits};

use super::{assert_holds, map, on_groups};

/// Distinct keys, every bit pattern that might mean something among them.
fn keys_of<K: Key>(n: usize) -> Vec<K> {
    let mut seen = std::collections::HashSet::new();
    let patterns = patterns(size_of::<K>()).into_iter();
    let scattered = (0..).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let keys = patterns.chain(scattered).map(key::<K>);
    keys.filter(|&k| seen.insert(key_bits(k))).take(n).collect()
}

fn body<K: Key, V: Numeric>(on: &Group) {
    let n = on.n(1_200, 400_000);
    let (sharded, one) = (map::<K, V>(on), on.one::<K, V>());
    let keys = keys_of::<K>(n);
    let (held, absent) = keys.split_at(n / 2);
    let first: Vec<V> = (0..n as u64).map(|i| value(i * 3 + 1)).collect();
    let second: Vec<V> = (0..n as u64).map(|i| value(i * 5 + 2)).collect();
    let bits = |v: &[V], i: usize| value_bits(v[i]);

    // Stored once, whichever rank brings it; a present key keeps its value.
    assert_eq!(sharded.insert(held, &first[..n / 2]).unwrap(), n / 2);
    assert_eq!(one.insert(held, &first[..n / 2]).unwrap(), n / 2);
    assert_eq!(sharded.insert(held, &second[..n / 2]).unwrap(), 0);
    let mut right: Oracle = (0..n / 2)
        .map(|i| (key_bits(keys[i]), bits(&first, i)))
        .collect();
    assert_holds(&sharded, &right);
    assert_eq!(
        sharded.get(&keys).unwrap().map_bits(),
        one.get(&keys).unwrap().map_bits()
    );
    assert_eq!(
        sharded.contains(&keys).unwrap(),
        one.contains(&keys).unwrap()
    );

    // Half of them present, in another order, so from other ranks.
    let turned: Vec<K> = keys.iter().rev().copied().collect();
    let by_key: Vec<V> = (0..n).rev().map(|i| second[i]).collect();
    let new = n - n / 2;
    assert_eq!(sharded.upsert(&turned, &by_key).unwrap(), new);
    assert_eq!(one.upsert(&turned, &by_key).unwrap(), new);
    right.extend((0..n).map(|i| (key_bits(keys[i]), bits(&second, i))));
    assert_holds(&sharded, &right);

    // Every key twice, from different ranks, and both count.
    let twice: Vec<K> = keys.iter().chain(&keys).copied().collect();
    let ones = vec![value::<V>(1); 2 * n];
    assert_eq!(sharded.merge(&twice, &ones, Merge::Add).unwrap(), 0);
    one.merge(&twice, &ones, Merge::Add).unwrap();
    let added = one.get(&keys).unwrap();
    assert_eq!(
        sharded.get(&keys).unwrap().map_bits(),
        added.clone().map_bits()
    );

    // Half of them absent, and each that is present twice: both count.
    let strange: Vec<K> = keys_of::<K>(2 * n).split_off(n);
    let half: Vec<K> = twice.iter().chain(&strange).copied().collect();
    let threes = vec![value::<V>(3); half.len()];
    let merge = Merge::Xor;
    assert_eq!(sharded.update_with(&half, &threes, merge).unwrap(), 2 * n);
    assert_eq!(one.update_with(&half, &threes, merge).unwrap(), 2 * n);
    assert_eq!(sharded.update(&strange, &threes[..n]).unwrap(), 0);
    assert_eq!(
        sharded.update(&held[..n / 5], &threes[..n / 5]).unwrap(),
        n / 5
    );
    one.update(&held[..n / 5], &threes[..n / 5]).unwrap();
    assert!(matches!(
        sharded.update(&strange, &threes),
        Err(Error::LengthMismatch { .. })
    ));
    let changed = one.get(&keys).unwrap();
    assert_eq!(
        sharded.get(&keys).unwrap().map_bits(),
        changed.clone().map_bits()
    );
    let added = changed;

    // Some twice: one of them counts.
    let away: Vec<K> = absent
        .iter()
        .chain(&absent[..absent.len() / 3])
        .copied()
        .collect();
    assert_eq!(sharded.remove(&away).unwrap(), absent.len());
    assert_eq!(sharded.remove(&away).unwrap(), 0);
    one.remove(&away).unwrap();
    let right: Oracle = (0..n / 2)
        .map(|i| (key_bits(keys[i]), value_bits(added[i].unwrap())))
        .collect();
    assert_holds(&sharded, &right);
    assert_eq!(
        sharded.get(&twice).unwrap().map_bits(),
        one.get(&twice).unwrap().map_bits()
    );

    sharded.clear().unwrap();
    assert_holds(&sharded, &Oracle::new());
    sharded.reserve(n).unwrap();
    let capacity = sharded.capacity();
    assert!(capacity >= n);
    assert_eq!(sharded.insert(&keys, &first).unwrap(), n);
    assert_eq!(
        sharded.capacity(),
        capacity,
        "it grew where room had been made"
    );
}

#[test]
fn a_group_does_what_one_map_does() {
    on_groups!(body: u64 => u64, u32 => u32, u64 => u32);
}

#[test]
fn a_group_does_what_one_map_does_with_other_types() {
    on_groups!(body: u32 => u64, Ticket => f32, Edge => i64);
}

#[test]
fn sets_over_a_group() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let n = on.n(800, 300_000);
        let sharded = map::<K, V>(on);
        let keys = keys_of::<K>(n);
        let nothing = vec![V::zeroed(); n];
        assert_eq!(
            sharded.insert(&keys[..n / 2], &nothing[..n / 2]).unwrap(),
            n / 2
        );
        assert_eq!(sharded.insert(&keys, &nothing).unwrap(), n - n / 2);
        let there = sharded.contains(&keys).unwrap();
        assert!(there.iter().all(|&there| there));
        assert_eq!(sharded.update(&keys, &nothing).unwrap(), n);
        assert_eq!(sharded.remove(&keys[..n / 3]).unwrap(), n / 3);
        let right: Oracle = keys[n / 3..].iter().map(|&k| (key_bits(k), 0)).collect();
        assert_holds(&sharded, &right);
    }
    on_groups!(body: u64 => (), u32 => ());
}

#[test]
fn repeated_keys_are_stored_once_with_one_of_their_values() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let n = on.n(2_000, 1_000_000);
        let kinds = n as u64 / 7 + 1;
        let keys: Vec<K> = (0..n as u64)
            .map(|i| key((i % kinds).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        let values: Vec<V> = (0..n as u64).map(value).collect();
        for upserts in [false, true] {
            let sharded = map::<K, V>(on);
            let stored = match upserts {
                false => sharded.insert(&keys, &values),
                true => sharded.upsert(&keys, &values),
            };
            assert_eq!(stored.unwrap(), kinds as usize);
            let got = sharded.get(&keys).unwrap();
            for (i, v) in got.into_iter().enumerate() {
                let offered = value_bits(v.expect("stored")) % kinds;
                assert_eq!(offered, i as u64 % kinds, "the value of another key");
            }
        }
    }
    on_groups!(body: u64 => u64, u32 => u32);
}

#[test]
fn floats_are_merged_as_floats() {
    on_every_group(|on| {
        let sharded = map::<u32, f64>(on);
        let n = on.n(300, 100_000) as u32;
        let keys: Vec<u32> = (0..3 * n).map(|i| i % n).collect();
        let values: Vec<f64> = (0..3 * n).map(|i| f64::from(i) - f64::from(n)).collect();
        sharded.merge(&keys, &values, Merge::Min).unwrap();
        let least = sharded.get(&keys[..n as usize]).unwrap();
        let right = (0..n).map(|i| Some(f64::from(i) - f64::from(n)));
        assert!(least.into_iter().eq(right));
    });
}

#[test]
fn shards_of_one_group_do_not_mix() {
    fn body<K: Key, V: Numeric>(on: &Group) {
        let work = |rank: &mut Rank| -> Result<()> {
            let mut one = Shard::<K, V>::new(rank)?;
            let mut other = Shard::<K, V>::new(rank)?;
            one.insert(rank, &[key::<K>(1)], &[value::<V>(10)])?;
            other.insert(rank, &[key::<K>(2)], &[value::<V>(20)])?;
            let asked = [key::<K>(1), key::<K>(2)];
            assert_eq!(one.get(rank, &asked)?.map_bits(), [Some(10), None]);
            assert_eq!(other.get(rank, &asked)?.map_bits(), [None, Some(20)]);
            assert_eq!((one.len(rank)?, other.is_empty(rank)?), (1, false));
            one.clear(rank)?;
            assert_eq!((one.is_empty(rank)?, other.len(rank)?), (true, 1));
            Ok(())
        };
        on.ranks().run(work).unwrap();
    }
    on_groups!(body: u64 => u32);
}

/// Answers by their bits.
trait Bits {
    fn map_bits(self) -> Vec<Option<u64>>;
}

impl<V: Numeric> Bits for Vec<Option<V>> {
    fn map_bits(self) -> Vec<Option<u64>> {
        self.into_iter().map(|v| v.map(value_bits)).collect()
    }
}
