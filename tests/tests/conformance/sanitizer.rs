//! Every kernel once more, small, for `compute-sanitizer`: memcheck looks for accesses outside of
//! allocations, racecheck for hazards in shared memory, initcheck for reads of unwritten memory,
//! synccheck for barriers that not all lanes reach; each at a hundredth of the usual speed.
//!
//! On a CUDA device that can run both built-in PTX texts, both are used.

use gpumap::bytemuck::{Pod, bytes_of, cast_slice};
use gpumap::op::{self, Execute};
use gpumap::primitives::{Element, Predicate};
use gpumap::strings::{StringColumn, StringColumnMut, Strings};
use gpumap::{Buffer, Error, Key, Map, MapBuilder, Merge, Numeric, Place, RowMap, Stream};
use gpumap_tests::device::{run_pair_on, targets_of_all_kernels};
use gpumap_tests::pairs::nth_key;
use gpumap_tests::{
    Batch, Oracle, Shape, Target, assert_holds, contents, key, key_bits, oracle, value, value_bits,
};

/// Runs a body for each slot format on each target.
macro_rules! on_all_kernels {
    ($body:ident) => {
        for target in targets_of_all_kernels() {
            run_pair_on::<u32, u32>(&target, $body::<u32, u32>);
            run_pair_on::<u32, u64>(&target, $body::<u32, u64>);
            run_pair_on::<u64, u32>(&target, $body::<u64, u32>);
            run_pair_on::<u64, u64>(&target, $body::<u64, u64>);
        }
    };
}

/// An output that initcheck sees reads of, where the kernels of a verb have not written to it.
fn unwritten<T: Pod>(stream: &Stream, len: usize) -> Buffer<T> {
    // SAFETY: the verb that it is for writes to all that the test reads; if not, that is what is looked for.
    unsafe { Buffer::uninit(stream, len) }.unwrap()
}

/// Batches that end inside a warp, at its end and in another block.
const SIZES: [u64; 5] = [1, 31, 32, 257, 1_500];

#[test]
fn sanitizer_insert_and_get() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for n in SIZES {
            let map = on.map::<K, V>(n as usize);
            let mut batch = Batch::<K, V>::numbered(0..n, 1);
            // The last places of exact allocations are where mistakes reach outside.
            let keys = Buffer::from_slice(&on.stream(), &batch.keys).unwrap();
            let values = Buffer::from_slice(&on.stream(), &batch.values).unwrap();
            assert_eq!(map.insert(&keys, &values).unwrap() as u64, n);
            let reserved = Batch::<K, V>::of((0..3).map(|i| (!i, i)));
            assert_eq!(map.insert(&reserved.keys, &reserved.values).unwrap(), 3);
            batch.keys.extend(reserved.keys);
            batch.values.extend(reserved.values);
            assert_holds(&map, &batch.bits().collect());

            let asked: Vec<K> = (n / 2..n / 2 + n).map(nth_key).collect();
            let asked = Buffer::from_slice(&on.stream(), &asked).unwrap();
            let mut out = unwritten::<V>(&on.stream(), n as usize);
            let mut found = unwritten::<u8>(&on.stream(), n as usize);
            map.get_into(&asked, &mut out, &mut found).unwrap();
            let hits = found
                .to_vec()
                .unwrap()
                .iter()
                .map(|&f| u64::from(f))
                .sum::<u64>();
            assert_eq!(hits, n - n / 2);
            map.get_or_into(&asked, value(7), &mut out).unwrap();
            let sevens = out
                .to_vec()
                .unwrap()
                .into_iter()
                .filter(|&v| value_bits(v) == 7)
                .count();
            assert_eq!(sevens as u64, n / 2);
        }
    }
    on_all_kernels!(body);
}

#[test]
fn sanitizer_add_with_duplicates() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for n in SIZES {
            let map = on.map::<K, V>(n as usize);
            let numbers = (0..n).map(|i| i % 37);
            let batch = Batch::<K, V>::numbered(numbers, 1);
            let mut held = Oracle::new();
            for _ in 0..2 {
                let new = oracle::add(&mut held, batch.bits(), size_of::<V>());
                assert_eq!(
                    map.merge(&batch.keys, &batch.values, Merge::Add).unwrap(),
                    new
                );
            }
            assert_holds(&map, &held);
        }
    }
    on_all_kernels!(body);
}

