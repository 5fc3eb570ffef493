//! Merging page by page: each pair once, whatever becomes of it on its way.

use std::collections::HashMap;
use std::fmt::Debug;
use std::ptr;

use gpumap_kernels::hash::KeyHash;
use gpumap_simt::atomic::part::Update;

use crate::input::Input;
use crate::map::command::{Command, Kind};
use crate::map::{Key, Map, Numeric, Pair};
use crate::scratch::{ScratchRole, Workspace};
use crate::testing::{on_each_back_end, on_every_device};
use crate::{Device, Growth, Merge, Number};

use super::plan::Pages;

/// Pairs of a batch from which pages are made.
const N: usize = 1_500;

/// A map of small pages, or of one that is as large as any.
fn map<K: Key, V: Numeric>(device: &Device, capacity: usize, page_slabs: u32) -> Map<K, V> {
    Map::builder(device)
        .capacity(capacity)
        .page_slabs(page_slabs)
        .growth(Growth::Fixed)
        .hash_seed(3)
        .bulk_from([N, N, usize::MAX])
        .build()
        .unwrap()
}

/// A merge of a batch that lies on the device.
fn job<K: Key, V: Numeric>(
    scratch: &mut Workspace,
    keys: &[K],
    values: &[V],
    merge: Merge,
) -> Command {
    // SAFETY: both outlive the workspace's use of them in each test.
    let (keys_at, values_at) = unsafe {
        let keys = scratch.stage(ScratchRole::Keys, keys.source()).unwrap();
        (
            keys,
            scratch.stage(ScratchRole::Values, values.source()).unwrap(),
        )
    };
    Command {
        kind: Kind::Merge(merge.update::<V>()),
        keys: keys_at.cast(),
        values: values_at.cast(),
        ..Command::of(Kind::Insert, Pair::of::<K, V>(), keys.len())
    }
}

/// Merges by pages, if the map does: how many keys were new.
fn by_pages<K: Key, V: Numeric>(
    map: &Map<K, V>,
    keys: &[K],
    values: &[V],
    merge: Merge,
) -> Option<usize> {
    let mut scratch = map.inline().scratch.take().unwrap();
    let job = job(&mut scratch, keys, values, merge);
    let mut table = map
        .inline()
        .alone_to_build(&job)
        .expect("pages can be made");
    map.inline()
        .build_from(&mut table, &mut scratch, job)
        .unwrap()
}

/// What a map is to hold.
#[derive(Clone, Default)]
struct Model(HashMap<Vec<u8>, Vec<u8>>);

/// Values as the tests make them and merge them on the host.
trait Merged: Numeric + PartialEq + Debug {
    fn of(i: u64) -> Self;
    fn merged(self, merge: Merge, other: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Merged for $t {
            fn of(i: u64) -> Self {
                i.wrapping_mul(0x9e37_79b9_7f4a_7c15) as $t
            }
            fn merged(self, merge: Merge, other: Self) -> Self {
                match merge {
                    Merge::Add => self.wrapping_add(other),
                    Merge::Min => self.min(other),
                    Merge::Max => self.max(other),
                    Merge::And => self & other,
                    Merge::Or => self | other,
                    Merge::Xor => self ^ other,
                }
            }
        }
    )*};
}
integers! { u32 i32 u64 i64 }

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Merged for $t {
            fn of(i: u64) -> Self {
                // Sums of a few are exact, in any order.
                (i % 1000) as $t - 500.0
            }
            fn merged(self, merge: Merge, other: Self) -> Self {
                match merge {
                    Merge::Add => self + other,
                    Merge::Min if other.total_cmp(&self).is_lt() => other,
                    Merge::Max if other.total_cmp(&self).is_gt() => other,
                    _ => self,
                }
            }
        }
    )*};
}
floats! { f32 f64 }

impl Model {
    /// Merges a batch; how many keys were new.
    fn merge<K: Key, V: Merged>(&mut self, keys: &[K], values: &[V], merge: Merge) -> usize {
        let before = self.0.len();
        for (key, &value) in keys.iter().zip(values) {
            let held = self.0.entry(bytemuck::bytes_of(key).to_vec());
            held.and_modify(|held| {
                let merged = bytemuck::pod_read_unaligned::<V>(held).merged(merge, value);
                *held = bytemuck::bytes_of(&merged).to_vec();
            })
            .or_insert_with(|| bytemuck::bytes_of(&value).to_vec());
        }
        self.0.len() - before
    }

    /// Compares with what a map holds.
    fn expect<K: Key, V: Merged>(&self, map: &Map<K, V>, case: &str) {
        assert_eq!(map.len(), self.0.len(), "{case}");
        let (keys, values) = map.retrieve_all().unwrap();
        assert_eq!(keys.len(), self.0.len(), "{case}");
        for (key, value) in keys.iter().zip(&values) {
            let held = self.0.get(bytemuck::bytes_of(key));
            assert_eq!(
                held.map(Vec::as_slice),
                Some(bytemuck::bytes_of(value)),
                "{case}"
            );
        }
    }
}

