//! The entry points, as a host launches them.

use std::ptr;

use gpumap_kernels::chained::answer::{Outcome, Report};
use gpumap_kernels::chained::compact::CompactArgs;
use gpumap_kernels::chained::get_all::GetAllArgs;
use gpumap_kernels::chained::kernels::{
    ChainedArgs, ChainedKernels, CountArgs, PACKED_4_4, SPLIT_8_8, WIDE_8_8,
};
use gpumap_kernels::chained::mixed::Operation;
use gpumap_kernels::chained::retrieve_all::{DumpChainsArgs, SHARED_BYTES, THREADS, blocks};
use gpumap_kernels::chained::stats::{ChainStatsArgs, figure};
use gpumap_kernels::count::{Counters, WORDS};
use gpumap_kernels::slot::{Bits, Format, Packed, Split, Wide};
use gpumap_kernels::source::Batch;
use gpumap_simt::executor::Executor;
use gpumap_simt::kernel::{Grid, Kernel};

use crate::support::{Contents, HostMap};

/// Launches a kernel for a batch; returns its outcomes, values and counters.
fn launch<F: Format>(
    kernel: &Kernel<ChainedArgs<u8, u8>>,
    map: &mut HostMap<F>,
    keys: &[F::Key],
    values: &[F::Value],
    operations: &[u8],
) -> (Vec<u8>, Vec<F::Value>, [u64; 2]) {
    let (mut outcomes, mut flags) = (vec![9u8; keys.len()], vec![9u8; keys.len()]);
    let mut found = vec![F::Value::default(); keys.len()];
    let mut counters = [0; WORDS];
    let args = ChainedArgs {
        view: map.view(),
        batch: Batch {
            keys: keys.as_ptr().cast(),
            values: values.as_ptr().cast(),
            value: 0,
            len: keys.len() as u64,
            per_warp: 64,
        },
        operations: operations.as_ptr(),
        report: Report {
            outcomes: outcomes.as_mut_ptr(),
            flags: flags.as_mut_ptr(),
            values: found.as_mut_ptr().cast(),
        },
        counters: Counters::of(counters.as_mut_ptr()),
    };
    let grid = Grid::covering(keys.len().div_ceil(2) as u64, 128);
    // SAFETY: everything outlives the launch; blocks are whole warps, enough for the batch.
    unsafe { kernel.run(Executor::global(), grid, args) }.unwrap();
    for (&outcome, &flag) in outcomes.iter().zip(&flags) {
        let done = [Outcome::Stored as u8, Outcome::Removed as u8];
        // Of a key without an operation nothing is told.
        let wanted = if outcome == 9 {
            9
        } else {
            u8::from(done.contains(&outcome))
        };
        assert_eq!(flag, wanted, "outcome {outcome}");
    }
    (outcomes, found, [counters[0], counters[1]])
}

fn scenario<F: Format>(set: &ChainedKernels) {
    const N: usize = 1000;
    let mut map = HostMap::<F>::new(11, &[400], 0, 5);
    let keys: Vec<_> = (0..N as u64).map(|i| F::Key::from_u64(!i)).collect();
    let values: Vec<_> = (0..N as u64).map(F::Value::from_u64).collect();
    let is = |outcome: Outcome| move |&o: &u8| o == outcome as u8;

    let (outcomes, _, counters) = launch(set.insert, &mut map, &keys, &values, &[]);
    assert!(outcomes.iter().all(is(Outcome::Stored)));
    assert_eq!(counters, [N as u64, 0]);
    let (outcomes, found, _) = launch(set.get, &mut map, &keys, &[], &[]);
    assert!(outcomes.iter().all(is(Outcome::Present)));
    assert!(found == values);

    let (_, _, counters) = launch(set.append, &mut map, &keys[..500], &values[..500], &[]);
    assert_eq!(counters, [500, 0]);
    let want = (0..N).map(|i| if i < 500 { 2 } else { 1 });
    rows(set, &mut map, &keys, &want.collect::<Vec<_>>());

    let (outcomes, _, counters) = launch(set.remove, &mut map, &keys, &[], &[]);
    assert!(outcomes.iter().all(is(Outcome::Removed)));
    assert_eq!(counters, [N as u64, 0]);
    let operations: Vec<_> = (0..N)
        .map(|i| [Operation::Remove, Operation::Append][i % 2] as u8)
        .collect();
    let (_, _, counters) = launch(set.mixed, &mut map, &keys, &values, &operations);
    assert_eq!(counters, [500, 250]);

    let before = map.check();
    assert!(before.tombstones > 0);
    look(set, &mut map, &before);
    let mut freed = [0u64; WORDS];
    let view = map.view();
    let args = CompactArgs {
        view,
        freed: Counters::of(freed.as_mut_ptr()),
    };
    // SAFETY: as above; the grid has eight threads for each of the 14 chains.
    unsafe { set.compact.run(Executor::global(), Grid::new(1, 128), args) }.unwrap();
    let after = map.check();
    look(set, &mut map, &after);
    assert_eq!(after.pairs, before.pairs);
    assert_eq!(after.pairs.len(), 750);
    assert!(freed[0] > 0);
    assert_eq!(freed[0] as usize, before.slabs() - after.slabs());
}