#[test]
fn sanitizer_duplicates_race_for_one_slot() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for distinct in [1, 2, 40] {
            let map = on.map::<K, V>(1_000);
            let batch = Batch::<K, V>::numbered((0..1_000).map(|i| i % distinct), 1);
            assert_eq!(
                map.insert(&batch.keys, &batch.values).unwrap() as u64,
                distinct
            );
            assert_eq!(contents(&map).len() as u64, distinct);
        }
    }
    on_all_kernels!(body);
}

#[test]
fn sanitizer_full_table_and_taking_back() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for slots in [vec![8], vec![32, 100, 64]] {
            let shape = Shape::new::<K, V>(&slots, 4, 9);
            let map = shape.builder::<K, V>(on).build().unwrap();
            let batch = Batch::<K, V>::numbered(shape.filling::<K>(0), 1);
            assert_eq!(map.insert(&batch.keys, &batch.values).unwrap(), map.slots());
            let held: Oracle = batch.bits().collect();
            let more = Batch::<K, V>::numbered(1 << 30..(1 << 30) + 300, 2);
            for stored in [
                map.insert(&more.keys, &more.values),
                map.merge(&more.keys, &more.values, Merge::Add),
            ] {
                assert!(matches!(stored, Err(Error::Full { partial: false, .. })));
            }
            assert!(map.get(&more.keys).unwrap().iter().all(Option::is_none));
            assert_holds(&map, &held);
            // From an empty table most of the batch is stored first, and then taken back.
            map.clear().unwrap();
            let stored = map.insert(&more.keys, &more.values);
            assert!(matches!(stored, Err(Error::Full { partial: false, .. })));
            assert_holds(&map, &Oracle::new());
        }
    }
    on_all_kernels!(body);
}

#[test]
fn sanitizer_retrieve_all_over_submaps() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let shapes = [
            vec![1],
            vec![5_000],
            vec![4, 8, 4_100, 33, 4, 700, 16, 12, 9],
            vec![8; 64],
        ];
        for slots in shapes {
            let shape = Shape::new::<K, V>(&slots, 16, 2);
            let map = shape.builder::<K, V>(on).build().unwrap();
            assert!(contents(&map).is_empty());
            let batch = Batch::<K, V>::numbered(shape.filling_share::<K>(0, 0.3), 1);
            map.insert(&batch.keys, &batch.values).unwrap();
            let held: Oracle = batch.bits().collect();
            assert_eq!(contents(&map), held);
            let mut keys = unwritten::<K>(&on.stream(), held.len());
            let mut values = unwritten::<V>(&on.stream(), held.len());
            assert_eq!(
                map.retrieve_all_into(&mut keys, &mut values).unwrap(),
                held.len()
            );
            map.clear().unwrap();
            assert!(contents(&map).is_empty());
        }
    }
    on_all_kernels!(body);
}

#[test]
fn sanitizer_removing_and_storing_again() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for n in SIZES {
            let map = on.map::<K, V>(n as usize + 3);
            let mut batch = Batch::<K, V>::numbered(0..n, 1);
            let reserved = Batch::<K, V>::of((0..3).map(|i| (!i, i)));
            batch.keys.extend(reserved.keys);
            batch.values.extend(reserved.values);
            let keys = Buffer::from_slice(&on.stream(), &batch.keys).unwrap();
            let values = Buffer::from_slice(&on.stream(), &batch.values).unwrap();
            for round in 0..9 {
                assert_eq!(map.upsert(&keys, &values).unwrap(), batch.len());
                assert_eq!(map.update(&keys, &values).unwrap(), batch.len());
                let held = map.get_or_insert(&keys, &values).unwrap();
                let same = held.iter().zip(&batch.values);
                assert!(
                    same.into_iter()
                        .all(|(&a, &b)| value_bits(a) == value_bits(b))
                );
                let removed = match round % 3 {
                    0 => map.remove(&keys).unwrap(),
                    1 => map.remove_with_outcome(&keys).unwrap().len(),
                    _ => map.take(&keys).unwrap().len(),
                };
                assert_eq!(removed, batch.len());
                assert_holds(&map, &Oracle::new());
            }
        }
    }
    on_all_kernels!(body);
}

