//! Every verb against an oracle: launches whose keys all differ, so that each answer is certain, and
//! launches in which many lanes have one key.

use std::collections::HashMap;

use gpumap::{Map, Merge};
use gpumap_kernels::slot::Bits;
use gpumap_map_test_kernels::script::{op, outcome};

use crate::support::{
    Answer, Draw, Form, Op, Pair, Target, contents, for_every_pair, key_bits, mask,
    on_every_target, on_interleavings, run,
};

/// What an operation does to an oracle, and what it answers.
fn apply<P: Pair>(oracle: &mut HashMap<u64, u64>, op: Op) -> Answer {
    let present = oracle.get(&op.key).copied();
    match (op.op, present) {
        (op::GET, Some(value)) => (outcome::PRESENT, value),
        (op::GET | op::CONTAINS | op::REMOVE, None) => (outcome::ABSENT, 0),
        (op::CONTAINS, Some(_)) => (outcome::PRESENT, 0),
        (op::REMOVE, Some(_)) => {
            oracle.remove(&op.key);
            (outcome::PRESENT, 0)
        }
        (_, None) => {
            oracle.insert(op.key, op.value);
            (outcome::INSERTED, 0)
        }
        (op::GET_OR_INSERT, Some(value)) => (outcome::PRESENT, value),
        (op::INSERT, Some(_)) => (outcome::PRESENT, 0),
        (op::UPSERT, Some(_)) => {
            oracle.insert(op.key, op.value);
            (outcome::PRESENT, 0)
        }
        (op::ADD, Some(value)) => {
            oracle.insert(op.key, value.wrapping_add(op.value) & mask::<P::V>());
            (outcome::PRESENT, 0)
        }
        other => unreachable!("{other:?}"),
    }
}

/// One operation of any kind for some of the keys below `universe`, in any order.
fn script<P: Pair>(draw: &mut Draw, universe: u64, every: u64) -> Vec<Op> {
    let mut ops = Vec::new();
    for i in 0..universe {
        if draw.below(every) == 0 {
            ops.push(Op {
                op: op::ALL[draw.below(op::ALL.len() as u64) as usize],
                key: key_bits::<P::K>(i),
                value: draw.below(!0) & mask::<P::V>(),
            });
        }
    }
    for i in (1..ops.len()).rev() {
        ops.swap(i, draw.below(i as u64 + 1) as usize);
    }
    ops
}

/// A batch verb between two launches, with the same oracle.
fn batch<P: Pair>(map: &Map<P::K, P::V>, oracle: &mut HashMap<u64, u64>, ops: &[Op]) {
    let keys: Vec<P::K> = ops.iter().map(|op| P::K::from_u64(op.key)).collect();
    let values: Vec<P::V> = ops.iter().map(|op| P::V::from_u64(op.value)).collect();
    let Some(first) = ops.first() else { return };
    let before = oracle.len();
    for &op in ops {
        apply::<P>(oracle, Op { op: first.op, ..op });
    }
    match first.op {
        op::INSERT | op::GET_OR_INSERT => drop(map.insert(&keys, &values).unwrap()),
        op::UPSERT => drop(map.upsert(&keys, &values).unwrap()),
        op::ADD => drop(map.merge(&keys, &values, Merge::Add).unwrap()),
        op::REMOVE => assert_eq!(map.remove(&keys).unwrap(), before - oracle.len()),
        _ => {
            let found: Vec<Option<u64>> =
                ops.iter().map(|op| oracle.get(&op.key).copied()).collect();
            let got = map.get(&keys).unwrap();
            assert!(got.into_iter().map(|v| v.map(Bits::to_u64)).eq(found));
        }
    }
}

