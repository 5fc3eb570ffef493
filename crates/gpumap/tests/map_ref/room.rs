//! Room that is promised, and room that runs out.

use gpumap::{Error, Growth};
use gpumap_kernels::slot::Bits;
use gpumap_map_test_kernels::script::{op, outcome};

use crate::support::{
    Form, Loaded, Op, Pair, Target, contents, for_every_pair, key_bits, mask, on_every_target, run,
};

/// Inserts of the keys of these numbers, reserved ones left out.
fn inserts<K>(numbers: std::ops::Range<u64>) -> Vec<Op> {
    let op = |i| Op {
        op: op::INSERT,
        key: key_bits::<K>(100 + i),
        value: i,
    };
    numbers.map(op).collect()
}

fn full_and_replay<P: Pair>(on: &Target) {
    let stream = on.stream();
    for form in Form::BOTH {
        for growth in [Growth::Fixed, Growth::default()] {
            let builder = on.builder::<P::K, P::V>().growth(growth);
            let map = builder.submap_slots(&[64, 64]).build().unwrap();
            let slots = map.slots();
            let mut ops = inserts::<P::K>(0..4 * slots as u64);
            // Keys whose bits mean a state have cells of their own, with room in a full map. 4-byte
            // keys in 8-byte words never mean a state.
            let has_cells = size_of::<P::K>() == 8 || size_of::<P::V>() == 4;
            if has_cells {
                ops.push(Op {
                    op: op::UPSERT,
                    key: key_bits::<P::K>(4),
                    value: 7,
                });
            }
            let mut script = Loaded::<P>::new(&stream, form, &ops);
            let tally = map
                .launch_unbounded(&stream, |map| script.launch(map))
                .unwrap();
            let answers = script.answers();
            let mut left = Vec::new();
            for (op, answer) in ops.iter().zip(&answers) {
                let there = map.contains(&[P::K::from_u64(op.key)]).unwrap()[0];
                match answer.0 {
                    outcome::INSERTED => assert!(there),
                    outcome::FULL => {
                        assert!(!there);
                        left.push(*op);
                    }
                    other => panic!("{other}"),
                }
            }
            if has_cells {
                assert_eq!(answers.last().unwrap().0, outcome::INSERTED);
            }
            assert_eq!((tally.inserted, tally.full), (map.len(), left.len()));
            // A walk may visit the whole of such a submap: it is full to the last slot.
            assert_eq!(map.len(), slots + usize::from(has_cells));
            // Present keys are found in a full map, and values of theirs updated.
            let again = Op {
                op: op::ADD,
                ..ops[answers
                    .iter()
                    .position(|a| a.0 == outcome::INSERTED)
                    .unwrap()]
            };
            let mut one = Loaded::<P>::new(&stream, form, &[again]);
            // It takes no room.
            let nothing = map.launch_with(&stream, 0, |map| one.launch(map)).unwrap();
            assert_eq!((nothing.inserted, nothing.full), (0, 0));
            assert_eq!(one.answers()[0].0, outcome::PRESENT);

            map.reserve(left.len()).unwrap();
            let mut rest = Loaded::<P>::new(&stream, form, &left);
            let tally = map
                .launch_unbounded(&stream, |map| rest.launch(map))
                .unwrap();
            assert_eq!((tally.inserted, tally.full), (left.len(), 0));
            let held = contents::<P>(&map);
            assert_eq!(held.len(), ops.len());
            for op in &ops {
                let times = if op.key == again.key { 2 } else { 1 };
                assert_eq!(held[&op.key], (times * op.value) & mask::<P::V>());
            }
        }
    }
}

#[test]
fn a_full_map_says_so_and_takes_the_rest_when_it_has_grown() {
    on_every_target(|on| {
        for_every_pair!(full_and_replay(on));
    });
}

