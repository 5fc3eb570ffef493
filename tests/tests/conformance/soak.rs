//! Twelve seconds of the [soak](gpumap_tests::soak); and that it finds planted errors.

use std::time::Duration;

use gpumap::primitives::Element;
use gpumap::{Key, Map, Numeric};
use gpumap_tests::faults::Watchdog;
use gpumap_tests::soak::{Options, Report, run};
use gpumap_tests::{Target, key, on_pairs, value};

fn options(on: &Target, time: Duration) -> Options {
    let keys = on.n(1 << 10, 1 << 18) as u64;
    Options {
        time,
        streams: 8,
        seed: 5,
        keys,
        batch: keys as usize / 4,
    }
}

/// Adds a pair that no thread has stored. Where there is no other pair to spoil, this is what is wrong.
fn add_foreign<K: Key, V: Numeric>(map: &Map<K, V>) {
    map.insert(&[key(1 << 30)], &[value(1)]).unwrap();
}

#[test]
fn all_verbs_from_many_streams() {
    fn body<K: Key + Element, V: Numeric + Element>(on: &Target) {
        let _watchdog = Watchdog::new("soak");
        let (mut enough, mut runs) = (false, 0);
        // Three kinds of slots: twelve seconds in all. On a machine that is busy with something else, for as long as it
        // takes to see some growth.
        while !enough {
            let report = run::<K, V>(on, &options(on, Duration::from_secs(4)), |_| ());
            println!("{report}");
            let Report {
                operations,
                growths,
                difference,
                ..
            } = report;
            assert_eq!(difference, None);
            enough = operations > 100 && growths > 2;
            runs += 1;
            assert!(
                enough || runs < 20,
                "{operations} operations and {growths} growths in the last of {runs} runs"
            );
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn it_notices_what_is_wrong_at_the_end() {
    fn body<K: Key + Element, V: Numeric + Element>(on: &Target) {
        let options = options(on, Duration::from_millis(300));
        let lost = run(on, &options, |map: &Map<K, V>| {
            let (keys, _) = map.retrieve_all().unwrap();
            if map.remove(&keys[..keys.len().min(1)]).unwrap() == 0 {
                add_foreign(map);
            }
        });
        let changed = run(on, &options, |map: &Map<K, V>| {
            let (keys, values) = map.retrieve_all().unwrap();
            match values.first() {
                Some(&first) => {
                    let other: V = value(gpumap_tests::value_bits(first) + 1);
                    map.upsert(&keys[..1], &[other]).unwrap();
                }
                None => add_foreign(map),
            }
        });
        let foreign = run(on, &options, |map: &Map<K, V>| {
            add_foreign(map);
        });
        for report in [lost, changed, foreign] {
            assert!(report.difference.is_some(), "{report}");
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}