fn against_the_oracle<P: Pair>(on: &Target, universe: u64, launches: u64) {
    let stream = on.stream();
    for form in Form::BOTH {
        let mut draw = Draw(universe);
        let map = on.builder::<P::K, P::V>().hash_seed(3).build().unwrap();
        let mut oracle = HashMap::new();
        for _ in 0..launches {
            let every = 1 + draw.below(3);
            let ops = script::<P>(&mut draw, universe, every);
            let (tally, answers) = run::<P>(&map, &stream, form, &ops);
            assert_eq!(answers.len(), ops.len());
            let expected: Vec<Answer> = ops.iter().map(|&op| apply::<P>(&mut oracle, op)).collect();
            for ((op, found), expected) in ops.iter().zip(&answers).zip(&expected) {
                assert_eq!(found, expected, "{form:?}, {op:x?}");
            }
            let count = |is: &dyn Fn(&Op, &Answer) -> bool| {
                ops.iter().zip(&answers).filter(|(op, a)| is(op, a)).count()
            };
            assert_eq!(tally.inserted, count(&|_, a| a.0 == outcome::INSERTED));
            let removed = count(&|op, a| op.op == op::REMOVE && a.0 == outcome::PRESENT);
            assert_eq!((tally.removed, tally.full), (removed, 0));
            assert!(contents::<P>(&map) == oracle, "{form:?}");
            let ops = script::<P>(&mut draw, universe, 4);
            batch::<P>(&map, &mut oracle, &ops);
            assert!(contents::<P>(&map) == oracle, "after a batch");
        }
    }
}

#[test]
fn every_verb_against_the_oracle() {
    on_every_target(|on| {
        for_every_pair!(against_the_oracle(on, on.n(150, 20_000) as u64, 12));
    });
}

#[test]
fn any_interleaving_of_lanes() {
    on_interleavings(6, |on| {
        for_every_pair!(against_the_oracle(on, 40, 4));
    });
}

/// Many operations of one kind, each key in several lanes of several warps.
fn duplicates<P: Pair>(on: &Target, keys: u64, times: u64) {
    let stream = on.stream();
    let value = |i: u64| (i.wrapping_mul(0x0101_0101_0101_0101) ^ 0x5a) & mask::<P::V>();
    let all = |kind| -> Vec<Op> {
        let op = |i| Op {
            op: kind,
            key: key_bits::<P::K>(i % keys),
            value: value(i),
        };
        (0..keys * times).map(op).collect()
    };
    for form in Form::BOTH {
        let map = on.builder::<P::K, P::V>().build().unwrap();
        for kind in [op::INSERT, op::UPSERT, op::ADD, op::GET_OR_INSERT] {
            let ops = all(kind);
            let (tally, answers) = run::<P>(&map, &stream, form, &ops);
            assert_eq!(tally.inserted as u64, keys, "{form:?}, {kind}");
            let held = contents::<P>(&map);
            assert_eq!(held.len() as u64, keys);
            let mut winners = HashMap::new();
            let mut sums = HashMap::<u64, u64>::new();
            for (op, answer) in ops.iter().zip(&answers) {
                if answer.0 == outcome::INSERTED {
                    assert_eq!(winners.insert(op.key, op.value), None, "inserted twice");
                }
                let sum = sums.entry(op.key).or_default();
                *sum = sum.wrapping_add(op.value) & mask::<P::V>();
            }
            match kind {
                op::INSERT | op::GET_OR_INSERT => assert!(held == winners),
                op::ADD => assert!(held == sums),
                _ => {
                    for (key, value) in &held {
                        let offered = |op: &Op| op.key == *key && op.value == *value;
                        assert!(ops.iter().any(offered), "a foreign value");
                    }
                }
            }
            if kind == op::GET_OR_INSERT {
                for (op, answer) in ops.iter().zip(&answers) {
                    assert!(answer.0 != outcome::PRESENT || answer.1 == winners[&op.key]);
                }
            }
            let (tally, answers) = run::<P>(&map, &stream, form, &all(op::REMOVE));
            assert_eq!((tally.removed as u64, map.len()), (keys, 0));
            let gone = answers.iter().filter(|a| a.0 == outcome::PRESENT).count();
            assert_eq!(gone as u64, keys, "removed by one lane each");
        }
    }
}

#[test]
fn a_key_in_many_lanes_is_stored_once() {
    on_every_target(|on| {
        for_every_pair!(duplicates(on, 12, on.n(40, 500) as u64));
    });
    on_interleavings(4, |on| {
        for_every_pair!(duplicates(on, 9, 8));
    });
}

/// Small, for runs under a sanitizer.
#[test]
fn sanitizer_verbs_in_kernels() {
    on_every_target(|on| {
        for_every_pair!(against_the_oracle(on, 100, 2));
        for_every_pair!(duplicates(on, 9, 20));
    });
}
