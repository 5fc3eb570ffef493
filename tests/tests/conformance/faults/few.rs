//! A call with few keys of the host: what it asks of its device, and its answers on both sides of the size from which arrays
//! are copied.

use gpumap::{Faults, Map, Outcome};
use gpumap_tests::{Target, on_every_target};

type Words = Map<u64, u64>;

/// Keys of a call, a name for the message and the call.
type Call = (&'static str, fn(&Words, &[u64]));

const CALLS: &[Call] = &[
    ("insert", |map, keys| {
        map.insert(keys, keys).unwrap();
    }),
    ("upsert", |map, keys| {
        map.upsert(keys, keys).unwrap();
    }),
    ("get", |map, keys| {
        let all: Vec<_> = keys.iter().copied().map(Some).collect();
        assert_eq!(map.get(keys).unwrap(), all);
    }),
    ("get_into", |map, keys| {
        let (mut values, mut found) = (vec![7; keys.len()], vec![7; keys.len()]);
        map.get_into(keys, &mut values, &mut found).unwrap();
        assert!(values == keys && found.iter().all(|&byte| byte == 1));
    }),
    ("contains", |map, keys| {
        assert_eq!(map.contains(keys).unwrap(), vec![true; keys.len()]);
    }),
    ("insert_with_outcome", |map, keys| {
        let outcomes = map.insert_with_outcome(keys, keys).unwrap();
        assert_eq!(outcomes, vec![Outcome::Present; keys.len()]);
    }),
    ("remove", |map, keys| {
        map.remove(keys).unwrap();
    }),
    ("get of absent keys", |map, keys| {
        assert_eq!(map.get(keys).unwrap(), vec![None; keys.len()]);
    }),
    ("insert_with_outcome of absent keys", |map, keys| {
        let outcomes = map.insert_with_outcome(keys, keys).unwrap();
        assert_eq!(outcomes, vec![Outcome::Inserted; keys.len()]);
    }),
];

#[test]
fn a_call_with_few_keys_is_a_launch_and_a_wait() {
    on_every_target(|on: &Target| {
        let faults = Faults::default();
        let device = on.device().with_faults(&faults);
        // At most 16 KiB is few; one key more is not, and has the same answers.
        for (len, is_few) in [(1, true), (300, true), (2_048, true), (2_049, false)] {
            let map = Words::with_capacity(&device, 10_000).unwrap();
            let keys: Vec<u64> = (1..=len).collect();
            // The first round makes the memory that the second uses.
            for round in 0..2 {
                for &(name, call) in CALLS {
                    faults.heal();
                    call(&map, &keys);
                    let asked = faults.calls();
                    // On the CPU kernels use the caller's arrays, and waits that have nothing to wait for count.
                    assert!(
                        round == 0 || !is_few || !device.is_cuda() || asked == 2,
                        "{name} of {len} keys: {asked} calls"
                    );
                }
            }
        }
    });
}
