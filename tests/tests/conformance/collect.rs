//! Maps from iterators and iterators into maps: as a `HashMap`, the last pair of a key counts.

use gpumap::{Device, Error, Key, Map, Numeric};
use gpumap_tests::pairs::{nth_key, value_by};
use gpumap_tests::{
    Oracle, Target, assert_holds, contents, key_bits, on_every_format, on_every_pair, value_bits,
};

/// Pairs of `distinct` keys, written by one writer after the other, in an iterator that does not
/// know its length.
fn pairs<K: Key, V: Numeric>(n: u64, distinct: u64) -> impl Iterator<Item = (K, V)> + Clone {
    (0..2 * n).filter(|i| i % 2 == 1).map(move |i| {
        let number = i / 2;
        let k = nth_key::<K>(number * number % distinct);
        (k, value_by(k, (number * 255 / n) as u8))
    })
}

fn bits<K: Key, V: Numeric>(pairs: impl Iterator<Item = (K, V)>) -> Oracle {
    pairs.map(|(k, v)| (key_bits(k), value_bits(v))).collect()
}

#[test]
fn the_last_pair_of_a_key_counts() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        // Beyond what is collected on the host before it goes to the device.
        let n = on.n(70_000, 1_000_000) as u64;
        for distinct in [7, n / 3] {
            let all = pairs::<K, V>(n, distinct);
            let map = Map::from_pairs(on.device(), all.clone()).unwrap();
            let mut held = bits(all);
            assert_holds(&map, &held);
            let mut map = map;
            let more = pairs::<K, V>(n / 2, distinct + 5).skip(3);
            map.extend(more.clone());
            held.extend(bits(more));
            assert_holds(&map, &held);
        }
    }
    on_every_format!(body);
}

#[test]
fn every_kind_of_pair() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let all: Vec<(K, V)> = pairs(400, 90).collect();
        let map = Map::from_pairs(on.device(), all.iter().copied()).unwrap();
        assert_holds(&map, &bits(all.iter().copied()));
        map.try_extend([]).unwrap();
        map.try_extend(all.iter().copied().rev()).unwrap();
        assert_eq!(contents(&map), bits(all.iter().copied().rev()));
        let empty = Map::<K, V>::from_pairs(on.device(), []).unwrap();
        assert!(empty.is_empty());
    }
    on_every_pair!(body);
}

#[test]
fn collected_on_the_best_device() {
    let squares: Map<u32, u64> = (0..1_000u32).map(|i| (i % 100, u64::from(i))).collect();
    assert_eq!(squares.len(), 100);
    assert_eq!(
        squares.get(&[7, 99, 100]).unwrap(),
        [Some(907), Some(999), None]
    );
    assert_eq!(*squares.device(), Device::best().unwrap());
}

#[test]
fn an_error_leaves_what_came_before() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let on = on.with_memory_budget(400_000);
        let map = on.map::<K, V>(100);
        let first: Vec<(K, V)> = pairs(50, 1_000).collect();
        map.try_extend(first.iter().copied()).unwrap();
        // All in one batch.
        let all = (0..60_000).map(|i| (nth_key::<K>(i), value_by(nth_key::<K>(i), 1)));
        let refused = map.try_extend(all);
        assert!(
            matches!(refused, Err(Error::OutOfMemory { .. })),
            "{refused:?}"
        );
        assert_holds(&map, &bits(first.into_iter()));
    }
    on_every_format!(body);
}