fn promises<P: Pair>(on: &Target) {
    let stream = on.stream();
    let map = on.builder::<P::K, P::V>().capacity(100).build().unwrap();
    // Nothing is used of a promise, and nothing of the room is lost.
    let capacity = map.capacity();
    for _ in 0..5 {
        let tally = map.launch_with(&stream, capacity, |_| Ok(())).unwrap();
        assert_eq!(tally, Default::default());
    }
    assert_eq!((map.capacity(), map.len()), (capacity, 0));
    // More than there is room for: the map grows first.
    let ops = inserts::<P::K>(0..10 * capacity as u64);
    let (tally, _) = run::<P>(&map, &stream, Form::Lanes, &ops);
    assert_eq!((tally.inserted, tally.full), (ops.len(), 0));
    assert!(map.capacity() >= ops.len());
    // More than was reserved: counted all the same, and taken from no reservation.
    let more = inserts::<P::K>(ops.len() as u64..ops.len() as u64 + 20);
    let mut script = Loaded::<P>::new(&stream, Form::Tiles, &more);
    let tally = map
        .launch_with(&stream, 1, |map| script.launch(map))
        .unwrap();
    assert_eq!(tally.inserted + tally.full, 20);
    assert_eq!(map.len(), ops.len() + tally.inserted);
    let keys: Vec<P::K> = inserts::<P::K>(0..map.capacity() as u64 * 2)
        .iter()
        .map(|op| P::K::from_u64(op.key))
        .collect();
    let values = vec![P::V::from_u64(1); keys.len()];
    map.insert(&keys, &values).unwrap();
    assert_eq!(contents::<P>(&map).len(), keys.len());
}

#[test]
fn room_is_reserved_ahead_and_given_back() {
    on_every_target(|on| {
        for_every_pair!(promises(on));
    });
}

#[test]
fn a_map_that_does_not_grow_refuses_a_promise() {
    on_every_target(|on| {
        let stream = on.stream();
        let builder = on.builder::<u64, u64>().growth(Growth::Fixed);
        let map = builder.capacity(200).build().unwrap();
        let capacity = map.capacity();
        let refused = map.launch_with(&stream, capacity + 1, |_| panic!("launched"));
        assert!(matches!(
            refused,
            Err(Error::Full { batch, unplaced: 1, .. }) if batch == capacity + 1
        ));
        // Removed pairs are cleared away for it.
        let gone: Vec<u64> = (0..capacity as u64).collect();
        map.insert(&gone, &gone).unwrap();
        map.remove(&gone).unwrap();
        let ops = inserts::<u64>(0..capacity as u64);
        let (tally, _) = run::<(u64, u64)>(&map, &stream, Form::Lanes, &ops);
        assert_eq!((tally.inserted, map.len()), (capacity, capacity));
        assert_eq!(map.capacity(), capacity);
        assert!(matches!(
            map.launch_with(&stream, 1, |_| Ok(())),
            Err(Error::Full { .. })
        ));
    });
}

#[test]
fn launches_among_calls_on_streams() {
    on_every_target(|on| {
        let stream = on.stream();
        let map = on.builder::<u64, u64>().build().unwrap();
        for round in 0..10 {
            let bounded = round % 2 == 0;
            if !bounded {
                map.reserve(100).unwrap();
            }
            let ops = inserts::<u64>(round * 100..round * 100 + 80);
            // Half of the keys, and twenty others, in flight while the map is lent.
            let half = ops[..40].iter().map(|op| op.key);
            let keys: Vec<u64> = half.chain(ops[..20].iter().map(|op| op.key ^ 1)).collect();
            let pending = map.on(&stream).insert(&keys, &keys).unwrap();
            let mut script = Loaded::<(u64, u64)>::new(&stream, Form::Lanes, &ops);
            let tally = if bounded {
                map.launch_with(&stream, 80, |map| script.launch(map))
            } else {
                map.launch_unbounded(&stream, |map| script.launch(map))
            };
            let tally = tally.unwrap();
            assert_eq!(pending.wait().unwrap(), 60, "the batch comes first");
            assert_eq!((tally.inserted, tally.full), (40, 0));
        }
        assert_eq!(contents::<(u64, u64)>(&map).len(), 1_000);
    });
}
