//! One map for every pair of types: what all layouts do, by one body, on a device, a stream, in a graph, over a group and in a file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytemuck::{Pod, bytes_of};
use gpumap::op::{self, Execute};
use gpumap::{Buffer, Key, Layout, Map, Outcome, ShardedMap, Value};
use gpumap_tests::blob::blob;
use gpumap_tests::device::noting;
use gpumap_tests::group::on_every_group;
use gpumap_tests::{Target, on_every_target};

/// Pairs by their bytes.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn bytes<T: Pod>(of: &T) -> Vec<u8> {
    bytes_of(of).to_vec()
}

fn keys<K: Key>(numbers: impl IntoIterator<Item = u64>) -> Vec<K> {
    // No zero: in a dump of places that were not written it would be one more key.
    numbers.into_iter().map(|number| blob(number + 1)).collect()
}

fn values<V: Value>(numbers: impl IntoIterator<Item = u64>) -> Vec<V> {
    numbers
        .into_iter()
        .map(|number| blob(3 * number + 1))
        .collect()
}

fn model<K: Pod, V: Pod>((keys, values): (Vec<K>, Vec<V>)) -> Model {
    let pairs = keys.len();
    let model: Model = keys
        .iter()
        .map(bytes)
        .zip(values.iter().map(bytes))
        .collect();
    assert_eq!(model.len(), pairs, "a key is there twice");
    model
}

fn expect<K: Key, V: Value>(map: &Map<K, V>, wanted: &Model) {
    assert_eq!(map.len(), wanted.len());
    assert_eq!(model(map.retrieve_all().unwrap()), *wanted);
    let mut chunked = Model::new();
    map.for_each_chunk(100, |chunk| {
        chunked.extend(chunk.iter().map(|(k, v)| (bytes(&k), bytes(&v))));
        Ok(())
    })
    .unwrap();
    assert_eq!(chunked, *wanted);
}

