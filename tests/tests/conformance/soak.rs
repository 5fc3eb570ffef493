//! Twenty seconds of the [soak](gpumap_tests::soak); and that it would notice.

use std::time::Duration;

use gpumap::primitives::Element;
use gpumap::{Key, Map, Value};
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

#[test]
fn all_verbs_from_many_streams() {
    fn body<K: Key + Element, V: Value + Element>(on: &Target) {
        let _watchdog = Watchdog::new("soak");
        // Three kinds of slots: twenty seconds in all.
        let report = run::<K, V>(on, &options(on, Duration::from_secs(7)), |_| ());
        println!("{report}");
        let Report {
            operations,
            growths,
            difference,
            ..
        } = report;
        assert_eq!(difference, None);
        assert!(operations > 100 && growths > 2, "{operations}, {growths}");
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}

#[test]
fn it_notices_what_is_wrong_at_the_end() {
    fn body<K: Key + Element, V: Value + Element>(on: &Target) {
        let options = options(on, Duration::from_millis(300));
        let lost = run(on, &options, |map: &Map<K, V>| {
            let (keys, _) = map.retrieve_all().unwrap();
            map.remove(&keys[..1]).unwrap();
        });
        let changed = run(on, &options, |map: &Map<K, V>| {
            let (keys, values) = map.retrieve_all().unwrap();
            let other: V = value(gpumap_tests::value_bits(values[0]) + 1);
            map.upsert(&keys[..1], &[other]).unwrap();
        });
        let foreign = run(on, &options, |map: &Map<K, V>| {
            map.insert(&[key(1 << 30)], &[value(1)]).unwrap();
        });
        for report in [lost, changed, foreign] {
            assert!(report.difference.is_some(), "{report}");
        }
    }
    on_pairs!(body: u32 => u32, u64 => u64);
}