fn values<V: Merged>(len: usize, salt: u64) -> Vec<V> {
    (0..len as u64).map(|i| V::of(i + salt)).collect()
}

/// Batches of all kinds into maps that are empty, in use, and full.
fn merges_of<K: Key, V: Merged>(device: &Device, key: impl Fn(u64) -> K) {
    let merges: &[Merge] = match V::NUMBER {
        Number::Float => &[Merge::Add, Merge::Min, Merge::Max],
        _ => &[
            Merge::Add,
            Merge::Xor,
            Merge::Min,
            Merge::Max,
            Merge::And,
            Merge::Or,
        ],
    };
    for &merge in merges {
        let case = |what: &str| format!("{what}, {merge:?} of {}", std::any::type_name::<(K, V)>());
        let map = map::<K, V>(device, 3 * N, 8);
        let mut model = Model::default();
        let mut step = |what: &str, keys: Vec<K>, salt| {
            let values = values::<V>(keys.len(), salt);
            let new = by_pages(&map, &keys, &values, merge);
            let name = case(what);
            assert_eq!(new, Some(model.merge(&keys, &values, merge)), "{name}");
            model.expect(&map, &name);
        };
        // Keys from 0 on, some twice, with those whose bits mean a state of a slot.
        let some = |range: std::ops::Range<u64>, times: u64| -> Vec<K> {
            let len = range.end - range.start;
            (0..len * times)
                .map(|i| key(range.start + i * 7 % len))
                .collect()
        };
        let n = N as u64;
        step("empty", some(0..n / 2, 3), 1);
        step("present, and new", some(n / 4..n + n / 4, 1), 5);
        step("few keys", some(n..n + 50, 30), 9);
    }
}

#[test]
fn each_pair_is_merged_once_with_pages() {
    on_each_back_end(|device| {
        // The last keys are reserved words.
        merges_of::<u64, u64>(device, |i| {
            i.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_sub(2)
        });
        merges_of::<u32, u32>(device, |i| u32::MAX - i as u32);
        merges_of::<u32, i64>(device, |i| i as u32);
        merges_of::<u64, i32>(device, |i| u64::MAX - i);
        merges_of::<u64, f64>(device, |i| i << 32);
        merges_of::<u32, f32>(device, |i| (i as u32) << 7);
    });
}

#[test]
fn the_last_slots_of_pages_are_merged_into() {
    on_each_back_end(|device| {
        // So full that many a pair lies in another page than its own, or finds no place.
        let map = Map::<u64, u64>::builder(device)
            .capacity(2 * N)
            .max_load_factor(0.95)
            .page_slabs(8)
            .hash_seed(3)
            .bulk_from([N, N, usize::MAX])
            .build()
            .unwrap();
        let mut model = Model::default();
        let keys: Vec<u64> = (0..2 * N as u64).collect();
        for round in 0..3 {
            let values = values(keys.len(), round);
            let new = map.merge(&keys, &values, Merge::Add).unwrap();
            assert_eq!(new, model.merge(&keys, &values, Merge::Add));
            model.expect(&map, &format!("round {round}"));
        }
        let all = values(keys.len(), 7);
        assert_eq!(by_pages(&map, &keys, &all, Merge::Add), Some(0));
        model.merge(&keys, &all, Merge::Add);
        model.expect(&map, "by pages");
    });
}

#[test]
fn present_keys_are_merged_by_pages_that_have_no_room() {
    on_each_back_end(|device| {
        for merge in [Merge::Add, Merge::Xor] {
            let map = map::<u64, u32>(device, N, 8);
            let most = map.capacity() as u64;
            let mut model = Model::default();
            let keys: Vec<u64> = (0..most - 10).collect();
            let first = values(keys.len(), 1);
            map.insert(&keys, &first).unwrap();
            model.merge(&keys, &first, merge);

            // All present; the last ten new; and one more than there is room for.
            for (new, stored) in [(11, None), (0, Some(0)), (10, Some(10)), (10, Some(0))] {
                let keys: Vec<u64> = (0..most - 10 + new).collect();
                let all = values(keys.len(), new);
                let case = format!("{new} new, {merge:?}");
                assert_eq!(by_pages(&map, &keys, &all, merge), stored, "{case}");
                if stored.is_some() {
                    assert_eq!(stored, Some(model.merge(&keys, &all, merge)), "{case}");
                }
                model.expect(&map, &case);
            }
        }
        // What cannot be taken back is counted first, and then merged.
        let map = map::<u64, u32>(device, N, 8);
        let most = map.capacity();
        let keys: Vec<u64> = (0..most as u64).collect();
        map.insert(&keys, &values(most, 1)).unwrap();
        let mut scratch = map.inline().scratch.take().unwrap();
        let all: Vec<u32> = values(most, 2);
        assert!(
            map.inline()
                .alone_to_build(&job(&mut scratch, &keys, &all, Merge::Max))
                .is_none()
        );
    });
}