/// Every form that all layouts have.
fn on_device<K: Key, V: Value>(on: &Target) {
    let n = on.n(200, 20_000) as u64;
    let device = on.device();
    let zipped = |numbers: std::ops::Range<u64>| {
        let pairs = keys::<K>(numbers.clone()).into_iter();
        pairs.zip(values::<V>(numbers))
    };
    let map: Map<K, V> = Map::from_pairs(device, zipped(0..n)).unwrap();
    map.preload().unwrap();
    let mut wanted: Model = zipped(0..n).map(|(k, v)| (bytes(&k), bytes(&v))).collect();
    expect(&map, &wanted);
    let stats = map.stats().unwrap();
    assert_eq!((stats.layout, stats.len), (Map::<K, V>::LAYOUT, n as usize));
    assert_eq!(stats.cells.is_some(), Map::<K, V>::LAYOUT == Layout::Cells);
    assert!(stats.capacity >= stats.len && stats.table_bytes >= n * size_of::<K>() as u64);
    assert!(map.slots() >= map.len() && map.load_factor() <= 1.0 && map.submaps() > 0);
    assert!(format!("{map:?}").contains(Map::<K, V>::LAYOUT.name()));

    // Half of the keys are new.
    let (batch, new) = (keys::<K>(n / 2..n + n / 2), values::<V>(0..n));
    let outcome = |i: u64| match i < n / 2 {
        true => Outcome::Present,
        false => Outcome::Inserted,
    };
    let outcomes: Vec<Outcome> = (0..n).map(outcome).collect();
    assert_eq!(map.insert_with_outcome(&batch, &new).unwrap(), outcomes);
    for i in n / 2..n {
        wanted.insert(bytes(&batch[i as usize]), bytes(&new[i as usize]));
    }
    expect(&map, &wanted);
    let held = map.get_or_insert(&batch, &new).unwrap();
    let held: Vec<Vec<u8>> = held.iter().map(bytes).collect();
    assert!(batch.iter().map(|k| &wanted[&bytes(k)]).eq(&held));
    assert_eq!(
        map.upsert_with_outcome(&batch, &new).unwrap(),
        vec![Outcome::Present; n as usize]
    );
    wanted.extend(batch.iter().map(bytes).zip(new.iter().map(bytes)));
    assert_eq!(
        map.update(&batch, &values::<V>(n..2 * n)).unwrap(),
        n as usize
    );
    wanted.extend(
        batch
            .iter()
            .map(bytes)
            .zip(values::<V>(n..2 * n).iter().map(bytes)),
    );
    expect(&map, &wanted);
    // Of several pairs with one key the last one.
    let twice = [(batch[0], new[0]), (batch[1], new[1]), (batch[0], new[2])];
    map.try_extend(twice).unwrap();
    wanted.insert(bytes(&batch[0]), bytes(&new[2]));
    wanted.insert(bytes(&batch[1]), bytes(&new[1]));
    expect(&map, &wanted);

    // Lookups, of present and of absent keys.
    let asked = keys::<K>(n..2 * n);
    let is_there = |k: &K| wanted.contains_key(&bytes(k));
    let found: Vec<Option<Vec<u8>>> = asked
        .iter()
        .map(|k| wanted.get(&bytes(k)).cloned())
        .collect();
    let got = map.get(&asked).unwrap();
    assert!(
        got.iter()
            .map(|v| v.as_ref().map(bytes))
            .eq(found.iter().cloned())
    );
    assert!(
        map.contains(&asked)
            .unwrap()
            .into_iter()
            .eq(asked.iter().map(is_there))
    );
    let default = blob::<V>(77);
    let got = map.get_or(&asked, default).unwrap();
    let or_default = found
        .iter()
        .map(|v| v.clone().unwrap_or_else(|| bytes(&default)));
    assert!(got.iter().map(bytes).eq(or_default));
    let mut flags = vec![9; asked.len()];
    map.contains_into(&asked, &mut flags).unwrap();
    assert!(
        flags
            .iter()
            .map(|&flag| flag == 1)
            .eq(asked.iter().map(is_there))
    );

    // A dump whose order stays.
    let stable = map.retrieve_all_stable().unwrap();
    let again = map.retrieve_all_stable().unwrap();
    assert!(stable.0.iter().map(bytes).eq(again.0.iter().map(bytes)));
    let stream = on.stream();
    let mut all_keys = Buffer::<K>::zeroed(&stream, map.len()).unwrap();
    let mut all_values = Buffer::<V>::zeroed(&stream, map.len()).unwrap();
    assert_eq!(
        map.retrieve_all_into(&mut all_keys, &mut all_values)
            .unwrap(),
        wanted.len()
    );
    let dumped = (all_keys.to_vec().unwrap(), all_values.to_vec().unwrap());
    assert_eq!(model(dumped), wanted);

    on_stream_and_in_graph(on, &map, &mut wanted, n);

    // A file.
    let mut file = Vec::new();
    assert_eq!(map.save_to(&mut file).unwrap(), wanted.len() as u64);
    let loaded = Map::<K, V>::builder(device).load_from(&file[..]).unwrap();
    expect(&loaded, &wanted);

    // Removals.
    let third: Vec<K> = keys(0..n / 3);
    assert_eq!(
        map.remove_with_outcome(&third).unwrap(),
        vec![true; third.len()]
    );
    assert_eq!(map.remove(&third).unwrap(), 0);
    third.iter().for_each(|k| drop(wanted.remove(&bytes(k))));
    expect(&map, &wanted);
    let taken = map.take(&batch[..9]).unwrap();
    let of_model = batch[..9].iter().map(|k| wanted.remove(&bytes(k)));
    assert!(
        taken
            .iter()
            .map(|v| v.as_ref().map(bytes))
            .eq(of_model.collect::<Vec<_>>())
    );
    let keeps = |k: &K| !bytes_of(k)[0].is_multiple_of(3);
    let removed = map.retain(|k, v| {
        assert_eq!(bytes(v), wanted[&bytes(&k)]);
        keeps(&k)
    });
    let before = wanted.len();
    wanted.retain(|k, _| k[0] % 3 != 0);
    assert_eq!(removed.unwrap(), before - wanted.len());
    expect(&map, &wanted);

    // Room.
    map.reserve(5 * n as usize).unwrap();
    let large = map.stats().unwrap();
    assert!(map.capacity() >= wanted.len() + 5 * n as usize);
    map.shrink_to_fit().unwrap();
    let small = map.stats().unwrap();
    let bytes_in = |stats: &gpumap::Stats| {
        stats.table_bytes + stats.cells.as_ref().map_or(0, |cells| cells.arena_bytes)
    };
    assert!(
        bytes_in(&small) < bytes_in(&large),
        "{small:?} of {large:?}"
    );
    expect(&map, &wanted);
    let kept = keys::<K>(n..n + 40);
    let before = wanted.len();
    wanted.retain(|k, _| kept.iter().any(|kept| bytes_of(kept) == k.as_slice()));
    assert_eq!(map.retain_keys(&kept).unwrap(), before - wanted.len());
    expect(&map, &wanted);
    map.insert(&third, &values(0..n / 3)).unwrap();
    wanted.extend(
        third
            .iter()
            .map(bytes)
            .zip(values::<V>(0..n / 3).iter().map(bytes)),
    );
    assert_eq!(model(map.drain().unwrap()), wanted);
    expect(&map, &Model::new());
    map.insert(&third, &values(0..n / 3)).unwrap();
    map.clear().unwrap();
    assert!(map.is_empty());
    map.trim();
}