/// Graphs whose buffers end where their batches do, with several launches in flight, on a table that moves.
#[test]
fn sanitizer_graphs() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        for n in SIZES {
            let map = on.map::<K, V>(4 * n as usize);
            let stream = on.stream();
            let batch = Batch::<K, V>::numbered(0..n, 1);
            let keys = Buffer::from_slice(&stream, &batch.keys).unwrap();
            let values = Buffer::from_slice(&stream, &batch.values).unwrap();
            let mut held = unwritten::<V>(&stream, n as usize);
            let mut found = unwritten::<u8>(&stream, n as usize);
            let mut graph = map.graph(&stream);
            for _ in 0..3 {
                let mut answers = Vec::new();
                for _ in 0..3 {
                    let mut verbs = graph.record();
                    verbs.insert(&keys, &values).unwrap();
                    verbs.get_or_insert_into(&keys, &values, &mut held).unwrap();
                    verbs.contains_into(&keys, &mut found).unwrap();
                    verbs.remove(&keys).unwrap();
                    answers.push(verbs.launch().unwrap());
                }
                for answer in answers {
                    let n = n as usize;
                    assert_eq!(answer.wait().unwrap(), [n, 0, 0, n]);
                }
                assert!(found.to_vec().unwrap().iter().all(|&found| found == 1));
                assert_holds(&map, &Oracle::new());
                map.reserve(2 * map.capacity()).unwrap();
            }
        }
    }
    on_all_kernels!(body);
}

/// The tools of compute-sanitizer.
const TOOLS: [&str; 4] = ["memcheck", "racecheck", "initcheck", "synccheck"];

/// Sorts batches of any length into bins. Under initcheck these are zeroed: its report would be of places of bins that no pair is
/// in, which warps load and copies between ranks take along. Leaving these places out costs lookups 5 %, and copies one call
/// of the driver for each bin.
pub(crate) fn sorted_batches<K: Key, V: Numeric, P: Place>(
    builder: MapBuilder<K, V, P>,
) -> MapBuilder<K, V, P> {
    let builder = builder.bulk_from([1; 3]);
    match std::env::var("GPUMAP_SANITIZER") {
        Ok(tool) if tool == "initcheck" => builder.zeroed_bins(),
        Ok(tool) if !TOOLS.contains(&&*tool) => {
            panic!("GPUMAP_SANITIZER={tool} is none of {TOOLS:?}")
        }
        _ => builder,
    }
}

/// Pages made with a batch, from nothing and from what is in them, and batches sorted by hash.
#[test]
fn sanitizer_large_batches() {
    fn body<K: Key, V: Numeric>(on: &Target) {
        let n = 1_500;
        for page_slabs in [2, 64] {
            let builder = on.builder::<K, V>().capacity(2 * n as usize);
            let builder = builder.page_slabs(page_slabs).submaps(2);
            let map = sorted_batches(builder).build().unwrap();
            // One key in four comes twice.
            let first = Batch::<K, V>::numbered((0..n).map(|i| i - i % 4 / 3), 1);
            let mut held = Oracle::new();
            for batch in [first, Batch::<K, V>::numbered(n / 2..n / 2 + n, 2)] {
                let new = map.insert(&batch.keys, &batch.values).unwrap();
                assert_eq!(new, oracle::adopt(&mut held, &map, batch.bits()));
                assert_holds(&map, &held);
                let new = oracle::add(&mut held, batch.bits(), size_of::<V>());
                let merged = map.merge(&batch.keys, &batch.values, Merge::Add);
                assert_eq!(merged.unwrap(), new);
                assert_holds(&map, &held);
            }
            let most = Batch::<K, V>::numbered(n..2 * n, 3);
            let there: Vec<_> = most.bits().filter(|(k, _)| held.contains_key(k)).collect();
            assert_eq!(map.update(&most.keys, &most.values).unwrap(), there.len());
            held.extend(there);
            assert_holds(&map, &held);
        }
    }
    on_all_kernels!(body);
}

#[test]
fn sanitizer_retain_stats_and_growth() {
    fn body<K: Key + Element, V: Numeric + Element>(on: &Target) {
        for submaps in [1, 3] {
            let builder = on.builder::<K, V>().submaps(submaps).page_slabs(4);
            let map = builder.build().unwrap();
            let mut held = Oracle::new();
            for part in 0..6 {
                let batch = Batch::<K, V>::numbered(part * 150..(part + 1) * 150, 1);
                let told = map.insert_with_outcome(&batch.keys, &batch.values).unwrap();
                assert_eq!(told.len(), 150);
                held.extend(batch.bits());
            }
            assert_holds(&map, &held);
            assert_eq!(map.stats().unwrap().len, 900);
            let low = nth_key::<K>(1);
            let keys = Predicate::GreaterOrEqual(low);
            held.retain(|&k, _| keys.holds(key(k)));
            let removed = map.retain_where(keys, Predicate::Always).unwrap();
            assert_eq!(
                (removed, map.stats().unwrap().tombstones),
                (900 - held.len(), removed)
            );
            assert_holds(&map, &held);
            let kept: Vec<K> = (0..300).map(nth_key).collect();
            map.retain_keys(&kept).unwrap();
            map.shrink_to_fit().unwrap();
            held.retain(|&k, _| kept.iter().any(|&kept| key_bits(kept) == k));
            assert_holds(&map, &held);
        }
    }
    on_all_kernels!(body);
}