#[test]
fn a_batch_with_few_present_keys_does_not_try_pages_without_room() {
    on_every_device(|device| {
        let map = map::<u64, u64>(device, N, 8);
        map.insert(&[1], &[1]).unwrap();
        let keys: Vec<u64> = (1..=map.capacity() as u64).collect();
        assert_eq!(by_pages(&map, &keys, &keys, Merge::Add), None);
        let new = map.merge(&keys, &keys, Merge::Add).unwrap();
        assert_eq!(new, keys.len() - 1);
        assert_eq!(map.get(&[1, 2]).unwrap(), [Some(2), Some(2)]);
    });
}

/// Keys that call a page home.
fn keys_of_page(map: &Map<u64, u64>, page: u64) -> impl Iterator<Item = u64> {
    let (shape, seed) = (map.inline().table.read().shape.clone(), map.inline().seed);
    (0..).filter(move |&key| Pages::of(&shape).home(KeyHash::new(key, seed)) == page)
}

#[test]
fn pairs_that_crowd_a_page_are_merged_once() {
    on_each_back_end(|device| {
        // As a large GPU has: the executor that checks has too little for pages of this size that are in use.
        let device = &match device.is_cuda() {
            true => device.clone(),
            false => device.with_shared_memory(227 << 10),
        };
        // So many with one home that the list is too short for those that find no room there; and so few that it is not.
        for (times, keys) in [(1, 2_900), (1, 2_000), (100, 29), (3, 700)] {
            let map = map::<u64, u64>(device, 4_000, 512);
            let pages = map.inline().table.read().shape.pages.iter().sum::<u32>();
            assert!(pages >= 2, "{pages}");
            let mut model = Model::default();
            let keys: Vec<u64> = keys_of_page(&map, 1).take(keys).collect();
            let keys = keys.repeat(times);
            for round in 0..2 {
                let values = values(keys.len(), round);
                let new = map.merge(&keys, &values, Merge::Add);
                let case = format!("{} pairs, round {round}", keys.len());
                assert_eq!(
                    new.ok(),
                    Some(model.merge(&keys, &values, Merge::Add)),
                    "{case}"
                );
                model.expect(&map, &case);
            }
        }
    });
}

#[test]
fn values_of_present_keys_are_replaced_by_pages() {
    on_every_device(|device| {
        let map = map::<u32, u32>(device, 4 * N, 8);
        let keys: Vec<u32> = (0..N as u32).collect();
        map.insert(&keys, &keys).unwrap();
        let upsert = |keys: &[u32], values: &[u32]| {
            let mut scratch = map.inline().scratch.take().unwrap();
            let job = Command {
                kind: Kind::Merge(Update::Replace),
                ..job(&mut scratch, keys, values, Merge::Add)
            };
            let mut table = map.inline().alone_to_build(&job).unwrap();
            map.inline()
                .build_from(&mut table, &mut scratch, job)
                .unwrap()
        };
        let both: Vec<u32> = (N as u32 / 2..)
            .take(N)
            .flat_map(|key| [key, key])
            .collect();
        let values: Vec<u32> = (0..2 * N as u32).map(|i| i + 10_000).collect();
        assert_eq!(upsert(&both, &values), Some(N / 2));
        let held = map.get(&both).unwrap();
        for (i, pair) in held.chunks(2).enumerate() {
            let own = [2 * i as u32 + 10_000, 2 * i as u32 + 10_001];
            assert!(pair[0] == pair[1] && pair[0].is_some_and(|held| own.contains(&held)));
        }
        let untouched = map.get(&keys[..N / 2]).unwrap();
        assert!(
            untouched
                .iter()
                .zip(&keys)
                .all(|(&held, &key)| held == Some(key))
        );
    });
}