/// Counts the pairs of each key, which are so many, and collects them: as many of the same value.
fn rows<F: Format>(set: &ChainedKernels, map: &mut HostMap<F>, keys: &[F::Key], want: &[u64]) {
    let mut counts = vec![9; keys.len()];
    let batch = Batch {
        keys: keys.as_ptr().cast(),
        values: ptr::null(),
        value: 0,
        len: keys.len() as u64,
        per_warp: 64,
    };
    let view = map.view();
    let count = CountArgs {
        view,
        batch,
        counts: counts.as_mut_ptr(),
    };
    let grid = Grid::covering(keys.len().div_ceil(2) as u64, 128);
    // SAFETY: everything outlives the launch; blocks are whole warps, enough for the batch.
    unsafe { set.count.run(Executor::global(), grid, count) }.unwrap();
    assert_eq!(counts, want);

    let mut offsets = vec![0];
    offsets.extend(counts.iter().scan(0, |end, count| {
        *end += count;
        Some(*end)
    }));
    let places = offsets[keys.len()] as usize;
    let mut values = vec![F::Value::default(); places];
    let mut short = [0; WORDS];
    let get_all = GetAllArgs {
        view,
        batch,
        offsets: offsets.as_ptr(),
        values: values.as_mut_ptr().cast(),
        short: Counters::of(short.as_mut_ptr()),
    };
    // SAFETY: as above, and there are as many places.
    unsafe { set.get_all.run(Executor::global(), grid, get_all) }.unwrap();
    assert_eq!(short[0], 0);
    for (i, ends) in offsets.windows(2).enumerate() {
        let mut row = values[ends[0] as usize..ends[1] as usize].iter();
        assert!(row.all(|value| value.to_u64() == i as u64));
    }
}

/// Dumps the map.
fn dump<F: Format>(set: &ChainedKernels, map: &mut HostMap<F>, contents: &Contents) {
    let (view, units) = (map.view(), map.units());
    let n = contents.pairs.len();
    // Room for all, and for all but three.
    for room in [n, n.saturating_sub(3)] {
        let (mut keys, mut values) = (
            vec![F::Key::default(); room],
            vec![F::Value::default(); room],
        );
        let mut pairs = [0; WORDS];
        let args = DumpChainsArgs {
            view,
            units: units.as_ptr(),
            first: 0,
            keys: keys.as_mut_ptr().cast(),
            values: values.as_mut_ptr().cast(),
            room: room as u64,
            pairs: Counters::of(pairs.as_mut_ptr()),
        };
        let grid = Grid {
            shared_bytes: SHARED_BYTES,
            ..Grid::new(blocks(&view) as u32, THREADS)
        };
        // SAFETY: everything outlives the launch.
        unsafe { set.retrieve_all.run(Executor::global(), grid, args) }.unwrap();
        assert_eq!(pairs[0] as usize, n);
        let found = keys.iter().zip(&values);
        let mut found: Vec<_> = found.map(|(k, v)| (k.to_u64(), v.to_u64())).collect();
        let mut there = contents.pairs.clone();
        found.sort_unstable();
        there.sort_unstable();
        if room == n {
            assert_eq!(found, there);
        } else {
            assert!(found.iter().all(|pair| there.binary_search(pair).is_ok()));
        }
    }
}

/// Dumps the map, and computes its figures.
fn look<F: Format>(set: &ChainedKernels, map: &mut HostMap<F>, contents: &Contents) {
    dump(set, map, contents);
    let view = map.view();
    let n = contents.pairs.len();
    let mut figures = [0; figure::COUNT];
    let args = ChainStatsArgs {
        view,
        figures: figures.as_mut_ptr(),
    };
    // SAFETY: as above, with eight threads for each of the 14 chains.
    unsafe { set.stats.run(Executor::global(), Grid::new(2, 64), args) }.unwrap();
    assert_eq!(figures[figure::PAIRS] as usize, n);
    assert_eq!(figures[figure::LINKED] as usize, contents.slabs());
    let longest = contents.chains.iter().max().unwrap() + 1;
    assert_eq!(figures[figure::LONGEST] as usize, longest);
    assert_eq!(figures[figure::TOMBSTONES] as usize, contents.tombstones);
}

/// Keys that mean a state, those whose words are their aliases, and others: each so many times that chains have many
/// slabs, of several super-blocks, the last of which has memory for few of its units.
fn many_of_few_keys<F: Format>(set: &ChainedKernels) {
    for (buckets, units, blocks_log2) in [
        (1, &[2048, 2048, 700][..], 1),
        (300, &[1024, 33], 0),
        (257, &[1000], 0),
    ] {
        let mut map = HostMap::<F>::new(buckets, units, blocks_log2, 7);
        let empty = map.check();
        dump(set, &mut map, &empty);
        let few = [0, 1, 2, 3, !0, !1, !2, !3, 77, 78];
        let copies = 3 * F::SLOTS as usize * 32;
        let keys: Vec<_> = (0..few.len() * copies)
            .map(|i| F::Key::from_u64(few[i % few.len()]))
            .collect();
        let values: Vec<_> = (0..keys.len() as u64).map(F::Value::from_u64).collect();
        let (_, _, counters) = launch(set.append, &mut map, &keys, &values, &[]);
        assert_eq!(counters, [keys.len() as u64, 0]);
        let contents = map.check();
        assert_eq!(contents.pairs.len(), keys.len());
        dump(set, &mut map, &contents);
        launch(set.remove, &mut map, &keys[..copies], &[], &[]);
        let contents = map.check();
        dump(set, &mut map, &contents);
    }
}

#[test]
fn slabs_are_dumped_where_they_lie() {
    many_of_few_keys::<Packed>(&PACKED_4_4);
    many_of_few_keys::<Wide<u64, u64>>(&WIDE_8_8);
    many_of_few_keys::<Split<u64, u64>>(&SPLIT_8_8);
}

#[test]
fn the_kernels_of_each_format() {
    scenario::<Packed>(&PACKED_4_4);
    scenario::<Wide<u64, u64>>(&WIDE_8_8);
    scenario::<Split<u64, u64>>(&SPLIT_8_8);
}