#[test]
fn sanitizer_wide_maps() {
    fn body<K: Key, V: Numeric>(on: &Target, key: fn(u64) -> K) {
        let stream = on.stream();
        for n in SIZES {
            let len = n as usize;
            let map = Map::<K, V>::new(on.device()).unwrap();
            let all: Vec<K> = (0..n).map(key).collect();
            let twice = Buffer::from_slice(&stream, &[&all[..], &all].concat()).unwrap();
            let ones = Buffer::from_slice(&stream, &vec![value::<V>(1); 2 * len]).unwrap();
            assert_eq!(map.merge(&twice, &ones, Merge::Add).unwrap(), len);
            let mut held = unwritten::<V>(&stream, 2 * len);
            let stored = map.execute(op::get_or_insert(&twice, &ones).into(&mut held).count());
            assert_eq!(stored.unwrap(), 0);
            let is = |held: Buffer<V>, expected: u64| {
                let held = held.to_vec().unwrap();
                held.into_iter().all(|held| value_bits(held) == expected)
            };
            assert!(is(held, 2));
            let (mut told, mut found) = (
                unwritten::<V>(&stream, 2 * len),
                unwritten::<u8>(&stream, 2 * len),
            );
            let touched = op::get_and_touch(&twice, value::<V>(0), Merge::Add).into(&mut told);
            map.execute(touched.found(&mut found)).unwrap();
            assert!(is(told, 2) && found.to_vec().unwrap().iter().all(|&found| found == 1));
            let gone = len - len / 3;
            let mut told = unwritten::<V>(&stream, 2 * len);
            let mut found = unwritten::<u8>(&stream, 2 * len);
            map.retain(|key, _| {
                !all[gone..]
                    .iter()
                    .any(|other| bytes_of(other) == bytes_of(&key))
            })
            .unwrap();
            let taken = op::take(&twice).into(&mut told).found(&mut found);
            map.execute(taken).unwrap();
            let found: usize = found
                .to_vec()
                .unwrap()
                .iter()
                .map(|&found| usize::from(found))
                .sum();
            assert_eq!((found, map.len()), (gone, 0));
            // In rows that are used again.
            assert_eq!(map.upsert(&twice, &ones).unwrap(), len);
            assert_eq!(map.update(&twice, &ones).unwrap(), 2 * len);
            map.remove(&all[..gone]).unwrap();
            let (mut keys, mut values) = (
                unwritten::<K>(&stream, len - gone),
                unwritten::<V>(&stream, len - gone),
            );
            assert_eq!(
                map.retrieve_all_into(&mut keys, &mut values).unwrap(),
                len - gone
            );
            let keys = keys.to_vec().unwrap();
            assert!(cast_slice::<K, u8>(&keys) == cast_slice::<K, u8>(&all[gone..]));
            assert!(is(values, 1));
        }
    }
    for target in targets_of_all_kernels() {
        body::<[u32; 3], u32>(&target, |i| [i as u32, 0, !0]);
        body::<u128, u64>(&target, |i| u128::from(i) << 60);
    }
}