fn on_stream_and_in_graph<K: Key, V: Value>(
    on: &Target,
    map: &Map<K, V>,
    wanted: &mut Model,
    n: u64,
) {
    let stream = on.stream();
    let (new, of_new) = (keys::<K>(5 * n..5 * n + 70), values::<V>(0..70));
    let at = Buffer::from_slice(&stream, &new).unwrap();
    let of_at = Buffer::from_slice(&stream, &of_new).unwrap();
    let mut told = Buffer::<V>::zeroed(&stream, 70).unwrap();
    let mut found = Buffer::<u8>::zeroed(&stream, 70).unwrap();
    let queue = map.on(&stream);
    let stored = queue.insert(&at, &of_at).unwrap();
    let looked_up = queue.get_into(&at, &mut told, &mut found).unwrap();
    assert_eq!(stored.wait().unwrap(), 70);
    looked_up.wait().unwrap();
    assert_eq!(found.to_vec().unwrap(), [1; 70]);
    assert!(
        told.to_vec()
            .unwrap()
            .iter()
            .map(bytes)
            .eq(of_new.iter().map(bytes))
    );
    wanted.extend(new.iter().map(bytes).zip(of_new.iter().map(bytes)));
    expect(map, wanted);

    let mut graph = map.graph(&stream);
    for is_there in [1, 0] {
        let mut recording = graph.record();
        recording.get_into(&at, &mut told, &mut found).unwrap();
        recording.remove(&at).unwrap();
        let counts = recording.launch().unwrap().wait().unwrap();
        assert_eq!(counts, [0, 70 * is_there]);
        assert_eq!(found.to_vec().unwrap(), [is_there as u8; 70]);
    }
    new.iter().for_each(|k| drop(wanted.remove(&bytes(k))));
    expect(map, wanted);
}

fn over_groups<K: Key, V: Value>() {
    on_every_group(|on| {
        let n = on.n(120, 20_000) as u64;
        let map = ShardedMap::<K, V>::new(on.ranks()).unwrap();
        let (batch, of_batch) = (keys::<K>(0..n), values::<V>(0..n));
        assert_eq!(
            map.execute(op::insert(&batch, &of_batch)).unwrap(),
            n as usize
        );
        let mut wanted = model((batch.clone(), of_batch));
        let removed = map.retain(|k, v| {
            assert_eq!(bytes(v), wanted[&bytes(&k)]);
            bytes_of(&k)[0] % 2 == 0
        });
        let before = wanted.len();
        wanted.retain(|k, _| k[0] % 2 == 0);
        assert_eq!(removed.unwrap(), before - wanted.len());
        assert_eq!(model(map.retrieve_all().unwrap()), wanted);
        let local = map.local(0).unwrap().retrieve_all().unwrap().0;
        assert!(local.iter().all(|&k| map.owner(k) == 0));
        let mut file = Vec::new();
        map.save_to(&mut file).unwrap();
        let loaded = ShardedMap::<K, V>::builder(on.ranks())
            .load_from(&file[..])
            .unwrap();
        assert_eq!(model(loaded.drain().unwrap()), wanted);
        assert!(loaded.is_empty());
        map.shrink_to_fit().unwrap();
        assert_eq!(model(map.drain().unwrap()), wanted);
        assert!(map.is_empty());
    });
}

/// Runs the bodies for pairs of types, and notes them.
macro_rules! table {
    ($table:ident, $body:ident; $($k:ty => [$($v:ty),*];)*) => {
        $($({
            noting(stringify!($k => $v), || $body::<$k, $v>());
            let layout = Map::<$k, $v>::LAYOUT.name();
            writeln!($table, "{} => {}: {layout}", stringify!($k), stringify!($v)).unwrap();
        })*)*
    };
}

#[test]
fn every_pair_of_types_on_a_device() {
    fn body<K: Key, V: Value>() {
        on_every_target(on_device::<K, V>);
    }
    let mut table = String::new();
    table! { table, body;
        u32 => [(), u32, f64, [f32; 3], [u8; 64], [f32; 64]];
        u64 => [(), u32, f64, [f32; 3], [u8; 64], [f32; 64]];
        [u16; 2] => [(), u32, f64, [u16; 2]];
        [u8; 8] => [(), u32, f64];
        [u8; 12] => [(), u32, f64, [f32; 3]];
        [u8; 16] => [[u8; 64], [u8; 256]];
        u128 => [(), u32, f64, [u8; 37], [f32; 64]];
        [u64; 8] => [(), u32, f64, [u8; 64]];
    }
    for layout in ["Inline", "Cells", "Rows"] {
        assert!(
            table.lines().filter(|line| line.ends_with(layout)).count() >= 6,
            "{table}"
        );
    }
    println!("{table}");
}

#[test]
fn every_pair_of_types_over_groups() {
    fn body<K: Key, V: Value>() {
        over_groups::<K, V>();
    }
    let mut table = String::new();
    table! { table, body;
        u32 => [(), f64];
        u64 => [u32];
        [u8; 8] => [u32];
        u128 => [(), f64];
        [u64; 8] => [u32];
    }
    println!("{table}");
}
