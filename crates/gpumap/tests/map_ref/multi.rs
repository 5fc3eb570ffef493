//! Multimaps in kernels of another crate.

use std::collections::{HashMap, HashSet};

use gpumap::executor::Executor;
use gpumap::map_ref::{Counts, Entry, Insertion, STRIPES, SlotKind};
use gpumap::multi::chained_ref::ChainedRef;
use gpumap::simt::kernel::Grid;
use gpumap::simt::{kernel, kernel_args};
use gpumap::{Buffer, Error, MultiMap, Stream, Tally};
use gpumap_kernels::chained::allocator::Pool;
use gpumap_kernels::chained::view::ChainedView;
use gpumap_map_test_kernels::chained::{ChainedScriptArgs, MOST, SpreadArgs, op, outcome, spread};

use crate::support::{Draw, SamePair, Target, key_bits, mask, on_every_target, on_interleavings};

/// An operation, its key and its value.
type Step<P> = (u8, P, P);

/// Runs a script on a map that is lent for it; returns what was done, and the answers.
fn run<P: SamePair>(
    map: &MultiMap<P, P>,
    stream: &Stream,
    steps: &[Step<P>],
) -> (Tally, Vec<(u8, P)>) {
    let column = |of: fn(&Step<P>) -> P| steps.iter().map(of).collect::<Vec<_>>();
    let ops: Vec<u8> = steps.iter().map(|step| step.0).collect();
    let ops = Buffer::from_slice(stream, &ops).unwrap();
    let keys = Buffer::from_slice(stream, &column(|step| step.1)).unwrap();
    let values = Buffer::from_slice(stream, &column(|step| step.2)).unwrap();
    let mut outcomes = Buffer::<u8>::zeroed(stream, steps.len()).unwrap();
    let mut held = Buffer::<P>::zeroed(stream, steps.len()).unwrap();
    let tally = map.launch_with(stream, steps.len(), |map| {
        let args = ChainedScriptArgs {
            map,
            ops: ops.as_ptr(),
            keys: keys.as_ptr(),
            values: values.as_ptr(),
            len: steps.len() as u64,
            outcomes: outcomes.as_mut_ptr(),
            held: held.as_mut_ptr(),
        };
        let grid = Grid::covering(steps.len() as u64, 128);
        // SAFETY: a place per operation; the buffers are read in the order of their stream, the one
        // that the map is lent for.
        unsafe { P::SCRIPT.launch(stream, grid, args) }
    });
    let answers = outcomes.to_vec().unwrap().into_iter();
    let answers = answers.zip(held.to_vec().unwrap()).collect();
    (tally.unwrap(), answers)
}

/// All pairs, by key; values in no order.
fn contents<P: SamePair>(map: &MultiMap<P, P>) -> HashMap<u64, Vec<u64>> {
    let (keys, values) = map.retrieve_all().unwrap();
    assert_eq!(keys.len(), map.len(), "len() against retrieve_all()");
    let mut by_key: HashMap<u64, Vec<u64>> = HashMap::new();
    for (key, value) in keys.iter().zip(values) {
        by_key.entry(key.to_u64()).or_default().push(value.to_u64());
    }
    by_key
}