#[test]
fn one_value_of_all_keys_is_merged_by_pages() {
    on_every_device(|device| {
        let map = map::<u64, u64>(device, 4 * N, 8);
        let keys: Vec<u64> = (0..2 * N as u64).map(|i| i % N as u64).collect();
        let merge = || {
            let mut scratch = map.inline().scratch.take().unwrap();
            let job = Command {
                values: ptr::null(),
                value: 5,
                ..job(&mut scratch, &keys, &keys, Merge::Add)
            };
            let mut table = map.inline().alone_to_build(&job).unwrap();
            map.inline()
                .build_from(&mut table, &mut scratch, job)
                .unwrap()
        };
        assert_eq!([merge(), merge()], [Some(N), Some(0)]);
        let (_, values) = map.retrieve_all().unwrap();
        assert_eq!(values, vec![20; N]);

        // Pairs that do not lie side by side have no kernel for that.
        let map = Map::<u64, u32>::builder(device)
            .bulk_from([1, 1, 1])
            .capacity(4 * N);
        let map = map.build().unwrap();
        assert_eq!(map.merge(&keys, 5, Merge::Add).unwrap(), N);
        assert_eq!(map.merge(&keys, 5, Merge::Add).unwrap(), 0);
        assert_eq!(map.retrieve_all().unwrap().1, vec![20; N]);
    });
}

/// Keys of which a few come very often, as the logarithm of their number is uniform.
fn skewed(len: usize, distinct: u64) -> Vec<u64> {
    let mix = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let uniform = |i: u64| (mix(mix(i) >> 7) >> 11) as f64 / (1u64 << 53) as f64;
    let key = |i| ((distinct as f64).powf(uniform(i)) as u64).wrapping_sub(3);
    (0..len as u64).map(key).collect()
}

#[test]
fn keys_that_come_often_are_combined_before_they_are_sorted() {
    on_every_device(|device| {
        let many = 6 * 1024;
        let map = map::<u64, u64>(device, many, 8);
        let mut scratch = map.inline().scratch.take().unwrap();
        let mut sorted = |keys: &[u64], combines| {
            let job = job(&mut scratch, keys, keys, Merge::Add);
            let sorted = map.inline().pairs_to_bins(&mut scratch, &job, 4, combines);
            let sorted = sorted.unwrap();
            sorted.map(|sorted| sorted.in_bins().combined.is_some())
        };
        let skewed = skewed(many, many as u64);
        assert_eq!(sorted(&skewed, true), Some(true));
        assert_eq!(sorted(&skewed, false), None, "a bin runs over");
        assert_eq!(sorted(&vec![7; many], true), Some(true));
        let distinct: Vec<u64> = (0..many as u64).collect();
        assert_eq!(sorted(&distinct, true), Some(false));
        let twice: Vec<u64> = distinct.iter().map(|&key| key / 2).collect();
        assert_eq!(sorted(&twice, true), Some(true), "side by side");
    });
}

#[test]
fn batches_of_keys_that_come_often_are_stored_as_any_other() {
    on_each_back_end(|device| {
        let many = 6 * 1024;
        for (case, bulk) in [("pages", [N, N, N]), ("bins", [usize::MAX, usize::MAX, N])] {
            for keys in [skewed(many, many as u64), skewed(many, 40), vec![7; many]] {
                let new = || {
                    let builder = Map::<u64, u64>::builder(device).page_slabs(8).hash_seed(3);
                    builder.capacity(4 * many).bulk_from(bulk).build().unwrap()
                };
                let map = new();
                let mut model = Model::default();
                for (round, merge) in [Merge::Add, Merge::Add, Merge::Max, Merge::Xor]
                    .into_iter()
                    .enumerate()
                {
                    let values = values(keys.len(), round as u64);
                    let new = map.merge(&keys, &values, merge).unwrap();
                    assert_eq!(new, model.merge(&keys, &values, merge), "{case}, {merge:?}");
                    model.expect(&map, case);
                    let ones = vec![1u64; keys.len()];
                    assert_eq!(map.merge(&keys, 1, Merge::Add).unwrap(), 0, "{case}");
                    model.merge(&keys, &ones, Merge::Add);
                    model.expect(&map, case);
                }
                // Each pair counts that updates a present key.
                let present = map.update_with(&keys, &keys, Merge::Add).unwrap();
                assert_eq!(present, keys.len(), "{case}");
                model.merge(&keys, &keys, Merge::Add);
                model.expect(&map, case);

                // Any of the values may be stored, or replace another.
                for map in [new(), map] {
                    let is_new = map.is_empty();
                    let distinct = model.0.len();
                    let values: Vec<u64> =
                        keys.iter().zip(0..).map(|(key, i)| key << 20 ^ i).collect();
                    if is_new {
                        assert_eq!(map.insert(&keys, &values).unwrap(), distinct, "{case}");
                    } else {
                        assert_eq!(map.upsert(&keys, &values).unwrap(), 0, "{case}");
                    }
                    let pairs = keys.iter().zip(&values);
                    let own: std::collections::HashSet<_> = pairs.collect();
                    let (keys, values) = map.retrieve_all().unwrap();
                    assert_eq!(keys.len(), distinct, "{case}");
                    assert!(
                        keys.iter().zip(&values).all(|pair| own.contains(&pair)),
                        "{case}"
                    );
                }
            }
        }
    });
}