#[test]
fn sanitizer_row_maps() {
    fn body<K: Pod>(on: &Target, key: fn(u64) -> K) {
        let keys = |range: std::ops::Range<u64>| -> Vec<K> { range.map(key).collect() };
        let stream = on.stream();
        let on_device = |keys: &[K]| Buffer::from_slice(&stream, keys).unwrap();
        for n in SIZES {
            let len = n as usize;
            let map = RowMap::<K>::new(on.device()).unwrap();
            let all = keys(0..n);
            let twice = on_device(&[&all[..], &all].concat());
            let mut rows = unwritten::<u32>(&stream, 2 * len);
            let mut new = unwritten::<u8>(&stream, 2 * len);
            let inserted = map.insert_with_outcome_into(&twice, &mut rows, &mut new);
            assert_eq!(inserted.unwrap(), len);
            let expected = (0..n as u32).chain(0..n as u32);
            assert!(rows.to_vec().unwrap().into_iter().eq(expected));
            assert!(new.to_vec().unwrap().iter().all(|&new| new < 2));

            let gone = len - len / 3;
            let removed = map.remove(&on_device(&[&all[..gone], &all[..gone]].concat()));
            assert_eq!(removed.unwrap(), gone);
            let mut there = unwritten::<K>(&stream, len / 3);
            let mut rows = unwritten::<u32>(&stream, len / 3);
            let dumped = map.retrieve_all_into(&mut there, &mut rows);
            assert_eq!(dumped.unwrap(), len / 3);
            assert!(rows.to_vec().unwrap().into_iter().eq(gone as u32..n as u32));
            let there = there.to_vec().unwrap();
            assert!(cast_slice::<K, u8>(&there) == cast_slice::<K, u8>(&all[gone..]));

            // Which makes slots anew, behind tombstones or without them.
            let more = on_device(&keys(n..3 * n));
            let mut rows = unwritten::<u32>(&stream, 2 * len);
            assert_eq!(map.insert_into(&more, &mut rows).unwrap(), 2 * len);
            let mut old = unwritten::<u32>(&stream, map.len());
            assert_eq!(map.compact_into(&mut old).unwrap(), map.len());
            assert!(
                old.to_vec()
                    .unwrap()
                    .into_iter()
                    .eq(gone as u32..3 * n as u32)
            );
            let mut rows = unwritten::<u32>(&stream, 2 * len);
            map.get_into(&more, &mut rows).unwrap();
            let first = (len / 3) as u32;
            assert!(
                rows.to_vec()
                    .unwrap()
                    .into_iter()
                    .eq(first..first + 2 * n as u32)
            );
        }
    }
    for target in targets_of_all_kernels() {
        body::<u32>(&target, |i| i as u32);
        body::<[u32; 3]>(&target, |i| [i as u32, 0, !0]);
        body::<u64>(&target, |i| i);
        body::<[u64; 4]>(&target, |i| [0, i, !i, 1]);
    }
}

/// Bytes of the batch end where their memory does, and strings lie at every address.
#[test]
fn sanitizer_string_rows() {
    for on in targets_of_all_kernels() {
        let stream = on.stream();
        let strings = |numbers: std::ops::Range<u64>| {
            Strings::from_iter(numbers.map(|i| "x".repeat(i as usize % 29) + &i.to_string()))
        };
        let on_device = |strings: &Strings| {
            let offsets = Buffer::from_slice(&stream, strings.offsets()).unwrap();
            (
                offsets,
                Buffer::from_slice(&stream, strings.bytes()).unwrap(),
            )
        };
        for n in SIZES {
            let len = n as usize;
            let map = RowMap::<str>::new(on.device()).unwrap();
            let (offsets, bytes) = on_device(&strings(0..n));
            let all = StringColumn::new(&offsets, &bytes);
            for expected in [len, 0] {
                let mut rows = unwritten::<u32>(&stream, len);
                let mut new = unwritten::<u8>(&stream, len);
                let inserted = map.insert_with_outcome_into(&all, &mut rows, &mut new);
                assert_eq!(inserted.unwrap(), expected);
                assert!(rows.to_vec().unwrap().into_iter().eq(0..n as u32));
            }
            let gone = len - len / 3;
            assert_eq!(map.remove(&strings(0..gone as u64)).unwrap(), gone);
            let left = strings(gone as u64..n);
            let mut at = unwritten::<i64>(&stream, left.len() + 1);
            let mut there = unwritten::<u8>(&stream, map.byte_len().unwrap());
            let places = &mut StringColumnMut::new(&mut at, &mut there);
            assert_eq!(map.keys_into(places).unwrap(), len / 3);
            let told = (at.to_vec().unwrap(), there.to_vec().unwrap());
            assert_eq!(told, left.into_parts());

            let (offsets, bytes) = on_device(&strings(n..3 * n));
            let more = StringColumn::new(&offsets, &bytes);
            let mut rows = unwritten::<u32>(&stream, 2 * len);
            assert_eq!(map.insert_into(&more, &mut rows).unwrap(), 2 * len);
            let mut old = unwritten::<u32>(&stream, map.len());
            assert_eq!(map.compact_into(&mut old).unwrap(), map.len());
            let old = old.to_vec().unwrap();
            assert!(old.into_iter().eq(gone as u32..3 * n as u32));
            map.get_into(&more, &mut rows).unwrap();
            let first = (len / 3) as u32;
            let expected: Vec<u32> = (first..first + 2 * n as u32).collect();
            assert_eq!(rows.to_vec().unwrap(), expected);
            let mut graph = map.graph(&stream);
            for _ in 0..3 {
                let mut rows = unwritten::<u32>(&stream, 2 * len);
                let mut lookups = graph.record();
                lookups.get_into(&more, &mut rows).unwrap();
                lookups.launch().unwrap().wait().unwrap();
                assert_eq!(rows.to_vec().unwrap(), expected);
            }
        }
    }
}