/// Scripts in which the keys of a launch are distinct, so that answers follow from the map before.
fn every_verb<P: SamePair>(on: &Target) {
    let stream = on.stream();
    let map = on.multi::<P>().buckets(on.n(3, 1_000)).build().unwrap();
    let keys = on.n(150, 20_000) as u64;
    let mut draw = Draw(9);
    let mut model: HashMap<u64, Vec<u64>> = HashMap::new();
    for round in 0..12 {
        let steps: Vec<Step<P>> = (0..keys)
            .filter_map(|i| {
                let kind = op::ALL[draw.below(op::ALL.len() as u64) as usize];
                let value = draw.below(u64::MAX) & mask::<P>();
                let brings = draw.below(4) != 0;
                let key = P::from_u64(key_bits::<P>(i));
                brings.then_some((kind, key, P::from_u64(value)))
            })
            .collect();
        let (tally, answers) = run(&map, &stream, &steps);
        let (mut inserted, mut removed) = (0, 0);
        for ((kind, key, value), (outcome, held)) in steps.into_iter().zip(answers) {
            let values = model.entry(key.to_u64()).or_default();
            let first = values.first().copied();
            let held = (outcome == outcome::SOME).then_some(held.to_u64());
            let is_in = match kind {
                op::INSERT => first.is_none(),
                op::APPEND => true,
                _ => false,
            };
            assert_eq!(outcome == outcome::INSERTED, is_in, "round {round}");
            match kind {
                op::GET | op::INSERT | op::REMOVE => assert_eq!(held, first, "round {round}"),
                op::APPEND => assert_eq!(held, None),
                _ => assert_eq!(held, Some(values.len() as u64), "round {round}"),
            }
            if is_in {
                values.push(value.to_u64());
                inserted += 1;
            }
            if kind == op::REMOVE && first.is_some() {
                values.remove(0);
                removed += 1;
            }
        }
        let expected = Tally {
            inserted,
            removed,
            ..Tally::default()
        };
        assert_eq!(tally, expected, "round {round}");
        model.retain(|_, values| !values.is_empty());
        assert_eq!(
            map.len(),
            model.values().map(Vec::len).sum::<usize>(),
            "round {round}"
        );
        if round % 4 == 3 {
            map.compact().unwrap();
        }
    }
    let mut found = contents(&map);
    found.values_mut().for_each(|values| values.sort_unstable());
    model.values_mut().for_each(|values| values.sort_unstable());
    assert_eq!(found, model);
}

#[test]
fn every_verb_by_whole_warps() {
    on_every_target(|on| {
        every_verb::<u32>(on);
        every_verb::<u64>(on);
    });
}

#[test]
fn every_verb_under_random_interleavings() {
    on_interleavings(4, |on| {
        every_verb::<u32>(on);
        every_verb::<u64>(on);
    });
}

/// Stores an unknown number of pairs from a kernel, makes room, and goes on until all are in. Returns how
/// many launches that took.
fn spread_all<P: SamePair>(on: &Target, map: &MultiMap<P, P>, n: u64) -> usize {
    let stream = on.stream();
    let keys: Vec<P> = (0..n).map(P::from_u64).collect();
    let keys = Buffer::from_slice(&stream, &keys).unwrap();
    let mut done = Buffer::<u32>::zeroed(&stream, keys.len()).unwrap();
    let mut launches = 0;
    let mut all = 0;
    loop {
        let tally = map.launch_unbounded(&stream, |map| {
            let args = SpreadArgs {
                map,
                keys: keys.as_ptr(),
                len: n,
                done: done.as_mut_ptr(),
            };
            // SAFETY: a place per key; the buffers are used in the order of their stream, the one that
            // the map is lent for.
            unsafe { P::SPREAD.launch(&stream, Grid::covering(n, 128), args) }
        });
        let tally = tally.unwrap();
        launches += 1;
        all += tally.inserted;
        // Exact after every launch.
        assert_eq!(map.len(), all);
        if tally.full == 0 {
            break;
        }
        // A lane reserves room for its next pair in each turn, so some have failed several times.
        map.reserve(tally.full.div_ceil(MOST as usize)).unwrap();
    }
    let done = done.to_vec().unwrap();
    assert!(done.iter().zip(0..).all(|(&done, k)| done == spread(k)));
    launches
}

#[test]
fn pairs_of_unknown_number_are_all_in_once_the_host_has_made_room() {
    fn body<P: SamePair>(on: &Target) {
        let n = on.n(300, 200_000) as u64;
        let builder = on.multi::<P>().buckets(on.n(8, 10_000));
        let map = builder.build().unwrap();
        let launches = spread_all(on, &map, n);
        assert!(launches > 1, "the pool was never full");

        let expected = (0..n)
            .flat_map(|k| (0..u64::from(spread(k))).map(move |j| (k * u64::from(MOST) + j, k)));
        let expected: HashSet<(u64, u64)> = expected.collect();
        let (keys, values) = map.retrieve_all().unwrap();
        // As many as are expected, and the same: each exactly once.
        assert_eq!(keys.len(), expected.len());
        let found = keys.iter().zip(&values);
        let found: HashSet<_> = found.map(|(k, v)| (k.to_u64(), v.to_u64())).collect();
        assert!(found == expected);
    }
    on_every_target(|on| {
        body::<u32>(on);
        body::<u64>(on);
    });
}

#[test]
fn a_fixed_pool_is_full_for_good_and_holds_what_it_took() {
    fn body<P: SamePair>(on: &Target) {
        let builder = on.multi::<P>().buckets(2).pool_slabs(10);
        let map = builder.build().unwrap();
        let stream = on.stream();
        let mut steps = Vec::new();
        for i in 0..1_000 {
            steps.push((op::INSERT, P::from_u64(i), P::from_u64(i)));
        }
        let promised = map.launch_with(&stream, steps.len(), |_| unreachable!());
        assert!(matches!(promised, Err(Error::Full { .. })));

        // More than was reserved, so without its guarantee.
        let n = map.capacity();
        // A warp at a time: beside others one may find no room for a moment.
        for steps in steps[..n].chunks(32) {
            let (tally, answers) = run(&map, &stream, steps);
            assert_eq!((tally.inserted, tally.full), (steps.len(), 0));
            assert!(answers.iter().all(|a| a.0 == outcome::INSERTED));
        }
        assert!(matches!(map.reserve(1), Err(Error::Full { .. })));

        // The base slabs have room beyond the pool's; what is in stays in to the last slot.
        spread_until_full(on, &map);
        let stats = map.stats().unwrap();
        assert_eq!(stats.linked_slabs, 10);
        assert!(map.get(&[P::from_u64(7)]).unwrap() == [Some(P::from_u64(7))]);
    }
    /// Launches a kernel that stores more than fits.
    fn spread_until_full<P: SamePair>(on: &Target, map: &MultiMap<P, P>) {
        let stream = on.stream();
        let keys: Vec<P> = (1_000..2_000).map(P::from_u64).collect();
        let keys = Buffer::from_slice(&stream, &keys).unwrap();
        let mut done = Buffer::<u32>::zeroed(&stream, keys.len()).unwrap();
        let tally = map.launch_unbounded(&stream, |map| {
            let args = SpreadArgs {
                map,
                keys: keys.as_ptr(),
                len: keys.len() as u64,
                done: done.as_mut_ptr(),
            };
            // SAFETY: as above.
            unsafe { P::SPREAD.launch(&stream, Grid::covering(1_000, 128), args) }
        });
        assert!(tally.unwrap().full > 0);
    }
    on_every_target(|on| {
        body::<u32>(on);
        body::<u64>(on);
    });
}

kernel_args! {
    /// Arguments of [`REFUSED`].
    struct RefusedArgs {
        map: ChainedRef<u64, u64>,
    }
}
kernel! {
    /// Calls every verb and gets nothing.
    static REFUSED = fn chained_refused(args: RefusedArgs) {
        let mut map = args.map.by_warp();
        // SAFETY: the counters are there; a verb that refuses the map touches nothing else.
        unsafe {
            assert!(map.get(Some(1)).is_none() && map.remove(Some(1)).is_none());
            assert_eq!(map.count(Some(1)), 0);
            assert_eq!(map.insert(Some((1, 2))), Some(Entry::Full));
            assert_eq!(map.append(Some((1, 2))), Some(Insertion::Full));
            assert_eq!(map.append(None), None);
        }
    }
}

#[test]
fn a_map_of_other_slots_is_not_touched() {
    let mut counts = vec![Counts::default(); STRIPES as usize];
    let nowhere = ChainedView {
        bases: std::ptr::null_mut(),
        pool: Pool {
            super_blocks: std::ptr::null(),
            count: 0,
            blocks_log2: 0,
        },
        seed: 0,
        buckets: 1,
    };
    let map = ChainedRef::new(nowhere, SlotKind::Packed, counts.as_mut_ptr());
    // SAFETY: the counters live until the launch has ended.
    unsafe { REFUSED.run(Executor::global(), Grid::new(3, 32), RefusedArgs { map }) }.unwrap();
    assert!(counts.iter().any(|stripe| stripe.refused != 0));
    assert!(counts.iter().all(|s| s.inserted + s.full + s.removed == 0));
}
